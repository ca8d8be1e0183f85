"""Comparison rules, and whether outputs agree or are usable."""

from __future__ import annotations

import gzip
import io
import json
import math
import zipfile

import numpy as np
import pytest

from cobblestone.domain.apps import ComparisonRule
from cobblestone.domain.errors import ConfigError
from cobblestone.domain.work import OutputSpec
from cobblestone.policy.validation.archives import ReadLimits
from cobblestone.policy.validation.comparison import (
    MAX_REASONS,
    Agreement,
    compare,
    parse_comparison,
    tolerance_of,
    usable,
)
from cobblestone.policy.validation.numeric import Tolerance

NUMERIC = parse_comparison("numeric:rtol=1e-6,atol=1e-9")
NAN_EQUAL = parse_comparison("numeric:nan_equal=true")
BITWISE = ComparisonRule()


def compared(a: bytes | str, b: bytes | str, name: str = "out", rule: ComparisonRule = NUMERIC) -> Agreement:
    contents = [each.encode() if isinstance(each, str) else each for each in (a, b)]
    return compare(rule, {name: contents[0]}, {name: contents[1]})


def difference(a: bytes | str, b: bytes | str, name: str = "out", rule: ComparisonRule = NUMERIC) -> str:
    """Text of the only difference."""
    (reason,) = compared(a, b, name, rule).reasons
    return reason.text()


def npy(values: object, dtype: object = None) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(values, dtype=dtype))  # type: ignore[arg-type]  # a name of a type
    return buffer.getvalue()


def npz(**arrays: object) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]  # arrays by name
    return buffer.getvalue()


# ----------------------------------------------------------------------------------------------------- rules


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("bitwise", ComparisonRule(kind="bitwise")),
        (" trivial ", ComparisonRule(kind="trivial")),
        ("numeric", ComparisonRule(kind="numeric", options={"rtol": 1e-6, "atol": 0.0, "nan_equal": False})),
        (
            "numeric: rtol=1e-3, atol=0.5, nan_equal=Yes",
            ComparisonRule(kind="numeric", options={"rtol": 1e-3, "atol": 0.5, "nan_equal": True}),
        ),
        (
            "python:validate.py:compare",
            ComparisonRule(kind="python", options={"function": "validate.py:compare"}),
        ),
        (
            "python:checks/my-rules.py:same",
            ComparisonRule(kind="python", options={"function": "checks/my-rules.py:same"}),
        ),
    ],
)
def test_a_rule_is_read(text: str, rule: ComparisonRule):
    assert parse_comparison(text) == rule


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "unknown comparison ''; use bitwise, trivial, numeric:"),
        ("numerc:rtol=1", "did you mean numeric?"),
        ("bitwise:rtol=1", "takes no options, but got 'rtol=1'"),
        ("numeric:rtl=1e-6", "did you mean rtol=…?"),
        ("numeric:1e-6", "'1e-6' is not an option"),
        ("numeric:rtol=small", "rtol must be a number such as 1e-6, not 'small'"),
        ("numeric:rtol=-1", "zero or positive"),
        ("numeric:atol=inf", "zero or positive"),
        ("numeric:atol=nan", "zero or positive"),
        ("numeric:rtol=1", "below 1"),
        ("numeric:nan_equal=maybe", "true or false, not 'maybe'"),
        ("python", "must name a file"),
        ("python:validate.py", "must name a file"),
        ("python:../secret.py:f", "must name a file"),
        ("python:/etc/x.py:f", "must name a file"),
    ],
)
def test_a_wrong_rule_is_refused_with_a_hint(text: str, complaint: str):
    with pytest.raises(ConfigError) as refused:
        parse_comparison(text)
    assert complaint in str(refused.value)


def test_options_may_be_texts_as_a_database_keeps_them():
    rule = ComparisonRule(kind="numeric", options={"rtol": "1e-3", "nan_equal": "true"})
    assert tolerance_of(rule.options) == Tolerance(rtol=1e-3, atol=0.0, nan_equal=True)


def test_a_python_rule_is_not_run_here():
    with pytest.raises(ConfigError, match="run by the validator"):
        compare(parse_comparison("python:v.py:f"), {}, {})
    with pytest.raises(ConfigError, match="unknown comparison"):
        compare(ComparisonRule(kind="magic"), {}, {})


