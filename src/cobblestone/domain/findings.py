"""What a look at a service found wrong."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it must be."""

    code: str  #: what is wrong, for programs: stays when the sentence changes
    kind: str  #: table of the row, or what else it is: ``result``, ``file``, ``database``
    id: int | str | None  #: of the row or file; None: there is only one
    text: str

    @property
    def target(self) -> str:
        """Kind and id for people: ``result 12``."""
        return self.kind if self.id is None else f"{self.kind} {self.id}"
