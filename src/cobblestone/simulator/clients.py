"""Which client model carries out which policy."""

from __future__ import annotations

import random

from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.simulator.classic import ClassicClient
from cobblestone.simulator.engine import HostRun
from cobblestone.simulator.modern import ModernClient
from cobblestone.simulator.network import Network
from cobblestone.simulator.own import OwnClient
from cobblestone.simulator.polling import PollingClient


def make_client(
    host: HostRun, network: Network, policy: PolicyChoice, rng: random.Random
) -> ClassicClient | ModernClient:
    """Return the client that works by ``policy`` on a host."""
    if policy.cpu_scheduling == 4:
        return ModernClient(host, network, policy, rng)
    if 3 in (policy.cpu_scheduling, policy.work_fetch):
        return OwnClient(host, network, policy, rng)
    polls = host.scenario.compatibility.every_poll
    return (PollingClient if polls else ClassicClient)(host, network, policy, rng)
