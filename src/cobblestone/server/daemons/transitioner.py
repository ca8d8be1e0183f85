"""The transitioner: moves workunits along."""

from __future__ import annotations

from functools import partial

import structlog

from cobblestone.domain.errors import StoreError
from cobblestone.domain.hosts import HostAppVersion
from cobblestone.domain.ids import AppVersionId, HostId
from cobblestone.policy.credit import host_quality
from cobblestone.policy.credit.host_records import statistics_of, with_statistics
from cobblestone.policy.dispatch.quota import after_failure
from cobblestone.policy.lifecycle.effects import TimeOutResult, Transition, WorkunitView
from cobblestone.policy.lifecycle.transition import LifecycleTiming, apply_transition, next_transition
from cobblestone.server.core.context import ServerContext
from cobblestone.server.daemons.finisher import Finisher
from cobblestone.service.supervision import SWEEP_SECONDS
from cobblestone.store.engine.database import Transaction
from cobblestone.store.people import hosts
from cobblestone.store.work import lifecycle, view_changes

log = structlog.get_logger(__name__)

BATCH = 200
FINISHED_AT_ONCE = 40
"""Workunits that are taken all the way in one write: some 8 ms, in which nobody else can write on SQLite."""
LONGEST_SLEEP = 60.0


class Transitioner:
    """Applies the rules of the life cycle to workunits that are due."""

    name = "transitioner"

    def __init__(self, ctx: ServerContext, *, finishes: bool = False) -> None:
        """Begin; with ``finishes`` it takes simple jobs all the way, as the process also has the roles of the later steps."""
        self._ctx = ctx
        self._timing = LifecycleTiming(delete_delay_seconds=ctx.settings.files.delete_delay)
        self._finishes = finishes

    async def step(self) -> int:
        """Handle up to a batch of due workunits; how many."""
        if self._finishes:
            try:
                return await self._finish_some()
            except StoreError:
                raise
            except Exception:  # one of them spoils it for all: the validator will find out which
                log.exception("finishing_failed")
        return await self._ctx.store.awrite(partial(self._transact, limit=BATCH, finish=False))

    async def _finish_some(self) -> int:
        """Take a batch all the way, in writes that leave others their turn in between."""
        n = 0
        while n < BATCH:
            done = await self._ctx.store.awrite(partial(self._transact, limit=FINISHED_AT_ONCE, finish=True))
            n += done
            if done < FINISHED_AT_ONCE:
                break
        return n

    async def until_next(self) -> float:
        """Seconds until the next workunit becomes due."""
        due = await self._ctx.store.aread(lifecycle.next_transition_time)
        if due is None:
            return LONGEST_SLEEP
        return min(max(due - self._ctx.clock(), 0.05), SWEEP_SECONDS)

    def _transact(self, tx: Transaction, *, limit: int, finish: bool) -> int:
        now = self._ctx.clock()
        due = lifecycle.due_workunits(tx, now=now, limit=limit)
        decided = [(view, next_transition(view, timing=self._timing, now=now)) for view in due]
        if finish and due:
            self._apply_and_finish(tx, decided, now=now)
        else:
            lifecycle.apply_transitions(tx, decided, now=now)
        self._punish_time_outs(tx, decided)
        return len(due)

    def _apply_and_finish(
        self, tx: Transaction, decided: list[tuple[WorkunitView, Transition]], *, now: float
    ) -> None:
        new_ids = lifecycle.ids_of_new_results()
        finisher = Finisher(self._ctx, tx, self._timing, new_ids, now=now)
        after = finisher.finish([apply_transition(view, each, now, new_ids) for view, each in decided])
        before = (view for view, _ in decided)
        changes = zip(before, after, strict=True)
        view_changes.save(tx, changes, places=finisher.places, credit=finisher.credit, now=now)

    def _punish_time_outs(self, tx: Transaction, decided: list[tuple[WorkunitView, Transition]]) -> None:
        late: list[tuple[tuple[HostId, AppVersionId], float]] = []
        for view, transition in decided:
            results = {result.id: result for result in view.results}
            for effect in transition.effects:
                if isinstance(effect, TimeOutResult):
                    result = results[effect.result_id]
                    if result.host_id is not None and result.app_version_id is not None:
                        key = (result.host_id, result.app_version_id)
                        late.append((key, view.workunit.limits.delay_bound))
        if not late:
            return
        quota = self._ctx.settings.scheduler.daily_result_quota
        records: dict[tuple[HostId, AppVersionId], HostAppVersion] = hosts.records(
            tx, [key for key, _ in late]
        )
        now = self._ctx.clock()
        for key, delay_bound in late:
            record = after_failure(records[key], quota)
            quality = host_quality.after_failure(statistics_of(record), delay_bound=delay_bound, now=now)
            records[key] = with_statistics(record, quality)
        hosts.save_records(tx, records.values())