# ------------------------------------------------------------------------------------------ bitwise, trivial


def test_trivial_accepts_everything():
    assert compare(ComparisonRule(kind="trivial"), {"a": b"1"}, {}).match


def test_bitwise_wants_equal_bytes():
    assert compared(b"\x00abc", b"\x00abc", rule=BITWISE) == Agreement(match=True)
    expected = "out: 6 and 7 bytes, different from byte 3 on"
    assert difference(b"abcdef", b"abcXefg", rule=BITWISE) == expected
    assert "byte 6 on" in difference(b"abcdef", b"abcdefg", rule=BITWISE)


def test_the_gzip_wrapper_is_no_part_of_the_answer():
    a, b = gzip.compress(b"42", mtime=1), gzip.compress(b"42", 1, mtime=2)
    assert a != b
    assert compared(a, b, rule=BITWISE).match
    assert "byte 1 on" in difference(a, gzip.compress(b"43"), rule=BITWISE)
    assert "cut off" in difference(a, b[:-3], rule=BITWISE)


@pytest.mark.parametrize("rule", [BITWISE, NUMERIC])
def test_both_results_must_have_the_same_outputs(rule: ComparisonRule):
    reasons = compare(rule, {"a": b"1", "b": b"2"}, {"b": b"2", "c": b"3"}).reasons
    assert [reason.text() for reason in reasons] == [
        "outputs: output a is only in the first",
        "outputs: output c is only in the second",
    ]


# ------------------------------------------------------------------------------------------------- tolerance


@pytest.mark.parametrize(
    ("a", "b", "agree"),
    [
        (1.0, 1.0 + 1e-9, True),
        (1.0, 1.0 + 1.0009e-6, True),
        (1.0, 1.0 + 1.002e-6, False),
        (1.0, 1.1, False),
        (1e-12, -1e-12, True),
        (1e300, -1e300, False),
        (math.inf, math.inf, True),
        (math.inf, -math.inf, False),
        (math.inf, 1e308, False),
        (math.nan, math.nan, False),
        (math.nan, 1.0, False),
        (1 + 2j, 1 + 2.0000001j, True),
        (1 + 2j, 1 - 2j, False),
        (complex(math.nan, 0), 1.0, False),
        (10**30, 10**30 + 1, True),
        (10**30, 2 * 10**30, False),
        (10**400, 10**400 + 1, True),
        (10**400, 1e308, False),
        (3, 3.0000001, True),
        (1e6, 1e6 + 1.0000005, True),  # within the tolerance of the larger one only
    ],
)
def test_numbers_agree_within_the_tolerance_in_either_order(a: complex, b: complex, agree: bool):
    tolerance = Tolerance(rtol=1e-6, atol=1e-9)
    assert tolerance.agree(a, b) is agree
    assert tolerance.agree(b, a) is agree


def test_without_tolerance_large_integers_must_be_equal():
    exact = Tolerance(rtol=0.0, atol=0.0)
    assert not exact.agree(2**60, 2**60 + 1)
    assert Tolerance(rtol=0.0, atol=1.0).agree(2**60, 2**60 + 1)


def test_nan_agrees_with_nan_only_by_permission():
    assert Tolerance(nan_equal=True).agree(math.nan, math.nan)
    assert not Tolerance(nan_equal=True).agree(math.nan, 0.0)


# ------------------------------------------------------------------------------------------------------ JSON


def test_json_is_compared_by_structure():
    a = json.dumps({"power": [1.0, 2.0], "name": "sun", "ok": True, "none": None}, indent=4)
    b = json.dumps({"name": "sun", "none": None, "ok": True, "power": [1.0000000001, 2]})
    assert compared(a, b).match
    assert compared(a, b, "result.json").match


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        (
            {"x": {"y": [1, 2.5]}},
            {"x": {"y": [1, 2.6]}},
            "$.x.y[1]: 2.5 and 2.6 differ by 0.1 (relative 0.0385)",
        ),
        ({"a b": 1}, {"a b": 2}, '$["a b"]: 1 and 2 differ by 1 (relative 0.5)'),
        ([0.0], [1e-3], "$[0]: 0.0 and 0.001 differ by 0.001 (relative 1)"),
        ([True], [1], "$[0]: true and 1"),
        (["1.0"], ["1.00"], '$[0]: "1.0" and "1.00"'),
        ([None], [0], "$[0]: null and 0"),
        ([[]], [{}], "$[0]: a list of 0 and an object with 0 members"),
        ([1, 2], [1], "$ has 2 and 1 elements"),
        ({"a": 1}, {}, "$: member a is only in the first"),
    ],
)
def test_a_json_difference_tells_its_path(a: object, b: object, text: str):
    assert text in difference(json.dumps(a), json.dumps(b), "r.json")


