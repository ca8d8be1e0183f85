"""Workunits that a write has locked in order to send their results, and who has results of them already.

Several requests share a transaction.  The first one that looks at the queue locks as much of its head as they will need, without
waiting for other processes, and reads who has results of it: one round trip for all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Self

from cobblestone.domain.values import HostId, ResultId, UserId, WorkunitId
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.engine import Row
from cobblestone.store.work.steps import IS_NOT_LOST, IS_UNSENT

#: Workunits that are locked before it is known whether one of their results will be sent.
MOST = 64


def workunits_at(
    db: Database, workunit_ids: Sequence[WorkunitId], owner: UserId | HostId, *, host: bool
) -> set[WorkunitId]:
    """Return the workunits with a result sent to a user or (with ``host``) a host that was not lost with a client's state."""
    column = "host_id" if host else "user_id"
    statement = f"SELECT workunit_id FROM result WHERE {column} = ? AND workunit_id IN (??) AND {IS_NOT_LOST}"
    return {WorkunitId(row[0]) for row in db.query_in(statement, workunit_ids, (owner,))}


class Reserve:
    """The locked head of the queue; kept for one transaction."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._known: set[WorkunitId] = set()
        self._unsent: set[ResultId] = set()
        self._owners: defaultdict[WorkunitId, set[tuple[UserId, HostId]]] = defaultdict(set)

    @classmethod
    def of(cls, tx: Transaction) -> Self:
        """Return the one of a transaction."""
        return tx.kept.setdefault("reserve", cls(tx))

    def look(self, workunit_ids: Sequence[WorkunitId], queue: Iterable[WorkunitId] = ()) -> None:
        """Lock workunits that are not locked, and read who has their results.

        ``queue``: those that other requests of this transaction will probably look at.
        """
        missing = set(workunit_ids) - self._known
        if not missing:
            return
        room = min((self._tx.to_come or 0) * len(missing), MOST - len(self._known) - len(missing))
        others = (id_ for id_ in queue if id_ not in self._known and id_ not in missing)
        wanted = sorted(missing.union(islice(others, max(room, 0))))

        def results(db: Database) -> list[Row]:
            return db.query_in(
                f"SELECT id, workunit_id, user_id, host_id FROM result WHERE {IS_NOT_LOST}"
                f" AND (host_id IS NOT NULL OR {IS_UNSENT}) AND workunit_id IN (??)",
                wanted,
            )

        free = self._tx.lock_free("workunit", wanted, results)
        self._known.update(wanted)
        for result_id, workunit_id, user_id, host_id in results(self._tx):
            if host_id is not None:
                self._owners[workunit_id].add((user_id, host_id))
            elif workunit_id in free:
                self._unsent.add(result_id)

    def at(
        self,
        workunit_ids: Sequence[WorkunitId],
        owner: UserId | HostId,
        *,
        host: bool,
        queue: Iterable[WorkunitId] = (),
    ) -> set[WorkunitId]:
        """Return those of the workunits with a result at a user or (with ``host``) a host.

        They are locked meanwhile, unless there are too many.
        """
        wanted = self._known.union(workunit_ids)
        if len(self._known) < len(wanted) > MOST:
            return workunits_at(self._tx, workunit_ids, owner, host=host)
        self.look(workunit_ids, queue)
        return {id_ for id_ in workunit_ids if any(each[host] == owner for each in self._owners.get(id_, ()))}

    def is_free(self, result_id: ResultId) -> bool:
        """Return whether a result of a workunit that was looked at can be sent."""
        return result_id in self._unsent

    def sent(self, result_id: ResultId, workunit_id: WorkunitId, user_id: UserId, host_id: HostId) -> None:
        """Record that a result was sent in this transaction."""
        self._unsent.discard(result_id)
        self._owners[workunit_id].add((user_id, host_id))
