"""Scheduling policies of people's own: from a file or a package, in client and simulator, and what happens when they fail."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.client_state import URL, World, play
from tests.helpers.command_line import run_here
from tests.helpers.daemon_in_test import said

from cobblestone.client.daemon.daemon import Client
from cobblestone.client.records import decisions
from cobblestone.client.records.decisions import CoreDriver
from cobblestone.domain.errors import ConfigError
from cobblestone.ops import policies
from cobblestone.ops.policies import full_name, read_choice
from cobblestone.policy.client.core.events import TimePassed
from cobblestone.simulator.code_version import code_version

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "docs/client-core.md").read_text().split("## Write your own policy")[1]
EXAMPLE = re.findall(r"```python\n# shortest.py\n(.*?)```", SECTION, re.DOTALL)[0]
BROKEN = """
import time
from cobblestone.policy.client.recent.policy import Recent

class Broken(Recent):
    def {method}(self, *args, **named):
        {line}

class Other: pass
"""
SCENARIO = """
duration = "2 d"
[host]
ncpus = 1
flops = 1e9
[[project]]
name = "a"
share = 100
[[project.app]]
name = "x"
flops_mean = 4e12
latency_bound = 86400
"""


@pytest.fixture(autouse=True)
def same_paths(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave the paths of modules as they were."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    policies._installed.cache_clear()
    yield
    policies._installed.cache_clear()


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give own policies one second for a decision."""
    assert policies.watched.__kwdefaults__
    monkeypatch.setitem(policies.watched.__kwdefaults__, "seconds", 1.0)


@pytest.fixture
def example(tmp_path: Path) -> str:
    (tmp_path / "shortest.py").write_text(EXAMPLE)
    return f"{tmp_path}/shortest.py:Shortest"


def broken(folder: Path, method: str = "schedule", line: str = "return 1 / 0") -> str:
    path = folder / "broken.py"
    path.write_text(BROKEN.format(method=method, line=line))
    return f"{path}:Broken"


