#!/bin/sh
""":"
# length: one file on purpose, since it is sent to volunteers' computers as it is.
# The shell reads these lines, Python takes them for a string: so it starts wherever Python is.
for python in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9 python3.8 python; do
  if "$python" -c "import sys; sys.exit(sys.version_info < (3, 6))" >/dev/null 2>&1; then
    exec "$python" -I "$0" "$@"
  fi
done
echo "cobblestone: no Python 3.6 or newer on the PATH of this computer; this app needs python3." >&2
exit 195

Run a plain command as a job of the BOINC client, and give the command progress, checkpoints and trickles.

This one file has two roles.  It runs on volunteers' computers, so it needs nothing but Python 3.6.

1. Launcher
-----------

Sent along with an app version as its main program.  It reads the (signed) app description
``cobblestone_app.json`` in the slot, takes the job's options from its command line, starts the command and
translates between it and the client: progress, CPU time, suspend, resume, quit, abort, exit status, error
output.  The options, with VALUE and OPEN_NAME percent-encoded::

    --input NAME=OPEN_NAME  --output NAME=OPEN_NAME  --arg NAME=VALUE

The app description is a JSON object; unknown keys are refused:

``command``
    List of words, required.  ``python3`` as first word is the interpreter that runs this launcher; a first
    word that is the name of a file in the slot is that program.  In each word: ``{input}`` (the first input),
    ``{input:NAME}``, ``{output}``, ``{output:NAME}``, ``{arg:NAME}``, ``{ncpus}``, ``{checkpoint_period}``
    (seconds), ``{gpu}`` (number of the job's GPU among those of its vendor, 0 without one), ``{gpu_type}``
    (``NVIDIA``, ``ATI``, ``intel_gpu``; empty without one), ``{{`` and ``}}`` for braces.  ``{inputs}`` as a
    whole word becomes one word for each input.  A command without ``{gpu}`` sees only the job's own GPU
    (``CUDA_VISIBLE_DEVICES``, ``HIP_VISIBLE_DEVICES`` or ``ZE_AFFINITY_MASK``), as number 0.
``files``
    Object: open name of each of the app's own files -> its SHA-256 in hexadecimal, or null.
``stdout``
    Open name of the output that receives the command's standard output; may be ``{output:NAME}``.
``optional_outputs``
    List of names of outputs that may be missing.
``environment``
    Object: variables for the command.  Under a client ``HOME``, ``TMPDIR`` and the folders of caches are in the slot.
``enforce_memory``, ``enforce_disk``
    True: end the job when its processes' resident size, or the files in the slot, exceed the job's bound.
``quit_grace_seconds``
    Time for a last checkpoint after SIGTERM, default 8, at most 30; on a GPU at most 3, since others need its memory.
``container``
    Object with ``image`` and ``sha256``: the command runs in a container of that image, which Podman or Docker loads from the
    archive ``cobblestone_container`` if that has this SHA-256.  It sees the slot as ``/work`` and has no network.

Exit status: that of the command; 128 + n if signal n ended it; 194 aborted; 195 no Python; 196 and 198 disk
and memory bound; 206 the job cannot be started as described; 208 an output is missing or a link.  A command killed by
KILL or TERM from outside is started again by the client, at most three times without a checkpoint in between.

Without a client (no ``init_data.xml`` here) the command is simply run and watched; so a scientist
tests an app::

    python3 cobblestone_runtime.py --input main=in.json --output main=out.json
    python3 cobblestone_runtime.py -- python3 period.py in.json out.json

2. Runtime library
------------------

A Python app may ``import cobblestone_runtime``: the launcher puts a copy beside the app's files.  All
functions work without a launcher, too::

    cobblestone_runtime.progress(0.4)
    if cobblestone_runtime.time_to_checkpoint():
        save_state()  # under a temporary name, then os.replace()
        cobblestone_runtime.checkpoint()

A program in another language does the same with files in the folder that ``COBBLESTONE_FOLDER`` names, each
written under a temporary name and then renamed: ``cobblestone_progress`` (the fraction as text),
``cobblestone_checkpoint`` (any text that differs from the last one), ``cobblestone_upload_NAME`` (empty: the
output of this file name is finished and to be uploaded now; it becomes ``cobblestone_uploaded_NAME``).
"""

import glob
import hashlib
import html
import json
import mmap
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
from typing import IO, Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Union, cast

try:
    import fcntl
except ImportError:  # Windows: no lock, no signals; the command still runs
    fcntl = None

__all__ = [
    "checkpoint",
    "checkpoint_period",
    "job_info",
    "progress",
    "receive_trickles",
    "time_to_checkpoint",
    "trickle",
    "upload_now",
    "uploaded",
]

APP_FILE = "cobblestone_app.json"
HOME_FOLDER = "cobblestone_home"
GPU_VARIABLES = {
    "NVIDIA": "CUDA_VISIBLE_DEVICES",
    "ATI": "HIP_VISIBLE_DEVICES",
    "intel_gpu": "ZE_AFFINITY_MASK",
}
RUNTIME_FILE = "cobblestone_runtime.py"
FOLDER_VARIABLE = "COBBLESTONE_FOLDER"
ARGUMENTS_VARIABLE = "COBBLESTONE_ARGUMENTS"
SLOT_VARIABLE = "COBBLESTONE_SLOT"
PROGRESS_FILE = "cobblestone_progress"
CHECKPOINT_FILE = "cobblestone_checkpoint"
MAKES_CHECKPOINTS_FILE = "cobblestone_checkpoints"
TIME_TO_CHECKPOINT_FILE = "cobblestone_time_to_checkpoint"
JOB_FILE = "cobblestone_job.json"
STATE_FILE = "cobblestone_state.json"
TRICKLE_UP_PREFIX = "cobblestone_trickle_up_"
TRICKLE_DOWN_PREFIX = "trickle_down_"
UPLOAD_PREFIX = "cobblestone_upload_"
UPLOADED_PREFIX = "cobblestone_uploaded_"
STDOUT_FILE = "stdout.txt"
STDERR_FILE = "command_stderr.txt"
IMAGE_FILE = "cobblestone_container"
IMAGE_REPOSITORY = "localhost/cobblestone"
WORK_FOLDER = "/work"

#: Seconds between two permitted checkpoints when no one says otherwise; the family's usual value.
DEFAULT_CHECKPOINT_PERIOD = 300.0
MAX_TRICKLE_BYTES = 60000
MAX_TEXT_FILE_BYTES = 1 << 20
#: The client reports the last 63 KB of error output; the launcher's own sentences need the rest.
STDERR_TAIL_BYTES = 60000

POLL_SECONDS = 0.1
STATUS_SECONDS = 1.0
WATCH_SECONDS = 2.0
DISK_SECONDS = 10.0
LOCK_WAIT_SECONDS = 35.0
LOCK_RETRY_SECONDS = 60
TRICKLE_WAIT_SECONDS = 10.0
MAX_QUIT_SECONDS = 30.0
QUIT_SECONDS_ON_GPU = 3.0
MAX_RESTARTS = 3

EXIT_ABORTED = 194
EXIT_DISK_BOUND = 196
EXIT_MEMORY_BOUND = 198
EXIT_BAD_DESCRIPTION = 206
EXIT_OUTPUT_MISSING = 208

POSIX = os.name == "posix"
REPLACE_TRIES = 500  # a hundredth of a second each
HAS_PROC = sys.platform.startswith("linux") and os.path.isdir("/proc/self")


