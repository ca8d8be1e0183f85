"""The compiled twin of the ledger system's engine: the same formulas, over rows.  Needs the extra ``lab``.

Formulas are those of `cobblestone.policy.credit.ledger_system.rules`, compiled unchanged; a test holds the order of steps, which
is repeated here, equal to `cobblestone.policy.credit.ledger_system.engine`.
"""
# length: the compiled functions inline each other, which works best within one module.

from __future__ import annotations

import inspect
import math
import sys
from collections import namedtuple
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from cobblestone.credit_lab.joblog import ERROR, INVALID, VALID
from cobblestone.credit_lab.rows import Integers, Row, Rows, inlined
from cobblestone.credit_lab.systems.chance import uniform
from cobblestone.credit_lab.systems.tape import OWN_BUILD
from cobblestone.policy.credit.ledger_system import rules as published
from cobblestone.policy.credit.ledger_system.engine import AUDITED


def _compiled_formulas() -> Any:  # Any: a module
    """Return the published formulas, all compiled: they call each other by name."""
    twin: Any = ModuleType("cobblestone_compiled_rules")
    sys.modules[twin.__name__] = twin  # cached code looks for it there
    exec(compile(inspect.getsource(published), str(published.__file__), "exec"), twin.__dict__)  # noqa: S102  # our own source
    for name, function in inspect.getmembers(twin, inspect.isfunction):
        setattr(twin, name, inlined(function))
    return twin


formula: Any = _compiled_formulas()
SOURCES = (Path(__file__), Path(str(published.__file__)))
"""Files that compiled code depends on."""

LEDGER_HOST = np.dtype(
    [
        *((name, "f8") for name in (
            "scale", "effect", "variance", "noise", "bank", "debt", "trusted", "earned", "escrow", "stake")),
        *((name, "i8") for name in ("samples", "jobs", "escrow_count", "newest")),
    ],
    align=True,
)  # fmt: skip
"""`HostRecord`, and the newest of its rows in escrow (-1: none), from which a chain leads to the others."""

LEDGER_VERSION = np.dtype(
    [(name, "f8") for name in ("effect", "votes", "spread", "mean0", "count0", "mean1", "count1")]
)
"""`VersionRecord`, and its cells of the cross table."""

LEDGER_APP = np.dtype(
    [
        *((name, "f8") for name in (
            "unit", "difference", "mean_size", "own_paid", "own_value", "own_count", "partner_paid", "partner_value",
            "partner_count", "length_paid", "length_value", "length_count", "up", "down", "shift", "constant", "stratum1")),
        ("pairs", "i8"), ("left", "i8"),
    ],
    align=True,
)  # fmt: skip
"""`AppRecord`; ``stratum1``: constant of the second stratum."""

READING = np.dtype(
    [
        *((name, "f8") for name in ("y", "u", "innovation", "host_variance", "version_variance", "precision", "run_time", "speed",
                                    "others_u", "others_weight", "others_factor", "votes")),
        *((name, "i8") for name in ("host", "version", "identity", "account", "others")),
    ],
    align=True,
)  # fmt: skip
"""`Reading`, and what the others say."""

USAGES = 16
VERSIONS = 10 * USAGES
"""Places of versions in an app."""
MOST_REPORTS = 12

_named: Any = namedtuple  # Any: compiled code reads it by name
Terms: Any = _named(
    "Terms", "quorum key slack check_scale check_floor tail early_exits staked_jobs stake_until"
)
"""`LedgerRules`, quorum and key of random numbers."""
Books: Any = _named(
    "Books", "hosts versions apps accounts price final revoked extra older readings counts places"
)
"""All arrays.  ``older``: the next older row in escrow of the same host."""
DRAWN, AUDITS = range(2)


@inlined
def usage_of(threads: int) -> int:
    """Return the number of bits of the processors used."""
    bits = 0
    while threads > 0:
        bits += 1
        threads >>= 1
    return min(bits, USAGES - 1)


@inlined
def place_of_version(row: Row, app: int) -> int:
    """Return the place of a result's version."""
    kind = OWN_BUILD if row.version >= 1000000 else row.version - app * 10
    return app * VERSIONS + kind * USAGES + usage_of(row.threads)


