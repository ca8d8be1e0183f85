"""Converts inputs of scientists (paths, bytes, objects, lists in files) to the jobs of a request, and stores their files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from numbers import Real
from pathlib import Path, PurePath
from threading import Lock
from typing import TypeVar, cast

import msgspec

from cobblestone.api_schema import endpoints
from cobblestone.api_schema.apps import FileQuery
from cobblestone.api_schema.batches import MAX_JOBS_PER_REQUEST, InputBody, JobBody
from cobblestone.api_schema.values import find_json_fault
from cobblestone.domain.errors import JobError
from cobblestone.domain.job_table import TableFault, decode_table, read_table
from cobblestone.sdk.api.connection import Connection

T = TypeVar("T")
#: Hears how many bytes of input files were sent, and how many there are to send; from several threads, one at a time.
Sending = Callable[[int, int], None]

UPLOADS_AT_A_TIME = 8
MAX_FILE_NAME = 200  # of a path, and a job named after it, the end is kept: it is there to tell jobs apart


@dataclass(frozen=True, slots=True)
class Content:
    """An input whose content is given directly instead of in a file.

    Attributes:
        data: The content.
        file_name: Its suffix is kept, since many programs look at it.

    >>> table = Content(b"[1,2]", "table.json")
    >>> next(project.submit("echo", [table]).results()).json()
    {'got': [1, 2]}
    """

    data: bytes
    file_name: str = ""


#: An input file: a path (text or Path), or the content itself.
Input = str | Path | bytes | Content


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job to be submitted, when a single input does not describe it.

    Attributes:
        inputs: One or several paths, bytes or :class:`Content`, in the app's order or by the names in its command.
        args: Values for ``{arg:NAME}`` in the command.
        name: Your own name for it; results and folders of outputs have it.
        command_line: Of a native program.
        priority: Jobs with a higher one are sent first.

    >>> job = Job(inputs={"input": b"7"}, name="seven")
    >>> for result in project.submit("echo", [job]).results():
    ...     print(result.name, result.json())
    seven {'got': 7}
    """

    inputs: Input | Sequence[Input] | Mapping[str, Input] = ()
    args: Mapping[str, object] = field(default_factory=dict[str, object])
    name: str = ""
    command_line: str = ""
    priority: int = 0


def content_of(value: object) -> Content:
    """Return an input with ``value``: bytes as they are, everything else as JSON text.

    Raises:
        JobError: it cannot be written as JSON, which has no NaN, for instance.
    """
    if isinstance(value, Content):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return Content(bytes(cast("bytes", value)))
    try:  # the encoder of msgspec writes null for NaN and infinity
        text = json.dumps(
            msgspec.to_builtins(value), allow_nan=False, ensure_ascii=False, separators=(",", ":")
        )
        return Content(text.encode(), "input.json")
    except (TypeError, ValueError, RecursionError) as error:
        raise JobError(
            f"An input of type {type(value).__name__} cannot be written as JSON: {error}."
        ) from error


def as_job(item: object, args: Mapping[str, object]) -> Job:
    """Return a job from a job, a path, bytes, or an object for JSON; ``args`` are defaults."""
    if isinstance(item, Job):
        return replace(item, args={**args, **item.args})
    if isinstance(item, str | PurePath):
        return Job(inputs=[Path(item)], args=args, name=Path(item).stem[-MAX_FILE_NAME:])
    return Job(inputs=[content_of(item)], args=args)


def in_chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of at most ``size`` items; items are taken only when needed."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


