"""The recipe for a scheduling policy, followed: one module and a registration."""

from __future__ import annotations

import dataclasses
import json
import random
import sys
from types import ModuleType

import pytest
from tests.helpers.client_play import HOUR, Play, job, once

from cobblestone.domain.errors import ConfigError
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.core.machine import ClientCore
from cobblestone.policy.client.core.protocol import POLICIES
from cobblestone.policy.client.core.state import ClientJob
from cobblestone.policy.client.core.values import HostDevices, ProjectDescription
from cobblestone.policy.client.recent.policy import Recent, RecentMemory
from cobblestone.simulator.host.run import simulate
from cobblestone.simulator.paper import cells


@dataclasses.dataclass(slots=True)
class Counted(RecentMemory):
    """What the policy remembers besides."""

    done: int = 0


class ShortestFirst(Recent):
    """Runs the jobs with least left to do, and counts them; everything else as today."""

    remembers = Counted
    memory: Counted  # pyright: ignore[reportIncompatibleVariableOverride]  # a wider memory

    @property
    def name(self) -> str:
        """The name to make it by."""
        return "shortest"

    def ended(self, job: ClientJob, elapsed: float) -> None:
        """Learn from a job."""
        super().ended(job, elapsed)
        self.memory.done += 1

    def schedule(self) -> list[ClientJob]:
        """Return the shortest jobs, one per CPU."""
        self.look_ahead()
        return sorted((j for j in self.state.jobs if j.runnable), key=lambda j: j.remaining)[
            : self.state.ncpus
        ]


def from_name(name: str, rng: random.Random) -> ShortestFirst:
    return ShortestFirst(PolicyChoice.parse("CS4_WF4_WS1_JC2"), rng)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("policy_of_a_contributor")
    module.__dict__["from_name"] = from_name
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(POLICIES, "shortest", f"{module.__name__}:from_name")


def test_a_registered_policy_decides_what_runs() -> None:
    jobs = [job(f"j{hours}", estimate=hours * HOUR) for hours in (5, 1, 3, 2)]
    play = Play(
        [ProjectDescription(id="p")], {"p": once(*jobs)}, devices=HostDevices(ncpus=1), policy="shortest"
    )
    play.run(12 * HOUR)
    assert list(play.finished) == ["j1", "j2", "j3", "j5"]


def test_a_registered_policy_is_stored_and_restored_by_its_name() -> None:
    jobs = [job(f"j{hours}", estimate=hours * HOUR) for hours in (1, 2, 3)]
    play = Play([ProjectDescription(id="p")], {"p": once(*jobs)}, policy="shortest")
    play.run(2.5 * HOUR)
    again = ClientCore.restore(json.loads(json.dumps(play.core.snapshot())), rng=random.Random(1))
    assert isinstance(again.policy, ShortestFirst)
    assert again.policy.name == "shortest"
    assert again.policy.memory.done == 2
    assert again.snapshot() == play.core.snapshot()


def test_the_simulator_runs_a_registered_policy_by_its_name() -> None:
    scenario = dataclasses.replace(cells.mix(3), duration=5 * 24 * HOUR)
    result = simulate(scenario, PolicyChoice.parse("shortest"))
    assert str(result.policy) == "shortest"
    assert result.metrics.jobs > 0
    today = simulate(scenario, PolicyChoice.parse("recent"))
    assert str(today.policy) == "CS4_WF4_WS1_JC2"
    assert result.metrics != today.metrics


def test_a_policy_that_nobody_registered_is_refused_with_the_names_that_there_are() -> None:
    with pytest.raises(ConfigError, match="own, published, recent, shortest"):
        PolicyChoice.parse("longest")
