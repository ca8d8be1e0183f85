"""What nearly every scheduler request asks of the database, sent at once: the answers then come together."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from cobblestone.domain.ids import HostId
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.people import hosts, users
from cobblestone.store.work import dispatch, messages
from cobblestone.wire.scheduler_request import SchedulerRequest


def ask_ahead(tx: Transaction, message: SchedulerRequest) -> None:
    """Ask for account, computer, its records and messages, and the results that it reports."""
    if not tx.asks_ahead:
        return
    askers: list[Callable[[Database], object]] = [
        partial(users.user_by_authenticator, authenticator=message.authenticator)
    ]
    if message.hostid > 0:
        host_id = HostId(message.hostid)
        askers += [
            partial(hosts.host_by_id, host_id=host_id),
            partial(hosts.records_of_host, host_id=host_id),
            partial(messages.waiting_messages, host_id=host_id),
        ]
    askers.append(partial(dispatch.rows_to_report, names=[item.name for item in message.results]))
    tx.ask_ahead(*askers)
