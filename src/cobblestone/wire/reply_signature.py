"""Signatures of answers: that they come from who knows the token, to this question, now.

Key is the SHA-256 of the token, which both sides have: the one who asks has the token, the one who answers keeps its hash alone.
Signed are the time, method and address of the request, and the hashes of both bodies; so an answer fits no other question, and an
old one is told from a new one.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

HEADER = "Cobblestone-Signature"
MAX_AGE_SECONDS = 600.0
"""Clocks may differ by so much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedExchange:
    """A question and its answer."""

    method: str
    target: str  #: path below ``/api/v1`` and query, as sent
    question: bytes
    answer: bytes


def sign_reply(token: str, exchange: SignedExchange, *, now: float) -> str:
    """Return the header's text: Unix seconds, a full stop, and 64 hexadecimal digits."""
    time = str(int(now))
    parts = (
        time,
        exchange.method,
        exchange.target,
        hashlib.sha256(exchange.question).hexdigest(),
        hashlib.sha256(exchange.answer).hexdigest(),
    )
    key = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
    return f"{time}.{hmac.new(key, chr(10).join(parts).encode(), hashlib.sha256).hexdigest()}"


def reply_is_signed(token: str, exchange: SignedExchange, signature: str, *, now: float) -> bool:
    """Whether an answer was signed for this question, and lately."""
    time, _, _ = signature.partition(".")
    if not (time.isascii() and time.isdecimal() and len(time) < 17) or abs(now - int(time)) > MAX_AGE_SECONDS:
        return False
    return hmac.compare_digest(sign_reply(token, exchange, now=int(time)), signature)
