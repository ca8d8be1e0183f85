"""The export for statistics sites: made from one snapshot of the database, and checked by reading it again."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from cobblestone.domain import exports as domain
from cobblestone.domain.errors import ConfigError, RemoteProtocolError, StoreError, words_of
from cobblestone.ops.files import plain_pieces, unpacked_pieces
from cobblestone.ops.settings import ExportSection
from cobblestone.policy.credit.history import KEEP_DELETIONS, BadgeKind
from cobblestone.server.core.project import ProjectFolder
from cobblestone.server.files.exports import REPORT, ExportReport, last_export, new_export
from cobblestone.server.operation import export_files
from cobblestone.server.operation.export_files import check_formats, write_records
from cobblestone.store.engine.database import Database
from cobblestone.store.engine.reading import PAGE
from cobblestone.store.maintenance.upgrade import check_revision
from cobblestone.store.operation import exports, ranking
from cobblestone.store.people import consents
from cobblestone.store.schema.project import PROJECT
from cobblestone.wire.project.statistics_export import write_specification, write_tables
from cobblestone.wire.project.statistics_import import ExportReader, parse_tables, row_maker, split_files

T = TypeVar("T")

_FORMATS = {
    "gzip": (domain.ExportFormat.GZIP,),
    "plain": (domain.ExportFormat.PLAIN,),
    "both": (domain.ExportFormat.GZIP, domain.ExportFormat.PLAIN),
}


def make_export(
    folder: ProjectFolder,
    *,
    now: float,
    parquet: bool = False,
    report: Callable[[str], None] = lambda what: None,
) -> ExportReport:
    """Export a project, running or stopped; the new export then replaces the last one.

    Args:
        folder: of the project.
        now: Unix seconds.
        parquet: write columns, too, also if the settings do not say so.
        report: is told what is being written, and how far it is: the last export says how many records there will be.

    Raises:
        Busy: another process exports.
        ConfigError: it is not a project, or Parquet is asked for without the extra.
        StoreError: the database cannot be read, or the files cannot be written; the last export stays.
    """
    began = time.perf_counter()
    settings = folder.settings()
    passes = tuple(_passes(settings.export, parquet=parquet))
    check_formats(kind for one in passes for kind in one.formats)
    free, least = shutil.disk_usage(folder.root).free, settings.server.min_free_disk_bytes
    if free < least:
        raise StoreError(
            f"{free // 10**6} MB are free on the disk, and server.min_free_disk_bytes keeps {least // 10**6} MB for uploads:"
            " nothing is exported until there is space. The last export is kept."
        )
    location = settings.database.url or folder.database
    check_revision(location, PROJECT)
    name = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    before = last_export(folder)
    with new_export(folder, name) as working, exports.snapshot(location) as db:
        export = _Export(working, db, now, report, settings.project.url, before.records if before else {})
        for one in passes:
            export.write(one)
        summary = export.summary()
        (working / "tables.xml").write_text(write_tables(summary), encoding="utf-8")
        (working / "db_dump.xml").write_text(write_specification(passes), encoding="utf-8")
        made = ExportReport(
            time=now,
            seconds=time.perf_counter() - began,
            records=export.records,
            nbytes={path.name: path.stat().st_size for path in sorted(working.iterdir())},
            total_credit=summary.total_credit,
        )
        (working / REPORT).write_bytes(msgspec.json.encode(made))
    return made


def _passes(settings: ExportSection, *, parquet: bool) -> Iterator[domain.Enumeration]:
    formats = _FORMATS[settings.formats]
    if parquet or settings.parquet:
        formats = (*formats, domain.ExportFormat.PARQUET)
    split = None if settings.split == "no" else domain.ExportOrder(settings.split)
    return domain.enumerations(formats=formats, split=split, records_per_file=settings.records_per_file)


#: Sites have no language, as visitors have: what pages say in three of them stands here in English.
_TITLES = {
    BadgeKind.TOTAL: "{level:,.15g} credit in total",
    BadgeKind.RECENT: "{level:,.15g} credit per day",
    BadgeKind.RANK: "Among the best {level:g} % by recent average credit",
}


@dataclass
class _Export:
    """An export in progress, and its content so far."""

    folder: Path
    db: Database
    now: float
    report: Callable[[str], None]
    url: str
    last: Mapping[str, int]  #: records of the last export, by table
    records: dict[str, int] = field(default_factory=dict[str, int])  #: by table
    total_credit: float = 0.0

    def write(self, one: domain.Enumeration) -> None:
        """Write the files of one pass."""
        self.report(one.stem)
        records, form = self._source(one)
        count = write_records(self.folder, one, self._reported(one, records), form)
        self.records.setdefault(one.table, count)

    def _reported(self, one: domain.Enumeration, records: Iterator[T]) -> Iterator[T]:
        about = self.last.get(one.table, 0)
        for n, record in enumerate(records):
            if n % PAGE == 0 and n:
                self.report(f"{one.stem}: {n:,}" + (f" of about {about:,}" if about > n else ""))
            yield record

    def _source(self, one: domain.Enumeration) -> tuple[Any, Any]:  # of some type
        db, since = self.db, self.now - KEEP_DELETIONS
        match one.table:
            case domain.ExportedTable.USER:
                users = exports.users(db, one.order)
                # Counted once, though they may be written again in parts.
                return users if one.records_per_file else self._summed(users), export_files.USERS
            case domain.ExportedTable.HOST:
                return exports.hosts(db, one.order), export_files.HOSTS
            case domain.ExportedTable.TEAM:
                return exports.teams(db, one.order), export_files.TEAMS
            case domain.ExportedTable.USER_DELETED:
                return consents.deleted_users(db, since=since), export_files.USER_DELETIONS
            case domain.ExportedTable.HOST_DELETED:
                return consents.deleted_hosts(db, since=since), export_files.HOST_DELETIONS
            case _:
                return exports.badge_holders(db, one.table), export_files.badge_holders(one.table)

    def _summed(self, users: Iterator[domain.ExportedUser]) -> Iterator[domain.ExportedUser]:
        for user in users:
            self.total_credit += user.credit.total
            yield user

    def summary(self) -> domain.ExportSummary:
        """Return the content of ``tables.xml``."""
        counts = self.records
        return domain.ExportSummary(
            update_time=self.now,
            n_users=counts[domain.ExportedTable.USER],
            n_hosts=counts[domain.ExportedTable.HOST],
            n_teams=counts[domain.ExportedTable.TEAM],
            n_users_deleted=counts[domain.ExportedTable.USER_DELETED],
            n_hosts_deleted=counts[domain.ExportedTable.HOST_DELETED],
            total_credit=self.total_credit,
            applications=exports.applications(self.db),
            badges=tuple(
                domain.ExportedBadge(
                    id=number,
                    name=badge.name,
                    title=_TITLES[badge.kind].format(level=badge.level),
                    image_url=f"{self.url}badge/{badge.name}.svg",
                )
                for number, badge in ranking.known_badges(self.db)
            ),
        )


MAX_TABLES_BYTES = 10_000_000


class CheckedFile(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a file of an export."""

    name: str
    records: int = 0
    refused: int = 0  #: records with numbers that cannot be, or without their own
    problem: str = ""  #: empty: none


