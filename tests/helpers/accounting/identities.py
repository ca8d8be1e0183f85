"""Identities of a person in the simulation of accounting: accounts and computers in the manager's records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.helpers.accounting.people import SampleAccount, SampleProject

from cobblestone.domain.exports import CountedJobState
from cobblestone.domain.values import float_sum
from cobblestone.policy.account_manager.accounting import (
    Amounts,
    HostLimits,
    Meter,
    ReportRecord,
    count_contact,
)
from cobblestone.policy.account_manager.accounting_policies import (
    ByJobs,
    BySums,
    ByTotals,
    Confirmation,
    FigureGoal,
    JobAnswers,
    ShownFigure,
    Statement,
    TotalAnswer,
    claim,
    confirm,
    follow,
    shown_at,
    sums_for_figure,
    target_of,
)

DAY = 86400.0
ASKED_AFTER_GRANT = 7 * DAY
"""A job that was granted is asked about for so long: it may be revoked."""
WAYS = ("jobs", "totals", "sums")
_JOBS, _TOTALS, _SUMS = ByJobs(), ByTotals(), BySums()


@dataclass(slots=True, kw_only=True)
class Costs:
    """The cost of asking projects."""

    rows: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WAYS, 0))  #: by way


@dataclass(slots=True, kw_only=True)
class HostIdentity:
    """A computer in the manager's records."""

    meter: Meter | None = None
    records: dict[int, ReportRecord] = field(default_factory=dict[int, ReportRecord])
    totals: dict[int, Amounts] = field(default_factory=dict[int, Amounts])  #: as the client states them
    joined: float = 0.0

    def contact(self, reports: Mapping[int, Amounts], limits: HostLimits, *, now: float) -> dict[int, float]:
        """Carry out a contact; return the credit that was counted, by project."""
        found = count_contact(self.meter, self.records, reports, limits, now=now)
        self.meter = found.meter
        self.records |= found.records
        return {entry.project_id: entry.counted.credit for entry in found.entries}


@dataclass(slots=True, kw_only=True)
class Following:
    """The state of an account under one accounting method."""

    confirmations: dict[int, Confirmation] = field(default_factory=dict[int, Confirmation])
    figure: ShownFigure
    target: FigureGoal = FigureGoal(final=0.0, provisional=0.0, waiting=0.0)
    highest: float = 0.0
    fall: float = 0.0  #: the largest, relative to what was shown before

    def shown(self, now: float) -> float:
        """Return the figure shown now."""
        return shown_at(self.figure, self.target, now)

    def update(self, unvouched: frozenset[int], *, now: float) -> None:
        """Update from the records."""
        final, pending = sums_for_figure(
            (each, id_ not in unvouched) for id_, each in self.confirmations.items()
        )
        target = target_of(final, pending, starter=self.figure.starter)
        self.figure = follow(self.figure, self.target, target, now)
        self.target = target
        self.highest = max(self.highest, self.figure.shown)
        if self.highest > 0:
            self.fall = max(self.fall, 1.0 - self.figure.shown / self.highest)


@dataclass(slots=True, kw_only=True)
class AccountIdentity:
    """An account at the manager, with its accounts at projects (None: the manager did not accept its key)."""

    projects: dict[int, SampleAccount | None]
    ways: dict[str, Following]
    hosts: list[HostIdentity] = field(default_factory=list[HostIdentity])
    estimates: dict[int, float] = field(default_factory=dict[int, float])
    asked: dict[int, dict[str, float]] = field(default_factory=dict[int, dict[str, float]])  #: credit by job

    def list_job(self, project_id: int, name: str) -> None:
        """Record a job that the client listed."""
        self.asked.setdefault(project_id, {}).setdefault(name, 0.0)

    def claim(self, counted: Mapping[int, float], *, now: float) -> None:
        """Book the counted credit from the ledger, for all methods."""
        for id_, credit in counted.items():
            self.estimates[id_] = self.estimates.get(id_, 0.0) + credit
        for following in self.ways.values():
            for id_, estimate in self.estimates.items():
                known = following.confirmations.get(id_) or Confirmation(time=now)
                following.confirmations[id_] = claim(known, estimate, now=now)

    def ask(self, project_id: int, costs: Costs, *, now: float, jobs_side_by_side: int) -> None:
        """Ask a project with all three methods."""
        there = self.projects.get(project_id)
        if there is None or project_id not in self.estimates:
            return
        records = {name: each.confirmations for name, each in self.ways.items()}
        known = records["totals"][project_id]
        self._keep("totals", project_id, _TOTALS.read(known, TotalAnswer(there.total)))
        known = records["sums"][project_id]
        sums = there.sums_since(max(known.day + 1, int(now // DAY) - 60), now=now)
        self._keep("sums", project_id, _SUMS.read(known, sums))
        costs.rows["totals"] += 1
        costs.rows["sums"] += len(sums)
        asked = self.asked.setdefault(project_id, {})
        answers = tuple(there.jobs_named(asked, now=now))
        known = records["jobs"][project_id]
        self._keep("jobs", project_id, _JOBS.read(known, JobAnswers(answers=answers, granted_before=asked)))
        costs.rows["jobs"] += len(asked) * jobs_side_by_side
        for answer in answers:
            job = there.jobs.get(answer.name)
            late = job is None or (job.over and now - job.decided > ASKED_AFTER_GRANT)
            if late or answer.state in (CountedJobState.REFUSED, CountedJobState.UNKNOWN):
                del asked[answer.name]
            else:
                asked[answer.name] = answer.credit if answer.state is CountedJobState.GRANTED else 0.0

    def _keep(self, way: str, project_id: int, read: tuple[Confirmation, Statement]) -> None:
        known, statement = read
        self.ways[way].confirmations[project_id] = confirm(known, statement)

    def update(self, unvouched: frozenset[int], *, now: float) -> None:
        """Update all figures."""
        for following in self.ways.values():
            following.update(unvouched, now=now)

    def forget_details(self) -> None:
        """Forget details that are no longer needed at the end: tens of thousands are kept."""
        self.hosts.clear()
        self.asked.clear()
        for each in self.projects.values():
            if each is not None:
                each.forget_details()

    def granted(self) -> float:
        """Return the true grants of projects."""
        return float_sum(each.total for each in self.projects.values() if each is not None)


def new_account(projects: dict[int, SampleAccount | None], *, starter: float, now: float) -> AccountIdentity:
    """Return a new account at the manager, whose figures start at zero."""
    ways = {name: Following(figure=ShownFigure(time=now, starter=starter)) for name in WAYS}
    return AccountIdentity(projects=projects, ways=ways)


PROJECT_IDS = {project: number for number, project in enumerate(SampleProject, start=1)}
