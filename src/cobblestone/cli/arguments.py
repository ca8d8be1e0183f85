"""Command-line arguments: options with several values in a row, and the flags that error messages name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from cobblestone.domain.errors import CobblestoneError

LIST_OPTIONS = ("--files", "--function-files")


def spread_lists(arguments: Sequence[str]) -> list[str]:
    """Repeat each list option before each of its values: ``--files a b`` becomes ``--files a --files b``.

    The values end at the next option.
    """
    spread: list[str] = []
    option = ""
    for place, word in enumerate(arguments):
        if word == "--":
            return [*spread, *arguments[place:]]
        if word in LIST_OPTIONS:
            option = word
            following = arguments[place + 1 : place + 2]
            if not following or following[0].startswith("-"):
                spread.append(word)  # no value: the parser says so
                option = ""
        elif option and not word.startswith("-"):
            spread += [option, word]
        else:
            option = ""
            spread.append(word)
    return spread


class LimitFlag(NamedTuple):
    """An option and the unit in which the project counts its values."""

    name: str
    unit: str = ""


#: By member of a request's body.
FLAGS: dict[str, LimitFlag] = {
    "app": LimitFlag("NAME"),
    "assimilator": LimitFlag("--assimilate"),
    "beta": LimitFlag("--beta"),
    "command": LimitFlag("--command"),
    "command_line": LimitFlag("--command-line"),
    "comparison.kind": LimitFlag("--compare"),
    "comparison.options": LimitFlag("--compare"),
    "credit.function": LimitFlag("--credit-function"),
    "credit.per_cpu_second": LimitFlag("--credit-per-cpu-second"),
    "credit.per_job": LimitFlag("--credit-per-job"),
    "credit.system": LimitFlag("--credit"),
    "dispatch.max_gpu_jobs_in_progress": LimitFlag("--max-per-gpu"),
    "dispatch.max_jobs_in_progress": LimitFlag("--max-per-cpu"),
    "dispatch.max_jobs_on_host": LimitFlag("--max-on-host"),
    "dispatch.max_jobs_per_day_init": LimitFlag("--first-day"),
    "dispatch.max_jobs_per_rpc": LimitFlag("--max-per-reply"),
    "dispatch.min_version": LimitFlag("--min-version"),
    "files[].open_name": LimitFlag("the name of a file"),
    "inputs[].name": LimitFlag("--input"),
    "limits.delay_bound": LimitFlag("--delay-bound", "seconds"),
    "limits.rsc_bandwidth_bound": LimitFlag("--bandwidth", "bytes per second"),
    "limits.rsc_disk_bound": LimitFlag("--disk", "bytes"),
    "limits.rsc_fpops_bound": LimitFlag("--flops-bound"),
    "limits.rsc_fpops_est": LimitFlag("--flops-est"),
    "limits.rsc_memory_bound": LimitFlag("--memory", "bytes"),
    "outputs": LimitFlag("--output"),
    "outputs[].max_nbytes": LimitFlag("--max-output", "bytes"),
    "outputs[].name": LimitFlag("--output"),
    "plan_class": LimitFlag("--plan-class"),
    "platform": LimitFlag("--platform"),
    "priority": LimitFlag("--priority"),
    "rollout": LimitFlag("--rollout"),
    "rollout[]": LimitFlag("--rollout"),
    "show_outputs": LimitFlag("--show-outputs"),
    "rules.min_quorum": LimitFlag("--quorum"),
    "stdout": LimitFlag("--stdout"),
    "target.host": LimitFlag("--for-host"),
    "target.team": LimitFlag("--for-team"),
    "target.user": LimitFlag("--for-user"),
    "title": LimitFlag("--title"),
}

_NESTED = re.compile(r"^(version|app_changes)\.")
_PLACE = re.compile(r"\[\d+\]")


def error_text(error: CobblestoneError | OSError) -> str:
    """Return the text of an error, with members of a request replaced by their flags."""
    member = getattr(error, "member", "")
    flag = FLAGS.get(_PLACE.sub("[]", _NESTED.sub("", member)))
    text = str(error)
    if isinstance(error, OSError) and error.strerror:  # a disk is full, a folder belongs to others
        return f"{error.filename or 'A file'}: {error.strerror}."
    if flag is None or f"`{member}`" not in text:
        return text
    text = text.replace(f"`{member}`", flag.name)
    return f"{text.removesuffix('.')} {flag.unit}." if flag.unit else text
