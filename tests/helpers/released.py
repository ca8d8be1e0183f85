"""Keep what a version leaves behind, for the tests of later ones: ``python -m tests.helpers.released``.

In ``tests/golden/released/VERSION``: a project and an account manager as text of their databases, and two clients in the middle
of tasks with the project that they belong to.  What is kept of a version stays as it is: change the version first.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from tests.helpers import kept_clients, kept_project
from tests.helpers.kept_project import RELEASED, load_sqlite, sqlite_text
from tests.helpers.manager_world import Caller, ManagerWorld

from cobblestone import __version__


def write_manager(target: Path) -> None:
    """An account manager with two people, of whom one has worked for two projects."""
    with tempfile.TemporaryDirectory() as folder:
        world = ManagerWorld(Path(folder) / "manager")
        world.project(1)
        world.project(2, shared=False)
        caller = Caller(world, authenticator=world.join())
        caller.call()
        world.now += 3600
        for url in list(caller.totals):
            caller.works(url, 3600)
        caller.call()
        world.run(world.days.step())
        world.run(world.balances.step())
        path = world.ctx.folder.database
        world.close()
        (target / "manager.sql").write_text(sqlite_text(path))


MAKERS: Mapping[str, Callable[[Path], None]] = {
    "sqlite.sql": kept_project.write_texts,
    "manager.sql": write_manager,
    "clients.tar.xz": kept_clients.write_archive,
}
"""By a file that it makes, the last one."""


def revision(text: str) -> str:
    """The schema of a database that was kept as text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kept.sqlite"
        load_sqlite(text, path)
        with closing(sqlite3.connect(path)) as connection:
            return str(connection.execute("SELECT version_num FROM alembic_version").fetchone()[0])


def main() -> None:
    target = RELEASED / __version__
    target.mkdir(parents=True, exist_ok=True)
    for name, make in MAKERS.items():
        if (target / name).exists():
            print(f"{target / name} is there, and stays as it is.")
        else:
            make(target)


if __name__ == "__main__":
    main()
