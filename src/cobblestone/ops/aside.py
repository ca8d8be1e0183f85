"""Long messages of strangers are read beside the event loop, so that others are answered meanwhile.

Readers take linear time: 0.6 microseconds a byte of the worst texts of `tests/unit/test_linear_time.py`, twice that on a busy
machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
Text = TypeVar("Text", bytes, str)

#: Bytes that any reader reads within 5 ms.  An ordinary request for work is shorter: a thread would cost it a tenth more.
SHORT = 7168


async def read_aside(read: Callable[[Text], T], body: Text) -> T:
    """Return what a reader makes of a message; a long one is read in a thread, which gives way every few milliseconds."""
    return read(body) if len(body) <= SHORT else await asyncio.to_thread(read, body)
