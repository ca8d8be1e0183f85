"""Write the exponents to be tested, a few in each file."""

import argparse
from pathlib import Path

from lucas_lehmer import is_prime

HERE = Path(__file__).parent


def main():
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=9600, help="smallest exponent (default 9600)")
    parser.add_argument("--last", type=int, default=10000, help="largest exponent (default 10000)")
    parser.add_argument("--per-file", type=int, default=12, help="exponents in each file (default 12)")
    parser.add_argument(
        "--folder", type=Path, default=HERE / "inputs", help="where to write (default inputs)"
    )
    options = parser.parse_args()
    if options.per_file < 1:
        parser.error("--per-file must be at least 1")
    exponents = [number for number in range(options.first, options.last + 1) if is_prime(number)]
    options.folder.mkdir(parents=True, exist_ok=True)
    starts = range(0, len(exponents), options.per_file)
    for start in starts:
        some = exponents[start : start + options.per_file]
        (options.folder / f"exponents-{some[0]}.txt").write_text(
            "".join(f"{exponent}\n" for exponent in some)
        )
    print(f"{len(exponents)} exponents in {len(starts)} files in {options.folder}")


if __name__ == "__main__":
    main()