def package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the example as an installer would, with the entry point that the page has."""
    (text,) = re.findall(r"```toml\n(.*?)```", SECTION, re.DOTALL)
    ((group, entries),) = tomllib.loads(text)["project"]["entry-points"].items()
    metadata = folder / "site" / "shortest-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: shortest\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("\n".join([f"[{group}]", *map(" = ".join, entries.items())]))
    (metadata.parent / "shortest.py").write_text(EXAMPLE)
    monkeypatch.syspath_prepend(str(metadata.parent))


def attach(folder: Path, policy: str) -> None:
    """Begin a client with that policy, and end it."""
    client = Client(folder / "own", policy=policy, echo=False)
    client.state.flush()
    client.state.close()


def simulated(folder: Path, *names: str) -> Any:
    (folder / "host.toml").write_text(SCENARIO)
    choices = [word for name in names for word in ("--policy", name)]
    return run_here("simulate", str(folder / "host.toml"), *choices, "--json", check=False)


# -- a policy of one's own decides ------------------------------------------------------------------------


def test_the_example_of_the_page_decides_in_the_simulator(tmp_path: Path, example: str) -> None:
    done = simulated(tmp_path, example, "recent")
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["policies"]) == {example, "CS4_WF4_WS1_JC2"}


def test_an_installed_policy_goes_by_the_name_of_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path, monkeypatch)
    assert simulated(tmp_path, "shortest").returncode == 0
    with pytest.raises(ConfigError, match="there are own, published, recent, shortest"):
        policies.make_policy("longest", None)  # type: ignore[arg-type]  # not reached


def test_the_client_keeps_a_policy_in_a_file_and_what_it_remembers(
    tmp_path: Path, example: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    attach(tmp_path, "shortest.py:Shortest")
    monkeypatch.chdir("/")

    def check(world: World) -> None:
        decisions = world.client.decisions
        assert decisions.core.policy.name == example
        assert [job.id for job in decisions.core.state.running] == [f"{URL}|wide_0_r"]
        decisions.store()
        world.client.state.flush()
        again = CoreDriver(world.client.state, policy=example, seed=1)
        assert again.restored
        assert again.core.snapshot() == decisions.core.snapshot()
        assert "decide" not in said(world.client)

    play(tmp_path, check)


def test_a_log_is_replayed_to_a_policy_in_a_file(tmp_path: Path, example: str) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"event": "HostOn", "now": 0}\n{"event": "TimePassed", "now": 60}\n')
    assert "in the end, 60 s" in run_here("client", "replay", str(log), "--policy", example).stdout


def test_runs_that_were_kept_are_made_again_after_a_change_of_an_own_policy(
    tmp_path: Path, example: str
) -> None:
    before = code_version([example, "recent"])
    assert before != code_version()
    (tmp_path / "shortest.py").write_text(EXAMPLE + "# changed\n")
    assert before != code_version([example])


# -- and what is said when it cannot ----------------------------------------------------------------------

WRONG = {
    "{folder}/none.py:Name": "there is no file {folder}/none.py",
    "{folder}/broken.py": "say which class of this file is the policy, as broken.py:Name",
    "{folder}/broken.py:Best": "has no class Best; it has Recent, Broken, Other",
    "{folder}/broken.py:Other": "Other() takes no arguments",
    "{folder}/none_of_it.py:list_of": "is not a scheduling policy: it has no name, reports_all, bind",
    "{folder}/syntax.py:Name": "IndentationError: .*syntax.py, line 2",
    "{folder}/exits.py:Name": "SystemExit: 3 .*exits.py, line 2, in <module>",
    "{folder}/named.py:Named": "its name is 'best'",
    "best": "is not a policy",
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_with_an_own_policy_is_said_before_the_work(tmp_path: Path, name: str) -> None:
    broken(tmp_path)
    (tmp_path / "none_of_it.py").write_text("def list_of(choice, rng):\n    return []\n")
    (tmp_path / "syntax.py").write_text("\nclass Name:")
    (tmp_path / "exits.py").write_text("import sys\nsys.exit(3)\n")
    (tmp_path / "named.py").write_text(EXAMPLE.replace("Shortest", "Named") + "    name = 'best'\n")
    given, words = name.format(folder=tmp_path), WRONG[name].format(folder=tmp_path)
    with pytest.raises(ConfigError, match=re.sub(r"\(\)", r"\\(\\)", words)):
        read_choice(given)
    for command in (["client", "run", str(tmp_path / "own")], ["simulate", "host.toml"]):
        (tmp_path / "host.toml").write_text(SCENARIO)
        if command[0] == "simulate":
            command[1] = str(tmp_path / "host.toml")
        done = run_here(*command, "--policy", given, check=False)
        assert done.returncode in (1, 2)
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert not (tmp_path / "own").exists()


@pytest.mark.parametrize(
    ("method", "line", "words"),
    [
        ("schedule", "return 1 / 0", r"ZeroDivisionError: .*broken.py, line 7, in schedule"),
        ("schedule", "raise SystemExit(1)", r"SystemExit: 1 .*broken.py, line 7, in schedule"),
        ("schedule", "return [None]", r"'NoneType' object has no attribute"),
        ("schedule", "return list(self.state.jobs) * 2", r"the policy .* failed: "),
        ("next_wake", "return 1 / 0", r"in next_wake"),
        ("before", "self.memory.lock = object()", r"failed: "),
        ("schedule", "while True: pass", r"it has not returned for 1 s .*broken.py, line 7, in schedule"),
        ("before", "time.sleep(1e9)", r"it has not returned for 1 s .*broken.py, line 7, in before"),
    ],
)
def test_a_client_whose_own_policy_fails_goes_on_with_the_usual_one_and_loses_nothing(
    tmp_path: Path, method: str, line: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    (tmp_path / "broken.py").write_text(EXAMPLE.replace("Shortest", "Broken"))
    name = full_name(f"{tmp_path}/broken.py:Broken")
    attach(tmp_path, name)

    def check(world: World) -> None:
        client = world.client
        decisions = client.decisions
        running = [job.id for job in decisions.core.state.running]
        jobs = set(decisions.core.state.by_id)
        assert running
        assert decisions.core.policy.name == name
        exec(  # the policy begins to fail while its client runs
            compile(BROKEN.format(method=method, line=line), tmp_path / "broken.py", "exec"), scope := {}
        )
        decisions.core.policy.__class__ = scope["Broken"]
        decisions.core.state.must_schedule = decisions.core.state.must_fetch = True
        client.loop.post(TimePassed(client.clock() + 3600.0))
        client.loop.drain()
        assert re.search(words, said(client)), said(client)
        assert "Until the next start the policy recent decides; no task is lost" in said(client)
        assert decisions.core.policy.name.startswith("recent")
        assert [job.id for job in decisions.core.state.running] == running
        assert set(decisions.core.state.by_id) == jobs
        client.state.flush()
        again = CoreDriver(client.state, policy="recent", seed=1)
        assert again.core.snapshot() == decisions.core.snapshot()

    play(tmp_path, check)


def test_a_client_whose_own_policy_is_gone_at_the_next_start_begins_with_the_usual_one(
    tmp_path: Path, example: str
) -> None:
    attach(tmp_path, example)
    play(tmp_path, lambda world: world.client.decisions.store())
    (tmp_path / "shortest.py").unlink()

    def check(world: World) -> None:
        assert "there is no file" in said(world.client)
        assert "recent decides" in said(world.client)
        assert world.client.decisions.core.policy.name.startswith("recent")

    play(tmp_path, check)


def test_a_forecast_that_an_own_policy_cannot_make_is_empty(tmp_path: Path, example: str) -> None:
    attach(tmp_path, example)

    async def check(world: World) -> None:
        client = world.client
        assert await client.timeline.plan(client.decisions, client.clock())
        (tmp_path / "shortest.py").write_text("1 / 0")
        assert await client.timeline.plan(client.decisions, client.clock() + 3600.0) == []

    play(tmp_path, check)


def test_the_simulator_stops_and_says_where_an_own_policy_fails(tmp_path: Path) -> None:
    done = simulated(tmp_path, broken(tmp_path))
    assert done.returncode == 2
    assert re.search(
        r"^Error: the policy .*ZeroDivisionError.*broken.py, line 7, in schedule\)$", done.stderr
    )


@pytest.mark.parametrize("line", ["while True: pass", "time.sleep(1e9)"])
def test_a_method_that_never_returns_is_named_and_ends_a_simulation_or_a_replay(
    tmp_path: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    own = broken(tmp_path, "before", line)
    (log := tmp_path / "log.jsonl").write_text(
        '{"event": "HostOn", "now": 0}\n{"event": "TimePassed", "now": 60}\n'
    )
    (tmp_path / "host.toml").write_text(SCENARIO)
    one = ["simulate", str(tmp_path / "host.toml"), "--policy", own]
    for command in (one, [*one, "--hosts", "3"], ["client", "replay", str(log), "--policy", own]):
        done = run_here(*command, check=False)
        assert done.returncode in (1, 2)
        assert re.search(
            r"rror: the policy .*it has not returned for 1 s .*broken.py, line 7, in before\)$",
            done.stderr.strip(),
        ), done.stderr


@pytest.mark.parametrize("text", ["while True: pass\n", "import time\ntime.sleep(1e9)\n"])
def test_a_file_that_never_ends_is_said_before_the_work(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    (tmp_path / "endless.py").write_text(text)
    with pytest.raises(ConfigError, match=r"not returned for 1 s .*endless.py, line \d, in <module>"):
        read_choice(f"{tmp_path}/endless.py:Name")


def test_a_client_begins_with_the_usual_policy_where_its_own_never_gets_ready(
    tmp_path: Path, example: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    attach(tmp_path, example)
    play(tmp_path, lambda world: world.client.decisions.store())
    (tmp_path / "shortest.py").write_text("while True: pass\n")
    monkeypatch.setattr(decisions, "START_SECONDS", 1.0)

    def check(world: World) -> None:
        assert "it has not returned for 1 s" in said(world.client)
        assert world.client.decisions.policy.startswith("recent")

    play(tmp_path, check)