@inlined
def place_of_host(row: Row, app: int, apps: int) -> int:
    """Return the place of a result's host record; a release begins another one."""
    released = row.version < 1000000 and row.version - app * 10 >= 5
    return (row.identity * apps + app) * 2 + int(released)


@inlined
def meet(books: Any, row: Row, app: int) -> None:
    """Let a version that is new on a computer inherit what is known of the computer."""
    at = place_of_host(row, app, books.apps.size)
    if at % 2 == 0 or books.hosts[at].jobs or books.hosts[at - 1].jobs == 0:
        return
    new, old = books.hosts[at], books.hosts[at - 1]
    new.scale, new.effect, new.variance, new.noise = old.scale, old.effect, old.variance, old.noise
    new.trusted, new.jobs = old.trusted, old.jobs


@inlined
def stratum_of(job: Row, app: Row) -> float:
    """Return c of the job's stratum."""
    return app.constant + (app.stratum1 if job.stratum == 1 else 0.0)


@inlined
def worth(app: Row, job: Row) -> float:
    """Return the value of a job by its estimate."""
    return app.unit * job.estimate * math.exp(stratum_of(job, app)) if formula.usable(job.estimate) else 0.0


@inlined
def settled(host: Row) -> float:
    """Return the credit of a record."""
    return formula.settled_credit(host.earned, host.stake, host.debt, host.bank)


@inlined
def variances(app: Row) -> tuple[float, float]:
    """Return the variances of sizes and of runs."""
    noise = formula.noise_variance(app.difference)
    return formula.size_variance(app.mean_size, noise), noise


@inlined
def read(books: Any, job: Row, row: Row, size: float, noise: float, reading: Row) -> None:
    """Fill in what a report says."""
    app = books.apps[job.app]
    reading.host = place_of_host(row, job.app, books.apps.size)
    reading.version = place_of_version(row, job.app)
    reading.identity, reading.account = row.identity, books.accounts[row.identity]
    reading.run_time, reading.speed = row.elapsed, row.peak
    reading.y = reading.u = reading.innovation = reading.host_variance = reading.version_variance = 0.0
    reading.precision = 0.0
    reading.votes = books.versions[reading.version].votes
    if not (formula.usable(row.elapsed) and formula.usable(job.estimate)):
        return
    host, version = books.hosts[reading.host], books.versions[reading.version]
    scale = host.scale if host.scale > 0.0 else (row.peak if formula.usable(row.peak) else 1.0)
    reading.y = formula.measured(row.elapsed, scale, job.estimate)
    reading.innovation = reading.y - stratum_of(job, app) - version.effect - host.effect
    reading.u = formula.bounded(reading.innovation)
    reading.host_variance = host.variance if host.scale > 0.0 else formula.FIRST_VARIANCE * version.spread
    reading.version_variance = formula.version_variance(version.spread, size, noise, version.votes)
    reading.precision = formula.precision(noise, host.noise, reading.host_variance, reading.version_variance)


@inlined
def independent(one: Row, other: Row) -> bool:
    """Return whether two results are of different hosts and people."""
    return one.identity != other.identity and (one.account != other.account or one.account == 0)


@inlined
def others_of(
    readings: Rows, n: int, mine: int, size: float, noise: float, tail: float
) -> tuple[float, float, float, int]:
    """Return what the others say about the job of reading ``mine`` (-1: what all say): u, weight, factor, number."""
    slack = 2.0 * math.sqrt(2.0 * noise)
    total = mean = 0.0
    count = 0
    for k in range(n):
        if readings[k].precision <= 0.0 or (mine >= 0 and not independent(readings[k], readings[mine])):
            continue
        u = readings[k].u
        if mine >= 0:
            u = formula.vetoed(u, readings[mine].u if readings[mine].precision > 0.0 else tail, tail)
        for m in range(n):
            if m not in (k, mine) and readings[m].precision > 0.0:
                u = formula.vetoed(u, readings[m].u + slack, tail)
        total += readings[k].precision
        mean += readings[k].precision * u
        count += 1
    if count == 0:
        return 0.0, 0.0, 1.0, 0
    u = mean / total
    w = formula.weight(size, total)
    r = formula.tail_share(w, size, noise)
    return u, w, formula.size_factor(u, w, r, tail, size), count


