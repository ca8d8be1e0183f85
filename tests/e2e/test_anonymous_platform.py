"""Debian's client with its own app_info.xml computes with its own program and is credited by the rules for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.e2e.conftest import LiveProject

SQUARE = "import sys\nx = int(open(sys.argv[1]).read())\nopen(sys.argv[2], 'w').write(f'{x * x}\\n')\n"

# The volunteer's own build: does without the project's launcher.
OWN = """#!/usr/bin/python3
import glob, time
started = time.time()
x = int(open(sorted(glob.glob("input*"))[0]).read())
while time.time() < started + 2:
    pass
open("output", "w").write(f"{x * x}\\n")
open("boinc_finish_called", "w").write("0\\n")
"""

APP_INFO = """<app_info>
    <app><name>square</name></app>
    <file_info><name>own_square</name><executable/></file_info>
    <app_version>
        <app_name>square</app_name>
        <version_num>317</version_num>
        <flops>5e9</flops>
        <file_ref><file_name>own_square</file_name><main_program/></file_ref>
    </app_version>
</app_info>
"""


def test_a_client_with_its_own_program_computes_and_is_credited_by_the_rules_for_it(
    live: Callable[..., LiveProject],
):
    project = live()
    project.app("square", SQUARE, "--credit", "creditnew-deployed")
    alice = project.volunteer("alice")
    project.wait(
        lambda: project.value("SELECT COUNT(*) FROM host") == 1, alice, seconds=60, what="attachment"
    )
    alice.stop()
    folder = next(path for path in (alice.folder / "projects").iterdir() if path.is_dir())
    (folder / "own_square").write_text(OWN)
    (folder / "own_square").chmod(0o755)
    (folder / "app_info.xml").write_text(APP_INFO)
    alice.start()
    batch = project.submit("square", "3", "12")
    project.wait_for_batch(batch, alice)
    assert sorted(result.text() for result in batch.results(timeout=60)) == ["144\n", "9\n"]
    app_id, estimate = project.query("SELECT app_id, rsc_fpops_est FROM workunit")[0]
    assert {row[0] for row in project.query("SELECT app_version_id FROM result")} == {app_id * 1_000_000 + 2}
    assert not list(folder.glob("square*.py*")), "files of the project's version were sent"
    # not proven yet: the job's estimate, whatever its run time
    granted = [row[0] for row in project.query("SELECT granted FROM credit_entry")]
    assert granted == pytest.approx([estimate * 200 / 86400e9] * 2)
    project.wait(
        lambda: abs(float(alice.project_status().get("user_total_credit", "0")) - sum(granted)) < 1e-5,
        alice,
        seconds=60,
        what="credit in boinccmd",
    )
    explained = project.cli("credit", "explain", "1", "--project", str(project.folder)).stdout
    assert "Anonymous platform" in explained
    proven = project.cli("credit", "recompute", "--project", str(project.folder)).stdout
    assert "agree with the ledger" in proven
