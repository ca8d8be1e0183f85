"""Cut the test by shuffles into workunits: plain text, the same for the programs in Python and in C."""

import argparse
import csv
from pathlib import Path

HERE = Path(__file__).parent
SERIES = HERE / "../sunspots/sunspots.csv"

#: Cycles per year: from one cycle in 200 years to the fastest that yearly values can show, one in two years.
LOWEST, HIGHEST = 1 / 200, 1 / 2


def make_input(rows, *, first, shuffles, oversampling=16, seed=1843):
    """Return the text of one workunit: shuffles ``first`` to ``first + shuffles - 1``, over all frequencies.

    The step is ``oversampling`` times finer than 1 / (length of the series), the width of a peak.
    """
    step = 1 / (oversampling * (rows[-1][0] - rows[0][0] + 1))
    count = int((HIGHEST - LOWEST) / step) + 1
    lines = [
        f"seed {seed}",
        f"first {first}",
        f"shuffles {shuffles}",
        f"lowest {LOWEST!r}",
        f"step {step!r}",
        f"frequencies {count}",
        f"values {len(rows)}",
        *(f"{year:g} {value:g}" for year, value in rows),
    ]
    return "\n".join(lines) + "\n"


def main():
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=4, help="number of workunits (default 4)")
    parser.add_argument("--shuffles", type=int, default=5_000_000, help="in each (default 5 million)")
    parser.add_argument("--oversampling", type=int, default=16, help="fineness of the grid (default 16)")
    parser.add_argument("--series", type=Path, default=SERIES, help="columns: year, value")
    parser.add_argument(
        "--folder", type=Path, default=HERE / "inputs", help="where to write (default inputs)"
    )
    options = parser.parse_args()
    with options.series.open(newline="") as file:
        rows = [tuple(map(float, row)) for row in list(csv.reader(file))[1:]]
    options.folder.mkdir(parents=True, exist_ok=True)
    for job in range(options.jobs):
        text = make_input(
            rows, first=job * options.shuffles, shuffles=options.shuffles, oversampling=options.oversampling
        )
        (options.folder / f"shuffles-{job}.txt").write_text(text)
    print(f"{options.jobs} workunits in {options.folder}")


if __name__ == "__main__":
    main()