def test_a_text_that_only_looks_like_json_is_a_text():
    assert compared("[section]\nx = 1.0\n", "[section]\nx = 1.0000000001\n").match
    assert "line 2, column 5" in difference("[section]\nx = 1\n", "[section]\nx = 2\n")


def test_different_formats_do_not_agree():
    assert difference('{"x": 1}', "x 1") == "out: JSON and text"


# ---------------------------------------------------------------------------------------------- text, tables


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("1.0 2.0\n", "1.0000000001\t2\n\n"),
        ("x=1e-3, y=-2", "x=0.001,y=-2.0"),
        ("1.5D+03", "1500"),
        ("a b\r\n1.0\r\n", "a b\n1\n"),
        ("(1.0, 2.0)", "( 1, 2 )"),
        ("inf -inf", "Infinity -INF"),
        ("3-1.0", "3 - 1"),
        ("héllo 1", "héllo 1.0"),
    ],
)
def test_texts_agree_token_by_token(a: str, b: str):
    assert compared(a, b).match


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        ("a 1.0\nb 2.0", "a 1.0\nb 3.0", "line 2, column 3: 2.0 and 3.0 differ by 1 (relative 0.333)"),
        ("alpha 1", "beta 1", "line 1, column 1: 'alpha' and 'beta'"),
        ("chr100001", "chr100002", "line 1, column 1: 'chr100001' and 'chr100002'"),
        ("1.2.3", "1.2.4", "line 1, column 1: '1.2.3' and '1.2.4'"),
        ("1e400", "1e500", "line 1, column 1: '1e400' and '1e500'"),
        ("1 2", "1 2 3", "line 1, column 5: the line ends and 3"),
        ("1 2 3", "1 2", "line 1, column 5: 3 and the line ends"),
        ("1\n2", "1", "the text has 2 and 1 lines"),
        ("x nan", "x nan", "line 1, column 3: nan and nan differ by nan"),
    ],
)
def test_a_text_difference_tells_line_and_column(a: str, b: str, text: str):
    assert text in difference(a, b)


def test_tables_are_compared_cell_by_cell():
    a = 'period,power\n11.0,"0,5"\n22.0,0.25\n'
    assert compared(a, a.replace("22.0", "22.0000000001"), "s.csv").match
    assert compared("a;b\n1;2", "a;b\n1.0;2.0\n", "s.csv").match
    assert compared("a\tb\n1\t2", "a\tb\n1.0\t2.0\n", "s.tsv").match
    changed = difference(a, a.replace("0.25", "0.26"), "s.csv")
    assert "s.csv: line 3, column 2 (power): 0.25 and 0.26 differ by 0.01" in changed
    assert "line 2, column 2 (power): '0,5' and '0,6'" in difference(a, a.replace("0,5", "0,6"), "s.csv")


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        ("1,2\n3,4", "1,2\n3,4,5", "line 2 has 2 and 3 columns"),
        ("1,2\n3,4", "1,2", "the table has 2 and 1 rows"),
        ("1,nan", "1,nan", "line 1, column 2: nan and nan"),
        ("1,", "1,0", "line 1, column 2: '' and '0'"),
    ],
)
def test_a_table_difference_tells_line_and_column(a: str, b: str, text: str):
    assert text in difference(a, b, "t.csv")


def test_nan_agrees_where_it_is_allowed():
    for name, content in (("t.csv", "1,nan"), ("t.txt", "x NaN"), ("t.json", '{"x": NaN}')):
        assert compared(content, content, name, NAN_EQUAL).match
        assert not compared(content, content, name).match


