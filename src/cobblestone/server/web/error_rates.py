"""How the results of a day ended: by version, by host and by system, the worst first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from cobblestone.domain.ids import AppVersionId
from cobblestone.store.catalog import apps
from cobblestone.store.engine.database import Database
from cobblestone.store.operation.figures import EndingRow, Endings, systems_of_hosts

K = TypeVar("K")

SHOWN = 12
MIN_RESULTS = 3
"""Hosts with fewer results of a day are left out: one failure says little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateRow:
    """How the results of one version, host or system ended."""

    label: str
    address: str  #: page about it; empty: none
    endings: Endings


@dataclass(frozen=True, slots=True, kw_only=True)
class RateTables:
    """The three tables."""

    versions: list[RateRow]
    hosts: list[RateRow]
    systems: list[RateRow]


def error_tables(db: Database, rows: Sequence[EndingRow]) -> RateTables:
    """Return the worst versions, hosts and systems."""
    versions = _grouped(rows, lambda row: row.version_id)
    worst = _grouped(rows, lambda row: row.host_id)
    systems = systems_of_hosts(db, sorted({row.host_id for row in rows if row.host_id}))
    by_system = _grouped(rows, lambda row: systems.get(row.host_id, "unknown"))
    return RateTables(
        versions=[
            RateRow(
                label=version_label(db, id_),
                address=f"ops_errors.php?version={id_}" if id_ else "",
                endings=ended,
            )
            for id_, ended in _worst(versions, 1)
        ],
        hosts=[
            RateRow(label=str(id_), address=f"ops_host.php?id={id_}", endings=ended)
            for id_, ended in _worst(worst, MIN_RESULTS)
        ],
        systems=[RateRow(label=name, address="", endings=ended) for name, ended in _worst(by_system, 1)],
    )


def _grouped(rows: Sequence[EndingRow], key: Callable[[EndingRow], K]) -> dict[K, Endings]:
    groups: dict[K, Endings] = {}
    for row in rows:
        groups[key(row)] = groups.get(key(row), Endings()) + row.endings
    return groups


def _worst(groups: dict[K, Endings], least: int) -> list[tuple[K, Endings]]:
    found = [(key, ended) for key, ended in groups.items() if ended.total >= least]
    return sorted(found, key=lambda item: (-item[1].error_rate, -item[1].total))[:SHOWN]


def version_label(db: Database, version_id: int) -> str:
    """Return an app version as operators call it."""
    version = apps.version_by_id(db, AppVersionId(version_id))
    if version is None:
        return f"version {version_id}"
    app = apps.app_by_id(db, version.app_id)
    return f"{app.name} {version.version_num / 100:.2f} {version.platform} {version.plan_class}".strip()
