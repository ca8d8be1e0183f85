"""Rows that the compiled kernels work on, and how kernels are compiled.  Needs the extra ``lab``."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, TypeAlias, TypeVar

import numpy as np

from cobblestone.credit_lab.joblog import FIGURES
from cobblestone.policy.credit import claims, credit_new, early_systems, host_records, scales, steady

Function = TypeVar("Function", bound=Callable[..., Any])  # Any: any signature


def compiled(function: Function) -> Function:
    """Compile a kernel once per machine.  Functions that it calls must be in its own file: the cache checks no other."""
    numba: Any = import_module("numba")  # Any: Numba has no types
    kernel: Function = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    return kernel


def inlined(function: Function) -> Function:
    """Compile a function into the kernels that call it."""
    numba: Any = import_module("numba")  # Any: Numba has no types
    part: Function = numba.njit(forceinline=True, error_model="numpy")(function)
    return part


# NumPy's types do not follow an index through to the scalar, on which all of this is built.
Floats: TypeAlias = Any  # Any: one-dimensional array of float64
Integers: TypeAlias = Any  # Any: one-dimensional array of int64
Flags: TypeAlias = Any  # Any: one-dimensional array of bool
Rows: TypeAlias = Any  # Any: one-dimensional array of one of the types below
Row: TypeAlias = Any  # Any: one element of it

BENCHMARK, COUNTED, DESIGNED, DEPLOYED, FIXED, RUNTIME, ASSIGNED, NONE, STEADY, MEASURED = range(10)
MEAN, MINIMUM, DROP_EXTREMES = range(3)
NORMAL, APPROXIMATE, ESTIMATE, REFUSED, NO_CLAIM = range(5)


#: Constants of the policy that the kernels read, by their modules.
CONSTANTS: dict[ModuleType, str] = {
    claims: "CLOCK_TOLERANCE MAX_SECONDS MAX_TIME MAX_PEAK_FLOPS MAX_PROCESSORS MAX_SPEED MAX_OPERATIONS MAX_CREDIT "
    "DEFAULT_ESTIMATE PEG_WIDTH INFINITESIMAL FAR_APART",
    scales: "FAILED_BENCHMARK TYPICAL_CPU_SPEED SMALLEST_RATIO LARGEST_RATIO MIN_HOST_SAMPLES MIN_VERSION_SAMPLES "
    "MAX_HOST_SCALE GPU_ONLY_SCALE",
    credit_new: "CHEAT_MULTIPLE MIN_CONSECUTIVE_VALID",
    early_systems: "MIN_COUNTED_JOBS MAX_SCALE",
    host_records: "INITIAL_ERROR_RATE ERROR_WEIGHT",
    steady: "CLIP PRIOR_VOTES VOTE_EVERY VOTING_AGE DAILY_LIMIT LARGEST_LENGTH",
}
_OPTIONS = (
    "system combination both per_flop max_granted scale_interval host_scale_check credit_per_cpu_second host_threshold "
    "host_weight host_limit version_threshold version_weight version_limit"
)
ReplayRules: TypeAlias = Any  # Any: a named tuple, made of the table above
#: System, options and constants of a replay; constants have their names in small letters.
_named: Any = namedtuple  # Any: the names come from a table
make_rules: Any = _named("ReplayRules", f"{_OPTIONS} {' '.join(CONSTANTS.values()).lower()}")  # Any: as above


LINE = np.dtype(
    [(name, np.float64) for name in (*FIGURES, "host_age")]
    + [(name, np.int64) for name in ("outcome", "workunit", "record", "version", "app", "owner_computers")]
    + [(name, np.bool_) for name in ("anonymous", "is_gpu", "canonical", "outlier")],
    align=True,
)
"""A line of the log; workunit, record (host and version), version and app are places in the arrays of rows."""

RECORD = np.dtype(
    [
        ("n", np.int64),
        ("mean", np.float64),
        ("consecutive_valid", np.int64),
        ("error_rate", np.float64),
        ("host_scale_time", np.float64),
        ("probation", np.bool_),
    ],
    align=True,
)
"""One app version on one host."""

VERSION = np.dtype(
    [("n", np.int64), ("mean", np.float64), ("scale", np.float64), ("app", np.int64), ("is_gpu", np.bool_)],
    align=True,
)
"""An app version; app -1: not seen yet, or on the anonymous platform only."""

APP = np.dtype(
    [
        (name, np.float64)
        for name in (
            "average",
            "scale",
            "benchmark_credit",
            "counted_credit",
            "cpu_seconds",
            "jobs",
            # scratch of `scale_versions`
            "cpus",
            "cpu_n",
            "cpu_sum",
            "gpus",
            "gpu_n",
            "gpu_sum",
            "target",
            "logarithms",
            "votes",
        )
    ]
    + [("has_cpu", np.bool_), ("has_gpu", np.bool_)],
    align=True,
)
"""An app."""
