"""Commands as a scientist and an operator type them, on a project that does not run."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import shutil
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.command_line import run_here

from cobblestone.cli import run_command
from cobblestone.domain.errors import ConfigError
from cobblestone.ops.environment import typed_word
from cobblestone.server.core.project import ProjectFolder
from cobblestone.server.operation import create_project
from cobblestone.store.catalog import apps
from cobblestone.store.engine.database import Store
from cobblestone.store.work.lifecycle import mark_assimilated, views


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Cli = Callable[..., Outcome]


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run a command line in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(line: str, *more: str, status: int = 0) -> Outcome:
        capfd.readouterr()
        exit_status = run_command([*shlex.split(line), *more])
        printed = capfd.readouterr()
        outcome = Outcome(exit_status, printed.out, printed.err)
        assert outcome.status == status, outcome
        assert "Traceback" not in outcome.err
        return outcome

    return run


@pytest.fixture(scope="module")
def with_sky(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a project that has an app, a program and inputs, to be copied."""
    folder = tmp_path_factory.mktemp("with_sky")
    with contextlib.chdir(folder):
        run_here(*shlex.split("project create sky --port 18999"))
        Path("period.py").write_text("print(1)\n")
        Path("inputs").mkdir()
        for name in ("low", "high"):
            Path("inputs", f"{name}.json").write_text(f'"{name}"')
        run_here(*shlex.split(CREATE_PERIOD))
    return folder


@pytest.fixture
def sky(cli: Cli, with_sky: Path, tmp_path: Path) -> Path:
    """A project with an app; the current folder holds a program and inputs."""
    shutil.copytree(with_sky, tmp_path, dirs_exist_ok=True)
    return tmp_path / "sky"


CREATE_PERIOD = (
    'app create period -p sky --command "python3 period.py {input} {output}" --files period.py --quorum 2'
)


def test_an_app_is_made_with_spot_checks_and_paid_steadily(cli: Cli, sky: Path):
    words = '--command "cat {input}" --stdout out'
    cli(f"app create checked -p sky {words} --spot-checks")
    shown = json.loads(cli("app show checked -p sky --json").out)
    assert (shown["dispatch"]["adaptive"], shown["rules"]["min_quorum"]) == (True, 2)
    assert shown["credit"]["system"] == "steady"
    said = cli("doctor -p sky --check liars").out
    assert "app checked" in said
    assert "4.1 %" in said
    assert "app period" in said


def test_an_app_says_by_keywords_what_it_is_about(cli: Cli, sky: Path):
    cli('app create cells -p sky --command "cat {input}" --stdout out --keywords 14')
    shown = json.loads(cli("app show cells -p sky --json").out)
    assert shown["dispatch"]["keywords"] == [9, 13, 14], "with the wider ones"
    assert "14 Cancer research" in cli("app dispatch cells -p sky").out
    cli("app dispatch cells -p sky --keywords 1,48")
    assert "1 Astronomy, 20 Europe, 48 United Kingdom" in cli("app dispatch cells -p sky").out
    assert "There is no keyword 56" in cli("app dispatch cells -p sky --keywords 56", status=1).err
    assert "is not a list of numbers" in cli("app dispatch cells -p sky --keywords stars", status=2).err
    cli("app dispatch cells -p sky --keywords 0")
    assert json.loads(cli("app show cells -p sky --json").out)["dispatch"]["keywords"] == []
    assert "Number Theory" in cli("app keywords").out


# -- project --------------------------------------------------------------------------------------------------


def test_a_project_is_made_with_all_that_it_needs(cli: Cli, tmp_path: Path):
    said = cli("project create sky --name 'The sky' --port 18998").out
    assert "cobblestone run sky" in said
    folder = ProjectFolder(tmp_path / "sky")
    settings = folder.settings()
    assert (settings.project.name, settings.project.url) == ("The sky", "http://127.0.0.1:18998/")
    assert folder.admin_token_file.read_text().startswith("cob_")
    for secret in (folder.admin_token_file, folder.code_sign_private, folder.secret_file):
        assert secret.stat().st_mode & 0o077 == 0
    assert "# " in (folder.root / "cobblestone.toml").read_text()
    assert cli("status -p sky").out.startswith("The sky at http://127.0.0.1:18998/: not running")


