"""The state of a compiled run, and its random numbers."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any, NamedTuple

from cobblestone.policy.client import estimates
from cobblestone.policy.client.core import values
from cobblestone.policy.client.published import debts
from cobblestone.simulator.host import books
from cobblestone.simulator.world import distributions

numpy: Any = import_module("numpy")  # Any: fully typed only if installed
numba: Any = import_module("numba")  # Any: Numba has no types
#: called by compiled code alone
compiled: Any = numba.njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)

#: The policies' and the simulator's own functions of numbers, which compiled code calls as they are.
shared_functions = [
    distributions.normal_of, books.sum_of_squares, debts.update_cpu_efficiency, estimates.remaining_2007, estimates.update_dcf,
    values.failing_jobs_wait,
]  # fmt: skip
normal_of, sum_of_squares, update_cpu_efficiency, remaining_2007, update_dcf, failing_jobs_wait = map(
    compiled, shared_functions
)

#: Why a run stopped before its end: tables of random numbers too short; too much for this form of it.
DONE, SHORT_TABLES, TOO_MUCH = 0, 1, 2

_FLOATS = (
    "duration quantum flops told mean_on mean_off slice buffer_min buffer_total buffer_sum interval "
    "now clock exact until on_since finish used_peak wake peak available delivered idle rounds_since "
    "core_now off_since on_fraction on_at last_contact last_schedule next_schedule last_enforce next_fetch look_again "
    "alarm plan_seconds efficiency unused settled_at total cpu settled_now shortfall idle_after"
)
_WHOLE = (
    "every_poll polled statistics by_efficiency plain cs wf ws jc ncpus absolute true_size reports_all inverted ties "
    "order_dependent shared c_index status on toggle_at backoff_at backoff_end rounds serial starts must_schedule "
    "must_enforce must_fetch plan plan_known has_outcome has_pending jobs finished running wanted started given_way free sent "
    "refused ended contact asked changed outside begun visiting"
)
_PROJECT_FLOATS = (
    "share raw mean stdev peak speed latency dcf shortfall dry_after long short wall latest not_before others "
    "used late failed unfinished unfinished_late rounding turnaround idle_since idle_squares spell_start spell_end debt pay"
)
_PROJECT_WHOLE = (
    "misses trouble left failures outdated queued runs pending_runnable pending_contactable runnable contactable counted "
    "tries sizes_at sizes_end kept met missed errors failing sent rpcs refused host_runs best"
)
_JOB_FLOATS = "raw size limit received deadline cutoff done remaining counted fraction checked run_start report_at task_done"
_JOB_WHOLE = "project serial start_order running active chosen failed"


def _record(floats: str, whole: str) -> Any:
    return numpy.dtype([(name, "f8") for name in floats.split()] + [(name, "i8") for name in whole.split()])


HOST = _record(_FLOATS, _WHOLE)
PROJECT = _record(_PROJECT_FLOATS, _PROJECT_WHOLE)
JOB = _record(_JOB_FLOATS, _JOB_WHOLE)


class KernelWorld(NamedTuple):
    """The state of a run."""

    host: Any  # Any: arrays
    projects: Any
    job: Any
    lists: Any  #: of jobs, a row each (below), filled as far as the host's record says
    numbers: Any  #: when the host goes on or off, random numbers of waits to come, and FLOPs of each project's jobs to come


#: Unfinished ones in order of arrival, ..., places of jobs that are not used, the words of the C library's generator.
JOBS, FINISHED, RUNNING, WANTED, STARTED, GIVEN_WAY, SENT, ENDED, FREE, C_STATE = ROWS = range(10)


# -- lists of jobs ----------------------------------------------------------------------------------------------------


@compiled
def take_out(items: Any, count: int, job: int) -> int:
    """Remove a job from a list; return how many are left."""
    k = 0
    while k < count and items[k] != job:
        k += 1
    if k == count:
        return count
    for m in range(k, count - 1):
        items[m] = items[m + 1]
    return count - 1


@compiled
def total_of(values: Any, count: int) -> float:
    """Return the sum in the order of ``float_sum``; numpy's own sum uses another order."""
    total = 0.0
    for k in range(count):
        total += values[k]
    return total


# -- random numbers ---------------------------------------------------------------------------------------------------


@compiled
def uniform(w: KernelWorld) -> float:
    """Return the next number of the C library's generator."""
    s, state = w.host[0], w.lists[C_STATE]
    i = s.c_index
    word = (state[(i - 31) % 31] + state[(i - 3) % 31]) & 0xFFFFFFFF
    state[i % 31] = word
    s.c_index = i + 1
    return (word >> 1) / 2147483647


@compiled
def wait_number(w: KernelWorld) -> float:
    """Return the next random number for a wait."""
    s = w.host[0]
    if s.shared:
        return uniform(w)
    if s.backoff_at == s.backoff_end:
        s.status = SHORT_TABLES
        return 0.5
    s.backoff_at += 1
    return w.numbers[s.backoff_at - 1]


@compiled
def normal(w: KernelWorld) -> float:
    """Return a standard normal number (`distributions.normal_by_inversion`)."""
    return normal_of(uniform(w))


@compiled
def toggle(w: KernelWorld) -> None:
    """Advance to the host's next period."""
    s = w.host[0]
    s.on = 1 - s.on
    if not s.shared:
        s.toggle_at += 1
        s.until = w.numbers[s.toggle_at]
        return
    mean = s.mean_on if s.on else s.mean_off
    s.exact += -mean * math.log(1.0 - min(uniform(w), 1.0 - 2.0**-53))
    q = s.quantum
    s.until = max(s.until + q, q * math.floor(s.exact / q)) if q else s.exact
