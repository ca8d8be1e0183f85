"""The page that computes, in a real browser beside the native launcher: the same bits, and credit for both."""

from __future__ import annotations

import json
import os
import random
import re
import socket
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
import uvicorn
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import FrameLocator, Page, Route, expect
from tests.browser.conftest import CHROMIUM, FLAGS
from tests.browser.test_accessibility import findings
from tests.browser.windows import LOOKS, Watched, fits
from tests.helpers.browser import Browser, release
from tests.helpers.eventually import eventually
from tests.helpers.float_torture import float_torture
from tests.helpers.project_world import PLATFORM, SimHost, World
from tests.helpers.served_world import LoopThread
from tests.helpers.store_content import as_input
from tests.helpers.volunteers import PASSWORD, email
from tests.helpers.wasm_calls import every_call
from tests.helpers.wasm_slot import (
    CHECKPOINT_INSTRUCTIONS,
    DRAWS_OFTEN,
    FOREVER,
    diary,
    draws,
    module,
    open_wasm_slot,
    steps,
)

from cobblestone.demo.chromium import Tab
from cobblestone.domain.apps import BROWSER_SILENCE, App
from cobblestone.domain.work import JobLimits, OutputSpec
from cobblestone.launcher.packing import wasm_description
from cobblestone.sdk.wasm.instrument import instrument
from cobblestone.sdk.wasm.one_nan import with_one_nan
from cobblestone.server.app import create_app

LIMITS = JobLimits(rsc_fpops_est=1e9, rsc_fpops_bound=1e11, rsc_memory_bound=64e6)
PATIENCE_MS = 90_000
OPTIONS = "--input input=input --output output=output"
NATIVE_SECONDS = 1800.0
#: Says how far it is, prints, and fails.
FAILS = module("(call $put (i32.const 2) @words) unreachable", words="I cannot do this")
#: A computer that is plugged in or not, as the test says.
BATTERY = """(() => {
    const power = Object.assign(new EventTarget(), {charging: true});
    navigator.getBattery = async () => power;
    window.plugIn = (on) => {
        power.charging = on;
        power.dispatchEvent(new Event("chargingchange"));
    };
})()"""
CHECKPOINT_IS_KEPT = """() => new Promise((done) => {
    const opening = indexedDB.open("cobblestone:/");
    opening.onupgradeneeded = () => opening.transaction.abort();  // the page has not made it yet: nor does this
    opening.onerror = (event) => { event.preventDefault(); done(false); };
    opening.onsuccess = () => {
        const asking = opening.result.transaction("jobs").objectStore("jobs").getAll();
        asking.onsuccess = () => done(asking.result.some((record) => record.state));
        opening.result.close();
    };
})"""


@dataclass(frozen=True, kw_only=True)
class Program:
    """What an app runs, on what input."""

    module: bytes
    words: Sequence[str] = ("program",)
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    given: bytes = b""
    limits: JobLimits = LIMITS


