"""What must hold for the accounting of an account manager, whatever clients report."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cobblestone.domain.values import DAY
from cobblestone.policy.account_manager.accounting import (
    CARRIED_SECONDS,
    CREDIT_PER_FLOP,
    MAX_CPUS,
    NOTHING,
    Amounts,
    ContactAccounting,
    HostLimits,
    Meter,
    ReportRecord,
    count_contact,
    settled,
    speed_limit,
    total,
)

FLOPS = 1e10
LIMITS = HostLimits(ncpus=4, ngpus=1, cpu_flops=FLOPS, gpu_flops=1e12)
EC = FLOPS * CREDIT_PER_FLOP  #: credit a second of one CPU at the limit


@dataclass
class Host:
    """One computer's accounting, contact by contact."""

    limits: HostLimits = LIMITS
    meter: Meter | None = None
    records: dict[int, ReportRecord] = field(default_factory=dict[int, ReportRecord])
    ledger: list[tuple[int, Amounts, Amounts]] = field(default_factory=list[tuple[int, Amounts, Amounts]])
    limited: list[str] = field(default_factory=list[str])

    def contact(self, now: float, answer: int | None = None, /, **reports: Amounts) -> ContactAccounting:
        by_id = {int(name[1:]): amounts for name, amounts in reports.items()}
        found = count_contact(self.meter, self.records, by_id, self.limits, now=now, answer=answer)
        self.meter = found.meter
        self.records.update(found.records)
        self.ledger += [(entry.project_id, entry.counted, entry.kept_back) for entry in found.entries]
        self.limited += [limit for entry in found.entries for limit in entry.limits]
        return found

    @property
    def counted(self) -> Amounts:
        return total(counted for _, counted, _ in self.ledger)


def cpu(seconds: float, flops: float = FLOPS) -> Amounts:
    return Amounts(cpu_time=seconds, cpu_ec=seconds * flops * CREDIT_PER_FLOP)


amounts = st.builds(
    Amounts, *(st.floats(0, 1e12) for _ in range(4)), *(st.integers(0, 10**6).map(float) for _ in range(2))
)
steps = st.lists(
    st.tuples(st.floats(-DAY, 30 * DAY), st.dictionaries(st.integers(1, 3), amounts, max_size=3)), max_size=8
)
limits = st.builds(
    HostLimits,
    ncpus=st.integers(0, 5000),
    ngpus=st.integers(0, 200),
    cpu_flops=st.floats(0, 1e18),
    gpu_flops=st.floats(0, 1e18),
    n_young=st.integers(1, 10_000),
)


@given(steps, limits)
@example(
    [(60.0, {1: NOTHING}), (60.0, {1: cpu(1e6)})],
    HostLimits(ncpus=1, ngpus=0, cpu_flops=FLOPS, gpu_flops=0.0, n_young=1),
)
def test_nothing_that_was_reported_is_lost_and_nothing_is_counted_beyond_the_limits(
    contacts: list[tuple[float, dict[int, Amounts]]], limit: HostLimits
):
    host = Host(limits=limit)
    now = first = 1e9
    host.contact(now)
    new: dict[int, Amounts] = dict.fromkeys((1, 2, 3), NOTHING)
    latest = now
    for step, reports in contacts:
        now += step
        latest = max(latest, now)
        for id_, reported in reports.items():
            before = host.records.get(id_)
            mark = None if before is None else before.reported
            if before is None or mark is None:
                continue
            if reported.at_least(mark):
                new[id_] += reported.rises(mark)
            elif before.fallen is not None and reported.at_least(before.fallen):
                new[id_] += reported.rises(before.fallen)
        host.contact(now, **{f"p{id_}": each for id_, each in reports.items()})
    for id_, expected in new.items():
        record = host.records.get(id_, ReportRecord())
        counted = total(each for number, each, _ in host.ledger if number == id_)
        found = counted + record.held + record.disputed
        assert found.astuple() == pytest.approx(expected.astuple(), rel=1e-6, abs=1e-3)
        kept = total(each for number, _, each in host.ledger if number == id_)
        assert kept.astuple() == pytest.approx((record.held + record.disputed).astuple(), rel=1e-6, abs=1e-3)
    counted = host.counted
    wall = latest - first
    assert counted.cpu_time <= min(limit.ncpus, MAX_CPUS) * wall * (1 + 1e-9) + 1e-3
    assert counted.cpu_ec <= counted.cpu_time * limit.cpu_flops * CREDIT_PER_FLOP * (1 + 1e-9) + 1e-3
    assert all(each >= -1e-9 for each in counted.astuple())


