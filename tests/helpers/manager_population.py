"""Computers of an account manager and projects that run dry, over the functions that the manager itself uses."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from cobblestone.domain.values import DAY, changed
from cobblestone.policy.account_manager.selection import (
    Balance,
    CandidateProject,
    OfferedVersion,
    SelectedFor,
    Selection,
    Wishes,
    expected_work,
    next_dryness,
    select_projects,
)

LINUX, WINDOWS = "x86_64-pc-linux-gnu", "windows_x86_64"
SCIENCES = (1, 2, 3)


@dataclass(slots=True)
class Machine:
    """A computer, what it works for, and what of that is expected."""

    computer: SelectedFor
    wishes: Wishes
    rates: dict[str, float]
    selection: Selection | None = None
    expected: dict[int, float] | None = None


@dataclass(slots=True)
class World:
    """Projects and computers; `run` lets them meet."""

    projects: list[CandidateProject]
    machines: list[Machine]
    rng: random.Random
    dry_part: float = 0.15
    dry_days: float = 2.0

    def run(self, days: int) -> dict[int, float]:
        """Return the credit of each project after so many days with one contact of each computer a day.

        In the last week no project runs dry any more: what is measured is whether those that returned got their share.
        """
        balances = {project.id: Balance() for project in self.projects}
        credit = dict.fromkeys(balances, 0.0)
        dry_until = dict.fromkeys(balances, 0.0)
        chance = self.dry_part / (1 - self.dry_part) / (self.dry_days * 24)
        for hour in range(days * 24):
            now = hour * 3600.0
            for id_ in balances:
                if now >= dry_until[id_] and hour < (days - 7) * 24 and self.rng.random() < chance:
                    dry_until[id_] = now + self.dry_days * DAY
            dry = {id_ for id_, until in dry_until.items() if until > now}
            for machine in self.machines[hour % 24 :: 24]:
                self._contact(machine, balances, credit, dry, now)
        return credit

    def _contact(
        self,
        machine: Machine,
        balances: dict[int, Balance],
        credit: dict[int, float],
        dry: set[int],
        now: float,
    ) -> None:
        done: dict[int, float] = {}
        in_vain: set[tuple[int, str]] = set()
        if machine.selection is not None:
            done, in_vain = self._computed(machine, dry)
            self._learn(machine.selection, in_vain)
        self.projects = [changed(project, work=balances[project.id].at(now)) for project in self.projects]
        jitter = [self.rng.random() for _ in self.projects]
        computer = replace(machine.computer, in_vain=frozenset(in_vain))
        selection = select_projects(self.projects, machine.wishes, computer, jitter=jitter)
        expected = expected_work(selection, machine.rates, DAY)
        before = machine.expected or {}
        for id_ in {*before, *expected, *done}:
            change = expected.get(id_, 0.0) - before.get(id_, 0.0)
            balances[id_] = balances[id_].changed(done=done.get(id_, 0.0), expected=change, now=now)
            credit[id_] += done.get(id_, 0.0)
        machine.selection, machine.expected = selection, expected

    def _learn(self, selection: Selection, in_vain: set[tuple[int, str]]) -> None:
        for place, project in enumerate(self.projects):
            for choice in selection.chosen:
                if choice.project_id == project.id:
                    dryness = dict(project.dryness)
                    for device in choice.devices:
                        vain = (project.id, device) in in_vain
                        if vain or not choice.reserve:
                            dryness[device] = next_dryness(dryness.get(device, 0.0), in_vain=vain)
                    self.projects[place] = changed(project, dryness=dryness)

    def _computed(self, machine: Machine, dry: set[int]) -> tuple[dict[int, float], set[tuple[int, str]]]:
        """What a client does in a day: each device for the projects with work, the reserve last."""
        assert machine.selection is not None
        done: dict[int, float] = {}
        in_vain: set[tuple[int, str]] = set()
        for device, rate in machine.rates.items():
            able = [choice for choice in machine.selection.chosen if device in choice.devices]
            in_vain.update((choice.project_id, device) for choice in able if choice.project_id in dry)
            with_work = [choice for choice in able if choice.project_id not in dry]
            first = [choice for choice in with_work if not choice.reserve] or with_work
            for choice in first:
                part = rate * DAY * self.rng.uniform(0.7, 1.1) / len(first)
                done[choice.project_id] = done.get(choice.project_id, 0.0) + part
        return done, in_vain


def make_world(n_machines: int, seed: int, *, shares: tuple[float, ...] = (5, 3, 2, 2, 2)) -> World:
    """Machines of different speeds and choices, projects for some platforms and devices."""
    rng = random.Random(seed)
    everywhere = frozenset(
        OfferedVersion(platform, device) for platform in (LINUX, WINDOWS) for device in ("CPU", "NVIDIA")
    )
    projects = [
        CandidateProject(
            id=number,
            name=f"project {number}",
            share=share,
            keywords={SCIENCES[number % 3]: 1.0 if number % 2 else 0.5},
            versions=everywhere
            if number % 3
            else frozenset(version for version in everywhere if version.device == "CPU"),
        )
        for number, share in enumerate(shares, start=1)
    ]
    machines = [_machine(rng) for _ in range(n_machines)]
    return World(projects=projects, machines=machines, rng=rng)


def _machine(rng: random.Random) -> Machine:
    gpu = rng.random() < 0.3
    devices = ("CPU", "NVIDIA") if gpu else ("CPU",)
    rates = {"CPU": rng.lognormvariate(0.0, 1.0)}
    if gpu:
        rates["NVIDIA"] = 5 * rng.lognormvariate(0.0, 1.0)
    liked = rng.random()
    return Machine(
        computer=SelectedFor(platforms=frozenset({rng.choice((LINUX, WINDOWS))}), devices=devices),
        wishes=Wishes(
            yes=frozenset({rng.choice(SCIENCES)}) if liked < 0.1 else frozenset(),
            no=frozenset({rng.choice(SCIENCES)}) if liked > 0.9 else frozenset(),
        ),
        rates=rates,
    )
