"""``trivial``: everything agrees, for apps whose answers cannot be compared."""

from __future__ import annotations

from collections.abc import Iterator

from cobblestone.domain.reasons import Reason
from cobblestone.policy.validation.archives import ReadLimits
from cobblestone.policy.validation.comparisons.bitwise import no_options
from cobblestone.policy.validation.comparisons.kind import Checksums, Files, Options, ReadsOutputs


class Trivial(ReadsOutputs):
    """Nothing is compared."""

    name = "trivial"
    syntax = "trivial"

    def parse(self, text: str) -> dict[str, str | float]:
        """No options."""
        return no_options(self.name, text)

    def agree_by_checksum(self, a: Checksums, b: Checksums) -> bool:
        """Return True: everything agrees."""
        return True

    def differences(self, options: Options, a: Files, b: Files, limits: ReadLimits) -> Iterator[Reason]:
        """None."""
        return iter(())
