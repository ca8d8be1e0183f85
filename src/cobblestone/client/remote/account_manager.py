"""The client's account manager: the standard protocol, plain and dynamic."""

from __future__ import annotations

from cobblestone.client.projects.web import ProjectNotReached, fetch
from cobblestone.client.records.app_versions import version_in_force
from cobblestone.client.records.identity import VERSION_TEXT, platforms
from cobblestone.client.records.state import ManagerAttachment
from cobblestone.client.remote.control import IN_PROGRESS, ClientCommands, Errand
from cobblestone.client.remote.view import ClientView
from cobblestone.domain.errors import CobblestoneError
from cobblestone.domain.values import form_of
from cobblestone.ops.aside import read_aside
from cobblestone.wire.client.account_manager import (
    ManagedAccount,
    ManagerReply,
    ManagerRequest,
    ProjectReport,
    parse_manager_reply,
    write_manager_request,
)
from cobblestone.wire.client.records import ProjectContent
from cobblestone.wire.project.account import md5_hex
from cobblestone.wire.project.pages import canonical_master_url
from cobblestone.wire.text.tree import MAX_BYTES

BAD_PASSWORD = -206
STARVED_FIRST = 600.0
STARVED_LONGEST = 86400.0
BACKOFF_FIRST, BACKOFF_LONGEST = 600.0, 86400.0


