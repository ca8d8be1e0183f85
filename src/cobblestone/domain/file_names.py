"""Names of files and folders that come from outside, made fit for any disk."""

from __future__ import annotations

import re

MAX_NAME_BYTES = 200
"""Disks take 255 bytes; a little is left for what is put before or behind."""

_NOT_ALLOWED = re.compile(r'[\x00-\x1f\x7f/\\:*?"<>|]')
_DEVICES = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")


def folder_name(name: str, otherwise: str) -> str:
    """Return a name for one folder, on Windows too; ``otherwise`` where nothing of ``name`` can be used.

    Names that had to be cut end in a part of ``otherwise``, so that two long names do not become one.
    """
    clean = _NOT_ALLOWED.sub("_", name).rstrip(". ")
    if not clean or _DEVICES.fullmatch(clean):
        return otherwise
    if len(clean.encode()) <= MAX_NAME_BYTES:
        return clean
    suffix = "~" + otherwise[-60:]
    return clean.encode()[: MAX_NAME_BYTES - len(suffix.encode())].decode("utf-8", "ignore") + suffix


def name_problem(name: str) -> str:
    """Return why a file in a program's folder cannot have a name on every system, as the end of a sentence; empty: it can."""
    if name.endswith("."):
        return "ends with a dot, which Windows drops"
    if _DEVICES.fullmatch(name):
        return "is that of a device on Windows"
    return ""


def same_file(name: str) -> str:
    """Return what two names have in common that are one file where a system does not tell capital letters from small ones."""
    return name.casefold()
