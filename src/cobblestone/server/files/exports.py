"""Exports for statistics sites: their location, replacement of the current one, and serving.

Each export is a folder of its own below ``exports/``; ``exports/current`` is a symbolic link to the newest.  The link changes in
one rename, and the folder before it stays for a while: who is in the middle of a download goes on with the file that it began.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec
from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from cobblestone.domain.errors import Busy, StoreError
from cobblestone.ops.files import sync_file, sync_folder
from cobblestone.server.core.project import ProjectFolder

CURRENT = "current"
REPORT = "export.json"
#: Exports that are kept: the newest, and the one that may still be read.
KEPT = 2
_HIDDEN = ".making-"
_FILE = re.compile(r"[a-z][a-z_]{0,60}(?:_\d{1,9})?\.(?:gz|xml|json|parquet)")
_HEADERS = {
    "Access-Control-Allow-Origin": "*",
    "Cache-Control": "public, max-age=600",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
}


class ExportReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was exported; ``export.json`` of each export."""

    time: float  #: of the rows, Unix seconds
    seconds: float  #: that it took
    records: Mapping[str, int]  #: by table
    nbytes: Mapping[str, int]  #: by file
    total_credit: float


def last_export(folder: ProjectFolder) -> ExportReport | None:
    """Return the report of the current export; None if there is none that can be read."""
    try:
        return msgspec.json.decode((folder.exports / CURRENT / REPORT).read_bytes(), type=ExportReport)
    except (OSError, msgspec.DecodeError):
        return None


@contextmanager
def new_export(folder: ProjectFolder, name: str) -> Generator[Path]:
    """Return a folder to write to, which becomes the current export when the block ends without an error.

    Raises:
        Busy: another process makes one.
        StoreError: the disk is full, or the folder cannot be written.
    """
    root = folder.exports
    try:
        root.mkdir(exist_ok=True)
        with (root / "lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                text = f"Another process is exporting into {root}. Wait until it has finished."
                raise Busy(text) from error
            for left in root.glob(f"{_HIDDEN}*"):  # of one that was killed
                shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
            working = root / f"{_HIDDEN}{secrets.token_hex(4)}"
            working.mkdir()
            try:
                yield working
                _publish(root, working, name)
            except BaseException:
                shutil.rmtree(working, ignore_errors=True)
                raise
    except OSError as error:
        text = f"The export cannot be written into {root}: {error}. The last one is kept."
        raise StoreError(text) from error


def _publish(root: Path, working: Path, name: str) -> None:
    for path in working.iterdir():
        sync_file(path)
    sync_folder(working)
    place = root / name
    working.rename(place)
    link = root / f"{_HIDDEN}link"
    link.symlink_to(name)
    link.replace(root / CURRENT)
    sync_folder(root)
    others = sorted(each for each in root.iterdir() if each.is_dir() and not each.is_symlink())
    for old in [each for each in others if each != place][: -(KEPT - 1) or None]:
        shutil.rmtree(old)


class ExportFiles(StaticFiles):
    """The files of the current export, below ``/stats/``: whole, from an offset, or only if they have changed."""

    def __init__(self, folder: ProjectFolder) -> None:
        folder.exports.mkdir(exist_ok=True)
        super().__init__(directory=folder.exports)

    def route(self) -> Mount:
        """Return the route."""
        return Mount("/stats", self)

    def get_path(self, scope: Scope) -> str:
        """Map a name to the current export; nothing else in the folder has an address."""
        path = super().get_path(scope)
        name = REPORT if path == "." else path  # the folder itself answers with what there is
        return f"{CURRENT}/{name}" if _FILE.fullmatch(name) else ""

    def file_response(
        self,
        full_path: str | os.PathLike[str],
        stat_result: os.stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        """Answer with a file, or that it has not changed."""
        response = super().file_response(full_path, stat_result, scope, status_code)
        MutableHeaders(raw=response.raw_headers).update(_HEADERS)
        return response
