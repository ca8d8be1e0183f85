"""What is kept of a report beside its outcome: figures, the client's text, and what was wrong with either."""

from __future__ import annotations

from collections.abc import Sequence

from cobblestone.domain.reasons import Reason, reason
from cobblestone.policy.credit.counted import counted_operations
from cobblestone.wire.lenience import Lenience, LenienceKind
from cobblestone.wire.scheduler_request import ReportedResult, SchedulerRequest

_ABOUT_SPEED = ("host_info/", "coproc", "time_stats/", "disk_usage/")


def report_details(
    message: SchedulerRequest, item: ReportedResult, reasons: Sequence[Reason]
) -> dict[str, object]:
    """Return a JSON-ready form of a report's details."""
    return {
        "client_message": item.error_message,
        "client_version": message.client_version_text,
        "reasons": [entry.as_json() for entry in (*reasons, *refused_figures(message, item))],
        "peak_working_set_size": item.final_peak_working_set_size,
        "peak_disk_usage": item.final_peak_disk_usage,
        "fpops_cumulative": item.fpops_cumulative,
        "fpops_per_cpu_sec": item.fpops_per_cpu_sec,
        "intops_cumulative": item.intops_cumulative,
        "intops_per_cpu_sec": item.intops_per_cpu_sec,
    }


def counted_fpops(item: ReportedResult, cpu_time: float) -> float:
    """Floating-point operations that the program counted."""
    return counted_operations(
        cumulative=item.fpops_cumulative, per_cpu_second=item.fpops_per_cpu_sec, cpu_time=cpu_time
    )


def counted_intops(item: ReportedResult, cpu_time: float) -> float:
    """Integer operations that the program counted."""
    return counted_operations(
        cumulative=item.intops_cumulative, per_cpu_second=item.intops_per_cpu_sec, cpu_time=cpu_time
    )


def refused_figures(message: SchedulerRequest, report: ReportedResult) -> tuple[Reason, ...]:
    """Why figures of a report, and of its host, were not taken: they were no usable numbers."""
    of_host = (note for note in message.leniences if note.where.startswith(_ABOUT_SPEED))
    return tuple(
        _refused(note) for note in (*report.leniences, *of_host) if note.kind is LenienceKind.BAD_NUMBER
    )


def _refused(note: Lenience) -> Reason:
    return reason(
        "number_refused",
        "{name} was sent as {value}: no usable number, so it counts as not reported.",
        name=note.where,
        value=note.detail,
    )