@inlined
def wants(terms: Any, books: Any, reports: Rows, n: int, job: Row) -> int:
    """Draw a check once the quorum has reported, and ask for a third opinion where it is wanted."""
    more = 0
    apps = books.apps.size
    for k in range(n):
        meet(books, reports[k], job.app)
    if n == terms.quorum:
        least = place_of_host(reports[0], job.app, apps)
        for k in range(1, n):
            other = place_of_host(reports[k], job.app, apps)
            if books.hosts[other].trusted < books.hosts[least].trusted:
                least = other
        host = books.hosts[least]
        value = worth(books.apps[job.app], job)
        relative = value * host.jobs / host.earned if host.earned > 0.0 else 1.0
        probability = min(1.0, terms.check_floor * relative)
        if terms.quorum == 1 or host.jobs > host.trusted:
            probability = formula.check_probability(
                host.trusted, terms.check_scale, terms.check_floor, relative
            )
        more = int(uniform(terms.key, reports[0].job, 0) < probability and terms.quorum < 3)
        books.counts[DRAWN] = n if more else 0
    if more == 0 and n == 2 and reports[0].answer == reports[1].answer:
        size, noise = variances(books.apps[job.app])
        tail = formula.tail_begin(size, noise, terms.tail)
        readings = books.readings
        for k in range(2):
            read(books, job, reports[k], size, noise, readings[k])
        if independent(readings[0], readings[1]) and readings[0].u > tail and readings[1].u > tail:
            more = 1
    return more


@inlined
def price_all(
    terms: Any,
    books: Any,
    job: Row,
    n: int,
    rows: Integers,
    checked: int,
    size: float,
    noise: float,
    tail: float,
    now: float,
) -> None:
    """Price n valid reports, whose readings are there; the first ``checked`` are released by it."""
    app, readings = books.apps[job.app], books.readings
    value = worth(app, job)
    own = formula.keeper_factor(app.own_paid, app.own_value)
    partner = formula.keeper_factor(app.partner_paid, app.partner_value)
    provisional = terms.quorum < 3 and n <= terms.quorum
    for k in range(n):
        reading = readings[k]
        host = books.hosts[reading.host]
        before = settled(host)
        if n > 1:
            amount = value
            if reading.others:
                amount = value * (reading.others_factor / partner)
                app.partner_paid, app.partner_value, app.partner_count = formula.keeper_after(
                    app.partner_paid, app.partner_value, app.partner_count, value, reading.others_factor)  # fmt: skip
            bank = formula.bank_after(host.bank, value, value, terms.slack)
        else:
            w = formula.weight(size, reading.precision)
            factor = formula.size_factor(reading.u, w, formula.tail_share(w, size, noise), tail, size)
            amount = formula.own_price(value, factor / own, host.bank, terms.slack)
            bank = formula.bank_after(host.bank, value, amount, terms.slack)
            app.own_paid, app.own_value, app.own_count = formula.keeper_after(
                app.own_paid, app.own_value, app.own_count, value, formula.kept_factor(factor, size, noise))  # fmt: skip
        if k < checked:
            release(books, host, now)
        host.bank = bank
        host.stake += 0.5 * amount if host.jobs < terms.staked_jobs else 0.0
        host.trusted += 1.0
        host.jobs += 1
        host.earned += amount
        if host.jobs >= terms.stake_until:
            host.stake = 0.0
        row = rows[k]
        books.price[row] = amount
        if provisional:
            books.final[row] = math.inf
            books.older[row], host.newest = host.newest, row
            host.escrow += amount
            host.escrow_count += 1
        books.extra[row] += settled(host) - (before + amount)


@inlined
def release(books: Any, host: Row, now: float) -> None:
    """Let what a host has in escrow be final."""
    row = host.newest
    while row >= 0:
        books.final[row] = now
        row = books.older[row]
    host.newest = -1
    host.escrow = 0.0
    host.escrow_count = 0


