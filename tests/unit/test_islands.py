"""Which island a computer belongs to."""

from __future__ import annotations

from collections import Counter

from cobblestone.policy.dispatch.islands import HOST_IDS, MAX_NUMBER, choose_island, island_of_host

COMPUTERS = [f"{number:032x}" for number in range(4000)]


def test_numbers_tell_the_island_and_fit_into_31_bits() -> None:
    assert island_of_host(1) == 0
    assert island_of_host(HOST_IDS - 1) == 0
    assert island_of_host(3 * HOST_IDS + 1) == 3
    assert (MAX_NUMBER + 1) * HOST_IDS < 2**31


def test_new_computers_are_shared_by_weight() -> None:
    counts = Counter(choose_island({0: 0.0, 1: 1.0, 2: 3.0}, each) for each in COMPUTERS)
    assert counts[0] == 0
    assert abs(counts[2] / len(COMPUTERS) - 0.75) < 0.05


def test_a_further_island_takes_computers_and_moves_none_between_the_others() -> None:
    before = {each: choose_island({0: 1.0, 1: 1.0}, each) for each in COMPUTERS}
    after = {each: choose_island({0: 1.0, 1: 1.0, 2: 1.0}, each) for each in COMPUTERS}
    moved = {each for each in COMPUTERS if before[each] != after[each]}
    assert {after[each] for each in moved} == {2}
    assert abs(len(moved) / len(COMPUTERS) - 1 / 3) < 0.05
