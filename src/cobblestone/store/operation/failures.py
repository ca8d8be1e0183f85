"""Why results failed: the newest failures of an app version or of a batch, grouped by what their hosts said.

Each question looks at a bounded number of rows, so its cost does not grow with the project.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from cobblestone.domain.ids import AppVersionId, BatchId
from cobblestone.domain.states import WorkunitError
from cobblestone.domain.work import Result
from cobblestone.store.engine.database import Database, Parameters
from cobblestone.store.operation.figures import FAILED, RATE_WINDOW
from cobblestone.store.work.rows import RESULTS, last_words, stderr_of_results

FAILURES_READ = 1000
"""Groups are made of the newest so many failures."""
N_EXAMPLES = 3
_N_HOSTS = 5
_VARYING = re.compile(r"0x[0-9a-fA-F]+|\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    """Results that failed in the same way."""

    newest: tuple[Result, ...]  #: examples, the newest first; at least one
    said: str  #: what the program of the newest one wrote last; empty: nothing
    n_results: int
    n_jobs: int
    n_hosts: int
    host_ids: tuple[int, ...]  #: the first few by number of these results


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Failed results by the way in which they failed, the most frequent first."""

    groups: tuple[FailureGroup, ...]
    cut: bool  #: there are more than were read


def version_failures(db: Database, version_id: AppVersionId) -> Failures:
    """Return why results of an app version failed, among the newest :data:`RATE_WINDOW` of the project."""
    newest = int(db.value("SELECT COALESCE(MAX(id), 0) FROM result"))
    return _failures(db, "result r", "r.id > ? AND r.app_version_id = ?", (newest - RATE_WINDOW, version_id))


def batch_failures(db: Database, batch_id: BatchId) -> Failures:
    """Return why results of a batch's jobs without an answer failed; of finished jobs, the newest :data:`RATE_WINDOW`."""
    jobs, parameters = _jobs_without_answer(db, batch_id)
    return _failures(db, f"({jobs}) w JOIN result r ON r.workunit_id = w.id", "1 = 1", parameters)


def job_errors(db: Database, batch_id: BatchId) -> dict[WorkunitError, int]:
    """Return how many of a batch's jobs ended without an answer, by the reason."""
    jobs, parameters = _jobs_without_answer(db, batch_id)
    rows = db.query(
        f"SELECT w.error_mask, COUNT(*) FROM ({jobs}) w WHERE w.error_mask <> 0 GROUP BY w.error_mask ORDER BY 2 DESC",
        parameters,
    )
    return {WorkunitError(mask): int(count) for mask, count in rows}


def _jobs_without_answer(db: Database, batch_id: BatchId) -> tuple[str, Parameters]:
    last = int(
        db.value("SELECT COALESCE(MAX(completed_seq), 0) FROM workunit WHERE batch_id = ?", (batch_id,))
    )
    sql = (
        "SELECT id, error_mask FROM workunit WHERE batch_id = ? AND completed_seq > ? AND error_mask <> 0 UNION ALL"
        " SELECT id, error_mask FROM (SELECT id, error_mask FROM workunit"
        f" WHERE batch_id = ? AND completed_seq IS NULL LIMIT {RATE_WINDOW}) unfinished"
    )
    return sql, (batch_id, last - RATE_WINDOW, batch_id)


def _failures(db: Database, source: str, condition: str, parameters: Parameters) -> Failures:
    rows = db.query(
        f"SELECT {RESULTS.of('r')} FROM {source} WHERE {condition} AND {FAILED} ORDER BY r.id DESC LIMIT {FAILURES_READ + 1}",
        parameters,
    )
    found = [RESULTS.load(row) for row in rows[:FAILURES_READ]]
    texts = stderr_of_results(db, [result.id for result in found])
    alike: dict[tuple[int, int, str], list[Result]] = {}
    for result in found:
        # Numbers in a line are of this one run: addresses, times, names of folders.
        said = _VARYING.sub("0", last_words(texts.get(result.id, "")))
        alike.setdefault((result.outcome, result.exit_status, said), []).append(result)
    groups = [_group(results, texts.get(results[0].id, "")) for results in alike.values()]
    groups.sort(key=lambda group: (-group.n_results, -group.newest[0].id))
    return Failures(groups=tuple(groups), cut=len(rows) > FAILURES_READ)


def _group(results: Sequence[Result], text: str) -> FailureGroup:
    hosts = Counter(result.host_id for result in results if result.host_id is not None)
    return FailureGroup(
        newest=tuple(results[:N_EXAMPLES]),
        said=last_words(text),
        n_results=len(results),
        n_jobs=len({result.workunit_id for result in results}),
        n_hosts=len(hosts),
        host_ids=tuple(host_id for host_id, _ in hosts.most_common(_N_HOSTS)),
    )