@inlined
def learn_app(terms: Any, books: Any, job: Row, n: int, size: float, noise: float) -> None:
    """Learn the variances, the mean of exp(u), and steps from known hosts."""
    app, readings = books.apps[job.app], books.readings
    one = other = -1
    known = 0
    total = 0.0
    value = worth(app, job)
    for k in range(n):
        if not (readings[k].precision > 0.0 and books.hosts[readings[k].host].samples >= formula.KNOWN):
            continue
        if one < 0:
            one = k
        elif other < 0:
            other = k
        known += 1
        total += readings[k].u
        app.length_paid, app.length_value, app.length_count = formula.keeper_after(
            app.length_paid, app.length_value, app.length_count, value,
            formula.refused_size(readings[k].u, size, noise, 1.0))  # fmt: skip
    if other >= 0 and independent(readings[one], readings[other]):
        u, v = readings[one].u, readings[other].u
        app.difference = formula.median_after(app.difference, abs(u - v), app.pairs)
        app.mean_size = formula.median_after(app.mean_size, abs(u + v) / 2.0, app.pairs)
        app.pairs += 1
    if known and not terms.early_exits:
        app.up, app.down, app.shift, app.left, moved = formula.detector_after(
            app.up, app.down, app.shift, app.left, total / known, size + noise)  # fmt: skip
        app.constant += moved


@inlined
def learn_report(books: Any, job: Row, n: int, k: int, size: float, noise: float, tail: float) -> None:
    """Learn from one report."""
    reading = books.readings[k]
    host, version = books.hosts[reading.host], books.versions[reading.version]
    if version.votes > 0.0 and reading.votes == 0.0:
        return  # another report of this job has just begun it
    w = reading.others_weight
    r = reading.innovation - formula.shrunk(reading.others_u, w, formula.tail_share(w, size, noise), tail)
    variance = reading.host_variance + reading.version_variance + (1.0 - w) * size + noise
    effect, votes = formula.version_after(
        version.effect, version.votes, reading.innovation, reading.host_variance + size + noise, reading.version_variance,
        version.spread + size + noise)  # fmt: skip
    samples = max(host.samples, int(host.scale > 0.0))
    d, v, q = formula.host_after(
        samples, host.effect, reading.host_variance, host.noise, r if version.votes > 0.0 else 0.0, variance, noise,
        version.spread)  # fmt: skip
    usable = 0
    lowest = math.inf
    for m in range(n):
        if books.readings[m].precision > 0.0:
            usable += 1
            lowest = min(lowest, books.readings[m].u)
    if usable > 2 and reading.u > max(tail, lowest + 2.0 * math.sqrt(2.0 * noise)):
        q += 0.1 * (25.0 - q)
    version.effect, version.votes = effect, votes
    version.spread = formula.spread_after(version.spread, d, v)
    if host.scale <= 0.0:
        host.scale = reading.speed if formula.usable(reading.speed) else 1.0
    host.samples += 1
    host.effect, host.variance, host.noise = d, v, q


@inlined
def learn_cell(books: Any, job: Row, k: int, variance: float) -> None:
    """Learn the cross table and c of the second stratum."""
    app, reading = books.apps[job.app], books.readings[k]
    mine = books.versions[reading.version]
    sample = reading.y - app.constant - books.hosts[reading.host].effect
    if job.stratum == 0:
        mine.mean0, mine.count0 = formula.cell_after(mine.mean0, mine.count0, sample, variance)
        return
    mine.mean1, mine.count1 = formula.cell_after(mine.mean1, mine.count1, sample, variance)
    first, last = job.app * VERSIONS, (job.app + 1) * VERSIONS
    difference = total = 0.0
    for at in range(first, last):
        each = books.versions[at]
        if each.count0 > 0.0 and each.count1 > 0.0:
            precision = 1.0 / (variance * (1.0 / each.count1 + 1.0 / each.count0))
            difference += precision * (each.mean1 - each.mean0)
            total += precision
    if total <= 0.0:
        return
    now = formula.stratum_constant(difference / total, total)
    for at in range(first, last):
        each = books.versions[at]
        if each.count1 > 0.0:
            each.effect -= each.count1 / (each.count0 + each.count1) * (now - app.stratum1)
    app.stratum1 = now


@inlined
def read_all(
    terms: Any, books: Any, job: Row, results: Rows, first: int, rows: Integers
) -> tuple[int, float, float, float]:
    """Read the valid results of a job; their number, and the variances."""
    size, noise = variances(books.apps[job.app])
    n = 0
    for at in range(results.size):
        if results[at].outcome == VALID:
            read(books, job, results[at], size, noise, books.readings[n])
            rows[n] = first + at
            n += 1
    return n, size, noise, formula.tail_begin(size, noise, terms.tail)


