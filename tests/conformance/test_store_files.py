from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest
from tests.helpers.store_content import NOW, add_file, stage_bytes

from cobblestone.domain.errors import Conflict, NotFound
from cobblestone.store.catalog import files
from cobblestone.store.engine.database import Database, Store


def refs_of(store: Store, name: str) -> int:
    return store.read(lambda db: files.files_by_name(db, [name]))[name].refs


def place(folder: Path, name: str) -> Path:
    return files.place_of(folder / "download", name)


def stored(db: Database) -> tuple[int, int]:
    """Number of stored files, and their bytes."""
    row = db.one("SELECT COUNT(*), COALESCE(SUM(nbytes), 0) FROM file WHERE refs >= 0")
    assert row is not None
    return row[0], row[1]


def test_a_file_is_stored_under_the_hash_of_its_content(store: Store, tmp_path: Path):
    stored = add_file(store, tmp_path, b"content")
    assert stored.name == "jf_ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73"
    assert (stored.nbytes, stored.md5) == (7, "9a0364b9e99bb480dd25e1f0284c8555")
    assert place(tmp_path, stored.name).read_bytes() == b"content"


def test_the_same_content_is_stored_once(store: Store, tmp_path: Path):
    first = add_file(store, tmp_path, b"content", now=NOW)
    second = add_file(store, tmp_path, b"content", now=NOW + 5)
    assert (second.name, second.touched_time) == (first.name, NOW + 5)
    assert store.read(stored) == (1, 7)


def test_nothing_stays_in_the_staging_folder(store: Store, tmp_path: Path):
    add_file(store, tmp_path, b"content")
    assert list((tmp_path / "staging").iterdir()) == []


def test_a_half_written_file_is_removed_when_the_writer_is_left(tmp_path: Path):
    with files.StagingWriter(tmp_path) as writer:
        writer.write(b"half")
    assert list(tmp_path.iterdir()) == []


