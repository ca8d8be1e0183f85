"""What counts as a number in texts and tables: the same under every Python, in time that grows with the length alone."""

from __future__ import annotations

import time
from collections.abc import Callable

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from cobblestone.policy.validation.comparison import compare, parse_comparison
from cobblestone.policy.validation.numeric import TOKEN, as_number

TRICKY: dict[str, list[str | int | float]] = {
    "-3e": ["-", "3e"],
    "+3e5": [300000.0],
    "3e+": ["3e", "+"],
    "1e+": ["1e", "+"],
    "1e+-5": ["1e", "+", -5],
    "1e5e5": ["1e5e5"],
    "1e5.": ["1e5."],
    "1e5.5": ["1e5.5"],
    "2.d": ["2.d"],
    "2.d3": [2000.0],
    "2.": [2.0],
    "2..": ["2.."],
    "-2.-3.": [-2.0, "-", 3.0],
    "1.5D-": ["1.5D", "-"],
    "1.5D-3": [0.0015],
    "1.5d+03": [1500.0],
    ".5": [0.5],
    "-.5": [-0.5],
    ".e3": [".", "e3"],
    "+.5e": ["+", ".", "5e"],
    "+.5e1": [5.0],
    "+.": ["+", "."],
    "--1": ["-", -1],
    "1-1": [1, "-", 1],
    "1 -1": [1, -1],
    "1.2.3": ["1.2.3"],
    "v1.2": ["v1.2"],
    "chr12": ["chr12"],
    "12_000": ["12_000"],
    "x=1,y=2": ["x", "=", 1, ",", "y", "=", 2],
    "nan_": ["nan_"],
    "-inf": [float("-inf")],
    "-infinit": ["-", "infinit"],
    "Infinity": [float("inf")],
    "iNf": ["iNf"],
    "0x10": ["0x10"],
    "1e999999999": ["1e999999999"],
    "1e-999999999": [0.0],
    "-0": [0],
    "007": [7],
    "9" * 999: [int("9" * 999)],
    "9" * 5000: ["9" * 5000],
    "1" * 300 + ".0": [float("1" * 300)],
    "\u0663": ["\u0663"],
    "1\u0663": ["1\u0663"],
    "1é": ["1é"],
    "1\u00a02": [1, 2],
    "\ud800": ["\ud800"],
}
"""Texts, and what they are made of."""


@pytest.mark.parametrize("text", list(TRICKY), ids=lambda text: text[:20].encode("unicode_escape").decode())
def test_a_text_is_cut_into_numbers_words_and_signs(text: str) -> None:
    found = [
        word if (value := as_number(word)) is None else value
        for word in (t.group() for t in TOKEN.finditer(text))
    ]
    assert found == TRICKY[text]
    assert list(map(type, found)) == list(map(type, TRICKY[text]))


def number_end(text: str, at: int) -> int:
    """Where a number that begins at ``at`` ends, read character by character; ``at`` itself if none does."""

    def digits(start: int) -> int:
        while start < len(text) and text[start].isdecimal():
            start += 1
        return start

    start = at + (text[at : at + 1] in ("+", "-"))
    for word in ("infinity", "Infinity", "nan", "NaN", "NAN", "inf", "Inf", "INF"):
        if text.startswith(word, start):
            return start + len(word)
    end = digits(start)
    if text[end : end + 1] == ".":
        if end == start and digits(end + 1) == end + 1:
            return at
        end = digits(end + 1)
    if end == start:
        return at
    if text[end : end + 1] in ("e", "E", "d", "D"):
        power = end + 1 + (text[end + 1 : end + 2] in ("+", "-"))
        if digits(power) > power:
            end = digits(power)
    return end


def is_word(text: str) -> bool:
    return text == "_" or text == "." or text.isalnum()


def cut(text: str) -> list[str]:
    """Numbers, words and signs of a text, by a reader without regular expressions."""
    found: list[str] = []
    at = 0
    while at < len(text):
        end = number_end(text, at)
        if end == at or (at and is_word(text[at - 1])) or (end < len(text) and is_word(text[end])):
            end = at + 1
            while text[at] != "." and is_word(text[at]) and end < len(text) and is_word(text[end]):
                end += 1
        if not text[at].isspace():
            found.append(text[at:end])
        at = end
    return found


@given(text=st.text(alphabet="0123456789.+-eEdDnaifNIF_ xyt,;=é\u0663", max_size=25))
@example(text="-3e 1e+ 2.d 1.5D- .e3 +.5e")
def test_regular_expressions_cut_as_a_reader_of_characters_does(text: str) -> None:
    assert [token.group() for token in TOKEN.finditer(text)] == cut(text)
    for word in text.split():
        value = as_number(word)
        if not word.isascii() or not word or number_end(word, 0) != len(word):
            assert value is None
        elif "n" in word.lower():
            assert repr(value) == repr(float(word))
        else:
            exact = float(word.lower().replace("d", "e"))
            assert value == (None if exact in (float("inf"), float("-inf")) else exact)


LONG: dict[str, Callable[[int], str]] = {
    "digits": lambda n: "1" * n + "x",
    "digits around a point": lambda n: "1" * n + "." + "1" * n + "x",
    "signed digits": lambda n: "+" + "1" * n + "e",
    "an exponent": lambda n: "1e" + "9" * n + "x",
    "exponents": lambda n: "1e+1" * n,
    "half exponents": lambda n: "-1e" * n,
    "points": lambda n: ".1" * n,
    "points alone": lambda n: "." * n,
    "signs": lambda n: "+.-." * n,
    "sums": lambda n: "-1" * n + "x",
    "letters": lambda n: "1.1e" * n,
    "words": lambda n: "+nan" * n,
}


@pytest.mark.parametrize("case", list(LONG))
def test_four_times_the_length_takes_no_sixteen_times_as_long(case: str) -> None:
    def seconds(n: int) -> float:
        """Processor time, the best of three."""
        text = LONG[case](n)
        took: list[float] = []
        for _ in range(3):
            began = time.process_time()
            for _ in TOKEN.finditer(text):
                pass
            as_number(text)
            took.append(time.process_time() - began)
        return min(took)

    assert seconds(200_000) < 10 * seconds(50_000) + 0.02


def test_words_that_begin_like_numbers_agree_only_with_themselves() -> None:
    rule = parse_comparison("numeric:rtol=0.5")
    words = ("-3e", "1e+", "2.d", "1.5D-", ".e3", "+.5e", "-3.0", "1.0", "2.0", "0.5")
    for name, form in (("r.txt", "E {} 1\n"), ("r.csv", "n,d\n1,{}\n"), ("r.tsv", "{}\t1\n")):
        for one in words[:6]:
            for other in words:
                pair = [{name: form.format(word).encode()} for word in (one, other)]
                assert compare(rule, *pair).match is (one == other)
