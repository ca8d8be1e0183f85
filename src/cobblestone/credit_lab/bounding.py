"""The compiled twin of `cobblestone.policy.credit.bounds`: figures of a log as far as they can be true."""

from __future__ import annotations

import math

from cobblestone.credit_lab.compilation import compiled, inlined
from cobblestone.credit_lab.rows import Integers, Rows, Rules


@inlined
def bounded(value: float, limit: float) -> float:
    """One reported figure within 0 … ``limit``."""
    if 0.0 <= value <= limit:
        return value
    if value < 0.0 or not math.isfinite(value):
        return 0.0
    return limit


@compiled
def bound_lines(rules: Rules, lines: Rows, start: Integers) -> None:
    """Bound the figures of every line as far as they can be true, in place.

    Facts of the job, and the time of the grant, are those of the first line of each workunit.
    """
    for group in range(start.size - 1):
        first = lines[start[group]]
        for i in range(start[group] + 1, start[group + 1]):
            lines[i].time = first.time
            lines[i].rsc_fpops_est = first.rsc_fpops_est
            lines[i].rsc_fpops_bound = first.rsc_fpops_bound
            lines[i].fixed_credit = first.fixed_credit
    for line in lines:
        line.elapsed_time = bounded(line.elapsed_time, rules.max_seconds)
        line.cpu_time = bounded(line.cpu_time, rules.max_seconds)
        line.sent_time = bounded(line.sent_time, rules.max_time)
        line.received_time = bounded(line.received_time, rules.max_time)
        line.peak_flops = bounded(line.peak_flops, rules.max_peak_flops)
        line.ncpus = max(1.0, bounded(line.ncpus, rules.max_processors))
        line.p_fpops = bounded(line.p_fpops, rules.max_speed)
        line.p_iops = bounded(line.p_iops, rules.max_speed)
        line.fpops_counted = bounded(line.fpops_counted, rules.max_operations)
        line.intops_counted = bounded(line.intops_counted, rules.max_operations)
        line.trickle_credit = bounded(line.trickle_credit, rules.max_credit)
        line.claimed_credit = bounded(line.claimed_credit, rules.max_credit)
        line.fixed_credit = bounded(line.fixed_credit, rules.max_credit)
        if not 0.0 < line.rsc_fpops_est <= rules.max_operations:
            line.rsc_fpops_est = rules.default_estimate
        if not 0.0 < line.rsc_fpops_bound <= rules.max_operations:
            line.rsc_fpops_bound = rules.max_operations
        if line.received_time > line.time + rules.clock_tolerance:
            line.received_time = line.time
        if line.sent_time != 0.0 and line.received_time != 0.0:
            line.sent_time = min(line.sent_time, line.received_time)
            window = line.received_time - line.sent_time
            line.elapsed_time = min(line.elapsed_time, window)
            line.cpu_time = min(line.cpu_time, window * line.ncpus)
