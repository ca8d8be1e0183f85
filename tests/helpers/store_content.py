"""Small content for tests of the store's verbs."""

from __future__ import annotations

from pathlib import Path

from cobblestone.domain.apps import App, AppFile, AppVersion
from cobblestone.domain.job_form import JobForm
from cobblestone.domain.values import AppId, AppVersionId
from cobblestone.domain.work import InputFile, OutputSpec
from cobblestone.store.catalog import apps, files
from cobblestone.store.catalog.files import FileRow, StagedFile, StagingWriter
from cobblestone.store.engine.database import Store
from cobblestone.store.work import batches
from cobblestone.store.work.batches import BatchRow, NewJob

NOW = 1_800_000_000.0


def stage_bytes(staging: Path, data: bytes) -> StagedFile:
    """Bytes in the staging folder."""
    with StagingWriter(staging) as writer:
        writer.write(data)
        return writer.finish()


def add_file(
    store: Store, folder: Path, content: bytes, *, now: float = NOW, compress: bool = False
) -> FileRow:
    """An input file in ``folder/download``."""
    staged = stage_bytes(folder / "staging", content)
    name = files.input_name(staged.sha256)
    return files.add_file(store, folder / "download", staged, name, now=now, compress=compress)


def as_input(file: FileRow, open_name: str = "in") -> InputFile:
    """A stored file as a job's input."""
    return InputFile(name=file.name, open_name=open_name, nbytes=file.nbytes, md5=file.md5)


def add_app(store: Store, name: str = "demo", *, form: JobForm | None = None) -> App:
    """An app with one output."""
    app = App(id=AppId(0), name=name, output_specs=(OutputSpec(open_name="out"),))
    return store.write(lambda tx: apps.create_app(tx, app, form=form or JobForm(), now=NOW))


def add_version(
    store: Store, app: App, file: FileRow, *, platform: str = "any", signature: str = ""
) -> AppVersion:
    """A version with one file."""
    version = AppVersion(
        id=AppVersionId(0),
        app_id=app.id,
        platform=platform,
        version_num=0,
        files=(
            AppFile(
                name=file.name,
                open_name="main",
                nbytes=file.nbytes,
                md5=file.md5,
                main_program=True,
                signature=signature,
            ),
        ),
    )
    return store.write(lambda tx: apps.add_version(tx, version, now=NOW))


def open_batch(store: Store, app: App, *, key: str | None = None) -> BatchRow:
    """A batch that takes jobs."""
    return store.write(
        lambda tx: batches.create_batch(tx, name="a batch", app_id=app.id, request_key=key, now=NOW)
    )


def add_jobs(store: Store, batch: BatchRow, app: App, jobs: list[NewJob], *, now: float = NOW) -> BatchRow:
    """Add jobs, having read the batch in the same transaction."""
    return store.write(
        lambda tx: batches.add_jobs(tx, batches.batch_by_id(tx, batch.id), app.name, jobs, now=now)
    )
