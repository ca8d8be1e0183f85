"""Scheduling policies by name: those that come with the program, those of installed packages, and those in a file."""

from __future__ import annotations

import random
import re
import sys
import threading
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from cobblestone.domain.errors import ConfigError
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.core import protocol
from cobblestone.policy.client.core.protocol import POLICIES, Policy

ENTRY_POINT_GROUP = "cobblestone.scheduling_policies"
#: What decides where a volunteer's own policy cannot.
USUAL = "recent"
#: Seconds within which a policy of one's own must decide; the client does nothing else meanwhile.
CALL_SECONDS = 5.0
T = TypeVar("T")
_FILE = re.compile(r"(.+\.py):(\w+)")


def full_name(text: str) -> str:
    """Return the name under which a policy is found from every folder: a file with its whole path."""
    match = _FILE.fullmatch(text.strip())
    return f"{Path(match[1]).expanduser().absolute()}:{match[2]}" if match else text.strip()


def is_own(name: str) -> bool:
    """Return whether a policy is somebody's own: in a file, or of an installed package."""
    return bool(name) and name.split(maxsplit=1)[0] not in POLICIES


def read_choice(text: str) -> PolicyChoice:
    """Read a policy for the simulator, such as ``CS2_WF2_WS2_JC2``, ``recent``, an installed one's name or ``FILE.py:Name``.

    Raises :class:`ConfigError` if there is none of that name, or it cannot be used.
    """
    name = full_name(text)
    try:
        return PolicyChoice.parse(name)
    except ConfigError:
        if not (name.endswith(".py") or file_of(name) or name in _installed()):
            raise
    try_policy(name)
    return _choice(name)


def try_policy(name: str) -> None:
    """Make a policy for a trial: what is wrong is said before the work.  Raises :class:`ConfigError`."""
    watched(name, lambda: make_policy(name, random.Random(0)))


def make_policy(name: str, rng: random.Random) -> Policy:
    """Return the policy of that name.  Raises :class:`ConfigError` if there is none, or it cannot be used."""
    if not is_own(name):
        return protocol.make_policy(name, rng)
    made = _maker(name)(_choice(name), rng)
    asked = [each for each in vars(Policy) if not each.startswith("_") and each != "memory"]
    if lacking := [each for each in asked if not hasattr(made, each)]:
        raise ConfigError(f"{name} is not a scheduling policy: it has no {', '.join(lacking)}")
    if made.name != name:
        raise ConfigError(f"{name}: its name is {made.name!r}; it must be str(choice)")
    return made


def file_of(name: str) -> Path | None:
    """Return the file of an own policy, None if it is not in one."""
    match = _FILE.fullmatch(name)
    return Path(match[1]) if match else None


def _choice(name: str) -> PolicyChoice:
    return PolicyChoice(4, 4, 2, 2, registered=name)


def _maker(name: str) -> Callable[[PolicyChoice, random.Random], Policy]:
    if name.endswith(".py"):
        raise ConfigError(f"{name}: say which class of this file is the policy, as {Path(name).name}:Name")
    path = file_of(name)
    if path is None:
        if name not in _installed():
            known = ", ".join(sorted({*POLICIES, *_installed()}))
            raise ConfigError(f"{name!r} is not a policy; there are {known}, and own ones as FILE.py:Name")
        return _installed()[name].load()
    return class_in(path, name.rpartition(":")[2])


def class_in(path: Path, name: str) -> Any:  # Any: whatever the file has
    """Return a class of a Python file.  Raises :class:`ConfigError` if there is none, and what the file's code raises."""
    if not path.is_file():
        raise ConfigError(f"{path}:{name}: there is no file {path}")
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # last: it must not hide a module of the program
    content = vars(load_file(path, path.stat().st_mtime_ns))
    if not callable(content.get(name)):
        classes = [key for key, each in content.items() if isinstance(each, type)]
        raise ConfigError(f"{path} has no class {name}; it has {', '.join(classes) or 'none'}")
    return content[name]


@cache
def _installed() -> dict[str, Any]:
    from importlib.metadata import entry_points  # not at the start of every program

    return {each.name: each for each in entry_points(group=ENTRY_POINT_GROUP)}


@cache
def load_file(path: Path, changed_at: int) -> ModuleType:
    """Load a Python file as a module, once as long as its time of change stays.  Raises what its code raises."""
    import hashlib  # all this only where there is an own policy: a simulation starts quickly
    import importlib.util

    name = f"cobblestone_own_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look for their module there
    spec.loader.exec_module(module)
    return module


def fault(name: str, error: BaseException) -> str:
    """Return where and how an own policy failed: the last line of its own file or package that was reached."""
    if isinstance(error, ConfigError):
        return str(error)
    return _failed(name, f"{type(error).__name__}: {error}", traceback.extract_tb(error.__traceback__))


def _failed(name: str, how: str, frames: traceback.StackSummary) -> str:
    own = [each for each in frames if name.startswith(f"{each.filename}:")] or frames
    place = f"{own[-1].filename}, line {own[-1].lineno}, in {own[-1].name}"
    return f"the policy {name} failed: {how} ({place})"


def watched(
    name: str,
    work: Callable[[], T],
    *,
    seconds: float = CALL_SECONDS,
    beat: Callable[[], object] = lambda: None,
) -> T:
    """Return what ``work`` returns, which calls the policy of that name; one of one's own has a limit of time.

    Such a policy runs in a thread, which is given up after ``seconds`` in which ``beat`` did not change.  Only a call into C that
    does not release the interpreter cannot be given up.

    Raises :class:`ConfigError` with the place where the policy failed, or where it is.
    """
    if not is_own(name):
        return work()
    from concurrent.futures import Future  # not at the start of every program

    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except (Exception, SystemExit) as error:  # noqa: BLE001  # raised below
            done.set_exception(error if isinstance(error, ConfigError) else ConfigError(fault(name, error)))

    thread = threading.Thread(target=run, daemon=True)  # so that the program can end while it sleeps
    thread.start()
    last = object()
    while thread.is_alive() and last != (last := beat()):
        thread.join(seconds)
    frame = sys._current_frames().get(thread.ident or 0)  # pyright: ignore[reportPrivateUsage]  # public, by its documentation
    if frame is None or not thread.is_alive():
        return done.result()
    import ctypes

    found = _failed(name, f"it has not returned for {seconds:g} s", traceback.extract_stack(frame))
    end = ctypes.pythonapi.PyThreadState_SetAsyncExc  # of an endless loop; a sleeper goes on sleeping
    end(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))
    raise ConfigError(found)
