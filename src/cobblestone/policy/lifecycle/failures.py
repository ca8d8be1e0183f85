"""Failed results grouped by cause: how they ended, what was said last, and the app version and system that they ran on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from cobblestone.domain.values import ResultId, value
from cobblestone.domain.work import Result

N_EXAMPLES = 3
_N_HOSTS = 5
_VARYING = re.compile(r"0x[0-9a-fA-F]+|\d+")


@value(kw_only=True)
class FailureGroup:
    """Results that failed in the same way."""

    newest: tuple[Result, ...]  #: examples, the newest first; at least one
    said: str  #: what the program of the newest one wrote last; empty: nothing
    version_id: int  #: app version; 0: none
    system: str  #: operating system; empty: of no host
    n_results: int
    n_jobs: int
    n_hosts: int
    host_ids: tuple[int, ...]  #: the first few by number of these results


def group_failures(
    failed: Sequence[Result], said: Mapping[ResultId, str], systems: Mapping[int, str]
) -> list[FailureGroup]:
    """Return the groups of failed results, the most frequent first.

    Args:
        failed: results, the newest first.
        said: the last line that each wrote to stderr.
        systems: operating systems by host id.

    """
    alike: dict[tuple[object, ...], list[Result]] = {}
    for result in failed:
        # Numbers in a line are of this one run: addresses, times, names of folders.
        line = _VARYING.sub("0", said.get(result.id, ""))
        place = (result.app_version_id, systems.get(result.host_id or 0, ""))
        alike.setdefault((result.outcome, result.exit_status, line, *place), []).append(result)
    groups = [_group(results, said.get(results[0].id, ""), systems) for results in alike.values()]
    return sorted(groups, key=lambda group: (-group.n_results, -group.newest[0].id))


def _group(results: Sequence[Result], said: str, systems: Mapping[int, str]) -> FailureGroup:
    hosts = Counter(result.host_id for result in results if result.host_id is not None)
    return FailureGroup(
        newest=tuple(results[:N_EXAMPLES]),
        said=said,
        version_id=results[0].app_version_id or 0,
        system=systems.get(results[0].host_id or 0, ""),
        n_results=len(results),
        n_jobs=len({result.workunit_id for result in results}),
        n_hosts=len(hosts),
        host_ids=tuple(host_id for host_id, _ in hosts.most_common(_N_HOSTS)),
    )
