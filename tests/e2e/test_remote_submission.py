"""HTCondor's way through remote job submission, at a real server over HTTP: ten thousand jobs, one of them computed."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.helpers.eventually import eventually
from tests.helpers.project_world import SimHost, World
from tests.helpers.remote_client import RemoteClient, element, job
from tests.helpers.server_process import RemoteWorld, Server

from cobblestone.demo.processes import free_port
from cobblestone.domain.people import SubmitRights
from cobblestone.domain.values import UserId
from cobblestone.store.work import submitters

N_JOBS = 10_000


@pytest.fixture
def project(tmp_path: Path) -> Iterator[tuple[Server, str, str]]:
    """A running project, the authenticator of who may submit, and a volunteer's."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/"
    world = World(tmp_path / "project", project={"url": url}, server={"port": port})
    world.add_app("sum")
    ada, volunteer = world.user("ada"), world.user("volunteer")
    world.write(lambda tx: submitters.allow(tx, UserId(1), SubmitRights(), now=time.time()))
    root = world.ctx.folder.root
    world.close()
    server = Server(root, url)
    server.start()
    yield server, ada, volunteer
    server.stop()


def test_ten_thousand_jobs_are_submitted_asked_for_computed_fetched_and_retired(
    project: tuple[Server, str, str], capfd: pytest.CaptureFixture[str]
):
    server, authenticator, volunteer = project
    began = time.monotonic()
    with httpx.Client(base_url=server.url, timeout=120) as http:
        ada = RemoteClient(http.request, authenticator)
        assert (
            ada.good("get_templates", app_name="sum").findtext(
                "templates/output_template/result/file_ref/open_name"
            )
            == "out"
        )
        number = ada.create("sum", "condor")
        content = b"1 2 3\n" * 50_000
        md5 = hashlib.md5(content).hexdigest()
        assert ada.absent([md5], "md5") == [0]
        assert (
            ada.upload({f"jf_{md5}": content}, batch_id=number, path=f"{server.url}/job_file.php").find(
                "success"
            )
            is not None
        )
        assert ada.absent([md5], "md5") == []
        text = ada.submit_text(
            "sum",
            [job(f"condor.{place}", f"jf_{md5}", line=f"--seed {place}") for place in range(N_JOBS)],
            batch_id=number,
        )
        for _ in range(2):  # the answer to the first was lost
            answer = ada.read(http.post("submit_rpc_handler.php", files={"request": (None, text)}))
            assert answer.findtext("batch_id") == str(number)
        asked, told = ada.status("condor")
        assert len(told) == N_JOBS
        assert set(told.values()) == {"UNSENT"}
        remote = RemoteWorld(server.url)
        host = SimHost(remote, volunteer, "0" * 32, {})

        def sent() -> bool:
            host.rpc(ask=1.0, instances=1.0)
            return bool(host.held)

        eventually(sent, seconds=60)
        host.rpc(reports=[host.finish(name, b"42") for name in sorted(host.held)])
        remote.close()

        def done() -> list[str]:
            return [name for name, state in ada.status("condor", asked)[1].items() if state == "DONE"]

        eventually(lambda: bool(done()), seconds=60)
        name = done()[0]
        ended = ada.good("query_completed_job", element("job_name", name)).find("completed_job")
        assert ended is not None
        assert ended.findtext("exit_status") == "0"
        found = ada.get(
            "get_output.php", cmd="workunit_file", auth_str=authenticator, wu_name=name, file_num=0
        )
        assert found.content == b"42"
        ada.good(
            "abort_jobs", *(element("job_name", f"condor.{place}") for place in range(N_JOBS - 10, N_JOBS))
        )
        assert "do not expire" in ada.refused("set_expire_time", batch_name="condor", expire_time=2e9)
        ada.good("abort_batch", batch_name="condor")
        ada.good("retire_batch", batch_name="condor")
        assert ada.good("query_batches").find("batch") is None
    assert time.monotonic() - began < 180
    assert authenticator not in "".join(capfd.readouterr())
