"""What a backup of a project may hold."""

from __future__ import annotations

from enum import StrEnum


class KeysInBackup(StrEnum):
    """Which secrets a backup holds."""

    ALL = "all"
    NO_SIGNING_KEY = "no-signing-key"  #: all but the private key that signs programs
    NONE = "none"
