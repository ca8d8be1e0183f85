"""Test Mersenne numbers for being prime:  python3 lucas_lehmer.py INPUT OUTPUT

INPUT has one exponent p on each line.  OUTPUT gets one line for each: whether 2^p - 1 is prime, and the last 64 bits of the
test's final value, by which two computers can be compared even when the answer is "composite".

The Lucas-Lehmer test: start with s = 4, replace s by s^2 - 2 modulo 2^p - 1 exactly p - 2 times; 2^p - 1 is prime if and only
if s is then 0.  It holds for odd primes p; for a composite p the number has the factors of smaller Mersenne numbers.
"""

import json
import sys
from pathlib import Path

try:
    import cobblestone_runtime as runtime  # there when the program runs as a job
except ImportError:
    runtime = None

MAX_EXPONENT = 10_000_000


def is_prime(number):
    """Trial division: exponents are small."""
    return number >= 2 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


def read_exponents(path):
    """Return the exponents; anything but whole numbers from 2 to ten million is an error that names its line."""
    exponents = []
    for number, line in enumerate(Path(path).read_text().split("\n"), start=1):
        word = line.partition("#")[0].strip()
        if word:
            if not word.isdigit() or not 2 <= int(word) <= MAX_EXPONENT:
                sys.exit(f"{path}, line {number}: {word!r} is not an exponent from 2 to {MAX_EXPONENT}")
            exponents.append(int(word))
    return exponents


def describe(exponent, residue):
    """Return the line of the answer; the residue is None when no test was needed."""
    if residue is None:
        return f"M{exponent} composite, since {exponent} is"
    return f"M{exponent} {'composite' if residue else 'prime'} {residue % 2**64:016x}"


class Search:
    """The work on one file, and how far it has come."""

    def __init__(self, exponents, state_file):
        self.exponents = exponents
        self.state_file = state_file
        self.lines = []
        self.iteration, self.value = 0, 4
        if state_file.exists():
            state = json.loads(state_file.read_text())
            self.lines, self.iteration, self.value = (
                state["lines"],
                state["iteration"],
                int(state["value"], 16),
            )
        #: A test's work grows a little faster than the square of the exponent.
        self.costs = [exponent**2.3 for exponent in exponents]

    def save(self):
        """Make a checkpoint: a new file that replaces the old one in one step."""
        state = {"lines": self.lines, "iteration": self.iteration, "value": f"{self.value:x}"}
        replace(self.state_file, json.dumps(state))
        runtime.checkpoint()

    def tell_progress(self, exponent):
        """Report progress, and make a checkpoint when it is time to."""
        if runtime is not None:
            done = sum(self.costs[: len(self.lines)])
            done += self.costs[len(self.lines)] * self.iteration / max(exponent - 2, 1)
            runtime.progress(done / sum(self.costs))
            if runtime.time_to_checkpoint():
                self.save()

    def residue(self, exponent):
        """Return the final value of the test, from where the last checkpoint was."""
        if exponent == 2:
            return 0  # 3 is prime; the test is for odd exponents
        modulus = 2**exponent - 1
        while self.iteration < exponent - 2:
            square = self.value * self.value - 2
            square = (square & modulus) + (square >> exponent)  # 2^p is 1 modulo 2^p - 1
            self.value = square - modulus if square >= modulus else square
            self.iteration += 1
            if self.iteration % 200 == 0:
                self.tell_progress(exponent)
        return self.value

    def run(self):
        """Test all exponents; return the lines of the answer."""
        for exponent in self.exponents[len(self.lines) :]:
            residue = self.residue(exponent) if is_prime(exponent) else None
            self.lines.append(describe(exponent, residue))
            self.iteration, self.value = 0, 4
        return self.lines


def replace(path, text):
    """Write a file under another name first: whoever reads it finds the old text or the new one, never a part."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text)
    temporary.replace(path)


def main(input_file, output_file):
    """Do the work of one file."""
    state_file = Path(output_file + ".checkpoint")
    lines = Search(read_exponents(input_file), state_file).run()
    replace(Path(output_file), "".join(f"{line}\n" for line in lines))
    if state_file.exists():
        state_file.unlink()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python3 lucas_lehmer.py INPUT OUTPUT")
    main(sys.argv[1], sys.argv[2])
