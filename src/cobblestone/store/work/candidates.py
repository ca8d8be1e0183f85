"""The unsent results that the scheduler considers, cached in memory.

The truth stays in the database: a candidate is only handed out by a conditional update
(see `cobblestone.store.work.dispatch.claim`).  The queue belongs to the writer's thread.  A crash loses it, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cobblestone.domain.errors import UnreadableRow
from cobblestone.domain.hosts import Host
from cobblestone.domain.values import HostId, ResultId, TeamId, WorkunitId, changed
from cobblestone.domain.work import AssimilateState
from cobblestone.policy.dispatch.catalogue import Candidate
from cobblestone.store.engine.database import Database
from cobblestone.store.engine.engine import Row
from cobblestone.store.engine.mapping import Column, RowMapper
from cobblestone.store.work.rows import LIMITS, TARGETED, decode_outputs
from cobblestone.store.work.steps import FOUND, IS_UNSENT, matching

#: Results that are read together when none are held: half a millisecond, in which nothing else can write on SQLite.
FIRST_PAGE = 250
#: As many as are held are read further, at most so many: few of them are what a host can take.
PAGE = 1000
#: The head of the queue; of what is behind it, a host that finds nothing there sees one page.
MAX_HELD = 2000
MAX_TARGETED = 200

_CANDIDATES = RowMapper(
    Candidate,
    {
        **{name: f"r.{name}" for name in ("workunit_id", "app_id", "priority", "create_time", "turn")},
        **{f"result_{name}": f"r.{name}" for name in ("id", "name")},
        **{f"target_{who}_id": f"w.target_{who}_id" for who in ("host", "user", "team")},
        **{name: f"w.{name}" for name in ("batch_id", "hr_class", "app_version_id", "size_class")},
        **{name: f"w.{name}" for name in ("command_line", "input_files")},
        "workunit_name": "w.name",
        "limits": LIMITS.embedded("w"),
        "output_specs": Column(sql="w.output_specs", decode=decode_outputs),
        "retry": "r.priority > w.priority",
        "replicated": "w.target_nresults > 1",
    },
)


def candidates_of_results(db: Database, result_ids: list[ResultId]) -> dict[ResultId, Candidate]:
    """Return candidates for given results, in any state (to send lost ones again)."""
    source = "result r JOIN workunit w ON w.id = r.workunit_id WHERE r.id IN (??)"
    rows = db.query_in(f"SELECT {_CANDIDATES.columns} FROM {source}", result_ids)
    return {each.result_id: each for each in db.readable(_CANDIDATES.load, rows)}


def candidate_of_batch(db: Database, batch_id: int) -> tuple[Candidate, int] | None:
    """Return a candidate for a batch's first open job, and its quorum; None if no job is open."""
    row = db.one(
        f"SELECT {_CANDIDATES.columns}, w.min_quorum FROM workunit w JOIN (SELECT 0 AS id, '' AS name, id AS workunit_id,"
        " app_id, priority, create_time, turn FROM workunit) r ON r.workunit_id = w.id WHERE w.batch_id = ? AND"
        " w.completed_seq IS NULL AND w.error_mask = 0 ORDER BY w.id LIMIT 1",
        (batch_id,),
    )
    if row is None:
        return None
    free = changed(_CANDIDATES.load(row), workunit_id=WorkunitId(0), hr_class=0, app_version_id=None)
    return free, int(row[-1])


_Key = tuple[str, int]  # kind and id of the only one who may get a result
_Place = tuple[int, float, int]  # priority (negative: the highest comes first), turn and id of a result


def _key(candidate: Candidate) -> _Key:
    if candidate.target_host_id is not None:
        return "host", candidate.target_host_id
    if candidate.target_user_id is not None:
        return "user", candidate.target_user_id
    return "team", candidate.target_team_id or 0


