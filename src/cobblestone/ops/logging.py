"""Structured logs: one event name per line, ids as fields."""

from __future__ import annotations

import contextlib
import logging
import sys
from typing import TextIO, cast

import structlog


class _StandardError:
    """Standard error at the moment of writing: tests and shells replace it.

    A log that cannot be written, on a full disk or to a reader that has gone, must not stop who logs: lines are lost, and
    counted for the first one that can be written again.
    """

    def __init__(self) -> None:
        self._n_lost = 0

    def write(self, text: str) -> int:
        try:
            if self._n_lost:
                sys.stderr.write(f"log lines that could not be written, and are lost: {self._n_lost}\n")
                sys.stderr.flush()
                self._n_lost = 0
            return sys.stderr.write(text)
        except (OSError, ValueError):
            self._n_lost += 1
            return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()


class _Threshold:
    """The lowest level that is written."""

    level = logging.NOTSET  # until it is configured, structlog writes everything


def writes_debug_lines() -> bool:
    """Return whether debug lines are written.  For busy code: structlog builds a logger before it checks the level."""
    return _Threshold.level <= logging.DEBUG


def configure_logging(*, level: str = "info", json: bool = False, stream: TextIO | None = None) -> None:
    """Send structured logs to ``stream`` (standard error by default): coloured with local times on a terminal, or JSON."""
    watched = not json and (stream or sys.stderr).isatty()
    renderer = (
        structlog.processors.JSONRenderer()
        if json
        else structlog.dev.ConsoleRenderer(colors=watched, pad_event_to=28)
    )
    # Who watches wants to see the event; a file is searched and compared, also after a year and elsewhere.
    stamp = (
        structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False)
        if watched
        else structlog.processors.TimeStamper(fmt="iso", utc=True)
    )
    _Threshold.level = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,  # the id of the request that this line belongs to
            structlog.processors.add_log_level,
            stamp,
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_Threshold.level),
        logger_factory=structlog.PrintLoggerFactory(stream or cast("TextIO", _StandardError())),
        cache_logger_on_first_use=False,
    )
