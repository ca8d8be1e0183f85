"""What libraries work out anew for each application, worked out once in a process: tests make thousands of applications."""

from __future__ import annotations

import functools
from pathlib import Path
from types import CodeType
from typing import Any

import certifi
import jinja2
import jinja2.bccache
import starlette.routing


class Compiled(jinja2.BytecodeCache):
    """Compiled templates, by their file, name and text."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], CodeType] = {}

    def load_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        bucket.code = self._kept.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        if bucket.code is not None:
            self._kept[bucket.key, bucket.checksum] = bucket.code


def compile_once() -> None:
    """Compile each template and each path of a route once in this process."""
    environment: Any = jinja2.Environment  # Any: its constructor is replaced
    environment.__init__ = functools.partialmethod(environment.__init__, bytecode_cache=Compiled())
    routing: Any = starlette.routing
    routing.compile_path = functools.cache(routing.compile_path)


def one_certificate(folder: Path) -> Path:
    """Write a file with one of the world's authorities.  To read all takes a client 30 ms, and here nobody meets any."""
    end = "-----END CERTIFICATE-----\n"
    path = folder / "authority.pem"
    path.write_text(Path(certifi.where()).read_text(encoding="utf-8").partition(end)[0] + end)
    return path
