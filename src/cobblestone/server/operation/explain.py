"""Why something happens or does not: a host's tasks, a workunit's next step, what happened to a result.

Nothing is guessed from logs: the rules themselves are asked again, with what is stored now, and nothing is changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice

from cobblestone.api_schema.operation import Explanation, ResultExplanation, WorkunitExplanation
from cobblestone.domain.errors import NotFound
from cobblestone.domain.hosts import Host
from cobblestone.domain.reasons import Reason, exit_advice, phrase, reason
from cobblestone.domain.values import HostId
from cobblestone.domain.work import Outcome, Result, ServerState, ValidateState, Workunit, WorkunitError
from cobblestone.policy.dispatch.request import ANONYMOUS_PLATFORM
from cobblestone.policy.dispatch.status import HostStatus, Shortage, for_submitter, host_status, shortage
from cobblestone.policy.lifecycle.states import WorkunitView
from cobblestone.policy.lifecycle.transition import next_transition
from cobblestone.server.core.context import ServerContext
from cobblestone.server.core.offer import Offer
from cobblestone.server.operation.reach import Survey, choose_for, request_of
from cobblestone.store.engine.database import Database
from cobblestone.store.people import hosts
from cobblestone.store.work import dispatch, lifecycle
from cobblestone.store.work import rows as work
from cobblestone.store.work.candidates import CandidateQueue, candidates_of_results

CANDIDATES = 5000  #: unsent results that are looked at
ERROR_LINES = 20  #: of a task's error output that are shown


@dataclass(frozen=True, slots=True, kw_only=True)
class HostExplanation:
    """What a host would get if it asked for work now, and why not more."""

    host: Host
    status: HostStatus
    in_progress: int
    would_get: str  #: name of a result; empty: nothing
    reasons: tuple[Reason, ...]  #: why nothing, or not more, most important first


def told(why: Reason) -> Explanation:
    """Return a reason in the form of the API."""
    return Explanation(code=why.code, text=why.text(), values=dict(why.values))


def explain_host(db: Database, offer: Offer, host_id: int, *, now: float) -> HostExplanation:
    """Ask the dispatch rule on behalf of a host, as its client last described it.

    Raises:
        NotFound: there is no such host.
    """
    host = hosts.host_by_id(db, HostId(host_id))
    if host is None:
        raise NotFound(f"There is no host {host_id}.")
    request = request_of(db, offer, host)
    status = host_status(host, request.records.values(), offer.catalogue, limits=offer.limits, now=now)
    status = replace(status, problems=dispatch.with_bad_counted(db, host.id, status.problems))
    n = sum(request.in_progress.values())
    if not host.description.platforms:
        unseen = reason(
            "host_not_seen",
            "The computer has not asked for tasks yet. Its description comes with its first request.",
        )
        return HostExplanation(host=host, status=status, in_progress=n, would_get="", reasons=(unseen,))
    if host.description.platforms[0] == ANONYMOUS_PLATFORM:
        own = reason(
            "anonymous_platform",
            "The client brings its own applications (app_info.xml) and lists them only when it asks "
            "for work, so what it would get is not known here. Its event log says.",
        )
        return HostExplanation(host=host, status=status, in_progress=n, would_get="", reasons=(own,))
    queue = CandidateQueue()
    waiting = chain(queue.targeted(db, host, request.team_id), islice(queue.scan(db), CANDIDATES))
    decision = choose_for(db, offer, request, waiting, now=now)
    given = decision.assignments
    return HostExplanation(
        host=host,
        status=status,
        in_progress=n,
        would_get=given[0].candidate.result_name if given else "",
        reasons=() if given else dispatch.with_bad_counted(db, host.id, decision.refusals),
    )


def _handler_failed(db: Database, workunit: Workunit) -> Iterator[Reason]:
    """Return that a comparison, or the project's own function, fails on a workunit."""
    found = lifecycle.handler_failure(db, workunit.id)
    what = phrase("Its validation") if workunit.need_validate else phrase("Its assimilation")
    if found is not None and found.parked:
        yield reason(
            "parked",
            "{what} failed {count} {count:time|times}, so the job waits: {problem} After correcting it: "
            "cobblestone workunit retry {id}",
            what=what,
            count=found.n_failures,
            problem=found.problem,
            id=workunit.id,
        )
    elif found is not None:
        yield reason(
            "function_failed",
            "{what} failed {count} {count:time|times} and is tried again: {problem}",
            what=what,
            count=found.n_failures,
            problem=found.problem,
        )


