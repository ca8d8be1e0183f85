"""Every claim of the paper's evaluation, and the condition for it to hold.

The paper gives no limits for "often", "nearly" or "slightly", so each claim names its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from cobblestone.policy.client.estimates import update_dcf
from cobblestone.simulator.paper import cells
from cobblestone.simulator.paper.cells import (
    BASE,
    BUFFERS,
    ERRORS,
    MIXES,
    PRINTED_MIXES,
    SLACKS,
    Cell,
    Mode,
    buffer_cell,
    mix_cell,
    slack_cell,
    variance_cell,
)
from cobblestone.simulator.paper.figures import (
    AgreeingValues,
    ClaimFinding,
    ClaimOutcome,
    Judge,
    Term,
    against_base,
    everywhere,
    mostly,
    on_average,
)
from cobblestone.simulator.paper.golden import CS1, JC1, WF1, WS1

#: Differences up to this much count as "about equal".
EQUAL = 0.05
NOTHING = AgreeingValues(high=0.01)
ABOUT_EQUAL = AgreeingValues(-EQUAL, EQUAL)


@dataclass(frozen=True, slots=True)
class ClaimSetting:
    """Where a claim is judged: a mode, and the base bound of the mixes."""

    mode: Mode
    tight: bool = True


THEN, NOW, PRINTED = (
    ClaimSetting("compatible"),
    ClaimSetting("corrected"),
    ClaimSetting("compatible", tight=False),
)


@dataclass(frozen=True, slots=True)
class Part:
    """One measurable part of a claim."""

    metric: str
    terms: Callable[[ClaimSetting], list[Term]]
    judge: Judge
    measure: str  #: what is compared with which limit


@dataclass(frozen=True, slots=True)
class PaperClaim:
    """A claim of the paper.  One without parts is settled without runs, by ``settled``."""

    figure: int
    sentence: str
    parts: tuple[Part, ...] = ()
    settled: Callable[[], ClaimOutcome] | None = None
    note: str = ""

    @property
    def of_mixes(self) -> bool:
        """Return whether the printed base bound is a further case to judge."""
        return self.figure in (1, 4)


def _mixes(world: ClaimSetting, low: int = 1) -> list[int]:
    return [m for m in (MIXES if world.tight else PRINTED_MIXES) if m >= low]


def _mix_pairs(other: str, low: int = 2) -> Callable[[ClaimSetting], list[Term]]:
    """Return another policy minus the paper's, over the mixes."""
    return lambda w: against_base([(m, partial(_mix, w, m)) for m in _mixes(w, low)], other)


def _mix(world: ClaimSetting, count: float, policy: str) -> Cell:
    return mix_cell(int(count), policy, world.mode, tight=world.tight)


def _mix_level(policy: str, low: int = 1) -> Callable[[ClaimSetting], list[Term]]:
    return lambda w: [Term(m, _mix(w, m, policy)) for m in _mixes(w, low)]


def _mix_rise(policy: str, first: int = 2, last: int = 20) -> Callable[[ClaimSetting], list[Term]]:
    return lambda w: [Term(last, _mix(w, last, policy), _mix(w, first, policy))]


def _mix_drift(policy: str) -> Callable[[ClaimSetting], list[Term]]:
    """Return the large mixes minus the small ones."""

    def terms(world: ClaimSetting) -> list[Term]:
        mixes = _mixes(world)
        half = len(mixes) // 2
        return [
            Term(b, _mix(world, b, policy), _mix(world, a, policy))
            for a, b in zip(mixes[:half], mixes[half:], strict=True)
        ]

    return terms


def _slacks(*slacks: float, policy: str = BASE, error: float = 1.0) -> Callable[[ClaimSetting], list[Term]]:
    return lambda w: [Term(s, slack_cell(s, policy, w.mode, error=error)) for s in slacks]


def _buffers(slack: float, *hours: float) -> Callable[[ClaimSetting], list[Term]]:
    return lambda w: [Term(h, buffer_cell(slack, h, BASE, w.mode)) for h in hours]


def _buffer_gain(slack: float, large: float, small: float) -> Callable[[ClaimSetting], list[Term]]:
    return lambda w: [
        Term(large, buffer_cell(slack, large, BASE, w.mode), buffer_cell(slack, small, BASE, w.mode))
    ]


def _variance(*stdevs: float, more: str, less: str) -> Callable[[ClaimSetting], list[Term]]:
    return lambda w: [Term(s, variance_cell(s, more, w.mode), variance_cell(s, less, w.mode)) for s in stdevs]


