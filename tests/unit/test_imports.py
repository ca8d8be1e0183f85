"""The core works without any extra: `pip install cobblestone` brings all that its modules import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import cobblestone

ROOT = Path(__file__).parents[2]

#: Import names of what the extras bring.
EXTRAS = {
    "postgres": ["psycopg", "psycopg_pool"],
    "joblib": ["cloudpickle", "joblib"],
    "snakemake": ["snakemake_interface_common", "snakemake_interface_executor_plugins"],
    "lab": ["duckdb", "matplotlib", "numba", "numpy", "pyarrow", "scipy"],
    "s3": ["obstore"],
    "oidc": ["authlib", "httpx2", "joserfc"],
    "sweep": ["dask", "distributed"],
    "wasm": ["wasmtime"],
    "tui": ["textual"],
    "docs": ["material", "mkdocs", "mkdocstrings"],
    "client": ["socksio", "websockets"],
}
#: Packages that may need an extra as soon as they are imported.
OPTIONAL_PACKAGES = {"simulator", "credit_lab", "sweep", "monitor", "statistics"}
#: Modules that their package imports only when they are asked for.
OPTIONAL_MODULES = {
    f"cobblestone.store.{name}"
    for name in (
        "engine.postgres",
        "engine.postgres_connection",
        "engine.postgres_engine",
        "engine.postgres_process_group",
        "maintenance.postgres",
    )
} | {"cobblestone.server.core.bucket", "cobblestone.joblib", "cobblestone.sdk.frameworks.joblib_backend"}

#: Runs in a fresh interpreter, as if no extra were installed, and imports everything else.
PROBE = """
import importlib, importlib.abc, json, pkgutil, sys

extras, optional, modules = json.loads(sys.argv[1])

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in extras:
            raise ModuleNotFoundError(f"{name} belongs to an extra", name=name)

sys.meta_path.insert(0, Absent())
import cobblestone

failed, imported = {}, []
for module in pkgutil.walk_packages(cobblestone.__path__, "cobblestone.", onerror=lambda name: None):
    parts = module.name.split(".")
    if parts[1] in optional or module.name in modules or "migrations" in parts or parts[-1] == "__main__":
        continue
    try:
        importlib.import_module(module.name)
        imported.append(module.name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in extras:
            raise
        failed[module.name] = str(error)
print(json.dumps([imported, failed]))
"""


def import_without_extras() -> tuple[list[str], dict[str, str]]:
    absent = [name for names in EXTRAS.values() for name in names]
    arguments = json.dumps([absent, sorted(OPTIONAL_PACKAGES), sorted(OPTIONAL_MODULES)])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROBE, arguments],
        env={**os.environ, "PYTHONPATH": str(Path(cobblestone.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    imported, failed = json.loads(done.stdout)
    return imported, failed


def test_every_core_module_can_be_imported_without_the_extras() -> None:
    imported, failed = import_without_extras()
    assert failed == {}
    assert "cobblestone.domain.work" in imported


def test_every_extra_is_on_the_list_above() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(EXTRAS) == set(project["optional-dependencies"])


def test_the_version_is_a_release_number() -> None:
    assert all(part.isdigit() for part in cobblestone.__version__.split("."))
