"""Compiled kernels of the fast replay: the arithmetic of the credit systems over rows.  Needs the extra ``lab``.

They repeat the policy in `cobblestone.policy.credit` figure by figure, without reasons; property tests hold the two
together.  Constants arrive in `Rules`, taken from the policy when a replay starts, so that none is written twice.
"""
# length: the compiled functions inline each other, which works within one module.

from __future__ import annotations

import math

import numpy as np

from cobblestone.credit_lab.joblog import ERROR, SENT, VALID
from cobblestone.credit_lab.rows import (
    APPROXIMATE,
    ASSIGNED,
    BENCHMARK,
    COUNTED,
    DEPLOYED,
    DESIGNED,
    DROP_EXTREMES,
    ESTIMATE,
    FIXED,
    MEAN,
    MEASURED,
    MINIMUM,
    NO_CLAIM,
    NONE,
    NORMAL,
    REFUSED,
    RUNTIME,
    STEADY,
    Flags,
    Floats,
    Integers,
    ReplayRules,
    Row,
    Rows,
    compiled,
    inlined,
)
from cobblestone.policy.credit.claims import LEAST_DISTANCE


@inlined
def run_time(line: Row) -> float:
    """Elapsed seconds, or CPU time of a client that reports none."""
    if line.elapsed_time >= 1e-6:
        return line.elapsed_time
    if line.sent_time != 0.0 and line.received_time != 0.0:
        return min(line.cpu_time, line.received_time - line.sent_time)
    return line.cpu_time


@inlined
def cpu_seconds(line: Row) -> float:
    """CPU time, or run time where none was reported."""
    return line.cpu_time if line.cpu_time > 0.0 else max(0.0, run_time(line))


@inlined
def operations(line: Row) -> float:
    """Return counted operations, the larger of both counts."""
    return max(line.fpops_counted, line.intops_counted)


@inlined
def estimate_claim(rules: ReplayRules, estimate: float, bound: float) -> float:
    """Claim of a result that reported no usable time."""
    return min(estimate, bound) * rules.per_flop


@inlined
def benchmark_claim(rules: ReplayRules, line: Row, bound: float) -> float:
    """First system, of a result with a usable time."""
    speed = 0.5 * (line.p_fpops + line.p_iops) if rules.both else line.p_fpops
    return min(speed * cpu_seconds(line) * rules.per_flop, bound * rules.per_flop)


@inlined
def speed_unknown(rules: ReplayRules, line: Row) -> bool:
    """Return whether the benchmark failed."""
    return line.peak_flops <= 0.0 or line.peak_flops == rules.failed_benchmark


@inlined
def peak_flop_count(rules: ReplayRules, line: Row) -> float:
    """Run time x peak speed, or x a typical one when the benchmark failed."""
    return run_time(line) * (rules.typical_cpu_speed if speed_unknown(rules, line) else line.peak_flops)


@inlined
def estimated(app: Row, estimate: float) -> float:
    """Default peak FLOP count of a job."""
    return estimate * (app.average if app.average > 0.0 else 1.0)


@inlined
def designed_claim(
    rules: ReplayRules,
    line: Row,
    record: Row,
    version: Row,
    app: Row,
    estimate: float,
    bound: float,
    now: float,
) -> tuple[float, int, bool]:
    """Third system as designed: amount, mode, outlier."""
    raw = run_time(line) * line.peak_flops
    default = estimated(app, estimate) * rules.per_flop
    if raw > bound:
        return default, APPROXIMATE, True
    if raw <= 0.0 or line.anonymous:
        return default, APPROXIMATE, False
    known = version.n >= rules.min_version_samples
    if known and raw / estimate > rules.cheat_multiple * version.mean:
        return default, APPROXIMATE, True
    flops = raw * (version.scale if version.scale != 0.0 else 1.0)
    probation = rules.host_scale_check and record.probation
    trusted = not probation and not (rules.host_scale_check and now < record.host_scale_time)
    enough = known and record.n >= rules.min_host_samples
    if trusted and enough and record.mean > 0.0 and version.mean > 0.0:
        flops *= min(rules.max_host_scale, version.mean / record.mean)
    return flops * rules.per_flop, APPROXIMATE if probation else NORMAL, False


