"""Waiting for what other processes do."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(condition: Callable[[], bool], *, seconds: float = 60, pause: float = 0.02) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not come true"
        time.sleep(pause)
