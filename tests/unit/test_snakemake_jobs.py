"""A rule of a workflow as a job: the script that is sent does what Snakemake would do here, and says why it cannot."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cobblestone.domain.errors import CobblestoneError, JobError
from cobblestone.sdk.api.connection import JobFailed
from snakemake_executor_plugin_cobblestone import rule_jobs

COMMANDS = [["sh", "{inputs}"], ["python3", "{inputs}"]]


class Named(str):
    """A path with Snakemake's flags."""

    is_storage = False
    flags: dict[str, bool]

    def __new__(cls, path: str, *flags: str) -> Named:
        made = super().__new__(cls, path)
        made.flags = dict.fromkeys(flags, True)
        return made


def job(command: str = "true", **more: Any) -> Any:
    """A rule's job as Snakemake hands it over."""
    known = {
        "name": "rule", "input": [], "output": [], "log": [], "shellcmd": command, "benchmark": None, "threads": 1,
        "is_shell": True, "is_pipe": False, "is_service": False, "is_group": lambda: False,
    }  # fmt: skip
    return SimpleNamespace(**known | more)


def run(sent: Any, words: list[str], slot: Path) -> subprocess.CompletedProcess[str]:
    """What the launcher does: inputs by numbers in a folder of the job, and the command on them."""
    slot.mkdir(exist_ok=True)
    names: list[str] = []
    for number, each in enumerate(sent.inputs):
        names.append(f"input_{number}")
        (slot / names[-1]).write_bytes(Path(each).read_bytes() if isinstance(each, str) else each.data)
    program = sys.executable if words[0] == "python3" else words[0]
    return subprocess.run([program, *names], cwd=slot, capture_output=True, text=True)


@pytest.fixture(autouse=True)
def workflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "flow"
    (folder / ".snakemake").mkdir(parents=True)
    (folder / "data").mkdir()
    (folder / "data" / "it's one.txt").write_text("3\n1\n")
    (folder / "input_1").write_text("2\n")
    monkeypatch.chdir(folder)
    return folder


def result(packed: bytes) -> Any:
    return SimpleNamespace(
        name="a",
        outputs=SimpleNamespace(save=lambda name, path: path.write_bytes(packed), name="outputs.tar"),
    )


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_files_lie_where_the_rule_expects_them_and_its_outputs_come_back(
    words: list[str], tmp_path: Path
) -> None:
    some = job(
        "sort -n data/*.txt input_1 > out/deep/sorted; echo told > logs/a.log; echo seen",
        input=[Named("data/it's one.txt"), Named("input_1"), Named("input_1")],
        output=[Named("out/deep/sorted"), Named("out/done", "touch")], log=[Named("logs/a.log"), Named("logs/none.log")],
    )  # fmt: skip
    sent = rule_jobs.sent_job(some, words)
    assert isinstance(sent.inputs, list)
    assert len(sent.inputs) == 3
    done = run(sent, words, tmp_path / "slot")
    assert (done.returncode, done.stderr, done.stdout) == (0, "seen\n", "")
    assert run(sent, words, tmp_path / "slot").returncode == 0, "a job that was interrupted begins again"
    rule_jobs.fetch(some, result((tmp_path / "slot" / "outputs.tar").read_bytes()))
    assert Path("out/deep/sorted").read_text() == "1\n2\n3\n"
    assert Path("logs/a.log").read_text() == "told\n"
    assert not Path("out/done").exists()
    assert sorted(path.name for path in Path().iterdir()) == [".snakemake", "data", "input_1", "logs", "out"]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_a_command_that_fails_somewhere_fails_the_job_and_shows_its_log(
    words: list[str], tmp_path: Path
) -> None:
    for command in ("echo why > logs/a.log; false | cat", "echo why > logs/a.log; echo $UNSET"):
        some = job(command, log=[Named("logs/a.log")])
        done = run(rule_jobs.sent_job(some, words), words, tmp_path / "slot")
        assert done.returncode != 0
        assert "why" in done.stderr
    some = job("true", output=[Named("missing")])
    assert "missing" in run(rule_jobs.sent_job(some, words), words, tmp_path / "slot").stderr


