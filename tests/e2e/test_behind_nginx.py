"""A project behind Debian's nginx, configured as docs/operations.md says."""

from __future__ import annotations

import contextlib
import re
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from tests.e2e.conftest import LiveProject
from tests.helpers.nginx import Nginx, check, write_certificate, write_configuration
from tests.helpers.project_world import SimHost, World, upload_body
from tests.helpers.server_process import RemoteWorld, Server
from tests.helpers.wire_requests import written_request

from cobblestone.demo.processes import free_port
from cobblestone.ops.settings import parse_settings
from cobblestone.server.systemd_units import ACCEL_LOCATION, first_port, plan_processes, unit_files
from cobblestone.store.catalog.files import fan_out, place_of
from cobblestone.store.engine.database import Store

MB = 10**6
PLACES = 64  # for scheduler requests at once, as the documented site has them
ACCEL = "/protected-download/"
VISITOR = "127.0.0.9"  # an address of this machine that is not the proxy's
COPY = "import shutil, sys\nshutil.copyfile(sys.argv[1], sys.argv[2])\n"


class Site:
    """A server, the proxy in front of it, and a host that knows only the proxy."""

    def __init__(self, folder: Path) -> None:
        port = free_port()
        place = folder / "project" / "download"
        self.nginx = Nginx(port, location=ACCEL_LOCATION.format(path=ACCEL, folder=place))
        self.url = f"http://127.0.0.1:{self.nginx.port}/"
        world = World(
            folder / "project",
            project={"url": self.url},
            server={"port": port},
            storage={"accel": ACCEL},
            scheduler={"max_jobs_per_day_init": 20},
        )
        world.add_jobs(world.add_app(), n=20)
        key = world.user("alice")
        world.close()
        self.server = Server(world.ctx.folder.root, f"http://127.0.0.1:{port}/")
        self.server.start()
        self.remote = RemoteWorld(self.url)
        self.remote.http = self.visitor()
        self.host = SimHost(self.remote, key, "0" * 32, {})
        self.database = Store(world.ctx.folder.root / "project.sqlite", readers=1)

    def visitor(self, url: str = "") -> httpx.Client:
        """Somebody at the address `VISITOR`."""
        transport = httpx.HTTPTransport(local_address=VISITOR, verify=False)  # a certificate of our own
        return httpx.Client(transport=transport, base_url=url or self.url, timeout=60)

    def close(self) -> None:
        self.database.close()
        self.remote.close()
        self.server.stop()
        self.nginx.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("nginx"))
    yield made
    made.close()


def send(host: SimHost, name: str, content: bytes, send: Callable[[bytes], Iterator[bytes] | bytes]) -> str:
    """Upload a result's output in the way that ``send`` cuts it; the server's status."""
    info = host.file_info(name)
    body = upload_body(
        name, content, signature=info.get("xml_signature").strip(), max_nbytes=int(info.get("max_nbytes"))
    )
    response = host.world.post(
        "cgi-bin/file_upload_handler", content=send(body), headers={"Content-Length": str(len(body))}
    )
    assert response.status_code == 200, response.text
    found = re.search(r"<status>(-?\d+)", response.text)
    assert found, response.text
    return found[1]


def one_job(host: SimHost) -> str:
    host.rpc(ask=1)
    return host.new_results()[0]


def test_a_client_attaches_computes_and_reports_through_the_proxy(live: Callable[..., LiveProject]):
    project = live(behind_nginx=True)
    project.app("copy", COPY)
    client = project.volunteer("alice")
    batch = project.submit("copy", "through the proxy")
    project.wait_for_batch(batch, client)
    assert batch.status().n_success == 1


def test_a_large_upload_passes_whole(site: Site):
    name = one_job(site.host)
    content = b"0123456789" * (4 * MB)
    assert send(site.host, f"{name}_0", content, lambda body: body) == "0"
    size = site.database.read(lambda db: db.value("SELECT nbytes FROM upload WHERE name = ?", (f"{name}_0",)))
    assert size == 40 * MB


def test_files_for_download_are_sent_by_the_proxy_itself(site: Site):
    name = site.database.read(lambda db: db.value("SELECT name FROM file"))
    place = f"download/{fan_out(name)}/{name}"
    content = place_of(site.server.root / "download", name).read_bytes()
    with site.visitor() as visitor:
        answer = visitor.get(place)
        assert (answer.status_code, answer.content) == (200, content)
        assert "immutable" in answer.headers["Cache-Control"]
        part = visitor.get(place, headers={"Range": "bytes=2-"})
        assert (part.status_code, part.content) == (206, content[2:])
        assert visitor.get(f"{ACCEL}{fan_out(name)}/{name}").status_code == 404, "only the server may say so"
    with httpx.Client(base_url=site.server.url) as direct:
        assert direct.get(place).content == b"", "the server itself sends nothing"


