"""The app description, the job's options and the runtime library without a launcher."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobblestone import launcher
from cobblestone.domain.errors import JobError
from cobblestone.launcher import cobblestone_runtime as runtime
from cobblestone.launcher.packing import wasm_description

ABOUT = {"ncpus": 4, "checkpoint_period": 60.0, "gpu": 1, "gpu_type": "NVIDIA"}
JOB = runtime.Job({"main": "in.json", "extra": "b.csv"}, {"main": "out.json"}, {"n": "3 4"}, [])


def test_the_file_is_valid_python_3_6() -> None:
    ast.parse(launcher.launcher_bytes(), feature_version=(3, 6))


def test_the_file_imports_the_standard_library_only() -> None:
    modules: set[str] = set()
    for node in ast.walk(ast.parse(launcher.launcher_bytes())):
        if isinstance(node, ast.Import):
            modules |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add((node.module or "").partition(".")[0])
    assert modules <= sys.stdlib_module_names


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["a", "{input}", "{output}"], ["a", "in.json", "out.json"]),
        (["a", "{inputs}"], ["a", "in.json", "b.csv"]),
        (["a", "--x={input:extra}:{output:main}"], ["a", "--x=b.csv:out.json"]),
        (["a", "{arg:n}", "{ncpus}", "{checkpoint_period}"], ["a", "3 4", "4", "60"]),
        (["a", "--device={gpu}", "{gpu_type}"], ["a", "--device=1", "NVIDIA"]),
        (["a", "{{input}}", "{{}}"], ["a", "{input}", "{}"]),
        (["python3", "x.py"], [sys.executable, "x.py"]),
    ],
)
def test_placeholders_are_filled(command: list[str], words: list[str]) -> None:
    assert runtime.expand_command(command, JOB, ABOUT) == words


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("{input:other}", "{input:other}, but the job has no such input"),
        ("{arg:m}", "the job has no such arg"),
        ("{arg}", "is no placeholder"),
        ("{banana}", "is no placeholder"),
        ("{ncpus:2}", "is no placeholder"),
        ("{", "is no placeholder"),
        ("x{inputs}", "is no placeholder"),
    ],
)
def test_a_placeholder_that_cannot_be_filled_is_named(word: str, message: str) -> None:
    with pytest.raises(runtime.LauncherError) as caught:
        runtime.expand_command(["a", word], JOB, ABOUT)
    assert message in str(caught.value)


@given(st.text())
def test_braces_can_always_be_written(text: str) -> None:
    escaped = text.replace("{", "{{").replace("}", "}}")
    assert runtime.expand_word(escaped, JOB, ABOUT) == text


@given(st.dictionaries(st.from_regex(r"[a-z0-9_.-]+", fullmatch=True), st.text(st.characters(codec="utf-8"))))
def test_arguments_survive_the_clients_splitting_at_white_space(arguments: dict[str, str]) -> None:
    line = launcher.job_command_line(
        inputs={"main": "in.json"}, outputs={"main": "deep/out.json"}, arguments=arguments
    )
    job = runtime.parse_job(line.split(), under_client=True)
    assert job == runtime.Job({"main": "in.json"}, {"main": "deep/out.json"}, arguments, [])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--banana", "x"], "unknown option '--banana'"),
        (["--input"], "--input needs NAME=VALUE"),
        (["--input", "main"], "--input needs NAME=VALUE"),
        (["--input", "a=b", "--input", "a=c"], "--input a is given twice"),
        (["--input", "a=/etc/passwd"], "not the name of a file in the slot"),
        (["--output", "a=../x"], "not the name of a file in the slot"),
        (["--output", "a=x%2F..%2F..%2Fy"], "not the name of a file in the slot"),
        (["--output", "a=x%00y"], "not the name of a file in the slot"),
        (["--input", "a="], "not the name of a file in the slot"),
        (["--", "sh", "-c", "true"], "unknown option '--'"),
    ],
)
def test_the_server_cannot_name_a_command_or_a_file_outside_the_slot(words: list[str], message: str) -> None:
    with pytest.raises(runtime.LauncherError) as caught:
        runtime.parse_job(words, under_client=True)
    assert message in str(caught.value)


def test_a_scientist_may_name_any_file_and_command() -> None:
    job = runtime.parse_job(["--input", "a=/data/x", "--", "sh"], under_client=False)
    assert job == runtime.Job({"a": "/data/x"}, {}, {}, ["sh"])


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a JSON object"),
        ("{}", "'command' must be a list with at least one word"),
        ('{"command": "a b"}', "'command' must be a list"),
        ('{"command": [1]}', "'command' must be a list (of texts)"),
        ('{"command": ["a"], "files": {"x": 1}}', "'files' must be a dict"),
        ('{"command": ["a"], "enforce_memory": 1}', "'enforce_memory' must be a bool"),
        ('{"command": ["a"], "comand": ["b"]}', "unknown key 'comand'; known are command, files"),
    ],
)
def test_a_wrong_app_description_is_explained(description: str, message: str) -> None:
    with pytest.raises(runtime.LauncherError) as caught:
        runtime.read_app(description)
    assert message in str(caught.value)


def test_an_app_description_is_read_as_it_was_written() -> None:
    data = launcher.app_description(
        ["python3", "x.py", "{input:a}", "{arg:b}", "{inputs}"],
        files={"x.py": b"print(1)"},
        stdout="{output:main}",
        optional_outputs=["log"],
        environment={"A": "b"},
        enforce_memory=True,
        quit_grace_seconds=20,
    )
    app = runtime.read_app(data.decode())
    assert app.files == {"x.py": hashlib.sha256(b"print(1)").hexdigest()}
    assert (app.stdout, app.optional_outputs, app.environment) == ("{output:main}", ["log"], {"A": "b"})
    assert (app.enforce_memory, app.enforce_disk, app.quit_grace_seconds) == (True, False, 20.0)


@pytest.mark.parametrize("command", [[], ["a", "{banana}"], ["a", "{"], [""]])
def test_the_server_refuses_a_command_that_no_launcher_could_run(command: list[str]) -> None:
    with pytest.raises(JobError, match="The app's command cannot be used"):
        launcher.app_description(command)


def test_a_bad_name_of_an_argument_is_refused() -> None:
    with pytest.raises(JobError, match="'a b'"):
        launcher.job_command_line(arguments={"a b": "1"})


def test_numbers_of_the_client_that_make_no_sense_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "init_data.xml"
    path.write_text(
        "<checkpoint_period>nan</checkpoint_period><wu_cpu_time>-1</wu_cpu_time><ncpus>inf</ncpus>"
    )
    info = runtime.read_init_data(str(path))
    assert info is not None
    assert (info.checkpoint_period, info.cpu_time, info.ncpus) == (300.0, 0.0, 1.0)
    assert runtime.read_init_data(str(tmp_path / "absent")) is None


def gpu_info(folder: Path, kind: str, number: int, usage: float) -> runtime.InitData:
    path = folder / "init_data.xml"
    path.write_text(
        f"<gpu_type>{kind}</gpu_type><gpu_device_num>{number}</gpu_device_num><gpu_usage>{usage}</gpu_usage>"
    )
    info = runtime.read_init_data(str(path))
    assert info is not None
    return info


@pytest.mark.parametrize(
    ("kind", "number", "usage", "command", "variables"),
    [
        ("NVIDIA", 1, 1.0, ["python3", "x.py"], {"CUDA_VISIBLE_DEVICES": "1"}),
        ("ATI", 0, 0.5, ["python3", "x.py"], {"HIP_VISIBLE_DEVICES": "0"}),
        ("intel_gpu", 2, 1.0, ["python3", "x.py"], {"ZE_AFFINITY_MASK": "2"}),
        ("NVIDIA", 1, 1.0, ["x", "--gpu={gpu}"], {}),  # it counts among all
        ("NVIDIA", 0, 2.0, ["python3", "x.py"], {}),  # the client names the first only
        ("", -1, 0.0, ["python3", "x.py"], {}),
        ("other", 0, 1.0, ["python3", "x.py"], {}),
    ],
)
def test_a_program_sees_the_gpu_that_the_client_gave_it(
    kind: str, number: int, usage: float, command: list[str], variables: dict[str, str], tmp_path: Path
) -> None:
    assert runtime.gpu_variables(gpu_info(tmp_path, kind, number, usage), command) == variables


@pytest.mark.parametrize(
    ("kind", "number", "usage", "podman", "docker"),
    [
        ("NVIDIA", 1, 0.5, ["--device=nvidia.com/gpu=1"], ["--gpus=device=1"]),
        ("NVIDIA", 0, 2.0, ["--device=nvidia.com/gpu=all"], ["--gpus=all"]),
        (
            "ATI",
            0,
            1.0,
            ["--device=/dev/dri", "--device=/dev/kfd"],
            ["--device=/dev/dri", "--device=/dev/kfd"],
        ),
        ("intel_gpu", 0, 1.0, ["--device=/dev/dri"], ["--device=/dev/dri"]),
    ],
)
def test_an_engine_is_told_to_give_the_container_its_gpu(
    kind: str, number: int, usage: float, podman: list[str], docker: list[str], tmp_path: Path
) -> None:
    info = gpu_info(tmp_path, kind, number, usage)
    assert runtime.gpu_options(info, True) == podman
    assert runtime.gpu_options(info, False) == docker
    assert runtime.gpu_options(info._replace(gpu=-1), True) == runtime.gpu_options(None, False) == []


@pytest.mark.parametrize("word", ["{gpu}", "--kind={gpu_type}"])
def test_a_native_launcher_does_not_know_the_number_of_the_gpu(word: str) -> None:
    with pytest.raises(JobError, match="are not known"):
        wasm_description(["x", word], module="m", module_sha256="0" * 64, native_sha256=())


def run_library(code: str, folder: Path | None = None) -> str:
    environment = {**os.environ, "PYTHONPATH": str(Path(runtime.__file__).parent)}
    if folder:
        environment["COBBLESTONE_FOLDER"] = str(folder)
    words = [sys.executable, "-c", "import os, cobblestone_runtime as r\n" + code]
    return subprocess.run(
        words, env=environment, capture_output=True, text=True, timeout=30, check=True
    ).stdout


def test_the_library_does_nothing_without_a_launcher(tmp_path: Path) -> None:
    os_chdir = f"os.chdir({str(tmp_path)!r})"
    code = """