@given(st.floats(0, 1e9), st.floats(1, 100), st.floats(60, 30 * DAY))
def test_twice_the_claim_is_never_worth_less(seconds: float, factor: float, elapsed: float):
    small, large = Host(), Host()
    for host, claim in ((small, seconds), (large, seconds * factor)):
        host.contact(0.0, p1=NOTHING)
        host.contact(elapsed, p1=cpu(claim))
    assert large.counted.cpu_ec >= small.counted.cpu_ec * (1 - 1e-9)
    assert large.counted.cpu_time >= small.counted.cpu_time * (1 - 1e-9)


@given(st.integers(1, 2000), st.integers(1, 2000))
def test_more_devices_are_never_worth_less(one: int, other: int):
    results: list[float] = []
    for ncpus in sorted((one, other)):
        host = Host(limits=HostLimits(ncpus=ncpus, ngpus=0, cpu_flops=FLOPS, gpu_flops=0.0))
        host.contact(0.0, p1=NOTHING)
        host.contact(DAY, p1=cpu(1e9))
        results.append(host.counted.cpu_ec)
    assert results[1] >= results[0]


def test_an_honest_computer_is_counted_in_full_however_often_it_calls():
    for step in (600.0, 3600.0, DAY):
        host = Host()
        for n in range(1 + int(10 * DAY / step)):
            host.contact(n * step, p1=cpu(2 * n * step), p2=cpu(2 * n * step, FLOPS / 2))
        assert host.counted.cpu_time == pytest.approx(4 * 10 * DAY)
        assert host.counted.cpu_ec == pytest.approx(3 * 10 * DAY * EC)
        assert not host.limited


def test_a_computer_with_a_past_begins_with_nothing_and_goes_on_from_its_totals():
    host = Host()
    found = host.contact(0.0, p1=cpu(1e8))
    assert found.notes == {1: "first_contact"}
    host.contact(DAY, p1=cpu(1e8 + DAY), p2=cpu(1e8))
    assert host.counted.cpu_time == pytest.approx(DAY)


def test_after_an_outage_of_the_network_everything_is_counted():
    host = Host()
    host.contact(0.0, p1=NOTHING)
    host.contact(20 * DAY, p1=cpu(4 * 20 * DAY))
    assert host.counted.cpu_time == pytest.approx(4 * 20 * DAY)


def test_what_was_too_much_is_counted_when_there_is_room_again():
    host = Host()
    host.contact(0.0, p1=NOTHING)
    host.contact(DAY, p1=cpu(6 * DAY))
    assert host.counted.cpu_time == pytest.approx(4 * DAY)
    assert "device_time" in host.limited
    host.contact(2 * DAY, p1=cpu(6 * DAY))
    assert host.counted.cpu_time == pytest.approx(6 * DAY)
    assert host.counted.cpu_ec == pytest.approx(6 * DAY * EC)


