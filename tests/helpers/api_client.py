"""Calls of the JSON API of a project under test."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
from tests.helpers.project_world import World

from cobblestone.domain.people import Scope
from cobblestone.store.people import credentials

API = "/api/v1"


class ApiClient:
    """Sends requests with a token of its own."""

    def __init__(
        self, world: World, scopes: Sequence[Scope] = tuple(Scope), *, expire_time: float | None = None
    ) -> None:
        self.world = world
        secret = credentials.new_secret()
        self.token: credentials.ApiToken = world.write(
            lambda tx: credentials.create_token(
                tx, secret, name="tester", scopes=scopes, now=world.now, expire_time=expire_time
            )
        )
        self.headers = {"Authorization": f"Bearer {secret}"}

    def call(
        self, method: str, path: str, json: Any = None, *, within: float | None = None, **options: Any
    ) -> httpx.Response:
        """Send a request.  Raises TimeoutError: its answer has no end ``within`` so many seconds."""
        headers = {**self.headers, **options.pop("headers", {})}
        request = self.world.http.request(method, API + path, json=json, headers=headers, **options)
        return self.world.run(asyncio.wait_for(request, within))

    def get(self, path: str, **query: Any) -> Any:
        return self._good(self.call("GET", path, params=query))

    def post(self, path: str, body: Any = None, **options: Any) -> Any:
        return self._good(self.call("POST", path, body, **options))

    def patch(self, path: str, body: Any) -> Any:
        return self._good(self.call("PATCH", path, body))

    def problem(
        self, status: int, method: str, path: str, json: Any = None, **options: Any
    ) -> Mapping[str, str]:
        """The error of a request that must be refused with this status."""
        answer = self.call(method, path, json, **options)
        assert answer.status_code == status, answer.text
        error = answer.json()["error"]
        assert set(error) == {"code", "message", "hint", "member"}
        return error

    def _good(self, answer: httpx.Response) -> Any:
        assert answer.is_success, answer.text
        return answer.json()

    # -- content ------------------------------------------------------------------------------------------

    def put(self, content: bytes, name: str = "") -> str:
        """Store a file; its physical name."""
        sha256 = hashlib.sha256(content).hexdigest()
        query = {"name": name} if name else {}
        return self._good(self.call("PUT", f"/files/{sha256}", content=content, params=query))["name"]

    def version(self, platform: str = "any", **members: Any) -> dict[str, Any]:
        """A version with a stored main program."""
        file = self.put(b"#!/bin/sh\n", "main.sh")
        return {
            "platform": platform,
            "files": [{"file": file, "open_name": "main.sh", "main_program": True}],
            **members,
        }

    def add_app(self, name: str = "period", **members: Any) -> Any:
        """An app with a command, one input and one output, and a version."""
        body = {
            "name": name,
            "command": ["python3", "period.py", "{input}", "{output}"],
            "outputs": [{"name": "output"}],
            "version": self.version(),
            **members,
        }
        return self.post("/apps", body)

    def job(self, content: bytes = b"{}", **members: Any) -> dict[str, Any]:
        """A job with a stored input."""
        return {"inputs": [{"file": self.put(content), "file_name": "low.json"}], **members}
