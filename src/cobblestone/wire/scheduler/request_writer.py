"""Write a scheduler request: the client's side of `scheduler_request`.

Order, indentation and number formats are those of client 7.20.5 (recorded), for servers of the family read tag by tag and some of
them read in that order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from cobblestone.domain.errors import LocalProtocolError
from cobblestone.wire.project.preferences import GlobalPreferences
from cobblestone.wire.scheduler.host import DiskUsage, NetStats, TimeStats, write_coprocs, write_host_info
from cobblestone.wire.scheduler.request import (
    ClientAppVersion,
    InProgressResult,
    MsgFromHost,
    OtherResult,
    ReportedFile,
    ReportedResult,
    SchedulerRequest,
    StickyFile,
)
from cobblestone.wire.text.writer import decimal, printable, scalar, whole

_IN = "    "
_UNSAFE_IN_STDERR = re.compile(r"\]\]>|</?stderr_(?:out|txt)>")


def write_scheduler_request(request: SchedulerRequest) -> bytes:
    """Write a request.  Raises LocalProtocolError for values that the format cannot represent."""
    out = ["<scheduler_request>\n", _head(request)]
    if request.code_sign_key:
        out.append(f"{_IN}<code_sign_key>\n{request.code_sign_key.strip()}\n</code_sign_key>\n")
    if request.working_global_preferences:
        text = _preferences(request.working_global_preferences)
        out.append(f"<working_global_preferences>\n{text}\n</working_global_preferences>\n")
    if request.global_preferences:
        out.append(_preferences(request.global_preferences) + "\n")
    out.append(scalar("cross_project_id", request.cross_project_id))
    out.append(write_time_stats(request.time_stats))
    out.append(write_net_stats(request.net_stats))
    out.append(write_host_info(request.host_info))
    out.append(_disk_usage(request.disk_usage))
    if request.coprocs:
        out.append(write_coprocs(request.coprocs))
    reports = (*request.results, *request.file_transfer_results)
    out += (_result(each, request.client_version_text) for each in reports)
    out += (_trickle(each) for each in request.trickles)
    out += (_sticky_file(each) for each in request.sticky_files)
    out.append(f"<app_versions>\n{''.join(map(_app_version, request.app_versions))}</app_versions>\n")
    if request.other_results_listed:
        out.append(f"<other_results>\n{''.join(map(_other_result, request.other_results))}</other_results>\n")
    if request.in_progress_results:
        out.append(
            f"<in_progress_results>\n{''.join(map(_in_progress, request.in_progress_results))}</in_progress_results>\n"
        )
    if request.client_opaque:
        out.append(f"<client_opaque>\n<![CDATA[\n{request.client_opaque}\n]]>\n</client_opaque>\n")
    if request.client_brand:
        out.append(scalar("client_brand", request.client_brand, _IN))
    out.append("</scheduler_request>\n")
    return "".join(out).encode()


def _head(request: SchedulerRequest) -> str:
    version = request.client_version
    primary, *others = request.platforms or ("",)
    alternatives = "".join(
        f"{_IN}<alt_platform>\n{scalar('name', name, _IN * 2)}{_IN}</alt_platform>\n" for name in others
    )
    return "".join(
        (
            scalar("authenticator", request.authenticator, _IN),
            scalar("hostid", request.hostid, _IN),
            scalar("rpc_seqno", request.rpc_seqno, _IN),
            scalar("core_client_major_version", version // 10000, _IN),
            scalar("core_client_minor_version", version // 100 % 100, _IN),
            scalar("core_client_release", version % 100, _IN),
            scalar("resource_share_fraction", float(request.resource_share_fraction), _IN),
            scalar("rrs_fraction", float(request.rrs_fraction), _IN),
            scalar("prrs_fraction", float(request.prrs_fraction), _IN),
            scalar("duration_correction_factor", float(request.duration_correction_factor), _IN),
            scalar("allow_multiple_clients", request.allow_multiple_clients, _IN),
            scalar("sandbox", request.sandbox, _IN),
            scalar("dont_send_work", request.dont_send_work, _IN),
            scalar("work_req_seconds", float(request.work_req_seconds), _IN),
            scalar("cpu_req_secs", float(request.cpu_req_secs), _IN),
            scalar("cpu_req_instances", float(request.cpu_req_instances), _IN),
            scalar("estimated_delay", float(request.cpu_estimated_delay), _IN),
            scalar("client_cap_plan_class", request.client_cap_plan_class, _IN),
            scalar("client_cap_file_challenge", True, _IN) if request.client_cap_file_challenge else "",
            scalar("platform_name", primary, _IN),
            alternatives,
        )
    )


def _preferences(preferences: GlobalPreferences) -> str:
    text = preferences.text.strip()
    if not (text.startswith("<global_preferences>") and text.endswith("</global_preferences>")):
        raise LocalProtocolError("preferences must be one <global_preferences> element")
    return text


# -- the computer ---------------------------------------------------------------------------------------


def _decimals(names: Iterable[str], values: object, indent: str = _IN) -> str:
    return "".join(scalar(name, float(getattr(values, name)), indent) for name in names)


def write_time_stats(stats: TimeStats) -> str:
    """Write ``<time_stats>``."""
    return f"<time_stats>\n{_decimals(TimeStats.__dataclass_fields__, stats)}</time_stats>\n"


def write_net_stats(stats: NetStats) -> str:
    """Write ``<net_stats>``."""
    return f"<net_stats>\n{_decimals(NetStats.__dataclass_fields__, stats)}</net_stats>\n"


def _disk_usage(usage: DiskUsage) -> str:
    numbers = _decimals(DiskUsage.__dataclass_fields__, usage, _IN * 2)
    return f"{_IN}<disk_usage>\n{numbers}{_IN}</disk_usage>\n"


# -- jobs -----------------------------------------------------------------------------------------------


def _result(result: ReportedResult, client: str) -> str:
    peaks = ("final_peak_working_set_size", "final_peak_swap_size", "final_peak_disk_usage")
    counts = ("fpops_per_cpu_sec", "fpops_cumulative", "intops_per_cpu_sec", "intops_cumulative")
    plan_class = scalar("plan_class", result.plan_class, _IN) if result.plan_class else ""
    status = scalar("exit_status", result.exit_status, _IN) if result.exit_status_present else ""
    return "".join(
        (
            "<result>\n",
            scalar("name", result.name, _IN),
            scalar("final_cpu_time", float(result.final_cpu_time), _IN),
            scalar("final_elapsed_time", float(result.final_elapsed_time), _IN),
            status,
            scalar("state", result.state, _IN),
            scalar("platform", result.platform, _IN),
            scalar("version_num", result.version_num, _IN),
            plan_class,
            *(f"{_IN}<{n}>{whole(getattr(result, n))}</{n}>\n" for n in peaks if getattr(result, n)),
            *(f"{_IN}<{n}>{decimal(getattr(result, n))}</{n}>\n" for n in counts if getattr(result, n)),
            scalar("app_version_num", result.app_version_num, _IN),
            write_stderr(result.stderr, result.error_message, client),
            *map(_reported_file, result.files),
            "</result>\n",
        )
    )


def write_stderr(stderr: str, error_message: str, client: str) -> str:
    """Write the program's output, byte by byte as BOINC does; anything that would end it early is split."""
    texts = ""
    if error_message:
        texts += f"<message>\n{_in_cdata(error_message)}</message>\n"
    if stderr:
        texts += f"<stderr_txt>\n{_in_cdata(stderr)}\n\n</stderr_txt>\n"
    if texts:
        texts = f"<![CDATA[\n{texts}]]>\n"
    return f"<stderr_out>\n{scalar('core_client_version', client)}{texts}</stderr_out>\n"


