"""The core's input and output: events, instructions, and their form for JSON and databases.

What happens to a client: the core's input.

Every event carries ``now``.  Several may be handed over at once; they are taken in order and followed by one round of
decisions.  Events that only bring figures up to date (``decisive`` is false) are followed by none.

What a client has to do: the core's output, in the order in which it is to be carried out.

Each instruction carries its reasons as data; :mod:`~cobblestone.policy.client.core.reasons` makes sentences of them.

Events, instructions and state as plain dictionaries, lists, texts and numbers, and back: for JSON and databases.

Numbers that JSON does not know (infinite ones) become texts.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import cache
from typing import Any, ClassVar, TypeVar, cast

from cobblestone.domain.errors import ConfigError
from cobblestone.domain.values import value
from cobblestone.policy.client.core.reasons import Why
from cobblestone.policy.client.core.values import (
    FetchRequest,
    HostDevices,
    HostTimes,
    JobDescription,
    Permission,
    ProjectDescription,
    QueuedWork,
    Reading,
    SchedulingPreferences,
)


@value()
class Event:
    """Something happened at the time ``now``."""

    decisive: ClassVar[bool] = True

    now: float


# -- time and the host ------------------------------------------------------------------------------------------------


@value()
class TimePassed(Event):
    """The alarm rang, or the driver wants a look at everything."""


@value()
class HostOn(Event):
    """The client starts, or the computer wakes up.  Time since the last event counts as off."""

    decisive: ClassVar[bool] = False


@value()
class HostOff(Event):
    """The computer stops or falls asleep now; may be left out (`HostOn` alone tells it)."""

    decisive: ClassVar[bool] = False


@value()
class AvailabilityKnown(Event):
    """Another client has measured on this computer how much of the time it computes."""

    decisive: ClassVar[bool] = False

    times: HostTimes


@value()
class PreferencesChanged(Event):
    """The volunteer's preferences are now these."""

    preferences: SchedulingPreferences


@value()
class PermissionChanged(Event):
    """The current permissions have changed."""

    permission: Permission


@value()
class DevicesChanged(Event):
    """The devices of this host: found at the start, one disabled, or benchmarks run again."""

    devices: HostDevices


# -- projects ---------------------------------------------------------------------------------------------------------


@value()
class ProjectAttached(Event):
    """A project is attached, or its description has changed."""

    project: ProjectDescription


@value()
class ProjectDetached(Event):
    """A project and all its jobs are gone."""

    project: str


@value()
class ContactAsked(Event):
    """A contact with a project is requested by ``user``, ``trickle``, ``account_manager`` or ``project``."""

    project: str
    why: str = "user"


@value()
class ReplyReceived(Event):
    """A project's server has answered."""

    project: str
    jobs: tuple[JobDescription, ...] = ()
    acknowledged: tuple[str, ...] | None = None  #: reported jobs that it took; None = all that were told
    abort: tuple[str, ...] = ()  #: jobs that it wants to be ended
    abort_unstarted: tuple[str, ...] = ()  #: ... unless they have started
    request_delay: float = 0.0  #: seconds for which it wants no contact
    next_contact: float = 0.0  #: seconds after which it wants one; 0 = whenever
    refused: bool = False  #: a job was not sent since it would have been late


@value()
class ContactFailed(Event):
    """A contact could not be made, or its answer could not be read."""

    project: str
    code: str = "unreachable"


@value()
class ContactSlow(Event):
    """A contact takes long: others may be made meanwhile.  Its answer or failure still has to follow."""

    project: str


# -- jobs -------------------------------------------------------------------------------------------------------------


@value()
class JobsFound(Event):
    """Jobs that are on the host already (after a start without stored state, or adopted from another client)."""

    jobs: tuple[JobDescription, ...]


@value()
class JobsDescribed(Event):
    """The volunteer has changed what jobs use and how they are treated; those that are gone are passed over."""

    jobs: tuple[JobDescription, ...]


@value()
class JobReady(Event):
    """All files of a job are here."""

    job: str


@value()
class DownloadStalled(Event):
    """The files of a job do not come (``stalled``), or come again."""

    job: str
    stalled: bool = True


