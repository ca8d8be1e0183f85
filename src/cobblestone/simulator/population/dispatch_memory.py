"""A simulated project's scheduler: learned speeds of hosts, and cached answers of `choose_work`.

Of a request, of the host's records and of the candidates the rule gets what belongs to the case as it is, and everything
else as marked numbers or as questions (`cobblestone.simulator.population.workunit_paths`).  What it does beyond that, it
decides itself each time.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import count
from operator import attrgetter
from typing import Any, NamedTuple, cast

from cobblestone.domain.hosts import CPU, Host, HostAppVersion
from cobblestone.domain.values import AppId, AppVersionId, HostId, ResultId, UserId, WorkunitId, changed
from cobblestone.domain.work import JobLimits
from cobblestone.policy.credit.claims import Claim, ClaimInput, VersionStatistics, WorkunitFacts
from cobblestone.policy.credit.host_records import (
    host_version_after,
    statistics_of,
    version_after,
    with_statistics,
)
from cobblestone.policy.credit.scales import learn_run_times
from cobblestone.policy.dispatch.catalogue import Candidate, Catalogue, DispatchDecision, PeakFlopCount
from cobblestone.policy.dispatch.choose import choose_work
from cobblestone.policy.dispatch.limits import DispatchLimits
from cobblestone.policy.dispatch.request import ResourceRequest, WorkRequest
from cobblestone.simulator.population.workunit_paths import Tape, Ways, changes, marked_fields

VERSIONS_READ_AFTER = 600.0  #: seconds between two looks of the scheduler at the means of app versions

_NO_CLAIM = Claim(amount=0.0)


class LearnedSpeeds:
    """Records of app versions on hosts, and means of app versions over all hosts."""

    def __init__(self) -> None:
        self.records: dict[int, dict[AppVersionId, HostAppVersion]] = {}  #: by host
        self.peak_flop_counts: dict[AppVersionId, PeakFlopCount] = {}  #: as the scheduler knows them
        self._versions: dict[AppVersionId, VersionStatistics] = {}
        self._look = -math.inf

    def learn(self, limits: JobLimits, valid: Sequence[ClaimInput]) -> None:
        """Learn from the run times of a workunit's valid results."""
        facts = WorkunitFacts(rsc_fpops_est=limits.rsc_fpops_est, rsc_fpops_bound=limits.rsc_fpops_bound)
        learned = learn_run_times(valid, [_NO_CLAIM] * len(valid), facts)
        for host in learned.host_versions:
            mine = self.records[int(host.host_id)]
            record = mine[host.app_version_id]
            mine[host.app_version_id] = with_statistics(
                record, host_version_after(statistics_of(record), host)
            )
        for version in learned.versions:
            known = self._versions.get(version.app_version_id, VersionStatistics())
            self._versions[version.app_version_id] = version_after(known, version)

    def look_at_versions(self, now: float) -> None:
        """Update the scheduler's means of app versions when due."""
        if now < self._look:
            return
        self._look = now + VERSIONS_READ_AFTER
        for id_, version in self._versions.items():
            self.peak_flop_counts[id_] = PeakFlopCount(n=version.pfc.n, avg=version.pfc.mean)


PLATFORM = "x86_64-pc-linux-gnu"
CLIENT_VERSION = 72005
ENOUGH_BYTES = 1e15
#: Cases that are remembered at most.
MOST_CASES = 500
#: One decision in so many is noted at most, but for the first ones, and of so many lines: that takes as long as fifty decisions.
SELDOM, FIRST, LONGEST = 50, 10, 120

#: Fields of a host's record that do not name it; all are numbers to note but the bad results, by which a rule shifts bits.
_FIELDS = tuple(
    each.name for each in fields(HostAppVersion) if each.name not in {"host_id", "app_version_id"}
)
_NUMBERS = tuple(name for name in _FIELDS if name != "bad_results")
_numbers_of: Callable[[HostAppVersion], tuple[Any, ...]] = attrgetter(*_NUMBERS)
_NO_NUMBERS = (0,) * len(_NUMBERS)
_OF_REQUEST = 9  #: numbers that do not belong to a version
_OF_VERSION = 2 + len(_NUMBERS)


class RememberedRequest(NamedTuple):
    """A request for work."""

    host: Host
    ncpus: int
    seconds: float
    instances: float
    delay: float
    held: int  #: jobs that the host has
    now: float


class RememberedOffer(NamedTuple):
    """An offered result for a host."""

    candidate: Candidate
    version: AppVersionId
    flops: float  #: speed that the client is told
    peak_flops: float
    report_deadline: float


