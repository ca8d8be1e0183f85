"""Every claim of the paper's evaluation, and the condition for it to hold.

The paper gives no limits for "often", "nearly" or "slightly", so each claim names its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cobblestone.policy.client.estimates import update_dcf
from cobblestone.simulator.paper import cells
from cobblestone.simulator.paper.cells import (
    BASE,
    BUFFERS,
    ERRORS,
    MIXES,
    PRINTED_MIXES,
    SLACKS,
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


Points = Callable[[ClaimSetting], list[Term]]
_HOW: Mapping[Judge, str] = {on_average: "", everywhere: ", each", mostly: ", most"}


@dataclass(frozen=True, slots=True)
class Part:
    """One measurable part of a claim."""

    metric: str
    terms: Points
    need: AgreeingValues
    what: str  #: is compared
    judge: Judge = on_average

    @property
    def measure(self) -> str:
        """Return what is compared with which limit."""
        return f"{self.what}{_HOW[self.judge]}: {self.need}"


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


def _mix(policy: str, low: int = 1, high: int = 20) -> Points:
    return lambda w: [
        Term(m, mix_cell(m, policy, w.mode, tight=w.tight))
        for m in (MIXES if w.tight else PRINTED_MIXES)
        if low <= m <= high
    ]


def _slack(*slacks: float, policy: str = BASE) -> Points:
    return lambda w: [Term(s, slack_cell(s, policy, w.mode)) for s in slacks]


def _buffer(slack: float, *hours: float) -> Points:
    return lambda w: [Term(h, buffer_cell(slack, h, BASE, w.mode)) for h in hours]


def _shrunk(slack: float, large: float, small: float) -> Points:
    return _less(_buffer(slack, large), _buffer(slack, small))


def _variance(more: str, less: str, *stdevs: float) -> Points:
    return lambda w: [Term(s, variance_cell(s, more, w.mode), variance_cell(s, less, w.mode)) for s in stdevs]


def _error(policy: str, *errors: float) -> Points:
    return lambda w: [Term(f, slack_cell(4.0, policy, w.mode, error=f)) for f in errors]


def _error_rise(policy: str, error: float) -> Points:
    return _less(_error(policy, error), _error(policy, 1.0))


def _uncorrected(error: float) -> Points:
    """Return the client without a correction factor minus the paper's."""
    return _less(_error(JC1, error), _error(BASE, error))


def _less(of: Points, other: Points) -> Points:
    """Return points less others of the same number, in their order."""
    return lambda w: [Term(a.x, a.cell, b.cell) for a, b in zip(of(w), other(w), strict=True)]


def _over_base(policy: str, low: int = 2) -> Points:
    """Return another policy minus the paper's, over the mixes."""
    return _less(_mix(policy, low), _mix(BASE, low))


def _mix_rise(policy: str) -> Points:
    return _less(_mix(policy, 20), _mix(policy, 2, 2))


def _mix_drift(world: ClaimSetting) -> list[Term]:
    """Return the large mixes minus the small ones."""
    terms = _mix(BASE)(world)
    half = len(terms) // 2
    return [Term(b.x, b.cell, a.cell) for a, b in zip(terms[:half], terms[half:], strict=True)]


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
_LARGE, _OF_LARGE = (100.0, 1000.0), "deviations of 100 and 1000 times the mean"
_CS, _WF = "mixes of 2 to 20, CS1 less CS2", "mixes of 2 to 20, WF1 less WF2"


def _claim(figure: int, sentence: str, *parts: Part, note: str = "") -> PaperClaim:
    return PaperClaim(figure, sentence, parts, note=note)


def _alike(figure: int, how: str, policy: str, what: str, *metrics: str) -> list[PaperClaim]:
    """Return claims that a policy and the paper's have alike figures."""
    return [
        _claim(
            figure,
            f"{metric.capitalize().replace('_', ' ')} of {how}",
            Part(metric, _over_base(policy), ABOUT_EQUAL, what, everywhere),
        )
        for metric in metrics
    ]