@dataclass
class Computing:
    """A project with apps for browsers, served on loopback."""

    world: World
    url: str
    chromium: Chromium
    folder: Path
    programs: dict[str, Program] = field(default_factory=dict[str, Program])
    pages: list[Watched] = field(default_factory=list[Watched])
    counts: list[int] = field(default_factory=list[int])  #: of native runs

    def app(self, name: str, code: bytes, limits: JobLimits = LIMITS, *, given: bytes = b"") -> App:
        """Make an app of a module, for one native platform and for browsers, with one job."""
        return self.app_of(name, Program(module=with_one_nan(code), limits=limits, given=given))

    def app_of(self, name: str, program: Program) -> App:
        """Make an app of a program whose NaNs have one form."""
        self.programs[name] = program
        description = wasm_description(
            program.words,
            module="program.wasm",
            module_sha256="",
            native_sha256=(),
            files=program.files,
            environment=program.environment,
            checkpoint_instructions=CHECKPOINT_INSTRUCTIONS,
        )
        app = self.world.add_app(
            name, quorum=2, limits=program.limits, platform=PLATFORM, outputs=[OutputSpec(open_name="output")]
        )
        release(self.world, app, instrument(program.module, name), description, program.files)
        given = as_input(self.world.store_file("input", program.given), "input")
        self.world.add_jobs(app, command_line=OPTIONS, inputs=[given])
        return app

    def open(self, look: str = "desktop", path: str = "compute") -> Page:
        """Open the page in a browser of its own."""
        context = self.chromium.new_context(base_url=self.url, **LOOKS[look])
        watched = Watched(context.new_page())
        self.pages.append(watched)
        watched.page.goto(path)
        return watched.page

    def compute_natively(self, host: SimHost) -> None:
        """Have a native host compute what it gets, with the launcher that volunteers' clients start."""
        host.rpc(ask=1)
        for name in host.new_results():
            workunit = name.rpartition("_")[0]
            with open_wasm_slot(self.folder / name) as slot:
                program = self.programs[name.partition("_")[0]]
                slot.write_bounds(
                    fpops_est=program.limits.rsc_fpops_est,
                    memory_bound=program.limits.rsc_memory_bound,
                    checkpoint_period=NATIVE_SECONDS,
                )
                about = re.sub("<wu_name>.*?<", f"<wu_name>{workunit}<", slot.read("init_data.xml"))
                slot.write("init_data.xml", about)
                slot.lay_out(
                    program.module, words=program.words, files=program.files, environment=program.environment
                )
                (slot.folder / "input").write_bytes(program.given)
                slot.start_module(*OPTIONS.split())
                assert slot.wait(NATIVE_SECONDS) == 0, slot.read("stderr.txt")
                output = (slot.folder / "output").read_bytes()
                self.counts.append(slot.counted)
            host.rpc(reports=[host.finish(name, output)])
        self.world.settle()

    def counted_in_tabs(self) -> int:
        """The instructions of the job that a browser has computed."""
        return self.world.value("SELECT MAX(intops_counted) FROM result")

    def verdicts(self, app: App) -> Sequence[tuple[int, ...]]:
        return self.world.query(
            "SELECT validate_state, granted_credit > 0 FROM result WHERE app_id = ? ORDER BY id", app.id
        )


