"""The validator's rules: which results agree, which one is canonical, and what follows for the workunit.

A validator process only delivers facts (`ValidationReport`: which outputs are usable, which pairs agree);
`judge` decides everything.  It fits any view that is newer than the report: results that came meanwhile
wait for the next look.

Source: BOINC's ``validator.cpp`` and ``validate_util2.cpp`` (facts only).  A result is canonical when at
least ``min_quorum // 2 + 1`` results, itself included, match it: quorum 2 needs 2, quorum 3 needs 2, quorum
4 needs 3.  Matching is not assumed to be transitive: only a match with the canonical result counts.

Known differences, each because the original loses work or repeats it:

* Unusable results do not count when the target is raised; the original makes one result too many.
* A result that could not be looked at for a passing reason becomes INIT again, and the target is not raised
  because of it; the original marks it INCONCLUSIVE and may never look again.
* If the canonical outputs cannot be read any more, later results are TOO_LATE.
* So is a result whose comparison with the canonical one failed: that says nothing about it.
* Where credit pays counts of instructions, results with equal outputs agree only if their counts do (`with_counts_compared`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain, combinations

from cobblestone.domain.reasons import Reason, Value, phrase, reason
from cobblestone.domain.values import AppVersionId, ResultId, changed, value
from cobblestone.domain.work import AssimilateState, Result, ValidateState, WorkunitError
from cobblestone.policy.lifecycle import states
from cobblestone.policy.lifecycle.application import apply_effects

#: Seconds until outputs that could not be looked at are looked at again.
RETRY_SECONDS = 6 * 3600.0

#: So many results beyond the quorum end all doubts: a project may have no other computers.
ENOUGH_FURTHER = 2

#: A count may be so many times what is usual for a job of its estimate before a third computer may have to confirm it.
USUAL_FACTOR = 1.5

Pair = tuple[ResultId, ResultId]
Matches = Callable[[ResultId, ResultId], bool]

_OPEN = (ValidateState.INIT, ValidateState.INCONCLUSIVE)


@value(kw_only=True)
class OutputCheck:
    """The validator's findings about one result's outputs."""

    result_id: ResultId
    usable: bool
    problem: Reason | None = None  #: why it is not usable
    transient: bool = False  #: not usable *now* (disk away, check ran out of time): look again later
    #: what the project's own function says that it is worth, if there is one
    assigned_credit: float | None = None


@value(kw_only=True)
class ValidationReport:
    """The facts that a validator process delivers about one workunit."""

    checked: tuple[OutputCheck, ...]
    matches: frozenset[Pair] = frozenset()  #: compared pairs that agree, in either order
    #: others: where they differ
    differences: Mapping[Pair, Reason] = field(default_factory=dict[Pair, Reason])
    #: the rest, which could not be compared: why
    undecided: Mapping[Pair, Reason] = field(default_factory=dict[Pair, Reason])


@value(kw_only=True)
class ValidationDecision:
    """The consequences of a report: effects to apply in one transaction, and who is to be credited."""

    effects: tuple[states.ValidationEffect, ...]
    next_check: float | None  #: new ``transition_time`` (Unix seconds); None = never, the assimilator sets it
    canonical_id: ResultId | None = None  #: the canonical result, newly chosen or already there
    newly_canonical: bool = False
    newly_valid: tuple[ResultId, ...] = ()  #: credit is due
    newly_invalid: tuple[ResultId, ...] = ()  #: disagree with the canonical result
    unusable: tuple[ResultId, ...] = ()  #: outputs missing or malformed
    undecided: tuple[ResultId, ...] = ()  #: cannot be compared with the canonical result
    wrong_together: frozenset[ResultId] = frozenset()  #: of these, those that agree with another one of them
    audit: bool | None = None  #: whether the canonical result was found again; None: no audit ends with this
    reasons: tuple[Reason, ...] = ()


@value(kw_only=True)
class ResultVerdict:
    """The verdict on a set of results: the canonical one, if any, and the validate state of each."""

    canonical_id: ResultId | None
    states: Mapping[ResultId, ValidateState]


def choose_canonical(results: Sequence[ResultId], *, matches: Matches, min_quorum: int) -> ResultVerdict:
    """Choose the canonical result among results with usable outputs, in the order given.

    The first result that at least ``min_quorum // 2 + 1`` results match, itself included, is canonical;
    those that match it are VALID, the others INVALID.  With fewer than ``min_quorum`` results, or without
    such a result, there is no canonical one and all are INCONCLUSIVE.
    """
    if len(results) >= min_quorum:
        for candidate in results:
            matching = {other for other in results if other == candidate or matches(candidate, other)}
            if len(matching) >= min_quorum // 2 + 1:
                found = {r: ValidateState.VALID if r in matching else ValidateState.INVALID for r in results}
                return ResultVerdict(canonical_id=candidate, states=found)
    return ResultVerdict(canonical_id=None, states=dict.fromkeys(results, ValidateState.INCONCLUSIVE))


def check_straggler(result: ResultId, canonical: ResultId, *, matches: Matches) -> ValidateState:
    """Judge a result that came after the canonical one: VALID if it matches that one, else INVALID."""
    return ValidateState.VALID if matches(canonical, result) else ValidateState.INVALID


def results_to_check(view: states.WorkunitView) -> tuple[ResultId, ...]:
    """Results whose outputs a validator must read for this workunit; empty when there is nothing to do.

    Without a canonical result: all that may become it, if they are enough for a quorum.  With one: that one
    (first) and the results that came since.
    """
    canonical_id = view.workunit.canonical_result_id
    viable = tuple(result.id for result in view.results if _is_viable(result))
    if view.workunit.error_mask:
        return ()
    if canonical_id is not None:
        return (canonical_id, *viable) if viable else ()
    return viable if len(viable) >= view.workunit.rules.min_quorum else ()


def pairs_to_compare(view: states.WorkunitView, checked: tuple[ResultId, ...]) -> tuple[Pair, ...]:
    """Pairs of results whose outputs a validator must compare, of those to look at, if both are usable."""
    if checked and view.workunit.canonical_result_id is not None:
        return tuple((checked[0], straggler) for straggler in checked[1:])
    return tuple(combinations(checked, 2))


def needs_more(count: float, usual: float, draw: float) -> bool:
    """Return whether equal counts need a further one: drawn with probability 1 - `USUAL_FACTOR` x ``usual`` / ``count``.

    ``draw`` is a random number from 0 to 1; ``usual`` is 0 while it is not known.  Whatever count two accomplices agree on, it
    brings `USUAL_FACTOR` x ``usual`` at most on average, if the next computers are not theirs.
    """
    return (1.0 - draw) * count > USUAL_FACTOR * usual > 0.0


def with_counts_compared(
    view: states.WorkunitView,
    report: ValidationReport,
    programs: Mapping[AppVersionId, str],
    doubtful: Set[ResultId] = frozenset(),
    *,
    usual: float = 0.0,
    draws: Sequence[float] = (),
) -> ValidationReport:
    """Return the report, in which pairs with equal outputs and unequal counts of instructions do not agree.

    ``programs`` names what computes by app version; one name stands for one count, and an empty name for a program whose
    instructions are not counted.  Versions that are not there, the volunteer's own, have to count like all others.

    A result without a count is not compared, nor is one that comes after the canonical result, whose credit it gets.  Counts
    of two ``doubtful`` results do not bear each other out while others may.  Once there are more results than the quorum and
    no two counts are equal, the outputs decide alone: instructions of this program are not repeatable, and the job must end.

    ``usual`` and ``draws``, of the workunit, for two results that agree, for three and so on: see `needs_more`.
    """
    if not any(programs.values()) or view.workunit.canonical_result_id is not None:
        return report
    counts = {
        result.id: (count, programs.get(result.app_version_id or AppVersionId(0)))
        for result in view.results
        if (count := max(result.fpops_counted, result.intops_counted)) > 0
    }
    unequal: dict[Pair, Reason] = {}
    doubted: dict[Pair, Reason] = {}
    witnesses: dict[float, set[ResultId]] = {}
    for one, other in report.matches:
        (n, program), (m, partner) = counts.get(one, (0.0, "")), counts.get(other, (0.0, ""))
        if "" in (program, partner) or not (program is None or partner is None or program == partner):
            continue
        if n != m:
            unequal[one, other] = phrase(
                "the outputs are equal, but one counted {one} instructions and the other {other}",
                one=round(n),
                other=round(m),
            )
        elif one in doubtful and other in doubtful:
            doubted[one, other] = phrase(
                "neither computer has shown itself reliable: another one has to confirm the count"
            )
        else:
            witnesses.setdefault(n, set()).update((one, other))
    further = sum(each.usable for each in report.checked) - view.workunit.rules.min_quorum
    equal = report.matches.difference(unequal)
    if further > 0 and not equal:
        return report
    if further >= ENOUGH_FURTHER and equal == doubted.keys():
        doubted = {}
    refused = {**unequal, **doubted}
    for count, agreeing in witnesses.items() if further < 2 * ENOUGH_FURTHER else ():
        if any(needs_more(count, usual, draw) for draw in draws[len(agreeing) - 2 : len(agreeing) - 1]):
            why = phrase("so high a count has to be confirmed by another computer")
            refused |= {pair: why for pair in equal if agreeing.issuperset(pair)}
    return changed(report, matches=equal.difference(refused), differences={**report.differences, **refused})


def judge(view: states.WorkunitView, report: ValidationReport, *, now: float) -> ValidationDecision:
    """Decide what follows from a validator's report, at ``now`` (Unix seconds).

    Facts about results that are not open any more are ignored; a workunit that failed meanwhile only loses
    its ``need_validate``.
    """
    builder = _DecisionBuilder(view=view, report=report)
    if view.workunit.need_validate:
        builder.effects.append(states.ClearNeedValidate())
    if view.workunit.error_mask:
        return builder.decision(next_check=view.workunit.transition_time)
    if view.workunit.canonical_result_id is not None:
        return _judge_stragglers(builder, view.workunit.canonical_result_id, now)
    return _judge_set(builder, now)


def wait_for_third(
    view: states.WorkunitView, decision: ValidationDecision, *, now: float
) -> ValidationDecision:
    """Return the decision for a workunit whose results agree, but whose credit wants one more of them."""
    judged = {*decision.newly_valid, *decision.newly_invalid}
    keeps = states.ClearNeedValidate | states.MarkUnusable | states.PostponeValidation
    kept = [each for each in decision.effects if isinstance(each, keeps)]
    waiting = [states.MarkInconclusive(result_id=each.id) for each in view.results if each.id in judged]
    checks = [
        states.NoteCheck(result_id=each.id, checks=each.checks + 1) for each in view.results if each.checks
    ]
    more = states.RaiseQuorum(min_quorum=view.workunit.rules.min_quorum + 1)
    why = reason("third_opinion", "the results agree, and one more computer says how long the job is")
    return ValidationDecision(
        effects=(*kept, *waiting, *checks, more), next_check=now, unusable=decision.unusable, reasons=(why,)
    )


def apply_decision(
    view: states.WorkunitView, decision: ValidationDecision, now: float
) -> states.WorkunitView:
    """Apply a decision to the view it was made for: the reference for every store.

    Raises:
        IllegalTransition: the decision does not fit the view.

    """
    return apply_effects(view, decision.effects, decision.next_check, now, iter(()))


@dataclass(slots=True)
class _DecisionBuilder:
    """A decision in the making."""

    view: states.WorkunitView
    report: ValidationReport
    effects: list[states.ValidationEffect] = field(default_factory=list[states.ValidationEffect])
    reasons: list[Reason] = field(default_factory=list[Reason])
    canonical_id: ResultId | None = None
    newly_canonical: bool = False
    valid: list[ResultId] = field(default_factory=list[ResultId])
    invalid: list[ResultId] = field(default_factory=list[ResultId])
    unusable: list[ResultId] = field(default_factory=list[ResultId])
    undecided: list[ResultId] = field(default_factory=list[ResultId])
    postponed: list[ResultId] = field(default_factory=list[ResultId])
    audit: bool | None = None

    def matches(self, one: ResultId, other: ResultId) -> bool:
        return (one, other) in self.report.matches or (other, one) in self.report.matches

    def difference(self, one: ResultId, other: ResultId) -> Reason:
        return _of_pair(self.report.differences, one, other) or phrase("they differ")

    def add(self, effect: states.ValidationEffect, code: str, sentence: str, **values: Value) -> None:
        self.effects.append(effect)
        self.reasons.append(reason(code, sentence, **values))

    def exclude(self, found: OutputCheck) -> None:
        """Close or postpone a result whose outputs cannot be compared."""
        name = self.name(found.result_id)
        problem = found.problem or _UNUSABLE
        if found.transient:
            self.postponed.append(found.result_id)
            effect = states.PostponeValidation(result_id=found.result_id)
            self.add(
                effect, "postponed", "{result} is checked later: {problem}", result=name, problem=problem
            )
        else:
            self.unusable.append(found.result_id)
            effect = states.MarkUnusable(result_id=found.result_id)
            self.add(effect, "unusable", "{result} is not usable: {problem}", result=name, problem=problem)

    def settle(self, result_id: ResultId, state: ValidateState, canonical_id: ResultId) -> None:
        """Mark a result as agreeing with the canonical one or not, or as undecidable."""
        name, canonical = self.name(result_id), self.name(canonical_id)
        undecided = _of_pair(self.report.undecided, canonical_id, result_id)
        if undecided is not None:
            self.leave(result_id, undecided)
        elif state is ValidateState.VALID:
            self.valid.append(result_id)
            self.add(
                states.MarkValid(result_id=result_id),
                "valid",
                "{result} agrees with the canonical result {canonical}",
                result=name,
                canonical=canonical,
            )
        else:
            self.invalid.append(result_id)
            self.add(
                states.MarkInvalid(result_id=result_id),
                "invalid",
                "{result} disagrees with the canonical result {canonical}: {difference}",
                result=name,
                canonical=canonical,
                difference=self.difference(canonical_id, result_id),
            )

    def leave(self, result_id: ResultId, problem: Reason) -> None:
        """Close a result that cannot be compared with the canonical one, which is not its host's fault."""
        self.undecided.append(result_id)
        self.add(
            states.MarkTooLate(result_id=result_id),
            "too_late",
            "{result} cannot be compared with the canonical result: {problem}",
            result=self.name(result_id),
            problem=problem,
        )

    def name(self, result_id: ResultId) -> str:
        for result in self.view.results:
            if result.id == result_id:
                return result.name
        return str(result_id)

    def decision(self, *, next_check: float | None) -> ValidationDecision:
        return ValidationDecision(
            effects=tuple(self.effects),
            next_check=next_check,
            canonical_id=self.canonical_id,
            newly_canonical=self.newly_canonical,
            newly_valid=tuple(self.valid),
            newly_invalid=tuple(self.invalid),
            unusable=tuple(self.unusable),
            undecided=tuple(self.undecided),
            wrong_together=frozenset(
                chain.from_iterable(filter({*self.invalid}.issuperset, self.report.matches))
            ),
            audit=self.audit,
            reasons=tuple(self.reasons),
        )


