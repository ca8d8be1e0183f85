"""Attacks on credit that the laboratory's command does not know, as logs: what a system pays for each is measured in
``tests/unit/test_credit_default.py``.

    python -m tests.helpers.credit_attacks [--seeds 11,12] [--systems steady,creditnew-deployed] [--hosts 200 --jobs 3000]

prints the gain of each attack: the attackers' credit per true operation, over that of the same computers when honest.  With
``--checked`` the app is a WebAssembly module: results of a quorum are valid if their counts agree, a third one decides if not,
and single results are spot-checked.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cobblestone.credit_lab.figures import ReplayOptions
from cobblestone.credit_lab.joblog import ERROR, INVALID, VALID, JobLog, job_log
from cobblestone.credit_lab.population import (
    GPU,
    JOB_INTERVAL,
    OWN_BUILD,
    START,
    PopulationOptions,
    SyntheticHost,
    synthetic_hosts,
)
from cobblestone.credit_lab.replay import replayed
from cobblestone.policy.credit.host_records import ERROR_WEIGHT
from cobblestone.policy.dispatch.limits import MIN_CONSECUTIVE_VALID, NEWCOMER_ERROR_RATE, must_replicate
from cobblestone.policy.validation.canonical import ENOUGH_FURTHER, needs_more
from cobblestone.server.credit.systems import find_system
from cobblestone.server.daemons.verdicts import FURTHER_DRAWS

Report = dict[str, float]


@dataclass(frozen=True)
class Attack:
    """The behaviour of the attackers."""

    changes: Callable[[Report, int, bool], Report] = lambda report, n, met: report
    """The report of an attacker: from the true one, how many results the identity has had, and whether an accomplice met it."""
    life: int = 0  #: results of an identity; 0: the computer keeps its own
    picks: bool = False  #: drops jobs that are longer than estimated
    always_meet: bool = False
    part: float = 0.05  #: attackers / computers


def times(factor: float, *names: str) -> Callable[[Report, int, bool], Report]:
    """A report of which some figures are multiplied."""
    names = names or ("elapsed_time", "cpu_time")
    return lambda report, n, met: report | {name: report[name] * factor for name in names}


BENCHMARK = ("peak_flops", "p_fpops", "p_iops")


def _failed_benchmark(report: Report, n: int, met: bool) -> Report:
    return times(10.0)(report, n, met) | {"peak_flops": 1e9, "p_fpops": 1e9}


def _low_then_high(report: Report, n: int, met: bool) -> Report:
    return times(0.3 if n < 20 else 3.0)(report, n, met)


def _ramp(report: Report, n: int, met: bool) -> Report:
    return times(1.03**n)(report, n, met)


def _in_common(report: Report, n: int, met: bool) -> Report:
    return times(10.0)(report, n, met) if met else report


def _counts_in_common(report: Report, n: int, met: bool) -> Report:
    return times(10.0, "fpops_counted")(report, n, met) if met else report


def _counts_slightly(report: Report, n: int, met: bool) -> Report:
    return times(3.0, "fpops_counted")(report, n, met) if met else report


def _counts_when_trusted(report: Report, n: int, met: bool) -> Report:
    """Lies at the moment that brings most: see the bound of adaptive replication in ``policy/dispatch/limits.py``."""
    return times(10.0, "fpops_counted")(report, n, met) if n >= 24 else report


ATTACKS: Mapping[str, Attack] = {
    "time x10": Attack(times(10.0)),
    "time x10, new identity each 20 jobs": Attack(times(10.0), life=20),
    "benchmark x10, new identity each 20 jobs": Attack(times(10.0, *BENCHMARK), life=20),
    "time x10, each job a new account": Attack(times(10.0), life=1),
    "benchmark of exactly 1e9, time x10": Attack(_failed_benchmark),
    "low first, x3 later, reset": Attack(_low_then_high, life=60),
    "cherry picking": Attack(picks=True),
    "ring of a tenth, x10 in common jobs": Attack(_in_common, part=0.1),
    "pair that always meets, x10": Attack(times(10.0), part=0.01, always_meet=True),
    "pair that always meets, 3 % more each time, reset": Attack(_ramp, part=0.01, always_meet=True, life=100),
    "counts x10": Attack(times(10.0, "fpops_counted")),
    "counts x10 after 24 right results": Attack(_counts_when_trusted),
    "counts x10 in common jobs, ring of a tenth": Attack(_counts_in_common, part=0.1),
    "counts x3 in common jobs, ring of a tenth": Attack(_counts_slightly, part=0.1),
    "counts x10 of a pair that always meets": Attack(
        times(10.0, "fpops_counted"), part=0.01, always_meet=True
    ),
    "counts x10 of a pair that always meets, after 24 right results": Attack(
        _counts_when_trusted, part=0.01, always_meet=True
    ),
}
"""The table of known attacks."""


@dataclass(frozen=True)
class Labelled:
    """A log and the truth about its lines."""

    log: JobLog
    work: list[float]
    cheated: list[bool]


class _Book:
    """The lines of a log in progress, and what the project knows of each computer."""

    def __init__(self, attack: Attack, *, honest: bool, checked: bool) -> None:
        self._life = 0 if honest else attack.life
        self._checked = checked
        self.columns: dict[str, list[Any]] = {}
        self.work, self.cheated = list[float](), list[bool]()
        self.had: dict[int, int] = {}  # right results; in a row if they are checked
        self._errors: dict[int, float] = {}
        self._counted = list[float]()  # of valid results: operations per estimated one

    def add(
        self, host: SyntheticHost, work: float, figures: Report, outcome: int, *, alone: bool = False
    ) -> None:
        count = self.had.get(host.number, 0)
        life = self._life if host.cheats else 0
        number = 1_000_000 + host.number * 10_000 + count // life if life else host.number
        ids = {
            "host_id": number,
            "user_id": number,
            "app_version_id": host.version,
            "outcome": outcome,
            "anonymous": int(host.version == OWN_BUILD),
            "is_gpu": int(host.version == GPU),
        }
        for name, value in (ids | figures).items():
            self.columns.setdefault(name, []).append(value)
        self.work.append(work)
        self.cheated.append(host.cheats)
        rate = self._errors.get(host.number, NEWCOMER_ERROR_RATE)
        self._errors[host.number] = rate * (1.0 - ERROR_WEIGHT) + ERROR_WEIGHT * (outcome == INVALID)
        if outcome == INVALID:
            self.had[host.number] = 0
        elif outcome == VALID and not (alone and self._checked):  # what no one checked brings no trust
            self.had[host.number] = count + 1

    def reliable(self, host: SyntheticHost) -> bool:
        right = self.had.get(host.number, 0)
        return right >= MIN_CONSECUTIVE_VALID or (
            right > 0 and self._errors[host.number] <= NEWCOMER_ERROR_RATE
        )

    def confirmed(
        self, chosen: list[SyntheticHost], reports: list[Report], *, estimate: float, draws: list[float]
    ) -> list[int]:
        """The places of the valid results, or none while another one has to decide."""
        usual = estimate * statistics.median(self._counted[-200:]) if self._counted else 0.0

        def surprising(count: float, n: int) -> bool:
            few = len(chosen) < 2 + 2 * ENOUGH_FURTHER
            return few and n - 2 < len(draws) and needs_more(count, usual, draws[n - 2])

        found = _agreeing(reports, [self.reliable(each) for each in chosen], surprising)
        if not found and len(chosen) >= 2 + ENOUGH_FURTHER:
            found = _agreeing(reports, [True] * len(chosen), surprising)
        self._counted += [reports[place]["fpops_counted"] / estimate for place in found]
        return found


def attack_log(
    options: PopulationOptions, attack: Attack, *, honest: bool, quorum: int = 2, checked: bool = False
) -> Labelled:
    """Return the log of a population with these attackers, or with the same computers being honest.

    ``checked``: counts are compared like outputs, and a quorum of one has spot checks.
    """
    n = max(2, round(attack.part * options.hosts))
    hosts = synthetic_hosts(replace(options, cheaters=n))
    book = _Book(attack, honest=honest, checked=checked)
    for number in range(1, options.jobs + 1):
        rng = random.Random(f"job {options.seed} {number}")
        spot = random.Random(f"spot check {options.seed} {number}")
        further_draws = random.Random(f"further {options.seed} {number}")
        draws = [further_draws.random() for _ in range(FURTHER_DRAWS)]
        time = START + number * JOB_INTERVAL
        work = 3e13 * rng.lognormvariate(0.0, 0.5)
        ratio = rng.gauss(0.0, options.estimate_error)
        estimate = work * options.estimate_bias * 2.718281828459045**ratio
        job = {
            "workunit_id": number,
            "time": time,
            "received_time": time,
            "rsc_fpops_est": estimate,
            "rsc_fpops_bound": 100.0 * estimate,
        }
        asking = sorted(hosts, key=lambda host: rng.expovariate(host.picks))
        if attack.always_meet and asking[0].cheats and quorum > 1:
            asking.sort(key=lambda host: not host.cheats)
        chosen, further, wanted = list[SyntheticHost](), iter(asking), quorum
        for host in further:
            if attack.picks and not honest and host.cheats and ratio < 0.0:
                book.add(host, work, job | _true(host, 0.1 * work, work, time), ERROR)
                continue
            if checked and not chosen and quorum == 1:
                wanted = 1 + must_replicate(book.had.get(host.number, 0), spot)
            chosen.append(host)
            if len(chosen) == wanted:
                break
        met = sum(host.cheats for host in chosen) > 1
        reports, valid = list[Report](), list(range(wanted))
        for host in chosen:
            report = _true(host, work * rng.lognormvariate(0.0, 0.1), work, time)
            if host.cheats and not honest:
                count = book.had.get(host.number, 0)
                report = attack.changes(report, count % attack.life if attack.life else count, met)
            reports.append(report)
            if checked and len(reports) == len(chosen) > 1:
                valid = book.confirmed(chosen, reports, estimate=estimate, draws=draws)
                chosen += [] if valid else [next(further)]  # the next computer decides
        for place, (host, report) in enumerate(zip(chosen, reports, strict=True)):
            book.add(host, work, job | report, VALID if place in valid else INVALID, alone=wanted == 1)
    return Labelled(job_log(book.columns, "attack"), book.work, book.cheated)


def _agreeing(
    reports: list[Report], believed: list[bool], surprising: Callable[[float, int], bool]
) -> list[int]:
    """The places of the reports whose counts agree with the first one that another bears out; empty if there is none."""
    counts = [report["fpops_counted"] for report in reports]
    for place, a in enumerate(counts):
        found = [k for k, b in enumerate(counts) if a == b and (k == place or believed[k] or believed[place])]
        if len(found) > 1 and not surprising(a, len(found)):
            return found
    return []


def _true(host: SyntheticHost, computed: float, work: float, time: float) -> Report:
    seconds = computed / host.speed
    return {
        "elapsed_time": seconds,
        "cpu_time": seconds * (0.15 if host.version == GPU else 0.97),
        "sent_time": time - 20.0 * seconds - 3600.0,
        "peak_flops": host.peak,
        "ncpus": 16.0,
        "p_fpops": host.benchmark,
        "p_iops": 2.0 * host.benchmark,
        "fpops_counted": 0.9 * work,
    }


def level(sample: Labelled, system: str, *, cheats: bool = True) -> float:
    """Credit per true operation of the attackers (or of the others), over all results that were computed to the end."""
    done, _ = replayed(sample.log, find_system(system), ReplayOptions())
    outcome = sample.log.column("outcome")
    lines = [i for i, one in enumerate(sample.cheated) if one is cheats and outcome[i] in (VALID, INVALID)]
    return sum(done.granted[i] for i in lines) / sum(sample.work[i] for i in lines)


def gain(
    options: PopulationOptions, attack: Attack, system: str, *, quorum: int = 2, checked: bool = False
) -> float:
    """What the attackers get per true operation, as a multiple of what the same computers get when honest."""
    base = level(attack_log(options, attack, honest=True, quorum=quorum, checked=checked), system)
    return level(attack_log(options, attack, honest=False, quorum=quorum, checked=checked), system) / base


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", default="11,12,13")
    parser.add_argument("--systems", default="creditnew-deployed,steady,steady-measured,counted:minimum")
    parser.add_argument("--hosts", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=3000)
    parser.add_argument("--attack", default="")
    parser.add_argument("--checked", action="store_true")
    options = parser.parse_args()
    systems = options.systems.split(",")
    seeds = [int(seed) for seed in options.seeds.split(",")]
    print("attack; quorum; mean (largest) of", len(seeds), "seeds for", *systems, sep=" ")
    for name, attack in ATTACKS.items():
        if options.attack not in name:
            continue
        for quorum in (2, 1):
            found = {system: list[float]() for system in systems}
            for seed in seeds:
                population = PopulationOptions(hosts=options.hosts, jobs=options.jobs, seed=seed)
                checked = options.checked
                lies = attack_log(population, attack, honest=False, quorum=quorum, checked=checked)
                truth = attack_log(population, attack, honest=True, quorum=quorum, checked=checked)
                for system in systems:
                    found[system].append(level(lies, system) / level(truth, system))
            cells = (f"{sum(each) / len(each):.2f} ({max(each):.2f})" for each in found.values())
            print(f"{name:42} q{quorum} ", *(f"{cell:>14}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
