"""Rows that the compiled kernels work on, and how kernels are compiled.  Needs the extra ``lab``."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

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

BENCHMARK, COUNTED, DESIGNED, DEPLOYED, FIXED, RUNTIME, ASSIGNED, NONE = range(8)
MEAN, MINIMUM, DROP_EXTREMES = range(3)
NORMAL, APPROXIMATE, ESTIMATE, REFUSED, NO_CLAIM = range(5)


class ReplayRules(NamedTuple):
    """System and constants of a replay."""

    system: int
    combination: int
    both: bool
    per_flop: float
    max_granted: float
    scale_interval: float
    clock_tolerance: float
    max_seconds: float
    max_time: float
    max_peak_flops: float
    max_processors: float
    max_speed: float
    max_operations: float
    max_credit: float
    default_estimate: float
    failed_benchmark: float
    typical_speed: float
    smallest_ratio: float
    largest_ratio: float
    largest_sample: float
    host_threshold: int
    host_weight: float
    host_limit: float
    version_threshold: int
    version_weight: float
    version_limit: float
    min_host_samples: int
    min_version_samples: int
    max_host_scale: float
    cheat_multiple: float
    gpu_only_scale: float
    peg_width: float
    infinitesimal: float
    far_apart: float
    min_counted_jobs: int
    max_scale: float
    host_scale_check: bool
    min_consecutive_valid: int
    credit_per_cpu_second: float
    initial_error_rate: float
    error_weight: float


LINE = np.dtype(
    [
        (name, np.float64)
        for name in (
            "time",
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
            "rsc_fpops_est",
            "rsc_fpops_bound",
            "fixed_credit",
            "delay_bound",
        )
    ]
    + [(name, np.int64) for name in ("outcome", "workunit", "record", "version", "app")]
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
        )
    ]
    + [("has_cpu", np.bool_), ("has_gpu", np.bool_)],
    align=True,
)
"""An app."""
