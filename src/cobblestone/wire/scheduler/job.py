"""Apps, app versions, files, workunits and results, as a scheduler reply describes them: values, readers and writers.

Source: BOINC's wire protocol as seen with client 7.20.5.  Everything is keyed by name and immutable for the
client: the same file, workunit or app version name must always mean the same content.  Names are refused,
not repaired: on either side none may leave the folder of its project.

``app_info.xml``, a volunteer's own programs for a project (the anonymous platform), has the same elements.  Source: BOINC's
``client/cs_apps.cpp`` and its page on the anonymous platform (names and defaults: facts).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

from cobblestone.domain.errors import LocalProtocolError, RemoteProtocolError
from cobblestone.domain.values import changed, value
from cobblestone.wire.project.upload import MAX_FILE_BYTES, legal_file_name
from cobblestone.wire.scheduler.host import MAX_COUNT, MAX_OPERATIONS, MAX_TIME
from cobblestone.wire.text.reader import MAX_NAME, Lenience
from cobblestone.wire.text.table import (
    Amount,
    Contents,
    Count,
    FieldTable,
    Inside,
    Mark,
    Marked,
    Number,
    Text,
    Whole,
    usable_name,
)
from cobblestone.wire.text.tree import Node, read_tree
from cobblestone.wire.text.writer import scalar, title_text, verbatim, verbatim_text

MAX_URLS = 100
MAX_APP_INFO_BYTES = 1024 * 1024
MAX_ENTRIES = 500
_HEX_TEXT = re.compile(r"[0-9a-f\s]+\.")
_SAFE_NAME = re.compile(r"[!-\-0-\[\]-~][!-.0-\[\]-~]{0,254}")
_IN = "    "


# -- names, keys and addresses ----------------------------------------------------------------------------


def safe_file_name(name: str) -> bool:
    """Return whether a name stays within its folder; projects use more characters than our own server does."""
    return _SAFE_NAME.fullmatch(name) is not None and ".." not in name


def read_file_name(text: str) -> str:
    """Return a file's name without spaces at its ends.  Raises RemoteProtocolError for one that could leave its folder."""
    name = text.strip()
    if not safe_file_name(name):
        raise RemoteProtocolError(
            f"{name[:80]!r} cannot be a file's name: no '/', no '..', no dot at its begin, at most {MAX_NAME} characters"
        )
    return name


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


def read_hex_text(node: Node, tag: str) -> str:
    """Return the key or signature in an element; empty if there is none."""
    return node.inner(tag).text.replace("\r", "")


def _read_urls(node: Node, tag: str, notes: list[Lenience]) -> tuple[str, ...]:
    return tuple(url.scalar(notes) for url in node.all(tag))[:MAX_URLS]


@lru_cache(maxsize=64)  # all outputs go to the same address
def _write_urls(*urls: str) -> str:
    return "".join(f"{_IN}{verbatim('url', url)}" for url in urls)


# -- values ---------------------------------------------------------------------------------------------

Name = Annotated[str, Text(read=usable_name, write=verbatim_text)]
NameOfFile = Annotated[str, Text(read=read_file_name, write=lambda _, name: checked_file_name(name))]
NameOfFolder = Annotated[str, Text(read=read_file_name, write=verbatim_text)]
ShortText = Annotated[str, Text(MAX_NAME, write=verbatim_text)]
OptionalText = Annotated[str, Text(MAX_NAME, write=verbatim_text, optional=True)]
Size = Annotated[int, Whole(high=MAX_FILE_BYTES)]
Operations = Annotated[float, Number(high=MAX_OPERATIONS)]
WrittenFlag = Annotated[bool, Mark(content=None)]


@value(kw_only=True)
class FileRef:
    """A file as an app version, a workunit or a result uses it."""

    file_name: NameOfFile
    open_name: OptionalText = ""
    main_program: Marked = False
    copy_file: Marked = False
    optional: Marked = False


