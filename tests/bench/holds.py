"""Who holds the writer of a running server, and for how long: a launcher of the server's command, and the table it makes.

``python -m tests.bench.holds FILE python -m cobblestone run …`` runs the command in this process and notes, in FILE at its end,
how long each write held the writer, how long it had waited, each commit, and each pause for the garbage collector.
"""

from __future__ import annotations

import contextlib
import gc
import json
import runpy
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from cobblestone.store.engine import database

#: Seconds of a daemon's step beyond which requests feel it.
LONGEST_HOLD = 0.005


@dataclass
class Notes:
    """When something began (monotonic clock), by kind, how long it took, and the CPU time of its thread."""

    found: dict[str, list[tuple[float, float, float]]] = field(
        default_factory=lambda: defaultdict[str, list[tuple[float, float, float]]](list)
    )

    @contextlib.contextmanager
    def of(self, kind: str) -> Generator[None]:
        """Note what the block takes."""
        begin, cpu_begin = time.monotonic(), time.thread_time()
        try:
            yield
        finally:
            self.found[kind].append((begin, time.monotonic() - begin, time.thread_time() - cpu_begin))

    def around(self, kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, noted whenever it is called."""

        def noted(*arguments: Any, **named: Any) -> Any:
            with self.of(kind):
                return function(*arguments, **named)

        return noted


def kind_of(operation: Any) -> str:
    """The name of a write's function."""
    while isinstance(operation, partial):
        operation = operation.func
    name = getattr(operation, "__qualname__", type(operation).__qualname__)
    return f"{operation.__module__.rpartition('.')[2]}.{name}".replace(".<locals>", "").replace(
        "<lambda>", "λ"
    )


def watch(notes: Notes) -> None:
    """Let the writer of this process, and the garbage collector, be noted."""
    writer: Any = database.WriterThread
    put, apply = writer._put, writer._apply
    arrived: dict[Any, float] = {}

    def noted_put(self: Any, job: Any) -> None:
        arrived[job] = time.monotonic()
        put(self, job)

    def noted_apply(self: Any, transaction: Any, job: Any) -> None:
        now, kind = time.monotonic(), kind_of(job.operation)
        came = arrived.pop(job, now)
        notes.found[f"waits {kind}"].append((came, now - came, 0.0))
        with notes.of(f"holds {kind}"):
            apply(self, transaction, job)

    writer._put, writer._apply = noted_put, noted_apply
    writer._attempt = notes.around("transaction", writer._attempt)
    pauses: list[contextlib.AbstractContextManager[None]] = []

    def note_gc(phase: str, about: dict[str, int]) -> None:
        if phase == "start":
            pauses.append(notes.of(f"garbage {about['generation']}"))
            pauses[-1].__enter__()
        else:
            pauses.pop().__exit__(None, None, None)

    gc.callbacks.append(note_gc)


def watch_commits(notes: Notes) -> None:
    """Let commits be noted, of either database."""
    from cobblestone.store.engine import postgres_connection, sqlite

    for of_driver in (sqlite.SqliteConnection, postgres_connection.PostgresConnection):
        connection: Any = of_driver
        connection.commit = notes.around("commit", connection.commit)


def table(path: Path, begin: float, end: float) -> Iterable[str]:
    """What was noted between two times: lines of text."""
    found: dict[str, list[tuple[float, float, float]]] = json.loads(path.read_text())
    yield f"{'':46} {'count':>7} {'p50':>7} {'p99':>7} {'max ms':>7} {'> 5 ms':>7}{'CPU p50':>8} {'p99':>7} {'max':>7} {'> 5':>5}"
    for kind in sorted(found):
        noted = [(seconds, cpu) for at, seconds, cpu in found[kind] if begin <= at <= end]
        if noted:
            columns = "".join(_columns(sorted(times)) for times in zip(*noted, strict=True))
            yield f"{kind:46} {len(noted):7,}{columns}"


def _columns(times: list[float]) -> str:
    p50, p99 = (times[int(len(times) * part)] * 1000 for part in (0.5, 0.99))
    long = sum(each > LONGEST_HOLD for each in times)
    return f" {p50:7.2f} {p99:7.2f} {times[-1] * 1000:7.2f} {long:7,}"


def main() -> None:
    """Run a server's command, noted."""
    path, _, _, module, *arguments = sys.argv[1:]
    notes = Notes()
    watch(notes)
    watch_commits(notes)
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        Path(path).write_text(json.dumps(notes.found))


if __name__ == "__main__":
    main()
