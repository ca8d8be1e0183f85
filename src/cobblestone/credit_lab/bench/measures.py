"""Measures of what a system paid on a tape, and the targets that they pass or miss.

The first third of the time does not count: everything is still learning.  Credit is divided by what honest computers get for
the same work in the same app, so 1 is fair; with attackers, by what honest ones get when all are honest.

* gain: attackers' credit per true operation / that of the same computers when honest, all identities and open escrow
  counted; target ≤ 1.10
* gain_mean, gain_worst: mean of people; mean of the tenth that gains most; target ≤ 1.10; –
* per_slot: credit per result / when honest
* windfall: what honest computers get beside attackers / without them
* spread, spread_job: standard deviation of ln(credit / work), of results and of jobs; target ≤ 0.14
* device, decile_*, size_*: GPU / CPU; lowest and highest tenth by speed and by estimate; target 0.97 … 1.03
* project, drift, release_*: best / worst project; of 12 periods; after / before a release; target ≤ 1.03
* overhead, overhead_late: extra executions with 1,000 jobs per computer; in the last third with 5,000; target ≤ 6 %; ≤
  2.5 %
* days_final, taken_back: days until credit is final; share taken from honest computers
* small_falls: share of honest computers whose shown credit never fell by more than 2 %; target ≥ 99 %
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from cobblestone.credit_lab.bench.worlds import DAYS, World
from cobblestone.credit_lab.systems.pay import Pay
from cobblestone.credit_lab.systems.tape import ERROR, GPU, START, Table, Tape
from cobblestone.domain.values import DAY
from cobblestone.policy.credit.claims import DEPLOYED

np: Any = import_module("numpy")  # Any: its types do not follow through arithmetic

COUNTED_FROM = START + DAYS * DAY / 3.0
END = START + DAYS * DAY
PERIODS = 12
#: Computers in the cloud of the report.
MOST_SHOWN = 400
FALL_JOBS = 20
#: Share of a job's usual price that is shown while it runs.
RUNNING = 0.9

Figures = dict[str, Any]  # Any: JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A figure and the interval that it must be in, in the scenarios of these worlds ("": all without attackers)."""

    figure: str
    low: float = -math.inf
    high: float = math.inf
    worlds: tuple[str, ...] = ("",)

    def met(self, value: float) -> bool:
        """Return whether a figure is good enough."""
        return self.low <= value <= self.high


_PLAIN = ("normal", "exact")

TARGETS = (
    Target(figure="gain", high=1.10, worlds=("attack",)),
    Target(figure="gain_mean", high=1.10, worlds=("attack",)),
    Target(figure="spread", high=0.14, worlds=_PLAIN),
    Target(figure="device", low=0.97, high=1.03, worlds=(*_PLAIN, "tag", "faster", "slower")),
    Target(figure="decile_low", low=0.97, worlds=_PLAIN),
    Target(figure="decile_high", high=1.03, worlds=_PLAIN),
    Target(figure="size_low", low=0.97, worlds=_PLAIN),
    Target(figure="size_high", high=1.03, worlds=_PLAIN),
    Target(figure="project", high=1.03, worlds=("projects",)),
    Target(figure="drift", high=1.03),
    Target(figure="release_low", low=0.97, worlds=("faster", "slower")),
    Target(figure="release_high", high=1.03, worlds=("faster", "slower")),
    Target(figure="overhead", high=0.06, worlds=("lasting",)),
    Target(figure="overhead_late", high=0.025, worlds=("long-lasting",)),
    Target(figure="small_falls", low=0.99, worlds=_PLAIN),
)