def test_a_model_that_becomes_known_is_counted_afterwards():
    host = Host()
    host.contact(0.0, p1=NOTHING)
    host.contact(DAY, p1=cpu(4 * DAY, 3 * FLOPS))
    assert host.counted.cpu_ec == pytest.approx(4 * DAY * EC)
    assert host.limited == ["speed"]
    host.limits = HostLimits(ncpus=4, ngpus=1, cpu_flops=3 * FLOPS, gpu_flops=1e12)
    host.contact(DAY + 1, p1=cpu(4 * DAY, 3 * FLOPS))
    assert host.counted.cpu_ec == pytest.approx(3 * 4 * DAY * EC)


def test_a_room_full_of_equal_computers_is_counted_in_full_once_it_is_a_week_old():
    crowd = HostLimits(ncpus=4, ngpus=0, cpu_flops=FLOPS, gpu_flops=0.0, n_young=80)
    host = Host(limits=crowd)
    for day in range(7):
        host.contact(day * DAY, p1=cpu(4 * day * DAY))
    assert host.counted.cpu_time == pytest.approx(0.1 * 4 * 6 * DAY)
    assert set(host.limited) == {"crowd"}
    host.contact(7 * DAY, p1=cpu(4 * 7 * DAY))
    assert host.counted.cpu_time == pytest.approx(4 * 7 * DAY)
    assert host.records[1].disputed.empty


# -- cheats ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [10.0, 1e2, 1e9, 1e12])
def test_an_inflated_speed_or_time_earns_what_the_model_can_do_at_most(factor: float):
    host = Host()
    for day in range(31):
        host.contact(day * DAY, p1=cpu(4 * day * DAY * factor, FLOPS * factor))
    assert host.counted.cpu_ec <= 4 * 30 * DAY * EC * (1 + 1e-9)


def test_several_projects_at_once_share_the_time_of_one_computer():
    host = Host()
    for day in range(31):
        host.contact(day * DAY, **{f"p{n}": cpu(4 * day * DAY) for n in range(1, 11)})
    assert host.counted.cpu_ec <= 4 * 30 * DAY * EC * (1 + 1e-9)


def test_totals_that_go_back_and_forth_count_the_time_of_one_computer():
    host = Host()
    for hour in range(30 * 24):
        high = hour % 2 == 0
        host.contact(hour * 3600.0, p1=cpu(1e9 + hour * 3600.0) if high else cpu(hour * 3600.0))
    assert host.counted.cpu_time == pytest.approx(29.9 * DAY, rel=0.01)


def test_a_client_that_began_anew_loses_one_contact_only():
    host = Host()
    host.contact(0.0, p1=cpu(5e6))
    assert host.contact(DAY, p1=cpu(1000.0)).notes == {1: "fell"}
    assert host.contact(2 * DAY, p1=cpu(1000.0 + DAY)).notes == {1: "restarted"}
    assert host.counted.cpu_time == pytest.approx(DAY)


def test_a_contact_that_is_sent_again_counts_nothing():
    host = Host()
    host.contact(0.0, p1=NOTHING)
    host.contact(DAY, p1=cpu(DAY))
    for _ in range(5):
        host.contact(DAY, p1=cpu(DAY))
    assert host.counted.cpu_time == pytest.approx(DAY)


def test_old_contacts_that_are_sent_again_bring_no_work_twice():
    host = Host()
    done = [cpu(n * DAY) for n in range(10)]
    for n, totals in enumerate(done):
        host.contact(n * DAY, n, p1=totals)
    for again in ([3, 3], [3, 4, 5], [2, 2, 2, 2], [0, 9]):
        for n in again:
            host.contact(10 * DAY, n, p1=done[n])
    host.contact(30 * DAY, 10, p1=cpu(10 * DAY))
    assert host.counted.cpu_time == pytest.approx(10 * DAY)


def test_what_finds_no_room_for_weeks_is_for_the_operator():
    host = Host()
    host.contact(0.0, p1=NOTHING)
    for day in range(1, 28):
        host.contact(day * DAY, p1=cpu(4 * day * DAY, 1.2 * FLOPS))
    assert host.records[1].held.cpu_ec > 0
    assert host.records[1].disputed.empty
    for day in range(28, 31):
        host.contact(day * DAY, p1=cpu(4 * day * DAY, 1.2 * FLOPS))
    assert host.records[1].disputed.cpu_ec == pytest.approx(0.2 * 4 * 30 * DAY * EC, rel=0.1)
    assert host.records[1].held.cpu_ec < 0.2 * 4 * 3 * DAY * EC


