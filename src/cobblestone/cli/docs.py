"""``cobblestone docs``: the documentation in a browser.

A site that ``make docs`` has built is shown as it is.  Without one the pages are made from the Markdown files, which every
wheel holds.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

import cobblestone
from cobblestone.cli.parameters import Option

if TYPE_CHECKING:
    from starlette.applications import Starlette

PACKAGE = Path(cobblestone.__file__).parent
#: Where ``make docs`` builds the pages; wheels made after it bring them along.
SITE = PACKAGE / "site"
#: Where the Markdown files are: inside an installed package, or beside it in a checkout.
FOLDERS = (PACKAGE / "documentation", PACKAGE.parents[1])

_NAVIGATION = re.compile(r'^ *- "?([^":]+)"?:(?: (\S+\.md))?$', re.MULTILINE)
_PLACES = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changes.md": "CHANGELOG.md",
    "python.md": "python",
    "commands.md": "commands",
}
_COMMANDS = """# All commands

`-p DIR|URL` says which project is meant; without it the variable `COBBLESTONE_PROJECT` counts, else the current folder,
one above it, or the only project in it. `--json` prints JSON, `-q` only ids. Exit status: 0 done; 1 refused or failed,
with one message that says what to do; 2 wrong usage; 3 done, but some jobs have no answer; 130 interrupted.
"""
_HEADING = re.compile(r"<h([1-6])>((?:[^<]|<(?!/?h))*)</h\1>")
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title><style>
:root {{ color-scheme: light dark }}
body {{ font: 1rem/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 78rem; padding: 1rem }}
body {{ display: flex; flex-wrap: wrap-reverse; gap: 2rem }}
nav {{ flex: 1 14rem }} main {{ flex: 4 36rem; min-width: 0; overflow-wrap: break-word }} h2 {{ margin-top: 2em }}
pre, table {{ display: block; overflow-x: auto }} pre {{ padding: .7rem; background: #8882 }} img {{ max-width: 100% }}
table {{ border-collapse: collapse }} nav ul {{ list-style: none; padding: 0 }}
th, td {{ border: 1px solid #8886; padding: .2rem .5rem; text-align: left; vertical-align: top }}
</style></head><body><nav>{navigation}</nav><main>{text}</main></body></html>
"""


def docs(
    port: Annotated[int, Option(min=0, max=65535, help="Port on this machine; 0: any.")] = 8765,
    open_browser: Annotated[bool, Option("--open", help="Also open a browser.")] = False,
) -> None:
    """Serve the documentation on this machine until Ctrl-C."""
    import socket
    import webbrowser

    import uvicorn

    from cobblestone.domain.errors import ConfigError

    app = application()
    try:
        listener = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise ConfigError(
            f"Port {port} cannot be used: {error.strerror}. Choose another one with --port"
        ) from error
    address = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    click.echo(f"The documentation: {address} (stop with Ctrl-C)")
    if open_browser:
        webbrowser.open(address)
    uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off")).run(sockets=[listener])


def application() -> Starlette:
    """Return the web application that shows the built site, or else the Markdown files.

    Raises:
        ConfigError: this installation has neither.
    """
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, Response
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles

    from cobblestone.domain.errors import ConfigError

    if (SITE / "index.html").is_file():
        return Starlette(routes=[Mount("/", StaticFiles(directory=SITE, html=True))])
    folder = next((each for each in FOLDERS if (each / "mkdocs.yml").is_file()), None)
    if folder is None:
        raise ConfigError("The documentation is missing from this installation. Install cobblestone again.")

    def show(request: Request) -> Response:
        text = page(folder, request.path_params.get("name", "README.md"))
        return HTMLResponse(text or "Not a page of the documentation.", 200 if text else 404)

    pictures = StaticFiles(directory=folder / "docs" / "pictures")
    return Starlette(
        routes=[Mount("/docs/pictures", pictures), Route("/", show), Route("/{name:path}", show)]
    )


def page(folder: Path, name: str) -> str | None:
    """Return a page as HTML, by its path in the repository (``docs/credit.md``); None if there is no such page."""
    from markdown_it import MarkdownIt

    places: set[str] = set()
    navigation = ""
    written = (folder / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    for title, file in _NAVIGATION.findall(written.partition("\n\n")[0]):
        if file:
            places.add(place := _PLACES.get(file, f"docs/{file}"))
            navigation += f'<li><a href="/{place}">{html.escape(title)}</a></li>'
        else:
            navigation += f"</ul><b>{html.escape(title)}</b><ul>"
    if name not in places:
        return None
    if name == "python":
        text = f"<h1>Python reference</h1><pre>{html.escape(_python_reference())}</pre>"
    else:
        markdown = MarkdownIt("commonmark").enable("table")
        source = commands() if name == "commands" else (folder / name).read_text(encoding="utf-8")
        text = _with_anchors(str(markdown.render(source)))
    return _PAGE.format(title=html.escape(name), navigation=f"<ul>{navigation}</ul>", text=text)


def _python_reference() -> str:
    import pydoc

    return pydoc.plain(pydoc.render_doc(cobblestone))


def commands() -> str:
    """Return the page of all commands with their options, as their help says it, in Markdown."""
    package = import_module("cobblestone.cli")  # which loads this module when it is called
    return _COMMANDS + "".join(_described("cobblestone", package.build()))


def _described(name: str, command: Any) -> Iterator[str]:
    """Yield what to say of each command below a group."""
    for word, each in command.commands.items():
        called = f"{name} {word}"
        yield f"\n{'##' if ' ' not in name else '###'} {called}\n\n{_plain(each.help)}\n\n"
        if hasattr(each, "commands"):
            yield from _described(called, each)
            continue
        for option in each.params:
            if {"--project", "--json", "--quiet"} & {*option.opts}:
                continue  # said once, above all
            is_option = option.param_type_name == "option"
            said = (
                " / ".join((*option.opts, *option.secondary_opts))
                if is_option
                else option.human_readable_name
            )
            yield f"* `{said}`: {_plain(option.help)}\n"


def _plain(text: str | None) -> str:
    return html.escape(" ".join((text or "").split()), quote=False)


def _with_anchors(text: str) -> str:
    """Give headings the names by which links in the pages call them."""
    used: dict[str, int] = {}

    def named(heading: re.Match[str]) -> str:
        plain = html.unescape(re.sub(r"<[^<>]+>", "", heading[2])).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        count = used[slug] = used.get(slug, -1) + 1
        return f'<h{heading[1]} id="{slug if count == 0 else f"{slug}-{count}"}">{heading[2]}</h{heading[1]}>'

    return _HEADING.sub(named, text)
