"""What sending and reporting do to a host's records of app versions, beside the quota."""

from __future__ import annotations

from collections.abc import Sequence

from cobblestone.domain.hosts import HostAppVersion
from cobblestone.domain.ids import AppVersionId
from cobblestone.domain.states import ExitStatus, Outcome
from cobblestone.policy.credit import host_quality
from cobblestone.policy.credit.deployed import DeployedSystem, inherited_version
from cobblestone.policy.credit.host_records import statistics_of, with_statistics
from cobblestone.policy.dispatch.catalogue import Catalogue
from cobblestone.policy.dispatch.decision import Assignment
from cobblestone.policy.dispatch.reports import AcceptedReport
from cobblestone.policy.dispatch.request import WorkRequest
from cobblestone.store.catalog import apps
from cobblestone.store.credit import ledger
from cobblestone.store.engine.database import Transaction
from cobblestone.store.people import hosts


def record_after_report(
    record: HostAppVersion, accepted: AcceptedReport, *, delay_bound: float, now: float
) -> HostAppVersion:
    """Return the record after a report: a lost job raises the error rate and ends the trust in the credit scale."""
    if accepted.outcome is not Outcome.CLIENT_ERROR or accepted.exit_status == ExitStatus.ABORTED_BY_PROJECT:
        return record
    quality = host_quality.after_failure(statistics_of(record), delay_bound=delay_bound, now=now)
    return with_statistics(record, quality)


def records_after_sending(
    tx: Transaction,
    unsaved: dict[AppVersionId, HostAppVersion],
    records: Sequence[HostAppVersion],
    sent: Sequence[Assignment],
    request: WorkRequest,
    catalogue: Catalogue,
    *,
    now: float,
) -> None:
    """Add records of the versions that were sent to ``unsaved``: with what an earlier one taught, and a new probation time."""
    longest: dict[AppVersionId, float] = {}
    for assignment in sent:
        id_ = assignment.version.id
        longest[id_] = max(longest.get(id_, 0.0), assignment.candidate.limits.delay_bound)
    for record in records:
        known = _inherited(tx, unsaved, record, sent, request, catalogue, now=now)
        quality = statistics_of(known)
        after = host_quality.after_sending(
            quality, delay_bound=longest.get(known.app_version_id, 0.0), now=now
        )
        unsaved[known.app_version_id] = known if after is quality else with_statistics(known, after)


def _inherited(
    tx: Transaction,
    unsaved: dict[AppVersionId, HostAppVersion],
    record: HostAppVersion,
    sent: Sequence[Assignment],
    request: WorkRequest,
    catalogue: Catalogue,
    *,
    now: float,
) -> HostAppVersion:
    """As the deployed system has it, a new version takes over the host's record of the one before."""
    if record.app_version_id in request.records or not request.records or request.anonymous:
        return record
    version = next((each.version for each in sent if each.version.id == record.app_version_id), None)
    if version is None or catalogue.apps[version.app_id].credit_system != DeployedSystem().name:
        return record
    earlier = inherited_version(
        (id_, number) for id_, number in apps.earlier_versions(tx, version) if id_ in request.records
    )
    if earlier is None:
        return record
    hosts.remove_record(tx, record.host_id, earlier)
    unsaved.pop(earlier, None)
    ledger.note_inheritance(tx, record.host_id, earlier=earlier, later=record.app_version_id, now=now)
    return with_statistics(record, statistics_of(request.records[earlier]))
