"""The examples: in a checkout beside the package, in an installation inside of it."""

from __future__ import annotations

import shutil
from pathlib import Path

from cobblestone.domain.errors import ConfigError
from cobblestone.ops.installation import where_from


def examples_folder() -> Path:
    """Return the folder that holds the examples.

    Raises:
        ConfigError: it is missing.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "examples", package.parents[1] / "examples"):
        if (folder / "sunspots" / "period.py").is_file():
            return folder
    raise ConfigError(
        f"The examples are missing from this installation. Install it again from {where_from()}."
    )


def example_names() -> list[str]:
    """Return the names of the examples."""
    return sorted(path.name for path in examples_folder().iterdir() if path.is_dir())


def copy_example(name: str, target: Path) -> Path:
    """Copy an example into a new folder below ``target``; return that folder.

    Raises:
        ConfigError: there is no such example, or the folder exists.
    """
    if name not in example_names():
        raise ConfigError(f"There is no example {name!r}. There are: {', '.join(example_names())}.")
    folder = target / name
    try:
        shutil.copytree(examples_folder() / name, folder, ignore=shutil.ignore_patterns("__pycache__"))
    except FileExistsError as error:
        raise ConfigError(f"{folder} exists already. Give another place with --to.") from error
    except OSError as error:
        raise ConfigError(f"{folder}: {error.strerror or error}.") from error
    return folder
