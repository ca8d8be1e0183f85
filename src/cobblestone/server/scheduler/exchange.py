"""Processing of one scheduler request into its reply, inside one write of the store."""

# length: one request from its first step to its last, in the order in which they happen.
from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from functools import partial

from cobblestone.domain.hosts import Host, HostAppVersion
from cobblestone.domain.people import ProjectPreferences, User
from cobblestone.domain.reasons import Reason
from cobblestone.domain.values import AppVersionId, HostId, ResultId, changed
from cobblestone.domain.work import Result
from cobblestone.policy.credit.rac import decayed
from cobblestone.policy.dispatch import held_jobs, identity
from cobblestone.policy.dispatch.catalogue import Assignment
from cobblestone.policy.dispatch.explain import messages as refusal_messages
from cobblestone.policy.dispatch.limits import DispatchLimits
from cobblestone.policy.dispatch.reports import (
    AcceptedReport,
    ReportContext,
    ReportDecision,
    ResultReport,
    judge_report,
)
from cobblestone.policy.dispatch.request import WorkRequest
from cobblestone.policy.dispatch.versions import missing_runtime_after_report
from cobblestone.server.core.context import ServerContext
from cobblestone.server.core.offer import Offer
from cobblestone.server.scheduler import reports
from cobblestone.server.scheduler import work_request as work_requests
from cobblestone.server.scheduler.reply import Links, add_jobs, last_jobs
from cobblestone.server.scheduler.send_work import WorkSender, record_after_report
from cobblestone.service.languages import best_of, chosen, translate_reason, use_language
from cobblestone.service.languages import gettext as _
from cobblestone.store.credit.ledger_state import provisional_credit
from cobblestone.store.engine.database import Transaction
from cobblestone.store.people import hosts, users
from cobblestone.store.work import dispatch, messages
from cobblestone.store.work import rows as work
from cobblestone.store.work.candidates import candidates_of_results
from cobblestone.store.work.dispatch import JobInProgress, ReportedRow
from cobblestone.wire.project.account import email_hash, external_cpid
from cobblestone.wire.scheduler import reply as reply_wire
from cobblestone.wire.scheduler.reply import Message, MessagePriority, SchedulerReply
from cobblestone.wire.scheduler.report import ReportedResult
from cobblestone.wire.scheduler.request import SchedulerRequest

BAD_KEY_DELAY = 3600.0
BLOCKED_DELAY = 86400.0
MAX_MESSAGES = 20  #: to running jobs, in one reply
DEFAULT_PREFERENCES = "<project_preferences>\n<resource_share>100</resource_share>\n</project_preferences>"

_CPID = re.compile(r"[0-9a-f]{32}")


