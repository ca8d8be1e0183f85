"""What the stock client shows its owner, and what the operator's commands say about the same computer."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.e2e.conftest import LiveProject

COPY = "import sys\nopen(sys.argv[2], 'w').write(open(sys.argv[1]).read())\n"
NO_PYTHON = "import sys\nsys.exit(195)\n"


def test_the_owner_of_a_computer_that_lacks_something_gets_a_notice_until_it_is_repaired(
    live: Callable[..., LiveProject],
):
    project = live()
    project.app("broken", NO_PYTHON)
    project.submit("broken", "a", "b", "c", "d", "e", "f", "g", "h")
    client = project.volunteer("alice")
    project.wait(
        lambda: "needs Python" in client.command("--get_notices"), client, seconds=150, what="the notice"
    )
    sent = project.value("SELECT COUNT(*) FROM result WHERE host_id IS NOT NULL")
    said = project.cli("explain", "host", "1", "--project", str(project.folder)).stdout
    assert "! " in said
    assert "needs Python" in said
    assert "would get no tasks" in said
    client.update(project.url)
    assert project.value("SELECT COUNT(*) FROM result WHERE host_id IS NOT NULL") == sent
    result = project.cli("explain", "result", "1", "--project", str(project.folder)).stdout
    assert "status 195" in result
    repaired = project.cli("host", "reset-errors", "1", "--json", "--project", str(project.folder)).stdout
    assert json.loads(repaired)["problems"] == []


def test_a_job_for_one_computer_goes_there_and_a_checked_one_to_two(live: Callable[..., LiveProject]):
    project = live()
    project.app("copy", COPY, "--quorum", "2")
    project.cli("app", "dispatch", "copy", "--adaptive", "--project", str(project.folder))
    alice, bob = project.volunteer("alice"), project.volunteer("bob")
    project.wait(
        lambda: project.value("SELECT COUNT(*) FROM host") == 2, alice, bob, seconds=60, what="two hosts"
    )
    host = project.value(
        "SELECT h.id FROM host h JOIN user_account u ON u.id = h.user_id WHERE u.name = 'Bob'"
    )
    path = project.root / "only.txt"
    path.write_text("for bob")
    project.cli("submit", "copy", str(path), "--for-host", str(host), "--project", str(project.folder))
    project.wait(
        lambda: project.value("SELECT COUNT(*) FROM result WHERE host_id IS NOT NULL") >= 1,
        alice, bob, seconds=60, what="the job for one computer",
    )  # fmt: skip
    assert project.query("SELECT host_id, user_id FROM result WHERE host_id IS NOT NULL") == [(host, 2)]
    batch = project.submit("copy", "checked")
    project.wait_for_batch(batch, alice, bob)
    rows = project.query(
        "SELECT r.host_id, r.validate_state FROM result r JOIN workunit w ON w.id = r.workunit_id WHERE w.batch_id = ?",
        batch.id,
    )
    assert sorted(rows) == [(1, 1), (2, 1)]
