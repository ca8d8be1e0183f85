"""The loop of the benchmark with the ledger system in it, all compiled.  Needs the extra ``lab``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from cobblestone.credit_lab.bench import loop
from cobblestone.credit_lab.bench.run import Run
from cobblestone.credit_lab.rows import Floats, Integers, Rows, compiled
from cobblestone.credit_lab.systems import ledger_twin as twin
from cobblestone.credit_lab.systems.pay import Pay
from cobblestone.credit_lab.systems.tape import Tape
from cobblestone.policy.credit.claims import DEPLOYED
from cobblestone.policy.credit.ledger_system.records import AppRecord, HostRecord, LedgerRules, VersionRecord


def _forget_old_code() -> None:
    """Remove compiled code that is older than a file that it was made of: Numba looks at this file only."""
    newest = max(path.stat().st_mtime for path in (*twin.SOURCES, Path(loop.__file__)))
    for path in (Path(__file__).parent / "__pycache__").glob("ledger_loop.*.nb?"):
        if path.stat().st_mtime < newest:
            path.unlink(missing_ok=True)


_forget_old_code()


@compiled
def advance(
    rules: Any, state: Integers, hosts: Rows, jobs: Rows, starts: Integers, members: Integers, cumulative: Floats,
    act: Rows, scratch: Rows, rows: Rows, terms: Any, books: Any,
) -> int:  # fmt: skip
    """Go on until an attacker is asked, the rows are full, or all is done."""
    while True:
        why = loop.advance(rules, state, hosts, jobs, starts, members, cumulative, act, scratch, rows)
        if why == loop.CHECK:
            reported = state[loop.REPORTED]
            more = twin.wants(terms, books, scratch, reported, jobs[state[loop.JOB_NO]])
            if more > 0:
                state[loop.WANTED] = min(loop.MOST_REPLICAS, reported + more)
                state[loop.AGREEING] = max(state[loop.AGREEING], min(3, reported + more))
                state[loop.TRUSTED] = 1
            state[loop.ANSWERED] = 1
        elif why == loop.DECIDED:
            twin.decided(
                terms, books, rows, state[loop.FIRST], state[loop.FILLED], jobs[state[loop.JOB_NO] - 1]
            )
        else:
            return why


class LedgerRun(Run):
    """A run under the ledger system, as `Run` with a `LedgerWatcher`, some hundred times as fast."""

    def start(self, seed: int, ledger_rules: LedgerRules) -> None:
        """Begin with no records."""
        self.rules = self.rules._replace(checks=loop.OWN, pause=True)
        known = {name: getattr(ledger_rules, name) for name in twin.Terms._fields[2:]}
        self.terms = twin.Terms(quorum=self.world.quorum, key=np.uint64(seed), **known)
        apps: Any = np.zeros(self.world.projects + 1, dtype=twin.LEDGER_APP)
        fresh = AppRecord(unit=DEPLOYED.per_flop)
        apps["unit"], apps["difference"], apps["mean_size"] = fresh.unit, fresh.difference, fresh.mean_size
        versions: Any = np.zeros(apps.size * twin.VERSIONS, dtype=twin.LEDGER_VERSION)
        versions["spread"] = VersionRecord().spread
        n = self.rows.size
        self.books = twin.Books(
            hosts=self._hosts(2 * len(self.accounts) * apps.size * 2),
            versions=versions,
            apps=apps,
            accounts=np.array(self.accounts * 2, dtype=np.int64),
            price=np.zeros(n),
            final=np.zeros(n),
            revoked=np.zeros(n),
            extra=np.zeros(n),
            older=np.zeros(n, dtype=np.int64),
            readings=np.zeros(twin.MOST_REPORTS, dtype=twin.READING),
            counts=np.zeros(2, dtype=np.int64),
            places=np.zeros(twin.MOST_REPORTS, dtype=np.int64),
        )

    def advance(self) -> int:
        """Go on until an attacker is asked, the rows are full, or all is done."""
        member = self.member
        return advance(
            self.rules, self.state, self.hosts, self.jobs, member.starts, member.members, member.cumulative,
            self.act, self.scratch, self.rows, self.terms, self.books,
        )  # fmt: skip

    def grow(self) -> None:
        """Make room for more rows."""
        super().grow()
        longer = {
            name: np.concatenate([old, np.zeros(self.rows.size - old.size, dtype=old.dtype)])
            for name in ("price", "final", "revoked", "extra", "older")
            for old in [getattr(self.books, name)]
        }
        self.books = self.books._replace(**longer)

    def renewed(self) -> None:
        """Make room for a new identity."""
        n = len(self.accounts)
        if n > self.books.accounts.size:
            self.books = self.books._replace(
                hosts=np.concatenate([self.books.hosts, self._hosts(self.books.hosts.size)]),
                accounts=np.concatenate([self.books.accounts, np.zeros_like(self.books.accounts)]),
            )
        self.books.accounts[n - 1] = self.accounts[-1]

    def pay(self, tape: Tape, seconds: float) -> Pay:
        """Return what was paid; ``seconds``: of the whole run."""
        n, books = tape.results.size, self.books
        return Pay(
            price=books.price[:n],
            final=books.final[:n],
            revoked=books.revoked[:n],
            extra=books.extra[:n],
            audits=int(books.counts[twin.AUDITS]),
            seconds=seconds,
            state_bytes=int((books.hosts["jobs"] > 0).sum()) * 72
            + int((books.versions["votes"] > 0).sum()) * 24
            + 96,
        )

    @staticmethod
    def _hosts(n: int) -> Any:  # Any: rows of NumPy
        hosts: Any = np.zeros(n, dtype=twin.LEDGER_HOST)
        hosts["noise"], hosts["newest"] = HostRecord().noise, -1
        return hosts


def run_ledger(run: LedgerRun, seed: int, rules: LedgerRules) -> tuple[Tape, Pay]:
    """Run a world under the ledger system."""
    run.start(seed, rules)
    began = time.perf_counter()
    tape = run.finish()
    return tape, run.pay(tape, time.perf_counter() - began)
