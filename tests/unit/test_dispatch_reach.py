"""Whether people at hand are enough for a quorum."""

from __future__ import annotations

from collections.abc import Iterator

from cobblestone.domain.values import HostId, UserId
from cobblestone.policy.dispatch.explain import Code, explain
from cobblestone.policy.dispatch.limits import DispatchLimits
from cobblestone.policy.dispatch.status import Shortage, Taker, could_take, shortage

BY_PERSON = DispatchLimits()
BY_COMPUTER = DispatchLimits(one_result_per_user_per_wu=False)
FREE = DispatchLimits(one_result_per_user_per_wu=False, one_result_per_host_per_wu=False)


def taker(host: int, user: int, kind: int = 0) -> Taker:
    return Taker(host_id=HostId(host), user_id=UserId(user), alike=(kind, 0))


def test_two_computers_of_one_person_are_one():
    takers = [taker(1, 1), taker(2, 1)]
    assert shortage(takers, needed=2, limits=BY_PERSON) == Shortage(needed=2, found=1, by_person=True)
    assert shortage(takers, needed=2, limits=BY_COMPUTER) is None
    assert shortage(takers[:1], needed=2, limits=BY_COMPUTER) == Shortage(needed=2, found=1, by_person=False)
    assert shortage(takers[:1], needed=2, limits=FREE) is None
    assert shortage([], needed=2, limits=FREE) == Shortage(needed=1, found=0, by_person=False)


def test_people_must_have_computers_that_compute_alike():
    assert shortage([taker(1, 1, 258), taker(2, 2, 386)], needed=2, limits=BY_PERSON) is not None
    assert (
        shortage([taker(1, 1, 258), taker(2, 2, 386), taker(3, 3, 258)], needed=2, limits=BY_PERSON) is None
    )


def test_who_had_a_result_cannot_give_another():
    takers = [taker(1, 1), taker(2, 2)]
    assert shortage(takers, needed=2, limits=BY_PERSON, served={UserId(1)}) is not None
    assert shortage(takers, needed=1, limits=BY_PERSON, served={UserId(1)}) is None
    assert shortage(takers, needed=2, limits=BY_COMPUTER, served={HostId(2)}) is not None


def test_computers_are_asked_no_further_than_needed():
    def endless() -> Iterator[Taker]:
        yield from (taker(n, n) for n in (1, 2))
        raise AssertionError("asked too many")

    assert shortage(endless(), needed=2, limits=BY_PERSON) is None
    assert shortage(endless(), needed=0, limits=BY_PERSON) is None


def test_a_limit_that_time_undoes_does_not_make_a_computer_unable():
    quota = explain(Code.QUOTA, limit=1, app="A", hours_left=3)
    memory = explain(Code.MEMORY, need_mb=1, have_mb=0)
    assert could_take(True, [])
    assert could_take(False, [quota])
    assert not could_take(False, [quota, memory])
    assert not could_take(False, [])
