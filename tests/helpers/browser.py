"""A browser that computes, without its page: it asks the API as the page does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx
from tests.helpers.project_world import World, plain

from cobblestone.domain.apps import BROWSER_PLATFORM, App, AppFile, AppVersion
from cobblestone.domain.values import AppVersionId
from cobblestone.store.catalog import apps
from cobblestone.wire.project.signatures import sign_md5

API = "/api/v1/browsers"


def release(
    world: World,
    app: App,
    module: bytes = b"\0asm",
    description: bytes = b"module program.wasm\n",
    more: Mapping[str, bytes] | None = None,
    *,
    program: str = "counting.wasm",
    about: str = "cobblestone_wasm.txt",
    platform: str = BROWSER_PLATFORM,
) -> None:
    """Add a version of a module to an app, for browsers if no platform is named; ``more`` are the app's own files."""
    files: list[AppFile] = []
    contents = {program: module, about: description, **(more or {})}
    for name, content in contents.items():
        stored = world.store_file(name, content)
        main = name == program
        files.append(
            AppFile(
                name=stored.name,
                open_name=name,
                nbytes=stored.nbytes,
                md5=stored.md5,
                main_program=main,
                copy_file=not main,
                signature=sign_md5(world.key, stored.md5),
            )
        )
    version = AppVersion(
        id=AppVersionId(0), app_id=app.id, platform=platform, version_num=0, files=tuple(files)
    )
    world.write(lambda tx: apps.add_version(tx, version, now=world.now))


class Browser:
    """One browser with its token."""

    def __init__(
        self, world: World, *, account: str = "", name: str = "Chromium", address: str = "127.0.0.1"
    ) -> None:
        self.world = world
        self.address = address
        world.transport.client = (address, 1)
        answer = world.post(API, json={"name": name, "account": account})
        assert answer.status_code == 201, answer.text
        self.id = answer.json()["computer"]
        self.headers = {"Authorization": f"Bearer {answer.json()['token']}"}
        self.held: dict[str, Any] = {}

    def call(self, method: str, path: str, body: Any = None) -> httpx.Response:
        self.world.transport.client = (self.address, 1)
        return self.world.run(self.world.http.request(method, API + path, json=body, headers=self.headers))

    def ask(self, wanted: int = 1, **more: Any) -> Any:
        """Ask for jobs; the reply."""
        answer = self.call("POST", "/work", {"wanted": wanted, "held": list(self.held), **more})
        assert answer.status_code == 200, answer.text
        reply = answer.json()
        self.held |= {job["name"]: job for job in reply["jobs"]}
        return reply

    def upload(self, job: Any, *contents: bytes, **options: Any) -> list[str]:
        """Upload outputs; the answers of the upload handler."""
        said: list[str] = []
        for output, content in zip(job["outputs"], contents, strict=True):
            head = output["upload_header"].replace("{nbytes}", str(len(content)))
            answer = self.world.post(job["upload_url"], content=head.encode() + content, **options)
            said.append(plain(answer.text))
        return said

    def report(self, name: str, exit_status: int = 0, **more: Any) -> Any:
        answer = self.call("POST", "/reports", {"name": name, "exit_status": exit_status, **more})
        assert answer.status_code == 200, answer.text
        self.held.pop(name, None)
        return answer.json()

    def finish(self, job: Any, *contents: bytes, **more: Any) -> Any:
        """Upload and report a job as done."""
        assert all("<status>0</status>" in said for said in self.upload(job, *contents))
        return self.report(job["name"], cpu_time=100.0, elapsed_time=110.0, instructions=1e12, **more)
