"""Scenario files, traces and state files: good ones are read, bad ones get one clear error."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cobblestone.cli import build, run_command
from cobblestone.domain.errors import ConfigError
from cobblestone.domain.values import DAY
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.simulator.host.run import simulate as run_one
from cobblestone.simulator.reading import read_scenario
from cobblestone.simulator.state_import import assumptions, scenario_from_state
from cobblestone.simulator.world.distributions import CLibraryRandom, read_trace

GOOD = """
name = "two"
duration = "2 d"
[host]
ncpus = 2
[host.availability]
fraction = 0.5
mean_on = "1 h"
[[project]]
name = "a"
[[project.app]]
latency_bound = "1 d"
flops_estimate = 1e12
[[project]]
name = "b"
share = 50
"""

STATE = """<client_state><host_info><p_ncpus>8</p_ncpus><p_fpops>4e9</p_fpops>
<coprocs><coproc_cuda><count>1</count><peak_flops>8e12</peak_flops></coproc_cuda></coprocs></host_info>
<time_stats><on_frac>0.5</on_frac><active_frac>0.8</active_frac></time_stats>
<project><master_url>http://a/</master_url><project_name>A</project_name><resource_share>70</resource_share></project>
<app><name>fold</name></app>
<app_version><app_name>fold</app_name><flops>2e12</flops><avg_ncpus>0.5</avg_ncpus>
<coproc><type>NVIDIA</type><count>1</count></coproc></app_version>
<workunit><name>w</name><app_name>fold</app_name><rsc_fpops_est>7e15</rsc_fpops_est></workunit>
<result><wu_name>w</wu_name><report_deadline>1000000</report_deadline><received_time>400000</received_time></result>
<project><master_url>http://b/</master_url><project_name>B</project_name></project></client_state>"""


