"""The cost of a statement does not grow with the project."""

from __future__ import annotations

from pathlib import Path

from tests.bench.bench_growth import LITTLE, Work, counted_sqlite, grown, measure
from tests.helpers.api_client import ApiClient
from tests.helpers.project_world import World

OF_ONE_OWNER = ("WHERE r.host_id = ", "WHERE r.user_id = ", "WHERE e.user_id = ", "WHERE e.host_id = ")
"""Pages about somebody's own tasks and credit read what he has of them."""
COUNTED = ("SELECT count(*) FROM host", "SELECT count(*) FROM user_account", "SELECT count(DISTINCT user_id)")
"""Readers count computers and volunteers, for pages, figures and ranks: a few milliseconds for 100,000."""

KEPT = ("SELECT total_credit, id FROM (SELECT", "SELECT expavg_credit, id FROM (SELECT")
"""Places in lists of more than 100,000, which are kept so that finding them takes a hundredth of the time."""


def test_no_statement_reads_more_when_many_more_results_are_finished_and_computers_known(tmp_path: Path):
    few = measure(tmp_path / "few", n=60_000)
    many = measure(tmp_path / "many", n=180_000, n_hosts=100_000)
    found = [
        f"{before:,.0f} -> {after:,.0f} steps in each of {calls} calls: {sql}"
        for before, after, calls, sql in grown(few, many, little=LITTLE["sqlite"])
        if not any(condition in sql for condition in OF_ONE_OWNER)
        and not sql.lower().startswith(tuple(map(str.lower, COUNTED)))
        and not (sql.startswith(KEPT) and calls == 1)
    ]
    assert not found, "\n".join(found)


def test_no_statement_of_a_submission_reads_more_when_the_batch_has_many_more_jobs(tmp_path: Path):
    def added(n: int) -> Work:
        world = World(tmp_path / str(n))
        api = ApiClient(world)
        api.add_app(command=["p", "{output}", "{arg:k}"])
        batch = api.post("/batches", {"app": "period", "open": True})
        jobs = [{"args": {"k": "3"}}] * 1000
        for first in range(0, n, 1000):
            api.post(f"/batches/{batch['id']}/jobs", {"first": first, "jobs": jobs})
        with counted_sqlite(world.ctx) as work:
            api.post(f"/batches/{batch['id']}/jobs", {"first": n, "jobs": jobs[:10]})
        world.close()
        return work

    assert not grown(added(1000), added(20_000), little=LITTLE["sqlite"])
