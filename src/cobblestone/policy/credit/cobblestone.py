"""The unit of credit and its three historical sizes.

The Cobblestone (after Jeff Cobb of SETI@home) has been defined three times:

* in BOINC's first documents: 1/100 of a day on a machine of 1000 double-precision MIPS Whetstone **and**
  1000 VAX MIPS Dhrystone (`REFERENCE_MACHINE`);
* in the CreditNew design: 100 per GFLOPS-day of peak floating-point speed (`DESIGNED`);
* in the deployed server and client (``lib/cobblestone`` constant, client 7.20.5): 200 per GFLOPS-day
  (`DEPLOYED`).

The first two agree for a machine whose two benchmarks are equal; the third is half as large, so that the
same work has twice as many of it.  Amounts of different units never meet without `CreditUnit.convert`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from cobblestone.domain.errors import PolicyViolation
from cobblestone.domain.statistics import SECONDS_PER_DAY

GIGAFLOPS = 1e9


@dataclass(frozen=True, slots=True)
class CreditUnit:
    """Size of the credit unit: how many of it are a day of a device of 1 GFLOPS peak speed.

    Raises `PolicyViolation` unless the size is positive and finite.
    """

    per_gflops_day: float = 200.0

    def __post_init__(self) -> None:
        """Refuse sizes that no amount can be expressed in."""
        if not (math.isfinite(self.per_gflops_day) and self.per_gflops_day > 0):
            raise PolicyViolation(
                f"credit unit: {self.per_gflops_day!r} per GFLOPS-day; give a positive number such as 200"
            )

    @property
    def per_flop(self) -> float:
        """Credit of one floating-point operation."""
        return self.per_gflops_day / (SECONDS_PER_DAY * GIGAFLOPS)

    @property
    def tflops_year(self) -> float:
        """Credit of a year at 1 TFLOPS: the family's default limit of a single grant (73 000 000 at 200)."""
        return self.per_gflops_day * 1000.0 * 365.0

    def of_flops(self, flops: float) -> float:
        """Credit of a number of floating-point operations (server-semantics: units)."""
        return flops * self.per_flop

    def flops(self, credit: float) -> float:
        """Floating-point operations that an amount of credit stands for."""
        return credit / self.per_flop

    def of_reference_machine(self, cpu_seconds: float, p_fpops: float, p_iops: float) -> float:
        """Credit by both benchmarks of a CPU: the mean of Whetstone and Dhrystone speed (operations/s) x
        CPU time."""
        return self.of_flops(0.5 * (p_fpops + p_iops) * cpu_seconds)

    def convert(self, credit: float, to: CreditUnit) -> float:
        """Return the same work expressed in another unit."""
        return credit * (to.per_gflops_day / self.per_gflops_day)


REFERENCE_MACHINE = CreditUnit(100.0)
"""First definition; its amounts come from `CreditUnit.of_reference_machine`."""

DESIGNED = CreditUnit(100.0)
"""Second definition: the CreditNew design."""

DEPLOYED = CreditUnit(200.0)
"""Third definition: what every current server and client uses, and our default."""
