"""Reading job logs and replaying them."""

from __future__ import annotations

import csv
import math
import random
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.job_logs import random_job_log

from cobblestone.credit_lab import joblog
from cobblestone.credit_lab.figures import MODES, ReplayOptions
from cobblestone.credit_lab.joblog import FIGURES, JobLog, job_log, read_job_log
from cobblestone.credit_lab.replay import groups, replay, replay_fast
from cobblestone.domain.errors import ConfigError
from cobblestone.ops.installation import how_to_install
from cobblestone.policy.credit.claims import ClaimMode
from cobblestone.policy.credit.registry import credit_system

NOW = 1_700_000_000.0

ESTIMATE = 1e12 * 200 / 86400e9
"""Credit of a job that says nothing of its size, when no time was reported."""


def small_log(**changes: list[float]) -> JobLog:
    """Two workunits of two results, and a straggler of the first."""
    columns: dict[str, list[float]] = {
        "workunit_id": [1, 1, 2, 2, 1],
        "host_id": [1, 2, 1, 2, 3],
        "user_id": [1, 1, 1, 1, 2],
        "team_id": [0, 5, 0, 5, 5],
        "time": [NOW, NOW, NOW + 60, NOW + 60, NOW + 120],
        "sent_time": [NOW - 86400] * 5,
        "received_time": [NOW - 10] * 5,
        "cpu_time": [864.0, 1728.0, 864.0, 864.0, 8640.0],
        "p_fpops": [1e9] * 5,
    }
    return job_log(columns | changes)


@pytest.fixture(params=["policy", "twin"])
def run(request: pytest.FixtureRequest) -> Any:  # Any: either form
    if request.param == "policy":
        return lambda log, name, options=None: replay(log, credit_system(name), options)
    return replay_fast


def test_a_replay_grants_workunits_and_stragglers(run: Any) -> None:
    result = run(small_log(), "benchmark")
    assert list(result.claimed) == pytest.approx([2.0, 4.0, 2.0, 2.0, 20.0])
    assert list(result.granted) == pytest.approx([3.0, 3.0, 2.0, 2.0, 3.0])
    assert {MODES[mode] for mode in result.modes} == {ClaimMode.NORMAL}


def test_totals_are_sums_of_what_was_granted_and_nobody_has_none(run: Any) -> None:
    result = run(small_log(), "benchmark")
    assert [row[:2] for row in result.hosts.rows()] == [
        (1, pytest.approx(5.0)),
        (2, pytest.approx(5.0)),
        (3, pytest.approx(3.0)),
    ]
    assert [row[:2] for row in result.users.rows()] == [(1, pytest.approx(10.0)), (2, pytest.approx(3.0))]
    assert [row[:2] for row in result.teams.rows()] == [(5, pytest.approx(8.0))]
    assert (len(result.users), list(result.versions.ids)) == (2, [1])


def test_the_first_sample_of_an_average_is_the_rate_since_it_was_sent(run: Any) -> None:
    result = run(small_log(), "benchmark")
    (_, _, value, time) = list(result.hosts.rows())[2]
    assert (value, time) == (pytest.approx(3.0 / (1 + 120 / 86400)), NOW + 120)


def test_options_reach_the_policy(run: Any) -> None:
    result = run(small_log(), "benchmark", ReplayOptions(max_granted=2.5))
    assert list(result.granted) == pytest.approx([2.5, 2.5, 2.0, 2.0, 2.5])


def test_an_empty_log_is_replayed_to_nothing(run: Any) -> None:
    empty = job_log({"workunit_id": [], "host_id": []})
    result = run(empty, "creditnew-deployed")
    assert (len(result.granted), len(result.hosts), result.version_scales) == (0, 0, {})


def test_results_of_a_workunit_stand_together_and_later_ones_are_stragglers() -> None:
    log = job_log({"workunit_id": [4, 4, 9, 4, 9, 9, 7, 7], "host_id": [1] * 8, "straggler": [0] * 7 + [1]})
    assert list(groups(log)) == [
        (0, 2, False),
        (2, 3, False),
        (3, 4, True),
        (4, 5, True),
        (5, 6, True),
        (6, 7, False),
        (7, 8, True),
    ]


def test_missing_columns_have_defaults() -> None:
    log = job_log({"workunit_id": [1, 2], "host_id": [1, 1], "received_time": [3.0, 4.0]})
    assert log.column("result_id") == [1, 2]
    assert log.column("time") == [3.0, 4.0]
    assert log.column("app_id") == [1, 1]
    assert log.column("rsc_fpops_est") == [1e12, 1e12]


def test_a_log_without_a_required_column_is_refused() -> None:
    with pytest.raises(ConfigError, match="host_id is missing"):
        job_log({"workunit_id": [1]})


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ConfigError, match="different lengths"):
        job_log({"workunit_id": [1], "host_id": [1, 2]})


def test_a_system_without_a_twin_is_refused() -> None:
    with pytest.raises(ConfigError, match="no such system"):
        replay_fast(small_log(), "gold")


# ------------------------------------------------------------------------------------------------- files


def write_csv(path: Path, log: JobLog) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(log.columns)
        writer.writerows(zip(*log.columns.values(), strict=True))


def write_parquet(path: Path, columns: dict[str, list[Any]]) -> None:
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    parquet.write_table(arrow.table(columns), path)


