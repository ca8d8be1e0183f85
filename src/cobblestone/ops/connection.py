"""Which project the user means, and with which token: what the environment says."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache

PROJECT_VARIABLE = "COBBLESTONE_PROJECT"
TOKEN_VARIABLE = "COBBLESTONE_TOKEN"  # noqa: S105  # the name of a variable


@dataclass(frozen=True, slots=True)
class ConnectionDefaults:
    """What holds where no argument says otherwise; empty: nothing."""

    project: str  #: address or folder
    token: str


@cache
def connection_defaults() -> ConnectionDefaults:
    """Read the variables once, and take them out of the environment.

    Settings are overridden by variables of the same prefix, so COBBLESTONE_PROJECT would else be taken for the
    settings' section ``[project]``; and no program that we start needs the token.
    """
    return ConnectionDefaults(
        project=os.environ.pop(PROJECT_VARIABLE, "").strip(),
        token=os.environ.pop(TOKEN_VARIABLE, "").strip(),
    )
