"""Common parts of the demonstrations: start and end, services and commands, the examples, a volunteer's page visits."""

from __future__ import annotations

import contextlib
import html
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Self

import httpx
from rich.console import Console
from rich.table import Table

import cobblestone
from cobblestone.demo.processes import end_tree, free_port, start_apart
from cobblestone.domain.errors import CobblestoneError, ConfigError
from cobblestone.ops.installation import where_from
from cobblestone.sdk.project import Project

MARKER = ".cobblestone-demo"
STOP_SECONDS = 15.0


def prepare(folder: Path) -> None:
    """Empty the folder; refuses one that is not ours."""
    if folder.exists() and any(folder.iterdir()) and not (folder / MARKER).exists():
        raise ConfigError(
            f"{folder} is not empty and was not made by this demonstration. Give another --folder."
        )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / MARKER).touch()


@contextlib.contextmanager
def stage(
    console: Console, folder: Path, commands: Mapping[Path, str]
) -> Generator[contextlib.ExitStack, None, None]:
    """Empty the folder, and yield an exit stack that ends everything started; then print what there is to look at.

    ``commands`` are those of ours that run the services, by folder.  SIGTERM ends the demonstration as Ctrl-C does; while it
    ends, neither keeps it from ending the rest.

    Raises:
        ConfigError: the folder is not ours.
    """
    prepare(folder)
    stack = contextlib.ExitStack()
    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield stack
    finally:
        for number in previous:
            signal.signal(number, signal.SIG_IGN)
        try:
            stack.close()
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
        _say_what_is_left(console, folder, commands)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _say_what_is_left(console: Console, folder: Path, commands: Mapping[Path, str]) -> None:
    """Print what can be looked at after everything has stopped."""
    console.print("\nThe demonstration has stopped. What is left:")
    console.print(f"  files and logs: {folder}", highlight=False, soft_wrap=True)
    # `make demo` has it beside the interpreter, not on PATH
    program = (
        "cobblestone" if shutil.which("cobblestone") else f"{shlex.quote(sys.executable)} -m cobblestone"
    )
    for place, command in commands.items():
        if place.exists():
            again = f"{program} {command} {shlex.quote(str(place))}"
            console.print(f"  its pages again: {again}", highlight=False, markup=False, soft_wrap=True)


def finish(
    console: Console, begin: float, *, keep: bool, addresses: Mapping[str, str], notes: Sequence[str] = ()
) -> None:
    """Print that it is done, started at ``begin`` (monotonic).  With ``keep``, print where everything is, and wait for Ctrl-C."""
    console.print(f"\nDone in {time.monotonic() - begin:.0f} s.")
    if not keep:
        console.print("Everything is being stopped; with --keep (make demo ARGS=--keep) it keeps running.")
        return
    for title, address in addresses.items():
        console.print(f"{title + ':':18} [link={address}]{address}[/]", highlight=False, soft_wrap=True)
    for note in notes:
        console.print(note)
    with contextlib.suppress(KeyboardInterrupt):
        console.print("Everything keeps running, so that you can look at it. Stop it with Ctrl-C.")
        signal.pause()


def figures(title: str, *columns: str, right: Sequence[str]) -> Table:
    """Return a table; figures stand at the right of these columns."""
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left")
    return table


