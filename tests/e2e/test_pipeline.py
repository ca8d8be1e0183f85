"""From a scientist's program to checked answers and credit, with unmodified clients."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.e2e.conftest import LiveProject

from cobblestone.cli import run_command
from cobblestone.domain.values import DAY
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.simulator.host.run import simulate
from cobblestone.simulator.state_import import scenario_from_state

SQUARE = "import sys\nx = int(open(sys.argv[1]).read())\nopen(sys.argv[2], 'w').write(f'{x * x}\\n')\n"


def test_two_volunteers_compute_check_each_other_and_earn_the_same_credit(live: Callable[..., LiveProject]):
    project = live()
    project.app("square", SQUARE, "--quorum", "2")
    batch = project.submit("square", "3", "4", "5")
    alice, bob = project.volunteer("alice"), project.volunteer("bob")
    project.wait_for_batch(batch, alice, bob)
    assert sorted(result.text() for result in batch.results(timeout=60)) == ["16\n", "25\n", "9\n"]
    assert project.value("SELECT COUNT(*) FROM result WHERE validate_state = 1") == 6
    ledger = project.value("SELECT SUM(granted) FROM credit_entry")

    def all_know() -> bool:
        totals = [float(each.project_status().get("user_total_credit", "0")) for each in (alice, bob)]
        return totals == pytest.approx([ledger / 2, ledger / 2], abs=1e-5)

    project.wait(all_know, alice, bob, seconds=60, what="credit in boinccmd")
    proven = project.cli("credit", "recompute", "--project", str(project.folder)).stdout
    assert "agree with the ledger" in proven
    for name, client in (("Alice", alice), ("Bob", bob)):
        status = client.project_status()
        of_user = (
            "SELECT {} FROM credit_entry e JOIN user_account u ON u.id = e.user_id WHERE u.name = '"
            + name
            + "'"
        )
        host_id = project.value(of_user.format("MIN(e.host_id)"))
        total = project.value(f"SELECT total_credit FROM host WHERE id = {host_id}")
        # the ledger, the totals and what the client shows agree to the last digit that it prints
        assert f"{project.value(of_user.format('SUM(e.granted)')):.6f}" == f"{total:.6f}"
        assert status["host_total_credit"] == status["user_total_credit"] == f"{total:.6f}"
        assert float(status["user_expavg_credit"]) > 0
        assert status["user_name"] == name
    require_simulated(alice.folder / "client_state.xml", alice.folder.parent / "shared.xml", "Alice")


def require_simulated(state: Path, shared: Path, user: str) -> None:
    """The client's own state file can be simulated, and made anonymous."""
    text = state.read_text()
    secrets = {user, socket.gethostname(), str(state.parent), "E2E"} | {
        found
        for tag in (
            "domain_name",
            "ip_addr",
            "host_cpid",
            "email_hash",
            "cross_project_id",
            "master_url",
            "userid",
        )
        for found in re.findall(rf"<{tag}>([^<]{{4,}})</{tag}>", text)
    }
    assert len(secrets) > 6
    assert all(secret in text for secret in secrets - {socket.gethostname(), str(state.parent)})
    assert run_command(["simulate", "--from", str(state), "--anonymise", str(shared)]) == 0
    anonymous = shared.read_text()
    assert [secret for secret in secrets if secret in anonymous] == []
    for path in (state, shared):
        scenario = replace(scenario_from_state(path), duration=DAY)
        result = simulate(scenario, PolicyChoice.parse("CS4_WF4_WS1_JC2"))
        assert result.books.available > 0.0


def test_a_trivial_job_of_an_attached_client_takes_less_than_40_seconds_and_less_than_one_in_the_server(
    live: Callable[..., LiveProject],
):
    project = live()
    project.app("square", SQUARE)
    alice = project.volunteer("alice")
    project.wait(
        lambda: project.value("SELECT COUNT(*) FROM host") == 1, alice, seconds=60, what="attachment"
    )
    shares: list[float] = []
    while len(shares) < 3 and min(shares, default=9.0) >= 1.0:  # what else this machine does must not count
        begin = time.monotonic()
        batch = project.submit("square", "7")
        project.wait_for_batch(batch, alice, seconds=60)
        took = time.monotonic() - begin
        created, result_created, sent, received, completed = project.query(
            "SELECT w.create_time, r.create_time, r.sent_time, r.received_time, w.completed_time FROM workunit w"
            " JOIN result r ON r.workunit_id = w.id ORDER BY w.id DESC"
        )[0]
        shares.append((result_created - created) + (completed - received))
        print(f"submit to assimilated: {took:.1f} s; the server's own share: {shares[-1]:.3f} s")
        assert sent < received
        assert took < 40.0
    assert min(shares) < 1.0


def test_two_computers_of_one_user_do_not_make_a_quorum(live: Callable[..., LiveProject]):
    project = live()
    project.app("square", SQUARE, "--quorum", "2")
    project.submit("square", "3")
    key = project.account("alice")
    first = project.volunteer("alice", authenticator=key)
    second = project.volunteer("alice", folder="second", authenticator=key)
    project.wait(
        lambda: "a task to each volunteer only once" in first.log() + second.log(),
        first,
        second,
        seconds=90,
        what="the reason",
    )
    assert project.value("SELECT COUNT(*) FROM result WHERE server_state <> 2") == 1
    assert project.value("SELECT COUNT(*) FROM host") == 2


def test_python_users_get_answers_through_an_executor(live: Callable[..., LiveProject]):
    project = live()
    project.app("square", SQUARE)
    alice = project.volunteer("alice")
    with project.project.executor("square") as executor:
        futures = [executor.submit(str(number).encode()) for number in (11, 12)]
        project.wait(lambda: all(future.done() for future in futures), alice, seconds=120, what="futures")
    assert [future.result().text() for future in futures] == ["121\n", "144\n"]


def test_cancelling_a_batch_aborts_what_runs(live: Callable[..., LiveProject]):
    project = live()
    project.app("sleepy", "import time\ntime.sleep(600)\n")
    batch = project.submit("sleepy", "x")
    alice = project.volunteer("alice")
    project.wait(
        lambda: any(task.active_task_state == "EXECUTING" for task in alice.tasks()),
        alice,
        seconds=90,
        what="a running task",
    )
    project.cli("batch", "cancel", str(batch.id), "--project", str(project.folder))
    project.wait(lambda: alice.tasks() == [], alice, seconds=90, what="the abort")
    assert (
        "aborted by project" in alice.log().lower() or project.value("SELECT exit_status FROM result") == 202
    )
