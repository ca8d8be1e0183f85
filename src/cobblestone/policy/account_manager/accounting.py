"""The six quantities that are accounted for, and what is counted of the running totals that a client reports per project.

What is counted of the running totals that a client reports per project: deltas, within limits.

A client of the family keeps, per project, how long its devices have worked for it and what that is worth (run time x peak
speed), and reports these totals at each contact.  The difference to the totals of the contact before is what the computer has
done since.  Nothing of it is validated, so limits hold what no computer can have done.  They are sums over the whole time that a
computer has been known, which makes them continuous in the claim and lets nothing be lost for ever:

* device time of all projects together <= devices x time by the manager's own clock since the first contact, of which at most
  `CARRIED_SECONDS` can be made up for later;
* credit <= device time counted x speed of a device, where the speed is what computers of that model are known to reach;
* computers that came lately, all from one address block and of one model, share the room of `CROWD` of them for `YOUNG_SECONDS`.

What exceeds a limit is held, and counted as soon as the limits allow: after an outage, when a model is known better, when a crowd
has proved to be one.  What is held beyond `HELD_SECONDS` of all devices, or longer than `HELD_AT_MOST_SECONDS`, is disputed:
kept, and counted only by an operator.

Differences to the family's accounting (its limits fall to constants, what exceeds them is lost, a computer's past is credited at
its first contact): see docs/accounting.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from cobblestone.domain.values import DAY, changed, value

#: Names of the quantities, in order; those that clients use.
QUANTITIES = ("cpu_ec", "cpu_time", "gpu_ec", "gpu_time", "njobs_success", "njobs_error")

#: Less than this of anything is nothing: sums of floats do not end in zero.
TINY = 1e-9


@value()
class Amounts:
    """Estimated credit and device-seconds of CPUs and GPUs, and numbers of finished jobs."""

    cpu_ec: float = 0.0
    cpu_time: float = 0.0
    gpu_ec: float = 0.0
    gpu_time: float = 0.0
    njobs_success: float = 0.0
    njobs_error: float = 0.0

    def astuple(self) -> tuple[float, float, float, float, float, float]:
        """Return the quantities in the order of `QUANTITIES`."""
        return (self.cpu_ec, self.cpu_time, self.gpu_ec, self.gpu_time, self.njobs_success, self.njobs_error)

    def __add__(self, other: Amounts) -> Amounts:
        # Written out, here and below: every contact of a computer does this some twenty times.
        return Amounts(
            self.cpu_ec + other.cpu_ec,
            self.cpu_time + other.cpu_time,
            self.gpu_ec + other.gpu_ec,
            self.gpu_time + other.gpu_time,
            self.njobs_success + other.njobs_success,
            self.njobs_error + other.njobs_error,
        )

    def __sub__(self, other: Amounts) -> Amounts:
        return Amounts(
            self.cpu_ec - other.cpu_ec,
            self.cpu_time - other.cpu_time,
            self.gpu_ec - other.gpu_ec,
            self.gpu_time - other.gpu_time,
            self.njobs_success - other.njobs_success,
            self.njobs_error - other.njobs_error,
        )

    def at_least(self, other: Amounts) -> bool:
        """Return whether no quantity is smaller than the other's."""
        return all(
            one >= two - TINY * max(1.0, abs(two))
            for one, two in zip(self.astuple(), other.astuple(), strict=True)
        )

    def rises(self, other: Amounts) -> Amounts:
        """Return the excess over ``other``; nothing where it is less."""
        return Amounts(
            max(0.0, self.cpu_ec - other.cpu_ec),
            max(0.0, self.cpu_time - other.cpu_time),
            max(0.0, self.gpu_ec - other.gpu_ec),
            max(0.0, self.gpu_time - other.gpu_time),
            max(0.0, self.njobs_success - other.njobs_success),
            max(0.0, self.njobs_error - other.njobs_error),
        )

    @property
    def credit(self) -> float:
        """Estimated credit of all devices."""
        return self.cpu_ec + self.gpu_ec

    @property
    def empty(self) -> bool:
        """Return whether there is nothing."""
        return all(abs(each) <= TINY for each in self.astuple())


