"""What owners change about their computers: name, venue, whether others see it, removing."""

from __future__ import annotations

from cobblestone.domain.errors import Conflict
from cobblestone.domain.ids import HostId
from cobblestone.domain.states import ServerState
from cobblestone.store.engine.database import Database, Transaction


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


def take_back_returned(tx: Transaction) -> int:
    """Show computers again that were removed and have called since; how many."""
    return tx.execute(
        "UPDATE host SET removed_time = NULL WHERE removed_time IS NOT NULL AND rpc_time > removed_time"
    )
