"""Why a computer gets no tasks, or fewer: codes, sentences, order and priority, and counts of refusals.

Why a computer gets no tasks, or fewer: codes, sentences, order and priority.

Sentences are read by volunteers, so they say *task* for result and name what would change the situation. The
table's order is the order of importance: what stops everything comes first, then what stopped a task at the
last step, then what excluded whole apps; so a limit that was really reached is not hidden behind a remark
about preferences.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from cobblestone.domain.reasons import Reason, Value, reason
from cobblestone.domain.values import HOUR


class Code(StrEnum):
    """Stable codes of refusals."""

    BLOCKED = "host_blocked"
    TOO_RECENT = "request_too_recent"
    ANONYMOUS_PLATFORM = "anonymous_platform"
    NO_APPS = "no_apps"
    PLATFORM = "platform_not_supported"
    NOT_REQUESTED = "no_work_requested"
    HELD_BY_PREFERENCE = "held_limit_of_preferences"
    HELD_TOTAL = "held_limit_of_project"
    HELD_OF_TYPE = "held_limit_of_processor_type"
    HELD_OF_APP = "held_limit_of_app"
    HELD_OF_APP_AND_TYPE = "held_limit_of_app_and_processor_type"
    QUOTA_PAUSED = "pause_after_failures"
    QUOTA_FAILING = "daily_quota_after_failures"
    QUOTA = "daily_quota"
    UNPROVEN = "held_limit_of_new_host"
    PER_REQUEST = "limit_per_request"
    PER_REQUEST_OF_APP = "limit_per_request_of_app"
    DISK = "disk"
    DEADLINE = "deadline"
    DEADLINE_OF_OTHERS = "deadline_of_other_tasks"
    MEMORY = "memory"
    BANDWIDTH = "bandwidth"
    ALREADY_AT_USER = "already_at_user"
    ALREADY_AT_HOST = "already_at_host"
    HR_CLASS = "homogeneous_redundancy_class"
    RETRY_RESERVED = "retry_for_reliable_hosts"
    BROWSER_TIME = "too_long_for_browsers"
    BROWSER_ALONE = "browser_alone"
    AT_A_BROWSER = "at_a_browser"
    NETWORK_SHARE = "share_of_network"
    PREFERENCES_EXCLUDE = "preferences_exclude_processor_type"
    TYPE_NOT_REQUESTED = "processor_type_not_requested"
    GPU_MISSING = "gpu_missing"
    GPU_COUNT = "gpu_count"
    GPU_MEMORY = "gpu_memory"
    GPU_DRIVER = "gpu_driver"
    NO_PYTHON = "no_python"
    HR_UNKNOWN = "homogeneous_redundancy_unknown"
    CPU_FEATURE = "cpu_feature"
    CPU_COUNT = "cpu_count"
    CPU_VENDOR = "cpu_vendor"
    OPERATING_SYSTEM = "operating_system"
    HOST_MEMORY = "host_memory"
    VIRTUALBOX = "virtualbox"
    DOCKER = "docker"
    DOCKER_CLIENT = "docker_client"
    NO_PLAN_CLASSES = "client_without_plan_classes"
    CLIENT_TOO_OLD = "client_too_old"
    CLIENT_TOO_NEW = "client_too_new"
    BETA_VERSION = "beta_version"
    PLAN_CLASS_UNKNOWN = "plan_class_unknown"
    PLAN_CLASS_BROKEN = "plan_class_broken"
    NEEDS_64_BIT = "needs_64_bit"
    UNSIGNED = "version_not_signed"
    NOT_ROLLED_OUT = "version_not_rolled_out"
    APP_NOT_SELECTED = "app_not_selected"
    UNWANTED = "unwanted_keyword"
    BETA_APP = "beta_app"
    COMMITTED_VERSION = "committed_to_other_version"
    APP_PLATFORM = "app_not_for_this_platform"
    NO_TASKS_OF_TYPE = "no_tasks_of_processor_type"
    NO_TASKS = "no_tasks"


@dataclass(frozen=True, slots=True)
class DispatchExplanation:
    """A sentence, and whether it asks the volunteer to correct something."""

    sentence: str
    notice: bool = False


def _note(sentence: str) -> DispatchExplanation:
    return DispatchExplanation(sentence)


def _ask(sentence: str) -> DispatchExplanation:
    return DispatchExplanation(sentence, notice=True)


EXPLANATIONS: dict[Code, DispatchExplanation] = {
    Code.BLOCKED: _ask(
        "The project sends no tasks to this computer: {why}. Ask the project's administrators to lift the "
        "block."
    ),
    Code.TOO_RECENT: _note(
        "This computer asked {seconds_ago} s ago; the project answers requests for tasks every "
        "{interval} s. The client asks again automatically."
    ),
    Code.ANONYMOUS_PLATFORM: _ask(
        "This client brings its own applications (app_info.xml), and none of them is one of the project's. Remove "
        "app_info.xml from the project's folder and restart the client to get the project's applications."
    ),
    Code.NO_APPS: _note(
        "The project has no application to send at the moment. Nothing is wrong with this computer."
    ),
    Code.PLATFORM: _ask(
        "The project has no applications for computers of type {platform}; it has some for {offered}. This "
        "computer gets tasks when the project adds its type."
    ),
    Code.NOT_REQUESTED: _note("The client asked for no tasks."),
    Code.HELD_BY_PREFERENCE: _note(
        "This computer holds {held} {held:task|tasks}, and your project preferences allow {limit} at a time. It gets more "
        "when it reports finished tasks, or when you raise the limit."
    ),
    Code.HELD_TOTAL: _note(
        "This computer holds {held} {held:task|tasks}, and the project allows {limit} at a time. It gets more when it "
        "reports finished tasks."
    ),
    Code.HELD_OF_TYPE: _note(
        "This computer holds {held} {subject} {held:task|tasks}, and the project allows {limit} at a time. It gets more when "
        "it reports finished tasks."
    ),
    Code.HELD_OF_APP: _note(
        "This computer holds {held} {held:task|tasks} of {app}, and the project allows {limit} at a time. It gets more when "
        "it reports finished tasks."
    ),
    Code.HELD_OF_APP_AND_TYPE: _note(
        "This computer holds {held} {subject} {held:task|tasks} of {app}, and the project allows {limit} at a time. It gets "
        "more when it reports finished tasks."
    ),
    Code.QUOTA_PAUSED: _ask(
        "{bad} {bad:task|tasks} of {app} failed on this computer, {bad:was|were} wrong or came too late, so it gets a single "
        "one in {hours_left} h. Look at the failed tasks on the project's pages: their messages say what is wrong. When one "
        "task is right, more follow at once."
    ),
    Code.QUOTA_FAILING: _ask(
        "{bad} {bad:task|tasks} of {app} failed on this computer, {bad:was|were} wrong or came too late, so it gets {limit} "
        "a day for now. The number doubles with each correct one; look at the failed tasks on the project's pages. The next "
        "day begins in {hours_left} h."
    ),
    Code.QUOTA: _note(
        "This computer has had today's {limit} {limit:task|tasks} of {app}. The next day begins in {hours_left} h; the "
        "number grows when tasks succeed, up to the project's limit."
    ),
    Code.PER_REQUEST: _note(
        "A request gets at most {limit} {limit:task|tasks}. The client asks for more automatically."
    ),
    Code.UNPROVEN: _note(
        "This computer holds {held} {held:task|tasks} of {app}. Until one from the app's current version was found right "
        "here, it gets {limit} at a time; the first ones that are done bring more."
    ),
    Code.PER_REQUEST_OF_APP: _note(
        "One reply holds at most {limit} {limit:task|tasks} of {app}. The client asks for more automatically."
    ),
    Code.DISK: _ask(
        "Tasks need {need_gb} GB of disk, and this computer leaves {have_gb} GB to the client. Free some "
        "disk, or allow more in the computing preferences."
    ),
    Code.DEADLINE: _note(
        "Tasks would be late here: the shortest would be done in {need_hours} h, and its deadline is in {due_hours} h. "
        "The computer computes {available_percent} % of the time, and {delay_hours} h of work are waiting. More "
        "computing time, a smaller work buffer, or shorter tasks would help."
    ),
    Code.DEADLINE_OF_OTHERS: _note(
        "{tasks} waiting {tasks:task|tasks} would be late here, or make others late: the work that the client already holds, "
        "of all projects, takes its time until the deadlines. A smaller work buffer, or more computing time, would help."
    ),
    Code.BANDWIDTH: _note(
        "Tasks need a connection of {need_kb} kB/s, and this computer's downloads reach {have_kb} kB/s. It gets them when "
        "its connection is faster."
    ),
    Code.MEMORY: _ask(
        "Tasks need {need_mb} MB of memory, and this computer lets the client use {have_mb} MB. If it "
        "has more, allow more memory in the computing preferences."
    ),
    Code.ALREADY_AT_USER: _note(
        "The project sends a task to each volunteer only once, and you have or had the {tasks} that {tasks:waits|wait}, also "
        "where yours failed. You will get tasks when the project has new work."
    ),
    Code.ALREADY_AT_HOST: _note(
        "The project sends a task to each computer only once, and this one has or had the {tasks} that {tasks:waits|wait}, "
        "also where its own failed. It will get tasks when the project has new work."
    ),
    Code.HR_CLASS: _note(
        "The {tasks} waiting {tasks:task|tasks} must run on another kind of processor and system than this computer's, so "
        "that results can be compared. It will get tasks when the project has new work."
    ),
    Code.RETRY_RESERVED: _note(
        "The {tasks} waiting {tasks:task|tasks} failed elsewhere or {tasks:was|were} not returned, and {tasks:is|are} "
        "reserved for a while for computers that returned many correct results in good time. This computer gets them later, "
        "or when it has become one of these."
    ),
    Code.BROWSER_TIME: _note(
        "The {tasks} waiting {tasks:task|tasks} would take a browser longer than an hour. {tasks:It is|They are} for "
        "computers that compute all day."
    ),
    Code.BROWSER_ALONE: _note(
        "Tasks of {app} are computed by one computer each, and what a browser computes is always checked by another computer."
    ),
    Code.AT_A_BROWSER: _note(
        "The {tasks} waiting {tasks:task is|tasks are} not for this browser: you or another browser has or had {tasks:it|them}, "
        "and each is checked by another person's computer, never by a second browser. There is work here when the project "
        "has new tasks."
    ),
    Code.NETWORK_SHARE: _note(
        "The {tasks} waiting {tasks:task is|tasks are} kept for other visitors, since browsers in your network hold as many. "
        "When those are finished, there is work here again."
    ),
    Code.NO_PYTHON: _ask(
        "{app} needs Python 3.6 or newer, and a task found none on this computer. Install Python 3 in "
        "the search path, then confirm it on this computer's page at the project. Otherwise the "
        "project tries again in a week."
    ),
    Code.HR_UNKNOWN: _note(
        "Results of {app} are compared between computers of one kind only, and the project cannot tell from this "
        "computer's processor and system of which kind it is."
    ),
    Code.PREFERENCES_EXCLUDE: _ask(
        "{app} has {subject} tasks, but your project preferences exclude {subject}. Change them to get such "
        "tasks."
    ),
    Code.TYPE_NOT_REQUESTED: _note("{app} has {subject} tasks, and the client asked for none of these."),
    Code.GPU_MISSING: _note(
        "{app} needs a GPU of type {wanted}; this computer reports none. A driver may be missing."
    ),
    Code.GPU_COUNT: _note("{app} needs {need} {need:GPU|GPUs} of type {wanted}; this computer has {have}."),
    Code.GPU_MEMORY: _note(
        "{app} needs a GPU with {need_mb} MB of memory; this computer's has {have_mb} MB."
    ),
    Code.GPU_DRIVER: _ask(
        "{app} needs GPU driver {need} or newer; this computer has {have}. Update the driver."
    ),
    Code.CPU_FEATURE: _note("{app} needs a processor with {wanted}, which this computer's does not have."),
    Code.CPU_COUNT: _note(
        "{app} needs {need} {need:processor|processors}; the client may use {have} here. If the computer has more, allow "
        "them in the computing preferences."
    ),
    Code.CPU_VENDOR: _note("{app} does not run on processors made by {have}."),
    Code.OPERATING_SYSTEM: _note(
        "{app} needs another operating system than {have}, or another version of it."
    ),
    Code.HOST_MEMORY: _note("{app} needs a computer with {need_mb} MB of memory; this one has {have_mb} MB."),
    Code.VIRTUALBOX: _ask("{app} needs VirtualBox. Install it and restart the client."),
    Code.DOCKER: _ask("{app} needs Docker or Podman. Install one and restart the client."),
    Code.DOCKER_CLIENT: _ask("{app} needs client {need} or newer on this system. Update the client."),
    Code.NO_PLAN_CLASSES: _ask("{app} needs a newer client. Update the client."),
    Code.CLIENT_TOO_OLD: _ask("{app} needs client {need} or newer; this one is {have}. Update the client."),
    Code.CLIENT_TOO_NEW: _note("{app} does not run with clients newer than {need}; this one is {have}."),
    Code.BETA_VERSION: _note(
        "A version of {app} for this computer is a test version. Allow test applications in the project preferences "
        "to get it."
    ),
    Code.PLAN_CLASS_UNKNOWN: _note(
        "A version of {app} names the plan class {wanted}, which is not defined. The project's "
        "administrators must define it."
    ),
    Code.PLAN_CLASS_BROKEN: _note(
        "The plan class {wanted} of {app} has an invalid pattern. The project's administrators must "
        "correct it."
    ),
    Code.NEEDS_64_BIT: _note("Tasks of {app} need more memory than a 32-bit application can use."),
    Code.UNSIGNED: _note(
        "A version of {app} for this computer is not signed yet. The project's administrators must sign it."
    ),
    Code.NOT_ROLLED_OUT: _note(
        "The version of {app} for this computer is new and is sent to a part of the computers first. "
        "This one gets tasks when the version has proved reliable."
    ),
    Code.APP_NOT_SELECTED: _ask(
        "{app} has tasks, but is not selected in your project preferences. Select it, or allow other "
        "applications there."
    ),
    Code.UNWANTED: _note(
        "You refuse a subject or place of {app}, on the preferences page or at your account manager; its tasks are "
        "not sent."
    ),
    Code.BETA_APP: _note(
        "{app} is a test application. Allow these in your project preferences to get its tasks."
    ),
    Code.COMMITTED_VERSION: _note(
        "Tasks of {app} must all run with the same version, and it is not one for this computer. It "
        "will get tasks when the project has new work."
    ),
    Code.APP_PLATFORM: _note("{app} has tasks, but no application for computers of type {platform}."),
    Code.NO_TASKS_OF_TYPE: _note("The project has no more {subject} tasks waiting at the moment."),
    Code.NO_TASKS: _note(
        "The project has no tasks waiting at the moment. The client asks again automatically."
    ),
}

#: Refusals that time undoes, or the work that a computer returns.
PASSING = frozenset(
    {
        Code.TOO_RECENT,
        Code.NOT_REQUESTED,
        Code.HELD_BY_PREFERENCE,
        Code.HELD_TOTAL,
        Code.HELD_OF_TYPE,
        Code.HELD_OF_APP,
        Code.HELD_OF_APP_AND_TYPE,
        Code.QUOTA_PAUSED,
        Code.QUOTA_FAILING,
        Code.QUOTA,
        Code.UNPROVEN,
        Code.PER_REQUEST,
        Code.PER_REQUEST_OF_APP,
        Code.DEADLINE,
        Code.DEADLINE_OF_OTHERS,
        Code.RETRY_RESERVED,
        Code.NETWORK_SHARE,
        Code.TYPE_NOT_REQUESTED,
        Code.NOT_ROLLED_OUT,
    }
)

_RANK = {str(code): rank for rank, code in enumerate(EXPLANATIONS)}


def explain(code: Code, **values: Value) -> Reason:
    """Return the reason with this code; ``values`` fill its sentence, whole numbers without a point."""
    shown = {
        name: int(each) if isinstance(each, float) and each.is_integer() else each
        for name, each in values.items()
    }
    return reason(str(code), EXPLANATIONS[code].sentence, **shown)


def by_importance(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    """Reasons in the order of the table; those of one code keep their order."""
    return tuple(sorted(reasons, key=lambda each: _RANK.get(each.code, len(_RANK))))


@dataclass(frozen=True, slots=True)
class HostMessage:
    """A reason to tell a client: ``low`` goes to its event log, ``notice`` also asks the volunteer to look."""

    reason: Reason
    priority: str


def messages(reasons: Iterable[Reason], *, limit: int = 5) -> tuple[HostMessage, ...]:
    """Return the client's messages for these reasons, most important first, at most ``limit``, each text once."""
    found: dict[str, HostMessage] = {}
    for each in reasons:
        explanation = EXPLANATIONS.get(Code(each.code)) if each.code in _RANK else None
        priority = "notice" if explanation is not None and explanation.notice else "low"
        found.setdefault(each.text(), HostMessage(each, priority))
        if len(found) == limit:
            break
    return tuple(found.values())