def explain_workunit(
    ctx: ServerContext, db: Database, offer: Offer, workunit: str, *, now: float
) -> WorkunitExplanation:
    """Return what will happen to a workunit (id or name), and who could take its unsent results.

    Raises:
        NotFound: there is no such workunit.
    """
    found = work.workunit_by_name(db, workunit)
    views = lifecycle.views(db, [_number(workunit) if found is None else found.id])
    if not views:
        raise NotFound(f"There is no workunit {workunit}; finished ones are in the archive.")
    view = views[0]
    reasons = list(_state_of(view, now))
    failing = list(_handler_failed(db, view.workunit))
    if failing:  # "nothing is to be done" would not be true
        reasons = [*failing, *(each for each in reasons if each.code != "next_look")]
    unsent = [result for result in view.results if result.server_state is ServerState.UNSENT]
    if not unsent:
        return _of_workunit(view, reasons)
    (candidate,) = candidates_of_results(db, [unsent[0].id]).values()
    survey = Survey(db, offer, candidate, now=now)
    takers = list(survey.takers())
    reasons.append(
        reason(
            "takers",
            "{result} waits in the queue; {takers} of the {tried} {tried:computer|computers} that called in the last 7 days "
            "would take it now.",
            result=unsent[0].name,
            takers=survey.takers_now,
            tried=survey.tried,
        )
    )
    for count, refusal in sorted(survey.refusals.values(), key=lambda each: -each[0])[:5]:
        reasons.append(
            reason("not_taken", "{count} would not: {why}.", count=count, why=for_submitter(refusal))
        )
    missing = shortage(takers, needed=_answers_needed(view), limits=offer.limits)
    if missing is not None and view.workunit.rules.min_quorum > 1:
        reasons.append(_out_of_reach(missing, ctx.master_url))
    return _of_workunit(view, reasons, survey)


def _of_workunit(
    view: WorkunitView, reasons: Iterable[Reason], survey: Survey | None = None
) -> WorkunitExplanation:
    return WorkunitExplanation(
        id=view.workunit.id,
        name=view.workunit.name,
        takers=0 if survey is None else survey.takers_now,
        tried=0 if survey is None else survey.tried,
        reasons=[told(each) for each in reasons],
    )


def _answers_needed(view: WorkunitView) -> int:
    """Return how many more computers must answer for the workunit's quorum."""
    counted = [
        result
        for result in view.results
        if result.server_state is ServerState.IN_PROGRESS
        or (result.outcome is Outcome.SUCCESS and result.validate_state is not ValidateState.INVALID)
    ]
    return view.workunit.rules.min_quorum - len(counted)


def _out_of_reach(missing: Shortage, address: str) -> Reason:
    return reason(
        "quorum_out_of_reach",
        "It needs {needed} more {needed:answer|answers}, each from {whose}, and {found} of those available could give "
        "one. It waits until more join at {address}. Or cancel it and ask for fewer: cobblestone app "
        "update NAME --quorum N, then submit again.",
        needed=missing.needed,
        found=missing.found,
        whose=phrase("a different person") if missing.by_person else phrase("a different computer"),
        address=address,
    )


def _state_of(view: WorkunitView, now: float) -> Iterator[Reason]:
    """Yield the state of a workunit, and what the transitioner would do now."""
    workunit = view.workunit
    counts, quorum = Counter(_word(result) for result in view.results), workunit.rules.min_quorum
    summary = ", ".join(f"{count} {word}" for word, count in counts.items()) or "none yet"
    yield reason(
        "results",
        "Its results: {summary}. {rule}",
        summary=summary,
        rule=phrase("{quorum} must agree.", quorum=quorum)
        if quorum > 1
        else phrase("One good one is enough."),
    )
    failed = [result for result in view.results if result.outcome is Outcome.CLIENT_ERROR]
    if failed:
        last = max(failed, key=lambda result: result.id)
        yield reason(
            "last_failure",
            "The last one that failed, {result}: {why}",
            result=last.name,
            why=exit_advice(last.exit_status),
        )
    if workunit.canonical_result_id is not None:
        yield reason("answer_known", "The answer is known: result {id}.", id=workunit.canonical_result_id)
    if workunit.error_mask:
        names = (workunit.error_mask.name or "").replace("|", ", ").replace("_", " ").lower()
        yield reason("workunit_failed", "It has failed: {names}.", names=names)
    if workunit.hr_class and workunit.error_mask == WorkunitError.NONE:
        yield reason(
            "committed_class",
            "Its results must be computed on computers of class {hr_class}, as the first one was.",
            hr_class=workunit.hr_class,
        )
    if workunit.app_version_id is not None:
        yield reason(
            "committed_version", "Its results must all use app version {id}.", id=workunit.app_version_id
        )
    change = next_transition(view, now=now)
    yield from change.reasons
    if workunit.transition_time is not None and not change.effects:
        yield reason(
            "next_look",
            "Nothing to do now. It will be checked again in {hours} h, or when a result comes in.",
            hours=round(max(workunit.transition_time - now, 0.0) / 3600, 1),
        )


