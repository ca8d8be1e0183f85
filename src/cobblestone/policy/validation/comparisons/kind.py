"""The interface of a kind of comparison rule, and what kinds share.

A kind is registered once (`cobblestone.policy.validation.comparisons.registry`, or the entry point group
``cobblestone.comparisons`` of an installed package); the API, the command line, the validator and its quick way by checksum know
it from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from cobblestone.domain.reasons import Reason, phrase, reason
from cobblestone.policy.validation.archives import MalformedOutput, ReadLimits
from cobblestone.policy.validation.numeric import missing_differences

Files = Mapping[str, bytes]
"""Outputs of a result, by the name under which the program writes them."""

Options = Mapping[str, str | float]
"""What a rule says beyond its kind, as the database keeps it."""

MAX_PROBLEM = 500
"""Characters of what is wrong with an output, which may quote it."""

Checksums = Sequence[tuple[int, int, str]]
"""Place among the outputs, size in bytes and MD5 of each output of a result."""


class ComparisonKind(Protocol):
    """A way to say whether the outputs of two results agree.  Implementations keep no state.

    What they raise says nothing about the outputs: nobody is judged, and the operator hears of it.
    """

    @property
    def name(self) -> str:
        """Word before the colon of a rule."""
        ...

    @property
    def syntax(self) -> str:
        """How a rule of this kind is written, for error texts."""
        ...

    def parse(self, text: str) -> dict[str, str | float]:
        """Read what follows the colon, defaults filled in.

        Raises:
            ConfigError: it makes no sense; says what is possible.
        """
        ...

    def agree_by_checksum(self, a: Checksums, b: Checksums) -> bool:
        """Say whether these outputs agree whatever is in them; False: they must be read."""
        ...

    def project_function(self, options: Options) -> str:
        """``FILE.py:function`` of the project that compares instead; empty: the kind does so itself."""
        ...

    def refusal(self, options: Options, files: Files, limits: ReadLimits) -> Reason | None:
        """Say why outputs, all of them there, cannot be compared with others; None when they can."""
        ...

    def differences(self, options: Options, a: Files, b: Files, limits: ReadLimits) -> Iterator[Reason]:
        """Say where the outputs of two results differ, a reason for each place; none: they agree."""
        ...


class ReadsOutputs:
    """What a kind does unless it says otherwise: read every output, and compare it itself."""

    def agree_by_checksum(self, a: Checksums, b: Checksums) -> bool:
        """Return whether outputs must be read: they must."""
        return False

    def project_function(self, options: Options) -> str:
        """No function of the project."""
        return ""

    def refusal(self, options: Options, files: Files, limits: ReadLimits) -> Reason | None:
        """All outputs will do."""
        return None


def differences_of_files(
    a: Files, b: Files, compare_one: Callable[[bytes, bytes, str], Iterator[Reason]]
) -> Iterator[Reason]:
    """Compare outputs of the same name; those that one result lacks differ.  ``compare_one`` takes two contents and a name."""
    yield from missing_differences(a, b, phrase("output"), phrase("outputs"))
    for name in a:
        if name in b:
            try:
                yield from compare_one(a[name], b[name], name)
            except MalformedOutput as error:
                yield malformed(name, error)


def malformed(name: str, error: MalformedOutput) -> Reason:
    """Return an output that cannot be read."""
    whole = len(str(error)) <= MAX_PROBLEM
    problem = error.why if whole else str(error)[:MAX_PROBLEM]
    return reason("output_malformed", "{file}: {problem}", file=name, problem=problem)
