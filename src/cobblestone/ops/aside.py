"""Long messages of strangers are read beside the event loop, so that others are answered meanwhile.

Readers take linear time.  What takes it is the number of elements: 3 microseconds each in the worst texts of
`tests/unit/test_linear_time.py`, the bytes between them next to nothing; twice that on a busy machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
Text = TypeVar("Text", bytes, str)

#: Bytes that any reader reads within 5 ms, whatever they are, as of an ordinary request for work.
LITTLE = 7168
#: Bytes, and elements, that take no longer together.  Reports of some finished jobs have fewer: a thread would cost them a
#: tenth of all their CPU time.
SHORT = 24 * 1024
FEW = 1024


def is_short(body: bytes | str) -> bool:
    """Return whether a message is read so soon that nobody notices."""
    if len(body) <= LITTLE:
        return True
    elements = body.count("<") if isinstance(body, str) else body.count(b"<")
    return len(body) <= SHORT and elements <= FEW


async def read_aside(read: Callable[[Text], T], body: Text) -> T:
    """Return what a reader makes of a message; a long one is read in a thread, which gives way every few milliseconds."""
    return read(body) if is_short(body) else await asyncio.to_thread(read, body)
