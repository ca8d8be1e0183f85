"""Worker processes die, hang and are killed; calls of others go on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest
from tests.helpers.eventually import eventually

from cobblestone.domain.errors import JobError
from cobblestone.ops.settings import ChecksSection
from cobblestone.server.daemons import workers as workers_module
from cobblestone.server.daemons.workers import WorkerFailedError, Workers
from cobblestone.store.engine.process_group import LeaseLost


def pid(_: object) -> int:
    return os.getpid()


def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def leave(how: str) -> None:
    match how:
        case "sys.exit":
            raise SystemExit(3)
        case "Ctrl-C":
            raise KeyboardInterrupt
        case "os._exit":
            os._exit(3)
        case "a fork that holds the pipe":
            if os.fork() == 0:
                time.sleep(5)
            os._exit(3)
        case _:
            os.kill(os.getpid(), signal.SIGKILL)


def spin() -> None:
    while True:
        pass


def copy_itself(argument: object) -> object:
    os.fork()
    return argument


def leave_a_thread(_: object) -> int:
    threading.Thread(target=spin, daemon=True).start()
    return os.getpid()


def leave_a_process(file: Path, *, then: Callable[[], object] = int) -> int:
    child = os.fork()
    if child == 0:
        spin()
    file.write_text(str(child))
    then()
    return os.getpid()


def leave_a_process_and_hang(file: Path) -> int:
    return leave_a_process(file, then=lambda: time.sleep(60))


def leave_a_process_and_die(file: Path) -> int:
    return leave_a_process(file, then=lambda: os._exit(3))


def hang_with_files(file: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file.write_text(folder)
        time.sleep(60)


def complain_at_length(_: object) -> None:
    raise ValueError("x" * 10_000_000)


@pytest.fixture
def workers() -> Iterator[Workers]:
    found = Workers(ChecksSection(workers=1, timeout=60, memory_bytes=300_000_000, max_attempts=5))
    yield found
    found.close()


@pytest.fixture
def impatient() -> Iterator[Workers]:
    """Workers that stop a call after a few seconds: enough for it to begin, on a busy machine too."""
    found = Workers(ChecksSection(workers=1, timeout=4, memory_bytes=300_000_000, max_attempts=5))
    yield found
    found.close()


def has_ended(process: int) -> None:
    while psutil.Process(process).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)


def test_an_idle_worker_that_is_killed_is_replaced(workers: Workers):
    async def play() -> None:
        for _ in range(3):
            first = await workers.call(pid, None)
            assert await workers.call(pid, None) == first
            os.kill(first, signal.SIGKILL)
            with contextlib.suppress(psutil.NoSuchProcess):  # a signal takes a moment
                await asyncio.to_thread(has_ended, first)
            assert await workers.call(pid, None) != first

    asyncio.run(play())


def test_a_call_whose_turn_comes_too_late_is_not_begun(workers: Workers):
    late = False

    def ensure() -> None:
        if late:
            raise LeaseLost

    async def play() -> None:
        nonlocal late
        begun = asyncio.Event()
        first = asyncio.create_task(workers.call(sleep, 1, before=begun.set))
        await begun.wait()
        second = asyncio.create_task(workers.call(leave, "os._exit", before=ensure))
        await asyncio.sleep(0)
        late = True  # while the second one waits for the one worker
        with pytest.raises(LeaseLost):
            await second
        late = False
        assert await workers.call(sleep, 0, before=ensure) == 0
        assert await first == 1

    asyncio.run(play())


@pytest.mark.parametrize("how", ["sys.exit", "Ctrl-C", "os._exit", "a fork that holds the pipe", "SIGKILL"])
def test_a_function_that_ends_its_process_fails_alone(workers: Workers, how: str):
    async def play() -> None:
        with pytest.raises(JobError):
            await workers.call(leave, how)
        assert await workers.call(sleep, 0) == 0

    asyncio.run(play())


def test_slow_calls_delay_quick_ones_by_no_more_than_their_first_moments(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(workers_module, "QUICK_SECONDS", 5.0)
    workers = Workers(ChecksSection(workers=1, timeout=900, memory_bytes=300_000_000, max_attempts=5))

    async def play() -> None:
        await workers.call(sleep, 0)
        slow = [asyncio.create_task(workers.call(sleep, 600)) for _ in range(3)]
        await asyncio.sleep(0.1)
        quick = [asyncio.create_task(workers.call(sleep, 0.01)) for _ in range(10)]
        await asyncio.gather(*quick)
        assert not any(task.done() for task in slow)
        await asyncio.to_thread(workers.close)
        await asyncio.wait(slow)

    asyncio.run(play())


def test_many_slow_calls_of_an_app_do_not_hold_up_those_of_another(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(workers_module, "QUICK_SECONDS", 5.0)
    workers = Workers(ChecksSection(workers=1, timeout=900, memory_bytes=300_000_000, max_attempts=5))
    begun: list[int] = []

    async def play() -> None:
        slow = [
            asyncio.create_task(workers.call(sleep, 600, app="stuck", before=partial(begun.append, n)))
            for n in range(30)
        ]
        await asyncio.sleep(0)
        assert await workers.call(sleep, 0, app="other") == 0
        assert len(set(begun)) <= workers_module.SLOW_IN_A_ROW
        await asyncio.to_thread(workers.close)
        await asyncio.wait(slow)

    asyncio.run(play())


def test_an_app_whose_calls_are_quick_again_gets_its_place_back(workers: Workers):
    workers._slow_in_a_row[sleep.__name__, "changed"] = workers_module.SLOW_IN_A_ROW
    asyncio.run(workers.call(sleep, 0, app="changed"))
    assert not workers._slow_in_a_row


def test_a_slow_call_that_was_stopped_for_others_ends_in_its_own_time(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(workers_module, "QUICK_SECONDS", 0.2)

    async def play() -> None:
        assert await asyncio.gather(*(workers.call(sleep, 1.0) for _ in range(3))) == [1.0, 1.0, 1.0]

    asyncio.run(play())


def test_a_call_that_hangs_is_stopped(impatient: Workers):
    with pytest.raises(WorkerFailedError, match="longer than 4 seconds"):
        asyncio.run(impatient.call(sleep, 60))


def test_closing_ends_what_runs_without_blaming_it(workers: Workers):
    async def play() -> None:
        running = asyncio.create_task(workers.call(sleep, 60))
        await asyncio.sleep(1)
        await asyncio.to_thread(workers.close)
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(play())


def test_closing_between_the_start_of_a_process_and_its_call_blames_nobody(workers: Workers):
    async def play() -> None:
        with pytest.raises(asyncio.CancelledError):
            await workers.call(sleep, 60, before=workers.close)

    asyncio.run(play())


def test_a_function_that_copies_its_process_answers_no_other_call(workers: Workers):
    async def play() -> None:
        for number in range(3):
            assert await workers.call(copy_itself, number) == number
            assert await workers.call(sleep, 0) == 0

    asyncio.run(play())


def test_a_thread_that_a_call_leaves_slows_no_other(workers: Workers):
    async def play() -> None:
        assert await workers.call(leave_a_thread, None) != await workers.call(pid, None)

    asyncio.run(play())


@pytest.mark.parametrize("function", [leave_a_process, leave_a_process_and_hang, leave_a_process_and_die])
def test_what_a_call_has_started_ends_with_it(
    workers: Workers, impatient: Workers, tmp_path: Path, function: Callable[[Path], int]
):
    file = tmp_path / "child"
    if function is leave_a_process_and_hang:
        workers = impatient

    async def play() -> None:
        ended = await asyncio.gather(workers.call(function, file), return_exceptions=True)
        assert isinstance(ended[0], int) is (function is leave_a_process)
        await asyncio.to_thread(eventually, lambda: not psutil.pid_exists(int(file.read_text())))
        assert await workers.call(pid, None) != ended[0]

    asyncio.run(play())


def test_files_of_a_call_that_is_stopped_go_with_it(impatient: Workers, tmp_path: Path):
    file = tmp_path / "folder"
    with pytest.raises(WorkerFailedError, match="longer than"):
        asyncio.run(impatient.call(hang_with_files, file))
    eventually(lambda: not Path(file.read_text()).exists())


def test_a_call_of_a_server_that_was_killed_ends_in_time():
    process = workers_module._Process(800_000_000, 0.3)
    try:
        process.start()
        with pytest.raises(WorkerFailedError, match="exit code -14"):  # nobody has stopped it
            process.call(sleep, 60)
    finally:
        process.stop()


def test_what_a_function_says_of_its_failure_is_cut(workers: Workers):
    with pytest.raises(JobError, match="ValueError: xxx") as raised:
        asyncio.run(workers.call(complain_at_length, None))
    assert len(str(raised.value)) == workers_module.MAX_PROBLEM
