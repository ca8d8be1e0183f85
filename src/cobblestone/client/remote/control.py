"""Control of the client by people and programs: one list of commands for GUI RPC, JSON and the command line.

Each command raises a CobblestoneError with a sentence when it cannot be done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from cobblestone.client.projects.web import ProjectNotReached, account_request, fetch_config
from cobblestone.client.records.decisions import job_id
from cobblestone.client.records.state import ChosenMode
from cobblestone.client.remote.view import ClientView
from cobblestone.domain.errors import CobblestoneError, NotFound, PolicyViolation
from cobblestone.ops.files import write_durably
from cobblestone.policy.client.core.events import JobSuspended
from cobblestone.wire.client.config import Settings
from cobblestone.wire.client.records import JobRecord, ProjectContent
from cobblestone.wire.project.pages import (
    WebRpcRefused,
    canonical_master_url,
    create_account_url,
    lookup_account_hash_url,
)

ALWAYS, AUTO, NEVER, RESTORE = 1, 2, 3, 4
ABORTED_BY_USER = 203
IN_PROGRESS = -204
UNREACHABLE = -113
REFUSED = -1
NETWORK_OPEN_SECONDS = 300.0


@dataclass(slots=True)
class Errand:
    """A longer operation: an answer, or an error number; -204 while it is in progress."""

    error: int = IN_PROGRESS
    text: str = ""
    result: Any = None  # whatever was asked for
    done: asyncio.Event = field(default_factory=asyncio.Event)


class ClientCommands:
    """The commands."""

    def __init__(self, client: ClientView) -> None:
        self._client = client
        self._state = client.state
        self._journal = client.journal
        self._conditions = client.conditions
        self.config_errand = Errand(0)
        self.account_errand = Errand(0)

    # -- projects -----------------------------------------------------------------------------------------

    def project(self, url: str) -> ProjectContent:
        """Return the project with that address.  Raises NotFound."""
        return self._client.contacts.get(url)

    def change_project(self, url: str, **flags: bool) -> None:
        """Set flags of a project: ``suspended_via_gui``, ``dont_request_more_work``, ``detach_when_done``."""
        content = self.project(url)
        for name, value in flags.items():
            setattr(content.project, name, value)
        if "detach_when_done" in flags:  # as in BOINC, one comes and goes with the other
            content.project.dont_request_more_work = flags["detach_when_done"]
        words = ", ".join(f"{'' if value else 'not '}{_WORDS[name]}" for name, value in flags.items())
        self._journal.say(f"Now {words}, by the user", content.project.master_url)
        self._state.put_project(content.project)
        self._client.describe_projects()

    def update(self, url: str) -> None:
        """Contact a project soon."""
        content = self.project(url)
        self._open_network()
        content.project.master_url_fetch_pending |= content.project.nrpc_failures > 0
        self._journal.say("Update requested by the user", content.project.master_url)
        self._client.contacts.ask(content)
        self._client.feeds.refresh(content.project.master_url)
        self.retry_transfers(content.project.master_url)

    def reset(self, url: str) -> None:
        """Reset a project: remove its jobs and files."""
        content = self.project(url)
        self._open_network()
        self._client.loop.background(self._client.contacts.reset(content))

    def detach(self, url: str) -> None:
        """Detach from a project."""
        content = self.project(url)
        manager = self._state.notes.manager
        if content.project.attached_via_acct_mgr and manager is not None:
            raise PolicyViolation(
                "This project was chosen by your account manager: remove it there, or detach "
                "from the account manager first"
            )
        if manager is not None:  # it may list the project, too
            manager.left = (*manager.left, content.project.master_url)
            self._state.keep_notes()
        self._client.loop.background(self._client.contacts.detach(content))

    def attach(self, url: str, key: str, name: str = "", email: str = "") -> ProjectContent:
        """Belong to a project from now on.  Raises PolicyViolation when the configuration forbids that."""
        if self._conditions.config.disallow_attach:
            raise PolicyViolation("Projects cannot be attached: cc_config.xml says <disallow_attach>")
        self._open_network()
        return self._client.contacts.attach(url, key, name=name, email=email)

    # -- questions to projects ----------------------------------------------------------------------------

    def ask_config(self, url: str) -> Errand:
        """Ask a project for its description."""
        self._open_network()
        self.config_errand = errand = Errand()
        self._client.loop.background(self._errand(errand, fetch_config(self._client.connections.http, url)))
        return errand

    def look_up_account(self, url: str, email: str, password_hash: str) -> Errand:
        """Ask a project for the key of an account."""
        return self._account(lookup_account_hash_url(canonical_master_url(url), email, password_hash))

    def create_account(
        self, url: str, email: str, password_hash: str, user_name: str, team_name: str, *, consent: bool
    ) -> Errand:
        """Create an account at a project."""
        base = canonical_master_url(url)
        return self._account(
            create_account_url(base, email, password_hash, user_name, team_name, consent=consent)
        )

    def _account(self, url: str) -> Errand:
        self._open_network()
        self.account_errand = errand = Errand()
        self._client.loop.background(
            self._errand(errand, account_request(self._client.connections.http, url))
        )
        return errand

    async def _errand(self, errand: Errand, work: Coroutine[Any, Any, Any]) -> None:
        try:
            errand.result = await work
            errand.error = 0
        except WebRpcRefused as error:
            errand.text, errand.error = str(error), error.number
        except ProjectNotReached as error:
            errand.text, errand.error = str(error), UNREACHABLE
        except CobblestoneError as error:
            errand.text, errand.error = str(error), REFUSED
        finally:
            errand.done.set()

    # -- jobs and files -----------------------------------------------------------------------------------

    def job(self, url: str, name: str) -> tuple[ProjectContent, JobRecord]:
        """Return a job.  Raises NotFound."""
        content = self.project(url)
        job = content.jobs.get(name)
        if job is None:
            raise NotFound("no such result")
        return content, job

    def suspend_job(self, url: str, name: str, *, suspended: bool) -> None:
        """Suspend or resume a job."""
        _, job = self.job(url, name)
        job.suspended_via_gui = suspended
        self._journal.say(f"Task {name} {'suspended' if suspended else 'resumed'} by the user", job.project)
        self._state.put_job(job)
        self._client.loop.post(JobSuspended(self._client.loop.clock(), job_id(job.project, name), suspended))

    def abort_job(self, url: str, name: str) -> None:
        """Abort a job; the project is told."""
        _, job = self.job(url, name)
        if job.completed_time:
            raise PolicyViolation("This task has ended already")
        self._journal.say(f"Task {name} aborted by the user", job.project)
        self._client.jobs.abort(job_id(job.project, name), ABORTED_BY_USER, "aborted by user")

    def retry_transfer(self, url: str, name: str) -> None:
        """Retry a transfer at once."""
        self._open_network()
        if not self._client.transfers.retry(self.project(url).project.master_url, name):
            raise NotFound("no such file")

    def retry_transfers(self, url: str = "") -> None:
        """Try all transfers of a project at once; without an address, those of all projects."""
        for file, _, _ in list(self._client.transfers.listed()):
            if url in ("", file.project):
                self._client.transfers.retry(file.project, file.name)

    def abort_transfer(self, url: str, name: str) -> None:
        """Give a transfer up."""
        if not self._client.transfers.abort(self.project(url).project.master_url, name):
            raise NotFound("no such file")

    # -- modes and settings -------------------------------------------------------------------------------

    def set_mode(self, which: str, mode: int, seconds: float = 0.0) -> None:
        """Set the mode of ``run``, ``gpu`` or ``network``, for good or for a while."""
        notes = self._state.notes
        chosen: ChosenMode = getattr(notes, f"{which}_mode")
        if mode == RESTORE:
            if chosen.temporary:
                chosen.temporary = 0
            else:
                chosen.permanent, chosen.previous = chosen.previous, chosen.permanent
        elif seconds > 0:
            chosen.temporary, chosen.until = mode, self._client.loop.clock() + min(seconds, 366 * 86400.0)
        else:
            if chosen.permanent != mode:
                chosen.previous = chosen.permanent
            chosen.permanent, chosen.temporary = mode, 0
        self._state.keep_notes()
        self._conditions.modes_changed()
        self._client.apply_conditions()

    def read_preferences(self) -> None:
        """Read all preference and configuration files again."""
        self._conditions.read_files()
        self._client.apply_conditions()
        self._client.describe_projects()

    def write_file(self, name: str, content: bytes) -> None:
        """Replace a file of the data directory; without content, remove it.  It is in force when files are read again."""
        path = self._client.folders.root / name
        if content:
            write_durably(path, content)
        else:
            path.unlink(missing_ok=True)

    def set_proxy(self, settings: Settings) -> None:
        """Reach the network through another proxy from now on; the settings go before those of ``cc_config.xml``."""
        self._state.notes.proxy = dict(settings)
        self._state.keep_notes()
        self._client.apply_conditions()

    def suspend_gpu(self, device: str, number: int, *, suspended: bool) -> None:
        """Switch one GPU off for jobs, or on again.  Raises NotFound for one that is not there."""
        if suspended and number >= {e.name: e.count for e in self._conditions.devices().gpus}.get(device, 0):
            raise NotFound(f"No GPU {device}:{number} was found on this computer")
        notes = self._state.notes
        off = set(notes.suspended_gpus.get(device, ()))
        (off.add if suspended else off.discard)(number)
        notes.suspended_gpus[device] = tuple(sorted(off))
        self._state.keep_notes()
        self._conditions.modes_changed()
        self._client.apply_conditions()

    def run_benchmarks(self) -> None:
        """Measure the processors again."""
        self._client.loop.background(self._conditions.benchmark(self._client.apply_conditions))

    def read_host(self) -> None:
        """Find out again what this computer is."""
        self._client.loop.background(self._conditions.read_host())

    def name_product(self, name: str) -> None:
        """Report this as the computer's product name; empty: what the system says."""
        self._state.notes.product_name = name
        self._state.keep_notes()

    def quit(self) -> None:
        """End the client."""
        self._client.stop()

    def _open_network(self) -> None:
        """Let what a person asks for use the network for some minutes, even if it is suspended."""
        self._conditions.open_network(NETWORK_OPEN_SECONDS)
        self._client.apply_conditions()


_WORDS = {
    "suspended_via_gui": "suspended",
    "dont_request_more_work": "without new tasks",
    "detach_when_done": "to be removed when its tasks are done",
}