@inlined
def deployed_claim(
    rules: ReplayRules, line: Row, record: Row, version: Row, app: Row, estimate: float, bound: float
) -> tuple[float, int, bool]:
    """Third system as deployed: amount, mode, outlier."""
    raw = peak_flop_count(rules, line)
    proven = not rules.host_scale_check or record.consecutive_valid >= rules.min_consecutive_valid
    usable = proven and record.n >= rules.min_host_samples and record.mean > 0.0
    mode = APPROXIMATE
    if (
        run_time(line) <= 0.0
    ):  # not `raw`, which is 0 as well where a tiny time and a tiny speed are multiplied
        flops = estimated(app, estimate)
        mode = ESTIMATE
    elif line.anonymous:
        flops = raw * app.average / record.mean if usable else estimated(app, estimate)
    else:
        host_scale = 0.0
        if usable and version.n >= rules.min_version_samples:
            host_scale = min(rules.max_host_scale, version.mean / record.mean)
        if version.scale != 0.0 and host_scale != 0.0:
            mode = NORMAL
        flops = raw * (version.scale if version.scale != 0.0 else 1.0)
        flops *= host_scale if host_scale != 0.0 else 1.0
    amount = min(flops, bound) * rules.per_flop
    if amount > rules.max_granted:
        return rules.max_granted, REFUSED, False
    return amount, mode, False


@inlined
def runtime_claim(rules: ReplayRules, line: Row, estimate: float, bound: float) -> tuple[float, int, bool]:
    """Run time x speed."""
    flops = peak_flop_count(rules, line)
    if run_time(line) <= 0.0:
        return estimate_claim(rules, estimate, bound), ESTIMATE, False
    if flops > 2.0 * bound:
        flops = bound
    amount = flops * rules.per_flop
    mode = NORMAL if 0.0 < amount <= rules.max_granted else REFUSED
    return amount, mode, False


@inlined
def average_per_cpu_second(rules: ReplayRules, app: Row) -> float:
    """Second system: the published average, or that of the app's own sums."""
    if rules.credit_per_cpu_second > 0.0:
        return rules.credit_per_cpu_second
    if app.jobs < rules.min_counted_jobs or app.cpu_seconds <= 0.0:
        return 0.0
    return app.counted_credit * app.scale / app.cpu_seconds


@inlined
def counted_claim(
    rules: ReplayRules, line: Row, app: Row, estimate: float, bound: float
) -> tuple[float, int, bool]:
    """Second system."""
    if operations(line) > 0.0:
        return min(operations(line), bound) * rules.per_flop * app.scale, NORMAL, False
    if cpu_seconds(line) <= 0.0:
        return estimate_claim(rules, estimate, bound), APPROXIMATE, False
    average = average_per_cpu_second(rules, app)
    if average > 0.0:
        return min(cpu_seconds(line) * average, bound * rules.per_flop), APPROXIMATE, False
    return benchmark_claim(rules, line, bound), APPROXIMATE, False


@inlined
def steady_claim(
    rules: ReplayRules, line: Row, version: Row, app: Row, estimate: float, bound: float
) -> tuple[float, int, bool]:
    """Steady: the result's own figures, which are not paid."""
    flops = peak_flop_count(rules, line) * (version.scale if version.scale != 0.0 else 1.0)
    amount = min(min(flops, bound) * rules.per_flop, rules.max_granted)
    return amount, ESTIMATE if speed_unknown(rules, line) else NORMAL, False


@inlined
def measured_claim(
    rules: ReplayRules, line: Row, record: Row, app: Row, estimate: float
) -> tuple[float, int, bool]:
    """Steady, measured: estimate x factor x how long the job was for this host, compared with its others."""
    flops = estimated(app, estimate)
    count = peak_flop_count(rules, line)
    known = record.n >= rules.min_host_samples and record.mean > 0.0 and count > 0.0
    if speed_unknown(rules, line) or line.outlier or not known:
        return min(flops * rules.per_flop, rules.max_granted), ESTIMATE, False
    length = min(rules.largest_length, max(1.0 / rules.largest_length, count / estimate / record.mean))
    return min(flops * length * rules.per_flop, rules.max_granted), NORMAL, False


