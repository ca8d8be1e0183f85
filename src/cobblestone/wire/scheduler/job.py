"""Apps, app versions, files, workunits and results, as the scheduler reply describes them.

Source: BOINC's wire protocol as seen with client 7.20.5.  Everything is keyed by name and immutable for the
client: the same file, workunit or app version name must always mean the same content.  Names are refused,
not repaired.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from cobblestone.domain.errors import LocalProtocolError
from cobblestone.domain.values import value
from cobblestone.wire.project.upload import legal_file_name
from cobblestone.wire.text.writer import decimal, scalar, title, verbatim, whole

_HEX_TEXT = re.compile(r"[0-9a-f\s]+\.")
_INDENT = "    "


@value(kw_only=True)
class FileRef:
    """A file as an app version, a workunit or a result uses it."""

    file_name: str
    open_name: str = ""
    main_program: bool = False
    copy_file: bool = False
    optional: bool = False


@value(kw_only=True)
class FileInfo:
    """A file that the client downloads; ``nbytes`` and ``md5_cksum`` are of the unpacked file."""

    name: str
    urls: tuple[str, ...]
    nbytes: int
    md5_cksum: str
    executable: bool = False
    file_signature: str = ""  #: signature text; not empty: the client must check it
    sticky: bool = False
    gzipped_url: str = ""
    gzipped_nbytes: int = 0


@value(kw_only=True)
class OutputFileInfo:
    """A file that the client uploads.

    ``upload_url`` must contain ``file_upload_handler``: that is how clients tell uploads from downloads.
    """

    name: str
    max_nbytes: int
    upload_url: str
    xml_signature: str
    gzip_when_done: bool = False
    sticky: bool = False
    other_upload_urls: tuple[str, ...] = ()  #: tried in turn when the first cannot be reached


@value(kw_only=True)
class AppBlock:
    """An app."""

    name: str
    user_friendly_name: str = ""
    non_cpu_intensive: bool = False
    fraction_done_exact: bool = False
    report_results_immediately: bool = False


@value(kw_only=True)
class AppVersionBlock:
    """An app version for this host."""

    app_name: str
    version_num: int
    platform: str
    file_refs: tuple[FileRef, ...]
    plan_class: str = ""
    avg_ncpus: float = 1.0
    flops: float = 1e9  #: projected speed; the client's estimates are rsc_fpops_est / flops
    api_version: str = "7.20.5"  #: >= 6.0 selects the shared segment in a mapped file
    cmdline: str = ""
    coproc_type: str = ""
    coproc_count: float = 0.0
    gpu_ram: float = 0.0  #: bytes
    dont_throttle: bool = False
    is_wrapper: bool = False
    needs_network: bool = False

    @property
    def key(self) -> tuple[str, int, str, str]:
        """Return the key of a version within a project: app, number, platform and plan class."""
        return self.app_name, self.version_num, self.platform, self.plan_class


@value(kw_only=True)
class WorkunitBlock:
    """A job's inputs and limits."""

    name: str
    app_name: str
    rsc_fpops_est: float
    rsc_fpops_bound: float
    rsc_memory_bound: float
    rsc_disk_bound: float
    command_line: str = ""
    file_refs: tuple[FileRef, ...] = ()


@value(kw_only=True)
class ResultBlock:
    """A job's name, version, deadline and outputs."""

    name: str
    wu_name: str
    platform: str
    version_num: int
    report_deadline: float  #: Unix seconds; written as a whole number
    plan_class: str = ""
    file_refs: tuple[FileRef, ...] = ()
    report_immediately: bool = False


# -- writing --------------------------------------------------------------------------------------------


def _flag(name: str, value: bool, indent: str = _INDENT) -> str:
    return f"{indent}<{name}/>\n" if value else ""


@lru_cache(maxsize=64)
def write_app(app: AppBlock) -> str:
    """Write an ``<app>``."""
    return (
        "<app>\n"
        f"{verbatim('name', app.name, _INDENT)}"
        f"{title('user_friendly_name', app.user_friendly_name or app.name, _INDENT)}"
        f"{scalar('non_cpu_intensive', app.non_cpu_intensive, _INDENT)}"
        f"{scalar('fraction_done_exact', app.fraction_done_exact, _INDENT)}"
        f"{_flag('report_results_immediately', app.report_results_immediately)}"
        "</app>\n"
    )


@lru_cache(maxsize=1024)  # the files of an app version go into nearly every reply
def write_file_info(file: FileInfo) -> str:
    """Write the ``<file_info>`` of a download."""
    urls = "".join(verbatim("url", url, _INDENT) for url in file.urls)
    gzipped = signature = ""
    if file.gzipped_url:
        gzipped = verbatim("gzipped_url", file.gzipped_url, _INDENT)
        gzipped += scalar("gzipped_nbytes", file.gzipped_nbytes, _INDENT)
    if file.file_signature:
        signature = (
            f"    <signature_required/>\n    {write_hex_element('file_signature', file.file_signature)}"
        )
    return (
        f"<file_info>\n    <name>{checked_file_name(file.name)}</name>\n"
        f"{urls}{gzipped}{_flag('executable', file.executable)}{signature}"
        f"{verbatim('md5_cksum', file.md5_cksum, _INDENT)}"
        f"    <nbytes>{file.nbytes:d}</nbytes>\n"
        f"{_flag('sticky', file.sticky)}"
        "</file_info>\n"
    )