@inlined
def refuse(terms: Any, books: Any, job: Row, results: Rows, at: int, first: int, rows: Integers) -> None:
    """Settle a job that a host did not finish."""
    n, size, noise, tail = read_all(terms, books, job, results, first, rows)
    app = books.apps[job.app]
    value = worth(app, job)
    length = formula.keeper_factor(app.length_paid, app.length_value)
    usable = 0
    whole = 0.0
    for k in range(n):
        if books.readings[k].precision > 0.0:
            whole += formula.refused_size(books.readings[k].u, size, noise, length)
            usable += 1
    if usable == 0 or value <= 0.0:
        return
    host = books.hosts[place_of_host(results[at], job.app, books.apps.size)]
    before = settled(host)
    if terms.quorum > 1 or host.trusted <= terms.check_scale:
        factor = others_of(books.readings, n, -1, size, noise, tail)[2]
        host.debt -= value * (
            whole / usable - factor / formula.keeper_factor(app.partner_paid, app.partner_value)
        )
    else:
        host.bank -= value * (whole / usable - 1.0)
    books.extra[first + at] += settled(host) - before


@inlined
def audit(terms: Any, books: Any, rows: Rows, host: Row, agreed: bool, now: float) -> None:
    """Run some results in escrow again after a failed check, and revoke or release them."""
    wanted = host.escrow_count if agreed else min(AUDITED, host.escrow_count)
    host.trusted = host.trusted / 4.0 if not agreed and host.escrow_count else 0.0
    if host.escrow_count == 0:
        return
    bad = 0
    largest = -1.0
    for _ in range(wanted):  # those with the smallest random numbers
        best = -1
        least = 2.0
        row = host.newest
        while row >= 0:
            number = uniform(terms.key, row, 1)
            if largest < number < least:
                least, best = number, row
            row = books.older[row]
        largest = least
        bad += rows[best].answer != 0
    books.counts[AUDITS] += wanted
    if bad:
        row = host.newest
        while row >= 0:
            if uniform(terms.key, row, 1) <= largest and rows[row].answer == 0:
                books.final[row] = now
            else:
                books.revoked[row] = now
            row = books.older[row]
        host.trusted = 0.0
        host.earned = max(0.0, host.earned - host.escrow)
        host.newest = -1
        host.escrow = 0.0
        host.escrow_count = 0
    else:
        release(books, host, now)


@inlined
def decided(terms: Any, books: Any, rows: Rows, first: int, end: int, job: Row) -> None:
    """Price the valid results, settle the refused ones, look at those that were wrong."""
    results, now = rows[first:end], job.time
    for at in range(first, end):
        books.price[at] = books.extra[at] = 0.0
        books.final[at], books.revoked[at] = now, math.inf
        meet(books, rows[at], job.app)
    n, size, noise, tail = read_all(terms, books, job, results, first, books.places)
    if n:
        readings = books.readings
        for k in range(n):
            reading = readings[k]
            reading.others_u, reading.others_weight, reading.others_factor, reading.others = others_of(
                readings, n, k, size, noise, tail)  # fmt: skip
        drawn = 0
        reported = 0
        for at in range(results.size):
            if results[at].outcome != ERROR:
                drawn += reported < books.counts[DRAWN] and results[at].outcome == VALID
                reported += 1
        price_all(terms, books, job, n, books.places, drawn, size, noise, tail, now)
        learn_app(terms, books, job, n, size, noise)
        for k in range(n):
            if readings[k].precision > 0.0:
                learn_report(books, job, n, k, size, noise, tail)
                if job.stratum >= 0:
                    learn_cell(books, job, k, size + noise)
    for at in range(results.size):
        row = results[at]
        if row.outcome == ERROR and n:
            refuse(terms, books, job, results, at, first, books.places)
        elif row.outcome == INVALID:
            same = 0
            for other in range(results.size):
                same += results[other].outcome != ERROR and results[other].answer == row.answer
            if terms.quorum == 1 or same > 1:
                host = books.hosts[place_of_host(row, job.app, books.apps.size)]
                audit(terms, books, rows, host, same > 1, now)
    books.counts[DRAWN] = 0