class SchedulerExchange:
    """Processes one request into its reply; used for one write."""

    def __init__(
        self,
        ctx: ServerContext,
        offer: Offer,
        limits: DispatchLimits,
        links: Links,
        rng: random.Random,
        tx: Transaction,
        message: SchedulerRequest,
    ) -> None:
        self.ctx = ctx
        self.offer = offer
        self.limits = limits
        self.links = links
        self.rng = rng
        self.tx = tx
        self.message = message
        self.now = ctx.clock()
        self.preferences = ProjectPreferences()
        self.reply = SchedulerReply(master_url=ctx.master_url, project_name=ctx.settings.project.name)
        self.texts: list[Message] = []
        self._records: dict[AppVersionId, HostAppVersion] | None = None
        self._unsaved: dict[AppVersionId, HostAppVersion] = {}  # of them, changed and not stored yet
        self._reported: set[ResultId] = set()  # by now

    def run(self, address: str, accepted_languages: str = "") -> SchedulerReply:
        """Do everything; messages are in the client's language, else in the account's."""
        if self.tx.to_come is None:
            self.tx.ask_ahead(partial(work_requests.first_questions, message=self.message))
        found = users.user_by_authenticator(self.tx, self.message.authenticator)
        with use_language(chosen(best_of(accepted_languages), found[0].language if found else "")):
            return self._run(found, address)

    def _run(self, found: tuple[User, bool] | None, address: str) -> SchedulerReply:
        if found is None:
            self._say(
                _(
                    "This project does not know your account key. Remove the project and add it again, with the e-mail"
                    " address and password of your account at %(url)s"
                )
                % {"url": self.ctx.master_url},
                notice=True,
            )
            self.reply.request_delay = BAD_KEY_DELAY
            self.reply.messages = tuple(self.texts)
            return self.reply
        user, weak = found
        user = self._agree_on_cpid(user, weak)
        user = self._keep_preferences(user, weak)
        host, announce = self._identify(user, address)
        host, seen_twice = self._take_reports(user, host)
        self._take_trickles(host)
        in_progress = [
            job for job in dispatch.jobs_in_progress(self.tx, host.id) if job.result_id not in self._reported
        ]
        self._abort_unwanted(host, in_progress)
        for fault in work_requests.faults_of_the_day(self.message, host, self.offer.catalogue, now=self.now):
            self._say(translate_reason(fault), notice=True)
        settings = self.ctx.settings.scheduler
        reports.extend_deadlines(self.tx, self.message, host, in_progress, settings=settings, now=self.now)
        if self.ctx.settings.contributions.storage:
            reports.take_kept_files(self.tx, self.message, self.reply, host, address=address, now=self.now)
        self._work(user, host, in_progress, seen_twice=seen_twice)
        hosts.save_records(self.tx, self._unsaved.values())
        self._send_messages(host, in_progress)
        return self._finish(user, host, announce=announce)

    # ------------------------------------------------------------------ who is it

    def _agree_on_cpid(self, user: User, weak: bool) -> User:
        """Adopt the cross-project id that the client knows for this address (the oldest wins on its side)."""
        known = self.message.cross_project_id
        if weak or not _CPID.fullmatch(known) or known == user.cross_project_id:
            return user
        users.adopt_cross_project_id(self.tx, user.id, known)
        self.tx.drop_answers()
        return changed(user, cross_project_id=known)

    def _keep_preferences(self, user: User, weak: bool) -> User:
        """Store computing preferences that are newer than ours and of the same account."""
        theirs = self.message.global_preferences
        if theirs is not None and theirs.problem:
            self._say(
                _("Your computing preferences cannot be read, and were not stored: %(problem)s")
                % {"problem": theirs.problem}
            )
        if theirs is None or weak or theirs.global_prefs_source_email_hash != email_hash(user.email_addr):
            return user
        mod_time = min(theirs.mod_time, self.now)
        if mod_time <= users.global_preferences_time(self.tx, user.id):
            return user
        users.set_global_preferences(self.tx, user.id, theirs.text, mod_time)
        self.tx.drop_answers()
        return changed(user, global_prefs=theirs.text)

    def _identify(self, user: User, address: str) -> tuple[Host, bool]:
        message, tx = self.message, self.tx
        description = work_requests.describe_host(message)
        cpid = (
            identity.hashed_cpid(message.host_info.host_cpid, user.email_addr)
            if message.host_info.host_cpid
            else ""
        )
        claimed = hosts.host_by_id(tx, HostId(message.hostid)) if message.hostid > 0 else None
        sure = claimed is not None and claimed.user_id == user.id and message.rpc_seqno >= claimed.rpc_seqno
        decision = identity.identify_host(
            identity.Introduction(
                user_id=user.id,
                rpc_seqno=message.rpc_seqno,
                hashed_cpid=cpid,
                description=description,
                allow_multiple_clients=message.allow_multiple_clients,
                lists_jobs=bool(message.other_results or message.results),
            ),
            identity.SimilarHosts(
                claimed=claimed,
                claimed_number=message.hostid,
                same_cpid=()
                if sure or not cpid
                else tuple(hosts.hosts_named(tx, user.id, "host_cpid", cpid)),
                similar=()
                if sure or message.allow_multiple_clients
                else tuple(hosts.hosts_named(tx, user.id, "domain_name", description.domain_name)),
            ),
        )
        host = decision.host or hosts.create_host(tx, user.id, host_cpid=cpid, venue=user.venue, now=self.now)
        if decision.detached:
            dispatch.detach_host(tx, host.id, now=self.now)
        if decision.detached or (decision.host and host.id != message.hostid):
            tx.drop_answers()
        self.preferences = work_requests.project_preferences(user, host, message.user_keywords)
        description = work_requests.with_known(description, host.description, message)
        description = work_requests.with_capacity(
            description, message, preferences=self.preferences, limits=self.limits
        )
        hosts.update_host(
            tx, host.id, description, rpc_seqno=message.rpc_seqno, external_ip_addr=address, now=self.now
        )
        if cpid and cpid != host.host_cpid:
            hosts.set_cpid(tx, host.id, cpid)
        return changed(host, description=description), decision.send_host_id

    # ------------------------------------------------------------------ what it brings

    def _take_reports(self, user: User, host: Host) -> tuple[Host, bool]:
        """Record reported results; return the host after that, and whether one came a second time."""
        reported = self.message.results
        if not reported and not self.message.file_transfer_results:
            return host, False
        rows = dispatch.reported_rows(self.tx, [item.name for item in reported])
        # The computer shall report a result again whose row cannot be read.
        reported = [item for item in reported if rows.get(item.name, True)]
        records = self._records_of(host)
        twice = False
        for item in reported:
            row = rows.get(item.name)
            version_id = None if row is None else row.result.app_version_id
            record = None if version_id is None else _record(records, host, version_id)
            decision = self._judge_report(item, row, record, user, host)
            twice = twice or decision.resend_lost
            if row is not None and record is not None:
                self._keep_record(records, record, decision, delay_bound=row.delay_bound)
            if decision.accepted is not None:
                host = self._note_missing_runtime(host, decision.accepted.exit_status)
                if row is not None:
                    self._record_report(item, row, decision.accepted, decision.reasons, host)
        acks = (
            *(item.name for item in reported),
            *(item.name for item in self.message.file_transfer_results),
        )
        self.reply.result_acks = acks
        return host, twice

    def _judge_report(
        self,
        item: ReportedResult,
        row: ReportedRow | None,
        record: HostAppVersion | None,
        user: User,
        host: Host,
    ) -> ReportDecision:
        return judge_report(
            ResultReport(
                name=item.name,
                state=item.state,
                exit_status=item.exit_status if item.exit_status_present else None,
                cpu_time=item.final_cpu_time,
                elapsed_time=item.final_elapsed_time,
                file_errors={file.name: file.error_msg for file in item.files if file.error_msg},
            ),
            ReportContext(
                result=None if row is None else row.result,
                output_specs=() if row is None else row.output_specs,
                outputs_present=frozenset() if row is None else row.outputs_present,
                record=record,
                host_owner=None if row is None else row.host_owner,
                ncpus_used=1.0 if row is None else self._ncpus_of(row.result),
                replaced=row is not None and row.replaced,
            ),
            host_id=host.id,
            user_id=user.id,
            daily_quota=self.limits.daily_quota,
            daily_quota_init=self._initial_quota(row),
            now=self.now,
        )

    def _keep_record(
        self,
        records: dict[AppVersionId, HostAppVersion],
        record: HostAppVersion,
        decision: ReportDecision,
        *,
        delay_bound: float,
    ) -> None:
        """Keep what a report says about a host's results of an app version."""
        known = records.get(record.app_version_id)
        after = decision.record or record
        if decision.accepted is not None:
            reports.log_failure(self.ctx, decision.accepted, known or after, after, now=self.now)
            after = record_after_report(after, decision.accepted, delay_bound=delay_bound, now=self.now)
        if after is not known:
            records[after.app_version_id] = self._unsaved[after.app_version_id] = after

    def _record_report(
        self,
        item: ReportedResult,
        row: ReportedRow,
        accepted: AcceptedReport,
        reasons: tuple[Reason, ...],
        host: Host,
    ) -> None:
        self._reported.add(row.result.id)
        if row.result.host_id != host.id:
            self.tx.drop_answers()
        dispatch.record_report(
            self.tx,
            row.result,
            accepted,
            stderr=item.stderr,
            fpops_counted=reports.counted_fpops(item, accepted.cpu_time),
            intops_counted=reports.counted_intops(item, accepted.cpu_time),
            report=reports.report_details(self.message, item, reasons),
            host_id=host.id,
            now=self.now,
        )

    def _records_of(self, host: Host) -> dict[AppVersionId, HostAppVersion]:
        """Return the host's records by app version, with the changes so far; read once."""
        if self._records is None:
            self.tx.lock("host", [host.id])  # it stands for its records, of which some may not exist yet
            self._records = hosts.records_of_host(self.tx, host.id)
        return self._records

    def _note_missing_runtime(self, host: Host, exit_status: int) -> Host:
        """Remember that a runtime was missing for a job, which will affect others too."""
        found = missing_runtime_after_report(host, exit_status, now=self.now)
        if found is None:
            return host
        missing, since = found
        hosts.set_missing_runtime(self.tx, host.id, missing, now=since)
        return changed(host, missing_runtime=missing, missing_since=since)

    def _initial_quota(self, row: ReportedRow | None) -> int:
        """Return the daily quota of a new host, of the app of a reported result."""
        app = None if row is None else self.offer.catalogue.apps.get(row.result.app_id)
        own = 0 if app is None else app.dispatch.max_jobs_per_day_init
        return own or self.limits.daily_quota_init

    def _ncpus_of(self, result: Result) -> float:
        """Return the CPUs that a result's version may use."""
        plan_class = self.offer.catalogue.plan_class_of(result.app_version_id)
        return 1.0 if plan_class is None else float(max(1, plan_class.max_threads))

    def _take_trickles(self, host: Host) -> None:
        for trickle in self.message.trickles:
            messages.store_trickle(
                self.tx,
                host.id,
                result_name=trickle.result_name,
                variety=trickle.variety,
                time=int(trickle.time),
                text=trickle.text,
                now=self.now,
            )
        if self.message.trickles and not self.message.trickles_truncated:
            self.reply.message_ack = True
            self.tx.wake("trickles")

    def _abort_unwanted(self, host: Host, in_progress: Sequence[JobInProgress]) -> None:
        undisputed = {job.name for job in in_progress if job.undisputed}
        listed = [job.name for job in self.message.other_results if job.name not in undisputed]
        if not listed:
            return
        rows = dispatch.held_rows(self.tx, listed)
        always: list[str] = []
        if_not_started: list[str] = []
        for name in listed:
            abort = held_jobs.judge_held_job(rows.get(name), host_id=host.id)
            if abort is held_jobs.Abort.ALWAYS:
                always.append(name)
            elif abort is held_jobs.Abort.IF_NOT_STARTED:
                if_not_started.append(name)
        self.reply.result_aborts = tuple(always)
        self.reply.result_aborts_if_not_started = tuple(if_not_started)

    # ------------------------------------------------------------------ what it gets

    def _work(
        self, user: User, host: Host, in_progress: Sequence[JobInProgress], *, seen_twice: bool
    ) -> None:
        """Exchange keys; send lost results again, or new ones."""
        message = self.message
        exchange = identity.exchange_key(
            message.code_sign_key, current=self.offer.code_sign_key, retired=self.offer.retired_keys
        )
        self.reply.code_sign_key = exchange.key
        self.reply.code_sign_key_signature = exchange.signature
        if blocked := host.blocked_reason or user.blocked_reason:
            self._say(_("This computer gets no tasks: %(reason)s") % {"reason": blocked}, notice=True)
            self.reply.request_delay = BLOCKED_DELAY
            return
        always = self.offer.catalogue.always_apps and not message.dont_send_work
        if not message.wants_work and not seen_twice and not always:
            return
        if exchange.reason is not None:
            self._say(translate_reason(exchange.reason), notice=True)
        if not exchange.may_send_work:
            return
        request = work_requests.work_request(
            message,
            user=user,
            host=host,
            preferences=self.preferences,
            records=self._records_of(host),
            in_progress=in_progress,
            catalogue=self.offer.catalogue,
            now=self.now,
        )
        if self._resend(request, in_progress):
            return
        if message.wants_work or always:
            self._send_new(request, user)

    def _resend(self, request: WorkRequest, in_progress: Sequence[JobInProgress]) -> bool:
        """Send lost results again; return whether there were any."""
        message = self.message
        if not self.ctx.settings.scheduler.resend_lost_results or message.results_truncated:
            return False
        if not message.other_results_listed:
            return False  # nothing is known to be lost
        known = {job.name for job in (*message.other_results, *message.results)}
        lost = [job for job in in_progress if job.name not in known]
        if not lost:
            return False
        candidates = candidates_of_results(self.tx, [job.result_id for job in lost])
        workunits = work.workunits(self.tx, [job.workunit_id for job in lost])
        grace = self.ctx.settings.scheduler.grace_period
        facts = [
            held_jobs.LostResult(
                candidate=candidates[job.result_id],
                report_deadline=(job.report_deadline or self.now) - grace,
                error_mask=workunits[job.workunit_id].error_mask,
                has_canonical_result=workunits[job.workunit_id].canonical_result_id is not None,
            )
            for job in lost
        ]
        decision = held_jobs.resend_lost(
            request, facts, self.offer.catalogue, limits=self.limits, now=self.now, rng=self.rng
        )
        dispatch.send_again(self.tx, decision.resent, grace_period=grace)
        if decision.expired:
            dispatch.set_deadlines(self.tx, {item.result_id: self.now - 1 for item in decision.expired})
            self.tx.wake("transitioner")
        for assignment in decision.resent:
            self._say(_("Resent lost task %(name)s") % {"name": assignment.candidate.result_name})
        for item in decision.expired:
            self._say(
                _("Didn't resend lost task %(name)s: %(reason)s")
                % {"name": item.result_name, "reason": translate_reason(item.reason)}
            )
        self._add_jobs(decision.resent, request.host)
        return bool(decision.resent)

    def _send_new(self, request: WorkRequest, user: User) -> None:
        sender = WorkSender(self.ctx, self.offer, self.limits, self.rng, self.tx, request, now=self.now)
        decision, claimed = sender.send(self._unsaved)
        self._add_jobs(claimed, request.host)
        problems = sender.problems_of_host()
        reports.tell_owner(self.tx, self.ctx, user, request.host, problems, now=self.now)
        if claimed:
            for problem in problems:
                self._say(translate_reason(problem), notice=True)
        elif self.message.wants_work:
            self._explain(decision.refusals)
            self.reply.request_delay = decision.request_delay

    def _explain(self, refusals: Sequence[Reason]) -> None:
        self._say(_("No tasks sent"))
        for entry in refusal_messages(refusals):
            self._say(translate_reason(entry.reason), notice=entry.priority == "notice")

    def _add_jobs(self, assignments: Sequence[Assignment], host: Host) -> None:
        if assignments:
            if self.ctx.settings.contributions.storage:
                reports.ask_to_keep(self.tx, assignments, host=host)
            at_once = last_jobs(self.tx, assignments, self.ctx, host)
            add_jobs(self.reply, assignments, self.ctx, self.offer.catalogue, at_once=at_once)

    # ------------------------------------------------------------------ the rest of the reply

    def _send_messages(self, host: Host, in_progress: Sequence[JobInProgress]) -> None:
        waiting = messages.waiting_messages(self.tx, host.id)
        if not waiting:
            return
        held = {job.name for job in self.message.other_results}
        wanted = held.union(job.name for job in in_progress)
        messages.forget(self.tx, [id_ for id_, name in waiting if name not in wanted])
        ready = [(id_, name) for id_, name in waiting if name in held][:MAX_MESSAGES]
        ids = [id_ for id_, _ in ready]
        texts = messages.message_texts(self.tx, ids)
        # The client names the job's file after the time: two messages must not share a second.
        self.reply.trickle_downs = tuple(
            reply_wire.TrickleDown(result_name=name, time=int(self.now) + place, text=texts[id_])
            for place, (id_, name) in enumerate(ready)
        )
        messages.mark_sent(self.tx, ids, now=self.now)

    def _hidden(self, owner: str, id_: int) -> float:
        """Return the provisional credit of a ``user`` or ``host``, where the project shows only what is final."""
        shown = self.ctx.settings.credit.show_provisional
        return 0.0 if shown else provisional_credit(self.tx, owner, [id_]).get(id_, 0.0)

    def _finish(self, user: User, host: Host, *, announce: bool) -> SchedulerReply:
        ctx, now = self.ctx, self.now
        team = None if user.team_id is None else users.team_by_id(self.tx, user.team_id)
        settings = ctx.settings.scheduler
        preferences = self.message.global_preferences or self.message.working_global_preferences
        prefs_time = users.global_preferences_time(self.tx, user.id) if user.global_prefs else 0.0
        newer = user.global_prefs and prefs_time > (preferences.mod_time if preferences else 0.0)
        reply = self.reply
        delay = reply.request_delay
        if settings.min_sendwork_interval:
            delay = max(delay, 1.01 * settings.min_sendwork_interval, settings.min_sendwork_interval + 1)
        reply.request_delay = min(delay, 172_800.0)
        reply.next_rpc_delay = reports.next_storage_contact(reply, settings.next_rpc_delay)
        reply.messages = tuple(self.texts)
        reply.user = reply_wire.UserBlock(
            id=user.id,
            name=user.name,
            total_credit=user.credit.total - self._hidden("user", user.id),
            expavg_credit=decayed(user.credit.recent, now),
            create_time=user.create_time,
            email_hash=email_hash(user.email_addr),
            cross_project_id=user.cross_project_id,
            external_cpid=external_cpid(user.cross_project_id, user.email_addr),
            cpid_time=user.create_time,
            team_id=0 if team is None else team.id,
            team_name="" if team is None else team.name,
        )
        reply.host = reply_wire.HostBlock(
            id=host.id,
            total_credit=host.credit.total - self._hidden("host", host.id),
            expavg_credit=decayed(host.credit.recent, now),
            venue=host.venue,
            create_time=host.create_time,
            announce_id=announce,
        )
        reply.global_preferences = user.global_prefs if newer else ""
        reply.project_preferences = user.project_prefs or DEFAULT_PREFERENCES
        reply.dont_use_dcf = True
        reply.send_full_workload = self.limits.workload_sim
        reply.gui_urls = self.links.gui_urls
        reply.rss_feeds = self.links.rss_feeds(user)
        return reply

    def _say(self, text: str, *, notice: bool = False) -> None:
        self.texts.append(
            Message(text=text, priority=MessagePriority.NOTICE if notice else MessagePriority.LOW)
        )


def _record(
    records: Mapping[AppVersionId, HostAppVersion], host: Host, version_id: AppVersionId
) -> HostAppVersion:
    return records.get(version_id) or HostAppVersion(host_id=host.id, app_version_id=version_id)
