"""Tar files of folders: what anybody may have put into one, and what of it gets onto the disk."""

from __future__ import annotations

import gzip
import os
import random
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from cobblestone.domain.errors import StoreError
from cobblestone.service.tar_files import MAX_DEPTH, pack_folder, unpack_folder


def member(name: str, data: bytes = b"x", kind: bytes = tarfile.REGTYPE, **facts: object) -> tarfile.TarInfo:
    about = tarfile.TarInfo(name)
    about.type, about.size = kind, len(data) if kind == tarfile.REGTYPE else 0
    for fact, value in facts.items():
        setattr(about, fact, value)
    return about


def tar(*members: tarfile.TarInfo, format: Literal[1, 2] = tarfile.PAX_FORMAT) -> bytes:  # noqa: A002  # as tarfile calls it
    """Heads with a byte of content for each that has a size, whatever size it is."""
    content = b"".join(
        each.tobuf(format) + (b"x".ljust(tarfile.BLOCKSIZE, b"\0") if each.size else b"") for each in members
    )
    return content + bytes(tarfile.RECORDSIZE)


def long_name(nbytes: int) -> bytes:
    """The head of a name of that length, for the next member, and as much as is there of it."""
    head = member("././@LongLink", kind=tarfile.GNUTYPE_LONGNAME, size=nbytes)
    return head.tobuf(tarfile.GNU_FORMAT) + b"a" * max(nbytes, 0)


SPARSE = {
    "GNU.sparse.major": "0",
    "GNU.sparse.minor": "1",
    "GNU.sparse.map": "0,1",
    "GNU.sparse.size": str(1 << 50),
}
PATCHED = "invalid offset|"  # what `tarfile` itself says of negative sizes, where it has been mended


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (tar(member("/tmp/evil")), "is not allowed in a copy"),
        (tar(member("../evil")), "is not allowed in a copy"),
        (tar(member("a/../../evil")), "is not allowed in a copy"),
        (tar(member("../evil", kind=tarfile.DIRTYPE)), "is not allowed in a copy"),
        (tar(member("a/" * MAX_DEPTH + "evil")), "is not allowed in a copy"),
        (tar(member("evil", kind=tarfile.SYMTYPE, linkname="/etc/passwd")), "'evil' is a link"),
        (tar(member("evil", kind=tarfile.LNKTYPE, linkname="/etc/passwd")), "'evil' is a link"),
        (tar(member("evil", kind=tarfile.SYMTYPE, linkname=".."), member("evil/evil")), "'evil' is a link"),
        (tar(member("evil", kind=tarfile.FIFOTYPE)), "neither a file nor a folder"),
        (tar(member("evil", kind=tarfile.CHRTYPE, devmajor=1, devminor=8)), "neither a file nor a folder"),
        (tar(member("evil", kind=tarfile.BLKTYPE, devmajor=8)), "neither a file nor a folder"),
        (tar(member("evil", kind=b"Z")), "neither a file nor a folder"),
        (tar(member("evil", pax_headers=SPARSE)), "neither a file nor a folder"),
        (tar(member("evil"), member("./evil")), "more than once"),
        (tar(member("evil"), member("evil/evil")), "could not be unpacked"),
        (tar(member("evil", kind=tarfile.DIRTYPE), member("evil")), "more than once"),
        (tar(member("evil"), member("evil", kind=tarfile.DIRTYPE)), "could not be unpacked"),
        (tar(member("a" * 300)), "could not be unpacked"),
        (tar(member("evil", size=1 << 50), format=tarfile.GNU_FORMAT), "contains more than fits into the"),
        (tar(member("evil", size=-512), format=tarfile.GNU_FORMAT), PATCHED + "is not allowed in a copy"),
        (tar(member("evil", pax_headers={"mtime": "nan"})), "not a readable tar file"),
        (tar(member("evil", pax_headers={"mtime": "1e300"})), "not a readable tar file"),
        (tar(member("evil", pax_headers={"path": "e\0vil"})), "not a readable tar file"),
        (tar(member("evil", pax_headers={"GNU.sparse.map": "a,b"})), "not a readable tar file"),
        (tar(member("evil", size=600))[:1100], "not a readable tar file"),
        (long_name(2_000_000), "a name is too long"),
        (long_name(-512), PATCHED + "a name is too long"),
        (long_name(10), "not a readable tar file"),
        (long_name(512) * 5000 + tar(member("evil")), "not a readable tar file"),
        (b"", "not a readable tar file"),
        (b"no tar file at all" * 100, "not a readable tar file"),
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_hostile_tar_file_is_refused_and_leaves_nothing_outside(
    tmp_path: Path, pack: Callable[[bytes], bytes], content: bytes, words: str
):
    source = tmp_path / "copy.tar"
    source.write_bytes(pack(content))
    (tmp_path / "place").mkdir()
    with pytest.raises(StoreError, match=words):
        unpack_folder(source, tmp_path / "place" / "folder")
    assert {path.name for path in tmp_path.iterdir()} == {"copy.tar", "place"}
    assert {path.name for path in (tmp_path / "place").iterdir()} <= {"folder"}
    assert not list(Path("/tmp").glob("evil*"))
    assert not any(path.is_symlink() for path in tmp_path.rglob("*"))


