"""The way that is proposed for a program, and the sentence that says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from cobblestone.cli.work.program_options import ProgramOptions, complete, hint
from cobblestone.domain.errors import JobError
from cobblestone.sdk.packing.program_advice import Way, advise

EXAMPLES = Path(__file__).parents[2] / "examples"
ELF = b"\x7fELF\x02\x01\x01\0" + bytes(10) + b"\x3e\0" + bytes(100)


@pytest.mark.parametrize(
    ("name", "content", "way", "mentions"),
    [
        ("a.c", b"#include <stdio.h>\n# include \"own.h\"\n", Way.SOURCE, "every computer"),
        ("a.cpp", b"#include <thread>\n", Way.NATIVE, "thread (threads)"),
        ("a.c", b"#include <boinc_api.h>\n", Way.NATIVE, "the BOINC API"),
        ("a.c", b"#  include  <cuda_runtime.h>\n", Way.NATIVE, "a GPU"),
        ("a.py", b"import json, math\n", Way.PORTABLE, "plain Python: with --python a.py --portable, which"),
        ("a.py", b"import cobblestone_runtime\n", Way.PORTABLE, "plain Python"),
        ("a.py", b"import multiprocessing\n", Way.COMMAND, "imports multiprocessing, which Python in WebAssembly"),
        ("a.py", b"import msgspec\n", Way.BUNDLE, "imports msgspec, which holds compiled code (msgspec"),
        ("a.py", b"import click\n", Way.PORTABLE, "packages of pure Python (click)"),
        ("a.py", b"import never_heard_of\n", Way.BUNDLE, "is not installed here"),
        ("a.py", b"import msgspec\n", Way.BUNDLE, "along to every computer."),
        ("a.py", b"import msgspec, pwd, fcntl\n", Way.BUNDLE, "not to Windows, which has no fcntl, pwd."),
        ("a.py", b"try:\n    import numpy\nexcept ImportError:\n    pass\n", Way.PORTABLE, "plain Python"),
        ("a.wasm", b"\0asm\1\0\0\0", Way.MODULE, "a WebAssembly module"),
        ("a.rs", b"fn main() {}", Way.MODULE, "wasm32-wasip1"),
        ("a.sh", b"#!/bin/sh\n", Way.COMMAND, "Windows does not"),
        ("a", ELF, Way.COMMAND, "an executable for x86_64-pc-linux-gnu: no others"),
    ],
)  # fmt: skip
def test_each_program_has_its_way(tmp_path: Path, name: str, content: bytes, way: Way, mentions: str):
    (tmp_path / name).write_bytes(content)
    found = advise(tmp_path / name)
    assert found.way is way
    assert mentions in found.reason
    assert "\n" not in found.text
    if way is not Way.NATIVE:
        assert way in found.options


def test_what_volunteers_do_not_have_is_named(tmp_path: Path):
    (tmp_path / "a.R").write_text("x <- 1")
    found = advise(tmp_path / "a.R")
    assert found.way is Way.CONTAINER
    assert "needs R, which volunteers do not have" in found.reason
    assert '--container IMAGE.tar --command "Rscript a.R {input} {output}" --files a.R' in found.text


@pytest.mark.parametrize("content", [b"", b"text", b"\x7fELF" + b"\x01" * 40, b"\0" * 600])
def test_what_is_nothing_is_refused_with_the_ways_that_there_are(tmp_path: Path, content: bytes):
    (tmp_path / "a.dat").write_bytes(content)
    with pytest.raises(JobError, match="no BOINC client" if b"ELF" in content else "--command"):
        advise(tmp_path / "a.dat")
    with pytest.raises(FileNotFoundError):
        advise(tmp_path / "gone.py")


def test_the_examples_go_where_their_pages_say():
    assert advise(EXAMPLES / "wasm" / "orbits.c").way is Way.SOURCE
    assert advise(EXAMPLES / "sunspots" / "period.py").way is Way.PORTABLE
    assert advise(EXAMPLES / "native" / "gaps.c").way is Way.NATIVE


def completed(**options: object) -> tuple[ProgramOptions, list[str]]:
    said: list[str] = []
    return complete(ProgramOptions(**options), is_new=True, say=said.append), said  # type: ignore[arg-type]  # options


def test_the_way_is_taken_where_the_program_is_enough(tmp_path: Path):
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n")
    program, (reason,) = completed(program=script)
    assert (program.command, program.files) == ("./job.sh {input} {output}", [script])
    assert "Windows does not" in reason
    (tmp_path / "job.py").write_text("import msgspec\n")
    with pytest.raises(JobError, match=r"The program alone is not enough.*--bundle requirements\.txt"):
        completed(program=tmp_path / "job.py")
    (tmp_path / "job.py").write_text("import click\n")
    with pytest.raises(JobError, match=r"The program alone is not enough.*--portable --requirements req"):
        completed(program=tmp_path / "job.py")


def hinted(**options: object) -> list[str]:
    said: list[str] = []
    hint(ProgramOptions(**options), said.append)  # type: ignore[arg-type]  # options
    return said


def test_a_command_in_python_is_told_whom_it_does_not_reach(tmp_path: Path):
    script = tmp_path / "job.py"
    script.write_text("import json\n")
    command = "python3 job.py {input} {output}"
    (said,) = hinted(command=command, files=[script])
    assert said.startswith(
        "Computers without Python, such as most with Windows, get no jobs of this app. job.py is"
    )
    for more in ({"installed": ["numpy"]}, {"files": []}, {"command": "cat {input}"}, {"program": script}):
        assert hinted(**({"command": command, "files": [script]} | more)) == []
    script.write_text("import fcntl\n")
    assert hinted(command=command, files=[script]) == []
