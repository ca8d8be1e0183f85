"""Backups of a statistics site: a snapshot of its rows and history.

What pages read is made from these at the start, and what projects sent comes again with the next collection.
"""

from __future__ import annotations

from cobblestone.domain.exports import KeysInBackup
from cobblestone.service.backup import Contents
from cobblestone.statistics.folder import SiteFolder, load_settings


def site_contents(folder: SiteFolder, keys: KeysInBackup = KeysInBackup.ALL) -> Contents:
    """Return what of a site goes into a backup.  Raises ConfigError: it is none."""
    settings = load_settings(folder.root)
    return Contents(
        kind=folder.kind,
        root=folder.root,
        name=settings.site.name,
        url=settings.site.url,
        keys=keys,
        left_out=(folder.published, *(project.incoming for project in folder.known_projects())),
        never_changes=lambda path: path.suffix == ".parquet",  # others of the same name take their place
        moment=lambda: _counted_files(folder),
    )


def _counted_files(folder: SiteFolder) -> frozenset[tuple[str, int, int]]:
    """Return the current files: a new one is written beside its place and renamed, so its number differs."""
    projects = folder.known_projects()
    places = [folder.history, *(place for each in projects for place in (each.generations, each.all_history))]
    files = [path for place in places for path in place.rglob("*.parquet")]
    files += [each.state_file for each in projects]
    found: set[tuple[str, int, int]] = set()
    for path in files:
        try:
            facts = path.stat()
        except FileNotFoundError:
            continue
        found.add((str(path), facts.st_ino, facts.st_mtime_ns))
    return frozenset(found)
