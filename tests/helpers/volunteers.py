"""A project that has been running for some weeks: volunteers, computers, jobs in every state, credit, news.

What happens now goes through the real endpoints (see ``project_world``); only the history of credit is written at once.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tests.helpers.project_world import SimHost, World, failed

from cobblestone.domain.apps import App
from cobblestone.domain.reasons import reason
from cobblestone.domain.values import HostId, ResultId, TeamId, UserId, WorkunitId
from cobblestone.domain.work import JobLimits
from cobblestone.store.catalog import apps
from cobblestone.store.credit import ledger
from cobblestone.store.people import users

DAY = 86400.0
PASSWORD = "secret"

HARDWARE = (
    ("astra", "GenuineIntel", "Intel(R) Core(TM) i7-8700 CPU @ 3.20GHz", "Linux Debian", 12, 4.1e9),
    ("basalt", "AuthenticAMD", "AMD Ryzen 9 5950X 16-Core Processor", "Microsoft Windows 11", 32, 5.6e9),
    ("chert", "ARM", "BCM2835 Cortex-A72", "Linux Raspbian", 4, 0.7e9),
    ("diorite", "Apple", "Apple M2 Pro", "Darwin", 10, 6.2e9),
)


@dataclass(frozen=True, slots=True)
class Volunteers:
    """Keys and ids that tests ask for."""

    keys: dict[str, str]  #: account key by name
    hosts: dict[str, SimHost]  #: by name of the machine
    user_ids: dict[str, int]
    team_id: int
    results: dict[str, int]  #: a result of each kind: valid, invalid, error, waiting, in_progress


def email(name: str) -> str:
    """The address of an account made by `World.user`."""
    return f"{name}@example.org"


def populate(world: World, rng: random.Random) -> Volunteers:
    """Fill a project."""
    keys = {name: world.user(name) for name in ("ada", "bruno", "chandra", "dora")}
    user_ids = {
        name: int(world.value("SELECT id FROM user_account WHERE email_addr = ?", email(name)))
        for name in keys
    }
    team = world.write(
        lambda tx: users.create_team(tx, "Sunny Side Up", UserId(user_ids["ada"]), now=world.now)
    )
    world.write(lambda tx: users.join_team(tx, UserId(user_ids["bruno"]), TeamId(team.id)))
    world.write(
        lambda tx: tx.execute("UPDATE user_account SET show_hosts = 0 WHERE id = ?", (user_ids["dora"],))
    )
    hosts = {
        machine: world.host(
            keys[owner],
            domain_name=f"{machine}.local",
            p_vendor=vendor,
            p_model=model,
            os_name=system,
            os_version="6.1",
            p_ncpus=cpus,
            p_fpops=speed,
            p_iops=3 * speed,
        )
        for owner, (machine, vendor, model, system, cpus, speed) in zip(keys, HARDWARE, strict=True)
    }
    for host in hosts.values():
        host.rpc()
    earn(world, user_ids, hosts, rng)
    world.write(
        lambda tx: users.add_news(
            tx,
            "The first spectrum is complete",
            "All 309 years of sunspot numbers are done. The peak at eleven years stands out clearly; thank you!\n\n"
            "The second part, with finer steps, starts today.",
            now=world.now - 2 * DAY,
        )
    )
    world.write(
        lambda tx: users.add_news(
            tx,
            "Short pause on Sunday",
            "The server moves to a larger disk. Your computers will wait for it by themselves.",
            now=world.now - 3600,
        )
    )
    return Volunteers(
        keys=keys, hosts=hosts, user_ids=user_ids, team_id=team.id, results=work_through(world, hosts)
    )


def earn(world: World, user_ids: dict[str, int], hosts: dict[str, SimHost], rng: random.Random) -> None:
    """Credit of the last weeks, as if granted on those days."""
    start = world.now - 35 * DAY
    number = 1_000_000
    owners = list(user_ids.values())
    for day in range(35):
        entries: list[ledger.CreditEntry] = []
        for owner, host, scale in zip(owners, hosts.values(), (1.0, 2.4, 0.2, 1.3), strict=True):
            for _ in range(rng.randrange(0, 5)):
                number += 1
                amount = scale * rng.uniform(20, 90)
                entries.append(
                    ledger.CreditEntry(
                        result_id=ResultId(number),
                        workunit_id=WorkunitId(number),
                        host_id=HostId(host.id),
                        user_id=UserId(owner),
                        app_version_id=None,
                        system="benchmark",
                        claimed=amount,
                        granted=amount,
                        unit=200.0,
                        work_start=start + (day - 1) * DAY,
                        reasons=(reason("mean", "Mean of {n} claims.", n=2),),
                    )
                )
        world.write(grant_at(entries, start + day * DAY))
    world.now = start + 35 * DAY


def grant_at(entries: list[ledger.CreditEntry], now: float) -> Callable[[Any], int]:
    return lambda tx: ledger.grant(tx, entries, now=now)


def work_through(world: World, hosts: dict[str, SimHost]) -> dict[str, int]:
    """Jobs in every state; a result of each kind."""
    limits = JobLimits(rsc_fpops_est=40e12, delay_bound=5 * DAY)
    spectrum = world.add_app("spectrum", quorum=2, limits=limits)
    mersenne = world.add_app("mersenne", quorum=1, limits=limits)
    for app, title in ((spectrum, "Sunspot spectrum"), (mersenne, "Mersenne primes")):
        entitle(world, app, title)
    astra, basalt, chert, diorite = hosts.values()
    kinds: dict[str, str] = {}

    world.add_jobs(spectrum, 4)
    world.now += 60
    pairs = {host: fetch(host) for host in (astra, basalt)}
    world.now += 5400
    names = pairs[astra]
    done = [astra.finish(name, b"peak 11.1", cpu_time=4980.0) for name in names]
    astra.rpc(reports=done)
    world.now += 600
    others = pairs[basalt]
    basalt.rpc(
        reports=[
            basalt.finish(name, b"peak 10.4" if place == 0 else b"peak 11.1", cpu_time=3120.0)
            for place, name in enumerate(others)
        ]
    )
    world.settle()
    world.now += 900
    judge = fetch(diorite)  # the third result, which decides
    world.now += 3000
    diorite.rpc(reports=[diorite.finish(name, b"peak 11.1", cpu_time=2900.0) for name in judge])
    world.settle()
    kinds["valid"], kinds["invalid"] = names[0], others[0]

    world.add_jobs(mersenne, 2)
    broken = fetch(chert)
    world.now += 700
    stderr = (
        "07:45:12 (8113): starting period.py\n"
        "Traceback (most recent call last):\n"
        '  File "period.py", line 41, in <module>\n'
        "MemoryError: cannot allocate <2.1 GB>\n"
        "07:51:40 (8113): called boinc_finish(1)\n"
    )
    chert.rpc(reports=[failed(name, exit_status=1, stderr=stderr) for name in broken])
    kinds["error"] = broken[0]

    world.settle()
    world.add_jobs(spectrum, 6)
    waiting = fetch(astra)
    world.now += 4000
    astra.rpc(reports=[astra.finish(name, b"peak 11.1", cpu_time=3900.0) for name in waiting[:3]])
    world.settle()
    kinds["waiting"], kinds["in_progress"] = waiting[0], waiting[-1]
    world.now += 60
    return {
        kind: int(world.value("SELECT id FROM result WHERE name = ?", name)) for kind, name in kinds.items()
    }


def entitle(world: World, app: App, title: str) -> None:
    world.write(lambda tx: apps.update_app(tx, replace(app, user_friendly_name=title)))


def fetch(host: SimHost) -> list[str]:
    """Ask for work; the names of what came."""
    host.rpc(ask=20_000.0)
    return host.new_results()
