"""Which client model carries out which policy."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.simulator.classic import ClassicClient
from cobblestone.simulator.engine import HostRun
from cobblestone.simulator.fluid import PURE, FluidModels
from cobblestone.simulator.network import Network

if TYPE_CHECKING:
    from cobblestone.simulator.modern import ModernClient


def make_client(
    host: HostRun, network: Network, policy: PolicyChoice, rng: random.Random, fluid: FluidModels = PURE
) -> ClassicClient | ModernClient:
    """Return the client that works by ``policy`` on a host; the others' code is not loaded."""
    if policy.cpu_scheduling == 4:
        from cobblestone.simulator.modern import ModernClient

        return ModernClient(host, network, policy, rng)
    kind = ClassicClient
    if 3 in (policy.cpu_scheduling, policy.work_fetch):
        from cobblestone.simulator.own import OwnClient

        kind = OwnClient
    elif host.scenario.compatibility.every_poll:
        from cobblestone.simulator.paper.client_2007 import PollingClient

        kind = PollingClient
    client = kind(host, network, policy, rng)
    client.fluid = fluid
    return client