def test_a_slow_sender_is_waited_for_while_others_are_served(site: Site):
    name = one_job(site.host)

    def slowly(body: bytes) -> Iterator[bytes]:
        step = len(body) // 20 + 1
        with site.visitor() as other:
            for place in range(0, len(body), step):
                yield body[place : place + step]
                time.sleep(0.1)
                assert other.get("healthz").status_code == 200

    assert send(site.host, f"{name}_0", b"slow but sure " * 5000, slowly) == "0"


def test_the_server_knows_the_visitors_address_whatever_the_visitor_says(site: Site):
    site.host.headers["X-Forwarded-For"] = "203.0.113.9"
    site.host.rpc()
    address = site.database.read(
        lambda db: db.value("SELECT external_ip_addr FROM host WHERE id = ?", (site.host.id,))
    )
    assert address == VISITOR


def test_whoever_comes_when_the_server_is_full_hears_from_the_proxy_when_to_come_again(site: Site):
    body = written_request(site.host.request)
    request = b"POST /cgi-bin/cgi HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    with contextlib.ExitStack() as stack:

        def call() -> socket.socket:
            connection = stack.enter_context(
                socket.create_connection(("127.0.0.1", site.nginx.port), timeout=60)
            )
            connection.sendall(request)
            return connection

        assert site.server.process is not None
        site.server.process.send_signal(signal.SIGSTOP)
        try:
            waiting = [call() for _ in range(PLACES)]
            calls = [
                call() for _ in range(32)
            ]  # some of which take the place of connections that were open already
            readable, _, _ = select.select(calls, [], [], 60)
            reply = answer_to(readable[0])
        finally:
            site.server.process.send_signal(signal.SIGCONT)
        assert b" 200 " in reply[:20]
        (delay,) = re.findall(rb"<request_delay>(\d+)</request_delay>", reply)
        assert 900 <= int(delay) <= 1800
        for connection in waiting:
            assert b"<scheduler_version>" in answer_to(connection), "those who came first are served"


def answer_to(connection: socket.socket) -> bytes:
    """Return what came back, up to the end of the reply."""
    answer = b""
    while b"</scheduler_reply>" not in answer and (chunk := connection.recv(65_536)):
        answer += chunk
    return answer


def test_long_headers_pass_and_endless_ones_are_refused(site: Site):
    with site.visitor() as visitor:
        assert visitor.get("", headers={"Cookie": "a=" + "x" * 6000}).status_code == 200
        assert visitor.get("", headers={"Cookie": "a=" + "x" * 60_000}).status_code == 400
        assert visitor.get("?" + "x" * 60_000).status_code == 414


def test_figures_are_not_for_the_world(site: Site):
    with site.visitor() as visitor:
        assert visitor.get("metrics").status_code == 404
        assert visitor.get("healthz").status_code == 200


def test_a_body_beyond_the_proxys_limit_is_refused_at_once(site: Site):
    with socket.create_connection(("127.0.0.1", site.nginx.port), timeout=20) as connection:
        connection.sendall(
            b"POST /cgi-bin/file_upload_handler HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000000\r\n\r\n"
        )
        assert b" 413 " in connection.recv(1000)


def test_pages_come_over_tls(site: Site):
    with site.visitor(f"https://127.0.0.1:{site.nginx.tls_port}/") as visitor:
        page = visitor.get("")
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert page.headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize("url", ["https://compute.example.org/", "http://compute.example.org/sky/"])
def test_nginx_takes_the_part_that_is_written_for_several_processes(tmp_path: Path, url: str):
    settings = parse_settings(
        {"project": {"url": url}, "database": {"url": "postgresql://u@h/d"}}, source="test"
    )
    processes = plan_processes(
        ("scheduler*2", "upload", "web*2"), first_port=first_port(settings), sqlite=False
    )
    files = unit_files(tmp_path, settings, processes, user="stone", listen="127.0.0.1")
    (site,) = (file.text for file in files if file.name.endswith(".nginx.conf"))
    write_certificate(tmp_path)
    site = site.replace("/etc/letsencrypt/live/compute.example.org", str(tmp_path))
    # nginx takes the ports while it checks: the web's own are for root, and may be in use.
    site, n_ports = re.subn(r"listen (?:80|443)\b", f"listen 127.0.0.1:{free_port()}", site)
    assert n_ports == 1
    assert check(write_configuration(tmp_path, site)) == ""
