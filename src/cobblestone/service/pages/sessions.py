"""Sessions of visitors: a signed cookie, and tokens that tie forms to it.

The cookie holds the user's id, a fingerprint of the account key and of a number that a new password or "log out everywhere"
raises, the time, and a random number that form tokens are made from and that a session is known by when it is logged out.  Who
gave the right password but not yet the second factor has a cookie that opens nothing but the form for it, for some minutes.  The
cookie's name depends on the master URL, since cookies do not tell ports apart.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import urlsplit

from itsdangerous import BadSignature, URLSafeSerializer
from starlette.requests import Request
from starlette.responses import Response

from cobblestone.service.context import ProcessContext
from cobblestone.service.mail import Addressee

MAX_AGE_SECONDS = 30 * 86400
PENDING_SECONDS = 600
_MAX_COOKIE = 1000


class Account(Addressee, Protocol):
    """What a session needs to know about an account."""

    @property
    def authenticator(self) -> str:
        """Return its secret key; a new one ends all sessions."""
        ...

    @property
    def session_epoch(self) -> int:
        """Return a number that a new password or "log out everywhere" raises."""
        ...

    @property
    def erased(self) -> bool:
        """Return whether its owner has deleted it."""
        ...


A = TypeVar("A", bound=Account)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session(Generic[A]):
    """One visitor; ``user`` None: not logged in."""

    nonce: str
    user: A | None = None
    pending: A | None = None  #: who gave the password, and still owes the second factor
    stored: bool = False  #: whether the browser has the cookie already

    @property
    def key(self) -> str:
        """Return the key under which a logged-out session is stored; no cookie can be made from it."""
        return _key(self.nonce)


class Sessions(Generic[A]):
    """Read, start and end sessions."""

    def __init__(self, ctx: ProcessContext, find: Callable[[int, str], Awaitable[A | None]]) -> None:
        """``find`` reads an account by its id and the session's key; None if there is none, or the session was logged out."""
        self._ctx = ctx
        self._find = find
        url = urlsplit(ctx.master_url)
        self._path = url.path or "/"
        self.secure = url.scheme == "https"
        self.name = f"cobblestone_{hashlib.sha256(ctx.master_url.encode()).hexdigest()[:8]}"
        self._cookie = URLSafeSerializer(ctx.secret, salt="cobblestone.web.session")
        self._form_key = hmac.digest(ctx.secret, b"cobblestone.web.form", "sha256")

    async def of(self, request: Request) -> Session[A]:
        """Return the session of a request; a new one if there is none or it has ended."""
        content = self._read(request.cookies.get(self.name, ""))
        if content is None:
            return Session(nonce=secrets.token_hex(16))
        nonce = str(content["n"])
        user_id, pending_id = int(content["u"]), int(content.get("p", 0))
        if not user_id and not pending_id:
            return Session(nonce=nonce, stored=True)
        user = await self._find(user_id or pending_id, _key(nonce))
        if user is None or user.erased or not hmac.compare_digest(_fingerprint(user), str(content["k"])):
            return Session(nonce=secrets.token_hex(16))
        if user_id:
            return Session(nonce=nonce, user=user, stored=True)
        if self._ctx.clock() - content["t"] > PENDING_SECONDS:
            return Session(nonce=secrets.token_hex(16))
        return Session(nonce=nonce, pending=user, stored=True)

    def start(self, response: Response, user: A) -> None:
        """Log a user in.  The random number is new, so that a cookie planted before is useless."""
        self.store(response, self.renewed(user))

    def renewed(self, user: A) -> Session[A]:
        """Return a new session of a user, to be stored with the response."""
        return Session(nonce=secrets.token_hex(16), user=user, stored=True)

    def start_pending(self, response: Response, user: A) -> None:
        """Start the second factor for a user who gave the right password."""
        self.store(response, Session(nonce=secrets.token_hex(16), pending=user))

    def keep(self, response: Response, session: Session[A]) -> None:
        """Set the cookie that a form's token belongs to."""
        if not session.stored:
            self.store(response, session)

    def end(self, response: Response) -> None:
        """Delete the cookie.  The end of the session must also be stored, since a cookie can be copied."""
        response.delete_cookie(self.name, path=self._path, secure=self.secure, httponly=True, samesite="lax")

    def form_token(self, session: Session[A]) -> str:
        """Return the token for every form of this session."""
        user_id = session.user.id if session.user else 0
        return hmac.digest(self._form_key, f"{session.nonce} {user_id}".encode(), "sha256").hex()

    def token_is_right(self, session: Session[A], token: str) -> bool:
        """Return whether a form came from one of our own pages, shown to this visitor."""
        return session.stored and hmac.compare_digest(self.form_token(session).encode(), token.encode())

    def store(self, response: Response, session: Session[A]) -> None:
        """Set the cookie of a session."""
        user = session.user or session.pending
        content = {
            "u": session.user.id if session.user else 0,
            "p": session.pending.id if session.pending else 0,
            "k": _fingerprint(user) if user else "",
            "n": session.nonce,
            "t": int(self._ctx.clock()),
        }
        response.set_cookie(
            self.name,
            self._cookie.dumps(content),
            max_age=MAX_AGE_SECONDS,
            path=self._path,
            secure=self.secure,
            httponly=True,
            samesite="lax",
        )

    def _read(self, cookie: str) -> dict[str, Any] | None:
        if not cookie or len(cookie) > _MAX_COOKIE:
            return None
        try:
            content = self._cookie.loads(cookie)
        except BadSignature:
            return None
        return content if self._ctx.clock() - content["t"] < MAX_AGE_SECONDS else None


def _key(nonce: str) -> str:
    return hashlib.sha256(f"session {nonce}".encode()).hexdigest()


def _fingerprint(user: Account) -> str:
    return hashlib.sha256(f"session {user.authenticator} {user.session_epoch}".encode()).hexdigest()[:24]