# ----------------------------------------------------------------------------------------------------- NumPy


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (npy([1.0, 2.0]), npy([1.0, 2.0000000001])),
        (npy([1, 2], "<i4"), npy([1, 2], ">i8")),
        (npy([1, 2], "u1"), npy([1.0, 2.0], "f4")),
        (npy(np.asfortranarray([[1, 2, 3], [4, 5, 6]])), npy([[1, 2, 3], [4, 5, 6]])),
        (npy([1 + 2j]), npy([1 + 2.0000000001j], "c16")),
        (npy(["a", "bc"]), npy(["a", "bc"], "<U9")),
        (npy([True, False]), npy([True, False])),
        (npy(3.5), npy(3.5)),
        (npy(np.zeros((0, 3))), npy(np.zeros((0, 3), "f4"))),
        (npy(np.array(["2020-01-01"], "M8[D]")), npy(np.array(["2020-01-01"], "M8[D]"))),
    ],
)
def test_arrays_agree_by_value_whatever_their_layout(a: bytes, b: bytes):
    assert compared(a, b).match
    assert compared(a, b, "x.npy").match


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        (npy([[1.0, 2.0], [3.0, 4.0]]), npy([[1.0, 2.0], [3.0, 5.0]]), "[1, 1]: 4.0 and 5.0 differ by 1"),
        (npy([1.0]), npy([1.0, 2.0]), "shape: (1,) and (2,)"),
        (npy([True]), npy([1]), "dtype: bool and number"),
        (npy(["a"]), npy(["b"]), "[0]: a and b"),
        (npy([math.nan]), npy([math.nan]), "[0]: nan and nan"),
        (npy(2.0), npy(3.0), "[]: 2.0 and 3.0"),
        (
            npy(np.array(["2020-01-01"], "M8[D]")),
            npy(np.array(["2020-01-02"], "M8[D]")),
            "different from byte 0",
        ),
    ],
)
def test_an_array_difference_tells_the_index(a: bytes, b: bytes, text: str):
    assert text in difference(a, b)


def test_records_are_compared_field_by_field():
    dtype = [("name", "U4"), ("x", ">f8"), ("n", "i2")]
    a, b = npy([("a", 1.0, 3)], dtype), npy([("a", 1.5, 3)], dtype)
    assert compared(a, a).match
    assert "out, field x: [0]: 1.0 and 1.5" in difference(a, b)
    other = npy([("a", 3)], [("name", "U4"), ("n", "i2")])
    assert "out: field x is only in the first" in difference(a, other)


def test_archives_are_compared_file_by_file():
    a, b = npz(x=[1.0, 2.0], y=[3]), npz(y=[3], x=[1.0, 2.5])
    assert compared(a, npz(x=[1.0, 2.0], y=[3.0])).match
    assert "out.npz, file x.npy: [1]: 2.0 and 2.5" in difference(a, b, "out.npz")
    assert "file y.npy is only in the first" in difference(a, npz(x=[1.0, 2.0]))


def test_the_clock_of_an_archive_is_no_part_of_the_answer():
    contents = []
    for year in (1990, 2020):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr(zipfile.ZipInfo("r.csv", (year, 1, 1, 0, 0, 0)), "a,b\n1,2\n")
        contents.append(buffer.getvalue())
    assert contents[0] != contents[1]
    assert compared(*contents).match


def test_unknown_bytes_must_be_equal():
    assert compared(b"\xff\xfe1", b"\xff\xfe1").match
    assert "byte 2 on" in difference(b"\xff\xfe1", b"\xff\xfe2")


# --------------------------------------------------------------------------------------------- usable, limits