@pytest.fixture
def computing(tmp_path: Path, browser: Chromium) -> Iterator[Computing]:
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    settings = {"project": {"url": url, "name": "Sunspots"}, "browsers": {"origins": [url.rstrip("/")]}}
    world = World(tmp_path / "project", **settings)
    server = uvicorn.Server(uvicorn.Config(create_app(world.ctx), log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="compute")
    with LoopThread(world):
        thread.start()
        found = Computing(world, url, browser, tmp_path)
        yield found
        for watched in found.pages:
            watched.page.context.close()
        server.should_exit = True
        thread.join()
    listener.close()
    closing = threading.Thread(target=world.close)  # in this thread the browser's event loop runs
    closing.start()
    closing.join()


def start(page: Page | FrameLocator) -> None:
    button = page.get_by_role("button", name="Start computing")
    expect(button).to_be_enabled(timeout=PATIENCE_MS)  # by the page's program; a key before that does nothing
    button.press("Enter")


def computes(page: Page) -> None:
    """Wait until a task says how far it is."""
    expect(page.get_by_role("progressbar")).not_to_have_js_property("value", 0, timeout=PATIENCE_MS)


def keeps_checkpoint(page: Page) -> None:
    """Wait until the browser's storage holds the state of a task."""
    eventually(lambda: page.evaluate(CHECKPOINT_IS_KEPT), seconds=PATIENCE_MS / 1000)


def done(page: Page, n: int = 1, *, patience_ms: int = PATIENCE_MS) -> None:
    """Wait until so many tasks were computed and taken."""
    expect(page.locator("[data-part=jobs]")).to_have_text(str(n), timeout=patience_ms)


def test_a_tab_and_a_native_host_agree_on_every_bit_of_the_hardest_numbers_and_both_are_credited(
    computing: Computing,
):
    app = computing.app("torture", float_torture())
    page = computing.open()
    start(page)
    done(page)
    computing.compute_natively(computing.world.host(computing.world.user("alice")))
    assert computing.verdicts(app) == [(1, 1), (1, 1)]
    assert page.evaluate("crossOriginIsolated") is True


def test_every_call_of_the_host_gives_the_same_answer_and_count_in_a_tab_and_natively(computing: Computing):
    app = computing.app("calls", every_call(), given=b"some bytes to read")
    page = computing.open()
    start(page)
    done(page)
    in_tab = computing.counted_in_tabs()
    computing.compute_natively(computing.world.host(computing.world.user("alice")))
    assert computing.verdicts(app) == [(1, 1), (1, 1)]
    assert computing.counts == [in_tab]


def test_a_closed_tab_goes_on_with_its_random_bytes_and_its_time(computing: Computing):
    app = computing.app("draws", draws(600, 30), replace(LIMITS, rsc_fpops_bound=1e13))
    page = computing.open()
    start(page)
    keeps_checkpoint(page)
    page.goto("about:blank")
    page.goto(f"{computing.url}compute")
    start(page)
    done(page)
    in_tab = computing.counted_in_tabs()
    computing.compute_natively(computing.world.host(computing.world.user("alice")))
    assert computing.verdicts(app) == [(1, 1), (1, 1)]
    assert computing.counts == [in_tab]


def test_a_loop_of_calls_of_the_host_says_how_far_it_is(computing: Computing):
    """So it also stands still when it is asked to: both happen at the same places."""
    computing.app("often", DRAWS_OFTEN)
    page = computing.open()
    start(page)
    computes(page)


def test_a_program_that_leaves_its_files_in_disorder_gives_the_bytes_and_the_count_of_the_native_launcher(
    computing: Computing,
):
    app = computing.app("diary", diary(8000))
    page = computing.open()
    start(page)
    for pause in (100, 300):
        keeps_checkpoint(page)
        page.wait_for_timeout(pause)
        page.goto("about:blank")
        page.goto(f"{computing.url}compute")
        start(page)
    done(page)
    in_tab = computing.counted_in_tabs()
    computing.compute_natively(computing.world.host(computing.world.user("alice")))
    assert computing.verdicts(app) == [(1, 1), (1, 1)]
    assert computing.counts == [in_tab]


def test_a_closed_tab_goes_on_from_its_checkpoint_and_gives_the_bytes_and_count_of_a_straight_run(
    computing: Computing,
):
    app = computing.app("steps", steps(600_000_000))
    page = computing.open()
    start(page)
    keeps_checkpoint(page)
    page.goto("about:blank")  # the tab is closed: its threads end
    page.goto(f"{computing.url}compute")
    start(page)
    done(page)
    computing.compute_natively(computing.world.host(computing.world.user("alice")))
    assert computing.verdicts(app) == [(1, 1), (1, 1)]
    assert computing.counts == [computing.counted_in_tabs()]


def test_the_tab_of_the_demonstration_computes_by_itself_and_leaves_nothing_behind(
    computing: Computing, tmp_path: Path
):
    computing.app("forever", FOREVER)
    tab = Tab(tmp_path / "tab")
    try:
        tab.start()
        tab.compute(computing.url)
        eventually(lambda: any(task.fraction_done > 0 for task in tab.tasks()), seconds=PATIENCE_MS / 1000)
        tab.update(computing.url)
    finally:
        tab.stop()
    left = [" ".join(each.info["cmdline"] or ()) for each in psutil.process_iter(["cmdline"])]
    assert [words for words in left if str(tmp_path / "tab") in words] == []


def test_it_stands_still_when_asked_and_goes_on_where_it_was(computing: Computing):
    computing.app("forever", FOREVER)
    page = computing.open()
    start(page)
    computes(page)
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("[data-part=status]")).to_have_text("Paused.")
    page.get_by_role("button", name="Continue").click()
    counted = page.locator("[data-part=instructions]")
    before = counted.inner_text()
    expect(counted).not_to_have_text(before, timeout=PATIENCE_MS)
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("progressbar")).to_have_count(0)
    start(page)  # the job is still there
    computes(page)


