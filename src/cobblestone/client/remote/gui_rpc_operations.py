"""The operations of GUI RPC and their replies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from cobblestone.client.records.app_versions import with_versions_in_force
from cobblestone.client.records.identity import VERSION, platforms
from cobblestone.client.remote.account_manager import leave_manager, manager_request
from cobblestone.client.remote.control import (
    ALWAYS,
    AUTO,
    IN_PROGRESS,
    NEVER,
    RESTORE,
    ClientCommands,
    Errand,
)
from cobblestone.domain.errors import CobblestoneError, ConfigError, Conflict, NotFound
from cobblestone.ops.files import write_durably
from cobblestone.wire.client import gui_rpc as answers
from cobblestone.wire.client.config import FLAGS, NUMBERS, TEXTS, read_proxy
from cobblestone.wire.client.gui_rpc import SUCCESS, GuiRpcCall
from cobblestone.wire.client.records import FileRecord, ProjectContent
from cobblestone.wire.project.account import write_account_out
from cobblestone.wire.project.pages import write_project_config
from cobblestone.wire.text.reader import FieldReader

if TYPE_CHECKING:
    from cobblestone.client.daemon.daemon import Client

HOUR = 3600.0
DAY = 86400.0
Handler = Callable[[GuiRpcCall], str]


class Operations:
    """Carries out calls."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._state = client.state
        self._control: ClientCommands = client.control
        self._identity = answers.ClientIdentity(version=VERSION, platforms=platforms())
        flags, suspend, mode = self.set_flags, self.suspend_task, self.set_mode
        self._handlers: dict[str, Handler] = {
            "get_state": self.get_state,
            "get_results": self.get_results,
            "get_simple_gui_info": self.get_simple_gui_info,
            "get_screensaver_tasks": self.get_screensaver_tasks,
            "get_project_status": self.get_project_status,
            "get_cc_status": self.get_cc_status,
            "get_host_info": self.get_host_info,
            "get_disk_usage": self.get_disk_usage,
            "get_file_transfers": self.get_file_transfers,
            "get_messages": self.get_messages,
            "get_message_count": self.get_message_count,
            "get_notices": self.get_notices,
            "get_statistics": self.get_statistics,
            "get_daily_xfer_history": self.get_daily_xfer_history,
            "get_old_results": self.get_old_results,
            "exchange_versions": self.exchange_versions,
            "get_project_config": self.get_project_config,
            "get_project_config_poll": self.get_project_config_poll,
            "lookup_account": self.lookup_account,
            "create_account": self.create_account,
            "project_attach": self.project_attach,
            "project_attach_poll": self.project_attach_poll,
            "abort_result": self.abort_result,
            "retry_file_transfer": self.retry_file_transfer,
            "abort_file_transfer": self.abort_file_transfer,
            "get_proxy_settings": self.get_proxy_settings,
            "set_proxy_settings": self.set_proxy_settings,
            "get_cc_config": self.get_cc_config,
            "set_cc_config": self.set_cc_config,
            "get_global_prefs_file": self.get_global_prefs_file,
            "get_global_prefs_override": self.get_global_prefs_override,
            "set_global_prefs_override": self.set_global_prefs_override,
            "get_global_prefs_working": self.get_global_prefs_working,
            "get_app_config": self.get_app_config,
            "set_app_config": self.set_app_config,
            "run_benchmarks": self.run_benchmarks,
            "network_available": self.network_available,
            "quit": self.quit,
            "reset_host_info": self.reset_host_info,
            "acct_mgr_info": self.acct_mgr_info,
            "acct_mgr_rpc": self.acct_mgr_rpc,
            "acct_mgr_rpc_poll": self.acct_mgr_rpc_poll,
            "get_notices_public": self.get_notices_public,
            "lookup_account_poll": self.account_poll,
            "create_account_poll": self.account_poll,
            "project_suspend": partial(flags, suspended_via_gui=True),
            "project_resume": partial(flags, suspended_via_gui=False),
            "project_nomorework": partial(flags, dont_request_more_work=True),
            "project_allowmorework": partial(flags, dont_request_more_work=False),
            "project_detach_when_done": partial(flags, detach_when_done=True),
            "project_dont_detach_when_done": partial(flags, detach_when_done=False),
            "project_update": self.update,
            "project_reset": self.reset,
            "project_detach": self.detach,
            "suspend_result": partial(suspend, suspended=True),
            "resume_result": partial(suspend, suspended=False),
            "set_run_mode": partial(mode, which="run"),
            "set_gpu_mode": partial(mode, which="gpu"),
            "set_network_mode": partial(mode, which="network"),
            "read_cc_config": self.read_files,
            "read_global_prefs_override": self.read_files,
            "get_newer_version": partial(_fixed, answers.newer_version()),
            "get_all_projects_list": partial(_fixed, ""),
            "get_project_init_status": partial(_fixed, answers.project_init_status()),
            "set_host_info": partial(_fixed, SUCCESS),
            "set_language": partial(_fixed, SUCCESS),
        }

    def carry_out(self, call: GuiRpcCall) -> str:
        """Return the content of the reply.  Raises CobblestoneError if the call fails."""
        handler = self._handlers.get(call.operation)
        if handler is None:
            raise NotFound(f"unrecognized op: {call.operation}")
        return handler(call)

    def _contents(self) -> list[ProjectContent]:
        self._client.jobs.readings()
        self._client.show()
        return list(self._state.contents.values())

    # -- looking ------------------------------------------------------------------------------------------

    def get_state(self, _: GuiRpcCall) -> str:
        facts = self._client.facts()
        return answers.state(
            host=facts.host,
            coprocs=facts.coprocs,
            net=self._state.notes.net_stats,
            times=facts.time_stats,
            contents=map(with_versions_in_force, self._contents()),
            identity=self._identity,
            preferences=facts.preferences,
            venue=self._client.conditions.venue(),
        )

    def get_results(self, call: GuiRpcCall) -> str:
        return answers.results(self._contents(), active_only=call.arguments.flag("active_only"))

    def get_simple_gui_info(self, _: GuiRpcCall) -> str:
        return answers.simple_gui_info(self._contents())

    def get_screensaver_tasks(self, _: GuiRpcCall) -> str:
        return answers.screensaver_tasks(
            self._contents(), self._client.conditions.modes()["task"].suspend_reason
        )

    def get_project_status(self, _: GuiRpcCall) -> str:
        return answers.project_status([content.project for content in self._contents()])

    def get_cc_status(self, _: GuiRpcCall) -> str:
        manager = self._state.notes.manager
        return answers.cc_status(
            self._client.conditions.modes(),
            network_status=0,
            bad_manager_password=bool(manager and manager.bad_password),
            config=self._client.conditions.config,
        )

    def get_host_info(self, _: GuiRpcCall) -> str:
        from cobblestone.wire.scheduler.host import write_host_info

        facts = self._client.facts()
        return write_host_info(facts.host, facts.coprocs, with_coprocs=True)

    def get_disk_usage(self, _: GuiRpcCall) -> str:
        total, free = self._client.folders.free_space()
        used, allowed = self._client.conditions.disk()
        projects = [content.project for content in self._state.contents.values()]
        return answers.disk_usage(projects, total=total, free=free, used=used, allowed=allowed)

    def get_file_transfers(self, _: GuiRpcCall) -> str:
        now = self._client.clock()
        rows: list[tuple[FileRecord, str, answers.RunningTransfer | None, float]] = []
        for file, progress, backoff in self._client.transfers.listed():
            running = None
            if progress is not None:
                seconds = max(now - progress.started, 0.001)
                running = answers.RunningTransfer(
                    url=progress.url,
                    bytes_xferred=progress.bytes,
                    speed=progress.moved / seconds,
                    offset=progress.offset,
                )
            name = self._state.contents[file.project].project.project_name
            rows.append((file, name, running, backoff))
        return answers.file_transfers(rows, now)

    def get_messages(self, call: GuiRpcCall) -> str:
        return answers.messages(self._client.journal.since(call.arguments.integer("seqno")))

    def get_message_count(self, _: GuiRpcCall) -> str:
        return f"<seqno>{self._client.journal.last}</seqno>\n"

    def get_notices(self, call: GuiRpcCall) -> str:
        return answers.notices(self._client.journal.notices.since(call.arguments.integer("seqno")))

    def get_notices_public(self, call: GuiRpcCall) -> str:
        found = self._client.journal.notices.since(call.arguments.integer("seqno"))
        return answers.notices([notice for notice in found if not notice.is_private])

    def get_statistics(self, _: GuiRpcCall) -> str:
        since = self._client.clock() - self._client.conditions.config.save_stats_days * DAY
        return answers.statistics({url: self._state.credit_days(url, since) for url in self._state.contents})

    def get_daily_xfer_history(self, _: GuiRpcCall) -> str:
        return answers.daily_transfers(self._state.transferred(int(self._client.clock() // 86400) - 30))

    def get_old_results(self, _: GuiRpcCall) -> str:
        rows = self._state.history(self._client.clock() - HOUR)
        return answers.old_results(
            answers.OldResult(
                project_url=row["project"],
                result_name=row["job"],
                app_name=row["app"],
                exit_status=row["exit_status"],
                elapsed_time=row["elapsed"],
                cpu_time=row["cpu_time"],
                completed_time=row["completed"],
                create_time=row["reported"],
            )
            for row in rows
        )

    def exchange_versions(self, _: GuiRpcCall) -> str:
        return answers.client_version(self._identity)

    # -- projects -----------------------------------------------------------------------------------------

    def get_project_config(self, call: GuiRpcCall) -> str:
        self._control.ask_config(call.arguments.text("url"))
        return SUCCESS

    def get_project_config_poll(self, _: GuiRpcCall) -> str:
        errand = self._control.config_errand
        if errand.error or errand.result is None:
            return _error_number("project_config", errand)
        return _without_declaration(write_project_config(errand.result))

    def lookup_account(self, call: GuiRpcCall) -> str:
        given = call.arguments
        self._control.look_up_account(
            given.text("url"), given.text("email_addr").lower(), given.text("passwd_hash")
        )
        return SUCCESS

    def create_account(self, call: GuiRpcCall) -> str:
        given = call.arguments
        self._control.create_account(
            given.text("url"),
            given.text("email_addr").lower(),
            given.text("passwd_hash"),
            given.text("user_name"),
            given.text("team_name"),
            consent=given.flag("consented_to_terms"),
        )
        return SUCCESS

    def account_poll(self, _: GuiRpcCall) -> str:
        errand = self._control.account_errand
        if errand.error or errand.result is None:
            return _error_number("account_out", errand)
        return _without_declaration(write_account_out(errand.result))

    def project_attach(self, call: GuiRpcCall) -> str:
        given = call.arguments
        errand = self._control.attach_errand = Errand(0)
        try:
            self._control.attach(
                given.text("project_url"),
                given.text("authenticator").strip(),
                given.text("project_name"),
                given.text("email_addr"),
            )
        except Conflict:
            raise
        except CobblestoneError as error:
            errand.error, errand.text = -189, str(error)
            raise
        return SUCCESS

    def project_attach_poll(self, _: GuiRpcCall) -> str:
        errand = self._control.attach_errand
        return answers.poll("project_attach_reply", errand.error, [errand.text] if errand.text else [])

    def set_flags(self, call: GuiRpcCall, **flags: bool) -> str:
        self._control.change_project(call.arguments.text("project_url"), **flags)
        return SUCCESS

    def update(self, call: GuiRpcCall) -> str:
        self._control.update(call.arguments.text("project_url"))
        return SUCCESS

    def reset(self, call: GuiRpcCall) -> str:
        self._control.reset(call.arguments.text("project_url"))
        return SUCCESS

    def detach(self, call: GuiRpcCall) -> str:
        self._control.detach(call.arguments.text("project_url"))
        return SUCCESS

    # -- jobs and files -----------------------------------------------------------------------------------

    def suspend_task(self, call: GuiRpcCall, *, suspended: bool) -> str:
        self._control.suspend_job(
            call.arguments.text("project_url"), call.arguments.name(), suspended=suspended
        )
        return SUCCESS

    def abort_result(self, call: GuiRpcCall) -> str:
        self._control.abort_job(call.arguments.text("project_url"), call.arguments.name())
        return SUCCESS

    def retry_file_transfer(self, call: GuiRpcCall) -> str:
        self._control.retry_transfer(call.arguments.text("project_url"), call.arguments.text("filename"))
        return SUCCESS

    def abort_file_transfer(self, call: GuiRpcCall) -> str:
        self._control.abort_transfer(call.arguments.text("project_url"), call.arguments.text("filename"))
        return SUCCESS

    # -- modes, preferences, configuration ----------------------------------------------------------------

    def set_mode(self, call: GuiRpcCall, which: str) -> str:
        named = {"always": ALWAYS, "auto": AUTO, "never": NEVER, "restore": RESTORE}
        mode = next((number for name, number in named.items() if call.has(name)), 0)
        if not mode:
            raise NotFound("missing mode: always, auto, never or restore")
        self._control.set_mode(which, mode, call.arguments.number("duration"))
        return SUCCESS

    def get_proxy_settings(self, _: GuiRpcCall) -> str:
        return answers.proxy_settings(self._state.notes.proxy)

    def set_proxy_settings(self, call: GuiRpcCall) -> str:
        inner = call.node.find("proxy_info")
        given = inner.reader([]) if inner else call.arguments
        settings: dict[str, str | int] = {name: given.text(name, 255) for name in TEXTS}
        settings |= {name: given.integer(name, 80 if "port" in name else 0, 0, 65535) for name in NUMBERS}
        settings |= {name: int(_given(given, name)) for name in FLAGS}
        _, problem = read_proxy(settings)
        if problem:
            raise ConfigError(f"The proxy cannot be used: {problem}.")
        self._control.set_proxy(settings)
        return SUCCESS

    def read_files(self, _: GuiRpcCall) -> str:
        self._control.read_preferences()
        return SUCCESS

    def _file(self, name: str, missing: str) -> str:
        path = self._client.folders.root / name
        if not path.is_file():
            raise NotFound(missing)
        return path.read_text(encoding="utf-8", errors="replace").strip() + "\n"

    def get_cc_config(self, _: GuiRpcCall) -> str:
        return self._file("cc_config.xml", "cc_config.xml not found")

    def set_cc_config(self, call: GuiRpcCall) -> str:
        return self._write("cc_config.xml", call, "cc_config")

    def get_global_prefs_file(self, _: GuiRpcCall) -> str:
        return self._file("global_prefs.xml", "-108")

    def get_global_prefs_override(self, _: GuiRpcCall) -> str:
        return self._file("global_prefs_override.xml", "-108")

    def set_global_prefs_override(self, call: GuiRpcCall) -> str:
        return self._write("global_prefs_override.xml", call, "global_preferences")

    def _write(self, name: str, call: GuiRpcCall, element: str) -> str:
        path = self._client.folders.root / name
        found = call.node.find(element)
        if found is None or not found.raw.strip():
            path.unlink(missing_ok=True)
        else:
            text = found.raw.encode("latin-1", "replace").decode("utf-8", "replace")
            write_durably(path, f"<{element}>{text}</{element}>\n".encode())
        return SUCCESS

    def get_global_prefs_working(self, _: GuiRpcCall) -> str:
        return self._client.facts().preferences + "\n"

    def _app_config(self, call: GuiRpcCall) -> tuple[str, str]:
        url = self._control.project(call.arguments.text("url")).project.master_url
        folder = self._client.folders.project(url).relative_to(self._client.folders.root)
        return str(folder / "app_config.xml"), url

    def get_app_config(self, call: GuiRpcCall) -> str:
        return self._file(self._app_config(call)[0], "app_config.xml not found")

    def set_app_config(self, call: GuiRpcCall) -> str:
        answer = self._write(self._app_config(call)[0], call, "app_config")
        self._control.read_preferences()
        return answer

    def run_benchmarks(self, _: GuiRpcCall) -> str:
        self._control.run_benchmarks()
        return SUCCESS

    def network_available(self, _: GuiRpcCall) -> str:
        for file, *_rest in list(self._client.transfers.listed()):
            self._client.transfers.retry(file.project, file.name)
        return SUCCESS

    def quit(self, _: GuiRpcCall) -> str:
        self._control.quit()
        return SUCCESS

    def reset_host_info(self, _: GuiRpcCall) -> str:
        self._client.background(self._client.conditions.read_host())
        return SUCCESS

    # -- account manager ----------------------------------------------------------------------------------

    def acct_mgr_info(self, _: GuiRpcCall) -> str:
        manager = self._state.notes.manager
        return answers.manager_info(
            url=manager.url if manager else "",
            name=manager.name if manager else "",
            has_credentials=bool(manager and (manager.authenticator or manager.login)),
        )

    def acct_mgr_rpc(self, call: GuiRpcCall) -> str:
        given = call.arguments
        known = self._state.notes.manager
        if not given.flag("use_config_file") and not given.text("url"):
            leave_manager(self._client)
        elif given.flag("use_config_file") and known:
            manager_request(self._client, url=known.url)
        else:
            manager_request(
                self._client, url=given.text("url"), login=given.text("name"), password=given.text("password")
            )
        return SUCCESS

    def acct_mgr_rpc_poll(self, _: GuiRpcCall) -> str:
        errand = self._client.manager_errand
        return answers.poll("acct_mgr_rpc_reply", errand.error, [errand.text] if errand.text else [])


def _given(reader: FieldReader, name: str) -> bool:
    return reader.fields.get(name, "0") not in ("0",)


def _error_number(element: str, errand: Errand) -> str:
    number = errand.error or IN_PROGRESS
    return f"<{element}>\n    <error_num>{number}</error_num>\n</{element}>\n"


def _without_declaration(document: bytes) -> str:
    text = document.decode()
    return text.partition("?>\n")[2] if text.startswith("<?xml") else text


def _fixed(text: str, call: GuiRpcCall) -> str:
    return text
