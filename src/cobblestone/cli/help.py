"""The help of a command or group: usage, what it does, and panels of commands and options, with whole names at any width."""

from __future__ import annotations

import re
from collections.abc import Mapping

#: Commands, or options with their values, and what each does.
Rows = list[tuple[str, str]]
ARGUMENTS, COMMANDS, OPTIONS = "Arguments", "Commands", "Options"
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
        table.add_column(ratio=1, overflow="fold")
        for names, what in rows:
            table.add_row(Text(names), Text(what))
        if rows:
            out.print(Panel(table, title=title, title_align="left", border_style="dim"))
