"""Messages recorded from BOINC client 7.20.5; see tests/golden/PROVENANCE.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

CAPTURES = Path(__file__).parents[1] / "golden" / "captures"
_SEPARATOR = re.compile(rb"^<!-- ===== (.*?) ===== -->\n", re.MULTILINE)


@dataclass(frozen=True)
class Recorded:
    """One HTTP message."""

    capture: str  #: e.g. ``04-sched-init-with-work``
    number: int  #: place in the capture
    title: str
    start_line: str
    body: bytes

    @property
    def id(self) -> str:
        return f"{self.capture}-{self.number}"


@cache
def messages(capture: str = "") -> tuple[Recorded, ...]:
    """All messages of the captures whose names start so."""
    found: list[Recorded] = []
    for path in sorted(CAPTURES.glob(f"{capture}*.xml")):
        _, *parts = _SEPARATOR.split(path.read_bytes())
        for number, (title, message) in enumerate(zip(parts[::2], parts[1::2], strict=True)):
            head, _, body = message.partition(b"\n\n")
            # Messages are separated by an empty line that belongs to the transcript.
            body = body[:-1] if body.endswith(b"\n\n") else body
            start = head.split(b"\n")[0].decode()
            found.append(Recorded(path.stem, number, title.decode(), start, body))
    return tuple(found)


def scheduler_requests() -> list[Recorded]:
    return [m for m in messages() if b"<scheduler_request>" in m.body]


def scheduler_replies() -> list[Recorded]:
    return [m for m in messages() if b"<scheduler_reply>" in m.body]


def recorded(capture: str, title: str = "") -> bytes:
    """The body of the first message of that capture whose title holds the text."""
    return next(m.body for m in messages(capture) if title in m.title)
