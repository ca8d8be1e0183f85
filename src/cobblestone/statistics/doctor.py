"""``cobblestone statistics doctor``: checks a site's files, and repairs what is safe."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb

from cobblestone.domain.reasons import Finding
from cobblestone.service import diagnosis
from cobblestone.service.diagnosis import (
    by_name,
    full_disk,
    keep_from_others,
    readable_by_others,
    secret_settings,
)
from cobblestone.statistics.folder import ExportFolder, SiteFolder, StatisticsSettings, load_settings
from cobblestone.statistics.store.build import published
from cobblestone.statistics.store.queries import OtherFormat, PublishedFile
from cobblestone.statistics.store.rows import KINDS

#: Rows that no state names are left alone until they are so old: they may be on their way.
STRAY_SECONDS = 86400.0
#: A project whose figures are older than so many intervals of collecting is late.
LATE_FACTOR = 3
pa: Any = import_module("pyarrow")  # Any: PyArrow has no types
pq: Any = import_module("pyarrow.parquet")


@dataclass(frozen=True, slots=True)
class CheckedSite:
    """A site under examination, running or stopped."""

    folder: SiteFolder
    settings: StatisticsSettings
    now: float


Check = diagnosis.Check[CheckedSite, [CheckedSite]]


def _count(path: Path) -> int:
    """Return the number of rows in a Parquet file.  Raises OSError or ArrowException if it cannot be read."""
    return int(pq.read_metadata(path).num_rows)


def _rows(site: CheckedSite) -> Iterator[Finding]:
    for project in site.folder.known_projects():
        state = project.read_state()
        said = {"user": state.counts.users, "host": state.counts.hosts, "team": state.counts.teams}
        for kind in KINDS if state.generation else ():
            path = project.rows(state.generation) / f"{kind}.parquet"
            try:
                found = _count(path)
            except (OSError, pa.ArrowException) as error:
                yield Finding("unreadable", "project", project.root.name, f"{path} cannot be read: {error}")
                continue
            if found != said[kind]:
                text = f"{path} holds {found} rows, but its state says {said[kind]}"
                yield Finding("miscounted", "project", project.root.name, text)


def _history(site: CheckedSite) -> Iterator[Finding]:
    places = [("site", "", site.folder.history)]
    places += [
        ("project", each.root.name, each.history(kind))
        for each in site.folder.known_projects()
        for kind in KINDS
    ]
    for kind, name, place in places:
        spans: list[tuple[float, float, Path]] = []
        for path in place.glob("[0-9]*.parquet"):
            first, _, last = path.stem.partition("-")
            try:
                _count(path)
                spans.append((float(first), -float(last), path))
            except (OSError, ValueError, pa.ArrowException) as error:
                yield Finding("unreadable", kind, name or None, f"{path} cannot be read: {error}")
        until = -1.0
        for first, negative_last, path in sorted(spans):
            # One that lies within the one before was merged into it, and is left over from a kill.
            if first <= until < -negative_last:
                text = f"{path} overlaps with the previous file: days are counted twice"
                yield Finding("overlapping", kind, name or None, text)
            until = max(until, -negative_last)


def _strays(site: CheckedSite) -> Iterator[Finding]:
    for project, path in _stray_rows(site):
        yield Finding("stray", "project", project.root.name, f"nothing names {path}")


def _stray_rows(site: CheckedSite) -> Iterator[tuple[ExportFolder, Path]]:
    for project in site.folder.known_projects():
        generation = project.read_state().generation
        for path in sorted(project.generations.iterdir()) if project.generations.exists() else ():
            if path.name != generation and site.now - path.stat().st_mtime > STRAY_SECONDS:
                yield project, path


def _remove_strays(site: CheckedSite) -> int:
    paths = [path for _, path in _stray_rows(site)]
    for path in paths:
        shutil.rmtree(path)
    return len(paths)


def _published(site: CheckedSite) -> Iterator[Finding]:
    path = published(site.folder)
    if path is None:
        if any(project.read_state().generation for project in site.folder.known_projects()):
            yield Finding("not_published", "pages", None, "figures came in, but no file was made from them")
        return
    try:
        PublishedFile(site.folder, path).close()
    except OtherFormat as error:
        yield Finding("other_format", "pages", path.name, f"{error}: start the site, which rebuilds it")
    except duckdb.Error as error:
        yield Finding("unreadable", "pages", path.name, f"it cannot be read: {error}")


def _secret(site: CheckedSite) -> Iterator[Finding]:
    path = site.folder.secret
    if not path.exists() or path.stat().st_size < 16:
        yield Finding("no_secret", "secret", None, f"{path} is missing or too short")
    else:
        yield from readable_by_others(site.folder.root, _secrets(site))


def _secrets(site: CheckedSite) -> list[Path]:
    return [site.folder.secret, *secret_settings(site.folder.root)]


def _collection(site: CheckedSite) -> Iterator[Finding]:
    every = site.settings.collect.every_seconds
    for source in site.settings.project:
        state = site.folder.project(source.name).read_state()
        if state.problem:
            yield Finding("failed", "project", source.name, state.problem)
        elif state.tried and site.now - state.tried > LATE_FACTOR * every:
            days = (site.now - state.tried) / 86400
            yield Finding("late", "project", source.name, f"it was not collected for {days:.1f} days")


CHECKS: Mapping[str, Check] = by_name(
    Check(
        name="rows",
        promise="The rows that count are there, as many as were read.",
        find=_rows,
        advice="Remove projects/NAME/state.json: the export is then collected again.",
    ),
    Check(
        name="history",
        promise="Every file of history can be read, and no day stands in two.",
        find=_history,
        advice="Restore these files from a backup: history does not come again.",
    ),
    Check(
        name="pages",
        promise="The file that pages read is there, and of this version.",
        find=_published,
        advice="Restart the site: the file is made again at every start.",
    ),
    Check(
        name="strays",
        promise="No rows lie around that nothing names.",
        find=_strays,
        repair=_remove_strays,
        repair_text="Removes rows older than a day that nothing names: of a collection that was killed.",
        advice="They do no harm but for the room they take.",
        only_warns=True,
    ),
    Check(
        name="secret",
        promise="The secret of cookies is there; it and settings with a password are for their owner alone.",
        find=_secret,
        repair=lambda site: keep_from_others(_secrets(site)),
        repair_text="Takes the permission to read it from others.",
        advice="Write 32 random bytes into it; nothing else depends on it.",
    ),
    Check(
        name="collection",
        promise="Every project on the list was collected lately.",
        find=_collection,
        advice="The text says why; the project is asked again by itself.",
        only_warns=True,
    ),
    Check(
        name="disk",
        promise="There is room on the disk.",
        find=lambda site: full_disk(site.folder.root, site.settings.server.min_free_disk_bytes),
        advice="Make room: an export that does not fit is not collected.",
        only_warns=True,
    ),
)


def open_for_doctor(root: Path) -> CheckedSite:
    """Return a site to be examined.  Raises ConfigError if it is not a site."""
    return CheckedSite(SiteFolder(root.resolve()), load_settings(root), time.time())
