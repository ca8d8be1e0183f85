"""Counts why candidates were refused, without making a value for each."""

from __future__ import annotations

from collections.abc import Iterable

from cobblestone.domain.reasons import Reason, Value
from cobblestone.policy.dispatch.explain import Code, explain

_MEGABYTE = 1e6
_GIGABYTE = 1e9
_HOUR = 3600.0
_MOST = 1e15  # figures beyond this are nonsense that somebody sent


class Tally:
    """Refusals of one decision.

    Of refusals for an amount, the smallest amount is kept: it is the nearest to success.
    """

    __slots__ = ("_counts", "_details", "_least", "_reasons")

    def __init__(self) -> None:
        self._counts: dict[Code, int] = {}
        self._least: dict[Code, float] = {}
        self._details: dict[Code, tuple[float, float]] = {}
        self._reasons: list[Reason] = []

    def note(self, code: Code, need: float = 0.0, detail: tuple[float, float] = (0.0, 0.0)) -> None:
        """Count one candidate; ``need`` is what it would have needed, ``detail`` what else is told."""
        counts = self._counts
        known = counts.get(code, 0)
        counts[code] = known + 1
        if not known or need < self._least[code]:
            self._least[code] = need
            self._details[code] = detail

    def add(self, reasons: Iterable[Reason]) -> None:
        """Keep reasons that are not about single candidates."""
        self._reasons.extend(reasons)

    def reasons(self, *, ram_bytes: float, disk_bytes: float) -> tuple[Reason, ...]:
        """One reason per kind of refusal, in no special order."""
        found = {each.text(): each for each in self._reasons}
        counted = [
            explain(code, **self._values(code, count, ram_bytes, disk_bytes))
            for code, count in self._counts.items()
        ]
        return (*found.values(), *counted)

    def _values(self, code: Code, count: int, ram_bytes: float, disk_bytes: float) -> dict[str, Value]:
        need = self._least[code]
        values: dict[str, Value] = {"tasks": count}
        if code == Code.BANDWIDTH:
            values |= {"need_kb": _rounded(need / 1e3), "have_kb": _rounded(self._details[code][0] / 1e3)}
        elif code == Code.MEMORY:
            values |= {"need_mb": _rounded(need / _MEGABYTE), "have_mb": _rounded(ram_bytes / _MEGABYTE)}
        elif code == Code.DISK:
            values |= {"need_gb": _rounded(need / _GIGABYTE), "have_gb": _rounded(disk_bytes / _GIGABYTE)}
        elif code == Code.DEADLINE:
            delay, available = self._details[code]
            values |= {
                "need_hours": _rounded(need / _HOUR),
                "delay_hours": _rounded(delay / _HOUR),
                "available_percent": _rounded(100 * available),
            }
        return values


def _rounded(amount: float) -> float:
    """Two digits after the point for small amounts, none for large ones."""
    amount = min(max(amount, 0.0), _MOST)
    return round(amount, 2) if amount < 100 else int(amount)
