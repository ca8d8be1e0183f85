"""The state file for another client of the family: what was written is read again, field by field."""

from __future__ import annotations

from cobblestone.wire.client.records import (
    ClientJobState,
    EstimatedCredit,
    FileRecord,
    FileStatus,
    JobRecord,
    ProjectContent,
    ProjectRecord,
    TaskFigures,
)
from cobblestone.wire.client.state_file import (
    StateFile,
    read_whole_state,
    write_job_log,
    write_manager_files,
    write_whole_state,
)
from cobblestone.wire.scheduler.host import HostInfo, NetStats, TimeStats
from cobblestone.wire.scheduler.job import (
    AppBlock,
    AppVersionBlock,
    FileInfo,
    FileRef,
    OutputFileInfo,
    ResultBlock,
    WorkunitBlock,
)

URL = "http://project.example.org/"
KEY = "1024\n00ff\n."


def content() -> ProjectContent:
    project = ProjectRecord(
        master_url=URL,
        authenticator="",
        project_name="A < B & co",
        scheduler_urls=(f"{URL}cgi",),
        master_url_fetch_pending=False,
        code_sign_key=KEY,
        rpc_seqno=7,
        resource_share=25.0,
        dont_request_more_work=True,
        credit=EstimatedCredit(cpu_ec=1.5, cpu_time=60.0),
    )
    inside = FileInfo(
        name="prog",
        urls=(f"{URL}prog",),
        nbytes=5,
        md5_cksum="0" * 32,
        executable=True,
        file_signature="ab\n.",
    )
    out = OutputFileInfo(
        name="out_0",
        max_nbytes=9,
        upload_url=f"{URL}file_upload_handler",
        xml_signature="cd\n.",
        gzip_when_done=True,
    )
    version = AppVersionBlock(
        app_name="sky",
        version_num=102,
        platform="x86_64-pc-linux-gnu",
        file_refs=(FileRef(file_name="prog", main_program=True),),
        plan_class="cuda",
        coproc_type="NVIDIA",
        coproc_count=0.5,
        cmdline="--fast",
    )
    workunit = WorkunitBlock(
        name="wu",
        app_name="sky",
        rsc_fpops_est=1e12,
        rsc_fpops_bound=1e13,
        rsc_memory_bound=1e8,
        rsc_disk_bound=1e8,
        command_line="-n 3 <in",
    )
    result = ResultBlock(
        name="wu_0",
        wu_name="wu",
        platform="x86_64-pc-linux-gnu",
        version_num=102,
        report_deadline=2e9,
        plan_class="cuda",
        file_refs=(FileRef(file_name="out_0", open_name="out"),),
    )
    begun = JobRecord(
        project=URL,
        result=result,
        received_time=1.9e9,
        state=ClientJobState.DOWNLOADED,
        task=TaskFigures(
            slot=3,
            started=True,
            checkpoint_cpu_time=5.0,
            checkpoint_elapsed_time=6.0,
            checkpoint_fraction_done=0.25,
            elapsed_time=6.0,
            fraction_done=0.25,
        ),
    )
    return ProjectContent(
        project=project,
        apps={"sky": AppBlock(name="sky", user_friendly_name="The sky")},
        versions=[version],
        workunits={"wu": workunit},
        files={
            "prog": FileRecord(
                project=URL,
                name="prog",
                download=inside,
                status=FileStatus.PRESENT,
                nbytes=5.0,
                md5_cksum="0" * 32,
            ),
            "out_0": FileRecord(project=URL, name="out_0", upload=out),
        },
        jobs={"wu_0": begun},
    )


def whole(found: ProjectContent, modes: tuple[int, int, int] = (2, 2, 2)) -> StateFile:
    return StateFile(
        host=HostInfo(host_cpid="f" * 32, p_ncpus=4, p_fpops=2e9),
        time_stats=TimeStats(on_frac=0.5),
        net_stats=NetStats(bwup=100.0),
        modes=modes,
        contents={URL: found},
    )


def again(state: StateFile) -> StateFile:
    return read_whole_state(
        write_whole_state(state, client=(7, 20, 5), platform="x86_64-pc-linux-gnu").encode()
    )


def test_what_was_written_is_read_again() -> None:
    state = whole(content(), modes=(3, 1, 2))
    assert again(state) == state


def test_a_job_that_has_ended_keeps_its_last_words_and_is_no_task() -> None:
    found = content()
    job = found.jobs["wu_0"]
    job.state, job.exit_status, job.completed_time = ClientJobState.COMPUTE_ERROR, 3, 1.95e9
    job.ready_to_report, job.stderr = True, "no </stderr_out> such constant: π"
    (read,) = again(whole(found)).contents[URL].jobs.values()
    assert (read.state, read.exit_status, read.ready_to_report) == (ClientJobState.COMPUTE_ERROR, 3, True)
    assert "such constant" in read.stderr
    assert (read.task.slot, read.task.started) == (-1, False)


def test_files_that_were_given_up_or_uploaded_stay_so() -> None:
    found = content()
    found.files["prog"].status = found.files["out_0"].status = FileStatus.FAILED
    read = again(whole(found)).contents[URL].files
    assert {file.status for file in read.values()} == {FileStatus.FAILED}
    found.files["out_0"].status = FileStatus.UPLOADED
    assert again(whole(found)).contents[URL].files["out_0"].status is FileStatus.UPLOADED


def test_the_job_log_has_a_line_for_each_job() -> None:
    row = {
        "reported": 1.9e9, "estimate": 3600.0, "cpu_time": 11.5, "fpops": 3.6e12, "job": "wu_0", "elapsed": 41.5,
        "exit_status": 0,
    }  # fmt: skip
    expected = "1900000000 ue 3600.000000 ct 11.500000 fe 3600000000000 nm wu_0 et 41.500000 es 0\n"
    assert write_job_log([row, row]) == 2 * expected


def test_the_account_manager_goes_along() -> None:
    manager = {
        "url": "https://manager.example.org/", "name": "M", "login": "a<b", "password_hash": "0" * 32, "authenticator": "",
        "previous_host_cpid": "", "opaque": "<x>1</x>", "signing_key": KEY, "next_rpc_time": 5.0,
    }  # fmt: skip
    files = write_manager_files(manager)
    assert "<url>https://manager.example.org/</url>" in files["acct_mgr_url.xml"]
    assert "<signing_key>\n1024" in files["acct_mgr_url.xml"]
    assert "<login>a&lt;b</login>" in files["acct_mgr_login.xml"]
    assert "<opaque>\n<x>1</x>\n" in files["acct_mgr_login.xml"]
    assert "<authenticator>" not in files["acct_mgr_login.xml"]