def test_a_paused_page_speaks_and_one_that_returns_late_hears_where_its_job_went(computing: Computing):
    computing.app("forever", FOREVER)
    page = computing.open()
    page.clock.install()
    page.reload()
    start(page)
    computes(page)
    page.get_by_role("button", name="Pause").click()
    with page.expect_request(lambda asked: '"wanted":0' in (asked.post_data or "")):
        page.clock.fast_forward(61_000)
    page.goto("about:blank")
    computing.world.now += BROWSER_SILENCE + 1
    computing.world.settle()
    assert len(Browser(computing.world, address="203.0.113.9").ask()["jobs"]) == 1
    page.goto(f"{computing.url}compute")
    start(page)
    expect(page.locator("[data-part=message]")).to_contain_text("went to another browser")


def test_a_module_that_fails_or_never_ends_is_reported_with_its_words(computing: Computing):
    computing.app("fails", FAILS)
    computing.app("forever", FOREVER, replace(LIMITS, rsc_fpops_bound=1e9))
    page = computing.open()
    start(page)
    look = "SELECT COUNT(*) FROM result WHERE exit_status <> 0 AND host_id IS NOT NULL"
    eventually(lambda: computing.world.value(look) == 2, seconds=PATIENCE_MS / 1000)
    found = computing.world.query(
        "SELECT r.exit_status, t.stderr FROM result r JOIN result_text t ON t.result_id = r.id ORDER BY r.exit_status"
    )
    assert [row[0] for row in found] == [134, 197]
    failed, endless = (zlib.decompress(row[1]).decode() for row in found)
    assert "I cannot do this" in failed
    assert "the module failed" in failed
    assert "more than 1000000000 instructions" in endless


def test_a_slow_network_shows_how_far_it_is_and_stop_stops_that_too(computing: Computing):
    computing.app(
        "large", module("(loop $again (br $again))", large=random.Random(1).randbytes(50_000).hex())
    )
    page = computing.open()
    network = page.context.new_cdp_session(page)
    network.send("Network.enable")
    slow = {"offline": False, "latency": 20, "downloadThroughput": 25_000, "uploadThroughput": 25_000}
    network.send("Network.emulateNetworkConditions", slow)
    start(page)
    expect(page.locator("[data-part=state]")).to_have_text(
        re.compile(r"[1-9]\d? % / 0\.1\d MB"), timeout=PATIENCE_MS
    )
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("progressbar")).to_have_count(0)
    expect(page.locator("[data-part=message]")).to_be_empty()
    network.send("Network.emulateNetworkConditions", slow | {"downloadThroughput": -1})
    start(page)
    computes(page)
    network.send("Network.emulateNetworkConditions", slow | {"offline": True})
    page.get_by_label("Tasks at the same time").select_option("2")  # it asks for a further job
    expect(page.locator("[data-part=message]")).to_contain_text("cannot be reached")
    computes(page)


def test_it_starts_again_while_its_last_request_is_still_under_way(computing: Computing):
    computing.app("endless", module("(loop $again (br $again))"))
    page = computing.open()
    slow: list[Route] = []

    def hold(route: Route) -> None:
        slow.append(route)

    page.route("**/api/v1/browsers/work", hold)
    start(page)
    while not slow:
        page.wait_for_timeout(20)
    page.get_by_role("button", name="Stop").click()
    start(page)
    slow[0].continue_()
    page.unroute("**/api/v1/browsers/work", hold)
    computes(page)
    expect(page.locator("[data-part=message]")).to_be_empty()


def test_a_browser_that_may_keep_nothing_computes_all_the_same_and_says_what_is_lost(
    computing: Computing, tmp_path: Path
):
    app = computing.app("steps", steps(100_000_000))
    folder = tmp_path / "profile" / "Default"
    folder.mkdir(parents=True)
    blocked = {"profile": {"default_content_setting_values": {"cookies": 2}}}  # as for all data of sites
    (folder / "Preferences").write_text(json.dumps(blocked))
    context = computing.chromium.browser_type.launch_persistent_context(
        folder.parent, executable_path=CHROMIUM, args=FLAGS, base_url=computing.url
    )
    try:
        page = context.new_page()
        page.goto("compute")
        start(page)
        expect(page.locator("[data-part=storage]")).to_contain_text("no storage", timeout=PATIENCE_MS)
        done(page)
    finally:
        context.close()
    computing.compute_natively(computing.world.host(computing.world.user("alice")))
    assert computing.verdicts(app) == [(1, 1), (1, 1)]
    assert (
        computing.world.value("SELECT COUNT(*) FROM host") == 2
    )  # its token was kept while the tab was open


