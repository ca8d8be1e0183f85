"""Validation of form fields, with messages about errors; an empty message means valid."""

from __future__ import annotations

import math

from cobblestone.service.languages import gettext as _
from cobblestone.service.languages import ngettext
from cobblestone.service.pages import wording
from cobblestone.service.rate_limits import TooManyAttempts
from cobblestone.wire.project.account import MAX_USER_NAME, legal_email_addr, user_name_problem

MAX_PASSWORD = 200


def name_problem(name: str) -> str:
    """Return the error in the name of an account or a team."""
    if not name:
        return _("The name is empty.")
    if len(name) > MAX_USER_NAME:
        return _("The name may have at most %(most)d characters.") % {"most": MAX_USER_NAME}
    if name.isdigit():
        return _("The name must not be just a number.")
    if user_name_problem(name):
        return _(
            "The name contains one of < > & \" ' or a character that cannot be shown. Choose another name."
        )
    return ""


def address_problem(email_addr: str) -> str:
    """Return the error in an e-mail address."""
    if legal_email_addr(email_addr.strip().lower()):
        return ""
    return _("This is not a valid e-mail address. It should look like ada@example.org.")


def password_problem(password: str, shortest: int) -> str:
    """Return the error in a new password."""
    if len(password) < shortest:
        return ngettext(
            "The password must have at least %(least)d character; yours has %(length)d.",
            "The password must have at least %(least)d characters; yours has %(length)d.",
            shortest,
        ) % {"least": shortest, "length": len(password)}
    if len(password) > MAX_PASSWORD:
        return _("The password may have at most %(most)d characters.") % {"most": MAX_PASSWORD}
    return ""


def wrong_password() -> str:
    """Return the message for a wrong password."""
    return _("This is not your password.")


def too_many(error: TooManyAttempts) -> str:
    """Return the message for too many attempts."""
    return ngettext(
        "There were too many attempts. Try again in %(minutes)d minute.",
        "There were too many attempts. Try again in %(minutes)d minutes.",
        error.wait_minutes,
    ) % {"minutes": error.wait_minutes}


def number_problem(text: str, low: float, high: float) -> str:
    """Return the error in a number that must be in a range."""
    value = parse_number(text)
    if value is None:
        return _("This is not a number.")
    if not low <= value <= high:
        return _("Enter a number from %(low)s to %(high)s.") % {
            "low": wording.number(low, _decimals(low)),
            "high": wording.number(high, _decimals(high)),
        }
    return ""


def parse_number(text: str) -> float | None:
    """Return a number as people type it, with a point or a comma; None if it is not a number."""
    try:
        value = float(text.strip().replace(",", ".").replace("\u00a0", "").replace("\u202f", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def whole_number(text: str) -> int:
    """Return a number of something that a form or address names; 0: there is none of it."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else 0


def plain_number(value: float) -> str:
    """Return a number as shown in a form."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


def _decimals(value: float) -> int:
    return 0 if value == int(value) else 2