@dataclass(slots=True)
class _Answer:
    """The common part of decisions on one path."""

    given: list[tuple[int, AppVersionId]]  #: places of candidates
    changed: list[tuple[AppVersionId, list[str]]]  #: fields of records


class _Queue:
    """Candidates, read one by one."""

    def __init__(self, candidates: Iterator[Candidate], at_host: Callable[[WorkunitId], bool]) -> None:
        self.read: list[Candidate] = []
        self._more = candidates
        self._first: dict[WorkunitId, int] = {}  #: place of the first one of a workunit
        self.at_host = at_host

    def __call__(self, question: str, place: int) -> object:
        if question == "held":
            return self.at_host(self.read[place].workunit_id)
        candidate = self.candidate(place)
        if candidate is None:
            return None
        return int(candidate.app_id), candidate.priority, self.first_of(candidate)

    def candidate(self, place: int) -> Candidate | None:
        """Return the candidate at a place, None after the last one."""
        while len(self.read) <= place:
            candidate = next(self._more, None)
            if candidate is None:
                return None
            self._first.setdefault(candidate.workunit_id, len(self.read))
            self.read.append(candidate)
        return self.read[place]

    def first_of(self, candidate: Candidate) -> int:
        """Return the place of the first candidate of its workunit."""
        return self._first[candidate.workunit_id]

    def __iter__(self) -> Iterator[Candidate]:
        for place in count():
            candidate = self.candidate(place)
            if candidate is None:
                return
            yield candidate


