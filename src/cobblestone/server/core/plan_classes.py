"""The project's plan classes: ``plan_classes.toml`` in its folder."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import msgspec

from cobblestone.api_schema.values import find_fault
from cobblestone.domain.apps import CONTAINER_CLASS, PlanClass, gpu_class
from cobblestone.domain.errors import ConfigError

FILE_NAME = "plan_classes.toml"
MAX_BYTES = 1_000_000

TEMPLATE = """\
# Plan classes: which computers may run an app version, and with how much of which processor.
# One table per class; its name is what `cobblestone app version add --plan-class NAME` refers to. Examples:
#
# [avx2]                     # one CPU with AVX2
# cpu_features = ["avx2"]
# projected_flops_scale = 1.3
#
# [mt]                       # up to 16 threads; the program is told --nthreads N
# min_ncpus = 2
# max_threads = 16
# nthreads_command_line = true
#
# [docker]                   # apps in containers (--container); known without being written, here with more conditions
# docker = true
# min_memory_mb = 4000
#
# [cuda]                     # an NVIDIA GPU with 2 GB; as --gpu nvidia --gpu-memory 2GB, with more conditions
# gpu_type = "NVIDIA"
# min_gpu_ram_mb = 2000
# cpu_frac = 0.05
"""

#: Classes that every project has; its file may ask for more under the same names.
BUILT_IN = {CONTAINER_CLASS: PlanClass(name=CONTAINER_CLASS, docker=True)}


class PlanClasses(Mapping[str, PlanClass]):
    """Those of the project's file, and those that every project has; of the latter only that of containers is listed."""

    def __init__(self, written: Mapping[str, PlanClass]) -> None:
        self._written = {**BUILT_IN, **written}

    def __getitem__(self, name: str) -> PlanClass:
        """Return a class; KeyError if there is none."""
        found = self._written.get(name) or gpu_class(name)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._written)

    def __len__(self) -> int:
        return len(self._written)


_KNOWN = [field.name for field in fields(PlanClass) if field.name != "name"]


def load_plan_classes(folder: Path) -> Mapping[str, PlanClass]:
    """Read the plan classes of the project in ``folder``, by name; built-in ones if there is no file.

    Raises:
        ConfigError: the file cannot be read, is not TOML, or has an unknown key or a bad value; the text says
            which file, class and key, and what is allowed.
    """
    path = folder / FILE_NAME
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{path} is larger than {MAX_BYTES} bytes. Is it the right file?")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return PlanClasses({})
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from error
    return PlanClasses(parse_plan_classes(text, source=str(path)))


def parse_plan_classes(text: str, *, source: str) -> Mapping[str, PlanClass]:
    """Read plan classes from TOML; see :func:`load_plan_classes`."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source} is not valid TOML: {error}. Correct that line and try again.") from error
    return {name: _plan_class(name, values, source) for name, values in tables.items()}


def _plan_class(name: str, values: object, source: str) -> PlanClass:
    where = f"{source}: plan class {name!r}"
    if not name or len(name) > 60 or not all(letter.isalnum() or letter in "_-." for letter in name):
        raise ConfigError(f"{where}: a name is 1 to 60 letters, digits, '_', '-' and '.'.")
    if not isinstance(values, dict):
        raise ConfigError(f"{where} must be a table: write [{name}] on a line of its own.")
    given: dict[str, Any] = {str(key): value for key, value in values.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # TOML values, checked below
    for key in given:
        if key not in _KNOWN:
            close = difflib.get_close_matches(key, _KNOWN, n=1, cutoff=0.5)
            hint = f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(_KNOWN)}."
            raise ConfigError(f"{where}: unknown key {key!r}. {hint}")
    table = {**given, "name": name}
    try:
        found = msgspec.convert(table, PlanClass)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {find_fault(error, table, PlanClass).message}") from error
    _check_numbers(found, where)
    if name == CONTAINER_CLASS and not found.docker:
        text = f"{where} is that of apps in containers: write docker = true, or choose another name."
        raise ConfigError(text)
    for key, pattern in (("os_regex", found.os_regex), ("cpu_vendor_regex", found.cpu_vendor_regex)):
        try:
            re.compile(pattern)
        except re.error as error:
            text = f"{where}: {key} = {pattern!r} is not a regular expression: {error}."
            raise ConfigError(text) from error
    return found


def _check_numbers(plan_class: PlanClass, where: str) -> None:
    for field in fields(PlanClass):
        value = getattr(plan_class, field.name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if not 0 <= value < 1e12:  # also refuses NaN
            default = "" if field.default is MISSING else f" The default is {field.default}."
            raise ConfigError(f"{where}: {field.name} = {value} must be 0 or more, and finite.{default}")
