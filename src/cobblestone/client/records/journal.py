"""The event log and the notices: messages of the client, on standard output and for interfaces."""

from __future__ import annotations

import datetime
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape

from cobblestone.client.records.state import MAX_MESSAGES, ClientDatabase
from cobblestone.wire.client.gui_rpc import LoggedMessage, NoticeEntry
from cobblestone.wire.project.pages import RssItem

MAX_NOTICES = 500
_DIGITS = re.compile(r"\d+")
#: Tells managers to forget the notices that they have: some are gone, and the others follow.
FORGET_ALL = NoticeEntry(seqno=-1, title="", description="", create_time=0.0, arrival_time=0.0)


@dataclass(slots=True)
class _Kept:
    entry: NoticeEntry
    bare: str  #: what it says, without digits
    source: str  #: a feed's address, or empty


class Notices:
    """Numbered notices, without repetitions.

    A manager asks for what is behind the number that it has seen last.  When notices go, those that stay get new numbers.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: list[_Kept] = []
        self._number = 0
        self._renumbered = 0  # those who know no higher number have to forget all

    def __iter__(self) -> Iterator[NoticeEntry]:
        return (each.entry for each in self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def since(self, seqno: int) -> list[NoticeEntry]:
        """Return the notices after this number, latest first."""
        if 0 < seqno <= self._renumbered:
            return [FORGET_ALL, *(each.entry for each in reversed(self._kept))]
        return [each.entry for each in reversed(self._kept) if each.entry.seqno > seqno]

    def add(
        self,
        *,
        title: str,
        text: str,
        category: str = "",
        project_name: str = "",
        link: str = "",
        created: float = 0.0,
        source: str = "",
        private: bool = False,
    ) -> None:
        """Add a notice, whose text is HTML, unless there is one that differs only in its digits."""
        bare = _DIGITS.sub("", title + text)
        if any(each.bare == bare and each.entry.project_name == project_name for each in self._kept):
            return
        now = self._clock()
        self._number += 1
        entry = NoticeEntry(
            seqno=self._number,
            title=title,
            description=text,
            create_time=created or now,
            arrival_time=now,
            is_private=private,
            project_name=project_name,
            category=category,
            link=link,
        )
        self._kept.append(_Kept(entry, bare, source))
        del self._kept[:-MAX_NOTICES]

    def of_feed(self, source: str, items: Sequence[RssItem], *, project_name: str, private: bool) -> None:
        """Show these items of a feed, replacing all others of it."""
        wanted = {(item.title, item.description) for item in items}
        self._drop(
            lambda each: each.source == source and (each.entry.title, each.entry.description) not in wanted
        )
        for item in reversed(items):  # the oldest first
            self.add(
                title=item.title,
                text=item.description,
                project_name=project_name,
                link=item.link,
                created=item.published,
                source=source,
                private=private,
            )

    def drop(self, beginning: str) -> None:
        """Forget notices that no longer hold: those whose text begins so."""
        self._drop(lambda each: each.entry.description.startswith(escape(beginning, quote=False)))

    def drop_of_scheduler(self, project_name: str) -> None:
        """Forget the messages of a project's scheduler, which no longer sends them."""
        self._drop(
            lambda each: each.entry.category == "scheduler" and each.entry.project_name == project_name
        )

    def _drop(self, gone: Callable[[_Kept], bool]) -> None:
        kept = [each for each in self._kept if not gone(each)]
        if len(kept) == len(self._kept):
            return
        self._renumbered = self._number
        self._kept = kept
        for each in kept:
            self._number += 1
            each.entry = replace(each.entry, seqno=self._number)


INFORMATION = 1
FOR_USER = 2
MAX_KEPT = 100_000


class Journal:
    """Numbered messages; the last 2000 survive a restart."""

    def __init__(self, state: ClientDatabase, clock: Callable[[], float], *, echo: bool = True) -> None:
        self._state = state
        self._clock = clock
        self._echo = echo
        self.listeners: list[Callable[[LoggedMessage], None]] = []
        self._messages: deque[LoggedMessage] = deque(state.messages(), maxlen=MAX_MESSAGES)
        self.flags: frozenset[str] | None = None  #: kinds of lines that are written; None: all
        self.notices = Notices(clock)

    @property
    def last(self) -> int:
        """Return the highest number."""
        return self._messages[-1].seqno if self._messages else 0

    def since(self, seqno: int) -> list[LoggedMessage]:
        """Return messages with higher numbers, oldest first."""
        return [message for message in self._messages if message.seqno > seqno]

    def keep(self, lines: int) -> None:
        """Keep this many of the last lines, within bounds."""
        wanted = max(100, lines) if 0 < lines < MAX_KEPT else MAX_KEPT
        if wanted != self._messages.maxlen:
            self._messages = deque(self._messages, maxlen=wanted)

    def say(self, text: str, project: str = "", priority: int = INFORMATION, *, flag: str = "") -> None:
        """Write a line, unless the volunteer does not want its kind; one for the user also becomes a notice."""
        if flag and self.flags is not None and flag not in self.flags:
            return
        now = self._clock()
        name = self.project_name(project)
        message = LoggedMessage(
            seqno=self.last + 1, time=now, project=name, priority=priority, body=text[:10_000]
        )
        self._messages.append(message)
        self._state.add_message(message, keep=self._messages.maxlen or MAX_MESSAGES)
        if self._echo:
            stamp = datetime.datetime.fromtimestamp(now).astimezone().strftime("%Y-%m-%d %H:%M:%S")
            sys.stdout.write(f"{stamp} [{name or '---'}] {message.body}\n")
            sys.stdout.flush()
        for listener in self.listeners:
            listener(message)
        if priority == FOR_USER:
            self.notices.add(title="", text=escape(text, quote=False), category="client", project_name=name)

    def alert(self, text: str, project: str = "") -> None:
        """Write a message that the user must see."""
        self.say(text, project, FOR_USER)

    def project_name(self, project: str) -> str:
        """Return the display name of a project."""
        content = self._state.contents.get(project)
        return (content.project.project_name or project) if content else project