def _write_atomically(path: str, data: Union[str, bytes]) -> None:
    """Replace a file in one step, since the other side may read it at any moment."""
    temporary = "%s.%d.tmp" % (path, os.getpid())
    _remove(temporary)
    with open(temporary, "xb") as file:  # not through a link that somebody else puts there
        file.write(data.encode("utf-8") if isinstance(data, str) else data)
    for left in range(0 if POSIX else REPLACE_TRIES, -1, -1):
        try:
            os.replace(temporary, path)
            return
        except PermissionError:  # on Windows: the other side, or a virus scanner, reads it at this moment
            if not left:
                raise
        time.sleep(0.01)


def _read_text(path: str) -> str:
    """Read a small text file; an absent or unreadable one is empty."""
    try:
        with open(path, "rb") as file:
            return file.read(MAX_TEXT_FILE_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _read_object(path: str) -> Dict[str, Any]:  # Any: JSON
    """Read a small JSON object; anything else is an empty one (a power cut may leave an empty file)."""
    try:
        value = json.loads(_read_text(path))
    except ValueError:
        return {}
    return cast("Dict[str, Any]", value) if isinstance(value, dict) else {}


# ------------------------------------------------------------------------------------------ runtime library


class _AppSide:
    """What an app calls; speaks to the launcher through small files."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.process = os.getpid()
        self.last_checkpoint = time.monotonic()
        self.last_progress = 0.0
        self.period = DEFAULT_CHECKPOINT_PERIOD
        self.period_read = 0.0
        self.counter = 0
        self.watching = False
        self.quitting = False

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def progress(self, fraction: float) -> None:
        """Tell which fraction (0 to 1) of the job is done.  Cheap: call it as often as you like."""
        value = float(fraction)
        if value != value:
            raise ValueError("progress() needs a number from 0 to 1, got NaN")
        now = time.monotonic()
        if self.folder and (value >= 1.0 or now - self.last_progress >= 0.5):
            self.last_progress = now
            _write_atomically(self._path(PROGRESS_FILE), "%.6f\n" % min(max(value, 0.0), 1.0))

    def checkpoint_period(self) -> float:
        """Return the seconds that the volunteer wants between two checkpoints."""
        now = time.monotonic()
        if self.folder and (not self.period_read or now - self.period_read > 1.0):
            self.period_read = now
            self.period = float(self.job_info()["checkpoint_period"])
        return self.period

    def time_to_checkpoint(self) -> bool:
        """Say whether to save the state now: the period is over, or the client asks the job to stop."""
        if self.folder and not POSIX:
            return self._is_asked()
        self._watch_for_quit()
        return self.quitting or time.monotonic() - self.last_checkpoint >= self.checkpoint_period()

    def checkpoint(self) -> None:
        """Tell that the state is safely on disk: from here the job continues after an interruption."""
        self.last_checkpoint = time.monotonic()
        self.counter += 1
        if self.folder:
            _write_atomically(self._path(CHECKPOINT_FILE), "%r %d\n" % (time.time(), self.counter))
            if not POSIX:
                _remove(self._path(TIME_TO_CHECKPOINT_FILE))

    def trickle(self, variety: str, text: str) -> None:
        """Send a message to the project while the job runs; it leaves with the client's next contact.

        Raises ValueError for a variety other than 1 to 80 letters, digits, ``_ - .``, and for a text of more
        than 60,000 bytes or one that would break the client's message (NUL, ``</msg_from_host>``).
        """
        if not re.match(r"[A-Za-z0-9_.-]{1,80}\Z", variety):
            raise ValueError("trickle(): the variety %r must be 1 to 80 letters, digits, _ - ." % variety)
        if len(text.encode("utf-8")) > MAX_TRICKLE_BYTES:
            raise ValueError("trickle(): the text is longer than %d bytes" % MAX_TRICKLE_BYTES)
        if "\0" in text or "</msg_from_host>" in text:
            raise ValueError("trickle(): the text must not contain NUL or </msg_from_host>")
        self.counter += 1
        if self.folder:
            name = "%s%017d_%06d" % (TRICKLE_UP_PREFIX, int(time.time() * 1e6), self.counter)
            _write_atomically(self._path(name), "<variety>%s</variety>\n%s\n" % (variety, text))

    def upload_now(self, name: str) -> None:
        """Have a finished output uploaded while the job goes on.  Do not open it again: it leaves the folder.

        ``name`` is its file name, without folders.  Where it cannot be done the output goes with the others, at the end.
        A job that goes on from a checkpoint may say so again.

        Raises ValueError for a name with a folder, FileNotFoundError for an output that has not been written.
        """
        if not name or os.path.basename(name) != name:
            raise ValueError("upload_now(): %r must be the name of an output, without folders" % name)
        asked = self.folder and os.path.exists(self._path(UPLOAD_PREFIX + name))
        if not asked and not self.uploaded(name):
            os.stat(name)
            if self.folder:
                _write_atomically(self._path(UPLOAD_PREFIX + name), "")

    def uploaded(self, name: str) -> bool:
        """Say whether an output for which ``upload_now`` was called has reached the project."""
        return bool(self.folder) and os.path.exists(self._path(UPLOADED_PREFIX + name))

    def receive_trickles(self) -> List[str]:
        """Return the texts of the project's messages that have come in since the last call, oldest first."""
        if not self.folder:
            return []
        if not POSIX:
            _collect_trickles_down(self._path(".."), self.folder)
        texts: List[str] = []
        for name in sorted(os.listdir(self.folder)):
            if name.startswith("cobblestone_" + TRICKLE_DOWN_PREFIX):
                text = _read_text(self._path(name)).strip()
                wrapped = re.match(r"<text>\n?(.*?)\n?</text>\Z", text, re.DOTALL)
                texts.append(wrapped.group(1) if wrapped else text)
                os.remove(self._path(name))
        return texts

    def job_info(self) -> Dict[str, Any]:  # Any: JSON
        """Describe the running job.

        Keys: ``result_name``, ``workunit_name``, ``app_name``, ``ncpus``, ``checkpoint_period`` (s),
        ``deadline`` (Unix s, 0 if none), ``memory_bound`` and ``disk_bound`` (bytes, 0 if none),
        ``gpu`` (number of the job's GPU, -1 without one), ``gpu_type`` (``NVIDIA`` ...),
        ``arguments`` (of ``--arg``).
        """
        known = _describe_job(None, {})
        if self.folder and not POSIX:
            pairs = [word.partition("=") for word in os.environ.get(ARGUMENTS_VARIABLE, "").split()]
            arguments = {name: urllib.parse.unquote(value) for name, _, value in pairs}
            known = _describe_job(read_init_data(self._path("../init_data.xml")), arguments)
        elif self.folder:
            known.update(_read_object(self._path(JOB_FILE)))
        return known

    def _is_asked(self) -> bool:
        """Say whether the native launcher of Windows asks for a checkpoint: it has no signals, but a file."""
        if not self.watching:
            self.watching = True
            _write_atomically(self._path(MAKES_CHECKPOINTS_FILE), "")
        return os.path.exists(self._path(TIME_TO_CHECKPOINT_FILE))

    def _watch_for_quit(self) -> None:
        """Turn the launcher's SIGTERM into a last checkpoint, unless the app has its own handler."""
        if self.watching or not self.folder:
            return
        self.watching = True
        try:
            if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
                signal.signal(signal.SIGTERM, self._quit)
        except ValueError:
            pass  # not the main thread: the job is stopped without a last checkpoint

    def _quit(self, number: int, _frame: object) -> None:
        # a forked worker has no checkpoint to make; pools end theirs with SIGTERM
        if os.getpid() != self.process:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.quitting = True


_app_side = _AppSide(os.environ.get(FOLDER_VARIABLE, ""))
progress = _app_side.progress
checkpoint_period = _app_side.checkpoint_period
time_to_checkpoint = _app_side.time_to_checkpoint
checkpoint = _app_side.checkpoint
trickle = _app_side.trickle
receive_trickles = _app_side.receive_trickles
upload_now = _app_side.upload_now
uploaded = _app_side.uploaded
job_info = _app_side.job_info


# ---------------------------------------------------------------------------- launcher: what is to be run


class LauncherError(Exception):
    """The job cannot be run as described.  The text says what, where, and what to do."""


def give_way(pid: int) -> bool:
    """Give the new session of a process the niceness of this one; return False if it is to be tried again.

    Linux first shares the processors among sessions (sched(7), autogroup), each with a niceness of its own, at first 0: within it
    alone the niceness of its processes counts.  It takes ten changes a second from an ordinary account.
    """
    try:
        with open("/proc/%d/autogroup" % pid, "w") as handle:
            handle.write(str(os.getpriority(os.PRIO_PROCESS, 0)))
    except BlockingIOError:
        return False
    except (OSError, AttributeError):  # another system, or one that groups otherwise
        pass
    return True


class InitData(NamedTuple):
    """What the client tells in ``init_data.xml``, which also holds the user's key: never copy it."""

    result_name: str = ""
    workunit_name: str = ""
    app_name: str = ""
    client_pid: int = 0
    cpu_time: float = 0.0  # s, at the last checkpoint the client knows
    checkpoint_period: float = DEFAULT_CHECKPOINT_PERIOD  # s
    ncpus: float = 1.0
    memory_bound: float = 0.0  # bytes
    disk_bound: float = 0.0  # bytes
    deadline: float = 0.0  # Unix s
    gpu_type: str = ""  # as clients call vendors; empty: no GPU
    gpu: int = -1  # number among those of its vendor; -1: none
    gpu_usage: float = 0.0  # GPUs
    project_dir: str = ""


class Job(NamedTuple):
    """The options of one job; names in the order given."""

    inputs: Dict[str, str]
    outputs: Dict[str, str]
    arguments: Dict[str, str]
    command: List[str]  # words after ``--``


class App(NamedTuple):
    """The app description; see the head of this file."""

    command: List[str]
    files: Dict[str, Optional[str]]
    stdout: str
    optional_outputs: List[str]
    environment: Dict[str, str]
    enforce_memory: bool
    enforce_disk: bool
    quit_grace_seconds: float
    container: Dict[str, str]


def read_init_data(path: str) -> Optional[InitData]:
    """Read the client's description of the job; None without one (stand-alone)."""
    if not os.path.exists(path):
        return None
    text = _read_text(path)

    def word(tag: str) -> str:
        inside, closed, _ = text.partition("<%s>" % tag)[2].partition("</%s>" % tag)
        return html.unescape(inside).strip() if closed else ""

    def number(tag: str) -> float:
        try:
            value = float(word(tag))
        except ValueError:
            return 0.0
        return value if 0.0 <= value < 1e300 else 0.0

    return InitData(
        result_name=word("result_name"),
        workunit_name=word("wu_name"),
        app_name=word("app_name"),
        client_pid=int(number("client_pid")),
        cpu_time=number("wu_cpu_time"),
        checkpoint_period=number("checkpoint_period") or DEFAULT_CHECKPOINT_PERIOD,
        ncpus=number("ncpus") or 1.0,
        memory_bound=number("rsc_memory_bound"),
        disk_bound=number("rsc_disk_bound"),
        deadline=number("computation_deadline"),
        gpu_type=word("gpu_type"),
        gpu=int(number("gpu_device_num")) if word("gpu_type") else -1,
        gpu_usage=number("gpu_usage"),
        project_dir=word("project_dir"),
    )


def home_variables(home: str) -> Dict[str, str]:
    """Return the variables that give a program a home with its temporary files and caches, whatever its account has."""
    cache = os.path.join(home, ".cache")
    places = {
        "HOME": home,
        "TMPDIR": os.path.join(home, "tmp"),
        "XDG_CACHE_HOME": cache,
        "XDG_CONFIG_HOME": os.path.join(home, ".config"),
        "XDG_DATA_HOME": os.path.join(home, ".local", "share"),
        "CUDA_CACHE_PATH": os.path.join(cache, "cuda"),
        "CUPY_CACHE_DIR": os.path.join(cache, "cupy"),
        "MPLCONFIGDIR": os.path.join(cache, "matplotlib"),
        "NUMBA_CACHE_DIR": os.path.join(cache, "numba"),
    }
    if not POSIX:
        places.update(dict.fromkeys(("USERPROFILE", "APPDATA", "LOCALAPPDATA"), home))
        places.update(dict.fromkeys(("TEMP", "TMP"), places["TMPDIR"]))
    return places


def gpu_variables(info: InitData, command: Sequence[str]) -> Dict[str, str]:
    """Return the variable by which frameworks see only the job's GPU; none for a command that chooses by ``{gpu}``.

    The client names only the first of several GPUs, so a job with more than one sees all.
    """
    name = GPU_VARIABLES.get(info.gpu_type)
    if name is None or info.gpu < 0 or info.gpu_usage > 1 or any("{gpu}" in word for word in command):
        return {}
    return {name: str(info.gpu)}


DESCRIBED = (
    *("result_name", "workunit_name", "app_name", "checkpoint_period", "deadline"),
    *("memory_bound", "disk_bound", "gpu_type", "gpu"),
)


def _describe_job(info: Optional[InitData], arguments: Mapping[str, str]) -> Dict[str, Any]:  # Any: JSON
    """Return what an app may know about its job: nothing of the user's."""
    known = info or InitData()
    described: Dict[str, Any] = {name: getattr(known, name) for name in DESCRIBED}
    described.update(ncpus=max(1, int(known.ncpus)), arguments=dict(arguments))
    return described


def parse_job(words: Sequence[str], under_client: bool) -> Job:
    """Read the job's options.

    Under a client the options come from the project's server and no one has signed them: they may fill in the
    signed description but name neither another command nor a file outside the slot.
    """
    job = Job({}, {}, {}, [])
    kinds = {"--input": job.inputs, "--output": job.outputs, "--arg": job.arguments}
    rest = list(words)
    while rest:
        option = rest.pop(0)
        if option == "--" and not under_client:
            return job._replace(command=rest)
        if option not in kinds:
            raise LauncherError("unknown option %r; known are %s" % (option, ", ".join(kinds)))
        name, equals, value = (rest.pop(0) if rest else "").partition("=")
        if not name or not equals:
            raise LauncherError("%s needs NAME=VALUE" % option)
        if name in kinds[option]:
            raise LauncherError("%s %s is given twice" % (option, name))
        value = urllib.parse.unquote(value)
        if option != "--arg" and (not value or (under_client and not _stays_here(value))):
            raise LauncherError("%s %s=%s is not the name of a file in the slot" % (option, name, value))
        kinds[option][name] = value
    return job


def _stays_here(path: str) -> bool:
    return not os.path.isabs(path) and ".." not in re.split(r"[/\\]", path) and "\0" not in path


def read_app(text: str) -> App:
    """Read and check an app description.  Raises LauncherError."""
    try:
        value = json.loads(text)
    except ValueError as problem:
        raise LauncherError("%s is not JSON: %s" % (APP_FILE, problem)) from None
    if not isinstance(value, dict):
        raise LauncherError("%s is not a JSON object" % APP_FILE)
    given = dict(cast("Dict[str, Any]", value))  # Any: JSON

    def take(key: str, kind: type, default: object) -> Any:  # Any: JSON, checked here
        item = given.pop(key, default)
        items = list(item) if kind is list else list(item.values()) if kind is dict else []
        if type(item) is not kind or not all(
            isinstance(each, str) or (key == "files" and each is None) for each in items
        ):
            raise LauncherError("%s: %r must be a %s (of texts)" % (APP_FILE, key, kind.__name__))
        return item

    app = App(
        command=take("command", list, []),
        files=take("files", dict, {}),
        stdout=take("stdout", str, ""),
        optional_outputs=take("optional_outputs", list, []),
        environment=take("environment", dict, {}),
        enforce_memory=take("enforce_memory", bool, False),
        enforce_disk=take("enforce_disk", bool, False),
        quit_grace_seconds=max(float(take("quit_grace_seconds", int, 8)), 0.0),
        container=take("container", dict, {}),
    )
    if given:
        raise LauncherError(
            "%s: unknown key %r; known are %s" % (APP_FILE, min(given), ", ".join(App._fields))
        )
    if not app.command or not app.command[0]:
        raise LauncherError("%s: 'command' must be a list with at least one word" % APP_FILE)
    if app.container and sorted(app.container) != ["image", "sha256"]:
        raise LauncherError("%s: 'container' must have 'image' and 'sha256'" % APP_FILE)
    return app


_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([a-z_]+)(?::([^{}]+))?\}|[{}]")