def write(folder: Path, text: str) -> Path:
    path = folder / "scenario.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_scenario_file_is_read_with_times_as_text(tmp_path: Path) -> None:
    scenario = read_scenario(write(tmp_path, GOOD))
    assert scenario.duration == 2 * DAY
    assert scenario.host.availability.mean_on == 3600.0
    assert [p.name for p in scenario.projects] == ["a", "b"]
    assert scenario.projects[0].apps[0].sizes.mean == 1e12


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("ncpus = 2", "ncpus = 0", "ncpus = 0 is not possible; allowed: 1 to 1024"),
        ("fraction = 0.5", "fraction = 1.5", "fraction = 1.5"),
        ("fraction = 0.5", "fraction = nan", "finite"),
        ("flops_estimate = 1e12", "flops_estimate = -1", "= -1.0 is not possible"),
        ("share = 50", "shear = 50", "unknown key 'shear' = 50; allowed:"),
        ('name = "b"', 'name = "a"', "different names"),
        ('"1 d"', '"1 fortnight"', "'1 fortnight'"),
        ("ncpus = 2", 'ncpus = "two"', "must be a whole number"),
        ("[[project]]", "[[project", "is not TOML"),
        ("share = 50", "share = true", "must be a finite number"),
        ("share = 50", "share = -50", "share = -50.0 is not possible; allowed: 0 to 1e+09"),
        (
            "ncpus = 2",
            "ncpus = 2\ndownload_rate = -1",
            "download_rate = -1.0 is not possible; allowed: 0 to 1e+12",
        ),
        ("flops_estimate = 1e12", "flops_stdev = -1", "flops_stdev = -1.0 is not possible; allowed: 0 to"),
        (
            "flops_estimate = 1e12",
            "flops_foo = 1",
            "unknown key 'flops_foo' = 1; allowed: flops_kind, flops_mean",
        ),
        ("flops_estimate = 1e12", "error_rate = 1.5", "error_rate = 1.5 is not possible; allowed: 0 to 1"),
        (
            "flops_estimate = 1e12",
            "cpus = 3",
            "cpus = 3.0 is not possible; allowed: up to the host's ncpus, 2",
        ),
        ("flops_estimate = 1e12", "flops_estimate = 1", "allowed: up to 5000000"),
        *(
            (
                "flops_estimate = 1e12",
                f"flops_values = {value}",
                f"project 1.app.flops_values = {shown}: must be a list of numbers",
            )
            for value, shown in (('"x"', "'x'"), ("3", "3"), ("true", "True"))
        ),
        ("flops_estimate = 1e12", 'flops_values = [1, "x"]', "flops_values = 'x': must be a finite number"),
        ("fraction = 0.5", "trace = [1, 2]", "host.availability: unknown key 'trace' = [1, 2]; allowed:"),
        ('mean_on = "1 h"', 'mean_on = "-1 h"', "mean_on = -3600.0 is not possible; allowed: 1 to"),
        ('fraction = 0.5\nmean_on = "1 h"', 'trace_file = "none.tab"', "none.tab: cannot be read"),
        ('mean_on = "1 h"', 'trace_file = "none.tab"', "fraction = 0.5: the trace sets when it is on"),
        ('mean_on = "1 h"', 'mean_on = "1 h"\ntrace_length = -5', "trace_length = -5.0 is not possible"),
        ('mean_on = "1 h"', 'mean_on = "1 h"\ntrace_length = 5', "only with a trace"),
        ('duration = "2 d"\n', "duration = " + 400 * "9" + "\n", "it has hundreds of digits"),
        ('duration = "2 d"\n', "duration = " + 5000 * "9" + "\n", "is not TOML"),
        ("ncpus = 2", "ncpus = " + 400 * "9", "it has hundreds of digits"),
        ("[host]", "deep = " + 2000 * "[" + "\n[host]", "is not TOML"),
        ("[host]", "[hst]", "unknown key 'hst'"),
        ("[host.availability]", "[host.avail]", "ram_bytes, upload_rate, [host.availability], [[host.gpu]]"),
        (
            "[[project.app]]",
            "[[project.apps]]",
            "max_infeasible, name, share, [[project.app]], [project.downtime]",
        ),
        ("flops_estimate = 1e12", "slck = 3", "working_set, flops_mean, flops_stdev, flops_kind, slack"),
        ('name = "b"\n', "", "project 2: a key is missing: 'name'; allowed:"),
        (
            "[host]",
            "length = 5\n[host]",
            "unknown key 'length' = 5; allowed: duration, hosts, lifetime, name, [host]",
        ),
        (
            "[host]",
            "[compatibility.faults]\nfoo = true\n[host]",
            "compatibility.faults: unknown key 'foo' = True; allowed:",
        ),
        ("[host]", "[compatibility]\nevery_poll = true\n[host]", "every_poll = True is not possible"),
    ],
)
def test_a_bad_scenario_gets_one_error_that_names_file_key_value_and_range(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    path = write(tmp_path, GOOD.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        read_scenario(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_trace_gives_the_periods_of_one_node(tmp_path: Path) -> None:
    path = tmp_path / "trace.tab"
    rows = [("n1", 1, 100, 200), ("n1", 0, 200, 250), ("n1", 1, 250, 400), ("n2", 1, 0, 50)]
    path.write_text(
        "# comment\n" + "".join(f"{i}\t0\t{n}\t0\tx\t{k}\t{a}\t{b}\n" for i, (n, k, a, b) in enumerate(rows)),
        encoding="utf-8",
    )
    assert read_trace(path) == (((0.0, 100.0), (150.0, 300.0)), 300.0)
    assert read_trace(path, node="n2")[0] == ((0.0, 50.0),)
    with pytest.raises(ConfigError, match="no event of node 'n9'"):
        read_trace(path, node="n9")


def test_a_host_that_goes_on_and_off_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "trace.tab").write_text("0\t0\tn\t0\tx\t1\t0\t1e-9\n", encoding="utf-8")
    for new in ('trace_file = "trace.tab"', "fraction = 0.5\nmean_on = 1\n[compatibility]"):
        text = GOOD.replace('fraction = 0.5\nmean_on = "1 h"', new).replace('"2 d"', '"9000 d"')
        with pytest.raises(ConfigError, match=r"it would go on and off .* allowed: 10000000"):
            read_scenario(write(tmp_path, text))


def test_what_has_no_end_is_not_read_to_the_end(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="larger than"):
        read_scenario(Path("/dev/zero"))
    with pytest.raises(ConfigError, match="is not a file"):
        read_trace(Path("/dev/zero"))


def test_availability_that_is_not_said_is_as_documented(tmp_path: Path) -> None:
    said = 'fraction = 0.5\nmean_on = "1 h"'
    for new, fraction in (('mean_on = "2 h"', 0.8), ('day_start = "8 h"\nday_end = "22 h"', 1.0)):
        host = read_scenario(write(tmp_path, GOOD.replace(said, new))).host
        assert host.availability.fraction == fraction


def test_an_empty_trace_says_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "trace.tab"
    path.write_text("# nothing\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="no event; a line holds at least 8 columns"):
        read_trace(path)


def test_a_host_follows_its_trace_to_the_second(tmp_path: Path) -> None:
    # half a day on, half a day off, written in the archive's columns: the host is available for half of the time
    rows = "".join(
        f"{i}\t0\tnode\t0\thost\t{1 - i % 2}\t{i * 43200}\t{(i + 1) * 43200}\tx\n" for i in range(4)
    )
    (tmp_path / "event_trace.tab").write_text("# event_id ...\n" + rows, encoding="utf-8")
    text = GOOD.replace('fraction = 0.5\nmean_on = "1 h"', 'trace_file = "event_trace.tab"').replace(
        "2 d", "6 d"
    )
    scenario = read_scenario(write(tmp_path, text))
    books = run_one(scenario, PolicyChoice()).books
    assert books.available == pytest.approx(3 * DAY)


@pytest.mark.parametrize(
    "line", ["1\t2\t3", "1\t0\tn\t0\tx\t1\tabc\t5", "1\t0\tn\t0\tx\t1\t9\t5", "1\t0\tn\t0\tx\t7\t1\t5"]
)
def test_a_broken_trace_names_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "trace.tab"
    path.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="line 1"):
        read_trace(path)


def test_a_state_file_becomes_a_scenario(tmp_path: Path) -> None:
    path = tmp_path / "client_state.xml"
    path.write_text(STATE, encoding="utf-8")
    scenario = scenario_from_state(path)
    (project,) = scenario.projects
    (app,) = project.apps
    assert (scenario.host.ncpus, scenario.host.gpus[0].flops, project.share) == (8, 8e12, 70.0)
    assert scenario.host.availability.fraction == pytest.approx(0.4)
    assert (app.gpu, app.cpus, app.latency_bound, app.flops_estimate) == ("NVIDIA", 0.5, 600_000.0, 7e15)
    assert scenario.duration == 100 * DAY


def test_of_short_jobs_in_a_state_file_fewer_days_are_simulated(tmp_path: Path) -> None:
    path = tmp_path / "client_state.xml"
    path.write_text(STATE.replace("7e15", "7e9"), encoding="utf-8")
    assert scenario_from_state(path).duration == DAY
    assert "jobs are short: days simulated: 1" in assumptions(path)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("<p_ncpus>8", "<p_ncpus>zero", "p_ncpus"),
        ("<p_ncpus>8", "<p_ncpus>0", "<p_ncpus> = '0' cannot be used"),
        ("<p_fpops>4e9", "<p_fpops>nan", "<p_fpops> = 'nan' cannot be used"),
        ("<on_frac>0.5", "<on_frac>1.5", "<on_frac> = '1.5' cannot be used"),
        ("<rsc_fpops_est>7e15", "<rsc_fpops_est>-7", "<rsc_fpops_est> = '-7' cannot be used"),
        ("</client_state>", "", "does not end"),
        ("<app><name>fold</name></app>", "", "no project"),
    ],
)
def test_a_broken_state_file_gets_one_error(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "client_state.xml"
    path.write_text(STATE.replace(old, new), encoding="utf-8")
    with pytest.raises(ConfigError, match=re.escape(said)) as caught:
        scenario_from_state(path)
    assert str(path) in str(caught.value)


def test_the_c_library_generator_gives_its_well_known_numbers() -> None:
    rng = CLibraryRandom(1)
    assert [round(rng.random() * 2147483647) for _ in range(3)] == [1804289383, 846930886, 1681692777]


def _program() -> click.Group:
    return build()


def test_the_command_prints_a_table_json_and_reasons(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    table = CliRunner().invoke(
        _program(), ["simulate", str(path), "--policy", "CS1_WF2_WS2_JC2", "--seeds", "2"]
    )
    assert table.exit_code == 0
    assert "CS1_WF2_WS2_JC2" in table.output
    out = CliRunner().invoke(_program(), ["simulate", str(path), "--json"])
    assert '"waste"' in out.output
    why = CliRunner().invoke(_program(), ["simulate", str(path), "--explain", "1"])
    assert "last scheduling decision" in why.output
    assert "last work-fetch decision" in why.output


def test_the_command_writes_a_picture_and_a_log(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    picture, log = tmp_path / "t.svg", tmp_path / "t.log"
    result = CliRunner().invoke(
        _program(), ["simulate", str(path), "--picture", str(picture), "--log", str(log)]
    )
    assert result.exit_code == 0, result.output
    assert "<svg" in picture.read_text(encoding="utf-8")
    assert "host off" in log.read_text(encoding="utf-8")


@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf"])
def test_a_seed_gives_one_picture_to_the_last_byte(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path, GOOD)
    pictures = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for picture in pictures:
        result = CliRunner().invoke(_program(), ["simulate", str(path), "--picture", str(picture)])
        assert result.exit_code == 0, result.output
    one, other = (picture.read_bytes() for picture in pictures)
    assert one == other


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--report", "r.html", "--picture", "p.svg"],
            "--report gives no other output; remove it, or remove --picture",
        ),
        (
            ["--explain", "1", "--log", "trace.txt"],
            "--explain gives no other output; remove it, or remove --log",
        ),
        (["--hosts", "2", "--picture", "p.svg", "--log", "trace.txt"], "--log is for one host; remove it"),
    ],
)
def test_an_output_that_would_not_be_made_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(_program(), ["simulate", str(write(tmp_path, GOOD)), *options])
    assert result.exit_code == 2
    assert said in result.output