_OUTCOMES = {
    Outcome.CLIENT_ERROR: "failed on the computer",
    Outcome.NO_REPLY: "timed out",
    Outcome.DIDNT_NEED: "not needed",
    Outcome.VALIDATE_ERROR: "unusable",
    Outcome.CLIENT_DETACHED: "lost by the computer",
    Outcome.COULDNT_SEND: "not sendable",
}
_VALIDATE_STATES = {
    ValidateState.VALID: "valid",
    ValidateState.INVALID: "invalid",
    ValidateState.INCONCLUSIVE: "not agreed upon yet",
    ValidateState.TOO_LATE: "too late",
    ValidateState.NO_CHECK: "not checked",
}


def _word(result: Result) -> str:
    if result.server_state is ServerState.UNSENT:
        return "waiting to be sent"
    if result.server_state is ServerState.IN_PROGRESS:
        return "on a computer"
    if result.outcome is Outcome.SUCCESS:
        return _VALIDATE_STATES.get(result.validate_state, "waiting to be compared")
    return _OUTCOMES.get(result.outcome, "over")


def _number(text: str) -> int:
    """Return an id; 0, which no row has, for anything else."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else 0


def _fate_of(result: Result, now: float) -> Iterator[Reason]:
    """Yield where a result went, when it is due, and how it ended."""
    if result.host_id is not None and result.sent_time is not None:
        yield reason(
            "sent",
            "Host {host} of user {user} got it {hours} h ago, for app version {version}.",
            host=result.host_id,
            user=result.user_id or 0,
            hours=round((now - result.sent_time) / 3600, 1),
            version=result.app_version_id or 0,
        )
    if result.server_state is ServerState.IN_PROGRESS and result.report_deadline is not None:
        hours = round((result.report_deadline - now) / 3600, 1)
        if hours >= 0:
            yield reason(
                "deadline", "It is due in {hours} h; after that, another computer gets the work.", hours=hours
            )
        else:
            yield reason(
                "overdue", "It was due {hours} h ago; another computer will get the work soon.", hours=-hours
            )
    if result.outcome is Outcome.CLIENT_ERROR:
        yield exit_advice(result.exit_status)
    if result.granted_credit:
        yield reason("credit", "It earned {credit} credits.", credit=round(result.granted_credit, 3))


def explain_result(
    ctx: ServerContext, db: Database, offer: Offer, wanted: str, *, now: float
) -> ResultExplanation:
    """Return what happened to a result (id or name).

    Raises:
        NotFound: there is no such result.
    """
    result = work.results_by_name(db, [wanted]).get(wanted)
    if result is None:
        result = work.result_by_id(db, _number(wanted))
    if result is None:
        raise NotFound(f"There is no result {wanted}; those of finished workunits are in the archive.")
    state = reason("state", "It is {word}.", word=_word(result))
    of_workunit: list[Explanation] = []
    if result.server_state is ServerState.UNSENT:
        about = explain_workunit(ctx, db, offer, str(result.workunit_id), now=now)
        of_workunit = [each for each in about.reasons if each.code in ("takers", "not_taken")]
    text = work.result_text(db, result.id)
    noted = text.report.get("reasons", [])
    texts = [str(each.get("text", "")) for each in noted if each.get("code") != "exit_status"]  # said above
    return ResultExplanation(
        id=result.id,
        name=result.name,
        workunit=result.workunit_id,
        reasons=[told(state), *of_workunit, *map(told, _fate_of(result, now))],
        told=[each for each in texts if each],
        error_output=text.stderr.rstrip().splitlines()[-ERROR_LINES:],
    )
