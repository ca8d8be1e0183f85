"""Writes scheduler requests in the layout of client 7.20.5: the other half of our reader."""

from __future__ import annotations

from cobblestone.wire.project.preferences import UserKeywords
from cobblestone.wire.scheduler.host import CoprocRequest
from cobblestone.wire.scheduler.report import MsgFromHost, ReportedFile, ReportedResult, StickyFile
from cobblestone.wire.scheduler.request import ClientAppVersion, SchedulerRequest

COPROC_TAGS = {
    "NVIDIA": "coproc_cuda",
    "ATI": "coproc_ati",
    "intel_gpu": "coproc_intel_gpu",
    "apple_gpu": "coproc_apple_gpu",
}


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def element(name: str, value: object) -> str:
    if isinstance(value, bool):
        value = int(value)
    elif isinstance(value, float):
        value = repr(value)  # not %f, which would lose digits that a round trip must keep
    return f"<{name}>{escaped(str(value))}</{name}>\n"


def elements(value: object, *names: str) -> str:
    return "".join(element(name, getattr(value, name)) for name in names or value.__slots__)  # type: ignore[attr-defined]  # a message with slots


def written_stderr(program: str, message: str) -> str:
    """As the client writes it: high bytes as references, everything else as it is."""
    text = "".join(chr(b) if b < 128 else f"&#{b};" for b in program.encode())
    failure = f"<message>\n{message}</message>\n" if message else ""
    return (
        "<stderr_out>\n<core_client_version>7.20.5</core_client_version>\n<![CDATA[\n"
        f"{failure}<stderr_txt>\n{text}\n</stderr_txt>\n]]>\n</stderr_out>\n"
    )


def written_file(file: ReportedFile) -> str:
    error = f"<error_msg>\n{file.error_msg}\n</error_msg>\n" if file.error_msg else ""
    return f"<file_info>\n{elements(file, 'name', 'nbytes', 'max_nbytes', 'md5_cksum', 'upload_url')}{error}</file_info>\n"


def written_sticky_file(file: StickyFile) -> str:
    answer = element("challenge_nonce", file.nonce) + element("challenge_answer", file.answer)
    return f"<file_info>\n{elements(file, 'name', 'nbytes', 'status')}{answer if file.nonce or file.answer else ''}</file_info>\n"


def written_result(result: ReportedResult) -> str:
    skipped = {"exit_status", "exit_status_present", "stderr", "error_message", "files"}
    names = [name for name in ReportedResult.__annotations__ if name not in skipped]
    exit_status = element("exit_status", result.exit_status) if result.exit_status_present else ""
    return (
        f"<result>\n{elements(result, *names)}{exit_status}"
        f"{written_stderr(result.stderr, result.error_message)}"
        f"{''.join(written_file(file) for file in result.files)}</result>\n"
    )


def written_trickle(trickle: MsgFromHost) -> str:
    return (
        f"  <msg_from_host>\n      {element('result_name', trickle.result_name)}      {element('time', trickle.time)}"
        f"{element('variety', trickle.variety)}{trickle.text}\n  </msg_from_host>\n"
    )


def written_coproc(coproc: CoprocRequest) -> str:
    tag = COPROC_TAGS.get(coproc.type, "coproc")
    own = element("type", coproc.type) if tag == "coproc" else ""
    own += elements(coproc, "count", "name", "available_ram", "have_opencl")
    own += elements(coproc, "req_secs", "req_instances", "estimated_delay", "peak_flops")
    own += element("drvVersion", coproc.driver_version) + element("totalGlobalMem", coproc.ram)
    opencl = (
        f"<coproc_opencl>\n<name>device</name>\n{elements(coproc, 'opencl_device_version')}</coproc_opencl>\n"
    )
    return f"<{tag}>\n{own}{opencl}<pci_info>\n<bus_id>1</bus_id>\n</pci_info>\n</{tag}>\n"


def written_request(request: SchedulerRequest) -> bytes:
    """The body of a request with these values (leniences and the texts of preferences apart)."""
    major, minor, release = request.client_version_text.split(".")
    primary, *alternates = request.platforms or ("",)
    top = elements(request, "authenticator", "hostid", "rpc_seqno")
    top += element("core_client_major_version", major) + element("core_client_minor_version", minor)
    top += element("core_client_release", release)
    top += elements(
        request, "resource_share_fraction", "rrs_fraction", "prrs_fraction", "duration_correction_factor"
    )
    top += elements(request, "allow_multiple_clients", "sandbox", "dont_send_work", "work_req_seconds")
    top += elements(request, "cpu_req_secs", "cpu_req_instances")
    top += element("estimated_delay", request.cpu_estimated_delay)
    top += elements(request, "client_cap_plan_class", "client_cap_file_challenge") + element(
        "platform_name", primary
    )
    top += "".join(f"<alt_platform>\n{element('name', name)}</alt_platform>\n" for name in alternates)
    if request.code_sign_key:
        top += f"<code_sign_key>\n{request.code_sign_key}\n</code_sign_key>\n"
    if request.working_global_preferences:
        text = request.working_global_preferences.text
        top += f"<working_global_preferences>\n{text}\n</working_global_preferences>\n"
    if request.global_preferences:
        top += f"{request.global_preferences.text}\n"
    top += elements(request, "cross_project_id")
    for name in ("time_stats", "net_stats", "host_info", "disk_usage"):
        top += f"<{name}>\n{elements(getattr(request, name))}</{name}>\n"
    if request.coprocs:
        top += f"<coprocs>\n{''.join(written_coproc(coproc) for coproc in request.coprocs)}</coprocs>\n"
    top += "".join(written_result(r) for r in (*request.results, *request.file_transfer_results))
    top += "".join(written_trickle(trickle) for trickle in request.trickles)
    top += "".join(map(written_sticky_file, request.sticky_files))
    top += "<app_versions>\n"
    for version in request.app_versions:
        names = [name for name in ClientAppVersion.__annotations__ if not name.startswith("coproc")]
        coproc = ""
        if version.coproc_type:
            coproc = element("type", version.coproc_type) + element("count", version.coproc_count)
            coproc = f"<coproc>\n{coproc}</coproc>\n"
        top += f"<app_version>\n{elements(version, *names)}{coproc}</app_version>\n"
    top += "</app_versions>\n"
    if request.other_results_listed:
        jobs = "".join(f"<other_result>\n{elements(job)}</other_result>\n" for job in request.other_results)
        top += f"<other_results>\n{jobs}</other_results>\n"
    if request.in_progress_results:
        jobs = "".join(f"<ip_result>\n{elements(job)}</ip_result>\n" for job in request.in_progress_results)
        top += f"<in_progress_results>\n{jobs}</in_progress_results>\n"
    if request.client_opaque:
        top += f"<client_opaque>\n{request.client_opaque}\n</client_opaque>\n"
    top += elements(request, "client_brand")
    if request.user_keywords != UserKeywords():
        told = {"yes": request.user_keywords.yes, "no": request.user_keywords.no}
        lines = "".join(element(tag, number) for tag, numbers in told.items() for number in numbers)
        top += f"<user_keywords>\n{lines}</user_keywords>\n"
    return f"<scheduler_request>\n{top}</scheduler_request>\n".encode()
