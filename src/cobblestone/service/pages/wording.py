"""Words for numbers and times, in the language of the page."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal

from babel import Locale
from babel.dates import format_datetime, format_timedelta
from babel.numbers import format_decimal

from cobblestone.domain.people import TeamType
from cobblestone.service.languages import ENGLISH, N_, current
from cobblestone.service.languages import gettext as _

TEAM_TYPES: Mapping[int, str] = {
    TeamType.CLUB: N_("Club or other group"),
    TeamType.COMPANY: N_("Company"),
    TeamType.PRIMARY_SCHOOL: N_("Primary school"),
    TeamType.SECONDARY_SCHOOL: N_("Secondary school"),
    TeamType.JUNIOR_COLLEGE: N_("Junior college"),
    TeamType.UNIVERSITY: N_("University or department"),
    TeamType.GOVERNMENT: N_("Government agency"),
}

# -- numbers -------------------------------------------------------------------


def number(value: float, digits: int = 0) -> str:
    """Return a number with separators and a given number of decimals."""
    if not math.isfinite(value):
        return "–"
    if current().code == ENGLISH:
        return f"{value:,.{digits}f}"
    pattern = "#,##0" + ("." + "0" * digits if digits else "")
    return format_decimal(round(value, digits), format=pattern, locale=current().locale)


def count(value: float) -> str:
    """Return a whole number with separators."""
    return number(value)


def credit(value: float) -> str:
    """Return an amount of credit: fewer decimals the larger it is."""
    return number(value, 2 if abs(value) < 1000 else 0)


def percent(share: float) -> str:
    """Return a share (0 to 1) in per cent, with one decimal only close to the ends."""
    digits = 1 if 0.0 < share < 0.02 or 0.98 < share < 1.0 else 0
    return _("%(number)s %%") % {"number": number(100 * share, digits)}


def duration(seconds: float) -> str:
    """Return a duration in its two largest units."""
    if not math.isfinite(seconds) or seconds < 0:
        return _("unknown")
    if seconds < 60:
        return _("%(seconds)s s") % {"seconds": number(seconds, 1 if seconds < 10 else 0)}
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return _("%(minutes)d min %(seconds)02d s") % {"minutes": minutes, "seconds": rest}
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return _("%(hours)d h %(minutes)02d min") % {"hours": hours, "minutes": minutes}
    days, hours = divmod(hours, 24)
    return _("%(days)s d %(hours)d h") % {"days": number(days), "hours": hours}


_SIZES = (N_("%(number)s bytes"), N_("%(number)s kB"), N_("%(number)s MB"), N_("%(number)s GB"))


def nbytes(value: float) -> str:
    """Return a number of bytes with a unit."""
    for place, unit in enumerate(_SIZES):
        if abs(value) < 1000:
            return _(unit) % {"number": number(value, 1 if place else 0)}
        value /= 1000
    return _("%(number)s TB") % {"number": number(value, 1)}


def flops(value: float) -> str:
    """Return a speed in floating-point operations per second."""
    for unit in ("FLOPS", "kFLOPS", "MFLOPS", "GFLOPS", "TFLOPS", "PFLOPS"):
        if abs(value) < 1000:
            return f"{number(value, 2)} {unit}"
        value /= 1000
    return f"{number(value, 1)} EFLOPS"


def version_number(number: int) -> str:
    """Return an app version's number in its usual form."""
    return f"{number // 100}.{number % 100:02d}"


def client_version(number: int) -> str:
    """Return a client's version in its usual form."""
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


# -- times ---------------------------------------------------------------------


def moment(time: float) -> str:
    """Return a moment in UTC, to the minute."""
    return f"{day(time)}, {_utc(time):%H:%M} UTC"


def day(time: float) -> str:
    """Return a day in UTC."""
    utc = _utc(time)
    if current().code == ENGLISH:
        return utc.strftime("%-d %b %Y")
    # Translators: how your language writes a date, in the notation of Unicode TR 35
    return format_datetime(utc, format=_("d MMM y"), locale=current().locale)


def iso(time: float) -> str:
    """Return a moment for machines."""
    return _utc(time).strftime("%Y-%m-%dT%H:%M:%SZ")


_Unit = Literal["day", "hour", "minute", "second"]
_UNITS: Sequence[tuple[_Unit, int]] = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))


def ago(time: float, now: float) -> str:
    """Return roughly how long ago or ahead a moment is."""
    seconds = abs(now - time)
    if seconds < 10:
        return _("just now")
    unit, length = next((unit, length) for unit, length in _UNITS if seconds >= length)
    whole = int(seconds // length) * length
    return _distance(-whole if now >= time else whole, unit, current().locale)


@lru_cache(maxsize=4096)  # lists say the same again and again
def _distance(seconds: int, unit: _Unit, locale: Locale) -> str:
    return format_timedelta(seconds, granularity=unit, threshold=math.inf, add_direction=True, locale=locale)


def _utc(time: float) -> datetime:
    bounded = min(max(time, 0.0), 4e9) if math.isfinite(time) else 0.0
    return datetime.fromtimestamp(bounded, UTC)


_DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+(?:e[+-]?\d+)?(?![\w.])|(?<![\w.])\d+e[+-]?\d+(?!\w)")
_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def tidy_numbers(text: str) -> str:
    """Return a reason's sentence with long decimals rounded for reading."""
    return _DECIMAL.sub(lambda found: _tidy(float(found[0])), text)


def _tidy(value: float) -> str:
    if not math.isfinite(value):
        return str(value)
    if value >= 1e7 or 0 < value < 1e-3:
        digits, _, exponent = f"{value:.3e}".partition("e")
        return f"{float(digits):g} × 10{str(int(exponent)).translate(_SUPERSCRIPTS)}"
    return f"{value:,.0f}" if value >= 1000 or value.is_integer() else f"{value:.4g}"