NOTHING = Amounts()


def total(amounts: Iterable[Amounts]) -> Amounts:
    """Return the sum of several."""
    columns = [each.astuple() for each in amounts]
    return Amounts(*map(sum, zip(*columns, strict=True))) if columns else NOTHING


#: The Cobblestone: 200 for a day of one GFLOPS.
CREDIT_PER_FLOP = 200.0 / (DAY * 1e9)

CARRIED_SECONDS = 7 * DAY
HELD_SECONDS = 7 * DAY
HELD_AT_MOST_SECONDS = 28 * DAY
YOUNG_SECONDS = 7 * DAY
CROWD = 8
MAX_CPUS = 512
#: More devices than this count as so many: the largest machines that volunteers have.
MAX_GPUS = 16
#: Numbers of jobs are limited by device time: on average a job takes at least this long.
SHORTEST_JOB_SECONDS = 1.0
PEER_FACTOR = 1.5
#: So many other accounts with a model count as much as the default.
PEERS_FOR_HALF = 4


@value(kw_only=True)
class ReportRecord:
    """The record of a computer at one project."""

    #: the client's totals that the next difference is taken from; None: it never stated any
    reported: Amounts | None = NOTHING
    fallen: Amounts | None = None  #: totals that were lower than before, until the next contact tells why
    fallen_contact: int = 0  #: number of the contact that stated them
    held: Amounts = NOTHING  #: reported, and not counted yet
    held_since: float = 0.0  #: Unix seconds, the manager's clock; 0: nothing is held
    disputed: Amounts = NOTHING  #: reported, and not to be counted without an operator


@value(kw_only=True)
class Meter:
    """The record of a computer as a whole."""

    first_contact: float  #: Unix seconds, the manager's clock
    contact: float
    #: so far; each answer has the number of its contact, which the next request brings back
    contacts: int = 0
    counted: Amounts = NOTHING  #: since the first contact
    spare_cpu_seconds: float = 0.0  #: device time that was there and not used
    spare_gpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLimits:
    """What a computer can do, according to the manager's knowledge of its devices."""

    ncpus: int
    ngpus: int
    cpu_flops: float  #: of one CPU: what computers of its model are known to reach
    gpu_flops: float  #: of one GPU
    n_young: int = 1  #: computers of this model and address block that came in the last days, with this one


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """One contact's difference at one project."""

    project_id: int
    counted: Amounts
    kept_back: Amounts  #: newly held or disputed; negative where something held before is counted now
    #: those that kept something back: ``device_time``, ``speed``, ``crowd``, ``jobs``
    limits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactAccounting:
    """The changes by a contact."""

    meter: Meter
    records: Mapping[int, ReportRecord]  #: of the projects that were reported
    entries: tuple[Counted, ...] = ()
    #: ``no_totals``, ``first_contact``, ``fell``, ``restarted``
    notes: Mapping[int, str] = field(default_factory=dict[int, str])


