"""Calls functions on a volunteer's computer and writes what they return, never as a pickle.

The file is sent with an app as it is, so it needs nothing but Python; the scientist's side reads answers with :func:`decode`.
An answer is a line of JSON, and then the bytes of its arrays.  JSON's own values stand for themselves; ``{KIND: …}`` is any
other.  A list has the results in order; a dict says what a function raised.
"""

from __future__ import annotations

import io
import json
import math
import os
import pickle
import re
import sys
import traceback
from pathlib import Path
from typing import Any, cast

KINDS = "None, bool, int, float, complex, str, bytes, list, tuple, dict, and NumPy's scalars and arrays of numbers, text, times"
MAX_KEYS = 1000  #: of a dict that are no text: others' numbers may be chosen so that each look-up takes long
_DTYPE = re.compile(r"[<>|][biufcSUmM][1-9]\d{0,8}(\[\d{0,9}[A-Za-zμ]{1,2}\])?")
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class AnswerError(Exception):
    """A value cannot be sent back, or an answer cannot be read."""


def encode(value: Any) -> bytes:  # Any: whatever a function returned
    """Return a value as an answer.

    Raises:
        AnswerError: it, or something in it, is of another kind than `KINDS`.
    """
    parts: list[bytes] = []
    text = json.dumps(_described(value, parts))
    return b"\n".join([text.encode(), b"".join(parts)])


def _described(value: Any, parts: list[bytes]) -> Any:  # Any: JSON
    """Return a value as JSON's; the bytes that JSON does not hold go to ``parts``."""
    kind = cast("type[Any]", type(value))
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is list:
        return [_described(each, parts) for each in value]
    if kind is tuple:
        return {"tuple": [_described(each, parts) for each in value]}
    if kind is dict:
        _check_keys(list(value))
        return {"dict": [[_described(key, parts), _described(each, parts)] for key, each in value.items()]}
    if kind is complex:
        return {"complex": [value.real, value.imag]}
    if kind is bytes:
        parts.append(value)
        return {"bytes": len(value)}
    numpy = sys.modules.get("numpy")
    if numpy is not None and (kind is numpy.ndarray or isinstance(value, numpy.generic)):
        if not _DTYPE.fullmatch(value.dtype.str):
            raise AnswerError(f"An array of type {value.dtype} cannot be sent back. Possible are {KINDS}.")
        parts.append(value.tobytes())
        return {"numpy": [value.dtype.str, list(value.shape) if kind is numpy.ndarray else None]}
    raise AnswerError(
        f"A result of type {kind.__module__}.{kind.__qualname__} cannot be sent back: what comes from other people's computers"
        f" is not unpickled. Possible are {KINDS}. Of a model, return its score, or its coefficients as arrays."
    )


def _check_keys(keys: list[Any]) -> None:
    if sum(not isinstance(key, str) for key in keys) > MAX_KEYS:
        raise AnswerError(f"A dict with more than {MAX_KEYS} keys that are no text cannot be sent back.")


def decode(data: bytes) -> Any:
    """Return the value of an answer; what a stranger sent does no harm.

    Raises:
        AnswerError: it is none.
    """
    text, _, rest = data.partition(b"\n")
    parts = io.BytesIO(rest)
    try:
        value = _meant(json.loads(text), parts)
    except (ValueError, TypeError, OverflowError, RecursionError, MemoryError) as error:
        raise AnswerError(f"It is no answer of cobblestone_call.py: {error}.") from error
    if parts.read(1):
        raise AnswerError("It has more bytes than its description says.")
    return value


def _meant(tree: Any, parts: io.BytesIO) -> Any:
    """Return what a value of JSON stands for; the inverse of `_described`."""
    if type(tree) is list:
        return [_meant(each, parts) for each in cast("list[Any]", tree)]
    if type(tree) is not dict:
        return tree
    ((kind, inside),) = cast("dict[str, Any]", tree).items()
    if kind == "tuple":
        return tuple(_meant(inside, parts))
    if kind == "dict":
        pairs: list[list[Any]] = _meant(inside, parts)
        _check_keys([key for key, _ in pairs])
        return {key: each for key, each in pairs}  # noqa: C416  # dict() would take longer items
    if kind == "complex":
        real, imaginary = inside
        return complex(real, imaginary)
    if kind == "bytes":
        return _taken(inside, parts)
    if kind == "numpy":
        dtype, shape = inside
        return _array(dtype, shape, parts)
    raise ValueError(f"unknown kind {kind!r:.40}")


def _taken(nbytes: int, parts: io.BytesIO) -> bytes:
    data = parts.read(max(nbytes, 0))
    if len(data) != nbytes:
        raise ValueError("bytes are missing")
    return data


def _array(dtype: str, shape: list[int] | None, parts: io.BytesIO) -> Any:
    try:
        import numpy
    except ImportError as error:
        raise AnswerError("It has an array, and NumPy is not installed here.") from error
    if not _DTYPE.fullmatch(dtype) or any(type(n) is not int or n < 0 for n in shape or ()):
        raise ValueError("no array of numbers, texts or times")
    kind = numpy.dtype(dtype)
    data = _taken(kind.itemsize * math.prod(shape or ()), parts)
    # NumPy does not look whether the bytes are characters, or truth values.
    unit, largest = {"U": ("u4", 0x10FFFF), "b": ("u1", 1)}.get(kind.kind, ("u1", 255))
    raw = numpy.frombuffer(data or bytes(4), kind.byteorder.replace("|", "=") + unit)
    if raw.max() > largest:
        raise ValueError("an array of values that there are not")
    return numpy.ndarray(shape or (), kind, data).copy()[... if shape is not None else ()]


def main(words: list[str]) -> None:
    """Call the functions: ``PYTHON OUTPUT CALLS BUFFER…`` are Python's version and the names of files.

    What a function raises is an answer too, since it would be raised everywhere.  Lack of memory or of a file may be this
    computer's, so the job fails, and another one gets it.
    """
    python, output, calls, *buffers = words
    here = "{}.{}".format(*sys.version_info)
    if here != python:
        sys.exit(f"These functions are for Python {python}; here is {here}.")
    try:
        from joblib import parallel_config  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        pass  # no function uses it
    else:
        parallel_config("sequential")  # for parallel calls inside of functions, until this process ends
    try:
        loaded = [bytearray(Path(name).read_bytes()) for name in buffers]
        tasks = pickle.loads(Path(calls).read_bytes(), buffers=loaded)  # noqa: S301  # the scientist's
        answer = encode([function(*args, **named) for function, args, named in tasks])
    except (MemoryError, OSError):
        raise
    except Exception as error:  # noqa: BLE001  # the function's own
        text = f"{type(error).__name__}: {error}"
        answer = encode({"error": text, "traceback": traceback.format_exc()})
    Path(output).write_bytes(answer)


if __name__ == "__main__":
    os.environ.update(dict.fromkeys(_THREADS, "1"))  # noqa: TID251  # a job has one processor; NumPy reads them
    main(sys.argv[1:])