def check_export(folder: Path) -> list[CheckedFile]:
    """Read all files of an export.

    Raises:
        ConfigError: there is none in the folder.
    """
    tables = folder / "tables.xml"
    if not tables.is_file():
        raise ConfigError(f"{folder} contains no export: there is no tables.xml in it.")
    specification = folder / "db_dump.xml"
    split = split_files(specification.read_bytes()[:MAX_TABLES_BYTES]) if specification.is_file() else {}
    found = {
        (table, stem): [_check_file(path, table) for path in paths]
        for table in domain.ExportedTable
        for stem in dict.fromkeys(
            (table.value, *(f"{table}_{order}" for order in domain.ExportOrder), split.get(table, ""))
        )
        if stem and (paths := _files(folder, stem))
    }
    return [_check_totals(tables, found), *chain.from_iterable(found.values())]


def _files(folder: Path, stem: str) -> list[Path]:
    """Return the file with this stem, or its parts; packed ones if there are both."""
    for kind in (domain.ExportFormat.GZIP, domain.ExportFormat.PLAIN):
        whole = folder / kind.file_name(stem)
        if paths := [whole] if whole.is_file() else sorted(folder.glob(kind.file_name(f"{stem}_[0-9]*"))):
            return paths
    return []


def _check_file(path: Path, table: domain.ExportedTable) -> CheckedFile:
    reader, count, problem = ExportReader(table, row_maker(table)), 0, ""
    try:
        packed = path.match(domain.ExportFormat.GZIP.file_name("*"))
        for data in unpacked_pieces(path) if packed else plain_pieces(path):
            count += len(reader.receive(data))
        reader.close()
    except (RemoteProtocolError, OSError) as error:
        problem = words_of(error)
    if reader.n_refused and not problem:
        problem = f"Invalid records: {reader.n_refused}, the first one because {reader.first_refusal}"
    return CheckedFile(name=path.name, records=count, refused=reader.n_refused, problem=problem)


def _check_totals(
    path: Path, found: Mapping[tuple[domain.ExportedTable, str], Sequence[CheckedFile]]
) -> CheckedFile:
    try:
        with path.open("rb") as file:
            totals = parse_tables(file.read(MAX_TABLES_BYTES).decode("utf-8", "replace"))
    except (RemoteProtocolError, OSError) as error:
        return CheckedFile(name=path.name, problem=words_of(error))
    said = {
        domain.ExportedTable.USER: totals.n_users,
        domain.ExportedTable.TEAM: totals.n_teams,
        domain.ExportedTable.HOST: totals.n_hosts,
    }
    wrong = [
        f"it counts {said[table]} of {table}, {'the file has' if len(files) == 1 else f'the files {stem} have'} {n}"
        for (table, stem), files in found.items()
        if said.get(table) is not None and said[table] != (n := sum(each.records for each in files))
    ]
    there = {table for table, _ in found}
    wrong += [
        f"it counts {n} of {table}, and there is no file of them"
        for table, n in said.items()
        if n and table not in there
    ]
    return CheckedFile(name=path.name, problem="; ".join(wrong))
