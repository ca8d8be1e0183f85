"""The help of a command or group: usage, what it does, and panels of commands and options, with whole names at any width."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import Any

#: Commands, or options with their values, and what each does.
Rows = list[tuple[str, str]]
ARGUMENTS, COMMANDS, OPTIONS = "Arguments", "Commands", "Options"
_KINDS = re.compile(r"<(?:list\[)?(str|int|float)[^<>]*>")
_NAMES_WIDTH = 27
_WIDEST = 110


def show(usage: str, text: str, panels: Mapping[str, Rows]) -> None:
    """Print a help text; panels without rows are left out."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    paragraphs = re.sub(r"(?<=\S)\n(?=\S)", " ", text)
    out = Console(highlight=False)
    out.width = min(out.width, _WIDEST)
    out.print(Padding(Text(f"Usage: {usage}", "bold"), 1))
    out.print(Padding(Text(paragraphs), (0, 1, 1, 1)))
    for title, rows in panels.items():
        table = Table.grid(padding=(0, 2), expand=True)
        # Options stand below those of other panels; commands leave the room to their texts.
        width = max(len(name) for name, _ in rows) if rows and title == COMMANDS else _NAMES_WIDTH
        table.add_column(style="cyan", width=width, overflow="fold")
        table.add_column(ratio=1)
        for names, what in rows:
            table.add_row(Text(_KINDS.sub(_value, names)), Text(what))
        if rows:
            out.print(Panel(table, title=title, title_align="left", border_style="dim"))


def _value(kind: re.Match[str]) -> str:
    return "TEXT" if kind[1] == "str" else "N"


def panels_of(parser: argparse.ArgumentParser) -> dict[str, Rows]:
    """Return the arguments and options of a parser."""
    panels: dict[str, Rows] = {ARGUMENTS: [], OPTIONS: []}
    for each in parser._actions:  # argparse has no other list of them
        names, what = ", ".join(each.option_strings), each.help or ""
        value = str(each.metavar) if each.nargs != 0 else ""
        if each.default not in (None, "", argparse.SUPPRESS) and each.default is not False:
            what += f" [default: {each.default}]"
        panels[OPTIONS if names else ARGUMENTS].append((f"{names} {value}".strip(), what))
    return panels


class ShowHelp(argparse.Action):
    """``--help`` of the commands that have a parser from the standard library, so that they start quickly."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        text = "Show this message and exit."
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, default=argparse.SUPPRESS, help=text)

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option: str | None = None,
    ) -> None:
        panels = panels_of(parser)
        places = "".join(f" [{name}]" for name, _ in panels[ARGUMENTS])
        show(f"{parser.prog} [OPTIONS]{places}", parser.description or "", panels)
        parser.exit()
