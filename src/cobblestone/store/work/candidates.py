"""The unsent results that the scheduler looks at, kept in memory.

The truth stays in the database: a candidate is only handed out by a conditional update
(see `cobblestone.store.work.dispatch.claim`).  The queue belongs to the writer's thread.  A crash loses it, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator

from cobblestone.domain.hosts import Host
from cobblestone.domain.ids import (
    AppId,
    AppVersionId,
    BatchId,
    HostId,
    ResultId,
    TeamId,
    UserId,
    WorkunitId,
)
from cobblestone.domain.states import AssimilateState
from cobblestone.policy.dispatch.catalogue import Candidate
from cobblestone.store.engine.database import Database, Row
from cobblestone.store.work.rows import TARGETED, decode_inputs, decode_outputs, limits_from
from cobblestone.store.work.steps import IS_UNSENT, matching

PAGE = 2000
MAX_HELD = 20_000
MAX_TARGETED = 200

_COLUMNS = (
    "r.id, r.name, r.workunit_id, w.name, r.app_id, r.priority, w.batch_id, w.hr_class, w.app_version_id,"
    " w.target_host_id, w.target_user_id, w.command_line, w.input_files, w.output_specs, w.rsc_fpops_est,"
    " w.rsc_fpops_bound, w.rsc_memory_bound, w.rsc_disk_bound, w.delay_bound, w.rsc_bandwidth_bound,"
    " w.target_team_id, w.size_class, w.priority, r.create_time, r.turn, w.target_nresults"
)


def candidate_from(row: Row) -> Candidate:
    """A candidate from a row of result and workunit."""
    return Candidate(
        result_id=ResultId(row[0]),
        result_name=row[1],
        workunit_id=WorkunitId(row[2]),
        workunit_name=row[3],
        app_id=AppId(row[4]),
        priority=row[5],
        batch_id=None if row[6] is None else BatchId(row[6]),
        hr_class=row[7],
        app_version_id=None if row[8] is None else AppVersionId(row[8]),
        target_host_id=None if row[9] is None else HostId(row[9]),
        target_user_id=None if row[10] is None else UserId(row[10]),
        command_line=row[11],
        input_files=decode_inputs(row[12]),
        output_specs=decode_outputs(row[13]),
        limits=limits_from(row[14:20]),
        target_team_id=None if row[20] is None else TeamId(row[20]),
        size_class=row[21],
        retry=row[5] > row[22],
        create_time=row[23],
        turn=row[24],
        replicated=row[25] > 1,
    )


def candidates_of_results(db: Database, result_ids: list[ResultId]) -> dict[ResultId, Candidate]:
    """Candidates for given results, whatever their state (to send lost ones again)."""
    rows = db.query_in(
        f"SELECT {_COLUMNS} FROM result r JOIN workunit w ON w.id = r.workunit_id WHERE r.id IN (??)",
        result_ids,
    )
    return {ResultId(row[0]): candidate_from(row) for row in rows}


_Key = tuple[str, int]  # kind and id of the only one who may get a result


def _key(candidate: Candidate) -> _Key:
    if candidate.target_host_id is not None:
        return "host", candidate.target_host_id
    if candidate.target_user_id is not None:
        return "user", candidate.target_user_id
    return "team", candidate.target_team_id or 0


class CandidateQueue:
    """Unsent results by priority, turn and age; those for one host, user or team apart."""

    def __init__(self) -> None:
        self._held: dict[ResultId, Candidate] = {}
        self._targeted: dict[_Key, dict[ResultId, Candidate]] = {}
        self._n_targeted = 0
        self._any_targeted: bool | None = (
            None  # whether there are such workunits; None: not looked since new results came
        )
        self._served: dict[int, float] = {}  # the largest turn that was sent, by priority
        self._last: tuple[int, float, int] | None = None  # priority, turn and id of the last one read
        self._complete = False  # whether all unsent results are held
        self._dropped = False  # whether some that nobody wanted were let go
        self._stale = True  # whether unsent results were made since the last full read
        self._slice = (0, 1)  # our number among the schedulers, and how many they are
        self._own = True  # whether what is read is of our own slice

    def __len__(self) -> int:
        return len(self._held)

    def invalidate(self) -> None:
        """New results were made, or a write was undone: read again before the next look."""
        self._stale = True

    def set_slice(self, number: int, count: int) -> None:
        """Of several schedulers, each looks at workunits of its own first, so that they seldom want the same."""
        if self._slice != (number, count):
            self._slice = (number, count)
            self._stale = True

    def remove(self, result_id: ResultId, *, claimed: bool = True) -> None:
        """A result was claimed, or (``claimed`` false) is gone or in use by another process at this moment."""
        if self._held.pop(result_id, None) is None:
            for held in self._targeted.values():
                held.pop(result_id, None)
        if not claimed:
            self._dropped = True

    def replace(self, candidate: Candidate) -> None:
        """The workunit of a candidate has changed."""
        if candidate.result_id in self._held:
            self._held[candidate.result_id] = candidate
        elif candidate.targeted:
            self._add_targeted(candidate)

    def sent(self, candidate: Candidate) -> None:
        """A result was claimed: its turn has been served."""
        if candidate.targeted:
            self._targeted.get(_key(candidate), {}).pop(candidate.result_id, None)
        else:
            self._held.pop(candidate.result_id, None)
        if not candidate.retry and candidate.turn > self._served.get(candidate.priority, 0.0):
            self._served[candidate.priority] = candidate.turn

    def served(self, priority: int) -> float:
        """The turn that has been served among results of this priority."""
        return self._served.get(priority, 0.0)

    def targeted(self, db: Database, host: Host, team_id: TeamId | None) -> list[Candidate]:
        """Results that are for this host, its user or his team alone, best first."""
        self._refresh()
        if not self._complete:
            if self._any_targeted is None:
                self._any_targeted = bool(db.value(f"SELECT 1 FROM workunit WHERE {TARGETED} LIMIT 1"))
            if self._any_targeted:
                self._read_targeted(db, host, team_id)
        if not self._targeted:
            return []
        keys = (("host", host.id), ("user", host.user_id), ("team", team_id or 0))
        return [each for key in keys for each in self._targeted.get(key, {}).values()]

    def scan(self, db: Database) -> Iterator[Candidate]:
        """All unsent results, best first; reads more from the database as far as the caller looks.

        Do not change the queue before the iterator is done with.
        """
        self._refresh()
        yield from self._held.values()
        while not self._complete and len(self._held) < MAX_HELD:
            yield from self._read_page(db)
        # Nobody wanted what is held.  Go on behind it next time, and start over after the end, so that no job waits for
        # ever behind unwanted ones and memory stays bounded.
        if not self._complete:
            self._held.clear()
            self._dropped = True
        elif self._dropped:
            self._stale = True

    def _refresh(self) -> None:
        if self._stale:
            self._held.clear()
            self._targeted.clear()
            self._n_targeted = 0
            self._last = self._any_targeted = None
            self._complete = self._dropped = self._stale = False
            self._own = True

    def _add_targeted(self, candidate: Candidate) -> None:
        self._n_targeted += 1
        self._targeted.setdefault(_key(candidate), {})[candidate.result_id] = candidate

    def _read_targeted(self, db: Database, host: Host, team_id: TeamId | None) -> None:
        for column, target in (("host", host.id), ("user", host.user_id), ("team", team_id)):
            if target is not None:
                rows = db.query(
                    f"SELECT {_COLUMNS} FROM workunit w JOIN result r ON r.workunit_id = w.id"
                    f" WHERE w.target_{column}_id = ? AND w.{matching(AssimilateState.INIT)} AND r.{IS_UNSENT}"
                    f" ORDER BY w.id LIMIT {MAX_TARGETED}",
                    (target,),
                )
                for row in rows:
                    self._add_targeted(candidate_from(row))

    def _read_page(self, db: Database) -> list[Candidate]:
        where, parameters = "", list[object]()
        number, count = self._slice
        if count > 1:
            where = f" AND r.workunit_id % ? {'=' if self._own else '<>'} ?"
            parameters = [count, number]
        if self._last is not None:
            priority, turn, last = self._last
            where += " AND (r.priority < ? OR (r.priority = ? AND (r.turn > ? OR (r.turn = ? AND r.id > ?))))"
            parameters += [priority, priority, turn, turn, last]
        rows = db.query(
            f"SELECT {_COLUMNS} FROM result r JOIN workunit w ON w.id = r.workunit_id WHERE r.{IS_UNSENT}{where}"
            f" ORDER BY r.priority DESC, r.turn, r.id LIMIT {PAGE}",
            parameters,
        )
        if rows:
            self._last = (rows[-1][5], rows[-1][24], rows[-1][0])
        if len(rows) < PAGE and self._own and count > 1:
            self._own, self._last = False, None  # then the others' slices
        else:
            self._complete = len(rows) < PAGE
        page: list[Candidate] = []
        for row in rows:
            candidate = candidate_from(row)
            if not candidate.targeted:
                page.append(candidate)
            elif self._n_targeted < MAX_HELD:
                self._add_targeted(candidate)
        self._held.update((candidate.result_id, candidate) for candidate in page)
        return page
