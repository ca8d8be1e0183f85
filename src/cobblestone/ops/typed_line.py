"""The line that is typed in a shell that asks us for completions."""

from __future__ import annotations

import os
import shlex

VARIABLES = ("_TYPER_COMPLETE_ARGS", "COMP_WORDS")
"""What is typed so far, as zsh and fish, and as bash say it."""


def typed_noun() -> str:
    """Return the command that stands there whole; empty: none yet, or no shell asks."""
    typed = next((os.environ[name] for name in VARIABLES if name in os.environ), "")
    try:
        words = shlex.split(typed)
    except ValueError:  # a quote is open
        return ""
    return words[1] if len(words) > 2 or (len(words) == 2 and typed[-1:].isspace()) else ""