def count_contact(
    meter: Meter | None,
    records: Mapping[int, ReportRecord],
    reports: Mapping[int, Amounts | None],
    limits: HostLimits,
    *,
    now: float,
    answer: int | None = None,
) -> ContactAccounting:
    """Count what a computer reports; ``meter`` None: its first contact, which is worth nothing yet.

    A report of None names a project without totals.  Clients do so until they are told that the account manager is dynamic; it
    is no mark, or the next report would bring all that was done before.

    ``answer`` is the number of the latest answer that the computer has, None: the latest of all.

    A contact by a clock that went back counts as one without time in between: differences are held, none is lost.
    """
    contacts = 1 + (meter.contacts if meter else 0)
    latest = contacts - 1 if answer is None else answer
    notes: dict[int, str] = {}
    after: dict[int, ReportRecord] = {}
    wanted: dict[int, Amounts] = {}
    for project_id, reported in reports.items():
        record, new, note = _difference(records.get(project_id), reported, contacts, latest)
        after[project_id], wanted[project_id] = record, record.held + new
        if note:
            notes[project_id] = note
    if meter is None:
        meter = Meter(first_contact=now, contact=now, contacts=contacts)
        return ContactAccounting(meter=meter, records=after, notes=notes)
    room = _room(meter, limits, now)
    granted = _within(wanted, room)
    entries: list[Counted] = []
    for project_id, counted in granted.items():
        kept_back = wanted[project_id] - counted - after[project_id].held
        after[project_id] = _keep(wanted[project_id] - counted, after[project_id], limits, now=now)
        if not counted.empty or not kept_back.empty:
            why = room.limits_of(wanted[project_id] - counted)
            entries.append(Counted(project_id=project_id, counted=counted, kept_back=kept_back, limits=why))
    counted = total(granted.values())
    meter = changed(
        meter,
        contact=max(now, meter.contact),
        contacts=contacts,
        counted=meter.counted + counted,
        spare_cpu_seconds=room.cpu_seconds_of_all - counted.cpu_time,
        spare_gpu_seconds=room.gpu_seconds_of_all - counted.gpu_time,
    )
    return ContactAccounting(meter=meter, records=after, entries=tuple(entries), notes=notes)


def _difference(
    record: ReportRecord | None, reported: Amounts | None, contact: int, latest: int
) -> tuple[ReportRecord, Amounts, str]:
    """Return the record after a report, what is new in it, and what is to be said about that.

    Totals that fall mean a client that started over, an old copy of its files, or two computers with one identity.  The highest
    totals stay the mark until the next contact goes on from the low ones: so two that take turns are counted once.  That contact
    must have an answer (number ``latest``) not older than the one to the first low totals: a replay of old contacts has none.
    """
    record = record or ReportRecord(reported=None)
    if reported is None:
        return record, NOTHING, "no_totals"
    if record.reported is None:
        return changed(record, reported=reported), NOTHING, "first_contact"
    if reported.at_least(record.reported):
        return changed(record, reported=reported, fallen=None), reported.rises(record.reported), ""
    if record.fallen is None or latest < record.fallen_contact or not reported.at_least(record.fallen):
        return changed(record, fallen=reported, fallen_contact=contact), NOTHING, "fell"
    new = reported.rises(record.fallen)
    return changed(record, reported=reported, fallen=None), new, "restarted"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Room:
    """The work that a computer can have done since the last contact, with the unused rest of before."""

    cpu_seconds: float
    gpu_seconds: float
    cpu_seconds_of_all: float  #: without the limit of a crowd
    gpu_seconds_of_all: float
    cpu_ec_per_second: float
    gpu_ec_per_second: float
    counted: Amounts

    def limits_of(self, kept: Amounts) -> tuple[str, ...]:
        crowd = self.cpu_seconds < self.cpu_seconds_of_all or self.gpu_seconds < self.gpu_seconds_of_all
        found: list[str] = []
        if kept.cpu_time > TINY or kept.gpu_time > TINY:
            found.append("crowd" if crowd else "device_time")
        if kept.cpu_ec > TINY + kept.cpu_time * self.cpu_ec_per_second or (
            kept.gpu_ec > TINY + kept.gpu_time * self.gpu_ec_per_second
        ):
            found.append("speed")
        if kept.njobs_success + kept.njobs_error > TINY:
            found.append("jobs")
        return tuple(found)


def _room(meter: Meter, limits: HostLimits, now: float) -> _Room:
    elapsed = max(0.0, now - meter.contact)
    cpus, gpus = min(limits.ncpus, MAX_CPUS), min(limits.ngpus, MAX_GPUS)
    cpu = cpus * elapsed + min(meter.spare_cpu_seconds, cpus * CARRIED_SECONDS)
    gpu = gpus * elapsed + min(meter.spare_gpu_seconds, gpus * CARRIED_SECONDS)
    young = now - meter.first_contact < YOUNG_SECONDS
    part = min(1.0, CROWD / max(1, limits.n_young)) if young else 1.0
    return _Room(
        cpu_seconds=max(0.0, cpu - (1.0 - part) * (cpu + meter.counted.cpu_time)),
        gpu_seconds=max(0.0, gpu - (1.0 - part) * (gpu + meter.counted.gpu_time)),
        cpu_seconds_of_all=cpu,
        gpu_seconds_of_all=gpu,
        cpu_ec_per_second=limits.cpu_flops * CREDIT_PER_FLOP,
        gpu_ec_per_second=limits.gpu_flops * CREDIT_PER_FLOP,
        counted=meter.counted,
    )