class DispatchMemory:
    """The scheduler of one project."""

    def __init__(
        self, limits: DispatchLimits, catalogue: Catalogue, speeds: LearnedSpeeds, rng: random.Random
    ) -> None:
        self._limits = limits
        self._catalogue = catalogue
        self._speeds = speeds
        self._rng = rng
        self._versions = [each.id for versions in catalogue.versions.values() for each in versions]
        self._requests = self._notes = 0
        self._ways: dict[tuple[object, ...], Ways[_Answer | None]] = {}

    def choose(
        self, asked: RememberedRequest, candidates: Iterator[Candidate], at_host: Callable[[WorkunitId], bool]
    ) -> list[RememberedOffer]:
        """Return what a host gets, and count it in the host's records."""
        queue = _Queue(candidates, at_host)
        records = self._speeds.records.setdefault(int(asked.host.id), {})
        case, numbers = self._case(asked, records)
        ways = self._ways.get(case)
        if ways is None:
            if len(self._ways) >= MOST_CASES:
                self._ways.clear()
            ways = self._ways[case] = Ways()
        found = ways.find(numbers, queue)
        self._requests += 1
        if found is None and self._notes < FIRST + self._requests // SELDOM:
            self._notes += 1
            self._remember(ways, asked, records, numbers, queue)
            found = ways.find(numbers, queue)
        answer, values = found or (None, ())
        if answer is None:
            return self._decide(asked, records, queue)
        at = 3 * len(answer.given)
        for version, names in answer.changed:
            record = records.get(version) or HostAppVersion(host_id=asked.host.id, app_version_id=version)
            records[version] = changed(record, **dict(zip(names, values[at:], strict=False)))
            at += len(names)
        return [
            RememberedOffer(queue.read[place], version, *values[3 * i : 3 * i + 3])
            for i, (place, version) in enumerate(answer.given)
        ]

    def _case(
        self, asked: RememberedRequest, records: dict[AppVersionId, HostAppVersion]
    ) -> tuple[tuple[object, ...], list[Any]]:
        """Return the key of the case, and all numbers."""
        host = asked.host
        case: list[object] = []
        numbers: list[Any] = [
            asked.now, asked.seconds, asked.instances, asked.delay, asked.held, host.id, host.description.p_fpops,
            host.description.on_frac, asked.ncpus,
        ]  # fmt: skip
        for version in self._versions:
            mean, record = self._catalogue.peak_flop_counts.get(version), records.get(version)
            case.append(mean is None)
            numbers += (0, 0.0) if mean is None else (mean.n, mean.avg)
            if record is None:
                case.append(None)
                numbers += _NO_NUMBERS
            else:
                case.append(record.bad_results)
                numbers += _numbers_of(record)
        return tuple(case), numbers

    def _remember(
        self,
        ways: Ways[_Answer | None],
        asked: RememberedRequest,
        records: dict[AppVersionId, HostAppVersion],
        numbers: Sequence[Any],
        queue: _Queue,
    ) -> None:
        """Run the rule with marked numbers, and store its path, without effects."""
        tape = Tape(LONGEST)
        marks = [tape.number(place, number) for place, number in enumerate(numbers)]
        means: dict[AppVersionId, PeakFlopCount] = {}
        rows: dict[AppVersionId, HostAppVersion] = {}
        for version, first in zip(self._versions, count(_OF_REQUEST, _OF_VERSION), strict=False):
            if version in self._catalogue.peak_flop_counts:
                means[version] = PeakFlopCount(n=marks[first], avg=marks[first + 1])
            if version in records:
                named = changed(records[version], host_id=marks[5])
                rows[version] = marked_fields(tape, first + 2, named, _NUMBERS)
        description = replace(asked.host.description, p_fpops=marks[6], on_frac=marks[7])
        host = Host(id=HostId(marks[5]), user_id=UserId(marks[5]), description=description)
        now, seconds, instances, delay, held = marks[:5]
        request = RememberedRequest(host, marks[8], seconds, instances, delay, held, now)
        catalogue = replace(self._catalogue, peak_flop_counts=means)
        try:
            decision = self._ask(
                request, rows, catalogue, self._noted(tape, queue), _noted_hosts(tape, queue), rng=None
            )
        except (TypeError, AttributeError):  # it does what cannot be noted
            ways.add(tape.way([]), None)
            return
        values: list[object] = []
        for each in decision.assignments:
            values += (each.usage.flops, each.usage.peak_flops, each.report_deadline)
        kept: list[tuple[AppVersionId, list[str]]] = []
        for record in decision.records:
            version = record.app_version_id
            before = rows.get(version) or HostAppVersion(host_id=HostId(marks[5]), app_version_id=version)
            found = changes(before, record, _FIELDS)
            kept.append((version, list(found)))
            values += found.values()
        given = [(int(each.candidate.result_id), each.version.id) for each in decision.assignments]
        ways.add(tape.way(values), _Answer(given, kept))

    def _noted(self, tape: Tape, queue: _Queue) -> Iterator[Candidate]:
        """Yield candidates with places for numbers; record what the rule may know about each."""
        for place in count():
            found = queue("read", place)
            tape.take_note(f"ask('read', {place})", found)
            candidate = queue.candidate(place)
            if candidate is None:
                return
            yield Candidate(
                result_id=ResultId(place),
                result_name="",
                workunit_id=WorkunitId(queue.first_of(candidate)),
                workunit_name="",
                app_id=candidate.app_id,
                limits=candidate.limits,
                priority=candidate.priority,
            )

    def _decide(
        self, asked: RememberedRequest, records: dict[AppVersionId, HostAppVersion], queue: _Queue
    ) -> list[RememberedOffer]:
        """Run the rule itself."""

        def at_host(ids: Sequence[WorkunitId]) -> frozenset[WorkunitId]:
            return frozenset(filter(queue.at_host, ids))

        decision = self._ask(asked, records, self._catalogue, iter(queue), at_host, rng=self._rng)
        records.update({record.app_version_id: record for record in decision.records})
        return [
            RememberedOffer(
                each.candidate, each.version.id, each.usage.flops, each.usage.peak_flops, each.report_deadline
            )
            for each in decision.assignments
        ]

    def _ask(
        self,
        asked: RememberedRequest,
        records: dict[AppVersionId, HostAppVersion],
        catalogue: Catalogue,
        candidates: Iterator[Candidate],
        at_host: Callable[[Sequence[WorkunitId]], frozenset[WorkunitId]],
        *,
        rng: random.Random | None,
    ) -> DispatchDecision:
        request = WorkRequest(
            host=asked.host,
            platforms=(PLATFORM,),
            client_version=CLIENT_VERSION,
            resources={
                CPU: ResourceRequest(
                    seconds=asked.seconds, instances=asked.instances, estimated_delay=asked.delay
                )
            },
            usable_ncpus=asked.ncpus,
            ram_bytes=ENOUGH_BYTES,
            disk_bytes=ENOUGH_BYTES,
            in_progress={AppId(1): asked.held},
            records=records,
        )
        return choose_work(
            request,
            candidates,
            catalogue,
            limits=self._limits,
            already_at_host=at_host,
            now=asked.now,
            rng=cast("random.Random", rng),  # where it is noted what a rule does, chance is an error
        )


def _noted_hosts(tape: Tape, queue: _Queue) -> Callable[[Sequence[WorkunitId]], frozenset[WorkunitId]]:
    def at_host(ids: Sequence[WorkunitId]) -> frozenset[WorkunitId]:
        held = {each: queue("held", each) for each in ids}
        for place, found in held.items():
            tape.take_note(f"ask('held', {place})", found)
        return frozenset(each for each in ids if held[each])

    return at_host
