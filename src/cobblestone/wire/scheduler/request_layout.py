"""The positions of blocks and scalars in a scheduler request, as text, in any layout.

The usual layout (client 7.20.5) is found in one pass, any other as a tree; both give the same `RequestParts`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeVar

from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.wire.scheduler.host import COPROC_TYPES
from cobblestone.wire.text.reader import (
    MAX_BLOCK_CHARS,
    Fields,
    Lenience,
    LenienceKind,
    UnusualLayout,
    end_of_verbatim,
    note,
    scan_fields,
)
from cobblestone.wire.text.tree import Node, TreeReader

Item = TypeVar("Item")

ROOT = "scheduler_request"
MAX_RESULTS = 2000
MAX_FILES_PER_RESULT = 200
MAX_TRICKLES = 1000
MAX_FILE_INFOS = 5000
MAX_APP_VERSIONS = 1000
MAX_OTHER_RESULTS = 5000
MAX_PLATFORMS = 32
MAX_COPROCS = 64
#: Of a request in another layout than the usual one, free texts apart: a tree takes some 200 bytes an element.
MAX_UNUSUAL_TAGS = 100_000

FREE_TEXTS = ("working_global_preferences", "global_preferences", "client_opaque", "user_keywords")
_IGNORED = ("daily_xfer_history", "time_stats_log", "job_log")
_VERBATIM = (*FREE_TEXTS, *_IGNORED, "msg_from_host", "stderr_out", "error_msg")
#: Blocks of scalars whose names occur nowhere else: read together with the scalars at the top.
PLAIN_BLOCKS = ("time_stats", "net_stats", "host_info", "disk_usage")
_FLAGS = (
    "allow_multiple_clients",
    "sandbox",
    "dont_send_work",
    "client_cap_plan_class",
    "p_vm_extensions_disabled",
    "wsl_available",
    "have_opencl",
)


class RequestParts:
    """The parts of a request, not yet decoded or converted."""

    def __init__(self) -> None:
        self.top: Fields = {}  #: with those of ``PLAIN_BLOCKS``
        self.free_texts: dict[str, str] = {}  #: by name, see ``FREE_TEXTS``
        self.platforms: list[Fields] = []  #: alternates only
        self.coprocs: list[tuple[str, Fields]] = []
        self.results: list[tuple[Fields, list[Fields]]] = []
        self.trickles: list[str] = []
        self.files: list[Fields] = []
        self.app_versions: list[tuple[Fields, Fields]] = []
        self.other_results: list[Fields] | None = None
        self.in_progress: list[Fields] = []
        self.results_truncated = False
        self.trickles_truncated = False
        self.others_truncated = False


def take_apart(body: bytes, notes: list[Lenience]) -> RequestParts:
    """Find the parts of a request.  Raises RemoteProtocolError for an invalid or truncated request."""
    text = body.decode("latin-1")
    begin = text.find("<scheduler_request>")
    end = text.rfind("</scheduler_request>")
    try:
        if begin < 0 or end < begin:
            raise UnusualLayout(ROOT)
        return _Scan(text, notes).request(begin + len(ROOT) + 2, end)
    except UnusualLayout as unusual:
        if ROOT not in text:
            raise RemoteProtocolError(
                "no <scheduler_request> in the body", reply_hint="No scheduler request was found in it."
            ) from None
        if not re.search(r"/\s{0,8}scheduler_request", text[-1000:]):
            raise RemoteProtocolError(
                "no </scheduler_request>", reply_hint="The request was cut short."
            ) from None
        note(notes, LenienceKind.UNUSUAL_LAYOUT, str(unusual))
    return _read_tree(body, notes)


# -- usual layout ---------------------------------------------------------------------------------------


def _opening(*tags: str) -> re.Pattern[str]:
    return re.compile(f"<({'|'.join(tags)})>")


_TOP = _opening(
    *FREE_TEXTS,
    *_IGNORED,
    "alt_platform",
    "coprocs",
    "result",
    "msg_from_host",
    "file_info",
    "app_versions",
    "other_results",
    "in_progress_results",
)
_IN_RESULT = re.compile("<(stderr_out|file_info)>|</result>")
_IN_FILE = re.compile("<(error_msg)>|</file_info>")
_COPROC = _opening(*COPROC_TYPES)
_IN_COPROC = _opening("coproc_opencl", "pci_info")
#: Marks of app versions that say nothing to a server, such as ``dont_throttle`` of those that use a GPU.
_MARK = re.compile(r"<\w+/>")


class _Scan:
    """One pass over a request in the usual layout; every method raises UnusualLayout if it meets another.

    No search goes further than a block may: as long as one lasts, all other threads wait.
    """

    def __init__(self, text: str, notes: list[Lenience]) -> None:
        self.text = text
        self.notes = notes

    def request(self, begin: int, end: int) -> RequestParts:
        text, parts = self.text, RequestParts()
        between: list[str] = []
        position = begin
        search = _TOP.search
        while match := search(text, position, min(end, position + MAX_BLOCK_CHARS)):
            between.append(text[position : match.start()])
            tag, inside = match[1], match.end()
            if tag == "result":
                stop = self._result(inside, parts)
            elif tag in _VERBATIM:
                stop = end_of_verbatim(text, tag, inside)
                self._free_text(tag, text[inside:stop], parts)
            elif tag == "file_info":
                fields, stop = self._file(inside)
                self._add(parts.files, fields, MAX_FILE_INFOS, tag)
            else:
                stop = self._close(tag, inside)
                self._list(tag, text[inside:stop], parts)
            position = stop + len(tag) + 3
        if position > end:
            raise UnusualLayout(ROOT)
        between.append(text[position:end])
        top = "".join(between)
        at = 0
        blocks: list[str] = []
        for name in PLAIN_BLOCKS:
            found = top.find(f"</{name}>", at)
            if found >= 0:  # in another order than the client's they stay unfound, and the layout is unusual
                at = found
                blocks.append(name)
        parts.top = scan_fields(top, ROOT, blocks)
        return parts

    def _close(self, tag: str, begin: int) -> int:
        end = self.text.find(f"</{tag}>", begin)
        if end < 0:
            raise UnusualLayout(tag)
        return end

    def _add(self, target: list[Item], item: Item, limit: int, tag: str) -> bool:
        """Append within the limit; return False beyond it."""
        if len(target) < limit:
            target.append(item)
            return True
        note(self.notes, LenienceKind.TOO_MANY, tag, f"more than {limit}")
        return False

    def _free_text(self, tag: str, content: str, parts: RequestParts) -> None:
        if tag == "msg_from_host":
            if not self._add(parts.trickles, content, MAX_TRICKLES, tag):
                parts.trickles_truncated = True
        elif tag in FREE_TEXTS:
            parts.free_texts[tag] = content

    def _result(self, begin: int, parts: RequestParts) -> int:
        """Read one report, whose stderr may contain anything; return the position of its closing tag."""
        text = self.text
        between: list[str] = []
        files: list[Fields] = []
        stderr = ""
        position = begin
        while match := _IN_RESULT.search(text, position, position + MAX_BLOCK_CHARS):
            between.append(text[position : match.start()])
            tag, inside = match[1], match.end()
            if tag is None:
                break
            if tag == "stderr_out":
                stop = end_of_verbatim(text, tag, inside)
                stderr = text[inside:stop]
            else:
                fields, stop = self._file(inside)
                self._add(files, fields, MAX_FILES_PER_RESULT, "result/file_info")
            position = stop + len(tag) + 3
        if match is None:
            raise UnusualLayout("result")
        fields = scan_fields("".join(between), "result")
        fields["stderr_out"] = stderr
        if not self._add(parts.results, (fields, files), MAX_RESULTS, "result"):
            parts.results_truncated = True
        return match.start()

    def _file(self, begin: int) -> tuple[Fields, int]:
        """Read a file; also return the position of its closing tag."""
        text = self.text
        match = _IN_FILE.search(text, begin, begin + MAX_BLOCK_CHARS)
        if match is None:
            raise UnusualLayout("file_info")
        if match[1] is None:
            return scan_fields(text[begin : match.start()], "file_info"), match.start()
        error_end = end_of_verbatim(text, "error_msg", match.end())
        end = self._close("file_info", error_end)
        rest = text[begin : match.start()] + text[error_end + len("</error_msg>") : end]
        fields = scan_fields(rest, "file_info")
        fields["error_msg"] = text[match.end() : error_end]
        return fields, end

    def _list(self, tag: str, content: str, parts: RequestParts) -> None:
        if tag == "alt_platform":
            self._add(parts.platforms, scan_fields(content, tag), MAX_PLATFORMS, tag)
        elif tag == "app_versions":
            blocks, _ = self._blocks(content, "app_version", MAX_APP_VERSIONS)
            parts.app_versions = [_app_version(block) for block in blocks]
        elif tag == "other_results":
            blocks, parts.others_truncated = self._blocks(content, "other_result", MAX_OTHER_RESULTS)
            parts.other_results = [scan_fields(block, "other_result") for block in blocks]
        elif tag == "in_progress_results":
            blocks, _ = self._blocks(content, "ip_result", MAX_OTHER_RESULTS)
            parts.in_progress = [scan_fields(block, "ip_result") for block in blocks]
        else:
            self._coprocs(content, parts)

    def _blocks(self, content: str, tag: str, limit: int) -> tuple[list[str], bool]:
        """Return the elements of a list, and whether some were dropped."""
        opening, closing = f"<{tag}>", f"</{tag}>"
        blocks = content.split(opening)
        if "<" in blocks[0]:
            raise UnusualLayout(tag)
        del blocks[0]
        truncated = len(blocks) > limit
        if truncated:
            note(self.notes, LenienceKind.TOO_MANY, tag, f"more than {limit}")
            del blocks[limit:]
        for index, block in enumerate(blocks):
            inside, closed, rest = block.partition(closing)
            if not closed or "<" in rest:
                raise UnusualLayout(tag)
            blocks[index] = inside
        return blocks, truncated

    def _coprocs(self, content: str, parts: RequestParts) -> None:
        position = 0
        while match := _COPROC.search(content, position):
            tag = match[1]
            end = content.find(f"</{tag}>", match.end())
            if end < 0 or "<" in content[position : match.start()]:
                raise UnusualLayout(tag)
            own, opencl = _split_coproc(content[match.end() : end])
            fields = scan_fields(opencl, "coproc_opencl") | scan_fields(own, tag)
            self._add(parts.coprocs, (tag, fields), MAX_COPROCS, "coprocs")
            position = end + len(tag) + 3
        if "<" in content[position:]:
            raise UnusualLayout("coprocs")


def _split_coproc(block: str) -> tuple[str, str]:
    """Return the GPU's own elements, and those of its OpenCL part; the slot of the card does not matter."""
    own: list[str] = []
    opencl = ""
    position = 0
    while match := _IN_COPROC.search(block, position):
        own.append(block[position : match.start()])
        end = block.find(f"</{match[1]}>", match.end())
        if end < 0:
            raise UnusualLayout(match[1])
        if match[1] == "coproc_opencl":
            opencl = block[match.end() : end]
        position = end + len(match[1]) + 3
    own.append(block[position:])
    return "".join(own), opencl


