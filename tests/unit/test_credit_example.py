"""The example of a project's own credit system: found by its entry point, used by a whole project, provable."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.helpers.project_world import World, succeeded

from cobblestone.domain.errors import ConfigError
from cobblestone.domain.work import OutputSpec
from cobblestone.policy.credit.system import Claim
from cobblestone.server.credit import systems
from cobblestone.server.credit.ledger_audit import recompute
from cobblestone.store.catalog import apps
from cobblestone.store.credit import ledger

EXAMPLE = Path(__file__).parents[2] / "examples" / "credit_system"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package as an installer would leave it: its code, and its metadata with the entry point."""
    text = (EXAMPLE / "pyproject.toml").read_text(encoding="utf-8")
    section = text.split('"cobblestone.credit_systems"]', 1)[1].split("[", 1)[0].strip().replace('"', "")
    metadata = tmp_path / "joules-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: joules\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[cobblestone.credit_systems]\n{section}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(EXAMPLE / "src"))
    systems.find_system.cache_clear()
    yield
    systems.find_system.cache_clear()
    sys.modules.pop("joules", None)


def test_an_unknown_system_is_refused_with_the_list():
    with pytest.raises(ConfigError, match=r"no such system; known are .*benchmark.*creditnew"):
        systems.find_system("no-such")


def test_the_installed_system_is_found_and_listed(installed: None):
    assert "joules" in systems.system_names()
    system = systems.find_system("joules")
    assert system.name == "joules"
    assert isinstance(system.grant([], None, None).credits, tuple)  # type: ignore[arg-type]  # it looks at the claims alone
    assert system.grant([Claim(amount=2.0), Claim(amount=1.0)], None, None).credits == (1.0, 1.0)  # type: ignore[arg-type]  # it looks at the claims alone


def test_a_project_grants_by_it_and_can_prove_it(installed: None, tmp_path: Path):
    world = World(tmp_path / "project")
    try:
        app = world.add_app(outputs=(OutputSpec(open_name="out", optional=True),))
        world.write(lambda tx: apps.update_app(tx, replace(app, credit_system="joules")))
        world.add_jobs(app)
        host = world.host(world.user("alice"))
        host.rpc(ask=1)
        world.now += 4000
        host.rpc(reports=[replace(succeeded(next(iter(host.held))), final_cpu_time=3600.0)])
        world.settle()
        (entry,) = world.ctx.store.read(lambda db: list(ledger.ledger(db)))
        assert (entry.system, entry.granted) == ("joules", pytest.approx(0.01))
        assert {"energy", "least_energy"} <= {each["code"] for each in entry.reasons}
        assert world.ctx.store.read(recompute).agrees
    finally:
        world.close()
