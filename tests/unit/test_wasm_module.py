"""A module that volunteers' computers could not run is refused before anything is sent, with words that help."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
import wasmtime
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.wasm_slot import COPY

from cobblestone.domain.errors import ConfigError, JobError
from cobblestone.launcher.packing import HEADER, NATIVE_FOLDER, SOURCES, wasm_description
from cobblestone.sdk.packing.app_package import split_command
from cobblestone.sdk.packing.wasm_package import WasmCommand, compile_source
from cobblestone.sdk.wasm import toolchain
from cobblestone.sdk.wasm.module import check_module, read_face

START = '(memory (export "memory") 1) (func (export "_start"))'


def compiled(text: str) -> bytes:
    return bytes(wasmtime.wat2wasm(f"(module {text})"))


def test_a_program_passes_and_its_face_is_read():
    check_module(COPY, "copy.wasm")
    face = read_face(COPY)
    assert ("wasi_snapshot_preview1", "path_open", "function") in face.imports
    assert face.exports == (("memory", "memory"), ("_start", "function"))


@pytest.mark.parametrize(
    ("data", "mentions"),
    [
        (b"", "is not a WebAssembly module"),
        (b"\x7fELF", "is not a WebAssembly module"),
        (b"\0asm\x0d\0\1\0", "is a WebAssembly component"),
        (b"\0asm\2\0\0\0", "of an unknown version"),
        (COPY[:100], "not a whole WebAssembly module"),
        (compiled('(import "env" "cos" (func)) ' + START), "needs env.cos, which is not part of WASI"),
        (compiled('(import "wasi" "thread-spawn" (func)) ' + START), "uses threads"),
        (compiled('(import "env" "memory" (memory 1)) (func (export "_start"))'), "env.memory"),
        (compiled('(import "wasi_unstable" "fd_write" (func)) ' + START), "an older WASI"),
        (compiled('(import "wasi_snapshot_preview1" "fd_dance" (func)) ' + START), "preview1.fd_dance"),
        (compiled('(import "wbg" "__wbindgen_x" (func)) ' + START), "made for a browser"),
        (
            compiled('(import "env" "t" (table 1 funcref)) (import "env" "g" (global i32)) ' + START),
            "env.t, env.g",
        ),
        (compiled('(memory (export "memory") 1) (func (export "run"))'), "has no function _start"),
        (compiled('(memory 1) (func (export "_start"))'), "does not export its memory"),
    ],
)
def test_what_cannot_be_run_is_refused(data: bytes, mentions: str):
    with pytest.raises(JobError, match="wasm") as raised:
        check_module(data, "x.wasm")
    assert mentions in str(raised.value)
    assert "--source program.c" in str(raised.value) or "whole" in mentions


@given(st.binary(max_size=200), st.integers(0, len(COPY)))
def test_any_bytes_are_a_module_or_a_reason(data: bytes, cut: int):
    for each in (b"\0asm\1\0\0\0" + data, COPY[:cut] + data):
        try:
            check_module(each, "x")
        except JobError:
            continue


def command(tmp_path: Path, text: str, **more: object) -> WasmCommand:
    (tmp_path / "program.wasm").write_bytes(COPY)
    return WasmCommand(words=split_command(text), module=tmp_path / "program.wasm", **more)  # type: ignore[arg-type]  # fields that exist


def test_a_good_command_passes(tmp_path: Path):
    command(tmp_path, "program {input} {output}").check()
    command(tmp_path, "program.wasm {input}", stdout="out.txt").check()


@pytest.mark.parametrize(
    ("text", "more", "mentions"),
    [
        ("other {input} {output}", {}, "the module is called program.wasm"),
        ("program {input}", {}, "no {output}"),
        ("program {inptu} {output}", {}, "Did you mean {input}"),
        ("program {output}", {"outputs": ["job_files"]}, "is used by the launcher"),
        ("program {output}", {"platforms": ["sparc-sun-solaris"]}, "--platform sparc-sun-solaris"),
        ("program {output}", {"files": [Path("gone.txt")]}, "gone.txt does not exist"),
    ],
)
def test_mistakes_are_found_before_anything_is_sent(
    tmp_path: Path, text: str, more: dict[str, object], mentions: str
):
    with pytest.raises(JobError) as raised:
        command(tmp_path, text, **more).check()
    assert mentions in str(raised.value)


def test_the_description_quotes_what_would_end_a_line_or_a_word():
    text = wasm_description(
        ["p", "a b\nmodule x", "{arg:ü}"],
        module="p.wasm",
        module_sha256="12",
        native_sha256=["34"],
        files={"data 1": b""},
        environment={"A": "x\ny"},
    ).decode()
    assert "module p.wasm 12\nnative 34\ncheckpoint 50000000000\n" in text
    assert "word a%20b%0Amodule%20x\n" in text
    assert "word {arg:%C3%BC}\n" in text
    assert f"file data%201 {hashlib.sha256(b'').hexdigest()}\n" in text
    assert "set A=x%0Ay\n" in text


def test_the_first_compilation_says_what_takes_so_long_and_for_how_long_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    said: list[str] = []
    told_again = threading.Event()

    def say(text: str) -> None:
        said.append(text)
        if text.endswith(" s …"):
            told_again.set()

    def compile_slowly(words: Sequence[str], folder: Path, what: str) -> None:
        assert told_again.wait(30)

    monkeypatch.setattr(toolchain, "_TELL_SECONDS", 0.01)
    monkeypatch.setattr(toolchain, "zig", lambda say: ["zig"])
    monkeypatch.setattr(toolchain, "run_compiler", compile_slowly)
    (tmp_path / "period.c").write_text("int main(void) { return 0; }")
    compile_source([tmp_path / "period.c"], say=say)
    assert re.fullmatch(r"Compiling period\.wasm \(the first time .*\) …", said[0])
    assert re.fullmatch(r"Compiling period\.wasm .*: \d+ s …", said[1])
    assert said[-1].startswith("Compiled period.wasm: zig cc")


# ------------------------------------------------------------------------------------------ the launcher


def test_the_hashes_are_those_of_these_sources():
    """Whoever changes the launcher runs ``make launchers``, which compiles it for all platforms."""
    sums = toolchain.expected_hashes()
    for name in (*SOURCES, HEADER, "wheels.txt"):
        assert sums[f"native/{name}"] == hashlib.sha256((NATIVE_FOLDER / name).read_bytes()).hexdigest(), name
    for platform in toolchain.TARGETS:
        assert {toolchain.launcher_name(platform), toolchain.library_name(platform)} <= set(sums)


def test_the_launcher_stays_small():
    lines = [line for name in (*SOURCES, HEADER) for line in (NATIVE_FOLDER / name).read_text().splitlines()]
    assert sum(bool(line.strip()) for line in lines) < 2500


def test_a_distribution_brings_launchers_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COBBLESTONE_LAUNCHERS", str(tmp_path))
    (tmp_path / "cobblestone_launcher_windows_arm64.exe").write_bytes(b"own")
    assert toolchain.launcher("windows_arm64") == b"own"
    with pytest.raises(ConfigError, match=r"COBBLESTONE_LAUNCHERS is .* cannot be read: No such file"):
        toolchain.launcher("windows_x86_64")


def test_a_launcher_with_other_bytes_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(toolchain, "compile_launcher", lambda platform, say: b"strange")
    with pytest.raises(ConfigError, match="Nothing was uploaded"):
        toolchain.launcher("windows_arm64")
    assert not list(tmp_path.rglob("*.exe"))


def test_a_spoilt_file_of_the_cache_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    name = toolchain.library_name("x86_64-pc-linux-gnu")
    path = tmp_path / "cobblestone" / "wasm" / toolchain.expected_hashes()[name][:16] / name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"spoilt")
    data = toolchain.library("x86_64-pc-linux-gnu")
    assert path.read_bytes() == data
    assert len(data) > 1_000_000


def test_a_wheel_that_is_not_named_is_not_fetched(tmp_path: Path):
    with pytest.raises(ConfigError, match="does not name numpy"):
        toolchain.fetch_wheel("numpy", tmp_path)
