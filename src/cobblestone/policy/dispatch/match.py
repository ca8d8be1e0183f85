"""The app version for a host, the best waiting jobs for it, and homogeneous redundancy.

Which version of an app a host would run: platform, client, plan class, preferences, quota, expected speed.

Source: BOINC's ``sched_version.cpp`` (facts). Of each platform and plan class only the newest usable version
is considered, so that a host whose tasks fail does not fall back to an older version and waste twice as much.

Which of the waiting jobs suit a host best: those whose files it has, and those of its size class.

Only apps that ask for it are looked at, and only the first `LOOK_AHEAD` candidates are put into another order; so a host
is never kept waiting, and a job that suits no one is sent when it comes to the head of the queue.

Source of the scores: BOINC's ``sched_score.cpp`` (facts): priority counts as much as a point.

Homogeneous redundancy: classes of hosts that compute alike to the last bit.

Programs that round differently on different machines cannot be compared bit by bit, so all results of a workunit go to
hosts of one class.  The first host decides which; if every result fails, the workunit is free again
(`cobblestone.policy.lifecycle.transition`).

A class is a number: operating system + kind of processor.  Source of the numbers of systems and of coarse kinds: BOINC's
``hr_info`` (facts).  Differences: ARM counts on every system, so Apple Silicon and Android have classes; the processor
families of the fine classes are our own list, since the family's ends with the processors of 2010.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice

from cobblestone.domain.apps import ANY_PLATFORM, App, AppVersion
from cobblestone.domain.hosts import CPU, HostAppVersion, HostDescription
from cobblestone.domain.people import ProjectPreferences
from cobblestone.domain.reasons import Reason
from cobblestone.domain.values import AppId, AppVersionId, changed, value
from cobblestone.domain.work import HomogeneousRedundancy
from cobblestone.policy.dispatch.budget import Budget
from cobblestone.policy.dispatch.catalogue import (
    GPU_PER_CPU,
    Candidate,
    Catalogue,
    ResourceUsage,
    availability,
    believed_speed,
    projected_flops,
)
from cobblestone.policy.dispatch.explain import Code, explain
from cobblestone.policy.dispatch.limits import DispatchLimits, jobs_per_day
from cobblestone.policy.dispatch.request import ANONYMOUS_PLATFORM, WorkRequest
from cobblestone.policy.dispatch.rollout import in_rollout
from cobblestone.policy.dispatch.versions import (
    lacks_interpreter,
    needs_interpreter,
    own_app_version,
    own_usage,
    plan_class_usage,
    sequential_usage,
)

NEVER_WORKED_SCALE = 0.01  #: speed of a version that only ever failed on the host …
NEVER_WORKED_CHANCE = 0.99  #: … in this part of the cases; the others give it a new trial
ALWAYS_NCPUS = 0.01  #: of a processor, used by apps that run beside all others

_ADDRESS_SPACE = {"Win": 2e9, "Lin": 3e9, "Dar": 4e9}  # bytes that a 32-bit program can use, by system


@value(kw_only=True)
class Match:
    """The version that a host would run for an app."""

    version: AppVersion
    platform: str
    usage: ResourceUsage
    available: float  #: fraction of time in which the host computes on this processor type


def address_space(os_name: str) -> float:
    """Bytes that a 32-bit program can use on this system."""
    return _ADDRESS_SPACE.get(os_name[:3], 2e9)


def client_version_text(version: int) -> str:
    """``72005`` as ``7.20.5``."""
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"


class VersionChooser:
    """Chooses versions for one request.

    ``limited=False`` leaves request, caps and quota out of account (lost work).
    """

    def __init__(
        self,
        request: WorkRequest,
        catalogue: Catalogue,
        limits: DispatchLimits,
        budget: Budget,
        rng: random.Random,
        *,
        limited: bool = True,
        now: float = 0.0,
    ) -> None:
        self._request = request
        self._catalogue = catalogue
        self._limits = limits
        self._budget = budget
        self._rng = rng
        self._limited = limited
        # A client with its own app versions has no platform to serve ours under.
        primary = request.platforms[0] if request.platforms else ANONYMOUS_PLATFORM
        self._primary = None if primary == ANONYMOUS_PLATFORM else primary
        description = request.host.description
        self._no_interpreter = bool(request.host.missing_runtime) and lacks_interpreter(request.host, now=now)
        self._cpu_available = availability(description)
        self._gpu_available = availability(description, gpu=True)

    def choose(
        self, app_id: AppId, *, committed: AppVersionId | None = None, needs_64_bit: bool = False
    ) -> Match | tuple[Reason, ...]:
        """Return the fastest usable version of the app, or why there is none (empty: wanted types are filled)."""
        app = self._catalogue.apps.get(app_id)
        if app is None or app.deprecated:
            return ()
        if self._request.anonymous:
            return self._choose_own(app, committed)
        refusals: list[Reason] = []
        usable: dict[tuple[str, str], tuple[AppVersion, str]] = {}
        min_version = app.dispatch.min_version
        for version in self._catalogue.versions.get(app_id, ()):
            if (version.deprecated and version.id != committed) or version.version_num < min_version:
                continue
            platform = self._platform(version)
            if platform is None:
                continue
            refusal = self._refuse_client(version, platform, app, committed, needs_64_bit)
            if refusal is not None:
                refusals.append(refusal)
                continue
            key = (version.platform, version.plan_class)
            known = usable.get(key)
            if known is None or known[0].version_num < version.version_num:
                usable[key] = (version, platform)
        matches: list[Match] = []
        for version, platform in usable.values():
            usage = self._usage(version, app)
            if isinstance(usage, ResourceUsage):
                matches.append(self._match(version, platform, usage))
            elif usage is not None:
                refusals.append(usage)
        if matches:
            return matches[0] if len(matches) == 1 else max(matches, key=self._selection_speed)
        if not refusals and not usable:
            return (explain(Code.APP_PLATFORM, app=app.title, platform=self._primary or ANONYMOUS_PLATFORM),)
        return tuple(refusals)

    def _choose_own(self, app: App, committed: AppVersionId | None) -> Match | tuple[Reason, ...]:
        """Return the fastest of the client's own versions of the app."""
        if committed is not None:
            return (explain(Code.COMMITTED_VERSION, app=app.title),)
        description = self._request.host.description
        matches: list[Match] = []
        refusals: list[Reason] = []
        for own in self._request.own_versions:
            if own.app_name != app.name:
                continue
            version = own_app_version(own, app)
            usage = own_usage(
                own, description, self._catalogue.population, self._request.records.get(version.id)
            )
            allowed = self._allowed(version, app, usage)
            if isinstance(allowed, ResourceUsage):
                available = self._gpu_available if usage.gpu_type else self._cpu_available
                matches.append(
                    Match(version=version, platform=own.platform, usage=usage, available=available)
                )
            elif allowed is not None:
                refusals.append(allowed)
        if matches:
            return max(matches, key=lambda match: match.usage.flops)
        if not refusals and all(own.app_name != app.name for own in self._request.own_versions):
            return (explain(Code.APP_PLATFORM, app=app.title, platform=ANONYMOUS_PLATFORM),)
        return tuple(refusals)

    def _platform(self, version: AppVersion) -> str | None:
        """Return the platform under which the host gets this version; None when it is not for the host."""
        if self._primary is None:
            return None
        if version.platform in self._request.platforms:
            return version.platform
        return self._primary if version.platform == ANY_PLATFORM and self._request.runs_scripts else None

    def _refuse_client(
        self, version: AppVersion, platform: str, app: App, committed: AppVersionId | None, needs_64_bit: bool
    ) -> Reason | None:
        """Return why this version is not for this client, on any host."""
        if committed is not None and version.id != committed:
            return explain(Code.COMMITTED_VERSION, app=app.title)
        if not version.signed:
            return explain(Code.UNSIGNED, app=app.title)
        if self._no_interpreter and needs_interpreter(version):
            return explain(Code.NO_PYTHON, app=app.title)
        if not in_rollout(self._request.host.id, version.id, version.rollout_fraction):
            return explain(Code.NOT_ROLLED_OUT, app=app.title)
        if version.beta and not self._request.preferences.allow_beta:
            return explain(Code.BETA_VERSION, app=app.title)
        client = self._request.client_version
        if client < version.min_client_version or 0 < version.max_client_version < client:
            too_old = client < version.min_client_version
            return explain(
                Code.CLIENT_TOO_OLD if too_old else Code.CLIENT_TOO_NEW,
                app=app.title,
                need=client_version_text(
                    version.min_client_version if too_old else version.max_client_version
                ),
                have=client_version_text(client),
            )
        if needs_64_bit and "64" not in platform:
            return explain(Code.NEEDS_64_BIT, app=app.title)
        if version.plan_class and not self._request.knows_plan_classes:
            return explain(Code.NO_PLAN_CLASSES, app=app.title)
        return None

    def _usage(self, version: AppVersion, app: App) -> ResourceUsage | Reason | None:
        """Return the resources of the version on the host, or why not; None if its processor type is filled."""
        description = self._request.host.description
        if not version.plan_class:
            usage = sequential_usage(description, self._catalogue.population, version.command_line)
        else:
            plan_class = self._catalogue.plan_classes.get(version.plan_class)
            if plan_class is None:
                return explain(Code.PLAN_CLASS_UNKNOWN, app=app.title, wanted=version.plan_class)
            answer = plan_class_usage(
                plan_class,
                description,
                app=app.title,
                usable_ncpus=self._budget.ncpus,
                population=self._catalogue.population,
                command_line=version.command_line,
            )
            if isinstance(answer, Reason):
                return answer
            usage = answer
        return self._allowed(version, app, usage)

    def _allowed(self, version: AppVersion, app: App, usage: ResourceUsage) -> ResourceUsage | Reason | None:
        """Return the usage, if preferences, request, caps and quota allow it."""
        resource = usage.resource
        preferences = self._request.preferences
        if preferences.no_cpu if resource == CPU else resource in preferences.no_gpu_types:
            return explain(Code.PREFERENCES_EXCLUDE, app=app.title, subject=resource)
        if not self._limited:
            return usage
        if app.dispatch.non_cpu_intensive:
            return self._budget.refuse_always(app) or changed(
                usage, avg_ncpus=min(usage.avg_ncpus, ALWAYS_NCPUS)
            )
        if resource not in self._budget.open:
            if resource in self._budget.wants:
                return None
            return explain(Code.TYPE_NOT_REQUESTED, app=app.title, subject=resource)
        return self._budget.refuse(app, version.id, resource) or usage

    def _match(self, version: AppVersion, platform: str, estimated: ResourceUsage) -> Match:
        cpu_flops = believed_speed(self._request.host.description, self._catalogue.population)
        flops = projected_flops(
            estimated,
            cpu_flops=cpu_flops,
            record=self._request.records.get(version.id),
            version_mean=self._catalogue.peak_flop_counts.get(version.id),
            gpu_fraction=self._catalogue.gpu_fraction(version),
        )
        usage = estimated if flops == estimated.flops else changed(estimated, flops=flops)
        if usage.gpu_type:
            usage = changed(usage, patient_flops=cpu_flops * (usage.avg_ncpus + GPU_PER_CPU * usage.ngpus))
        available = self._gpu_available if usage.gpu_type else self._cpu_available
        return Match(version=version, platform=platform, usage=usage, available=available)

    def _selection_speed(self, match: Match) -> float:
        """Speed with some chance in it, so that versions that might be faster get tried."""
        speed = match.usage.flops
        record: HostAppVersion = self._budget.record(match.version.id)
        only_failed = (
            record.statistics.elapsed.n == 0
            and record.statistics.consecutive_valid == 0
            and jobs_per_day(record, self._limits.daily_quota) == 1
        )
        if only_failed and self._rng.random() < NEVER_WORKED_CHANCE:
            speed *= NEVER_WORKED_SCALE
        factor = self._limits.version_random_factor
        if factor > 0:
            speed *= max(1.0 + factor * self._rng.gauss(0.0, 1.0) / max(record.statistics.elapsed.n, 1), 0.1)
        return speed


