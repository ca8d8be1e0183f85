"""Numbers that record what a rule does with them, and cached paths of workunits through the life cycle.

Numbers that note what a rule does with them, so that its answer can be given again without asking the rule.

A pure rule that gets marked numbers goes one way through its code: the tape notes each sum and each comparison on that way.
What it noted is a function of other numbers, which gives the rule's answer to them if all comparisons come out the same,
else none.  What a rule does with a number that is not known here (rounding, a look-up in a table, a call of `math`) is a
`TypeError`, so that nothing is overlooked.

The paths of workunits through the rules of the life cycle, remembered: where one has been, the next one need not ask.

The workunits of a simulated project are alike but for their times and the hosts that have their results.  A `Stand` is the
state of a workunit without these; the answers of the policies' own functions lead from stand to stand: which results are
made, lost or not needed any more, which ones agree, when to look again.  Of times the functions get marked numbers
(above), so an answer is given again only to workunits of whose times the same things are true.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from cobblestone.domain.values import ResultId, changed
from cobblestone.domain.work import AssimilateState, Outcome, Result, ValidateState, Workunit
from cobblestone.policy.dispatch.reports import AcceptedReport
from cobblestone.policy.lifecycle.application import advance, advance_assimilation, apply_transition
from cobblestone.policy.lifecycle.states import Cause, TimeOutResult, WorkunitView, is_over, is_unsent
from cobblestone.policy.lifecycle.transition import LifecycleTiming, next_transition
from cobblestone.policy.validation.canonical import (
    OutputCheck,
    ValidationReport,
    apply_decision,
    judge,
    pairs_to_compare,
    results_to_check,
)
from cobblestone.simulator.host.engine import SimulationFault

Way: TypeAlias = "Callable[[Sequence[float], Callable[..., object] | None], tuple[Any, ...] | None]"
"""A rule's way: of numbers, and of a function that answers questions to others, to its answer if it goes this way."""

#: Ways that are remembered of one case at most.
MOST_WAYS = 50
T = TypeVar("T")
_NAMES = re.compile(r"\bn\d+\b")


class Tape:
    """Operations of rules on numbers, recorded as lines of Python; more than ``most`` are a `TypeError`, too."""

    def __init__(self, most: float = math.inf) -> None:
        self._most = most
        self._lines: list[str] = []
        self._names: dict[str, str] = {}  #: of what was worked out, by how it was
        self._noted: set[str] = set()

    def number(self, place: int, value: float) -> Any:  # Any: goes for a number
        """Mark a number that the function finds at a place of its list."""
        return Marked(value, f"t[{place}]", self)

    def compute(self, value: float, text: str) -> Marked:
        """Record a number computed from others."""
        name = self._names.get(text)
        if name is None:
            name = self._names[text] = f"n{len(self._lines)}"
            self._add(f"{name} = {text}")
        return Marked(value, name, self)

    def take_note(self, question: str, answer: object) -> None:
        """Record the answer to a comparison."""
        if question not in self._noted:
            self._noted.add(question)
            self._add(f"if ({question}) != {answer!r}: return None")

    def _add(self, line: str) -> None:
        if len(self._lines) >= self._most:
            raise TypeError("this way is too long to be noted")
        self._lines.append(line)

    def way(self, results: Sequence[object]) -> Way:
        """Return the function for these results: marked numbers among plain values."""
        lines = [f"return ({''.join(f'{text_of(each)}, ' for each in results)})"]
        used = set(_NAMES.findall(lines[0]))
        for line in reversed(self._lines):
            name, _, text = line.partition(" = ")
            if not text or name in used:
                used.update(_NAMES.findall(text or line))
                lines.append(line)
        source = "\n    ".join(["def way(t, ask):", *reversed(lines)])
        scope: dict[str, Any] = {"inf": math.inf, "floor": math.floor}
        exec(source, scope)  # noqa: S102  # the operators below, and what is plain enough to be written out
        return scope["way"]


class Ways(Generic[T]):
    """The known paths of a rule in one case, each with their common part."""

    __slots__ = ("_ways",)

    def __init__(self) -> None:
        self._ways: list[tuple[Way, T]] = []

    def find(
        self, numbers: Sequence[float], ask: Callable[..., object] | None = None
    ) -> tuple[T, tuple[Any, ...]] | None:
        """Return the common part of the path of these numbers, and its results for them; None for an unknown path."""
        for place, (way, common) in enumerate(self._ways):
            found = way(numbers, ask)
            if found is not None:
                if place:  # those that are gone often come to the front
                    self._ways[place - 1 : place + 1] = self._ways[place], self._ways[place - 1]
                return common, found
        return None

    def add(self, way: Way, common: T) -> None:
        """Add a path; if there are too many, all are forgotten."""
        if len(self._ways) >= MOST_WAYS:
            self._ways.clear()
        self._ways.append((way, common))


