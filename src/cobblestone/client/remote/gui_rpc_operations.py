"""The operations of GUI RPC and their replies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cobblestone.client.records.app_versions import with_versions_in_force
from cobblestone.client.records.identity import VERSION, platforms
from cobblestone.client.remote.commands import Controls
from cobblestone.client.remote.control import ALWAYS, AUTO, IN_PROGRESS, NEVER, RESTORE, Errand
from cobblestone.domain.errors import CobblestoneError, ConfigError, Conflict, NotFound
from cobblestone.domain.values import DAY, HOUR
from cobblestone.wire.client import gui_rpc as answers
from cobblestone.wire.client.config import FLAGS, MAX_FILE_BYTES, NUMBERS, TEXTS, read_proxy
from cobblestone.wire.client.gui_rpc import SUCCESS, GuiRpcCall, NoticeEntry
from cobblestone.wire.project.account import write_account_out
from cobblestone.wire.project.pages import write_project_config
from cobblestone.wire.text.reader import FieldReader

#: Returns the content of the reply; None: it was done.
Handler = Callable[[GuiRpcCall], str | None]


class Operations:
    """Carries out calls."""

    def __init__(self, controls: Controls) -> None:
        self._view = controls.view
        self._state = controls.view.state
        self._control = controls.control
        self._manager = controls.manager
        self._attach_errand = Errand(0)
        self._identity = answers.ClientIdentity(version=VERSION, platforms=platforms())
        self._handlers: dict[str, Handler] = {
            **self._looks(),
            **self._orders_for_projects(),
            **self._settings(),
        }

    def carry_out(self, call: GuiRpcCall) -> str:
        """Return the content of the reply.  Raises CobblestoneError if the call fails."""
        handler = self._handlers.get(call.operation)
        if handler is None:
            raise NotFound(f"unrecognized op: {call.operation}")
        content = handler(call)
        return SUCCESS if content is None else content

    # -- looking ------------------------------------------------------------------------------------------

    def _looks(self) -> dict[str, Handler]:
        view, state, journal = self._view, self._state, self._view.journal

        def since(call: GuiRpcCall) -> list[NoticeEntry]:
            return journal.notices.since(call.arguments.integer("seqno"))

        return {
            "get_state": self._get_state,
            "get_results": lambda call: answers.results(
                view.contents(), active_only=call.arguments.flag("active_only")
            ),
            "get_simple_gui_info": lambda _: answers.simple_gui_info(view.contents()),
            "get_screensaver_tasks": lambda _: answers.screensaver_tasks(
                view.contents(), view.conditions.modes()["task"].suspend_reason
            ),
            "get_project_status": lambda _: answers.project_status([c.project for c in view.contents()]),
            "get_cc_status": self._get_cc_status,
            "get_host_info": self._get_host_info,
            "get_disk_usage": self._get_disk_usage,
            "get_file_transfers": self._get_file_transfers,
            "get_messages": lambda call: answers.messages(journal.since(call.arguments.integer("seqno"))),
            "get_message_count": lambda _: f"<seqno>{journal.last}</seqno>\n",
            "get_notices": lambda call: answers.notices(since(call)),
            "get_notices_public": lambda call: answers.notices([n for n in since(call) if not n.is_private]),
            "get_statistics": self._get_statistics,
            "get_daily_xfer_history": lambda _: answers.daily_transfers(
                state.transferred(int(view.loop.clock() // 86400) - 30)
            ),
            "get_old_results": lambda _: answers.old_results(state.history(view.loop.clock() - HOUR)),
            "exchange_versions": lambda _: answers.client_version(self._identity),
            "get_newer_version": lambda _: answers.newer_version(),
            "get_all_projects_list": self._all_projects_list,
        }

    def _get_state(self, _: GuiRpcCall) -> str:
        facts = self._view.facts()
        return answers.state(
            host=facts.host,
            coprocs=facts.coprocs,
            net=self._state.notes.net_stats,
            times=facts.time_stats,
            contents=map(with_versions_in_force, self._view.contents()),
            identity=self._identity,
            preferences=facts.preferences,
            venue=self._view.conditions.venue(),
        )

    def _get_cc_status(self, _: GuiRpcCall) -> str:
        manager = self._state.notes.manager
        return answers.cc_status(
            self._view.conditions.modes(),
            network_status=0,
            bad_manager_password=bool(manager and manager.bad_password),
            config=self._view.conditions.config,
        )

    def _get_host_info(self, _: GuiRpcCall) -> str:
        from cobblestone.wire.scheduler.host import write_host_info

        facts = self._view.facts()
        return write_host_info(facts.host, facts.coprocs, with_coprocs=True)

    def _get_disk_usage(self, _: GuiRpcCall) -> str:
        total, free = self._view.folders.free_space()
        used, allowed = self._view.conditions.disk()
        projects = [content.project for content in self._state.contents.values()]
        return answers.disk_usage(projects, total=total, free=free, used=used, allowed=allowed)

    def _get_file_transfers(self, _: GuiRpcCall) -> str:
        rows = (
            (file, self._state.contents[file.project].project.project_name, progress, backoff)
            for file, progress, backoff in self._view.transfers.listed()
        )
        return answers.file_transfers(rows, self._view.loop.clock())

    def _get_statistics(self, _: GuiRpcCall) -> str:
        since = self._view.loop.clock() - self._view.conditions.config.save_stats_days * DAY
        return answers.statistics({url: self._state.credit_days(url, since) for url in self._state.contents})

    # -- projects, jobs and files -------------------------------------------------------------------------

    def _orders_for_projects(self) -> dict[str, Handler]:
        control = self._control

        def flag(**flags: bool) -> Handler:
            return lambda call: control.change_project(_url(call), **flags)

        def suspend(suspended: bool) -> Handler:
            return lambda call: control.suspend_job(_url(call), call.arguments.name(), suspended=suspended)

        return {
            "get_project_config": self._get_project_config,
            "get_project_config_poll": lambda _: _result(
                "project_config", control.config_errand, write_project_config
            ),
            "get_project_init_status": lambda _: answers.project_init_status(),
            "lookup_account": self._lookup_account,
            "lookup_account_poll": self._account_poll,
            "create_account": self._create_account,
            "create_account_poll": self._account_poll,
            "project_attach": self._project_attach,
            "project_attach_poll": lambda _: _poll("project_attach_reply", self._attach_errand),
            "project_suspend": flag(suspended_via_gui=True),
            "project_resume": flag(suspended_via_gui=False),
            "project_nomorework": flag(dont_request_more_work=True),
            "project_allowmorework": flag(dont_request_more_work=False),
            "project_detach_when_done": flag(detach_when_done=True),
            "project_dont_detach_when_done": flag(detach_when_done=False),
            "project_update": lambda call: control.update(_url(call)),
            "project_reset": lambda call: control.reset(_url(call)),
            "project_detach": lambda call: control.detach(_url(call)),
            "suspend_result": suspend(True),
            "resume_result": suspend(False),
            "abort_result": lambda call: control.abort_job(_url(call), call.arguments.name()),
            "retry_file_transfer": lambda call: control.retry_transfer(_url(call), _file_name(call)),
            "abort_file_transfer": lambda call: control.abort_transfer(_url(call), _file_name(call)),
            "network_available": lambda _: control.retry_transfers(),
        }

    def _get_project_config(self, call: GuiRpcCall) -> None:
        self._control.ask_config(call.arguments.text("url"))

    def _lookup_account(self, call: GuiRpcCall) -> None:
        given = call.arguments
        self._control.look_up_account(
            given.text("url"), given.text("email_addr").lower(), given.text("passwd_hash")
        )

    def _create_account(self, call: GuiRpcCall) -> None:
        given = call.arguments
        self._control.create_account(
            given.text("url"),
            given.text("email_addr").lower(),
            given.text("passwd_hash"),
            given.text("user_name"),
            given.text("team_name"),
            consent=given.flag("consented_to_terms"),
        )

    def _account_poll(self, _: GuiRpcCall) -> str:
        return _result("account_out", self._control.account_errand, write_account_out)

    def _project_attach(self, call: GuiRpcCall) -> None:
        given = call.arguments
        errand = self._attach_errand = Errand(0)
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

    # -- modes, preferences, configuration, account manager -----------------------------------------------

    def _settings(self) -> dict[str, Handler]:
        control, view = self._control, self._view

        def mode(which: str) -> Handler:
            return lambda call: self._set_mode(call, which)

        def write(name: str, element: str) -> Handler:
            return lambda call: self._write(name, call, element)

        return {
            "set_run_mode": mode("run"),
            "set_gpu_mode": mode("gpu"),
            "set_network_mode": mode("network"),
            "get_proxy_settings": lambda _: answers.proxy_settings(self._state.notes.proxy),
            "set_proxy_settings": self._set_proxy_settings,
            "read_cc_config": lambda _: control.read_preferences(),
            "read_global_prefs_override": lambda _: control.read_preferences(),
            "get_cc_config": lambda _: self._file("cc_config.xml", "cc_config.xml not found"),
            "set_cc_config": write("cc_config.xml", "cc_config"),
            "get_global_prefs_file": lambda _: self._file("global_prefs.xml", "-108"),
            "get_global_prefs_override": lambda _: self._file("global_prefs_override.xml", "-108"),
            "set_global_prefs_override": write("global_prefs_override.xml", "global_preferences"),
            "get_global_prefs_working": lambda _: view.facts().preferences + "\n",
            "get_app_config": lambda call: self._file(self._app_config(call), "app_config.xml not found"),
            "set_app_config": self._set_app_config,
            "run_benchmarks": lambda _: control.run_benchmarks(),
            "quit": lambda _: control.quit(),
            "reset_host_info": lambda _: control.read_host(),
            "set_host_info": self._set_host_info,
            "set_language": lambda _: None,
            "acct_mgr_info": self._acct_mgr_info,
            "acct_mgr_rpc": self._acct_mgr_rpc,
            "acct_mgr_rpc_poll": lambda _: _poll("acct_mgr_rpc_reply", self._manager.errand),
        }

    def _set_mode(self, call: GuiRpcCall, which: str) -> None:
        named = {"always": ALWAYS, "auto": AUTO, "never": NEVER, "restore": RESTORE}
        mode = next((number for name, number in named.items() if call.has(name)), 0)
        if not mode:
            raise NotFound("missing mode: always, auto, never or restore")
        self._control.set_mode(which, mode, call.arguments.number("duration"))

    def _set_proxy_settings(self, call: GuiRpcCall) -> None:
        inner = call.node.find("proxy_info")
        given = inner.reader([]) if inner else call.arguments
        settings: dict[str, str | int] = {name: given.text(name, 255) for name in TEXTS}
        settings |= {name: given.integer(name, 80 if "port" in name else 0, 0, 65535) for name in NUMBERS}
        settings |= {name: int(_given(given, name)) for name in FLAGS}
        _, problem = read_proxy(settings)
        if problem:
            raise ConfigError(f"The proxy cannot be used: {problem}.")
        self._control.set_proxy(settings)

    def _file(self, name: str, missing: str) -> str:
        path = self._view.folders.root / name
        if not path.is_file():
            raise NotFound(missing)
        return path.read_text(encoding="utf-8", errors="replace").strip() + "\n"

    def _write(self, name: str, call: GuiRpcCall, element: str) -> None:
        found = call.node.find(element)
        content = b""
        if found is not None and found.raw.strip():
            text = found.raw.encode("latin-1", "replace").decode("utf-8", "replace")
            content = f"<{element}>{text}</{element}>\n".encode()
        self._control.write_file(name, content)

    def _app_config(self, call: GuiRpcCall) -> str:
        url = self._control.project(call.arguments.text("url")).project.master_url
        return str(self._view.folders.project(url).relative_to(self._view.folders.root) / "app_config.xml")

    def _set_app_config(self, call: GuiRpcCall) -> None:
        self._write(self._app_config(call), call, "app_config")
        self._control.read_preferences()

    def _set_host_info(self, call: GuiRpcCall) -> None:
        if (found := call.node.find("host_info")) is not None:
            self._control.name_product(found.reader([]).text("product_name", 255))

    def _all_projects_list(self, _: GuiRpcCall) -> str:
        """Return the list that BOINC's client has left in the folder; ours fetches none."""
        try:
            body = (self._view.folders.root / "all_projects_list.xml").read_bytes()[:MAX_FILE_BYTES]
            return _inside(body, "projects")
        except OSError:
            return ""

    def _acct_mgr_info(self, _: GuiRpcCall) -> str:
        manager = self._state.notes.manager
        return answers.manager_info(
            url=manager.url if manager else "",
            name=manager.name if manager else "",
            has_credentials=bool(manager and (manager.authenticator or manager.login)),
        )

    def _acct_mgr_rpc(self, call: GuiRpcCall) -> None:
        args = call.arguments
        known = self._state.notes.manager
        if not args.flag("use_config_file") and not args.text("url"):
            self._manager.leave()
        elif args.flag("use_config_file"):
            if known is None:
                raise NotFound("no account manager is in use")
            self._manager.use(url=known.url)
        else:
            self._manager.use(url=args.text("url"), login=args.text("name"), password=args.text("password"))


def _url(call: GuiRpcCall) -> str:
    return call.arguments.text("project_url")


def _file_name(call: GuiRpcCall) -> str:
    return call.arguments.text("filename")


def _poll(element: str, errand: Errand) -> str:
    return answers.poll(element, errand.error, [errand.text] if errand.text else [])


def _given(reader: FieldReader, name: str) -> bool:
    return reader.fields.get(name, "0") not in ("0",)


def _result(element: str, errand: Errand, write: Callable[[Any], bytes]) -> str:
    if errand.error or errand.result is None:
        return f"<{element}>\n    <error_num>{errand.error or IN_PROGRESS}</error_num>\n</{element}>\n"
    text = write(errand.result).decode()
    return text.partition("?>\n")[2] if text.startswith("<?xml") else text


def _inside(document: bytes, element: str) -> str:
    """Return an element of a document as it stands there; empty if there is none."""
    begin, end = document.find(b"<%s>" % element.encode()), document.rfind(b"</%s>" % element.encode())
    return document[begin:end].decode("utf-8", "replace") + f"</{element}>\n" if 0 <= begin < end else ""
