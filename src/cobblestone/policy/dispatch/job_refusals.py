"""Why computers do not take a job, in words for whoever submitted it; `explain` has those for volunteers."""

from __future__ import annotations

from cobblestone.domain.reasons import Reason
from cobblestone.policy.dispatch.explain import PASSING, Code

OTHER_TARGET = "other_target"
"""The code of a computer that the job is not meant for."""

_BUSY = "they hold or had as many tasks as they may for now; they take it later"

SENTENCES: dict[str, str] = {
    **dict.fromkeys(map(str, PASSING), _BUSY),
    OTHER_TARGET: "the job is for another computer, user or team",
    Code.DEADLINE: "they would be late for now: raise the time until a report is due (--delay-bound)",
    Code.DEADLINE_OF_OTHERS: "they have too much other work for now to be in time; they take it later",
    Code.RETRY_RESERVED: "an earlier result failed, so it is kept for proven computers for a while; they take it later",
    Code.NOT_ROLLED_OUT: "the app's newest version is given to a part of the computers first; they take it later",
    Code.BLOCKED: "the project has blocked them",
    Code.ANONYMOUS_PLATFORM: "their clients bring applications of their own, none for this app",
    Code.NO_APPS: "the app has no version that could be sent",
    Code.PLATFORM: "the app has no version for their kind of computer: cobblestone app version add",
    Code.APP_PLATFORM: "the app has no version for their kind of computer: cobblestone app version add",
    Code.DISK: "they leave less disk to the client than the job may use ({need_gb} GB): lower the app's --disk",
    Code.MEMORY: "they have less memory for the client than the job needs ({need_mb} MB): lower the app's --memory",
    Code.BANDWIDTH: "their connection is slower than the app demands ({need_kb} kB/s)",
    Code.ALREADY_AT_USER: "their owner has, or had, a result of this job; each must come from another person",
    Code.ALREADY_AT_HOST: "they have, or had, a result of this job; each must come from another computer",
    Code.HR_CLASS: "they compute unlike the computer that has the job's first result (--homogeneous)",
    Code.HR_UNKNOWN: "their kind of processor is not known, so they cannot be compared with others (--homogeneous)",
    Code.PREFERENCES_EXCLUDE: "their owners do not allow {subject} work",
    Code.GPU_MISSING: "they have no GPU of type {wanted}",
    Code.GPU_COUNT: "they have too few GPUs of type {wanted} ({need} are needed)",
    Code.GPU_MEMORY: "their GPU has too little memory ({need_mb} MB are needed)",
    Code.GPU_DRIVER: "their GPU driver is older than {need}",
    Code.BROWSER_TIME: "they are browsers, for which the job would take too long: smaller jobs, or a smaller --flops-est",
    Code.BROWSER_ALONE: "they are browsers, which are never believed alone: the app's --quorum must be 2 or more",
    Code.NO_PYTHON: "they have no Python 3.6 or newer",
    Code.CPU_FEATURE: "their processor lacks {wanted}",
    Code.CPU_COUNT: "they have fewer than {need} processors for the client",
    Code.CPU_VENDOR: "their processor is of another make than the plan class wants",
    Code.OPERATING_SYSTEM: "the plan class wants another operating system, or another version of it",
    Code.HOST_MEMORY: "they have less than {need_mb} MB of memory, which the plan class wants",
    Code.VIRTUALBOX: "they have no VirtualBox",
    Code.DOCKER: "they have neither Docker nor Podman",
    Code.DOCKER_CLIENT: "their client is too old for Docker",
    Code.NO_PLAN_CLASSES: "their client is too old for plan classes",
    Code.CLIENT_TOO_OLD: "their client is older than the app version wants ({need})",
    Code.CLIENT_TOO_NEW: "their client is newer than the app version allows ({need})",
    Code.BETA_VERSION: "the app has only a test version for them, and their owners do not allow these",
    Code.BETA_APP: "it is a test application, and their owners do not allow these",
    Code.PLAN_CLASS_UNKNOWN: "the plan class {wanted} of the app's version is not defined",
    Code.PLAN_CLASS_BROKEN: "the plan class {wanted} has a pattern that cannot be read",
    Code.NEEDS_64_BIT: "they run 32-bit programs only, and the job needs more memory than these can use",
    Code.UNSIGNED: "the app's version for them is not signed: cobblestone key sign",
    Code.APP_NOT_SELECTED: "their owners did not select this app",
    Code.COMMITTED_VERSION: "the job's results must all use one app version, and it is not one for them (--one-version)",
    Code.NO_TASKS_OF_TYPE: "they take no tasks for this kind of processor",
    Code.NO_TASKS: "the app is deprecated, or has no version",
}


def for_submitter(refusal: Reason) -> str:
    """Why computers do not take a job, as a part of a sentence about them."""
    return SENTENCES[refusal.code].format_map(dict(refusal.values))