def test_a_command_that_is_proposed_can_be_copied_also_where_a_folder_has_a_space(cli: Cli, tmp_path: Path):
    said = cli("project create 'my sky' --port 18998").out.splitlines()
    assert said[-2:] == [
        "  cobblestone run 'my sky'",
        """  cobblestone app create NAME --project 'my sky' --command "python3 program.py {input} {output}" --files program.py""",
    ]
    assert f"cobblestone run '{tmp_path}/my sky'" in cli("stop -p 'my sky'", status=1).err
    (tmp_path / "my folder").mkdir()
    for command, status, proposed in (
        ("app list -p 'my folder'", 1, f"cobblestone project create '{tmp_path}/my folder'"),
        ("client status -d 'my folder'", 1, "cobblestone client run 'my folder'"),
        ("creditbench report 'my folder'", 1, "cobblestone creditbench run 'my folder'"),
        ("statistics create 'my site'", 0, "cobblestone statistics run 'my site'"),
        (
            "manager create 'my stones' --url http://127.0.0.1:18997/",
            0,
            "cobblestone manager run 'my stones'",
        ),
    ):
        answer = cli(command, status=status)
        assert proposed in answer.out + answer.err


def test_a_proposed_command_has_the_quotes_of_its_system():
    assert typed_word(Path("my sky"), windows=False) == "'my sky'"
    assert typed_word(r"C:\my sky", windows=True) == r'"C:\my sky"'
    assert typed_word(r"C:\sky", windows=True) == r"C:\sky"


def test_of_two_that_create_a_project_in_one_folder_one_does_and_has_its_own_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    together, keys = threading.Barrier(2), create_project._keys

    def meet(wish: create_project.NewProject) -> tuple[str, str]:
        together.wait(60)
        return keys(wish)

    def create() -> object:
        try:
            return create_project.create_project(tmp_path / "sky", create_project.NewProject(), now=1.7e9)
        except ConfigError as error:
            return str(error)

    monkeypatch.setattr(create_project, "_keys", meet)
    with ThreadPoolExecutor(2) as pool:
        made = [future.result() for future in [pool.submit(create) for _ in range(2)]]
    (refused,) = (each for each in made if isinstance(each, str))
    assert "File exists" in refused
    folder = ProjectFolder(tmp_path / "sky")
    with contextlib.closing(folder.open_store(folder.settings())) as store:
        current = store.read(apps.current_key)
    assert current is not None
    assert current.public_key.strip() == folder.code_sign_public.read_text().strip()


@pytest.mark.timeout(60)  # a server that starts runs on
@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize(
    ("service", "file_name", "commands"),
    [
        ("project", "project.sqlite", ["run", "run --check", "upgrade", "doctor -p"]),
        ("manager", "manager.sqlite", ["manager run", "manager run --check", "manager upgrade"]),
    ],
)
def test_a_service_does_not_begin_again_with_an_empty_database(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    service: str,
    file_name: str,
    commands: list[str],
    empty: bool,
):
    root = tmp_path / "service"
    assert run_command([service, "create", str(root)]) == 0
    (root / file_name).unlink()
    if empty:
        (root / file_name).touch()
    before = sorted(path.name for path in root.iterdir())
    for command in commands:
        capsys.readouterr()
        assert run_command([*command.split(), str(root)]) == 1
        assert (
            f"{service} in {root} is missing or empty. Restore it from a backup." in capsys.readouterr().err
        )
    assert sorted(path.name for path in root.iterdir()) == before


@pytest.mark.parametrize(
    ("line", "mentions"),
    [
        ("project create full", "not an empty folder"),
        ("project create p --url ftp://x.org/", "project.url"),
        ("project create p --url http://localhost/", "dot"),
        ("project create p --offline-key gone.pub", "gone.pub: No such file"),
        ("project create p --offline-key full/file", "public key"),
    ],
)
def test_a_project_that_cannot_be_made_leaves_nothing(cli: Cli, line: str, mentions: str):
    Path("full").mkdir()
    Path("full/file").write_text("nonsense")
    assert mentions in cli(line, status=1).err
    assert not Path("p").exists()
    assert [path.name for path in Path("full").iterdir()] == ["file"]


