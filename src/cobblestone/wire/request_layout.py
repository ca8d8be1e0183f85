"""Where things are in a scheduler request: the blocks and scalars, as text, whatever the layout.

The usual layout (client 7.20.5) is found by substring search, any other with lxml; both give the same `RequestParts`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.wire.lenience import Lenience, LenienceKind
from cobblestone.wire.xml_reader import (
    MAX_SKELETON_BYTES,
    Element,
    Fields,
    UnusualLayout,
    cut_verbatim,
    decode,
    element_fields,
    elements,
    note,
    parse_unusual,
    scan_fields,
    take,
    take_all,
)

ROOT = "scheduler_request"
MAX_RESULTS = 2000
MAX_FILES_PER_RESULT = 200
MAX_FILE_INFOS = 5000
MAX_APP_VERSIONS = 1000
MAX_OTHER_RESULTS = 5000
MAX_PLATFORMS = 32
MAX_COPROCS_PER_TYPE = 16
MAX_BLOCKS_IGNORED = 64

COPROC_TYPES = {
    "coproc_cuda": "NVIDIA",
    "coproc_ati": "ATI",
    "coproc_intel_gpu": "intel_gpu",
    "coproc_apple_gpu": "apple_gpu",
    "coproc": "",
}
"""Element names and the type that each stands for; the last one names its type itself."""

_VERBATIM = (
    b"stderr_out",
    b"msg_from_host",
    b"working_global_preferences",
    b"global_preferences",
    b"error_msg",
    b"client_opaque",
    b"daily_xfer_history",
    b"time_stats_log",
    b"job_log",
    b"user_keywords",
)
_BLOCKS = ("time_stats", "net_stats", "host_info", "disk_usage")
_FLAGS = (
    "allow_multiple_clients",
    "sandbox",
    "dont_send_work",
    "client_cap_plan_class",
    "p_vm_extensions_disabled",
    "wsl_available",
    "have_opencl",
)


@dataclass(slots=True)
class RequestParts:
    """A request taken apart; nothing in it has been converted yet."""

    pieces: dict[str, bytes]  #: free texts by the number that stands in their place
    top: Fields = field(default_factory=dict[str, str])
    blocks: dict[str, Fields] = field(default_factory=dict[str, Fields])  #: by name, see ``_BLOCKS``
    platforms: list[str] = field(default_factory=list[str])  #: alternates only
    coprocs: list[tuple[str, Fields]] = field(default_factory=list[tuple[str, Fields]])
    results: list[tuple[Fields, list[Fields]]] = field(default_factory=list[tuple[Fields, list[Fields]]])
    trickles: list[str] = field(default_factory=list[str])  #: numbers of their free texts
    files: list[Fields] = field(default_factory=list[Fields])
    app_versions: list[tuple[Fields, Fields]] = field(default_factory=list[tuple[Fields, Fields]])
    other_results: list[Fields] | None = None
    in_progress: list[Fields] = field(default_factory=list[Fields])
    results_truncated: bool = False
    others_truncated: bool = False


def take_apart(body: bytes, notes: list[Lenience]) -> RequestParts:
    """Find the parts of a request.  Raises RemoteProtocolError for what is no request, or is cut short."""
    skeleton, pieces = cut_verbatim(body, _VERBATIM)
    if len(skeleton) > MAX_SKELETON_BYTES:
        raise RemoteProtocolError(f"{len(skeleton)} bytes of tags, at most {MAX_SKELETON_BYTES} are read")
    start = skeleton.find(b"<scheduler_request>")
    end = skeleton.rfind(b"</scheduler_request>")
    try:
        if start < 0 or end < start:
            raise UnusualLayout(ROOT)
        text = decode(skeleton[start + len(ROOT) + 2 : end], ROOT, notes)
        return _scan(text, pieces, notes)
    except UnusualLayout as unusual:
        if b"scheduler_request" not in skeleton:
            raise RemoteProtocolError(
                "no <scheduler_request> in the body",
                reply_hint="No scheduler request was found in what was sent.",
            ) from None
        if b"scheduler_request" not in skeleton[-200:].partition(b"/")[2]:
            raise RemoteProtocolError(
                "no </scheduler_request>", reply_hint="The request was cut short."
            ) from None
        note(notes, LenienceKind.UNUSUAL_LAYOUT, str(unusual))
        return _read_tree(decode(skeleton, ROOT, notes), pieces, notes)


# -- usual layout ---------------------------------------------------------------------------------------------------


def _scan(text: str, pieces: dict[str, bytes], notes: list[Lenience]) -> RequestParts:
    """Take out the blocks one after the other; what remains must be scalars."""
    parts = RequestParts(pieces)
    other, text = take(text, "other_results")
    if other is not None:
        blocks, rest, parts.others_truncated = _take_all(other, "other_result", MAX_OTHER_RESULTS, notes)
        _expect_nothing(rest, "other_results")
        parts.other_results = [scan_fields(block, "other_result") for block in blocks]
    versions, text = take(text, "app_versions")
    if versions is not None:
        blocks, rest, _ = _take_all(versions, "app_version", MAX_APP_VERSIONS, notes)
        _expect_nothing(rest, "app_versions")
        parts.app_versions = [_scan_app_version(block) for block in blocks]
    progress, text = take(text, "in_progress_results")
    if progress is not None:
        blocks, rest, _ = _take_all(progress, "ip_result", MAX_OTHER_RESULTS, notes)
        _expect_nothing(rest, "in_progress_results")
        parts.in_progress = [scan_fields(block, "ip_result") for block in blocks]
    blocks, text, parts.results_truncated = _take_all(text, "result", MAX_RESULTS, notes)
    for block in blocks:
        files, rest, _ = _take_all(block, "file_info", MAX_FILES_PER_RESULT, notes)
        parts.results.append(
            (scan_fields(rest, "result"), [scan_fields(file, "file_info") for file in files])
        )
    coprocs, text = take(text, "coprocs")
    if coprocs is not None:
        parts.coprocs = _scan_coprocs(coprocs, notes)
    for name in _BLOCKS:
        content, text = take(text, name)
        if content is not None:
            parts.blocks[name] = scan_fields(content, name)
    blocks, text, _ = _take_all(text, "file_info", MAX_FILE_INFOS, notes)
    parts.files = [scan_fields(block, "file_info") for block in blocks]
    parts.trickles, text, _ = _take_all(text, "msg_from_host", len(pieces), notes)
    blocks, text, _ = _take_all(text, "alt_platform", MAX_PLATFORMS, notes)
    parts.platforms = [scan_fields(block, "alt_platform").get("name", "") for block in blocks]
    parts.top = scan_fields(text, ROOT)
    return parts


def _take_all(text: str, tag: str, limit: int, notes: list[Lenience]) -> tuple[list[str], str, bool]:
    blocks, rest, dropped = take_all(text, tag, limit)
    if dropped:
        note(notes, LenienceKind.TOO_MANY, tag, f"more than {limit}")
    return blocks, rest, dropped


def _expect_nothing(rest: str, where: str) -> None:
    if "<" in rest:
        raise UnusualLayout(where)


def _scan_app_version(block: str) -> tuple[Fields, Fields]:
    coproc, rest = take(block, "coproc")
    return scan_fields(rest, "app_version"), scan_fields(coproc, "coproc") if coproc else {}


def _scan_coprocs(text: str, notes: list[Lenience]) -> list[tuple[str, Fields]]:
    found: list[tuple[str, Fields]] = []
    for tag in COPROC_TYPES:
        blocks, text, _ = _take_all(text, tag, MAX_COPROCS_PER_TYPE, notes)
        for block in blocks:
            _, rest, _ = take_all(block, "pci_info", MAX_BLOCKS_IGNORED)
            opencl, rest = take(rest, "coproc_opencl")
            opencl_fields = scan_fields(opencl, "coproc_opencl") if opencl else {}
            # The GPU's own elements win over those of the same name in its OpenCL part.
            found.append((tag, opencl_fields | scan_fields(rest, tag)))
    _expect_nothing(text, "coprocs")
    return found


# -- any other layout -----------------------------------------------------------------------------------------------


def _read_tree(text: str, pieces: dict[str, bytes], notes: list[Lenience]) -> RequestParts:
    root, repaired = parse_unusual(text, ROOT, _FLAGS, notes)

    def below(parent: Element, tag: str, limit: int) -> list[Element]:
        found = list(elements(parent, tag, anywhere=repaired))
        if len(found) > limit:
            note(notes, LenienceKind.TOO_MANY, tag, f"more than {limit}")
        return found[:limit]

    parts = RequestParts(pieces, top=element_fields(root))
    for name in _BLOCKS:
        for element in below(root, name, 1):
            parts.blocks[name] = element_fields(element)
    parts.platforms = [element_fields(e).get("name", "") for e in below(root, "alt_platform", MAX_PLATFORMS)]
    for container in below(root, "coprocs", 1):
        for tag in COPROC_TYPES:
            for element in container.iterchildren(tag):
                opencl = next(element.iterchildren("coproc_opencl"), None)
                inner = element_fields(opencl) if opencl is not None else {}
                parts.coprocs.append((tag, inner | element_fields(element)))
    results = list(elements(root, "result", anywhere=repaired))
    parts.results_truncated = len(results) > MAX_RESULTS
    for element in below(root, "result", MAX_RESULTS):
        files = list(element.iterchildren("file_info"))[:MAX_FILES_PER_RESULT]
        parts.results.append((element_fields(element), [element_fields(file) for file in files]))
    parts.files = [
        element_fields(element) for element in list(root.iterchildren("file_info"))[:MAX_FILE_INFOS]
    ]
    parts.trickles = [element.text or "" for element in below(root, "msg_from_host", len(pieces))]
    for container in below(root, "app_versions", 1):
        for element in below(container, "app_version", MAX_APP_VERSIONS):
            coproc = next(element.iterchildren("coproc"), None)
            inner = element_fields(coproc) if coproc is not None else {}
            parts.app_versions.append((element_fields(element), inner))
    for container in below(root, "other_results", 1):
        jobs = list(elements(container, "other_result", anywhere=repaired))
        parts.others_truncated = repaired or len(jobs) > MAX_OTHER_RESULTS
        parts.other_results = [element_fields(e) for e in below(container, "other_result", MAX_OTHER_RESULTS)]
    for container in below(root, "in_progress_results", 1):
        parts.in_progress = [element_fields(e) for e in below(container, "ip_result", MAX_OTHER_RESULTS)]
    return parts
