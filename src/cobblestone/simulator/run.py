"""Run one scenario with one policy and one seed."""

from __future__ import annotations

from dataclasses import replace

from cobblestone.domain.errors import ConfigError
from cobblestone.domain.values import value
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.round_robin_backends import PURE, RoundRobinBackends
from cobblestone.simulator.clients import make_client
from cobblestone.simulator.engine import HostRun, Recorder, SimulationFault
from cobblestone.simulator.metrics import Books, Metrics, compute_metrics
from cobblestone.simulator.network import Network
from cobblestone.simulator.scenario import Scenario
from cobblestone.simulator.server import ProjectServer, job_speed
from cobblestone.simulator.streams import CLibraryRandom, Streams

#: Largest part of the delivered FLOPs by which the books may fail to balance (rounding of sums).
TOLERANCE = 1e-6
#: More jobs than this in one run are a slip of a unit, not an experiment.
MAX_JOBS = 5_000_000


@value(kw_only=True)
class RunResult:
    """What came out of a run."""

    scenario: Scenario
    policy: PolicyChoice
    seed: int
    metrics: Metrics
    books: Books


def simulate(
    scenario: Scenario,
    policy: PolicyChoice,
    *,
    seed: int = 1,
    recorder: Recorder | None = None,
    backends: RoundRobinBackends = PURE,
) -> RunResult:
    """Simulate; same arguments, same result, also with compiled twins in ``backends``.

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
    client = make_client(host, network, policy, rng, backends)
    host.run(client)
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
    """Refuse worlds whose jobs are so short that a run would not end."""
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
