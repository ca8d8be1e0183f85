"""How long the dispatch rule takes: ``python -m tests.bench.bench_dispatch``.

2,000 unsent results of 10 apps with 5 versions each (sequential, multi-thread, GPU, another platform, an old one).
Prints microseconds of CPU time per request, best and median of several rounds; the budget of a one-job request is 100.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable

from tests.helpers.dispatch_world import (
    LINUX,
    NOW,
    WINDOWS,
    app,
    candidate,
    catalogue,
    record,
    records,
    request,
    version,
)

from cobblestone.domain.apps import PlanClass
from cobblestone.domain.values import AppId, HostId, WorkunitId
from cobblestone.domain.work import JobLimits
from cobblestone.policy.dispatch.catalogue import Candidate
from cobblestone.policy.dispatch.choose import choose_work
from cobblestone.policy.dispatch.limits import DispatchLimits, quota_day
from cobblestone.policy.dispatch.request import ProjectPreferences, WorkRequest

APPS = 10
RESULTS = 2000
ROUNDS = 15
REQUESTS = 300

CLASSES = (
    PlanClass(name="mt", max_threads=4),
    PlanClass(name="cuda", gpu_type="NVIDIA", min_gpu_ram_mb=1000),
)
VERSIONS = [
    version(10 * number + kind, number, platform=platform, plan_class=plan_class, version_num=num)
    for number in range(1, APPS + 1)
    for kind, platform, plan_class, num in (
        (0, LINUX, "", 110),
        (1, LINUX, "mt", 110),
        (2, LINUX, "cuda", 110),
        (3, WINDOWS, "", 110),
        (4, LINUX, "", 100),
    )
]
OFFER = catalogue(*VERSIONS, apps=[app(n) for n in range(1, APPS + 1)], plan_classes=CLASSES)
CANDIDATES = [candidate(n, app_number=n % APPS + 1) for n in range(1, RESULTS + 1)]
HUGE = [
    candidate(n, app_number=n % APPS + 1, limits=JobLimits(rsc_memory_bound=64e9))
    for n in range(1, RESULTS + 1)
]
DAY = quota_day(HostId(1), NOW)
KNOWN = records(
    *(record(each.id, max_jobs_per_day=500, et_n=50, et_avg=2.5e-10, quota_day=DAY) for each in VERSIONS)
)
USED_UP = records(
    *(
        record(each.id, max_jobs_per_day=1, et_n=50, et_avg=2.5e-10, quota_day=DAY, n_jobs_today=1)
        for each in VERSIONS
    )
)
LIMITS = DispatchLimits()
NOBODY: frozenset[WorkunitId] = frozenset()

CASES = {
    "one job, host known": (request(seconds=1, records=KNOWN), CANDIDATES),
    "one job, new host": (request(seconds=1), CANDIDATES),
    "ten jobs, host known": (request(seconds=20 * 3600, records=KNOWN), CANDIDATES),
    "nothing: memory": (request(seconds=1, records=KNOWN), HUGE),
    "nothing: wrong platform": (request(seconds=1, platforms=("sparc-sun-solaris",)), CANDIDATES),
    "nothing: daily quota": (request(seconds=1, records=USED_UP), CANDIDATES),
    "nothing: app not selected": (
        request(seconds=1, preferences=ProjectPreferences(selected_apps=frozenset({AppId(99)}))),
        CANDIDATES,
    ),
    "nothing: no tasks": (request(seconds=1, records=KNOWN), []),
}


def microseconds(call: Callable[[], object], repeats: int) -> tuple[float, float]:
    rounds: list[float] = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(repeats):
            call()
        rounds.append((time.process_time() - start) / repeats * 1e6)
    return min(rounds), statistics.median(rounds)


def main() -> None:
    rng = random.Random(1)
    print(f"{'request':28} {'jobs':>5} {'best us':>9} {'median us':>10}")
    for name, (asked, offered) in CASES.items():

        def call(asked: WorkRequest = asked, offered: list[Candidate] = offered):
            return choose_work(
                asked, offered, OFFER, limits=LIMITS, already_at_user=lambda ids: NOBODY, now=NOW, rng=rng
            )

        jobs = len(call().assignments)
        best, median = microseconds(call, REQUESTS if jobs else 30)
        print(f"{name:28} {jobs:5} {best:9.1f} {median:10.1f}")


if __name__ == "__main__":
    main()