@inlined
def claim(
    rules: ReplayRules,
    line: Row,
    record: Row,
    version: Row,
    app: Row,
    estimate: float,
    bound: float,
    now: float,
) -> tuple[float, int, bool]:
    """Return what one result claims under the system of the replay: amount, mode, outlier."""
    if rules.system == DEPLOYED:
        return deployed_claim(rules, line, record, version, app, estimate, bound)
    if rules.system == DESIGNED:
        return designed_claim(rules, line, record, version, app, estimate, bound, now)
    if rules.system == COUNTED:
        return counted_claim(rules, line, app, estimate, bound)
    if rules.system == RUNTIME:
        return runtime_claim(rules, line, estimate, bound)
    if rules.system == STEADY:
        return steady_claim(rules, line, version, app, estimate, bound)
    if rules.system == MEASURED:
        return measured_claim(rules, line, record, app, estimate)
    if rules.system == FIXED:
        return line.fixed_credit, NORMAL, False
    if rules.system == ASSIGNED:
        return line.claimed_credit, NORMAL if line.canonical else APPROXIMATE, False
    if rules.system == NONE:
        return 0.0, NORMAL, False
    if cpu_seconds(line) <= 0.0:
        return estimate_claim(rules, estimate, bound), ESTIMATE, False
    return benchmark_claim(rules, line, bound), NORMAL, False


@inlined
def middle(claims: Floats, modes: Integers, start: int, end: int, least: int, count: int) -> float:
    """Median of the claims whose mode is at most ``least``, the lower of two in the middle."""
    for i in range(start, end):
        if modes[i] > least:
            continue
        before = 0
        equal = 0
        for k in range(start, end):
            if modes[k] <= least:
                before += claims[k] < claims[i]
                equal += claims[k] == claims[i]
        if before <= (count - 1) // 2 < before + equal:
            return claims[i]
    return 0.0


@inlined
def combined(rules: ReplayRules, claims: Floats, modes: Integers, start: int, end: int, least: int) -> float:
    """First and second system: one amount from the claims whose mode is at most ``least``."""
    total = 0.0
    smallest = math.inf
    largest = -math.inf
    lowest, highest = -1, -1
    count = 0
    for i in range(start, end):
        if modes[i] > least:
            continue
        smallest = min(smallest, claims[i])
        largest = max(largest, claims[i])
        if rules.combination == DROP_EXTREMES and claims[i] < rules.infinitesimal:
            continue
        count += 1
        total += claims[i]
        if lowest < 0 or claims[i] < claims[lowest]:
            lowest = i
        if highest < 0 or claims[i] >= claims[highest]:
            highest = i
    if rules.combination == MINIMUM:
        return smallest
    if rules.combination == MEAN or count == 0:
        if count > 1 and largest > rules.far_apart * smallest:
            return middle(claims, modes, start, end, least, count)
        return total / max(1, count)
    if count <= 2:
        return claims[lowest]
    total = 0.0
    for i in range(start, end):
        # added without the extremes: taken off a sum, a huge one would leave nothing of the others
        if modes[i] <= least and claims[i] >= rules.infinitesimal and i not in (lowest, highest):
            total += claims[i]
    return total / (count - 2)


@inlined
def pegged(rules: ReplayRules, claims: Floats, modes: Integers, start: int, end: int, peg: float) -> float:
    """Third system as deployed: mean weighted by nearness to the peg."""
    normal = 0
    others = 0
    alone = 0.0
    for i in range(start, end):
        normal += modes[i] == NORMAL
        others += modes[i] == APPROXIMATE or modes[i] == ESTIMATE
        if modes[i] < REFUSED:
            alone = claims[i]
    if normal + others == 0:
        return peg
    if normal + others == 1:
        return alone
    weights = 0.0
    total = 0.0
    for i in range(start, end):
        if modes[i] >= REFUSED or (modes[i] != NORMAL and normal > 1):
            continue
        distance = rules.peg_width * peg + abs(peg - claims[i])
        if distance < LEAST_DISTANCE:
            return claims[i]
        weight = (2.0 if modes[i] == NORMAL and normal == 1 else 1.0) / distance
        weights += weight
        total += weight * claims[i]
    return total / weights


@inlined
def low(claims: Floats, modes: Integers, start: int, end: int, least: int) -> float:
    """Run time: mean in which a claim weighs as much as the sum of the others."""
    total = 0.0
    count = 0
    for i in range(start, end):
        if modes[i] <= least and modes[i] != REFUSED:
            total += claims[i]
            count += 1
    if count <= 1 or total <= 0.0:
        return total
    weighted = 0.0
    for i in range(start, end):
        if modes[i] <= least and modes[i] != REFUSED:
            weighted += claims[i] * ((total - claims[i]) / total)
    return weighted / (count - 1)


@inlined
def mean_of_normal(claims: Floats, modes: Integers, start: int, end: int, default: float) -> float:
    """Third system as designed."""
    total = 0.0
    count = 0
    for i in range(start, end):
        if modes[i] == NORMAL:
            total += claims[i]
            count += 1
    return total / count if count else default