def text_of(value: object) -> str:
    """Return a marked number's name, or a plain value as source text."""
    return value.text if isinstance(value, Marked) else repr(value)


def marked_fields(tape: Tape, first: int, original: T, names: Sequence[str]) -> T:
    """Return a copy of a value with the fields of these names marked, as numbers from a place of the list on."""
    found = {name: tape.number(first + i, getattr(original, name)) for i, name in enumerate(names)}
    return changed(original, **found)


def changes(before: T, after: T, names: Iterable[str]) -> dict[str, Any]:
    """Return the fields of these names that have changed."""
    found = {name: getattr(after, name) for name in names}
    return {name: each for name, each in found.items() if text_of(each) != text_of(getattr(before, name))}


def _texts(one: Marked, other: object, sign: str, *, swapped: bool) -> tuple[Any, Any, str]:
    value = other.value if isinstance(other, Marked) else other
    if swapped:
        return value, one.value, f"{text_of(other)} {sign} {one.text}"
    return one.value, value, f"{one.text} {sign} {text_of(other)}"


def _work_out(sign: str) -> Any:
    return eval(f"lambda a, b: a {sign} b")  # noqa: S307  # the signs below


def _computed(sign: str, *, swapped: bool = False) -> Any:
    compute = _work_out(sign)

    def method(self: Marked, other: Marked | float) -> Marked:
        left, right, text = _texts(self, other, sign, swapped=swapped)
        return self.tape.compute(compute(left, right), text)

    return method


def _compared(sign: str) -> Any:
    compare = _work_out(sign)

    def method(self: Marked, other: Marked | float) -> bool:
        left, right, text = _texts(self, other, sign, swapped=False)
        found = compare(left, right)
        self.tape.take_note(text, found)
        return found

    return method


class Marked:
    """A number, its name in the recorded lines, and their tape."""

    __slots__ = ("tape", "text", "value")

    __add__, __radd__ = _computed("+"), _computed("+", swapped=True)
    __sub__, __rsub__ = _computed("-"), _computed("-", swapped=True)
    __mul__, __rmul__ = _computed("*"), _computed("*", swapped=True)
    __truediv__, __rtruediv__ = _computed("/"), _computed("/", swapped=True)
    __pow__, __rpow__ = _computed("**"), _computed("**", swapped=True)
    __floordiv__, __mod__ = _computed("//"), _computed("%")
    __lt__, __le__, __gt__, __ge__ = (_compared(sign) for sign in ("<", "<=", ">", ">="))
    __eq__, __ne__ = _compared("=="), _compared("!=")
    __hash__ = None  # type: ignore[assignment]  # a look-up in a table would be a question, too

    def __init__(self, value: float, text: str, tape: Tape) -> None:
        self.value = value
        self.text = text
        self.tape = tape

    def __bool__(self) -> bool:
        return self != 0.0

    def __floor__(self) -> Marked:
        return self.tape.compute(math.floor(self.value), f"floor({self.text})")

    def __format__(self, how: str) -> str:
        return format(self.value, how)  # for the texts of errors


#: A workunit's times, in a list: of the look at it, of the next look (infinity = none), of its making, and ...
NOW, CHECK, MADE, FIRST = range(4)
#: ... of each result, from ``FIRST + OF_RESULT * place`` on, in the order of these fields.
_RESULT_TIMES = ("create_time", "sent_time", "report_deadline", "received_time")
_, SENT, DEADLINE, RECEIVED = range(4)
OF_RESULT = len(_RESULT_TIMES)
_WORKUNIT_TIMES = {"transition_time": CHECK, "create_time": MADE}
#: Stands that are remembered at most; a few hundred are enough unless results go astray in very many ways.
MOST_STANDS = 20_000

Event = Literal["made", "not needed", "timed out", "valid", "invalid", "canonical"]
Fate = Literal["failed", "valid", "invalid", "open"]


class _Hidden:
    """A value that no rule of the life cycle uses."""

    def __eq__(self, other: object) -> bool:
        if other is None or other is self:
            return other is self
        raise TypeError("a rule of the life cycle looks at what is not known here")

    def __hash__(self) -> int:
        return 0


