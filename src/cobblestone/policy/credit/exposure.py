"""What a liar could gain under an app's rules: the worst of the known attacks, as the laboratory measured it.

*Gain* is what cheating computers get per true operation, as a multiple of what the same computers get when honest.  The
attacks: run time, benchmark or counts times ten, also under ever new identities; a failed benchmark; low claims first and
high ones later; dropping jobs that are longer than estimated; a ring of a tenth of the computers, and a pair that always
meets.  Source of the figures: logs of 200 computers and 3,000 jobs; `cobblestone creditbench` measures them on larger worlds.
"""

from __future__ import annotations

from collections.abc import Mapping

from cobblestone.domain.apps import App
from cobblestone.policy.credit.ledger_credit import LEDGER_RULES

_PICKS = "someone who drops jobs that are longer than estimated"
_RENEWS = "someone who reports ten times the run time as ever new accounts"
_INFLATES = "someone who reports ten times the run time"
_COUNTS = "someone who reports ten times the operations"
_FAILED = "someone who reports ten times the run time and a failed benchmark"
_AGREE = "two accounts that meet in many jobs and report ten times the operations"
_RAMP = "someone who reports short run times first and long ones later"
_PAIR = "two accounts that meet in many jobs and report long run times"

#: Largest gain and by whom, by credit system: with a quorum of two, and of one.  A way to combine may have its own line.
WORST: Mapping[str, tuple[tuple[float, str], tuple[float, str]]] = {
    "benchmark": ((7.7, _PAIR), (9.8, _INFLATES)),
    "benchmark-both": ((7.7, _PAIR), (9.8, _INFLATES)),
    "counted": ((7.8, _AGREE), (9.5, _COUNTS)),
    "counted:minimum": ((6.7, _AGREE), (9.5, _COUNTS)),
    "creditnew-deployed": ((3.4, _PAIR), (12.0, _FAILED)),
    "creditnew-designed": ((5.5, _RENEWS), (8.3, _INFLATES)),
    "ledger": ((1.12, _PAIR), (1.04, _RAMP)),
    "ledger-early-exits": ((1.12, _PAIR), (1.13, _INFLATES)),
    "runtime": ((7.3, _PAIR), (13.0, _FAILED)),
    "steady": ((1.25, _PICKS), (1.28, _PICKS)),
    "steady-measured": ((1.7, _PAIR), (1.28, _PICKS)),
}

#: The default pays no known attack more.
SAFE = 1.35

_BY_PROJECT = ("fixed", "assigned", "after-assimilation")


def what_a_liar_gains(app: App) -> str:
    """Return one sentence each on false reports, false answers and messages under an app's rules, and what would bound them."""
    return " ".join((_reports(app), _answers(app), *_messages(app)))


def _reports(app: App) -> str:
    name = app.credit_system
    if name in ("none", "trickle"):
        return "Reports: they earn no credit."
    if name in _BY_PROJECT:
        return "Reports: the project itself says what a job is worth; jobs that are paid alike invite dropping the long ones."
    found = WORST.get(name) or WORST.get(name.partition(":")[0])
    if found is None:
        return f"Reports: nothing is known about {name}, a system of the project's own."
    gain, who = found[app.rules_of_jobs.min_quorum < 2]
    bound = "" if gain <= SAFE else f" Bound: cobblestone app update {app.name} --credit steady."
    return f"Reports ({name}): up to {gain:g} times the credit of the same work for {who}.{bound}"


def _answers(app: App) -> str:
    if app.comparison.kind == "trivial":
        return "Answers: any output is taken for right, so a computer need not compute. Bound: another --compare."
    if app.dispatch.adaptive:
        return "Answers: at most 4.1 % wrong ones of a computer are taken (spot checks)."
    if app.credit_system in LEDGER_RULES and app.rules.min_quorum < 2:
        return (
            "Answers: another person's computer checks the first ten results of a computer, and later at least one in fifty;"
            " a wrong one costs the credit since the last check."
        )
    if app.rules.min_quorum > 1:
        return f"Answers: a wrong one needs {app.rules.min_quorum} computers of different people that agree on it."
    return (
        "Answers: no one checks them, so a computer need not compute: its credit has no bound but the daily quota. Bound:"
        f" cobblestone app update {app.name} --quorum 2, and spot checks save most of the double work:"
        f" cobblestone app dispatch {app.name} --adaptive."
    )


def _messages(app: App) -> tuple[str, ...]:
    if not (app.partial_credit or app.credit_system == "trickle"):
        return ()
    text = (
        "Messages of running jobs: for a valid result at most what its operation bound is worth, else it is taken back."
        f" Bound: a true one, cobblestone app update {app.name} --flops-bound OPERATIONS."
    )
    return (text,)