def _in_cdata(text: str) -> str:
    clean = _UNSAFE_IN_STDERR.sub(lambda found: found.group().replace(">", "&gt;"), printable(text))
    # One reference for each byte, and nothing but ASCII on the wire: servers that expect Latin-1 read it, too.
    return "".join(c if c < "\x80" else "".join(f"&#{b};" for b in c.encode()) for c in clean)


def _reported_file(file: ReportedFile) -> str:
    out = [
        "<file_info>\n",
        scalar("name", file.name, _IN),
        scalar("nbytes", float(file.nbytes), _IN),
        scalar("max_nbytes", float(file.max_nbytes), _IN),
    ]
    out += [scalar("md5_cksum", file.md5_cksum, _IN)] if file.md5_cksum else []
    out += [scalar("upload_url", file.upload_url, _IN)] if file.upload_url else []
    out += [f"{_IN}<error_msg>\n{_in_cdata(file.error_msg)}</error_msg>\n"] if file.error_msg else []
    return f"{''.join(out)}</file_info>\n"


def _trickle(trickle: MsgFromHost) -> str:
    if "</msg_from_host>" in trickle.text:
        raise LocalProtocolError(f"the trickle of {trickle.result_name} holds </msg_from_host>")
    variety = scalar("variety", trickle.variety) if trickle.variety else ""
    return (
        "  <msg_from_host>\n"
        f"{scalar('result_name', trickle.result_name, '      ')}"
        f"      <time>{whole(trickle.time)}</time>\n"
        f"{variety}{printable(trickle.text)}\n  </msg_from_host>\n"
    )


