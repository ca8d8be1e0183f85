"""Rate limits for unauthenticated requests: creating accounts, logging in, sending mails; and what browsers hold, by network.

Each kind of attempt has buckets, by address and by account.  A bucket holds an hour's worth of attempts and fills up evenly.
They are in memory and bounded in number: those that were not touched for longest go first, and a full bucket says nothing anyway.
An IPv6 address counts with its whole /64 network, since that is what one customer gets.

Processes of one service tell each other of every attempt, as a digest of who made it, within some hundredths of a second; each
counts all of them.  So a limit holds for the service, but for attempts that come to several processes at the same moment, and for
what a process that has just started, or lost its connection for a while, has not heard.
"""

from __future__ import annotations

import hashlib
import ipaddress
import itertools
import math
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import lru_cache

from starlette.types import Scope

from cobblestone.domain.apps import BROWSER_SILENCE
from cobblestone.domain.hosts import network_of
from cobblestone.domain.values import HOUR
from cobblestone.ops.settings import LimitsSection
from cobblestone.wire.project.account import WebRpcError, WebRpcFailure

MAX_KEYS = 20_000
ATTEMPT = "attempt:"
#: What the names of attempts, and of what browsers hold, begin with, among all that processes tell each other.
HELD = "held:"


class AttemptBucket:
    """Attempts of one kind, by client."""

    def __init__(
        self,
        per_hour: int,
        *,
        max_keys: int = MAX_KEYS,
        tell: Callable[[str, bool], None] = lambda digest, taken: None,
    ) -> None:
        """``tell`` is called for every attempt: a digest of its key, and whether it was counted or taken back."""
        self._size = float(per_hour)
        self._max_keys = max_keys
        self._tell = tell
        # what is left, and when; by digest
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()  # other processes' attempts come in a thread of their own

    def wait(self, key: str, *, now: float) -> float:
        """Return the seconds until the next attempt is allowed; 0: now."""
        if not self._size:
            return 0.0
        with self._lock:
            return max(0.0, (1.0 - self._left(_digest(key), now)) * HOUR / self._size)

    def attempt(self, key: str, *, now: float) -> float:
        """Count an attempt; return the seconds to wait if it is not allowed."""
        wait = self.wait(key, now=now)
        if not wait:
            self.take(key, now=now)
        return wait

    def take(self, key: str, *, now: float) -> None:
        """Count an attempt."""
        if self._size:
            self.count(_digest(key), taken=True, now=now)
            self._tell(_digest(key), True)

    def give_back(self, key: str, *, now: float) -> None:
        """Take back an attempt."""
        if self._size:
            self.count(_digest(key), taken=False, now=now)
            self._tell(_digest(key), False)

    def count(self, digest: str, *, taken: bool, now: float) -> None:
        """Count or take back an attempt of the client with this digest; from any thread."""
        if not self._size:
            return
        with self._lock:
            if taken:
                self._levels[digest] = (max(self._left(digest, now) - 1.0, 0.0), now)
                self._levels.move_to_end(digest)
                while len(self._levels) > self._max_keys:
                    self._levels.popitem(last=False)
            elif digest in self._levels:
                self._levels[digest] = (min(self._size, self._left(digest, now) + 1.0), now)

    def __len__(self) -> int:
        return len(self._levels)

    def _left(self, digest: str, now: float) -> float:
        left, since = self._levels.get(digest, (self._size, now))
        # the clock was set back: without this nothing would fill up until it is as late again
        if now < since:
            since = now
            self._levels[digest] = (left, now)
        return min(self._size, left + max(0.0, now - since) * self._size / HOUR)


class HeldByNetworks:
    """How many jobs browsers hold, by the network that they spoke from last; a silent one's go back and are forgotten."""

    def __init__(self, share: Callable[[set[str]], None]) -> None:
        self._share = share
        self._held: OrderedDict[int, tuple[str, int, float]] = OrderedDict()  # by browser, silent ones first
        self._lock = threading.Lock()

    def note(self, address: str, browser: int, jobs: int, *, now: float) -> None:
        """Record how many jobs a browser holds that has just spoken; from any thread."""
        name = f"{HELD}{_digest(network_of(address))}:{browser}:{jobs}"
        self.hear({name}, now=now)
        self._share({name})

    def hear(self, names: Iterable[str], *, now: float) -> None:
        """Record what browsers told here, or other processes; from any thread.  Other messages are ignored."""
        for name in names:
            network, browser, jobs, *_ = (*name.removeprefix(HELD).split(":"), "", "")
            if name.startswith(HELD):
                with self._lock:
                    self._held.pop(int(browser), None)
                    self._held[int(browser)] = (network, int(jobs), now + BROWSER_SILENCE)
                    while len(self._held) > MAX_KEYS or next(iter(self._held.values()))[-1] <= now:
                        self._held.popitem(last=False)

    def held(self, address: str, *, now: float) -> int:
        """Return how many jobs the browsers of an address's network hold."""
        network = _digest(network_of(address))
        with self._lock:
            return sum(jobs for of, jobs, until in self._held.values() if of == network and until > now)


