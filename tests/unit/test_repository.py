"""The repository keeps its own promises: no private addresses, small modules, links that lead somewhere."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: Names are put together here, so that this file does not contain what it forbids.
REGISTRY_HOSTS = (
    "pypi" + ".org",
    "python" + "hosted.org",
    "npmjs" + ".org",
    "npmjs" + ".com",
    "crates" + ".io",
    "ana" + "conda.org",
    "rubygems" + ".org",
    "golang" + ".org",
    "yarnpkg" + ".com",
    "jsdelivr" + ".net",
    "unpkg" + ".com",
    "nodesource" + ".com",
    "/opt/" + "pypi",
    "/opt/" + "wheels",
)
#: Where distributions keep their packages; what a machine's own apt is told is the machine's affair.
MIRROR_HOST = re.compile(
    r"\b(?:[\w-]+\.)*(?:"
    + "|".join(("deb" + "ian", "ub" + "untu", "fedora" + "project", "arch" + "linux"))
    + ")"
    r"\.(?:org|com|net)\b|://[^/\s]*\bmirrors?\b|://[^\s\"')]+/(?:deb" + r"ian|ub" + r"untu)\b",
    re.IGNORECASE,
)
#: Of what runs at set-up and in the checks no line leads to another machine, whatever it would be asked for.
SET_UP = (".ci/", "tools/", "requirements/", "Makefile")
ELSEWHERE = re.compile(
    r"\b(?:https?|ftp|git|ssh)://(?!127\.|localhost\b|\[::1\]|(?:[\w-]+\.)*example\.(?:org|com)\b)",
    re.IGNORECASE,
)
#: Folders of one machine or person: of root, of a user, and the place where this was written.
MACHINE_PATH = re.compile(r"(?<![\w.$}~*-])/(?:work|root|home/[a-z][\w-]*|Users/[A-Za-z][\w-]*)/[\w.]")
#: Recorded bytes and data of others are kept as they are.
RECORDED = ("tests/golden/", "tests/helpers/captures/")

VAGUE_NAMES = {"base", "common", "helper", "helpers", "manager", "misc", "util", "utils"}


@cache
def tracked_files() -> tuple[Path, ...]:
    """Every file of the repository, without what is ignored."""
    # git believes a copy that belongs to somebody else only if it is told so; root may look at one
    command = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), "ls-files", "-z"]
    listing = subprocess.run(command, check=True, capture_output=True).stdout.decode()
    names = [name for name in listing.split("\0") if name]
    return tuple(path for name in names if (path := ROOT / name).is_file())


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def text_files() -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for path in tracked_files():
        data = path.read_bytes()
        if b"\0" not in data and not name_of(path).startswith(RECORDED):
            found.append((name_of(path), data.decode("utf-8")))
    return found


def modules(*folders: str) -> list[Path]:
    return [path for path in tracked_files() if path.suffix == ".py" and name_of(path).startswith(folders)]


def lines_with(pattern: re.Pattern[str], files: list[tuple[str, str]]) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()[:100]}"
        for name, text in files
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


def test_no_file_names_a_package_registry() -> None:
    hosts = re.compile("|".join(re.escape(host) for host in REGISTRY_HOSTS), re.IGNORECASE)
    assert lines_with(hosts, text_files()) == []


def test_no_file_names_a_mirror_of_a_distribution() -> None:
    assert lines_with(MIRROR_HOST, text_files()) == []


def test_set_up_and_checks_name_no_other_machine() -> None:
    files = [(name, text) for name, text in text_files() if name.startswith(SET_UP)]
    assert {"Makefile", ".ci/run", "tools/setup.sh", "requirements/dev.txt"} <= {name for name, _ in files}
    assert lines_with(ELSEWHERE, files) == []


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (MIRROR_HOST, "http://deb.deb" + "ian.org/deb" + "ian", True),
        (MIRROR_HOST, "http://ports.ub" + "untu.com", True),
        (MIRROR_HOST, "http://mir" + "ror.example.org/x", True),
        (MIRROR_HOST, "http://10.0.0.1/deb" + "ian/", True),
        (MIRROR_HOST, "Debian or Ubuntu, apt-get install boinc-client", False),
        (ELSEWHERE, "curl https:" + "//files.example.net/tool", True),
        (ELSEWHERE, "http://127.0.0.1:8080/", False),
        (ELSEWHERE, "https://example.org/x", False),
    ],
)
def test_an_address_of_another_machine_is_found(pattern: re.Pattern[str], text: str, found: bool) -> None:
    assert (pattern.search(text) is not None) == found


def test_no_file_holds_a_path_of_one_machine() -> None:
    assert lines_with(MACHINE_PATH, text_files()) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see /ro" + "ot/project", True),
        ("'/ho" + "me/ada/x'", True),
        ("/home/", False),
        ("https://example.org/work/list", False),
        ("$HOME/work/x", False),
        ("/var/lib/boinc-client", False),
    ],
)
def test_a_path_of_one_machine_is_told_from_an_address(text: str, found: bool) -> None:
    assert (MACHINE_PATH.search(text) is not None) == found


def test_there_is_no_lock_file_with_index_addresses() -> None:
    names = {path.name for path in tracked_files()}
    assert names.isdisjoint({"uv.lock", "poetry.lock", "Pipfile.lock", "pdm.lock"})


def test_packages_and_modules_are_named_after_things_of_the_field() -> None:
    vague = {
        name_of(path)
        for path in modules("src/")
        if VAGUE_NAMES & {part.removesuffix(".py") for part in path.relative_to(ROOT).parts}
    }
    assert vague == set()


def test_placeholders_have_no_numbers() -> None:
    """From 3.14 on Python's own sqlite3 takes a number for a name, and refuses a sequence of values."""
    numbered = re.compile(r"[(,=+-] ?\?[1-9]\b")
    programs = [(name_of(path), path.read_text(encoding="utf-8")) for path in modules("src/", "tests/")]
    assert lines_with(numbered, programs) == []


