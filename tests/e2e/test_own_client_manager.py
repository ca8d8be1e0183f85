"""Our own client under an account manager: projects that it signs, orders, accounting."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from tests.e2e.conftest import LiveProject
from tests.helpers.manager_server import ManagerServer
from tests.helpers.own_client import OwnClient

WORK = """
import sys, time
end = time.process_time() + 2
while time.process_time() < end:
    pass
open(sys.argv[2], "w").write("x")
"""


def noticed(client: OwnClient, words: str) -> bool:
    return any(words in row["description"] for row in client.ask("notices"))


def test_it_attaches_what_the_manager_signs_and_obeys_its_orders(
    live: Callable[..., LiveProject], tmp_path: Path
):
    project = live()
    project.app("work", WORK)
    batch = project.submit("work", "1", "2")
    client = OwnClient(tmp_path / "own", ncpus=2)
    with contextlib.closing(ManagerServer()) as manager, contextlib.ExitStack() as stack:
        stack.callback(client.stop)
        client.start()
        manager.error = "<error_num>-206</error_num>\n<error_msg>bad password</error_msg>\n"
        refused = client.cli("manager", manager.url, "--login", "ann", "--password", "wrong", check=False)
        assert refused.returncode == 1
        assert "bad password" in refused.stderr
        assert client.ask("notices") == [], "who typed it was told"
        manager.error = ""
        manager.accounts = [
            manager.account(
                project.url, project.account("alice"), orders="<resource_share>50</resource_share>\n"
            ),
            manager.account("http://127.0.0.1:9/other/", "abc", signed="http://127.0.0.1:9/somewhere-else/"),
        ]
        client.cli("manager", manager.url, "--login", "ann", "--password", "right")
        (row,) = client.ask("projects")
        assert (row["url"], row["by_manager"], row["share"]) == (project.url, True, 50)
        assert "has not signed its address" in client.log()
        project.wait_for_batch(batch, client)
        refused = client.cli("detach", project.url, check=False)
        assert "chosen by your account manager" in refused.stderr
        manager.accounts = [
            manager.account(project.url, "", orders="<dont_request_more_work/>\n<suspend>1</suspend>\n")
        ]
        manager.error = "<error_num>-1</error_num>\n<error_msg>tired</error_msg>\n"
        client.boinccmd("--acct_mgr", "sync")
        client.wait_for(lambda: noticed(client, "tired"), seconds=60, what="a notice")
        manager.error = ""
        client.boinccmd("--acct_mgr", "sync")
        client.wait_for(lambda: not noticed(client, "tired"), seconds=60, what="the notice to go")
        client.wait_for(
            lambda: client.ask("projects")[0]["suspended"], seconds=60, what="the order to suspend"
        )
        told = manager.requests[-1]
        assert "<njobs_success>2</njobs_success>" in told
        assert "<mine>1</mine>" in told
        assert float(told.partition("<cpu_ec>")[2].partition("<")[0]) > 0
        assert "--leave" in client.cli("manager", check=False).stderr, "a bare command changes nothing"
        client.cli("manager", "--leave")
        assert not client.ask("projects")[0]["by_manager"]