def targets_of(scenario: str) -> list[Target]:
    """Return the targets that count in a scenario, WORLD-qN or WORLD-qN/ATTACK."""
    world, _, attack = scenario.partition("/")
    kind = "attack" if attack else world.rpartition("-q")[0]
    return [each for each in TARGETS if kind in each.worlds or (not attack and "" in each.worlds)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A tape with the truth about its computers, and what was paid."""

    world: World
    hosts: Table
    tape: Tape
    pay: Pay


def _ratio(above: Any, below: Any) -> float:
    whole = float(np.sum(below))
    return float(np.sum(above)) / whole if whole > 0.0 else math.nan


def _over(one: float, other: float) -> float:
    return float(one) / float(other) if other > 0.0 else math.nan


def _apart(where: Any, above: Any, below: Any, n: int) -> Any:
    """Return sums of above / sums of below in each of n groups."""
    sums = np.bincount(where, weights=below, minlength=n)
    return np.divide(
        np.bincount(where, weights=above, minlength=n), sums, out=np.full(n, np.nan), where=sums > 0.0
    )


class View:
    """The counted valid results of a scene, and what they are worth."""

    def __init__(self, scene: Scene, levels: Any = None) -> None:
        """``levels``: honest credit per operation by app; default: of this scene."""
        rows = scene.tape.results
        self.scene = scene
        self.counted = scene.tape.valid & (rows["time"] > COUNTED_FROM)
        self.rows = rows[self.counted]
        self.kept = scene.pay.kept[self.counted]
        self.app = scene.tape.of("app")[self.counted]
        self.honest = scene.hosts["group"][self.rows["host"]] == 0
        apps = scene.world.projects + 1
        if levels is None:
            good = self.honest
            levels = _apart(self.app[good], self.kept[good], self.rows["work"][good], apps)
        self.levels = np.where(np.isfinite(levels) & (levels > 0.0), levels, np.inf)
        self.fair = self.kept / self.levels[self.app]
        """Operations that the price would be fair for."""

    def sums(self) -> tuple[Any, Any]:
        """Return (fair credit, work) by computer, what it got or lost apart from prices included."""
        n, scene = self.scene.hosts.size, self.scene
        fair = np.bincount(self.rows["host"], weights=self.fair, minlength=n)
        work = np.bincount(self.rows["host"], weights=self.rows["work"], minlength=n)
        if scene.pay.extra is None:
            return fair, work
        rows = scene.tape.results
        late = rows["time"] > COUNTED_FROM
        extra = scene.pay.extra[late] / self.levels[scene.tape.of("app")[late]]
        return fair + np.bincount(rows["host"][late], weights=extra, minlength=n), work


def honest_figures(scene: Scene) -> Figures:
    """Return the measures of a scene; those of attackers are in `attack_figures`."""
    view = View(scene)
    good = view.honest & (view.rows["work"] > 0.0)
    rows, fair = view.rows[good], view.fair[good]
    work, hosts = rows["work"], scene.hosts
    with np.errstate(divide="ignore"):
        logs = np.log(fair / work)
    paid = np.isfinite(logs)
    speeds = _deciles(hosts["speed"])[rows["host"]]
    estimates = scene.tape.of("estimate")[view.counted][good]
    sizes = _apart(_deciles(estimates), fair, work, 10)
    deciles = _apart(speeds, fair, work, 10)
    gpu = hosts["kind"][rows["host"]] == GPU
    at = np.minimum(PERIODS - 1, (rows["time"] - COUNTED_FROM) / (END - COUNTED_FROM) * PERIODS).astype(
        np.int64
    )
    periods = _apart(at, fair, work, PERIODS)
    counts = np.bincount(rows["host"], minlength=hosts.size)
    by_host = _apart(rows["host"], fair, work, hosts.size)
    often = by_host[counts >= FALL_JOBS]
    device = 1.0
    if 0 < gpu.sum() < gpu.size:
        device = _over(_ratio(fair[gpu], work[gpu]), _ratio(fair[~gpu], work[~gpu]))
    known = view.levels[1:][np.isfinite(view.levels[1:])]
    return {
        "results": int(scene.tape.results.size),
        "level": _ratio(view.kept[good], work) / DEPLOYED.per_flop,
        "spread": float(logs[paid].std()) if paid.any() else math.nan,
        "spread_job": _spread_of_jobs(rows["job"], fair, work),
        "unpaid": 1.0 - float(paid.mean()) if paid.size else 1.0,
        "device": device,
        "decile_low": float(np.nanmin(deciles)),
        "decile_high": float(np.nanmax(deciles)),
        "size_low": float(np.nanmin(sizes)),
        "size_high": float(np.nanmax(sizes)),
        "host_5": float(np.quantile(often, 0.05)) if often.size else math.nan,
        "host_95": float(np.quantile(often, 0.95)) if often.size else math.nan,
        "project": _over(known.max(), known.min()) if known.size else 1.0,
        "drift": _over(np.nanmax(periods), np.nanmin(periods)),
        "periods": [float(each) for each in periods],
        **_release(scene, rows, fair),
        **_costs(scene),
        **_waiting(scene, view),
        **_falls(scene, view),
        "cloud": _cloud(hosts, by_host, counts),
    }


def _deciles(values: Any) -> Any:
    edges: Any = np.quantile(values, np.arange(1, 10) / 10.0)
    found: Any = np.searchsorted(edges, values, side="right")
    return found


def _spread_of_jobs(job: Any, fair: Any, work: Any) -> float:
    if not job.size:
        return math.nan
    job = job - job.min()
    n = int(job.max()) + 1
    count = np.bincount(job, minlength=n)
    mean = np.bincount(job, weights=fair, minlength=n)[count > 0]
    of = np.bincount(job, weights=work, minlength=n)[count > 0]
    used = (mean > 0.0) & (of > 0.0)
    return float(np.log(mean[used] / of[used]).std()) if used.any() else math.nan


def _release(scene: Scene, rows: Table, fair: Any) -> Figures:
    """Return credit of the same work after a release / before it, the worst of each kind of program."""
    if scene.world.release == 1.0:
        return {"release_low": 1.0, "release_high": 1.0}
    half, later = START + DAYS * DAY * 0.5, START + DAYS * DAY * 0.56
    found = list[float]()
    for kind in np.unique(rows["kind"]):
        mine = rows["kind"] == kind
        before, after = mine & (rows["time"] < half), mine & (rows["time"] > later)
        if before.any() and after.any():
            old = _ratio(fair[before], rows["work"][before])
            found.append(_over(_ratio(fair[after], rows["work"][after]), old))
    return {"release_low": min(found), "release_high": max(found)}


def _distinct(numbers: Any) -> int:
    return int(np.count_nonzero(np.bincount(numbers))) if numbers.size else 0


def _costs(scene: Scene) -> Figures:
    """Return extra executions / those of the quorum, in all and in the last third, and the cost of computing credit."""
    rows, pay = scene.tape.results, scene.pay
    run = rows["outcome"] != ERROR
    late = run & (rows["time"] > END - DAYS * DAY / 3.0)
    jobs, late_jobs = (_distinct(rows["job"][each]) for each in (run, late))
    quorum = scene.tape.quorum
    audits = pay.audits / max(1, int(run.sum()))
    return {
        "overhead": (float(run.sum()) + pay.audits) / max(1, jobs * quorum) - 1.0,
        "overhead_late": float(late.sum()) * (1.0 + audits) / max(1, late_jobs * quorum) - 1.0,
        "microseconds": 1e6 * pay.seconds / max(1, rows.size),
        "bytes": pay.state_bytes / max(1, rows.size),
    }


def _waiting(scene: Scene, view: View) -> Figures:
    """Return days until prices are final, what is open at the end, what was taken from honest ones, and escrow over time."""
    pay, good = scene.pay, view.honest
    final = np.minimum(pay.final[view.counted], END)[good]
    days = (final - view.rows["time"][good]) / DAY
    rows, valid = scene.tape.results, scene.tape.valid
    ends = np.minimum(pay.final, pay.revoked)[valid]
    at = START + DAYS * DAY * (np.arange(24) + 1.0) / 24.0
    begun = rows["time"][valid]
    escrow = list[float]()
    order, over = np.sort(begun), np.argsort(ends)
    paid = pay.price[valid]
    added, gone = np.concatenate([[0.0], np.cumsum(paid)]), np.concatenate([[0.0], np.cumsum(paid[over])])
    ended = ends[over]
    for moment in at:
        granted = added[np.searchsorted(order, moment, side="right")]
        closed = gone[np.searchsorted(ended, moment, side="right")]
        escrow.append(float((granted - closed) / granted) if granted > 0.0 else 0.0)
    price, taken = pay.price[view.counted][good], np.isfinite(pay.revoked[view.counted][good])
    return {
        "days_final": float(days.mean()) if days.size else 0.0,
        "days_final_95": float(np.quantile(days, 0.95)) if days.size else 0.0,
        "taken_back": _ratio(price[taken], price) if taken.any() else 0.0,
        "escrow": escrow,
    }


def _falls(scene: Scene, view: View) -> Figures:
    """Return the share of honest computers whose shown credit never fell by more than 2 %, and the largest fall of 99 %.

    Shown: what was granted, and `RUNNING` of a job's usual price while it runs.
    """
    tape, pay = scene.tape, scene.pay
    valid = tape.valid & (scene.hosts["group"][tape.results["host"]] == 0)
    rows, price = tape.results[valid], pay.price[valid]
    app, estimate = tape.of("app")[valid], tape.of("estimate")[valid]
    late = rows["time"] > COUNTED_FROM
    usual = _apart(app[late], price[late], estimate[late], scene.world.projects + 1)
    running = RUNNING * np.nan_to_num(usual[app]) * estimate
    order = np.argsort(rows["host"], kind="stable")
    host: Any = rows["host"][order]
    begins: Any = (
        np.concatenate([[0], np.flatnonzero(np.diff(host)) + 1]) if host.size else np.zeros(0, np.int64)
    )
    length: Any = np.diff(np.concatenate([begins, [host.size]]))
    total = np.cumsum(price[order])
    start = np.repeat((total - price[order])[begins], length)
    before = total - price[order] - start
    rank = np.arange(host.size) - np.repeat(begins, length)
    shown = before + running[order]
    fall = np.where(
        (rank >= FALL_JOBS) & (shown > 0.0), (running[order] - price[order]) / np.maximum(shown, 1e-300), 0.0
    )
    worst = np.zeros(scene.hosts.size)
    np.maximum.at(worst, host, fall)
    taken = np.isfinite(pay.revoked[valid])[order] & (rank >= FALL_JOBS)
    lost = np.bincount(host[taken], weights=price[order][taken], minlength=worst.size)
    reached = np.bincount(host, weights=price[order], minlength=worst.size)
    worst = np.maximum(worst, np.divide(lost, reached, out=np.zeros(worst.size), where=reached > 0.0))
    seen = worst[np.bincount(host, minlength=worst.size) > FALL_JOBS]
    if not seen.size:
        return {"small_falls": 1.0, "fall_99": 0.0}
    return {"small_falls": float((seen <= 0.02).mean()), "fall_99": float(np.quantile(seen, 0.99))}


def _cloud(hosts: Table, level: Any, counts: Any) -> list[list[float]]:
    """Return (speed, credit / fair credit, GPU) of some computers."""
    known = np.flatnonzero((counts >= FALL_JOBS) & (hosts["group"] == 0))
    chosen = known[:: max(1, known.size // MOST_SHOWN)]
    return [[float(hosts["speed"][at]), float(level[at]), float(hosts["kind"][at] == GPU)] for at in chosen]


def baseline(scene: Scene) -> Figures:
    """Return what gains are measured by: honest credit per operation by app, and sums by computer, of those that attacks take."""
    view = View(scene)
    fair, work = view.sums()
    n = max(2, scene.hosts.size // 4 + 1)
    results = np.bincount(view.rows["host"], minlength=scene.hosts.size)
    levels = [float(each) if math.isfinite(each) else 0.0 for each in view.levels]
    return {
        "levels": levels,
        "fair": fair[:n].tolist(),
        "work": work[:n].tolist(),
        "results": results[:n].tolist(),
    }


def honest_beside(scene: Scene) -> Figures:
    """Return another base of gains, where no run without attackers is known: what honest computers get beside them."""
    found = baseline(scene)
    return found | {"fair": found["work"]}


REPLICATES = 1000


def ratio_interval(above: Any, below: Any, rng: Any, *, level: float = 0.95) -> tuple[float, float]:
    """Return the interval of sum(above) / sum(below) over people, drawn with replacement; both have an entry per person.

    Source: B. Efron, *Bootstrap methods: another look at the jackknife* (1979); percentile intervals.
    """
    if not below.sum() > 0.0:
        return float("nan"), float("nan")
    drawn = rng.multinomial(above.size, np.full(above.size, 1.0 / above.size), REPLICATES)
    sums = drawn @ below
    ratios = np.divide(drawn @ above, sums, out=np.full(REPLICATES, np.nan), where=sums > 0.0)
    low, high = np.nanquantile(ratios, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return float(low), float(high)


def attack_figures(scene: Scene, base: Figures, rng: Any) -> Figures:
    """Return what attackers gain: credit per true operation / what the same computers get when honest.  One person each."""
    view = View(scene, np.array(base["levels"]))
    people = np.flatnonzero(scene.hosts["group"])
    fair, work = (each[people] for each in view.sums())
    honest_fair, honest_work = np.array(base["fair"])[people], np.array(base["work"])[people]
    usual = _ratio(honest_fair, honest_work)
    rows = scene.tape.results
    slots = np.bincount(
        rows["host"][(rows["outcome"] != ERROR) & (rows["time"] > COUNTED_FROM)], minlength=scene.hosts.size
    )[people]
    per_slot = _over(_ratio(fair, slots), _ratio(honest_fair, np.array(base["results"])[people]))
    each = np.divide(fair, work * usual, out=np.full(people.size, np.nan), where=work > 0.0)
    worked = each[np.isfinite(each)]
    top = np.sort(worked)[-max(1, worked.size // 10) :]
    low, high = ratio_interval(fair / usual, work, rng)
    good = view.honest
    return {
        "gain": _over(_ratio(fair, work), usual),
        "gain_low": low,
        "gain_high": high,
        "gain_mean": float(worked.mean()) if worked.size else math.nan,
        "gain_worst": float(top.mean()) if top.size else math.nan,
        "per_slot": per_slot,
        "windfall": _ratio(view.fair[good], view.rows["work"][good]),
        "people": int(people.size),
        "identities": _distinct(rows["identity"][scene.hosts["group"][rows["host"]] > 0]),
        **_costs(scene),
        **{
            name: value
            for name, value in _waiting(scene, view).items()
            if name in ("taken_back", "days_final")
        },
    }
