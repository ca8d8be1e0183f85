"""A small web server that serves and takes files, and misbehaves as a test wants."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field

from tests.helpers.small_server import serving

from cobblestone.wire.project.upload import FileSizeQuery, FileUpload, UploadHeaderParser

SMALL = 4096


@dataclass
class Answer:
    """How a path is answered."""

    body: bytes = b""
    status: str = "200 OK"
    announced: int | None = None  #: length that is announced; None: the true one
    ignores_range: bool = False
    content_range: str = ""  #: instead of the right one
    piece: int = 1 << 20
    pause: float = 0.0  #: seconds after each piece
    stalls_after: int | None = None  #: bytes after which nothing more comes, for ever


@dataclass
class FileServer:
    """Answers of a path are used up one by one; the last stays."""

    pages: dict[str, list[Answer]] = field(default_factory=dict[str, list[Answer]])
    asked: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])  #: path and Range
    taken: dict[str, bytes] = field(default_factory=dict[str, bytes])  #: uploads by name
    refusals: list[str] = field(
        default_factory=list[str]
    )  #: replies to the next uploads, instead of taking them
    sent: list[int] = field(default_factory=list[int])  #: bytes of each upload that arrived
    cut_uploads: int = 0  #: so many uploads are cut after half

    async def __aenter__(self) -> FileServer:
        self._serving = serving(self._serve)
        self.port = await self._serving.__aenter__()
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._serving.__aexit__(None, None, None)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        if head.startswith("POST"):
            length = re.search(r"(?i)content-length: (\d+)", head)
            await self._take(reader, writer, int(length[1]) if length else 0)
        else:
            await self._give(writer, head)

    async def _give(self, writer: asyncio.StreamWriter, head: str) -> None:
        path = head.split()[1]
        found = re.search(r"(?i)\r\nrange: (bytes=(\d+)-)", head)
        self.asked.append((path, found[1] if found else ""))
        answers = self.pages.get(path, [Answer(status="404 Not Found")])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        body, status, extra = answer.body, answer.status, ""
        if found and not answer.ignores_range and status.startswith("200"):
            start = int(found[2])
            span = answer.content_range or f"bytes {start}-{len(body) - 1}/{len(body)}"
            status, extra, body = "206 Partial Content", f"Content-Range: {span}\r\n", body[start:]
        length = len(body) if answer.announced is None else answer.announced - (len(answer.body) - len(body))
        writer.write(
            f"HTTP/1.1 {status}\r\nConnection: close\r\n{extra}Content-Length: {length}\r\n\r\n".encode()
        )
        for start in range(0, len(body), answer.piece):
            writer.write(body[start : start + answer.piece])
            await writer.drain()
            await asyncio.sleep(answer.pause)
            if answer.stalls_after is not None and start >= answer.stalls_after:
                await asyncio.Event().wait()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, length: int) -> None:
        cut = self.cut_uploads > 0 and length > SMALL
        parser = UploadHeaderParser()
        message = None
        body = await reader.readexactly(length // 2 if cut else length)
        message = parser.receive_data(body)
        if isinstance(message, FileSizeQuery):
            size = len(self.taken.get(message.name, b""))
            reply = f"<status>0</status><file_size>{size}</file_size>"
        elif self.refusals:
            reply = self.refusals.pop(0)
        else:
            assert isinstance(message, FileUpload)
            before = self.taken.get(message.name, b"")[: message.offset]
            assert len(before) == message.offset
            self.taken[message.name] = before + parser.leftover
            self.sent.append(len(parser.leftover))
            reply = "<status>0</status>"
            if cut:
                self.cut_uploads -= 1
                return
        text = f"<data_server_reply>{reply}</data_server_reply>".encode()
        writer.write(
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text)
        )
        await writer.drain()
