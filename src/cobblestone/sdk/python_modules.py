"""Modules that a Python program imports and that volunteers' computers need not have."""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import PurePath

from cobblestone.domain.errors import JobError
from cobblestone.launcher import RUNTIME_MODULE

ARCHIVES = (".zip", ".whl", ".pyz", ".egg", ".gz", ".xz", ".bz2", ".tar")
"""Programs may add these to their search path: what is inside is not known here."""
FORMER = frozenset({"asynchat", "asyncore", "distutils", "imp", "smtpd"})
"""Modules of older versions of Python, from 3.6 on, that newer ones have no more."""

NOT_ON_WINDOWS = frozenset(
    {
        "crypt",
        "curses",
        "fcntl",
        "grp",
        "nis",
        "posix",
        "pty",
        "pwd",
        "readline",
        "resource",
        "spwd",
        "syslog",
        "termios",
        "tty",
    }
)
"""Modules of Python that its builds for Windows lack."""


def check_modules(
    contents: Mapping[str, bytes], *, installed: Collection[str] = (), absent: Collection[str] = ()
) -> None:
    """Find imports of modules that are neither part of Python nor sent along.

    Volunteers' computers have some Python 3 and nothing else for sure.  Imports within ``try`` may fail and are left alone.
    ``absent`` are modules of Python that its build for WebAssembly lacks.

    Raises:
        JobError: there is one; the text says where, and what to do.
    """
    if any(name.endswith(ARCHIVES) for name in contents):
        return
    sent = {PurePath(name).name.partition(".")[0] for name in contents}
    known = sys.stdlib_module_names | FORMER | sent | {RUNTIME_MODULE, *installed}
    for name, data in contents.items():
        if not name.endswith(".py"):
            continue
        for module, line in needed_imports(data):
            if module in absent and module not in sent:
                raise JobError(
                    f"{name}, line {line}: it imports {module}, which Python in WebAssembly does not have. Do without it, or send"
                    ' the program to computers that have Python: --command "python3 …", without --portable'
                )
            if module not in known and absent:
                raise JobError(
                    f"{name}, line {line}: it imports {module}, which is not part of Python and is not sent along. Send it:"
                    f" --files {module}.py; or name it in a file: --requirements FILE if it is pure Python, --bundle FILE in"
                    " place of --portable if it is compiled; or do without it"
                )
            if module not in known:
                raise JobError(
                    f"{name}, line {line}: it imports {module}, which is not part of Python and is not sent along, so it would"
                    f" fail on most volunteers' computers. Send it: --files {module}.py; or do without it; or, if all computers"
                    f" of your volunteers have it: --installed {module}"
                )


def needed_imports(data: bytes) -> Iterator[tuple[str, int]]:
    """Yield the modules that a program imports for certain, with their lines; nothing for what this Python cannot read."""
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError):
        return
    places: list[ast.AST] = [tree]
    while places:
        node = places.pop()
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.partition(".")[0], node.lineno
        elif isinstance(node, ast.ImportFrom):
            if node.module and not node.level:
                yield node.module.partition(".")[0], node.lineno
        elif isinstance(node, ast.Try):
            places += [*node.orelse, *node.finalbody]
        else:
            places += ast.iter_child_nodes(node)