def test_a_packed_tar_file_that_is_cut_or_damaged_is_refused(tmp_path: Path):
    about = tarfile.TarInfo("a")
    about.size = 9_000
    whole = gzip.compress(about.tobuf() + random.Random(1).randbytes(4_500).hex().encode() + bytes(20_000))
    for number, content in enumerate((whole[:2000], whole[:2000] + b"\0" * 500 + whole[2500:])):
        (tmp_path / "copy.tar.gz").write_bytes(content)
        with pytest.raises(StoreError, match="not a readable tar file"):
            unpack_folder(tmp_path / "copy.tar.gz", tmp_path / f"new{number}")


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz", ".tgz"])
def test_what_was_packed_is_unpacked_with_its_times_but_not_its_rights(tmp_path: Path, suffix: str):
    folder = tmp_path / "folder"
    (folder / "empty").mkdir(parents=True)
    name = "long/" * 50 + "ü"
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_bytes(b"content")
    (folder / "same").hardlink_to(folder / name)
    os.utime(folder / name, (1e9, 1e9))
    (folder / name).chmod(0o6755)
    pack_folder(folder, tmp_path / f"copy{suffix}")
    unpack_folder(tmp_path / f"copy{suffix}", tmp_path / "again")
    for path in (tmp_path / "again" / name, tmp_path / "again" / "same"):
        facts = path.stat()
        assert (path.read_bytes(), facts.st_mtime, facts.st_nlink) == (b"content", 1e9, 1)
        assert facts.st_mode & 0o7111 == 0
    assert (tmp_path / "again" / "empty").is_dir()
    assert (tmp_path / "again").stat().st_mode & 0o077 == 0


def test_there_must_be_a_file(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        unpack_folder(tmp_path / "copy.tar", tmp_path / "new")


def test_many_members_and_a_long_name_take_little_memory(tmp_path: Path):
    source = tmp_path / "copy.tar.gz"
    with gzip.open(source, "wb", 1) as file:
        for _ in range(8_000):
            file.write(member("a/" * 50, kind=tarfile.DIRTYPE).tobuf(tarfile.GNU_FORMAT))
        file.write(long_name(0))
        head = member("././@LongLink", kind=tarfile.GNUTYPE_LONGNAME, size=50_000_000)
        file.write(head.tobuf(tarfile.GNU_FORMAT) + bytes(50_000_000))
    tracemalloc.start()
    with pytest.raises(StoreError, match="a name is too long"):
        unpack_folder(source, tmp_path / "new")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_500_000
