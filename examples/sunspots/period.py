"""Search one band of frequencies for a periodic signal:  python3 period.py INPUT.json OUTPUT.json

For each frequency a constant and a sine wave are fitted to the series by least squares: the Lomb-Scargle periodogram
with a floating mean (Zechmeister and Kürster 2009, Astronomy and Astrophysics 496, 577).  The *power* is the share
of the variance that the wave explains: 0 nothing, 1 everything.  How high does it get by chance?  The same search is
done with shuffled series, which have no rhythm, and the highest power of each shuffle is kept.

It needs the standard library only, since volunteers' computers have no NumPy.
"""

import json
import math
import random
import sys
from operator import mul
from pathlib import Path

try:
    import cobblestone_runtime as runtime  # there when the program runs as a job
except ImportError:
    runtime = None


def waves(years, frequency):
    """Return cosine and sine of one frequency, both without their mean and at right angles to each other.

    With such a pair the power of any series is two sums of products: what makes thousands of shuffles affordable.
    """
    middle = (years[0] + years[-1]) / 2
    angles = [2 * math.pi * frequency * (year - middle) for year in years]
    pair = []
    for function in (math.cos, math.sin):
        wave = [function(angle) for angle in angles]
        mean = sum(wave) / len(wave)
        wave = [value - mean for value in wave]
        for other in pair:  # Gram-Schmidt
            overlap = sum(map(mul, wave, other))
            wave = [value - overlap * unit for value, unit in zip(wave, other)]  # noqa: B905  # `strict` needs Python 3.10
        length = math.sqrt(sum(map(mul, wave, wave)))
        if length > 1e-9:  # at the highest frequency the sine vanishes at all years
            pair.append([value / length for value in wave])
    return pair


def power(series, pair):
    """Return the share of the variance of a normalised series (mean 0, sum of squares 1) that a wave explains."""
    return sum(sum(map(mul, series, wave)) ** 2 for wave in pair)


def normalise(values):
    """Return the series with mean 0 and sum of squares 1."""
    mean = sum(values) / len(values)
    centred = [value - mean for value in values]
    length = math.sqrt(sum(map(mul, centred, centred)))
    return [value / length for value in centred]


def shuffled(series, seed, number):
    """Return shuffle ``number`` of the series: the same on every computer and in every version of Python."""
    random_source = random.Random(f"{seed} {number}")
    result = list(series)
    for last in range(len(result) - 1, 0, -1):
        other = int(random_source.random() * (last + 1))
        result[last], result[other] = result[other], result[last]
    return result


def shuffle_maxima(series, pairs, job, state_file):
    """Return the highest power in this band for each shuffled series; continue from the checkpoint if there is one."""
    maxima = json.loads(state_file.read_text()) if state_file.exists() else []
    for number in range(len(maxima), job["n_bootstrap"]):
        noise = shuffled(series, job["seed"], number)
        maxima.append(max(power(noise, pair) for pair in pairs))
        if runtime is not None:
            runtime.progress((number + 1) / job["n_bootstrap"])
            if runtime.time_to_checkpoint():
                replace(state_file, json.dumps(maxima))
                runtime.checkpoint()
    return maxima


def replace(path, text):
    """Write a file under another name first: whoever reads it finds the old text or the new one, never a part."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text)
    temporary.replace(path)


def main(input_file, output_file):
    """Compute one workunit."""
    job = json.loads(Path(input_file).read_text())
    years, series = job["series"]["years"], normalise(job["series"]["values"])
    grid = job["frequencies"]
    frequencies = [grid["first"] + number * grid["step"] for number in range(grid["count"])]
    pairs = [waves(years, frequency) for frequency in frequencies]
    state_file = Path(output_file + ".checkpoint")
    result = {
        "band": job["band"],
        "bands": job["bands"],
        "years": [years[0], years[-1]],
        "seed": job["seed"],
        "frequencies": frequencies,
        "powers": [power(series, pair) for pair in pairs],
        "shuffle_maxima": shuffle_maxima(series, pairs, job, state_file),
    }
    replace(Path(output_file), json.dumps(result))
    if state_file.exists():
        state_file.unlink()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python3 period.py INPUT.json OUTPUT.json")
    main(sys.argv[1], sys.argv[2])
