"""The volunteer's files: situations and their answers as a table, venues, overrides, typing errors, and changes undone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cobblestone.client.records.folders import PreferenceFiles
from cobblestone.domain.computing import (
    AppConfig,
    ClientConfig,
    ComputingPreferences,
    ExcludedGpu,
    Hours,
    Mode,
    VersionUsage,
)
from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.domain.hosts import Coprocessor
from cobblestone.policy.client.core.reasons import sentence, why
from cobblestone.policy.client.host import preferences
from cobblestone.policy.client.host.preferences import (
    Situation,
    SuspendReason,
    allowed_disk,
    decide_allowance,
)
from cobblestone.policy.client.host.tasks import override_usage, unmatched_entries
from cobblestone.wire.client.config import (
    override_preferences,
    read_app_config,
    read_client_config,
    read_preferences,
)

NOON: dict[str, Any] = {"now": 1.8e9, "weekday": 3, "hour": 12.0, "ncpus": 8, "ram_bytes": 16e9}
USED: dict[str, Any] = {"idle_seconds": 10.0}
PREFS = ComputingPreferences()

TABLE = [
    # preferences, situation, CPU, GPU, network, and a part of the reason
    ({}, {}, "NONE", "NONE", "NONE", ""),
    ({}, USED, "NONE", "USER_ACTIVE", "NONE", "counts as not in use after 3.0 minutes"),
    ({"run_if_user_active": False}, USED, "USER_ACTIVE", "USER_ACTIVE", "USER_ACTIVE", "is in use"),
    ({"run_if_user_active": False}, {"idle_seconds": 181.0}, "NONE", "NONE", "NONE", ""),
    ({"run_gpu_if_user_active": True}, USED, "NONE", "NONE", "NONE", ""),
    ({}, {"on_battery": True}, "BATTERIES", "BATTERIES", "NONE", "on battery"),
    ({"run_on_batteries": True}, {"on_battery": True}, "NONE", "NONE", "NONE", ""),
    ({"hours": Hours(18, 8)}, {}, "TIME_OF_DAY", "TIME_OF_DAY", "NONE", "from 18:00 to 08:00"),
    ({"hours": Hours(18, 8)}, {"hour": 7.9}, "NONE", "NONE", "NONE", ""),
    ({"day_hours": {3: Hours(1, 2.5)}}, {}, "TIME_OF_DAY", "TIME_OF_DAY", "NONE", "from 01:00 to 02:30"),
    ({"day_hours": {4: Hours(1, 2)}}, {}, "NONE", "NONE", "NONE", ""),
    ({"network_hours": Hours(1, 2)}, {}, "NONE", "NONE", "TIME_OF_DAY", "Transfers are allowed from 01:00"),
    (
        {"suspend_if_no_recent_input": 60.0},
        {"idle_seconds": 3601.0},
        "NO_RECENT_INPUT",
        "NO_RECENT_INPUT",
        "NONE",
        "60 minutes",
    ),
    (
        {},
        {"others_busy": True, "other_load": 61.0},
        "CPU_USAGE",
        "CPU_USAGE",
        "NONE",
        "61 % of the CPUs; the limit while the",
    ),
    ({}, {"exclusive_app": "chess"}, "EXCLUSIVE_APP", "EXCLUSIVE_APP", "EXCLUSIVE_APP", "chess is running"),
    ({}, {"exclusive_gpu_app": "chess"}, "NONE", "EXCLUSIVE_APP", "NONE", "chess is running"),
    ({}, {"run_mode": Mode.NEVER}, "USER_REQUEST", "USER_REQUEST", "NONE", "switched off by you"),
    ({}, {"run_mode": Mode.ALWAYS, "on_battery": True}, "NONE", "NONE", "NONE", ""),
    ({}, {"gpu_mode": Mode.NEVER}, "NONE", "USER_REQUEST", "NONE", "switched off by you"),
    ({}, {"gpu_mode": Mode.ALWAYS, **USED}, "NONE", "NONE", "NONE", ""),
    ({}, {"network_mode": Mode.NEVER}, "NONE", "NONE", "USER_REQUEST", "switched off by you"),
    ({}, {"network_mode": Mode.NEVER, "network_open_until": 1.8e9 + 9}, "NONE", "NONE", "NONE", ""),
    (
        {"daily_xfer_limit_mb": 10.0, "daily_xfer_period_days": 2.0},
        {"transferred_bytes": 1e7},
        *("NONE", "NONE", "NETWORK_QUOTA", "the limit is 10.0 MB in 2.0 days"),
    ),
    ({"network_wifi_only": True}, {"mobile": True}, "NONE", "NONE", "WIFI", "mobile"),
    ({"network_unmetered_only": True}, {"metered": True}, "NONE", "NONE", "WIFI", "metered"),
    ({"temperature_pause": 80.0}, {"celsius": 81.0}, "OS", "OS", "NONE", "goes on below 75.0 °C"),
    ({"temperature_pause": 80.0}, {"celsius": 76.0, "was_hot": True}, "OS", "OS", "NONE", "is hot (76 °C)"),
    ({"temperature_pause": 80.0}, {"celsius": 76.0}, "NONE", "NONE", "NONE", ""),
    (
        {"battery_charge_min_pct": 90.0},
        {"battery_percent": 60.0},
        "BATTERY_CHARGE",
        "BATTERY_CHARGE",
        "NONE",
        "waits for 90.0 %",
    ),
    (
        {"battery_max_temperature": 40.0},
        {"battery_celsius": 44.0},
        "BATTERY_HEAT",
        "BATTERY_HEAT",
        "NONE",
        "is at 44 °C",
    ),
    ({}, {"benchmarks_running": True}, "BENCHMARKS", "BENCHMARKS", "NONE", "being measured"),
]


@pytest.mark.parametrize(("prefs", "situation", "cpu", "gpu", "network", "words"), TABLE)
def test_situations_and_their_answers(
    prefs: dict[str, Any], situation: dict[str, Any], cpu: str, gpu: str, network: str, words: str
) -> None:
    allowance = decide_allowance(
        ComputingPreferences(**prefs), ClientConfig(), Situation(**{**NOON, **situation})
    )
    answers = (allowance.cpu, allowance.gpu, allowance.network)
    assert [each.code.name for each in answers] == [cpu, gpu, network]
    said = " ".join(why.text() for each in answers for why in each.reasons)
    assert words in said
    assert bool(words) == bool(said)


@pytest.mark.parametrize("code", preferences._WHY)
def test_waiting_tasks_name_the_cause_in_words(code: str) -> None:
    said = sentence(why("wait.cpu_suspended", cause=code))
    cause = said.removeprefix("computing is suspended (").removesuffix(")")
    assert len(cause.split()) > 2


def test_answers_say_until_when() -> None:
    evening = decide_allowance(ComputingPreferences(hours=Hours(18, 8)), ClientConfig(), Situation(**NOON))
    assert evening.cpu.until == NOON["now"] + 6 * 3600
    delayed = decide_allowance(
        PREFS, ClientConfig(start_delay=60.0), Situation(**NOON, seconds_since_start=20.0)
    )
    assert (delayed.cpu.code, delayed.cpu.until) == (SuspendReason.INITIAL_DELAY, NOON["now"] + 40)


def test_the_number_of_cpus_is_explained_by_the_preference_that_sets_it() -> None:
    prefs = ComputingPreferences(max_ncpus_pct=50.0, niu_max_ncpus_pct=75.0, cpu_usage_limit=60.0)
    idle = decide_allowance(prefs, ClientConfig(), Situation(**NOON))
    assert idle.ncpus == 6
    assert idle.reasons[0].text() == "6 of 8 CPUs are used: 75.0 % while the computer is not in use."
    used = decide_allowance(prefs, ClientConfig(), Situation(**NOON, **USED))
    assert (used.ncpus, used.throttle_percent, used.ram_bytes) == (4, 60.0, 8e9)
    assert "Jobs run 60.0 % of the time" in used.reasons[1].text()


def test_the_least_of_the_disk_limits_holds() -> None:
    prefs = ComputingPreferences(disk_max_used_gb=5.0, disk_max_used_pct=50.0, disk_min_free_gb=1.0)
    assert allowed_disk(prefs, total=100e9, free=90e9, used=1e9) == 5 * 2**30
    assert allowed_disk(prefs, total=8e9, free=7e9, used=1e9) == 8e9 * prefs.disk_max_used_pct / 100
    assert allowed_disk(prefs, total=100e9, free=0.5e9, used=2e9) == 2.5e9 - 2**30 * prefs.disk_min_free_gb
    assert allowed_disk(prefs, total=100e9, free=0.5e9, used=0.1e9) == 0.0


WEB = b"""<global_preferences>
<source_project>http://example.invalid/</source_project>
<mod_time>1700000000</mod_time>
<run_if_user_active>1</run_if_user_active>
<max_ncpus_pct>80</max_ncpus_pct>
<suspend_cpu_usage>30</suspend_cpu_usage>
<day_prefs><day_of_week>0</day_of_week><start_hour>9.5</start_hour><end_hour>17</end_hour></day_prefs>
<venue name="work">
<max_ncpus_pct>25</max_ncpus_pct>
<start_hour>20</start_hour>
<end_hour>6</end_hour>
</venue>
</global_preferences>"""


def test_a_venue_replaces_the_general_preferences_entirely() -> None:
    home, _ = read_preferences(WEB, "home")
    assert (home.max_ncpus_pct, home.niu_max_ncpus_pct, home.venue) == (80.0, 80.0, "")
    assert home.day_hours == {0: Hours(9.5, 17.0)}
    assert home.niu_suspend_cpu_usage == 30.0
    work, _ = read_preferences(WEB, "work")
    assert (work.max_ncpus_pct, work.venue, work.hours) == (25.0, "work", Hours(20, 6))
    assert work.day_hours == {}
    assert work.suspend_cpu_usage == PREFS.suspend_cpu_usage
    assert not work.run_if_user_active  # an absent switch is off
    assert work.mod_time == 1.7e9


def test_an_override_changes_what_it_names_only() -> None:
    base, _ = read_preferences(WEB)
    text = b"<global_preferences><run_on_batteries/><max_ncpus_pct>10</max_ncpus_pct></global_preferences>"
    over, problems = override_preferences(base, text)
    assert problems == ()
    assert (over.run_on_batteries, over.max_ncpus_pct, over.suspend_cpu_usage) == (True, 10.0, 30.0)
    assert over.run_if_user_active


LIMITS = ("max_ncpus_pct", "cpu_usage_limit", "suspend_cpu_usage")


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("value", [0.0, 50.0])
def test_an_absent_limit_for_the_time_of_not_being_in_use_equals_its_counterpart(
    limit: str, value: float
) -> None:
    text = f"<global_preferences><{limit}>{value}</{limit}></global_preferences>".encode()
    for found, _ in (read_preferences(text), override_preferences(PREFS, text)):
        assert getattr(found, limit) == getattr(found, f"niu_{limit}") == value
    both = text.replace(b"</global", f"<niu_{limit}>75</niu_{limit}></global".encode())
    for found, _ in (read_preferences(both), override_preferences(PREFS, both)):
        assert (getattr(found, limit), getattr(found, f"niu_{limit}")) == (value, 75.0)
    base = read_preferences(both)[0]
    empty = b"<global_preferences></global_preferences>"
    assert override_preferences(base, empty)[0] == base
    nothing = read_preferences(empty)[0]
    assert getattr(nothing, limit) == getattr(nothing, f"niu_{limit}")


def test_wrong_values_are_named_with_their_line_and_the_rest_is_used() -> None:
    text = b"<global_preferences>\n<max_ncpus_pct>lots</max_ncpus_pct>\n<disk_interval>30</disk_interval>\n</global_preferences>"
    over, problems = override_preferences(PREFS, text)
    assert over.disk_interval == 30.0
    assert problems == ("line 2: <max_ncpus_pct> is 'lots'; allowed: numbers from 0 to 100",)


def test_times_that_would_stop_everything_are_named_and_not_used() -> None:
    text = b"<global_preferences><cpu_scheduling_period_minutes>0</cpu_scheduling_period_minutes></global_preferences>"
    over, problems = override_preferences(PREFS, text)
    assert over.cpu_scheduling_period_minutes == 60.0
    assert problems == ("line 1: <cpu_scheduling_period_minutes> is '0'; allowed: numbers from 0.1 to 1e+06",)
    text = b"<cc_config><options><rec_half_life_days>0</rec_half_life_days><ncpus>1000000</ncpus></options></cc_config>"
    config, problems = read_client_config(text)
    assert (config.rec_half_life_days, config.ncpus) == (10.0, -1)
    assert len(problems) == 2


@pytest.mark.parametrize(
    "body",
    [b"", b"<a>", b"<!DOCTYPE x [<!ENTITY e 'x'>]><global_preferences>&e;</global_preferences>x", b"\xff"],
)
def test_what_is_no_xml_is_refused_with_a_line(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        read_preferences(body)


CONFIG = b"""<cc_config>
<log_flags><task>0</task><cpu_sched>1</cpu_sched></log_flags>
<options>
<ncpus>3</ncpus>
<exclusive_app>chess</exclusive_app>
<exclusive_app>quake</exclusive_app>
<exclude_gpu><url>http://p/</url><type>NVIDIA</type><device_num>1</device_num></exclude_gpu>
<coproc><type>fpga</type><count>2</count><peak_flops>1e11</peak_flops></coproc>
<ignore_nvidia_dev>2</ignore_nvidia_dev>
<suspended_gpu><type>NVIDIA</type><device_num>0</device_num></suspended_gpu>
<exit_when_idle/>
<max_overdue_days>-1</max_overdue_days>
<http_1_0>1</http_1_0>
<coffee>1</coffee>
</options>
</cc_config>"""


def test_the_configuration_is_read_and_unknown_options_are_named() -> None:
    config, problems = read_client_config(CONFIG)
    assert config.log_flags == {"file_xfer", "sched_ops"}
    assert (config.ncpus, config.exclusive_apps) == (3, ("chess", "quake"))
    assert config.exclude_gpus == (ExcludedGpu(url="http://p/", device_num=1, type="NVIDIA"),)
    assert config.declared_devices == (Coprocessor(type="fpga", count=2, peak_flops=1e11),)
    assert config.ignore_gpus == {"NVIDIA": {2}}
    assert config.suspended_gpus == {"NVIDIA": {0}}
    assert config.report_results_immediately
    assert config.max_overdue_days == -1.0
    assert problems == (
        "line 2: the log flag <cpu_sched> has no effect here; `cobblestone client why` says what is decided, and why",
        "line 13: the option <http_1_0> is not supported",
        "line 14: there is no option <coffee>",
    )


APPS = b"""<app_config>
<app><name>sums</name><max_concurrent>2</max_concurrent>
<gpu_versions><gpu_usage>0.5</gpu_usage><cpu_usage>0.25</cpu_usage></gpu_versions><fraction_done_exact/></app>
<app_version><app_name>wide</app_name><plan_class>mt</plan_class><avg_ncpus>3</avg_ncpus><cmdline>--fast</cmdline></app_version>
<project_max_concurrent>5</project_max_concurrent>
</app_config>"""


def test_settings_for_apps_are_applied_and_undone() -> None:
    config, problems = read_app_config(APPS)
    assert problems == ()
    assert (config.project_max_concurrent, config.apps["sums"].max_concurrent) == (5, 2)
    gpu = VersionUsage(app_name="sums", avg_ncpus=1.0, gpu_usage=1.0)
    assert override_usage(gpu, config) == VersionUsage(app_name="sums", avg_ncpus=0.25, gpu_usage=0.5)
    plain = VersionUsage(app_name="sums", avg_ncpus=1.0)
    assert override_usage(plain, config) == plain
    wide = VersionUsage(app_name="wide", plan_class="mt", avg_ncpus=8.0, cmdline="-x")
    assert override_usage(wide, config) == VersionUsage(
        app_name="wide", plan_class="mt", avg_ncpus=3.0, cmdline="--fast"
    )
    assert override_usage(wide, AppConfig()) == wide


def test_entries_for_what_the_project_does_not_have_are_named() -> None:
    config, _ = read_app_config(APPS)
    assert unmatched_entries(config, [], []) == ()
    assert unmatched_entries(config, ["sums", "wide"], [("sums", "")]) == ()
    assert unmatched_entries(config, ["sums"], []) == ("the project has no app 'wide'; it has: sums",)
    (problem,) = unmatched_entries(config, ["sums", "wide"], [("wide", ""), ("sums", "")])
    assert problem == "the app 'wide' has no version of the plan class 'mt' here"


def test_files_are_read_again_and_undone_without_a_restart(tmp_path: Path) -> None:
    files = PreferenceFiles(tmp_path)
    assert files.read().preferences == ComputingPreferences()
    before = files.stamp(tmp_path)
    (tmp_path / "global_prefs.xml").write_bytes(WEB)
    (tmp_path / "cc_config.xml").write_bytes(CONFIG)
    (tmp_path / "app_config.xml").write_bytes(APPS)
    (tmp_path / "global_prefs_override.xml").write_text(
        "<global_preferences><max_ncpus_pct>5</max_ncpus_pct></global_preferences>"
    )
    assert files.stamp(tmp_path) != before
    now = files.read("work")
    assert (now.preferences.max_ncpus_pct, now.config.ncpus) == (5.0, 3)
    assert files.read_app_config(tmp_path)[0].project_max_concurrent == 5
    for name in ("global_prefs_override.xml", "cc_config.xml", "app_config.xml"):
        (tmp_path / name).unlink()
    undone = files.read("work")
    assert (undone.preferences.max_ncpus_pct, undone.config) == (25.0, ClientConfig())
    assert files.read_app_config(tmp_path) == (AppConfig(), ())


def test_a_typing_error_changes_nothing_and_is_named(tmp_path: Path) -> None:
    files = PreferenceFiles(tmp_path)
    path = tmp_path / "cc_config.xml"
    path.write_bytes(CONFIG)
    assert files.read().config.ncpus == 3
    path.write_bytes(CONFIG.replace(b"</options>", b"</option>"))
    broken = files.read()
    assert broken.config.ncpus == 3
    (problem,) = broken.problems
    assert "cc_config.xml: line 15" in problem
    assert "last good content stays in force" in problem
    fresh = PreferenceFiles(tmp_path).read()
    assert fresh.config == ClientConfig()
    assert "it is not used" in fresh.problems[0]
