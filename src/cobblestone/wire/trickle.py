"""The trickle-up message that asks for credit of a running job: ``<runtime>`` in seconds, since the last one."""

from __future__ import annotations

import re

CREDIT_VARIETY = "trickle_credit"
"""Variety of these messages (BOINC's name of the handler)."""

_RUN_TIME = re.compile(r"<runtime>\s*([^<\s]{1,64})\s*</runtime>")


def read_run_time(text: str) -> float:
    """Seconds of run time that a message states; NaN when it states none."""
    found = _RUN_TIME.search(text[:100_000])
    try:
        return float(found[1]) if found else float("nan")
    except ValueError:
        return float("nan")