def test_what_an_earlier_process_left_in_the_staging_folder_is_removed(tmp_path: Path):
    stage_bytes(tmp_path, b"left behind")
    files.empty_staging(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_name_never_changes_its_content(store: Store, tmp_path: Path):
    root, staging = tmp_path / "download", tmp_path / "staging"
    files.add_file(store, root, stage_bytes(staging, b"one"), "name", now=NOW)
    with pytest.raises(Conflict, match="already another file called name"):
        files.add_file(store, root, stage_bytes(staging, b"two"), "name", now=NOW)
    assert files.place_of(root, "name").read_bytes() == b"one"
    assert list(staging.iterdir()) == []


def test_of_a_large_file_parts_tell_whether_a_compressed_twin_pays(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(files, "LARGE_NBYTES", 2_000_000)
    noise = random.Random(1).randbytes(2_100_000)
    for content, pays in (
        (noise, False),
        (bytes(2_100_000), True),
        (noise[:700_000] + bytes(1_400_000), True),
    ):
        stored = add_file(store, tmp_path, content, compress=True)
        variant = files.gzip_variant(place(tmp_path, stored.name))
        assert (stored.gzipped_nbytes is not None, variant.exists()) == (pays, pays)
        if pays:
            assert gzip.decompress(variant.read_bytes()) == content


def test_a_compressed_twin_is_kept_where_it_pays(store: Store, tmp_path: Path):
    stored = add_file(store, tmp_path, b"a" * 10_000, compress=True)
    variant = files.gzip_variant(place(tmp_path, stored.name))
    assert stored.gzipped_nbytes == variant.stat().st_size < 1000
    assert gzip.decompress(variant.read_bytes()) == b"a" * 10_000


@pytest.mark.parametrize("content", [b"short", bytes(range(256)) * 9], ids=["small", "dense"])
def test_no_twin_is_made_where_it_does_not_pay(store: Store, tmp_path: Path, content: bytes, rng):
    data = content if len(content) < 100 else rng.randbytes(4000)
    stored = add_file(store, tmp_path, data, compress=True)
    assert stored.gzipped_nbytes is None
    assert not files.gzip_variant(place(tmp_path, stored.name)).exists()


def test_names_of_app_files_are_readable_and_follow_the_content():
    one = files.app_file_name("my prog v1.py", "ab" * 32)
    assert one == "my_prog_v1_" + "ab" * 16 + ".py"
    assert files.app_file_name("../../x", "cd" * 32) == "x_" + "cd" * 16
    assert files.app_file_name("ünï.exe", "ab" * 32).isascii()


def test_references_are_counted_up_and_down(store: Store, tmp_path: Path):
    name = add_file(store, tmp_path, b"x").name
    store.write(lambda tx: files.add_references(tx, {name: 3}))
    assert refs_of(store, name) == 3
    store.write(lambda tx: files.release_references(tx, {name: 2}, now=NOW))
    assert refs_of(store, name) == 1
    store.write(lambda tx: files.release_references(tx, {name: 5}, now=NOW))
    assert refs_of(store, name) == 0


def test_a_reference_on_a_missing_file_names_it_and_changes_nothing(store: Store, tmp_path: Path):
    name = add_file(store, tmp_path, b"x").name
    with pytest.raises(NotFound, match="jf_missing"):
        store.write(lambda tx: files.add_references(tx, {name: 1, "jf_missing": 1}))
    assert refs_of(store, name) == 0


def test_touching_tells_which_files_are_there(store: Store, tmp_path: Path):
    name = add_file(store, tmp_path, b"x").name
    found = store.write(lambda tx: files.touch(tx, [name, "jf_missing"], now=NOW + 9))
    assert list(found) == [name]
    assert found[name].touched_time == NOW + 9


def test_only_unused_and_old_files_are_deleted(store: Store, tmp_path: Path):
    root = tmp_path / "download"
    old, used, fresh = (add_file(store, tmp_path, data).name for data in (b"old" * 999, b"used", b"fresh"))
    store.write(lambda tx: files.add_references(tx, {used: 1}))
    store.write(lambda tx: files.touch(tx, [fresh], now=NOW + 100))
    assert files.delete_unused(store, root, before=NOW + 50) == 1
    assert not place(tmp_path, old).exists()
    assert place(tmp_path, used).exists()
    assert place(tmp_path, fresh).exists()
    assert set(store.read(lambda db: files.files_by_name(db, [old, used, fresh]))) == {used, fresh}


def test_the_twin_is_deleted_with_its_file(store: Store, tmp_path: Path):
    stored = add_file(store, tmp_path, b"a" * 10_000, compress=True)
    files.delete_unused(store, tmp_path / "download", before=NOW + 1)
    assert [path for path in (tmp_path / "download").rglob("*") if path.is_file()] == []
    assert stored.gzipped_nbytes is not None


def condemn(store: Store, name: str) -> None:
    """What a process does that is killed in the middle of a deletion."""
    store.write(lambda tx: tx.execute("UPDATE file SET refs = -1 WHERE name = ?", (name,)))


def test_a_condemned_file_cannot_be_referred_to(store: Store, tmp_path: Path):
    name = add_file(store, tmp_path, b"x").name
    condemn(store, name)
    with pytest.raises(NotFound):
        store.write(lambda tx: files.add_references(tx, {name: 1}))
    assert store.write(lambda tx: files.touch(tx, [name], now=NOW)) == {}
    assert store.read(stored) == (0, 0)


def test_an_interrupted_deletion_is_finished_by_the_next(store: Store, tmp_path: Path):
    name = add_file(store, tmp_path, b"x").name
    condemn(store, name)
    assert files.delete_unused(store, tmp_path / "download", before=NOW + 1) == 1
    assert not place(tmp_path, name).exists()
    assert add_file(store, tmp_path, b"x").refs == 0


def test_adding_a_file_that_is_being_deleted_waits_for_the_deletion(
    store: Store, tmp_path: Path, monkeypatch
):
    name = add_file(store, tmp_path, b"x").name
    condemn(store, name)

    def deletion_finishes(seconds: float) -> None:
        files.delete_unused(store, tmp_path / "download", before=NOW + 1)

    monkeypatch.setattr("cobblestone.store.catalog.files.time.sleep", deletion_finishes)
    assert add_file(store, tmp_path, b"x").name == name
    assert place(tmp_path, name).read_bytes() == b"x"


def test_a_file_without_a_row_is_taken_over(store: Store, tmp_path: Path):
    """As a crash leaves it: in its place, but never recorded."""
    staged = stage_bytes(tmp_path / "staging", b"x")
    path = place(tmp_path, files.input_name(staged.sha256))
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x")
    assert add_file(store, tmp_path, b"x").nbytes == 1
