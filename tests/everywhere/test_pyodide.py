"""Python with packages in a browser: Pyodide with a compiled wheel and one of pure Python, in Chromium, with all limits.

There is no wheel of NumPy for Pyodide on the package index, so a smaller compiled package stands in for it.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable
from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect
from tests.browser import test_compute
from tests.browser.test_accessibility import findings
from tests.browser.test_compute import OPTIONS, PATIENCE_MS, Computing, computes, keeps_checkpoint, start
from tests.everywhere import test_chromium
from tests.helpers.browser import release
from tests.helpers.eventually import eventually
from tests.helpers.project_world import PLATFORM
from tests.helpers.store_content import as_input

from cobblestone.domain import pyodide
from cobblestone.domain.apps import App, ComparisonRule
from cobblestone.domain.work import JobLimits, OutputSpec
from cobblestone.launcher.packing import PYODIDE_DESCRIPTION_FILE
from cobblestone.sdk.packing.app_package import Command
from cobblestone.sdk.packing.pyodide import packages_archive, pyodide_description, read_pyodide
from cobblestone.server.web import compute

pytestmark = pytest.mark.timeout(3600)
computing, browser = test_compute.computing, test_chromium.browser
LIMITS = JobLimits(rsc_fpops_est=2e10, rsc_fpops_bound=1e13, rsc_memory_bound=300e6, rsc_disk_bound=20e6)
WORDS = ("python3", "program.py", "{input}", "{output}")
#: Names what it can reach, and what is the same each time.
LOOKS = """
import importlib, json, os, random, sys, time
from luau_wasm import execute
from sortedcontainers import SortedList

found = {"argv": sys.argv[1:], "files": sorted(os.listdir(".")), "clock": time.time(), "zone": time.localtime(0)[:6]}
found |= {"compiled": execute("print(2 ^ 40 + 1)"), "sorted": list(SortedList([3, 1, 2]))}
found |= {"random": [random.random(), os.urandom(4).hex(), hash("a")]}
tries = {
    "js": "import js",
    "script": "import pyodide.code; pyodide.code.run_js('1')",
    "http": "import pyodide.http; pyodide.http.open_url('/')",
    "urllib": "import urllib.request; urllib.request.urlopen('http://127.0.0.1/')",
    "socket": "import socket; socket.create_connection(('127.0.0.1', 80), timeout=1)",
    "thread": "import threading; threading.Thread(target=print).start()",
    "process": "import subprocess; subprocess.run(['true'])",
    "memory": "bytearray(400_000_000)",
}
for name, code in tries.items():
    try:
        exec(code)
        found[name] = "reached"
    except BaseException as error:
        found[name] = type(error).__name__
print("seen", open(sys.argv[1]).read())
json.dump(found, open(sys.argv[2], "w"))
"""
#: Looks for the browser's functions by the way that Pyodide leaves.
REACHES = """
import sys
from pyodide.ffi import to_js
reached = []
thing = to_js([1])
scope = None
try:
    scope = thing.constructor.constructor("return this")()
except BaseException as error:
    reached.append(type(error).__name__)
NAMES = "fetch XMLHttpRequest WebSocket indexedDB caches Worker BroadcastChannel navigator postMessage importScripts"
for name in NAMES.split():
    reached.append(name if scope is not None and getattr(scope, name, None) else "-")
for name in ("js", "pyodide_js"):
    try:
        __import__(name)
        reached.append(name)
    except ImportError:
        reached.append("-")
open(sys.argv[2], "w").write(" ".join(reached))
"""
COUNTS = """
import os, sys
from cobblestone_runtime import checkpoint, progress, time_to_checkpoint
n, total = 0, 0
if os.path.exists("state"):
    n, total = map(int, open("state").read().split())
    print("went on from", n, file=sys.stderr)
LAST = int(open(sys.argv[1]).read())
while n < LAST:
    n, total = n + 1, (total * 31 + n) % 1_000_003
    if n % 1000 == 0:
        progress(n / LAST)
        if time_to_checkpoint():
            open("state.new", "w").write(f"{n} {total}")
            os.replace("state.new", "state")
            checkpoint()