LOOK_AHEAD = 1000

HAS_FILE = 10
SAME_CLASS = 5
SMALLER_JOB = -1
LARGER_JOB = -2


def size_class_of(speed: float, bounds: tuple[float, ...]) -> int:
    """Return the size class of a speed (or of the operations per second that a job asks for): 0 is the smallest."""
    return bisect_right(bounds, speed)


def by_suitability(
    candidates: Iterable[Candidate],
    request: WorkRequest,
    apps: Mapping[AppId, App],
    match_of: Callable[[Candidate], Match | None],
) -> Iterator[Candidate]:
    """Yield the candidates, of the next `LOOK_AHEAD` always the most suitable first; equal ones keep their order."""
    source = iter(candidates)
    while block := list(islice(source, LOOK_AHEAD)):
        block.sort(key=lambda each: -_score(each, request, apps.get(each.app_id), match_of))
        yield from block


def keyword_score(preferences: ProjectPreferences, keywords: Collection[int]) -> int | None:
    """Return how many keywords of a job the volunteer wants; None: it has one that he refuses, and is never sent.

    Source: BOINC's ``sched_keyword.cpp`` (facts).
    """
    if not preferences.keywords_no.isdisjoint(keywords):
        return None
    return len(preferences.keywords_yes.intersection(keywords))