class RateLimits:
    """The buckets of a service."""

    def __init__(
        self, limits: LimitsSection, *, share: Callable[[set[str]], None] = lambda names: None
    ) -> None:
        """``share`` names clients to the other processes, which `hear` them."""
        self._share = share
        self._numbers = itertools.count()
        self._by_kind: dict[str, AttemptBucket] = {}
        self.creations = self._bucket("creations", limits.creations_per_address)
        self.failures_by_address = self._bucket("failures_by_address", limits.failures_per_address)
        self.failures_by_account = self._bucket("failures_by_account", limits.failures_per_account)
        self.lookups = self._bucket("lookups", limits.lookups_per_address)
        self.mails_by_address = self._bucket("mails_by_address", limits.mails_per_address)
        self.mails_by_account = self._bucket("mails_by_account", limits.mails_per_account)
        self.new_browsers = self._bucket("new_browsers", limits.browsers_per_address)
        self.browsers = self._bucket("browsers", limits.requests_per_browser)
        self.held = HeldByNetworks(share)
        self.accounting = self._bucket("accounting", limits.accounting_per_token)

    def _bucket(self, kind: str, per_hour: int) -> AttemptBucket:
        def tell(digest: str, taken: bool) -> None:
            # Names are a set: the number keeps two attempts of one visitor apart.
            self._share({f"{ATTEMPT}{kind}:{digest}:{int(taken)}:{next(self._numbers)}"})

        bucket = self._by_kind[kind] = AttemptBucket(per_hour, tell=tell)
        return bucket

    def hear(self, names: Iterable[str], *, now: float) -> None:
        """Count attempts reported by other processes; from any thread.  Other messages are ignored."""
        self.held.hear(names, now=now)
        for name in names:
            kind, _, rest = name.removeprefix(ATTEMPT).partition(":")
            digest, taken, *_ = (*rest.split(":"), "")
            if name.startswith(ATTEMPT) and kind in self._by_kind:
                self._by_kind[kind].count(digest, taken=taken == "1", now=now)

    def try_password(self, address: str, account: str, *, now: float) -> float:
        """Count an attempt with a password or code; return the seconds to wait if it is not allowed.

        It counts as a failure before it is looked at, since many may come at the same moment; `password_was_right` takes
        that back.
        """
        wait = max(
            self.failures_by_address.wait(address, now=now), self.failures_by_account.wait(account, now=now)
        )
        if not wait:
            self.failures_by_address.take(address, now=now)
            self.failures_by_account.take(account, now=now)
        return wait

    def password_was_right(self, address: str, account: str, *, now: float) -> None:
        """Take back the count of a failed attempt."""
        self.failures_by_address.give_back(address, now=now)
        self.failures_by_account.give_back(account, now=now)

    def try_mail(self, address: str, account: str, *, now: float) -> float:
        """Count a mail that someone asks for; return the seconds to wait if it is not allowed."""
        wait = max(self.mails_by_address.wait(address, now=now), self.mails_by_account.wait(account, now=now))
        if not wait:
            self.mails_by_address.take(address, now=now)
            self.mails_by_account.take(account, now=now)
        return wait

    def try_to_join(self, address: str, given: str, *, invitation: str | None, now: float) -> None:
        """Count a new account; ``invitation``: the code that must be given, None: no one needs one.

        Raises:
            WebRpcFailure: the code is wrong, or there were too many attempts.
        """
        refuse_after(self.failures_by_address.wait(address, now=now))
        if invitation is not None and not secrets.compare_digest(given.encode(), invitation.encode()):
            self.failures_by_address.take(address, now=now)
            raise WebRpcFailure(WebRpcError.GENERIC, "The invitation code is missing or wrong.")
        refuse_after(self.creations.attempt(address, now=now))


def _digest(key: str) -> str:
    """Return the digest of a key: neither memory nor other processes need people's addresses."""
    return hashlib.blake2b(key.encode(errors="replace"), digest_size=12).hexdigest()


def minutes(seconds: float) -> int:
    """Return a waiting time for people: whole minutes, at least one."""
    return max(1, math.ceil(seconds / 60))


def client_address(scope: Scope) -> str:
    """Return the address that sent a request; behind a trusted proxy (``server.trusted_proxies``), the one that it names."""
    client = scope.get("client")
    return str(client[0]) if client else ""


@lru_cache(maxsize=1024)  # a busy sender comes again and again
def limit_key(address: str) -> str:
    """Return the part of an address that limits apply to."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False).network_address)
    return address


class TooManyAttempts(WebRpcFailure):
    """There were too many attempts."""

    def __init__(self, wait_minutes: int) -> None:
        super().__init__(
            WebRpcError.GENERIC, f"There were too many attempts. Try again in {wait_minutes} min."
        )
        self.wait_minutes = wait_minutes


def refuse_after(wait: float) -> None:
    """Raise WebRpcFailure if the client has to wait (seconds)."""
    if wait > 0:
        raise TooManyAttempts(minutes(wait))
