"""Other computers control our client: TLS, and a token."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.helpers.own_client import OwnClient


@pytest.fixture
def own(tmp_path: Path) -> Iterator[OwnClient]:
    client = OwnClient(tmp_path / "own")
    yield client
    client.stop()
    assert "Internal error" not in client.log()


def test_another_computer_asks_over_tls_with_a_token(own: OwnClient, tmp_path: Path):
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
            ),
            *("-days", "2", "-subj", "/CN=volunteer", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    own.start("--remote", "--tls-certificate", str(certificate), "--tls-key", str(key))
    access = own.access()
    elsewhere = OwnClient(tmp_path / "elsewhere")  # a data directory in which nothing runs
    address = f"{access.reading_token}@127.0.0.1:{access.port}"
    seen = elsewhere.ask("status", "--host", address, "--certificate", str(certificate))
    assert seen["data_directory"] == str(own.folder)
    refused = elsewhere.cli(
        "mode", "run", "never", "--host", address, "--certificate", str(certificate), check=False
    )
    assert "only allows looking" in refused.stderr
    wrong = elsewhere.cli("status", "--host", f"x{address}", "--certificate", str(certificate), check=False)
    assert "does not accept this token" in wrong.stderr
    stranger = elsewhere.cli(
        "status", "--host", address, check=False
    )  # plain, or without trust in the certificate
    assert stranger.returncode == 1
    assert "Traceback" not in stranger.stderr
