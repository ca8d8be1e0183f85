"""Replaying a job log under a credit system: what would everybody have got?

`replay` runs the policy itself, event by event, under any system, a project's own included; `replay_fast` runs
the compiled twin (extra ``lab``) under the built-in ones and gives the same figures, for logs without trickle messages.
"""

from __future__ import annotations

from collections.abc import Iterator

from cobblestone.credit_lab.figures import Replay, ReplayOptions
from cobblestone.credit_lab.joblog import INVALID, VALID, JobLog
from cobblestone.credit_lab.scalar import Run
from cobblestone.domain.errors import ConfigError
from cobblestone.ops.installation import how_to_install
from cobblestone.policy.credit.system import CreditSystem


def groups(log: JobLog) -> Iterator[tuple[int, int, bool]]:
    """(first line, line after the last, straggler) of each workunit, straggler and other event, in the order of the log.

    A workunit is what its validator looked at together: its valid and invalid results that stand together.
    """
    workunits, marked, outcomes = log.column("workunit_id"), log.column("straggler"), log.column("outcome")
    seen: set[int] = set()
    start = 0
    while start < log.length:
        workunit, judged = workunits[start], outcomes[start] <= INVALID
        end = start + 1
        late = judged and (bool(marked[start]) or workunit in seen)
        while (
            judged
            and not late
            and end < log.length
            and workunits[end] == workunit
            and outcomes[end] <= INVALID
            and not marked[end]
        ):
            end += 1
        if VALID in outcomes[start:end]:
            seen.add(workunit)
        yield start, end, late
        start = end


def replay(log: JobLog, system: CreditSystem, options: ReplayOptions | None = None) -> Replay:
    """Replay a log by the policy itself."""
    run = Run(log, system, options or ReplayOptions())
    for start, end, late in groups(log):
        run.event(start, end, late)
    return run.result()


def replay_fast(log: JobLog, system: str, options: ReplayOptions | None = None) -> Replay:
    """Replay a log by the compiled twin; raises `ConfigError` without the extra ``lab``, or for another system."""
    try:
        from cobblestone.credit_lab.vectorised import replay_columns
    except ImportError as error:
        raise ConfigError(
            f"the fast replay needs NumPy and Numba ({error}); install them with: {how_to_install('lab')}"
        ) from error
    return replay_columns(log, system, options or ReplayOptions())
