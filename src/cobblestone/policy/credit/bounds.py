"""What a report may claim: hostile, broken and impossible figures are refused or bounded, with a reason.

A client can write anything into its report.  Each figure is looked at by itself, so that one bad number loses
nothing else of the report:

* not a finite number, or negative: refused, counts as not reported (0);
* larger than anything that exists (`MAX_*`): bounded;
* longer than the time since the result was sent: bounded to that time; CPU time to that time x processors;
* received in the future, or before it was sent: bounded to now, to the time of sending.

No counterpart in BOINC, which bounds only the credit at the end (features of the deployed system: 16.5).
"""

from __future__ import annotations

import math
from dataclasses import replace

from cobblestone.domain.reasons import Reason, reason
from cobblestone.policy.credit.claims import ClaimInput, WorkunitFacts

MAX_SPEED = 1e12  #: operations/s of one processor by benchmark
MAX_PEAK_FLOPS = 1e17  #: of all devices of a job
MAX_PROCESSORS = 1e5
MAX_SECONDS = 1e10  #: three centuries
MAX_OPERATIONS = 1e27  #: `MAX_PEAK_FLOPS` for three centuries
MAX_CREDIT = 1e15
MAX_TIME = 1e12  #: Unix seconds
DEFAULT_ESTIMATE = 1e12  #: rsc_fpops_est of a job that has none (server-semantics: duration)

CLOCK_TOLERANCE = 60.0  #: seconds by which a time stamp may be ahead of now

_LIMITS = {
    "elapsed_time": MAX_SECONDS,
    "cpu_time": MAX_SECONDS,
    "sent_time": MAX_TIME,
    "received_time": MAX_TIME,
    "peak_flops": MAX_PEAK_FLOPS,
    "ncpus": MAX_PROCESSORS,
    "p_fpops": MAX_SPEED,
    "p_iops": MAX_SPEED,
    "fpops_counted": MAX_OPERATIONS,
    "intops_counted": MAX_OPERATIONS,
    "trickle_credit": MAX_CREDIT,
    "claimed_credit": MAX_CREDIT,
    "host_age": MAX_TIME,
}


def bounded_number(name: str, value: float, limit: float) -> tuple[float, Reason | None]:
    """One reported figure within 0 … ``limit``, and the reason when that changed it.

    Figures that JSON cannot carry appear in the reason as text.
    """
    if 0.0 <= value <= limit:
        return value, None
    if not math.isfinite(value):
        return 0.0, reason(
            "number_refused",
            "{name} is {value}, which is no number: not counted.",
            name=name,
            value=str(value),
        )
    if value < 0.0:
        return 0.0, reason(
            "number_refused", "{name} is negative ({value}): not counted.", name=name, value=value
        )
    return limit, reason(
        "number_bounded",
        "{name} {value} is impossible; counted as {limit}.",
        name=name,
        value=value,
        limit=limit,
    )


def bounded_input(facts: ClaimInput, *, now: float) -> tuple[ClaimInput, tuple[Reason, ...]]:
    """Return the facts of a result as far as they can be true at ``now`` (Unix seconds), and what was wrong."""
    changes: dict[str, float] = {}
    reasons: list[Reason] = []
    for name, limit in _LIMITS.items():
        value = getattr(facts, name)
        if 0.0 <= value <= limit:
            continue
        value, why = bounded_number(name, value, limit)
        if why is not None:
            changes[name] = value
            reasons.append(why)
    if changes.get("ncpus", facts.ncpus) < 1.0:
        changes["ncpus"] = 1.0
    _bound_times(facts, changes, reasons, now)
    return (replace(facts, **changes) if changes else facts), tuple(reasons)


def _bound_times(facts: ClaimInput, changes: dict[str, float], reasons: list[Reason], now: float) -> None:
    """Bound the times of a report by each other; ``changes`` holds what is bounded already."""
    sent = changes.get("sent_time", facts.sent_time)
    received = changes.get("received_time", facts.received_time)
    if received > now + CLOCK_TOLERANCE:
        received = changes["received_time"] = now
        reasons.append(
            reason(
                "time_bounded", "Received in the future ({value}); counted as now.", value=facts.received_time
            )
        )
    if not (sent and received):
        return
    if sent > received:
        sent = changes["sent_time"] = received
        reasons.append(reason("time_bounded", "Sent ({value}) after it was received.", value=facts.sent_time))
    window = received - sent
    elapsed = changes.get("elapsed_time", facts.elapsed_time)
    if elapsed > window:
        changes["elapsed_time"] = window
        reasons.append(
            reason(
                "elapsed_time_bounded",
                "Reported {value} s of run time, but only {limit} s passed since it was sent.",
                value=elapsed,
                limit=window,
            )
        )
    cpu_time = changes.get("cpu_time", facts.cpu_time)
    available = window * changes.get("ncpus", facts.ncpus)
    if cpu_time > available:
        changes["cpu_time"] = available
        reasons.append(
            reason(
                "cpu_time_bounded",
                "Reported {value} s of CPU time; the host's processors had {limit} s since it was sent.",
                value=cpu_time,
                limit=available,
            )
        )


def bounded_workunit(workunit: WorkunitFacts) -> tuple[WorkunitFacts, tuple[Reason, ...]]:
    """Return a job's estimates, made usable: an estimate is positive, a missing limit does not limit."""
    changes: dict[str, float] = {}
    reasons: list[Reason] = []
    if not 0.0 < workunit.rsc_fpops_est <= MAX_OPERATIONS:
        changes["rsc_fpops_est"] = DEFAULT_ESTIMATE
        reasons.append(_workunit_reason("rsc_fpops_est", workunit.rsc_fpops_est, DEFAULT_ESTIMATE))
    if not 0.0 < workunit.rsc_fpops_bound <= MAX_OPERATIONS:
        changes["rsc_fpops_bound"] = MAX_OPERATIONS
        reasons.append(_workunit_reason("rsc_fpops_bound", workunit.rsc_fpops_bound, MAX_OPERATIONS))
    credit, why = bounded_number("fixed_credit", workunit.fixed_credit, MAX_CREDIT)
    if why is not None:
        changes["fixed_credit"] = credit
        reasons.append(why)
    return (replace(workunit, **changes) if changes else workunit), tuple(reasons)


def _workunit_reason(name: str, value: float, used: float) -> Reason:
    shown = value if math.isfinite(value) else str(value)
    return reason(
        "workunit_number_replaced",
        "The job's {name} {value} is unusable; counted as {used}.",
        name=name,
        value=shown,
        used=used,
    )
