"""Snakemake itself, with workflows whose rules run under Debian's client."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.e2e.conftest import LiveProject

from cobblestone.api_schema.apps import AppChanges, RulesBody

SNAKEFILE = """
STATIONS = ["north", "south"]

rule all:
    input: "report.txt", "plots/warmest.svg", "checked"

rule means:
    input: table="data/{station}.csv", program="scripts/mean.awk"
    output: temp("means/{station}.txt")
    params: name=lambda wildcards: wildcards.station.upper()
    log: "logs/mean/{station}.log"
    shell: "awk -v name={params.name} -f {input.program} {input.table} > {output} 2> {log}"

rule report:
    input: expand("means/{station}.txt", station=STATIONS)
    output: protected("report.txt")
    shell: "sort -k2 -rn {input} | tee {output}"

rule check:
    input: expand("means/{station}.txt", station=STATIONS)
    output: touch("checked")
    shell: "test $(cat {input} | wc -l) = 2"

localrules: plot

rule plot:
    input: "report.txt"
    output: "plots/warmest.svg"
    run:
        with open(input[0]) as report, open(output[0], "w") as plot:
            plot.write("<svg>" + report.readline() + "</svg>")
"""
MEAN = """
{ sum += $2; n++ }
END { print name, sum / n; print NR " days" > "/dev/stderr" }
"""
FAILING = """
rule all:
    output: "never"
    log: "logs/all.log"
    shell: "echo the table is empty >&2; exit 7"
"""
REFUSED = """
rule all:
    input: "a", "b"

rule first:
    output: "a"
    run: open(output[0], "w").close()

rule second:
    output: directory("b")
    shell: "mkdir {output}"
"""


class Workflow:
    """A folder with a Snakefile."""

    def __init__(self, project: LiveProject, name: str, text: str) -> None:
        self.folder = project.root / name
        self.folder.mkdir()
        (self.folder / "Snakefile").write_text(text)
        words = ("token", "create", name, "--scope", "submit", "--quiet", "--project", str(project.folder))
        token = project.cli(*words).stdout.strip()
        self.environment = {**os.environ, "COBBLESTONE_TOKEN": token, "HOME": str(self.folder)}
        self.words = [
            str(Path(sys.executable).parent / "snakemake"), "--executor", "cobblestone", "--cobblestone-app", "rules",
            "--cobblestone-url", project.url, "--jobs", "4", "--seconds-between-status-checks", "1",
        ]  # fmt: skip

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        with (self.folder / "said.txt").open("wb") as log:
            return subprocess.Popen(
                [*self.words, *options], cwd=self.folder, env=self.environment, stdout=log, stderr=log
            )

    @property
    def said(self) -> str:
        return (self.folder / "said.txt").read_text()


def make_app(project: LiveProject) -> None:
    project.cli(
        "app", "create", "rules", "--project", str(project.folder), "--command", "sh {inputs}", "--output", "outputs.tar"
    )  # fmt: skip


def test_a_workflow_that_was_killed_goes_on_with_its_jobs_and_a_rule_that_fails_tells_why(
    live: Callable[..., LiveProject],
) -> None:
    project = live()
    make_app(project)
    project.project.change_app("rules", AppChanges(rules=RulesBody(max_error_results=0)))
    flow = Workflow(project, "weather", SNAKEFILE)
    for name in ("data", "scripts"):
        (flow.folder / name).mkdir()
    (flow.folder / "data" / "north.csv").write_text("mon 3\ntue 4\n")
    (flow.folder / "data" / "south.csv").write_text("mon 12\ntue 15\n")
    (flow.folder / "scripts" / "mean.awk").write_text(MEAN)
    other = Workflow(project, "failing", FAILING)
    failing, killed = other.start(), flow.start()
    end = time.monotonic() + 60
    while project.value("SELECT COUNT(*) FROM workunit") < 3:
        assert time.monotonic() < end, flow.said + other.said
        time.sleep(0.1)
    killed.kill()
    killed.wait()
    subprocess.run(
        [*flow.words, "--unlock"], cwd=flow.folder, env=flow.environment, check=True, capture_output=True
    )
    again = flow.start()
    alice = project.volunteer("alice")
    project.wait(
        lambda: again.poll() is not None and failing.poll() is not None,
        alice,
        seconds=150,
        what="both workflows",
    )
    assert again.returncode == 0, flow.said
    assert (flow.folder / "report.txt").read_text() == "SOUTH 13.5\nNORTH 3.5\n"
    assert (flow.folder / "plots" / "warmest.svg").read_text() == "<svg>SOUTH 13.5\n</svg>"
    assert (flow.folder / "logs" / "mean" / "south.log").read_text() == "2 days\n"
    assert (flow.folder / "checked").exists()
    assert not (flow.folder / "means" / "north.txt").exists(), "temporary"
    assert project.value("SELECT COUNT(*) FROM workunit WHERE name LIKE 'rules%'") == 5, "none is sent twice"
    assert {batch.state for batch in project.project.batches()} == {"retired"}
    dry = subprocess.run(
        [flow.words[0], "-n"], cwd=flow.folder, env=flow.environment, capture_output=True, text=True
    )
    assert "Nothing to be done" in dry.stdout + dry.stderr
    assert failing.returncode == 1
    assert (other.folder / "logs" / "all.log").read_text().startswith("the table is empty\n"), other.said


def test_a_workflow_that_cannot_run_elsewhere_is_refused_before_anything_is_sent(
    live: Callable[..., LiveProject],
) -> None:
    project = live()
    make_app(project)
    flow = Workflow(project, "refused", REFUSED)
    assert flow.start().wait(60) == 1
    assert "first: It has no `shell:`" in flow.said
    assert "second: b is a folder; only files are sent." in flow.said
    assert "localrules" in flow.said
    assert project.project.batches() == []
