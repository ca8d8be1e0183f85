"""Identifies the code that made a result, so that results of other code are not reused."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import cobblestone
from cobblestone.ops.policies import file_of

_ROOT = Path(cobblestone.__file__).parent
#: What decides the outcome of a run: the client's rules, and the server's for populations.
_FOLDERS = (
    "simulator",
    *(f"policy/{part}" for part in ("client", "credit", "dispatch", "lifecycle", "validation")),
)


def code_version(policies: Iterable[str] = ()) -> str:
    """Return the package's version and a digest of the source of the simulator and of all policies, those in own files too."""
    own = sorted({path for path in map(file_of, policies) if path is not None})
    files = "".join(f" {hashlib.sha256(path.read_bytes()).hexdigest()[:16]}" for path in own)
    return f"{cobblestone.__version__} {digest(_ROOT / folder for folder in _FOLDERS)}{files}"


def digest(folders: Iterable[Path]) -> str:
    """Return 16 hexadecimal digits that change with any name or content of a Python file in the folders."""
    found = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            name, text = path.relative_to(folder).as_posix().encode(), path.read_bytes()
            found.update(b"%d %s %d " % (len(name), name, len(text)) + text)
    return found.hexdigest()[:16]