@inlined
def smallest_measure(claims: Floats, modes: Integers, start: int, end: int, default: float) -> float:
    """Steady, measured: the smallest of two or more claims by own measures."""
    smallest = math.inf
    count = 0
    for i in range(start, end):
        if modes[i] == NORMAL:
            smallest = min(smallest, claims[i])
            count += 1
    return smallest if count >= 2 else default


@inlined
def granted(
    rules: ReplayRules, claims: Floats, modes: Integers, start: int, end: int, default: float
) -> float:
    """Return what every result of a workunit gets, before the limit."""
    if rules.system == DEPLOYED:
        return pegged(rules, claims, modes, start, end, default)
    if rules.system == DESIGNED:
        return mean_of_normal(claims, modes, start, end, default)
    if rules.system == STEADY:
        return default
    if rules.system == MEASURED:
        return smallest_measure(claims, modes, start, end, default)
    least = REFUSED
    for i in range(start, end):
        if modes[i] == NORMAL:
            least = NORMAL
    if rules.system == RUNTIME:
        return low(claims, modes, start, end, least)
    if rules.system == BENCHMARK or rules.system == COUNTED:
        return combined(rules, claims, modes, start, end, least)
    for i in range(start, end):
        if modes[i] == NORMAL:
            return claims[i]
    return 0.0


@inlined
def with_sample(n: int, mean: float, sample: float, threshold: int, weight: float, limit: float) -> float:
    """Return a running mean of ``n`` samples with one more."""
    if n > 0 and mean != 0.0:
        sample = min(sample, limit * mean)
    delta = sample - mean
    return mean + (delta / (n + 1) if n + 1 < threshold else weight * delta)


@inlined
def vote(rules: ReplayRules, line: Row, record: Row, version: Row, factor: float) -> None:
    """Steady: the vote of a host on its version, if one is due."""
    if line.host_age < rules.voting_age or record.n % (rules.vote_every * max(1, line.owner_computers)):
        return
    threshold, weight, limit = rules.version_threshold, rules.version_weight, rules.version_limit
    if version.n == 0 or version.mean <= 0.0:
        for _ in range(rules.prior_votes):
            version.mean = with_sample(version.n, version.mean, factor, threshold, weight, limit)
            version.n += 1
    step = min(rules.clip, max(-rules.clip, math.log(record.mean / version.mean)))
    version.mean = with_sample(version.n, version.mean, version.mean * (1.0 + step), threshold, weight, limit)
    version.n += 1


@inlined
def learn(rules: ReplayRules, line: Row, record: Row, version: Row, app: Row, estimate: float) -> None:
    """Add what the statistics take from a result that is no outlier by its claim."""
    if line.outlier or (speed_unknown(rules, line) and rules.system != DESIGNED):
        return
    ratio = run_time(line) * line.peak_flops / estimate
    if not rules.smallest_ratio <= ratio <= rules.largest_ratio:
        return
    record.mean = with_sample(
        record.n, record.mean, ratio, rules.host_threshold, rules.host_weight, rules.host_limit
    )
    record.n += 1
    if line.anonymous:
        return
    if rules.system == STEADY or rules.system == MEASURED:
        vote(rules, line, record, version, app.average if app.average > 0.0 else 1.0)
    else:
        version.mean = with_sample(
            version.n, version.mean, ratio, rules.version_threshold, rules.version_weight, rules.version_limit
        )
        version.n += 1


@inlined
def target_average(rules: ReplayRules, app: Row) -> float:
    """Return the average that the versions of an app are scaled to; -1: scales stay."""
    if app.cpus > 0.0 and app.gpus > 0.0:
        return min(app.cpu_sum / app.cpu_n, app.gpu_sum / app.gpu_n)
    if rules.system == DESIGNED:
        if app.has_gpu and not app.has_cpu and app.gpus >= 2.0:
            return app.gpu_sum / app.gpu_n
        return app.cpu_sum / app.cpu_n if not app.has_gpu and app.cpus >= 2.0 else -1.0
    if app.cpus >= 2.0:
        return app.cpu_sum / app.cpu_n
    return app.gpu_sum / app.gpu_n * rules.gpu_only_scale if app.gpus > 0.0 else -1.0