def run_command(*arguments: str) -> str:
    """Run one of our own commands, as a user would; return its output.  Raises CobblestoneError."""
    done = subprocess.run(
        [sys.executable, "-m", "cobblestone", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise CobblestoneError(f"cobblestone {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


@contextlib.contextmanager
def service(
    *command: str, folder: Path, url: str, environment: Mapping[str, str] | None = None
) -> Generator[None, None, None]:
    """Run one of our services on its folder while the block runs, once it answers; its log is beside the folder.

    Raises:
        CobblestoneError: it does not come up.
    """
    log = folder.with_name(f"{folder.name}.log")
    words = [sys.executable, "-m", "cobblestone", *command, str(folder)]
    process = start_apart(words, log, environment)
    try:
        wait_for(lambda: _answers(url, process, log), seconds=60, what=f"the service at {url}")
        yield
    finally:
        end_tree(process, STOP_SECONDS)


@contextlib.contextmanager
def running_project(
    folder: Path, *, name: str, url: str, environment: Mapping[str, str]
) -> Generator[Project]:
    """Create a project on the port of ``url``, and run it while the block runs.  Raises CobblestoneError."""
    run_command("project", "create", str(folder), "--name", name, "--url", url, "--port", port_of(url))
    with service("run", folder=folder, url=url, environment=environment), cobblestone.connect(folder) as made:
        yield made


def free_url() -> str:
    """Return an address on loopback whose port is free at this moment."""
    return f"http://127.0.0.1:{free_port()}/"


def port_of(url: str) -> str:
    """Return the port of such an address."""
    return url.rpartition(":")[2].rstrip("/")


def _answers(url: str, process: subprocess.Popen[bytes], log: Path) -> bool:
    if process.poll() is not None:
        raise CobblestoneError(
            f"The service at {url} ended at once:\n{log.read_text(errors='replace')[-3000:]}"
        )
    try:
        return httpx.get(f"{url}healthz", timeout=2, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def wait_for(condition: Callable[[], bool], *, seconds: float, what: str) -> None:
    """Poll until ``condition`` holds.  Raises CobblestoneError after the time limit."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise CobblestoneError(f"Waited {seconds:g} s for {what}, without success.")
        time.sleep(0.1)


def examples_folder() -> Path:
    """Return the folder that holds the examples.

    Raises:
        ConfigError: it is missing.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "examples", package.parents[1] / "examples"):
        if (folder / "sunspots" / "period.py").is_file():
            return folder
    raise ConfigError(
        f"The examples are missing from this installation. Install it again from {where_from()}."
    )


def make_inputs(example: str, folder: Path, *options: str) -> list[Path]:
    """Let an example make its input files in ``folder``; return them."""
    program = examples_folder() / example / "make_inputs.py"
    words = [sys.executable, str(program), "--folder", str(folder), *options]
    subprocess.run(words, check=True, capture_output=True)
    return sorted(folder.iterdir())


def example_names() -> list[str]:
    """Return the names of the examples."""
    return sorted(path.name for path in examples_folder().iterdir() if path.is_dir())


def copy_example(name: str, target: Path) -> Path:
    """Copy an example into a new folder below ``target``; return that folder.

    Raises:
        ConfigError: there is no such example, or the folder exists.
    """
    if name not in example_names():
        raise ConfigError(f"There is no example {name!r}. There are: {', '.join(example_names())}.")
    folder = target / name
    try:
        shutil.copytree(examples_folder() / name, folder, ignore=shutil.ignore_patterns("__pycache__"))
    except FileExistsError as error:
        raise ConfigError(f"{folder} exists already. Give another place with --to.") from error
    except OSError as error:
        raise ConfigError(f"{folder}: {error.strerror or error}.") from error
    return folder


PASSWORD = "demonstration"  # noqa: S105  # of accounts that live for minutes, on loopback, and are printed
_TOKEN = re.compile(r'name="form_token" value="([0-9a-f]+)"')


def visitor(url: str) -> httpx.Client:
    """Return the connection of one visitor to one service."""
    return httpx.Client(base_url=url, follow_redirects=True, timeout=60, trust_env=False)


class Browser:
    """A person using the pages of one service."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def read(self, page: str) -> str:
        """Return a page's source.  Raises CobblestoneError."""
        return self._text(self._http.get(page))

    def send(self, page: str, fields: dict[str, str], *, to: str = "") -> str:
        """Fill in the form of a page and send it (``to`` another page's address); return the resulting page.

        Raises:
            CobblestoneError: there is no form, or it is refused.
        """
        found = _TOKEN.search(self.read(page))
        if found is None:
            raise CobblestoneError(f"{self._http.base_url}{page} has no form.")
        return self._text(self._http.post(to or page, data={"form_token": found[1], **fields}))

    def join(self, name: str, email: str, **choices: str) -> str:
        """Create an account; return the resulting page.  Raises CobblestoneError."""
        return self.send("join.php", {"user_name": name, "email_addr": email, "passwd": PASSWORD, **choices})

    def _text(self, answer: httpx.Response) -> str:
        if answer.status_code >= 400:
            said = html.unescape(
                re.sub(r"<[^<>]*>", " ", answer.text.partition("<main")[2].partition(">")[2])
            )
            raise CobblestoneError(
                f"{answer.url} answered with status {answer.status_code}: {' '.join(said.split())[:500]}"
            )
        return answer.text
