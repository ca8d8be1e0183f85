"""The loop between the core of decisions and those parts of the client that carry its instructions out."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from cobblestone.client.records.decisions import CoreDriver
from cobblestone.client.records.journal import Journal
from cobblestone.client.records.state import ClientDatabase
from cobblestone.domain.errors import StoreError
from cobblestone.ops.policies import USUAL
from cobblestone.policy.client.core.events import Event, Instruction, JobProgressed, TimePassed
from cobblestone.policy.client.core.machine import Refusal
from cobblestone.policy.client.core.values import Reading

#: Seconds after which the core is told the time at the latest.
LONGEST_ALARM = 60.0


@dataclass(eq=False, kw_only=True)
class Loop:
    """Tells the core what happens, and has its instructions carried out.

    The order of each round is fixed: events to the core, everything to disk, then the instructions.
    """

    state: ClientDatabase
    journal: Journal
    decisions: CoreDriver
    clock: Callable[[], float]
    readings: Callable[[], Sequence[Reading]]  #: what running tasks have last said
    carry_out: Callable[[Instruction], None]
    saved: Callable[[], None]  #: called when everything is on disk
    #: not before everything is prepared, nor when jobs are told to end: instructions wait
    may_act: bool = False

    def __post_init__(self) -> None:
        self._pending: deque[Event] = deque()
        self._held_back: list[Instruction] = []
        self._draining = False
        self._alarm: asyncio.TimerHandle | None = None
        self._background: set[asyncio.Task[Any]] = set()

    def post(self, *events: Event) -> None:
        """Tell the core of something, in this turn of the loop; before everything is prepared it waits."""
        self._pending.extend(events)
        if self.may_act:
            self.drain_soon()

    def drain_soon(self) -> None:
        """Drain in this turn of the loop: whatever is told until then is one round of decisions."""
        if not self._draining:
            self._draining = True
            asyncio.get_running_loop().call_soon(self.drain)

    def post_first(self, *events: Event) -> None:
        """Tell the core of something before all that waits to be told, with the next round."""
        self._pending.extendleft(reversed(events))

    def drain(self) -> None:
        """Hand all events over, save everything, and carry out what the core wants."""
        self._draining = False
        while self._pending:
            events = list(self._pending)
            self._pending.clear()
            readings = self.readings()
            if readings and any(event.decisive for event in events):
                events.insert(0, JobProgressed(self.clock(), tuple(readings)))
            refused: list[Refusal] = []
            self._held_back += self.decisions.tell(*events, refused=refused)
            for event, error in refused:
                self.journal.say(
                    f"Internal error: the core refused {type(event).__name__}: {error}", priority=3
                )
        if text := self.decisions.fault:
            self.decisions.fault = ""
            self.journal.alert(
                f"Your own policy does not decide: {text}. Until the next start the policy {USUAL} decides; no task is lost."
            )
        if self.save() and self.may_act:
            instructions, self._held_back = self._held_back, []
            for instruction in instructions:
                self.carry_out(instruction)

    def save(self) -> bool:
        """Write what has changed; a disk that is full does not end the client, but nothing new is begun."""
        journal = self.journal
        try:
            self.state.flush()
        except StoreError as error:
            if journal.last == 0 or str(error) not in journal.since(journal.last - 1)[-1].body:
                journal.say(str(error), priority=2)
            return False
        self.saved()
        return True

    def set_alarm(self, at: float) -> None:
        """Tell the core the time at that moment, or in a minute if that is earlier."""
        self.cancel_alarm()
        wait = min(LONGEST_ALARM, max(0.0, at - self.clock()))
        self._alarm = asyncio.get_running_loop().call_later(wait, lambda: self.post(TimePassed(self.clock())))

    def cancel_alarm(self) -> None:
        """Let no alarm ring any more."""
        if self._alarm is not None:
            self._alarm.cancel()

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside; what fails is written into the event log."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background_done)

    def _background_done(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self.journal.say(f"Internal error: {type(error).__name__}: {error}", priority=3)

    async def end_background(self) -> None:
        """Cancel what goes on beside, and wait until it has ended."""
        for task in list(self._background):
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
