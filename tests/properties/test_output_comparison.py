"""Comparison of outputs: symmetric, tolerant as stated, and safe with any bytes."""

from __future__ import annotations

import gzip
import io
import json
import random
import zipfile

import hypothesis.strategies as st
import numpy as np
from hypothesis import assume, given, note
from hypothesis.extra import numpy as hnp

from cobblestone.domain.apps import ComparisonRule
from cobblestone.domain.values import ResultId
from cobblestone.domain.work import ValidateState
from cobblestone.policy.validation.archives import MalformedOutput, ReadLimits
from cobblestone.policy.validation.canonical import choose_canonical
from cobblestone.policy.validation.comparison import compare, parse_comparison, usable
from cobblestone.policy.validation.documents import ArrayDocument, read_document, read_npy
from cobblestone.policy.validation.numeric import Tolerance

NUMERIC = parse_comparison("numeric:rtol=1e-6")
NAMES = st.sampled_from(["out", "r.json", "r.csv", "r.tsv", "r.txt", "r.npy", "r.npz", "r.zip", "r.json.gz"])
FINITE = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | st.text(max_size=5),
    lambda children: (
        st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=4), children, max_size=4)
    ),
    max_leaves=12,
)


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def npz(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, array)
    return buffer.getvalue()


def agree(a: bytes, b: bytes, name: str = "out", rule: ComparisonRule = NUMERIC) -> bool:
    agreement = compare(rule, {name: a}, {name: b})
    assert agreement.match is (not agreement.reasons)
    for reason in agreement.reasons:
        assert reason.text()
        json.dumps(reason.as_json(), allow_nan=False)
    return agreement.match


@given(
    rtol=st.floats(0, 1, exclude_max=True), atol=st.floats(0, allow_infinity=False), nan_equal=st.booleans()
)
def test_a_numeric_rule_is_read_as_it_is_written(rtol: float, atol: float, nan_equal: bool):
    rule = ComparisonRule(kind="numeric", options={"rtol": rtol, "atol": atol, "nan_equal": nan_equal})
    text = ",".join(f"{name}={value}" for name, value in rule.options.items())
    assert parse_comparison(f"numeric:{text}") == rule


@given(a=FINITE | st.integers(), b=FINITE | st.integers(), rtol=st.floats(0, 0.5), atol=st.floats(0, 10))
def test_agreement_of_numbers_is_symmetric_and_grows_with_the_tolerance(
    a: float, b: float, rtol: float, atol: float
):
    tolerance = Tolerance(rtol=rtol, atol=atol)
    assert tolerance.agree(a, a)
    assert tolerance.agree(a, b) == tolerance.agree(b, a)
    if tolerance.agree(a, b):
        assert Tolerance(rtol=rtol * 1.5, atol=atol * 1.5).agree(a, b)


@given(value=JSON)
def test_json_agrees_with_itself_however_it_is_written(value: object):
    plain = json.dumps(value).encode()
    pretty = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass")
    try:
        pretty.decode()
    except UnicodeDecodeError:
        pretty = json.dumps(value, indent=2, sort_keys=True).encode()
    assert agree(plain, pretty, "r.json")
    assert agree(plain, gzip.compress(pretty), "r.json")


@given(a=JSON, b=JSON)
def test_comparison_of_json_is_symmetric(a: object, b: object):
    x, y = json.dumps(a).encode(), json.dumps(b).encode()
    assert agree(x, y, "r.json") == agree(y, x, "r.json")


NUMBERS = st.lists(st.floats(1e-3, 1e6).flatmap(lambda x: st.sampled_from([x, -x])), min_size=1, max_size=20)


@given(numbers=NUMBERS, seed=st.integers(0, 2**32), data=st.data())
def test_a_change_within_the_tolerance_agrees_and_one_beyond_does_not(
    numbers: list[float], seed: int, data: st.DataObject
):
    rng = random.Random(seed)
    near = [x * (1 + rng.uniform(-0.9e-6, 0.9e-6)) for x in numbers]
    far = list(near)
    far[data.draw(st.integers(0, len(numbers) - 1))] *= 1 + 3e-6
    writers = {
        "r.json": lambda values: json.dumps({"x": values}).encode(),
        "r.csv": lambda values: "".join(f"row,{value!r}\n" for value in values).encode(),
        "out": lambda values: " ".join(f"v={value!r};" for value in values).encode(),
        "r.npy": lambda values: npy(np.array(values)),
        "r.npz": lambda values: npz(np.array(values)),
    }
    name = data.draw(st.sampled_from(sorted(writers)))
    write = writers[name]
    assert agree(write(numbers), write(near), name)
    assert not agree(write(numbers), write(far), name)


DTYPES = (
    hnp.boolean_dtypes()
    | hnp.integer_dtypes(endianness="?")
    | hnp.unsigned_integer_dtypes(endianness="?")
    | hnp.floating_dtypes(endianness="?", sizes=(16, 32, 64))
    | hnp.complex_number_dtypes(endianness="?", sizes=(64, 128))
    | hnp.unicode_string_dtypes(endianness="?", min_len=1, max_len=4)
)
ARRAYS = DTYPES.flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
)


