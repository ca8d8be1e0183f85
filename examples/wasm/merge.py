"""Print how round the Earth's orbit was over time, and how far the systems differ:  python3 merge.py RESULT..."""

import sys
from pathlib import Path


def read_result(path):
    """Return the years and the Earth's eccentricities of one system, and the places of all bodies at its end."""
    years, eccentricities, places = [], [], {}
    column = None
    for line in Path(path).read_text().splitlines():
        words = line.split()
        if line.startswith("# ") and words[2] == "at":
            places[words[1]] = tuple(map(float, words[3:]))
        elif line.startswith("year"):
            column = words.index("earth")
        elif column is not None and not line.startswith("#"):
            years.append(float(words[0]))
            eccentricities.append(float(words[column]))
    return years, eccentricities, places


def main(paths):
    """Print the table."""
    systems = [read_result(path) for path in paths]
    years = systems[0][0]
    print("   year  eccentricity of the Earth's orbit, and how much the systems differ in it")
    for row in range(0, len(years), max(1, len(years) // 20)):
        values = [eccentricities[row] for _, eccentricities, _ in systems]
        print(
            f"{years[row]:7.0f}  {values[0]:.6f} {'*' * round(values[0] * 1000):20} {max(values) - min(values):.1e}"
        )
    earths = [places["earth"] for _, _, places in systems]
    apart = max(sum((a - b) ** 2 for a, b in zip(one, earths[0])) ** 0.5 for one in earths)  # noqa: B905  # `strict` needs Python 3.10
    print(f"At the end the Earths are up to {apart * 149597870.7:.0f} km apart.")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python3 merge.py RESULT...")
    main(sys.argv[1:])
