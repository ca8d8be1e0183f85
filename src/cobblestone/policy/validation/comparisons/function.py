"""``python``: the project's own function compares, which a worker process of the validator runs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cobblestone.domain.errors import ConfigError
from cobblestone.domain.reasons import Reason
from cobblestone.policy.validation.archives import ReadLimits
from cobblestone.policy.validation.comparisons.kind import Files, Options, ReadsOutputs

_FUNCTION = re.compile(r"([\w.-]+(?:/[\w.-]+)*\.py):([A-Za-z_]\w*)")


class PythonFunction(ReadsOutputs):
    """A function of the project."""

    name = "python"
    syntax = "python:FILE.py:FUNCTION"

    def parse(self, text: str) -> dict[str, str | float]:
        """File below the project's folder, and function; also as ``function=FILE.py:FUNCTION``."""
        text, *others = text.removeprefix("function=").split(",")
        if others:
            name = others[0].partition("=")[0].strip()
            raise ConfigError(f"python comparison: {name!r} is no option; there is only the function")
        if _FUNCTION.fullmatch(text) is None or ".." in text:
            raise ConfigError(
                f"python comparison: {text!r} must name a file in the project's folder and a function, "
                "for example python:validate.py:compare"
            )
        return {"function": text}

    def project_function(self, options: Options) -> str:
        """Return the function that the rule names."""
        return str(options["function"])

    def differences(self, options: Options, a: Files, b: Files, limits: ReadLimits) -> Iterator[Reason]:
        """Refuse: policy runs no foreign code."""
        raise ConfigError("a python comparison is run by the validator, not here")