@given(array=ARRAYS, fortran=st.booleans())
def test_arrays_are_read_as_numpy_reads_them(array: np.ndarray, fortran: bool):
    document = read_npy(npy(np.asarray(array, order="F" if fortran else "C")), ReadLimits())[0]
    assert isinstance(document, ArrayDocument)
    assert document.shape == array.shape
    expected = array.ravel(order="C").tolist()
    assert [repr(value) for value in document.values] == [repr(value) for value in expected]


@given(array=hnp.arrays(np.float64, hnp.array_shapes(max_dims=3, max_side=4)), data=st.data())
def test_the_reason_names_the_index_that_differs(array: np.ndarray, data: st.DataObject):
    index = tuple(data.draw(st.integers(0, side - 1)) for side in array.shape)
    array = np.nan_to_num(array, posinf=1.0, neginf=1.0)
    changed = array.copy()
    changed[index] = 1.0 if array[index] <= 0 else -1.0
    (reason,) = compare(NUMERIC, {"a": npy(array)}, {"a": npy(changed)}).reasons
    assert f"a: [{', '.join(map(str, index))}]:" in reason.text()


# Bytes from anywhere: a document or MalformedOutput, a match or reasons, and never another exception.

SEEDS = (
    json.dumps({"a": [1, 2.5, None, "x"], "b": {"c": True}}).encode(),
    b"x,y\n1,2\n3,4.5\n",
    b"free text 1.5 nan -inf (2e3)\nsecond line\n",
    npy(np.arange(6.0).reshape(2, 3)),
    npy(np.array([(1, 2.0, "ab")], dtype=[("a", "i4"), ("b", "f8"), ("c", "U2")])),
    npz(np.arange(5)),
    gzip.compress(b'{"a": 1}', mtime=0),
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    content = bytearray(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(0, 4))):
        position = draw(st.integers(0, len(content)))
        cut = draw(st.integers(0, 3))
        content[position : position + cut] = draw(st.binary(max_size=3))
    return bytes(content[: draw(st.integers(0, len(content)))] if draw(st.booleans()) else content)


@given(
    name=NAMES,
    content=damaged()
    | st.binary(max_size=200)
    | st.text(max_size=50).map(lambda t: t.encode("utf-8", "replace")),
)
def test_any_bytes_are_read_or_refused(name: str, content: bytes):
    limits = ReadLimits(max_nbytes=2000, max_members=4, max_depth=10)
    try:
        read_document(name, content, limits)
    except MalformedOutput as error:
        note(str(error))
    found = usable(NUMERIC, {name: content}, [], limits=limits)
    agreement = compare(NUMERIC, {name: content}, {name: content}, limits=limits)
    assert agreement.match is (found is None), "usable outputs agree with themselves, the others do not"


@given(name=NAMES, a=damaged(), b=damaged())
def test_comparison_of_any_bytes_is_symmetric(name: str, a: bytes, b: bytes):
    assert agree(a, b, name) == agree(b, a, name)


@given(n=st.integers(1, 7), min_quorum=st.integers(1, 6), data=st.data())
def test_a_canonical_result_has_the_majority_that_the_quorum_asks_for(
    n: int, min_quorum: int, data: st.DataObject
):
    results = [ResultId(i) for i in range(n)]
    pairs = {(a, b) for a in results for b in results if a < b and data.draw(st.booleans())}
    same = {*pairs, *((b, a) for a, b in pairs)}
    verdict = choose_canonical(results, matches=lambda a, b: (a, b) in same, min_quorum=min_quorum)
    counts = {r: 1 + sum((r, other) in same for other in results) for r in results}
    able = [r for r in results if counts[r] >= min_quorum // 2 + 1] if n >= min_quorum else []
    assert verdict.canonical_id == (able[0] if able else None)
    assert set(verdict.states) == set(results)
    if able:
        valid = [r for r, state in verdict.states.items() if state is ValidateState.VALID]
        assert len(valid) == counts[able[0]]
        assert able[0] in valid


@given(wrong=st.integers(0, 3), right=st.integers(0, 4), data=st.data())
def test_lonely_liars_never_win_against_a_quorum_that_agrees(wrong: int, right: int, data: st.DataObject):
    """Wrong answers differ from each other; whoever wins, the answer is the right one."""
    assume(wrong + right >= 2)
    answers = data.draw(st.permutations(["right"] * right + [f"wrong {i}" for i in range(wrong)]))
    results = [ResultId(i) for i in range(len(answers))]
    verdict = choose_canonical(results, matches=lambda a, b: answers[a] == answers[b], min_quorum=2)
    assert (verdict.canonical_id is not None) is (right >= 2)
    if verdict.canonical_id is not None:
        assert answers[verdict.canonical_id] == "right"


def test_the_order_of_files_in_an_archive_does_not_matter():
    contents = []
    for names in (("a", "b"), ("b", "a")):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name in names:
                archive.writestr(name, name)
        contents.append(buffer.getvalue())
    first, second = contents
    assert agree(first, second, "r.zip")