def test_a_full_storage_is_said_and_loses_no_task(computing: Computing):
    app = computing.app("steps", steps(100_000_000))
    page = computing.open()
    developer = page.context.new_cdp_session(page)
    developer.send("Storage.overrideQuotaForOrigin", {"origin": computing.url, "quotaSize": 1})
    start(page)
    expect(page.locator("[data-part=storage]")).to_contain_text("no storage", timeout=PATIENCE_MS)
    done(page)
    computing.compute_natively(computing.world.host(computing.world.user("alice")))
    assert computing.verdicts(app) == [(1, 1), (1, 1)]


def test_whoever_logs_in_has_the_credit_and_the_computer_is_theirs(computing: Computing):
    app = computing.app("steps", steps(3_000_000))
    computing.world.user("carol")
    page = computing.open(path="login.php?next=compute")
    page.get_by_label("E-mail address").fill(email("carol"))
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    start(page)
    done(page)
    expect(page.locator("[data-part=status]")).to_have_text("Waiting for tasks.")
    expect(page.locator("[data-part=account]")).to_have_text("Carol")
    computing.compute_natively(computing.world.host(computing.world.user("alice")))
    assert computing.verdicts(app) == [(1, 1), (1, 1)]
    assert computing.world.value("SELECT total_credit FROM user_account WHERE name = 'Carol'") > 0
    page.goto("home.php")
    expect(page.get_by_role("cell", name="browser")).to_be_visible()


class LabPage(BaseHTTPRequestHandler):
    """The page of a scientist, with the button of the project that its path names."""

    def do_GET(self) -> None:
        frame = f'<iframe src="{self.path[1:]}compute_frame" width="460" height="640"></iframe>'
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(frame.encode())


def test_a_page_of_another_site_shows_the_button_only_if_the_operator_names_it(
    computing: Computing, monkeypatch: pytest.MonkeyPatch
):
    computing.app("steps", steps(30_000_000))
    page = computing.open(path="login.php")
    with ThreadingHTTPServer(("127.0.0.1", 0), LabPage) as lab:
        threading.Thread(target=lab.serve_forever).start()
        origin = f"http://localhost:{lab.server_port}"
        frame = page.frame_locator("iframe")
        page.goto(f"{origin}/{computing.url}")
        expect(frame.locator("body")).to_contain_text("refused to connect")
        monkeypatch.setitem(computing.world.ctx.settings.browsers.__dict__, "origins", [origin])
        page.goto(f"{origin}/{computing.url}")
        start(frame)
        expect(frame.locator("[data-part=jobs]")).to_have_text("1", timeout=PATIENCE_MS)
        expect(frame.locator("[data-part=account]")).to_have_text("all visitors")
        lab.shutdown()


def test_on_battery_it_stands_still_as_chosen_and_a_second_tab_says_that_the_first_computes(
    computing: Computing,
):
    computing.app("forever", FOREVER)
    page = computing.open()
    page.context.add_init_script(BATTERY)
    page.reload()
    start(page)
    computes(page)
    status = page.locator("[data-part=status]")
    page.evaluate("plugIn(false)")
    expect(status).to_have_text("Paused: the computer runs on battery.")
    page.get_by_label("Pause on battery").uncheck()
    expect(status).to_have_text("Computing.")
    page.get_by_label("Pause on battery").check()
    page.evaluate("plugIn(true)")
    expect(status).to_have_text("Computing.")
    second = page.context.new_page()
    second.goto("compute")
    start(second)
    expect(second.locator("[data-part=message]")).to_contain_text("Another tab")


@pytest.mark.parametrize("look", ["desktop", "phone", "dark"])
def test_the_page_is_quiet_and_fits_the_screen(computing: Computing, look: str):
    computing.app("forever", FOREVER)
    page = computing.open(look)
    start(page)
    computes(page)
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=f"{folder}/compute-{look}.png", full_page=True)
    assert findings(page) == []
    fits(page, look)
    (watched,) = computing.pages
    assert watched.console == []
    assert watched.hosts == {urlsplit(computing.url).netloc}