def _sticky_file(file: StickyFile) -> str:
    answer = ""
    if file.nonce or file.answer:
        answer = f"{scalar('challenge_nonce', file.nonce, _IN * 2)}{scalar('challenge_answer', file.answer, _IN * 2)}"
    return (
        f"{_IN}<file_info>\n{scalar('name', file.name, _IN * 2)}{scalar('nbytes', float(file.nbytes), _IN * 2)}"
        f"{scalar('status', file.status, _IN * 2)}{answer}{_IN}</file_info>\n"
    )


def _app_version(version: ClientAppVersion) -> str:
    plan_class = scalar("plan_class", version.plan_class, _IN) if version.plan_class else ""
    coproc = ""
    if version.coproc_type:
        coproc = (
            f"{_IN}<coproc>\n{scalar('type', version.coproc_type, _IN * 2)}"
            f"{scalar('count', float(version.coproc_count), _IN * 2)}{_IN}</coproc>\n"
        )
    return (
        "<app_version>\n"
        f"{scalar('app_name', version.app_name, _IN)}{scalar('version_num', version.version_num, _IN)}"
        f"{scalar('platform', version.platform, _IN)}{scalar('avg_ncpus', float(version.avg_ncpus), _IN)}"
        f"{scalar('flops', float(version.flops), _IN)}{plan_class}"
        f"{scalar('api_version', version.api_version, _IN)}{coproc}</app_version>\n"
    )


def _other_result(result: OtherResult) -> str:
    plan_class = scalar("plan_class", result.plan_class, _IN * 2) if result.plan_class else ""
    return (
        f"{_IN}<other_result>\n{scalar('name', result.name, _IN * 2)}"
        f"{scalar('app_version', result.app_version, _IN * 2)}{plan_class}{_IN}</other_result>\n"
    )


def _in_progress(result: InProgressResult) -> str:
    return (
        f"{_IN}<ip_result>\n{scalar('name', result.name, _IN * 2)}"
        f"{scalar('report_deadline', float(result.report_deadline), _IN * 2)}"
        f"{scalar('time_remaining', float(result.time_remaining), _IN * 2)}"
        f"{scalar('avg_ncpus', float(result.avg_ncpus), _IN * 2)}{_IN}</ip_result>\n"
    )
