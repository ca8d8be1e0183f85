"""``bitwise``: all bytes are equal; the gzip wrapper is no part of the answer."""

from __future__ import annotations

from collections.abc import Iterator

from cobblestone.domain.errors import ConfigError
from cobblestone.domain.reasons import Reason
from cobblestone.policy.validation.archives import GZIP_MAGIC, ReadLimits, gunzip
from cobblestone.policy.validation.comparisons.kind import (
    Checksums,
    Files,
    Options,
    ReadsOutputs,
    differences_of_files,
)
from cobblestone.policy.validation.numeric import byte_differences


def no_options(name: str, text: str) -> dict[str, str | float]:
    """Return the options of a kind that has none.

    Raises:
        ConfigError: some were given.
    """
    if text:
        raise ConfigError(f"comparison {name} takes no options, but got {text!r}")
    return {}


class Bitwise(ReadsOutputs):
    """Bytes."""

    name = "bitwise"
    syntax = "bitwise"

    def parse(self, text: str) -> dict[str, str | float]:
        """No options."""
        return no_options(self.name, text)

    def agree_by_checksum(self, a: Checksums, b: Checksums) -> bool:
        """Equal sums are equal bytes; other bytes may still be equal once unpacked."""
        return a == b

    def differences(self, options: Options, a: Files, b: Files, limits: ReadLimits) -> Iterator[Reason]:
        """First differing byte of each output."""

        def compare_one(one: bytes, other: bytes, name: str) -> Iterator[Reason]:
            if one != other and one.startswith(GZIP_MAGIC) and other.startswith(GZIP_MAGIC):
                one, other = gunzip(one, limits), gunzip(other, limits)
            yield from byte_differences(one, other, name)

        return differences_of_files(a, b, compare_one)
