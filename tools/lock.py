"""Pins the requirements: a list with hashes for each of ``requirements/*.txt``, without the address of an index.

Run by ``make lock``; options go to ``uv pip compile``, such as ``--upgrade``.  The pins serve every Python from 3.11 on and every
system.  ``requirements/metadata.json`` keeps what each pinned package says that it needs, so that a test can prove each list
closed without a network: `setup.sh` and the container's image install a list as it is and look for nothing else.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from email.parser import HeaderParser
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
METADATA = ROOT / "requirements" / "metadata.json"
HEADING = "# Made by `make lock`; do not edit.\n"
OLDEST_PYTHON = "3.11"

#: Lists, with the extras that they bring.  The development set comes first, and the others take their versions from it: one
#: .venv serves all of them.
LISTS = {
    "dev": ("client", "docs", "joblib", "lab", "oidc", "postgres", "s3", "snakemake", "sweep", "tui", "wasm"),
    "core": ("client",),
    "image": ("oidc", "postgres", "s3"),
    "lab": ("client", "lab"),
}
#: Dependency groups of a list: an editable installation needs `build`.
GROUPS = {"dev": ("build", "dev"), "core": ("build",), "image": ("build",), "lab": ("build",)}
#: What a package names and never imports, and what has no wheel.  Snakemake 9 names this.
LEFT_OUT = ("connection-pool",)

PIN = re.compile(
    r"^(?P<pin>(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^ ;\\]+))(?: ; (?P<marker>[^\\]+?))?"
    r" \\\n(?P<hashes>(?: +--hash=\S+(?: \\)?\n)+)",
    re.MULTILINE,
)
#: Pythons and systems for which wheels are asked in turn, where a package is of no use here.
ELSEWHERE = (("3.14", "manylinux_2_28_x86_64"), ("3.11", "manylinux_2_28_x86_64"), ("3.11", "win_amd64"))


def main() -> None:
    """Write the lists and the metadata, and say what a list lacks."""
    with tempfile.TemporaryDirectory() as temporary:
        constraints = Path(temporary, "constraints.txt")
        constraints.touch()
        excludes = Path(temporary, "excludes.txt")
        excludes.write_text("\n".join(LEFT_OUT), encoding="utf-8")
        for name in LISTS:
            compile_list(name, constraints, excludes, sys.argv[1:])
            if name == "dev":
                text = list_text(name)
                constraints.write_text(re.sub(r"( \\)?\n +--hash=\S+", "", text), encoding="utf-8")
    METADATA.write_text(json.dumps(collect_metadata(), indent=0, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{METADATA.relative_to(ROOT)}: {len(metadata())} packages")


def compile_list(name: str, constraints: Path, excludes: Path, options: list[str]) -> None:
    """Let uv resolve a list for all Pythons and systems at once."""
    path = ROOT / "requirements" / f"{name}.txt"
    words = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "compile",
        "pyproject.toml",
        "--quiet",
        "--universal",
        "--generate-hashes",
        "--no-header",
    ]
    words += ["--python-version", OLDEST_PYTHON, "--no-emit-index-url", "--no-emit-find-links", "--no-config"]
    words += ["--no-annotate", "--constraint", str(constraints), "--output-file", str(path)]
    words += ["--no-emit-package", "httpx2-jsfetch"]  # for Python in a browser
    words += ["--excludes", str(excludes)]
    words += [word for extra in LISTS[name] for word in ("--extra", extra)]
    words += [word for group in GROUPS[name] for word in ("--group", group)]
    subprocess.run([*words, *options], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    path.write_text(HEADING + list_text(name).removeprefix(HEADING), encoding="utf-8")
    print(f"{path.relative_to(ROOT)}: {len(list(pins_of(name)))} pins")


def list_text(name: str) -> str:
    """Return the text of a list."""
    return (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")


def pins_of(name: str) -> Iterator[re.Match[str]]:
    """Yield the pins of a list, as matches with their name, version, marker and hashes."""
    return PIN.finditer(list_text(name))


def metadata() -> dict[str, list[str]]:
    """Return what each pinned package needs, by ``name==version``."""
    return json.loads(METADATA.read_text(encoding="utf-8"))


# ------------------------------------------------------------------------------------------- metadata


def collect_metadata() -> dict[str, list[str]]:
    """Return what each pinned package needs: as installed here, or read from a wheel that is fetched for it."""
    needs: dict[str, list[str]] = {}
    for match in pins_of("dev"):
        installed = installed_needs(match["name"], match["version"])
        needs[match["pin"]] = sorted(fetched_needs(match) if installed is None else installed)
    return needs


def installed_needs(name: str, version: str) -> list[str] | None:
    """Return what an installed package needs; None if this version is not installed."""
    try:
        found = distribution(name)
    except PackageNotFoundError:
        return None
    return list(found.requires or []) if found.version == version else None


def fetched_needs(match: re.Match[str]) -> list[str]:
    """Return what a package of another Python or system needs, from its wheel."""
    with tempfile.TemporaryDirectory() as temporary:
        pin = Path(temporary, "pin.txt")
        pin.write_text(f"{match['pin']} \\\n{match['hashes'].rstrip(chr(10) + chr(92))}\n", encoding="utf-8")
        for python, platform in ELSEWHERE:
            words = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
            words += ["--only-binary=:all:", "--python-version", python, "--platform", platform]
            subprocess.run(
                [*words, "--dest", temporary, "--requirement", str(pin)],
                check=False,
                stderr=subprocess.DEVNULL,
            )
            for wheel in Path(temporary).glob("*.whl"):
                return wheel_needs(wheel)
    sys.exit(f"{match['pin']} has no wheel for {' or '.join(' on '.join(each) for each in ELSEWHERE)}")


def wheel_needs(wheel: Path) -> list[str]:
    """Return what the package of a wheel needs."""
    with zipfile.ZipFile(wheel) as packed:
        (name,) = [each for each in packed.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", each)]
        return HeaderParser().parsestr(packed.read(name).decode("utf-8")).get_all("Requires-Dist") or []


# -------------------------------------------------------------------------------------------- closure


def pinned(name: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return names and versions that a list pins in an environment of markers."""
    return {
        canonicalize_name(match["name"]): match["version"]
        for match in pins_of(name)
        if match["marker"] is None or Marker(match["marker"]).evaluate(environment)
    }


