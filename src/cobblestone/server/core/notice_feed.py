"""The address of a volunteer's own notices: clients have no session, so the key stands in it."""

from __future__ import annotations

import hmac

from cobblestone.domain.people import User

_KEY_LETTERS = 32


def notice_key(secret: bytes, user: User) -> str:
    """Return the key of an account's notices; it reads them and nothing else, and ends when the account gets new keys."""
    text = f"notices {user.id} {user.authenticator}"
    return hmac.digest(secret, text.encode(), "sha256").hex()[:_KEY_LETTERS]


def notice_page(secret: bytes, user: User) -> str:
    """Return the page of an account's notices, with its key."""
    return f"notices.php?userid={user.id}&auth={notice_key(secret, user)}"