def _app_version(block: str) -> tuple[Fields, Fields]:
    before, opened, rest = _MARK.sub("", block).partition("<coproc>")
    if not opened:
        return scan_fields(before, "app_version"), {}
    coproc, _, after = rest.partition("</coproc>")
    return scan_fields(before + after, "app_version"), scan_fields(coproc, "coproc")


# -- any other layout -----------------------------------------------------------------------------------


def _read_tree(body: bytes, notes: list[Lenience]) -> RequestParts:
    reader = TreeReader(body, _VERBATIM, MAX_UNUSUAL_TAGS)
    try:
        root, faults = reader.element(ROOT), reader.faults
    except RemoteProtocolError as error:
        raise RemoteProtocolError(
            f"it is not in the usual layout, and {error}", reply_hint=error.reply_hint
        ) from error
    if any("<!DOCTYPE" in fault or "<!ENTITY" in fault for fault in faults):
        raise RemoteProtocolError("document types and entities are not accepted")
    if faults:
        note(notes, LenienceKind.RECOVERED, ROOT, faults[0])

    def below(parent: Node, tag: str, limit: int) -> tuple[list[Node], bool]:
        found = list(parent.everywhere(tag) if faults else parent.all(tag))
        if len(found) > limit:
            note(notes, LenienceKind.TOO_MANY, tag, f"more than {limit}")
        return found[:limit], len(found) > limit

    def in_list(container: str, tag: str, limit: int) -> tuple[list[Node] | None, bool]:
        lists, _ = below(root, container, 1)
        return below(lists[0], tag, limit) if lists else (None, False)

    parts = RequestParts()
    parts.top = _fields(root)
    parts.free_texts = {tag: node.raw for tag in FREE_TEXTS if (node := root.find(tag))}
    for name in PLAIN_BLOCKS:
        for block in below(root, name, 1)[0]:
            parts.top |= _fields(block)
    parts.platforms = _each(below(root, "alt_platform", MAX_PLATFORMS)[0])
    for tag in COPROC_TYPES:
        for node in in_list("coprocs", tag, MAX_COPROCS)[0] or ():
            parts.coprocs.append((tag, _fields(node.inner("coproc_opencl")) | _fields(node)))
    results, parts.results_truncated = below(root, "result", MAX_RESULTS)
    for node in results:
        files = list(node.all("file_info"))[:MAX_FILES_PER_RESULT]
        parts.results.append((_fields(node), _each(files)))
    parts.files = _each(list(root.all("file_info"))[:MAX_FILE_INFOS])
    trickles, parts.trickles_truncated = below(root, "msg_from_host", MAX_TRICKLES)
    parts.trickles = [node.raw for node in trickles]
    versions, _ = in_list("app_versions", "app_version", MAX_APP_VERSIONS)
    parts.app_versions = [(_fields(node), _fields(node.inner("coproc"))) for node in versions or ()]
    others, truncated = in_list("other_results", "other_result", MAX_OTHER_RESULTS)
    parts.other_results = _each(others) if others is not None else None
    # A repaired list may have lost entries, and a job that is not in it would be taken for lost.
    parts.others_truncated = truncated or bool(faults)
    parts.in_progress = _each(in_list("in_progress_results", "ip_result", MAX_OTHER_RESULTS)[0] or ())
    return parts


def _each(nodes: Iterable[Node]) -> list[Fields]:
    return [_fields(node) for node in nodes]


def _fields(node: Node) -> Fields:
    """Return the scalars directly below an element, in the form of `scan_fields`."""
    return {child.tag: _scalar(child) for child in node.children if not child.children}


def _scalar(node: Node) -> str:
    """Return an element's content: in a free text CDATA is a part of it, and ``<x/>`` means true for flags only."""
    if node.attributes == "/":
        return "1" if node.tag in _FLAGS else ""
    return node.text if node.cdata and node.tag not in _VERBATIM else node.raw