r.progress(0.5); r.checkpoint(); r.trickle("a", "b")
print(r.receive_trickles(), r.time_to_checkpoint(), r.checkpoint_period(), r.job_info()["ncpus"])
print(os.listdir())
"""
    assert run_library(os_chdir + code) == "[] False 300.0 1\n[]\n"


def test_the_library_writes_progress_within_its_range(tmp_path: Path) -> None:
    run_library("r.progress(7.5)", tmp_path)
    assert (tmp_path / "cobblestone_progress").read_text() == "1.000000\n"
    run_library("r.progress(-1)", tmp_path)
    assert (tmp_path / "cobblestone_progress").read_text() == "0.000000\n"


def test_each_checkpoint_is_a_new_text(tmp_path: Path) -> None:
    texts: set[str] = set()
    for _ in range(3):
        run_library("r.checkpoint()", tmp_path)
        texts.add((tmp_path / "cobblestone_checkpoint").read_text())
    assert len(texts) == 3


@pytest.mark.parametrize(
    "call",
    [
        "r.progress(float('nan'))",
        "r.trickle('', 'x')",
        "r.trickle('a b', 'x')",
        "r.trickle('a', 'x' * 60001)",
        "r.trickle('a', '</msg_from_host>')",
        "r.trickle('a', chr(0))",
    ],
)
def test_the_library_refuses_what_would_break_the_clients_messages(call: str, tmp_path: Path) -> None:
    code = f"try:\n    {call}\nexcept ValueError as problem:\n    print(problem)\nprint(os.listdir(FOLDER))"
    said, files = run_library(f"FOLDER = {str(tmp_path)!r}\n{code}", tmp_path).splitlines()
    assert said
    assert files == "[]"


def test_sigterm_asks_for_a_checkpoint_but_still_ends_forked_workers(tmp_path: Path) -> None:
    (tmp_path / "cobblestone_job.json").write_text(json.dumps({"checkpoint_period": 3600}))
    code = """
import signal, time
print(r.time_to_checkpoint())
ready, tell = os.pipe()
worker = os.fork()
if worker == 0:
    os.write(tell, b"!")
    while True: time.sleep(0.01)
os.read(ready, 1)
os.kill(worker, signal.SIGTERM)
print(os.WTERMSIG(os.waitpid(worker, 0)[1]))
os.kill(os.getpid(), signal.SIGTERM)
print(r.time_to_checkpoint())
"""
    assert run_library(code, tmp_path) == f"False\n{signal.SIGTERM:d}\nTrue\n"


def test_an_apps_own_sigterm_handler_is_left_alone(tmp_path: Path) -> None:
    code = """
import signal
signal.signal(signal.SIGTERM, lambda *_: print("mine"))
r.time_to_checkpoint()
os.kill(os.getpid(), signal.SIGTERM)
"""
    assert run_library(code, tmp_path) == "mine\n"
