"""Stored files: inputs of jobs and files of app versions."""

from __future__ import annotations

from typing import Annotated

import msgspec

from cobblestone.api_schema.values import Body, FileName, Line, Query, Reply


class StoredFile(Reply, frozen=True):
    """A stored file."""

    name: str  #: physical name: what jobs and app versions refer to
    nbytes: int
    md5: str


class PutQuery(Query, frozen=True):
    """How the file shall be called."""

    name: Line = ""  #: empty: jf_<sha256>; else a readable name is made of it and the hash


class FileQuery(Body, frozen=True):
    """Physical names to look up."""

    names: Annotated[list[FileName], msgspec.Meta(max_length=10_000)]


class FileQueryReply(Reply, frozen=True):
    """Which of the files are there.  Those stay for the grace period."""

    present: list[StoredFile]
    missing: list[str]
