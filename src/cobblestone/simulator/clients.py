"""Which client model carries out which policy."""

from __future__ import annotations

import random

from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.simulator.classic import ClassicClient
from cobblestone.simulator.engine import HostRun
from cobblestone.simulator.fluid import PURE, FluidModels
from cobblestone.simulator.modern import ModernClient
from cobblestone.simulator.network import Network
from cobblestone.simulator.own import OwnClient
from cobblestone.simulator.polling import PollingClient


def make_client(
    host: HostRun, network: Network, policy: PolicyChoice, rng: random.Random, fluid: FluidModels = PURE
) -> ClassicClient | ModernClient:
    """Return the client that works by ``policy`` on a host."""
    if policy.cpu_scheduling == 4:
        return ModernClient(host, network, policy, rng)
    kind = PollingClient if host.scenario.compatibility.every_poll else ClassicClient
    if 3 in (policy.cpu_scheduling, policy.work_fetch):
        kind = OwnClient
    client = kind(host, network, policy, rng)
    client.fluid = fluid
    return client
