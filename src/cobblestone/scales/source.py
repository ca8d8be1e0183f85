"""A project that the collector asks."""

from __future__ import annotations

from dataclasses import dataclass

from cobblestone.policy.credit.cross_project import CollectedScales


@dataclass(slots=True)
class Source:
    """A project of the list, and how it went."""

    url: str
    last: CollectedScales | None = None  #: its last good export
    n_refused: int = 0  #: versions of that export that could not be believed
    problem: str = ""  #: of the last attempt; empty: it went well
    tried: float = 0.0  #: Unix seconds of the last attempt; 0: never