def check_placeholders(word: str) -> None:
    """Raise LauncherError for a word with a placeholder that no job could fill."""
    anything = {match.group(2) or "": "" for match in _PLACEHOLDER.finditer(word)}
    if word != "{inputs}":
        expand_word(word, Job(anything, anything, anything, []), _describe_job(None, {}))


def expand_word(word: str, job: Job, description: Mapping[str, Any]) -> str:  # Any: JSON
    """Put the job's values for the placeholders of one word.  Raises LauncherError."""

    def value(match: "re.Match[str]") -> str:
        whole, kind, name = match.group(0), match.group(1), match.group(2)
        if whole in ("{{", "}}"):
            return whole[0]
        tables = {"input": job.inputs, "output": job.outputs, "arg": job.arguments}
        if kind in tables and (name or kind != "arg"):
            table = tables[kind]
            if name is None and table:
                return next(iter(table.values()))
            if name in table:
                return table[name]
            raise LauncherError("the command uses %s, but the job has no such %s" % (whole, kind))
        if kind == "gpu" and name is None:
            return str(max(0, description["gpu"]))
        if kind == "gpu_type" and name is None:
            return description["gpu_type"]
        if kind in ("ncpus", "checkpoint_period") and name is None:
            return "%.15g" % description[kind]
        raise LauncherError("the command has %r, which is no placeholder; write {{ and }} for braces" % word)

    return _PLACEHOLDER.sub(value, word)