def _score(
    candidate: Candidate, request: WorkRequest, app: App | None, match_of: Callable[[Candidate], Match | None]
) -> int:
    score = candidate.priority
    if app is None:
        return score
    rules = app.dispatch
    score += keyword_score(request.preferences, rules.keywords) or 0
    if rules.locality and request.sticky_files:
        score += HAS_FILE * any(
            file.sticky and file.name in request.sticky_files for file in candidate.input_files
        )
    if rules.size_classes and candidate.size_class >= 0:
        match = match_of(candidate)
        if match is not None:
            own = size_class_of(match.usage.flops * match.available, rules.size_classes)
            if own == candidate.size_class:
                score += SAME_CLASS
            else:
                score += LARGER_JOB if own < candidate.size_class else SMALLER_JOB
    return score


UNKNOWN = 0

_SYSTEMS = (("linux", 256), ("windows", 384), ("darwin", 512), ("freebsd", 640), ("android", 768))
_INTEL_AMD, _POWERPC, _ARM = 2, 4, 22

_ARM_WORDS = ("arm", "aarch64", "apple", "cortex", "neoverse", "qualcomm", "snapdragon", "exynos", "kirin")
_POWERPC_WORDS = ("powerpc", "power macintosh", "ppc", "power8", "power9", "power10")

