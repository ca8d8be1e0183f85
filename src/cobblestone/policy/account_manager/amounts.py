"""The six quantities that are accounted for everywhere: of a contact, a day, a computer, a person, a project, in total."""

from __future__ import annotations

from collections.abc import Iterable

from cobblestone.domain.values import value

QUANTITIES = ("cpu_ec", "cpu_time", "gpu_ec", "gpu_time", "njobs_success", "njobs_error")
"""Names of the quantities, in order; those that clients use."""

TINY = 1e-9
"""Less than this of anything is nothing: sums of floats do not end in zero."""


@value()
class Amounts:
    """Estimated credit and device-seconds of CPUs and GPUs, and numbers of finished jobs."""

    cpu_ec: float = 0.0
    cpu_time: float = 0.0
    gpu_ec: float = 0.0
    gpu_time: float = 0.0
    njobs_success: float = 0.0
    njobs_error: float = 0.0

    def astuple(self) -> tuple[float, float, float, float, float, float]:
        """Return the quantities in the order of `QUANTITIES`."""
        return (
            self.cpu_ec,
            self.cpu_time,
            self.gpu_ec,
            self.gpu_time,
            self.njobs_success,
            self.njobs_error,
        )

    def __add__(self, other: Amounts) -> Amounts:
        # Written out, here and below: every contact of a computer does this some twenty times.
        return Amounts(
            self.cpu_ec + other.cpu_ec,
            self.cpu_time + other.cpu_time,
            self.gpu_ec + other.gpu_ec,
            self.gpu_time + other.gpu_time,
            self.njobs_success + other.njobs_success,
            self.njobs_error + other.njobs_error,
        )

    def __sub__(self, other: Amounts) -> Amounts:
        return Amounts(
            self.cpu_ec - other.cpu_ec,
            self.cpu_time - other.cpu_time,
            self.gpu_ec - other.gpu_ec,
            self.gpu_time - other.gpu_time,
            self.njobs_success - other.njobs_success,
            self.njobs_error - other.njobs_error,
        )

    def at_least(self, other: Amounts) -> bool:
        """Whether no quantity is smaller than the other's."""
        return all(
            one >= two - TINY * max(1.0, abs(two))
            for one, two in zip(self.astuple(), other.astuple(), strict=True)
        )

    def rises(self, other: Amounts) -> Amounts:
        """Return what is more than in ``other``; nothing where it is less."""
        return Amounts(
            max(0.0, self.cpu_ec - other.cpu_ec),
            max(0.0, self.cpu_time - other.cpu_time),
            max(0.0, self.gpu_ec - other.gpu_ec),
            max(0.0, self.gpu_time - other.gpu_time),
            max(0.0, self.njobs_success - other.njobs_success),
            max(0.0, self.njobs_error - other.njobs_error),
        )

    @property
    def credit(self) -> float:
        """Estimated credit of all devices."""
        return self.cpu_ec + self.gpu_ec

    @property
    def empty(self) -> bool:
        """Whether there is nothing."""
        return all(abs(each) <= TINY for each in self.astuple())


NOTHING = Amounts()


def total(amounts: Iterable[Amounts]) -> Amounts:
    """Return the sum of several."""
    columns = [each.astuple() for each in amounts]
    return Amounts(*map(sum, zip(*columns, strict=True))) if columns else NOTHING
