"""What is wrong with a request, in words."""

from __future__ import annotations

import msgspec
import pytest

from cobblestone.api_schema.apps import DispatchBody, NewApp
from cobblestone.api_schema.batches import MoreJobs, NewBatch, ResultsQuery
from cobblestone.api_schema.values import find_fault
from cobblestone.cli.arguments import FLAGS, error_text
from cobblestone.sdk.api.connection import RequestRefused

LONG_NAME = (
    f"`name` is '{'x' * 60}'… (201 characters); it must be a text of at most 200 characters without line breaks and control"
    " characters."
)


def fault(kind: type, given: object, *, strict: bool = True) -> tuple[str, str]:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(given, kind, strict=strict)
    found = find_fault(caught.value, given, kind)
    assert "$" not in found.message
    assert "Expected" not in found.message
    return found.member, found.message


@pytest.mark.parametrize(
    ("given", "member", "message"),
    [
        (
            {"app": "a", "priority": 2_000_000},
            "priority",
            "`priority` is 2000000; it must be a whole number from -1,000,000 to 1,000,000.",
        ),
        (
            {"app": "a", "jobs": [{}, {"priority": "high"}]},
            "priority",
            "Job 1: `priority` is 'high'; it must be a whole number from -1,000,000 to 1,000,000.",
        ),
        (
            {"app": "a", "limits": {"rsc_fpops_est": 0}},
            "limits.rsc_fpops_est",
            "`limits.rsc_fpops_est` is 0; it must be a number above 0 and at most 1e+24.",
        ),
        ({"app": "a", "name": "x" * 201}, "name", LONG_NAME),
        ({}, "app", "`app` is missing."),
        ({"app": "a", "jobs": [{"inputs": [{}]}]}, "inputs[0].file", "Job 0: `inputs[0].file` is missing."),
        (
            {"app": "a", "jobs": [{"args": {"x": "\0"}}]},
            "args",
            "Job 0: A value in `args` must be a text of at most 4000 characters without NUL.",
        ),
        (
            {"app": "a", "jobs": [{"args": {"x" * 61: ""}}]},
            "args",
            "Job 0: Each name in `args` must be a text of at most 60 characters.",
        ),
        (
            {"app": "a", "target": {"hots": 3}},
            "target",
            "`target` has no `hots`; it can have: host, user, team.",
        ),
        ([], "", "The whole is a list of 0 entries; it must be an object with names and values."),
    ],
)
def test_a_wrong_member_is_told_with_its_value_and_what_is_allowed(given: object, member: str, message: str):
    assert fault(NewBatch, given) == (member, message)


def test_jobs_are_counted_over_all_requests_of_a_batch():
    assert fault(MoreJobs, {"first": 1000, "jobs": [{"priority": 0.5}]})[1].startswith("Job 1000: `priority`")


def test_choices_are_listed():
    assert fault(DispatchBody, {"homogeneous_redundancy": "x"})[1].endswith("one of coarse, fine, none.")
    assert fault(DispatchBody, {"adaptive": 3})[1].endswith("must be true or false.")


def test_queries_are_texts_of_numbers():
    message = "`wait` is '90'; it must be a number from 0 to 60."
    assert fault(ResultsQuery, {"wait": "90"}, strict=False) == ("wait", message)


def test_refusals_name_the_flag_that_was_typed():
    def refusal(member: str, message: str) -> RequestRefused:
        return RequestRefused(message, status=422, code="bad_body", member=member)

    text = "`limits.delay_bound` is 5; it must be a number from 60 to 9."
    assert error_text(refusal("limits.delay_bound", text)) == (
        "--delay-bound is 5; it must be a number from 60 to 9 seconds."
    )
    nested = error_text(refusal("version.files[3].open_name", "`version.files[3].open_name` is ''."))
    assert nested == "the name of a file is ''."
    assert error_text(refusal("other", "`other` is 3.")) == "`other` is 3."


def test_every_member_that_has_a_flag_exists():
    parts = msgspec.json.schema(NewApp)["$defs"], msgspec.json.schema(NewBatch)["$defs"]
    names = {name for defs in parts for struct in defs.values() for name in struct.get("properties", ())}
    assert {part.removesuffix("[]") for member in FLAGS for part in member.split(".")} <= names
