"""A storage that speaks S3, and one that misbehaves."""

from __future__ import annotations

import json
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import boto3
from botocore.exceptions import BotoCoreError, ClientError
from tests.helpers.eventually import eventually

from cobblestone.demo.processes import free_port

BUCKET = "project-files"
KEYS = {"access_key": "alice", "secret_key": "a secret of alice"}
_CREDENTIALS = {"accessKey": KEYS["access_key"], "secretKey": KEYS["secret_key"]}


class BucketServer:
    """SeaweedFS with a bucket: a storage that checks the signature of every request, as Amazon's does."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._start()
        eventually(self._takes_files, seconds=90)

    def _start(self) -> None:
        self._process, port = _started(Path(self._folder.name))
        self.endpoint = f"http://127.0.0.1:{port}"
        self.client = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=KEYS["access_key"],
            aws_secret_access_key=KEYS["secret_key"],
        )

    def _takes_files(self) -> bool:
        if self._process.poll() is not None:  # somebody else has taken one of its ports before it could
            self.client.close()
            self._start()
        with suppress(BotoCoreError, ClientError):
            self.client.create_bucket(Bucket=BUCKET)
        try:
            self.client.put_object(Bucket=BUCKET, Key="first", Body=b"makes room for others")
        except (BotoCoreError, ClientError):
            return False
        self.client.delete_object(Bucket=BUCKET, Key="first")
        return True

    def settings(self, **changes: object) -> dict[str, object]:
        """What a project's [storage] says to use it."""
        return {"bucket": BUCKET, "endpoint": self.endpoint, "prefix": "sky", **KEYS, **changes}

    def content(self) -> dict[str, bytes]:
        """What is in the bucket, by key."""
        found = self.client.list_objects_v2(Bucket=BUCKET).get("Contents", [])
        return {
            each["Key"]: self.client.get_object(Bucket=BUCKET, Key=each["Key"])["Body"].read()
            for each in found
        }

    def empty(self) -> None:
        for key in self.content():
            self.client.delete_object(Bucket=BUCKET, Key=key)

    def close(self) -> None:
        self.client.close()
        self._process.kill()
        self._process.wait(60)
        self._folder.cleanup()


def _started(folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Start the parts of SeaweedFS in one process; return it and the port that speaks S3."""
    identity = {"name": "alice", "credentials": [_CREDENTIALS], "actions": ["Admin", "Read", "Write", "List"]}
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
    ports = _ports(4)
    parts = zip(("master", "volume", "filer", "s3"), ports, strict=True)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                Path(sys.executable).with_name("weed"),
                *("server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"),
                *("-filer", "-s3", f"-s3.config={folder / 's3.json'}"),
                *("-volume.max=8", "-master.volumeSizeLimitMB=64"),
                *(f"-{part}.port={port}" for part, port in parts),
            ],
            stdout=log,
            stderr=log,
        )
    return process, ports[-1]


def _ports(n: int) -> list[int]:
    """Return free ports, as are those 10,000 above, where the parts speak to each other."""
    found: list[int] = []
    while len(found) < n:
        port = free_port()
        if {port, port + 10_000} & {other for each in found for other in (each, each + 10_000)}:
            continue
        with socket.socket() as second, suppress(OSError, OverflowError):
            second.bind(("127.0.0.1", port + 10_000))
            found.append(port)
    return found


class Misbehaving(BaseHTTPRequestHandler):
    """Answers every request in the way that its server says."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its name in the library
        pass

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        server = self.server
        assert isinstance(server, _Server)
        server.requests += 1
        server.asked.set()
        manner = server.manner
        if manner == "hangs":
            server.ended.wait(60)
        elif manner == "drips":
            self.send_response(200)
            self.send_header("Content-Length", "100000")
            self.end_headers()
            while not server.ended.wait(0.05):
                self.wfile.write(b"x")
        elif manner in ("half", "other"):
            self.send_response(206)
            self.send_header("Content-Length", "1000")
            self.send_header("Content-Range", "bytes 0-999/1000")
            self.send_header("ETag", '"1"')
            self.send_header("Last-Modified", "Sun, 22 Nov 2026 12:00:00 GMT")
            self.end_headers()
            self.wfile.write(b"x" * (500 if manner == "half" else 1000))
            self.close_connection = True
        else:
            self.send_response(int(manner))
            self.send_header("Content-Length", "0")
            self.end_headers()

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer  # noqa: N815  # the library asks for these names


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, manner: str) -> None:
        super().__init__(("127.0.0.1", 0), Misbehaving)
        self.manner = manner
        self.requests = 0
        self.asked = threading.Event()  #: somebody has come
        self.ended = threading.Event()

    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever asked has gone."""


@contextmanager
def misbehaving(manner: str) -> Iterator[_Server]:
    """A server that hangs, drips, sends half, or answers with a status; its address is ``endpoint``."""
    with _Server(manner) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.ended.set()
            server.shutdown()
            thread.join()


def endpoint(server: _Server) -> str:
    """The address of a misbehaving server."""
    return f"http://127.0.0.1:{server.server_address[1]}"


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """What is done in the block takes no longer."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds
