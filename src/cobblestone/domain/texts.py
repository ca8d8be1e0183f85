"""Texts from outside: names safe for any disk, and the text that BOINC clients keep.

Texts that clients of the family keep, and what they lose of them.

Client 7.20.5 takes the escapes out of a text that it is sent, writes some of them as they are then into its
``client_state.xml`` (name of the project, title of an app, venue, command lines, names of platforms and plan classes), and reads
that file when it starts again: after a ``<`` it forgets the project and all its jobs, and ``&lt;`` has become one by then.
"""

from __future__ import annotations

import re

from cobblestone.domain.errors import JobError

#: Disks take 255 bytes; a little is left for what is put before or behind.
MAX_NAME_BYTES = 200

_NOT_ALLOWED = re.compile(r'[\x00-\x1f\x7f/\\:*?"<>|]')
_DEVICES = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")


def several(n: int, noun: str) -> str:
    """Return a number and its noun in English, whose plural ends in s: ``1 file``, ``2 files``."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def folder_name(name: str, otherwise: str) -> str:
    """Return a name for one folder, on Windows too; ``otherwise`` if nothing of ``name`` can be used.

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
    """Return why a name is not allowed for a file on every system, as the end of a sentence; empty if it is."""
    if name.endswith("."):
        return "ends with a dot, which Windows removes"
    if _DEVICES.fullmatch(name):
        return "is a device name on Windows"
    return ""


def same_file(name: str) -> str:
    """Return a key that is equal for two names of one file on a case-insensitive system."""
    return name.casefold()


#: What clients keep of a name or title; a longer one is dropped as a whole.
MAX_BYTES = 255

_LOST = re.compile("<|&(?=#?[0-9A-Za-z]{1,31};)")


def markup_in(text: str) -> str:
    """Return the first piece of a text that clients would not keep; empty if they keep it."""
    found = _LOST.search(text)
    return text[found.start() : found.start() + 12] if found else ""


def check_kept(text: str, what: str, *, advice: str, max_bytes: int = 0) -> None:
    """Check that clients keep a text that a person wrote.  ``max_bytes`` 0: it may be of any length.

    Raises:
        JobError: they would not; the text says why, and gives the ``advice``.
    """
    if piece := markup_in(text):
        raise JobError(
            f"{what} contains {piece!r}: BOINC clients would write it into their state as it is, and lose all their jobs of this"
            f" project at the next start. {advice}"
        )
    if max_bytes and len(text.encode()) > max_bytes:
        raise JobError(f"{what} has {len(text.encode())} bytes; BOINC clients keep {max_bytes}. {advice}")


def without_markup(text: str) -> str:
    """Return a title that clients keep: with a bracket that looks alike, and without the meaning of escapes."""
    if "<" not in text and "&" not in text:
        return text
    return _LOST.sub(lambda found: "\u2039" if found[0] == "<" else "+", text)
