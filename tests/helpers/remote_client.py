"""A caller of the family's remote job submission: it puts its messages together as the family's programs do."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

import httpx

#: What sends a request: its method, its path, and what httpx takes.
Send = Callable[..., httpx.Response]
RPC, FILES = "/submit_rpc_handler.php", "/job_file.php"


def element(tag: str, content: object) -> str:
    return f"<{tag}>{content}</{tag}>\n"


def job(name: str = "", *files: str, line: str = "", **more: object) -> str:
    """A job with files that were sent before."""
    inputs = "".join(
        element("input_file", element("mode", "local_staged") + element("source", file)) for file in files
    )
    named = element("name", name) if name else ""
    options = element("command_line", line) if line else ""
    return element("job", named + options + "".join(element(*each) for each in more.items()) + inputs)


class RemoteClient:
    """Calls with one authenticator."""

    def __init__(self, send: Send, authenticator: str) -> None:
        self.send = send
        self.authenticator = authenticator

    def text(self, action: str, *contents: str, **scalars: object) -> str:
        written = "".join(element(name, content) for name, content in scalars.items())
        who = element("authenticator", self.authenticator)
        return f"<{action}>\n{who}{written}{''.join(contents)}</{action}>\n"

    def call(self, action: str, *contents: str, path: str = RPC, **scalars: object) -> ElementTree.Element:
        """The answer to a call, sent in a form as the Python client does."""
        return self.post(self.text(action, *contents, **scalars), path=path)

    def post(self, text: str, *, path: str = RPC) -> ElementTree.Element:
        return self.read(self.send("POST", path, data={"request": text}))

    def read(self, answer: httpx.Response) -> ElementTree.Element:
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].startswith("text/xml")
        return ElementTree.fromstring(answer.content)  # our own server's

    def good(self, action: str, *contents: str, path: str = RPC, **scalars: object) -> ElementTree.Element:
        answer = self.call(action, *contents, path=path, **scalars)
        assert answer.tag == action
        assert answer.find("error") is None, answer.findtext("error/error_msg")
        return answer

    def refused(self, action: str, *contents: str, path: str = RPC, **scalars: object) -> str:
        """The words of a refusal."""
        return self.reason(self.call(action, *contents, path=path, **scalars))

    def reason(self, answer: ElementTree.Element) -> str:
        error = answer if answer.tag == "error" else answer.find("error")
        assert error is not None, ElementTree.tostring(answer)
        assert error.findtext("error_num") == "-1"
        return error.findtext("error_msg") or ""

    def create(self, app: str, name: str) -> int:
        return int(
            self.good("create_batch", app_name=app, batch_name=name, expire_time="1e9").findtext(
                "batch_id", ""
            )
        )

    def submit_text(self, app: str, jobs: Sequence[str], **of_batch: object) -> str:
        inside = "".join(element(*each) for each in {"app_name": app, **of_batch}.items())
        return self.text("submit_batch", element("batch", inside + "".join(jobs)))

    def submit(self, app: str, jobs: Sequence[str], **of_batch: object) -> int:
        answer = self.post(self.submit_text(app, jobs, **of_batch))
        assert answer.find("error") is None, answer.findtext("error/error_msg")
        return int(answer.findtext("batch_id", ""))

    def upload(
        self, contents: Mapping[str, bytes], *, path: str = FILES, **scalars: object
    ) -> ElementTree.Element:
        """Send files, called ``file_0`` and so on, in the parts of a form."""
        named = "".join(element("phys_name", name) for name in contents)
        text = self.text("upload_files", named, **scalars)
        parts = [(f"file_{place}", each) for place, each in enumerate(contents.items())]
        return self.read(self.send("POST", path, data={"request": text}, files=parts))

    def absent(self, names: Sequence[str], tag: str = "phys_name") -> list[int]:
        answer = self.good("query_files", *(element(tag, name) for name in names), path=FILES, batch_id=0)
        return [int(each.text or "") for each in answer.findall("absent_files/file")]

    def status(self, batch: str, since: float = 0.0) -> tuple[float, dict[str, str]]:
        """The server's time, and the states of jobs as HTCondor asks for them."""
        answer = self.good("query_batch2", element("batch_name", batch), min_mod_time=since)
        told = {each.findtext("job_name", ""): each.findtext("status", "") for each in answer.findall("job")}
        assert answer.findtext("batch_size") == str(len(told))
        return float(answer.findtext("server_time", "")), told

    def digest(self, subject: object) -> str:
        return hashlib.md5(f"{self.authenticator}{subject}".encode()).hexdigest()

    def get(self, path: str, **query: Any) -> httpx.Response:
        return self.send("GET", path, params=query)
