"""Debian's nginx, with the configuration that docs/operations.md tells people to use."""

from __future__ import annotations

import datetime
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from cobblestone.demo.processes import free_port

DOCS = Path(__file__).parents[2] / "docs" / "operations.md"
PROGRAM = shutil.which("nginx") or "/usr/sbin/nginx"
MAIN = """\
daemon off;
{user}
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 2048; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{site}
}}
"""


def documented_site() -> str:
    """The server that the documentation shows."""
    found = re.findall(r"```nginx\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert len(found) == 1
    return found[0]


def write_certificate(folder: Path) -> None:
    """A certificate of a server's own, and its key, as ``fullchain.pem`` and ``privkey.pem``."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "compute.example.org")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    (folder / "fullchain.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "privkey.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )


def write_configuration(folder: Path, site: str) -> Path:
    """A whole configuration around the part that a site has; whoever runs it may be root or not."""
    path = folder / "nginx.conf"
    path.write_text(MAIN.format(user="user root;" if os.geteuid() == 0 else "", folder=folder, site=site))
    return path


def check(configuration: Path) -> str:
    """What nginx says against a configuration; empty: nothing."""
    done = subprocess.run([PROGRAM, "-t", "-q", "-c", configuration], capture_output=True, text=True)
    return done.stderr if done.returncode or "[warn]" in done.stderr else ""


class Nginx:
    """The documented site in front of a server, with TLS on one port and without on another."""

    def __init__(self, target_port: int, *, location: str = "") -> None:
        """``location``: one more, in nginx's words."""
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        write_certificate(folder)
        self.port, self.tls_port = free_port(), free_port()
        site = documented_site().replace("/etc/letsencrypt/live/compute.example.org", str(folder))
        site = site.replace("server 127.0.0.1:8080", f"server 127.0.0.1:{target_port}")
        listen = f"listen 127.0.0.1:{self.tls_port} ssl http2;\n    listen 127.0.0.1:{self.port};"
        assert "listen 443 ssl http2;" in site
        site = site.replace("    location / {", f"    {location}\n    location / {{")
        configuration = write_configuration(folder, site.replace("listen 443 ssl http2;", listen))
        assert check(configuration) == ""
        self._process = subprocess.Popen([PROGRAM, "-c", configuration], stderr=subprocess.DEVNULL)
        self._wait()

    def _wait(self) -> None:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise AssertionError("nginx does not start")

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(60)
        self._folder.cleanup()
