"""What cannot have happened: it is refused, leaves no trace, and does not keep the core from taking what has."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace

import pytest
from tests.helpers.client_play import DAY, job

from cobblestone.domain.errors import IllegalTransition
from cobblestone.policy.client.core import events as ev
from cobblestone.policy.client.core.events import ContactProject
from cobblestone.policy.client.core.machine import ClientCore, Refusal
from cobblestone.policy.client.core.protocol import POLICIES
from cobblestone.policy.client.core.values import (
    Gpu,
    HostDevices,
    HostTimes,
    Permission,
    ProjectDescription,
    Reading,
    SchedulingPreferences,
)

P = ProjectDescription(id="p")
NAN, INF = math.nan, math.inf


def everything(policy: str) -> ClientCore:
    """Return a core that has a job in each phase and a contact with p under way, and is at the time 10."""
    core = ClientCore.start(policy, rng=random.Random(1))
    core.validate = True
    jobs = [job(name) for name in ("runs", "waits", "done", "uploads")]
    core.handle(
        ev.HostOn(0.0),
        ev.DevicesChanged(0.0, HostDevices(ncpus=1)),
        ev.ProjectAttached(0.0, P),
        ev.ProjectAttached(0.0, replace(P, id="q")),
        ev.JobsFound(0.0, (*jobs, job("downloads", ready=False))),
        ev.JobFinished(0.0, "done", 1.0),
        ev.JobFinished(0.0, "uploads", 1.0, uploading=True),
    )
    if core.state.contact is not None:
        core.handle(ev.ContactFailed(1.0, core.state.contact.project))
    if core.state.contact is not None:
        core.handle(ev.ContactFailed(2.0, core.state.contact.project))
    core.handle(ev.ContactAsked(9.0, "p"), ev.TimePassed(9.0))
    core.handle(ev.TimePassed(10.0))
    assert core.state.contact is not None
    assert core.state.contact.project == "p"
    assert [each.id for each in core.state.running] == ["runs"]
    return core


def sent(*names: str, project: str = "p") -> ev.ReplyReceived:
    return ev.ReplyReceived(20.0, "p", tuple(job(name, project) for name in names))


IMPOSSIBLE: dict[str, ev.Event] = {
    "infinite time": ev.TimePassed(INF),
    "no time": ev.HostOn(NAN),
    "the end of an unknown job": ev.JobFinished(20.0, "nobody", 1.0),
    "the end of a job without name": ev.JobFailed(20.0, "", 1.0),
    "an end after the end": ev.JobFinished(20.0, "done", 1.0),
    "a failure after the end": ev.JobFailed(20.0, "uploads", 1.0),
    "files that were here": ev.JobReady(20.0, "runs"),
    "files of an unknown job": ev.DownloadStalled(20.0, "nobody"),
    "an upload of a running job": ev.JobUploaded(20.0, "runs"),
    "a checkpoint before the start": ev.JobCheckpointed(20.0, "waits", 1.0),
    "the end of a process before its start": ev.TaskStopped(20.0, "downloads"),
    "a pause before the start": ev.JobDeferred(20.0, "waits", 60.0),
    "an unknown job suspended": ev.JobSuspended(20.0, "nobody"),
    "an answer nobody waits for": ev.ReplyReceived(20.0, "q"),
    "a failure of no contact": ev.ContactFailed(20.0, "q"),
    "a wish for an unknown project": ev.ContactAsked(20.0, "nobody"),
    "an unknown project detached": ev.ProjectDetached(20.0, ""),
    "a job that is here": sent("new", "waits"),
    "a job that has ended": sent("done"),
    "a job twice": sent("new", "new"),
    "a job of no project": sent("new", project="nobody"),
    "found twice": ev.JobsFound(20.0, (job("new"), job("runs", "q"))),
    "found of no project": ev.JobsFound(20.0, (job("new"), job("newer", "nobody"))),
    "no slice": ev.PreferencesChanged(20.0, SchedulingPreferences(slice_seconds=0.0)),
    "no half-life": ev.PreferencesChanged(20.0, SchedulingPreferences(rec_half_life=0.0)),
    "a buffer that is no number": ev.PreferencesChanged(20.0, SchedulingPreferences(buffer_min=NAN)),
    "fewer than no processors": ev.DevicesChanged(20.0, HostDevices(ncpus=-1)),
    "millions of processors": ev.DevicesChanged(20.0, HostDevices(ncpus=10**7)),
    "no speed": ev.DevicesChanged(20.0, HostDevices(cpu_flops=0.0)),
    "fewer than no GPUs": ev.DevicesChanged(20.0, HostDevices(gpus=(Gpu(name="X", count=-1),))),
    "a negative throttle": ev.PermissionChanged(20.0, Permission(throttle=-0.5)),
    "memory that is no number": ev.PermissionChanged(20.0, Permission(ram_bytes=NAN)),
    "an infinite share": ev.ProjectAttached(20.0, replace(P, share=INF)),
    "a share that is no number": ev.ProjectAttached(20.0, ProjectDescription(id="new", share=NAN)),
    "a negative limit": ev.ProjectAttached(20.0, replace(P, app_max_concurrent={"a": -1})),
    "more than always on": ev.AvailabilityKnown(20.0, HostTimes(on_frac=1.5)),
}


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("what", IMPOSSIBLE)
def test_what_cannot_have_happened_changes_nothing(policy: str, what: str) -> None:
    core = everything(policy)
    before = core.snapshot()
    with pytest.raises(IllegalTransition):
        core.handle(IMPOSSIBLE[what])
    assert core.snapshot() == before


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_what_is_refused_takes_nothing_else_along(policy: str) -> None:
    core, clean = everything(policy), everything(policy)
    possible = (ev.JobFinished(20.0, "runs", 10.0), ev.ReplyReceived(21.0, "p", (job("new"),)))
    again = ev.JobFinished(21.0, "runs", 1.0)
    refused: list[Refusal] = []
    out = core.handle(*IMPOSSIBLE.values(), possible[0], again, possible[1], refused=refused)
    assert [event for event, _ in refused] == [*IMPOSSIBLE.values(), again]
    assert "'runs' is reportable: it cannot end" in str(refused[-1][1])
    assert out == clean.handle(*possible)
    assert core.snapshot() == clean.snapshot()


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_late_readings_of_tasks_that_do_not_run_change_nothing(policy: str) -> None:
    core = everything(policy)
    before = core.snapshot()
    names = [name for name in core.state.by_id if name != "runs"]
    core.handle(ev.JobProgressed(10.0, tuple(Reading(name, 5000.0, 0.9, 9.0, 4000.0, 1e9) for name in names)))
    assert core.snapshot() == before


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_what_a_server_or_an_app_says_is_brought_within_bounds(policy: str) -> None:
    for delay in (NAN, -INF, -1.0, INF):
        core = everything(policy)
        core.handle(ev.ReplyReceived(20.0, "p", request_delay=delay, next_contact=delay))
        core.handle(ev.JobDeferred(21.0, "runs", delay))
        again = ClientCore.restore(
            json.loads(json.dumps(core.snapshot(), allow_nan=False)), rng=random.Random(1)
        )
        assert again.snapshot() == core.snapshot()
        out = core.handle(ev.ContactAsked(22.0, "p"))
        assert [each.project for each in out if isinstance(each, ContactProject)] == ["p"]


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_computer_of_which_no_processor_may_be_used_waits(policy: str) -> None:
    core = ClientCore.start(policy, rng=random.Random(1))
    core.handle(ev.HostOn(0.0), ev.ProjectAttached(0.0, P), ev.PermissionChanged(0.0, Permission(ncpus=0)))
    core.handle(ev.JobsFound(1.0, (job("a"), job("b", deadline=2 * DAY))))
    assert core.state.running == []
    assert 60.0 <= core.state.alarm < INF
    core.handle(ev.PermissionChanged(core.state.alarm, Permission(ncpus=1)))
    assert len(core.state.running) == 1