def write_output_file_info(file: OutputFileInfo) -> str:
    """Write the ``<file_info>`` of an upload."""
    if "file_upload_handler" not in file.upload_url:
        raise LocalProtocolError(
            f"the upload URL {file.upload_url} lacks 'file_upload_handler', by which clients know it as one"
        )
    return (
        f"<file_info>\n    <name>{checked_file_name(file.name)}</name>\n"
        f"    <max_nbytes>{file.max_nbytes:d}</max_nbytes>\n"
        f"{_urls(file.upload_url, *file.other_upload_urls)}"
        f"    {write_hex_element('xml_signature', file.xml_signature)}"
        f"{_flag('gzip_when_done', file.gzip_when_done)}"
        f"{_flag('sticky', file.sticky)}"
        "</file_info>\n"
    )


@lru_cache(maxsize=64)  # all outputs go to the same address
def _urls(*urls: str) -> str:
    return "".join(verbatim("url", url, _INDENT) for url in urls)


def write_app_version(version: AppVersionBlock) -> str:
    """Write an ``<app_version>``."""
    plan_class = verbatim("plan_class", version.plan_class, _INDENT) if version.plan_class else ""
    cmdline = verbatim("cmdline", version.cmdline, _INDENT) if version.cmdline else ""
    gpu_ram = f"    <gpu_ram>{decimal(version.gpu_ram)}</gpu_ram>\n" if version.gpu_ram else ""
    coproc = ""
    if version.coproc_type:
        coproc = (
            f"    <coproc>\n{verbatim('type', version.coproc_type, _INDENT * 2)}"
            f"        <count>{decimal(version.coproc_count)}</count>\n    </coproc>\n"
        )
    return (
        "<app_version>\n"
        f"{verbatim('app_name', version.app_name, _INDENT)}"
        f"    <version_num>{version.version_num:d}</version_num>\n"
        f"{verbatim('platform', version.platform, _INDENT)}"
        f"{plan_class}"
        f"{verbatim('api_version', version.api_version, _INDENT)}"
        f"    <avg_ncpus>{decimal(version.avg_ncpus)}</avg_ncpus>\n"
        f"    <flops>{decimal(version.flops)}</flops>\n"
        f"{cmdline}{coproc}{gpu_ram}"
        f"{_flag('dont_throttle', version.dont_throttle)}"
        f"{_flag('is_wrapper', version.is_wrapper)}"
        f"{_flag('needs_network', version.needs_network)}"
        f"{write_file_refs(version.file_refs)}"
        "</app_version>\n"
    )


def write_workunit(workunit: WorkunitBlock) -> str:
    """Write a ``<workunit>``."""
    return (
        "<workunit>\n"
        f"{_limits(workunit.rsc_fpops_est, workunit.rsc_fpops_bound, workunit.rsc_memory_bound, workunit.rsc_disk_bound)}"
        f"{verbatim('command_line', workunit.command_line, _INDENT)}"
        f"{write_file_refs(workunit.file_refs)}"
        f"{verbatim('name', workunit.name, _INDENT)}"
        f"{verbatim('app_name', workunit.app_name, _INDENT)}"
        "</workunit>\n"
    )


@lru_cache(maxsize=1024)  # the jobs of a batch mostly have the same
def _limits(fpops_est: float, fpops_bound: float, memory_bound: float, disk_bound: float) -> str:
    return (
        f"    <rsc_fpops_est>{decimal(fpops_est)}</rsc_fpops_est>\n"
        f"    <rsc_fpops_bound>{decimal(fpops_bound)}</rsc_fpops_bound>\n"
        f"    <rsc_memory_bound>{decimal(memory_bound)}</rsc_memory_bound>\n"
        f"    <rsc_disk_bound>{decimal(disk_bound)}</rsc_disk_bound>\n"
    )


def write_result(result: ResultBlock) -> str:
    """Write a ``<result>``."""
    return (
        "<result>\n"
        f"{verbatim('name', result.name, _INDENT)}"
        f"{verbatim('wu_name', result.wu_name, _INDENT)}"
        f"{verbatim('platform', result.platform, _INDENT)}"
        f"    <version_num>{result.version_num:d}</version_num>\n"
        f"{verbatim('plan_class', result.plan_class, _INDENT)}"
        f"    <report_deadline>{whole(result.report_deadline)}</report_deadline>\n"
        f"{_flag('report_immediately', result.report_immediately)}"
        f"{write_file_refs(result.file_refs)}"
        "</result>\n"
    )


def write_file_refs(refs: Iterable[FileRef]) -> str:
    """Write ``<file_ref>`` elements."""
    return "".join(
        f"    <file_ref>\n        <file_name>{checked_file_name(ref.file_name)}</file_name>\n"
        f"{_use_of_file(ref.open_name, ref.main_program, ref.copy_file, ref.optional)}"
        "    </file_ref>\n"
        for ref in refs
    )


@lru_cache(maxsize=1024)  # the jobs of an app use their files alike
def _use_of_file(open_name: str, main_program: bool, copy_file: bool, optional: bool) -> str:
    deep = _INDENT * 2
    return (
        f"{verbatim('open_name', open_name, deep) if open_name else ''}"
        f"{_flag('main_program', main_program, deep)}"
        f"{_flag('copy_file', copy_file, deep)}"
        f"{_flag('optional', optional, deep)}"
    )


# -- checks ---------------------------------------------------------------------------------------------


def checked_file_name(name: str) -> str:
    """Return the name itself; raise LocalProtocolError if clients would refuse it."""
    if not legal_file_name(name):
        raise LocalProtocolError(
            f"{name!r} is not a file name that clients accept: use up to 255 letters, digits and - _ . ~"
        )
    return name


def write_hex_element(element: str, text: str) -> str:
    """Return a key or signature: the client copies it unchanged, so nothing else may be in it."""
    text = text.strip()
    if not _HEX_TEXT.fullmatch(text):
        raise LocalProtocolError(f"the text for <{element}> is not a key or signature in BOINC's form")
    return f"<{element}>\n{text}\n</{element}>\n"
