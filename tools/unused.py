"""Finds code of the package that no other code of the package uses: functions, classes, methods and properties.

Run by `make static`.  Tests do not count: what only they call is dead, but for the few names below.
"""

from __future__ import annotations

import sys
from pathlib import Path

from vulture import Vulture

from cobblestone.cli import COMMANDS
from cobblestone.policy.client.core.intake import HANDLERS

ROOT = Path(__file__).parents[1]
KINDS = {"function", "class", "method", "property", "import", "unreachable_code"}

#: Called by a library or an interface, not by name; with the reason.
CALLED_FROM_OUTSIDE = {
    "pause_writing": "the event loop, when an answer is not fetched",
    "resume_writing": "the event loop, when it is fetched again",
    "on_url": "httptools, while it reads a request",
    "on_header": "httptools, the same",
    "on_body": "httptools, the same",
    "run_files": "migrations, which are not read here",
    "__getattr__": "Python, on attribute access of a module",
    "__dir__": "Python, by dir()",
    "__call__": "a protocol's member",
    "_check_url": "pydantic, a validator",
    "settings_customise_sources": "pydantic-settings",
    "capture_signals": "uvicorn, overridden",
    "handle_request": "httpx, a transport's",
    "format_help": "Click, to show the help of a command",
    "make_metavar": "Click, for the usage of a command",
    "success_rate": "the template of the page of an app",
    "take_steps": "Alembic, which runs the file",
    "compose": "Textual, for the parts of a screen",
    "on_mount": "Textual, when the screen is there",
    "action_suspend": "Textual, by the key s",
    "action_pause": "Textual, by the key p",
    "action_compute": "Textual, by the key c",
    "retrieve_result_callback": "joblib, of its backend",
    "abort_everything": "joblib, of its backend",
    "from_name": "client policies, by the names in a table",
}
#: What tests measure the code by: ways to look inside.
USED_BY_TESTS = {"replayed", "unparsed_xml"}


def main() -> int:
    """Print what is unused; 1 if there is any."""
    decorators = ["@answers", "@shows", "@*commands.*", "@root.callback", "@pass_context"]
    by_name = [*COMMANDS, *(handler.__name__ for handler in HANDLERS.values())]  # how they are found
    found = Vulture(ignore_names=[*by_name, "*_options"], ignore_decorators=decorators)
    found.scavenge([str(ROOT / "src" / "cobblestone")], exclude=["*/migrations/*", "*/site/*"])
    unused = [
        item
        for item in found.get_unused_code(min_confidence=60)
        if item.typ in KINDS and item.name not in (*CALLED_FROM_OUTSIDE, *USED_BY_TESTS)
    ]
    for item in unused:
        sys.stdout.write(
            f"{item.filename.relative_to(ROOT)}:{item.first_lineno}: unused {item.typ} {item.name}\n"
        )
    return 1 if unused else 0


if __name__ == "__main__":
    sys.exit(main())