def test_no_test_is_left_out() -> None:
    evasion = re.compile(r"mark\." + r"(skip|xfail)|pytest\." + r"(skip|xfail|importorskip)\(")
    tests = [(name_of(path), path.read_text(encoding="utf-8")) for path in modules("tests/")]
    assert lines_with(evasion, tests) == []


def waits_for_the_clock(call: ast.AST) -> bool:
    """Whether this is a call of a sleep for longer than nothing (programs in strings do not count)."""
    return (
        isinstance(call, ast.Call)
        and ast.unparse(call.func) in {"time.sleep", "asyncio.sleep", "anyio.sleep"}
        and not (len(call.args) == 1 and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0)
    )


def test_no_test_below_end_to_end_waits_for_the_clock() -> None:
    folders = (
        "tests/unit/",
        "tests/properties/",
        "tests/golden/",
        "tests/programs/",
        "tests/simulations/",
        "tests/conformance/",
        "tests/integration/",
    )
    waiting = [
        f"{name_of(path)}: {ast.unparse(node)}"
        for path in modules(*folders)
        for node in ast.walk(ast.parse(path.read_bytes()))
        if waits_for_the_clock(node)
    ]
    assert waiting == []


def test_scripts_can_be_executed() -> None:
    scripts = [
        path for path in tracked_files() if path.read_bytes()[:2] == b"#!" and path.suffix in {"", ".sh"}
    ]
    assert {"run", "setup.sh"} <= {path.name for path in scripts}
    assert [name_of(path) for path in scripts if not path.stat().st_mode & 0o100] == []


IMPURE = '''"""A rule that looks at its watch and throws dice."""

from __future__ import annotations

import random
import time


def decide() -> bool:
    """Decide by chance."""
    return time.time() > random.random()
'''


@pytest.mark.parametrize(
    ("package", "complaints"), [("domain", 2), ("policy", 2), ("policy/credit", 2), ("server", 0)]
)
def test_the_linter_refuses_clocks_and_chance_in_pure_packages(package: str, complaints: int) -> None:
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--no-cache",
        "--output-format",
        "json",
        "--stdin-filename",
    ]
    done = subprocess.run(
        [*command, f"src/cobblestone/{package}/probe.py", "-"],
        input=IMPURE,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert [item["code"] for item in json.loads(done.stdout)] == ["TID251"] * complaints


# Documentation: each link inside the repository leads to a file, and to a heading in it.

LINK = re.compile(
    r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)|<(?:img|source|a)\b[^>]*?\b(?:src|srcset|href)=\"([^\"]+)\""
)
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$", re.MULTILINE)
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


def documents() -> list[Path]:
    return [path for path in tracked_files() if path.suffix == ".md"]


def anchors(document: Path) -> set[str]:
    """The names by which headings can be linked to, as the usual viewers make them."""
    text = FENCE.sub("", document.read_text(encoding="utf-8"))
    found: set[str] = set()
    for heading in HEADING.findall(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        count = 0
        while (name := slug if count == 0 else f"{slug}-{count}") in found:
            count += 1
        found.add(name)
    return found


def broken_links(document: Path) -> list[str]:
    text = FENCE.sub("", document.read_text(encoding="utf-8"))
    broken: list[str] = []
    for markdown, html in LINK.findall(text):
        link = markdown or html
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            continue
        place, _, anchor = link.partition("#")
        target = (document.parent / place).resolve() if place else document
        if not target.exists() or not target.is_relative_to(ROOT):
            broken.append(f"{name_of(document)}: {link} does not exist")
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            broken.append(f"{name_of(document)}: {link} is not a heading there")
    return broken


def test_links_in_the_documentation_lead_somewhere() -> None:
    assert {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/glossary.md"} <= {
        name_of(d) for d in documents()
    }
    assert [problem for document in documents() for problem in broken_links(document)] == []


def test_a_link_to_nowhere_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    document = tmp_path / "a.md"
    document.write_text(
        "# One thing\n[ok](#one-thing) [no](#two) [gone](b.md) ![](c.svg) [out](https://example.org)\n"
    )
    assert [problem.split()[1] for problem in broken_links(document)] == ["#two", "b.md", "c.svg"]
