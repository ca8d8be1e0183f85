"""Events, instructions and state as plain dictionaries, lists, texts and numbers, and back: for JSON and databases.

Numbers that JSON does not know (infinite ones) become texts.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, TypeVar, cast

from cobblestone.domain.errors import ConfigError
from cobblestone.policy.client.core.events import EVENTS, Event

T = TypeVar("T")
Plain = dict[str, Any]  # Any: what JSON can hold
_INFINITE = (float("inf"), float("-inf"))
_TEXTS = ("inf", "-inf", "nan")


def event_to_plain(event: Event) -> Plain:
    """Return an event as a dictionary that names its kind."""
    return {"event": type(event).__name__, **to_plain(event)}


def event_from_plain(plain: Mapping[str, Any]) -> Event:
    """Return the event.  Raises :class:`ConfigError` if it is none of ours."""
    kind = EVENTS.get(str(plain.get("event")))
    if kind is None:
        raise ConfigError(f"{plain.get('event')!r} is not an event; there are {', '.join(EVENTS)}")
    return from_plain(kind, {key: each for key, each in plain.items() if key != "event"})


def to_plain(thing: Any) -> Any:
    """Return a value of ours as JSON knows it."""
    if isinstance(thing, float) and thing in _INFINITE:
        return str(thing)
    if dataclasses.is_dataclass(thing):
        return {f.name: to_plain(getattr(thing, f.name)) for f in dataclasses.fields(thing)}
    if isinstance(thing, Mapping):
        pairs = cast("Mapping[Any, Any]", thing)
        return {str(key): to_plain(each) for key, each in pairs.items()}
    if isinstance(thing, list | tuple | set | frozenset):
        items = cast("Iterable[Any]", thing)
        return [to_plain(each) for each in (sorted(items) if isinstance(thing, set | frozenset) else items)]
    return thing


def from_plain(kind: type[T], plain: Any) -> T:
    """Return the value of type ``kind`` that :func:`to_plain` made ``plain`` of.

    Raises :class:`ConfigError` naming what does not fit.
    """
    try:
        return cast("T", _restore(kind, plain))
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise ConfigError(f"this is not a stored {kind.__name__}: {error}") from error


def _restore(kind: Any, plain: Any) -> Any:
    origin = typing.get_origin(kind)
    arguments = typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        kinds = [each for each in arguments if each is not type(None)]
        if plain is None and len(kinds) < len(arguments):
            return None
        return _restore(kinds[0], plain) if len(kinds) == 1 else _checked(tuple(kinds), plain)
    if dataclasses.is_dataclass(kind):
        return _restore_fields(cast("type", kind), _checked(Mapping, plain))
    if origin is None:
        if isinstance(kind, type) and issubclass(kind, tuple):
            return _restore_row(cast("type", kind), _listed(plain))
        if isinstance(kind, enum.EnumType):
            return kind(plain)
        return _number(plain) if kind is float else _checked(kind, plain)
    if issubclass(origin, Mapping):
        pairs = _checked(Mapping, plain).items()
        return {_key(arguments[0], key): _restore(arguments[1], each) for key, each in pairs}
    if origin is tuple and arguments[-1] is not Ellipsis:
        return tuple(_restore(a, each) for a, each in zip(arguments, _listed(plain), strict=True))
    return cast("Any", origin)([_restore(arguments[0], each) for each in _listed(plain)])


def _restore_fields(kind: type, plain: Mapping[str, Any]) -> Any:
    hints = _hints(kind)
    if unknown := plain.keys() - hints.keys():
        raise ValueError(f"unknown {', '.join(sorted(unknown))}")
    values: dict[str, Any] = {}
    for key, each in plain.items():
        try:
            values[key] = _restore(hints[key], each)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{key}: {error}") from error
    return kind(**values)


def _restore_row(kind: type, plain: list[Any]) -> Any:
    names = _hints(kind)
    if len(plain) > len(names):
        raise ValueError(f"{len(plain)} values; a {kind.__name__} has {len(names)}")
    return _restore_fields(kind, dict(zip(names, plain, strict=False)))


def _number(plain: Any) -> float:
    return float(plain if plain in _TEXTS else _checked((int, float), plain))


def _listed(plain: Any) -> Any:
    return _checked((list, tuple), plain)


def _checked(kind: Any, plain: Any) -> Any:
    if not isinstance(plain, kind) or (isinstance(plain, bool) and kind is not bool):
        raise TypeError(f"{plain!r:.80} is not possible here")
    return plain


def _key(kind: Any, key: str) -> Any:
    return kind(key)


@cache
def _hints(kind: type) -> dict[str, Any]:
    """Return the types of the fields, in their order."""
    hints = typing.get_type_hints(kind)
    return {name: hint for name, hint in hints.items() if typing.get_origin(hint) is not typing.ClassVar}
