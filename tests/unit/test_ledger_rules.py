"""The formulas of the ledger system: compiled by Numba unchanged, they give the same numbers to the last bit."""

from __future__ import annotations

import inspect
import math
import random
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import pytest

from cobblestone.policy.credit.ledger_system import rules

FORMULAS: dict[str, Callable[..., Any]] = {
    name: each for name, each in vars(rules).items() if isinstance(each, FunctionType)
}


def compiled() -> ModuleType:
    """Return the module of the formulas, each compiled as it stands."""
    numba = pytest.importorskip("numba")
    module = ModuleType("compiled_rules")
    exec(inspect.getsource(rules), module.__dict__)
    for name in FORMULAS:
        module.__dict__[name] = numba.njit(module.__dict__[name])
    return module


def argument(rng: random.Random, name: str, kind: str) -> float | int:
    """Return a number such as the engine hands to a formula."""
    if kind == "int":
        return rng.choice((0, 1, rng.randrange(3000)))
    if (
        name in ("u", "r", "effect", "sample", "other", "mean", "difference", "bank", "debt", "total")
        and rng.random() < 0.5
    ):
        return -math.exp(rng.uniform(-9.0, 3.0))
    return math.exp(rng.uniform(-9.0, 3.0))


@pytest.mark.parametrize("name", FORMULAS)
def test_numba_compiles_each_formula_unchanged(name: str) -> None:
    kernel = getattr(compiled(), name)
    parameters = inspect.signature(FORMULAS[name]).parameters
    rng = random.Random(name)
    for _ in range(300):
        given = [argument(rng, each, str(kind.annotation)) for each, kind in parameters.items()]
        assert repr(kernel(*given)) == repr(FORMULAS[name](*given)), given


@pytest.mark.parametrize("figure", [math.nan, math.inf, -math.inf, 0.0, -0.0, -1.0])
def test_a_figure_that_is_none_does_not_exist(figure: float) -> None:
    assert not rules.usable(figure)


def test_a_size_factor_is_one_on_average_over_what_a_host_reports() -> None:
    rng = random.Random(5)
    size, noise = 0.09, 0.0225
    w = rules.weight(size, rules.precision(noise, 1.0, 0.0, 0.0))
    k = rules.tail_begin(size, noise, 2.5)
    r = rules.tail_share(w, size, noise)
    sd = math.sqrt(size + noise)
    factors = [rules.size_factor(rng.gauss(0.0, sd), w, r, k, size) for _ in range(20_000)]
    assert sum(factors) / len(factors) == pytest.approx(1.0, abs=0.01)


def test_a_running_median_finds_the_median() -> None:
    rng = random.Random(6)
    median = 0.15
    for count in range(5000):
        median = rules.median_after(median, abs(rng.gauss(0.0, 0.5)), count)
    assert median * rules.NORMAL_MEDIAN == pytest.approx(0.5, rel=0.1)


def test_the_step_detector_finds_a_doubled_estimate_and_no_step_where_there_is_none() -> None:
    rng = random.Random(7)
    state: tuple[float, float, float, int] = (0.0, 0.0, 0.0, 0)
    moved = [0.0, 0.0]
    for number in range(40_000):
        step = -math.log(2.0) if number >= 20_000 else 0.0
        u = rng.gauss(step, 0.335) - sum(moved)
        *rest, shift = rules.detector_after(*state, u, 0.335**2)
        state = (rest[0], rest[1], rest[2], int(rest[3]))
        moved[number >= 20_000] += shift
        if number == 22_000:
            assert moved == pytest.approx([0.0, -math.log(2.0)], abs=0.06)
    assert moved == pytest.approx([0.0, -math.log(2.0)], abs=0.06)


def test_a_tenth_of_liars_moves_no_constant() -> None:
    rng = random.Random(8)
    state: tuple[float, float, float, int] = (0.0, 0.0, 0.0, 0)
    for _ in range(20_000):
        u = rules.LARGEST if rng.random() < 0.1 else rng.gauss(0.0, 0.335)
        *rest, shift = rules.detector_after(*state, u, 0.335**2)
        state = (rest[0], rest[1], rest[2], int(rest[3]))
        assert shift == 0.0
