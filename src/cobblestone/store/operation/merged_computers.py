"""Two records of one computer become one: its tasks, its credit and its name."""

from __future__ import annotations

from cobblestone.domain.errors import Conflict, NotFound
from cobblestone.domain.ids import HostId, UserId
from cobblestone.store.credit import app_credit, contributions, ledger
from cobblestone.store.engine.database import Transaction
from cobblestone.store.people import hosts
from cobblestone.store.people.computers import has_work
from cobblestone.store.work import kept_files


def merge_computers(tx: Transaction, user_id: UserId, old: HostId, new: HostId, *, now: float) -> None:
    """Make an older record of a computer part of a newer one: tasks and credit move over.

    The ledger stays as it is, with a further entry that says so: what both were credited is the survivor's from now on.

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
    ledger.merge_hosts(tx, user_id, source.id, target.id, created=target.create_time, now=now)
    app_credit.merge_hosts(tx, source.id, target.id, now=now)
    contributions.merge_hosts(tx, source.id, target.id, now=now)
    kept_files.forget_hosts(
        tx, [source.id]
    )  # its files count for the survivor as soon as that one lists them
    tx.execute(
        "UPDATE host SET create_time = ? WHERE id = ?",
        (min(source.create_time, target.create_time), target.id),
    )
    tx.execute(
        "UPDATE host SET merged_into = ?, domain_name = '', label = '', external_ip_addr = '', description = '{}'"
        " WHERE id = ?",
        (target.id, source.id),
    )
    tx.execute("UPDATE host SET merged_into = ? WHERE merged_into = ?", (target.id, source.id))
