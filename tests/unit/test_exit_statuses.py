"""Exit statuses in words: what the family's clients, the systems and Windows say."""

from __future__ import annotations

import pytest

from cobblestone.domain.reasons import exit_advice, exit_cause, meaning_of


@pytest.mark.parametrize(
    ("status", "word"),
    [
        (-131, "larger than allowed"),
        (-177, "exceeded one of its limits"),
        (-178, "an unknown argument"),
        (-186, "could not be downloaded"),
        (195, "program that the task started"),
        (197, "longer than allowed"),
        (203, "aborted on the computer by its user"),
        (206, "could not be started"),
        (139, "crashed"),
        (137, "killed"),
        (-1073741819, "crashed"),
        (0xC0000005, "crashed"),
        (-1073741515, "library is missing"),
        (0x40010004, "ended from outside"),
    ],
)
def test_what_clients_and_systems_report_is_said_in_words_with_a_remedy(status: int, word: str) -> None:
    assert word in exit_cause(status).text()
    found = meaning_of(status)
    assert found is not None
    assert exit_advice(status).text().endswith(f"{found.meaning} {found.remedy}")


@pytest.mark.parametrize("status", [1, 2, 42, 127, 160, 255, 256, -2, 2**31 - 1, -(2**31)])
def test_a_programs_own_status_is_given_as_it_is(status: int) -> None:
    assert meaning_of(status) is None
    assert exit_advice(status).text().endswith("). The end of the task's error output says more.")


def test_every_status_of_the_table_is_one_sentence_with_one_remedy() -> None:
    found = [meaning_of(status) for status in (*range(-1300, 300), *range(0xC0000000, 0xC0000500))]
    known = [each for each in found if each is not None]
    assert len(known) > 50
    for each in known:
        for part in (each.meaning.text(), each.remedy.text()):
            assert part[0] in "`" or part[0].isupper()
            assert part.endswith(".")
