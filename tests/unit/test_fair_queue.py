"""Busy requests: every sender has a share, promises come first, and the queue is bounded."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

import pytest

from cobblestone.server.scheduler.endpoint import FIRST_DELAY, LONGEST_DELAY, delay_when_behind, keeps_promise
from cobblestone.service.http.fair_queue import FairQueue, ServerBehind


class Scene:
    """A queue whose requests end when the test says so."""

    def __init__(self, *, places: int = 1, max_waiting: int = 100) -> None:
        self.queue: FairQueue[str, int] = FairQueue(
            places=places, max_waiting=max_waiting, max_waiting_promises=2 * max_waiting
        )
        self.begun: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self._ends: dict[str, asyncio.Event] = {}

    async def send(self, name: str, sender: str, *, part: int | None = None, promise: bool = False) -> None:
        self._ends[name] = asyncio.Event()

        async def request() -> None:
            async with self.queue.place(sender, part, promise=promise):
                self.begun.append(name)
                await self._ends[name].wait()

        self.tasks[name] = asyncio.create_task(request())
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await self.tasks[name]
        for _ in range(3):
            await asyncio.sleep(0)

    async def end_all(self) -> None:
        for event in self._ends.values():
            event.set()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)


def play(script: Callable[[Scene], Awaitable[None]], **options: int) -> None:
    async def run() -> None:
        scene = Scene(**options)
        await script(scene)
        await scene.end_all()
        assert len(scene.queue) == 0
        await scene.send("after", "any", part=1)  # every place was given back
        assert scene.begun[-1] == "after"
        await scene.end("after")

    asyncio.run(run())


def test_a_sender_with_many_requests_gets_no_more_than_others():
    async def script(scene: Scene) -> None:
        for number in range(6):
            await scene.send(f"many{number}", "greedy")
        await scene.send("a", "alice")
        await scene.send("b", "bob")
        assert scene.begun == ["many0", "many1"]
        await scene.end("many0")
        await scene.end("many1")
        assert scene.begun[2:] == ["a", "b"]
        await scene.end("a")
        assert scene.begun[4] == "many2"

    play(script, places=2)


def test_one_computer_has_one_place_while_another_of_its_house_goes_on():
    async def script(scene: Scene) -> None:
        for number in range(3):
            await scene.send(f"seven{number}", "house", part=7)
        await scene.send("eight", "house", part=8)
        assert scene.begun == ["seven0", "eight"]
        await scene.end("seven0")
        assert scene.begun == ["seven0", "eight", "seven1"]

    play(script, places=4)


def test_reports_come_before_requests():
    async def script(scene: Scene) -> None:
        await scene.send("first", "a")
        await scene.send("asks", "b")
        await scene.send("reports", "c", promise=True)
        await scene.end("first")
        assert scene.begun == ["first", "reports"]

    play(script)


def test_a_full_queue_sends_away_requests_before_reports_and_says_how_far_behind_it_is():
    async def script(scene: Scene) -> None:
        for number in range(3):
            await scene.send(f"s{number}", f"s{number}")
        for load in (1.5, 2.0):
            with pytest.raises(ServerBehind) as refused:
                async with scene.queue.place("late", None, promise=False):
                    pass
            assert refused.value.load == load
        await scene.send("report", "late", promise=True)
        await scene.send("report2", "late2", promise=True)
        with pytest.raises(ServerBehind):
            async with scene.queue.place("late3", None, promise=True):
                pass
        await scene.end("s0")
        assert scene.begun == ["s0", "report"]

    play(script, max_waiting=2)


def test_who_leaves_while_waiting_or_at_its_turn_takes_no_place_along():
    async def script(scene: Scene) -> None:
        await scene.send("first", "a")
        await scene.send("leaves", "b")
        await scene.send("leaves at its turn", "c")
        scene.tasks["leaves"].cancel()
        await asyncio.sleep(0)
        scene._ends["first"].set()
        await asyncio.sleep(0)  # the next one has its place now, but did not run yet
        scene.tasks["leaves at its turn"].cancel()
        await asyncio.sleep(0)
        await scene.send("last", "d")
        assert scene.begun == ["first", "last"]

    play(script)


def test_a_place_is_given_as_cheaply_to_one_of_a_thousand_senders_as_to_one_of_ten():
    def calls_for_each(n: int) -> float:
        """Functions that are called, of ours and of Python's, for each request."""
        calls = 0

        def count(_frame: object, event: str, _argument: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        async def serve() -> None:
            queue: FairQueue[str, int] = FairQueue(places=1, max_waiting=n, max_waiting_promises=n)

            async def request(sender: str) -> None:
                async with queue.place(sender, 1, promise=False):
                    await asyncio.sleep(0)

            async with asyncio.TaskGroup() as group:
                for number in range(n):
                    group.create_task(request(f"s{number}"))

        before = sys.getprofile()
        sys.setprofile(count)
        try:
            asyncio.run(serve())
        finally:
            sys.setprofile(before)
        return calls / n

    assert calls_for_each(1000) < 1.5 * calls_for_each(10)


def test_who_was_served_and_left_while_waiting_again_is_forgotten():
    async def script(scene: Scene) -> None:
        for number in range(20):
            await scene.send(f"served{number}", f"s{number}")
            await scene.send(f"leaves{number}", f"s{number}")
            await scene.end(f"served{number}") if number % 2 else None
            scene.tasks[f"leaves{number}"].cancel()
            await asyncio.sleep(0)
            await scene.end_all()
        assert not scene.queue._served
        assert not scene.queue._ranks

    play(script)


def test_who_is_sent_away_comes_back_later_the_further_behind_the_server_is():
    assert delay_when_behind(1.0, 0.5) == FIRST_DELAY
    assert delay_when_behind(10.0, 0.5) == 10 * FIRST_DELAY
    assert delay_when_behind(1e9, 0.5) == LONGEST_DELAY
    assert len({delay_when_behind(2.0, chance) for chance in (0.0, 0.3, 1.0)}) == 3


def test_a_report_is_seen_without_reading_the_request():
    assert keeps_promise(b"<scheduler_request><result>")
    assert not keeps_promise(b"<scheduler_request><other_results><other_result>")