@value(kw_only=True)
class FileInfo:
    """A file that the client downloads; ``nbytes`` and ``md5_cksum`` are of the unpacked file."""

    name: NameOfFile
    urls: Contents[str]
    gzipped_url: Annotated[str, Inside()] = ""
    gzipped_nbytes: int = 0
    executable: Marked = False
    file_signature: Annotated[str, Inside()] = ""  #: signature text; not empty: the client must check it
    md5_cksum: Annotated[str, Text(64, read=lambda text: text.strip().lower(), write=verbatim_text)]
    nbytes: Size
    sticky: Marked = False


@value(kw_only=True)
class OutputFileInfo:
    """A file that the client uploads.

    ``upload_url`` must contain ``file_upload_handler``: that is how clients tell uploads from downloads.
    """

    name: NameOfFile
    max_nbytes: Size
    upload_url: Annotated[str, Inside()]
    other_upload_urls: tuple[str, ...] = ()  #: tried in turn when the first cannot be reached
    xml_signature: Annotated[str, Inside()]
    gzip_when_done: Marked = False
    sticky: Marked = False


@value(kw_only=True)
class AppBlock:
    """An app."""

    name: NameOfFolder
    user_friendly_name: Annotated[str, Text(MAX_NAME, write=title_text)] = ""
    non_cpu_intensive: WrittenFlag = False
    fraction_done_exact: WrittenFlag = False
    report_results_immediately: Marked = False


@value(kw_only=True)
class AppVersionBlock:
    """An app version for this host."""

    app_name: Name
    version_num: Count
    platform: ShortText
    plan_class: OptionalText = ""
    #: >= 6.0 selects the shared segment in a mapped file
    api_version: Annotated[str, Text(64, write=verbatim_text)] = "7.20.5"
    avg_ncpus: Annotated[float, Number(high=MAX_COUNT)] = 1.0
    flops: Amount = 1e9  #: projected speed; the client's estimates are rsc_fpops_est / flops
    cmdline: Annotated[str, Text(write=verbatim_text, optional=True)] = ""
    coproc_type: str = ""
    coproc_count: float = 0.0
    gpu_ram: Annotated[float, Number(optional=True)] = 0.0  #: bytes
    dont_throttle: Marked = False
    is_wrapper: Marked = False
    needs_network: Marked = False
    file_refs: Contents[FileRef]

    @property
    def key(self) -> tuple[str, int, str, str]:
        """Return the key of a version within a project: app, number, platform and plan class."""
        return self.app_name, self.version_num, self.platform, self.plan_class


@value(kw_only=True)
class WorkunitBlock:
    """A job's inputs and limits."""

    rsc_fpops_est: Operations
    rsc_fpops_bound: Operations
    rsc_memory_bound: Amount
    rsc_disk_bound: Amount
    command_line: Annotated[str, Text(4096, read=str.strip, write=verbatim_text)] = ""
    file_refs: Contents[FileRef] = ()
    name: Name
    app_name: Name
    job_keyword_ids: OptionalText = ""  #: numbers of the family's list, with spaces between them


@value(kw_only=True)
class ResultBlock:
    """A job's name, version, deadline and outputs."""

    name: NameOfFolder
    wu_name: Name
    platform: ShortText
    version_num: Count
    plan_class: ShortText = ""
    report_deadline: Annotated[float, Number(high=MAX_TIME, digits=0)]  #: Unix seconds
    report_immediately: Marked = False
    file_refs: Contents[FileRef] = ()


# -- tables ---------------------------------------------------------------------------------------------

APP = FieldTable(AppBlock)
FILE_REF = FieldTable(FileRef)
_FILE = FieldTable(FileInfo)
_OUTPUT = FieldTable(OutputFileInfo)
VERSION = FieldTable(AppVersionBlock, {"coproc": "gpu_ram"})
WORKUNIT = FieldTable(WorkunitBlock)
RESULT = FieldTable(ResultBlock)

