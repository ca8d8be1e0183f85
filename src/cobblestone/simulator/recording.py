"""Recorders: what ran when, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TextIO

from cobblestone.simulator.task import Task

MAX_SPELLS = 200_000


@dataclass(slots=True)
class Spell:
    """A job running without a break."""

    project: int
    number: int
    slot: int
    width: int  #: devices covered
    gpu: str
    start: float
    end: float
    edf: bool


@dataclass(frozen=True, slots=True)
class Finish:
    """A job's end, with its deadline."""

    project: int
    number: int
    at: float
    deadline: float
    failed: bool


@dataclass(slots=True)
class Timeline:
    """Keeps what ran within a window of time, for pictures; also passes notes on to a log and keeps the
    latest of each kind.
    """

    start: float = 0.0
    end: float = 7 * 86400.0
    log: TextIO | None = None
    names: tuple[str, ...] = ()
    spells: list[Spell] = field(default_factory=list[Spell])
    finishes: list[Finish] = field(default_factory=list[Finish])
    off: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    notes: dict[str, tuple[float, list[str]]] = field(default_factory=dict[str, tuple[float, list[str]]])
    _open: dict[int, Spell] = field(default_factory=dict[int, Spell])
    _off_since: float = -1.0

    def started(self, task: Task, now: float) -> None:
        """Note that a task starts or resumes."""
        self._open[id(task)] = Spell(
            task.project, task.number, task.slot, task.width, task.gpu, now, now, task.edf
        )
        self._write(now, f"start {self._name(task)}{' (earliest deadline first)' if task.edf else ''}")

    def stopped(self, task: Task, now: float) -> None:
        """Note that a task stops."""
        spell = self._open.pop(id(task), None)
        if (
            spell is not None
            and now > self.start
            and spell.start < self.end
            and len(self.spells) < MAX_SPELLS
        ):
            spell.end = now
            self.spells.append(spell)
        self._write(now, f"stop {self._name(task)}, {task.done:.0f} s of {task.size:.0f} s done")

    def finished(self, task: Task, now: float) -> None:
        """Note that a task has ended."""
        if self.start <= now <= self.end and len(self.finishes) < MAX_SPELLS:
            self.finishes.append(Finish(task.project, task.number, now, task.report_deadline, task.failed))
        late = " LATE" if now > task.report_deadline else ""
        self._write(now, f"finished {self._name(task)}{late}")

    def available(self, on: bool, now: float) -> None:
        """Note that the host goes off or comes back."""
        if not on:
            self._off_since = now
        elif (
            self._off_since >= 0.0
            and now > self.start
            and self._off_since < self.end
            and len(self.off) < MAX_SPELLS
        ):
            self.off.append((self._off_since, now))
        self._write(now, "host on" if on else "host off")

    def note(self, now: float, kind: str, text: str) -> None:
        """Keep a decision and its reason; only those up to the end of the window."""
        if now <= self.end:
            at, texts = self.notes.get(kind, (-1.0, []))
            if at != now:
                texts = []
            texts.append(text)
            self.notes[kind] = (now, texts)
        self._write(now, f"[{kind}] {text}")

    def _name(self, task: Task) -> str:
        project = self.names[task.project] if task.project < len(self.names) else str(task.project)
        return f"{project} job {task.number}"

    def _write(self, now: float, text: str) -> None:
        if self.log is not None:
            self.log.write(f"{now:14.1f} {text}\n")
