"""A client that starts loads what it needs, and nothing else: it lies in the memory of volunteers' computers for months."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers.client_tasks import open_to_other_accounts
from tests.helpers.eventually import eventually

from cobblestone.ops.environment import environment_without_proxies

#: What commands, the server and its pages take, and the client never.
OF_OTHERS = {
    "alembic", "cryptography", "dask", "jinja2", "matplotlib", "numba", "numpy", "pyarrow", "pydantic", "pygments",
    "rich", "starlette", "sqlalchemy", "textual", "uvicorn", "wasmtime",
    *(f"cobblestone.{part}" for part in ("cli.project", "cli.work", "demo", "sdk", "server", "service", "simulator", "store")),
}  # fmt: skip
#: What takes room, and is loaded when a project is contacted or somebody asks over the JSON interface.
LATER = {"httpx", "httpcore", "websockets"}
PROXY = """<cc_config><options><proxy_info>
  <http_server_name>127.0.0.1</http_server_name><http_server_port>9</http_server_port><use_http_proxy/>
</proxy_info></options></cc_config>"""


def loaded_by_a_start(folder: Path) -> set[str]:
    open_to_other_accounts(folder)
    output = folder / "output"
    run = ["-m", "cobblestone", "client", "run", str(folder), "--gui-port", "0"]
    with output.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-X", "importtime", *run],
            stdout=log,
            stderr=log,
            env=environment_without_proxies(),
        )
    try:
        eventually(lambda: "Data directory" in output.read_text() or process.poll() is not None)
    finally:
        process.terminate()  # when all is prepared
        process.wait(60)
    lines = output.read_text().splitlines()
    return {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}


@pytest.mark.parametrize(("config", "unwanted"), [("", OF_OTHERS | LATER), (PROXY, OF_OTHERS)])
def test_a_starting_client_loads_nothing_that_it_does_not_need(
    tmp_path: Path, config: str, unwanted: set[str]
) -> None:
    if config:
        (tmp_path / "cc_config.xml").write_text(config)
    loaded = loaded_by_a_start(tmp_path)
    assert "cobblestone.client.daemon.daemon" in loaded
    assert ("httpx" in loaded) == bool(config)
    assert loaded & unwanted == set()
