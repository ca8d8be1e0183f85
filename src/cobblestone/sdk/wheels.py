"""Installs wheels for a platform that need not be this one, by pip; nothing of a package is run."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from cobblestone.domain.errors import ConfigError

BUILD_SECONDS = 1800


class NoWheelError(Exception):
    """A package cannot be had for a platform."""

    def __init__(self, package: str) -> None:
        super().__init__(package)
        self.package = package


def install_wheels(requirements: Path, packages: Path, tags: Sequence[str], version: str) -> None:
    """Install the packages of a requirements file into a folder, for platforms in the words of wheels and a version of CPython.

    Raises:
        NoWheelError: a package has no wheel that fits.
        ConfigError: pip failed.
    """
    words = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-input",
        "--no-compile",
    ]
    words += ["--only-binary=:all:", "--implementation", "cp", "--python-version", version, "--upgrade"]
    for tag in tags:
        words += ["--platform", tag]
    try:
        run([*words, "--target", str(packages), "--requirement", str(requirements)], "pip failed")
    except ConfigError as problem:
        found = re.search(r"No matching distribution found for ([A-Za-z0-9_.\-]+)", str(problem))
        if found is None:
            raise
        raise NoWheelError(found[1]) from None


def run(words: Sequence[str], what: str) -> None:
    """Run a program; ``what`` begins the text of the failure.  Raises ConfigError."""
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=BUILD_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"{what}: {error}") from error
    if done.returncode:
        raise ConfigError(f"{what}: {done.stderr.strip()[-1500:]}")
