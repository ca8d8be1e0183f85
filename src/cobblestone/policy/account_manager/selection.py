"""The choice of projects for a computer, and presets of computing preferences.

Which projects a computer shall work for: what its owner wants first, and among equals the project that lags most.

A project is possible if it has versions for the computer, no keyword that the owner refuses in all of its jobs, and nothing
else against it.  Possible ones are taken in the order of (wanted keywords, lag behind the share) until every device is covered;
a project that had no work lately covers a device by the part of requests that it did serve, so that another one is taken with
it and computers notice when it has work again.  One more is a reserve with share 0, which clients ask only when the others have
nothing.

Shares hold in the long run because each choice is booked at once: `Balance` counts the work that was done and that is expected
until the next contact, per project; the lag is that work divided by the share.  A project that was dry catches up when it
returns, as far as the balance remembers (half-life `MEMORY_DAYS`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from cobblestone.domain.computing import PREFERENCES, Number
from cobblestone.domain.reasons import Reason, reason
from cobblestone.domain.values import DAY, float_sum, value

#: Half-life of the work that counts.  A shorter one forgets what a project lost while it was dry: with 30 days, shares were
#: missed by up to 6 % in simulations in which projects were dry for 15 % of the time.
MEMORY_DAYS = 90.0
COVERED = 0.9
MAX_PROJECTS = 10
#: Weight of one report in the average of whether a project has work.
DRYNESS_WEIGHT = 0.1
MIN_SHARE = 1e-6


@value()
class OfferedVersion:
    """A version at a project: its platform and device (``CPU`` or BOINC's name of a GPU type)."""

    platform: str
    device: str = "CPU"
    virtualbox: bool = False


@value(kw_only=True)
class CandidateProject:
    """A project that computers may be sent to."""

    id: int
    name: str
    share: float = 1.0
    keywords: Mapping[int, float] = field(default_factory=dict[int, float])  #: part of its jobs that have it
    versions: frozenset[OfferedVersion] = frozenset()
    closed: Reason | None = None  #: why no one is sent there now
    #: by device: part of requests without success
    dryness: Mapping[str, float] = field(default_factory=dict[str, float])
    work: float = 0.0  #: done and expected, see `Balance`


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """The choices of an owner of computers."""

    yes: frozenset[int] = frozenset()  #: keywords
    no: frozenset[int] = frozenset()
    kept_out: frozenset[int] = frozenset()  #: projects
    kept_out_devices: frozenset[tuple[int, str]] = frozenset()  #: devices of projects


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedFor:
    """The properties of a computer that matter for the choice."""

    platforms: frozenset[str]
    devices: tuple[str, ...] = ("CPU",)
    virtualbox: bool = False
    in_vain: frozenset[tuple[int, str]] = frozenset()  #: (project, device) that it just asked without success


@value(kw_only=True)
class Choice:
    """A project that was chosen."""

    project_id: int
    devices: frozenset[str]  #: those that it may use
    covers: Mapping[str, float]  #: those that it was chosen for: how far it covers them; empty: as a reserve
    keywords: float  #: sum over wanted keywords of the part of its jobs
    lag: float  #: work per share; the smallest goes first
    place: int  #: in the order of choice, from 1

    @property
    def reserve(self) -> bool:
        """Return whether it only serves when the others have nothing."""
        return not self.covers


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The projects for a computer, and why not the others."""

    chosen: tuple[Choice, ...]
    refused: Mapping[int, Reason]


def select_projects(
    candidates: Sequence[CandidateProject],
    wishes: Wishes,
    computer: SelectedFor,
    *,
    jitter: Sequence[float] = (),
) -> Selection:
    """Choose the projects of a computer.

    ``jitter``: a small number per candidate that decides between equals, so that not everyone comes to the same one.
    """
    refused: dict[int, Reason] = {}
    ranked: list[tuple[float, float, float, CandidateProject, frozenset[str]]] = []
    for number, candidate in enumerate(candidates):
        devices, objection = _usable(candidate, wishes, computer)
        if objection is not None:
            refused[candidate.id] = objection
            continue
        wanted = float_sum(part for keyword, part in candidate.keywords.items() if keyword in wishes.yes)
        tie = jitter[number] if jitter else 0.0
        ranked.append((-round(wanted, 3), lag_of(candidate), tie, candidate, devices))
    ranked.sort(key=lambda each: each[:3])
    return _cover(ranked, computer, refused)


def select_by_hand(
    candidates: Sequence[CandidateProject], wishes: Wishes, computer: SelectedFor, shares: Mapping[int, float]
) -> Selection:
    """Take all possible projects that the owner gave a share to."""
    refused: dict[int, Reason] = {}
    chosen: list[Choice] = []
    for candidate in candidates:
        devices, objection = _usable(candidate, wishes, computer)
        if objection is None and shares.get(candidate.id, 0.0) <= 0:
            objection = reason("no_share", "You gave it no share.")
        if objection is not None:
            refused[candidate.id] = objection
            continue
        chosen.append(
            Choice(
                project_id=candidate.id,
                devices=devices,
                covers={device: _cover_of(candidate, device, computer) for device in devices},
                keywords=0.0,
                lag=0.0,
                place=len(chosen) + 1,
            )
        )
    return Selection(chosen=tuple(chosen), refused=refused)


def lag_of(candidate: CandidateProject) -> float:
    """Return the work per share: who has the least of it lags most."""
    return candidate.work / max(candidate.share, MIN_SHARE)


def _cover(
    ranked: Sequence[tuple[float, float, float, CandidateProject, frozenset[str]]],
    computer: SelectedFor,
    refused: dict[int, Reason],
) -> Selection:
    """Take candidates in order until all devices are covered, and one more as a reserve."""
    missing = dict.fromkeys(computer.devices, 1.0)
    chosen: list[Choice] = []
    reserve = False
    for wanted, lag, _tie, candidate, devices in ranked:
        open_devices = [device for device in devices if missing[device] > 1.0 - COVERED]
        if len(chosen) >= MAX_PROJECTS or (reserve and not open_devices):
            refused[candidate.id] = reason(
                "not_needed", "Other projects that come before it already cover all devices."
            )
            continue
        covers = {device: _cover_of(candidate, device, computer) for device in open_devices}
        for device, part in covers.items():
            missing[device] *= 1.0 - part
        reserve = reserve or not covers
        chosen.append(
            Choice(
                project_id=candidate.id,
                devices=devices,
                covers=covers,
                keywords=-wanted,
                lag=lag,
                place=len(chosen) + 1,
            )
        )
    return Selection(chosen=tuple(chosen), refused=refused)


def _cover_of(candidate: CandidateProject, device: str, computer: SelectedFor) -> float:
    if (candidate.id, device) in computer.in_vain:
        return 0.0
    return 1.0 - min(1.0, max(0.0, candidate.dryness.get(device, 0.0)))


def _usable(
    candidate: CandidateProject, wishes: Wishes, computer: SelectedFor
) -> tuple[frozenset[str], Reason | None]:
    """Return the devices that a project may use, or why it is not possible."""
    nothing = frozenset[str]()
    if candidate.closed is not None:
        return nothing, candidate.closed
    if candidate.id in wishes.kept_out:
        return nothing, reason("kept_out", "You excluded this project.")
    unwanted = [keyword for keyword in wishes.no if candidate.keywords.get(keyword, 0.0) >= 1.0]
    if unwanted:
        return nothing, reason(
            "unwanted", "You rejected the topic of all its jobs (keyword {keyword}).", keyword=unwanted[0]
        )
    devices = _fitting(candidate.versions, computer.platforms, computer.devices, computer.virtualbox)
    if not devices:
        return nothing, reason(
            "no_version", "It has no version for the platform and devices of this computer."
        )
    allowed = frozenset(device for device in devices if (candidate.id, device) not in wishes.kept_out_devices)
    if not allowed:
        return nothing, reason("kept_out_devices", "You do not let it use any device of this computer.")
    return allowed, None


@lru_cache(maxsize=4096)  # few kinds of computers ask for few projects
def _fitting(
    versions: frozenset[OfferedVersion], platforms: frozenset[str], devices: tuple[str, ...], virtualbox: bool
) -> frozenset[str]:
    """Return the devices of a computer that there are versions for."""
    return frozenset(
        version.device
        for version in versions
        if version.platform in platforms
        and (virtualbox or not version.virtualbox)
        and version.device in devices
    )


def reasons_of(choice: Choice, candidate: CandidateProject, *, of_shares: float) -> tuple[Reason, ...]:
    """Say why a project was chosen; ``of_shares``: the sum of all projects' shares."""
    said: list[Reason] = []
    if choice.keywords > 0:
        said.append(
            reason(
                "wanted",
                "Its jobs match your interests ({percent} percent, all your keywords together).",
                percent=round(100 * choice.keywords),
            )
        )
    said.append(
        reason(
            "share",
            "It should get {percent} percent of all computing; by that measure it was number {place} "
            "in the order.",
            percent=round(100 * candidate.share / of_shares, 1) if of_shares else 0,
            place=choice.place,
        )
    )
    if choice.reserve:
        said.append(
            reason("reserve", "It is a backup project: it is asked for work only when the others have none.")
        )
    for device, part in sorted(choice.covers.items()):
        if part >= COVERED:
            said.append(reason("covers", "It has work for {device}.", device=device))
        else:
            said.append(
                reason(
                    "dry",
                    "It had work for {device} in only {percent} percent of recent requests, so "
                    "another project was added.",
                    device=device,
                    percent=round(100 * part),
                )
            )
    return tuple(said)


# -- the balance of work between projects ---------------------------------------------------------------


@value(kw_only=True)
class Balance:
    """Work of one project: estimated credit that was done, forgotten slowly, and that is expected."""

    done: float = 0.0
    expected: float = 0.0
    time: float = 0.0  #: Unix seconds that ``done`` is of

    def at(self, now: float) -> float:
        """Return all work as it counts now."""
        return self.done * _memory(now - self.time) + self.expected

    def changed(self, *, done: float, expected: float, now: float) -> Balance:
        """Return the balance after some work was reported, and the expectation changed by ``expected``."""
        return Balance(
            done=self.done * _memory(now - self.time) + done,
            expected=max(0.0, self.expected + expected),
            time=max(now, self.time),
        )


def _memory(seconds: float) -> float:
    return math.exp2(-max(0.0, seconds) / (MEMORY_DAYS * DAY))


def expected_work(
    selection: Selection, credit_per_second: Mapping[str, float], seconds: float
) -> dict[int, float]:
    """Return the credit that each chosen project may expect of a computer until the next contact.

    A device divides its time among the projects that cover it, as far as they do.
    """
    expected = {choice.project_id: 0.0 for choice in selection.chosen}
    for device, rate in credit_per_second.items():
        parts = {choice.project_id: choice.covers.get(device, 0.0) for choice in selection.chosen}
        whole = max(float_sum(parts.values()), MIN_SHARE)
        for project_id, part in parts.items():
            expected[project_id] += rate * seconds * part / whole
    return expected


def joining_work(balances: Iterable[tuple[float, float]], share: float) -> float:
    """Return the work that a new project begins with, from (work, share) of those that are there: what it would have by now.

    So it begins in step, instead of getting all computers until it has caught up with the past of the others.
    """
    known = [(work, each) for work, each in balances if each > 0]
    shares = float_sum(each for _, each in known)
    return share * float_sum(work for work, _ in known) / shares if shares else 0.0


def next_dryness(before: float, *, in_vain: bool) -> float:
    """Return the part of requests without work after one more report."""
    return before + DRYNESS_WEIGHT * (float(in_vain) - before)


def retry_seconds(failures: int) -> float:
    """Return how long a project that cannot be reached, or refuses, is left alone after so many failures in a row."""
    return min(600.0 * 2.0 ** min(max(failures, 1) - 1, 20), DAY)


_SHARED = (
    "work_buf_min_days", "work_buf_additional_days", "cpu_scheduling_period_minutes", "ram_max_used_idle_pct",
    "disk_max_used_pct", "disk_min_free_gb", "run_if_user_active",
)  # fmt: skip
_DEFAULTS = {each.name: each.default for each in PREFERENCES}
_ALWAYS: Mapping[str, Number] = {name: _DEFAULTS[name] for name in _SHARED}
#: Preferences by the name of the preset; the names and units of the family.
PRESETS: Mapping[str, Mapping[str, Number]] = {
    "standard": {
        **_ALWAYS,
        "max_ncpus_pct": 50.0,
        "run_gpu_if_user_active": False,
        "suspend_cpu_usage": 25.0,
        "ram_max_used_busy_pct": 50.0,
    },
    "low_power": {
        **_ALWAYS,
        "max_ncpus_pct": 25.0,
        "run_gpu_if_user_active": False,
        "suspend_cpu_usage": 25.0,
        "suspend_if_no_recent_input": 10.0,
        "ram_max_used_busy_pct": 50.0,
    },
    "maximum": {
        **_ALWAYS,
        "max_ncpus_pct": 100.0,
        "run_gpu_if_user_active": True,
        "suspend_cpu_usage": 0.0,
        "ram_max_used_busy_pct": 70.0,
    },
}
