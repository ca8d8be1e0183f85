"""Texts that the project writes itself, in Markdown: about it, its science, its terms of use.

They are files in the project's folder, ``about.md``, ``science.md`` and ``terms.md``, with translations beside them
(``about.fr.md``).  A text exists as soon as its file does.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

NAMES = ("about", "science", "terms")
MAX_BYTES = 200_000


@dataclass(frozen=True, slots=True)
class _Read:
    stamp: tuple[int, int]
    text: str


class ProjectTexts:
    """Reads the texts; again when a file has changed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[Path, _Read] = {}

    def text(self, name: str, language: str) -> str | None:
        """Return a text in a language, else in the language that the project wrote it in; None: there is none."""
        translated = self._read(self._root / f"{name}.{language}.md")
        return translated if translated is not None else self._read(self._root / f"{name}.md")

    def present(self) -> list[str]:
        """Return the names of the texts that there are."""
        return [name for name in NAMES if (self._root / f"{name}.md").is_file()]

    def _read(self, path: Path) -> str | None:
        try:
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            known = self._known.get(path)
            if known is None or known.stamp != stamp:
                with path.open("rb") as file:
                    known = _Read(stamp, file.read(MAX_BYTES).decode("utf-8", "replace").strip())
                self._known[path] = known
        except OSError:
            return None
        return known.text or None
