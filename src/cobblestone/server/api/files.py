"""Files: inputs of jobs and files of app versions, stored under the hash of their content."""

from __future__ import annotations

import asyncio

from cobblestone.api_schema import files as schema
from cobblestone.domain.errors import NotFound
from cobblestone.domain.people import Scope
from cobblestone.server.api.routing import Call, endpoint
from cobblestone.server.core.context import ServerContext
from cobblestone.server.files.disk_space import free_bytes
from cobblestone.service.http.problems import ApiProblem
from cobblestone.store.work import files
from cobblestone.store.work.files import StagedFile, StagingWriter, StoredFile

WRITE_CHUNK = 1 << 20


def _reply(file: StoredFile) -> schema.StoredFile:
    return schema.StoredFile(name=file.name, nbytes=file.nbytes, md5=file.md5)


def check_free_disk(ctx: ServerContext) -> None:
    """Refuse what needs room when there is little.

    Raises:
        ApiProblem: less than the configured bytes are free.
    """
    free = free_bytes(ctx)
    least = ctx.settings.server.min_free_disk_bytes
    if free < least:
        raise ApiProblem(
            507,
            "disk_full",
            f"The project's disk has {free // 10**6} MB left; nothing is taken below {least // 10**6} MB.",
            "Retire batches that are not needed any more, or make room on the server.",
        )


@endpoint("PUT", "/files/{name}", scope=Scope.SUBMIT, tag="files", raw_body=True, problems=(413, 507))
async def put_file(call: Call, name: str, query: schema.PutQuery) -> schema.StoredFile:
    """Store a file.

    The body is the file itself; NAME is its SHA-256 in hexadecimal. Repeating it changes nothing. A file that no job
    and no app version refers to is deleted after the grace period (files.unused_file_grace).
    """
    ctx, sha256 = call.ctx, name.lower()
    if len(sha256) != 64 or any(character not in "0123456789abcdef" for character in sha256):
        raise ApiProblem(
            422, "bad_hash", "The path must end in the SHA-256 of the body: 64 hexadecimal digits."
        )
    check_free_disk(ctx)
    staged = await _receive(call, ctx.settings.server.max_upload_bytes)
    if staged.sha256 != sha256:
        await asyncio.to_thread(staged.path.unlink)
        raise ApiProblem(
            422,
            "wrong_hash",
            f"The body has the SHA-256 {staged.sha256}, not {sha256}: it was changed on the way or is cut.",
            "Send it again.",
        )
    name = files.app_file_name(query.name, sha256) if query.name else files.input_name(sha256)
    place = files.place_of(ctx.folder.download, name)
    await ctx.storage.keep(place, staged.path)
    stored = await asyncio.to_thread(
        files.add_file,
        ctx.store,
        ctx.folder.download,
        staged,
        name,
        now=call.now,
        compress=not ctx.storage.in_bucket,  # which has no packed twins
    )
    if ctx.storage.in_bucket and await asyncio.to_thread(ctx.storage.size, place) is None:
        await ctx.storage.keep(place, place)  # the deletion of an old file of this name had not been through
    return _reply(stored)


async def _receive(call: Call, max_bytes: int) -> StagedFile:
    announced = call.request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > max_bytes:
        raise _too_large(max_bytes)
    with StagingWriter(call.ctx.folder.staging) as writer:
        waiting: list[bytes] = []
        size = 0
        async for chunk in call.request.stream():
            waiting.append(chunk)
            size += len(chunk)
            if writer.nbytes + size > max_bytes:
                raise _too_large(max_bytes)
            if size >= WRITE_CHUNK:
                await asyncio.to_thread(writer.write, b"".join(waiting))
                waiting, size = [], 0
        writer.write(b"".join(waiting))
        return await asyncio.to_thread(writer.finish)


def _too_large(max_bytes: int) -> ApiProblem:
    return ApiProblem(
        413,
        "too_large",
        f"The file is larger than the {max_bytes} bytes that this project takes.",
        "Split it, or ask the operator to raise server.max_upload_bytes.",
    )


@endpoint("GET", "/files/{name}", scope=Scope.SUBMIT, tag="files", problems=(404,))
async def get_file(call: Call, name: str) -> schema.StoredFile:
    """Ask whether a file is there.

    By physical name. The file then stays for the grace period.
    """
    found = await call.ctx.store.awrite(lambda tx: files.touch(tx, [name], now=call.now))
    if name not in found:
        raise NotFound(f"There is no file {name[:200]}.")
    return _reply(found[name])


@endpoint("POST", "/files/query", scope=Scope.SUBMIT, tag="files", max_body=4_000_000)
async def query_files(call: Call, body: schema.FileQuery) -> schema.FileQueryReply:
    """Ask which files are there."""
    names = list(dict.fromkeys(body.names))
    found = await call.ctx.store.awrite(lambda tx: files.touch(tx, names, now=call.now))
    return schema.FileQueryReply(
        present=[_reply(found[name]) for name in names if name in found],
        missing=[name for name in names if name not in found],
    )
