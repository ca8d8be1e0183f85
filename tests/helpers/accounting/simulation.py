"""Simulation of accounting: honest people and cheats at one manager and several projects, for weeks.

It draws people and projects; everything that is decided about credit is decided by the functions that a running manager calls:
`count_contact` for what is claimed, the three policies for what is granted, `target_of` and `follow` for what is shown.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tests.helpers.accounting.identities import (
    PROJECT_IDS,
    WAYS,
    AccountIdentity,
    Costs,
    HostIdentity,
    new_account,
)
from tests.helpers.accounting.people import (
    ATTACKS,
    Attack,
    Habit,
    SampleAccount,
    SampleComputer,
    SampleJob,
    SampleProject,
    answers_now,
    draw_computer,
)

from cobblestone.domain.values import DAY, float_sum
from cobblestone.policy.account_manager.accounting import (
    CREDIT_PER_FLOP,
    NOTHING,
    YOUNG_SECONDS,
    Amounts,
    HostLimits,
    speed_limit,
)
from cobblestone.policy.account_manager.accounting_policies import bounded, starter_of_new

TICK = DAY / 2
START = 20_000 * DAY
CPU_FLOPS, GPU_FLOPS = 1e10, 2e13
LONGEST_LIST = 60
"""Abandoned identities that a cheat keeps up, at most: more would only be slower."""
HONEST = Attack(name="honest", says="")
YEAR = 365 * DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationPlan:
    """The parameters of a simulation."""

    hosts: int = 20_000
    cheats: int = 30  #: of each kind, each with an honest twin
    days: float = 30.0
    settle_days: float = 26.0  #: after everyone stopped: does the figure converge?
    seed: int = 1
    unvouched: frozenset[SampleProject] = frozenset((SampleProject.FRIENDLY,))


@dataclass(slots=True, kw_only=True)
class _Work:
    """The work of a computer for one project."""

    job: SampleJob | None = None
    left: float = 0.0  #: seconds of all CPUs
    fails: bool = False
    unreported: list[SampleJob] = field(default_factory=list[SampleJob])


@dataclass(slots=True, kw_only=True)
class Person:
    """A person with one computer."""

    computer: SampleComputer
    attack: Attack
    rng: random.Random  #: of what happens
    lies: random.Random  #: of what is said of it: so a twin lives the same
    names: Iterator[int]
    speed_of_model: float = CPU_FLOPS
    accounts: list[AccountIdentity] = field(default_factory=list[AccountIdentity])
    work: dict[SampleProject, _Work] = field(default_factory=dict[SampleProject, _Work])
    shown: dict[str, array[float]] = field(
        default_factory=lambda: {way: array("d") for way in (*WAYS, "estimate")}
    )
    granted: array[float] = field(default_factory=lambda: array("d"))
    paused: dict[str, float] = field(default_factory=lambda: dict.fromkeys(WAYS, 0.0))  #: longest, days
    _since: dict[str, float] = field(default_factory=dict[str, float])
    _starters: float = 0.0
    _n: int = 0

    def tick(self, plan: SimulationPlan, costs: Costs, strangers: Sequence[str], *, now: float) -> None:
        """Advance to ``now``, with a contact at the end."""
        working = now - START <= plan.days * DAY and now <= self.computer.stops
        self._change_identities(working, now=now)
        done = self._compute(now=now) if working else {}
        first = max(0, len(self.accounts) - LONGEST_LIST)
        ask = (self._n + id_of(self)) % 2 == 0
        for account in self.accounts[first:]:
            self._contacts(account, done if account is self.accounts[-1] else {}, working, now=now)
            if self.attack.strangers:
                for name in strangers[:20]:
                    account.list_job(PROJECT_IDS[SampleProject.USUAL], name)
            for project, id_ in PROJECT_IDS.items() if ask else ():
                if answers_now(project, now, start=START):
                    account.ask(id_, costs, now=now, jobs_side_by_side=self.computer.cpus)
            account.update(frozenset(PROJECT_IDS[each] for each in plan.unvouched), now=now)
        self._note(working, now=now)
        self._n += 1

    # -- identities -------------------------------------------------------------------------------------

    def _change_identities(self, working: bool, *, now: float) -> None:
        attack = self.attack
        if not self.accounts:
            shared = {PROJECT_IDS[each]: self._at_project(each) for each in self._projects()}
            self._add_account(dict(shared), now=now)
            for _ in range(attack.shared - 1):  # the manager takes an account of a project once
                self._add_account(dict.fromkeys(shared), now=now)
            self.accounts.reverse()
        elif working and attack.account_days and self._n % round(attack.account_days * 2) == 0:
            self._add_account(
                {PROJECT_IDS[each]: self._at_project(each) for each in self._projects()}, now=now
            )
        elif working and attack.host_ticks and len(self.accounts[-1].hosts) < LONGEST_LIST:
            self.accounts[-1].hosts.append(HostIdentity(joined=now))

    def _add_account(self, projects: dict[int, SampleAccount | None], *, now: float) -> None:
        starter = starter_of_new(0.0 if self.attack.own_blocks else self._starters)
        self._starters += starter
        if self.attack.strangers:
            projects = dict.fromkeys(projects)
            projects[PROJECT_IDS[SampleProject.USUAL]] = self._at_project(SampleProject.USUAL)
        account = new_account(projects, starter=starter, now=now)
        account.hosts.append(HostIdentity(joined=now))
        self.accounts.append(account)

    def _at_project(self, project: SampleProject) -> SampleAccount:
        return SampleAccount(project=project, opaque=f"{next(self.names):x}")

    def _projects(self) -> tuple[SampleProject, ...]:
        if self.attack.friendly:
            return (self.computer.projects[0], SampleProject.FRIENDLY)
        return self.computer.projects

    # -- work -------------------------------------------------------------------------------------------

    def _compute(self, *, now: float) -> dict[int, Amounts]:
        """Compute until now; return what was done, by project."""
        computer, account = self.computer, self.accounts[-1]
        busy = TICK * min(1.0, max(0.0, self.rng.gauss(computer.on, 0.15))) * self.attack.works
        done: dict[int, Amounts] = {}
        projects = self._projects()
        for project in projects:
            there = account.projects.get(PROJECT_IDS[project])
            if there is None:
                continue
            work, left, jobs = self.work.setdefault(project, _Work()), busy / len(projects), [0, 0]
            while left > 0 and not self.attack.hoards:
                if work.job is None:
                    self._fetch(work, there, now=now - min(TICK, left))
                spent = min(left, work.left)
                left, work.left = left - spent, work.left - spent
                if work.left <= 0:
                    self._finish(work, there, now=now - min(TICK, left))
                    jobs[work.fails] += computer.cpus
            if self.attack.hoards and len(there.open) < 20:
                self._fetch(work, there, now=now)
            self._list(work, account, project, now=now)
            seconds = busy / len(projects) * computer.cpus
            done[PROJECT_IDS[project]] = Amounts(
                seconds * computer.flops * CREDIT_PER_FLOP, seconds, 0.0, 0.0, jobs[0], jobs[1]
            )
        return done

    def _fetch(self, work: _Work, there: SampleAccount, *, now: float) -> None:
        computer, rng = self.computer, self.rng
        seconds = computer.job_seconds * rng.lognormvariate(0.0, 0.3)
        habit = computer.habit
        work.fails = habit is Habit.FAILING and rng.random() < 0.1
        noise, early = rng.random() < self.attack.noise, habit is Habit.EARLY and rng.random() < 0.2
        credit = seconds * computer.credit_per_second * computer.efficiency * rng.lognormvariate(0.0, 0.1)
        part = 1 / 3 if early else 1.0
        work.left = max(60.0, seconds * part)
        valid = not (work.fails or noise)
        work.job = there.send(credit * part, credit, valid=valid, now=now)
        work.unreported.append(work.job)

    def _finish(self, work: _Work, there: SampleAccount, *, now: float) -> None:
        if work.job is not None:
            there.receive(work.job, self.rng, now=now + self.rng.expovariate(1 / 10_800))
        work.job = None

    def _list(self, work: _Work, account: AccountIdentity, project: SampleProject, *, now: float) -> None:
        """Show the manager the jobs that the client has at its contact."""
        work.unreported = [job for job in work.unreported if job.reported > now]
        for job in work.unreported:
            account.list_job(PROJECT_IDS[project], job.name)

    # -- what is told -----------------------------------------------------------------------------------

    def _contacts(
        self, account: AccountIdentity, done: Mapping[int, Amounts], working: bool, *, now: float
    ) -> None:
        for there in account.projects.values():
            if there is not None:
                there.decide(now)
                if there.project is SampleProject.REVOKING and 20 * DAY < now - START <= 20 * DAY + TICK:
                    there.revoke_some(self.rng, now=now)
        counted: dict[int, float] = {}
        for host in account.hosts if working else ():
            current = account is self.accounts[-1] and host is account.hosts[-1]
            claims = (
                self._claims(done) if current and not self.attack.claims_idle else self._idle_claims(account)
            )
            reports = self._reports(host, claims, account)
            for id_, credit in host.contact(reports, self._limits(host, now), now=now).items():
                counted[id_] = counted.get(id_, 0.0) + credit
        account.claim(counted, now=now)

    def _claims(self, done: Mapping[int, Amounts]) -> dict[int, Amounts]:
        """Return the client's claims, from what it did."""
        attack = self.attack
        if attack.every_project:
            each = Amounts(*(len(done) * part for part in next(iter(done.values()), NOTHING).astuple()))
            done = dict.fromkeys(done, each)
        lies = attack.lies_in >= 1 or self.lies.random() < attack.lies_in
        time, speed = (attack.time, attack.speed) if lies else (1.0, 1.0)
        return {
            id_: Amounts(
                bounded(each.cpu_ec * time * speed),
                each.cpu_time * time,
                attack.gpus * TICK * 1e14 * CREDIT_PER_FLOP,
                attack.gpus * TICK,
                each.njobs_success * time,
                each.njobs_error,
            )
            for id_, each in done.items()
        }

    def _idle_claims(self, account: AccountIdentity) -> dict[int, Amounts]:
        """Return the claims of a client that only talks to the manager."""
        ids = list(account.projects)
        seconds = TICK * self.computer.cpus / len(ids)
        each = Amounts(seconds * self.computer.flops * CREDIT_PER_FLOP, seconds, 0.0, 0.0, 1.0, 0.0)
        return dict.fromkeys(ids, each)

    def _reports(
        self, host: HostIdentity, claims: Mapping[int, Amounts], account: AccountIdentity
    ) -> dict[int, Amounts]:
        before = dict(host.totals)
        for id_ in account.projects:
            host.totals[id_] = host.totals.get(id_, NOTHING) + claims.get(id_, NOTHING)
        if self.attack.totals == "restart":
            host.totals = {id_: claims.get(id_, NOTHING) for id_ in account.projects}
        elif self.attack.totals == "replay" and self._n % 2 and before:
            return {id_: Amounts(*(part / 2 for part in each.astuple())) for id_, each in before.items()}
        elif self.attack.totals == "leap" and self._n % 6 == 3:
            ahead = Amounts(YEAR * self.computer.credit_per_second, YEAR * self.computer.cpus)
            return {id_: each + ahead for id_, each in host.totals.items()}
        return host.totals

    def _limits(self, host: HostIdentity, now: float) -> HostLimits:
        n_young = sum(
            each.joined > now - YOUNG_SECONDS for account in self.accounts for each in account.hosts
        )
        return HostLimits(
            ncpus=self.attack.cpus or self.computer.cpus,
            ngpus=self.attack.gpus,
            cpu_flops=self.speed_of_model,
            gpu_flops=GPU_FLOPS,
            n_young=1 if self.attack.own_blocks else max(1, n_young),
        )

    # -- what is seen -----------------------------------------------------------------------------------

    def _note(self, working: bool, *, now: float) -> None:
        self.granted.append(float_sum(account.granted() for account in self.accounts))
        self.shown["estimate"].append(float_sum(float_sum(each.estimates.values()) for each in self.accounts))
        for way in WAYS:
            before = self.shown[way][-1] if self.shown[way] else 0.0
            shown = float_sum(account.ways[way].shown(now) for account in self.accounts)
            self.shown[way].append(shown)
            confirmed = any(account.ways[way].target.final > 0 for account in self.accounts)
            if shown > before + 0.005 or not working or not confirmed:
                self._since[way] = now
            self.paused[way] = max(self.paused[way], (now - self._since.get(way, now)) / DAY)

    def fall(self, way: str) -> float:
        """Return the largest fall of any account's figure."""
        return 0.0 if way == "estimate" else max(account.ways[way].fall for account in self.accounts)


