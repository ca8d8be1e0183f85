"""Run one scenario with one policy and one seed; only the code that the policy needs is loaded."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from cobblestone.domain.errors import ConfigError
from cobblestone.domain.values import value
from cobblestone.ops import policies
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.published.round_robin import PURE, RoundRobinBackends
from cobblestone.simulator.host.books import Books, FiguresOfMerit, compute_metrics
from cobblestone.simulator.host.driver import Network, SimulatedClient
from cobblestone.simulator.host.engine import HostRun, Recorder, SimulationFault
from cobblestone.simulator.host.server import ProjectServer, job_speed
from cobblestone.simulator.world.distributions import CLibraryRandom, Streams
from cobblestone.simulator.world.scenario import Compatibility, HostModel, Scenario

if TYPE_CHECKING:
    from cobblestone.policy.client.core.protocol import Policy
    from cobblestone.policy.client.published.policy import Availability


def make_client(
    host: HostRun,
    network: Network,
    choice: PolicyChoice,
    rng: random.Random,
    backends: RoundRobinBackends = PURE,
) -> SimulatedClient:
    """Return the client with the policy ``choice`` for a host."""
    published = choice.cpu_scheduling < 3 and choice.work_fetch < 3
    if host.scenario.compatibility.every_poll and published:
        from cobblestone.simulator.host.client_2007 import PollingClient

        return PollingClient(host, network, choice, rng, _availability(host.host), backends)
    return SimulatedClient(host, network, choice, make_policy(host.scenario, choice, rng, backends))


def make_policy(
    scenario: Scenario, choice: PolicyChoice, rng: random.Random, backends: RoundRobinBackends = PURE
) -> Policy:
    """Return the policy, with the availability that the scenario makes the client assume."""
    if choice.registered:
        return policies.make_policy(choice.registered, rng)
    host, compatibility = scenario.host, scenario.compatibility
    if choice.cpu_scheduling == 4:
        from cobblestone.policy.client.recent.policy import Recent

        return Recent(choice, rng, availability=_told(host))
    from cobblestone.policy.client.published.policy import PublishedPolicy
    from cobblestone.policy.client.published.run_list import Behaviour2007

    ways = Behaviour2007()
    if compatibility != Compatibility():
        from cobblestone.simulator.host.client_2007 import ways_2007

        ways = ways_2007(compatibility)
    told = _availability(host)
    if choice.cpu_scheduling == 3:
        from cobblestone.policy.client.own.policy import OwnPolicy

        aversion = scenario.preferences.waste_aversion
        return OwnPolicy(
            choice, rng, availability=told, ways=ways, backends=backends, waste_aversion=aversion
        )
    return PublishedPolicy(choice, rng, availability=told, ways=ways, backends=backends)


def _told(host: HostModel) -> float | None:
    """Return the availability that the scenario tells the client, None if it must learn it."""
    told = host.believed_availability
    if isinstance(told, float | int):
        return float(told)
    return host.availability.part_on if told == "true" else None


def _availability(host: HostModel) -> Availability:
    """Return how the client estimates its availability."""
    told = _told(host)
    if told is not None:
        return told
    return "efficiency" if host.believed_availability == "efficiency" else "statistics"


#: Largest part of the delivered FLOPs by which the books may fail to balance (rounding of sums).
TOLERANCE = 1e-6
#: More jobs than this in one run are a slip of a unit, not an experiment.
MAX_JOBS = 5_000_000


@value(kw_only=True)
class RunResult:
    """The result of a run."""

    scenario: Scenario
    policy: PolicyChoice
    seed: int
    metrics: FiguresOfMerit
    books: Books


def simulate(
    scenario: Scenario,
    policy: PolicyChoice,
    *,
    seed: int = 1,
    recorder: Recorder | None = None,
    backends: RoundRobinBackends = PURE,
) -> RunResult:
    """Simulate; equal arguments give equal results, also with compiled twins in ``backends``.

    Raises :class:`ConfigError` for an impossible scenario and :class:`SimulationFault` if the books do not
    balance.
    """
    scenario.check()
    if not policy.knows_devices and any(a.gpu for p in scenario.projects for a in p.apps):
        raise ConfigError(
            f"{policy}: the published policies know CPUs only, and the scenario has GPU jobs; use CS3_WF3 or CS4_WF4"
        )
    if policy.cpu_scheduling == 4 and scenario.compatibility.quantum:
        raise ConfigError(
            f"{policy}: the polling of 2007 (compatibility.quantum) belongs to the published policies; leave it out"
        )
    require_sane_number_of_jobs(scenario)
    # the order of projects in a file must not matter, so they are put in the order of their names
    scenario = replace(scenario, projects=tuple(sorted(scenario.projects, key=lambda p: p.name)))
    streams = Streams(seed)
    shared = CLibraryRandom(seed) if scenario.compatibility.c_library_random else None
    host = HostRun(scenario, streams, shared, recorder)
    servers = [
        ProjectServer(
            model,
            i,
            scenario.host,
            shared if shared is not None else streams.stream("jobs", model.name),
            inversion=shared is not None,
        )
        for i, model in enumerate(scenario.projects)
    ]
    network = Network(host, servers, streams)
    rng = shared if shared is not None else streams.stream("backoff")

    def run() -> SimulatedClient:
        client = make_client(host, network, policy, rng, backends)
        host.run(client)
        return client

    client = policies.watched(policy.registered, run, beat=lambda: host.now)
    for task in client.left_over():
        host.books.leave(task, scenario.duration)
    require_balance(scenario, policy, seed, host.books)
    return RunResult(
        scenario=scenario, policy=policy, seed=seed, metrics=compute_metrics(host.books), books=host.books
    )


def require_balance(scenario: Scenario, policy: PolicyChoice, seed: int, books: Books) -> None:
    """Raise :class:`SimulationFault` if the books of a run do not balance."""
    off = books.imbalance()
    if off > TOLERANCE:
        raise SimulationFault(
            f"scenario {scenario.name!r}, {policy}, seed {seed}: the books are out of balance by {off:.3g} of what was delivered;"
            " please report this with the scenario file"
        )


def require_sane_number_of_jobs(scenario: Scenario) -> None:
    """Refuse scenarios whose jobs are so short that a run would not end."""
    host = scenario.host
    instances = {"": host.ncpus} | {g.type: g.count for g in host.gpus}
    for project in scenario.projects:
        for app in project.apps:
            each = app.gpus if app.gpu else app.cpus
            seconds = app.sizes.average / job_speed(app, host)
            jobs = scenario.duration * instances[app.gpu] / max(each, 1e-3) / max(seconds, 1e-12)
            if app.weight > 0 and jobs > MAX_JOBS:
                raise ConfigError(
                    f"project {project.name!r}, app {app.name!r}: jobs of {seconds:.3g} s would be {jobs:.3g} in"
                    f" {scenario.duration:g} s; allowed: up to {MAX_JOBS}; take larger jobs (flops_mean) or a shorter duration"
                )