def test_a_taken_port_is_avoided_and_said(cli: Cli, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr("cobblestone.server.operation.create_project.DEFAULT_PORT", port)
        assert f"Port {port} is in use" in cli("project create sky").err
        assert "listens on port" in cli(f"project create other --port {port}").err


def test_a_folder_that_is_held_for_a_moment_is_waited_for(cli: Cli, sky: Path):
    held = ProjectFolder(sky).lock()
    threading.Timer(0.5, held.close).start()
    cli("app list -p sky")


def test_a_second_program_on_the_same_folder_is_refused(cli: Cli, sky: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("cobblestone.sdk.api.connection.HELD_SECONDS", 0.2)
    with ProjectFolder(sky).lock():
        assert "already open in" in cli("app list -p sky", status=1).err
        assert "already open in" in cli("run sky", status=1).err


def test_a_broken_settings_file_is_explained(cli: Cli, sky: Path):
    assert cli("run sky --check").out == "sky could run.\n"
    path = sky / "cobblestone.toml"
    path.write_text(path.read_text().replace("port = 18999", "prot = 18999"))
    for line in ("config check -p sky", "app list -p sky", "run sky"):
        assert "Did you mean 'port'?" in cli(line, status=1).err
    path.write_text("[server\n")
    assert "not valid TOML" in cli("config check -p sky", status=1).err


def test_settings_are_shown_with_their_origin(cli: Cli, sky: Path, monkeypatch):
    monkeypatch.setenv("COBBLESTONE_LOG__LEVEL", "debug")
    (sky / "cobblestone.toml").write_text("[server]\nport = 18999\n")
    found = {each["key"]: each for each in cli("config show --origin -p sky --json").json}
    assert found["server.port"] == {
        "key": "server.port",
        "value": 18999,
        "origin": str(sky / "cobblestone.toml"),
    }
    assert found["log.level"]["origin"] == "COBBLESTONE_LOG__LEVEL"
    assert found["server.host"]["origin"] == "default"
    assert "server.port" in cli("config show -p sky").out
    lines = [line.split() for line in cli("config show --origin -p sky").out.splitlines()]
    assert ["server.port", "18999", "cobblestone.toml"] in lines


def test_a_folder_that_is_no_project_is_refused(cli: Cli):
    assert "No project here" in cli("app list", status=1).err
    Path("plain").mkdir()
    assert "project create plain" in cli("app list -p plain", status=1).err.replace(str(Path.cwd()) + "/", "")
    assert "not its address" in cli("config check -p http://example.org/", status=1).err
    assert "token is needed" in cli("app list -p http://example.org/", status=1).err


# -- apps and jobs ----------------------------------------------------------------------------------------------


def test_an_app_is_made_shown_and_changed(cli: Cli, sky: Path):
    assert "period  period  ready  any 1.00  2" in cli("app list -p sky").out
    assert "python3 period.py {input} {output}" in cli("app show period -p sky").out
    said = cli("app update period -p sky --files period.py --title Periods --compare numeric:rtol=1e-3").out
    assert "Version 1.01" in said
    app = cli("app show period -p sky --json").json
    assert (app["title"], app["comparison"]["kind"], app["rules"]["min_quorum"]) == ("Periods", "numeric", 2)
    cli("app deprecate period -p sky")
    assert "deprecated" in cli("submit period inputs/low.json -p sky", status=1).err
    cli("app update period --no-deprecated -p sky")
    cli("submit period inputs/low.json -p sky")
    assert "nothing to change" in cli("app update period -p sky", status=2).err
    cli("app update period --quorum 1 -p sky")
    newest = cli("audit -p sky --limit 1").out.splitlines()
    assert newest[0].endswith("change or deprecate an app app period")
    assert newest[1:] == ["       rules.min quorum: 2 → 1", "       rules.target nresults: 2 → 1"]


@pytest.mark.parametrize(
    ("line", "status", "mentions"),
    [
        ("app create x --command 'cat {inptu}' --stdout o", 1, "{input}"),
        ("app create x --command 'python3 gone.py {output}' --files gone.py", 1, "gone.py does not exist"),
        ("app create x --command 'cat {input}'", 1, "--stdout"),
        ("app create period --command 'cat {input}' --stdout o", 1, "already an app called period"),
        ("app create 'a b' --command 'cat {input}' --stdout o", 1, "letters, digits"),
        ("app create x --command 'cat {input}' --stdout o --compare fuzzy", 1, "fuzzy"),
        (
            "app create x --command 'cat {input}' --stdout o --memory lots",
            1,
            "--memory: 'lots' is not a size",
        ),
        ("app create x --command 'cat {input}' --stdout o --delay-bound 3x", 1, "--delay-bound: '3x'"),
        # what it would have said of an app that was made is not said
        ("app create x --command 'python3 period.py {output}' --files period.py --compare fuzzy", 1, "fuzzy"),
        ("app create x --command 'cat {input}' --stdout o --assimilate gone.py:f", 1, "no file gone.py"),
        (
            "app create x --command 'sh -c true' --stdout o --platform windows_x86_64",
            1,
            "can be started on x86_64-pc-linux",
        ),
        ("app create x --command 'cat {input}' --stdout o --input a", 2, "{input:NAME}"),
        ("app create x --command 'cat {input}' --stdout o --input-template a", 2, "native"),
        ("app create x --files period.py --output o", 2, "--command"),
        ("app create x", 1, "at least one output"),
        ("app create x --output-template gone.xml", 1, "gone.xml"),
        ("app create", 2, "Usage: cobblestone app create [OPTIONS] NAME"),
        ("app create x --files", 2, "--files"),
        ("app create x --python period.py --gpu=", 1, "Known: nvidia, amd, intel, any."),
        ("app create x --python period.py --gpu any --gpu-memory=", 1, "--gpu-memory"),
        ("app create x --python period.py --gpu-memory=", 2, "need --gpu"),
        (f"app show {'x' * 70_000}", 1, "URL too long"),
        ("user create a@b.org Ann --token ü", 1, "the token cannot be used"),
        ("app version add period --platform x86_64-pc-linux-gnu --main period.py", 1, "app update"),
        ("app version add period --platform any --main gone", 1, "has a command"),
        ("app version list nope", 1, "Known: period"),
        ("app version deprecate 99", 1, "version 99"),
        ("app show nope", 1, "Known: period"),
        ("submit nope inputs/low.json", 1, "Known: period"),
        ("submit period inputs/gone.json", 1, "inputs/gone.json does not exist"),
        ("submit period inputs", 1, "is a folder"),
        ("submit period", 1, "inputs/*"),
        ("submit period inputs/low.json --arg k", 2, "NAME=VALUE"),
        ("submit period inputs/low.json --arg k=1 --arg k=2", 2, "twice"),
        ("submit period inputs/low.json --jobs jobs.csv", 2, "not both"),
        ("submit period --jobs gone.csv", 1, "gone.csv"),
        ("submit period inputs/low.json inputs/high.json --together", 1, "2 inputs"),
        ("batch status 99", 1, "batch list"),
        ("batch status one", 2, "one"),
        ("batch results 99", 1, "no batch 99"),
        ("token revoke 99", 1, "token list"),
        ("token create x --days 1 --forever", 2, "not both"),
        ("token create x --scope all", 2, "all"),
        ("user create nonsense Name", 1, "e-mail"),
        ("team create Reds 99", 1, "user list"),
        ("team join Reds 1", 1, "team list"),
        ("key import gone", 1, "key sign"),
        ("key create .", 1, "exists already"),
        ("nonsense", 2, "nonsense"),
        ("batch nonsense", 2, "nonsense"),
    ],
)
def test_a_mistake_gets_one_clear_message(cli: Cli, sky: Path, line: str, status: int, mentions: str):
    words = line.split()
    project = (
        []
        if words[0] == "nonsense" or line in ("batch nonsense", "key create .") or line.endswith("--files")
        else ["-p", "sky"]
    )
    outcome = cli(line, *project, status=status)
    assert mentions in outcome.err
    assert outcome.out == ""
    assert cli("batch list -p sky -q").out == ""


def test_jobs_are_submitted_and_told(cli: Cli, sky: Path):
    said = cli("submit period inputs/low.json inputs/high.json -p sky --name first")
    assert "Submitted batch 1: 2 jobs" in said.out
    assert "not running" in said.out
    assert "first" in cli("batch list -p sky").out
    assert "0 done, 0 failed or cancelled, 0 sent to computers, 2 waiting" in cli("batch status 1 -p sky").out
    assert [job["name"] for job in cli("batch jobs 1 -p sky --json").json] == ["low", "high"]
    cli("batch results 1 -p sky --to answers")
    assert Path("answers/jobs.csv").read_text().startswith("job,name,folder,status")
    assert cli("submit period inputs/low.json -p sky -q").out == "2\n"
    status = cli("batch cancel 1 -p sky --json").json
    assert (status["state"], status["njobs"]) == ("cancelled", 2)
    assert "batch cancel 2" in cli("batch retire 2 -p sky", status=1).err
    assert "a private network" in cli("batch webhook 1 http://127.0.0.1:9/ -p sky", status=1).err
    assert "Batch 1 has no webhook" in cli("batch webhook 1 -p sky", status=1).err
    (sky / "cobblestone.toml").write_text(
        (sky / "cobblestone.toml").read_text().replace("private_webhooks = false", "private_webhooks = true")
    )
    assert cli("batch webhook 1 http://127.0.0.1:9/ -p sky").out.splitlines()[-1].startswith("whsec_")
    assert "waiting, 0 jobs told" in cli("batch webhook 1 -p sky").out
    assert cli("batch webhook 1 --remove -p sky -q").out == "removed\n"


def test_waiting_for_a_project_that_does_not_run_is_refused(cli: Cli, sky: Path):
    assert "cobblestone run" in cli("submit period inputs/low.json -p sky --wait", status=1).err
    assert "cobblestone run" in cli("batch results 1 --wait -p sky", status=1).err


def test_the_environment_and_the_current_folder_name_the_project(cli: Cli, sky: Path, monkeypatch):
    from cobblestone.ops.environment import connection_defaults

    assert "period" in cli("app list").out  # the only project here
    monkeypatch.chdir(sky / "results")
    assert "period" in cli("app list").out
    monkeypatch.chdir("/")
    monkeypatch.setenv("COBBLESTONE_PROJECT", str(sky))
    connection_defaults.cache_clear()
    assert "period" in cli("app list").out
    connection_defaults.cache_clear()


def test_tables_of_jobs_are_submitted(cli: Cli, sky: Path):
    cli("app create climate -p sky --command 'cat {input:table} {input:grid} {arg:k}' --stdout out")
    Path("jobs.csv").write_text("name,table,grid,k\nn,inputs/low.json,inputs/high.json,3\n")
    cli("submit climate --jobs jobs.csv -p sky")
    assert "ambiguous" in cli("submit climate inputs/low.json -p sky", status=1).err
    assert "{arg:k}" in cli("submit climate inputs/low.json inputs/high.json --together -p sky", status=1).err
    cli("submit climate inputs/low.json inputs/high.json --together --arg k=1 -p sky")
    Path("empty.jsonl").write_text("")
    assert "no jobs" in cli("submit climate --jobs empty.jsonl -p sky", status=1).err
    store = Store(sky / "project.sqlite", readers=1)
    lines = [row[0] for row in store.read(lambda db: db.query("SELECT command_line FROM workunit"))]
    store.close()
    assert lines == [
        "--input table=table.json --input grid=grid.json --output out=out --arg k=3",
        "--input table=table.json --input grid=grid.json --output out=out --arg k=1",
    ]


def test_a_job_may_have_no_input(cli: Cli, sky: Path):
    cli("app create dice -p sky --command 'echo {arg:seed}' --stdout out")
    cli("submit dice --arg seed=1 -p sky")
    Path("seeds.csv").write_text("seed\n1\n2\n")
    assert "2 jobs" in cli("submit dice --jobs seeds.csv -p sky").out


def answer(sky: Path, workunit_id: int, content: bytes) -> None:
    """What volunteers and daemons do in the end."""
    store = Store(sky / "project.sqlite", readers=1)

    def write(tx: Any) -> None:
        result = tx.insert(
            "INSERT INTO result (name, workunit_id, app_id, server_state, outcome, validate_state) VALUES (?, ?, 1, 5, 1, 1)",
            (f"result_{workunit_id}", workunit_id),
        )
        tx.execute(
            "INSERT INTO upload (name, result_id, nbytes, md5, data, time) VALUES (?, ?, ?, '', ?, 0)",
            (f"result_{workunit_id}_0", result, len(content), content),
        )
        tx.execute(
            "UPDATE workunit SET canonical_result_id = ?, assimilate_state = 1 WHERE id = ?",
            (result, workunit_id),
        )
        mark_assimilated(tx, views(tx, [workunit_id]), now=1.0)

    store.write(write)
    store.close()


def test_answers_are_written_to_a_folder(cli: Cli, sky: Path):
    cli("submit period inputs/low.json inputs/high.json -p sky")
    answer(sky, 1, b"low answer")
    said = cli("batch results 1 --to answers -p sky").out
    assert "Wrote 1 file to answers" in said
    answer(sky, 2, b"high answer")
    assert cli("batch results 1 --to answers -p sky -q").out.split() == [
        "answers/low/output",
        "answers/high/output",
    ]
    assert Path("answers/high/output").read_bytes() == b"high answer"
    assert "complete, 100%" in cli("batch results 1 --wait -p sky").out
    assert cli("batch retire 1 -p sky -q").out == "retired\n"


def test_a_folder_or_disk_that_takes_no_answers_is_said_in_one_line_and_before_anything_is_submitted(
    cli: Cli, sky: Path
):
    cli("submit period inputs/low.json -p sky")
    Path("taken", "jobs.csv").mkdir(parents=True)
    for command in ("batch results 1 --to taken -p sky", "submit period inputs/low.json --to taken -p sky"):
        assert cli(command, status=1).err.strip() == "Error: taken/jobs.csv: Is a directory."
    assert cli("batch list -q -p sky").out == "1\n"
    answer(sky, 1, b"low answer")
    Path("full/low/output").mkdir(parents=True)
    Path("full/jobs.csv").write_text("job,name,inputs,arguments,folder\n1,low,inputs/low.json,,low\n")
    assert "Is a directory" in cli("batch results 1 --to full -p sky", status=1).err


def test_a_time_to_wait_is_not_ignored(cli: Cli, sky: Path):
    cli("submit period inputs/low.json -p sky")
    assert "cobblestone run" in cli("batch results 1 --timeout 1 -p sky", status=1).err


def test_a_name_that_is_not_utf8_is_named(cli: Cli, sky: Path):
    Path("inputs/b\udcff.json").write_text("1")
    assert "'b\\udcff'" in cli("submit period -p sky", "inputs/b\udcff.json", status=1).err
    assert "rename it" in cli("submit period inputs/low.json -p sky --name", "b\udcff", status=1).err
    assert "rename it" in cli("app show -p sky", "b\udcff", status=1).err
    assert "rename it" in cli("find -p sky", "b\udcff", status=1).err
    assert "is not UTF-8" in cli("backup -p sky", "b\udcff", status=1).err


@pytest.mark.parametrize(
    "address", ["http://x:abc/", "http://a\nb/", "http://\udcff/", "http://☃.example/", "http://xn--/"]
)
def test_an_address_that_cannot_be_one_is_said(cli: Cli, address: str):
    assert "address" in cli("status --token x -p", address, status=1).err


def test_the_question_before_an_account_is_erased_can_be_answered_with_no(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert "--yes" in cli("user delete 1", status=1).err


def test_failed_jobs_show_in_the_exit_status(cli: Cli, sky: Path):
    cli("submit period inputs/low.json -p sky")
    cli("batch cancel 1 -p sky")
    store = Store(sky / "project.sqlite", readers=1)
    store.write(lambda tx: tx.execute("UPDATE workunit SET assimilate_state = 1"))
    store.write(lambda tx: mark_assimilated(tx, views(tx, [1]), now=1.0))
    store.close()
    assert "  low: The job was cancelled.\n" in cli("batch results 1 -p sky", status=3).out
    assert cli("batch results 1 --wait -p sky --json", status=3).json["batch"]["failed"] == 1


def test_native_versions_are_added(cli: Cli, sky: Path):
    Path("gaps").write_bytes(b"\x7fELF")
    cli("app create gaps -p sky --output output --input input")
    outcome = cli("app version add gaps -p sky --platform x86_64-pc-linux-gnu --main gaps")
    assert "Added version 1.00 of gaps for x86_64-pc-linux-gnu." in outcome.out
    outcome = cli("app version add gaps -p sky --platform x86_64-linux-gnu --main gaps")
    assert "did you mean x86_64-pc-linux-gnu?" in outcome.err
    assert cli("app version list gaps -p sky -q").out == "2\n3\n"
    cli("app version deprecate 3 -p sky")
    assert "deprecated" in cli("app version list gaps -p sky").out
    assert (
        "plan_classes.toml"
        in cli(
            "app version add gaps -p sky --platform x86_64-pc-linux-gnu --main gaps --plan-class avx",
            status=1,
        ).err
    )
    (sky / "plan_classes.toml").write_text('[avx]\ncpu_features = ["avx"]\n')
    cli("app version add gaps -p sky --platform x86_64-pc-linux-gnu --main gaps --plan-class avx")
    assert "would match 0 of 0 hosts" in cli("app plan-classes -p sky").out


def test_an_app_for_gpus_has_a_version_for_each_maker_and_says_which_computers_have_one(cli: Cli):
    cli("project create sky")
    Path("gaps.py").write_text("import sys\n")
    cli("app create gaps -p sky --python gaps.py --gpu any --gpu-memory 1.5GB --gpu-share 0.5")
    listed = cli("app version list gaps -p sky --json").out
    for maker in ("nvidia", "amd", "intel"):
        assert f'"plan_class": "gpu-{maker}-1500mb-50pct"' in listed
    assert "gpu-amd-1500mb-50pct ATI would" in " ".join(cli("app plan-classes -p sky").out.split())
    cli("app update gaps -p sky --files gaps.py --gpu nvidia")
    assert '"plan_class": "gpu-nvidia"' in cli("app version list gaps -p sky --json").out
    for options, status, wrong in (
        ("--gpu voodoo", 1, "There is no GPU 'voodoo'. Known: nvidia, amd, intel, any."),
        ("--gpu amd --gpu-share 0", 1, "0.01 to 1"),
        ("--gpu amd --gpu-share nan", 2, "not a number"),
        ("--gpu amd --gpu-memory 20TB", 1, "below 10 TB"),
        ("--gpu amd --gpu-memory much", 1, "a size such as"),
        ("--gpu-share 0.5", 2, "need --gpu"),
        ("--gpu amd --plan-class avx", 2, "--plan-class"),
        ("--gpu amd --portable", 2, "WebAssembly"),
        ("--gpu amd --bundle packages.txt --browser", 2, "browsers"),
    ):
        refused = cli(f"app create other -p sky --python gaps.py {options}", status=status)
        assert wrong in " ".join(refused.err.replace("│", " ").split()), options
    assert cli("app list -p sky -q").out == "gaps\n"


def test_the_runtime_is_printed_as_it_is_sent(capfdbinary):
    from cobblestone.launcher import launcher_bytes

    assert run_command(["app", "runtime"]) == 0
    assert capfdbinary.readouterr().out == launcher_bytes()


# -- keys, tokens, people --------------------------------------------------------------------------------------


def test_a_project_with_an_offline_key(cli: Cli):
    cli("key create my.key")
    assert Path("my.key").stat().st_mode & 0o077 == 0
    assert "exists already" in cli("key create my.key", status=1).err
    cli("project create sky --offline-key my.key.pub --port 18997")
    Path("period.py").write_text("print(1)\n")
    said = cli(CREATE_PERIOD).out
    assert "unsigned" in said
    for command in ("key manifest", "key sign", "key import"):
        assert command in said
    assert "unsigned" in cli("app list -p sky").out
    Path("low.json").write_text("1")
    assert "signed yet" in cli("submit period low.json -p sky").out
    assert "key create" in cli("key rotate -p sky", status=1).err
    cli("key manifest m -p sky")
    assert "not empty" in cli("key manifest m -p sky", status=1).err
    cli("key create other.key")
    assert "--old-key" in cli("key sign m --key other.key", status=1).err
    assert "period.py" in cli("key sign m --key my.key").out
    assert "Everything is signed." in cli("key import m -p sky").out
    assert "ready" in cli("app list -p sky").out
    assert "Everything is already signed" in cli("key manifest m2 -p sky").out
    # and another key
    cli("key manifest m3 --all -p sky")
    cli("key sign m3 --key other.key --old-key my.key")
    cli("key import m3 -p sky")
    shown = cli("key show -p sky --json").json
    assert [(key["current"], key["has_successor_signature"]) for key in shown["keys"]] == [
        (True, False),
        (False, True),
    ]
    assert shown["unsigned"] == []


def test_a_key_in_the_folder_is_rotated(cli: Cli, sky: Path):
    before = (sky / "keys" / "code_sign_private").read_text()
    assert "app versions signed again: 1." in cli("key rotate -p sky").out
    assert (sky / "keys" / "code_sign_private").read_text() != before
    assert [path.read_text() for path in (sky / "keys" / "retired").iterdir()] == [before]
    assert "retired" in cli("key show -p sky").out


def test_tokens_are_made_listed_and_revoked(cli: Cli, sky: Path):
    token = cli("token create bob --scope read --days 3 -p sky -q").out.strip()
    assert token.startswith("cob_")
    listed = {each["name"]: each for each in cli("token list -p sky --json").json}
    assert listed["bob"]["scopes"] == ["read"]
    assert listed["admin"]["expires"] is None
    assert "lacks the scope" in cli(f"token list -p sky --token {token}", status=1).err
    cli("token revoke 2 -p sky")
    assert "revoked" in cli(f"app list -p sky --token {token}", status=1).err
    cli("token create eve --scope manage --forever -p sky")


def test_an_account_is_let_submit_and_a_token_limited(cli: Cli, sky: Path):
    cli("user create a@example.org Alice -p sky")
    assert "jobs of period; 0 of at most 50 unfinished; share 2." in (
        cli("user submit 1 --app period --max-jobs 50 --share 2 -p sky").out
    )
    cli("user submit 1 --all-apps --max-jobs 7 -p sky")
    assert "all apps; 0 of at most 7 unfinished" in cli("user show 1 -p sky").out
    assert "--app" in cli("user submit 1 --max-jobs 7 -p sky", status=2).err
    assert "--max-jobs" in cli("user submit 1 --all-apps -p sky", status=2).err
    assert "no more jobs" in cli("user revoke-submit 1 -p sky").out
    assert cli("user show 1 -p sky --json").json["submits"] is None
    cli("token create bob --app period --max-jobs 1 -p sky")
    assert cli("token list -p sky --json").json[0]["max_jobs"] == 1


def test_people_are_managed(cli: Cli, sky: Path):
    assert (
        "boinccmd --project_attach http://127.0.0.1:18999/"
        in cli("user create a@example.org Alice -p sky").out
    )
    cli("team create Reds 1 -p sky")
    cli("team join Reds 1 -p sky")
    assert "Alice" in cli("user list -p sky").out
    assert "Reds" in cli("team list -p sky").out
    assert "published" in cli("news add Hello World -p sky").out


def test_accounts_computers_workunits_and_news_are_listed_shown_and_edited(cli: Cli, sky: Path):
    cli("user create a@example.org Alice -p sky")
    cli("user create b@example.org Bob -p sky")
    assert [each["name"] for each in cli("user list -p sky --json").json] == ["Bob", "Alice"]
    assert [each["name"] for each in cli("user list -p sky --json --limit 1 --before 2").json] == ["Alice"]
    assert cli("user list -p sky --role operator --quiet").out == ""
    cli("user role 1 operator -p sky")
    assert cli("user list -p sky --role operator --quiet").out == "1\n"
    assert "hides computers" in cli("user edit 1 --hide-hosts --country France -p sky").out
    shown = cli("user show 1 -p sky --json").json
    assert (shown["country"], shown["show_hosts"], shown["role"]) == ("France", False, "operator")
    cli("news add Hello World -p sky")
    assert cli("news edit 1 --text Monde -p sky --json").json["title"] == "Hello"
    assert cli("news show 1 -p sky --quiet").out == "Monde\n"
    assert "withdrawn" in cli("news withdraw 1 -p sky").out
    assert "No news" in cli("news list -p sky").out
    cli("submit period inputs/low.json inputs/high.json -p sky")
    assert cli("workunit list -p sky --quiet").out == "2\n1\n"
    assert "waiting" in cli("workunit list -p sky --status waiting").out
    changed = cli("workunit edit 2 --priority 5 --delay-bound 7200 --max-error-results 1 -p sky").out
    assert "priority 5" in changed
    assert "2 h to the deadline" in changed
    assert cli("workunit show 2 -p sky --json").json["max_error_results"] == 1
    assert "No computers" in cli("host list -p sky").out


@pytest.mark.parametrize(
    ("line", "status", "text"),
    [
        ("user show 9", 1, "There is no user 9. See: cobblestone user list"),
        ("user edit 1", 2, "--hide-hosts"),
        ("user role 1 king", 2, "operator"),
        ("host show 9", 1, "There is no host 9. See: cobblestone host list"),
        ("host show 0", 2, "Error"),
        ("host edit 9 --venue moon", 2, "home"),
        ("host reset-errors 9", 1, "There is no host 9"),
        ("news show 9", 1, "There is no news 9"),
        ("news edit 9", 2, "--title"),
        ("workunit show nobody", 1, "There is no workunit nobody"),
        ("workunit edit 1", 2, "--priority"),
        ("workunit list --limit 5000", 2, "1000"),
    ],
)
def test_what_is_not_there_or_not_allowed_is_said(cli: Cli, sky: Path, line: str, status: int, text: str):
    assert text in cli(f"{line} -p sky", status=status).err


def test_help_is_there_for_every_command(cli: Cli):
    for line in (
        "",
        "--help",
        "app --help",
        "app create --help",
        "batch results -h",
        "key --help",
        "submit --help",
    ):
        outcome = Outcome(run_command(shlex.split(line)), "", "")
        assert outcome.status in (0, 2)
    assert cli("--version").out.startswith("cobblestone 0.")


def test_refused_values_are_told_with_their_flag_and_what_is_allowed(cli: Cli, sky: Path):
    refused = cli(
        "app create other -p sky --files period.py --delay-bound 5s",
        "--command",
        "python3 period.py {input} {output}",
        status=1,
    )
    assert "--delay-bound is 5; it must be a number from 60 to 315,360,000 seconds." in refused.err
    refused = cli("submit period inputs/low.json -p sky --priority 2000000", status=1)
    assert "--priority is 2000000; it must be a whole number from -1,000,000 to 1,000,000" in refused.err
    Path("jobs.jsonl").write_text('{"inputs": ["inputs/low.json"], "priority": "high"}\n')
    refused = cli("submit period -p sky --jobs jobs.jsonl", status=1)
    assert "jobs.jsonl, line 1: `priority` is 'high'; it must be a whole number." in refused.err


def test_a_deadline_is_not_proposed_from_nothing(cli: Cli, sky: Path):
    told = cli("app deadline period -p sky")
    assert "Jobs of period have a deadline of 7 d." in told.out
    assert "It has 0 good results; a proposal needs 20." in told.out
    assert "20 are needed" in cli("app deadline period -p sky --apply", status=1).err