_WRITTEN_APP = APP.layout(tag="app")
_WRITTEN_REF = FILE_REF.layout(tag="file_ref", indent=_IN * 2, outside=_IN)
_WRITTEN_FILE = _FILE.layout(tag="file_info")
_WRITTEN_OUTPUT = _OUTPUT.layout(tag="file_info")
_WRITTEN_VERSION = VERSION.layout(tag="app_version")
_WRITTEN_WORKUNIT = WORKUNIT.layout(tag="workunit")
_WRITTEN_RESULT = RESULT.layout(tag="result")


# -- reading --------------------------------------------------------------------------------------------


def is_output(node: Node) -> bool:
    """Return whether a ``<file_info>`` is of a file to upload; the family tells by the address too."""
    if node.has("generated_locally") or node.has("upload_when_present") or node.has("upload_url"):
        return True
    return any("file_upload_handler" in url.text for url in node.all("url"))


def read_file(node: Node, notes: list[Lenience]) -> FileInfo:
    """Read the ``<file_info>`` of a download."""
    reader = node.reader(notes)
    zipped = _read_urls(node, "gzipped_url", notes)
    return _FILE.read(
        reader,
        urls=_read_urls(node, "url", notes) or _read_urls(node, "download_url", notes),
        file_signature=read_hex_text(node, "file_signature"),
        gzipped_url=zipped[0] if zipped else "",
        gzipped_nbytes=reader.integer("gzipped_nbytes", high=MAX_FILE_BYTES),
    )


def read_output(node: Node, notes: list[Lenience]) -> OutputFileInfo:
    """Read the ``<file_info>`` of an output."""
    urls = _read_urls(node, "url", notes) or _read_urls(node, "upload_url", notes)
    return _OUTPUT.read(
        node.reader(notes),
        upload_url=urls[0] if urls else "",
        other_upload_urls=urls[1:],
        xml_signature=read_hex_text(node, "xml_signature"),
    )


def read_file_refs(node: Node, notes: list[Lenience]) -> tuple[FileRef, ...]:
    """Read the ``<file_ref>`` elements in an element."""
    return tuple(FILE_REF.read(ref.reader(notes)) for ref in node.all("file_ref"))


def read_app(node: Node, notes: list[Lenience]) -> AppBlock:
    """Read an ``<app>``."""
    return APP.read(node.reader(notes))


def read_app_version(node: Node, notes: list[Lenience]) -> AppVersionBlock:
    """Read an ``<app_version>``."""
    gpu = node.inner("coproc").reader(notes)
    return VERSION.read(
        node.reader(notes),
        file_refs=read_file_refs(node, notes),
        coproc_type=gpu.text("type", 64),
        coproc_count=gpu.number("count", 0.0, 0.0, MAX_COUNT),
    )


def read_workunit(node: Node, notes: list[Lenience]) -> WorkunitBlock:
    """Read a ``<workunit>``."""
    return WORKUNIT.read(node.reader(notes), file_refs=read_file_refs(node, notes))


def read_result(node: Node, notes: list[Lenience]) -> ResultBlock:
    """Read a ``<result>`` as it was sent."""
    return RESULT.read(node.reader(notes), file_refs=read_file_refs(node, notes))


# -- writing --------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def write_app(app: AppBlock) -> str:
    """Write an ``<app>``."""
    return _WRITTEN_APP.write(app if app.user_friendly_name else changed(app, user_friendly_name=app.name))


@lru_cache(maxsize=1024)  # the files of an app version go into nearly every reply
def write_file_info(file: FileInfo) -> str:
    """Write the ``<file_info>`` of a download."""
    gzipped = signature = ""
    if file.gzipped_url:
        gzipped = f"{_IN}{verbatim('gzipped_url', file.gzipped_url)}"
        gzipped += scalar("gzipped_nbytes", file.gzipped_nbytes, _IN)
    if file.file_signature:
        signature = (
            f"{_IN}<signature_required/>\n{_IN}{write_hex_element('file_signature', file.file_signature)}"
        )
    return _WRITTEN_FILE.write(
        file, urls=_write_urls(*file.urls), gzipped_url=gzipped, file_signature=signature
    )


