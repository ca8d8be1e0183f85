"""Cut the search for periods into workunits: one self-contained JSON file for each band of frequencies."""

import argparse
import csv
import json
from pathlib import Path

HERE = Path(__file__).parent
SERIES = HERE / "sunspots.csv"

#: Cycles per year: from one cycle in 200 years to the fastest that yearly values can show, one in two years.
LOWEST, HIGHEST = 1 / 200, 1 / 2


def read_series(path):
    """Return the years and the sunspot numbers."""
    with Path(path).open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [int(row["YEAR"]) for row in rows], [float(row["SUNACTIVITY"]) for row in rows]


def make_inputs(*, bands, n_bootstrap, oversampling=16, seed=1843, series=SERIES):
    """Return one dictionary per band.

    The step is ``oversampling`` times finer than 1 / (length of the series), the width of a peak.  All bands get
    the same seed: shuffle number k is then the same series in every band, and its highest power over *all*
    frequencies, which the significance needs, is the highest of its maxima in the bands.
    """
    years, values = read_series(series)
    step = 1 / (oversampling * (years[-1] - years[0] + 1))
    count = int((HIGHEST - LOWEST) / step) + 1
    if not 1 <= bands <= count:
        raise SystemExit(f"--bands must be from 1 to {count}, the number of frequencies")
    inputs = []
    for band in range(bands):
        first, last = band * count // bands, (band + 1) * count // bands
        inputs.append(
            {
                "band": band,
                "bands": bands,
                "frequencies": {"first": LOWEST + first * step, "step": step, "count": last - first},
                "n_bootstrap": n_bootstrap,
                "seed": seed,
                "series": {"years": years, "values": values},
            }
        )
    return inputs


def main():
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bands", type=int, default=12, help="number of workunits (default 12)")
    parser.add_argument(
        "--n-bootstrap", type=int, default=2000, help="shuffled series per band (default 2000)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="100 shuffled series: well below a second per workunit"
    )
    parser.add_argument(
        "--folder", type=Path, default=HERE / "inputs", help="where to write (default inputs)"
    )
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    inputs = make_inputs(bands=options.bands, n_bootstrap=100 if options.quick else options.n_bootstrap)
    for one in inputs:
        (options.folder / f"band-{one['band']:02d}.json").write_text(json.dumps(one))
    print(f"{len(inputs)} workunits in {options.folder}")


if __name__ == "__main__":
    main()
