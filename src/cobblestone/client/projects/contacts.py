"""Contacts with projects: attaching, scheduler requests for the core, and answers to questions about stored files."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import stat
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cobblestone.client.conditions.conditions import Conditions
from cobblestone.client.conditions.host import ReportedHost
from cobblestone.client.loop import Loop
from cobblestone.client.projects.connections import Connections
from cobblestone.client.projects.jobs import Jobs
from cobblestone.client.projects.scheduler_reply import TakenReply, take_reply
from cobblestone.client.projects.scheduler_request import make_request, together
from cobblestone.client.projects.transfers import Transfers
from cobblestone.client.projects.web import ProjectNotReached, contact_scheduler, fetch_schedulers
from cobblestone.client.records.decisions import CoreDriver, job_id, job_place
from cobblestone.client.records.folders import DataFolder
from cobblestone.client.records.journal import Journal
from cobblestone.client.records.state import ClientDatabase
from cobblestone.domain.errors import CobblestoneError, Conflict, NotFound, RemoteProtocolError
from cobblestone.domain.values import changed
from cobblestone.ops.files import write_private
from cobblestone.policy.client.core import events as ev
from cobblestone.policy.storage import answer_of
from cobblestone.wire.client.objects import write_account_file
from cobblestone.wire.client.records import (
    FileAnswer,
    FileStatus,
    JobRecord,
    ProjectContent,
    ProjectRecord,
    RpcReason,
)
from cobblestone.wire.project.pages import canonical_master_url
from cobblestone.wire.scheduler.reply import FileChallenge
from cobblestone.wire.scheduler.request import write_scheduler_request


def answer_challenge(content: ProjectContent, folder: Path, challenge: FileChallenge) -> FileAnswer | None:
    """Answer a question from the file in the project's folder; None if there is no such file, or it is not a kept one.

    Only files that the project sent us are read, and no links: the answer must not tell a project anything about other files.
    """
    file = content.files.get(challenge.file_name)
    if (
        file is None
        or not file.keep
        or file.own
        or file.status not in (FileStatus.PRESENT, FileStatus.UPLOADED)
    ):
        return None
    try:
        descriptor = os.open(folder / challenge.file_name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            found = os.pread(descriptor, challenge.length, challenge.offset)
        finally:
            os.close(descriptor)
    except OSError:
        return None
    return FileAnswer(
        file_name=challenge.file_name, nonce=challenge.nonce, answer=answer_of(challenge.nonce, found)
    )


#: Failed contacts after which the front page is read again: the scheduler may have moved.
MASTER_AGAIN_AFTER = 10
#: A contact that takes longer no longer keeps others waiting.
SLOW_SECONDS = 10.0
#: Seconds between a reply and the next contact, whatever the project asks for; the volunteer's wish goes before it.
LEAST_DELAY = 10.0
LONGEST_UNHEARD = 4 * 3600.0
REASONS = {
    "user": RpcReason.USER,
    "trickle": RpcReason.TRICKLE_UP,
    "account_manager": RpcReason.ACCOUNT_MANAGER,
    "project": RpcReason.PROJECT,
}
_KEPT_AT_RESET = (
    *("attached_via_acct_mgr", "resource_share", "share_from_manager", "no_rsc_ams", "suspended_via_gui"),
    *("dont_request_more_work", "host", "user", "rpc_seqno", "code_sign_key", "credit"),
)
ABORTED_BY_USER = 203
DETACHED = "the project was removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactPorts:
    """What contacts with projects use of the client."""

    state: ClientDatabase
    folders: DataFolder
    journal: Journal
    connections: Connections
    transfers: Transfers
    conditions: Conditions
    jobs: Jobs
    decisions: CoreDriver
    loop: Loop
    rng: random.Random
    facts: Callable[[], ReportedHost]
    restart: Callable[[], None]  #: end the client, and start it again


class Contacts:
    """Attaches, detaches and contacts projects."""

    def __init__(self, ports: ContactPorts) -> None:
        self._ports = ports
        self._state = ports.state
        self._journal = ports.journal
        self._loop = ports.loop
        #: Replies in a row that acknowledged not all reports, by project.
        self._unheard: Counter[str] = Counter()
        self._told: set[tuple[str, str]] = set()  #: addresses, and those that projects say to have instead

    # -- belonging to projects ----------------------------------------------------------------------------

    def attach(
        self, url: str, authenticator: str, *, name: str = "", email: str = "", by_manager: bool = False
    ) -> ProjectContent:
        """Attach to a project.

        Raises:
            Conflict: the client does so already.
            RemoteProtocolError: the address or the key cannot be one.
        """
        master_url = canonical_master_url(url)
        if not authenticator or not all("!" <= c <= "~" for c in authenticator) or len(authenticator) > 255:
            raise RemoteProtocolError("The account key is missing or invalid.")
        if self.find(master_url) is not None:
            raise Conflict("Already attached to project")
        folder = self._ports.folders.project(master_url)
        project = ProjectRecord(
            master_url=master_url,
            authenticator=authenticator,
            project_name=name,
            email_addr=email,
            attached_via_acct_mgr=by_manager,
            project_dir=str(folder),
            sched_rpc_pending=RpcReason.INIT,
        )
        folder.mkdir(parents=True, exist_ok=True)
        content = ProjectContent(project=project)
        self._state.contents[master_url] = content
        for problem in self._ports.conditions.read_own_apps(content):
            self._journal.alert(problem, master_url)
        self._state.put_project(project)
        self.write_account(project)
        self._journal.say(
            "Attached to the project" + (" by the account manager" if by_manager else ""), master_url
        )
        now = self._loop.clock()
        self._loop.post(
            ev.ProjectAttached(now, self._ports.conditions.describe_project(content)),
            ev.ContactAsked(now, master_url, "account_manager" if by_manager else "user"),
        )
        return content

    def find(self, url: str) -> ProjectContent | None:
        """Return the project with that address; http and https are the same place."""
        with contextlib.suppress(RemoteProtocolError):
            wanted = canonical_master_url(url).partition("://")[2]
            return next((c for u, c in self._state.contents.items() if u.partition("://")[2] == wanted), None)
        return None

    def get(self, url: str) -> ProjectContent:
        """Return the project with that address.  Raises NotFound."""
        found = self.find(url)
        if found is None:
            raise NotFound("No such project")
        return found

    async def detach(self, content: ProjectContent) -> None:
        """Detach from a project: end its jobs, forget its state, remove what it sent; the volunteer's own files stay."""
        url = content.project.master_url
        sent = [name for name, file in content.files.items() if not file.own]
        self._ports.transfers.forget(url)
        await self._ports.jobs.end_all(content, ABORTED_BY_USER, DETACHED)
        self._loop.drain()
        if url not in self._state.contents:
            return
        self._journal.say("Detached from the project", url)
        self._journal.notices.drop_of_scheduler(self._journal.project_name(url))
        self._state.drop_project(url)
        self._loop.post(ev.ProjectDetached(self._loop.clock(), url))
        self._loop.drain()
        self._ports.folders.account_file(url).unlink(missing_ok=True)
        left = await asyncio.to_thread(self._ports.folders.empty_project, url, sent)
        if left:
            names = ", ".join(left[:10]) + (f" and {len(left) - 10} more" if len(left) > 10 else "")
            self._journal.say(f"Your own files stay in {self._ports.folders.project(url)}: {names}", url)

    async def reset(self, content: ProjectContent) -> None:
        """Reset a project: remove jobs and files, and keep the account."""
        project = content.project
        await self.detach(content)
        fresh = self.attach(
            project.master_url, project.authenticator, name=project.project_name, email=project.email_addr
        )
        for name in _KEPT_AT_RESET:
            setattr(fresh.project, name, getattr(project, name))
        self._loop.post(
            ev.ProjectAttached(self._loop.clock(), self._ports.conditions.describe_project(fresh))
        )

    def write_account(self, project: ProjectRecord) -> None:
        """Write the account file with which BOINC's client would attach to the project."""
        text = f'<?xml version="1.0"?>\n{write_account_file(project)}'
        write_private(self._ports.folders.account_file(project.master_url), text.encode())

    def ask(self, content: ProjectContent, why: str = "user") -> None:
        """Request a contact."""
        content.project.sched_rpc_pending = REASONS[why]
        self._loop.post(ev.ContactAsked(self._loop.clock(), content.project.master_url, why))

    # -- contacts -----------------------------------------------------------------------------------------

    async def contact(self, wanted: ev.ContactProject) -> None:
        """Carry out a contact; report the outcome to the core."""
        content = self._state.contents.get(wanted.project)
        if content is None:
            return
        project = content.project
        if project.scheduler_rpc_in_progress:
            return
        project.scheduler_rpc_in_progress = True
        wanted = changed(wanted, report=together(content, wanted.report))
        slow = asyncio.get_running_loop().call_later(SLOW_SECONDS, self._slow, project.master_url)
        try:
            await self._contact(content, wanted)
        except Exception as error:
            # a full disk, too: the core contacts no one until it hears how this contact went
            if self._attached(content):
                self._failed(project, error)
            if not isinstance(error, CobblestoneError):
                raise
        finally:
            slow.cancel()
            project.scheduler_rpc_in_progress = False

    def _slow(self, url: str) -> None:
        """Have other projects contacted while one takes its time."""
        contact = self._ports.decisions.core.state.contact
        if contact is not None and contact.project == url:
            self._loop.post(ev.ContactSlow(self._loop.clock(), url))

    def _failed(self, project: ProjectRecord, error: Exception) -> None:
        project.nrpc_failures += 1
        project.master_url_fetch_pending |= project.nrpc_failures % MASTER_AGAIN_AFTER == 0
        self._state.put_project(project)
        self._journal.say(f"The contact failed: {error}", project.master_url)
        if self._ports.decisions.core.state.under_way(project.master_url):
            self._loop.post(ev.ContactFailed(self._loop.clock(), project.master_url))

    def _attached(self, content: ProjectContent) -> bool:
        """Return whether the project is still attached, and was not detached and attached again during a contact."""
        return self._state.contents.get(content.project.master_url) is content

    async def _contact(self, content: ProjectContent, wanted: ev.ContactProject) -> None:
        project, ports, loop = content.project, self._ports, self._loop
        if project.master_url_fetch_pending or not project.scheduler_urls:
            await self._find_schedulers(project)
        if not self._attached(content):
            return
        project.rpc_seqno += 1
        self._state.put_project(project)
        self._state.flush()  # a number is never used twice
        self._announce(content, wanted)
        body = write_scheduler_request(make_request(self._state, content, wanted, ports.facts()))
        read = await contact_scheduler(ports.connections.http, project.scheduler_urls, body, ports.rng)
        if not self._attached(content):
            return
        now = loop.clock()
        project.nrpc_failures, project.last_rpc_time = 0, now
        project.sched_rpc_pending = RpcReason.NONE
        taken = take_reply(self._state, self._journal, content, read, reported=wanted.report, now=now)
        challenge = read.reply.file_challenge
        project.file_answer = (
            answer_challenge(content, ports.folders.project(project.master_url), challenge)
            if challenge
            else None
        )
        self._state.put_project(project)
        reported = [content.jobs[name] for _, name in map(job_place, wanted.report) if name in content.jobs]
        done = [job for job in reported if job.got_server_ack]
        for job in done:
            self._remember(content, job, now)
        ports.jobs.forget(content, done)
        if taken.description_changed:
            loop.post(ev.ProjectAttached(now, ports.conditions.describe_project(content)))
        loop.post(
            changed(
                taken.event, request_delay=max(taken.event.request_delay, self._least_delay(wanted, taken))
            )
        )
        loop.drain()
        await ports.conditions.take_preferences(taken.preferences, project)
        if taken.moved_to:
            loop.background(self._move(project, taken.moved_to))  # the next contact does not wait for it
        self.write_account(project)
        ports.jobs.fetch_missing(content)
        for name, text in taken.trickle_downs:
            if ports.jobs.runner is not None:
                ports.jobs.runner.deliver_trickle(job_id(project.master_url, name), text)
        ports.transfers.poll()
        if project.detach_when_done and not content.jobs:
            loop.background(self.detach(content))

    async def _find_schedulers(self, project: ProjectRecord) -> None:
        """Read the addresses of the project's schedulers from its page."""
        http = self._ports.connections.http
        try:
            project.scheduler_urls, project.asks_about_files = await fetch_schedulers(
                http, project.master_url
            )
        except ProjectNotReached:
            project.master_fetch_failures += 1
            raise
        project.master_url_fetch_pending, project.master_fetch_failures = False, 0

    def _least_delay(self, wanted: ev.ContactProject, taken: TakenReply) -> float:
        """Return the seconds without contact after any reply: twice as long each time that reports stay unacknowledged."""
        heard = set(wanted.report) <= set(taken.event.acknowledged or ())
        unheard = self._unheard[wanted.project] = 0 if heard else self._unheard[wanted.project] + 1
        return min(LEAST_DELAY * 2.0 ** min(unheard, 20), LONGEST_UNHEARD)

    async def _move(self, project: ProjectRecord, address: str) -> None:
        """Take over a project's own address if it is ours with https; say once what to do about any other."""
        old = project.master_url
        with contextlib.suppress(RemoteProtocolError):
            address = canonical_master_url(address)
        if address == old:
            return
        problem = "To use it, detach from the project and attach it there"
        if address.partition("://")[2] == old.partition("://")[2] and address.startswith("https:"):
            try:
                found = await fetch_schedulers(self._ports.connections.http, address)
            except ProjectNotReached as error:
                problem = f"It will be used when it can be: {error}"
            else:
                content = self._state.contents.get(old)
                if content is None or content.project is not project:
                    return  # left meanwhile
                project.scheduler_urls, project.asks_about_files = found
                self._state.put_project(project)
                self._state.move_at_start(old, address)
                self._journal.say(
                    f"The project has moved to {address}: the client starts again with that address", old
                )
                self._ports.restart()
                return
        if (old, address) not in self._told:
            self._told.add((old, address))
            self._journal.alert(f"The project says that its address is {address}, not {old}. {problem}", old)

    def _remember(self, content: ProjectContent, job: JobRecord, now: float) -> None:
        """Write a reported job to the history."""
        workunit, version = content.workunits.get(job.result.wu_name), content.version_of(job)
        fpops = workunit.rsc_fpops_est if workunit else 0.0
        self._state.add_history(
            job,
            app=workunit.app_name if workunit else "",
            reported=now,
            outcome=job.state.name.lower(),
            estimate=fpops / version.flops if version and version.flops else 0.0,
            fpops=fpops,
        )

    def _announce(self, content: ProjectContent, wanted: ev.ContactProject) -> None:
        parts: list[str] = []
        if wanted.report:
            parts.append(f"reporting {len(wanted.report)} task{'s' if len(wanted.report) > 1 else ''}")
        asked = [
            f"{r.seconds:.0f} s for {device or 'CPU'}"
            for device, r in wanted.requests.items()
            if r.seconds > 0
        ]
        parts.append(f"requesting new tasks: {', '.join(asked)}" if asked else "not requesting tasks")
        url = content.project.master_url
        self._journal.say(f"Contacting the scheduler: {'; '.join(parts)}", url, flag="sched_ops")

    def look(self, now: float) -> None:
        """Leave projects that were only waited for, and show the core's figures."""
        core = self._ports.decisions.core.state
        for known in core.projects:
            content = self._state.contents.get(known.description.id)
            if content is None:
                continue
            project = content.project
            project.min_rpc_time = known.not_before
            project.next_rpc_time = known.contact_by if known.contact_by < 1e12 else 0.0
            project.backoff_time = {device: end for device, (_, end) in known.backoffs.items()}
            project.backoff_interval = {device: length for device, (length, _) in known.backoffs.items()}
            if project.detach_when_done and not content.jobs and now - project.last_rpc_time > 60:
                self._loop.background(self.detach(content))

    async def measure_disk(self) -> None:
        """Measure what projects take up."""
        ports = self._ports
        for content in list(self._state.contents.values()):
            folder = ports.folders.project(content.project.master_url)
            content.project.disk_usage = await asyncio.to_thread(ports.folders.used_by, folder)
        await ports.conditions.measure_disk()
