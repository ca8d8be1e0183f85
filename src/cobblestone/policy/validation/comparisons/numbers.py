"""``numeric``: numbers agree within a tolerance, see `cobblestone.policy.validation.numeric`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from difflib import get_close_matches

from cobblestone.domain.errors import ConfigError
from cobblestone.domain.reasons import Reason
from cobblestone.policy.validation.archives import MalformedOutput, ReadLimits
from cobblestone.policy.validation.comparisons.kind import (
    Files,
    Options,
    ReadsOutputs,
    differences_of_files,
    malformed,
)
from cobblestone.policy.validation.documents import read_document
from cobblestone.policy.validation.numeric import Tolerance, differences, nan_places

_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def tolerance_of(options: Options) -> Tolerance:
    """Tolerance of a numeric rule, whose options may be texts.

    Raises:
        ConfigError: an option has an impossible value.
    """
    read = Numeric().parse(",".join(f"{name}={value}" for name, value in options.items()))
    return Tolerance(rtol=float(read["rtol"]), atol=float(read["atol"]), nan_equal=bool(read["nan_equal"]))


class Numeric(ReadsOutputs):
    """Numbers within a tolerance, everything else exactly."""

    name = "numeric"
    syntax = "numeric:rtol=1e-6,atol=0,nan_equal=false"

    def parse(self, text: str) -> dict[str, str | float]:
        """Tolerances; defaults are rtol=1e-6, atol=0, nan_equal=false."""
        options: dict[str, str | float] = {"rtol": 1e-6, "atol": 0.0, "nan_equal": False}
        for part in filter(None, (piece.strip() for piece in text.split(","))):
            name, equals, value = (word.strip() for word in part.partition("="))
            if name not in options or not equals:
                close = get_close_matches(name, options, n=1)
                hint = f"did you mean {close[0]}=…?" if close else f"use {self.syntax}"
                raise ConfigError(f"numeric comparison: {part!r} is no option; {hint}")
            options[name] = _truth(value) if name == "nan_equal" else _bound(name, value)
        return options

    def refusal(self, options: Options, files: Files, limits: ReadLimits) -> Reason | None:
        """Malformed outputs, and NaN where it is not allowed."""
        nan_equal = tolerance_of(options).nan_equal
        for name, content in files.items():
            try:
                document = read_document(name, content, limits)
            except MalformedOutput as error:
                return malformed(name, error)
            if not nan_equal:
                for found in nan_places(document, name):
                    return found
        return None

    def differences(self, options: Options, a: Files, b: Files, limits: ReadLimits) -> Iterator[Reason]:
        """Places where numbers are too far apart, or anything else differs."""
        tolerance = tolerance_of(options)

        def compare_one(one: bytes, other: bytes, name: str) -> Iterator[Reason]:
            documents = read_document(name, one, limits), read_document(name, other, limits)
            return differences(*documents, tolerance, name)

        return differences_of_files(a, b, compare_one)


def _truth(value: str) -> bool:
    if value.lower() not in _TRUTH:
        raise ConfigError(f"numeric comparison: nan_equal is true or false, not {value!r}")
    return _TRUTH[value.lower()]


def _bound(name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        raise ConfigError(
            f"numeric comparison: {name} must be a number such as 1e-6, not {value!r}"
        ) from None
    if not math.isfinite(number) or number < 0:
        raise ConfigError(f"numeric comparison: {name} must be zero or positive, not {value}")
    if name == "rtol" and number >= 1:
        raise ConfigError(f"numeric comparison: rtol is relative and must be below 1, not {value}")
    return number