class Starvation:
    """Detects that a device has been idle, which a dynamic account manager wants to know."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._patience = STARVED_FIRST

    def look(self, *, starving: bool, now: float) -> bool:
        """Return whether to report it now: after ten minutes, then after twice as long each time."""
        if not starving:
            self._since, self._patience = None, STARVED_FIRST
            return False
        if self._since is None:
            self._since = now
        if now - self._since < self._patience:
            return False
        self._since, self._patience = now, min(2 * self._patience, STARVED_LONGEST)
        return True


class ManagerContacts:
    """Contacts the account manager, and obeys it."""

    def __init__(self, client: ClientView, control: ClientCommands) -> None:
        self._client = client
        self._control = control
        self._state = client.state
        self._journal = client.journal
        self.errand = Errand(0)  #: the last contact
        self._starvation = Starvation()

    def use(self, *, url: str, login: str = "", password: str = "") -> None:
        """Contact an account manager; with a name and a password, a new one.  The outcome is ``errand``."""
        self.errand = errand = Errand()
        base = canonical_master_url(url)
        known = self._state.notes.manager
        if known is None or known.url != base or login:
            hashed = password[5:] if password.startswith("hash:") else md5_hex(password + login.lower())
            known = ManagerAttachment(url=base, login=login, password_hash=hashed)
        self._client.loop.background(self._run_errand(known, errand))

    def leave(self) -> None:
        """Stop obeying the account manager; its projects stay, as the volunteer's own."""
        self._state.notes.manager = None
        self._state.keep_notes()
        self.errand = Errand(0)
        for content in self._state.contents.values():
            content.project.attached_via_acct_mgr = content.project.share_from_manager = False
            content.project.no_rsc_ams = ()
            self._state.put_project(content.project)
        self._journal.say("No longer using an account manager")
        self._client.describe_projects()

    def look(self, now: float) -> None:
        """Contact the account manager when it is time, or when a device starves."""
        manager = self._state.notes.manager
        if manager is None or self.errand.error == IN_PROGRESS:
            return
        starving = manager.dynamic and self._starvation.look(starving=self._starves(), now=now)
        if starving:
            self._journal.say("A device has had no work for a while: telling the account manager")
        if starving or now >= manager.next_rpc_time:
            self.use(url=manager.url)

    def _starves(self) -> bool:
        permission = self._client.conditions.permission()
        if permission.cpu or permission.network:
            return False
        running = sum(
            version.avg_ncpus
            for content in self._state.contents.values()
            for job in content.jobs.values()
            if not job.completed_time and (version := version_in_force(content, job)) is not None
        )
        return running < (permission.ncpus or self._client.conditions.devices().ncpus)

    async def _run_errand(self, account: ManagerAttachment, errand: Errand) -> None:
        try:
            await self._contact(account, errand)
        finally:
            errand.done.set()

    async def _contact(self, account: ManagerAttachment, errand: Errand) -> None:
        now = self._client.loop.clock()
        url = f"{account.url}rpc.php"
        try:
            body = write_manager_request(self._request(account))
            answer = await fetch(self._client.connections.http, url, MAX_BYTES, form=body)
            reply = await read_aside(parse_manager_reply, answer)
        except (ProjectNotReached, CobblestoneError) as error:
            self._failed(account, str(error), now)
            errand.text, errand.error = str(error), -113
            return
        for text in reply.messages:
            self._journal.say(text)
        if reply.error_num:
            account.bad_password = reply.error_num == BAD_PASSWORD
            self._failed(account, reply.error_msg or f"error {reply.error_num}", now)
            errand.text, errand.error = reply.error_msg, reply.error_num
            return
        problem = await self._take(account, reply, now)
        errand.text, errand.error = problem, -1 if problem else 0

    def _failed(self, account: ManagerAttachment, words: str, now: float) -> None:
        in_use = self._state.notes.manager is account
        tell = self._journal.alert if in_use else self._journal.say  # who tries a new one is told at once
        tell(f"The account manager {account.name or account.url} could not be used: {words}")
        if in_use:
            wait = min(
                BACKOFF_FIRST * 2.0 ** min(account.failures, 20), BACKOFF_LONGEST
            ) * self._client.rng.uniform(0.5, 1.0)
            account.failures += 1
            account.next_rpc_time = now + wait
            self._state.keep_notes()

    # -- the request --------------------------------------------------------------------------------------

    def _request(self, account: ManagerAttachment) -> ManagerRequest:
        facts = self._client.facts()
        return form_of(
            ManagerRequest,
            account,
            facts,
            facts.host,
            self._state.notes,
            name=account.login,
            client_version=VERSION_TEXT,
            run_mode={1: "always", 2: "auto", 3: "never"}[
                self._state.notes.run_mode.now(self._client.loop.clock())
            ],
            platforms=platforms(),
            projects=tuple(
                _project(content, dynamic=account.dynamic) for content in self._state.contents.values()
            ),
            working_preferences=facts.preferences,
            with_results=bool(account.send_tasks),
            contents=tuple(self._state.contents.values()) if account.send_tasks else (),
        )

    # -- the reply ----------------------------------------------------------------------------------------

    async def _take(self, account: ManagerAttachment, reply: ManagerReply, now: float) -> str:
        """Obey a reply; what is wrong with it, or the empty text."""
        from cobblestone.wire.project.signatures import same_key

        if not reply.signing_key:
            problem = "its answer holds no signing key"
        elif account.signing_key and not same_key(account.signing_key, reply.signing_key):
            problem = "its signing key has changed, which must never happen: it may be somebody else's server"
        else:
            problem = ""
        if problem:
            self._failed(account, problem, now)
            return problem
        self._journal.notices.drop(f"The account manager {account.name or account.url} could not")
        account.signing_key, account.name = reply.signing_key, reply.name
        account.authenticator = reply.authenticator or account.authenticator
        account.opaque = reply.opaque
        account.dynamic, account.bad_password, account.failures = reply.dynamic, False, 0
        account.user_name, account.team_name = reply.user_name, reply.team_name
        account.send_tasks, account.no_project_notices = reply.send_tasks, reply.no_project_notices
        account.feeds, account.keywords = reply.feeds, reply.keywords
        account.previous_host_cpid = self._client.facts().host.host_cpid
        account.next_rpc_time = now + reply.repeat_sec
        self._state.notes.manager = account
        self._state.keep_notes()
        for wanted in reply.accounts:
            self._obey(account, wanted)
        if reply.global_preferences:
            await self._client.conditions.take_preferences(
                reply.global_preferences, None, manager=account.url, always=account.dynamic
            )
        self._journal.say(f"Contact with the account manager {account.name} succeeded")
        self._client.describe_projects()
        self._client.loop.save()
        return ""

    def _obey(self, account: ManagerAttachment, wanted: ManagedAccount) -> None:
        content = self._client.contacts.find(wanted.url)
        try:
            if content is None:
                if canonical_master_url(wanted.url) in account.left:
                    return
                content = self._attach(account, wanted)
                if content is None:
                    return
        except CobblestoneError as error:
            self._journal.say(f"The account manager wants {wanted.url}, which cannot be attached: {error}")
            return
        project = content.project
        if wanted.detach:
            self._client.loop.background(self._client.contacts.detach(content))
            return
        if wanted.authenticator and ("_" in project.authenticator) <= ("_" in wanted.authenticator):
            project.authenticator = wanted.authenticator
        project.dont_request_more_work = wanted.dont_request_more_work
        project.detach_when_done = wanted.detach_when_done
        if wanted.suspend is not None:
            project.suspended_via_gui = wanted.suspend
        project.share_from_manager = wanted.resource_share is not None
        if wanted.resource_share is not None:
            project.resource_share = wanted.resource_share
        project.no_rsc_ams = tuple("" if name == "CPU" else name for name in wanted.no_resources)
        self._state.put_project(project)
        if wanted.abort_not_started:
            for job in [
                job for job in content.jobs.values() if not job.task.started and not job.completed_time
            ]:
                self._control.abort_job(project.master_url, job.name)
        if wanted.update:
            self._client.contacts.ask(content, "account_manager")

    def _attach(self, account: ManagerAttachment, wanted: ManagedAccount) -> ProjectContent | None:
        """Attach a project that is new here: its address must be signed by the account manager."""
        from cobblestone.wire.project.signatures import decode_public_key, verify_bytes

        if wanted.detach or not wanted.authenticator:
            return None
        key = decode_public_key(account.signing_key)
        if not verify_bytes(key, wanted.url.encode(), wanted.url_signature):
            self._journal.alert(
                f"The account manager wants {wanted.url}, but has not signed its address: it was refused"
            )
            return None
        content = self._client.contacts.attach(wanted.url, wanted.authenticator, by_manager=True)
        content.project.credit = wanted.credit
        content.project.njobs_success, content.project.njobs_error = wanted.njobs_success, wanted.njobs_error
        return content


def _project(content: ProjectContent, *, dynamic: bool) -> ProjectReport:
    project = content.project
    waiting = [job for job in content.jobs.values() if not job.completed_time]
    none = tuple(device or "CPU" for device, length in project.backoff_interval.items() if length > 0)
    return ProjectReport(
        project=project,
        not_started_duration=sum(job.estimated_remaining for job in waiting if not job.task.started),
        in_progress_duration=sum(job.estimated_remaining for job in waiting if job.task.started),
        dynamic=dynamic,
        no_work=none if dynamic else (),
    )