def _check_at_slack(slack: float) -> Callable[[ClaimSetting], list[Term]]:
    """Return no server check minus the check, with one project and the small buffer."""
    return lambda w: [Term(slack, slack_cell(slack, WS1, w.mode), slack_cell(slack, BASE, w.mode))]


def _errors(*errors: float) -> Callable[[ClaimSetting], list[Term]]:
    """Return the plain estimate minus the one with a correction factor."""
    return lambda w: [
        Term(f, slack_cell(4.0, JC1, w.mode, error=f), slack_cell(4.0, BASE, w.mode, error=f)) for f in errors
    ]


def _error_rise(policy: str, last: float) -> Callable[[ClaimSetting], list[Term]]:
    return lambda w: [
        Term(last, slack_cell(4.0, policy, w.mode, error=last), slack_cell(4.0, policy, w.mode))
    ]


def _error_level(policy: str, *errors: float) -> Callable[[ClaimSetting], list[Term]]:
    return lambda w: [Term(f, slack_cell(4.0, policy, w.mode, error=f)) for f in errors]


def _average(
    metric: str, terms: Callable[[ClaimSetting], list[Term]], need: AgreeingValues, what: str
) -> Part:
    return Part(metric, terms, on_average(need), f"{what}: {need}")


def _each(metric: str, terms: Callable[[ClaimSetting], list[Term]], need: AgreeingValues, what: str) -> Part:
    return Part(metric, terms, everywhere(need), f"{what}, each: {need}")


def _most(metric: str, terms: Callable[[ClaimSetting], list[Term]], need: AgreeingValues, what: str) -> Part:
    return Part(metric, terms, mostly(need), f"{what}, most: {need}")


def _same_scenario() -> ClaimOutcome:
    """Judge whether the whole buffer of Figure 3 is that of Table 4, for any slack."""
    same = all(
        math.isclose(a, b)
        for s in (1.0, 2.0, 3.0, 4.0, 5.0)
        for one, other in [(cells.buffer(s, 8.4).preferences, cells.slack(s).preferences)]
        for a, b in ((one.buffer_min, other.buffer_min), (one.buffer_additional, other.buffer_additional))
    )
    return ClaimOutcome(
        ClaimFinding.TRUE if same else ClaimFinding.FALSE, "it is the same scenario, 2.4 h and 6 h"
    )


def _factor_converges() -> ClaimOutcome:
    """Judge whether one finished job corrects the factor, if it took longer than estimated."""
    after = [update_dcf(1.0, actual=f, raw_estimate=1.0) for f in ERRORS]
    right = all(math.isclose(a, f) for a, f in zip(after, ERRORS, strict=True))
    shown = ", ".join(f"{a:g}" for a in after)
    return ClaimOutcome(
        ClaimFinding.TRUE if right else ClaimFinding.FALSE,
        f"after the first finished job, not before: {shown} for errors of 1 to 5",
    )


def _no_simulation() -> ClaimOutcome:
    return ClaimOutcome(ClaimFinding.NOT_RUN, "a matter of the projects' message boards")


_FOURFOLD = "mixes of 4 to 20, CS1 less CS2"
_LARGE = "deviations of 100 and 1000 times the mean"
_CS, _WF = "mixes of 2 to 20, CS1 less CS2", "mixes of 2 to 20, WF1 less WF2"