def expand_words(command: Sequence[str], job: Job, description: Mapping[str, Any]) -> List[str]:  # Any: JSON
    """Put the job's values for the placeholders of all words.  Raises LauncherError."""
    words: List[str] = []
    for word in command:
        if word == "{inputs}":
            words.extend(job.inputs.values())
        else:
            words.append(expand_word(word, job, description))
    return words


def expand_command(
    command: Sequence[str], job: Job, description: Mapping[str, Any], boxed: bool = False
) -> List[str]:  # Any: JSON
    """Return the argument list to start; ``boxed``: in a container, which has a Python of its own, or none."""
    words = expand_words(command, job, description)
    program = words[0]
    if program in ("python3", "python"):
        words[0] = program if boxed else sys.executable or program
    elif os.path.dirname(program) == "" and os.path.isfile(program):
        os.chmod(program, os.stat(program).st_mode | 0o100)
        words[0] = os.path.join(".", program)
    return words


def check_files(app: App) -> None:
    """Make sure that the app's own files are there and are those that the project signed."""
    for name, digest in app.files.items():
        if not os.path.isfile(name):
            raise LauncherError("the app's file %s is missing; was it registered with copy_file?" % name)
        if digest is not None and _sha256(name) != digest.lower():
            raise LauncherError("the app's file %s differs from the one that the project signed" % name)


def _sha256(path: str) -> str:
    found = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            found.update(block)
    return found.hexdigest()


# ------------------------------------------------------------------------- launcher: client and process tree

CONTROL, HEARTBEAT, STATUS, TRICKLE_UP, TRICKLE_DOWN = 0, 4, 5, 6, 7
CHANNEL_BYTES = 1024
SEGMENT_BYTES = 8 * CHANNEL_BYTES


class Segment:
    """The memory that client and app share: eight channels of a flag byte and a text that ends with NUL."""

    def __init__(self, memory: mmap.mmap) -> None:
        self.memory = memory

    @classmethod
    def open(cls, path: str) -> "Optional[Segment]":
        """Map the client's file; None without one: the job then runs, but no one can control it."""
        try:
            with open(path, "r+b") as file:
                return cls(mmap.mmap(file.fileno(), SEGMENT_BYTES))
        except (OSError, ValueError):
            return None

    def is_free(self, channel: int) -> bool:
        """Say whether the last message has been read."""
        return self.memory[channel * CHANNEL_BYTES] == 0

    def receive(self, channel: int) -> str:
        """Take the unread message of a channel; empty if there is none."""
        if self.is_free(channel):
            return ""
        start = channel * CHANNEL_BYTES
        data = self.memory[start + 1 : start + CHANNEL_BYTES]
        self.memory[start] = 0
        return data.split(b"\0", 1)[0].decode("ascii", "replace")

    def send(self, channel: int, text: str, overwrite: bool = False) -> bool:
        """Leave a message; without ``overwrite`` only if the last one has been read."""
        if not overwrite and not self.is_free(channel):
            return False
        start = channel * CHANNEL_BYTES
        data = text.encode("ascii")[: CHANNEL_BYTES - 2] + b"\0"
        self.memory[start] = 0
        self.memory[start + 1 : start + 1 + len(data)] = data
        self.memory[start] = 1  # last: it makes the message valid
        return True


def _send_signal(pid: int, number: int) -> None:
    """Signal a process, or a group (negative), that may have ended by now."""
    try:
        os.kill(pid, number)
    except OSError:
        pass


class Usage(NamedTuple):
    """What the living descendants of the launcher use."""

    cpu_seconds: float
    resident_bytes: float
    processes: Set[int]  # without zombies


class ProcessTree:
    """All processes of the job, also those that left the command's process group or lost their parent."""

    def __init__(self, folder: str) -> None:
        self.mark = "%s=%s\0" % (FOLDER_VARIABLE, folder)
        self.command: "Optional[subprocess.Popen[bytes]]" = None
        try:  # orphans become children of the launcher instead of process 1
            import ctypes

            ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
        except (ImportError, OSError, AttributeError, TypeError):
            pass

    def scan(self) -> Usage:
        """Look at all descendants, and bury orphans that have ended."""
        if not HAS_PROC:
            return Usage(0.0, 0.0, set())
        fields: Dict[int, List[str]] = {}
        children: Dict[int, List[int]] = {}
        for name in os.listdir("/proc"):
            if name.isdigit():
                stat = _read_text("/proc/%s/stat" % name)
                if stat:
                    fields[int(name)] = stat[stat.rindex(")") + 2 :].split()
        for pid, field in fields.items():
            children.setdefault(int(field[1]), []).append(pid)
        cpu = resident = 0.0
        living: Set[int] = set()
        waiting = list(children.get(os.getpid(), []))
        while waiting:
            pid = waiting.pop()
            waiting.extend(children.get(pid, []))
            field = fields[pid]
            if field[0] in "ZX":
                if int(field[1]) == os.getpid() and self._bury(pid):
                    continue  # its CPU time is now among that of the ended children
            else:
                living.add(pid)
                resident += float(field[21]) * mmap.PAGESIZE
            cpu += sum(float(each) for each in field[11:15]) / os.sysconf("SC_CLK_TCK")
        return Usage(cpu, resident, living)

    def _bury(self, pid: int) -> bool:
        if self.command is not None and pid == self.command.pid:
            return False  # its exit status is wanted
        try:
            return os.waitpid(pid, os.WNOHANG)[0] == pid
        except OSError:
            return False

    def signal_group(self, number: int) -> None:
        """Signal the command's own process group (the launcher's is the client's: never touch that)."""
        if self.command is not None:
            _send_signal(-self.command.pid, number)

    def signal_all(self, number: int) -> None:
        """Signal the group and each descendant outside it."""
        if not POSIX:
            return
        self.signal_group(number)
        for pid in self.scan().processes:
            _send_signal(pid, number)

    def kill(self) -> None:
        """End every process of the job, also those that an earlier launcher of this slot left behind."""
        if not POSIX:
            if self.command is not None and self.command.poll() is None:
                self.command.kill()
            return
        for _ in range(200):  # a process may fork while we look: until none is left
            self.signal_group(signal.SIGKILL)
            left = self.scan().processes | self._marked()
            for pid in left:
                _send_signal(pid, signal.SIGKILL)
            if self.command is not None:
                self.command.poll()
            if not left:
                return
            time.sleep(0.01)

    def _marked(self) -> Set[int]:
        """Find processes that carry this slot's mark in their environment, whoever their parent is."""
        found: Set[int] = set()
        if HAS_PROC:
            for name in os.listdir("/proc"):
                if (
                    name.isdigit()
                    and int(name) != os.getpid()
                    and self.mark in _read_text("/proc/%s/environ" % name)
                ):
                    found.add(int(name))
        return found


