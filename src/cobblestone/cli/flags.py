"""The flags of members of requests, so that a refusal names what was typed."""

from __future__ import annotations

import re
from typing import NamedTuple

from cobblestone.domain.errors import CobblestoneError


class Flag(NamedTuple):
    """An option, and the unit in which the project counts its values."""

    name: str
    unit: str = ""


FLAGS: dict[str, Flag] = {
    "app": Flag("NAME"),
    "assimilator": Flag("--assimilate"),
    "beta": Flag("--beta"),
    "command": Flag("--command"),
    "command_line": Flag("--command-line"),
    "comparison.kind": Flag("--compare"),
    "comparison.options": Flag("--compare"),
    "credit.function": Flag("--credit-function"),
    "credit.per_cpu_second": Flag("--credit-per-cpu-second"),
    "credit.per_job": Flag("--credit-per-job"),
    "credit.system": Flag("--credit"),
    "dispatch.max_gpu_jobs_in_progress": Flag("--max-per-gpu"),
    "dispatch.max_jobs_in_progress": Flag("--max-per-cpu"),
    "dispatch.max_jobs_on_host": Flag("--max-on-host"),
    "dispatch.max_jobs_per_day_init": Flag("--first-day"),
    "dispatch.max_jobs_per_rpc": Flag("--max-per-reply"),
    "dispatch.min_version": Flag("--min-version"),
    "files[].open_name": Flag("the name of a file"),
    "inputs[].name": Flag("--input"),
    "limits.delay_bound": Flag("--delay-bound", "seconds"),
    "limits.rsc_bandwidth_bound": Flag("--bandwidth", "bytes per second"),
    "limits.rsc_disk_bound": Flag("--disk", "bytes"),
    "limits.rsc_fpops_bound": Flag("--flops-bound"),
    "limits.rsc_fpops_est": Flag("--flops-est"),
    "limits.rsc_memory_bound": Flag("--memory", "bytes"),
    "outputs": Flag("--output"),
    "outputs[].max_nbytes": Flag("--max-output", "bytes"),
    "outputs[].name": Flag("--output"),
    "plan_class": Flag("--plan-class"),
    "platform": Flag("--platform"),
    "priority": Flag("--priority"),
    "rollout": Flag("--rollout"),
    "rollout[]": Flag("--rollout"),
    "show_outputs": Flag("--show-outputs"),
    "rules.min_quorum": Flag("--quorum"),
    "stdout": Flag("--stdout"),
    "target.host": Flag("--for-host"),
    "target.team": Flag("--for-team"),
    "target.user": Flag("--for-user"),
    "title": Flag("--title"),
}
"""By member of a request's body."""

_NESTED = re.compile(r"^(version|app_changes)\.")
_PLACE = re.compile(r"\[\d+\]")


def error_text(error: CobblestoneError) -> str:
    """Return the text of an error; what it calls by the member of a request is called by its flag."""
    member = getattr(error, "member", "")
    flag = FLAGS.get(_PLACE.sub("[]", _NESTED.sub("", member)))
    text = str(error)
    if flag is None or f"`{member}`" not in text:
        return text
    text = text.replace(f"`{member}`", flag.name)
    return f"{text.removesuffix('.')} {flag.unit}." if flag.unit else text