def asked_for(name: str) -> Iterator[str]:
    """Yield the requirements of pyproject.toml for which a list is made."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    yield from project["project"]["dependencies"]
    for extra in LISTS[name]:
        yield from project["project"]["optional-dependencies"][extra]
    for group in GROUPS[name]:
        yield from (item for item in project["dependency-groups"][group] if isinstance(item, str))


def walk(name: str, environment: Mapping[str, str]) -> tuple[set[str], list[str]]:
    """Return the pins that a list needs in an environment, and what it lacks there, in words."""
    pins, needs = pinned(name, environment), metadata()
    todo = [("pyproject.toml", line, "") for line in asked_for(name)]
    seen: set[tuple[str, str]] = set()
    used: set[str] = set()
    lacking: list[str] = []
    while todo:
        asker, line, extra = todo.pop()
        wanted = Requirement(line)
        if wanted.marker and not wanted.marker.evaluate({**environment, "extra": extra}):
            continue
        package = canonicalize_name(wanted.name)
        if package in LEFT_OUT:
            continue
        version = pins.get(package, "")
        if not version or not wanted.specifier.contains(version, prereleases=True):
            lacking.append(f"{asker} needs {line}; pinned is {version or 'nothing'}")
            continue
        used.add(f"{package}=={version}")
        for part in ("", *sorted(wanted.extras)):
            if (package, part) not in seen:
                seen.add((package, part))
                todo += [(f"{package}=={version}", each, part) for each in needs[f"{package}=={version}"]]
    return used, lacking


if __name__ == "__main__":
    main()