_HIDDEN: Any = _Hidden()  # Any: stands for values of several types


@dataclass(slots=True, eq=False)
class Stand:
    """The state of a workunit; its results have the numbers of their places."""

    view: WorkunitView
    wrong: frozenset[int]  #: places of results that are wrong
    over: bool  #: everything is assimilated, and nothing more is expected of its results
    failed: bool  #: given up
    fates: tuple[Fate, ...]  #: what became of its results, by place
    sent: dict[int, Stand] = field(default_factory=dict[int, "Stand"])
    reported: dict[tuple[object, ...], Stand] = field(default_factory=dict[tuple[object, ...], "Stand"])
    looks: Ways[Look] = field(default_factory=Ways["Look"])


@dataclass(slots=True, eq=False)
class Look:
    """The effect of processing a workunit."""

    after: Stand
    new_times: int  #: how many are added for new results
    places: tuple[int, ...]  #: where times change
    events: tuple[tuple[Event, tuple[int, ...]], ...]  #: what happens to results, in order


class WorkunitPaths:
    """All states that workunits of a project have reached."""

    def __init__(self, timing: LifecycleTiming | None = None) -> None:
        self._timing = timing or LifecycleTiming()
        self._stands: dict[tuple[WorkunitView, frozenset[int]], Stand] = {}

    def first(self, workunit: Workunit) -> Stand:
        """Return the state of a new workunit, without results."""
        return self.at(WorkunitView(workunit=workunit), frozenset())

    def sent(self, stand: Stand, place: int) -> Stand:
        """Return the state after a result was sent to a host."""
        after = stand.sent.get(place)
        if after is None:
            row = changed(
                advance(stand.view.results[place], Cause.SENT),
                host_id=_HIDDEN,
                user_id=_HIDDEN,
                app_version_id=_HIDDEN,
                peak_flops=_HIDDEN,
                sent_time=0.0,
                report_deadline=0.0,
            )
            after = stand.sent[place] = self._with_result(stand, place, row, stand.wrong)
        return after

    def reported(self, stand: Stand, place: int, report: AcceptedReport, *, wrong: bool) -> Stand:
        """Return the state after a report was accepted; ``wrong`` results agree with no other one."""
        key = (
            place, report.outcome, report.client_state, report.validate_state, report.exit_status, wrong,
        )  # fmt: skip
        after = stand.reported.get(key)
        if after is None:
            success = report.outcome is Outcome.SUCCESS
            cause = Cause.REPORTED_SUCCESS if success else Cause.REPORTED_FAILURE
            row = changed(
                advance(stand.view.results[place], cause),
                client_state=report.client_state,
                validate_state=report.validate_state,
                exit_status=report.exit_status,
                elapsed_time=_HIDDEN,
                received_time=0.0,
            )
            all_wrong = stand.wrong | {place} if wrong else stand.wrong
            after = stand.reported[key] = self._with_result(stand, place, row, all_wrong)
        return after

    def look(self, stand: Stand, times: list[float]) -> Look:
        """Return what transitioner, validator and assimilator do at ``times[NOW]``, until nothing is left to do.

        Changes the times as they do.
        """
        found = stand.looks.find(times)
        if found is None:
            self._ask(stand, times)
            found = stand.looks.find(times)
        if found is None:
            raise SimulationFault(
                "a rule of the life cycle gives other answers when it is asked again; please report this"
            )
        look, changes = found
        times += [0.0] * look.new_times
        for place, time in zip(look.places, changes, strict=True):
            times[place] = time
        return look

    def _with_result(self, stand: Stand, place: int, row: Result, wrong: frozenset[int]) -> Stand:
        """Return the state with another row of a result; an active workunit always has a next check."""
        view = stand.view
        results = (*view.results[:place], row, *view.results[place + 1 :])
        return self.at(
            changed(view, workunit=changed(view.workunit, transition_time=0.0), results=results), wrong
        )

    def at(self, view: WorkunitView, wrong: frozenset[int]) -> Stand:
        """Return the state of a workunit with these results, some of which are wrong."""
        bare = _with_times(view, lambda _place, _time: 0.0)
        stand = self._stands.get((bare, wrong))
        if stand is None:
            if len(self._stands) >= MOST_STANDS:
                self._stands.clear()  # workunits keep those where they are
            workunit = bare.workunit
            done = workunit.assimilate_state is AssimilateState.DONE
            stand = self._stands[bare, wrong] = Stand(
                view=bare,
                wrong=wrong,
                over=done and all(is_over(row) for row in bare.results),
                failed=bool(workunit.error_mask),
                fates=tuple(_fate(row) for row in bare.results),
            )
        return stand

    def _ask(self, stand: Stand, times: list[float]) -> None:
        """Run the rules, and store their answers."""
        tape = Tape()

        def marked(place: int, _time: float) -> float:
            return tape.number(place, times[place])

        visit = PathVisit(_with_times(stand.view, marked), stand.wrong, marked(NOW, 0.0), self._timing)
        visit.work()
        found: dict[int, float] = {}

        def note(place: int, time: float) -> float:
            if text_of(time) != f"t[{place}]":
                found[place] = time
            return time

        view = _with_times(visit.view, note)
        if view.workunit.transition_time is None:
            found[CHECK] = math.inf
        look = Look(
            after=self.at(view, stand.wrong),
            new_times=OF_RESULT * (len(view.results) - len(stand.view.results)),
            places=tuple(found),
            events=tuple(visit.events),
        )
        stand.looks.add(tape.way(list(found.values())), look)


