"""Every bound of a setting holds: its own, and that of its kind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import get_args

import annotated_types
import pytest
from pydantic import ValidationError

from cobblestone.account_manager.core.folder import ManagerSettings
from cobblestone.domain.errors import ConfigError
from cobblestone.ops.settings import FileSettings, Section, Settings, parse_settings
from cobblestone.statistics.folder import StatisticsSettings

ONE_MORE = 1 + 1e-9


def sections(kind: type[FileSettings]) -> Iterator[type[Section]]:
    for field in kind.model_fields.values():
        candidates = [field.annotation, *get_args(field.annotation)]
        yield from (each for each in candidates if isinstance(each, type) and issubclass(each, Section))


def just_outside(section: type[Section]) -> Iterator[tuple[str, float]]:
    """Yield names of numbers, and values that are slightly too small or too large for them."""
    for name, field in section.model_fields.items():
        if field.annotation not in (int, float):
            continue
        step = 1 if field.annotation is int else 1e-6
        for bound in field.metadata:
            if isinstance(bound, annotated_types.Ge):
                yield name, float(str(bound.ge)) - step
            elif isinstance(bound, annotated_types.Gt):
                yield name, float(str(bound.gt))
            elif isinstance(bound, annotated_types.Le):
                yield name, (float(str(bound.le)) + step) * ONE_MORE
            elif isinstance(bound, annotated_types.Lt):
                yield name, float(str(bound.lt))
        yield name, -1
        yield name, 2e18
        yield name, float("nan")


@pytest.mark.parametrize("kind", [Settings, ManagerSettings, StatisticsSettings])
def test_a_value_outside_of_a_bound_is_refused(kind: type[FileSettings]):
    taken: list[tuple[str, str, float]] = []
    for section in sections(kind):
        for name, value in just_outside(section):
            whole = section.model_fields[name].annotation is int and value == value
            with suppress(ValidationError):
                section.model_validate({name: int(value) if whole else value})
                taken.append((section.__name__, name, value))
    assert taken == []


def test_an_address_that_lacks_only_its_last_slash_is_told_so() -> None:
    for values, kind in (
        ({"project": [{"name": "one", "url": "https://one.example.org"}]}, StatisticsSettings),
        ({"site": {"url": "https://statistics.example.org"}}, StatisticsSettings),
    ):
        with pytest.raises(
            ConfigError, match=r"url = 'https://\S+' is not allowed: it must end with a slash\."
        ):
            parse_settings(values, source="site.toml", kind=kind)
    with pytest.raises(ConfigError, match="should match pattern"):
        parse_settings(
            {"site": {"url": "statistics.example.org"}}, source="site.toml", kind=StatisticsSettings
        )