class CandidateQueue:
    """Unsent results by priority, turn and age; those for one host, user or team separately."""

    def __init__(self) -> None:
        self._held: dict[ResultId, Candidate] = {}
        self._targeted: dict[_Key, dict[ResultId, Candidate]] = {}
        self._n_targeted = 0
        # whether there are such workunits; None: not looked since new results came
        self._any_targeted: bool | None = None
        self._served: dict[int, float] = {}  # the largest turn that was sent, by priority
        self._last: _Place | None = None  # of the last one read
        self._behind: _Place | None = None  # where the next look behind those that are held begins
        self._looked: _Place | None = None  # where the last one began
        self._complete = False  # whether all unsent results are held
        self._dropped = False  # whether some were let go that nobody here claimed
        self._stale = True  # whether unsent results were made since the last full read
        self._slice = (0, 1)  # our number among the schedulers, and how many they are
        self._own = True  # whether what is read is of our own slice

    def __len__(self) -> int:
        return len(self._held)

    def workunits(self) -> Iterator[WorkunitId]:
        """Yield the workunits of results that are held, best first."""
        return (candidate.workunit_id for candidate in self._held.values())

    def invalidate(self) -> None:
        """Reload before the next scan: new results were created, or a write was undone."""
        self._stale = True

    def set_slice(self, number: int, count: int) -> None:
        """Scan this process's own workunits first: with several schedulers, this avoids conflicts."""
        if self._slice != (number, count):
            self._slice = (number, count)
            self._stale = True

    def remove(self, result_id: ResultId, *, claimed: bool = True) -> None:
        """Remove a result that was claimed, or (``claimed`` false) is gone or in use by another process."""
        if self._held.pop(result_id, None) is None:
            for held in self._targeted.values():
                held.pop(result_id, None)
        if not claimed:
            self._dropped = True

    def replace(self, candidate: Candidate) -> None:
        """Replace a candidate whose workunit has changed."""
        if candidate.result_id in self._held:
            self._held[candidate.result_id] = candidate
        elif candidate.targeted:
            self._add_targeted(candidate)

    def sent(self, candidate: Candidate) -> None:
        """Record that a result was claimed: its turn has been served."""
        if candidate.targeted:
            self._targeted.get(_key(candidate), {}).pop(candidate.result_id, None)
        elif self._held.pop(candidate.result_id, None) is None:
            self._behind = self._looked  # others may find theirs there, too
        if not candidate.retry and candidate.turn > self._served.get(candidate.priority, 0.0):
            self._served[candidate.priority] = candidate.turn

    def served(self, priority: int) -> float:
        """Return the turn that has been served among results of this priority."""
        return self._served.get(priority, 0.0)

    def last_served(self) -> float:
        """Return the largest turn served, of any priority."""
        return max(self._served.values(), default=0.0)

    def targeted(self, db: Database, host: Host, team_id: TeamId | None) -> list[Candidate]:
        """Return results only for this host, its user or the user's team, best first."""
        self._refresh()
        if self._complete and self._n_targeted < MAX_HELD:
            keys = (("host", host.id), ("user", host.user_id), ("team", team_id or 0))
            return [each for key in keys for each in self._targeted.get(key, {}).values()]
        if self._any_targeted is None:
            self._any_targeted = bool(db.value(f"SELECT 1 FROM workunit WHERE {TARGETED} LIMIT 1"))
        return self._read_targeted(db, host, team_id) if self._any_targeted else []

    def scan(self, db: Database) -> Iterator[Candidate]:
        """Yield unsent results, best first: those that are held, read from the database as needed, then a page of the others.

        Do not change the queue before the iterator is done with.
        """
        self._refresh()
        yield from self._held.values()
        while not self._complete and len(self._held) < MAX_HELD:
            yield from self._read_page(db)
        # No host took what is held.  Looks go on until one finds something, so that no job waits for ever behind unwanted ones,
        # while one request reads no more than this.
        if not self._complete:
            yield from self._look_behind(db)
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

    def _read_targeted(self, db: Database, host: Host, team_id: TeamId | None) -> list[Candidate]:
        return [
            candidate
            for column, target in (("host", host.id), ("user", host.user_id), ("team", team_id))
            if target is not None
            for candidate in _load(
                db,
                "workunit w JOIN result r ON r.workunit_id = w.id"
                f" WHERE w.target_{column}_id = ? AND w.{matching(AssimilateState.INIT)} AND {FOUND}r.{IS_UNSENT}"
                f" ORDER BY w.id LIMIT {MAX_TARGETED}",
                (target,),
            )
        ]

    def _read_page(self, db: Database) -> list[Candidate]:
        """Hold the next results."""
        where, parameters = "", list[object]()
        wanted = min(max(FIRST_PAGE, len(self._held)), PAGE)
        number, count = self._slice
        if count > 1:
            where = f" AND r.workunit_id % ? {'=' if self._own else '<>'} ?"
            parameters = [count, number]
        if self._n_targeted >= MAX_HELD:
            where += " AND w.target_host_id IS NULL AND w.target_user_id IS NULL AND w.target_team_id IS NULL"
        found = _read(db, self._last, wanted, where, parameters)
        if found:
            self._last = _place(found[-1])
        if len(found) < wanted and self._own and count > 1:
            self._own, self._last = False, None  # then the others' slices
        else:
            self._complete = len(found) < wanted
        page: list[Candidate] = []
        for candidate in found:
            if not candidate.targeted:
                page.append(candidate)
            else:
                self._add_targeted(candidate)
        self._held.update((candidate.result_id, candidate) for candidate in page)
        return page

    def _look_behind(self, db: Database) -> list[Candidate]:
        """Return a page of results behind those that are held, and behind the page before unless a host took one of it."""
        if self._last is not None and (self._behind is None or self._behind < self._last):
            self._behind = self._last
        self._looked = self._behind
        found = _read(db, self._looked, PAGE)
        self._behind = _place(found[-1]) if len(found) == PAGE else None
        return [each for each in found if not each.targeted and each.result_id not in self._held]


