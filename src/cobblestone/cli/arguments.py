"""Options that take several values in a row, as scientists write them: ``--files *.py``."""

from __future__ import annotations

from collections.abc import Sequence

LIST_OPTIONS = ("--files", "--function-files")


def spread_lists(arguments: Sequence[str]) -> list[str]:
    """Repeat each list option before each of its values: ``--files a b`` becomes ``--files a --files b``.

    The values end at the next option.
    """
    spread: list[str] = []
    option = ""
    for place, word in enumerate(arguments):
        if word == "--":
            return [*spread, *arguments[place:]]
        if word in LIST_OPTIONS:
            option = word
            following = arguments[place + 1 : place + 2]
            if not following or following[0].startswith("-"):
                spread.append(word)  # no value: the parser says so
                option = ""
        elif option and not word.startswith("-"):
            spread += [option, word]
        else:
            option = ""
            spread.append(word)
    return spread
