"""Processes of the demonstrations: started apart from the terminal, and ended with all their children."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from cobblestone.ops.environment import environment_without_proxies


def free_port() -> int:
    """Return a port on loopback that is free at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_apart(
    words: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a program that appends to ``log`` what it writes; ``environment`` is added to ours."""
    with log.open("ab") as output:
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**environment_without_proxies(), **(environment or {})},
            start_new_session=True,  # Ctrl-C in a terminal must not reach it: we stop it, in the right order
        )


def end_tree(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Ask a process to end within ``seconds``, then kill what is left of it and its children."""
    tree = _tree(process.pid)
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
    left = [*tree, *_tree(process.pid)]
    for each in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    psutil.wait_procs([each for each in left if each.is_running()], timeout=10)
    process.wait()


def _tree(pid: int) -> list[psutil.Process]:
    """Return a process and all below it."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
