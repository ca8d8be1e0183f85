"""Breaks the line that each promise rests on, in a copy of the tree, and expects the test that the promise names to fail.

``python -m tools.mutations`` tries all of them (hours), ``--sample N`` so many of the quick ones, by chance, ``--only WORD``
those whose file, line or test has the word.  A test that goes on passing does not test its promise.  The lines are in
``mutations.toml``.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import random
import shutil
import sys
import sysconfig
import tempfile
import tomllib
import venv
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import Phase, settings

ROOT = Path(__file__).parents[1]
TESTS_FAILED = 1
"""Exit status of pytest; others mean that it could not run them."""
COPIED = (
    *("src", "tests", "tools", "docs", "examples", "requirements"),
    *("pyproject.toml", "mkdocs.yml", "Makefile", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"),
)
IMPORTED_ONCE = (
    "starlette.testclient",
    "sqlalchemy",
    "alembic.command",
    "lxml.html",
    "click",
    "httpx",
    "argon2",
)
"""What tests import of others: the processes that run them have it already."""


class Mutation(NamedTuple):
    """A line that protects something, a broken form of it, and the test that must notice: see ``mutations.toml``."""

    file: str
    line: str
    broken: str
    test: str
    nightly: bool = False


MUTATIONS = tuple(
    Mutation(**each) for each in tomllib.loads((ROOT / "tools" / "mutations.toml").read_text())["mutation"]
)


EXAMPLES = 300
"""That a property is tried with: most are tried with fifteen in `make check`, and with thousands at night."""


class _FirstExample:
    """A plugin of pytest: random tests look longer for an example that fails, and any will do, not the smallest."""

    def pytest_sessionstart(self) -> None:
        """Go before the tests are read, and after the profile of ``tests/conftest.py``."""
        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutations", settings(), phases=phases, max_examples=EXAMPLES)
        settings.load_profile("mutations")


def run_tests(tree: Path, tests: Iterable[str]) -> int:
    """Return pytest's exit status for some tests of a tree; they run in a process of their own."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status: int = pytest.ExitCode.INTERNAL_ERROR
    try:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        os.chdir(tree)
        sys.path[:0] = [str(tree), str(tree / "src")]
        sys.executable = str(tree / ".venv" / "bin" / "python")
        status = pytest.main(
            ["-x", "-q", "--assert=plain", "-p", "no:cacheprovider", *(f"tests/{each}" for each in tests)],
            plugins=[_FirstExample()],
        )
    finally:
        os._exit(status)


def survives(tree: Path, mutation: Mutation) -> str:
    """Break a line and return what is wrong with its test; empty: it failed, as it should."""
    file = tree / mutation.file
    text = file.read_text()
    file.write_text(text.replace(mutation.line, mutation.broken))
    if mutation.nightly:  # what Numba keeps of callers would still hold what they called before
        os.environ["NUMBA_CACHE_DIR"] = tempfile.mkdtemp(dir=tree)
    try:
        status = run_tests(tree, [mutation.test])
    finally:
        file.write_text(text)
    return {TESTS_FAILED: "", 0: "goes on passing"}.get(status, f"cannot be run (status {status})")


def copied(folder: str) -> Path:
    """Copy the tree, with what is compiled, into a new folder, with a Python whose programs import that copy."""
    tree = Path(tempfile.mkdtemp(dir=folder))
    for name in COPIED:
        place = ROOT / name
        if place.is_dir():
            shutil.copytree(place, tree / name, symlinks=True)
        else:
            shutil.copy2(place, tree / name)
    venv.create(tree / ".venv", symlinks=True)
    for program in Path(sys.executable).parent.iterdir():
        with contextlib.suppress(FileExistsError):
            (tree / ".venv" / "bin" / program.name).symlink_to(program)
    (packages,) = tree.glob(".venv/lib/*/site-packages")
    (packages / "tree.pth").write_text(f"{tree / 'src'}\n{sysconfig.get_path('purelib')}\n")
    return tree


def try_some(folder: str, mutations: Iterable[Mutation]) -> int:
    """Try mutations one after the other in a tree; return how many tests did not notice."""
    tree, holes = copied(folder), 0
    for each in mutations:
        problem = survives(tree, each)
        holes += bool(problem)
        line = each.line.split("\n")[0].strip()
        print(f"{problem or 'noticed'}: {each.file}: {line}  ({each.test})", flush=True)
    return holes


def main() -> int:
    """Try mutations; return 1 if a test went on passing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=0, help="So many, by chance.")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="Of the chance; printed.")
    parser.add_argument("--jobs", type=int, default=2, help="Side by side.")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    chosen = [each for each in MUTATIONS if any(options.only in part for part in each[:-1])]
    for name in IMPORTED_ONCE:
        import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        if options.sample:
            print(
                f"Seed {options.seed}: repeat with --sample {options.sample} --seed {options.seed}",
                flush=True,
            )
            quick = [each for each in chosen if not each.nightly]
            chosen = random.Random(options.seed).sample(quick, min(options.sample, len(quick)))
        elif status := run_tests(copied(folder), sorted({each.test for each in chosen})):
            print(f"The tests fail (status {status}) although nothing is broken.")
            return 1
        # Tests of one file stay together: its part of the compiled tree is read once.
        chosen.sort(key=lambda each: each.test)
        with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
            portions = [(folder, chosen[place :: options.jobs]) for place in range(options.jobs)]
            holes = sum(pool.starmap(try_some, portions))
    print(f"{len(chosen)} lines broken, {holes} tests did not notice.")
    return 1 if holes else 0


if __name__ == "__main__":
    sys.exit(main())
