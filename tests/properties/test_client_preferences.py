"""Preferences: every situation has one answer, with its reason; hours, load and limits hold what they promise."""

from __future__ import annotations

from dataclasses import fields

from hypothesis import given
from hypothesis import strategies as st

from cobblestone.domain.computing import ClientConfig, ComputingPreferences, Hours, Mode
from cobblestone.domain.values import changed
from cobblestone.policy.client.host.preferences import (
    LOAD_HOLD_SECONDS,
    MIN_THROTTLE,
    LoadGate,
    Situation,
    SuspendReason,
    allowed_disk,
    day_window,
    decide_allowance,
    is_within,
    next_change,
    to_core,
    update_load,
)
from cobblestone.wire.client.config import override_preferences, read_preferences, write_preferences

quarters = st.integers(0, 96).map(lambda n: n / 4)
hours = st.builds(Hours, quarters, quarters)
days = st.dictionaries(st.integers(0, 6), hours, max_size=7)
percents = st.integers(0, 100).map(float)
figures = st.integers(0, 10**6).map(lambda n: n / 64)
maybe = st.none() | st.booleans()

preferences = st.builds(
    ComputingPreferences,
    **{
        each.name: st.booleans()
        if each.type == "bool"
        else percents
        if each.name.endswith(("_pct", "_limit", "_cpu_usage"))
        else figures
        for each in fields(ComputingPreferences)
        if each.type in ("bool", "float") and each.name != "cpu_scheduling_period_minutes"
    },
    # a slice of no length is refused
    cpu_scheduling_period_minutes=st.integers(7, 10**6).map(lambda n: n / 64),
    max_ncpus=st.integers(0, 64),
    hours=hours,
    network_hours=hours,
    day_hours=days,
    day_network_hours=days,
)
situations = st.builds(
    Situation,
    now=st.just(1.8e9),
    weekday=st.integers(0, 6),
    hour=st.integers(0, 95).map(lambda n: n / 4),
    ncpus=st.integers(1, 256),
    ram_bytes=st.floats(0, 1e13),
    run_mode=st.sampled_from(Mode),
    gpu_mode=st.sampled_from(Mode),
    network_mode=st.sampled_from(Mode),
    seconds_since_start=st.floats(0, 1e6),
    benchmarks_running=st.booleans(),
    on_battery=maybe,
    battery_percent=st.none() | percents,
    battery_celsius=st.none() | percents,
    celsius=st.none() | percents,
    was_hot=st.booleans(),
    idle_seconds=st.none() | figures,
    other_load=st.none() | percents,
    others_busy=st.booleans(),
    exclusive_app=st.sampled_from(["", "game"]),
    exclusive_gpu_app=st.sampled_from(["", "game"]),
    metered=maybe,
    mobile=maybe,
    transferred_bytes=st.floats(0, 1e13),
)
configs = st.builds(ClientConfig, ncpus=st.integers(-1, 64), start_delay=figures)


@given(preferences, configs, situations)
def test_every_situation_has_an_answer_with_its_reason(
    prefs: ComputingPreferences, config: ClientConfig, situation: Situation
) -> None:
    allowance = decide_allowance(prefs, config, situation)
    for each in (allowance.cpu, allowance.gpu, allowance.network):
        assert each.allowed == (each.code == 0) == (not each.reasons)
        assert all(text and "{" not in text for text in (why.text() for why in each.reasons))
        assert each.until is None or each.until > situation.now
    assert 1 <= allowance.ncpus <= (config.ncpus if config.ncpus > 0 else situation.ncpus)
    assert 0 < allowance.throttle_percent <= 100.0
    assert 0 <= allowance.ram_bytes <= situation.ram_bytes
    assert all("{" not in why.text() for why in allowance.reasons)
    core = to_core(allowance)
    assert bool(core.cpu) == (not allowance.cpu.allowed)
    assert core.ncpus == allowance.ncpus


@given(preferences, configs, situations)
def test_gpus_never_run_when_the_cpus_may_not(
    prefs: ComputingPreferences, config: ClientConfig, situation: Situation
) -> None:
    allowance = decide_allowance(prefs, config, situation)
    assert allowance.cpu.allowed or not allowance.gpu.allowed


