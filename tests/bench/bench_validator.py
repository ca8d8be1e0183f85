"""Throughput of the validator with credit, in one process, with durable commits.

    python tests/bench/bench_validator.py [--workunits 6000] [--system creditnew-deployed] [--beside ledger]

Workunits of quorum 2 whose results are all reported, with two small outputs in the database; the real daemon validates
them: comparison, ledger with facts and reasons, statistics, totals and recent averages of host, user, team and app version.
The end is a check that every valid result has its entry and that the ledger's sum is everybody's total.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.helpers.project_world import World

from cobblestone.policy.credit.ledger_system.records import HostRecord
from cobblestone.server.daemons.validator import BATCH
from cobblestone.service.serving import tune_gc
from cobblestone.store.credit.ledger import IS_GRANT
from cobblestone.store.engine.mapping import to_json

N_USERS = 50
HOSTS_PER_USER = 20
N_TEAMS = 10


def fill(world: World, *, n: int, system: str) -> None:
    """Hosts with history, and ``n`` workunits of quorum 2 that wait for the validator."""
    rng = random.Random(1)
    app = world.add_app(quorum=2)
    hosts = N_USERS * HOSTS_PER_USER

    def make(tx: Any) -> None:
        now = world.now
        tx.execute("UPDATE app SET credit_system = ?, min_avg_pfc = 1.2", (system,))
        version = tx.value("SELECT MAX(id) FROM app_version")
        tx.execute("UPDATE app_version SET pfc_n = 500, pfc_avg = 1.3, pfc_scale = 0.9")
        tx.execute_many(
            "INSERT INTO team (name, name_lc, create_time, expavg_time) VALUES (?, ?, ?, ?)",
            [(f"t{i}", f"t{i}", now, now) for i in range(N_TEAMS)],
        )
        tx.execute_many(
            "INSERT INTO user_account (name, email_addr, authenticator, weak_authenticator, team_id, expavg_time)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            [(f"u{i}", f"u{i}@x", f"a{i}", f"w{i}", i % N_TEAMS + 1, now) for i in range(N_USERS)],
        )
        tx.execute_many(
            "INSERT INTO host (user_id, description, expavg_time) VALUES (?, ?, ?)",
            [
                (
                    i % N_USERS + 1,
                    json.dumps(
                        {
                            "domain_name": f"host{i}",
                            "p_ncpus": 8,
                            "p_fpops": 3e9 * rng.uniform(0.5, 2),
                            "p_iops": 9e9,
                            "p_model": "AMD Ryzen 7 5800X 8-Core Processor [Family 25 Model 33 Stepping 0]",
                            "p_features": "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov "
                            * 8,
                        }
                    ),
                    now,
                )
                for i in range(hosts)
            ],
        )
        tx.execute_many(
            "INSERT INTO host_app_version (host_id, app_version_id, max_jobs_per_day, pfc_n, pfc_avg, et_n,"
            " et_avg) VALUES (?, ?, 100, ?, ?, ?, ?)",
            [(i + 1, version, 30, rng.uniform(1, 2), 30, 4e-10) for i in range(hosts)],
        )
        known = HostRecord(scale=3e9, samples=30, variance=0.01, trusted=30.0, jobs=30)
        tx.execute_many(
            "INSERT INTO ledger_record (app_id, host_id, app_version_id, usage, state) VALUES (?, ?, ?, '', ?)",
            [(app.id, i + 1, version, to_json(known)) for i in range(hosts)],
        )
        tx.execute_many(
            "INSERT INTO workunit (name, app_id, output_specs, rsc_fpops_est, rsc_fpops_bound, min_quorum, target_nresults,"
            " max_error_results, max_total_results, max_success_results, need_validate)"
            " VALUES (?, ?, ?, 1e12, 1e14, 2, 2, 3, 10, 6, 1)",
            [(f"w{i}", app.id, '[{"open_name":"out"}]') for i in range(n)],
        )
        results: list[tuple[object, ...]] = []
        uploads: list[tuple[object, ...]] = []
        for i in range(n):
            first = rng.randrange(hosts)
            for k in range(2):
                host = (first + k * (hosts // 3 + 1)) % hosts
                id_ = len(results) + 1
                elapsed = rng.uniform(250, 500)
                results.append(
                    (
                        id_,
                        f"w{i}_{k}",
                        i + 1,
                        app.id,
                        host + 1,
                        host % N_USERS + 1,
                        version,
                        now - 900,
                        now - 10,
                        elapsed * 0.95,
                        elapsed,
                        3000000000.0,
                    )
                )
                uploads.append((f"w{i}_{k}_0", id_, 1000, f"{i:032x}", now))
        tx.execute_many(
            "INSERT INTO result (id, name, workunit_id, app_id, server_state, outcome, client_state, host_id, user_id,"
            " app_version_id, sent_time, received_time, cpu_time, elapsed_time, peak_flops)"
            " VALUES (?, ?, ?, ?, 5, 1, 5, ?, ?, ?, ?, ?, ?, ?, ?)",
            results,
        )
        tx.execute_many(
            "INSERT INTO upload (name, result_id, nbytes, md5, time) VALUES (?, ?, ?, ?, ?)", uploads
        )

    world.write(make)


def check(world: World, n: int) -> None:
    """Nothing is counted that was not done."""
    if world.value(f"SELECT COUNT(*) FROM credit_entry WHERE {IS_GRANT}") != 2 * n:
        raise SystemExit("some results have no ledger entry")
    total = world.value("SELECT SUM(granted) FROM credit_entry")
    for table in ("host", "user_account", "team", "app_version"):
        summed = world.value(f"SELECT SUM(total_credit) FROM {table}")
        if abs(summed - total) > 1e-9 * total:
            raise SystemExit(f"{table}: {summed}, but the ledger says {total}")


def measure(*, workunits: int, system: str) -> tuple[float, float]:
    """Workunits per second, and per second of CPU."""
    with tempfile.TemporaryDirectory(prefix="cobblestone-bench-") as folder:
        world = World(Path(folder) / "project", log={"level": "error"})
        fill(world, n=workunits, system=system)

        async def run() -> None:
            while await world.validator.step():
                pass

        asyncio.set_event_loop(world.loop)
        tune_gc()  # as the server does
        begin, cpu_begin = time.perf_counter(), time.process_time()
        world.run(run())
        took, cpu = time.perf_counter() - begin, time.process_time() - cpu_begin
        check(world, workunits)
        world.close()
    return workunits / took, workunits / cpu


def measure_in_turns(systems: Sequence[str], *, workunits: int = 2400) -> dict[str, float]:
    """Workunits per second of CPU under each system, of its best batch; the systems take turns, batch by batch.

    So a machine that is busy with other things for a while slows all of them.
    """
    best = dict.fromkeys(systems, 0.0)
    with tempfile.TemporaryDirectory(prefix="cobblestone-bench-") as folder, ExitStack() as stack:
        worlds: dict[str, World] = {}
        for system in systems:
            worlds[system] = world = World(Path(folder) / system, log={"level": "error"})
            stack.callback(world.close)
            fill(world, n=workunits, system=system)
        tune_gc()
        for _ in range(workunits // BATCH):
            for system, world in worlds.items():
                begin = time.process_time()
                n = world.run(world.validator.step())
                best[system] = max(best[system], n / (time.process_time() - begin))
    return best


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workunits", type=int, default=6000)
    parser.add_argument("--system", default="creditnew-deployed")
    parser.add_argument("--beside", help="another system, measured in turns with the first")
    arguments = parser.parse_args()
    if arguments.beside:
        found = measure_in_turns([arguments.system, arguments.beside], workunits=arguments.workunits)
        for system, cpu_rate in found.items():
            print(
                f"validate + credit, quorum 2, {system}: {cpu_rate:,.0f} workunits per CPU second, best batch"
            )
        return
    rate, cpu_rate = measure(workunits=arguments.workunits, system=arguments.system)
    print(
        f"validate + credit, quorum 2, {arguments.system}: {rate:,.0f} workunits/s, {cpu_rate:,.0f} per CPU second"
    )


if __name__ == "__main__":
    main()
