"""What every test stands on: a clean environment, printed seeds, no network, and marks by folder.

Options: ``--hypothesis-profile=nightly`` searches for hours, ``--hypothesis-seed=N`` repeats a run, ``--every-database`` runs all
integration tests on PostgreSQL too, ``--kills=100`` kills clients and servers that often.
"""

from __future__ import annotations

import atexit
import faulthandler
import gc
import ipaddress
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import argon2
import pytest
import structlog
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from tests.helpers.effort import MANY
from tests.helpers.once import compile_once, one_certificate
from tests.helpers.postgres_server import PostgresServer

from cobblestone.service import passwords

# Modules and collected tests stay until the end, and searching them for garbage again and again takes time: the collector rests
# until they are set aside (`pytest_collection_finish`).
gc.disable()

TESTS = Path(__file__).parent

#: Where a process that hangs says so, while pytest captures what is written.
STDERR = pytest.StashKey[int]()

#: A test that runs longer hangs; by folder, in seconds.
TIMEOUTS = {"unit": 120, "properties": 300, "simulations": 300, "e2e": 900, "browser": 300, "bench": 1800}
MARKED_FOLDERS = ("e2e", "browser", "bench")


# The caller's proxies, locale, time zone and settings must not reach a test or a process that it starts.

FOREIGN = (
    *("COBBLESTONE_", "LC_", "LANGUAGE", "PG", "PYTHON"),
    "GIT",  # where a hook runs the tests, of git's own choice; GITHUB_ACTIONS makes a terminal of everything, as do:
    *("FORCE_COLOR", "PY_COLORS", "TTY_", "SSL_CERT_"),
)


def scrub_environment() -> None:
    """Give this process, and so all its children, the same surroundings on every machine."""
    for name in list(os.environ):
        if name == "PYTHONDONTWRITEBYTECODE" and os.geteuid() == 0:
            continue  # files of root's would be left in somebody's checkout
        if name.lower().endswith("_proxy") or name.startswith(FOREIGN):
            del os.environ[name]
    home = tempfile.mkdtemp(prefix="cobblestone-tests-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for name in ("CONFIG", "DATA", "STATE"):
        os.environ[f"XDG_{name}_HOME"] = str(Path(home, name.lower()))
    os.environ["SSL_CERT_FILE"] = str(one_certificate(Path(home)))
    os.environ.update(LANG="C.UTF-8", TZ="UTC", NO_COLOR="1", COLUMNS="120", NO_PROXY="*")
    time.tzset()


scrub_environment()

# A shell's background job ignores Ctrl-C, and so would all that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Tests hash many passwords, so in this process that is cheap.  What a password costs in earnest: tests/unit/test_passwords.py.

passwords.HASHER = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
compile_once()


# Nothing outside this machine is asked for anything.


def is_on_this_machine(host: object) -> bool:
    """Whether a connection to this host stays here.  Names other than localhost would need a look-up."""
    if not isinstance(host, str | bytes) or not host:
        return True  # a file name, or "any address" of this machine
    name = host.decode("ascii", "replace") if isinstance(host, bytes) else host
    if name == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def refuse_the_network(event: str, arguments: tuple[object, ...]) -> None:
    """An audit hook: fail loudly when a test tries to reach another machine."""
    if event == "socket.getaddrinfo":
        host = arguments[0]
    elif event in ("socket.connect", "socket.sendto") and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    else:
        return
    if not is_on_this_machine(host):
        raise PermissionError(f"a test tried to reach {host!r}; tests use this machine only")


sys.addaudithook(refuse_the_network)


# Random searches differ from run to run, and the seed is printed, so that each can be repeated.  On a build service they
# are the same each time: there, red must mean that the change broke something; the searching is done by people and at night.

ON_A_BUILD_SERVICE = os.environ.get("CI", "") not in ("", "0", "false")

settings.register_profile(
    "ci", max_examples=15, deadline=None, print_blob=True, derandomize=ON_A_BUILD_SERVICE
)
# In full, since Hypothesis begins with other settings on a build service; there, too, each night is another one.
settings.register_profile(
    "nightly",
    max_examples=MANY,
    deadline=None,
    print_blob=True,
    derandomize=False,
    database=DirectoryBasedExampleDatabase(TESTS.parent / ".hypothesis" / "examples"),
    suppress_health_check=(HealthCheck.too_slow,),
)
#: A search takes as long as it takes; a test that still runs after this hangs.
NIGHTLY_TIMEOUT = 3 * 3600


def is_nightly(config: pytest.Config) -> bool:
    return config.option.hypothesis_profile == "nightly"


settings.load_profile("ci")


def pytest_runtest_setup() -> None:
    """Begin each test with the log as it is at first: commands that run in this process leave theirs."""
    structlog.reset_defaults()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--every-database", action="store_true", help="run all integration tests on PostgreSQL too"
    )
    parser.addoption("--kills", default=4, type=int, help="how often a client or server is killed")


@pytest.hookimpl(tryfirst=True)  # before hypothesis reads the option; workers of xdist get it from here
def pytest_configure(config: pytest.Config) -> None:
    config.stash[STDERR] = os.dup(2)
    if config.option.hypothesis_seed is None:
        same = ON_A_BUILD_SERVICE and not is_nightly(config)
        seed = 20070326 if same else random.SystemRandom().randrange(10**9)
        config.option.hypothesis_seed = str(seed)


def pytest_report_header(config: pytest.Config) -> str:
    return f"seed: {repetition(config)}"


def repetition(config: pytest.Config) -> str:
    """The options that make the same run again."""
    profile = "--hypothesis-profile=nightly " if is_nightly(config) else ""
    return f"{profile}--hypothesis-seed={config.option.hypothesis_seed}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if terminalreporter.stats.get("failed"):
        terminalreporter.write_line(f"repeat with {repetition(config)}")


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    gc.enable()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # libraries complain of what the interpreter does not clear away at its end


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """End a process whose test goes on after its time limit, and print where each thread is.

    The limit raises an exception, once.  A test that swallows it, such as by trying again, or whose loop waits for a thread
    at its end, would hang the run; so the worker dies instead, which fails this one test.
    """
    limit = item.get_closest_marker("timeout")
    seconds = limit.args[0] if limit else float(str(item.config.getini("timeout")))
    faulthandler.dump_traceback_later(2 * seconds, exit=True, file=item.config.stash[STDERR])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """A source of chance that depends on the printed seed and the test's name only."""
    return random.Random(f"{request.config.option.hypothesis_seed} {request.node.nodeid}")


@pytest.fixture
def kills(pytestconfig: pytest.Config) -> int:
    """How often to kill what is killed again and again: a few times in `make test`, a hundred times at night."""
    return int(str(pytestconfig.getoption("--kills")))


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server, started for the first test of this process that wants one."""
    server = PostgresServer()
    yield server
    server.close()


# Marks and time limits follow from the folder.  What needs root is for `make test-root`, which a build service runs, too.


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    needing_root = [item for item in items if item.get_closest_marker("root")]
    if needing_root and os.geteuid() != 0:
        config.hook.pytest_deselected(items=needing_root)
        items[:] = [item for item in items if item not in needing_root]
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0]
        if folder in MARKED_FOLDERS:
            item.add_marker(folder)
        if is_nightly(config):
            item.add_marker(pytest.mark.timeout(NIGHTLY_TIMEOUT), append=False)
        elif folder in TIMEOUTS and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUTS[folder]))