class FileSender:
    """Uploads input files, each content once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stored: set[str] = set()  # hashes that are known to be there
        self._hashes: dict[tuple[str, int, int], str] = {}

    def bodies(self, jobs: Sequence[Job], *, sending: Sending = lambda sent, total: None) -> list[JobBody]:
        """Return jobs as API bodies; their files are stored.

        Raises:
            JobError: a file cannot be read, or an argument is no text or number.
        """
        sources: dict[str, Path | bytes] = {}
        bodies = [self._body(job, sources) for job in jobs]
        self._upload(sources, sending)
        return bodies

    def _body(self, job: Job, sources: dict[str, Path | bytes]) -> JobBody:
        given = [job.inputs] if isinstance(job.inputs, str | PurePath | bytes | Content) else job.inputs
        pairs = list(given.items()) if isinstance(given, Mapping) else [("", each) for each in given]
        return JobBody(
            name=job.name,
            inputs=[self._input(name, each, sources) for name, each in pairs],
            args={name: _argument(name, value) for name, value in job.args.items()},
            command_line=job.command_line,
            priority=job.priority,
        )

    def _input(self, name: str, given: Input, sources: dict[str, Path | bytes]) -> InputBody:
        if not isinstance(given, str | PurePath):
            content = content_of(given)
            sha256 = hashlib.sha256(content.data).hexdigest()
            sources[sha256] = content.data
            return InputBody(file=f"jf_{sha256}", name=name, file_name=content.file_name)
        path = Path(given)
        sha256 = self._hash(path)
        sources[sha256] = path
        return InputBody(file=f"jf_{sha256}", name=name, file_name=str(given)[-MAX_FILE_NAME:])

    def _hash(self, path: Path) -> str:
        try:
            status = path.stat()
            key = (str(path), status.st_mtime_ns, status.st_size)
            if key not in self._hashes:
                with path.open("rb") as handle:
                    self._hashes[key] = hashlib.file_digest(handle, "sha256").hexdigest()
            return self._hashes[key]
        except OSError as error:
            raise JobError(f"The input file {path} cannot be read: {error.strerror}.") from error

    def _upload(self, sources: Mapping[str, Path | bytes], sending: Sending) -> None:
        unknown = [sha256 for sha256 in sources if sha256 not in self._stored]
        for part in in_chunks(unknown, MAX_JOBS_PER_REQUEST):
            names = {f"jf_{sha256}": sha256 for sha256 in part}
            found = self._connection.call(endpoints.QUERY_FILES, body=FileQuery(names=list(names)))
            missing = {names[name]: sources[names[name]] for name in found.missing}
            count = _Count(sum(map(_nbytes, missing.values())), sending)
            with ThreadPoolExecutor(UPLOADS_AT_A_TIME) as pool:
                uploads: list[Future[None]] = []
                for sha256, source in missing.items():
                    try:
                        uploads.append(pool.submit(self._put, sha256, source, count.add))
                    except RuntimeError:
                        # the program is at its end, where threads of a pool begin nothing more
                        self._put(sha256, source, count.add)
                try:
                    for upload in uploads:
                        upload.result()
                except BaseException:  # one failed, or Ctrl-C: the others end, too
                    pool.shutdown(wait=False, cancel_futures=True)
                    count.ended = True
                    raise
            self._stored.update(part)

    def _put(self, sha256: str, source: Path | bytes, sent: Callable[[int], None]) -> None:
        self._connection.put_file(sha256, source, sent=sent)


class _Count:
    """Counts bytes sent to the project by several threads."""

    def __init__(self, total: int, tell: Sending) -> None:
        self._total = total
        self._tell = tell
        self._sent = 0
        self._lock = Lock()
        self.ended = False

    def add(self, nbytes: int) -> None:
        if self.ended:
            raise JobError("The upload was given up.")
        with self._lock:
            self._sent += nbytes
            self._tell(self._sent, self._total)


def _nbytes(source: Path | bytes) -> int:
    return len(source) if isinstance(source, bytes) else source.stat().st_size


def _argument(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | Real):  # NumPy's numbers too
        return str(value)
    raise JobError(f"The argument {name!r} is a {type(value).__name__}; it must be a text or a number.")


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    """A line of a JSON lines file."""

    inputs: str | list[str] | dict[str, str] = msgspec.field(default_factory=list[str])
    args: dict[str, str | int | float | bool] = msgspec.field(
        default_factory=dict[str, str | int | float | bool]
    )
    name: str = ""
    priority: int = 0
    command_line: str = ""


def read_jobs(path: Path, *, input_names: Collection[str]) -> Iterator[Job]:
    """Yield the jobs of a ``.csv`` or ``.jsonl`` file; paths in it are relative to its folder.

    CSV: columns named as an input of the app (``input_names``), or ``input:NAME``, hold paths; ``name``, ``priority`` and
    ``command_line`` are those of the job; every other column is an argument.

    Raises:
        JobError: a line is wrong; the text names it.
        OSError: the file cannot be read.
    """
    reader = {".csv": _read_csv, ".jsonl": _read_json_lines}.get(path.suffix.lower())
    if reader is None:
        raise JobError(f"--jobs {path}: the file must end in .csv or .jsonl.")
    yield from reader(path, input_names)


def _read_csv(path: Path, input_names: Collection[str]) -> Iterator[Job]:
    try:
        for row in read_table(decode_table(path.read_bytes()), input_names):
            if isinstance(row, TableFault):
                raise row
            if row.empty:
                continue
            inputs: dict[str, Input] = {name: path.parent / given for name, given in row.inputs.items()}
            yield Job(
                inputs=inputs,
                args=row.args,
                name=row.name or _stem(inputs),
                priority=row.priority,
                command_line=row.command_line,
            )
    except TableFault as fault:
        raise JobError(f"{path}, {fault}") from fault


def _read_json_lines(path: Path, input_names: Collection[str]) -> Iterator[Job]:
    with path.open("rb") as handle:
        for number, text in enumerate(handle, start=1):
            if not text.strip():
                continue
            try:
                line = msgspec.json.decode(text, type=_Line)
            except msgspec.ValidationError as error:
                fault = find_json_fault(error, text, _Line)
                raise JobError(f"{path}, line {number}: {fault.message}") from error
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise JobError(f"{path}, line {number}: {error}.") from error
            yield _line_job(path, line)


def _line_job(path: Path, line: _Line) -> Job:
    inputs: list[Input] | dict[str, Input]
    match line.inputs:
        case str(one):
            inputs = [path.parent / one]
        case list(several):
            inputs = [path.parent / each for each in several]
        case named:
            inputs = {name: path.parent / each for name, each in named.items()}
    return Job(
        inputs=inputs,
        args=cast("Mapping[str, object]", line.args),
        name=line.name or _stem(inputs),
        priority=line.priority,
        command_line=line.command_line,
    )


def _stem(inputs: Mapping[str, Input] | list[Input]) -> str:
    values = list(inputs.values()) if isinstance(inputs, Mapping) else inputs
    return values[0].stem[-MAX_FILE_NAME:] if len(values) == 1 and isinstance(values[0], Path) else ""