def _within(wanted: Mapping[int, Amounts], room: _Room) -> dict[int, Amounts]:
    """Return of what is wanted, per project, what there is room for; all projects are cut by the same part."""
    sums, before = total(wanted.values()), room.counted
    cpu_part = _part(sums.cpu_time, room.cpu_seconds)
    gpu_part = _part(sums.gpu_time, room.gpu_seconds)
    cpu_time = before.cpu_time + sums.cpu_time * cpu_part
    gpu_time = before.gpu_time + sums.gpu_time * gpu_part
    jobs = sums.njobs_success + sums.njobs_error
    jobs_room = (cpu_time + gpu_time) / SHORTEST_JOB_SECONDS - before.njobs_success - before.njobs_error
    ec_part = _part(sums.cpu_ec, cpu_time * room.cpu_ec_per_second - before.cpu_ec)
    gpu_ec_part = _part(sums.gpu_ec, gpu_time * room.gpu_ec_per_second - before.gpu_ec)
    jobs_part = _part(jobs, jobs_room)
    return {
        project_id: Amounts(
            each.cpu_ec * ec_part,
            each.cpu_time * cpu_part,
            each.gpu_ec * gpu_ec_part,
            each.gpu_time * gpu_part,
            each.njobs_success * jobs_part,
            each.njobs_error * jobs_part,
        )
        for project_id, each in wanted.items()
    }


def _part(wanted: float, room: float) -> float:
    """Return the part of what is wanted that there is room for."""
    if wanted <= 0:
        return 1.0
    return min(1.0, max(0.0, room) / wanted)


def _keep(excess: Amounts, record: ReportRecord, limits: HostLimits, *, now: float) -> ReportRecord:
    """Divide uncounted credit into a part to count later and a part that needs an operator.

    What finds no room for weeks will find none: the device time that it would need is used up.
    """
    cpu = max(1, min(limits.ncpus, MAX_CPUS)) * HELD_SECONDS
    gpu = max(1, min(limits.ngpus, MAX_GPUS)) * HELD_SECONDS
    most = Amounts(
        cpu * max(limits.cpu_flops, 0.0) * CREDIT_PER_FLOP,
        cpu,
        gpu * max(limits.gpu_flops, 0.0) * CREDIT_PER_FLOP,
        gpu,
        cpu,
        cpu,
    )
    since = record.held_since or now
    beyond = excess.rises(most) if now - since <= HELD_AT_MOST_SECONDS else excess
    held = excess - beyond
    return changed(
        record, held=held, held_since=0.0 if held.empty else since, disputed=record.disputed + beyond
    )


def settled(record: ReportRecord) -> tuple[ReportRecord, Amounts]:
    """Return a record without what is held or disputed, and how much that was: for an operator to count or to forget.

    What an operator counts uses up no room of the limits: it is outside of the meter.
    """
    return changed(record, held=NOTHING, disputed=NOTHING), record.held + record.disputed


def speed_limit(peers: Sequence[float], default: float) -> float:
    """Return the speed (operations per second) that one device of a model is believed to have at most.

    ``peers``: what computers of that model say, one figure per account and none of the account in question, so that no one
    moves the own limit and no minority moves that of others.  Without peers it is ``default``; with many, half more than their
    median.
    """
    if not peers:
        return default
    weight = len(peers) / (len(peers) + PEERS_FOR_HALF)
    return (1.0 - weight) * default + weight * PEER_FACTOR * median(peers)
