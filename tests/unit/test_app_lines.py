"""What ``cobblestone app show`` says of an app."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cobblestone.api_schema import apps as schema
from cobblestone.cli.work.app import app_lines
from cobblestone.domain.work import JobLimits, ReplicationRules

APP = schema.App(
    id=1,
    name="demo",
    title="Demo",
    deprecated=False,
    beta=False,
    show_outputs=False,
    command=[],
    stdout="",
    command_line="",
    inputs=[schema.Slot(name="in", open_name="")],
    outputs=[schema.OutputSpec(name="out", max_nbytes=50_000_000, gzip=False, optional=False)],
    comparison=schema.Comparison(kind="bitwise", options={}),
    assimilator="",
    credit=schema.AppCredit(
        system="steady", per_job=0, host_scale_check=False, partial=False, per_cpu_second=0, function=""
    ),
    limits=JobLimits(),
    rules=ReplicationRules(),
    dispatch=schema.Dispatch(
        min_version=0, non_cpu_intensive=False, homogeneous_redundancy="none", homogeneous_app_version=False,
        adaptive=False, max_jobs_on_host=0, max_jobs_in_progress=0, max_gpu_jobs_in_progress=0, max_jobs_per_rpc=0,
        max_jobs_per_day_init=0, locality=False, size_classes=[], keywords=[],
    ),
    created=0.0,
    versions=[],
)  # fmt: skip
#: Values for what is not changed by another number or word.
OTHER: dict[str, Any] = {
    "command": ["cat", "{input}"], "stdout": "out", "options": {"rtol": 0.5}, "size_classes": [1e9], "keywords": [14],
}  # fmt: skip


def leaves(value: Any, place: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the places of all that an app consists of."""
    parts = value if isinstance(value, dict) else dict(enumerate(value)) if isinstance(value, list) else {}
    found = [leaf for name, part in parts.items() for leaf in leaves(part, (*place, name))]
    return found or [place]


BUILT = msgspec.to_builtins(APP)
#: What the server decides, not the scientist; what `version` shows has lines of its own.
NOT_SET = {("id",), ("created",), ("versions",), ("deprecated",)}


@pytest.mark.parametrize("place", [leaf for leaf in leaves(BUILT) if leaf not in NOT_SET], ids=str)
def test_all_that_can_be_set_of_an_app_is_shown(place: tuple[str | int, ...]) -> None:
    other = msgspec.json.decode(msgspec.json.encode(BUILT))
    *way, last = place
    holder = other
    for step in way:
        holder = holder[step]
    old = holder[last]
    holder[last] = OTHER.get(
        str(last), not old if isinstance(old, bool) else old + 7 if isinstance(old, (int, float)) else "other"
    )
    if isinstance(old, float) or last == "max_nbytes":
        holder[last] = old * 3 or 4e6
    assert app_lines(msgspec.convert(other, schema.App)) != app_lines(APP)


def test_what_a_new_app_may_have_is_in_what_is_shown() -> None:
    """A member that is added to one is added to the other."""
    for new, shown in (
        (schema.NewApp, schema.App),
        (schema.AppChanges, schema.App),
        (schema.DispatchBody, schema.Dispatch),
        (schema.CreditBody, schema.AppCredit),
        (schema.OutputBody, schema.OutputSpec),
        (schema.InputSlotBody, schema.Slot),
    ):
        missing = {field.name for field in msgspec.structs.fields(new)} - {
            field.name for field in msgspec.structs.fields(shown)
        }
        assert missing <= {"version", "size_class_count", "copy_file", "sticky"}, new


def test_keywords_and_checks_are_shown_in_words() -> None:
    built = msgspec.to_builtins(APP)
    built["dispatch"] |= {"keywords": [14], "adaptive": True}
    text = "\n".join(app_lines(msgspec.convert(built, schema.App)))
    assert "dispatch     adaptive yes, keywords 14 " in text
    assert "dispatch     -" in "\n".join(app_lines(APP))