def test_a_csv_and_a_parquet_file_give_the_same_figures(tmp_path: Path) -> None:
    log = random_job_log(random.Random(5), 200)
    write_csv(tmp_path / "log.csv", log)
    write_parquet(tmp_path / "log.parquet", {name: list(values) for name, values in log.columns.items()})
    expected = list(replay(log, credit_system("creditnew-deployed")).granted)
    for name in ("log.csv", "log.parquet"):
        read = read_job_log(tmp_path / name)
        assert list(replay(read, credit_system("creditnew-deployed")).granted) == expected
        assert list(replay_fast(read, "creditnew-deployed").granted) == pytest.approx(expected, rel=1e-12)


def test_both_readers_of_csv_give_the_same_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = random_job_log(random.Random(6), 100, hostile=0.1)
    write_csv(tmp_path / "log.csv", log)
    fast = read_job_log(tmp_path / "log.csv")
    monkeypatch.setattr(joblog, "_read_csv_fast", lambda *arguments: None)
    plain = read_job_log(tmp_path / "log.csv")
    assert set(fast.columns) == set(plain.columns)
    for name in plain.columns:
        assert fast.column(name) == pytest.approx(plain.column(name), rel=0, abs=0, nan_ok=True)


def test_text_where_a_number_belongs_is_refused_by_the_systems_only(tmp_path: Path, run: Any) -> None:
    (tmp_path / "log.csv").write_text(
        "workunit_id,host_id,cpu_time,p_fpops,comment\n1,1,many,1e9,x\n2,1,864,1e9,y\n3,1,,1e9,z\n"
    )
    log = read_job_log(tmp_path / "log.csv")
    assert math.isnan(log.column("cpu_time")[0])
    assert list(run(log, "benchmark").granted) == pytest.approx([ESTIMATE, 2.0, ESTIMATE])


def test_text_and_gaps_of_a_parquet_file_are_no_numbers(tmp_path: Path) -> None:
    write_parquet(
        tmp_path / "log.parquet",
        {"workunit_id": [1, 2], "host_id": [1, 1], "cpu_time": ["many", "864"], "p_fpops": [None, 1e9]},
    )
    log = read_job_log(tmp_path / "log.parquet")
    assert [math.isnan(value) for value in log.column("cpu_time") + log.column("p_fpops")] == [
        True,
        False,
        True,
        False,
    ]
    assert list(replay_fast(log, "benchmark").granted) == pytest.approx([ESTIMATE, 2.0])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("host_id\n1\n", "workunit_id is missing"),
        ("", "is missing"),
        ("workunit_id,host_id\n1\n", r"log\.csv:2: 1 values"),
        ("workunit_id,host_id\n1,me\n", r"log\.csv:2: host_id is 'me'; give a whole number"),
        ("workunit_id,host_id\n1,99999999999999999999\n", "out of range"),
    ],
)
def test_a_csv_file_that_is_no_log_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "log.csv").write_text(text)
    with pytest.raises(ConfigError, match=complaint):
        read_job_log(tmp_path / "log.csv")


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"host_id": [1]}, "workunit_id is missing"),
        ({"workunit_id": [1], "host_id": ["me"]}, "host_id: whole numbers are required"),
        ({"workunit_id": [1, 2], "host_id": [1, None]}, "host_id: 1 values are missing"),
    ],
)
def test_a_parquet_file_that_is_no_log_is_refused(
    tmp_path: Path, columns: dict[str, list[Any]], complaint: str
) -> None:
    write_parquet(tmp_path / "log.parquet", columns)
    with pytest.raises(ConfigError, match=complaint):
        read_job_log(tmp_path / "log.parquet")


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("workunit_id\n")
    (tmp_path / "log.parquet").write_text("not Parquet")
    with pytest.raises(ConfigError, match=r"a \.csv or a \.parquet file"):
        read_job_log(tmp_path / "log.txt")
    with pytest.raises(ConfigError, match="not a readable Parquet file"):
        read_job_log(tmp_path / "log.parquet")
    with pytest.raises(ConfigError, match="no such file"):
        read_job_log(tmp_path / "none.csv")


WITHOUT_LAB = """
import sys
for name in ("numpy", "numba", "pyarrow"):
    sys.modules[name] = None
from pathlib import Path
from cobblestone.credit_lab import joblog
from cobblestone.credit_lab.joblog import job_log, read_job_log
from cobblestone.credit_lab.replay import replay, replay_fast
from cobblestone.domain.errors import ConfigError
from cobblestone.policy.credit.registry import credit_system
log = job_log({"workunit_id": [1], "host_id": [1], "cpu_time": [864.0], "p_fpops": [1e9]})
print(replay(log, credit_system("benchmark")).granted)
for attempt in (lambda: replay_fast(log, "benchmark"), lambda: read_job_log(Path(sys.argv[1]))):
    try:
        attempt()
    except ConfigError as error:
        print(error)
"""


def test_logs_are_replayed_by_the_policy_where_the_extra_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "log.parquet").write_bytes(b"")
    command = [sys.executable, "-c", WITHOUT_LAB, str(tmp_path / "log.parquet")]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert output[0] == "[2.0]"
    assert how_to_install("lab") in output[1]
    assert how_to_install("lab") in output[2]


def test_every_figure_of_a_log_is_documented() -> None:
    assert joblog.__doc__ is not None
    assert [name for name in FIGURES if name not in joblog.__doc__] == []
