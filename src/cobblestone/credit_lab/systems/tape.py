"""The tape of a run: one row per result as the server saw it, and what the server does not see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from cobblestone.credit_lab.joblog import VALID, JobLog
from cobblestone.policy.credit.claims import DEPLOYED

START = 1_700_000_000.0
"""When a run begins, Unix seconds."""

DELAY_BOUND = 7 * 86400.0
"""Seconds to the deadline of every job."""

BOUND = 1000.0
"""``rsc_fpops_bound`` / ``rsc_fpops_est``."""

Table: TypeAlias = Any  # Any: one-dimensional array of one of the types below

JOB = np.dtype(
    [
        ("time", "f8"),  # Unix seconds
        ("estimate", "f8"),
        ("work", "f8"),  # true operations
        ("length", "f8"),  # work / what jobs of this estimate usually have
        ("fixed", "f8"),  # seconds that it runs on any computer; 0: until its work is done
        ("app", "i4"),
        ("stratum", "i1"),
        ("crossed", "?"),  # given to any computer, whatever its tag
    ],
    align=True,
)
"""A job."""

RESULT = np.dtype(
    [
        ("job", "i8"),
        ("time", "f8"),
        ("sent", "f8"),
        ("elapsed", "f8"),
        ("cpu", "f8"),
        ("peak", "f8"),
        ("benchmark", "f8"),
        ("counted", "f8"),
        ("work", "f8"),  # true operations behind it; 0: forged or copied
        ("identity", "i8"),
        ("version", "i8"),
        ("answer", "i4"),  # 0: right
        ("host", "i4"),
        ("threads", "i2"),
        ("outcome", "i1"),  # as in `joblog`
        ("kind", "i1"),  # of the program, as below
        ("refusal", "i1"),
        ("check", "?"),  # a replica beyond the quorum
    ],
    align=True,
)
"""A result."""

PLAIN, FAST, GPU, OWN_BUILD = range(4)
"""Kinds of programs; the last is built by the volunteer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tape:
    """A run: jobs, results in the order of time, and the account of each identity."""

    jobs: Table
    results: Table
    accounts: Table  #: by identity
    quorum: int
    numbers: Table = None  #: of jobs, where they are not their places

    def of(self, name: str) -> Table:
        """Return a fact of each result's job."""
        return self.jobs[name][self.results["job"]]

    @property
    def valid(self) -> Table:
        """Return which results were found valid."""
        return self.results["outcome"] == VALID


def job_log(tape: Tape) -> JobLog:
    """Return a tape as the log that credit systems are replayed over."""
    rows = tape.results
    estimate = tape.of("estimate")
    benchmark = rows["benchmark"]
    columns: dict[str, Any] = {
        "workunit_id": rows["job"] + 1,
        "host_id": rows["identity"],
        "user_id": tape.accounts[rows["identity"]],
        "app_id": tape.of("app").astype(np.int64),
        "app_version_id": rows["version"],
        "outcome": rows["outcome"].astype(np.int64),
        "anonymous": (rows["kind"] == OWN_BUILD).astype(np.int64),
        "is_gpu": (rows["kind"] == GPU).astype(np.int64),
        "time": rows["time"],
        "received_time": rows["time"],
        "sent_time": rows["sent"],
        "elapsed_time": rows["elapsed"],
        "cpu_time": rows["cpu"],
        "peak_flops": rows["peak"],
        "ncpus": np.full(rows.size, 64.0),
        "p_fpops": benchmark,
        "p_iops": 2.0 * benchmark,
        "fpops_counted": rows["counted"],
        "rsc_fpops_est": estimate,
        "rsc_fpops_bound": BOUND * estimate,
        "fixed_credit": DEPLOYED.of_flops(estimate),
        "delay_bound": np.full(rows.size, DELAY_BOUND),
    }
    return JobLog(columns, rows.size)
