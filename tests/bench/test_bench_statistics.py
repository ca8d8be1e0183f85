"""Records a second that a statistics site reads from exports, by CPU time on one core.

``pytest -s tests/bench/test_bench_statistics.py``
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from tests.bench.figures import LOOP_MS, fixed_loop_ms
from tests.helpers.statistics_exports import DAY, Export, cpid, next_day, population

from cobblestone.domain.ids import HostId
from cobblestone.statistics.ingest import Ingested, ingest
from cobblestone.statistics.state import SiteFolder

NOON = 20_000 * DAY + DAY / 2
N_USERS = 60_000
FLOOR = 200_000.0
"""Records for each second of CPU time, on a machine whose fixed loop takes `LOOP_MS`."""


def two_computers_each(n_users: int) -> Export:
    export = population(1, n_users=n_users, time=NOON)
    second = [
        replace(each, id=HostId(each.id + n_users), host_cpid=cpid("second", each.id))
        for each in export.hosts
    ]
    return replace(export, hosts=[*export.hosts, *second])


def rate(came: Ingested) -> float:
    counts = came.counts
    return (counts.users + counts.hosts + counts.teams) / came.seconds


def test_reading_exports(tmp_path: Path):
    """The second day of a project: unpacking, scanning, cleaning, comparing with the day before, history."""
    today = two_computers_each(N_USERS)
    project = SiteFolder(tmp_path).project("one")
    today.write(project.incoming)
    first = ingest(project, "", now=today.time, max_rows=10**7)
    rates: list[float] = []
    loops: list[float] = []
    for _ in range(4):
        today = next_day(today)
        today.write(project.incoming)
        loops.append(fixed_loop_ms())
        came = ingest(project, first.generation, now=today.time, max_rows=10**7)
        rates.append(rate(came))
        assert came.counts.hosts == 2 * N_USERS
        assert came.counts.refused == came.counts.doubled == 0
    best = max(rates)
    print(
        f"\nreading exports: {best:,.0f} records a second of CPU ({', '.join(f'{each:,.0f}' for each in rates)}),"
        f" fixed loop {min(loops):.1f} ms, load {os.getloadavg()[0]:.1f}"
    )
    assert best >= FLOOR * min(1.0, LOOP_MS / min(loops))
