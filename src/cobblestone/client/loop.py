"""What the parts of the client may ask of the daemon's loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from cobblestone.policy.client.core.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """The functions of the daemon's loop that its parts call."""

    clock: Callable[[], float]
    post: Callable[[*tuple[Event, ...]], None]  #: tell the core of events, in this turn of the loop
    drain: Callable[[], None]  #: tell the core at once, save everything, and carry out its instructions
    save: Callable[[], bool]  #: write what has changed; False: the disk is full
    background: Callable[[Coroutine[Any, Any, None]], None]  #: run this beside; failures go to the event log
