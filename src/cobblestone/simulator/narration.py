"""The published family's decisions in words, for logs and ``--explain``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cobblestone.domain.reasons import Reason
from cobblestone.simulator.engine import Recorder
from cobblestone.simulator.task import Task


def why_it_runs(task: Task, name: str, *, now: float, misses: int, debt: float) -> str:
    """Say why a job is on the run list; ``misses`` of its project that count, and its short-term debt."""
    job = f"{name} job {task.number}"
    if misses:
        return (
            f"{job}: {misses} {'job' if misses == 1 else 'jobs'} of its project would be late in turn; due in"
            f" {(task.report_deadline - now) / 3600:.1f} h, {task.remaining / 3600:.1f} h left to compute"
        )
    return f"{job}: its project's turn, short-term debt {debt:.0f} s"


def note_who_waits(
    recorder: Recorder, wanted: Iterable[Task], started: Sequence[Task], names: Sequence[str], now: float
) -> None:
    """Say which wanted jobs do not run yet, since others may finish their time slice."""
    for task in wanted:
        if not task.running and task not in started:
            text = f"{names[task.project]} job {task.number} waits until a running job's time slice is over"
            recorder.note(now, "enforce", text)


def with_names(reasons: Iterable[Reason], names: Sequence[str]) -> str:
    """Return the reasons' sentences with the projects' names for their numbers."""
    texts: list[str] = []
    for why in reasons:
        number = why.values.get("project")
        name = names[number] if isinstance(number, int) else ""
        texts.append(why.sentence.replace("project {project}", name).format_map(dict(why.values)))
    return "; ".join(texts)
