"""The event log and the notices: what the client says, to the log on standard output and to those who ask for it."""

from __future__ import annotations

import datetime
import sys
from collections import deque
from collections.abc import Callable

from cobblestone.client.state import MAX_MESSAGES, State
from cobblestone.wire.gui_rpc_answers import LoggedMessage, NoticeEntry

INFORMATION = 1
FOR_USER = 2
INTERNAL = 3
MAX_NOTICES = 500
MAX_KEPT = 100_000


class Journal:
    """Numbered messages; the last 2000 survive a restart."""

    def __init__(self, state: State, clock: Callable[[], float], *, echo: bool = True) -> None:
        self._state = state
        self._clock = clock
        self._echo = echo
        self.listeners: list[Callable[[LoggedMessage], None]] = []
        self._messages: deque[LoggedMessage] = deque(maxlen=MAX_MESSAGES)
        for seqno, time, project, priority, body in state.messages():
            self._messages.append(
                LoggedMessage(seqno=seqno, time=time, project=project, priority=priority, body=body)
            )
        self.flags: frozenset[str] | None = None  #: kinds of lines that are written; None: all
        self.notices: deque[NoticeEntry] = deque(maxlen=MAX_NOTICES)
        self._notice_number = 0

    @property
    def last(self) -> int:
        """The highest number."""
        return self._messages[-1].seqno if self._messages else 0

    def since(self, seqno: int) -> list[LoggedMessage]:
        """Messages with higher numbers, oldest first."""
        return [message for message in self._messages if message.seqno > seqno]

    def keep(self, lines: int) -> None:
        """Keep so many of the last lines, within bounds."""
        wanted = max(100, lines) if 0 < lines < MAX_KEPT else MAX_KEPT
        if wanted != self._messages.maxlen:
            self._messages = deque(self._messages, maxlen=wanted)

    def say(self, text: str, project: str = "", priority: int = INFORMATION, *, flag: str = "") -> None:
        """Write a line, unless the volunteer does not want its kind; what is for the user becomes a notice, too."""
        if flag and self.flags is not None and flag not in self.flags:
            return
        now = self._clock()
        name = self._project_name(project)
        message = LoggedMessage(
            seqno=self.last + 1, time=now, project=name, priority=priority, body=text[:10_000]
        )
        self._messages.append(message)
        self._state.add_message(
            message.seqno, now, name, priority, message.body, keep=self._messages.maxlen or MAX_MESSAGES
        )
        if self._echo:
            stamp = datetime.datetime.fromtimestamp(now).astimezone().strftime("%Y-%m-%d %H:%M:%S")
            sys.stdout.write(f"{stamp} [{name or '---'}] {message.body}\n")
            sys.stdout.flush()
        for listener in self.listeners:
            listener(message)
        if priority == FOR_USER:
            self.notify(title="Notice from the client", text=text, category="client", project=project)

    def alert(self, text: str, project: str = "") -> None:
        """Say something that the user must know."""
        self.say(text, project, FOR_USER)

    def notify(
        self, *, title: str, text: str, category: str, project: str = "", link: str = "", created: float = 0.0
    ) -> None:
        """Add a notice, unless the same is there already but for its digits."""
        name = self._project_name(project)
        bare = _without_digits(title + text)
        if any(
            _without_digits(n.title + n.description) == bare and n.project_name == name for n in self.notices
        ):
            return
        now = self._clock()
        self._notice_number += 1
        self.notices.append(
            NoticeEntry(
                seqno=self._notice_number,
                title=title,
                description=text,
                create_time=created or now,
                arrival_time=now,
                project_name=name,
                category=category,
                link=link,
            )
        )

    def _project_name(self, project: str) -> str:
        content = self._state.contents.get(project)
        return (content.project.project_name or project) if content else project


def _without_digits(text: str) -> str:
    return "".join(c for c in text if not c.isdigit())
