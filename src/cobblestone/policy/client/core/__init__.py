"""The client's decisions: events in, instructions out (see docs/client-core.md).

A daemon and the simulator drive the same :class:`~cobblestone.policy.client.core.machine.ClientCore`.  It has no clock, no
files and no sockets; what it knows is one state value, and what it decides depends on that, the events, the policy and the
random numbers that it is given.
"""

from __future__ import annotations
