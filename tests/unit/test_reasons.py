"""For every reason a situation in which it is given, and what it says there to volunteer, scientist and operator."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.dispatch_world import (
    DESCRIPTION,
    HOUR,
    LINUX,
    NOW,
    NVIDIA,
    WINDOWS,
    app,
    candidate,
    candidates,
    catalogue,
    choose,
    description,
    host,
    record,
    records,
    request,
    unsigned,
    version,
)

from cobblestone.cli import run_command
from cobblestone.domain.apps import ANY_PLATFORM, BROWSER_PLATFORM, AppDispatch, PlanClass
from cobblestone.domain.hosts import Coprocessor
from cobblestone.domain.values import AppId, AppVersionId, HostId, WorkunitId
from cobblestone.domain.work import HomogeneousRedundancy, JobLimits, ReplicationRules
from cobblestone.ops.settings import SchedulerSection
from cobblestone.policy.dispatch import status
from cobblestone.policy.dispatch.catalogue import Catalogue, DispatchDecision
from cobblestone.policy.dispatch.deadline_check import BookedJob
from cobblestone.policy.dispatch.explain import Code
from cobblestone.policy.dispatch.limits import DispatchLimits, InProgressLimits, JobCap, RetryRules, quota_day
from cobblestone.policy.dispatch.request import ProjectPreferences
from cobblestone.policy.dispatch.versions import NO_PYTHON, OwnVersion, environment_fingerprint

TODAY = quota_day(HostId(1), NOW)
ONE = candidates(1)
CUDA = PlanClass(name="cuda", gpu_type="NVIDIA", min_gpu_ram_mb=4000, min_driver_version=50000)
TWO_GPUS = description(coprocessors=(NVIDIA, Coprocessor(type="ATI", count=1, name="Other", ram=8e9)))
ALONE = app(1, rules=ReplicationRules(min_quorum=1))
CHECKED = app(1, rules=ReplicationRules(min_quorum=2))
BROWSER: dict[str, Any] = {"platforms": (BROWSER_PLATFORM,)}
IN_BROWSER = version(platform=BROWSER_PLATFORM)

Situation = Callable[[], DispatchDecision]


def refused(
    asked: Any = None, offered: Any = ONE, offer: Catalogue | None = None, **options: Any
) -> Situation:
    return lambda: choose(request() if asked is None else asked, offered, offer, **options)


def with_class(plan_class: PlanClass, **of_host: Any) -> Situation:
    """A version of a plan class meets a computer."""
    seconds = {"gpu_seconds": 1.0} if plan_class.gpu_type else {}
    offer = catalogue(version(plan_class=plan_class.name), plan_classes=[plan_class])
    return refused(request(host=host(description=description(**of_host)), **seconds), offer=offer)


def limited(**changes: Any) -> DispatchLimits:
    return DispatchLimits(**changes)


def bad(n: int, **more: Any) -> dict[str, Any]:
    return {
        "records": records(
            record(bad_results=n, max_jobs_per_day=500, n_jobs_today=9999, quota_day=TODAY, **more)
        )
    }


SITUATIONS: dict[str, tuple[Situation, Code]] = {
    "the operator blocked it": (refused(request(host=host(blocked_reason="wrong results"))), Code.BLOCKED),
    "it asked a moment ago": (
        refused(request(previous_request_time=NOW - 2), limits=limited(min_sendwork_interval=7)),
        Code.TOO_RECENT,
    ),
    "own programs, of other apps": (
        refused(
            request(platforms=(), own_versions=(OwnVersion(app_name="other", version_num=1, platform=LINUX),))
        ),
        Code.ANONYMOUS_PLATFORM,
    ),
    "no app": (refused(offer=catalogue()), Code.NO_APPS),
    "apps without versions": (refused(offer=catalogue(apps=[app()])), Code.NO_APPS),
    "another system": (refused(request(platforms=(WINDOWS,))), Code.PLATFORM),
    "nothing was asked for": (refused(request(seconds=0)), Code.NOT_REQUESTED),
    "limit of preferences": (
        refused(request(in_progress={AppId(1): 3}, preferences=ProjectPreferences(max_jobs=3))),
        Code.HELD_BY_PREFERENCE,
    ),
    "limit of the project": (
        refused(
            request(in_progress={AppId(1): 3}), limits=limited(project_in_progress=InProgressLimits(total=3))
        ),
        Code.HELD_TOTAL,
    ),
    "limit of GPU tasks, held for two kinds of GPU": (
        refused(
            request(
                gpu_seconds=1,
                seconds=0,
                host=host(description=TWO_GPUS),
                in_progress={AppId(1): 4},
                in_progress_gpu={AppId(1): 4},
            ),
            offer=catalogue(version(plan_class="cuda"), plan_classes=[CUDA]),
            limits=limited(project_in_progress=InProgressLimits(gpu=JobCap(jobs=2, per_processor=True))),
        ),
        Code.HELD_OF_TYPE,
    ),
    "limit of the app": (
        refused(
            request(in_progress={AppId(1): 3}),
            limits=limited(app_in_progress={AppId(1): InProgressLimits(total=2)}),
        ),
        Code.HELD_OF_APP,
    ),
    "limit of the app for CPUs": (
        refused(
            request(in_progress={AppId(1): 4}),
            limits=limited(
                app_in_progress={AppId(1): InProgressLimits(cpu=JobCap(jobs=1, per_processor=True))}
            ),
        ),
        Code.HELD_OF_APP_AND_TYPE,
    ),
    "too many failed again and again": (refused(request(**bad(10)), limits=limited()), Code.QUOTA_PAUSED),
    "some failed": (refused(request(**bad(2)), limits=limited()), Code.QUOTA_FAILING),
    "today's are used up": (refused(request(**bad(0)), limits=limited()), Code.QUOTA),
    "new": (
        refused(request(in_progress={AppId(1): 4}), limits=limited(daily_quota_init=4, first_jobs=1)),
        Code.UNPROVEN,
    ),
    "a request's most": (
        refused(request(seconds=1e6), candidates(99), limits=limited(max_jobs_per_rpc=1)),
        Code.PER_REQUEST,
    ),
    "a reply's most of the app": (
        refused(
            request(seconds=1e6),
            candidates(9),
            catalogue(version(), apps=[app(dispatch=AppDispatch(max_jobs_per_rpc=2))]),
        ),
        Code.PER_REQUEST_OF_APP,
    ),
    "too little disk": (
        refused(request(disk_bytes=5e8), [candidate(limits=JobLimits(rsc_disk_bound=2e9))]),
        Code.DISK,
    ),
    "late": (
        refused(
            request(delay=6 * 24 * HOUR),
            [candidate(limits=JobLimits(rsc_fpops_est=4e9 * 48 * HOUR, delay_bound=7 * 24 * HOUR))],
        ),
        Code.DEADLINE,
    ),
    "late by itself, beside a little other work": (
        refused(
            request(delay=60, workload=(BookedJob(9e5, 60),)),
            [candidate(limits=JobLimits(rsc_fpops_est=4e9 * 48 * HOUR, delay_bound=24 * HOUR))],
        ),
        Code.DEADLINE,
    ),
    "late because of other work": (
        refused(
            request(delay=60, workload=tuple(BookedJob(24 * HOUR, 23.5 * HOUR) for _ in range(4))),
            [candidate(limits=JobLimits(rsc_fpops_est=4e9 * HOUR, delay_bound=24 * HOUR))],
        ),
        Code.DEADLINE_OF_OTHERS,
    ),
    "too little memory": (
        refused(request(ram_bytes=1e9), [candidate(limits=JobLimits(rsc_memory_bound=2e9))]),
        Code.MEMORY,
    ),
    "a slow connection": (
        refused(
            request(host=host(description=description(n_bwdown=1e4))),
            [candidate(limits=JobLimits(rsc_bandwidth_bound=1e5))],
        ),
        Code.BANDWIDTH,
    ),
    "the volunteer had the job, and failed": (refused(already_at_user={WorkunitId(1)}), Code.ALREADY_AT_USER),
    "the computer had the job": (
        refused(already_at_host={WorkunitId(1)}, limits=limited(one_result_per_user_per_wu=False)),
        Code.ALREADY_AT_HOST,
    ),
    "both results of a job, to one volunteer each": (
        refused(request(seconds=9 * HOUR), [candidate(1, workunit=1), candidate(2, workunit=1)]),
        Code.ALREADY_AT_USER,
    ),
    "both results of a job, to one computer each": (
        refused(
            request(seconds=9 * HOUR),
            [candidate(1, workunit=1), candidate(2, workunit=1)],
            limits=limited(one_result_per_user_per_wu=False),
        ),
        Code.ALREADY_AT_HOST,
    ),
    "the first result is on another kind of computer": (
        refused(
            offered=[candidate(hr_class=999)],
            offer=catalogue(
                version(),
                apps=[app(dispatch=AppDispatch(homogeneous_redundancy=HomogeneousRedundancy.COARSE))],
            ),
        ),
        Code.HR_CLASS,
    ),
    "a result was lost": (
        refused(
            offered=[candidate(retry=True, create_time=NOW)],
            limits=limited(retries=RetryRules(reliable_seconds=3600)),
        ),
        Code.RETRY_RESERVED,
    ),
    "long, for a browser": (
        refused(
            request(**BROWSER),
            [candidate(replicated=True, limits=JobLimits(rsc_fpops_est=4e9 * 9 * HOUR))],
            catalogue(IN_BROWSER, apps=[CHECKED]),
        ),
        Code.BROWSER_TIME,
    ),
    "unchecked, for a browser": (
        refused(request(**BROWSER), offer=catalogue(IN_BROWSER, apps=[ALONE])),
        Code.BROWSER_ALONE,
    ),
    "an unchecked batch of a checked app, for a browser": (
        refused(request(**BROWSER), [candidate(replicated=False)], catalogue(IN_BROWSER, apps=[CHECKED])),
        Code.BROWSER_ALONE,
    ),
    "another browser has the job": (
        refused(
            request(**BROWSER),
            [candidate(replicated=True)],
            catalogue(IN_BROWSER, apps=[CHECKED]),
            already_at_user={WorkunitId(1)},
        ),
        Code.AT_A_BROWSER,
    ),
    "its network holds half of the jobs": (
        refused(
            request(**BROWSER),
            [candidate(replicated=True)],
            catalogue(IN_BROWSER, apps=[CHECKED]),
            limits=limited(left_for_others=1),
        ),
        Code.NETWORK_SHARE,
    ),
    "CPU excluded": (refused(request(preferences=ProjectPreferences(no_cpu=True))), Code.PREFERENCES_EXCLUDE),
    "the CPU's are used up, and no GPU was asked for": (
        refused(
            request(host=host(description=TWO_GPUS), **bad(0)),
            offer=catalogue(version(1), version(2, plan_class="cuda"), plan_classes=[CUDA]),
        ),
        Code.TYPE_NOT_REQUESTED,
    ),
    "no GPU": (with_class(CUDA), Code.GPU_MISSING),
    "one GPU of two": (
        with_class(PlanClass(name="two", gpu_type="NVIDIA", ngpus=2), coprocessors=(NVIDIA,)),
        Code.GPU_COUNT,
    ),
    "a small GPU": (
        with_class(CUDA, coprocessors=(Coprocessor(type="NVIDIA", count=1, ram=1e9, driver_version=60000),)),
        Code.GPU_MEMORY,
    ),
    "an old driver": (
        with_class(CUDA, coprocessors=(Coprocessor(type="NVIDIA", count=1, ram=8e9, driver_version=1),)),
        Code.GPU_DRIVER,
    ),
    "no Python": (
        refused(
            request(
                host=host(
                    missing_runtime=f"{NO_PYTHON}:{environment_fingerprint(DESCRIPTION)}", missing_since=NOW
                )
            ),
            offer=catalogue(version(platform=ANY_PLATFORM)),
        ),
        Code.NO_PYTHON,
    ),
    "an unknown processor": (
        refused(
            request(host=host(description=description(p_vendor="", p_model="", os_name="Plan 9"))),
            offer=catalogue(
                version(),
                apps=[app(dispatch=AppDispatch(homogeneous_redundancy=HomogeneousRedundancy.COARSE))],
            ),
        ),
        Code.HR_UNKNOWN,
    ),
    "a processor without a feature": (
        with_class(PlanClass(name="c", cpu_features=("avx512f",))),
        Code.CPU_FEATURE,
    ),
    "few processors": (with_class(PlanClass(name="c", min_ncpus=8)), Code.CPU_COUNT),
    "another make": (with_class(PlanClass(name="c", cpu_vendor_regex="AMD")), Code.CPU_VENDOR),
    "another version of the system": (
        with_class(PlanClass(name="c", os_regex="Darwin")),
        Code.OPERATING_SYSTEM,
    ),
    "a small computer": (with_class(PlanClass(name="c", min_memory_mb=64000)), Code.HOST_MEMORY),
    "no VirtualBox": (with_class(PlanClass(name="c", virtualbox=True)), Code.VIRTUALBOX),
    "no container engine": (with_class(PlanClass(name="c", docker=True)), Code.DOCKER),
    "containers on an old Mac": (
        with_class(PlanClass(name="c", docker=True), docker_version="26", os_name="Darwin"),
        Code.DOCKER_CLIENT,
    ),
    "a client from before plan classes": (
        refused(
            request(knows_plan_classes=False),
            offer=catalogue(version(plan_class="c"), plan_classes=[PlanClass(name="c")]),
        ),
        Code.NO_PLAN_CLASSES,
    ),
    "an old client": (refused(offer=catalogue(version(min_client_version=80206))), Code.CLIENT_TOO_OLD),
    "a new client": (refused(offer=catalogue(version(max_client_version=70000))), Code.CLIENT_TOO_NEW),
    "a test version, and one for a GPU that is missing": (
        refused(
            request(gpu_seconds=1),
            offer=catalogue(version(1, beta=True), version(2, plan_class="cuda"), plan_classes=[CUDA]),
        ),
        Code.BETA_VERSION,
    ),
    "an undefined plan class": (refused(offer=catalogue(version(plan_class="x"))), Code.PLAN_CLASS_UNKNOWN),
    "a broken plan class": (with_class(PlanClass(name="c", os_regex="(")), Code.PLAN_CLASS_BROKEN),
    "much memory, 32 bits": (
        refused(
            request(platforms=("i686-pc-linux-gnu",)),
            [candidate(limits=JobLimits(rsc_memory_bound=5e9))],
            catalogue(version(platform="i686-pc-linux-gnu")),
        ),
        Code.NEEDS_64_BIT,
    ),
    "unsigned": (refused(offer=catalogue(unsigned(version()))), Code.UNSIGNED),
    "a version for few": (refused(offer=catalogue(version(rollout_fraction=1e-9))), Code.NOT_ROLLED_OUT),
    "not selected": (
        refused(
            request(
                preferences=ProjectPreferences(selected_apps=frozenset({AppId(9)}), allow_non_preferred=False)
            )
        ),
        Code.APP_NOT_SELECTED,
    ),
    "a subject that is refused": (
        refused(
            request(preferences=ProjectPreferences(keywords_no=frozenset({2}))),
            offer=catalogue(version(), apps=[app(dispatch=AppDispatch(keywords=(2,)))]),
        ),
        Code.UNWANTED,
    ),
    "a test application": (refused(offer=catalogue(version(), apps=[app(beta=True)])), Code.BETA_APP),
    "one version for all": (
        refused(
            offered=[candidate(app_version_id=AppVersionId(1))],
            offer=catalogue(version(1, platform=WINDOWS), version(2)),
        ),
        Code.COMMITTED_VERSION,
    ),
    "no version of this app": (
        refused(
            offered=[candidate(app_number=2)], offer=catalogue(version(), version(2, 2, platform=WINDOWS))
        ),
        Code.APP_PLATFORM,
    ),
    "fewer than were asked for": (refused(request(seconds=99 * HOUR)), Code.NO_TASKS_OF_TYPE),
    "nothing waits": (refused(offered=[]), Code.NO_TASKS),
}


TABLE = Path(__file__).parents[1] / "golden" / "reasons.txt"


def table() -> str:
    """What is said in each situation, to be read by people: is it true?"""
    lines: list[str] = []
    for name, (situation, code) in SITUATIONS.items():
        given = {each.code: each for each in situation().refusals}
        assert code in given, name
        lines += [
            f"{name} ({code})",
            f"    volunteer: {given[code].text()}",
            f"    scientist: {status.for_submitter(given[code])}",
            f"    operator: {status.for_operator(code)}",
        ]
    return "\n".join(lines) + "\n"


def test_there_is_a_situation_for_every_reason():
    assert {code for _, code in SITUATIONS.values()} == set(Code)


def test_each_reason_says_what_is_true_in_its_situation():
    """After a change: python -m tests.unit.test_reasons, and read what is different."""
    assert table() == TABLE.read_text()


def test_what_decides_for_the_operator_is_a_setting_a_file_or_a_command_that_there_is(
    capsys: pytest.CaptureFixture[str],
):
    for words in status.DECIDED_BY.values():
        for name in re.findall(r"scheduler\.(\w+)", words):
            assert name in SchedulerSection.model_fields
        for command in re.findall(r"cobblestone ((?:[a-z]+ ?)+)", words):
            assert run_command([*command.split(), "--help"]) == 0, command
            assert all(
                option in capsys.readouterr().out for option in re.findall(r"dispatch (--[a-z-]+)", words)
            )
    assert status.DECIDED_BY.keys() < set(Code)


def test_a_command_lists_them_for_all_readers(capsys: pytest.CaptureFixture[str]):
    assert run_command(["explain", "reasons", "--json"]) == 0
    listed = {each["code"]: each for each in json.loads(capsys.readouterr().out)}
    assert listed.keys() == set(map(str, Code))
    assert listed["disk"]["scientist"] == status.SENTENCES[Code.DISK]
    assert "{need_gb} GB" in listed["disk"]["volunteer"]
    assert listed["disk"]["operator"] == "no setting of the project"
    assert listed["held_limit_of_new_host"]["operator"].startswith("scheduler.")


if __name__ == "__main__":
    TABLE.write_text(table())
