"""Whether the platforms of a version can start its files, as the first bytes of those tell.

Whoever posts a version may be no tool of ours: a program for Linux that is offered to Windows would fail on every computer there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from cobblestone.api_schema.apps import NewVersion
from cobblestone.domain.apps import ANY_PLATFORM
from cobblestone.domain.errors import JobError
from cobblestone.domain.platforms import (
    HEAD_NBYTES,
    PLATFORMS,
    POSIX,
    platforms_of_command,
    platforms_of_program,
)
from cobblestone.server.core.context import ServerContext
from cobblestone.store.work import files

Programs = Mapping[str, tuple[str, ...] | None]
"""Files by physical name, and what `platforms_of_program` says of each."""


async def read_programs(ctx: ServerContext, body: NewVersion) -> Programs:
    """Look at the files that a version names; those that are not there are left out.

    Raises:
        StoreError: the storage is away.
    """
    named = {each.file for of_some in (body.files, *body.platform_files.values()) for each in of_some}
    stored = await ctx.store.aread(lambda db: files.files_by_name(db, sorted(named)))
    found: dict[str, tuple[str, ...] | None] = {}
    for name, file in stored.items():
        place = files.place_of(ctx.folder.download, name)
        await ctx.storage.bring(place, nbytes=file.nbytes, md5=file.md5)
        head = await asyncio.to_thread(_head, place)
        if head is not None:
            found[name] = platforms_of_program(head)
    return found


def _head(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(HEAD_NBYTES)
    except FileNotFoundError:
        return None


def check_programs(body: NewVersion, words: Sequence[str], programs: Programs) -> None:
    """Refuse a version for one platform whose clients cannot start it; ``words``: of the app's command, if it has one.

    Platforms of which nothing is known are taken as they are, and so are files that are no program of a known kind.

    Raises:
        JobError: it cannot be started there; the text says where it can.
    """
    main = next(each for each in body.files if each.main_program)
    _check(body.platform, main.open_name, programs.get(main.file), any_starts=POSIX)
    if words:
        own = {each.open_name: programs.get(each.file) for each in body.files if not each.main_program}
        able, why = platforms_of_command(words, own)
        _check(body.platform, why, able)


def _check(
    platform: str, name: str, able: tuple[str, ...] | None, *, any_starts: tuple[str, ...] = ()
) -> None:
    if able is None or platform in able or platform not in (ANY_PLATFORM, *PLATFORMS):
        return
    if platform == ANY_PLATFORM and able == any_starts:  # the launcher of commands, which is a script
        return
    if not able:
        raise JobError(f"{name} is a program for a kind of computer that no client of the family runs on.")
    raise JobError(
        f"platform: {name} cannot be started on {platform!r}, but on {', '.join(able)}. Add a version for each platform, with"
        " a file that it can start."
    )
