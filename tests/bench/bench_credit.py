"""How fast credit is computed: ``PYTHONPATH=src:. python tests/bench/bench_credit.py``.

The compiled twin replays a million results of 20,000 hosts, quorum 2, from memory and from a Parquet file; the policy itself,
as the validator calls it, grants workunits one by one.  One core; figures are results (or workunits) per second of CPU time,
best of several rounds, without compilation.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from cobblestone.credit_lab.figures import ReplayOptions
from cobblestone.credit_lab.joblog import JobLog, job_log, read_job_log
from cobblestone.credit_lab.replay import replay_fast
from cobblestone.credit_lab.vectorised import statements
from tests.helpers.credit_builders import NOW, WORKUNIT, claiming, host, statistics

from cobblestone.domain.statistics import CreditStatement
from cobblestone.policy.credit.claims import HostVersionStatistics, VersionStatistics
from cobblestone.policy.credit.host_records import host_version_after, version_after
from cobblestone.policy.credit.rac import credited
from cobblestone.policy.credit.registry import credit_system
from cobblestone.policy.credit.system import grant_workunit

RESULTS = 1_000_000
HOSTS = 20_000
QUORUM = 2
WORKUNITS = 3000
ROUNDS = 3

#: Floors that every machine of the last ten years should pass, by the name that `figures` uses.
FLOORS = {
    "recent averages": 1_000_000.0,
    "benchmark": 1_000_000.0,
    "creditnew-designed": 200_000.0,
    "creditnew-deployed": 200_000.0,
    "policy: creditnew-deployed, quorum 2, workunits": 3_000.0,
}


def made_up_log(results: int = RESULTS) -> JobLog:
    """A month of a project with 20,000 hosts, 50 teams and 8 versions of one app."""
    rng = np.random.default_rng(1)
    jobs = results // QUORUM
    number = rng.integers(1, HOSTS + 1, jobs * QUORUM)
    speed = rng.lognormal(22.5, 0.5, HOSTS + 1)[number]
    estimate = np.repeat(1e13 * rng.lognormal(0.0, 0.2, jobs), QUORUM)
    elapsed = estimate * rng.lognormal(0.3, 0.4, number.size) / speed
    now = np.repeat(np.sort(rng.uniform(NOW, NOW + 30 * 86400, jobs)), QUORUM)
    columns: dict[str, Any] = (  # Any: NumPy arrays
        {
            "workunit_id": np.repeat(np.arange(1, jobs + 1), QUORUM),
            "host_id": number,
            "user_id": number // 3 + 1,
            "team_id": number % 51,
            "app_version_id": number % 8 + 1,
            "is_gpu": (number % 8 >= 6).astype(np.int64),
            "anonymous": (number % 20 == 0).astype(np.int64),
            "time": now,
            "received_time": now - 60.0,
            "sent_time": now - 60.0 - 3.0 * elapsed,
            "elapsed_time": elapsed,
            "cpu_time": 0.95 * elapsed,
            "peak_flops": speed,
            "ncpus": np.full(number.size, 4.0),
            "p_fpops": speed,
            "p_iops": 3.0 * speed,
            "fpops_counted": 0.4 * estimate,
            "rsc_fpops_est": estimate,
            "rsc_fpops_bound": 20.0 * estimate,
        }
    )
    return job_log(columns)


def per_second(work: Callable[[], object], amount: int) -> float:
    """Amount of work per second of CPU time, best of some rounds after one to warm up."""
    work()
    seconds: list[float] = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        work()
        seconds.append(time.process_time() - begin)
    return amount / min(seconds)


def average_all(log: JobLog) -> None:
    """Totals and recent averages of all hosts, users, teams and versions."""
    credit = log.columns["elapsed_time"]
    for name in ("host_id", "user_id", "team_id", "app_version_id"):
        statements(log.columns[name], credit, log.columns["sent_time"], log.columns["time"], ReplayOptions())


def validate(system_name: str) -> None:
    """What the policy does of a validator's work: grant, learn, four recent averages per result."""
    system = credit_system(system_name)
    known = statistics(500, 1.0, scale=0.9)
    inputs = [claiming(20.0, 1, host_version=host(30, 1.1)), claiming(23.0, 2, host_version=host(9, 0.9))]
    version = VersionStatistics()
    for _ in range(WORKUNITS):
        outcome = grant_workunit(system, WORKUNIT, inputs, known, now=NOW)
        for increment in outcome.increments.host_versions:
            host_version_after(HostVersionStatistics(), increment)
        for increment in outcome.increments.versions:
            version = version_after(version, increment)
        for result in outcome.results:
            for _ in ("host", "user", "team", "version"):
                credited(CreditStatement(), credit=result.granted, work_start=NOW - 1e5, now=NOW)


def figures() -> dict[str, float]:
    """Everything that is measured, per second."""
    log = made_up_log()
    found = {"recent averages": per_second(lambda: average_all(log), log.length)}
    for name in (
        "benchmark",
        "benchmark:drop-extremes",
        "counted",
        "creditnew-designed",
        "creditnew-deployed",
    ):
        found[name] = per_second(lambda name=name: replay_fast(log, name), log.length)
    with tempfile.TemporaryDirectory() as folder:
        table = import_module("pyarrow").table(dict(log.columns))
        import_module("pyarrow.parquet").write_table(table, Path(folder, "log.parquet"))
        import_module("pyarrow.csv").write_csv(table, Path(folder, "log.csv"))
        for name in ("benchmark", "creditnew-deployed"):
            for suffix in ("parquet", "csv"):
                path = Path(folder, f"log.{suffix}")
                found[f"{name}, read from {suffix}"] = per_second(
                    lambda name=name, path=path: replay_fast(read_job_log(path, system=name), name),
                    log.length,
                )
    for name in ("benchmark", "creditnew-designed", "creditnew-deployed"):
        found[f"policy: {name}, quorum 2, workunits"] = per_second(
            lambda name=name: validate(name), WORKUNITS
        )
    return found


def main() -> None:
    """Print the figures, and the floors that they are held against."""
    for name, value in figures().items():
        floor = f"   floor {FLOORS[name]:>12,.0f}" if name in FLOORS else ""
        print(f"{name:<50} {value:>14,.0f} /s{floor}")


if __name__ == "__main__":
    main()
