"""Words of the operator's pages for what the program calls by fixed names: states, parts of the server, actions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import msgspec

from cobblestone.service.languages import N_
from cobblestone.service.languages import gettext as _

_WORDS = (
    # states of batches
    N_("init"), N_("in progress"), N_("complete"), N_("retired"),
    # of jobs
    N_("waiting"), N_("running"), N_("done"), N_("failed"), N_("cancelled"),
    # of parts of the server
    N_("failing"), N_("stuck"), N_("not running"),
    # actions
    N_("advance roll-out"), N_("hold roll-out"), N_("start roll-out"), N_("roll back version"), N_("block host"),
    N_("unblock host"), N_("block user"), N_("unblock user"), N_("cancel batch"), N_("retry batch"), N_("cancel workunit"),
    N_("retry workunit"), N_("set role"), N_("delete user"), N_("reset password"), N_("send password reset"),
    N_("publish news"), N_("edit news"), N_("withdraw news"), N_("repair"),
    # what people are asked to agree to
    N_("terms"), N_("statistics"),
)  # fmt: skip

_CALLED = {"aborted": "cancelled"}  # what the family's name of a state is called by those who do it
_SHOWN = 160


def word(name: str) -> str:
    """Return a fixed name in the language of the page; one that is not known stays as it is."""
    text = name.lower().replace("_", " ")
    text = _CALLED.get(text, text)
    return _(text) if text in _WORDS else text


@dataclass(frozen=True, slots=True)
class Change:
    """One value that an action changed; an empty text: it was not there, or is not any more."""

    name: str
    before: str
    after: str


def changes(before: str, after: str) -> list[Change]:
    """Return what differs between the two values of an entry of the audit log, which are JSON."""
    old, new = dict(_leaves("", msgspec.json.decode(before))), dict(_leaves("", msgspec.json.decode(after)))
    names = [*old, *(name for name in new if name not in old)]
    return [
        Change(name, old.get(name, ""), new.get(name, ""))
        for name in names
        if old.get(name, "") != new.get(name, "")
    ]


def _leaves(name: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield the single values of nested ones, with dotted names."""
    if isinstance(value, dict):
        for key, item in cast("dict[str, object]", value).items():
            yield from _leaves(f"{name}.{key}".lstrip("."), item)
    elif value is not None:
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        yield name.replace("_", " "), text if len(text) <= _SHOWN else text[: _SHOWN - 2] + " …"
