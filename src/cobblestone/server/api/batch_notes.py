"""Why the answers of a batch may not come, in sentences for whoever submitted it."""

from __future__ import annotations

from cobblestone.domain.apps import App
from cobblestone.domain.exit_statuses import exit_advice, meaning_of
from cobblestone.domain.ids import ResultId
from cobblestone.policy.dispatch.reach import Shortage
from cobblestone.server.core.offer import Offer
from cobblestone.server.operation.reach import batch_shortage, stuck_jobs
from cobblestone.store.catalog import apps
from cobblestone.store.engine.database import Database
from cobblestone.store.work import job_results
from cobblestone.store.work.batches import Batch
from cobblestone.store.work.rows import result_text


def batch_notes(
    db: Database, batch: Batch, app: App, offer: Offer | None, *, address: str, now: float
) -> list[str]:
    """Say why nothing may come of a batch; without an offer, volunteers are not asked about, and ended jobs neither."""
    if offer is not None and batch.finished:
        return _given_up(db, batch)
    if batch.finished:
        return []
    unsendable = _unsendable(db, app)
    if unsendable:
        return [unsendable, *_failures(db, batch)]
    if offer is None:
        return _failures(db, batch)
    return [
        *_out_of_reach(db, batch, app, offer, address=address, now=now),
        *_failures(db, batch),
        *_given_up(db, batch),
        *_stuck(db, batch, offer, address=address, now=now),
    ]


def _unsendable(db: Database, app: App) -> str:
    versions = apps.list_versions(db, app.id)
    if app.deprecated:
        return f"The app {app.name} is deprecated: its jobs are not sent."
    if not versions:
        return f"The app {app.name} has no version yet, so its jobs cannot be sent."
    if not any(version.signed for version in versions):
        return (
            f"No version of {app.name} is signed yet, so its jobs are not sent. On the computer with the private"
            " key: cobblestone key sign; then here: cobblestone key import"
        )
    return ""


def _out_of_reach(
    db: Database, batch: Batch, app: App, offer: Offer, *, address: str, now: float
) -> list[str]:
    missing, survey = batch_shortage(db, offer, batch.id, now=now)
    if missing is None or survey is None:
        return []
    why = (
        f" Why others do not: cobblestone explain workunit {survey.candidate.workunit_name}"
        if survey.refusals
        else ""
    )
    if missing.needed == 1:
        if not survey.tried:
            return [
                f"No volunteer's computer called in the last 7 days: the jobs wait. Volunteers join at {address}"
            ]
        return [f"None of the {survey.tried} computers that called in the last 7 days takes these jobs.{why}"]
    text = (
        f"Each job needs agreeing answers of {missing.needed} {_who(missing, missing.needed)}, and"
        f" {missing.found or 'nobody'} could give one (of those whose clients called in the last 7 days): the jobs cannot be"
        f" done before more join at {address}. Or ask for fewer: cobblestone app update {app.name} --quorum"
        f" {max(missing.found, 1)}, and submit again.{why}"
    )
    return [text]


def _failures(db: Database, batch: Batch) -> list[str]:
    """Return what failed on some computers, though other computers may still try it."""
    n_jobs, newest = job_results.failed_so_far(db, batch.id)
    if newest is None:
        return []
    return [
        f"{n_jobs} unfinished jobs failed on a computer and wait for another person's. Last failure: {_failure(db, newest)}"
    ]


def _given_up(db: Database, batch: Batch) -> list[str]:
    """Return why jobs failed for good."""
    newest = job_results.last_of_failed_jobs(db, batch.id) if batch.n_error else None
    return [] if newest is None else [f"Last failure of a job that was given up: {_failure(db, newest)}"]


def _failure(db: Database, result_id: ResultId) -> str:
    # The launcher's own last line only tells the exit status: the program's word stands before it.
    last = " / ".join(result_text(db, result_id).stderr.split("\n")[-2:]).strip(" /")[:300]
    status = job_results.exit_status(db, result_id)
    advice = f". {exit_advice(status).text()}" if meaning_of(status) else ""
    return f"{last or 'no error output'}{advice}"


def _stuck(db: Database, batch: Batch, offer: Offer, *, address: str, now: float) -> list[str]:
    stuck = stuck_jobs(db, offer, batch.id, now=now)
    if not stuck:
        return []
    text = (
        f"{len(stuck)} of them cannot go on: {stuck_text(next(iter(stuck.values())))}. Others may join at {address}; or end"
        f" them: cobblestone batch cancel {batch.id}"
    )
    return [text]


def stuck_text(missing: Shortage) -> str:
    """Why a job that failed does not go on, as a part of a sentence."""
    if missing.found:
        return f"{missing.needed} more {_who(missing, missing.needed)} are needed, and {missing.found} could take it"
    return f"nobody at hand could take it but {'people' if missing.by_person else 'computers'} who had it already"


def _who(missing: Shortage, count: int) -> str:
    one, many = ("person", "people") if missing.by_person else ("computer", "computers")
    return one if count == 1 else many
