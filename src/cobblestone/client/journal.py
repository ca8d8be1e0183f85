"""The event log and the notices: what the client says, to the log on standard output and to those who ask for it."""

from __future__ import annotations

import datetime
import sys
from collections import deque
from collections.abc import Callable

from cobblestone.client.notices import Notices
from cobblestone.client.state import MAX_MESSAGES, State
from cobblestone.wire.gui_rpc_answers import LoggedMessage

INFORMATION = 1
FOR_USER = 2
INTERNAL = 3
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
        self.notices = Notices(clock)

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
        name = self.project_name(project)
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
            self.notices.add(title="Notice from the client", text=text, category="client", project_name=name)

    def alert(self, text: str, project: str = "") -> None:
        """Say something that the user must know."""
        self.say(text, project, FOR_USER)

    def project_name(self, project: str) -> str:
        """Return how a project is called."""
        content = self._state.contents.get(project)
        return (content.project.project_name or project) if content else project
