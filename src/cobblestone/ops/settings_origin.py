"""The origin of the value of each setting."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path

from cobblestone.ops.environment import FILE_NAME
from cobblestone.ops.settings import ENVIRONMENT_PREFIX, load_settings, sections


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingWithOrigin:
    """One setting."""

    key: str
    value: object
    origin: str  #: ``default``, the settings file, or the environment variable


def settings_with_origin(folder: Path) -> list[SettingWithOrigin]:
    """Return all settings of a project with their origin.

    Raises:
        ConfigError: the settings are wrong.
    """
    settings = load_settings(folder)
    path = folder / FILE_NAME
    in_file = tomllib.loads(path.read_text(encoding="utf-8"))
    environment = {name.upper() for name in os.environ}
    found: list[SettingWithOrigin] = []
    for name, section in sections().items():
        values = getattr(settings, name)
        for key in section.model_fields:
            whole = f"{ENVIRONMENT_PREFIX}{name}".upper()
            of_file = str(path) if key in in_file.get(name, {}) else "default"
            variables = (f"{whole}__{key}".upper(), whole)
            origin = next((each for each in variables if each in environment), of_file)
            found.append(SettingWithOrigin(key=f"{name}.{key}", value=getattr(values, key), origin=origin))
    return found