def _place(candidate: Candidate) -> _Place:
    return -candidate.priority, candidate.turn, candidate.result_id


def _load(db: Database, source: str, parameters: Sequence[object]) -> list[Candidate]:
    """Return the candidates of some rows.  One that cannot be read keeps its place, as a result that no host gets."""
    rows = db.query(f"SELECT {_CANDIDATES.columns} FROM {source}", parameters)
    try:
        return [_CANDIDATES.load(row) for row in rows]
    except UnreadableRow:
        return [next(db.readable(_CANDIDATES.load, [row]), _for_nobody(row)) for row in rows]


def _for_nobody(row: Row) -> Candidate:
    known = dict(zip(_CANDIDATES.names, row, strict=True))
    kept = {name: known[f"r.{name}"] for name in ("workunit_id", "app_id", "priority", "turn")}
    return Candidate(
        result_id=known["r.id"], result_name="", workunit_name="", target_host_id=HostId(0), **kept
    )


def _read(
    db: Database, after: _Place | None, limit: int, where: str = "", parameters: Sequence[object] = ()
) -> list[Candidate]:
    """Return unsent results after a place in the queue, best first."""

    def load(more: str, values: Sequence[object], most: int) -> list[Candidate]:
        source = (
            f"result r JOIN workunit w ON w.id = r.workunit_id WHERE r.{IS_UNSENT}{where}{more}"
            f" ORDER BY r.priority DESC, r.turn, r.id LIMIT {most}"
        )
        return _load(db, source, [*parameters, *values])

    if after is None:
        return load("", (), limit)
    place, turn, last = after  # two statements, for no index leads to one condition of both
    found = load(" AND r.priority = ? AND (r.turn, r.id) > (?, ?)", (-place, turn, last), limit)
    if len(found) < limit:
        found += load(" AND r.priority < ?", (-place,), limit - len(found))
    return found