_UNUSABLE = phrase("its outputs cannot be used")
_AUDIT = phrase("they differ, and that one was computed again because its computer had failed a check")


def _of_pair(reasons: Mapping[Pair, Reason], one: ResultId, other: ResultId) -> Reason | None:
    return reasons.get((one, other)) or reasons.get((other, one))


def _is_viable(result: Result) -> bool:
    """Return whether the result may still become canonical or valid."""
    return states.is_success(result) and result.validate_state in _OPEN


def _judge_set(builder: _DecisionBuilder, now: float) -> ValidationDecision:
    """Look for a canonical result."""
    view = builder.view
    rules = view.workunit.rules
    found = {each.result_id: each for each in builder.report.checked}
    viable = [result for result in view.results if _is_viable(result)]
    unseen = [result for result in viable if result.id not in found]
    usable: list[ResultId] = []
    for result in viable:
        if result.id in found:
            if found[result.id].usable:
                usable.append(result.id)
            else:
                builder.exclude(found[result.id])
    verdict = choose_canonical(usable, matches=builder.matches, min_quorum=rules.min_quorum)
    if verdict.canonical_id is not None:
        _set_canonical(builder, verdict, verdict.canonical_id)
        return builder.decision(next_check=now if unseen or builder.postponed else None)
    # the facts are incomplete: have the validator look at all of them, which new results make it do
    if unseen:
        return builder.decision(next_check=now)
    for result in viable:
        if result.id in usable and result.validate_state is not ValidateState.INCONCLUSIVE:
            effect = states.MarkInconclusive(result_id=result.id)
            builder.add(effect, "inconclusive", "{result} has no quorum yet", result=result.name)
    if builder.postponed:
        return builder.decision(next_check=now if builder.unusable else _retry(view, now))
    if _want_more(builder, len(usable)) or builder.unusable:
        return builder.decision(next_check=now)
    return builder.decision(next_check=_keep(view, now))


