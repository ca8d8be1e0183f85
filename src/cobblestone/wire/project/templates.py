"""Reads BOINC's input and output (result) templates, for people who migrate jobs from BOINC.

Source: BOINC's wiki page on job submission; ``tools/process_input_template.cpp`` and
``process_result_template.cpp`` (facts only).  A template is a text that a person wrote, so it is read strictly, and
each error names the line.  An unknown element is ignored, as in BOINC, but with a warning: it may be a misspelt limit.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields, replace

from lxml import etree

from cobblestone.domain.errors import JobError
from cobblestone.wire.project.upload import legal_file_name
from cobblestone.wire.text.reader import Element, safe_parser

MAX_TEMPLATE_CHARS = 64 * 1024
MAX_FILES = 1024


class BadTemplate(JobError):
    """A job template cannot be used."""

    def __init__(self, message: str, *, source: str, line: int) -> None:
        super().__init__(f"{source}, line {line}: {message}")
        self.source = source
        self.line = line


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateInputFile:
    """An input file slot of an input template, with the reference that names it for the program."""

    number: int
    open_name: str
    sticky: bool = False
    no_delete: bool = False
    gzip: bool = False
    executable: bool = False
    copy_file: bool = False
    optional: bool = False
    physical_name: str = ""  #: not empty: the same file for every job
    urls: tuple[str, ...] = ()  #: not empty: the file lies on another server
    md5_cksum: str = ""
    nbytes: int = 0
    gzipped_nbytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTemplate:
    """An input template; None means "not given, use the app's default"."""

    files: tuple[TemplateInputFile, ...] = ()  #: by number
    command_line: str = ""
    rsc_fpops_est: float | None = None
    rsc_fpops_bound: float | None = None
    rsc_memory_bound: float | None = None
    rsc_disk_bound: float | None = None
    delay_bound: float | None = None
    min_quorum: int | None = None
    target_nresults: int | None = None
    max_error_results: int | None = None
    max_total_results: int | None = None
    max_success_results: int | None = None
    priority: int | None = None
    batch: int | None = None
    size_class: int | None = None
    rsc_bandwidth_bound: float | None = None
    credit: float | None = None  #: of each job
    warnings: tuple[str, ...] = ()  #: elements that are ignored, with their lines


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateOutputFile:
    """An output file of an output template."""

    number: int  #: of ``<OUTFILE_n/>``
    open_name: str
    max_nbytes: int
    copy_file: bool = False
    optional: bool = False
    gzip_when_done: bool = False
    sticky: bool = False
    no_delete: bool = False
    no_validate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTemplate:
    """An output (result) template."""

    files: tuple[TemplateOutputFile, ...] = ()  #: in the order of the result's references
    report_immediately: bool = False
    warnings: tuple[str, ...] = ()


# -- reading --------------------------------------------------------------------------------------------

_INPUT_FLAGS = ("sticky", "no_delete", "gzip", "executable")
_INPUT_SCALARS = ("number", "physical_name", "url", "md5_cksum", "nbytes", "gzipped_nbytes")
_INPUT_REF_FLAGS = ("copy_file", "optional")
_NUMBERS = ("rsc_fpops_est", "rsc_fpops_bound", "rsc_memory_bound", "rsc_disk_bound", "delay_bound")
_INTEGERS = tuple(each.name for each in fields(InputTemplate) if each.type == "int | None")
_AMOUNTS = ("credit", "rsc_bandwidth_bound")
#: Elements of a workunit that mean something in BOINC and nothing here.
_NO_EFFECT = ("app_version_num", "keywords")
_NO_LONGER_USED = ("report_on_rpc", "generated_locally", "upload_when_present")
_OUTPUT_FLAGS = ("gzip_when_done", "sticky", "no_delete")
_OUTPUT_REF_FLAGS = ("copy_file", "optional", "no_validate")
_OUTFILE = re.compile(r"\s*<OUTFILE_(\d{1,4})\s*/>\s*")


def parse_input_template(text: str, *, source: str = "input template") -> InputTemplate:
    """Read an input template.  Raises BadTemplate; ``source`` (a file name) is in its message."""
    template = _Template(text, "input_template", source)
    files, workunit = template.parts("workunit")
    by_number: dict[int, Element] = {}
    for place, file in enumerate(files):
        fields = template.fields(file, (*_INPUT_SCALARS, *_INPUT_FLAGS), repeated=("url",))
        number = template.integer(fields["number"]) if "number" in fields else place
        if number in by_number:
            raise template.error(file, f"input file {number} is described twice")
        by_number[number] = file
    if sorted(by_number) != list(range(len(by_number))):
        raise template.error(
            workunit, f"the input files are numbered {sorted(by_number)}, not 0, 1, 2 and so on"
        )
    fields = template.fields(
        workunit, ("command_line", *_NUMBERS, *_INTEGERS, *_AMOUNTS, "file_ref"), repeated=("file_ref",)
    )
    left = dict(by_number)
    read = [
        _input_file(template, place, ref, by_number, left)
        for place, ref in enumerate(workunit.iterchildren("file_ref"))
    ]
    for number, file in left.items():
        raise template.error(file, f"no <file_ref> in the <workunit> uses input file {number}")
    made = InputTemplate(
        files=tuple(sorted(read, key=lambda file: file.number)),
        command_line=template.text(fields["command_line"], may_be_empty=True)
        if "command_line" in fields
        else "",
        warnings=tuple(template.warnings),
        **{name: template.number(fields[name]) for name in _NUMBERS if name in fields},
        **{name: template.integer(fields[name]) for name in _INTEGERS if name in fields},
    )
    amounts = {name: template.number(fields[name], zero=True) for name in _AMOUNTS if name in fields}
    return replace(made, **amounts)


def _input_file(
    template: _Template, place: int, ref: Element, files: dict[int, Element], left: dict[int, Element]
) -> TemplateInputFile:
    fields = template.fields(ref, ("file_number", "open_name", *_INPUT_REF_FLAGS))
    number = template.integer(fields["file_number"]) if "file_number" in fields else place
    if number not in files:
        raise template.error(ref, f"this <file_ref> uses input file {number}, which no <file_info> describes")
    file = left.pop(number, None)
    if file is None:
        raise template.error(ref, "two <file_ref>s use the same input file")
    described = template.fields(file, (*_INPUT_SCALARS, *_INPUT_FLAGS), repeated=("url",))
    remote = [name for name in ("url", "md5_cksum", "nbytes") if name in described]
    if 0 < len(remote) < 3:
        raise template.error(
            file, "a file on another server needs <url>, <md5_cksum> and <nbytes>, all three"
        )
    flags = {name: template.flag(fields.get(name)) for name in _INPUT_REF_FLAGS}
    flags |= {name: template.flag(described.get(name)) for name in _INPUT_FLAGS}
    return TemplateInputFile(
        number=number,
        open_name=template.open_name(ref, fields),
        physical_name=template.file_name(described["physical_name"]) if "physical_name" in described else "",
        urls=tuple(template.text(url) for url in file.iterchildren("url")),
        md5_cksum=template.md5(described["md5_cksum"]) if remote else "",
        nbytes=template.integer(described["nbytes"]) if remote else 0,
        gzipped_nbytes=template.integer(described["gzipped_nbytes"]) if "gzipped_nbytes" in described else 0,
        **flags,
    )


def parse_output_template(text: str, *, source: str = "output template") -> OutputTemplate:
    """Read an output (result) template.  Raises BadTemplate; ``source`` is in its message."""
    template = _Template(text, "output_template", source)
    files, result = template.parts("result")
    described: dict[int, dict[str, Element]] = {}
    for file in files:
        fields = template.fields(file, ("name", "max_nbytes", "url", *_OUTPUT_FLAGS), repeated=("url",))
        number = template.outfile(file, fields.get("name"), "name")
        if number in described:
            raise template.error(file, f"<OUTFILE_{number}/> is described twice")
        if "max_nbytes" not in fields:
            raise template.error(
                file, f"<OUTFILE_{number}/> has no <max_nbytes>: give its largest size in bytes"
            )
        described[number] = fields
    fields = template.fields(result, ("file_ref", "report_immediately"), repeated=("file_ref",))
    read = [_output_file(template, ref, described) for ref in result.iterchildren("file_ref")]
    unused = sorted(set(described) - {file.number for file in read})
    if unused:
        raise template.error(result, f"no <file_ref> in the <result> uses <OUTFILE_{unused[0]}/>")
    if len(described) < len(read):
        raise template.error(result, "two <file_ref>s use the same output file")
    return OutputTemplate(
        files=tuple(read),
        report_immediately=template.flag(fields.get("report_immediately")),
        warnings=tuple(template.warnings),
    )


def _output_file(
    template: _Template, ref: Element, described: dict[int, dict[str, Element]]
) -> TemplateOutputFile:
    fields = template.fields(ref, ("file_name", "open_name", *_OUTPUT_REF_FLAGS))
    number = template.outfile(ref, fields.get("file_name"), "file_name")
    if number not in described:
        raise template.error(ref, f"this <file_ref> uses <OUTFILE_{number}/>, which no <file_info> describes")
    file = described[number]
    flags = {name: template.flag(fields.get(name)) for name in _OUTPUT_REF_FLAGS}
    flags |= {name: template.flag(file.get(name)) for name in _OUTPUT_FLAGS}
    return TemplateOutputFile(
        number=number,
        open_name=template.open_name(ref, fields),
        max_nbytes=template.integer(file["max_nbytes"]),
        **flags,
    )


class _Template:
    """A template's tree, with conversions that report the line of every error."""

    def __init__(self, text: str, root: str, source: str) -> None:
        self.source = source
        self.warnings: dict[str, None] = {}  # in order, each once
        if len(text) > MAX_TEMPLATE_CHARS:
            raise BadTemplate(f"more than {MAX_TEMPLATE_CHARS} characters", source=source, line=1)
        if "<!DOCTYPE" in text or "<!ENTITY" in text:
            raise BadTemplate("document types and entities are not accepted", source=source, line=1)
        # Old templates have no root; white space keeps the line numbers when the declaration goes.
        body = re.sub(r"<\?xml[^<>]{0,200}\?>", "", text, count=1)
        if f"<{root}" not in body:
            body = f"<{root}>{body}</{root}>"
        parser = safe_parser(encoding="utf-8")
        try:
            self.root: Element = etree.fromstring(body.strip(" \t\r").encode("utf-8", "replace"), parser)
        except etree.XMLSyntaxError as error:
            line = error.lineno or 1
            raise BadTemplate(f"this is not well-formed XML: {error.msg}", source=source, line=line) from None
        if self.root.tag != root:
            raise self.error(self.root, f"the outermost element is <{self.root.tag}>, expected <{root}>")

    def error(self, element: Element, message: str) -> BadTemplate:
        return BadTemplate(message, source=self.source, line=element.sourceline or 1)

    def ignore(self, element: Element, why: str) -> None:
        self.warnings[f"{self.source}, line {element.sourceline or 1}: <{element.tag}> {why}"] = None

    def parts(self, main: str) -> tuple[list[Element], Element]:
        """Return the ``<file_info>`` elements and the one main element."""
        files: list[Element] = []
        found: list[Element] = []
        for element in self.root:
            if element.tag == "file_info":
                files.append(element)
            elif element.tag == main:
                found.append(element)
            else:
                self.ignore(element, f"is ignored: expected <file_info>s and one <{main}>")
        if len(files) > MAX_FILES:
            raise self.error(files[MAX_FILES], f"more than {MAX_FILES} files")
        if not found:
            raise self.error(self.root, f"there is no <{main}>")
        if len(found) > 1:
            raise self.error(found[1], f"expected <file_info>s and one <{main}>")
        return files, found[0]

    def fields(
        self, element: Element, allowed: Collection[str], repeated: Iterable[str] = ()
    ) -> dict[str, Element]:
        """Return the known child elements by name, each once unless it may be repeated; others are ignored with a warning."""
        fields: dict[str, Element] = {}
        for child in element:
            name = str(child.tag)
            if name not in allowed:
                if name in _NO_EFFECT:
                    self.ignore(child, "has no effect here")
                elif name not in _NO_LONGER_USED:
                    names = ", ".join(sorted(f"<{name}>" for name in allowed))
                    self.ignore(child, f"is not known in <{element.tag}>, and ignored; known are {names}")
                continue
            if name in fields and name not in repeated:
                raise self.error(child, f"<{name}> stands twice in <{element.tag}>")
            fields[name] = child
        return fields

    def text(self, element: Element, *, may_be_empty: bool = False) -> str:
        if len(element):
            raise self.error(element, f"<{element.tag}> must hold a text, not elements")
        text = (element.text or "").strip()
        if not text and not may_be_empty:
            raise self.error(element, f"<{element.tag}> is empty")
        return text

    def number(self, element: Element, *, zero: bool = False) -> float:
        text = self.text(element)
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not 0 <= number < 1e30 or (not number and not zero):
            raise self.error(
                element, f"<{element.tag}> is {text!r}: give a number {'from 0 on' if zero else 'above 0'}"
            )
        return number

    def integer(self, element: Element) -> int:
        text = self.text(element)
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not 0 <= number < 2**53 or number != int(number):
            raise self.error(element, f"<{element.tag}> is {text!r}: give a whole number, 0 or more")
        return int(number)

    def flag(self, element: Element | None) -> bool:
        if element is None:
            return False
        text = self.text(element, may_be_empty=True)
        if text not in ("", "0", "1"):
            raise self.error(element, f"<{element.tag}> is {text!r}: write <{element.tag}/>, or 0 or 1")
        return text != "0"

    def file_name(self, element: Element) -> str:
        name = self.text(element)
        if not legal_file_name(name):
            raise self.error(
                element, f"{name!r} is not a file name: use up to 255 letters, digits and - _ . ~"
            )
        return name

    def md5(self, element: Element) -> str:
        text = self.text(element).lower()
        if not re.fullmatch(r"[0-9a-f]{32}", text):
            raise self.error(element, f"{text!r} is no MD5 of 32 hexadecimal digits")
        return text

    def open_name(self, ref: Element, fields: dict[str, Element]) -> str:
        if "open_name" not in fields:
            raise self.error(
                ref, "this <file_ref> has no <open_name>: the name by which the program opens the file"
            )
        name = self.text(fields["open_name"])
        if len(name) > 255 or name.startswith("/") or ".." in name.split("/"):
            raise self.error(fields["open_name"], f"{name!r} does not lie in the program's working directory")
        return name

    def outfile(self, parent: Element, element: Element | None, tag: str) -> int:
        """Return the number n of ``<OUTFILE_n/>`` in a name."""
        inner = (
            "" if element is None else "".join(etree.tostring(child, encoding="unicode") for child in element)
        )
        match = _OUTFILE.fullmatch(inner)
        if element is None or match is None or (element.text or "").strip():
            raise self.error(
                parent if element is None else element, f"<{tag}> must be <OUTFILE_0/>, <OUTFILE_1/> ..."
            )
        return int(match[1])
