"""How fast jobs come in: through the API in requests of 1000, and through the store's verb alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from tests.helpers.api_client import ApiClient
from tests.helpers.project_world import World

from cobblestone.store.work import batches
from cobblestone.store.work.batches import NewJob
from cobblestone.wire.project.signatures import encode_private_key

ROUNDS = 3


def best_rate(work: Callable[[], int]) -> float:
    """Jobs per second, best of a few rounds: other programs can only make it slower."""
    rates: list[float] = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        count = work()
        rates.append(count / (time.perf_counter() - begin))
    return max(rates)


def test_the_api_takes_twenty_thousand_jobs_a_second(tmp_path: Path):
    world = World(tmp_path / "project")
    world.ctx.folder.code_sign_private.write_text(encode_private_key(world.key))
    api = ApiClient(world)
    api.add_app(command=["p", "{input}", "{output}", "{arg:k}"])
    file = api.put(b"{}")
    jobs = [
        {"name": f"job {n}", "inputs": [{"file": file, "file_name": "a.json"}], "args": {"k": str(n)}}
        for n in range(1000)
    ]
    batch = api.post("/batches", {"app": "period", "open": True})

    def submit() -> int:
        first = world.value("SELECT njobs FROM batch")
        for number in range(10):
            api.post(f"/batches/{batch['id']}/jobs", {"first": first + number * 1000, "jobs": jobs})
        return 10_000

    rate = best_rate(submit)
    print(f"\nthrough the API: {rate:,.0f} jobs/s")
    assert world.value("SELECT COUNT(*) FROM workunit") == ROUNDS * 10_000
    assert world.value("SELECT refs FROM file WHERE name = ?", file) == ROUNDS * 10_000
    world.close()
    assert rate > 20_000


def test_the_store_takes_fifty_thousand_jobs_a_second(tmp_path: Path):
    world = World(tmp_path / "project")
    app = world.add_app()
    jobs = [NewJob(label="n", command_line="--arg k=3", output_specs=app.output_specs)] * 500
    batch = world.write(lambda tx: batches.create_batch(tx, name="b", app_id=app.id, now=world.now))

    def submit() -> int:
        for _ in range(40):
            world.write(
                lambda tx: batches.add_jobs(
                    tx, batches.batch_by_id(tx, batch.id), app.name, jobs, now=world.now
                )
            )
        return 20_000

    rate = best_rate(submit)
    print(f"\nthrough the store: {rate:,.0f} jobs/s")
    assert world.value("SELECT njobs FROM batch") == ROUNDS * 20_000
    world.close()
    assert rate > 50_000
