"""Who may see what.

Everybody sees names, credit, workunits, and how tasks ended.  Computers, the list of a user's tasks, and what a program
wrote to stderr are shown to others only if the owner shows computers, and this one.  Address, keys, names of machines and network
addresses are for the owner alone.
"""

from __future__ import annotations

from cobblestone.domain.hosts import Host
from cobblestone.domain.people import User


def is_owner(viewer: User | None, owner: User | None) -> bool:
    """Whether the visitor looks at what is their own."""
    return viewer is not None and owner is not None and viewer.id == owner.id


def sees_computers(viewer: User | None, owner: User | None) -> bool:
    """Whether the visitor may see the owner's computers and lists of tasks."""
    return owner is not None and (owner.show_hosts or is_owner(viewer, owner))


def sees_computer(viewer: User | None, owner: User | None, host: Host) -> bool:
    """Whether the visitor may see this computer: its owner may also hide a single one."""
    return sees_computers(viewer, owner) and (not host.hidden or is_owner(viewer, owner))
