"""A replay for people and programs: the quicker way that knows the log, a summary, and the credit of each line."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from cobblestone.credit_lab.figures import MODES, NO_CLAIM, Replay, ReplayOptions
from cobblestone.credit_lab.joblog import OUTCOMES, JobLog
from cobblestone.credit_lab.replay import replay, replay_fast
from cobblestone.domain.errors import ConfigError
from cobblestone.domain.sums import float_sum
from cobblestone.ops.durable_files import write_durably
from cobblestone.policy.credit.registry import CREDIT_SYSTEMS
from cobblestone.policy.credit.system import CreditSystem


def replayed(log: JobLog, system: CreditSystem, options: ReplayOptions) -> tuple[Replay, str]:
    """Return a replay by the compiled twin, or by the policy, with the reason why the twin cannot do it (else empty)."""
    if CREDIT_SYSTEMS.get(system.name) is not system:
        return replay(log, system, options), f"{system.name} is a system of your own"
    try:
        return replay_fast(log, system.name, options), ""
    except ConfigError as error:
        return replay(log, system, options), str(error)


def summary(log: JobLog, done: Replay) -> dict[str, Any]:  # Any: JSON
    """Totals, averages and records of everybody in a log."""
    owners = {"hosts": done.hosts, "users": done.users, "teams": done.teams, "app_versions": done.versions}
    return {
        "system": done.system,
        "unit": done.unit.per_gflops_day,
        "results": log.length,
        "granted": float(float_sum(done.granted)),
        **{
            name: [
                {"id": id_, "total": whole, "average": average, "average_time": time}
                for id_, whole, average, time in statements.rows()
            ]
            for name, statements in owners.items()
        },
        "host_app_versions": [
            {
                "host_id": host,
                "app_version_id": version,
                "samples": n,
                "mean": mean,
                "consecutive_valid": valid,
                "error_rate": error_rate,
                "on_probation": probation,
                "host_scale_time": time,
            }
            for host, version, n, mean, valid, error_rate, probation, time in done.records.rows()
        ],
        "version_scales": {str(version): scale for version, scale in done.version_scales.items()},
    }


def write_grants(path: Path, log: JobLog, done: Replay) -> None:
    """Write what each line of a log claimed and was granted, in its order, as a CSV file.

    Raises:
        ConfigError: the file cannot be written.
    """
    names = ("result_id", "workunit_id", "host_id", "outcome")
    columns = [log.column(name) for name in names]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*names, "claimed", "granted", "mode"])
    for line in range(log.length):
        result, workunit, host, outcome = (int(column[line]) for column in columns)
        claimed, granted = float(done.claimed[line]), float(done.granted[line])
        mode = int(done.modes[line])
        kind = "" if mode == NO_CLAIM else MODES[mode].value
        writer.writerow((result, workunit, host, OUTCOMES[outcome], claimed, granted, kind))
    try:
        write_durably(path, text.getvalue().encode())
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.") from error
