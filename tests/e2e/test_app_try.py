"""``cobblestone app try``: a job on this computer as a volunteer's client runs it, with real processes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.helpers.wasm_slot import COPY, put_native_launcher

from cobblestone.api_schema.apps import App
from cobblestone.cli import run_command
from cobblestone.client.conditions.gpus import find_gpus
from cobblestone.domain.apps import GPU_MAKERS
from cobblestone.domain.errors import JobError
from cobblestone.sdk.packing.trial import version_here

DOUBLE = "import sys\nopen(sys.argv[2], 'w').write(str(2 * int(open(sys.argv[1]).read()) + int(sys.argv[3])) + '\\n')\n"
LARGE = "import sys, time\ndata = bytearray(80_000_000)\ntime.sleep(2)\nopen(sys.argv[2], 'w').write('x')\n"


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Outcome]:
    """Commands in a folder with a project."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Outcome:
        capfd.readouterr()
        status = run_command([*words, "-p", str(tmp_path / "sky")])
        printed = capfd.readouterr()
        assert "Traceback" not in printed.err
        return Outcome(status, printed.out, printed.err)

    assert run_command(["project", "create", "sky", "--port", "18996"]) == 0
    (tmp_path / "low.txt").write_text("20")
    return run


def create(cli: Callable[..., Outcome], name: str, program: str, *options: str, command: str = "") -> Outcome:
    Path(f"{name}.py").write_text(program)
    words = command or f"python3 {name}.py {{input}} {{output}}"
    return cli("app", "create", name, "--command", words, "--files", f"{name}.py", *options)


def test_a_job_is_run_in_launcher_slot_and_sandbox_and_all_that_came_of_it_is_shown(
    cli: Callable[..., Outcome], tmp_path: Path
):
    # long enough for memory to be looked at while it runs
    made = create(
        cli,
        "double",
        f"import time\ntime.sleep(2)\n{DOUBLE}",
        command="python3 double.py {input} {output} {arg:k}",
    )
    assert made.status == 0, made.err
    tried = cli("app", "try", "double", "low.txt", "--arg", "k=2", "--to", "kept")
    assert tried.status == 0, tried.err + tried.out
    assert tried.out.startswith(
        "Running a job of double here, for 10 min at most (--timeout).\nA job of double"
    )
    assert "A job of double 1.00 succeeded" in tried.out
    assert "output: 3 B" in tried.out
    assert "| 42" in tried.out
    assert "exit status  0" in tried.out
    assert (tmp_path / "kept" / "output").read_text() == "42\n"
    found = cli("app", "try", "double", "low.txt", "--arg", "k=2", "--json").json
    assert (found["succeeded"], found["outputs"]) == (True, {"output": 3})
    assert found["seconds"] > 0
    assert found["peak_memory_bytes"] > 1e6
    assert cli("batch", "list", "--json").json == []  # nothing was submitted


def test_a_trial_takes_the_version_for_the_processor_unless_it_is_asked_for_a_gpu(
    cli: Callable[..., Outcome],
):
    program = "import sys, cobblestone_runtime as r\nopen(sys.argv[2], 'w').write(r.job_info()['gpu_type'] + sys.argv[3])"
    words = "python3 {name}.py {{input}} {{output}} {word}"
    create(cli, "card", program, "--gpu", "any", command=words.format(name="card", word="card"))
    on_cpu = words.format(name="card", word="processor")
    assert cli("app", "update", "card", "--files", "card.py", "--command", on_cpu).status == 0
    assert cli("app", "update", "card", "--files", "card.py", "--gpu", "amd", "--command", on_cpu).status == 0
    assert "| processor" in cli("app", "try", "card", "low.txt").out
    if not find_gpus(os.environ):
        assert "No GPU was found on this computer" in cli("app", "try", "card", "low.txt", "--gpu").err
    (app,) = cli("app", "list", "--json").json
    known, classes = msgspec.convert(app, App), {f"gpu-{each}": kind for each, kind in GPU_MAKERS.items()}
    assert version_here(known, classes, ["ATI"]).version_num == 101
    assert version_here(known, classes, ["intel_gpu", "apple_gpu"]).plan_class == "gpu-intel"
    with pytest.raises(JobError, match="no version for the GPUs of this computer: apple_gpu"):
        version_here(known, classes, ["apple_gpu"])