@inlined
def steady_scales(rules: ReplayRules, versions: Rows, apps: Rows) -> None:
    """Steady: the factors of all apps, and what the means of their versions are worth by them."""
    for app in apps:
        app.logarithms = app.votes = 0.0
    for version in versions:
        if version.app >= 0 and not version.is_gpu and version.n > 0 and version.mean > 0.0:
            weight = float(min(version.n, rules.version_threshold))
            apps[version.app].logarithms += weight * math.log(version.mean)
            apps[version.app].votes += weight
    for app in apps:
        if app.votes == 0.0:
            continue
        factor = math.exp(app.logarithms / app.votes)
        if app.average > 0.0 and app.votes >= rules.version_threshold:
            most = rules.daily_limit ** (min(max(rules.scale_interval, 0.0), 86400.0) / 86400.0)
            factor = min(app.average * most, max(app.average / most, factor))
        app.average = factor
    for version in versions:
        known = version.app >= 0 and version.n >= 2 * rules.prior_votes and version.mean > 0.0
        if known and apps[version.app].votes > 0.0:
            version.scale = apps[version.app].average / version.mean


@compiled
def scale_versions(rules: ReplayRules, versions: Rows, apps: Rows) -> None:
    """Version scales and smallest averages of all apps."""
    if rules.system == STEADY or rules.system == MEASURED:
        steady_scales(rules, versions, apps)
        return
    for app in apps:
        app.cpus = app.cpu_n = app.cpu_sum = app.gpus = app.gpu_n = app.gpu_sum = 0.0
        app.has_cpu = app.has_gpu = False
    joins = rules.min_version_samples + (0 if rules.system == DESIGNED else 1)
    for version in versions:
        if version.app < 0:
            continue
        app = apps[version.app]
        joined = version.n >= joins and version.mean > 0.0
        if version.is_gpu:
            app.has_gpu = True
            if joined:
                app.gpus += 1.0
                app.gpu_n += version.n
                app.gpu_sum += version.mean * version.n
        else:
            app.has_cpu = True
            if joined:
                app.cpus += 1.0
                app.cpu_n += version.n
                app.cpu_sum += version.mean * version.n
    for app in apps:
        app.target = target_average(rules, app)
        if app.target >= 0.0:
            app.average = app.target
    for version in versions:
        if version.app >= 0 and version.n >= rules.min_version_samples and version.mean > 0.0:
            target = apps[version.app].target
            if target >= 0.0:
                version.scale = target / version.mean


@inlined
def failed(rules: ReplayRules, record: Row) -> None:
    """Note that a result of the host was wrong or lost."""
    record.consecutive_valid = 0
    record.error_rate = record.error_rate * (1.0 - rules.error_weight) + rules.error_weight


@inlined
def happened(rules: ReplayRules, line: Row, record: Row, now: float) -> None:
    """Note that a result was sent, or was lost."""
    if line.outcome == ERROR:
        failed(rules, record)
        record.probation = True
        record.host_scale_time = now + line.delay_bound
    elif record.probation and not record.host_scale_time > 0.0:  # nor when it is not a number
        record.host_scale_time = now + line.delay_bound


@inlined
def judged(rules: ReplayRules, line: Row, record: Row, now: float) -> None:
    """Note that a result was found valid or invalid."""
    if line.outcome == VALID:
        record.consecutive_valid += 1
        record.error_rate *= 1.0 - rules.error_weight
        record.probation = record.probation and now < record.host_scale_time
    else:
        failed(rules, record)


@inlined
def suspected(rules: ReplayRules, record: Row) -> None:
    """Third system as designed: a claim cannot be."""
    record.consecutive_valid = 0
    record.error_rate = max(record.error_rate, rules.initial_error_rate)
    record.probation = True
    record.host_scale_time = 0.0


@inlined
def place_of_canonical(lines: Rows, begin: int, end: int) -> int:
    """Return the first valid line, if no valid line is marked as canonical; else -1."""
    first = -1
    for i in range(begin, end):
        if lines[i].outcome == VALID:
            if lines[i].canonical:
                return -1
            if first < 0:
                first = i
    return first


@inlined
def claim_all(
    rules: ReplayRules,
    lines: Rows,
    begin: int,
    end: int,
    app: Row,
    records: Rows,
    versions: Rows,
    out_claimed: Floats,
    out_granted: Floats,
    out_mode: Integers,
) -> int:
    """Claims of the valid results of a workunit; returns how many there are."""
    first = lines[begin]
    n_valid = 0
    for i in range(begin, end):
        line = lines[i]
        if line.outcome != VALID:
            out_mode[i] = NO_CLAIM
            continue
        n_valid += 1
        version = versions[line.version]
        if not line.anonymous and version.app < 0:
            version.app = line.app
            version.is_gpu = line.is_gpu
        out_claimed[i], out_mode[i], outlier = claim(
            rules,
            line,
            records[line.record],
            version,
            app,
            first.rsc_fpops_est,
            first.rsc_fpops_bound,
            first.time,
        )
        # until it is granted, the place of the amount keeps whether the statistics may learn from it
        out_granted[i] = 0.0 if outlier else 1.0
    return n_valid


