"""People who look at a project's pages, each with cookies of their own."""

from __future__ import annotations

from typing import Any

import argon2
import httpx
import pytest
from lxml import html
from tests.helpers.project_world import URL, World
from tests.helpers.volunteers import PASSWORD, email

from cobblestone.server.app import create_app


class Visitor:
    """A browser without scripts."""

    def __init__(self, world: World, base_url: str = URL) -> None:
        self._world = world
        transport = httpx.ASGITransport(create_app(world.ctx))
        self.http = httpx.AsyncClient(
            transport=transport, base_url=base_url, headers={"Accept": "text/html,*/*"}
        )

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self._world.run(self.http.get(path, **options))

    def post(self, path: str, **fields: str) -> httpx.Response:
        """Post fields as they are, without a form's token."""
        return self._world.run(self.http.post(path, data=fields))

    def send(self, page: str, **fields: str) -> httpx.Response:
        """Open a page with a form, fill the form in, and send it."""
        form = html.fromstring(self.get(page).text).xpath("//main//form")[0]
        hidden = {field.get("name"): field.get("value") for field in form.xpath(".//input[@type='hidden']")}
        return self.post(form.get("action"), **{**hidden, **fields})

    def log_in(self, name: str) -> Visitor:
        answer = self.send("/login.php", email_addr=email(name), passwd=PASSWORD)
        assert answer.status_code == 303, answer.text
        return self

    def log_out(self) -> httpx.Response:
        token = html.fromstring(self.get("/home.php").text).xpath(
            "//header//input[@name='form_token']/@value"
        )
        return self.post("/logout.php", form_token=token[0])


def text_of(response: httpx.Response) -> str:
    """What a page says, on one line."""
    return " ".join(html.fromstring(response.text).text_content().split())


def hashes_verified(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The stored hashes that passwords are held against from now on."""
    verified: list[str] = []
    verify = argon2.PasswordHasher.verify

    def noted(self: argon2.PasswordHasher, stored: str, password: str) -> bool:
        verified.append(stored)
        return verify(self, stored, password)

    monkeypatch.setattr(argon2.PasswordHasher, "verify", noted)
    return verified
