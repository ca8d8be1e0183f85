"""Clients that vanish, repeat and lie, and a clock that jumps: every job finishes, and nothing is credited twice."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.helpers.project_world import SimHost, World, failed, plain, succeeded

from cobblestone.domain.work import JobLimits
from cobblestone.policy.lifecycle.states import check_invariants
from cobblestone.server.credit.ledger_audit import recompute
from cobblestone.store.catalog import apps
from cobblestone.store.work import lifecycle
from cobblestone.wire.scheduler.report import ReportedResult

DAY = 86_400.0
N_JOBS = 25
ROUNDS = 60
ABSURD = [math.nan, math.inf, -math.inf, -1.0, 1e300, 1e304, 5e-324]

Behaviour = Callable[[SimHost, random.Random], list[ReportedResult]]


def answer_of(name: str) -> bytes:
    return f"answer of {name.rpartition('_')[0]}".encode()


def honest(host: SimHost, rng: random.Random) -> list[ReportedResult]:
    return [host.finish(name, answer_of(name)) for name in list(host.held)]


def vanishes(host: SimHost, rng: random.Random) -> list[ReportedResult]:
    """Uploads perhaps, and is not seen again."""
    for name in list(host.held):
        if rng.random() < 0.5:
            host.finish(name, answer_of(name))
    host.held.clear()
    return []


def repeats(host: SimHost, rng: random.Random) -> list[ReportedResult]:
    """Reports everything several times over, in one request too."""
    return honest(host, rng) * 3


def lies_about_numbers(host: SimHost, rng: random.Random) -> list[ReportedResult]:
    return [
        replace(
            report,
            final_cpu_time=rng.choice(ABSURD),
            final_elapsed_time=rng.choice(ABSURD),
            fpops_cumulative=rng.choice(ABSURD),
        )
        for report in honest(host, rng)
    ]


def lies_about_answers(host: SimHost, rng: random.Random) -> list[ReportedResult]:
    return [host.finish(name, f"not {name}".encode()) for name in list(host.held)]


def claims_without_answer(host: SimHost, rng: random.Random) -> list[ReportedResult]:
    return [succeeded(name, b"none") for name in list(host.held)]


def breaks(host: SimHost, rng: random.Random) -> list[ReportedResult]:
    return [failed(name, exit_status=rng.choice([1, -9, 195, 2**31 - 1])) for name in list(host.held)]


def invents(host: SimHost, rng: random.Random) -> list[ReportedResult]:
    """Reports results of others and such as never were."""
    return [succeeded(f"demo_{rng.randrange(60)}_{rng.randrange(4)}", b"x") for _ in range(5)]


CROWD: list[Behaviour] = [
    vanishes,
    repeats,
    lies_about_numbers,
    lies_about_answers,
    claims_without_answer,
    breaks,
    invents,
]


@pytest.mark.parametrize("seed", range(3))
def test_among_liars_and_jumping_clocks_every_job_ends_with_the_right_answer(
    make_world: Callable[..., World], seed: int
):
    rng = random.Random(seed)
    world = make_world(scheduler={"daily_result_quota": 1000})
    app = world.add_app(quorum=2, limits=JobLimits(rsc_fpops_est=1e12, delay_bound=2 * DAY))
    rules = replace(app.rules, max_error_results=50, max_total_results=100, max_success_results=100)
    world.write(lambda tx: apps.update_app(tx, replace(app, credit_system="creditnew-deployed", rules=rules)))
    world.add_jobs(replace(app, rules=rules), n=N_JOBS)
    good = [world.host(world.user(f"good{n}")) for n in range(3)]
    bad = [(world.host(world.user(f"bad{n}")), behaviour) for n, behaviour in enumerate(CROWD)]
    for turn in range(ROUNDS):
        world.now += rng.choice([60.0, 600.0, 3600.0, -30.0])
        if turn % 15 == 14:
            world.now += rng.choice([DAY, -DAY])  # somebody set the clock
        for host, behaviour in [*bad, *((host, honest) for host in good)]:
            if rng.random() < 0.4:
                reports = behaviour(host, rng)
                host.rpc(ask=rng.choice([0.0, 1.0, 1e4]), reports=reports, lose_reply=rng.random() < 0.2)
        world.settle()
    for _ in range(60):  # the honest ones stay, and end it
        if not world.value("SELECT COUNT(*) FROM workunit WHERE assimilate_state <> 2"):
            break
        world.now += 0.3 * DAY
        for host in good:
            host.rpc(ask=1e5, reports=honest(host, rng))
        world.settle()
    check(world)


def check(world: World) -> None:
    """Everything ended, rightly, and the books agree."""
    assert world.value("SELECT COUNT(*) FROM workunit WHERE assimilate_state <> 2") == 0
    assert world.query("SELECT id, error_mask FROM workunit WHERE error_mask <> 0") == []
    valid = world.query("SELECT id FROM result WHERE validate_state = 1 ORDER BY id")
    assert valid == world.query("SELECT result_id FROM credit_entry WHERE kind = 'grant' ORDER BY result_id")
    liar = world.value("SELECT id FROM user_account WHERE name = ?", f"Bad{CROWD.index(lies_about_answers)}")
    assert world.value("SELECT COUNT(*) FROM credit_entry WHERE user_id = ?", liar) == 0
    assert world.ctx.store.read(recompute).differences == []
    ids = [row[0] for row in world.query("SELECT id FROM workunit")]
    for view in world.ctx.store.read(lambda db: lifecycle.views(db, ids)):
        assert check_invariants(view) == []
    for table in ("host", "user_account", "app_version"):
        for row in world.query(f"SELECT total_credit, expavg_credit FROM {table}"):
            assert all(math.isfinite(value) and value >= 0 for value in row)
    twice = world.query(
        "SELECT 1 FROM result WHERE user_id IS NOT NULL GROUP BY workunit_id, user_id HAVING COUNT(*) > 1"
    )
    assert twice == []


def test_a_clock_that_jumps_back_a_day_stops_nothing(world: World):
    app = world.add_app(quorum=1)
    world.add_jobs(app)
    host = world.host(world.user("alice"))
    host.rpc(ask=1)
    (first,) = host.new_results()
    world.now -= DAY
    host.rpc(reports=[host.finish(first, b"one")])
    world.settle()
    world.add_jobs(app)
    world.now += 600
    host.rpc(ask=1)
    assert host.new_results(), [plain(text) for text in host.messages()]
    host.rpc(reports=honest(host, random.Random(1)))
    world.settle()
    assert world.query("SELECT assimilate_state FROM workunit") == [(2,), (2,)]
    assert world.value("SELECT COUNT(*) FROM credit_entry") == 2
