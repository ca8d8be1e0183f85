"""Reasons in words."""

from __future__ import annotations

from string import Formatter

import pytest

from cobblestone.domain.reasons import reason
from cobblestone.policy.dispatch import status
from cobblestone.policy.dispatch.explain import EXPLANATIONS, Code, by_importance, explain, messages


def test_every_code_has_a_sentence():
    assert set(EXPLANATIONS) == set(Code)


@pytest.mark.parametrize("code", list(Code))
def test_sentences_can_be_filled_and_fit_into_a_message_of_the_client(code: Code):
    names = [name for _, name, _, _ in Formatter().parse(EXPLANATIONS[code].sentence) if name]
    text = explain(code, **dict.fromkeys(names, "value")).text()
    assert text.endswith(".")
    assert len(text) < 900


def names_in(sentence: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(sentence) if name}


@pytest.mark.parametrize("code", list(Code))
def test_every_refusal_has_words_for_whoever_submitted_the_job(code: Code):
    assert names_in(status.SENTENCES[code]) <= names_in(EXPLANATIONS[code].sentence)


def test_limits_come_before_preferences_and_both_before_no_tasks():
    shuffled = [
        explain(Code.NO_TASKS),
        explain(Code.BETA_APP, app="A"),
        explain(Code.HELD_TOTAL, held=1, limit=1),
    ]
    assert [each.code for each in by_importance(shuffled)] == [Code.HELD_TOTAL, Code.BETA_APP, Code.NO_TASKS]


def test_only_what_the_volunteer_can_mend_is_a_notice():
    disk = explain(Code.DISK, need_gb=1, have_gb=0)
    assert [each.priority for each in messages([disk, explain(Code.NO_TASKS)])] == ["notice", "low"]


def test_equal_messages_are_sent_once_and_their_number_is_limited():
    twice = [explain(Code.NO_TASKS), explain(Code.NO_TASKS)]
    assert len(messages(twice)) == 1
    many = [explain(Code.BETA_APP, app=str(number)) for number in range(20)]
    assert [each.reason.text()[0] for each in messages(many, limit=3)] == ["0", "1", "2"]


def test_reasons_of_others_are_messages_of_low_priority():
    assert messages([reason("elsewhere", "Something.")])[0].priority == "low"


def test_braces_in_a_value_do_no_harm():
    assert "{evil}" in explain(Code.BLOCKED, why="{evil} {0}").text()


# Situations in which a sentence was once untrue, and what it must and must not say.


@pytest.mark.parametrize(
    ("code", "true_of_all", "untrue_of_some"),
    [
        # quorum 1, and the volunteer's task failed: nobody checks it, and there is no share
        (Code.ALREADY_AT_USER, "also where yours failed", "checked by"),
        (Code.ALREADY_AT_HOST, "also where its own failed", "checked by"),
        # all apps were deprecated
        (Code.NO_APPS, "at the moment", "yet"),
        # a computer that was right for a year, and then broke
        (Code.QUOTA_PAUSED, "{bad} {bad:task|tasks}", "All tasks"),
        # a computer that has returned many tasks of the version before
        (Code.UNPROVEN, "the app's current version", "has not returned"),
    ],
)
def test_a_sentence_is_true_in_every_situation_in_which_it_is_said(
    code: Code, true_of_all: str, untrue_of_some: str
):
    sentence = EXPLANATIONS[code].sentence
    assert true_of_all in sentence
    assert untrue_of_some not in sentence


@pytest.mark.parametrize("code", [Code.QUOTA_PAUSED, Code.QUOTA_FAILING, Code.NOT_REQUESTED, Code.UNPROVEN])
def test_a_submitter_is_not_told_of_a_limit_where_there_is_another_reason(code: Code):
    assert "reached their limit" not in status.for_submitter(explain(code))
