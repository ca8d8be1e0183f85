"""Checks of what people type, with the sentences that say what is wrong; an empty sentence means that all is well."""

from __future__ import annotations

import math

from cobblestone.service.http.rate_limits import TooManyAttempts
from cobblestone.service.languages import gettext as _
from cobblestone.service.languages import ngettext
from cobblestone.service.pages import wording
from cobblestone.wire.project.account import MAX_USER_NAME, legal_email_addr, user_name_problem

MAX_PASSWORD = 200


def name_problem(name: str) -> str:
    """Return what is wrong with the name of an account or a team."""
    if not name:
        return _("The name is empty.")
    if len(name) > MAX_USER_NAME:
        return _("The name may have at most %(most)d characters.") % {"most": MAX_USER_NAME}
    if name.isdigit():
        return _("The name must not be a mere number.")
    if user_name_problem(name):
        return _("The name holds one of < > & \" ' or a character that cannot be shown. Choose another one.")
    return ""


def address_problem(email_addr: str) -> str:
    """Return what is wrong with an e-mail address."""
    if legal_email_addr(email_addr.strip().lower()):
        return ""
    return _("This does not look like an e-mail address. It should be like ada@example.org.")


def password_problem(password: str, shortest: int) -> str:
    """Return what is wrong with a new password."""
    if len(password) < shortest:
        return ngettext(
            "The password needs at least %(least)d character; yours has %(length)d.",
            "The password needs at least %(least)d characters; yours has %(length)d.",
            shortest,
        ) % {"least": shortest, "length": len(password)}
    if len(password) > MAX_PASSWORD:
        return _("The password may have at most %(most)d characters.") % {"most": MAX_PASSWORD}
    return ""


def wrong_password() -> str:
    """Return the sentence for a wrong password."""
    return _("This is not your password.")


def too_many(error: TooManyAttempts) -> str:
    """Return the sentence for somebody who tried too often."""
    return ngettext(
        "There were too many attempts. Try again in %(minutes)d minute.",
        "There were too many attempts. Try again in %(minutes)d minutes.",
        error.wait_minutes,
    ) % {"minutes": error.wait_minutes}


def number_problem(text: str, low: float, high: float) -> str:
    """Return what is wrong with a number that shall lie in a range."""
    value = parse_number(text)
    if value is None:
        return _("This is not a number.")
    if not low <= value <= high:
        return _("Give a number from %(low)s to %(high)s.") % {
            "low": wording.number(low, _decimals(low)),
            "high": wording.number(high, _decimals(high)),
        }
    return ""


def parse_number(text: str) -> float | None:
    """Return a number as people type it, with a point or a comma; None if it is none."""
    try:
        value = float(text.strip().replace(",", ".").replace("\u00a0", "").replace("\u202f", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def plain_number(value: float) -> str:
    """Return a number as a form shows it."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


def _decimals(value: float) -> int:
    return 0 if value == int(value) else 2