def write_output_file_info(file: OutputFileInfo) -> str:
    """Write the ``<file_info>`` of an upload."""
    if "file_upload_handler" not in file.upload_url:
        raise LocalProtocolError(
            f"the upload URL {file.upload_url} lacks 'file_upload_handler', by which clients know it as one"
        )
    return _WRITTEN_OUTPUT.write(
        file,
        upload_url=_write_urls(file.upload_url, *file.other_upload_urls),
        xml_signature=_IN + write_hex_element("xml_signature", file.xml_signature),
    )


def write_app_version(version: AppVersionBlock) -> str:
    """Write an ``<app_version>``."""
    coproc = ""
    if version.coproc_type:
        verbatim_text("type", version.coproc_type)
        coproc = write_coproc_use(version.coproc_type, version.coproc_count)
    return _WRITTEN_VERSION.write(version, coproc=coproc, file_refs=write_file_refs(version.file_refs))


def write_coproc_use(kind: str, count: float) -> str:
    """Write the ``<coproc>`` of an app version: how many of which devices a job takes."""
    return f"{_IN}<coproc>\n{scalar('type', kind, _IN * 2)}{scalar('count', float(count), _IN * 2)}{_IN}</coproc>\n"


def write_workunit(workunit: WorkunitBlock) -> str:
    """Write a ``<workunit>``."""
    return _WRITTEN_WORKUNIT.write(workunit, file_refs=write_file_refs(workunit.file_refs))


def write_result(result: ResultBlock) -> str:
    """Write a ``<result>``."""
    return _WRITTEN_RESULT.write(result, file_refs=write_file_refs(result.file_refs))


def write_file_refs(refs: Iterable[FileRef]) -> str:
    """Write ``<file_ref>`` elements."""
    return "".join(map(_WRITTEN_REF.write, refs))


# -- app_info.xml ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnApps:
    """What the file says."""

    apps: tuple[AppBlock, ...] = ()
    versions: tuple[AppVersionBlock, ...] = ()
    executables: frozenset[str] = frozenset()  #: names of files that are programs
    problems: tuple[str, ...] = ()  #: sentences about versions that cannot be used


def read_app_info(body: bytes, *, platform: str, cpu_flops: float) -> OwnApps:
    """Read the file; ``platform`` and ``cpu_flops`` (operations per second of a CPU) are for versions that do not say theirs.

    Raises RemoteProtocolError for what is no such file.
    """
    root = read_tree(body, "app_info", max_bytes=MAX_APP_INFO_BYTES)
    notes: list[Lenience] = []
    apps = tuple(read_app(node, notes) for node in _some(root, "app"))
    files = [read_file(node, notes) for tag in ("file_info", "file") for node in _some(root, tag)]
    versions: list[AppVersionBlock] = []
    problems: list[str] = []
    for node in _some(root, "app_version"):
        version = read_app_version(node, notes)
        problem = _problem(version, {app.name for app in apps}, {file.name for file in files})
        if problem:
            problems.append(f"the version {version.version_num} of the app {version.app_name!r} {problem}")
            continue
        flops = version.flops if node.has("flops") else max(version.avg_ncpus, 1.0) * cpu_flops
        versions.append(changed(version, platform=version.platform or platform, flops=flops))
    return OwnApps(
        apps=apps,
        versions=tuple(versions),
        executables=frozenset(file.name for file in files if file.executable),
        problems=tuple(problems),
    )


def _some(root: Node, tag: str) -> list[Node]:
    return list(root.all(tag))[:MAX_ENTRIES]


def _problem(version: AppVersionBlock, apps: set[str], files: set[str]) -> str:
    if version.app_name not in apps:
        return "belongs to no <app> of the file"
    if not version.file_refs:
        return "has no <file_ref>"
    strangers = [ref.file_name for ref in version.file_refs if ref.file_name not in files]
    return f"uses files without a <file_info>: {', '.join(strangers)}" if strangers else ""
