"""Volunteers as a process on a machine of its own: they work for some servers until they are told to stop.

``python -m tests.helpers.distant_volunteers SEED USER PATIENCE URL...``; a line of input ends it, and it prints as JSON what was
acknowledged to it and how long the scheduler's answers took.  PATIENCE: seconds that a volunteer waits for an answer.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time

import httpx
from tests.helpers.killed_project import work
from tests.helpers.project_world import SimHost
from tests.helpers.server_process import RemoteWorld


class EitherWorld:
    """Carries each request to one of several servers, as a proxy does."""

    def __init__(self, urls: list[str], rng: random.Random) -> None:
        self.worlds = [RemoteWorld(url) for url in urls]
        self.rng = rng

    def post(self, path: str, **options: object) -> httpx.Response:
        return self.rng.choice(self.worlds).post(path, **options)

    def close(self) -> None:
        for world in self.worlds:
            world.close()


class ProxiedWorld(EitherWorld):
    """Takes another server where one takes no connections, as a proxy does; a request that was sent is not sent again."""

    def __init__(self, urls: list[str], rng: random.Random, *, patience: float) -> None:
        super().__init__(urls, rng)
        self.seconds: list[float] = []  #: that the scheduler took to answer
        for each in self.worlds:
            each.http.timeout = httpx.Timeout(patience, connect=1)

    def post(self, path: str, **options: object) -> httpx.Response:
        last, *others = self.rng.sample(self.worlds, len(self.worlds))
        for world in others:
            try:
                return self.answered(world, path, **options)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue
        return self.answered(last, path, **options)

    def answered(self, world: RemoteWorld, path: str, **options: object) -> httpx.Response:
        """Post; that a server is busy is an exception, after which a client comes again."""
        began = time.monotonic()
        response = world.post(path, **options)
        if response.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            response.raise_for_status()
        if path.endswith("/cgi"):
            self.seconds.append(time.monotonic() - began)
        return response


def run(
    seed: int, user: str, urls: list[str], *, patience: float, n_hosts: int = 3
) -> tuple[set[str], list[float]]:
    """Work until a line comes; names of results whose report was acknowledged, and seconds of the scheduler's answers."""
    rng = random.Random(seed)
    world = ProxiedWorld(urls, rng, patience=patience)
    hosts = [
        SimHost(world, user, f"{seed * 100 + each:032x}", {"domain_name": f"h{seed}-{each}"})
        for each in range(n_hosts)
    ]
    acknowledged: set[str] = set()
    ended = threading.Event()

    def read() -> None:
        sys.stdin.readline()
        ended.set()

    threading.Thread(target=read, daemon=True).start()
    while not ended.is_set():
        try:
            work(rng.choice(hosts), rng, acknowledged)
        except (httpx.HTTPError, AssertionError):  # AssertionError: an upload is put off, too
            time.sleep(0.1)
    world.close()
    return acknowledged, world.seconds


if __name__ == "__main__":
    names, seconds = run(int(sys.argv[1]), sys.argv[2], sys.argv[4:], patience=float(sys.argv[3]))
    print(json.dumps([sorted(names), seconds]))