open(sys.argv[2], "w").write(str(total))
"""


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    requirements = tmp_path_factory.mktemp("pyodide") / "requirements.txt"
    requirements.write_text("luau-wasm==0.1a0\nsortedcontainers==2.4.0\n")
    return packages_archive(requirements)


@pytest.fixture(scope="session")
def core() -> dict[str, bytes]:
    return read_pyodide(None)


Make = Callable[..., App]


@pytest.fixture
def make(computing: Computing, packages: bytes, core: dict[str, bytes]) -> Make:
    """Make an app of a program, with one job."""
    place = computing.world.ctx.folder.pyodide / pyodide.VERSION
    place.mkdir(parents=True)
    for name, data in core.items():
        (place / name).write_bytes(data)

    def make_(name: str, program: str, given: bytes = b"5", limits: JobLimits = LIMITS) -> App:
        app = computing.world.add_app(
            name, quorum=2, limits=limits, platform=PLATFORM, outputs=[OutputSpec(open_name="output")],
            comparison=ComparisonRule(kind="numeric", options={"rtol": 1e-9}),
        )  # fmt: skip
        files = {"program.py": program.encode()}
        about = pyodide_description(Command(words=WORDS), packages, files)
        release(
            computing.world, app, packages, about, files,
            program=pyodide.PACKAGES_NAME, about=PYODIDE_DESCRIPTION_FILE,
        )  # fmt: skip
        input_ = as_input(computing.world.store_file("input", given), "input")
        computing.world.add_jobs(app, command_line=OPTIONS, inputs=[input_])
        return app

    return make_


def answer(computing: Computing) -> bytes:
    """The only output that was uploaded."""
    ((data, gzipped),) = computing.world.query("SELECT data, gzipped FROM upload")
    return zlib.decompress(data) if gzipped else data


def ended(computing: Computing) -> tuple[int, str]:
    """Wait until a job was reported; its exit status and error output."""
    look = "SELECT r.exit_status, t.stderr FROM result r JOIN result_text t ON t.result_id = r.id WHERE t.stderr IS NOT NULL"
    eventually(lambda: bool(computing.world.query(look)), seconds=PATIENCE_MS / 1000)
    ((status, stderr),) = computing.world.query(look)
    return status, zlib.decompress(stderr).decode()


def test_a_compiled_package_computes_in_a_tab_that_is_closed_off_and_a_native_host_confirms_it(
    computing: Computing, make: Make
):
    app = make("looks", LOOKS)
    page = computing.open()
    start(page)
    status, stderr = ended(computing)
    assert status == 0, stderr
    found = json.loads(answer(computing))
    assert found["argv"] == ["input", "output"]
    assert found["files"] == ["input", "program.py"]
    assert found["compiled"] == "1099511627777\n"
    assert found["sorted"] == [1, 2, 3]
    assert found["clock"] < 946684800 + 60
    assert found["zone"][:4] == [1970, 1, 1, 0]
    assert [name for name, what in found.items() if what == "reached"] == []
    assert found["random"] == [0.6870095645237587, "c810fd36", -468864544]  # by the name of the workunit
    confirm(computing)
    assert computing.verdicts(app) == [(1, 1), (1, 1)]
    (watched,) = computing.pages
    assert watched.hosts == {page.evaluate("location.host")}


def confirm(computing: Computing) -> None:
    """Have a native host give the same answer."""
    host = computing.world.host(computing.world.user("alice"))
    host.rpc(ask=1)
    (name,) = host.new_results()
    host.rpc(reports=[host.finish(name, answer(computing))])
    computing.world.settle()


def test_a_program_that_takes_the_way_of_pyodide_to_the_browser_finds_nothing_there(
    computing: Computing, make: Make
):
    make("reaches", REACHES)
    start(computing.open())
    status, stderr = ended(computing)
    assert status == 0, stderr
    assert set(answer(computing).decode().split()[-12:]) == {"-"}


def test_a_closed_tab_goes_on_from_its_checkpoint(
    computing: Computing, make: Make, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(compute, "CHECKPOINT_SECONDS", 0.1)
    last = 5_000_000
    make("counts", COUNTS, given=str(last).encode())
    page = computing.open()
    start(page)
    keeps_checkpoint(page)
    page.goto("about:blank")
    page.goto(f"{computing.url}compute")
    start(page)
    status, stderr = ended(computing)
    assert status == 0, stderr
    assert "went on from" in stderr
    total = 0
    for n in range(last):
        total = (total * 31 + n) % 1_000_003
    assert answer(computing) == str(total).encode()


FOREVER = "while True:\n    pass\n"
FILLS = "file = open('large', 'wb')\nwhile True:\n    file.write(bytes(1_000_000))\n"
FAILS = "import sys\nprint('so far')\nsys.exit('I cannot do this')\n"


@pytest.mark.parametrize(
    ("program", "limits", "ends", "words"),
    [
        (FOREVER, replace(LIMITS, rsc_fpops_bound=3e9), 197, "more than 3 s, the bound"),
        (FILLS, LIMITS, 196, "more disk than its bound of 20 MB"),
        (
            "file = open('large', 'wb')\nfile.truncate(10**10)\n",
            LIMITS,
            196,
            "more disk than its bound of 20 MB",
        ),
        ("while True:\n    print('x' * 1_000_000)\n", LIMITS, 196, "more disk than its bound of 20 MB"),
        (FAILS, LIMITS, 1, "I cannot do this"),
        ("def f():\n    f()\nf()\n", LIMITS, 1, "RecursionError"),
        ("x = []\nwhile True:\n    x.append(bytes(10_000_000))\n", LIMITS, 1, "MemoryError"),
        ("1\n", LIMITS, 208, "did not write its output output"),
        ("import numpy\n", LIMITS, 1, "No module named 'numpy'"),
        ("1\n", replace(LIMITS, rsc_memory_bound=10e6), 206, "Python begins with more memory"),
    ],
)
def test_programs_that_cannot_end_well_are_ended_with_words(
    computing: Computing, make: Make, program: str, limits: JobLimits, ends: int, words: str
):
    make("fails", program, limits=limits)
    start(computing.open())
    status, stderr = ended(computing)
    assert (status, words in stderr) == (ends, True), (status, stderr)


def test_it_stands_still_and_goes_on_and_the_page_looks_well(computing: Computing, make: Make):
    make("forever", "import cobblestone_runtime as r\nr.progress(0.25)\n" + FOREVER)
    page = computing.open()
    start(page)
    computes(page)
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("[data-part=status]")).to_have_text("Paused.")
    page.get_by_role("button", name="Continue").click()
    expect(page.locator("[data-part=state]")).to_have_text("25.0 %", timeout=PATIENCE_MS)
    shown(page)
    assert findings(page) == []
    (watched,) = computing.pages
    assert watched.console == []


def shown(page: Page) -> None:
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=f"{folder}/compute-pyodide.png", full_page=True)


def test_a_project_without_pyodide_says_so_and_goes_on_asking(computing: Computing, make: Make):
    make("looks", "1\n")
    place = computing.world.ctx.folder.pyodide
    place.rename(place.with_name("elsewhere"))
    page = computing.open()
    start(page)
    expect(page.locator("[data-part=state]")).to_contain_text("404", timeout=PATIENCE_MS)