@pytest.mark.parametrize("arguments", [[], ["--window", "3:1"], ["--explain", "99"]])
def test_a_wrong_command_line_is_an_error_with_exit_code_2(tmp_path: Path, arguments: list[str]) -> None:
    path = [str(write(tmp_path, GOOD))] if arguments else []
    extra = ["--picture", str(tmp_path / "x.svg")] if "--window" in arguments else []
    result = CliRunner().invoke(_program(), ["simulate", *path, *arguments, *extra])
    assert result.exit_code == 2


def test_many_hosts_show_the_projects_view(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.csv"
    hosts.write_text("ncpus,flops,fraction,mean_on\n2,1e9,0.9,3600\n4,2e9,1,3600\n", encoding="utf-8")
    result = CliRunner().invoke(_program(), ["simulate", str(write(tmp_path, GOOD)), "--hosts", str(hosts)])
    assert result.exit_code == 0, result.output
    assert "2 hosts" in result.output
    hosts.write_text("ncpus,flops,fraction,mean_on\n2,-1,0.9,3600\n", encoding="utf-8")
    bad = CliRunner().invoke(_program(), ["simulate", str(write(tmp_path, GOOD)), "--hosts", str(hosts)])
    assert bad.exit_code == 2
    assert "line 2" in bad.stderr


def test_a_picture_has_few_parts_however_much_ran(tmp_path: Path) -> None:
    # one part per job made pictures of many projects take minutes
    projects = "".join(
        f'[[project]]\nname = "p{i}"\n[[project.app]]\nlatency_bound = "1 d"\nflops_estimate = 2e12\n'
        for i in range(20)
    )
    path = write(tmp_path, 'duration = "4 d"\n' + projects)
    picture = tmp_path / "t.svg"
    result = CliRunner().invoke(_program(), ["simulate", str(path), "--picture", str(picture)])
    assert result.exit_code == 0, result.output
    text = picture.read_text(encoding="utf-8")
    assert text.count("<path") > 300
    assert text.count('id="PolyCollection') + text.count('id="PathCollection') < 20


def test_the_command_loads_nothing_that_a_run_does_not_need(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    code = (
        "import sys; from cobblestone.cli import run_command; status = run_command(sys.argv[1:]);"
        " print(*sorted(sys.modules)); sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "simulate", str(path)], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.splitlines()[-1].split())
    heavy = ("pydantic", "rich", "matplotlib", "cobblestone.server", "cobblestone.store")
    heavy += (
        "cobblestone.policy.dispatch.choose",
        "cobblestone.simulator.population.run",
        "cobblestone.wire",
    )
    heavy += (
        "cobblestone.simulator.report.picture",
        "cobblestone.simulator.kernel",
        "cobblestone.policy.client.recent.policy",
    )
    heavy += ("numba", "numpy", "msgspec", "json", "shutil", "asyncio", "logging", "subprocess")
    assert not loaded & set(heavy)
    assert "cobblestone.simulator.host.run" in loaded


def test_wrong_usage_ends_with_status_2_and_one_line_that_says_what_is_allowed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_command(["simulate", "x.toml", "--seeds", "0"]) == 2
    said = "Error: Invalid value for '--seeds': 0 is not in the range 1<=x<=10000."
    assert capsys.readouterr().err.splitlines()[-1] == said
    assert run_command(["simulate", "--help"]) == 0
    assert "--explain DAY" in capsys.readouterr().out
