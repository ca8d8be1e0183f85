"""Events and instructions can be stored and read again."""

from __future__ import annotations

import json
import math
from dataclasses import MISSING, fields
from typing import Any

import pytest

from cobblestone.domain.errors import ConfigError
from cobblestone.policy.client.core.events import (
    EVENTS,
    ContactProject,
    DevicesChanged,
    Event,
    JobProgressed,
    JobsFound,
    PermissionChanged,
    PreferencesChanged,
    ProjectAttached,
    ReplyReceived,
    event_from_plain,
    event_to_plain,
    to_plain,
)
from cobblestone.policy.client.core.reasons import why
from cobblestone.policy.client.core.values import (
    FetchRequest,
    Gpu,
    GpuExclusion,
    HostDevices,
    HostTimes,
    JobDescription,
    Permission,
    ProjectDescription,
    QueuedWork,
    Reading,
    SchedulingPreferences,
)

JOB = JobDescription(id="j", project="p", estimate=3600.0, received=0.0, deadline=9e5, gpu="NVIDIA", gpus=0.5)
FULL: list[Event] = [
    PreferencesChanged(1.0, SchedulingPreferences(buffer_min=0.5, may_give_up=True)),
    PermissionChanged(2.0, Permission(cpu="user_active", ram_bytes=1e9, cpu_ends=math.inf)),
    DevicesChanged(3.0, HostDevices(ncpus=8, gpus=(Gpu(name="NVIDIA", count=2, suspended=(1,)),))),
    ProjectAttached(
        4.0,
        ProjectDescription(
            id="p",
            supplies=("", "NVIDIA"),
            app_max_concurrent={"a": 2},
            gpu_exclusions=(GpuExclusion(gpu="NVIDIA", instance=0, app="a"), GpuExclusion(gpu="Intel")),
        ),
    ),
    ReplyReceived(5.0, "p", jobs=(JOB,), acknowledged=("i",), request_delay=11.0, refused=True),
    ReplyReceived(5.0, "p"),
    JobsFound(6.0, (JOB, JOB)),
    JobProgressed(7.0, (Reading("j", 12.5, None, None), Reading("k", 1.0, 0.25, 6.5, 1e8, 0.0, 0.5))),
]


@pytest.mark.parametrize("event", FULL, ids=lambda e: type(e).__name__)
def test_an_event_survives_json(event: Event) -> None:
    assert event_from_plain(json.loads(json.dumps(event_to_plain(event), allow_nan=False))) == event


@pytest.mark.parametrize("name", EVENTS)
def test_every_event_survives_json_with_its_least_fields(name: str) -> None:
    examples: dict[str, Any] = {  # Any: one value of each type that an event may need
        "float": 1.5, "str": "x", "bool": True, "tuple[Reading, ...]": (Reading("j", 1.0),),
        "tuple[JobDescription, ...]": (JOB,), "SchedulingPreferences": SchedulingPreferences(),
        "Permission": Permission(), "HostTimes": HostTimes(), "HostDevices": HostDevices(),
        "ProjectDescription": ProjectDescription(id="p"),
    }  # fmt: skip
    kind = EVENTS[name]
    event = kind(*(examples[str(f.type)] for f in fields(kind) if f.default is MISSING))
    assert event_from_plain(json.loads(json.dumps(event_to_plain(event), allow_nan=False))) == event


@pytest.mark.parametrize(
    "plain",
    [
        {},
        {"event": "Nonsense", "now": 1.0},
        {"event": "JobReady", "now": 1.0},
        {"event": "JobReady", "now": "soon", "job": "j"},
        {"event": "JobReady", "now": 1.0, "job": 7},
        {"event": "JobReady", "now": 1.0, "job": "j", "more": 1},
        {"event": "JobProgressed", "now": 1.0, "readings": [["j"]]},
        {"event": "JobProgressed", "now": 1.0, "readings": 5},
        {"event": "PermissionChanged", "now": 1.0, "permission": []},
    ],
)
def test_rubbish_is_refused_as_a_wrong_setting_is(plain: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        event_from_plain(plain)


@pytest.mark.parametrize(
    ("plain", "said"),
    [
        ({"readings": [["j"]]}, "readings: .*elapsed"),
        ({"readings": [["j", 1, 2, 3, 4, 5, 6, 7, 8]]}, "readings: 9 values; a Reading has 8"),
        ({"readings": [["j", "fast"]]}, "readings: elapsed: 'fast' is not possible here"),
        ({"readings": [["j", True]]}, "readings: elapsed: True is not possible here"),
        ({"readings": "j"}, "readings: 'j' is not possible here"),
        ({"readings": [], "mood": 1}, "unknown mood"),
    ],
)
def test_rubbish_is_named_with_its_place(plain: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        event_from_plain({"event": "JobProgressed", "now": 1.0, **plain})


def test_a_text_is_no_list_of_its_letters_and_a_reading_may_be_short() -> None:
    with pytest.raises(ConfigError, match="project: supplies: 'NVIDIA' is not possible here"):
        event_from_plain({"event": "ProjectAttached", "now": 0, "project": {"id": "p", "supplies": "NVIDIA"}})
    read = event_from_plain({"event": "JobProgressed", "now": 1, "readings": [["j", 2, 0.5]]})
    assert read == JobProgressed(1.0, (Reading("j", 2.0, 0.5),))


def test_instructions_can_be_written_as_json() -> None:
    contact = ContactProject(
        project="p",
        requests={"": FetchRequest(10.0, 1.0)},
        report=("j",),
        workload=(QueuedWork("k", 5.0, math.inf),),
        why=(why("fetch.chosen", project="p", seconds=10.0),),
    )
    plain = json.loads(json.dumps(to_plain(contact), allow_nan=False))
    assert plain["requests"] == {"": [10.0, 1.0, 0.0]}
    assert plain["workload"] == [["k", 5.0, "inf", "", 1.0]]
    assert plain["why"] == [["fetch.chosen", {"project": "p", "seconds": 10.0}]]
