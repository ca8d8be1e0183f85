"""``cobblestone docs``: the documentation in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import cobblestone

SITE = Path(cobblestone.__file__).parent / "site"
"""Where `make docs` builds the pages; wheels bring them along."""


def register_docs(root: typer.Typer) -> None:
    """Add the command."""
    root.command("docs")(docs)


def docs(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on this machine; 0: any.")] = 8765,
    open_browser: Annotated[bool, typer.Option("--open", help="Also open a browser.")] = False,
) -> None:
    """Serve the documentation on this machine until Ctrl-C."""
    import socket
    import webbrowser

    import uvicorn
    from starlette.applications import Starlette
    from starlette.routing import Mount
    from starlette.staticfiles import StaticFiles

    from cobblestone.domain.errors import ConfigError

    if not (SITE / "index.html").is_file():
        raise ConfigError(
            "The documentation is not built here. In a checkout, build it with: make docs "
            "(elsewhere: pip install 'cobblestone[docs]', then mkdocs build in the source "
            "folder)."
        )
    try:
        listener = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise ConfigError(
            f"Port {port} cannot be used: {error.strerror}. Choose another one with --port"
        ) from error
    address = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    typer.echo(f"The documentation: {address} (stop with Ctrl-C)")
    if open_browser:
        webbrowser.open(address)
    app = Starlette(routes=[Mount("/", StaticFiles(directory=SITE, html=True))])
    uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off")).run(sockets=[listener])
