"""Files for systemd and nginx."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cobblestone.domain.errors import ConfigError
from cobblestone.ops.settings import Settings, parse_settings
from cobblestone.server.core.roles import ALL_ROLES, Role, parse_roles
from cobblestone.server.systemd_units import first_port, plan_processes, unit_files


def settings(url: str = "https://sky.example.org/", database: str = "postgresql://u@h/d") -> Settings:
    return parse_settings({"project": {"url": url}, "database": {"url": database}}, source="test")


def texts(*wishes: str, url: str = "https://sky.example.org/", listen: str = "127.0.0.1") -> dict[str, str]:
    chosen = settings(url)
    processes = plan_processes(wishes, first_port=first_port(chosen), sqlite=False)
    files = unit_files(Path("/srv/my sky"), chosen, processes, user="stone", listen=listen)
    return {file.name: file.text for file in files}


def test_every_role_has_a_process_by_default():
    processes = plan_processes((), first_port=8080, sqlite=False)
    assert frozenset().union(*(process.roles for process in processes)) == ALL_ROLES
    assert sorted(process.port for process in processes) == [8080, 8081, 8082, 8083], (
        "daemons too, for their metrics"
    )
    assert next(process for process in processes if Role.WEB in process.roles).port == 8080


def test_a_sqlite_project_is_one_process():
    (process,) = plan_processes((), first_port=8080, sqlite=True)
    assert process.all_roles
    with pytest.raises(ConfigError, match="one process"):
        plan_processes(["web"], first_port=8080, sqlite=True)


@pytest.mark.parametrize("wish", ["feeder", "web*0", "web*x", "web*1000"])
def test_a_wrong_process_is_refused(wish: str):
    with pytest.raises(ConfigError):
        plan_processes([wish], first_port=8080, sqlite=False)


def test_two_with_one_name_are_refused():
    with pytest.raises(ConfigError, match=r"ROLES\*NUMBER"):
        plan_processes(["web", "web"], first_port=8080, sqlite=False)


def test_units_run_the_roles_and_names_with_blanks_are_quoted():
    found = texts("scheduler,upload*2", "validator", listen="10.0.0.2")
    unit = found["cobblestone-my-sky-scheduler-2.service"]
    assert '"/srv/my sky" --role scheduler,upload --host 10.0.0.2 --port 8081' in unit
    assert "User=stone" in unit
    assert "--role validator --host 10.0.0.2 --port 8082" in found["cobblestone-my-sky-validator.service"]
    target = found["cobblestone-my-sky.target"]
    assert all(name in target for name in found if name.endswith(".service"))


def test_the_proxy_sends_each_request_to_its_role():
    conf = texts("scheduler,upload*2", "web", listen="10.0.0.2")["cobblestone-my-sky.nginx.conf"]
    scheduler = "location = /cgi-bin/cgi { error_page 502 504 = @busy; proxy_pass http://cobblestone_my_sky_scheduler; }"
    assert scheduler in conf
    assert "max_conns=64;" in conf
    assert "server 10.0.0.2:8081;" in conf
    assert "listen 443 ssl;" in conf
    assert "ssl_certificate " in conf


def test_the_proxy_keeps_the_port_of_the_master_url():
    conf = texts(url="http://127.0.0.1:8080/")["cobblestone-my-sky.nginx.conf"]
    assert "listen 8080;" in conf
    assert "server 127.0.0.1:8080;" not in conf


def test_roles_are_read_with_either_dash():
    assert parse_roles("file-deleter, web") == {Role.FILE_DELETER, Role.WEB}
    assert parse_roles("") == ALL_ROLES


@pytest.mark.parametrize("user", ["", "daemon"])
def test_the_unit_of_a_client_is_one_that_systemd_accepts(user: str, tmp_path: Path):
    folder = tmp_path / "my data"
    done = subprocess.run(
        [sys.executable, "-m", "cobblestone", "client", "unit", "--dir", str(folder), "--user", user,
         "--into", str(tmp_path), "--json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    unit = Path(json.loads(done.stdout)["unit"])
    assert f'client run "{folder}"' in unit.read_text()
    assert ("User=daemon" in unit.read_text()) == bool(user)
    checked = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
    assert unit.name not in checked.stderr, checked.stderr
    assert checked.returncode == 0, checked.stderr