CLAIMS: Sequence[PaperClaim] = (
    _claim(
        1,
        "EDF for endangered jobs (CS2) wastes less than round robin (CS1), often by more than 10 % with more than 3 projects",
        Part("waste", _over_base(CS1, 4), AgreeingValues(low=0.1), _FOURFOLD),
    ),
    *_alike(1, "CS1 and CS2 is about equal", CS1, _CS, "idleness", "share_violation", "monotony"),
    _claim(
        1,
        "Share violation is usually below 0.10",
        Part("share_violation", _mix(BASE), AgreeingValues(high=0.1), "CS2", mostly),
        Part("share_violation", _mix(CS1), AgreeingValues(high=0.1), "CS1", mostly),
    ),
    _claim(
        1,
        "Share violation rises only slightly with the number of projects",
        Part("share_violation", _mix_rise(BASE), AgreeingValues(high=0.1), "20 projects less 2"),
    ),
    _claim(
        1,
        "Idleness is near 0 for every number of projects",
        Part("idleness", _mix(BASE), NOTHING, "CS2", everywhere),
        Part("idleness", _mix(CS1), NOTHING, "CS1", everywhere),
    ),
    _claim(
        1,
        "Monotony rises clearly with the number of projects",
        Part("monotony", _mix_rise(BASE), AgreeingValues(low=0.1), "CS2, 20 projects less 2"),
    ),
    _claim(
        1,
        "Waste, idleness and share violation stay about constant from 1 to 20 projects: the scheduler scales",
        *(
            Part(metric, _mix_drift, ABOUT_EQUAL, f"{metric.replace('_', ' ')}, more projects less fewer")
            for metric in ("waste", "idleness", "share_violation")
        ),
    ),
    _claim(2, "At slack 1 all is wasted", Part("waste", _slack(1.0), AgreeingValues(low=0.99), "slack 1")),
    _claim(
        2,
        "Waste is 0.75 at slack 2",
        Part("waste", _slack(2.0), AgreeingValues(0.73, 0.77), "slack 2"),
        note="The server compared absolute deadlines with times that count from zero, so that its check admitted everything",
    ),
    _claim(
        2,
        "Waste is 0.24 at slack 3 and 0.02 at slack 4",
        Part("waste", _slack(3.0), AgreeingValues(0.22, 0.26), "slack 3"),
        Part("waste", _slack(4.0), AgreeingValues(0.0, 0.04), "slack 4"),
    ),
    _claim(
        2,
        "Nothing is wasted from slack 5 on",
        Part("waste", _slack(*[s for s in SLACKS if s >= 5.0]), NOTHING, "slacks 5 to 60", everywhere),
    ),
    _claim(
        2,
        "Share violation, monotony and idleness are 0",
        *(
            Part(m, _slack(*SLACKS), NOTHING, m, everywhere)
            for m in ("share_violation", "monotony", "idleness")
        ),
    ),
    _claim(
        2,
        "A job of 3.67 h takes 4.58 h where the host is on for 0.8 of the time, more than slack 1 allows",
        Part("waste", _slack(1.0), AgreeingValues(low=0.99), "slack 1"),
        Part("waste", _buffer(2.0, 1.0), NOTHING, "slack 2 with a buffer of 1 h"),
        note="That without a queue nothing is late at slack 2 shows that it is the off-time which makes all late at slack 1",
    ),
    PaperClaim(3, "The curve at 8.4 h is that of Figure 2", settled=_same_scenario),
    _claim(
        3,
        "Waste falls steeply as the buffer shrinks",
        Part("waste", _shrunk(2.0, 8.4, 2.0), AgreeingValues(low=0.3), "slack 2, 8.4 h less 2 h"),
    ),
    _claim(
        3,
        "So do missed deadlines",
        Part("missed", _shrunk(2.0, 8.4, 2.0), AgreeingValues(low=0.3), "slack 2, 8.4 h less 2 h"),
    ),
    _claim(
        3,
        "At slack 2 waste is constant between 5 and 7 h",
        Part("waste", _shrunk(2.0, 7.0, 5.0), AgreeingValues(-0.02, 0.02), "7 h less 5 h"),
    ),
    _claim(
        3,
        "At slack 1 waste is 1 whatever the buffer",
        Part("waste", _buffer(1.0, *BUFFERS), AgreeingValues(low=0.99), "slack 1", everywhere),
    ),
    _claim(
        3,
        "Smaller buffers waste less",
        Part("waste", _shrunk(2.0, 8.4, 1.0), AgreeingValues(low=EQUAL), "slack 2, 8.4 h less 1 h"),
        Part("waste", _shrunk(3.0, 8.4, 1.0), AgreeingValues(low=EQUAL), "slack 3, 8.4 h less 1 h"),
    ),
    _claim(
        4,
        "With a queue per project (WF1) waste grows dramatically with the number of projects",
        Part("waste", _mix_rise(WF1), AgreeingValues(low=0.5), "20 projects less 2"),
    ),
    _claim(
        4,
        "Its share violation is relatively high",
        Part("share_violation", _mix(WF1, 2), AgreeingValues(low=0.2), "WF1, mean of the mixes of 2 to 20"),
    ),
    _claim(
        4,
        "Debt and shortfall (WF2) improve waste by almost 90 %",
        Part("waste", _over_base(WF1, 8), AgreeingValues(low=0.8), "mixes of 8 to 20, WF1 less WF2"),
        note="Read as points: share-proportional queues fetch jobs with tight deadlines, run them first and make the others late",
    ),
    _claim(
        4,
        "They improve share violation by almost 50 %",
        Part("share_violation", _over_base(WF1), AgreeingValues(low=0.4), _WF),
        note="Read as points",
    ),
    *_alike(4, "WF1 and WF2 is nearly identical", WF1, _WF, "idleness", "monotony"),
    _claim(
        5,
        "The server's deadline check (WS2) often saves 20 % of waste and more",
        Part("waste", _variance(WS1, BASE, *_LARGE), AgreeingValues(low=0.2), f"{_OF_LARGE}, WS1 less WS2"),
        note="The check of 2007 knew the true size of the job that it was about to send",
    ),
    _claim(
        5,
        "It costs idleness, often 20 % and more",
        Part(
            "idleness", _variance(BASE, WS1, *_LARGE), AgreeingValues(low=0.2), f"{_OF_LARGE}, WS2 less WS1"
        ),
    ),
    _claim(
        5,
        "It helps only where job sizes vary strongly, by more than 10 times the mean",
        Part(
            "waste",
            _variance(WS1, BASE, 1.0, 3.0, 10.0),
            AgreeingValues(high=EQUAL),
            "deviations of 1, 3, 10, WS1 less WS2",
            everywhere,
        ),
        Part(
            "waste", _variance(WS1, BASE, 100.0), AgreeingValues(low=EQUAL), "deviation of 100, WS1 less WS2"
        ),
        note="With deadlines that count from now on, the check pays earlier",
    ),
    _claim(
        5,
        "It helps only where the client holds many jobs (large buffers, rare contacts)",
        Part(
            "waste",
            _less(_slack(2.0, policy=WS1), _slack(2.0)),
            AgreeingValues(high=EQUAL),
            "slack 2, buffer of 8.4 h, WS1 less WS2",
        ),
    ),
    _claim(
        6,
        "With exact estimates the correction factor (JC2) makes no difference",
        Part("waste", _uncorrected(1.0), AgreeingValues(-0.01, 0.01), "error 1, JC1 less JC2"),
    ),
    _claim(
        6,
        "With it waste is remarkably constant",
        Part("waste", _error_rise(BASE, 5.0), ABOUT_EQUAL, "error 5 less error 1"),
    ),
    _claim(
        6,
        "Without it (JC1) waste rises fast",
        Part("waste", _error_rise(JC1, 3.0), AgreeingValues(low=0.3), "error 3 less error 1"),
    ),
    _claim(
        6,
        "... to almost 1 at an error of 4",
        Part("waste", _error(JC1, 4.0), AgreeingValues(low=0.9), "JC1 at 4"),
        note="Among equal deadlines the client of 2007 ran the job with least left, so that underestimated jobs took turns and"
        " all came late",
    ),
    PaperClaim(6, "The factor converges right after the first fetch", settled=_factor_converges),
    _claim(
        6,
        "Idleness, share violation and monotony are 0",
        *(
            Part(m, _error(policy, *ERRORS), NOTHING, f"{policy[-3:]} {m}", everywhere)
            for policy in (JC1, BASE)
            for m in ("idleness", "share_violation", "monotony")
        ),
    ),
    _claim(
        6,
        "A correction factor is essential from an error of 2 on",
        Part("waste", _uncorrected(2.0), AgreeingValues(low=EQUAL), "error 2, JC1 less JC2"),
    ),
    PaperClaim(
        0, "After CS2_WF2_WS2_JC2 was deployed, complaints fell to about one a month", settled=_no_simulation
    ),
)