@given(preferences, situations)
def test_never_means_never_and_always_yields_to_the_computer_s_safety_only(
    prefs: ComputingPreferences, situation: Situation
) -> None:
    never = decide_allowance(
        prefs, ClientConfig(), changed(situation, run_mode=Mode.NEVER, network_mode=Mode.NEVER)
    )
    assert not never.cpu.allowed
    assert not never.network.allowed
    always = decide_allowance(
        prefs, ClientConfig(), changed(situation, run_mode=Mode.ALWAYS, network_mode=Mode.ALWAYS)
    )
    assert always.cpu.code in (SuspendReason.NONE, SuspendReason.BENCHMARKS, SuspendReason.OS)
    assert always.network.allowed


@given(preferences, situations, percents)
def test_more_of_the_cpus_allowed_is_never_fewer_cpus(
    prefs: ComputingPreferences, situation: Situation, percent: float
) -> None:
    both = changed(prefs, max_ncpus_pct=percent, niu_max_ncpus_pct=percent)
    more = changed(both, max_ncpus_pct=min(100.0, percent + 7), niu_max_ncpus_pct=min(100.0, percent + 7))
    if percent > 0 and not prefs.max_ncpus:
        few = decide_allowance(both, ClientConfig(), situation).ncpus
        assert decide_allowance(more, ClientConfig(), situation).ncpus >= few


@given(hours, days, st.integers(0, 6), st.integers(0, 95).map(lambda n: n / 4))
def test_the_next_change_is_where_a_walk_in_quarters_of_an_hour_finds_it(
    general: Hours, by_day: dict[int, Hours], weekday: int, hour: float
) -> None:
    def allowed(quarter: int) -> bool:
        day, at = divmod(quarter / 4, 24)
        return is_within(day_window(general, by_day, weekday + int(day)), at)

    begin = round(hour * 4)
    walked = next((q for q in range(begin + 1, begin + 8 * 96) if allowed(q) != allowed(begin)), None)
    expected = None if walked is None else (walked - begin) / 4
    assert next_change(general, by_day, weekday, hour) == expected


@given(st.lists(st.tuples(st.floats(0.1, 15), percents), max_size=30), st.integers(1, 99).map(float))
def test_the_load_of_others_is_held_and_does_not_flicker(
    steps: list[tuple[float, float]], limit: float
) -> None:
    gate, now, last_over = LoadGate(), 0.0, None
    for seconds, percent in steps:
        now += seconds
        gate = update_load(gate, percent=percent, limit=limit, now=now)
        last_over = now if percent > limit else last_over
        if percent > limit or (last_over is not None and now - last_over < LOAD_HOLD_SECONDS):
            assert gate.busy
        if last_over is None or (now - last_over >= LOAD_HOLD_SECONDS and percent <= 0.8 * limit):
            assert not gate.busy


@given(percents, percents, percents)
def test_heat_slows_down_before_it_stops(begin: float, end: float, celsius: float) -> None:
    prefs = ComputingPreferences(temperature_throttle=begin, temperature_pause=end)
    allowance = decide_allowance(prefs, ClientConfig(), Situation(now=0.0, celsius=celsius))
    assert allowance.hot == (0 < end <= celsius)
    assert allowance.throttle_percent >= MIN_THROTTLE
    assert (allowance.throttle_percent == 100.0) or 0 < begin < celsius
    again = decide_allowance(prefs, ClientConfig(), Situation(now=0.0, celsius=end - 4, was_hot=True))
    assert again.hot == (end > 0)


@given(preferences, st.floats(0, 1e14), st.floats(0, 1e14), st.floats(0, 1e14))
def test_the_disk_limit_is_the_smallest_of_all(
    prefs: ComputingPreferences, total: float, free: float, used: float
) -> None:
    allowed = allowed_disk(prefs, total=total, free=free, used=used)
    assert allowed >= 0
    assert allowed <= max(0.0, used + free - 2**30 * prefs.disk_min_free_gb)
    assert prefs.disk_max_used_gb == 0 or allowed <= 2**30 * prefs.disk_max_used_gb


@given(preferences)
def test_preferences_are_read_back_as_they_were_written(prefs: ComputingPreferences) -> None:
    found, problems = read_preferences(write_preferences(prefs).encode())
    assert problems == ()
    for each in fields(ComputingPreferences):
        one, other = getattr(found, each.name), getattr(prefs, each.name)
        assert one == other or abs(one - other) < 1e-5, each.name
    assert (
        override_preferences(ComputingPreferences(), write_preferences(prefs).encode())[0].hours
        == prefs.hours
    )
