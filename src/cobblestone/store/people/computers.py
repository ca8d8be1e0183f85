"""What owners change about their computers: name, venue, whether others see it, merging, removing."""

from __future__ import annotations

from cobblestone.domain.errors import Conflict, NotFound
from cobblestone.domain.ids import HostId, UserId
from cobblestone.domain.states import ServerState
from cobblestone.policy.credit.rac import decayed
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.people import hosts


def set_computer(tx: Transaction, host_id: HostId, *, label: str, venue: str, hidden: bool) -> None:
    """Store an owner's choices."""
    tx.execute(
        "UPDATE host SET label = ?, venue = ?, hidden = ? WHERE id = ?", (label, venue, int(hidden), host_id)
    )


def has_work(db: Database, host_id: HostId) -> bool:
    """Return whether a computer has tasks that it has not reported."""
    return (
        db.value(
            f"SELECT 1 FROM result WHERE server_state = {ServerState.IN_PROGRESS} AND host_id = ? LIMIT 1",
            (host_id,),
        )
        is not None
    )


def remove_computer(tx: Transaction, host_id: HostId, *, now: float) -> None:
    """Take a computer off its owner's list and forget what it told of itself; it comes back when it calls again.

    Raises:
        Conflict: it still has tasks.
    """
    if has_work(tx, host_id):
        raise Conflict(f"Computer {host_id} has tasks in progress.")
    tx.execute(
        "UPDATE host SET removed_time = ?, domain_name = '', label = '', external_ip_addr = '', description = '{}'"
        " WHERE id = ?",
        (now, host_id),
    )


def merge_computers(tx: Transaction, user_id: UserId, old: HostId, new: HostId, *, now: float) -> None:
    """Make an older record of a computer part of a newer one: tasks and credit move over.

    Ledger entries move as well, so that the totals stay the sums of the ledger.

    Raises:
        NotFound: the user does not have both.
        Conflict: they are the same, or the older one still has tasks.
    """
    tx.lock("host", [old, new])
    source, target = hosts.host_by_id(tx, old), hosts.host_by_id(tx, new)
    if source is None or target is None or source.user_id != user_id or target.user_id != user_id:
        raise NotFound("There are no two such computers of this account.")
    if source.id == target.id:
        raise Conflict("These are the same computer already.")
    if has_work(tx, source.id):
        raise Conflict(f"Computer {source.id} has tasks in progress.")
    tx.execute("UPDATE result SET host_id = ? WHERE host_id = ?", (target.id, source.id))
    tx.execute("UPDATE credit_entry SET host_id = ? WHERE host_id = ?", (target.id, source.id))
    tx.execute(
        "UPDATE host SET total_credit = ?, expavg_credit = ?, expavg_time = ?, create_time = ? WHERE id = ?",
        (
            source.credit.total + target.credit.total,
            decayed(source.credit.recent, now) + decayed(target.credit.recent, now),
            now,
            min(source.create_time, target.create_time),
            target.id,
        ),
    )
    tx.execute("DELETE FROM app_credit WHERE owner = 'host' AND owner_id = ?", (source.id,))
    tx.execute(
        "UPDATE host SET merged_into = ?, total_credit = 0, expavg_credit = 0, domain_name = '', label = '',"
        " external_ip_addr = '', description = '{}' WHERE id = ?",
        (target.id, source.id),
    )
    tx.execute("UPDATE host SET merged_into = ? WHERE merged_into = ?", (target.id, source.id))
