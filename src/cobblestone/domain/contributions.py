"""What computers give beside computing: each kind has its own unit, ledger and averages, and none is ever credit."""

from __future__ import annotations

from enum import StrEnum


class Contribution(StrEnum):
    """A kind of contribution."""

    STORAGE = "storage"  #: byte-days of files that the project asked to keep, as far as they were proven
    RECEIVED = "received"  #: bytes of inputs that the scheduler asked the computer to fetch
    SENT = "sent"  #: bytes of outputs that the server took in
