"""Images of containers are checked where an app is made, and packed so that the same image gives the same bytes."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.helpers.effort import times

from cobblestone.domain.apps import gpu_class_names
from cobblestone.domain.errors import JobError
from cobblestone.launcher.packing import pack_image
from cobblestone.sdk.packing.app_package import ContainerCommand


def tar_of(files: Mapping[str, bytes]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return target.getvalue()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


LAYERS = [tar_of({"program": b"one"}), tar_of({"data": b"two" * 1000})]


def config(**changes: object) -> dict[str, Any]:
    digests = [f"sha256:{sha256(layer)}" for layer in LAYERS]
    rootfs = {"type": "layers", "diff_ids": digests}
    return {"architecture": "amd64", "os": "linux", "rootfs": rootfs, **changes}


def docker_archive(
    about: object, names: object = ("a/layer.tar", "b/layer.tar"), n_images: int = 1
) -> dict[str, bytes]:
    manifest = [{"Config": "c.json", "RepoTags": ["x:1"], "Layers": names}] * n_images
    return {
        "manifest.json": json.dumps(manifest).encode(),
        "c.json": json.dumps(about).encode(),
        "a/layer.tar": LAYERS[0],
        "b/layer.tar": LAYERS[1],
    }


def oci_archive(about: object) -> dict[str, bytes]:
    blobs: dict[str, bytes] = {}

    def put(data: bytes) -> dict[str, object]:
        blobs[f"blobs/sha256/{sha256(data)}"] = data
        return {"digest": f"sha256:{sha256(data)}", "size": len(data)}

    manifest = {
        "config": put(json.dumps(about).encode()),
        "layers": [put(gzip.compress(each)) for each in LAYERS],
    }
    here = {**put(json.dumps(manifest).encode()), "platform": {"os": "linux", "architecture": "amd64"}}
    other = {**here, "platform": {"os": "windows", "architecture": "amd64"}}
    return {"index.json": json.dumps({"manifests": [here, other]}).encode(), **blobs}


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[Mapping[str, bytes]], Path]:
    def save(files: Mapping[str, bytes]) -> Path:
        path = tmp_path / "image.in"
        path.write_bytes(tar_of(files))
        return path

    return save


def test_an_image_is_packed_under_a_name_that_its_content_gives_from_either_form(
    tmp_path: Path, saved: Callable[[Mapping[str, bytes]], Path]
):
    about = config()
    first = pack_image(saved(docker_archive(about)), tmp_path)
    assert first.platform == "x86_64-pc-linux-gnu"
    assert first.name == f"localhost/cobblestone:{sha256(json.dumps(about).encode())[:16]}"
    assert first.sha256 == sha256(first.path.read_bytes())
    assert first.nbytes == sum(map(len, LAYERS))
    with tarfile.open(first.path) as archive:
        (entry,) = json.load(archive.extractfile("manifest.json"))  # type: ignore[arg-type]  # it is there
        assert entry["RepoTags"] == [first.name]
        members = [archive.extractfile(name) for name in entry["Layers"]]
        assert [gzip.decompress(each.read()) for each in members if each] == LAYERS
    second = pack_image(saved(oci_archive(about)), tmp_path)
    assert second == first


@pytest.mark.parametrize(
    ("files", "mentions"),
    [
        ({"readme": b""}, "contains no image"),
        (docker_archive(config(), n_images=2), "holds 2 images"),
        (docker_archive(config(architecture="riscv64")), "linux/riscv64"),
        (docker_archive(config(os="windows")), "windows/amd64"),
        (docker_archive(config(), names=["a/layer.tar"]), "names 2 layers and holds 1"),
        (docker_archive(config(), names=["a/layer.tar", "c/layer.tar"]), "is missing its part c/layer.tar"),
        (docker_archive(config(), names=["b/layer.tar", "a/layer.tar"]), "does not match the image"),
        (docker_archive(config(), names=[1, 2]), "an invalid description"),
        (docker_archive([]), "an invalid description"),
        ({"manifest.json": b"[" * 100_000}, "is not JSON"),
        ({"index.json": b'{"manifests": []}'}, "holds 0 images for Linux"),
    ],
)
def test_what_no_volunteer_could_load_is_refused_with_a_sentence(
    tmp_path: Path, saved: Callable[[Mapping[str, bytes]], Path], files: Mapping[str, bytes], mentions: str
):
    with pytest.raises(JobError) as raised:
        pack_image(saved(files), tmp_path)
    assert mentions in str(raised.value)


@pytest.mark.parametrize("form", [docker_archive, oci_archive])  # with layers as they are, and packed
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=times(24))
@given(position=st.integers(0, 20_000), noise=st.binary(min_size=1, max_size=8), kept=st.integers(0, 20_000))
def test_a_damaged_archive_is_packed_rightly_or_refused(
    tmp_path: Path, form: Callable[[object], dict[str, bytes]], position: int, noise: bytes, kept: int
):
    data = bytearray(tar_of(form(config())))
    data[position : position + len(noise)] = noise
    path = tmp_path / "image.in"
    path.write_bytes(data[: len(data) - kept])
    try:
        image = pack_image(path, tmp_path)
    except JobError:
        return
    assert image.nbytes == sum(map(len, LAYERS))


def test_a_layer_that_was_packed_and_damaged_is_told(
    tmp_path: Path, saved: Callable[[Mapping[str, bytes]], Path]
):
    files = oci_archive(config())
    name = list(files)[3]  # after the index, the configuration and the first layer
    with pytest.raises(JobError, match="not a readable archive"):
        pack_image(saved({**files, name: files[name][:20] + b"\xff" * 20 + files[name][40:]}), tmp_path)


@pytest.mark.parametrize("allowed", [True, False])
def test_a_container_may_use_a_gpu_by_the_classes_for_that(tmp_path: Path, allowed: bool):
    names = ",".join(gpu_class_names("any", memory_bytes=4e9, in_container=allowed))
    command = ContainerCommand(words=["x", "{output}"], source=tmp_path / "none.tar", plan_class=names)
    with nullcontext() if allowed else pytest.raises(JobError, match="containers have their own"):
        command.check()


@pytest.mark.parametrize(
    ("first", "missing"),
    [
        ("program", False),
        ("/opt/program", False),
        ("programm", True),
        ("prog", True),
        ("./run.sh", False),
        ("{input}", False),
    ],
)
def test_an_image_without_the_program_of_its_command_is_refused(
    tmp_path: Path, saved: Callable[[Mapping[str, bytes]], Path], first: str, missing: bool
):
    source = saved(docker_archive(config()))
    command = ContainerCommand(words=[first, "{output}"], source=source, files=[Path("mine/run.sh")])
    refused = pytest.raises(JobError, match=f"has no program {first}, .* --files")
    with refused if missing else nullcontext():
        pack_image(source, tmp_path, program=command.program)


def test_a_missing_file_and_a_plan_class_beside_it_are_refused(tmp_path: Path):
    with pytest.raises(JobError, match="does not exist"):
        pack_image(tmp_path / "none.tar", tmp_path)
    command = ContainerCommand(words=["x", "{output}"], source=tmp_path / "none.tar", plan_class="mt")
    with pytest.raises(JobError, match=r"\[docker\] with docker = true"):
        command.check()
