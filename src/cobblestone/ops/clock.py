"""The only place that reads the real time."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]
"""Returns Unix seconds."""

system_clock: Clock = time.time
