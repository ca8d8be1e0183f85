"""Merge the bands into the spectrum:  python3 merge.py results/*.json

Writes ``spectrum.csv`` and the picture ``spectrum.svg`` (also ``spectrum.png`` if matplotlib is installed) and prints the answer.
Bands that are still missing are left out and counted, so it may be called while results come in.
"""

import argparse
import json
from pathlib import Path

from make_inputs import SERIES, read_series
from picture import draw


class Spectrum:
    """The merged bands, as lists in order of frequency."""

    def __init__(self, results):
        """Merge results (dictionaries as period.py writes them); a band that occurs twice counts once."""
        bands = {result["band"]: result for result in results}
        if not bands:
            raise SystemExit("no results to merge")
        ordered = [bands[number] for number in sorted(bands)]
        one = ordered[0]
        for other in ordered:
            if any(other[key] != one[key] for key in ("bands", "seed", "years")) or len(
                other["shuffle_maxima"]
            ) != len(one["shuffle_maxima"]):
                raise SystemExit(f"band {other['band']} belongs to another search than band {one['band']}")
        self.years = one["years"]
        self.bands, self.missing = one["bands"], one["bands"] - len(ordered)
        self.found = ordered
        self.frequencies = [frequency for band in ordered for frequency in band["frequencies"]]
        self.powers = [power for band in ordered for power in band["powers"]]
        #: Shuffle k is the same series in all bands: its highest power anywhere is the highest of its maxima.
        self.maxima = sorted(map(max, zip(*(band["shuffle_maxima"] for band in ordered), strict=True)))

    @property
    def periods(self):
        """Years, falling as the frequencies rise."""
        return [1 / frequency for frequency in self.frequencies]

    def pieces(self):
        """Return lists of (frequency, power) without gaps: neighbouring bands are one piece."""
        pieces = []
        expected = None
        for band in self.found:
            points = list(zip(band["frequencies"], band["powers"], strict=True))
            if band["band"] == expected:
                pieces[-1].extend(points)
            else:
                pieces.append(points)
            expected = band["band"] + 1
        return pieces

    @property
    def level(self):
        """The power that 99 % of the shuffled series stay below."""
        return self.maxima[min(int(0.99 * len(self.maxima)), len(self.maxima) - 1)]

    def p_value(self, power):
        """How often chance alone gets that high anywhere in the search; never below 1 / (shuffles + 1)."""
        higher = sum(maximum >= power for maximum in self.maxima)
        return (1 + higher) / (1 + len(self.maxima))

    def peaks(self):
        """Return (power, period) of each local maximum above the level, highest first."""
        powers = [0.0, *self.powers, 0.0]
        found = [
            (here, period)
            for before, here, after, period in zip(powers, powers[1:], powers[2:], self.periods, strict=False)
            if here > before and here >= after and here >= self.level
        ]
        return sorted(found, reverse=True)

    def strongest(self):
        """Return (power, period) of the highest point, significant or not."""
        return max(zip(self.powers, self.periods, strict=True))


def answer(spectrum):
    """Return the scientific answer in words."""
    power, period = spectrum.strongest()
    span = spectrum.years[1] - spectrum.years[0] + 1
    level = (
        f"of {len(spectrum.maxima)} shuffled series, 99 % stay below {100 * spectrum.level:.1f} % everywhere"
    )
    lines = [
        f"Strongest period: {period:.1f} years, resolution {period**2 / (2 * span):.1f} years.",
        f"It explains {100 * power:.0f} % of the variance (p <= {spectrum.p_value(power):.1g}): {level}.",
    ]
    if spectrum.missing:
        lines.append(f"{spectrum.missing} of {spectrum.bands} bands are still missing.")
    return "\n".join(lines)


def write(path, text):
    """Replace a file in one step: an assimilator may be interrupted, or run twice at once."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def merge(results, folder, series=SERIES):
    """Merge result files, write table and picture into the folder, return the spectrum."""
    spectrum = Spectrum([json.loads(Path(result).read_text()) for result in results])
    rows = [
        f"{1 / f:.6f},{f:.9f},{power:.9f}"
        for f, power in zip(spectrum.frequencies, spectrum.powers, strict=True)
    ]
    write(folder / "spectrum.csv", "\n".join(["period_years,cycles_per_year,power", *rows, ""]))
    write(folder / "spectrum.svg", draw(spectrum, *read_series(series)))
    return spectrum


def write_png(spectrum, path):
    """Draw the plain spectrum with matplotlib; return whether it is installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    axes = Figure(figsize=(10, 5), layout="constrained").subplots()
    axes.semilogx(spectrum.periods, spectrum.powers, color="#c2410c")
    axes.axhline(spectrum.level, linestyle="--", color="#2563eb", label="99 % of shuffled series stay below")
    ticks = [2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 200]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set(xlabel="period in years", ylabel="share of variance explained", title="Yearly sunspot numbers")
    axes.legend()
    axes.figure.savefig(path, dpi=150)
    return True


def main():
    """Merge the files named on the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", nargs="+", type=Path, help="files written by period.py")
    parser.add_argument("--folder", type=Path, default=Path(), help="where to write (default: here)")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    spectrum = merge(options.results, options.folder)
    print(answer(spectrum))
    names = ["spectrum.csv", "spectrum.svg"]
    if write_png(spectrum, options.folder / "spectrum.png"):
        names.append("spectrum.png")
    print("written:", ", ".join(str(options.folder / name) for name in names))


if __name__ == "__main__":
    main()
