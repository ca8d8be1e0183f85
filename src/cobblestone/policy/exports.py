"""When a project's export for statistics sites is due, and when it is overdue."""

from __future__ import annotations

FIRST_SECONDS = 900.0
"""A project that has never exported anything does so this long after its server started (or a period, if that is shorter)."""

LATE_SECONDS = 6 * 3600.0
"""An export that is late by more deserves a warning: statistics sites fetch once a day."""

KEEP_DELETIONS = 60 * 86400.0
"""For so long statistics sites are told to forget somebody (the family's figure)."""


def next_export_time(last: float | None, *, started: float, every: float) -> float:
    """Return when the next export is due, Unix seconds.

    ``last``: when the last one was made; ``started``: when the server began; ``every``: seconds between two.
    """
    return started + min(FIRST_SECONDS, every) if last is None else last + every


def is_overdue(last: float | None, *, started: float, every: float, now: float) -> bool:
    """Whether the export is so late that somebody should look; a server that has just started gets its time, too."""
    due = max(next_export_time(last, started=started, every=every), started + FIRST_SECONDS)
    return now > due + LATE_SECONDS


def web_address(url: str) -> str:
    """Return an address that may stand in a link; empty for others, such as ``javascript:``."""
    return url if url.startswith(("https://", "http://")) else ""
