"""How high does the spectrum of a shuffled series get?  python3 spectrum.py INPUT.txt OUTPUT.txt

For each frequency a constant and a sine wave are fitted by least squares, as in ../sunspots/period.py; the *power* is the share
of the variance that the wave explains.  Here the shuffles are many and the frequencies one matrix, so each round of shuffles is
one product of matrices, on the GPU by CuPy or on the CPU by NumPy.  Both have the same functions, so one text serves both.

Products are of 32 bits: graphics cards compute these 32 to 64 times faster, and five digits are enough.
"""

import sys
from pathlib import Path

import numpy

try:
    import cobblestone_runtime as runtime  # there when the program runs as a job
except ImportError:
    runtime = None

GOLDEN = 0x9E3779B9
#: Shuffles in a round: below a second, so that the program leaves a GPU soon after it is asked to.
ROUND_ON_GPU, ROUND_ON_CPU = 16384, 1024


def device():
    """Return CuPy, or NumPy where there is no GPU; a job that was given a GPU computes on it or fails."""
    given = runtime is not None and runtime.job_info()["gpu"] >= 0
    try:
        import cupy

        if given or (runtime is None and cupy.cuda.is_available()):
            return cupy
    except ImportError:
        if given:
            raise
    return numpy


def read(path):
    """Return the parameters, and years and values."""
    words = Path(path).read_text().split()
    job = {name: float(value) for name, value in zip(words[0:14:2], words[1:14:2])}  # noqa: B905  # `strict` needs Python 3.10
    return job, numpy.array(words[14::2], float), numpy.array(words[15::2], float)


def wave_pairs(years, frequencies):
    """Return rows of cosine and sine of each frequency in turn, without their means and at right angles to each other."""
    angles = 2 * numpy.pi * numpy.outer(frequencies, years - (years[0] + years[-1]) / 2)
    pairs = []
    for function in (numpy.cos, numpy.sin):
        wave = function(angles)
        wave = wave - wave.mean(axis=1, keepdims=True)
        for other in pairs:  # Gram-Schmidt
            wave = wave - (wave * other).sum(axis=1, keepdims=True) * other
        length = numpy.sqrt((wave * wave).sum(axis=1, keepdims=True))
        # at the highest frequency the sine vanishes at all years
        pairs.append(numpy.where(length > 1e-6, wave / numpy.maximum(length, 1e-6), 0.0))
    return numpy.stack(pairs, axis=1).reshape(-1, len(years))


def mixed(bits):
    """Return 32 random bits for each number: the last steps of MurmurHash3 (Austin Appleby, public domain)."""
    bits = (bits ^ (bits >> 16)) * 0x85EBCA6B & 0xFFFFFFFF
    bits = (bits ^ (bits >> 13)) * 0xC2B2AE35 & 0xFFFFFFFF
    return bits ^ (bits >> 16)


def highest(xp, values, waves, *, seed, first, count):
    """Return the highest power over all frequencies for each of ``count`` shuffles; shuffle n is the same everywhere."""
    state = mixed((seed + GOLDEN * (xp.arange(first, first + count, dtype=xp.uint64) + 1)) & 0xFFFFFFFF)
    series = xp.repeat(values[:, None], count, axis=1)
    columns = xp.arange(count)
    for last in range(len(values) - 1, 0, -1):
        other = (mixed((state + GOLDEN * last) & 0xFFFFFFFF) * (last + 1) >> 32).astype(xp.int64)
        kept = series[other, columns]
        series[other, columns] = series[last]
        series[last] = kept
    sums = waves @ series
    sums *= sums
    return (sums[0::2] + sums[1::2]).max(axis=0)


def main(input_file, output_file):
    """Compute one workunit."""
    job, years, values = read(input_file)
    values = values - values.mean()
    values /= numpy.sqrt((values * values).sum())
    frequencies = job["lowest"] + job["step"] * numpy.arange(int(job["frequencies"]))
    waves = wave_pairs(years, frequencies)
    powers = ((waves @ values) ** 2).reshape(-1, 2).sum(axis=1)

    xp = device()
    on_device = xp.asarray(values, xp.float32), xp.asarray(waves, xp.float32)
    state_file = Path(output_file + ".checkpoint")
    maxima = numpy.fromfile(state_file, "float32") if state_file.exists() else numpy.empty(0, "float32")
    total = int(job["shuffles"])
    per_round = ROUND_ON_CPU if xp is numpy else ROUND_ON_GPU
    while len(maxima) < total:
        first, count = int(job["first"]) + len(maxima), min(per_round, total - len(maxima))
        found = highest(xp, *on_device, seed=int(job["seed"]), first=first, count=count)
        maxima = numpy.concatenate([maxima, found if xp is numpy else found.get()])
        if runtime is not None:
            runtime.progress(len(maxima) / total)
            if runtime.time_to_checkpoint():
                replace(state_file, maxima.tobytes())
                runtime.checkpoint()
    maxima.sort()
    lines = [
        f"shuffles {total}",
        f"power {powers.max():.6g}",
        f"period {1 / frequencies[powers.argmax()]:.6g}",
    ]
    lines += [f"percentile {percent} {maxima[(total - 1) * percent // 100]:.6g}" for percent in range(101)]
    replace(Path(output_file), "\n".join(lines).encode() + b"\n")
    if state_file.exists():
        state_file.unlink()


def replace(path, content):
    """Write a file under another name first: whoever reads it finds the old content or the new one, never a part."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(content)
    temporary.replace(path)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python3 spectrum.py INPUT.txt OUTPUT.txt")
    main(sys.argv[1], sys.argv[2])
