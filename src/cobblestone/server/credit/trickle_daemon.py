"""Partial credit: trickle messages of running jobs grant provisional credit, which the final grant includes.

Each message is handled once: its mark and its ledger entry are one write.
"""

from __future__ import annotations

from functools import partial

from cobblestone.domain.values import UserId
from cobblestone.domain.work import Result, ServerState
from cobblestone.policy.credit import book as books
from cobblestone.policy.credit.claims import CreditUnit
from cobblestone.server.core.context import ServerContext
from cobblestone.server.credit.grant_batch import ledger_entry
from cobblestone.store.catalog import apps
from cobblestone.store.credit import ledger
from cobblestone.store.engine.database import Transaction
from cobblestone.store.people import hosts
from cobblestone.store.work import messages
from cobblestone.store.work import rows as work
from cobblestone.store.work.messages import StoredTrickle
from cobblestone.store.work.rows import LOCKED_WORKUNITS
from cobblestone.wire.client.task_messages import CREDIT_VARIETY, read_run_time

#: Messages in one write: a few milliseconds, in which nothing else can write on SQLite.
BATCH = 50
SYSTEM = "trickle"


class TrickleCredit:
    """Grants credit for messages of the variety ``trickle_credit``, for apps that allow it."""

    def __init__(self, ctx: ServerContext) -> None:
        self._ctx = ctx

    async def step(self) -> int:
        """Handle up to a batch of messages; return how many."""
        return await self._ctx.store.awrite(self._transact)

    def _transact(self, tx: Transaction) -> int:
        waiting = messages.unhandled_trickles(tx, CREDIT_VARIETY, limit=BATCH)
        if not waiting:
            return 0
        names = [each.result_name for each in waiting]
        tx.lock_rows(LOCKED_WORKUNITS, names)
        results = work.results_by_name(tx, names)
        paying = {app.id for app in apps.list_apps(tx) if app.partial_credit or app.credit_system == SYSTEM}
        batch = _Batch(tx, self._ctx, list(results.values()))
        for message in waiting:
            result = results.get(message.result_name)
            if result is not None and result.app_id in paying:
                # perhaps its computer cannot be read
                list(tx.readable(partial(batch.grant, message), [result]))
            messages.mark_handled(tx, message.id)
        batch.save()
        return len(waiting)


class _Batch:
    """Messages of one write; those of one result see each other."""

    def __init__(self, tx: Transaction, ctx: ServerContext, results: list[Result]) -> None:
        self._tx = tx
        self._now = ctx.clock()
        self._unit = CreditUnit(ctx.settings.credit.per_gflops_day)
        self._book = books.CreditBook()
        self._returned: dict[UserId, float] = {}
        seconds = ledger.trickle_seconds(tx, [result.id for result in results])
        self._book.messages = {result.id: (seconds[result.id], result.granted_credit) for result in results}
        wanted = sorted({result.workunit_id for result in results})
        self._workunits = work.readable_workunits(tx, wanted)
        known = ctx.offers.get(tx).catalogue.population
        self._rules = books.TrickleRules(median_speed=known.median, percentile_95_speed=known.percentile_95)
        self._entries: list[ledger.CreditEntry] = []

    def grant(self, message: StoredTrickle, result: Result) -> None:
        """Add the credit for one message."""
        if result.host_id is None or result.user_id is None or result.workunit_id not in self._workunits:
            return
        if result.user_id not in self._returned:
            open_, self._returned[result.user_id] = ledger.open_and_returned(
                self._tx, result.user_id, after=self._now - books.OPEN_WINDOW
            )
            self._book.owner_messages[result.user_id] = open_
        event = books.MessageReceived(
            result_id=result.id,
            user_id=result.user_id,
            facts=self._facts(message, result, self._returned[result.user_id]),
            rules=self._rules,
            unit=self._unit,
            now=self._now,
        )
        self._entries += [
            ledger_entry(result, entry, system=SYSTEM, unit=self._unit, kind=ledger.TRICKLE)
            for entry in self._book.apply(event)
        ]

    def _facts(self, message: StoredTrickle, result: Result, returned: float) -> books.TrickleFacts:
        processors = hosts.processors(self._tx, [message.host_id]).get(message.host_id, hosts.Processors())
        return books.TrickleFacts(
            run_time=read_run_time(message.text),
            p_fpops=processors.p_fpops,
            in_progress=result.server_state is ServerState.IN_PROGRESS and result.host_id == message.host_id,
            sent_time=result.sent_time or self._now,
            most_credit=self._unit.of_flops(self._workunits[result.workunit_id].limits.rsc_fpops_bound),
            owner_most_credit=books.owner_allowance(
                returned=returned,
                speed=processors.p_fpops,
                known_since=processors.known_since,
                rules=self._rules,
                unit=self._unit,
                now=self._now,
            ),
        )

    def save(self) -> None:
        """Write everything."""
        ledger.grant(self._tx, self._entries, now=self._now)
        ledger.save_trickle_seconds(
            self._tx, {id_: self._book.messages[id_][0] for id_ in self._book.changed.messages}
        )
