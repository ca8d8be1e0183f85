"""What the demonstrations start: commands of ours, and services that end with the demonstration."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from types import FrameType

import httpx

from cobblestone.domain.errors import CobblestoneError, ConfigError
from cobblestone.ops.environment import environment_without_proxies

MARKER = ".cobblestone-demo"


def prepare(folder: Path) -> None:
    """Empty the folder; refuses one that is not ours."""
    if folder.exists() and any(folder.iterdir()) and not (folder / MARKER).exists():
        raise ConfigError(
            f"{folder} is not empty and was not made by this demonstration. Give another --folder."
        )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / MARKER).touch()


@contextlib.contextmanager
def interruptible() -> Generator[None, None, None]:
    """Let SIGTERM end the demonstration as Ctrl-C does, so that nothing is left behind."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def run_command(*arguments: str) -> str:
    """Run one of our own commands, as a user would; return what it prints.  Raises CobblestoneError."""
    done = subprocess.run(
        [sys.executable, "-m", "cobblestone", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise CobblestoneError(f"cobblestone {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


@contextlib.contextmanager
def service(
    *command: str, folder: Path, url: str, environment: Mapping[str, str] | None = None
) -> Generator[None, None, None]:
    """Run a service of ours on its folder, from when it answers until the block ends; its log is beside the folder.

    Raises:
        CobblestoneError: it does not come up.
    """
    log = folder.with_name(f"{folder.name}.log")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "cobblestone", *command, str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**environment_without_proxies(), **(environment or {})},
            start_new_session=True,  # Ctrl-C in a terminal must not reach it: it is stopped last, after the clients
        )
    try:
        wait_for(lambda: _answers(url, process, log), seconds=60, what=f"the service at {url}")
        yield
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(url: str, process: subprocess.Popen[bytes], log: Path) -> bool:
    if process.poll() is not None:
        raise CobblestoneError(
            f"The service at {url} ended at once:\n{log.read_text(errors='replace')[-3000:]}"
        )
    try:
        return httpx.get(f"{url}healthz", timeout=2, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def wait_for(condition: Callable[[], bool], *, seconds: float, what: str) -> None:
    """Poll until ``condition`` holds.  Raises CobblestoneError: it does not."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise CobblestoneError(f"Waited {seconds:g} s in vain for {what}.")
        time.sleep(0.1)
