"""An entry of the credit ledger as it was stored, and the facts that it was computed from.

What a ledger entry was computed from, as JSON: enough to compute it again when everything else is gone.

Entries are many, so values are lists in the order of the names below.  That order never changes: new names go to the
end, and readers take the default for what an older entry does not have.  A running mean is a list of its number of
samples, mean, variance and ``q``.  Figures that JSON cannot carry are written as text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields
from operator import attrgetter
from typing import Any

import msgspec

from cobblestone.domain.errors import StoreError
from cobblestone.domain.reasons import restored
from cobblestone.domain.statistics import RunningAverage
from cobblestone.domain.values import AppVersionId, HostId, ResultId, value
from cobblestone.policy.credit import claims
from cobblestone.policy.credit.book import GrantFacts, MessageFacts, TrickleFacts, TrickleRules
from cobblestone.store.engine.engine import Row
from cobblestone.store.engine.mapping import to_json


@value(kw_only=True)
class EntryAmount:
    """What an entry of the ledger grants for what, and to whom.  Times in Unix seconds."""

    id: int
    time: float
    result_id: int
    host_id: int
    user_id: int
    team_id: int | None
    kind: str
    granted: float
    work_start: float


@value(kw_only=True)
class LedgerLine(EntryAmount):
    """A ledger entry as it was stored; reasons and facts as JSON values."""

    workunit_id: int
    app_version_id: int | None
    system: str
    claimed: float
    unit: float
    reasons: list[dict[str, object]]
    facts: dict[str, Any] = field(default_factory=dict[str, Any])

    def owners(self) -> tuple[int | None, ...]:
        """Return the owners that the entry counts for, in the order of `OWNERS`."""
        return self.host_id, self.user_id, self.team_id, self.app_version_id


_NAMES = tuple(each.name for each in fields(LedgerLine))
ENTRY_COLUMNS = ", ".join(_NAMES)


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


RESULT = (
    "elapsed_time",
    "cpu_time",
    "sent_time",
    "received_time",
    "peak_flops",
    "ncpus",
    "p_fpops",
    "p_iops",
    "fpops_counted",
    "intops_counted",
    "trickle_credit",
    "claimed_credit",
    "platform",
    "is_gpu",
    "canonical",
    "outlier",
    "host_age",
    "owner_computers",
)
HOST = ("consecutive_valid", "error_rate", "scale_probation", "host_scale_time")
HOST_MEANS = ("pfc", "elapsed", "turnaround")
APP = ("min_avg_pfc", "host_scale_check", "flops_scale", "credit_per_cpu_second")
COUNTED = ("benchmark_credit", "counted_credit", "cpu_seconds", "jobs")
WORKUNIT = ("rsc_fpops_est", "rsc_fpops_bound", "fixed_credit")
TRICKLE = (
    "run_time",
    "p_fpops",
    "in_progress",
    "sent_time",
    "credited_run_time",
    "most_credit",
    "credited",
    "owner_most_credit",
    "owner_credited",
)
RULES = ("max_run_time", "median_speed", "percentile_95_speed")

_get: Mapping[tuple[str, ...], Callable[[object], tuple[Any, ...]]] = {
    names: attrgetter(*names) for names in (RESULT, HOST, APP, COUNTED, WORKUNIT, TRICKLE, RULES)
}
_of_mean = attrgetter("n", "mean", "variance", "q")


def _values(names: tuple[str, ...], of: object) -> list[Any]:
    """Return the values of these names, with those that JSON cannot represent as text."""
    found = _get[names](of)
    return [str(each) if isinstance(each, float) and not math.isfinite(each) else each for each in found]


def write_facts(facts: GrantFacts | MessageFacts) -> str:
    """Return the JSON of the facts that an entry was computed from."""
    written = to_json(_facts(facts, lambda names, of: _get[names](of)))
    # What JSON cannot represent becomes null.  Hardly any entry has such a figure, and to look at each takes longer.
    return to_json(_facts(facts, _values)) if "null" in written else written


def _facts(
    facts: GrantFacts | MessageFacts, values: Callable[[tuple[str, ...], object], Sequence[Any]]
) -> dict[str, object]:
    if isinstance(facts, MessageFacts):
        return {"trickle": values(TRICKLE, facts.message), "rules": values(RULES, facts.rules)}
    host, app, version = facts.result.host_version, facts.app, facts.version
    counted = () if app.counted is None else (values(COUNTED, app.counted),)
    found: dict[str, object] = {
        "result": values(RESULT, facts.result),
        "host": host and (*values(HOST, host), *(_of_mean(getattr(host, name)) for name in HOST_MEANS)),
        "version": (version.pfc_scale, _of_mean(version.pfc)),
        "app": (*values(APP, app), *counted),
        "workunit": values(WORKUNIT, facts.workunit),
        "max_granted": facts.max_granted,
    }
    if facts.straggler:
        found["straggler"] = True
        found["canonical_credit"] = facts.canonical_credit
    return found


def _named(names: Sequence[str], written: Sequence[Any]) -> dict[str, Any]:
    """Return values by name; text is a figure that JSON could not represent."""
    return {
        name: float(value) if isinstance(value, str) and name != "platform" else value
        for name, value in zip(names, written, strict=False)
    }


def named_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of an entry with all values named, for people and programs."""
    named: dict[str, Any] = dict(facts)
    for key, names in (
        ("result", RESULT),
        ("host", (*HOST, *HOST_MEANS)),
        ("version", ("pfc_scale", "pfc")),
        ("app", (*APP, "counted")),
        ("workunit", WORKUNIT),
        ("trickle", TRICKLE),
        ("rules", RULES),
    ):
        if facts.get(key) is not None:
            named[key] = dict(zip(names, facts[key], strict=False))
    return named


def _host(written: Sequence[Any]) -> claims.HostVersionStatistics:
    means = dict(zip(HOST_MEANS, (RunningAverage(*mean) for mean in written[len(HOST) :]), strict=False))
    return claims.HostVersionStatistics(**_named(HOST, written), **means)


def _app(written: Sequence[Any]) -> claims.AppStatistics:
    counted = claims.AppIncrement(**_named(COUNTED, written[len(APP)])) if len(written) > len(APP) else None
    return claims.AppStatistics(**_named(APP, written), counted=counted)


def read_facts(line: LedgerLine) -> GrantFacts:
    """Return the facts of a grant."""
    facts = line.facts
    result = _named(RESULT, facts["result"])
    result["platform"] = claims.PlatformKind(result["platform"])
    scale, mean = facts["version"]
    return GrantFacts(
        result=claims.ClaimInput(
            result_id=ResultId(line.result_id),
            host_id=HostId(line.host_id),
            app_version_id=AppVersionId(line.app_version_id or 0),
            host_version=None if facts["host"] is None else _host(facts["host"]),
            **result,
        ),
        workunit=claims.WorkunitFacts(**_named(WORKUNIT, facts["workunit"])),
        app=_app(facts["app"]),
        version=claims.VersionStatistics(pfc=RunningAverage(*mean), pfc_scale=scale),
        max_granted=facts["max_granted"],
        straggler=facts.get("straggler", False),
        canonical_credit=facts.get("canonical_credit", 0.0),
    )


def read_message_facts(facts: Mapping[str, Any]) -> MessageFacts:
    """Return the facts of a trickle message."""
    return MessageFacts(
        message=TrickleFacts(**_named(TRICKLE, facts["trickle"])),
        rules=TrickleRules(**_named(RULES, facts["rules"])),
    )
