"""Languages of pages, mails and messages to clients: their selection, and the translation of texts.

Texts stand in the code and in the templates in English, inside of ``_()`` or ``ngettext()``; the sentences of the policies stand
there, and `translate_reason` translates them.  A catalogue (``locales/fr.po``) has all of them in another language;
``tools/messages.py`` keeps the catalogues up to date.  They are read when a language is asked for the first time, so
nothing needs to be compiled.

The language belongs to the request that is answered, so that filters and macros need not hand it on.
"""

from __future__ import annotations

import gettext as _gettext
import io
import math
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files as package_files
from typing import Any

from babel import Locale
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.numbers import format_decimal

from cobblestone.domain.reasons import Reason, Value, restored, with_forms

ENGLISH = "en"
#: Languages by code, each as its speakers call it.
NAMES: Mapping[str, str] = {"en": "English", "fr": "Français", "sk": "Slovenčina"}
MAX_HEADER = 500


@dataclass(frozen=True, slots=True)
class Language:
    """One language."""

    code: str
    locale: Locale
    texts: _gettext.NullTranslations
    plural: Callable[[int], int]  #: which form of a word goes with a number


@lru_cache(maxsize=len(NAMES))
def language(code: str) -> Language:
    """Return a language of `NAMES`; raises KeyError for an unknown one."""
    _ = NAMES[code]
    texts, plural = _gettext.NullTranslations(), _gettext.c2py("n != 1")
    if code != ENGLISH:
        source = package_files("cobblestone.service").joinpath("locales", f"{code}.po").read_bytes()
        compiled = io.BytesIO()
        catalogue = read_po(io.BytesIO(source), locale=code)
        write_mo(compiled, catalogue)
        compiled.seek(0)
        texts, plural = _gettext.GNUTranslations(compiled), _gettext.c2py(catalogue.plural_expr)
    return Language(code, Locale.parse(code), texts, plural)


_current: ContextVar[str] = ContextVar("language", default=ENGLISH)


def current() -> Language:
    """Return the language of the current output."""
    return language(_current.get())


@contextmanager
def use_language(code: str) -> Generator[None, None, None]:
    """Use a language while the block runs."""
    before = _current.set(code)
    try:
        yield
    finally:
        _current.reset(before)


def gettext(message: str) -> str:
    """Return a text in the current language."""
    return current().texts.gettext(message)


def ngettext(singular: str, plural: str, n: float) -> str:
    """Return a text that depends on a number, in the current language."""
    return current().texts.ngettext(singular, plural, int(n))


def N_(message: str) -> str:  # noqa: N802  # the customary name, which extractors know
    """Mark a text for later translation."""
    return message


def translate_reason(reason: Reason) -> str:
    """Return a reason in the current language, with its parts; a sentence missing from the catalogue stays English."""
    language_ = current()
    if language_.code == ENGLISH:
        return reason.text()
    sentence = with_forms(language_.texts.gettext(reason.sentence), reason.values, language_.plural)
    return sentence.format_map({name: _written(value, language_) for name, value in reason.values.items()})


def translate_stored(stored: Mapping[str, Any]) -> str:  # as it lies in the database
    """Return a stored reason (`Reason.as_json`) in the current language."""
    if "sentence" not in stored:
        return str(stored["text"])
    return translate_reason(restored(stored["code"], stored["sentence"], stored["values"]))


def translate_error(error: Exception) -> str:
    """Return what an error says in the current language, or in English where it says it in that only."""
    sentence = getattr(error, "sentence", None)
    return translate_reason(sentence) if isinstance(sentence, Reason) else str(error)


_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def _written(value: Value, language_: Language) -> str:
    """Return a value for a sentence: decimals rounded for reading, whole numbers unchanged, since many are names."""
    if isinstance(value, Reason):
        return translate_reason(value)
    if not isinstance(value, float) or not math.isfinite(value):
        return str(value)
    if abs(value) >= 1e7 or 0 < abs(value) < 1e-3:
        digits, _, exponent = f"{value:.3e}".partition("e")
        mantissa = format_decimal(float(digits), format="0.###", locale=language_.locale)
        return f"{mantissa} × 10{str(int(exponent)).translate(_SUPERSCRIPTS)}"
    shown = round(value, 1) if abs(value) >= 1000 else float(f"{value:.4g}")
    return format_decimal(shown, locale=language_.locale, decimal_quantization=False)


def chosen(*wishes: str, accepted: str = "") -> str:
    """Return the first supported one of ``wishes``, else the best of an ``Accept-Language`` header, else English."""
    for wish in wishes:
        if wish in NAMES:
            return wish
    return best_of(accepted) or ENGLISH


@lru_cache(maxsize=256)  # clients of one language all send the same
def best_of(accepted: str) -> str:
    """Return the best language of an ``Accept-Language`` header; empty if it names no supported one."""
    ranked: list[tuple[float, str]] = []
    for item in accepted[:MAX_HEADER].split(","):
        tag, _, parameter = item.partition(";")
        code = tag.strip().lower().partition("-")[0].partition("_")[0]
        if code in NAMES:
            ranked.append((_quality(parameter), code))
    best = max(ranked, key=lambda pair: pair[0], default=(0.0, ""))  # the first of equals
    return best[1] if best[0] > 0 else ""


def _quality(parameter: str) -> float:
    name, _, value = parameter.strip().partition("=")
    if name.strip() != "q":
        return 1.0
    try:
        return min(max(float(value), 0.0), 1.0)
    except ValueError:
        return 0.0
