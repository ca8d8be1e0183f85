"""`cc_config.xml` in force: each option has its effect, or is named as one that has none, and is undone with its line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.client_state import World, play
from tests.helpers.daemon_in_test import MovableClock, said, until
from tests.helpers.small_server import serving

from cobblestone.client.records.state import ManagerAttachment
from cobblestone.client.remote.gui_rpc_operations import Operations
from cobblestone.domain.computing import ClientConfig, Proxy
from cobblestone.domain.errors import PolicyViolation
from cobblestone.domain.values import changed
from cobblestone.wire.client import config as client_config
from cobblestone.wire.client.account_manager import ManagedAccount
from cobblestone.wire.client.config import read_client_config, read_proxy
from cobblestone.wire.client.gui_rpc import GuiRpcCall
from cobblestone.wire.scheduler.host import CoprocRequest, HostInfo
from cobblestone.wire.text.tree import read_tree

FILE = "cc_config.xml"
GPUS = (
    CoprocRequest(type="NVIDIA", count=2, name="A", peak_flops=1e12, have_opencl=True),
    CoprocRequest(type="ATI", count=1, name="B", peak_flops=1e12, have_opencl=True),
)


def options(*lines: str) -> str:
    return f"<cc_config><options>{''.join(lines)}</options></cc_config>"


def gpus(world: World) -> Any:
    in_use = {gpu.name: gpu.suspended for gpu in world.client.conditions.devices().gpus}
    told = {coproc.type: coproc.count for coproc in world.client.facts().coprocs}
    return in_use, told


def exclusions(world: World) -> Any:
    (project,) = world.client.decisions.core.state.projects
    return [(each.gpu, each.instance) for each in project.description.gpu_exclusions]


def may_attach(world: World) -> bool:
    try:
        world.client.control.attach("https://other.example.org/", "key")
    except PolicyViolation:
        return False
    world.client.state.drop_project("https://other.example.org/")
    return True


def status(world: World) -> str:
    node = read_tree(b"<get_cc_status></get_cc_status>", "get_cc_status")
    call = GuiRpcCall("get_cc_status", node.reader([]), node)
    return Operations(world.client.controls).carry_out(call)


def limits(world: World) -> Any:
    found = world.client.transfers
    exchange = found._exchange
    return found.limits.total, found.limits.per_project, exchange.patience, exchange.slowest


def says(world: World) -> str:
    before = world.client.journal.last
    world.client.transfers.say("", "Started download of x")
    return "".join(each.body for each in world.client.journal.since(before))


EFFECTS: list[tuple[str, Callable[[World], Any], Any]] = [
    ("<ncpus>3</ncpus>", lambda w: w.client.conditions.devices().ncpus, 3),
    ("<no_alt_platform/>", lambda w: w.client.facts().platforms[1:], ()),
    ("<device_name>attic</device_name>", lambda w: w.client.facts().host.domain_name, "attic"),
    ("<suppress_net_info>1</suppress_net_info>", lambda w: w.client.facts().host.ip_addr, ""),
    ("<allow_multiple_clients/>", lambda w: w.client.facts().several_clients, True),
    ("<ignore_nvidia_dev>0</ignore_nvidia_dev>", gpus, ({"NVIDIA": (0,), "ATI": ()}, {"NVIDIA": 1, "ATI": 1})),
    ("<ignore_ati_dev>-1</ignore_ati_dev>", gpus, ({"NVIDIA": ()}, {"NVIDIA": 2})),
    ("<no_gpus/>", gpus, ({}, {})),
    ("<no_opencl/>", gpus, ({"NVIDIA": ()}, {"NVIDIA": 2})),
    (
        "<suspended_gpu><type>NVIDIA</type><device_num>1</device_num></suspended_gpu>",
        gpus,
        ({"NVIDIA": (1,), "ATI": ()}, {"NVIDIA": 2, "ATI": 1}),
    ),
    (
        "<exclude_gpu><url>http://project.example.org</url><type>ATI</type></exclude_gpu>",
        exclusions,
        [("ATI", None)],
    ),
    ("<start_delay>600</start_delay>", lambda w: w.client.conditions.permission().cpu, "start_delay"),
    ("<max_file_xfers>3</max_file_xfers>", limits, (3, 2, 300.0, 10.0)),
    ("<max_file_xfers_per_project>1</max_file_xfers_per_project>", limits, (8, 1, 300.0, 10.0)),
    ("<http_transfer_timeout>60</http_transfer_timeout>", limits, (8, 2, 60.0, 10.0)),
    ("<http_transfer_timeout_bps>500</http_transfer_timeout_bps>", limits, (8, 2, 300.0, 500.0)),
    ("<http_transfer_timeout>61</http_transfer_timeout>", lambda w: w.client.connections.http.timeout.read, 61.0),
    ("<max_tasks_reported>4</max_tasks_reported>", lambda w: w.client.decisions.core.state.preferences.max_reported, 4),
    ("<report_results_immediately/>", lambda w: w.client.decisions.core.state.preferences.report_at_once, True),
    ("<max_overdue_days>1</max_overdue_days>", lambda w: w.client.decisions.core.state.preferences.may_give_up, True),
    ("<rec_half_life_days>1</rec_half_life_days>", lambda w: w.client.decisions.core.state.preferences.rec_half_life, 86400.0),
    ("<process_priority>1</process_priority>", lambda w: w.spec("wide_0_r").niceness, 10),
    ("<process_priority_special>2</process_priority_special>", lambda w: w.spec("gpu_0_r").niceness, 0),
    ("<no_priority_change/>", lambda w: w.spec("gpu_0_r").niceness, None),
    ("<stderr_head/>", lambda w: w.spec("wide_0_r").stderr_head, True),
    ("<disallow_attach/>", may_attach, False),
    ("<simple_gui_only/>", lambda w: "<simple_gui_only>1</simple_gui_only>" in status(w), True),
    ("<max_event_log_lines>150</max_event_log_lines>", lambda w: w.client.journal._messages.maxlen, 150),
    ("</options><log_flags><file_xfer>0</file_xfer></log_flags><options>", says, ""),
    ("<abort_jobs_on_exit/>", lambda w: w.client.conditions.config.abort_jobs_on_exit, True),
]  # fmt: skip


def test_each_option_has_its_effect_and_is_undone_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("x86_64-pc-linux-gnu", "i686-pc-linux-gnu")
    monkeypatch.setattr("cobblestone.client.conditions.conditions.platforms", lambda: names)

    def check(world: World) -> None:
        world.client.conditions._coprocs = GPUS
        world.client.conditions._host = HostInfo(ip_addr="192.0.2.7")
        world.write(FILE, options())
        for line, probe, expected in EFFECTS:
            before = probe(world)
            assert before != expected, line
            world.write(FILE, options(line))
            assert probe(world) == expected, line
            assert not world.client.journal.notices, line
            world.write(FILE, options())
            assert probe(world) == before, line

    play(tmp_path, check)


def test_a_client_that_is_to_end_when_idle_ends_after_its_last_job(tmp_path: Path) -> None:
    def check(world: World) -> None:
        world.write(FILE, options("<exit_when_idle/>"))
        world.client._end_when_idle()
        assert not world.client.stopping.is_set()
        world.content.jobs.clear()
        world.client._end_when_idle()
        assert world.client.stopping.is_set()

    play(tmp_path, check)


def test_no_option_of_the_family_is_ignored_in_silence() -> None:
    text = options(
        "<unsigned_apps_ok/>", "<prioritize_gpu>1</prioritize_gpu>", "<process_priority>5</process_priority>"
    )
    config, problems = read_client_config(text.encode())
    assert config.process_priority == 2
    assert len(problems) == 3
    assert "programs without the project's signature are not run" in problems[0]
    assert problems[1] == "line 1: the option <prioritize_gpu> is not supported"
    off = options(
        "<unsigned_apps_ok>0</unsigned_apps_ok>",
        "<force_auth>default</force_auth>",
        "<data_dir>/x</data_dir>",
    )
    assert read_client_config(off.encode())[1] == ()  # as managers write them


def test_what_is_read_is_used_somewhere() -> None:
    """A field of the configuration that nothing looks at would be an option ignored in silence."""
    reader = Path(client_config.__file__)
    root = reader.parents[2]
    sources = [path for room in ("client", "policy/client", "wire") for path in (root / room).rglob("*.py")]
    text = "".join(path.read_text() for path in sources if path != reader)
    unused = [
        name
        for name in ClientConfig.__dataclass_fields__
        if f".{name}" not in text and f'"{name}"' not in text
    ]
    assert unused == []


# -- proxies ------------------------------------------------------------------------------------------------


class SmallProxy:
    """Answers every request itself, by HTTP or behind a SOCKS handshake; remembers what it was asked."""

    def __init__(self, name: str, *, socks: bool = False) -> None:
        self.name, self.socks = name, socks
        self.asked: list[str] = []
        self.port = 0

    async def __aenter__(self) -> SmallProxy:
        self._serving = serving(self._serve)
        self.port = await self._serving.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._serving.__aexit__(None, None, None)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.socks:
            _, count = await reader.readexactly(2)
            methods = await reader.readexactly(count)
            writer.write(b"\5\2" if 2 in methods else b"\5\0")
            if 2 in methods:
                (_, length) = await reader.readexactly(2)
                user = await reader.readexactly(length)
                (length,) = await reader.readexactly(1)
                self.asked.append(f"{user.decode()}:{(await reader.readexactly(length)).decode()}")
                writer.write(b"\1\0")
            await reader.readexactly(3)
            (kind,) = await reader.readexactly(1)
            (length,) = await reader.readexactly(1) if kind == 3 else (4,)
            await reader.readexactly(length + 2)
            writer.write(b"\5\0\0\1\0\0\0\0\0\0")
        request = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.asked.append(request.partition("\r\n")[0])
        self.asked += [
            line for line in request.split("\r\n") if line.lower().startswith("proxy-authorization")
        ]
        body = f"through {self.name}".encode()
        writer.write(
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        )
        await writer.drain()


def proxy_info(kind: str, port: int, more: str = "") -> str:
    server = "socks" if kind == "socks" else "http"
    return options(
        f"<proxy_info><use_{kind}_proxy/><{server}_server_name>127.0.0.1</{server}_server_name>"
        f"<{server}_server_port>{port}</{server}_server_port>{more}</proxy_info>"
    )


def test_the_proxy_changes_without_a_restart_and_goes_with_its_lines(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        login = "<socks5_user_name>ann</socks5_user_name><socks5_user_passwd>p@ss:w</socks5_user_passwd>"
        async with (
            SmallProxy("http") as first,
            SmallProxy("socks", socks=True) as second,
            SmallProxy("none") as direct,
        ):

            async def fetch(host: str = "far.example.org") -> str:
                return (await world.client.connections.http.get(f"http://{host}:{direct.port}/page")).text

            world.write(
                FILE, proxy_info("http", first.port, "<no_proxy>other.example.org, 127.0.0.1</no_proxy>")
            )
            assert await fetch() == "through http"
            assert first.asked == [f"GET http://far.example.org:{direct.port}/page HTTP/1.1"]
            assert await fetch("127.0.0.1") == "through none"
            world.write(FILE, proxy_info("socks", second.port, login))
            assert await fetch() == "through socks"
            assert second.asked[0] == "ann:p@ss:w"
            world.client.control.set_proxy(  # of a manager: it goes before the file
                {"use_http_proxy": 1, "http_server_name": "127.0.0.1", "http_server_port": first.port,
                 "use_http_auth": 1, "http_user_name": "bob", "http_user_passwd": "x/y"}
            )  # fmt: skip
            assert await fetch() == "through http"
            assert first.asked[-1] == "Proxy-Authorization: Basic Ym9iOngveQ=="
            world.client.control.set_proxy({})
            assert await fetch() == "through socks"
            world.remove(FILE)
            assert await fetch("127.0.0.1") == "through none"
            assert said(world.client).count("The network is now reached through") == 5

    play(tmp_path, check)


def test_a_proxy_that_cannot_be_one_is_said_and_not_used(tmp_path: Path) -> None:
    def check(world: World) -> None:
        world.write(FILE, proxy_info("http", 99999))
        assert "<http_server_port> is 99999; it must be a number from 1 to 65535" in said(world.client)
        assert world.client.conditions.config.proxy is None

    play(tmp_path, check)


@pytest.mark.parametrize("name", ["", "a b", "http://proxy", "x" * 300, "@", "-a"])
def test_a_proxy_s_name_is_checked(name: str) -> None:
    proxy, problem = read_proxy({"use_socks_proxy": 1, "socks_server_name": name, "socks_server_port": 1080})
    assert proxy is None
    assert "not a name or address" in problem


def test_names_that_are_no_hosts_are_left_out_of_those_reached_directly() -> None:
    settings = {
        "use_http_proxy": 1,
        "http_server_name": "p",
        "http_server_port": 1,
        "no_proxy": "a.org, , b c,.d.org",
    }
    assert read_proxy(settings) == (Proxy(kind="http", host="p", port=1, direct=("a.org", ".d.org")), "")


@pytest.mark.parametrize(
    ("api", "words"), [("", ["--device", "1"]), ("6.0", ["--device", "1"]), ("7.5.0", []), ("7.20.5", [])]
)
def test_a_program_of_an_old_api_is_told_its_gpu_on_the_command_line(
    api: str, words: list[str], tmp_path: Path
) -> None:
    def check(world: World) -> None:
        world.content.versions = [
            changed(each, api_version=api) if each.coproc_type else each for each in world.content.versions
        ]
        world.content.jobs["gpu_0_r"].devices = (1,)
        assert list(world.spec("gpu_0_r").arguments) == ["--size", "3", *words]
        assert "--device" not in world.spec("wide_0_r").arguments

    play(tmp_path, check)


def prefs(*lines: str) -> str:
    return f"<global_preferences>{''.join(lines)}</global_preferences>"


def windows(name: str, start: int, end: int) -> str:
    return f"<{name}start_hour>{start}</{name}start_hour><{name}end_hour>{end}</{name}end_hour>"


IDLE = (
    "<idle_time_to_run>10</idle_time_to_run>",
    "<suspend_if_no_recent_input>5</suspend_if_no_recent_input>",
)
ACTIVE = "<run_if_user_active>{}</run_if_user_active>".format


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        (
            (*IDLE, ACTIVE(0)),
            ("idle_time_to_run", "suspend_if_no_recent_input", "10.0 minutes", "5.0 minutes"),
        ),
        ((windows("", 24, 0),), ("start_hour", "end_hour")),
        ((windows("net_", 24, 0),), ("net_start_hour", "net_end_hour")),
        (("<disk_min_free_gb>900000</disk_min_free_gb>",), ("disk_min_free_gb",)),
    ],
)
def test_preferences_that_leave_no_moment_are_named_until_they_are_corrected(
    lines: tuple[str, ...], named: tuple[str, ...], tmp_path: Path
) -> None:
    def check(world: World) -> None:
        world.write("global_prefs_override.xml", prefs(*lines))
        (notice,) = world.client.journal.notices.since(0)
        assert all(each in notice.description for each in named), notice.description
        assert "<" not in notice.description  # managers show it as HTML
        world.write("global_prefs_override.xml", prefs())
        assert len(world.client.journal.notices) == 0

    play(tmp_path, check)


@pytest.mark.parametrize(
    "lines",
    [
        (*IDLE, ACTIVE(1)),
        (IDLE[0], "<suspend_if_no_recent_input>15</suspend_if_no_recent_input>", ACTIVE(0)),
        (windows("", 22, 6), windows("net_", 0, 0)),
        (windows("", 24, 0), f"<day_prefs><day_of_week>6</day_of_week>{windows('', 0, 24)}</day_prefs>"),
    ],
)
def test_preferences_that_leave_a_moment_are_not_named(lines: tuple[str, ...], tmp_path: Path) -> None:
    def check(world: World) -> None:
        world.write("global_prefs_override.xml", prefs(*lines))
        assert len(world.client.journal.notices) == 0

    play(tmp_path, check)


def test_what_stops_all_computing_for_a_day_is_named(tmp_path: Path) -> None:
    clock = MovableClock()

    def check(world: World) -> None:
        conditions = world.client.conditions
        conditions._situation = changed(conditions._situation, exclusive_app="systemd")
        world.look()
        clock.offset += 86_000
        world.look()
        assert "for a day" not in said(world.client)
        clock.offset += 1_000
        world.look()
        assert "Nothing has been computed for a day: systemd is running" in said(world.client)

    play(tmp_path, check, clock)


@pytest.mark.parametrize(
    ("bound", "strict", "limit"),
    [(5e8, False, 1e9), (1e8, False, 1e8 + 2**28), (5e8, True, 5e8), (0.0, False, 16e9), (1e11, False, 16e9)],
)
def test_a_job_that_takes_far_more_memory_than_its_bound_is_ended(
    bound: float, strict: bool, limit: float, tmp_path: Path
) -> None:
    def check(world: World) -> None:
        conditions = world.client.conditions
        conditions._host = changed(conditions._host, m_nbytes=16e9)
        world.content.project.strict_memory_bound = strict
        name = world.content.jobs["wide_0_r"].result.wu_name
        world.content.workunits[name] = changed(world.content.workunits[name], rsc_memory_bound=bound)
        assert world.spec("wide_0_r").limits.memory_bytes == limit

    play(tmp_path, check)


def test_contacts_are_as_far_apart_as_the_volunteer_wants_except_when_asked_for(tmp_path: Path) -> None:
    clock = MovableClock()

    def check(world: World) -> None:
        interval = "<connection_interval_days>2</connection_interval_days>"
        world.write("global_prefs_override.xml", prefs(interval))
        state = world.client.decisions.core.state
        assert state.preferences.connection_interval == 2 * 86_400.0
        state.last_contact = clock()
        assert not state.may_contact(clock() + 86_400.0)
        assert state.may_contact(clock() + 3 * 86_400.0)
        world.client.control.update(world.content.project.master_url)
        world.client.loop.drain()
        assert state.may_contact(clock() + 1.0) or state.contact is not None

    play(tmp_path, check, clock)


def test_a_project_attached_by_hand_can_be_left_although_a_manager_lists_it(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        client, url = world.client, world.content.project.master_url
        account = ManagerAttachment(url="https://manager.example.org/")
        client.state.notes.manager = account
        wanted = ManagedAccount(url=url, url_signature="", authenticator="other_key", resource_share=7.0)
        client.manager._obey(account, wanted)
        assert world.content.project.resource_share == 7.0
        client.control.detach(url)
        await until(lambda: url not in client.state.contents, seconds=30, what="the end of the project")
        client.manager._obey(account, wanted)
        assert url not in client.state.contents
        assert "has not signed" not in said(client)

    play(tmp_path, check)
