"""Job logs made up at random: a population of hosts, versions and jobs, on request with hostile reports."""

from __future__ import annotations

import random

from cobblestone.credit_lab.joblog import ERROR, FIGURES, INVALID, SENT, VALID, JobLog, job_log

HOSTILE = (float("nan"), float("inf"), float("-inf"), -1.0, 0.0, 1e304, 1e-304, 1e9)


def random_job_log(
    rng: random.Random,
    lines: int,
    *,
    hosts: int = 30,
    hostile: float = 0.0,
    stragglers: float = 0.05,
    others: float = 0.1,
) -> JobLog:
    """About ``lines`` results; a share ``hostile`` of all figures is hostile, one of ``others`` not of valid results."""
    columns: dict[str, list[float]] = {name: [] for name in FIGURES}
    for name in ("outcome", "workunit_id", "host_id", "user_id", "team_id", "app_id", "app_version_id"):
        columns[name] = []
    for name in ("anonymous", "is_gpu", "canonical", "straggler", "outlier"):
        columns[name] = []
    speeds = [rng.lognormvariate(22.5, 0.5) for _ in range(hosts)]
    now = 1_700_000_000.0
    for workunit in range(1, lines):
        if len(columns["host_id"]) >= lines:
            break
        now += rng.expovariate(1 / 120.0)
        app = rng.randint(1, 2)
        estimate = 1e13 * rng.lognormvariate(0.0, 0.2)
        for _ in range(rng.choice((1, 1, 2, 2, 3, 5))):
            host = rng.randrange(hosts)
            line = _result(rng, host, speeds[host], estimate, now)
            late = rng.random() < stragglers
            line |= {
                "workunit_id": rng.randint(1, workunit) if late and rng.random() < 0.5 else workunit,
                "app_id": app,
                "app_version_id": 10 * app + host % 4,
                "is_gpu": int(host % 4 == 3),
                "straggler": int(late),
                "outcome": rng.choice((INVALID, ERROR, SENT)) if rng.random() < others else VALID,
            }
            for name in FIGURES:
                if rng.random() < hostile:
                    line[name] = rng.choice(HOSTILE)
            for name, values in columns.items():
                values.append(line[name])
    return job_log(columns)


def _result(rng: random.Random, host: int, speed: float, estimate: float, now: float) -> dict[str, float]:
    elapsed = estimate * rng.lognormvariate(0.3, 0.4) / speed
    if rng.random() < 0.02:
        elapsed *= 30.0
    received = now - rng.uniform(0.0, 1000.0)
    return {
        "host_id": host + 1,
        "user_id": host // 3 + 1,
        "team_id": host % 4,
        "anonymous": int(host % 7 == 0),
        "canonical": int(rng.random() < 0.5),
        "outlier": int(rng.random() < 0.02),
        "time": now,
        "elapsed_time": elapsed,
        "cpu_time": elapsed * rng.uniform(0.5, 1.0) if rng.random() < 0.95 else 0.0,
        "sent_time": received - elapsed * rng.uniform(1.0, 3.0),
        "received_time": received,
        "peak_flops": speed if rng.random() < 0.95 else 1e9,
        "ncpus": 4.0,
        "p_fpops": speed,
        "p_iops": 3.0 * speed,
        "fpops_counted": estimate * 0.4 if rng.random() < 0.8 else 0.0,
        "intops_counted": estimate * rng.uniform(0.0, 0.6),
        "trickle_credit": rng.choice((0.0, 0.0, 0.0, 5.0)),
        "claimed_credit": rng.uniform(0.0, 40.0),
        "rsc_fpops_est": estimate,
        "rsc_fpops_bound": estimate * 20.0,
        "fixed_credit": 12.5,
        "delay_bound": 3000.0,
    }
