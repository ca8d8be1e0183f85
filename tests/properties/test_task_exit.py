"""Every end of a job's process has a meaning, and no finished work is thrown away."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cobblestone.policy.client.host.tasks import (
    MAX_DEFERRAL,
    MAX_PREMATURE_ENDS,
    STOP_SIGNALS,
    AbortOrder,
    Ending,
    FinishFile,
    ProcessEnd,
    TemporaryExit,
    judge_exit,
)

finishes = st.none() | st.builds(
    FinishFile, status=st.sampled_from([0, 0, 0, 1, -5]), message=st.text(max_size=9)
)
temporary = st.none() | st.builds(
    TemporaryExit, seconds=st.floats(allow_nan=True), reason=st.text(max_size=9)
)
ends = st.builds(
    ProcessEnd,
    exit_code=st.integers(0, 255),
    signal=st.sampled_from([0, 0, 0, 1, 9, 11, 15, 31]),
    codes_hide_signals=st.booleans(),
    finish=finishes,
    temporary=temporary,
    quit_ordered=st.booleans(),
    abort=st.none() | st.builds(AbortOrder, exit_status=st.integers(190, 210)),
    killed_while_lingering=st.booleans(),
    out_of_memory=st.booleans(),
)
counts = st.integers(0, MAX_PREMATURE_ENDS + 1)


@given(ends, counts)
def test_every_end_has_exactly_one_meaning_and_failures_have_a_number_and_words(
    end: ProcessEnd, count: int
) -> None:
    verdict = judge_exit(end, premature_ends=count)
    if verdict.ending is Ending.FAILED:
        assert verdict.exit_status != 0
        assert verdict.text
    if verdict.ending is Ending.FINISHED:
        assert verdict.exit_status == 0
        assert end.finish is not None
    if verdict.counts_as_premature:
        assert verdict.ending in (Ending.RESTART, Ending.POSTPONED)
        assert count < MAX_PREMATURE_ENDS
    assert 0.0 <= verdict.delay_seconds <= MAX_DEFERRAL


@given(ends, counts)
def test_a_good_finish_file_is_a_success_unless_the_job_was_aborted_or_failed(
    end: ProcessEnd, count: int
) -> None:
    if end.finish is None or end.finish.status != 0 or end.abort is not None:
        return
    clean = end.signal == 0 and end.exit_code == 0
    if clean or end.killed_while_lingering:
        assert judge_exit(end, premature_ends=count).ending is Ending.FINISHED


@given(ends, counts)
def test_our_own_orders_never_count_against_the_job(end: ProcessEnd, count: int) -> None:
    verdict = judge_exit(end, premature_ends=count)
    if end.abort is not None:
        assert (verdict.ending, verdict.exit_status) == (Ending.ABORTED, end.abort.exit_status)
    elif end.quit_ordered and end.temporary is None:
        assert verdict.ending in (Ending.STOPPED, Ending.FINISHED)


@given(st.sampled_from(sorted(STOP_SIGNALS)), counts)
def test_a_hidden_signal_means_the_same_as_an_open_one(number: int, count: int) -> None:
    open_one = judge_exit(ProcessEnd(signal=number), premature_ends=count)
    hidden = judge_exit(ProcessEnd(exit_code=128 + number, codes_hide_signals=True), premature_ends=count)
    assert open_one == hidden


def test_a_file_beyond_the_bound_is_the_error_for_disk_space() -> None:
    for end in (ProcessEnd(signal=25), ProcessEnd(exit_code=153, codes_hide_signals=True)):
        assert (judge_exit(end).ending, judge_exit(end).exit_status) == (Ending.FAILED, 196)