def test_a_clock_that_goes_back_loses_nothing_and_gives_nothing():
    host = Host()
    host.contact(10 * DAY, p1=NOTHING)
    host.contact(9 * DAY, p1=cpu(DAY))
    assert host.counted.empty
    host.contact(11 * DAY, p1=cpu(2 * DAY))
    assert host.counted.cpu_time == pytest.approx(2 * DAY)


def test_a_flood_of_new_computers_is_worth_the_crowd_at_most_in_the_first_week():
    n = 168
    earned = 0.0
    for born in range(n):
        host = Host(limits=HostLimits(ncpus=4, ngpus=0, cpu_flops=FLOPS, gpu_flops=0.0, n_young=n))
        for hour in range(born, n, 24):
            host.contact(hour * 3600.0, p1=cpu(4 * 3600.0 * hour))
        earned += host.counted.cpu_time
    assert earned <= 8 * 4 * 7 * DAY


def test_a_long_rest_is_worth_a_week_at_most():
    host = Host()
    host.contact(0.0, p1=NOTHING)
    for day in range(365):
        host.contact(day * DAY, p1=NOTHING)
    host.contact(365 * DAY, p1=cpu(1e9))
    assert host.counted.cpu_time <= 4 * (CARRIED_SECONDS + DAY) * (1 + 1e-9)


def test_no_computer_has_more_devices_than_the_largest_machines():
    host = Host(HostLimits(ncpus=10_000, ngpus=1000, cpu_flops=FLOPS, gpu_flops=1e12))
    host.contact(0.0, p1=NOTHING)
    host.contact(100.0, p1=Amounts(cpu_time=1e9, gpu_time=1e9))
    assert (host.counted.cpu_time, host.counted.gpu_time) == pytest.approx((512 * 100, 16 * 100))


def test_a_long_rest_of_a_gpu_is_worth_a_week_at_most():
    host = Host()
    host.contact(0.0, p1=NOTHING)
    host.contact(100 * DAY, p1=NOTHING)
    host.contact(101 * DAY, p1=NOTHING)
    host.contact(102 * DAY, p1=Amounts(gpu_time=1e9))
    assert host.counted.gpu_time == pytest.approx(CARRIED_SECONDS + DAY)


def test_a_job_takes_a_second_at_least():
    host = Host()
    host.contact(0.0, p1=NOTHING)
    host.contact(1000.0, p1=Amounts(cpu_time=100.0, njobs_success=1e6))
    assert host.counted.njobs_success == pytest.approx(100.0)


def test_an_operator_can_count_or_forget_what_was_kept_back():
    host = Host()
    host.contact(0.0, p1=NOTHING)
    host.contact(DAY, p1=cpu(100 * DAY))
    record = host.records[1]
    assert record.disputed.cpu_time == pytest.approx((100 - 4 - 28) * DAY)
    emptied, kept = settled(record)
    assert kept.cpu_time == pytest.approx(96 * DAY)
    assert (emptied.held, emptied.disputed, emptied.reported) == (NOTHING, NOTHING, record.reported)


def test_the_speed_of_a_model_is_what_a_majority_of_other_accounts_says():
    assert speed_limit([], 1e10) == 1e10
    honest = [2e10] * 12
    assert speed_limit(honest, 1e10) == pytest.approx(0.25 * 1e10 + 0.75 * 3e10)
    assert speed_limit([*honest, *[1e30] * 11], 1e10) < 3e10
    grown = [speed_limit([2e10] * n, 1e10) for n in range(20)]
    assert grown == sorted(grown)
