"""Bring the catalogues of translated texts up to date with the code and the templates.

python -m tools.messages          take in new texts, drop those that are gone, and say what is missing
python -m tools.messages --check  change nothing; fail if a catalogue is not as it should be
"""

from __future__ import annotations

import io
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from babel.messages import Catalog
from babel.messages.extract import DEFAULT_KEYWORDS, extract_from_dir
from babel.messages.pofile import read_po, write_po

PACKAGE = Path(__file__).parents[1] / "src" / "cobblestone"
SERVICES = [PACKAGE / name for name in ("account_manager", "server", "service", "statistics")]
LOCALES = PACKAGE / "service" / "locales"
POLICIES = [PACKAGE / "policy" / name for name in ("account_manager", "credit", "dispatch", "validation")]
STORE = PACKAGE / "store"
DOMAIN = PACKAGE / "domain"
REASONS: dict[str, Any] = {"reason": (2,), "phrase": None}
SENTENCES = {**REASONS, "_note": None, "_ask": None, "add": (3,), "MalformedOutput": None}
"""What holds sentences that volunteers and scientists read: the place of the sentence, if it is not the first."""
METHODS = [("**.py", "python"), ("**.html", "jinja2"), ("**.txt", "jinja2")]
OPTIONS = {
    "**.html": {"trimmed": "true", "silent": "false"},
    "**.txt": {"trimmed": "true", "silent": "false"},
}
LANGUAGES = {"fr": "French", "sk": "Slovak"}
FIXED_DATE = datetime(2026, 1, 1, tzinfo=UTC)  # so that a catalogue changes only when a text does


def extract() -> Catalog:
    """All texts of the program."""
    found = Catalog(charset="utf-8")
    searched = [(folder, {**DEFAULT_KEYWORDS, **REASONS}) for folder in SERVICES]
    searched += [
        (STORE, REASONS),
        (DOMAIN, {**REASONS, "Keyword": (2,)}),
        *((folder, SENTENCES) for folder in POLICIES),
    ]
    texts = [
        text
        for folder, keywords in searched
        for text in extract_from_dir(folder, METHODS, OPTIONS, keywords=keywords)
    ]
    for file, _line, message, comments, context in texts:
        found.add(message, locations=[(file, 0)], auto_comments=comments, context=context)
    return found


def read(code: str) -> Catalog:
    """Return a catalogue as it is."""
    path = LOCALES / f"{code}.po"
    return read_po(io.BytesIO(path.read_bytes()), locale=code) if path.exists() else Catalog(locale=code)


def updated(code: str) -> Catalog:
    """Return a catalogue with exactly the texts that there are now."""
    old = read(code)
    new = Catalog(
        locale=code,
        project="cobblestone",
        charset="utf-8",
        fuzzy=False,
        header_comment=f"# {LANGUAGES[code]} texts of the pages.  See tools/messages.py.",
        creation_date=FIXED_DATE,
        revision_date=FIXED_DATE,
        last_translator="the cobblestone developers",
        language_team=LANGUAGES[code],
    )
    # Those of the translations there are: other versions of the library know other ones for a language.
    new.mime_headers = [("Plural-Forms", old.plural_forms)]
    for message in extract():
        if not message.id:
            continue
        known = old.get(message.id, message.context)
        new.add(
            message.id, known.string if known else None, locations=message.locations, context=message.context
        )
    return new


def text_of(catalogue: Catalog) -> bytes:
    """Return a catalogue as a file."""
    buffer = io.BytesIO()
    write_po(buffer, catalogue, width=118, sort_output=True, include_lineno=False)
    return re.sub(rb'"Generated-By: .*\n', b"", buffer.getvalue())  # it changes with the library's version


def missing(catalogue: Catalog) -> list[str]:
    """Texts that are not translated."""
    found: list[str] = []
    for message in catalogue:
        strings = message.string if isinstance(message.string, (tuple, list)) else (message.string,)
        if message.id and not all(strings):
            found.append(message.id if isinstance(message.id, str) else message.id[0])
    return found


def main() -> int:
    """Update or check."""
    checking = "--check" in sys.argv[1:]
    bad = 0
    for code in LANGUAGES:
        catalogue = updated(code)
        path = LOCALES / f"{code}.po"
        text = text_of(catalogue)
        lacking = missing(catalogue)
        stale = not path.exists() or path.read_bytes() != text
        if checking:
            bad += stale or bool(lacking)
        elif stale:
            path.write_bytes(text)
        print(f"{path.name}: {len(catalogue)} texts, {len(lacking)} not translated{', stale' * stale}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
