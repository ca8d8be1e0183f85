"""Log-in with the account of an institute: OpenID Connect, the authorization code flow with PKCE, by Authlib.

An account belongs to what the provider calls the issuer and the subject.  The first log-in finds it by its e-mail address,
confirmed on both sides, or creates it.  What groups of the institute may submit follows them at each log-in, until an operator
changes it by hand.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Mapping
from functools import partial
from typing import Any, cast

import msgspec
from itsdangerous import BadSignature, URLSafeTimedSerializer

from cobblestone.domain.errors import CobblestoneError, ConfigError
from cobblestone.domain.people import ConsentKind, SubmitRights, User
from cobblestone.ops.installation import how_to_install
from cobblestone.server.accounts.service import account_without_password
from cobblestone.server.core.context import ServerContext
from cobblestone.server.operation.interventions import set_rights
from cobblestone.service.languages import N_
from cobblestone.store.catalog import apps
from cobblestone.store.engine.database import Transaction
from cobblestone.store.operation.audit import Actor
from cobblestone.store.people import account_changes, consents, credentials, users
from cobblestone.store.people.credentials import OneTimeCode, Purpose
from cobblestone.store.work import submitters
from cobblestone.wire.project.account import legal_email_addr, user_name_problem

TIMEOUT_SECONDS = 10.0
SILENT_SECONDS = 30.0  #: in which a provider that did not answer is not asked again
#: After which the provider's addresses and keys are fetched again; those that are known serve until that succeeds.
KEPT_SECONDS = 86400.0
BEGUN_SECONDS = 600  #: in which a log-in is finished
_DISCOVERY = "/.well-known/openid-configuration"
#: Of signatures: not those whose key the client shares, nor `none`.
_ALGORITHMS = {f"{kind}{bits}" for kind in ("RS", "PS", "ES") for bits in (256, 384, 512)}

_AWAY = N_("%(name)s does not answer. Try again later.")
_NOT_BEGUN = N_("This log-in was not begun in this browser, or more than ten minutes ago. Try again.")
_DENIED = N_("%(name)s did not let you in, or you cancelled it. Try again, or ask there.")
_EXPIRED = N_(
    "The answer of %(name)s has expired. Try again; if that does not help, one of the clocks is wrong."
)
_OF_OTHERS = N_(
    "The answer of %(name)s is for another service. The project's operator must look at the settings."
)
_OF_OTHER_LOG_IN = N_("The answer of %(name)s belongs to another log-in. Try again.")
_INVALID = N_("The answer of %(name)s is not valid, so nothing was done. Tell the project's operator.")
_NO_ADDRESS = N_("%(name)s has not confirmed your e-mail address. Confirm it there first.")
_TAKEN = N_(
    "There is already an account with your e-mail address, which was not confirmed here. Log in to it by mail once, then"
    " this log-in opens it, too."
)
_NOT_FOR_YOU = N_(
    "Your account at %(name)s is not of a group that gets an account here. Ask the project's operator."
)
_CLAIMS = {
    "iss": _OF_OTHERS,
    "aud": _OF_OTHERS,
    "azp": _OF_OTHERS,
    "nonce": _OF_OTHER_LOG_IN,
    "exp": _EXPIRED,
}


class LogInRefused(CobblestoneError):
    """The log-in was refused; the text, to be translated, says why, and ``%(name)s`` in it is the institute."""


class InstituteLogIn:
    """Logs people in who have an account at the institute that the settings name.

    Pages go to the address that :meth:`begin` returns, and with what comes back to :meth:`finish`.
    """

    def __init__(self, ctx: ServerContext) -> None:
        """Raise ConfigError if Authlib is not installed."""
        try:
            import httpx2
            from authlib.common.errors import AuthlibBaseError
            from authlib.integrations.starlette_client import StarletteOAuth2App
            from joserfc.errors import JoseError
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"oidc.issuer needs a library that is not installed. Install it with: {how_to_install('oidc')}"
            ) from error
        self._silence = (httpx2.TransportError, TimeoutError)
        answers = (httpx2.HTTPError, AuthlibBaseError, JoseError)
        self._no_sense = (*answers, KeyError, TypeError, ValueError, RuntimeError)
        self._ctx, self._settings = ctx, ctx.settings.oidc
        self._issuer = self._settings.issuer.rstrip("/")
        self._sealed = URLSafeTimedSerializer(ctx.secret, salt="oidc")
        self._app: Any = None
        self._asked, self._pause = 0.0, 0.0  #: when, and until it is asked again
        self._make_app = partial(
            StarletteOAuth2App,
            None,
            client_id=self._settings.client_id,
            client_secret=self._settings.client_secret,
            server_metadata_url=self._issuer + _DISCOVERY,
            client_kwargs={
                "scope": self._settings.scope,
                "code_challenge_method": "S256",
                "timeout": TIMEOUT_SECONDS,
                "verify": httpx2.create_ssl_context(),  # read once: it takes a while
            },
        )

    async def begin(self, back: str, page: str) -> tuple[str, str]:
        """Return the address to go to, and what the browser keeps meanwhile; ``back``: ours; ``page``: shown afterwards.

        Raises:
            LogInRefused: the provider does not answer.
        """
        app = await self._provider()
        try:
            begun = await app.create_authorization_url(back)
        except self._no_sense as error:
            raise LogInRefused(_AWAY) from error
        kept = {name: begun[name] for name in ("state", "nonce", "code_verifier")}
        return begun["url"], str(self._sealed.dumps({**kept, "page": page}))

    async def finish(self, back: str, kept: str, answer: Mapping[str, str], origin: str) -> tuple[User, str]:
        """Return who logged in, and the page to show; ``kept``: by the browser; ``origin``: for the audit log.

        Raises:
            LogInRefused: the answer is not what :meth:`begin` asked for, or this person gets no account.  Nothing was changed.
        """
        try:
            begun: dict[str, str] = self._sealed.loads(kept, max_age=BEGUN_SECONDS)
        except BadSignature:
            raise LogInRefused(_NOT_BEGUN) from None
        if not hmac.compare_digest(begun["state"].encode(), answer.get("state", "").encode()):
            raise LogInRefused(_NOT_BEGUN)
        if "code" not in answer:
            raise LogInRefused(_DENIED)
        claims = await self._claims(back, answer["code"], begun)
        return await self._ctx.store.awrite(lambda tx: self._account(tx, claims, origin)), begun["page"]

    async def _provider(self) -> Any:
        """Return the provider, whose addresses and keys are known.  Raises LogInRefused."""
        now = self._ctx.clock()
        if abs(now - self._asked) >= self._pause:  # a clock that was set back must not make it wait for years
            # Who comes meanwhile is served by what is known.
            self._asked, self._pause = now, 0.0 if self._app is None else SILENT_SECONDS
            app: Any = self._make_app()
            try:
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    await app.fetch_jwk_set()
                self._app, self._pause = app, KEPT_SECONDS
            except (*self._silence, *self._no_sense):
                self._pause = SILENT_SECONDS
        if self._app is None:
            raise LogInRefused(_AWAY)
        return self._app

    async def _claims(self, back: str, code: str, begun: Mapping[str, str]) -> dict[str, Any]:
        """Return what the provider says of a person, after checking that it says so to us, now."""
        app = await self._provider()
        wanted = {"essential": True, "values": [self._issuer, f"{self._issuer}/"]}
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                metadata = await app.load_server_metadata()
                offered = metadata.get("id_token_signing_alg_values_supported", ())
                metadata["id_token_signing_alg_values_supported"] = [
                    name for name in offered if name in _ALGORITHMS
                ]
                token = await app.fetch_access_token(
                    redirect_uri=back, code=code, code_verifier=begun["code_verifier"]
                )
                audience = {"essential": True, "value": self._settings.client_id}
                claims = dict(
                    await app.parse_id_token(
                        token, nonce=begun["nonce"], claims_options={"iss": wanted, "aud": audience}
                    )
                )
                if (
                    not {"email", self._settings.groups_claim} <= claims.keys()
                    and "userinfo_endpoint" in metadata
                ):
                    further = dict(await app.userinfo(token=token))
                    claims = {**further, **claims} if further.get("sub") == claims["sub"] else claims
        except self._silence as error:
            self._app, self._asked, self._pause = None, self._ctx.clock(), SILENT_SECONDS
            raise LogInRefused(_AWAY) from error
        except self._no_sense as error:
            self._pause = 0.0  # its keys may be others by now
            claim = str(getattr(error, "claim", ""))
            raise LogInRefused(_CLAIMS.get(claim, _INVALID)) from error
        return claims

    def _account(self, tx: Transaction, claims: Mapping[str, Any], origin: str) -> User:
        """Return the account of a person, linked to the institute's and with the rights of its groups."""
        subject = f"{claims['iss']} {claims['sub']}"
        linked = credentials.find_code(tx, Purpose.INSTITUTE, subject, now=self._ctx.clock())
        user = None if linked is None else users.user_by_id(tx, linked.user_id)
        groups: Any = claims.get(self._settings.groups_claim)
        listed = cast("list[object]", groups) if isinstance(groups, list) else [groups]
        member = any(name in self._settings.groups for name in listed)
        if user is None:
            user = self._first(tx, claims, member=member)
        given = self._follow_groups(tx, user, linked, origin, member=member)
        credentials.add_codes(tx, user.id, Purpose.INSTITUTE, [subject], now=self._ctx.clock(), payload=given)
        return user

    def _first(self, tx: Transaction, claims: Mapping[str, Any], *, member: bool) -> User:
        """Return the account of somebody who logs in like this for the first time.  Raises LogInRefused."""
        email, now = str(claims.get("email", "")).strip().lower(), self._ctx.clock()
        if not legal_email_addr(email) or not (
            claims.get("email_verified") is True or self._settings.trust_email
        ):
            raise LogInRefused(_NO_ADDRESS)
        found = users.user_by_email(tx, email)
        if found is not None:
            if not found[0].email_verified:  # somebody may have made it in the name of another
                raise LogInRefused(_TAKEN)
            return found[0]
        if self._settings.new_accounts == "none" or (self._settings.new_accounts == "groups" and not member):
            raise LogInRefused(_NOT_FOR_YOU)
        names = [str(claims.get(claim, "")).strip() for claim in ("nickname", "preferred_username", "name")]
        user = account_without_password(
            tx,
            email,
            next((name for name in names if not user_name_problem(name)), "Volunteer"),
            show_hosts=self._ctx.settings.accounts.computers == "shown",
            now=now,
        )
        account_changes.set_email_verified(tx, user.id, now=now)
        if "terms" in self._ctx.texts.present():  # the page with the button says so
            consents.record(tx, user.id, ConsentKind.TERMS, True, source="login_oidc.php", now=now)
        return user

    def _follow_groups(
        self, tx: Transaction, user: User, linked: OneTimeCode | None, origin: str, *, member: bool
    ) -> str:
        """Give or take the right to submit, unless an operator changed what was given before; return what is given now."""
        known = tuple(name for name in self._settings.apps if apps.app_by_name(tx, name) is not None)
        rights = SubmitRights(
            apps=known if self._settings.apps else None,
            max_jobs=self._settings.max_jobs,
            share=self._settings.share,
        )
        wanted = rights if member and rights.apps != () else None
        held, before = submitters.token_of(tx, user.id), linked.payload if linked else ""
        if (_text(held.rights) if held else "") != before or _text(wanted) == before or user.erase_time:
            return before
        set_rights(tx, self._ctx, user.id, wanted, Actor(name=f"group of user:{user.id}", origin=origin))
        return _text(wanted)


def _text(rights: SubmitRights | None) -> str:
    return "" if rights is None else msgspec.json.encode(rights).decode()