_MEGABYTE = 1e6
_GIGABYTE = 1e9
_MOST = 1e15  # figures beyond this are nonsense that someone sent


class Tally:
    """Refusals of one decision.

    Of refusals for an amount, the smallest amount is kept: it is the nearest to success.
    """

    __slots__ = ("_counts", "_details", "_least", "_reasons")

    def __init__(self) -> None:
        self._counts: dict[Code, int] = {}
        self._least: dict[Code, float] = {}
        self._details: dict[Code, tuple[float, ...]] = {}
        self._reasons: list[Reason] = []

    def note(self, code: Code, need: float = 0.0, detail: tuple[float, ...] = ()) -> None:
        """Count one candidate; ``need`` is its requirement, ``detail`` further values."""
        counts = self._counts
        known = counts.get(code, 0)
        counts[code] = known + 1
        if not known or need < self._least[code]:
            self._least[code] = need
            self._details[code] = detail

    def add(self, reasons: Iterable[Reason]) -> None:
        """Keep reasons that are not about single candidates."""
        self._reasons.extend(reasons)

    def reasons(self, *, ram_bytes: float, disk_bytes: float) -> tuple[Reason, ...]:
        """One reason per kind of refusal, in no special order."""
        found = {each.text(): each for each in self._reasons}
        counted = [
            explain(code, **self._values(code, count, ram_bytes, disk_bytes))
            for code, count in self._counts.items()
        ]
        return (*found.values(), *counted)

    def _values(self, code: Code, count: int, ram_bytes: float, disk_bytes: float) -> dict[str, Value]:
        need = self._least[code]
        values: dict[str, Value] = {"tasks": count}
        if code == Code.BANDWIDTH:
            values |= {"need_kb": _rounded(need / 1e3), "have_kb": _rounded(self._details[code][0] / 1e3)}
        elif code == Code.MEMORY:
            values |= {"need_mb": _rounded(need / _MEGABYTE), "have_mb": _rounded(ram_bytes / _MEGABYTE)}
        elif code == Code.DISK:
            values |= {"need_gb": _rounded(need / _GIGABYTE), "have_gb": _rounded(disk_bytes / _GIGABYTE)}
        elif code == Code.DEADLINE:
            delay, available, due = self._details[code]
            values |= {
                "need_hours": _rounded(need / HOUR),
                "due_hours": _rounded(due / HOUR),
                "delay_hours": _rounded(delay / HOUR),
                "available_percent": _rounded(100 * available),
            }
        return values


def _rounded(amount: float) -> float:
    """Two digits after the point for small amounts, none for large ones."""
    amount = min(max(amount, 0.0), _MOST)
    return round(amount, 2) if amount < 100 else int(amount)
