"""What a liar could gain under an app's rules: the worst of the known attacks, as the laboratory measured it.

*Gain* is what cheating computers get per true operation, as a multiple of what the same computers get when honest.  The
attacks: run time, benchmark or counts times ten, also under ever new identities; a failed benchmark; low claims first and
high ones later; dropping jobs that are longer than estimated; a ring of a tenth of the computers, and a pair that always
meets.  Source of the figures: ``tests/helpers/credit_attacks.py``, 200 computers, 3,000 jobs; docs/credit.md has the table.
"""

from __future__ import annotations

from dataclasses import dataclass

from cobblestone.domain.apps import App

PICKS = "who drops jobs that are longer than estimated"
RENEWS = "who reports ten times the run time as ever new accounts"
INFLATES = "who reports ten times the run time"
COUNTS = "who reports ten times the operations"
MEETS = "two accounts that meet in many jobs and report ten times the operations"


@dataclass(frozen=True, slots=True)
class Exposure:
    """The worst known attack on a credit system."""

    gain: float  #: with a quorum of two or more
    gain_alone: float  #: with a quorum of one
    who: str
    who_alone: str


MEASURED: dict[str, Exposure] = {}
"""By credit system; one with a way to combine claims (``counted:minimum``) may have its own line."""

LOOK = "what the project itself says a job is worth, whatever is reported; jobs that are paid alike invite dropping long ones"
_BY_PROJECT = ("fixed", "assigned", "after-assimilation")


def what_a_liar_gains(app: App) -> str:
    """Return one sentence each on false reports, false answers and messages under an app's rules, and what would bound them."""
    return " ".join((_reports(app), _answers(app), *_messages(app)))


def _reports(app: App) -> str:
    name = app.credit_system
    if name == "none" or (name == "trickle"):
        return "Reports: results earn no credit."
    if name in _BY_PROJECT:
        return f"Reports: {LOOK}."
    found = MEASURED.get(name) or MEASURED.get(name.partition(":")[0])
    if found is None:
        return f"Reports: nothing is known about {name}, a system of the project's own."
    alone = app.rules_of_jobs.min_quorum < 2
    gain, who = (found.gain_alone, found.who_alone) if alone else (found.gain, found.who)
    bound = "" if gain <= SAFE else f" Bound: cobblestone app update {app.name} --credit steady."
    return f"Reports ({name}): {who} gets up to {gain:.2g} times the credit of the same work.{bound}"


SAFE = 1.35
"""The default pays no known attack more."""


def _answers(app: App) -> str:
    if app.comparison.kind == "trivial":
        return "Answers: any output is taken for right, so a computer need not compute. Bound: another --compare."
    if app.dispatch.adaptive:
        return "Answers: at most 4.1 % wrong ones of a computer are taken (spot checks)."
    if app.rules.min_quorum > 1:
        return f"Answers: a wrong one needs {app.rules.min_quorum} computers of different people that agree on it."
    return (
        "Answers: nobody checks them, so a computer need not compute: its credit has no bound but the daily quota. Bound:"
        f" cobblestone app update {app.name} --quorum 2, and spot checks save most of the double work:"
        f" cobblestone app dispatch {app.name} --adaptive."
    )


def _messages(app: App) -> tuple[str, ...]:
    if not (app.partial_credit or app.credit_system == "trickle"):
        return ()
    text = (
        "Messages of running jobs: credit for jobs that are never returned, up to what their operation bound is worth."
        f" Bound: a true --flops-bound, or cobblestone app update {app.name} --no-partial-credit."
    )
    return (text,)