def refusal(name: str, content: bytes | str, rule: ComparisonRule = NUMERIC, **spec: object) -> str | None:
    data = content.encode() if isinstance(content, str) else content
    found = usable(rule, {name: data}, [OutputSpec(open_name=name, **spec)])  # type: ignore[arg-type]  # fields that exist
    return None if found is None else found.text()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("r.json", '{"x": [1.5, Infinity]}'),
        ("r.csv", "a,b\n1,\n"),
        ("r.txt", ""),
        ("r.npy", npy([1.0, math.inf])),
        ("r.npz", npz(a=[1.0])),
        ("out", b"\xff\x00"),
        ("r.json", gzip.compress(b"[1]", mtime=0)),
        ("r.json.gz", gzip.compress(b"[1]", mtime=0)),
    ],
)
def test_well_formed_outputs_are_usable(name: str, content: bytes | str):
    assert refusal(name, content) is None


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("r.json", '{"x": 1', "r.json: is not JSON: Expecting ',' delimiter, line 1 column 8"),
        (
            "r.json",
            '{"x": 9, "x": 1}',
            "r.json: is not JSON that can be compared: 'x' comes twice in an object",
        ),
        ("r.json", "", "is not JSON: Expecting value"),
        ("r.json", b"\xff\xff", "is not UTF-8 text"),
        ("r.json", "[" * 300 + "]" * 300, "nested more than 200 levels deep"),
        ("r.json", "[" * 100_000, "nested more than 200 levels deep"),
        ("r.json", "9" * 5000, "is not JSON that can be compared"),
        ("r.json", '{"x": {"y": [1, NaN]}}', "r.json: $.x.y[1] is NaN"),
        ("r.csv", "a,b\n1,NaN\n", "line 2, column 2 is NaN"),
        ("r.csv", "a" * 200_000, "is not a table: field larger than field limit"),
        ("r.txt", "first\nx = -nan", "line 2, column 5 is NaN"),
        ("r.npy", npy([[1.0, math.nan]]), "[0, 1] is NaN"),
        ("r.npy", npy([math.nan * 1j]), "[0] is NaN"),
        ("r.npz", npz(a=[1.0], b=[math.nan]), "r.npz, file b.npy: [0] is NaN"),
        ("r.npy", npy([(1.0, math.nan)], [("x", "f8"), ("y", "f8")]), "r.npy, field y: [0] is NaN"),
        ("r.npy", "text", "not a NumPy array file"),
        ("r.npz", "text", "the archive has no directory"),
        ("r.json", gzip.compress(b"[1]", mtime=0)[:-5], "gzip is cut off"),
    ],
)
def test_malformed_outputs_and_nan_are_not_usable(name: str, content: bytes | str, text: str):
    assert text in str(refusal(name, content))


def test_nan_is_usable_where_it_is_allowed():
    assert refusal("r.json", "[NaN]", NAN_EQUAL) is None
    assert refusal("r.json", "[NaN]", BITWISE) is None


def test_missing_and_too_large_outputs_are_not_usable():
    spec = OutputSpec(open_name="out", max_nbytes=3)
    assert usable(BITWISE, {}, [spec]).text() == "out is missing"  # type: ignore[union-attr]  # a refusal
    assert usable(BITWISE, {}, [OutputSpec(open_name="out", optional=True)]) is None
    assert refusal("out", b"abcd", BITWISE, max_nbytes=3) == "out has 4 bytes; 3 are allowed"
    assert refusal("out", b"abc", BITWISE, max_nbytes=3) is None


def test_a_comparison_stops_after_a_few_differences():
    a, b = json.dumps([0.0] * 1000), json.dumps([1.0] * 1000)
    assert len(compared(a, b).reasons) == MAX_REASONS


def test_malformed_outputs_do_not_agree_even_with_themselves():
    assert difference("{", "{", "r.json").startswith("r.json: is not JSON")


def test_more_than_the_limits_is_refused():
    limits = ReadLimits(max_nbytes=100)
    big = gzip.compress(b"0" * 1000)
    assert "more than 100 bytes" in str(usable(NUMERIC, {"out": big}, [], limits=limits).text())  # type: ignore[union-attr]  # a refusal
    (reason,) = compare(NUMERIC, {"o": b"1" * 101}, {"o": b"1" * 101}, limits=limits).reasons
    assert "has 101 bytes; at most 100 are compared" in reason.text()


def test_values_in_reasons_are_short_and_fit_into_json():
    a, b = json.dumps([math.inf, "x" * 1000]), json.dumps([1.0, "y" * 1000])
    for reason in compared(a, b, "r.json").reasons:
        assert len(reason.text()) < 250
        json.dumps(reason.as_json(), allow_nan=False)
