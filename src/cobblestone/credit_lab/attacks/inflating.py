"""Figures that are too high: run time, benchmark, peak speed, counts, processors, and what is no number at all."""

from __future__ import annotations

import math

from cobblestone.credit_lab.attacks.acts import Act, Attack, Seen


def longer(seen: Seen, act: Act, strength: float) -> None:
    """Report a longer run time, always."""
    act.time *= strength


def faster(seen: Seen, act: Act, strength: float) -> None:
    """Report a faster processor, always."""
    act.peak *= strength
    act.benchmark *= strength


def faster_gpu(seen: Seen, act: Act, strength: float) -> None:
    """Report a faster GPU, always."""
    act.peak *= strength


def failed_benchmark(seen: Seen, act: Act, strength: float) -> None:
    """Report the speed that stands for a failed benchmark, and a longer run time."""
    act.benchmark_failed = True
    act.time *= strength


def longer_at_random(seen: Seen, act: Act, strength: float) -> None:
    """Report a longer run time for a random half of the jobs."""
    if seen.draw < 0.5:
        act.time *= strength


def longer_now_and_then(seen: Seen, act: Act, strength: float) -> None:
    """Report a longer run time for every tenth result, after forty true ones."""
    if seen.results >= 40 and seen.results % 10 == 0:
        act.time *= strength


def no_number(seen: Seen, act: Act, strength: float) -> None:
    """Report what is no time in every so many results: 1e304, NaN and -1 in turn."""
    if seen.results % strength == strength - 1:
        act.run_time = (1e304, math.nan, -1e9)[int(seen.results // strength) % 3]


def more_counted(seen: Seen, act: Act, strength: float) -> None:
    """Say that the program counted more operations."""
    act.counts *= strength


def idle_threads(seen: Seen, act: Act, strength: float) -> None:
    """Say that the job used more processors than it did."""
    act.threads *= strength


def griefing(seen: Seen, act: Act, strength: float) -> None:
    """Report times far too long or too short, to spoil what others get."""
    act.time *= strength if seen.draw < 0.5 else 1.0 / strength


ATTACKS = (
    Attack("time-x10", "run time x 10, always", report=longer),
    Attack("time-x100", "run time x 100, always", report=longer, strength=100.0),
    Attack("benchmark-x10", "benchmark x 10, always", report=faster),
    Attack("gpu-x100", "GPU speed x 100, always", report=faster_gpu, strength=100.0, device="gpu"),
    Attack("benchmark-1e9", "a failed benchmark and run time x 100", report=failed_benchmark, strength=100.0),
    Attack("benchmark-1e9-x10", "a failed benchmark and run time x 10", report=failed_benchmark),
    Attack("random-half", "run time x 100 for a random half", report=longer_at_random, strength=100.0),
    Attack("random-half-10", "the same, by 10 %", report=longer_at_random, strength=100.0, share=0.1),
    Attack("one-in-ten", "run time x 10 in every tenth result", report=longer_now_and_then),
    Attack("no-number", "1e304, NaN or -1e9 in each 50th job", report=no_number, strength=50.0),
    Attack("counts-x10", "counts x 10, by 5 %", report=more_counted, share=0.05),
    Attack("idle-threads", "claims 16 times the processors", report=idle_threads, strength=16.0),
    Attack("griefers", "run time x 100 or / 100, by 10 %", report=griefing, strength=100.0, share=0.1),
)
