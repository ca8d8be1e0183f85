"""A newer version of cobblestone, installed beside this one: it has two migrations more, and calls a column otherwise."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import cobblestone
from cobblestone.store.maintenance.steps import Schema
from cobblestone.store.schema.project import PROJECT

EXPANDED, CONTRACTED = "8001", "8002"
VERSION = "99.0"

STEP = '''"""{what}."""

from __future__ import annotations

from cobblestone.store.maintenance.migration import run

revision = "{revision}"
down_revision = "{before}"
{bears}

def upgrade() -> None:
    run("""{sql}""")
'''
ADD = """
ALTER TABLE server_process ADD COLUMN program TEXT DEFAULT '' NOT NULL;
ALTER TABLE result ADD COLUMN remark TEXT DEFAULT '' NOT NULL;
CREATE INDEX result_by_remark ON result (remark);
"""
TAKE_AWAY = """
ALTER TABLE server_process DROP COLUMN version;
DROP INDEX result_by_remark;
"""


def add_steps(migrations: Path) -> None:
    """Add a step that brings a new column, and one that takes the old one away."""
    versions = migrations / "versions"
    expand = STEP.format(what="New names", revision=EXPANDED, before=PROJECT.head, bears="", sql=ADD)
    (versions / f"{EXPANDED}_new_names_expand.py").write_text(expand)
    bears = f'bears = "{EXPANDED}"\n'
    contract = STEP.format(what="Old names", revision=CONTRACTED, before=EXPANDED, bears=bears, sql=TAKE_AWAY)
    (versions / f"{CONTRACTED}_old_names_contract.py").write_text(contract)


def newer_schema(folder: Path) -> Schema:
    """The project's migrations, and those of the newer version."""
    target = folder / "migrations"
    shutil.copytree(PROJECT.migrations, target, ignore=shutil.ignore_patterns("__pycache__"))
    add_steps(target)
    return Schema(what=PROJECT.what, migrations=target)


def install_newer(folder: Path) -> tuple[str, ...]:
    """Install the newer version into a folder; the words that its commands begin with."""
    package = folder / "cobblestone"
    source = Path(cobblestone.__file__).parent
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("site"))
    add_steps(package / "store" / "schema" / "migrations")
    _change(package / "__init__.py", f'"{cobblestone.__version__}"', f'"{VERSION}"')
    _change(
        package / "store" / "operation" / "processes.py",
        '"key": "process_key",',
        '"key": "process_key", "version": "program",',
    )
    return ("env", f"PYTHONPATH={folder}", sys.executable, "-m", "cobblestone")


def _change(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert text.count(before) == 1, path
    path.write_text(text.replace(before, after))
