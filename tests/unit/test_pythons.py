"""Nothing in the package needs a later patch of Python than 3.11.0: no other check sees those (docs/pythons.md)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src"

#: Arguments that functions and methods of these names got in a patch; empty: do without any of that name.
OF_PATCHES = {
    "extractall": {"filter"},  # tarfile, 3.11.4
    "extract": {"filter"},
    "unpack_archive": {"filter"},  # shutil, 3.11.4
    "getaddresses": {"strict"},  # email.utils, 3.11.10
    "parseaddr": {"strict"},
    "HTMLParser": {"scripting"},  # html.parser, 3.11.14
}
NAMES_OF_PATCHES = {
    "data_filter", "tar_filter", "fully_trusted_filter", "extraction_filter", "FilterError",  # tarfile, 3.11.4
    "SetReparseDeferralEnabled", "GetReparseDeferralEnabled",  # pyexpat, 3.11.9
}  # fmt: skip
#: Unsafe without an argument that came later.
UNSAFE = {"extractall", "extract", "unpack_archive"}


def later_features(source: str) -> list[str]:
    """Names, with their lines, of what a module uses that not every 3.11 has, or that is unsafe there."""
    tree = ast.parse(source)
    with_tars = any(
        isinstance(node, ast.Import) and node.names[0].name == "tarfile" for node in ast.walk(tree)
    )
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name):
            name = node.attr if isinstance(node, ast.Attribute) else node.id
            if name in NAMES_OF_PATCHES:
                found.append(f"{node.lineno}: {name}")
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            given = {each.arg for each in node.keywords}
            if OF_PATCHES.get(name, set()) & given or (name in UNSAFE and with_tars):
                found.append(f"{node.lineno}: {name}")
    return found


def test_no_module_needs_a_patch_of_python() -> None:
    found = {
        str(path.relative_to(SOURCES)): uses
        for path in sorted(SOURCES.rglob("*.py"))
        if (uses := later_features(path.read_text(encoding="utf-8")))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("source", "uses"),
    [
        ("archive.extractall(folder, filter='data')", ["1: extractall"]),
        ("import tarfile\nopened.extractall(folder)", ["2: extractall"]),
        ("import shutil\nshutil.unpack_archive(a, b, filter='data')", ["2: unpack_archive"]),
        ("import tarfile\nx = tarfile.data_filter", ["2: data_filter"]),
        ("from email.utils import parseaddr\nparseaddr(a, strict=True)", ["2: parseaddr"]),
        ("import zipfile\nwheel.extractall(folder)", []),
        ("found = filter(None, values)", []),
    ],
)
def test_what_came_with_a_patch_is_found(source: str, uses: list[str]) -> None:
    assert later_features(source) == uses