def test_a_job_has_the_same_name_while_command_and_inputs_are_the_same(workflow: Path) -> None:
    def name(command: str) -> str:
        return rule_jobs.sent_job(job(command, input=[Named("input_1")]), COMMANDS[0]).name

    before = name("true")
    assert name("true") == before
    assert name("true x") != before
    (workflow / "input_1").write_text("22\n")
    assert name("true") != before


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({"is_shell": False}, "has no `shell:`"),
        ({"is_group": lambda: True}, "leave out `group:`"),
        ({"is_pipe": True}, "Pipes"),
        ({"benchmark": "b.tsv"}, "measures this computer"),
        ({"threads": 8}, "give --max-threads 1"),
        ({"input": [Named("a")] * 200}, "199 are possible"),
        ({"input": [Named("/data/genome")]}, "outside of the workflow's folder"),
        ({"output": [Named("../x")]}, "outside of the workflow's folder"),
        ({"output": [Named("plots", "directory")]}, "plots is a folder"),
        ({"input": [Named("data")]}, "data is a folder"),
        ({"input": [SimpleNamespace(is_storage=True)]}, "lies in a storage"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_needs_this_computer_is_refused_in_words(about: dict[str, Any], words: str) -> None:
    assert words in rule_jobs.why_not(job(**about))
    assert rule_jobs.why_not(job(input=[Named("input_1")], output=[Named("new")])) == ""


def test_an_app_that_does_something_else_is_refused() -> None:
    def app(*command: str, output: str = "outputs.tar") -> Any:
        return SimpleNamespace(name="a", command=list(command), outputs=[SimpleNamespace(name=output)])

    assert rule_jobs.checked_command(app("python3", "{inputs}")) == ["python3", "{inputs}"]
    for other in (app("cat", "{inputs}"), app("sh", "{inputs}", output="x"), app()):
        with pytest.raises(JobError, match=r"--output outputs\.tar"):
            rule_jobs.checked_command(other)


def packed(fill: Callable[[tarfile.TarFile], None], mode: str = "w") -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode) as archive:  # pyright: ignore[reportCallIssue, reportArgumentType]
        fill(archive)
    return made.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> Callable[[tarfile.TarFile], None]:
    about = tarfile.TarInfo(name)
    about.type, about.linkname = kind, link
    return lambda archive: archive.addfile(about)


@pytest.mark.parametrize(
    "answer",
    [
        b"", b"no tar at all", packed(member("other")), packed(member("out"), "w:gz"), packed(member("/out")),
        packed(member("../out")), packed(member("out", tarfile.SYMTYPE, "/etc/passwd")), packed(member("out", tarfile.DIRTYPE)),
    ],
    ids=["nothing", "no tar", "another name", "packed", "absolute", "above", "link", "folder"],
)  # fmt: skip
def test_what_a_stranger_packed_otherwise_is_not_unpacked(answer: bytes, tmp_path: Path) -> None:
    with pytest.raises(CobblestoneError):
        rule_jobs.fetch(job(output=[Named("out")]), result(answer))
    assert not Path("out").exists()
    assert not (tmp_path / "out").exists()
    assert list(Path(".snakemake").iterdir()) == []


def test_files_that_no_rule_asked_for_are_left_out() -> None:
    def both(archive: tarfile.TarFile) -> None:
        member("out")(archive)
        member("Snakefile")(archive)

    rule_jobs.fetch(job(output=[Named("out")]), result(packed(both)))
    assert Path("out").exists()
    assert not Path("Snakefile").exists()
    with pytest.raises(JobFailed, match="has no more"):
        rule_jobs.fetch(job(output=[Named("out"), Named("more")]), result(packed(both)))
