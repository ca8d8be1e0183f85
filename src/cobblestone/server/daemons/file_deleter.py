"""The file deleter and the purger: delete what is no longer needed, in small portions."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

import structlog

from cobblestone.server.core.context import ServerContext
from cobblestone.store.catalog import files
from cobblestone.store.engine.database import Transaction
from cobblestone.store.work import archive, batches, lifecycle, uploads
from cobblestone.store.work.uploads import partial_folder

log = structlog.get_logger(__name__)

BATCH = 200
RELEASE_BATCH = 1000
PARTIAL_UPLOAD_SECONDS = 30 * 86400.0


async def delete_files(ctx: ServerContext) -> int:
    """Delete input files and outputs that no rule needs any more, up to a batch; return how many objects."""
    n = 0
    if await ctx.store.aread(batches.answers_to_release):
        n = await ctx.store.awrite(
            lambda tx: batches.release_answers(tx, now=ctx.clock(), limit=RELEASE_BATCH)
        )
    gone = await ctx.store.aread(partial(lifecycle.files_to_delete, limit=BATCH))
    n += len(gone.workunits) + len(gone.results)
    if gone.workunits or gone.results:
        names = await ctx.store.awrite(partial(_forget, ctx=ctx, gone=gone))
        await asyncio.to_thread(_unlink_outputs, ctx, names)
    before = ctx.clock() - ctx.settings.files.unused_file_grace
    n += await asyncio.to_thread(
        files.delete_unused,
        ctx.store,
        ctx.folder.download,
        before=before,
        limit=BATCH,
        also_remove=ctx.storage.remove,
    )
    return n


def _forget(tx: Transaction, *, ctx: ServerContext, gone: lifecycle.FilesToDelete) -> list[str]:
    names = uploads.delete_outputs(tx, gone.results)
    lifecycle.mark_files_deleted(tx, gone, now=ctx.clock())
    return names


async def purge(ctx: ServerContext) -> int:
    """Move finished workunits whose files are gone into the archive, up to a batch; return how many."""
    await asyncio.to_thread(_forget_partial_uploads, ctx)
    await asyncio.to_thread(archive.move_into_parts, ctx.folder.archive, ctx.archive)
    min_age = ctx.settings.files.purge_after
    n = await asyncio.to_thread(
        archive.purge, ctx.store, ctx.archive, now=ctx.clock(), min_age=min_age, limit=BATCH
    )
    if n:
        log.info("jobs_archived", workunits=n)
    return n


async def follow_archive(ctx: ServerContext) -> int:
    """Add what other machines have purged to this machine's archive, for its pages; return 0, as nothing is left to do."""
    await asyncio.to_thread(archive.follow, ctx.archive)
    return 0


def _forget_partial_uploads(ctx: ServerContext) -> None:
    """Remove partial uploads that no client has continued."""
    folder = partial_folder(ctx.folder.upload)
    for path in folder.iterdir() if folder.is_dir() else ():
        with contextlib.suppress(FileNotFoundError):  # it was completed at this moment
            if path.stat().st_mtime < ctx.clock() - PARTIAL_UPLOAD_SECONDS:
                path.unlink()


def _unlink_outputs(ctx: ServerContext, names: list[str]) -> None:
    places = [files.place_of(ctx.folder.upload, name) for name in names]
    for place in places:
        # A crash before this leaves a file that nothing refers to; it is found by its age.
        place.unlink(missing_ok=True)
    ctx.storage.remove(places)
