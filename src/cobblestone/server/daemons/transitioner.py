"""The transitioner: moves workunits along."""

from __future__ import annotations

from cobblestone.domain.hosts import HostAppVersion
from cobblestone.domain.ids import AppVersionId, HostId
from cobblestone.policy.credit import host_quality
from cobblestone.policy.credit.host_records import statistics_of, with_statistics
from cobblestone.policy.dispatch.quota import after_failure
from cobblestone.policy.lifecycle.effects import TimeOutResult, Transition, WorkunitView
from cobblestone.policy.lifecycle.transition import LifecycleTiming, next_transition
from cobblestone.server.core.context import ServerContext
from cobblestone.service.supervision import SWEEP_SECONDS
from cobblestone.store.engine.database import Transaction
from cobblestone.store.people import hosts
from cobblestone.store.work import lifecycle

BATCH = 200
LONGEST_SLEEP = 60.0


class Transitioner:
    """Applies the rules of the life cycle to workunits that are due."""

    name = "transitioner"

    def __init__(self, ctx: ServerContext) -> None:
        self._ctx = ctx
        self._timing = LifecycleTiming(delete_delay_seconds=ctx.settings.files.delete_delay)

    async def step(self) -> int:
        """Handle up to a batch of due workunits; how many."""
        return await self._ctx.store.awrite(self._transact)

    async def until_next(self) -> float:
        """Seconds until the next workunit becomes due."""
        due = await self._ctx.store.aread(lifecycle.next_transition_time)
        if due is None:
            return LONGEST_SLEEP
        return min(max(due - self._ctx.clock(), 0.05), SWEEP_SECONDS)

    def _transact(self, tx: Transaction) -> int:
        now = self._ctx.clock()
        due = lifecycle.due_workunits(tx, now=now, limit=BATCH)
        decided = [(view, next_transition(view, timing=self._timing, now=now)) for view in due]
        lifecycle.apply_transitions(tx, decided, now=now)
        self._punish_time_outs(tx, decided)
        return len(due)

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
