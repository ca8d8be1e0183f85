"""Runtimes that the launcher starts besides Python: WebAssembly modules with their native launcher, and container images.

The native launcher, which runs WebAssembly modules and unpacks bundles: its sources, and the description for it.

The sources are in ``native``; the head of ``native/launcher.c`` describes the entries that the functions below write.

Images of containers: read as ``podman save`` and ``docker save`` write them, and packed as they are sent along.

Both engines load what is packed here, under a name that the image's own digest gives, so that no image of a volunteer is touched.
Sources: the docker-archive form (``manifest.json``: Config, RepoTags, Layers); OCI image layout and image specifications 1.0.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import tarfile
import tempfile
import urllib.parse
import zlib
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from cobblestone.domain.errors import JobError
from cobblestone.launcher import cobblestone_runtime

NATIVE_FOLDER = Path(__file__).parent / "native"
#: What programs in WebAssembly may include or import.
GUEST_FOLDER = Path(__file__).parent / "guest"
#: C files of the launcher, in the order in which they are compiled: the same order gives the same bytes.
CHECKPOINT_INSTRUCTIONS = 50_000_000_000  #: 10 to 30 seconds
SOURCES = ("launcher.c", "engine.c", "files.c", "kept.c", "bundle.c", "posix.c", "windows.c")
HEADER = "launcher.h"

#: Of bundles, too: the launcher knows one name, since under another one a job's input could come first.
DESCRIPTION_FILE = "cobblestone_wasm.txt"
#: The same, of a program that Pyodide runs in browsers.
PYODIDE_DESCRIPTION_FILE = "cobblestone_pyodide.txt"
LIBRARY_NAME = "wasmtime_library"
COMPILED_NAME = "compiled_module"
COMPILED_FOLDER = "cobblestone_compiled"
#: Modules see this folder of the slot, and nothing else.
ROOM = "job_files"
#: Names in the slot that the launcher uses itself.
WASM_RESERVED_NAMES = frozenset(
    {
        ROOM,
        f"{ROOM}.state",
        "stdout.txt",
        "trickle_up.xml",
        "cobblestone_checkpoints",
        "cobblestone_time_to_checkpoint",
    }
)
#: The same everywhere: what a program could learn of its surroundings, it does not.
ENVIRONMENT = {
    cobblestone_runtime.FOLDER_VARIABLE: ".",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
}
#: The words of a bundle's description where the launcher in Python runs the command: on Linux and macOS.
STARTS_LAUNCHER = ("python3", "-I", "-m", cobblestone_runtime.RUNTIME_FILE.removesuffix(".py"))
#: Of Python in a bundle: packages of the volunteer's stay outside, replicas agree, and libraries use the processors of the job.
BUNDLE_ENVIRONMENT = {
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONNOUSERSITE": "1",
    **{f"{library}_NUM_THREADS": "{ncpus}" for library in ("OMP", "OPENBLAS", "MKL")},
    # in the slot, also where the account has no home: the launcher of Windows sets no other place
    **dict.fromkeys(("MPLCONFIGDIR", "NUMBA_CACHE_DIR", "CUPY_CACHE_DIR"), cobblestone_runtime.HOME_FOLDER),
}


def wasm_description(
    words: Sequence[str],
    *,
    module: str,
    module_sha256: str,
    native_sha256: Iterable[str],
    files: Mapping[str, bytes] | None = None,
    stdout: str = "",
    optional_outputs: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    checkpoint_instructions: int = CHECKPOINT_INSTRUCTIONS,
) -> bytes:
    """Return the content of the description, to be signed and sent with the app version.

    ``checkpoint_instructions`` lie between two checkpoints, at least: the same for all, or counts would differ.
    ``module`` is the open name of the module; ``native_sha256`` are the SHA-256 of all files of native code that the launcher may
    load, of all platforms; ``files`` maps the open name of each of the app's own files to its content.
    Raises JobError for a placeholder that no job could fill.
    """
    lines = [f"library {LIBRARY_NAME}", f"module {_quoted(module)} {module_sha256}"]
    lines += [f"native {digest}" for digest in native_sha256]
    lines += [f"checkpoint {checkpoint_instructions}"]
    variables = {**ENVIRONMENT, **(environment or {})}
    return _description(lines, words, files, stdout, optional_outputs, variables)


def bundle_description(
    words: Sequence[str],
    *,
    name: str,
    sha256: str,
    files: Mapping[str, bytes],
    stdout: str = "",
    optional_outputs: Sequence[str] = (),
) -> bytes:
    """Return the description of a command that runs in a bundled Python, whose open name and SHA-256 are given.

    The first of the words is Python.  Raises JobError for a placeholder that no job could fill.
    """
    lines = [f"bundle {_quoted(name)} {sha256}"]
    return _description(lines, words, files, stdout, optional_outputs, BUNDLE_ENVIRONMENT)


def _description(
    lines: list[str],
    words: Sequence[str],
    files: Mapping[str, bytes] | None,
    stdout: str,
    optional_outputs: Sequence[str],
    variables: Mapping[str, str],
) -> bytes:
    try:
        for word in [*words, stdout]:
            cobblestone_runtime.check_placeholders(word)
            if "{gpu" in word:
                raise cobblestone_runtime.LauncherError(
                    "{gpu} and {gpu_type} are not known to the launcher of such apps"
                )
    except cobblestone_runtime.LauncherError as problem:
        raise JobError(f"The app's command cannot be used: {problem}.") from None
    lines += [f"word {_quoted(word)}" for word in words]
    lines += [
        f"file {_quoted(name)} {hashlib.sha256(data).hexdigest()}" for name, data in (files or {}).items()
    ]
    lines += [f"stdout {_quoted(stdout)}"] if stdout else []
    lines += [f"optional {_quoted(name)}" for name in optional_outputs]
    lines += [f"set {_quoted(name)}={_quoted(value)}" for name, value in variables.items()]
    return "".join(f"{line}\n" for line in lines).encode()


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="/{}:.,-_")


#: Open name of the packed image.
IMAGE_FILE = cobblestone_runtime.IMAGE_FILE
MAX_IMAGE_BYTES = 4_000_000_000  #: unpacked
PLATFORMS = {"amd64": "x86_64-pc-linux-gnu", "arm64": "aarch64-unknown-linux-gnu"}
_MAX_TEXT_BYTES = 4_000_000  # of a description inside of an archive
_MAX_LAYERS = 500
_TAG_LENGTH = 16
_BLOCK = 1 << 20
_HOW = "Make it with: podman save -o IMAGE.tar NAME (or docker save)"


@dataclass(frozen=True, slots=True)
class Image:
    """A packed image."""

    name: str  #: by which engines know it: by its content
    platform: str
    path: Path  #: of the archive
    sha256: str  #: of the archive
    nbytes: int  #: unpacked

    @property
    def file_name(self) -> str:
        """Return the name of the archive, by which the launcher knows whether an image is still needed."""
        return f"{IMAGE_FILE}_{self.name.rpartition(':')[2]}.tar"

    @property
    def description(self) -> dict[str, str]:
        """Return the description for the launcher."""
        return {"image": self.name, "sha256": self.sha256}


def pack_image(source: Path, folder: Path, *, program: str = "") -> Image:
    """Check an image and pack it into a folder; equal images give equal bytes.

    ``program``: the name or path of one that must be in it.

    Raises:
        JobError: it is no image, not one for 64-bit Linux, damaged, too large, or without the program; the text says what would
            be right.
    """
    try:
        with tarfile.open(source) as archive:
            config, layers = _find(archive, source)
            architecture = _check_config(config, len(layers), source)
            with tempfile.TemporaryDirectory(dir=folder) as temporary:
                paths = _unpack_layers(archive, layers, json.loads(config), Path(temporary), source)
                if program and not any(map(partial(_holds, PurePosixPath(program).name), paths)):
                    raise JobError(
                        f"--container: {source} has no program {program}, with which the command begins. Install it in the image,"
                        " or send it along: --files"
                    )
                return _pack(config, paths, folder, PLATFORMS[architecture])
    except FileNotFoundError:
        raise JobError(
            f"--container: {source} does not exist. (The current folder is {Path.cwd()}.)"
        ) from None
    except (OSError, tarfile.TarError, zlib.error, EOFError, RecursionError, OverflowError) as error:
        raise JobError(f"--container: {source} is not a readable archive: {error}. {_HOW}") from error


def pack_layers(layers: Sequence[Path], architecture: str, folder: Path) -> Image:
    """Return an image of layers (tar files) with default configuration."""
    digests = [f"sha256:{_sha256(path)}" for path in layers]
    config = {
        "architecture": architecture,
        "os": "linux",
        "config": {},
        "rootfs": {"type": "layers", "diff_ids": digests},
    }
    return _pack(json.dumps(config).encode(), layers, folder, PLATFORMS[architecture])


def _pack(config: bytes, layers: Sequence[Path], folder: Path, platform: str) -> Image:
    digest = hashlib.sha256(config).hexdigest()
    name = f"{cobblestone_runtime.IMAGE_REPOSITORY}:{digest[:_TAG_LENGTH]}"
    names = [f"layer_{number}.tar.gz" for number in range(len(layers))]
    manifest = [{"Config": f"{digest}.json", "RepoTags": [name], "Layers": names}]
    target = folder / "image.tar"
    with tarfile.open(target, "w") as archive:
        for member, data in (("manifest.json", json.dumps(manifest).encode()), (f"{digest}.json", config)):
            archive.addfile(_member(member, len(data)), io.BytesIO(data))
        # packed one by one: some engines take no packed archive
        for member, path in zip(names, layers, strict=True):
            with tempfile.TemporaryFile(dir=folder) as packed:
                with path.open("rb") as layer, gzip.GzipFile("", "wb", 6, packed, mtime=0) as packer:
                    shutil.copyfileobj(layer, packer, _BLOCK)
                nbytes = packed.tell()
                packed.seek(0)
                archive.addfile(_member(member, nbytes), packed)
    return Image(name, platform, target, _sha256(target), sum(path.stat().st_size for path in layers))


def _member(name: str, nbytes: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = nbytes
    return member


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _find(archive: tarfile.TarFile, source: Path) -> tuple[bytes, list[str]]:
    """Return the configuration of the only image, and the names of its layers in the archive."""
    names = set(archive.getnames())
    if "manifest.json" in names:
        images = _parsed(_text(archive, "manifest.json", source), list, source)
        if len(images) != 1:
            raise JobError(f"--container: {source} holds {len(images)} images; save only the one to be sent.")
        about = _as(images[0], dict, source)
        layers = [_as(each, str, source) for each in _as(about.get("Layers"), list, source)]
        return _text(archive, _as(about.get("Config"), str, source), source), layers
    if "index.json" not in names:
        raise JobError(
            f"--container: {source} contains no image: neither manifest.json nor index.json is in it. {_HOW}"
        )
    about = _oci_manifest(archive, "index.json", source)
    layers = [_blob(_as(each, dict, source), source) for each in _as(about.get("layers"), list, source)]
    return _text(archive, _blob(_as(about.get("config"), dict, source), source), source), layers


def _oci_manifest(archive: tarfile.TarFile, name: str, source: Path) -> dict[str, Any]:
    """Return the manifest of the only image in an index."""
    for _depth in range(3):
        about = _parsed(_text(archive, name, source), dict, source)
        if "layers" in about:
            return about
        found = [_as(each, dict, source) for each in _as(about.get("manifests"), list, source)]
        fitting = [
            each
            for each in found
            if _as(each.get("platform", {}), dict, source).get("os", "linux") == "linux"
        ]
        if len(fitting) != 1:
            raise JobError(
                f"--container: {source} holds {len(fitting)} images for Linux; save only the one to be sent."
            )
        name = _blob(fitting[0], source)
    raise JobError(f"--container: {source} is an image index within an index. {_HOW}")


def _blob(descriptor: dict[str, Any], source: Path) -> str:
    algorithm, _, digest = _as(descriptor.get("digest"), str, source).partition(":")
    return f"blobs/{algorithm}/{digest}"


def _check_config(config: bytes, n_layers: int, source: Path) -> str:
    """Return the architecture."""
    about = _parsed(config, dict, source)
    system, architecture = about.get("os"), about.get("architecture")
    if system != "linux" or architecture not in PLATFORMS:
        raise JobError(
            f"--container: {source} is an image for {system}/{architecture}; volunteers' clients have linux/amd64 or linux/arm64."
        )
    digests = _as(_as(about.get("rootfs"), dict, source).get("diff_ids"), list, source)
    if len(digests) != n_layers or not 0 < n_layers <= _MAX_LAYERS:
        raise JobError(
            f"--container: {source} names {len(digests)} layers and holds {n_layers}: it is damaged. {_HOW}"
        )
    return str(architecture)


def _unpack_layers(
    archive: tarfile.TarFile, layers: Sequence[str], config: dict[str, Any], folder: Path, source: Path
) -> list[Path]:
    """Write the layers as plain tar files; each must match the configuration."""
    paths: list[Path] = []
    left = MAX_IMAGE_BYTES
    for number, (name, wanted) in enumerate(zip(layers, config["rootfs"]["diff_ids"], strict=True)):
        path = folder / str(number)
        with _open_layer(archive, name, source) as layer, path.open("wb") as target:
            while block := layer.read(_BLOCK):
                left -= len(block)
                if left < 0:
                    raise JobError(
                        f"--container: {source} is larger than the {MAX_IMAGE_BYTES / 1e9:.0f} GB that are allowed, unpacked."
                    )
                target.write(block)
        if f"sha256:{_sha256(path)}" != wanted:
            raise JobError(
                f"--container: the layer {name} of {source} does not match the image: it is damaged."
            )
        paths.append(path)
    return paths


def _holds(name: str, layer: Path) -> bool:
    """Return whether a layer has a file or link of that name, in whatever folder: folders may be links themselves."""
    with tarfile.open(layer) as archive:
        return any(not each.isdir() and PurePosixPath(each.name).name == name for each in archive)


@contextmanager
def _open_layer(archive: tarfile.TarFile, name: str, source: Path) -> Generator[IO[bytes]]:
    with _open(archive, name, source) as file:
        magic = file.read(4)
        file.seek(0)
        if magic.startswith(b"\x1f\x8b"):
            with gzip.GzipFile(fileobj=file) as unpacked:
                yield cast("IO[bytes]", unpacked)
        elif magic == b"\x28\xb5\x2f\xfd":
            raise JobError(
                f"--container: {source} is packed with zstd, which not all engines read. Save it with --format docker-archive."
            )
        else:
            yield file


def _open(archive: tarfile.TarFile, name: str, source: Path) -> IO[bytes]:
    try:
        found = archive.extractfile(name)
    except KeyError:
        found = None
    if found is None:
        raise JobError(f"--container: {source} is missing its part {name}: it is damaged. {_HOW}")
    return found


def _text(archive: tarfile.TarFile, name: str, source: Path) -> bytes:
    with _open(archive, name, source) as file:
        data = file.read(_MAX_TEXT_BYTES + 1)
    if len(data) > _MAX_TEXT_BYTES:
        raise JobError(
            f"--container: {name} in {source} is larger than {_MAX_TEXT_BYTES} bytes: this is not an image."
        )
    return data


def _parsed(text: bytes, kind: type, source: Path) -> Any:  # Any: JSON
    try:
        return _as(json.loads(text), kind, source)
    except (ValueError, RecursionError):
        raise JobError(f"--container: a description in {source} is not JSON: it is damaged. {_HOW}") from None


def _as(value: object, kind: type, source: Path) -> Any:  # Any: JSON
    if type(value) is not kind:
        raise JobError(f"--container: {source} has an invalid description. {_HOW}")
    return value