@value()
class JobProgressed(Event):
    """Readings of running tasks."""

    decisive: ClassVar[bool] = False

    readings: tuple[Reading, ...]


@value()
class JobCheckpointed(Event):
    """A running task has saved its state."""

    job: str
    elapsed: float


@value()
class JobFinished(Event):
    """A task has ended well."""

    job: str
    elapsed: float
    uploading: bool = False  #: `JobUploaded` will follow


@value()
class JobFailed(Event):
    """A task has failed, or was aborted after `GiveUp` or by the volunteer."""

    job: str
    elapsed: float
    uploading: bool = False


@value()
class JobDeferred(Event):
    """A task has ended for the time being and wants to be started again at ``until``."""

    job: str
    until: float


@value()
class TaskStopped(Event):
    """The process of a task that was told to quit is gone, or died of itself; what it did since its checkpoint is lost."""

    job: str


@value()
class JobUploaded(Event):
    """All output files of a job are with the project."""

    job: str


@value()
class JobSuspended(Event):
    """The volunteer suspends a job, or lets it go on."""

    job: str
    suspended: bool = True


#: Every event, by the name under which it is stored.
EVENTS: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in (
        TimePassed, HostOn, HostOff, AvailabilityKnown, PreferencesChanged, PermissionChanged, DevicesChanged,
        ProjectAttached, ProjectDetached, ContactAsked, ReplyReceived, ContactFailed,
        ContactSlow,
        JobsFound, JobsDescribed, JobReady, DownloadStalled, JobProgressed, JobCheckpointed, JobFinished, JobFailed,
        JobDeferred, TaskStopped, JobUploaded, JobSuspended,
    )
}  # fmt: skip


@value(kw_only=True)
class Instruction:
    """Something to be done, and why."""

    why: tuple[Why, ...] = ()


@value(kw_only=True)
class StartTask(Instruction):
    """Start the task, or let it go on: from memory if it is there, else from its checkpoint."""

    job: str
    instances: tuple[int, ...] = ()  #: GPU instances that it gets


@value(kw_only=True)
class SuspendTask(Instruction):
    """Stop the task and leave it in memory."""

    job: str


@value(kw_only=True)
class QuitTask(Instruction):
    """Let the task end; it will start again from its checkpoint."""

    job: str


@value(kw_only=True)
class GiveUp(Instruction):
    """Abort the job; `JobFailed` has to follow."""

    job: str
    code: str = "unmeetable_deadline"  #: or ``project`` if the server wants it


@value(kw_only=True)
class ContactProject(Instruction):
    """Contact the project's scheduler; `ReplyReceived` or `ContactFailed` has to follow."""

    project: str
    #: by device type; empty = no work
    requests: Mapping[str, FetchRequest] = field(default_factory=dict[str, FetchRequest])
    report: tuple[str, ...] = ()  #: jobs to report
    workload: tuple[QueuedWork, ...] | None = None  #: for servers that check deadlines; None = not told
    correction: float = 1.0  #: duration correction factor of the project
    available: float = 1.0  #: part of the time for which the host is expected to compute


@value(kw_only=True)
class SetAlarm(Instruction):
    """Send `TimePassed` at ``at`` unless something else happens before; replaces the alarm before."""

    at: float


@value(kw_only=True)
class Explain(Instruction):
    """Nothing to do: why something was decided, or was not (only if the core was asked to explain)."""

    about: str  #: ``schedule``, ``enforce``, ``fetch``, ``contact``, ``give_up`` or ``wait``


T = TypeVar("T")
Plain = dict[str, Any]  # Any: what JSON can hold
_INFINITE = (float("inf"), float("-inf"))
_AS_THEY_ARE = frozenset({str, int, bool, type(None)})


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(each.name for each in dataclasses.fields(kind))


_TEXTS = ("inf", "-inf", "nan")


def event_to_plain(event: Event) -> Plain:
    """Return an event as a dictionary that names its kind."""
    return {"event": type(event).__name__, **to_plain(event)}


