"""Which client carries out which policy; only what is needed is loaded."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.core import protocol
from cobblestone.policy.client.round_robin_backends import PURE, RoundRobinBackends
from cobblestone.simulator.driver import SimulatedClient
from cobblestone.simulator.engine import HostRun
from cobblestone.simulator.network import Network
from cobblestone.simulator.scenario import Compatibility, HostModel, Scenario

if TYPE_CHECKING:
    from cobblestone.policy.client.core.protocol import Policy
    from cobblestone.policy.client.published import Availability


def make_client(
    host: HostRun,
    network: Network,
    choice: PolicyChoice,
    rng: random.Random,
    backends: RoundRobinBackends = PURE,
) -> SimulatedClient:
    """Return the client that works by the policy ``choice`` on a host."""
    published = choice.cpu_scheduling < 3 and choice.work_fetch < 3
    if host.scenario.compatibility.every_poll and published:
        from cobblestone.simulator.paper.client_2007 import PollingClient

        return PollingClient(host, network, choice, rng, _availability(host.host), backends)
    return SimulatedClient(host, network, choice, make_policy(host.scenario, choice, rng, backends))


def make_policy(
    scenario: Scenario, choice: PolicyChoice, rng: random.Random, backends: RoundRobinBackends = PURE
) -> Policy:
    """Return the policy, with what the scenario makes the client take its availability for."""
    if choice.registered:
        return protocol.make_policy(choice.registered, rng)
    host, compatibility = scenario.host, scenario.compatibility
    if choice.cpu_scheduling == 4:
        from cobblestone.policy.client.recent import Recent

        return Recent(choice, rng, availability=_told(host))
    from cobblestone.policy.client.published import Published
    from cobblestone.policy.client.ways_2007 import Ways2007

    ways = Ways2007()
    if compatibility != Compatibility():
        from cobblestone.simulator.paper.client_2007 import ways_2007

        ways = ways_2007(compatibility)
    told = _availability(host)
    if choice.cpu_scheduling == 3:
        from cobblestone.policy.client.own_devices import OwnOnDevices

        aversion = scenario.preferences.waste_aversion
        return OwnOnDevices(
            choice, rng, availability=told, ways=ways, backends=backends, waste_aversion=aversion
        )
    return Published(choice, rng, availability=told, ways=ways, backends=backends)


def _told(host: HostModel) -> float | None:
    """Return the availability that the scenario tells the client, None if it has to find out."""
    told = host.believed_availability
    if isinstance(told, float | int):
        return float(told)
    return host.availability.part_on if told == "true" else None


def _availability(host: HostModel) -> Availability:
    """Return how the client is to estimate its availability."""
    told = _told(host)
    if told is not None:
        return told
    return "efficiency" if host.believed_availability == "efficiency" else "statistics"
