"""Formulas of the ledger system, as functions of plain numbers.

Names: E estimate, c, a, d effects (`cobblestone.policy.credit.ledger_system.records`), u the residual of a report, v variances,
q noise factors, w weights, k where tails begin.  Amounts are credits, effects natural logarithms.
Sources: posterior mean of a normal model for weights and learning (Kalman filter with clipped innovations); stochastic
approximation of medians (H. Robbins and S. Monro, 1951); cumulative sums for steps (E. S. Page, 1954).
"""

from __future__ import annotations

import math

#: A report says at most that a job was 1000 times as long, or as short, as expected.
LARGEST = math.log(1000.0)

#: A computer deep in debt still gets so much of what a job seems to be worth, and no more than of its estimate.
LEAST_PAID = 0.1

#: Standard deviation of a normal distribution / median of its absolute values.
NORMAL_MEDIAN = 1.4826

#: Reports after which a host is known: pairs of known hosts measure the variances.
KNOWN = 8

#: Variance of the effect of a host without reports, in variances of known effects: its word counts for little.
FIRST_VARIANCE = 10.0


def usable(figure: float) -> bool:
    """Return whether a reported figure exists: finite and positive."""
    return 0.0 < figure < math.inf


def measured(run_time: float, scale: float, estimate: float) -> float:
    """Return y, the logarithm of what a report says / the estimate; all three are usable."""
    return math.log(run_time) + math.log(scale) - math.log(estimate)


def bounded(u: float) -> float:
    """Return a residual within the largest one that counts."""
    return min(max(u, -LARGEST), LARGEST)


def noise_variance(difference: float) -> float:
    """Return sigma_N squared, from the median of |u1 - u2|."""
    return (NORMAL_MEDIAN * difference) ** 2 / 2.0


def size_variance(mean_size: float, noise: float) -> float:
    """Return sigma_E squared, from the median of |u1 + u2| / 2 and sigma_N squared."""
    return max((NORMAL_MEDIAN * mean_size) ** 2 - noise / 2.0, 1e-5)


def median_after(median: float, sample: float, count: int) -> float:
    """Return a running median of positive samples after one more; ``count`` of them came before."""
    rate = max(0.002, 1.0 / (5.0 + count))
    moved = median * math.exp(rate if sample > median else -rate)
    return min(max(moved, 1e-3), 10.0)


def precision(noise: float, q: float, host: float, version: float) -> float:
    """Return the precision (1 / variance) of a report; ``host`` and ``version`` are the variances of the effects."""
    return 1.0 / (noise * max(1.0, q) + host + version)


def weight(size: float, precision: float) -> float:
    """Return w, the share of a residual that is due to the job; ``size`` is sigma_E squared."""
    return size * precision / (size * precision + 1.0)


def tail_begin(size: float, noise: float, tail: float) -> float:
    """Return k."""
    return tail * math.sqrt(size + noise)


def tail_share(w: float, size: float, noise: float) -> float:
    """Return r, the share of the tail of a residual that is believed: all of it from a host as well known as can be."""
    return min(1.0, w * (size + noise) / size) ** 2


def shrunk(u: float, w: float, r: float, k: float) -> float:
    """Return psi(u), what a residual says about the size of the job."""
    if u > k:
        return w * k + r * (u - k)
    if u < -k:
        return -w * k - r * (-u - k)
    return w * u


def size_factor(u: float, w: float, r: float, k: float, size: float) -> float:
    """Return how large a job seems, relative to its estimate; its mean over jobs is about 1."""
    return math.exp(shrunk(u, w, r, k) - w * size / 2.0)


def vetoed(u: float, other: float, k: float) -> float:
    """Return a partner's residual, of which another report may refuse the upper tail."""
    return min(u, max(other, k))


def own_price(value: float, factor: float, bank: float, slack: float) -> float:
    """Return the price of a result without a partner: its own report moves it as far as the bank allows."""
    change = min(value * (factor - 1.0), bank + slack * value)
    return max(value + change, LEAST_PAID * value * min(1.0, factor))


