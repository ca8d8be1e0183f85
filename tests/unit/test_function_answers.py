"""What comes back of a function that a volunteer's computer called: values of plain kinds, and never a pickle."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy
import pytest

from cobblestone.sdk.frameworks.cobblestone_call import MAX_KEYS, AnswerError, decode, encode

RUNNER = Path(sys.modules[encode.__module__].__file__ or "")
PYTHON = "{}.{}".format(*sys.version_info)

VALUES = [
    None, True, -7, 2**70, 1.5, float("inf"), 1 + 2j, "ä\ud800\n", b"\x00\n", [], (), {}, [1, (2, [3])],
    {"scores": {"score": 0.5}, (1, "a"): [None], 3: b"x"},
    numpy.float64(0.1), numpy.int8(-3), numpy.bool_(True), numpy.str_("é"), numpy.datetime64("2026-11-28T02:00"),
    numpy.arange(6.0).reshape(2, 3), numpy.array(5), numpy.zeros((3, 0)), numpy.array(["a", "longer"]),
    numpy.array([True, False]), numpy.arange(3, dtype=">i2"), numpy.array([1 + 1j], dtype="c8"),
]  # fmt: skip


def same(one: Any, other: Any) -> bool:
    if isinstance(one, numpy.ndarray | numpy.generic):
        return type(one) is type(other) and one.dtype == other.dtype and bool(numpy.array_equal(one, other))
    if isinstance(one, list | tuple) and type(one) is type(other):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_what_comes_back_is_what_a_function_returned(value: Any) -> None:
    assert same(decode(encode(value)), value)
    assert same(decode(encode([value, (value, 1)])), [value, (value, 1)])


def test_arrays_that_come_back_can_be_changed() -> None:
    array = decode(encode(numpy.arange(3)))
    array[0] = 7
    assert array.tolist() == [7, 1, 2]


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, OrderedDict(a=1), numpy.array([{}], dtype=object), [lambda: 1], Path("x")],
)  # fmt: skip
def test_other_kinds_are_refused_in_words(value: Any) -> None:
    with pytest.raises(AnswerError, match=r"cannot be sent back.*Possible are None, bool, int"):
        encode(value)


def hostile(tree: object, rest: bytes = b"") -> bytes:
    return json.dumps(tree).encode() + b"\n" + rest


@pytest.mark.parametrize(
    "answer",
    [
        b"", pickle.dumps([1]), b"\xff\xfe", hostile({"pickle": "x"}), hostile({"tuple": 3}), hostile({"dict": [[[1], 2]]}),
        hostile({"bytes": 5}, b"1234"), hostile({"bytes": -1}, b"1"), hostile([1], b"more"), hostile({}),
        hostile({"a": 1, "b": 2}),
        hostile({"numpy": ["|O", [1]]}, bytes(8)), hostile({"numpy": ["<f8", [10**15]]}), hostile({"numpy": ["<f8", [-1]]}),
        hostile({"numpy": ["<U0", [10**18]]}), hostile({"numpy": ["<f8", 3]}), hostile({"numpy": ["<f9", [1]]}, bytes(9)),
        hostile({"numpy": ["<U1", [1]]}, b"\xff\xff\xff\x7f"), hostile({"numpy": [">U1", [1]]}, b"\x7f\xff\xff\xff"),
        hostile({"numpy": ["|b1", [1]]}, b"\x02"), hostile({"numpy": ["<f8", [2, True]]}, bytes(16)),
        hostile({"numpy": ["<f8", [0] * 100]}), hostile({"numpy": ["<i4,<f4", [1]]}, bytes(8)), b"[" * 200_000, b"9" * 200_000,
        hostile({"dict": [[n, 0] for n in range(MAX_KEYS + 1)]}), hostile({"complex": ["1", 2]}),
    ],
    ids=lambda answer: repr(answer[:40]),
)  # fmt: skip
def test_what_a_stranger_made_up_is_refused(answer: bytes) -> None:
    with pytest.raises(AnswerError):
        decode(answer)


def test_keys_that_were_chosen_to_collide_do_not_make_it_slow() -> None:
    some = [[n * (2**61 - 1), 0] for n in range(MAX_KEYS)]
    start = time.process_time()
    decode(hostile([{"dict": some}] * 20))
    assert time.process_time() - start < 3.0


def run(folder: Path, calls: object, *, python: str = PYTHON) -> subprocess.CompletedProcess[str]:
    (folder / "calls").write_bytes(pickle.dumps(calls))
    return subprocess.run(
        [sys.executable, str(RUNNER), python, "answer", "calls"], cwd=folder, capture_output=True, text=True
    )


def test_functions_run_as_a_program_and_what_they_raise_is_an_answer(tmp_path: Path) -> None:
    calls = [(pow, (2, 5), {}), (int, ("ff",), {"base": 16})]
    assert run(tmp_path, calls).returncode == 0
    assert decode((tmp_path / "answer").read_bytes()) == [32, 255]
    assert run(tmp_path, [(int, ("x",), {})]).returncode == 0
    answer = decode((tmp_path / "answer").read_bytes())
    assert answer["error"] == "ValueError: invalid literal for int() with base 10: 'x'"
    assert "Traceback" in answer["traceback"]


def test_what_may_be_this_computers_fault_fails_the_job(tmp_path: Path) -> None:
    other = run(tmp_path, [], python="3.9")
    assert other.returncode == 1
    assert other.stderr.startswith(f"These functions are for Python 3.9; here is {PYTHON}.")
    assert "FileNotFoundError" in run(tmp_path, [(open, ("absent",), {})]).stderr
    assert not (tmp_path / "answer").exists()
