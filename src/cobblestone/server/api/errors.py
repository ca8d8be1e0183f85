"""Who asks the API without a token that is good for it, and what to do."""

from __future__ import annotations

from cobblestone.service.http.api import Tokens
from cobblestone.service.http.problems import ApiProblem

TOKENS = Tokens(
    command="cobblestone token create NAME",
    advice="Ask the project's operator for one: cobblestone token create NAME --scope submit",
)


def unauthorised(message: str, *, code: str = "unauthorised") -> ApiProblem:
    """No token, or not one of the right person."""
    return TOKENS.unauthorised(message, code=code)
