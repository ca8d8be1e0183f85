"""Recorded availability in the Failure Trace Archive's event format.

A line of ``event_trace.tab`` holds, separated by tabs: event id, component id, node id, platform id, node
name, event type (1 = available, 0 = not), start, stop (seconds), end reason ...  Lines that begin with
``#`` are comments.
"""

from __future__ import annotations

from pathlib import Path

from cobblestone.domain.errors import ConfigError
from cobblestone.simulator.distributions import LONGEST_TRACE

MAX_TRACE_BYTES = 256 * 1024 * 1024
_NODE, _TYPE, _START, _STOP = 2, 5, 6, 7


def read_trace(path: Path, *, node: str | None = None) -> tuple[tuple[tuple[float, float], ...], float]:
    """Return the on-periods of one node (the first of the file unless named), beginning at 0, and the
    length of the trace.

    Raises :class:`ConfigError` naming file, line and value.
    """
    try:
        if not path.is_file():  # of a device there is no end
            path.open("rb").close()  # raises what is wrong with it, if it is not there or a folder
            raise ConfigError(f"{path}: is not a file")
        if path.stat().st_size > MAX_TRACE_BYTES:
            raise ConfigError(
                f"{path}: larger than {MAX_TRACE_BYTES} bytes; cut out the nodes that are needed"
            )
        with path.open(encoding="utf-8", errors="replace") as lines:
            events = [
                event for number, line in enumerate(lines, 1) if (event := _event(path, number, line, node))
            ]
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
    if node is None and events:
        node = events[0][0]
    mine = sorted((start, stop, kind) for name, kind, start, stop in events if name == node)
    periods: list[tuple[float, float]] = []
    if node is None:
        raise ConfigError(f"{path}: no event; a line holds at least {_STOP + 1} columns separated by tabs")
    if not mine:
        raise ConfigError(f"{path}: no event of node {node!r}; the third column names the node")
    origin = mine[0][0]
    for start, stop, kind in mine:
        if kind != 1:
            continue
        begin, end = start - origin, stop - origin
        if periods and begin <= periods[-1][1]:
            periods[-1] = (periods[-1][0], max(end, periods[-1][1]))
        else:
            periods.append((begin, end))
    if not periods:
        raise ConfigError(f"{path}: node {node!r} is never available (no event of type 1)")
    return tuple(periods), max(stop for _, stop, _ in mine) - origin


def _event(path: Path, number: int, line: str, node: str | None) -> tuple[str, int, float, float] | None:
    if not line.strip() or line.startswith("#"):
        return None
    columns = line.rstrip("\n").split("\t")
    if len(columns) <= _STOP:
        raise ConfigError(
            f"{path}, line {number}: {len(columns)} columns; at least {_STOP + 1} separated by tabs are needed"
        )
    if node is not None and columns[_NODE] != node:
        return None
    try:
        kind, start, stop = int(columns[_TYPE]), float(columns[_START]), float(columns[_STOP])
    except ValueError:
        raise ConfigError(
            f"{path}, line {number}: type, start, stop = {columns[_TYPE : _STOP + 1]}; allowed: numbers"
        ) from None
    if kind not in (0, 1):
        raise ConfigError(
            f"{path}, line {number}: type = {kind}; allowed: 1 (the node is available) and 0 (it is not)"
        )
    if not -LONGEST_TRACE / 2 <= start < stop <= LONGEST_TRACE / 2:
        raise ConfigError(
            f"{path}, line {number}: start = {start:g}, stop = {stop:g}; allowed: up to {LONGEST_TRACE / 2:g}, start before stop"
        )
    return columns[_NODE], kind, start, stop
