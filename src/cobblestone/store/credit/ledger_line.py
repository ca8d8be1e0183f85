"""An entry of the credit ledger as it was stored, and what is said of one that is damaged."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import msgspec

from cobblestone.domain.errors import StoreError
from cobblestone.domain.reasons import restored
from cobblestone.store.engine.engine import Row

ENTRY_COLUMNS = (
    "id, time, result_id, workunit_id, host_id, user_id, team_id, app_version_id, kind, system, claimed, granted, unit,"
    " work_start, reasons, facts"
)
_NAMES = tuple(name.strip() for name in ENTRY_COLUMNS.split(","))


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerLine:
    """A ledger entry as it was stored; reasons and facts as JSON values."""

    id: int
    time: float
    result_id: int
    workunit_id: int
    host_id: int
    user_id: int
    team_id: int | None
    app_version_id: int | None
    kind: str
    system: str
    claimed: float
    granted: float
    unit: float
    work_start: float
    reasons: list[dict[str, object]]
    facts: dict[str, Any] = field(default_factory=dict[str, Any])

    def owners(self) -> tuple[int | None, ...]:
        """Whom the entry counts for, in the order of `OWNERS`."""
        return self.host_id, self.user_id, self.team_id, self.app_version_id


class DamagedEntry(StoreError):
    """An entry of the ledger cannot be read."""

    def __init__(self, entry_id: object, problem: str) -> None:
        super().__init__(f"Entry {entry_id} of the credit ledger cannot be read: {problem}.")
        self.entry_id = entry_id if isinstance(entry_id, int) else 0
        self.problem = problem


_FINITE = ("time", "claimed", "granted", "unit", "work_start")
_OWN_IDS = ("id", "result_id", "workunit_id", "host_id", "user_id")


def read_line(row: Row) -> LedgerLine:
    """Read an entry.

    Raises:
        DamagedEntry: it is not as it was written.
    """
    values = dict(zip(_NAMES, row, strict=True))
    for name in _FINITE:
        if not isinstance(values[name], int | float) or not math.isfinite(values[name]):
            raise DamagedEntry(values["id"], f"its {name} is {str(values[name])[:40]!r}")
    for name in _OWN_IDS:
        if not isinstance(values[name], int):
            raise DamagedEntry(values["id"], f"its {name} is {str(values[name])[:40]!r}")
    try:
        values["reasons"] = [
            restored(*written).as_json() for written in msgspec.json.decode(values["reasons"])
        ]
        values["facts"] = msgspec.json.decode(values["facts"], type=dict[str, Any])
    except (msgspec.MsgspecError, TypeError, ValueError, AttributeError, LookupError) as error:
        raise DamagedEntry(values["id"], f"its reasons or facts are damaged ({error})") from error
    return LedgerLine(**values)