def test_a_job_that_fails_shows_its_exit_status_and_error_output(cli: Callable[..., Outcome]):
    create(cli, "broken", "import sys\nprint('about to fail', file=sys.stderr)\nsys.exit(7)\n")
    tried = cli("app", "try", "broken", "low.txt")
    assert tried.status == 3
    assert "A job of broken 1.00 failed" in tried.out
    assert "exit status  7" in tried.out
    assert "| about to fail" in tried.out


def test_a_module_that_volunteers_do_not_have_is_said_before_an_app_is_made_and_by_a_trial(
    cli: Callable[..., Outcome],
):
    program = "import nosuchmodule\n"
    refused = create(cli, "modules", program)
    assert refused.status == 1
    assert "modules.py, line 1: it imports nosuchmodule" in refused.err
    assert cli("app", "list", "--json").json == []
    assert create(cli, "modules", program, "--installed", "nosuchmodule").status == 0
    tried = cli("app", "try", "modules", "low.txt")
    assert tried.status == 3
    assert "! The program imports nosuchmodule, which is not part of Python" in tried.out


def test_a_trial_ends_at_its_time_and_tells_of_too_much_memory(cli: Callable[..., Outcome]):
    create(cli, "endless", "import time\nwhile True:\n    time.sleep(0.1)\n")
    tried = cli("app", "try", "endless", "low.txt", "--timeout", "2")
    assert tried.status == 3
    assert "exit status  197" in tried.out
    create(cli, "large", LARGE, "--memory", "50MB")
    assert "It used more memory than the app declares" in cli("app", "try", "large", "low.txt").out


def test_a_job_that_lacks_inputs_or_arguments_is_not_begun(cli: Callable[..., Outcome]):
    create(cli, "double", DOUBLE, command="python3 double.py {input} {output} {arg:k}")
    assert "has 1 input files (input); 0 were given" in cli("app", "try", "double").err
    assert "{arg:k}. Give it: --arg k=VALUE" in cli("app", "try", "double", "low.txt").err
    assert "does not exist" in cli("app", "try", "double", "gone.txt", "--arg", "k=1").err
    extra = cli("app", "try", "double", "low.txt", "--arg", "k=1", "--arg", "j=2")
    assert "does not use {arg:j}" in extra.err
    assert "There is no app called 'other'" in cli("app", "try", "other").err
    taken = cli("app", "try", "double", "low.txt", "--arg", "k=1", "--to", "low.txt")
    assert (taken.status, taken.out, taken.err) == (1, "", "Error: low.txt: File exists.\n")


def test_a_module_is_run_in_the_sandbox_and_its_instructions_are_counted(
    cli: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COBBLESTONE_LAUNCHERS", str(tmp_path))
    put_native_launcher(tmp_path / "cobblestone_launcher_x86_64-pc-linux-gnu")
    Path("copy.wasm").write_bytes(COPY)
    options = ["--wasm", "copy.wasm", "--platform", "x86_64-pc-linux-gnu"]
    Path("low.txt").rename("input")
    created = cli("app", "create", "copy", "--command", "copy {input} {output}", *options)
    assert created.status == 0, created.err
    tried = cli("app", "try", "copy", "input")
    assert tried.status == 0, tried.err + tried.out
    assert "| 20" in tried.out
    assert "instructions, the same on every computer" in tried.out
    counts = [cli("app", "try", "copy", "input", "--json").json["instructions"] for _ in range(2)]
    assert counts[0] == counts[1] > 0
