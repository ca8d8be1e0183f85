"""A state file made anonymous, and the page that says what would happen on a computer."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from cobblestone.cli import run_command
from cobblestone.domain.errors import ConfigError, RemoteProtocolError
from cobblestone.domain.values import DAY
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.simulator.host.run import simulate
from cobblestone.simulator.population.shared_project import ProjectTally
from cobblestone.simulator.reading import read_scenario
from cobblestone.simulator.report import population
from cobblestone.simulator.report.page import Diary, report_page
from cobblestone.simulator.report.picture import RunRecording, load_matplotlib
from cobblestone.simulator.state_import import scenario_from_state
from cobblestone.wire.client.state_excerpt import anonymise_state
from cobblestone.wire.text.tree import MAX_BYTES

ROOT = Path(__file__).parents[2]
LAPTOP = ROOT / "examples" / "simulator" / "laptop.toml"

SECRETS = (
    "0123456789abcdef0123456789abcdef", "ada@example.org", "Ada Lovelace", "astra.home.example", "192.168.7.21", "SN-4711",
    "/srv/ada/BOINC", "secretproject", "climate.example.net", "weak-key-4242", "d41d8cd98f00b204", "fold_wu_77",
    "Team Sunshine", "cross-project-id",
)  # fmt: skip
STATE = f"""<client_state>
<host_info><timezone>3600</timezone><domain_name>{SECRETS[3]}</domain_name><ip_addr>{SECRETS[4]}</ip_addr>
<host_cpid>{SECRETS[0]}</host_cpid><p_ncpus>8</p_ncpus><p_fpops>4e9</p_fpops><m_nbytes>16e9</m_nbytes>
<serialnum>{SECRETS[5]}</serialnum>
<coprocs><coproc_cuda><name>{SECRETS[5]}</name><count>1</count><peak_flops>8e12</peak_flops></coproc_cuda>
<coproc><type>{SECRETS[7]}</type><count>1</count></coproc></coprocs></host_info>
<time_stats><on_frac>0.5</on_frac><active_frac>0.8</active_frac><on_lambda>7200</on_lambda></time_stats>
<project><master_url>http://{SECRETS[8]}/</master_url><project_name>{SECRETS[7]}</project_name>
<user_name>{SECRETS[2]}</user_name><team_name>{SECRETS[12]}</team_name><email_hash>{SECRETS[10]}</email_hash>
<cross_project_id>{SECRETS[13]}</cross_project_id><authenticator>{SECRETS[0]}</authenticator>
<weak_auth>{SECRETS[9]}</weak_auth><project_dir>{SECRETS[6]}</project_dir>
<resource_share>70</resource_share></project>
<app><name>{SECRETS[7]}_fold</name><user_friendly_name>{SECRETS[2]}</user_friendly_name></app>
<file><name>{SECRETS[7]}.exe</name><url>http://{SECRETS[8]}/f</url></file>
<app_version><app_name>{SECRETS[7]}_fold</app_name><flops>2e12</flops><avg_ncpus>0.5</avg_ncpus>
<coproc><type>NVIDIA</type><count>1</count></coproc><cmdline>--home {SECRETS[6]}</cmdline></app_version>
<workunit><name>{SECRETS[11]}</name><app_name>{SECRETS[7]}_fold</app_name><rsc_fpops_est>7e15</rsc_fpops_est>
<command_line>{SECRETS[6]}</command_line></workunit>
<result><name>{SECRETS[11]}_0</name><wu_name>{SECRETS[11]}</wu_name><report_deadline>1700600000</report_deadline>
<received_time>1700000000</received_time></result>
<project><master_url>http://b.{SECRETS[8]}/</master_url><project_name>B</project_name></project>
<app><name>{SECRETS[7]}_fold</name><non_cpu_intensive>1</non_cpu_intensive></app>
<app><name>x</name><fpops><mean>1e13</mean><std_dev>2e12</std_dev></fpops></app>
<email_addr>{SECRETS[1]}</email_addr><host_venue>home</host_venue></client_state>"""


def test_an_anonymous_state_gives_the_same_scenario_and_tells_nobody_whose_it_is(tmp_path: Path) -> None:
    path, out = tmp_path / "client_state.xml", tmp_path / "shared.xml"
    path.write_text(STATE, encoding="utf-8")
    assert run_command(["simulate", "--from", str(path), "--anonymise", str(out)]) == 0
    text = out.read_text(encoding="utf-8")
    assert [secret for secret in SECRETS if secret in text] == []
    assert "1700000000" not in text
    before, after = scenario_from_state(path), scenario_from_state(out)
    assert [p.name for p in after.projects] == ["project1", "project2"]
    assert after.host == replace(before.host, gpus=after.host.gpus)
    assert [(g.count, g.flops) for g in after.host.gpus] == [(g.count, g.flops) for g in before.host.gpus]
    for old, new in zip(before.projects, after.projects, strict=True):
        apps = tuple(replace(app, name=mine.name) for app, mine in zip(old.apps, new.apps, strict=True))
        assert replace(old, name=new.name, apps=apps) == new


def test_what_a_state_file_does_not_tell_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "client_state.xml"
    path.write_text(STATE, encoding="utf-8")
    assert run_command(["simulate", "--from", str(path)]) == 2  # CS2 knows no GPUs
    said = capsys.readouterr().err.splitlines()
    assert said[:-1] == [
        "note: B, app x: not known from any job in the file; used: jobs of 3.6e+14 FLOPs, a latency bound of 10 days"
    ]


@pytest.mark.parametrize(
    "name", ["p_ncpus", "resource_share", "flops", "rsc_fpops_est", "received_time", "count", "on_frac"]
)
def test_a_secret_where_a_number_belongs_is_left_out(name: str) -> None:
    body = re.sub(rf"<{name}>[^<]*</{name}>", f"<{name}>{SECRETS[0]}</{name}>", STATE)
    assert body != STATE
    assert SECRETS[0].encode() not in anonymise_state(body.encode())


def test_what_is_no_state_file_is_refused() -> None:
    for body in (b"", b"<html/>", b"<client_state>", b"\x00\xff", b"<client_state/>" * 2):
        with pytest.raises(RemoteProtocolError):
            anonymise_state(body)
    entity = b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/hostname">]><client_state><host_info/><app><name>&e;</name></app></client_state>'
    assert b"app1" in anonymise_state(entity)


def test_a_state_file_without_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "client_state.xml"
    with path.open("wb") as stream:
        stream.truncate(2 * MAX_BYTES)
    with pytest.raises(ConfigError, match="at most"):
        scenario_from_state(path)


def test_the_options_of_the_anonymiser_are_checked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run_command(["simulate", "--anonymise", str(tmp_path / "x")]) == 2
    assert "--anonymise needs --from" in capsys.readouterr().err
    assert (
        run_command(["simulate", "--from", str(tmp_path / "none.xml"), "--anonymise", str(tmp_path / "x")])
        == 2
    )
    assert "none.xml: No such file" in capsys.readouterr().err


def page(days: float = 2.0, *, name: str = "laptop") -> str:
    scenario = replace(read_scenario(LAPTOP), name=name, duration=4 * DAY)
    hostile = replace(scenario.projects[0], name="<script>alert(1)</script>")
    scenario = replace(scenario, projects=(hostile, *scenario.projects[1:]))
    diary = Diary(start=0.0, end=days * DAY, names=tuple(sorted(p.name for p in scenario.projects)))
    result = simulate(scenario, PolicyChoice.parse("CS3_WF3_WS2_JC2"), seed=1, recorder=diary)
    return report_page(result, diary)


def test_the_page_tells_what_runs_and_why_and_trusts_no_name() -> None:
    text = page(name="a<b")
    assert "What would happen on this computer: a&lt;b" in text
    assert "<script" not in text
    assert text.count("<rect") > 20
    assert "its project" in text
    assert "asked for" in text
    assert re.search(r"A computer with 2 CPUs is on for \d+ hours\.", text)
    assert re.search(r"<div><b>\d+\.\d%</b>useful</div>.*<div><b>\d+</b>results late</div>", text)


def test_the_page_can_be_read_at_every_width_and_for_a_day() -> None:
    text = page()
    (least,) = re.findall(r"svg \{[^}]*min-width: (\d+)px", text)
    (wide,) = re.findall(r'viewBox="0 0 (\d+) ', text)
    assert int(least) >= int(wide), "text of the picture would shrink with the window"
    hours = re.findall(r'text-anchor="middle">(.*?)<', page(1.0))
    assert hours == ["06:00", "12:00", "18:00"]
    parts = [float(part) for part in re.findall(r"--part: ([\d.]+)%", text)]
    assert sum(parts) == pytest.approx(100.0, abs=0.2)


def test_a_picture_of_one_policy_has_a_bar_for_each_project_and_none_fills_it() -> None:
    axes = load_matplotlib().figure().subplots()
    tally = ProjectTally(needed_flops=9.7, late_flops=0.3)
    population._draw_fate(axes, {"all": [tally, tally], "climate": [tally]})
    assert [each.get_text() for each in axes.get_yticklabels()] == ["all", "climate"]
    assert {each.get_text() for each in axes.texts} == {"97"}, "what is too narrow has no figure"
    low, high = sorted(axes.get_ylim())
    assert max(bar.get_height() for bar in axes.patches) <= (high - low) / 4


def test_a_decision_that_stays_the_same_is_told_once() -> None:
    diary = Diary(start=0.0, end=100.0)
    for at in (1.0, 1.0, 2.0, 3.0):
        diary.note(at, "schedule", f"P job 1: debt {at:.0f}")
    diary.note(4.0, "schedule", "P job 2: debt 4")
    diary.note(200.0, "schedule", "P job 3: too late for the page")
    assert [at for at, _, _ in diary.decisions] == [1.0, 4.0]


def test_recording_changes_nothing(tmp_path: Path) -> None:
    scenario = replace(read_scenario(LAPTOP), duration=4 * DAY)
    policy = PolicyChoice.parse("CS2_WF2_WS2_JC2")
    plain = simulate(scenario, policy, seed=1)
    for recorder in (RunRecording(), Diary()):
        assert simulate(scenario, policy, seed=1, recorder=recorder).metrics == plain.metrics


def test_the_command_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "report.html"
    assert run_command(["simulate", str(LAPTOP), "--report", str(out), "--window", "0:1"]) == 0
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert run_command(["simulate", str(LAPTOP), "--report", str(tmp_path)]) == 2
    assert f"{tmp_path}: Is a directory" in capsys.readouterr().err
    assert run_command(["simulate", str(LAPTOP), "--report", str(out), "--hosts", "3"]) == 2
    assert "--report is for one host" in capsys.readouterr().err


def test_what_is_read_is_not_written_over_and_what_cannot_be_written_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own.toml"
    text = LAPTOP.read_text(encoding="utf-8").replace('"30 d"', '"2 d"')
    own.write_text(text, encoding="utf-8")
    for option in ("--report", "--log", "--picture", "--keep"):
        assert run_command(["simulate", str(own), option, str(own)]) == 2
        assert "is the input file" in capsys.readouterr().err
    assert run_command(["simulate", "--from", str(own), "--anonymise", str(own)]) == 2
    assert own.read_text(encoding="utf-8") == text
    capsys.readouterr()
    for option, name, said in (
        ("--log", ".", "Is a directory"),
        ("--log", "none/x", "No such file"),
        ("--log", "/dev/full", "/dev/full: No space left"),
        ("--picture", "none/x.svg", "there is no folder"),
    ):
        assert run_command(["simulate", str(own), option, str(tmp_path / name)]) == 2
        assert said in capsys.readouterr().err
    assert run_command(["simulate", str(own), "--window", "2:3", "--report", str(tmp_path / "r.html")]) == 2
    assert "the scenario ends on day 2" in capsys.readouterr().err


def test_names_with_dollar_signs_are_no_formulas(tmp_path: Path) -> None:
    text = LAPTOP.read_text(encoding="utf-8").replace('"30 d"', '"1 d"')
    own = tmp_path / "own.toml"
    own.write_text(
        text.replace('"laptop"', "'a $\\bad$'").replace('"climate"', "'$\\frac{$'"), encoding="utf-8"
    )
    assert run_command(["simulate", str(own), "--picture", str(tmp_path / "p.svg")]) == 0
    assert run_command(["simulate", str(own), "--hosts", "1", "--picture", str(tmp_path / "p.svg")]) == 0


def test_the_hours_under_a_picture_of_few_hosts_are_plain_numbers(tmp_path: Path) -> None:
    many = ROOT / "examples/simulator/population.toml"
    assert run_command(["simulate", str(many), "--hosts", "1", "--picture", str(tmp_path / "p.svg")]) == 0
    labels = re.findall(r"<!-- (.*?) -->", (tmp_path / "p.svg").read_text(encoding="utf-8"))
    assert "hours from first sending" in labels
    assert [each for each in labels if "times" in each or "^" in each] == [], "2 x 10^1 beside 3 x 10^1"


def test_the_page_says_what_its_colours_mean() -> None:
    text = page()
    assert ("What is darker runs because of its deadline" in text) == (" 38%)" in text)
    assert "0 jobs are given up" not in text
