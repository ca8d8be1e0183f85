"""Finds code of the package that no other code of the package uses: functions, classes, methods and properties.

Run by `make static`.  Tests do not count: what only they call is dead, but for the few names below.
"""

from __future__ import annotations

import sys
from pathlib import Path

from vulture import Vulture

ROOT = Path(__file__).parents[1]
KINDS = {"function", "class", "method", "property", "import", "unreachable_code"}

#: Called by a library or an interface, not by name; with the reason.
CALLED_FROM_OUTSIDE = {
    "__getattr__": "Python, on attribute access of a module",
    "__dir__": "Python, by dir()",
    "__call__": "a protocol's member",
    "_check_url": "pydantic, a validator",
    "settings_customise_sources": "pydantic-settings",
    "capture_signals": "uvicorn, overridden",
    "handle_request": "httpx, a transport's",
    "executor": "scientists: Project.executor",
    "success_rate": "the template of the page of an app",
    "detect_sandbox": "who embeds the client's task runner",
    "take_steps": "Alembic, which runs the file",
    "compose": "Textual, for the parts of a screen",
    "on_mount": "Textual, when the screen is there",
    "action_suspend": "Textual, by the key s",
    "action_pause": "Textual, by the key p",
    "action_compute": "Textual, by the key c",
    "docs_diagram": "the pictures in docs/, drawn from the tables",
}
#: What tests measure the code by: stated bounds, and ways to look inside.
USED_BY_TESTS = {
    "wasted_at_most",
    "expected_wrong_accepted",
    "largest_step",
    "merged",
    "unparsed_xml",
    "stored_host_cpid",
    "successful",
    "format_comparison",
    "set_language",
    "deprecate_older_versions",
    "stage_bytes",
    "count_files",
}
#: What another part is being written for.
FOR_LATER = {
    "src/cobblestone/client": "the volunteer's client, which grows room by room",
    "src/cobblestone/policy/client": "its rules",
    "src/cobblestone/wire": "its side of the protocols",
}


def main() -> int:
    """Print what is unused; 1 if there is any."""
    found = Vulture(ignore_decorators=["@endpoint", "@commands.*", "@root.callback", "@pass_context"])
    found.scavenge([str(ROOT / "src" / "cobblestone")], exclude=["*/migrations/*", "*/site/*"])
    unused = [
        item
        for item in found.get_unused_code(min_confidence=60)
        if item.typ in KINDS
        and item.name not in (*CALLED_FROM_OUTSIDE, *USED_BY_TESTS)
        and not any(item.filename.is_relative_to(ROOT / folder) for folder in FOR_LATER)
    ]
    for item in unused:
        sys.stdout.write(
            f"{item.filename.relative_to(ROOT)}:{item.first_lineno}: unused {item.typ} {item.name}\n"
        )
    return 1 if unused else 0


if __name__ == "__main__":
    sys.exit(main())
