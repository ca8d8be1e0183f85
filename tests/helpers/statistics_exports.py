"""Exports of projects that do not exist: people who compute at several of them, day after day."""

from __future__ import annotations

import gzip
import hashlib
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from cobblestone.domain.exports import (
    BadgeHolder,
    Deletion,
    ExportedBadge,
    ExportedHost,
    ExportedTable,
    ExportedTeam,
    ExportedUser,
    ExportSummary,
)
from cobblestone.domain.hosts import Coprocessor, ExportedHardware
from cobblestone.domain.statistics import CreditStatement, RecentAverage
from cobblestone.domain.values import HostId, TeamId, UserId
from cobblestone.wire.project.statistics_export import (
    write_badge_holder,
    write_head,
    write_host,
    write_host_deletion,
    write_tables,
    write_tail,
    write_team,
    write_user,
    write_user_deletion,
)

DAY = 86400.0
COUNTRIES = ("Germany", "France", "Slovakia", "United States", "Japan", "")
SYSTEMS = ("Microsoft Windows 10", "Linux Debian", "Darwin", "Android")
PROCESSORS = (
    "Intel(R) Core(TM) i7-8700 CPU @ 3.20GHz [Family 6]",
    "AMD Ryzen 9 5950X 16-Core Processor",
    "ARMv8",
)


def cpid(*parts: object) -> str:
    return hashlib.md5("/".join(map(str, parts)).encode()).hexdigest()


@dataclass(frozen=True)
class Export:
    """What a project says on one day."""

    time: float
    users: Sequence[ExportedUser] = ()
    hosts: Sequence[ExportedHost] = ()
    teams: Sequence[ExportedTeam] = ()
    deleted_users: Sequence[Deletion] = ()
    deleted_hosts: Sequence[Deletion] = ()
    badges: Sequence[ExportedBadge] = ()
    user_badges: Sequence[BadgeHolder] = ()
    team_badges: Sequence[BadgeHolder] = ()

    def documents(self) -> dict[str, bytes]:
        """All files, by name."""
        tables: dict[ExportedTable, Iterable[str]] = {
            ExportedTable.USER: map(write_user, self.users),
            ExportedTable.HOST: map(write_host, self.hosts),
            ExportedTable.TEAM: map(write_team, self.teams),
            ExportedTable.USER_DELETED: map(write_user_deletion, self.deleted_users),
            ExportedTable.HOST_DELETED: map(write_host_deletion, self.deleted_hosts),
            ExportedTable.BADGE_USER: map(
                partial(write_badge_holder, ExportedTable.BADGE_USER), self.user_badges
            ),
            ExportedTable.BADGE_TEAM: map(
                partial(write_badge_holder, ExportedTable.BADGE_TEAM), self.team_badges
            ),
        }
        files = {
            f"{table}.gz": gzip.compress(
                (write_head(table) + "".join(rows) + write_tail(table)).encode(), 1, mtime=0
            )
            for table, rows in tables.items()
        }
        summary = ExportSummary(
            update_time=self.time,
            n_users=len(self.users),
            n_hosts=len(self.hosts),
            n_teams=len(self.teams),
            badges=tuple(self.badges),
        )
        return {"tables.xml": write_tables(summary).encode(), **files}

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in self.documents().items():
            (folder / name).write_bytes(data)


def user(
    number: int,
    name: str,
    total: float,
    time: float,
    *,
    cpid: str = "",
    recent: float = 100.0,
    team: int = 0,
    country: str = "",
) -> ExportedUser:
    return ExportedUser(
        id=UserId(number),
        name=name,
        create_time=1.5e9 + number,
        credit=CreditStatement(total, RecentAverage(recent, time)),
        cpid=cpid,
        country=country,
        team_id=TeamId(team) if team else None,
    )


def host(
    number: int,
    owner: int,
    total: float,
    time: float,
    *,
    cpid: str = "",
    recent: float = 50.0,
    model: str = PROCESSORS[0],
    system: str = SYSTEMS[0],
    gpus: Sequence[str] = (),
) -> ExportedHost:
    return ExportedHost(
        id=HostId(number),
        user_id=UserId(owner),
        credit=CreditStatement(total, RecentAverage(recent, time)),
        create_time=1.5e9 + number,
        rpc_time=time,
        host_cpid=cpid,
        hardware=ExportedHardware(
            p_ncpus=8,
            p_vendor="V",
            p_model=model,
            os_name=system,
            p_fpops=4e9,
            coprocessors=tuple(Coprocessor(type="NVIDIA", name=name) for name in gpus),
        ),
    )


def team(number: int, name: str, total: float, time: float, *, recent: float = 300.0) -> ExportedTeam:
    return ExportedTeam(
        id=TeamId(number),
        name=name,
        credit=CreditStatement(total, RecentAverage(recent, time)),
        create_time=1.5e9,
        country="Germany",
    )


def population(number: int, *, n_users: int, time: float, n_people: int | None = None) -> Export:
    """The export of project ``number``: its users are some of ``n_people`` who compute at several projects."""
    rng = random.Random(number)
    people = rng.sample(range(n_people or 3 * n_users), n_users)
    users, hosts = [], []
    n_teams = max(1, n_users // 20)
    for place, person in enumerate(people, 1):
        total = rng.paretovariate(0.8) * 1000
        recent = total / 300 if rng.random() < 0.3 else 0.0
        users.append(
            user(
                place,
                f"Person {person}",
                total,
                time - rng.random() * DAY,
                cpid=cpid("person", person),
                recent=recent,
                team=rng.randint(0, n_teams),
                country=COUNTRIES[person % len(COUNTRIES)],
            )
        )
        hosts.append(
            host(
                place,
                place,
                total,
                time - rng.random() * DAY,
                cpid=cpid("host", person),
                recent=recent,
                model=PROCESSORS[person % 3] + f" {person % 50}",
                system=SYSTEMS[person % 4],
                gpus=[f"Model {person % 7}"] if person % 3 == 0 else (),
            )
        )
    teams = [
        team(place, f"Team {place}", rng.paretovariate(0.8) * 1e4, time) for place in range(1, n_teams + 1)
    ]
    return Export(time, users, hosts, teams)


def next_day(export: Export) -> Export:
    """What the project says a day later: who computes has more."""
    time = export.time + DAY

    def later(statement: CreditStatement) -> CreditStatement:
        recent = statement.recent
        if not recent.value:
            return statement
        return CreditStatement(statement.total + recent.value, RecentAverage(recent.value, time))

    return replace(
        export,
        time=time,
        users=[replace(each, credit=later(each.credit)) for each in export.users],
        hosts=[replace(each, credit=later(each.credit)) for each in export.hosts],
        teams=[replace(each, credit=later(each.credit)) for each in export.teams],
    )
