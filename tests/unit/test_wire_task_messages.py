"""What client and job say to each other: bounded, escaped, and read back as written."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from cobblestone.wire.client.task_messages import (
    MAX_MESSAGE,
    CheckpointState,
    InitData,
    StartData,
    TaskReport,
    read_graphics,
    read_result_name,
    read_soft_link,
    read_status,
    read_task_state,
    read_variety,
    write_heartbeat,
    write_init_data,
    write_soft_link,
    write_task_state,
)
from cobblestone.wire.scheduler.host import CoprocRequest, HostInfo

printable = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp", "Zs", "Cn", "Co")), max_size=40)


def test_a_status_is_read_as_the_family_s_library_writes_it() -> None:
    text = (
        "<current_cpu_time>1.211529e+01</current_cpu_time>\n<checkpoint_cpu_time>1.1e+01</checkpoint_cpu_time>\n"
        "<fraction_done>5.950000e-01</fraction_done>\n<other_pid>77</other_pid>\n<want_network>1</want_network>\n"
        "<intops_cumulative>99416592155</intops_cumulative>\n"
    )
    assert read_status(text) == TaskReport(
        cpu_time=12.11529, checkpoint_cpu_time=11.0, fraction_done=0.595, intops_cumulative=99416592155
    )


@given(st.text(max_size=1100))
def test_a_status_of_rubbish_is_an_empty_one(text: str) -> None:
    status = read_status(f"{text}<fraction_done>nan</fraction_done><current_cpu_time>-1</current_cpu_time>")
    assert status.fraction_done is None
    assert status.cpu_time == 0.0


def test_figures_out_of_bounds_count_as_not_said() -> None:
    assert read_status("<fraction_done>1.5</fraction_done>").fraction_done is None
    assert read_status("<fraction_done>0</fraction_done>").fraction_done is None
    assert read_status("<current_cpu_time>inf</current_cpu_time>").cpu_time == 0.0
    assert read_status("<intops_cumulative>1e300</intops_cumulative>").intops_cumulative == 0.0


def test_a_heartbeat_fits_a_channel() -> None:
    text = write_heartbeat(working_set=1e18, allowed=1e18, network_suspended=True)
    assert text.startswith("<heartbeat/><wss>1.000000e+18</wss>")
    assert len(text) <= MAX_MESSAGE


@given(printable.filter(bool))
def test_a_soft_link_leads_where_it_was_made_to_lead(path: str) -> None:
    assert read_soft_link(write_soft_link(path)) == path


def test_an_ordinary_file_is_no_soft_link() -> None:
    assert read_soft_link("<soft_link>a</soft_link> and more") == ""
    assert read_soft_link("42\n") == ""


@given(printable, printable, st.floats(0, 1e9), st.floats(0, 1e9), st.floats(0, 1))
def test_a_checkpoint_is_read_back_as_it_was_noted(
    url: str, name: str, cpu: float, elapsed: float, done: float
) -> None:
    state = CheckpointState(
        project_url=url, result_name=name, cpu_time=cpu, elapsed=elapsed, fraction_done=done
    )
    found = read_task_state(write_task_state(state))
    assert found is not None
    assert (found.project_url, found.result_name) == (url, name)
    assert abs(found.cpu_time - cpu) < 1e-5
    assert abs(found.elapsed - elapsed) < 1e-5
    assert abs(found.fraction_done - done) < 1e-5


def test_a_torn_checkpoint_file_counts_as_none() -> None:
    text = write_task_state(CheckpointState(project_url="u", result_name="r", cpu_time=5.0))
    for length in range(len(text) - 1):
        assert read_task_state(text[:length]) is None


def test_the_job_s_description_is_well_formed_whatever_names_are_in_it() -> None:
    init = InitData(
        client_version=(8, 1, 0),
        user_name='<Ada & "Co">',
        team_name="Tëam",
        authenticator="a" * 32,
        project_preferences="<project_preferences>\n<x>1</x>\n</project_preferences>",
        host=HostInfo(p_model="CPU <1>"),
        coprocs=(CoprocRequest(type="NVIDIA", name="GPU & Co", count=2, ram=8e9),),
        app_files=("app_1", "data"),
    )
    start = StartData(
        result_name="wu_<1>_0",
        slot=3,
        project_dir="/boinc/projects/x",
        boinc_dir="/boinc",
        client_pid=1,
        mapped=True,
    )
    text = write_init_data(init, start)
    tree = ET.fromstring(text)
    assert tree.findtext("user_name") == '<Ada & "Co">'
    assert tree.findtext("shm_key") == "-1"
    assert tree.findtext("host_info/coprocs/coproc_cuda/count") == "2"
    assert [each.text for each in tree.findall("app_file")] == ["app_1", "data"]
    assert read_result_name(text) == "wu_<1>_0"


def test_web_graphics_and_varieties_are_bounded() -> None:
    assert read_graphics("<web_graphics_url>http://localhost:1</web_graphics_url>") == (
        "http://localhost:1",
        "",
    )
    assert read_variety("<variety>credit</variety>\nmore") == "credit"
    assert len(read_variety(f"<variety>{'x' * 600}</variety>")) == 255
