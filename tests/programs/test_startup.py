"""What commands load: a person waits for it at each call, so it is no more than they use."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import pytest

from cobblestone.cli import COMMANDS, build

PROBE = """
import sys
from cobblestone.cli import run_command
run_command({words!r})
print(*sorted(sys.modules), file=sys.stderr)
"""
SLOW = {
    "anyio.from_thread", "apsw", "cobblestone.ops.logging", "cobblestone.ops.settings", "cobblestone.policy",
    "cobblestone.sdk.app_definition", "cobblestone.sdk.packing", "cobblestone.server.app", "cobblestone.wire", "numpy",
    "pydantic", "rich.progress", "sqlalchemy", "starlette", "structlog",
}  # fmt: skip


def loaded(*words: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(words=words)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize(
    "words",
    [
        ("status", "--token", "x", "-p", "http://127.0.0.1:9"),
        ("batch", "list", "--token", "x", "-p", "http://127.0.0.1:9"),
    ],
)
def test_a_question_to_a_project_loads_neither_server_nor_settings(words: tuple[str, ...]):
    modules = loaded(*words)
    assert "httpx" in modules, "it did ask"
    assert modules & (SLOW | {"rich.console"}) == set()


def test_a_list_of_commands_loads_none_of_them():
    modules = loaded("--help")
    assert "rich.table" in modules, "it did print"
    assert modules & (SLOW | {"httpx", "msgspec"}) == set()
    assert not {name for name in modules if name.startswith("cobblestone.cli.") and name.count(".") > 2}


def test_a_question_to_a_client_loads_no_client():
    modules = loaded("client", "status")
    assert modules & (SLOW | {"httpx", "rich.console", "cobblestone.client.daemon"}) == set()


def test_every_command_is_listed_in_one_line():
    assert set(build("").commands) == set(build().commands)
    assert [
        name for name, (_, summary) in COMMANDS.items() if not summary.endswith(".") or len(summary) > 66
    ] == []


@pytest.mark.parametrize(
    ("words", "closed"), [("explain reasons", ">&-"), ("no", "2>&-"), ("user delete 1", "<&-")]
)
def test_a_closed_standard_stream_is_no_surprise(words: str, closed: str):
    done = subprocess.run(
        ["sh", "-c", f"{shlex.quote(sys.executable)} -m cobblestone {words} {closed}"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "Traceback" not in done.stdout + done.stderr
    assert "Usage" not in done.stdout
    assert done.returncode in (0, 2, 130)


def test_what_an_encoding_lacks_is_printed_all_the_same():
    done = subprocess.run(
        [sys.executable, "-m", "cobblestone", "app", "create", "--help"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        timeout=60,
    )
    assert rb"--files FILE\u2026" in done.stdout
