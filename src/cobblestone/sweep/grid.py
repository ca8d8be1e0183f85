"""Run a grid of tasks, keep each result when it is done, and continue where an interrupted run stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from cobblestone.sweep.backends import Backend


def read_results(path: Path, *, code: str = "") -> dict[str, Any]:
    """Return the kept results of this code by key; other lines, such as truncated ones, are ignored."""
    found: dict[str, Any] = {}
    if not path.exists():
        return found
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
            if entry.get("code", "") == code:
                found[str(entry["key"])] = entry["result"]
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    return found


def run_grid(
    function: Callable[[Any], Any],
    tasks: Mapping[str, Any],
    *,
    backend: Backend,
    keep: Path | None = None,
    code: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Return ``function(task)`` for every task by key.

    Results (JSON-ready) are appended to ``keep`` as they arrive; keys found there already are not run
    again.  ``code`` names the code that makes them; those of other code are left alone and not used.
    """
    kept = read_results(keep, code=code) if keep is not None else {}
    results = {key: value for key, value in kept.items() if key in tasks}
    if progress is not None:
        progress(len(results), len(tasks))
    with nullcontext() if keep is None else keep.open("a", encoding="utf-8") as log:
        if log is not None and log.tell() and keep is not None and not keep.read_bytes().endswith(b"\n"):
            log.write("\n")
        futures = {backend.submit(function, tasks[key]): key for key in tasks if key not in results}
        for future, result in backend.as_completed(futures):
            key = futures.pop(future)  # a cluster keeps a result as long as someone holds its future
            results[key] = result
            if log is not None:
                log.write(json.dumps({"key": key, "code": code, "result": result}) + "\n")
                log.flush()
                os.fsync(log.fileno())
            if progress is not None:
                progress(len(results), len(tasks))
    return results
