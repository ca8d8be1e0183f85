"""Put the answers together:  python3 merge.py answers/*/output"""

import sys
from pathlib import Path


def read(path):
    """Return what one job wrote, by its words."""
    rows = [line.rsplit(maxsplit=1) for line in Path(path).read_text().splitlines()]
    return {name: float(value) for name, value in rows}


def main(paths):
    """Print the answer."""
    answers = [read(path) for path in paths]
    if not answers or len({(each["power"], each["period"]) for each in answers}) != 1:
        sys.exit("give the answers of one search")
    shuffles = sum(int(each["shuffles"]) for each in answers)
    highest = max(each["percentile 100"] for each in answers)
    print(f"Strongest period: {answers[0]['period']:.2f} years; it explains {answers[0]['power']:.1%}.")
    print(f"The highest of {shuffles} shuffled series: {highest:.1%}.")
    if highest < answers[0]["power"]:
        print(f"None reaches the data: p <= {1 / (shuffles + 1):.1e}.")


if __name__ == "__main__":
    main(sys.argv[1:])