def id_of(person: Person) -> int:
    """Return a constant number for spreading requests over the day."""
    return person.computer.cpus + int(person.computer.job_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOutcome:
    """The outcome for all people."""

    plan: SimulationPlan
    honest: list[Person]
    twins: dict[str, list[tuple[Person, Person]]]  #: cheat and honest twin, by attack
    costs: Costs
    host_days: float


def simulate(plan: SimulationPlan, *, attacks: Sequence[Attack] = ATTACKS) -> SimulationOutcome:
    """Simulate; equal plans give equal outcomes."""
    rng = random.Random(plan.seed)
    names = iter(range(1, 1 << 60))
    computers = [draw_computer(rng, start=START, days=plan.days) for _ in range(plan.hosts)]
    speeds = _speeds(computers)

    def person(computer: SampleComputer, attack: Attack, seed: int) -> Person:
        peers = [each for each in speeds[computer.model] if each != computer.flops][:50]
        return Person(
            computer=computer,
            attack=attack,
            rng=random.Random(seed),
            lies=random.Random(seed + 1),
            names=names,
            speed_of_model=speed_limit(peers, CPU_FLOPS),
        )

    costs = Costs()
    n_cheats = 2 * plan.cheats * len(attacks)
    seeds = [rng.getrandbits(48) for _ in computers]
    plain = iter(range(len(computers)))
    twins: dict[str, list[tuple[Person, Person]]] = {}
    for attack in attacks if plan.cheats else ():
        pairs = twins.setdefault(attack.name, [])
        for number in (next(plain) for _ in range(plan.cheats)):
            computer = replace(computers[number], habit=Habit.PLAIN, stops=START + plan.days * DAY)
            if attack.every_project:
                computer = replace(
                    computer, projects=(SampleProject.PROMPT, SampleProject.USUAL, SampleProject.REVOKING)
                )
            pair = (person(computer, attack, seeds[number]), person(computer, HONEST, seeds[number]))
            _live(pair[0], plan, Costs(), names)
            _live(pair[1], plan, Costs(), names)
            pairs.append(pair)
    honest: list[Person] = []
    for number in range(max(1, plan.hosts - n_cheats)):
        each = person(computers[number], HONEST, seeds[number])
        _live(each, plan, costs, names)
        honest.append(each)
    return SimulationOutcome(
        plan=plan, honest=honest, twins=twins, costs=costs, host_days=len(honest) * plan.days
    )


def _live(person: Person, plan: SimulationPlan, costs: Costs, names: Iterator[int]) -> None:
    n_ticks = round((plan.days + plan.settle_days) * DAY / TICK)
    strangers = [f"{next(names):x}_1"] if person.attack.strangers else []
    for number in range(1, n_ticks + 1):
        person.tick(plan, costs, strangers, now=START + number * TICK)
    for account in person.accounts:
        account.forget_details()


def _speeds(computers: Sequence[SampleComputer]) -> dict[str, list[float]]:
    """Return the speeds reported by computers of a model."""
    found: dict[str, list[float]] = {}
    for each in computers:
        found.setdefault(each.model, []).append(each.flops)
    return found