def bank_after(bank: float, value: float, price: float, slack: float) -> float:
    """Return the bank after a job of this value that was paid this price."""
    return bank + slack * value - (price - value)


def check_probability(trusted: float, scale: float, floor: float, size: float) -> float:
    """Return with which probability a job is checked; ``size`` is its value / the mean price of the host's jobs.

    So each credit runs the same risk, and it does not pay to forge the large jobs only.
    """
    return 1.0 if trusted <= scale else min(1.0, max(floor, scale / trusted) * size)


def refused_share(refused: int, jobs: int) -> float:
    """Return the share of jobs that a host refuses, low while it is hardly known."""
    return refused / (refused + jobs + 10.0)


def kept_factor(factor: float, size: float, noise: float) -> float:
    """Return a factor as a unit keeper takes it: an absurd report that the bank does not pay must not lower other prices."""
    return min(factor, math.exp(3.0 * math.sqrt(size + noise)))


def refused_size(u: float, size: float, noise: float, length: float) -> float:
    """Return the size of a job by the report of a host that finished it; ``length`` is the keeper of exp(u)."""
    return math.exp(min(u, 3.0 * math.sqrt(size + noise))) / length


def settled_credit(earned: float, stake: float, debt: float, bank: float) -> float:
    """Return what a record has: its prices less what is held, what refused jobs cost, and what the bank is overdrawn by."""
    return max(0.0, earned - stake + min(0.0, debt) + min(0.0, bank))


def version_variance(spread: float, size: float, noise: float, votes: float) -> float:
    """Return v_a; large while a version has no votes."""
    return (spread + size + noise) / (votes + 0.01)


def clipped(r: float, variance: float) -> float:
    """Return an innovation within 2.5 standard deviations."""
    limit = 2.5 * math.sqrt(variance)
    return min(max(r, -limit), limit)


def host_after(
    samples: int, effect: float, v: float, q: float, r: float, variance: float, noise: float, spread: float
) -> tuple[float, float, float]:
    """Return effect, variance and noise factor of a host after a report with innovation ``r``.

    ``variance`` is that of r; the first report counts without clipping, since the scale of the host may be far off.
    """
    gain = max(v / variance, 0.01)
    far = abs(r) > 2.5 * math.sqrt(variance)
    effect += gain * (r if samples == 0 else clipped(r, variance))
    if samples >= 5:
        expected = variance - v + min(v, 0.1)
        q += 0.05 * (min(r * r / expected, 25.0) - q)
    v = max(v * (1.0 - gain), 1e-4) + 2e-4 * noise
    if far and samples >= 5:
        v += 0.05 * spread  # a computer that has changed is learnt fast
    return min(max(effect, -50.0), 50.0), v, q


def version_after(
    effect: float, votes: float, r: float, rest: float, own: float, population: float
) -> tuple[float, float]:
    """Return effect and votes of a version after a report with residual ``r``.

    The variance of r is ``own``, due to the version, and ``rest``; ``population`` is that of a report of any host.  A host
    that is not known has a large one, so new identities have nearly no vote.
    """
    if votes <= 0.0:
        return r, population / rest
    gain = max(own, 1e-5 * population) / (own + rest)
    return min(max(effect + clipped(r, own + rest) * gain, -50.0), 50.0), votes + population / rest


def spread_after(spread: float, effect: float, v: float) -> float:
    """Return tau squared after a host's effect was learnt."""
    return spread + 0.001 * (min(effect * effect, 4.0) + v - spread)


def cell_after(mean: float, count: float, sample: float, variance: float) -> tuple[float, float]:
    """Return a cell of the cross table after y - d of one more report."""
    near = sample if count < 1.0 else mean + clipped(sample - mean, variance)
    return mean + (near - mean) * max(1.0 / (count + 1.0), 0.001), min(count + 1.0, 1000.0)


def stratum_constant(difference: float, precision: float) -> float:
    """Return c of a stratum from its weighted mean difference to the first one: what exceeds two standard errors."""
    least = 2.0 / math.sqrt(precision)
    return difference - min(max(difference, -least), least)