class Client:
    """The client as the launcher sees it: is it still there?"""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.parent = os.getppid()

    def is_gone(self) -> bool:
        """Say whether the client, or a program between it and us, has ended."""
        if not POSIX:
            return False
        if os.getppid() != self.parent:
            return True
        try:
            if self.pid > 1:
                os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass  # it lives, as another user
        return False


# ------------------------------------------------------------------------------------- launcher: containers

ENGINES = ("podman", "docker")
ENGINE_SECONDS = 120.0
LOAD_SECONDS = 3600.0
LARGEST_PIDS = 2000
LARGEST_ULIMIT = 4096
_NEVER = b"0001-01-01"
#: A folder with one of these is that of a client.
STATE_OF_CLIENTS = ("client_state.xml", "cobblestone_client.sqlite")


def gpu_options(info: Optional[InitData], is_podman: bool) -> List[str]:
    """Return the options by which an engine gives a container the job's GPU.

    NVIDIA's are named to Podman as CDI devices and to Docker by ``--gpus``, both of the NVIDIA Container Toolkit; a job of
    more than one GPU gets all.  The others' are devices of the system, all of which the container sees.
    """
    if info is None or info.gpu < 0:
        return []
    if info.gpu_type == "NVIDIA":
        number = "all" if info.gpu_usage > 1 else str(info.gpu)
        if is_podman:
            return ["--device=nvidia.com/gpu=" + number]
        return ["--gpus=" + (number if number == "all" else "device=" + number)]
    return ["--device=/dev/dri"] + (["--device=/dev/kfd"] if info.gpu_type == "ATI" else [])


class Box:
    """A container of one slot: no network, no rights, nothing but the slot to write to."""

    def __init__(self, container: Mapping[str, str], folder: str, info: Optional[InitData]) -> None:
        found = [path for path in (shutil.which(each) for each in ENGINES) if path]
        if not found:
            raise LauncherError(
                "the app runs in a container, and there is no %s on this computer" % " or ".join(ENGINES)
            )
        self.engine = found[0]
        self.image = container["image"]
        self.sha256 = container["sha256"]
        self.folder = folder
        self.name = (
            "cobblestone-" + hashlib.sha256(os.getcwd().encode("utf-8", "surrogateescape")).hexdigest()[:24]
        )
        self.is_podman = os.path.basename(self.engine) == "podman"
        self.gpus = gpu_options(info, self.is_podman)

    def _ask(self, *words: str, seconds: float = ENGINE_SECONDS) -> "subprocess.CompletedProcess[bytes]":
        try:
            return subprocess.run(
                [self.engine, *words],
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                timeout=seconds,
            )
        except (OSError, subprocess.TimeoutExpired) as problem:
            raise LauncherError("%s cannot be used: %s" % (self.engine, problem)) from None

    def _demand(self, *words: str, seconds: float = ENGINE_SECONDS) -> str:
        done = self._ask(*words, seconds=seconds)
        if done.returncode:
            text = done.stderr.decode("utf-8", "replace").strip()[-1000:]
            wanted = ", which was to give the container a GPU," if set(self.gpus) & set(words) else ""
            raise LauncherError("%s %s%s failed: %s" % (self.engine, words[0], wanted, text))
        return done.stdout.decode("utf-8", "replace")

    def load(self) -> None:
        """Bring the image into the engine's store, once for all jobs; images of versions that are gone leave it."""
        self._remove_old_images()
        if self._is_loaded():
            return
        with open(IMAGE_FILE, "rb") as file:
            link = re.match(b"<soft_link>(.*)</soft_link>", file.read(4096))
        path = os.fsdecode(link.group(1)) if link else IMAGE_FILE
        if not os.path.isfile(path):
            raise LauncherError("the app's container is missing")
        with open(path, "rb") as archive:
            if fcntl is not None:  # of jobs that start together one loads it; the lock goes with its process
                fcntl.flock(archive, fcntl.LOCK_EX)
            if self._is_loaded():
                return
            if _sha256(path) != self.sha256:
                raise LauncherError("the app's container differs from the one that the project signed")
            self._demand("load", "-q", "-i", path, seconds=LOAD_SECONDS)

    def _is_loaded(self) -> bool:
        return self._ask("image", "inspect", self.image).returncode == 0

    def _remove_old_images(self) -> None:
        """Forget images whose archives are gone; these have the image's tag in their names, in the folder of some project."""
        projects = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        if not any(os.path.exists(os.path.join(projects, "..", name)) for name in STATE_OF_CLIENTS):
            return  # no client's folder: who tries an app has other folders beside it
        archives = glob.glob(os.path.join(glob.escape(projects), "*", IMAGE_FILE + "*"))
        for name in self._demand("images", "--format", "{{.Repository}}:{{.Tag}}").split():
            repository, _colon, tag = name.rpartition(":")
            if repository == IMAGE_REPOSITORY and not any(tag in each for each in archives):
                self._ask("rmi", name)  # in use by another client: it stays

    def create(self, words: Sequence[str], environment: Mapping[str, str], limits: Sequence[str]) -> None:
        """Make the container; what an earlier run of this slot left behind goes."""
        import resource

        self.remove()
        options = ["--name", self.name, "--network=none", "--read-only", "--tmpfs=/tmp", "--cap-drop=all"]
        options += ["--security-opt=no-new-privileges", "--security-opt=label=disable", "--pull=never"]
        # Podman's "root" is the account that runs it; Docker's is the computer's.
        options += ["--user=0:0" if self.is_podman else "--user=%d:%d" % (os.getuid(), os.getgid())]
        for name, number in (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC)):
            # Engines want more by default than they may have to give.
            bound = min([LARGEST_ULIMIT] + [each for each in resource.getrlimit(number) if each > 0])
            options.append("--ulimit=%s=%d:%d" % (name, bound, bound))
        folders = {os.getcwd(): WORK_FOLDER, self.folder: self.inside}
        options += ["--volume=%s:%s" % pair for pair in folders.items()]
        options += ["--env=%s=%s" % pair for pair in sorted(environment.items())]
        options += [*limits, *self.gpus, "--workdir", WORK_FOLDER, "--entrypoint=", self.image]
        self._demand("create", *options, *words)

    @property
    def inside(self) -> str:
        """Where the program finds the launcher's folder."""
        return WORK_FOLDER if self.folder == os.getcwd() else "/cobblestone"

    def has_started(self) -> bool:
        """Say whether the program ran at all."""
        done = self._ask("inspect", "--format", "{{.State.StartedAt}}", self.name)
        return done.returncode == 0 and not done.stdout.startswith(_NEVER)

    def pause(self) -> bool:
        """Freeze all of its processes; False where the engine cannot."""
        return self._ask("pause", self.name).returncode == 0

    def unpause(self) -> None:
        """Let it go on."""
        self._ask("unpause", self.name)

    def ask_to_end(self) -> None:
        """Send SIGTERM to its first process."""
        self._ask("kill", "--signal=TERM", self.name)

    def remove(self) -> None:
        """End it and forget it."""
        self._ask("rm", "--force", self.name)