def event_from_plain(plain: Mapping[str, Any]) -> Event:
    """Return the event.  Raises :class:`ConfigError` if it is none of ours."""
    kind = EVENTS.get(str(plain.get("event")))
    if kind is None:
        raise ConfigError(f"{plain.get('event')!r} is not an event; there are {', '.join(EVENTS)}")
    return from_plain(kind, {key: each for key, each in plain.items() if key != "event"})


def to_plain(thing: Any) -> Any:
    """Return a value of ours as JSON knows it."""
    if type(thing) in _AS_THEY_ARE:
        return thing
    if isinstance(thing, float):
        return str(thing) if thing in _INFINITE else thing
    if dataclasses.is_dataclass(thing):
        return {name: to_plain(getattr(thing, name)) for name in _field_names(type(thing))}
    if isinstance(thing, Mapping):
        pairs = cast("Mapping[Any, Any]", thing)
        return {str(key): to_plain(each) for key, each in pairs.items()}
    if isinstance(thing, list | tuple | set | frozenset):
        items = cast("Iterable[Any]", thing)
        return [to_plain(each) for each in (sorted(items) if isinstance(thing, set | frozenset) else items)]
    return thing


def from_plain(kind: type[T], plain: Any) -> T:
    """Return the value of type ``kind`` that :func:`to_plain` made ``plain`` of.

    Raises :class:`ConfigError` naming what does not fit.
    """
    try:
        return cast("T", _restore(kind, plain))
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise ConfigError(f"this is not a stored {kind.__name__}: {error}") from error


def _restore(kind: Any, plain: Any) -> Any:
    origin = typing.get_origin(kind)
    arguments = typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        kinds = [each for each in arguments if each is not type(None)]
        if plain is None and len(kinds) < len(arguments):
            return None
        return _restore(kinds[0], plain) if len(kinds) == 1 else _checked(tuple(kinds), plain)
    if dataclasses.is_dataclass(kind):
        return _restore_fields(cast("type", kind), _checked(Mapping, plain))
    if origin is None:
        if isinstance(kind, type) and issubclass(kind, tuple):
            return _restore_row(cast("type", kind), _listed(plain))
        if isinstance(kind, enum.EnumType):
            return kind(plain)
        return _number(plain) if kind is float else _checked(kind, plain)
    if issubclass(origin, Mapping):
        pairs = _checked(Mapping, plain).items()
        return {arguments[0](key): _restore(arguments[1], each) for key, each in pairs}
    if origin is tuple and arguments[-1] is not Ellipsis:
        return tuple(_restore(a, each) for a, each in zip(arguments, _listed(plain), strict=True))
    return cast("Any", origin)([_restore(arguments[0], each) for each in _listed(plain)])


def _restore_fields(kind: type, plain: Mapping[str, Any]) -> Any:
    hints = _hints(kind)
    if unknown := plain.keys() - hints.keys():
        raise ValueError(f"unknown {', '.join(sorted(unknown))}")
    values: dict[str, Any] = {}
    for key, each in plain.items():
        try:
            values[key] = _restore(hints[key], each)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{key}: {error}") from error
    return kind(**values)


def _restore_row(kind: type, plain: list[Any]) -> Any:
    names = _hints(kind)
    if len(plain) > len(names):
        raise ValueError(f"{len(plain)} values; a {kind.__name__} has {len(names)}")
    return _restore_fields(kind, dict(zip(names, plain, strict=False)))


def _number(plain: Any) -> float:
    return float(plain if plain in _TEXTS else _checked((int, float), plain))


def _listed(plain: Any) -> Any:
    return _checked((list, tuple), plain)


def _checked(kind: Any, plain: Any) -> Any:
    if not isinstance(plain, kind) or (isinstance(plain, bool) and kind is not bool):
        raise TypeError(f"{plain!r:.80} is not possible here")
    return plain


@cache
def _hints(kind: type) -> dict[str, Any]:
    """Return the types of the fields, in their order."""
    hints = typing.get_type_hints(kind)
    return {name: hint for name, hint in hints.items() if typing.get_origin(hint) is not typing.ClassVar}