def _set_canonical(builder: _DecisionBuilder, verdict: ResultVerdict, canonical_id: ResultId) -> None:
    """Set the canonical result: mark all results, hand the answer over, drop what was not sent."""
    builder.canonical_id, builder.newly_canonical = canonical_id, True
    for result_id, state in verdict.states.items():
        builder.settle(result_id, state, canonical_id)
    builder.add(
        states.SetCanonical(result_id=canonical_id),
        "canonical",
        "{result} is the canonical result: {matching} of {checked} {matching:agrees|agree}",
        result=builder.name(canonical_id),
        matching=len(builder.valid),
        checked=len(verdict.states),
    )
    if builder.view.workunit.assimilate_state is AssimilateState.INIT:
        builder.add(states.ReadyToAssimilate(), "answer_known", "the answer is known")
    for result in builder.view.results:
        if states.is_unsent(result):
            effect = states.DropResult(result_id=result.id)
            builder.add(effect, "canonical_known", "{result} is no longer needed", result=result.name)


def _want_more(builder: _DecisionBuilder, n_usable: int) -> bool:
    """Without a quorum: give up, or raise the target; says whether one of these happened."""
    rules = builder.view.workunit.rules
    if n_usable > rules.max_success_results:
        builder.add(
            states.FailWorkunit(error_mask=WorkunitError.TOO_MANY_SUCCESS_RESULTS),
            "too_many_successes",
            "{n} {n:result|results} came in without a quorum; {max_success_results} {max_success_results:is|are} allowed",
            n=n_usable,
            max_success_results=rules.max_success_results,
        )
        return True
    if n_usable >= rules.target_nresults:
        builder.add(
            states.RaiseTarget(target_nresults=n_usable + 1),
            "target_raised",
            "{n} {n:result is|results are} not enough for a quorum: one more is requested",
            n=n_usable,
        )
        return True
    return False