# --------------------------------------------------------------------------------------- launcher: the run


def say(text: str) -> None:
    """Write a sentence to the error output, which the client reports to the project."""
    sys.stderr.write("cobblestone: %s\n" % text)
    sys.stderr.flush()


class Launcher:
    """One run of the command, from its start to its end or to the client's order to stop."""

    def __init__(self, app: App, job: Job, info: Optional[InitData], folder: str) -> None:
        self.app = app
        self.job = job
        self.info = info
        self.folder = folder
        self.client = Client(info.client_pid) if info else None
        self.segment = Segment.open("boinc_mmap_file") if info else None
        self.tree = ProcessTree(folder)
        self.box = Box(app.container, folder, info) if app.container else None
        self.limits: List[str] = []
        state = _read_object(self._path(STATE_FILE))
        # After a shutdown of the client its figure may be older than the last checkpoint; then ours is right.
        self.base_cpu = max(info.cpu_time if info else 0.0, _number(state.get("cpu_time")))
        self.restarts = int(_number(state.get("restarts")))
        self.cpu = self.checkpoint_cpu = self.base_cpu
        self.fraction = 0.0
        self.checkpoint_text = _read_text(self._path(CHECKPOINT_FILE))
        self.suspended = False
        self.signals: List[int] = []
        self.gives_way = False  # the session of the command that runs
        self.started = self.next_status = self.next_watch = self.next_disk = time.monotonic()
        self.stdout: Optional[IO[bytes]] = None
        self.handed_over: Set[str] = set()  # outputs, in this run

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    @property
    def command(self) -> "subprocess.Popen[bytes]":
        """The running command."""
        assert self.tree.command is not None  # noqa: S101  # only used after the start
        return self.tree.command

    # -- start

    def run(self) -> int:
        """Run the command to its end; return the launcher's exit status."""
        self._clean_up_before()
        try:
            self._start()
            while True:
                stop = self._tick()
                if stop:
                    return self._stop(stop)
                time.sleep(POLL_SECONDS)
                status = self.command.poll()
                if status is not None and not self._starts_without_limits():
                    return self._ended(status)
        finally:
            self._kill()  # whatever happened here: nothing of the job stays behind

    def _kill(self) -> None:
        if self.box is not None:
            self.box.remove()
        self.tree.kill()
        self._remove_links()

    def _remove_links(self) -> None:
        """Remove links that the command left in the place of files: they would lead us, and the client, to the volunteer's."""
        for name in (STDOUT_FILE, STDERR_FILE, "stderr.txt", "trickle_up.xml", *self.job.outputs.values()):
            if self.info and os.path.islink(name):
                _remove(name)

    def _clean_up_before(self) -> None:
        """Clear up after an earlier run in this slot: processes, unreported error output, old progress."""
        if self.info:
            self.tree.kill()
            self._remove_links()
            self._hand_over_stderr()
            if not self.checkpoint_text:
                _remove(self._path(PROGRESS_FILE))  # the command starts from the beginning
            _collect_trickles_down(".", self.folder)

    def _start(self) -> None:
        own = os.path.abspath(__file__)
        if own != os.path.abspath(self._path(RUNTIME_FILE)):
            with open(own, "rb") as file:
                _write_atomically(self._path(RUNTIME_FILE), file.read())
        self._describe()
        self._save_state()
        description = _describe_job(self.info, self.job.arguments)
        if self.box is not None and description["gpu_type"] == "NVIDIA":
            description["gpu"] = 0  # the container has no other one
        words = expand_command(self.app.command, self.job, description, self.box is not None)
        for path in self.job.outputs.values():
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        stdout = expand_word(self.app.stdout, self.job, description)
        if stdout or self.info:
            self.stdout = open(stdout or STDOUT_FILE, "wb")  # noqa: SIM115  # closed at the end
        self.words = words
        if self.box is None:
            self._start_words(words, self._environment(description["ncpus"]))
            return
        self.limits = ["--cpus=%d" % description["ncpus"], "--pids-limit=%d" % LARGEST_PIDS]
        if description["memory_bound"]:
            self.limits.append("--memory=%d" % description["memory_bound"])
        self.box.load()
        self._start_box()

    def _start_box(self) -> None:
        assert self.box is not None  # noqa: S101  # for the type checker
        inside = {"HOME": "/tmp"}  # noqa: S108  # in the container
        if self.info and self.info.gpu_type != "NVIDIA":
            inside.update(gpu_variables(self.info, self.app.command))
        inside.update(self.app.environment)
        inside.update(self._settings(self.box.inside, {}, _describe_job(self.info, {})["ncpus"]))
        if SLOT_VARIABLE in os.environ:  # by it the client finds what is left of a job
            inside[SLOT_VARIABLE] = os.environ[SLOT_VARIABLE]
        self.box.create(self.words, inside, self.limits)
        self._start_words([self.box.engine, "start", "--attach", self.box.name], dict(os.environ))

    def _starts_without_limits(self) -> bool:
        """Start a container again whose limits the system does not let the engine set (control groups)."""
        if self.box is None or not self.limits or self.box.has_started():
            return False
        self.limits = []
        self._start_box()
        return True

    def _start_words(self, words: Sequence[str], environment: Dict[str, str]) -> None:
        # Before there is a command: a signal in between would end us without it.
        for number in (signal.SIGTERM, signal.SIGINT) + ((signal.SIGHUP,) if POSIX else ()):
            signal.signal(number, lambda received, _frame: self.signals.append(received))
        stderr = open(STDERR_FILE, "wb") if self.info else None  # noqa: SIM115  # closed below
        try:
            self.tree.command = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=self.stdout,
                stderr=stderr,
                env=environment,
                start_new_session=POSIX,  # a process group of its own: stopped and continued as one
            )
            self.gives_way = False
        except (OSError, ValueError) as problem:
            raise LauncherError("the command %r cannot be started: %s" % (words, problem)) from None
        finally:
            if stderr is not None:
                stderr.close()

    def _environment(self, ncpus: int) -> Dict[str, str]:
        environment = dict(os.environ)
        if self.info:
            variables = home_variables(os.path.abspath(HOME_FOLDER))
            os.makedirs(variables["TMPDIR"], exist_ok=True)
            environment.update(variables)
            environment.update(gpu_variables(self.info, self.app.command))
        environment.update(self.app.environment)
        return self._settings(self.folder, environment, ncpus)

    def _settings(self, folder: str, environment: Dict[str, str], ncpus: int) -> Dict[str, str]:
        """Add what the launcher sets, to the environment of the command."""
        environment[FOLDER_VARIABLE] = folder
        path = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = folder + (os.pathsep + path if path else "")
        # Replicas on different hosts shall agree: a Python set iterates in the same order everywhere.
        environment.setdefault("PYTHONHASHSEED", "0")
        for library in (
            "OMP",
            "OPENBLAS",
            "MKL",
        ):  # use the CPUs that the client counts for this job, not all
            environment.setdefault(library + "_NUM_THREADS", str(ncpus))
        return environment

    def _describe(self) -> None:
        _write_atomically(self._path(JOB_FILE), json.dumps(_describe_job(self.info, self.job.arguments)))

    # -- while the command runs

    def _tick(self) -> str:
        """Do what is due; return why the command must stop, or nothing."""
        now = time.monotonic()
        if self.signals:
            return "quit"
        order = self._obey_client()
        if order:
            return order
        if self.client and now >= self.next_watch:
            self.next_watch = now + WATCH_SECONDS
            if self.client.is_gone():
                say("the client has ended; the job stops and continues when the client is back")
                return "quit"
        if not self.gives_way:
            self.gives_way = give_way(self.command.pid)
        if now >= self.next_status:
            self.next_status = now + STATUS_SECONDS
            usage = self._measure()
            self._note_checkpoint()
            self._send_trickle_up()
            self._hand_over_uploads()
            if not self.suspended:
                self._report()
            return self._exceeded_bound(usage, now)
        return ""

    def _obey_client(self) -> str:
        """Read the client's messages.  Suspend and resume are done here; quit and abort are returned."""
        if self.segment is None:
            return ""
        self.segment.receive(HEARTBEAT)
        if "<have_trickle_down/>" in self.segment.receive(TRICKLE_DOWN):
            _collect_trickles_down(".", self.folder)
        message = self.segment.receive(CONTROL)
        if "<abort/>" in message:
            return "abort"
        if "<quit/>" in message:
            return "quit"
        if "<suspend/>" in message and not self.suspended:
            self._report()
            self._pause()
        elif "<resume/>" in message and self.suspended:
            self._resume()
        elif "<reread_app_info/>" in message:
            self.info = read_init_data("init_data.xml") or self.info
            self._describe()
        return ""

    def _pause(self) -> None:
        self.suspended = True
        if self.box is None or not self.box.pause():
            self.tree.signal_all(signal.SIGSTOP)

    def _resume(self) -> None:
        self.suspended = False
        self.tree.signal_all(signal.SIGCONT)
        if self.box is not None:
            self.box.unpause()

    def _measure(self) -> Usage:
        """Bring the CPU time of the whole job up to date."""
        usage = self.tree.scan()
        own = os.times()
        used = own.user + own.system + own.children_user + own.children_system + usage.cpu_seconds
        if not HAS_PROC or (self.box is not None and not self.box.is_podman):  # Docker's are not our children
            used = max(used, time.monotonic() - self.started)
        # the time of a killed orphan is lost: never count backwards
        self.cpu = max(self.cpu, self.base_cpu + used)
        return usage

    def _note_checkpoint(self) -> bool:
        """See whether the command has made a checkpoint; if so this CPU time is safe."""
        text = _read_text(self._path(CHECKPOINT_FILE))
        if text == self.checkpoint_text:
            return False
        self.checkpoint_text = text
        self.checkpoint_cpu = self.cpu
        self.restarts = 0
        self._save_state()
        return True

    def _save_state(self) -> None:
        state = {"cpu_time": self.checkpoint_cpu, "restarts": self.restarts}
        _write_atomically(self._path(STATE_FILE), json.dumps(state))

    def _report(self, final: bool = False) -> None:
        """Send all three figures: the client sets those that a message lacks to zero."""
        fraction = min(_number(_read_text(self._path(PROGRESS_FILE))), 1.0)
        if self.segment is not None:
            message = (
                "<current_cpu_time>%e</current_cpu_time>\n"
                "<checkpoint_cpu_time>%e</checkpoint_cpu_time>\n"
                "<fraction_done>%e</fraction_done>\n" % (self.cpu, self.checkpoint_cpu, fraction)
            )
            # At the end the last message often lies there still; the client reads once more after our exit.
            self.segment.send(STATUS, message, overwrite=final)
        elif self.info is None and fraction >= self.fraction + 0.05:
            say("%3.0f %% done, %.1f s" % (100 * fraction, time.monotonic() - self.started))
            self.fraction = fraction

    def _exceeded_bound(self, usage: Usage, now: float) -> str:
        if self.info is None:
            return ""
        if self.app.enforce_memory and _is_over("memory", usage.resident_bytes, self.info.memory_bound):
            return "memory"
        if self.app.enforce_disk and self.info.disk_bound > 0 and now >= self.next_disk:
            self.next_disk = now + DISK_SECONDS
            if _is_over("disk", _disk_usage("."), self.info.disk_bound):
                return "disk"
        return ""

    # -- trickles

    def _waiting_trickles(self) -> List[str]:
        return sorted(
            name for name in os.listdir(self.folder) if re.match(TRICKLE_UP_PREFIX + r"\d+_\d+\Z", name)
        )

    def _send_trickle_up(self) -> bool:
        """Hand the oldest message to the client, which takes one at a time.  Return whether all are gone."""
        names = self._waiting_trickles()
        if self.info is None:
            for name in names:
                say("trickle up: %s" % " ".join(_read_text(self._path(name)).split())[:200])
                _remove(self._path(name))
            return True
        if self.segment is None:
            return True
        taken = not os.path.exists("trickle_up.xml") and self.segment.is_free(TRICKLE_UP)
        if names and taken:
            os.replace(self._path(names[0]), "trickle_up.xml")
            self.segment.send(TRICKLE_UP, "<have_new_trickle_up/>\n")
            return False
        return taken

    def _send_last_trickles(self) -> None:
        deadline = time.monotonic() + TRICKLE_WAIT_SECONDS
        while not self._send_trickle_up() and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        lost = len(self._waiting_trickles())
        if lost:
            say("%d trickles could not be handed to the client in time" % lost)

    # -- outputs that the command wants uploaded at once

    def _hand_over_uploads(self) -> None:
        """Give the client the outputs that are asked for, and tell the command which have arrived."""
        paths = list(self.job.outputs.values())
        for name in self._named_after(UPLOAD_PREFIX):
            request, status = self._path(UPLOAD_PREFIX + name), _read_text("boinc_ufs_" + name)
            try:
                if name not in paths:
                    say("%r is no output of the job, and cannot be uploaded now" % name)
                    _remove(request)
                elif self.info is None or "<status>0<" in status or self._is_gone(name, paths.index(name)):
                    os.replace(request, self._path(UPLOADED_PREFIX + name))
                elif not status and name not in self.handed_over:
                    self._hand_over(name, paths.index(name))
            except OSError as problem:
                say("%s cannot be uploaded now: %s" % (name, problem))
                _remove(request)  # it goes with the others

    def _named_after(self, prefix: str) -> List[str]:
        return [name[len(prefix) :] for name in os.listdir(self.folder) if name.startswith(prefix)]

    def _target(self, index: int) -> str:
        """Return where BOINC's client looks for an output; nothing under ours, which takes it from the slot itself."""
        project = self.info.project_dir if self.info else ""
        name = "%s_%d" % (self.info.result_name if self.info else "", index)
        return os.path.join(project, name) if os.access(project, os.W_OK) else ""

    def _is_gone(self, name: str, index: int) -> bool:
        """Say whether an output had been uploaded when its client was killed: then it is nowhere any more."""
        target = self._target(index)
        return bool(target) and not os.path.lexists(name) and not os.path.exists(target)

    def _hand_over(self, name: str, index: int) -> None:
        if self.segment is None or not self.segment.is_free(TRICKLE_UP):
            return
        target = self._target(index)
        if target and os.path.lexists(name):
            os.replace(name, target)
            if os.path.islink(target):  # here a command in a container cannot exchange it any more
                os.remove(target)
                raise OSError("it is no file of its own")
        self.handed_over.add(name)
        _write_atomically("boinc_ufr_" + name, "")
        self.segment.send(TRICKLE_UP, "<have_new_upload_file/>\n")

    # -- the end

    def _stop(self, reason: str) -> int:
        """Stop the command before its end; return the launcher's exit status."""
        if reason == "quit":
            self._ask_to_end()
        self._measure()
        self._note_checkpoint()
        self._kill()
        self._report(final=True)
        self._close_outputs()
        if reason == "quit":
            if self.info is None:
                say("stopped by signal %d" % self.signals[0])
                return 128 + self.signals[0]
            return 0  # without a finish file: to be continued
        return {"abort": EXIT_ABORTED, "memory": EXIT_MEMORY_BOUND, "disk": EXIT_DISK_BOUND}[reason]

    def _ask_to_end(self) -> None:
        """Send SIGTERM and wait until the command has ended or made a last checkpoint."""
        if not POSIX:
            return
        if self.box is not None:
            self.box.ask_to_end()
        else:
            self.tree.signal_group(signal.SIGTERM)
        if self.suspended or self.box is None:
            self._resume()  # a stopped process does not see SIGTERM before this
        patience = len(self.signals)
        on_gpu = self.info is not None and self.info.gpu >= 0
        grace = min(self.app.quit_grace_seconds, QUIT_SECONDS_ON_GPU if on_gpu else MAX_QUIT_SECONDS)
        deadline = time.monotonic() + grace
        while self.command.poll() is None and time.monotonic() < deadline:
            self._measure()
            impatient = len(self.signals) > patience
            aborted = self.segment is not None and "<abort/>" in self.segment.receive(CONTROL)
            if self._note_checkpoint() or impatient or aborted:
                return
            time.sleep(0.05)

    def _ended(self, status: int) -> int:
        """Hand over what the command left; return the launcher's exit status."""
        self._measure()  # before its orphans are killed
        self._kill()
        self._measure()
        self._note_checkpoint()
        self._send_last_trickles()
        self._close_outputs()
        killed = status < 0
        if status == 0:
            status = self._check_outputs()
        elif killed:
            status = self._killed(-status)
        else:
            say("the command ended with exit status %d" % status)
        self._report(final=True)
        if status == 0 and not killed:
            if self.info:
                _write_atomically("boinc_finish_called", "0\n")  # last: it says that all is done
            else:
                say("finished in %.1f s, %.1f s CPU" % (time.monotonic() - self.started, self.cpu))
        return status

    def _check_outputs(self) -> int:
        left = {
            *self.app.optional_outputs,
            *self._named_after(UPLOAD_PREFIX),
            *self._named_after(UPLOADED_PREFIX),
        }
        missing = [
            "%s (%s)" % (name, path)
            for name, path in self.job.outputs.items()
            if not os.path.isfile(path) and not {name, path} & left
        ]
        if missing:
            say("the command ended with exit status 0 but did not write its output %s" % ", ".join(missing))
            return EXIT_OUTPUT_MISSING
        return 0

    def _killed(self, number: int) -> int:
        if self.info and number in (signal.SIGKILL, signal.SIGTERM) and self.restarts < MAX_RESTARTS:
            self.restarts += 1
            self._save_state()
            say(
                "the command was killed from outside by signal %d; start number %d follows"
                % (number, self.restarts + 1)
            )
            return 0  # without a finish file: the client starts the job again
        say("the command was ended by signal %d (%s)" % (number, _signal_name(number)))
        return 128 + number

    def _close_outputs(self) -> None:
        if self.stdout is not None:
            self.stdout.close()
        if self.info:
            self._hand_over_stderr()

    def _hand_over_stderr(self) -> None:
        """Append the end of the command's error output to our own; a NUL would cut off what follows it."""
        try:
            with open(STDERR_FILE, "rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - STDERR_TAIL_BYTES))
                tail = file.read(STDERR_TAIL_BYTES)
        except OSError:
            return
        if size > STDERR_TAIL_BYTES:
            say("error output of the command, the last %d of %d bytes:" % (STDERR_TAIL_BYTES, size))
        sys.stderr.buffer.write(tail.replace(b"\0", b"").replace(b"]]>", b"]] >"))
        if tail and not tail.endswith(b"\n"):
            sys.stderr.buffer.write(b"\n")
        sys.stderr.buffer.flush()
        _remove(STDERR_FILE)


def _collect_trickles_down(slot: str, folder: str) -> None:
    for name in os.listdir(slot):
        if name.startswith(TRICKLE_DOWN_PREFIX):
            os.replace(os.path.join(slot, name), os.path.join(folder, "cobblestone_" + name))


def _number(value: object) -> float:
    """Read a non-negative finite number; anything else is 0."""
    try:
        number = float(cast("Any", value))  # Any: text or JSON
    except (TypeError, ValueError):
        return 0.0
    return number if 0.0 <= number < 1e300 else 0.0


def _is_over(what: str, used: float, bound: float) -> bool:
    """Say whether a job uses more than its bound (bytes; 0: none), and tell so."""
    over = 0 < bound < used
    if over:
        say("the job uses %.0f MB of %s, its bound is %.0f MB" % (used / 1e6, what, bound / 1e6))
    return over


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "no name"


def _file_size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0  # just removed


def _disk_usage(folder: str) -> float:
    total = 0
    for path, _folders, names in os.walk(folder):
        for name in names:
            total += _file_size(os.path.join(path, name))
    return float(total)


def _remove(path: str) -> None:
    try:
        os.remove(path)
    except OSError:
        pass


def take_lock(client: Client) -> Optional[IO[str]]:
    """Make sure that no other launcher works in this slot: after a crash of the client an old one may.

    Returns the open lock file, to be kept; None if the client ends meanwhile.  Raises LauncherError after
    ``LOCK_WAIT_SECONDS``.
    """
    lock = open("boinc_lockfile", "a")  # noqa: SIM115  # held until the process ends
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    while fcntl is not None:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except OSError:
            if client.is_gone():
                return None
            if time.monotonic() > deadline:
                raise LauncherError("another process works in this slot") from None
            time.sleep(0.2)
    return lock


def _run_under_client(words: Sequence[str], info: InitData) -> int:
    try:
        lock = take_lock(Client(info.client_pid))
    except LauncherError as problem:
        # The client reads this file before the exit status, so it must be the last thing that we write.
        say("%s; trying again in %d s" % (problem, LOCK_RETRY_SECONDS))
        _write_atomically("boinc_temporary_exit", "%d\n%s\n\n" % (LOCK_RETRY_SECONDS, problem))
        return 0
    if lock is None:
        return 0
    if not os.path.isfile(APP_FILE):
        raise LauncherError("%s is missing in the slot; was it registered with copy_file?" % APP_FILE)
    app = read_app(_read_text(APP_FILE))
    if not os.path.exists(STATE_FILE):  # an app may change its own copies while it runs
        check_files(app)
    return Launcher(app, parse_job(words, under_client=True), info, os.getcwd()).run()


def _run_alone(words: Sequence[str]) -> int:
    job = parse_job(words, under_client=False)
    if job.command:
        app = read_app(json.dumps({"command": [re.sub(r"([{}])", r"\1\1", word) for word in job.command]}))
    elif os.path.isfile(APP_FILE):
        app = read_app(_read_text(APP_FILE))
        check_files(app)
    else:
        raise LauncherError("no %s here; give a command after --" % APP_FILE)
    folder = tempfile.mkdtemp(prefix="cobblestone-")  # keeps the scientist's folder clean
    try:
        return Launcher(app, job, None, folder).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main(words: Sequence[str]) -> int:
    """Run the launcher with the words of its command line; return the exit status."""
    if list(words) in (["-h"], ["--help"]):
        sys.stdout.write((__doc__ or "").partition("\nexit 195\n")[2])
        return 0
    try:
        info = read_init_data("init_data.xml")
        return _run_under_client(words, info) if info else _run_alone(words)
    except LauncherError as problem:
        say(str(problem))
        return EXIT_BAD_DESCRIPTION


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
