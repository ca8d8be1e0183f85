"""Tests run in environment_fingerprint that are the same everywhere, and stay on this machine."""

from __future__ import annotations

import os
import random
import socket
import time

import pytest


@pytest.mark.parametrize("address", [("192.0.2.1", 80), ("example.org", 80), ("2001:db8::1", 80)])
def test_a_test_cannot_reach_another_machine(address: tuple[str, int]) -> None:
    with pytest.raises(PermissionError, match="tests use this machine only"):
        socket.create_connection(address, timeout=1)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_test_can_reach_this_machine(host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection((host, server.getsockname()[1]), timeout=5).close()


def test_the_surroundings_are_the_same_everywhere() -> None:
    assert time.strftime("%Z", time.localtime(0)) == "UTC"
    assert {name for name in os.environ if name.lower().endswith("_proxy")} <= {"NO_PROXY"}
    assert [name for name in os.environ if name.startswith(("COBBLESTONE_", "LC_", "GIT"))] == []


def test_chance_depends_on_the_printed_seed_only(rng: random.Random, request: pytest.FixtureRequest) -> None:
    seed = request.config.option.hypothesis_seed
    assert rng.random() == random.Random(f"{seed} {request.node.nodeid}").random()