def _keep(view: states.WorkunitView, now: float) -> float:
    """Time of the next check as it stands; an unfinished workunit always has one."""
    return now if view.workunit.transition_time is None else view.workunit.transition_time


def _retry(view: states.WorkunitView, now: float) -> float:
    """Time of the next attempt; an earlier check that is already planned stays."""
    planned = view.workunit.transition_time
    return now + RETRY_SECONDS if planned is None else min(planned, now + RETRY_SECONDS)


def _judge_stragglers(builder: _DecisionBuilder, canonical_id: ResultId, now: float) -> ValidationDecision:
    """Compare results that came after the canonical one was chosen with that one."""
    builder.canonical_id = canonical_id
    found = {each.result_id: each for each in builder.report.checked}
    canonical = found.get(canonical_id)
    stragglers = [result for result in builder.view.results if _is_viable(result)]
    for result in stragglers:
        if result.id not in found:
            continue
        if not found[result.id].usable:
            builder.exclude(found[result.id])
        elif canonical is None:
            continue  # the report is older than the choice: have the validator look again
        elif canonical.usable:
            state = check_straggler(result.id, canonical_id, matches=builder.matches)
            if builder.view.audited and builder.audit is not False:
                builder.audit = state is ValidateState.VALID
            if builder.view.audited and state is not ValidateState.VALID:
                # Either may be wrong: the one under suspicion answers for it.
                builder.leave(result.id, _AUDIT)
            else:
                builder.settle(result.id, state, canonical_id)
        elif canonical.transient:
            builder.exclude(
                OutputCheck(result_id=result.id, usable=False, problem=canonical.problem, transient=True)
            )
        else:
            builder.leave(result.id, canonical.problem or _UNUSABLE)
    only_postponed = bool(builder.postponed) and len(builder.postponed) == len(stragglers)
    return builder.decision(next_check=_retry(builder.view, now) if only_postponed else now)
