"""What a volunteer does on pages: joining, forms, and reading what is there, as a browser without scripts."""

from __future__ import annotations

import html
import re
from typing import Self

import httpx

from cobblestone.domain.errors import CobblestoneError

PASSWORD = "demonstration"  # noqa: S105  # of accounts that live for minutes, on loopback, and are printed
_TOKEN = re.compile(r'name="form_token" value="([0-9a-f]+)"')


def visitor(url: str) -> httpx.Client:
    """Return the connection of one visitor to one service."""
    return httpx.Client(base_url=url, follow_redirects=True, timeout=60, trust_env=False)


class Browser:
    """A person at the pages of one service."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def read(self, page: str) -> str:
        """Return a page's source.  Raises CobblestoneError."""
        return self._text(self._http.get(page))

    def send(self, page: str, fields: dict[str, str], *, to: str = "") -> str:
        """Fill in the form of a page and send it (``to`` another page's address); return the page that comes.

        Raises:
            CobblestoneError: there is no form, or it is refused.
        """
        found = _TOKEN.search(self.read(page))
        if found is None:
            raise CobblestoneError(f"{self._http.base_url}{page} has no form.")
        return self._text(self._http.post(to or page, data={"form_token": found[1], **fields}))

    def join(self, name: str, email: str, **choices: str) -> str:
        """Make an account; return the page that comes.  Raises CobblestoneError."""
        return self.send("join.php", {"user_name": name, "email_addr": email, "passwd": PASSWORD, **choices})

    def _text(self, answer: httpx.Response) -> str:
        if answer.status_code >= 400:
            said = html.unescape(re.sub(r"<[^>]*>", " ", answer.text.partition("<main")[2].partition(">")[2]))
            raise CobblestoneError(
                f"{answer.url} answered with status {answer.status_code}: {' '.join(said.split())[:500]}"
            )
        return answer.text