class PathVisit:
    """One pass of all daemons over a workunit."""

    def __init__(
        self, view: WorkunitView, wrong: frozenset[int], now: float, timing: LifecycleTiming
    ) -> None:
        self.view = view
        self.events: list[tuple[Event, tuple[int, ...]]] = []
        self._wrong = wrong
        self._now = now
        self._timing = timing

    def work(self) -> None:
        """Continue until nothing is left to do; a transition is a fixed point, so the next one would have no effect."""
        for _ in range(100):
            transition = next_transition(self.view, timing=self._timing, now=self._now)
            late = [each.result_id for each in transition.effects if isinstance(each, TimeOutResult)]
            self._note("timed out", late)
            ids = map(ResultId, count(len(self.view.results)))
            self._go_to(apply_transition(self.view, transition, self._now, ids))
            workunit = self.view.workunit
            if workunit.need_validate:
                self._validate()
            elif workunit.assimilate_state is AssimilateState.READY:
                self.view = changed(self.view, workunit=advance_assimilation(workunit, Cause.ASSIMILATED))
            else:
                break

    def _validate(self) -> None:
        ids = results_to_check(self.view)
        checked = tuple(OutputCheck(result_id=r, usable=True) for r in ids)
        pairs = pairs_to_compare(self.view, ids)
        agree = frozenset(p for p in pairs if self._wrong.isdisjoint(p))
        decision = judge(self.view, ValidationReport(checked=checked, matches=agree), now=self._now)
        self._note("valid", decision.newly_valid)
        self._note("invalid", (*decision.newly_invalid, *decision.unusable))
        self._go_to(apply_decision(self.view, decision, self._now))
        if decision.newly_canonical and decision.canonical_id is not None:
            self._note("canonical", (decision.canonical_id,))

    def _go_to(self, view: WorkunitView) -> None:
        """Take the next view; return which results were created, and which must no longer be sent."""
        before = self.view.results
        self._note("made", [row.id for row in view.results[len(before) :] if is_unsent(row)])
        gone = [
            was.id for was, row in zip(before, view.results, strict=False) if is_unsent(was) > is_unsent(row)
        ]
        self._note("not needed", gone)
        self.view = view

    def _note(self, event: Event, results: Sequence[ResultId]) -> None:
        if results:
            self.events.append((event, tuple(sorted(results))))


def _with_times(view: WorkunitView, change: Callable[[int, float], float]) -> WorkunitView:
    """Return a view with each of its times changed, by its place in the list of times; missing ones stay missing."""

    def at(places: Mapping[str, int], row: Workunit | Result) -> dict[str, float]:
        found = {name: getattr(row, name) for name in places}
        return {name: change(places[name], time) for name, time in found.items() if time is not None}

    workunit = changed(view.workunit, **at(_WORKUNIT_TIMES, view.workunit))
    results = [
        changed(row, **at({name: first + i for i, name in enumerate(_RESULT_TIMES)}, row))
        for row, first in zip(view.results, count(FIRST, OF_RESULT), strict=False)
    ]
    return changed(view, workunit=workunit, results=tuple(results))


def _fate(row: Result) -> Fate:
    if row.outcome is not Outcome.SUCCESS:
        return "failed"
    if row.validate_state is ValidateState.VALID:
        return "valid"
    return "invalid" if row.validate_state is ValidateState.INVALID else "open"