@inlined
def learn_counts(
    rules: ReplayRules,
    lines: Rows,
    begin: int,
    end: int,
    app: Row,
    bound: float,
    out_granted: Floats,
    out_mode: Integers,
) -> None:
    """Second system: add the count that is paid to the sums of the app, for each replica that counts."""
    counts = np.zeros(end - begin)
    modes = np.full(end - begin, NO_CLAIM)
    jobs = 0
    for i in range(begin, end):
        line = lines[i]
        if line.outcome != VALID or out_granted[i] != 1.0 or out_mode[i] != NORMAL or line.outlier:
            continue
        first = benchmark_claim(rules, line, bound)
        if first > 0.0:
            app.benchmark_credit += first
            app.cpu_seconds += cpu_seconds(line)
            counts[i - begin] = min(operations(line), bound) * rules.per_flop
            modes[i - begin] = NORMAL
            jobs += 1
    if jobs:
        app.counted_credit += jobs * combined(rules, counts, modes, 0, end - begin, NORMAL)
        app.jobs += jobs


@inlined
def learn_all(
    rules: ReplayRules,
    lines: Rows,
    begin: int,
    end: int,
    app: Row,
    records: Rows,
    versions: Rows,
    amount: float,
    out_granted: Floats,
    out_mode: Integers,
) -> None:
    """Add what the statistics take from the valid results of a workunit; fill in what they get."""
    estimate, bound = lines[begin].rsc_fpops_est, lines[begin].rsc_fpops_bound
    if rules.system == COUNTED:
        learn_counts(rules, lines, begin, end, app, bound, out_granted, out_mode)
    for i in range(begin, end):
        line = lines[i]
        if line.outcome != VALID:
            continue
        if out_granted[i] == 1.0:
            learn(rules, line, records[line.record], versions[line.version], app, estimate)
        elif rules.system == DESIGNED:
            suspected(rules, records[line.record])
        out_granted[i] = max(0.0, amount - line.trickle_credit)
    enough = app.jobs >= rules.min_counted_jobs and app.benchmark_credit > 0.0
    if rules.system == COUNTED and enough and app.counted_credit > 0.0:
        scale = app.benchmark_credit / app.counted_credit
        app.scale = min(rules.max_scale, max(1.0 / rules.max_scale, scale))


@compiled
def replay_lines(
    rules: ReplayRules,
    lines: Rows,
    start: Integers,
    late: Flags,
    records: Rows,
    versions: Rows,
    apps: Rows,
    canonical_credit: Floats,
    next_scales: float,
    out_claimed: Floats,
    out_granted: Floats,
    out_mode: Integers,
) -> float:
    """Go through the events that begin at ``start``; returns when version scales are due again."""
    for group in range(late.size):
        begin, end = start[group], start[group + 1]
        now = lines[begin].time
        if now >= next_scales:
            next_scales = now + rules.scale_interval
            scale_versions(rules, versions, apps)
        if lines[begin].outcome == SENT or lines[begin].outcome == ERROR:
            happened(rules, lines[begin], records[lines[begin].record], now)
            out_mode[begin] = NO_CLAIM
            continue
        app = apps[lines[begin].app]
        canonical = -1 if late[group] else place_of_canonical(lines, begin, end)
        if canonical >= 0:
            lines[canonical].canonical = True
        n_valid = claim_all(
            rules, lines, begin, end, app, records, versions, out_claimed, out_granted, out_mode
        )
        for i in range(begin, end):
            judged(rules, lines[i], records[lines[i].record], now)
        if n_valid == 0:
            continue
        workunit = lines[begin].workunit
        if not late[group]:
            default = estimated(app, lines[begin].rsc_fpops_est) * rules.per_flop
            amount = granted(rules, out_claimed, out_mode, begin, end, default)
            canonical_credit[workunit] = min(amount, rules.max_granted)
        amount = canonical_credit[workunit]
        learn_all(rules, lines, begin, end, app, records, versions, amount, out_granted, out_mode)
    return next_scales
