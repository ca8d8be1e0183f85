"""Catalogues of translated texts, and the choice of a language."""

from __future__ import annotations

import ast
import json
import re

import pytest
from babel.messages import Message
from tools import messages

from cobblestone.domain.reasons import joined, phrase, reason
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
            == "It weighs 1,5 kg."  # no catalogue has a sentence of a package's own
        )
    assert languages.translate_reason(little) == little.text()
    assert languages.translate_stored({"code": "old", "text": "As it was.", "values": {}}) == "As it was."


def test_a_part_of_a_sentence_is_said_in_the_language_too_also_when_it_was_stored() -> None:
    place = phrase("line {line}, column {column}{name}", line=3, column=4, name="")
    differ = reason(
        "values_differ", "{file}: {place}: {first} and {second}", file="a", place=place, first=1, second=2
    )
    both = reason(
        "invalid",
        "{result} disagrees with the canonical result {canonical}: {difference}",
        result="r_1",
        canonical="r_0",
        difference=joined([differ, phrase("they differ")]),
    )
    assert (
        both.text()
        == "r_1 disagrees with the canonical result r_0: a: line 3, column 4: 1 and 2; they differ"
    )
    stored = json.loads(json.dumps(both.as_json()))
    with languages.use_language("fr"):
        french = "r_1 ne concorde pas avec le résultat canonique r_0 : a : ligne 3, colonne 4 : 1 et 2 ; ils diffèrent"
        assert languages.translate_reason(both) == french.replace(" ; ils", "; ils")
        assert languages.translate_stored(stored) == languages.translate_reason(both)
    assert languages.translate_stored(stored) == both.text()


@pytest.mark.parametrize(
    ("value", "french"),
    [
        (0.00012345, "1,234 × 10⁻⁴"),
        (0.12345, "0,1235"),
        (12.0, "12"),
        (12345.67, "12\u202f345,7"),
        (1.5e12, "1,5 × 10¹²"),
    ],
)
def test_numbers_of_a_sentence_have_what_a_reader_needs(value: float, french: str) -> None:
    with languages.use_language("fr"):
        assert languages.translate_reason(reason("x", "{amount}", amount=value)) == french


def test_sentences_of_the_policies_stand_where_they_are_found_and_not_in_variables() -> None:
    """A sentence that the extractor cannot see would be English for everybody."""
    hidden: list[str] = []
    for folder in (*messages.POLICIES, messages.STORE, *messages.SERVICES):
        for path in sorted(folder.rglob("*.py")):
            for call in ast.walk(ast.parse(path.read_text("utf-8"))):
                if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
                    continue
                place = {"reason": 1, "phrase": 0, "MalformedOutput": 0}.get(call.func.id)
                if place is None or (isinstance(call.args[place], ast.Constant)):
                    continue
                if not ast.unparse(call.args[place]).endswith(
                    "sentence"
                ):  # functions that take one, and are searched for
                    hidden.append(f"{path.name}:{call.lineno}")
    assert hidden == []


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


#: Words that end in s and follow a name, not a number, or a number that is seldom one or is not whole.
NO_PLURALS = {
    "agrees", "always", "as", "belongs", "bytes", "clients", "counts", "disagrees", "does", "errors",
    "fails", "has", "holds", "is", "its", "names", "needs", "occurs", "operations",
    "progress", "runs", "says", "shows", "this", "times", "waits", "was", "works", "yours",
}  # fmt: skip
#: Limits of the program, which are never few, and names.
NEVER_FEW = {
    " (not known yet: fewer than {n} samples of the version)",
    " (not known yet: fewer than {n} samples of this host)",
    " (not known yet: versions need {n} samples)",
    "A file covers at most %(days)d days.",
    "A message must have 1 to %(most)d characters.",
    "A profile may have at most %(most)d characters.",
    "A title must have 1 to %(most)d characters.",
    "At most %(most)d characters are allowed; you entered %(length)d.",
    "Counted over the newest %(number)s tasks.",
    "Enter the text as the other site shows it: one line of at most %(max)d characters.",
    "It earned {credit} credits.",
    "Success: valid tasks among the newest %(number)s tasks that ended.",
    (
        "Taken off for unfinished jobs ({refused}): {debt}. Held of its first jobs until it has {n} valid ones: {stake}. Its own "
        "reports may raise later credit by {bank}."
    ),
    (
        "Tasks that failed in the same way are listed together, the most frequent first. Only the newest %(n)s tasks of the"
        " project are searched."
    ),
    "The address of this page must have one to %(most)d keys: ?keys=a,b",
    "The name may have at most %(most)d characters.",
    "The password may have at most %(most)d characters.",
    "The project has no more {subject} tasks waiting at the moment.",
    "The table has more than %(most)d jobs. Divide it, or use the command line.",
    "These are more than %(most)d files. Divide them, or use the command line.",
    "Too few versions with {n} samples: the scales stay.",
    "You already have %(count)d tokens. Revoke one that you do not need.",
    "Your task went to another browser, since this page was silent for more than %(minutes)d minutes.",
    "for %(part)s of the computers",
    "gzip has more than {most} members",
    "is nested more than {most} levels deep",
    "the archive holds {n} files; at most {most} are read",
    "the outputs are equal, but one counted {one} instructions and the other {other}",
    "{n} or more results are unsent; no more jobs are accepted for now.",
    "{app} has {subject} tasks, and the client asked for none of these.",
    "{app} has {subject} tasks, but your project preferences exclude {subject}. Change them to get such tasks.",
}
COUNT = re.compile(r"(?:%\(\w+\)[sd]|\{\w+\})(?: [a-z-]+){0,2}? ([a-z]+s)\b")


def test_every_word_that_depends_on_a_number_has_the_forms_of_its_language() -> None:
    found = {message.id for message in messages.extract() if isinstance(message.id, str)}
    assert found >= NEVER_FEW
    assert [text for text in found - NEVER_FEW if not NO_PLURALS.issuperset(COUNT.findall(text))] == []


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("en", ["0 tasks", "1 task", "2 tasks", "5 tasks"]),
        ("fr", ["0 tâche", "1 tâche", "2 tâches", "5 tâches"]),
        ("sk", ["0 úloh", "1 úlohu", "2 úlohy", "5 úloh"]),
    ],
)
def test_a_reason_has_the_forms_of_its_numbers_in_each_language_also_when_it_was_stored(
    code: str, said: list[str]
) -> None:
    reasons = [explain(Code.PER_REQUEST, limit=n) for n in (0, 1, 2, 5)]
    with languages.use_language(code):
        for each, words in zip(reasons, said, strict=True):
            assert words in languages.translate_reason(each)
            assert words in languages.translate_stored(json.loads(json.dumps(each.as_json())))
        odd = reason("own", "{n:file|files} {x:|>3}", n="many", x=1)  # a package's own, not in any catalogue
        assert languages.translate_reason(odd) == "files ||1"


def test_a_page_counts_in_the_language() -> None:
    with languages.use_language("sk"):
        said = [languages.ngettext("%(num)d job", "%(num)d jobs", n) % {"num": n} for n in (1, 3, 5)]
    assert said == ["1 práca", "3 práce", "5 prác"]
