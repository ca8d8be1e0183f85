"""The kept clients of a released schema; made by `tests.helpers.released`.

Two of Debian's clients that were stopped in the middle of tasks, with the project that they belong to, as
``tests/golden/released/VERSION/clients.tar.xz``: each client has a task behind its first checkpoint, and one that ended while
the server was away, so that its output is still to be sent.
"""

from __future__ import annotations

import contextlib
import io
import re
import sqlite3
import tarfile
import tempfile
import time
from pathlib import Path

from tests.e2e.conftest import TEMPLATE_PORT, LiveProject
from tests.e2e.test_launcher import COUNTER
from tests.helpers.kept_project import RELEASED
from tests.helpers.stock_client import StockClient

CLIENTS = ("alice", "bob")
BEFORE, SHORT, LONG = 2, 80, 300
"""What the jobs count to, ten in a second: one credited before, one ended without a server, one stopped."""
MOMENT = re.compile(rb"(begin < |time\.sleep\()0\.0\d")
"""What counting by one takes, in the clients' program: computing, and asleep."""
NOT_KEPT = re.compile(
    r"\.log$|\.cache$|^__pycache__$|^(sched_re|gui_rpc_auth|lockfile|stdout|stderrdae|boinc_mmap|export)|-(shm|wal)$"
)


def stop_in_the_middle(root: Path) -> None:
    """Leave a project, and clients that have begun its tasks, in a folder."""
    root.mkdir()
    project = LiveProject(root, port=TEMPLATE_PORT)
    try:
        # The longest that there is: nothing is late when the kept clients go on, years later.
        project.app("counter", COUNTER, "--quorum", "2", "--delay-bound", "3650d")
        clients = [project.volunteer(name, ncpus=2, buffer_days=0.001) for name in CLIENTS]
        project.wait_for_batch(project.submit("counter", str(BEFORE)), *clients)
        _agree(project)
        project.submit("counter", str(SHORT), str(LONG))

        def all_run() -> bool:
            return all(sum(task.fraction_done > 0 for task in each.tasks()) == 2 for each in clients)

        project.wait(all_run, *clients, seconds=120, what="two tasks on each client")
        assert project.process is not None
        project.process.terminate()
        project.process.wait(60)
        for client in clients:
            client.wait_for(lambda client=client: _in_the_middle(client), seconds=120, what="one ended")
    finally:
        project.close()
    _anonymous(root)


def _agree(project: LiveProject) -> None:
    """Have everybody agree to be exported."""
    with contextlib.closing(sqlite3.connect(project.folder / "project.sqlite", timeout=60)) as connection:
        connection.execute(
            "INSERT INTO consent (user_id, kind, agreed, time, source) SELECT id, 'statistics', 1, ?, 'page' FROM user_account",
            (time.time(),),
        )
        connection.commit()


def _in_the_middle(client: StockClient) -> bool:
    states = sorted(task.state for task in client.tasks())
    checkpoint = max((task.checkpoint_cpu_time for task in client.tasks()), default=0.0)
    return states == ["downloaded", "uploading"] and checkpoint > 0.3


def _anonymous(root: Path) -> None:
    """Take out what tells of the machine on which the project was made."""
    for name in CLIENTS:
        state = root / name / "client_state.xml"
        text = re.sub("<domain_name>.*?</", f"<domain_name>{name}-pc</", state.read_text())
        state.write_text(re.sub("<ip_addr>.*?</", "<ip_addr>127.0.0.1</", text))
    with contextlib.closing(sqlite3.connect(root / "project" / "project.sqlite")) as connection:
        connection.execute("UPDATE host SET domain_name = 'kept-pc'")
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def packed(root: Path) -> bytes:
    """The archive of a project and its clients."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:xz", preset=9) as archive:
        for name in ("project", *CLIENTS):
            archive.add(root / name, name, filter=_kept)
    return out.getvalue()


def _kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return None if NOT_KEPT.search(Path(member.name).name) else member


def unpack(version: str, root: Path, *, port: int) -> str:
    """Unpack a version's project and clients; the project's address, on another port of five digits than the one they knew.

    The clients' program counts faster from here on: twenty seconds of two processors, in each test, are for others.
    """
    assert 10_000 <= port <= 65_535
    with tarfile.open(RELEASED / version / "clients.tar.xz") as archive:
        for member in archive:
            member.name = _moved(member.name.encode(), port).decode()
            archive.extract(member, root)
            if member.isfile() and member.size:
                path = root / member.name
                content = path.read_bytes()
                changed = _moved(content, port)
                if path.suffix == ".py" and path.relative_to(root).parts[0] in CLIENTS:
                    changed = MOMENT.sub(rb"\g<1>0.01", changed)
                if changed != content:
                    path.write_bytes(changed)
    return f"http://127.0.0.1:{port}/"


def _moved(content: bytes, port: int) -> bytes:
    """Name another port: names of as many digits leave every file its size, also a database."""
    return re.sub(rb"(127\.0\.0\.1[:_]|port = )%d" % TEMPLATE_PORT, rb"\g<1>%d" % port, content)


def write_archive(target: Path) -> None:
    """Make such clients with their project, and pack them."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "kept"
        stop_in_the_middle(root)
        (target / "clients.tar.xz").write_bytes(packed(root))
