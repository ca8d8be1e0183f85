"""The form of an app's jobs: the command with its placeholders, or the files of a native program.

The placeholders are those of the launcher: ``{input}``, ``{input:NAME}``, ``{inputs}``, ``{output}``,
``{output:NAME}``, ``{arg:NAME}``, ``{ncpus}``, ``{checkpoint_period}``, ``{gpu}``, ``{gpu_type}``; ``{{`` and ``}}`` stand
for braces.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cobblestone.domain.errors import JobError
from cobblestone.domain.texts import name_problem, same_file

#: Name of the input that ``{input}`` stands for.
DEFAULT_INPUT = "input"
#: Name of the output that ``{output}`` stands for, unless the app names its outputs itself.
DEFAULT_OUTPUT = "output"
MAX_NAME = 60
MAX_WORDS = 1000
MAX_COMMAND_LENGTH = 20_000

_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*")
_SUFFIX = re.compile(r"[A-Za-z0-9_]{1,12}")
_PACKED = ("gz", "bz2", "xz", "zst")
_NAMED = ("input", "output", "arg")
_NUMBERS = ("ncpus", "checkpoint_period", "gpu", "gpu_type")
_KNOWN = ("input", "input:NAME", "inputs", "output", "output:NAME", "arg:NAME", *_NUMBERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSlot:
    """A place for one input file of a job."""

    name: str
    open_name: str = ""  #: name in the program's folder; empty: ``name`` and the suffix of the given file
    copy_file: bool = True  #: a copy lies there; False: a link that only the BOINC API can follow
    sticky: bool = False  #: the client keeps it for further jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class JobForm:
    """The parts of an app's job."""

    command: tuple[str, ...] = ()  #: words with placeholders; empty: a native program
    stdout: str = ""  #: name of the output that receives what the command prints
    command_line: str = ""  #: options of a native program, before the job's own
    inputs: tuple[InputSlot, ...] = ()  #: what every job must have, in order

    @property
    def takes_any_inputs(self) -> bool:
        """Return whether a job may have further inputs of any name."""
        return "{inputs}" in self.command or not (self.command or self.inputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placeholders:
    """The placeholders of a command, each name once, in order."""

    inputs: tuple[str, ...] = ()  #: ``{input}`` counts as :data:`DEFAULT_INPUT`
    all_inputs: bool = False  #: ``{inputs}`` occurs
    outputs: tuple[str, ...] = ()  #: without the nameless ``{output}``
    nameless_output: bool = False  #: ``{output}`` occurs
    arguments: tuple[str, ...] = ()


def legal_name(name: str) -> bool:
    """Return whether the name is allowed for inputs, outputs and arguments, and so for files."""
    return len(name) <= MAX_NAME and _NAME.fullmatch(name) is not None and ".." not in name


def find_placeholders(words: Sequence[str]) -> Placeholders:
    """Return the placeholders of a command.

    Raises:
        JobError: one of them is unknown or misplaced, or a brace stands alone; the text shows the word.
    """
    if not words or not words[0].strip():
        raise JobError('The command is empty. Example: --command "python3 period.py {input} {output}"')
    if len(words) > MAX_WORDS or sum(map(len, words)) > MAX_COMMAND_LENGTH:
        raise JobError(
            f"The command is longer than {MAX_WORDS} words or {MAX_COMMAND_LENGTH} characters."
            " Put long lists into a file and include it with --files."
        )
    names: dict[str, dict[str, None]] = {kind: {} for kind in _NAMED}  # dict: a set that keeps the order
    all_inputs = nameless_output = False
    for word in words:
        for inside in _pieces(word):
            kind, colon, name = inside.partition(":")
            if inside == "inputs":
                if word != "{inputs}":
                    raise JobError(
                        f"In {word!r}: {{inputs}} becomes one word for each input, so it must stand alone."
                    )
                all_inputs = True
            elif inside == "input":
                names["input"][DEFAULT_INPUT] = None
            elif inside == "output":
                nameless_output = True
            elif colon and kind in _NAMED:
                if not legal_name(name):
                    raise JobError(
                        f"In {word!r}: the name {name!r} must be 1 to {MAX_NAME} letters, digits, _ - and ."
                    )
                if kind != "arg" and (problem := name_problem(name)):
                    raise JobError(f"In {word!r}: the name {name!r} {problem}. Choose another.")
                names[kind][name] = None
            elif inside not in _NUMBERS:
                raise JobError(_unknown(word, inside))
    return Placeholders(
        inputs=tuple(names["input"]),
        all_inputs=all_inputs,
        outputs=tuple(names["output"]),
        nameless_output=nameless_output,
        arguments=tuple(names["arg"]),
    )


def _pieces(word: str) -> Iterable[str]:
    for match in _PIECE.finditer(word):
        whole, inside = match.group(0), match.group(1)
        if whole in ("{{", "}}"):
            continue
        if inside is None:
            raise JobError(
                f"In {word!r}: a single {whole!r}. Write {whole * 2!r} if the program shall get a brace."
            )
        yield inside


def _unknown(word: str, inside: str) -> str:
    close = difflib.get_close_matches(inside.partition(":")[0], ["input", "inputs", "output", "arg"], n=1)
    hint = f"Did you mean {{{close[0]}{':NAME' if close[0] == 'arg' else ''}}}? " if close else ""
    known = ", ".join(f"{{{name}}}" for name in _KNOWN)
    return (
        f"In {word!r}: unknown placeholder {{{inside}}}. {hint}Known: {known}."
        " For a literal brace, write it twice."
    )


def output_names(found: Placeholders, declared: Sequence[str], *, stdout: str = "") -> tuple[str, ...]:
    """Return the names of the outputs of a command's jobs: the declared ones, then those only in the command.

    A nameless ``{output}`` stands for the first one.

    Raises:
        JobError: there is none, or a name cannot be used.
    """
    names = dict.fromkeys(declared)
    if found.nameless_output and not names:
        names[DEFAULT_OUTPUT] = None
    names.update(dict.fromkeys(found.outputs))
    if stdout:
        names[stdout] = None
    if not names:
        raise JobError(
            "The command has no {output}, so nothing would come back. Write {output} where the program"
            " expects the name of its output file; or name the file that it writes: --output result.csv;"
            " or keep what it prints: --stdout result.txt"
        )
    for name in names:
        if not legal_name(name):
            raise JobError(
                f"The output name {name!r} must be 1 to {MAX_NAME} letters, digits, '_', '-', '.',"
                " without folders."
            )
    return tuple(names)


def check_open_names(
    app_files: Sequence[str], form: JobForm, outputs: Sequence[str], reserved: Iterable[str]
) -> None:
    """Check that files of the app, inputs and outputs of its jobs do not collide in the program's folder.

    Raises:
        JobError: two would have the same name, on systems that do not tell capital letters from small ones either; one has a name
            that the runtime uses, or that Windows does not allow.
    """
    seen: dict[str, str] = dict.fromkeys(map(same_file, reserved), "is used by the launcher or the client")
    for name in app_files:
        if problem := name_problem(name) or seen.get(same_file(name)):
            raise JobError(f"The file name {name!r} {problem}. Rename the file.")
        seen[same_file(name)] = "is the name of one of the app's files"
    for name in outputs:
        if problem := name_problem(name) or seen.get(same_file(name)):
            raise JobError(f"The output name {name!r} {problem}. Name the output differently.")
        seen[same_file(name)] = "is the name of one of its outputs"
    for slot in form.inputs:
        clash = next((name for name in seen if _may_become(slot, name)), None)
        if clash is not None:
            raise JobError(
                f"The input {slot.name!r} may get the same name as {clash!r}, which {seen[clash]}."
                f" Name the placeholder differently, e.g. {{input:{slot.name.partition('.')[0]}_data}}."
            )


def _may_become(slot: InputSlot, name: str) -> bool:
    fixed = slot.open_name or (slot.name if "." in slot.name else "")
    return name == same_file(fixed) if fixed else name.partition(".")[0] == same_file(slot.name)


def open_name_for(slot: InputSlot, file_name: str) -> str:
    """Return the name under which the program finds a file given for a slot.

    Unless the slot fixes it, that is the slot's name with the suffix of the given file: many programs look at
    the suffix.
    """
    if slot.open_name or "." in slot.name:
        return slot.open_name or slot.name
    stem, dot, suffix = file_name.rpartition(".")
    if not stem or not _SUFFIX.fullmatch(suffix):
        return slot.name
    if suffix in _PACKED:
        inner = stem.rpartition(".")[2] if "." in stem[1:] else ""
        suffix = f"{inner}.{suffix}" if _SUFFIX.fullmatch(inner) else suffix
    return f"{slot.name}{dot}{suffix}"
