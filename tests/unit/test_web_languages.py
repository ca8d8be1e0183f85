"""Catalogues of translated texts, and the choice of a language."""

from __future__ import annotations

import re

import pytest
from babel.messages import Message
from tools import messages

from cobblestone.domain.reasons import reason
from cobblestone.policy.dispatch.explain import Code, explain
from cobblestone.service import languages
from cobblestone.service.pages import wording

PLACEHOLDER = re.compile(r"%\(\w+\)0?\d*[a-z]|%%|\{\w*\}")


def strings(message: Message) -> list[str]:
    found = message.string if isinstance(message.string, (tuple, list)) else [message.string]
    return [text for text in found if text]


def originals(message: Message) -> list[str]:
    return [message.id] if isinstance(message.id, str) else list(message.id)


@pytest.mark.parametrize("code", messages.LANGUAGES)
def test_translations_have_the_placeholders_of_the_text(code: str) -> None:
    wrong: list[str] = []
    for message in messages.read(code):
        if not message.id:
            continue
        wanted = set(PLACEHOLDER.findall(originals(message)[-1]))
        for text in strings(message):
            found = set(PLACEHOLDER.findall(text))
            # a form for one thing may say "a day" instead of "1 day"
            allowed = found == wanted or (len(originals(message)) > 1 and found < wanted)
            if not allowed:
                wrong.append(f"{originals(message)[0]!r}: {text!r}")
    assert wrong == []


@pytest.mark.parametrize("code", messages.LANGUAGES)
def test_no_translation_brings_markup_that_the_text_does_not_have(code: str) -> None:
    for message in messages.read(code):
        if message.id:
            for text in strings(message):
                assert sorted(re.findall(r"<[^>]*>", text)) == sorted(
                    re.findall(r"<[^>]*>", originals(message)[0])
                )


@pytest.mark.parametrize(
    ("cookie", "header", "code"),
    [
        ("", "", "en"),
        ("", "fr", "fr"),
        ("", "fr-CH, fr;q=0.9, en;q=0.8, de;q=0.7, *;q=0.5", "fr"),
        ("", "de, sk;q=0.4, en;q=0.3", "sk"),
        ("", "sk;q=0, en;q=0.1", "en"),
        ("", "sk;q=nonsense", "en"),
        ("", "de," * 5000 + "fr", "en"),
        ("sk", "fr", "sk"),
        ("../../etc/passwd", "fr", "fr"),
    ],
)
def test_the_language_is_the_chosen_one_or_the_best_that_the_browser_asks_for(
    cookie: str, header: str, code: str
) -> None:
    assert languages.chosen(cookie, accepted=header) == code


def test_the_language_of_a_header_is_known_only_if_it_is_named() -> None:
    assert languages.best_of("de, sk_SK;q=0.4") == "sk"
    assert languages.best_of("de") == languages.best_of("") == ""


def test_a_reason_is_said_in_the_language_with_its_values() -> None:
    little = explain(Code.DISK, need_gb=1234.5, have_gb=2)
    with languages.use_language("fr"):
        assert languages.translate_reason(little).startswith("Les tâches demandent 1\u202f234,5 Go de disque")
        assert languages.translate_stored(little.as_json()) == languages.translate_reason(little)
        assert languages.translate_reason(explain(Code.NO_PYTHON, app="{Ann} 100 %")).startswith(
            "{Ann} 100 % demande"
        )
        own = reason("of_a_function", "It weighs {weight} kg.", weight=1.5)
        assert (
            languages.translate_reason(own)
            == languages.translate_stored(own.as_json())
            == "It weighs 1.5 kg."
        )
    assert languages.translate_reason(little) == little.text()
    assert languages.translate_stored({"code": "old", "text": "As it was.", "values": {}}) == "As it was."


def test_numbers_and_dates_follow_the_language() -> None:
    time = 1_800_000_000.0
    with languages.use_language("fr"):
        assert wording.number(1234567.891, 2) == "1\u202f234\u202f567,89"
        assert wording.day(time) == "15 janv. 2027"
    with languages.use_language("sk"):
        assert wording.number(1234567.891, 2) == "1\u00a0234\u00a0567,89"
    assert wording.number(1234567.891, 2) == "1,234,567.89"


@pytest.mark.parametrize("code", messages.LANGUAGES)
def test_every_text_of_the_program_is_translated(code: str) -> None:
    """After new texts: ``python -m tools.messages`` takes them in, then write their translations."""
    catalogue = messages.updated(code)
    assert messages.missing(catalogue) == []
    assert (messages.LOCALES / f"{code}.po").read_bytes() == messages.text_of(catalogue)
