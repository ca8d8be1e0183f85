"""Write the workunits: the same solar system again and again, each time with the Earth some metres further on."""

import argparse
from pathlib import Path

HERE = Path(__file__).parent


def main():
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--systems", type=int, default=12, help="number of workunits (default 12)")
    parser.add_argument("--years", type=float, default=200_000, help="years to compute (default 200000)")
    parser.add_argument("--metres", type=float, default=100.0, help="from one to the next (default 100)")
    parser.add_argument("--folder", type=Path, default=HERE / "inputs", help="where (default inputs)")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    planets = (HERE / "planets.txt").read_text()
    for number in range(options.systems):
        head = {
            "years": options.years,
            "sample_years": options.years / 200,
            "step_days": 2,
            "shift_metres": number * options.metres,
        }
        text = "".join(f"{name} {value}\n" for name, value in head.items())
        (options.folder / f"system-{number:02d}.txt").write_text(text + planets)
    print(f"{options.systems} workunits in {options.folder}")


if __name__ == "__main__":
    main()