# The first word that occurs decides.  Numbers below 100 never change their meaning: workunits are committed to them.
_FAMILIES: tuple[tuple[str, int], ...] = (
    ("xeon", 30),
    ("core(tm)2", 31),
    ("core 2", 31),
    ("core(tm)", 32),
    ("core ultra", 32),
    ("atom", 33),
    ("celeron", 34),
    ("pentium(r) 4", 35),
    ("pentium 4", 35),
    ("pentium iii", 36),
    ("pentium ii", 37),
    ("pentium(r) d", 38),
    ("pentium", 39),
    ("threadripper", 50),
    ("ryzen", 50),
    ("epyc", 51),
    ("opteron", 52),
    ("phenom", 53),
    ("athlon", 54),
    ("sempron", 55),
    ("turion", 56),
    ("fx(tm)", 57),
    ("intel", 70),
    ("amd", 71),
)


def hr_class(description: HostDescription, kind: HomogeneousRedundancy) -> int:
    """Return the host's class, or `UNKNOWN` when its system or processor is not known (such hosts get no such jobs)."""
    if kind is HomogeneousRedundancy.NONE:
        return UNKNOWN
    fine = kind is HomogeneousRedundancy.FINE
    return _class(description.os_name, description.p_vendor, description.p_model, fine)


@lru_cache(maxsize=4096)
def _class(os_name: str, vendor: str, model: str, fine: bool) -> int:
    system = next((number for word, number in _SYSTEMS if word in os_name.lower()), UNKNOWN)
    processor = f"{vendor} {model}".lower()
    kind = _fine_kind(processor) if fine else _coarse_kind(processor)
    return system + kind if system and kind else UNKNOWN


def _coarse_kind(processor: str) -> int:
    if "intel" in processor or "amd" in processor:
        return _INTEL_AMD
    if any(word in processor for word in _POWERPC_WORDS):
        return _POWERPC
    return _ARM if any(word in processor for word in _ARM_WORDS) else UNKNOWN


def _fine_kind(processor: str) -> int:
    coarse = _coarse_kind(processor)
    if coarse != _INTEL_AMD:
        return coarse
    return next(number for word, number in _FAMILIES if word in processor)
