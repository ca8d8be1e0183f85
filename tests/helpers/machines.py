"""Machines on one cable, as network namespaces: each can be cut off without a word, or have a bad contact.  Needs root.

The machine of the database passes connections on to a socket on the disk, and as slowly as wanted.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from queue import SimpleQueue
from socket import SHUT_WR, create_server, socket

_numbers = itertools.count(1)


def ip(*words: str) -> None:
    """Run Linux' command of that name."""
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Machines:
    """Namespaces with an address each; the first of them is the switch as well."""

    def __init__(self, *names: str) -> None:
        self._prefix = f"stone{os.getpid()}x{next(_numbers)}-"
        self._names = names
        try:
            self._connect_all()
        except BaseException:
            self.close()
            raise

    def _connect_all(self) -> None:
        names = self._names
        switch = self.namespace(names[0])
        for name in names:
            ip("netns", "add", self.namespace(name))
            ip("-n", self.namespace(name), "link", "set", "lo", "up")
        ip("-n", switch, "link", "add", "switch", "type", "bridge")
        ip("-n", switch, "addr", "add", f"{self.address(names[0])}/24", "dev", "switch")
        ip("-n", switch, "link", "set", "switch", "up")
        for name in names[1:]:
            here, there = self._port(name), self.namespace(name)
            ip("-n", switch, "link", "add", here, "type", "veth", "peer", "name", "eth0", "netns", there)
            ip("-n", switch, "link", "set", here, "master", "switch", "up")
            ip("-n", there, "addr", "add", f"{self.address(name)}/24", "dev", "eth0")
            ip("-n", there, "link", "set", "eth0", "up")

    def namespace(self, name: str) -> str:
        return self._prefix + name

    def address(self, name: str) -> str:
        return f"10.77.0.{1 + self._names.index(name)}"

    def on(self, name: str) -> Sequence[str]:
        """Words that let a command run on a machine."""
        return ("ip", "netns", "exec", self.namespace(name))

    def _port(self, name: str) -> str:
        return f"port{self._names.index(name)}"

    def connect(self, name: str, *, connected: bool = True) -> None:
        """Put a machine's cable in, or pull it out: packets are lost, and nobody is told."""
        what = "-D" if connected else "-I"
        self._filter(name, what, "INPUT", "-i", "eth0", "-j", "DROP")
        self._filter(name, what, "OUTPUT", "-o", "eth0", "-j", "DROP")

    def loosen(self, name: str, *, lost: float) -> None:
        """Let a machine's cable lose a part of the packets from now on."""
        chance = ("-m", "statistic", "--mode", "random", "--probability", f"{lost:g}")
        self._filter(name, "-A", "INPUT", "-i", "eth0", *chance, "-j", "DROP")

    def _filter(self, name: str, *words: str) -> None:
        subprocess.run([*self.on(name), "iptables", *words], check=True, capture_output=True)

    def close(self) -> None:
        for name in self._names:
            with suppress(subprocess.CalledProcessError):  # it was not made
                ip("netns", "del", self.namespace(name))


def relay(address: str, port: int, path: str, *, seconds: float) -> None:
    """Pass connections on to a Unix socket; what is said arrives ``seconds`` later, in both directions."""
    listener = create_server((address, port))
    print("listening", flush=True)
    while True:
        caller, _ = listener.accept()
        called = socket(1)  # AF_UNIX
        called.connect(path)
        for source, target in ((caller, called), (called, caller)):
            threading.Thread(target=_pass_on, args=(source, target, seconds), daemon=True).start()


def _pass_on(source: socket, target: socket, seconds: float) -> None:
    under_way: SimpleQueue[tuple[float, bytes]] = SimpleQueue()

    def arrive() -> None:
        with suppress(OSError):
            while True:
                when, data = under_way.get()
                time.sleep(max(0.0, when - time.monotonic()))
                if not data:
                    target.shutdown(SHUT_WR)
                    return
                target.sendall(data)

    threading.Thread(target=arrive, daemon=True).start()
    with suppress(OSError):
        while data := source.recv(65_536):
            under_way.put((time.monotonic() + seconds, data))
    under_way.put((time.monotonic() + seconds, b""))


class Relay:
    """`relay` as a process on a machine."""

    def __init__(self, machines: Machines, name: str, *, port: int, path: str, seconds: float = 0.0) -> None:
        words = (sys.executable, "-m", "tests.helpers.machines", machines.address(name), str(port), path)
        self._process = subprocess.Popen([*machines.on(name), *words, str(seconds)], stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"listening\n"

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for word in ("address", "port", "path", "seconds"):
        parser.add_argument(word)
    options = parser.parse_args()
    relay(options.address, int(options.port), options.path, seconds=float(options.seconds))