CLAIMS: Sequence[PaperClaim] = (
    PaperClaim(
        1,
        "EDF for endangered jobs (CS2) wastes less than round robin (CS1), often by more than 10 % with more than 3 projects",
        (_average("waste", _mix_pairs(CS1, 4), AgreeingValues(low=0.1), _FOURFOLD),),
    ),
    PaperClaim(
        1, "Idleness of CS1 and CS2 is about equal", (_each("idleness", _mix_pairs(CS1), ABOUT_EQUAL, _CS),)
    ),
    PaperClaim(
        1,
        "Share violation of CS1 and CS2 is about equal",
        (_each("share_violation", _mix_pairs(CS1), ABOUT_EQUAL, _CS),),
    ),
    PaperClaim(
        1, "Monotony of CS1 and CS2 is about equal", (_each("monotony", _mix_pairs(CS1), ABOUT_EQUAL, _CS),)
    ),
    PaperClaim(
        1,
        "Share violation is usually below 0.10",
        (
            _most("share_violation", _mix_level(BASE), AgreeingValues(high=0.1), "CS2"),
            _most("share_violation", _mix_level(CS1), AgreeingValues(high=0.1), "CS1"),
        ),
    ),
    PaperClaim(
        1,
        "Share violation rises only slightly with the number of projects",
        (_average("share_violation", _mix_rise(BASE), AgreeingValues(high=0.1), "20 projects less 2"),),
    ),
    PaperClaim(
        1,
        "Idleness is near 0 for every number of projects",
        (
            _each("idleness", _mix_level(BASE), NOTHING, "CS2"),
            _each("idleness", _mix_level(CS1), NOTHING, "CS1"),
        ),
    ),
    PaperClaim(
        1,
        "Monotony rises clearly with the number of projects",
        (_average("monotony", _mix_rise(BASE), AgreeingValues(low=0.1), "CS2, 20 projects less 2"),),
    ),
    PaperClaim(
        1,
        "Waste, idleness and share violation stay about constant from 1 to 20 projects: the scheduler scales",
        tuple(
            _average(metric, _mix_drift(BASE), ABOUT_EQUAL, f"{name}, more projects less fewer")
            for metric, name in (
                ("waste", "waste"),
                ("idleness", "idleness"),
                ("share_violation", "share violation"),
            )
        ),
    ),
    PaperClaim(
        2, "At slack 1 all is wasted", (_average("waste", _slacks(1.0), AgreeingValues(low=0.99), "slack 1"),)
    ),
    PaperClaim(
        2,
        "Waste is 0.75 at slack 2",
        (_average("waste", _slacks(2.0), AgreeingValues(0.73, 0.77), "slack 2"),),
        note="The server compared absolute deadlines with times that count from zero, so that its check admitted everything",
    ),
    PaperClaim(
        2,
        "Waste is 0.24 at slack 3 and 0.02 at slack 4",
        (
            _average("waste", _slacks(3.0), AgreeingValues(0.22, 0.26), "slack 3"),
            _average("waste", _slacks(4.0), AgreeingValues(0.0, 0.04), "slack 4"),
        ),
    ),
    PaperClaim(
        2,
        "Nothing is wasted from slack 5 on",
        (_each("waste", _slacks(*[s for s in SLACKS if s >= 5.0]), NOTHING, "slacks 5 to 60"),),
    ),
    PaperClaim(
        2,
        "Share violation, monotony and idleness are 0",
        tuple(_each(m, _slacks(*SLACKS), NOTHING, m) for m in ("share_violation", "monotony", "idleness")),
    ),
    PaperClaim(
        2,
        "A job of 3.67 h takes 4.58 h where the host is on for 0.8 of the time, more than slack 1 allows",
        (
            _average("waste", _slacks(1.0), AgreeingValues(low=0.99), "slack 1"),
            _average("waste", _buffers(2.0, 1.0), NOTHING, "slack 2 with a buffer of 1 h"),
        ),
        note="That without a queue nothing is late at slack 2 shows that it is the off-time which makes all late at slack 1",
    ),
    PaperClaim(3, "The curve at 8.4 h is that of Figure 2", settled=_same_scenario),
    PaperClaim(
        3,
        "Waste falls steeply as the buffer shrinks",
        (_average("waste", _buffer_gain(2.0, 8.4, 2.0), AgreeingValues(low=0.3), "slack 2, 8.4 h less 2 h"),),
    ),
    PaperClaim(
        3,
        "So do missed deadlines",
        (
            _average(
                "missed", _buffer_gain(2.0, 8.4, 2.0), AgreeingValues(low=0.3), "slack 2, 8.4 h less 2 h"
            ),
        ),
    ),
    PaperClaim(
        3,
        "At slack 2 waste is constant between 5 and 7 h",
        (_average("waste", _buffer_gain(2.0, 7.0, 5.0), AgreeingValues(-0.02, 0.02), "7 h less 5 h"),),
    ),
    PaperClaim(
        3,
        "At slack 1 waste is 1 whatever the buffer",
        (_each("waste", _buffers(1.0, *BUFFERS), AgreeingValues(low=0.99), "slack 1"),),
    ),
    PaperClaim(
        3,
        "Smaller buffers waste less",
        (
            _average(
                "waste", _buffer_gain(2.0, 8.4, 1.0), AgreeingValues(low=EQUAL), "slack 2, 8.4 h less 1 h"
            ),
            _average(
                "waste", _buffer_gain(3.0, 8.4, 1.0), AgreeingValues(low=EQUAL), "slack 3, 8.4 h less 1 h"
            ),
        ),
    ),
    PaperClaim(
        4,
        "With a queue per project (WF1) waste grows dramatically with the number of projects",
        (_average("waste", _mix_rise(WF1), AgreeingValues(low=0.5), "20 projects less 2"),),
    ),
    PaperClaim(
        4,
        "Its share violation is relatively high",
        (
            _average(
                "share_violation",
                _mix_level(WF1, 2),
                AgreeingValues(low=0.2),
                "WF1, mean of the mixes of 2 to 20",
            ),
        ),
    ),
    PaperClaim(
        4,
        "Debt and shortfall (WF2) improve waste by almost 90 %",
        (_average("waste", _mix_pairs(WF1, 8), AgreeingValues(low=0.8), "mixes of 8 to 20, WF1 less WF2"),),
        note="Read as points: share-proportional queues fetch jobs with tight deadlines, run them first and make the others late",
    ),
    PaperClaim(
        4,
        "They improve share violation by almost 50 %",
        (_average("share_violation", _mix_pairs(WF1), AgreeingValues(low=0.4), _WF),),
        note="Read as points",
    ),
    PaperClaim(
        4,
        "Idleness of WF1 and WF2 is nearly identical",
        (_each("idleness", _mix_pairs(WF1), ABOUT_EQUAL, _WF),),
    ),
    PaperClaim(
        4,
        "Monotony of WF1 and WF2 is nearly identical",
        (_each("monotony", _mix_pairs(WF1), ABOUT_EQUAL, _WF),),
    ),
    PaperClaim(
        5,
        "The server's deadline check (WS2) often saves 20 % of waste and more",
        (
            _average(
                "waste",
                _variance(100.0, 1000.0, more=WS1, less=BASE),
                AgreeingValues(low=0.2),
                _LARGE + ", WS1 less WS2",
            ),
        ),
        note="The check of 2007 knew the true size of the job that it was about to send",
    ),
    PaperClaim(
        5,
        "It costs idleness, often 20 % and more",
        (
            _average(
                "idleness",
                _variance(100.0, 1000.0, more=BASE, less=WS1),
                AgreeingValues(low=0.2),
                _LARGE + ", WS2 less WS1",
            ),
        ),
    ),
    PaperClaim(
        5,
        "It helps only where job sizes vary strongly, by more than 10 times the mean",
        (
            _each(
                "waste",
                _variance(1.0, 3.0, 10.0, more=WS1, less=BASE),
                AgreeingValues(high=EQUAL),
                "deviations of 1, 3, 10, WS1 less WS2",
            ),
            _average(
                "waste",
                _variance(100.0, more=WS1, less=BASE),
                AgreeingValues(low=EQUAL),
                "deviation of 100, WS1 less WS2",
            ),
        ),
        note="With deadlines that count from now on, the check pays earlier",
    ),
    PaperClaim(
        5,
        "It helps only where the client holds many jobs (large buffers, rare contacts)",
        (
            _average(
                "waste",
                _check_at_slack(2.0),
                AgreeingValues(high=EQUAL),
                "slack 2, buffer of 8.4 h, WS1 less WS2",
            ),
        ),
    ),
    PaperClaim(
        6,
        "With exact estimates the correction factor (JC2) makes no difference",
        (_average("waste", _errors(1.0), AgreeingValues(-0.01, 0.01), "error 1, JC1 less JC2"),),
    ),
    PaperClaim(
        6,
        "With it waste is remarkably constant",
        (_average("waste", _error_rise(BASE, 5.0), ABOUT_EQUAL, "error 5 less error 1"),),
    ),
    PaperClaim(
        6,
        "Without it (JC1) waste rises fast",
        (_average("waste", _error_rise(JC1, 3.0), AgreeingValues(low=0.3), "error 3 less error 1"),),
    ),
    PaperClaim(
        6,
        "... to almost 1 at an error of 4",
        (_average("waste", _error_level(JC1, 4.0), AgreeingValues(low=0.9), "JC1 at 4"),),
        note="Among equal deadlines the client of 2007 ran the job with least left, so that underestimated jobs took turns and"
        " all came late",
    ),
    PaperClaim(6, "The factor converges right after the first fetch", settled=_factor_converges),
    PaperClaim(
        6,
        "Idleness, share violation and monotony are 0",
        tuple(
            _each(m, _error_level(policy, *ERRORS), NOTHING, f"{policy[-3:]} {m}")
            for policy in (JC1, BASE)
            for m in ("idleness", "share_violation", "monotony")
        ),
    ),
    PaperClaim(
        6,
        "A correction factor is essential from an error of 2 on",
        (_average("waste", _errors(2.0), AgreeingValues(low=EQUAL), "error 2, JC1 less JC2"),),
    ),
    PaperClaim(
        0, "After CS2_WF2_WS2_JC2 was deployed, complaints fell to about one a month", settled=_no_simulation
    ),
)
