"""What a new app gets that says nothing about credit: a system under which no known attack pays, reached without a jump."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobblestone.api_schema.apps import CreditBody, NewApp, OutputBody
from cobblestone.credit_lab.attacks.catalogue import find_attack
from cobblestone.credit_lab.bench.measures import attack_figures, baseline
from cobblestone.credit_lab.bench.run import Run
from cobblestone.credit_lab.bench.streams import generator
from cobblestone.credit_lab.bench.tasks import play
from cobblestone.credit_lab.bench.worlds import World, find_world
from cobblestone.credit_lab.systems.book import BookWatcher
from cobblestone.credit_lab.systems.find import find_contender
from cobblestone.credit_lab.systems.tape import START, Job, Result
from cobblestone.policy.credit.claims import DEPLOYED
from cobblestone.policy.credit.exposure import SAFE, WORST
from cobblestone.policy.credit.registry import credit_system_names
from cobblestone.policy.credit.steady import MIN_PAID, factor_paid
from cobblestone.server.api.submission.app_rules import app_from
from cobblestone.server.credit.systems import find_system


def new_app(**more: object) -> NewApp:
    return NewApp(name="a", outputs=[OutputBody(name="out")], **more)  # type: ignore[arg-type]


def test_a_new_app_without_a_word_about_credit_is_paid_steadily():
    assert app_from(new_app()).credit_system == "steady"
    assert app_from(new_app(credit=CreditBody(per_job=3.0))).credit_system == "steady"
    assert app_from(new_app(credit=CreditBody(system="counted"))).credit_system == "counted"


def test_what_was_stored_without_a_name_keeps_its_system():
    assert find_system("").name == "creditnew-deployed"


ATTACKS = (
    *(
        "time-x10",
        "fresh-time",
        "fresh-benchmark",
        "new-account",
        "benchmark-1e9-x10",
        "low-first",
        "cherry-error",
    ),
    *("ring-x10", "pair-x10", "pair-ramp", "counts-x10"),
)
SEED = 7_031


@cache
def base(world: World) -> dict[str, object]:
    return baseline(play(world, None, SEED, [find_contender("steady")])[0])


@pytest.mark.parametrize("quorum", [1, 2])
@pytest.mark.parametrize("name", ATTACKS)
def test_no_known_attack_pays_under_the_default(name: str, quorum: int):
    attack = find_attack(name)
    attack = replace(attack, share=max(0.05, attack.share))
    if quorum not in attack.quorums:
        return
    world = replace(find_world(f"normal-q{quorum}"), hosts=100, jobs=8000)
    played = play(world, attack, SEED, [find_contender("steady")])[0]
    assert attack_figures(played, base(world), generator(SEED, "bootstrap"))["gain"] <= SAFE


def test_what_the_doctor_tells_of_the_default_is_no_less_than_what_is_measured_here():
    assert max(gain for gain, _ in WORST["steady"]) <= SAFE
    assert set(WORST) >= {name.partition(":")[0] for name in credit_system_names()} - {
        *(
            "fixed",
            "assigned",
            "after-assimilation",
            "trickle",
            "none",
        )  # worth what the project says, or nothing
    }


# A change of the system


def levels(before: str, after: str) -> tuple[float, float]:
    """Credit per true operation of the last 200 results under one system, and of the first 100 jobs (17 hours) of the next."""
    run = Run(replace(find_world("normal-q2"), hosts=60, jobs=900), 9_102)
    tape = run.finish()
    book = BookWatcher(find_system(before), run.accounts)
    decided = list(tape.decided())
    change = len(decided) - 100
    estimates, works, first = list[float](), list[float](), 0
    for number, (results, job) in enumerate(decided):
        if number == change:
            first = len(works)
            factor = factor_paid(list(zip(book.price[-200:], estimates[-200:], strict=True)), DEPLOYED)
            assert factor is not None
            book.terms = replace(book.terms, system=find_system(after))
            book.book.apps = {id_: replace(app, min_avg_pfc=factor) for id_, app in book.book.apps.items()}
        _hurry(results, job)
        book.decided(results, job)
        estimates += [job.estimate] * len(results)
        works += [result.work for result in results]

    def level(lines: slice) -> float:
        return sum(book.price[lines]) / sum(works[lines])

    return level(slice(first - 200, first)), level(slice(first, len(works)))


def _hurry(results: list[Result], job: Job) -> None:
    """A job each ten minutes."""
    later = (job.time - START) * 0.95
    job.time -= later
    for result in results:
        result.time -= later
        result.sent -= later


@pytest.mark.parametrize("before", ["creditnew-deployed", "creditnew-designed", "counted", "runtime"])
def test_an_app_that_changes_to_the_default_pays_on_as_before(before: str):
    last, first = levels(before, "steady")
    assert first == pytest.approx(last, rel=0.1)


@given(st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1e18)), max_size=60))
def test_the_factor_taken_over_is_usable_whatever_was_paid(paid: list[tuple[float, float]]):
    factor = factor_paid(paid, DEPLOYED)
    if factor is None:
        worthless = not any(credit for credit, _ in paid) or not any(DEPLOYED.of_flops(e) for _, e in paid)
        assert len(paid) < MIN_PAID or worthless
    else:
        assert 1e-4 <= factor <= 1e4
