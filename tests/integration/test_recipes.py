"""The recipes of CONTRIBUTING.md are followed to the letter: what their code blocks say does what they say."""

from __future__ import annotations

import importlib.util
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jinja2 import ChoiceLoader, FileSystemLoader
from starlette.routing import BaseRoute
from tests.helpers.project_world import World, succeeded

from cobblestone import cli
from cobblestone.domain.apps import ComparisonRule
from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.domain.work import OutputSpec
from cobblestone.policy.validation.comparison import parse_comparison
from cobblestone.server.accounts.service import Accounts
from cobblestone.server.core import comparisons
from cobblestone.server.core.context import ServerContext
from cobblestone.server.credit import systems
from cobblestone.server.credit.ledger_audit import recompute
from cobblestone.server.web import web_routes
from cobblestone.server.web.presentation.site import ProjectSite
from cobblestone.store.catalog import apps
from cobblestone.store.credit import ledger

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"```\w+\n(?:# |<!-- )(\S+)(?: -->)?\n(.*?)```", re.DOTALL)

Install = Callable[[str], None]


def recipe(name: str) -> dict[str, str]:
    """The code blocks of a recipe, by the file that each is to be."""
    section = TEXT.split(f"**A {name}.**", 1)[1]
    return dict(BLOCK.findall(re.split(r"^(?:\*\*A|## )", section, maxsplit=1, flags=re.MULTILINE)[0]))


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Leave the package of a recipe as an installer would: its module, and its metadata with the entry point."""
    caches = (systems.find_system, comparisons.comparison_kinds)
    modules: list[str] = []

    def put(name: str) -> None:
        files = recipe(name)
        metadata = tmp_path / "site" / "recipe-1.0.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: recipe\nVersion: 1.0\n")
        groups = tomllib.loads(files["pyproject.toml"])["project"]["entry-points"]
        lines = [
            f"[{group}]\n{key} = {value}" for group, each in groups.items() for key, value in each.items()
        ]
        (metadata / "entry_points.txt").write_text("\n".join(lines))
        for path, code in files.items():
            (metadata.parent / path).write_text(code)
            modules.append(path.removesuffix(".py"))
        monkeypatch.syspath_prepend(str(metadata.parent))
        for cache in caches:
            cache.cache_clear()

    yield put
    for cache in caches:
        cache.cache_clear()
    for module in modules:
        sys.modules.pop(module, None)


def two_answers(world: World, first: bytes, second: bytes) -> list[int]:
    """Validate states of a job that two volunteers answer so."""
    for user, answer in (("ada", first), ("bob", second)):
        host = world.host(world.user(user))
        host.rpc(ask=1)
        (name,) = host.new_results()
        world.now += 150
        host.rpc(reports=[host.finish(name, answer)])
    world.settle()
    return [state for (state,) in world.query("SELECT validate_state FROM result WHERE outcome = 1")]


@pytest.mark.parametrize(
    ("other", "agrees"), [(b"2.0000000001", True), (b"2.001", False)], ids=["near", "far"]
)
def test_the_function_of_a_validator_decides(world: World, other: bytes, agrees: bool):
    (world.ctx.folder.root / "check.py").write_text(recipe("validator")["check.py"])
    rule = ComparisonRule(kind="python", options={"function": "check.py:same"})
    world.add_jobs(world.add_app(quorum=2, comparison=rule))
    assert (two_answers(world, b"2.0", other) == [1, 1]) == agrees


def test_the_kind_of_a_validator_is_found_and_decides(world: World, install: Install):
    install("validator")
    rule = parse_comparison("words", comparisons.comparison_kinds())
    world.add_jobs(world.add_app(quorum=2, comparison=rule))
    assert two_answers(world, b"to be\nor not", b"to  be or not") == [1, 1]


def test_the_credit_system_is_found_grants_and_is_computed_again(world: World, install: Install):
    install("credit system")
    assert "hourly" in systems.system_names()
    app = world.add_app(outputs=(OutputSpec(open_name="out", optional=True),))
    world.write(lambda tx: apps.update_app(tx, replace(app, credit_system="hourly")))
    world.add_jobs(app)
    host = world.host(world.user("ada"))
    host.rpc(ask=1)
    world.now += 8000
    host.rpc(reports=[replace(succeeded(next(iter(host.held))), final_cpu_time=7200.0)])
    world.settle()
    (entry,) = world.ctx.store.read(lambda db: list(ledger.ledger(db)))
    assert (entry.system, entry.granted) == ("hourly", pytest.approx(2.0))
    assert world.ctx.store.read(recompute).agrees


def test_an_app_is_made_with_a_kind_of_a_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, install: Install, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    install("validator")
    assert cli.run_command(["project", "create", "sky", "--port", "18995"]) == 0
    options = ["--command", "cat {input}", "--stdout", "out", "-p", "sky"]
    assert cli.run_command(["app", "create", "a", *options, "--compare", "words"]) == 0
    assert cli.run_command(["app", "create", "b", *options, "--compare", "words:strict=yes"]) == 1
    assert "words takes no options: write --compare words" in capfd.readouterr().err


def test_the_message_is_read_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ((path, code),) = recipe("message of the family").items()
    file = tmp_path / Path(path).name
    file.write_text(code)
    module: Any = load(module_of(path), file, monkeypatch)
    said = module.Greeting(text="a < b & c", wait_seconds=60.0)
    written = module.write_greeting(said)
    assert written.splitlines()[1] == b"    <text>a &lt; b &amp; c</text>"
    assert module.parse_greeting(written) == said
    assert module.parse_greeting(b"<greeting><text>hello</text></greeting>").wait_seconds == 3600.0
    with pytest.raises(RemoteProtocolError, match="does not end"):
        module.parse_greeting(written[:-5])


def test_modules_of_recipes_lie_in_rooms_that_take_more_modules():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    closed = {name for contract in contracts if contract.get("exhaustive") for name in contract["containers"]}
    modules = [
        module_of(path) for path, _ in BLOCK.findall(TEXT) if path.startswith("src/") and ".py" in path
    ]
    assert modules
    assert [each for each in modules if each.rpartition(".")[0] in closed] == []


def module_of(path: str) -> str:
    """The name of a module of the package by its path."""
    return ".".join(Path(path).with_suffix("").parts[1:])


def load(name: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """Import a file as a module of the package."""
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def test_the_command_prints_in_each_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    ((path, code),) = recipe("command").items()
    file = tmp_path / Path(path).name
    file.write_text(code)
    load(module_of(path), file, monkeypatch)
    monkeypatch.setitem(
        cli.COMMANDS, file.stem, (module_of(path).removeprefix("cobblestone.cli."), "Of a recipe.")
    )
    monkeypatch.chdir(tmp_path)
    assert cli.run_command(["project", "create", "sky", "--name", "The sky", "--port", "18996"]) == 0
    capfd.readouterr()
    for options, printed in (
        ([], "Hello, The sky!\n"),
        (["--greeting", "Ahoy"], "Ahoy, The sky!\n"),
        (["--quiet"], "The sky\n"),
        (["--json"], '{\n  "name": "The sky"\n}\n'),
    ):
        assert cli.run_command(["greet", "project", "-p", "sky", *options]) == 0
        assert capfd.readouterr().out == printed


def test_the_page_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    files = {Path(path).name: code for path, code in recipe("page").items()}
    (tmp_path / "templates").mkdir()
    (tmp_path / "greetings.py").write_text(files["greetings.py"])
    (tmp_path / "templates" / "greetings.html").write_text(files["greetings.html"])
    module: Any = load("cobblestone.server.web.greetings", tmp_path / "greetings.py", monkeypatch)

    def with_the_page(ctx: ServerContext, accounts: Accounts) -> list[BaseRoute]:
        site = ProjectSite(ctx)
        assert isinstance(site._environment.loader, ChoiceLoader)
        site._environment.loader.loaders = [
            *site._environment.loader.loaders,
            FileSystemLoader(tmp_path / "templates"),
        ]
        return [*module.Greetings(site).routes(), *web_routes(ctx, accounts)]

    monkeypatch.setattr("cobblestone.server.app.web_routes", with_the_page)
    world = World(tmp_path / "project")
    try:
        world.user("ada")
        page = world.get("/greetings.php")
        assert page.status_code == 200
        assert "<h1>My project</h1>\n<p>Ada</p>" in page.text
    finally:
        world.close()
