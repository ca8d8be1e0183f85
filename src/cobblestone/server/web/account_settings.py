"""Pages for the user's own account: profile, security, tokens, and deletion."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from starlette.responses import Response

from cobblestone.domain.errors import NotFound
from cobblestone.domain.people import ConsentKind, Scope, User
from cobblestone.domain.values import DAY
from cobblestone.server.accounts import ownership
from cobblestone.server.accounts.security import AccountSecurity
from cobblestone.server.web.presentation.site import ProjectSite, ProjectVisit
from cobblestone.service.languages import NAMES
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages import fields
from cobblestone.service.pages.pages import BOTH, Pages, shows
from cobblestone.service.pages.site import PageError
from cobblestone.service.rate_limits import TooManyAttempts
from cobblestone.store.engine.database import Transaction
from cobblestone.store.people import account_changes, consents
from cobblestone.store.people import credentials as tokens
from cobblestone.store.people.credentials import ApiToken
from cobblestone.store.work import submitters

TOKEN_DAYS = (30, 90, 365)
MAX_TOKENS = 20


class SecurityPages(Pages[ProjectSite]):
    """Pages about what guards an account."""

    def __init__(self, site: ProjectSite, security: AccountSecurity) -> None:
        super().__init__(site)
        self._security = security


class AccountSettingsPages(SecurityPages):
    """Settings of an account."""

    # -- profile ------------------------------------------------------------------------------------

    @shows("/account.php", methods=BOTH, own=True)
    async def profile(self, visit: ProjectVisit, user: User) -> Response:
        """Show name, country, web page, language, and what others see."""
        form, problems = dict[str, str](), dict[str, str]()
        if visit.request.method == "POST":
            form = await visit.form()
            problems = profile_problems(form)
            if not problems:
                return await self._save_profile(visit, user, form)
        said = await visit.read(lambda db: consents.latest(db, user.id, ConsentKind.STATISTICS))
        return visit.show("account.html", user=user, typed=form, problems=problems, statistics=said)

    async def _save_profile(self, visit: ProjectVisit, user: User, form: Mapping[str, str]) -> Response:
        language, now = form.get("language", ""), visit.ctx.clock()
        changed = replace(
            user,
            name=form["user_name"].strip(),
            country=form.get("country", "").strip(),
            url=form.get("url", "").strip(),
            language=language,
            show_hosts="show_hosts" in form,
            send_email="send_email" in form,
        )

        def change(tx: Transaction) -> None:
            account_changes.set_profile(tx, changed)
            agreed = "statistics" in form
            consents.record(tx, user.id, ConsentKind.STATISTICS, agreed, source="account.php", now=now)

        await visit.write(change)
        response = visit.go("account.php?done=saved")
        self._site.remember_language(response, language)
        return response

    @shows("/security.php", methods=BOTH, own=True)
    async def security(self, visit: ProjectVisit, user: User) -> Response:
        """Show password, address, second factor, sessions, keys."""
        if visit.request.method != "POST":
            return await self._show_security(visit, user, problems={})
        form = await visit.form()
        if problems := await self._security_problems(visit, user, form):
            return await self._show_security(visit, user, problems=problems)
        try:
            return await self._do(visit, user, form)
        except TooManyAttempts as error:
            field = "confirm" if form.get("action") == "confirm" else "email_addr"
            return await self._show_security(visit, user, problems={field: fields.too_many(error)})

    async def _do(self, visit: ProjectVisit, user: User, form: Mapping[str, str]) -> Response:
        """Carry out the request of a form on the page.  Raises TooManyAttempts."""
        match form.get("action"):
            case "password":
                changed = await self._security.change_password(user, form["new_passwd"])
                return self._again_in(visit, changed, "password")
            case "email":
                email = form["email_addr"].strip().lower()
                await self._security.ask_for_new_address(user, email, form["passwd"], address=visit.address)
                return visit.go("security.php?done=email_sent")
            case "confirm":
                await self._security.ask_for_confirmation(user, address=visit.address)
                return visit.go("security.php?done=confirm_sent")
            case "sessions":
                return self._again_in(visit, await self._security.log_out_everywhere(user), "sessions")
            case "keys":
                return self._again_in(visit, await self._security.renew_keys(user), "keys")
            case "factor_on" if not user.second_factor:
                confirmed = await self._security.confirm_factor(user, form.get("code", "").strip())
                if confirmed is None:
                    wrong = {
                        "code": _(
                            "This one-time password is not valid at this time. Check the clock of your device."
                        )
                    }
                    return await self._show_security(visit, user, problems=wrong)
                changed, codes = confirmed
                visit.session = self._site.sessions.renewed(changed)
                response = visit.show("recovery_codes.html", codes=codes)
                self._site.sessions.store(response, visit.session)
                return response
            case "factor_off" if user.second_factor:
                return self._again_in(visit, await self._security.drop_factor(user), "factor_off")
            case _:
                raise PageError(400, _("Invalid request"), _("The form asks for an unknown action."))

    async def _security_problems(
        self, visit: ProjectVisit, user: User, form: Mapping[str, str]
    ) -> dict[str, str]:
        problems: dict[str, str] = {}
        action = form.get("action", "")
        if action == "password":
            problem = fields.password_problem(
                form.get("new_passwd", ""), visit.ctx.settings.accounts.min_password_length
            )
            if problem:
                problems["new_passwd"] = problem
        elif action == "email" and (problem := fields.address_problem(form.get("email_addr", ""))):
            problems["email_addr"] = problem
        if problems or action in ("sessions", "confirm"):
            return problems
        if problem := await self._password_problem(visit, user, form):
            problems[f"passwd_{action}"] = problem
        return problems

    async def _password_problem(self, visit: ProjectVisit, user: User, form: Mapping[str, str]) -> str:
        """Return what is wrong with the password in a form; empty: it is right."""
        try:
            right = await self._security.password_is_right(
                user, form.get("passwd", ""), address=visit.address
            )
        except TooManyAttempts as error:
            return fields.too_many(error)
        return "" if right else fields.wrong_password()

    async def _show_security(
        self, visit: ProjectVisit, user: User, *, problems: Mapping[str, str]
    ) -> Response:
        return visit.show(
            "security.html",
            user=user,
            problems=problems,
            factor=None if user.second_factor else self._security.new_factor(user),
            codes_left=await self._security.recovery_codes_left(user),
        )

    def _again_in(self, visit: ProjectVisit, user: User, done: str) -> Response:
        """Start a new session for this browser after all sessions ended."""
        response = visit.go(f"security.php?done={done}")
        self._site.sessions.start(response, user)
        return response

    # -- proof of ownership -------------------------------------------------------------------------

    @shows("/account_ownership.php", methods=BOTH, own=True)
    async def ownership(self, visit: ProjectVisit, user: User) -> Response:
        """Sign a text together with the account's number, for another site."""
        if not visit.ctx.folder.ownership_private.exists():
            raise PageError(404, _("Not found"), _("This project does not prove who owns an account."))
        text, problem, proof = "", "", ""
        if visit.request.method == "POST":
            text = (await visit.form()).get("user_data", "").strip()
            if not 0 < len(text) <= ownership.MAX_TEXT or not text.isprintable():
                problem = _(
                    "Enter the text as the other site shows it: one line of at most %(max)d characters."
                )
                problem %= {"max": ownership.MAX_TEXT}
            else:
                url = visit.ctx.settings.project.url
                sign = partial(ownership.prove, visit.ctx.folder, master_url=url, user_id=user.id, text=text)
                proof = await asyncio.to_thread(sign)
        return visit.show(
            "account_ownership.html",
            typed={"user_data": text},
            problems={"user_data": problem} if problem else {},
            proof=proof,
            max=ownership.MAX_TEXT,
        )

    # -- tokens -------------------------------------------------------------------------------------

    @shows("/tokens.php", methods=BOTH, own=True)
    async def tokens(self, visit: ProjectVisit, user: User) -> Response:
        """Show tokens with which programs may read the account's own data, and submit jobs if it may."""
        if visit.request.method != "POST":
            return await self._show_tokens(visit, user)
        form, now = await visit.form(), visit.ctx.clock()
        if form.get("action") == "revoke":
            return await self._revoke(visit, user, form)
        number = visit.ctx.settings.project.list_number
        if form.get("action") == "attach" and number:
            token = await self._security.attach_token(user)
            return await self._show_tokens(visit, user, attach_line=f"__{number}_{user.id}_{token}")
        name = form.get("name", "").strip()[:100]
        days = form.get("days", "")
        if not name or days not in {str(choice) for choice in TOKEN_DAYS}:
            return await self._show_tokens(visit, user, problems={"name": _("Enter a name for the token.")})
        if len(await self._tokens_of(visit, user)) >= MAX_TOKENS:
            problem = _("You already have %(count)d tokens. Revoke one that you do not need.") % {
                "count": MAX_TOKENS
            }
            return await self._show_tokens(visit, user, problems={"name": problem})
        secret = tokens.new_secret()
        submits = [Scope.READ, Scope.SUBMIT] if form.get("submit") == "1" else []
        await visit.write(
            lambda tx: tokens.create_token(
                tx,
                secret,
                name=name,
                scopes=[Scope.ACCOUNT, *submits],
                user_id=user.id,
                now=now,
                expire_time=now + int(days) * DAY,
            )
        )
        return await self._show_tokens(visit, user, secret=secret)

    async def _revoke(self, visit: ProjectVisit, user: User, form: Mapping[str, str]) -> Response:
        token_id = fields.whole_number(form.get("id", ""))
        try:
            await visit.write(
                lambda tx: tokens.revoke_token(tx, token_id, now=visit.ctx.clock(), user_id=user.id)
            )
        except NotFound:
            raise PageError(404, _("Not found"), _("You have no such token.")) from None
        return visit.go("tokens.php?done=revoked")

    async def _tokens_of(self, visit: ProjectVisit, user: User) -> list[ApiToken]:
        now = visit.ctx.clock()
        found = await visit.read(lambda db: tokens.list_tokens(db, user_id=user.id))
        return [token for token in found if token.usable(now)]

    async def _show_tokens(
        self,
        visit: ProjectVisit,
        user: User,
        *,
        problems: Mapping[str, str] | None = None,
        secret: str = "",
        attach_line: str = "",
    ) -> Response:
        return visit.show(
            "tokens.html",
            user=user,
            tokens=await self._tokens_of(visit, user),
            submitter=await visit.read(lambda db: submitters.submitter_of(db, user.id)),
            problems=problems or {},
            secret=secret,
            attach_line=attach_line,
            choices=TOKEN_DAYS,
        )

    # -- the end ------------------------------------------------------------------------------------

    @shows("/delete_account.php", methods=BOTH, own=True)
    async def delete(self, visit: ProjectVisit, user: User) -> Response:
        """Request the deletion of the account, or cancel it."""
        problems: dict[str, str] = {}
        if visit.request.method == "POST":
            form = await visit.form()
            if form.get("action") == "keep":
                await self._security.keep_account(user)
                return visit.go("delete_account.php?done=kept")
            if form.get("sure", "").strip() != user.name:
                problems["sure"] = _("Enter the name of the account exactly as shown.")
            elif problem := await self._password_problem(visit, user, form):
                problems["passwd"] = problem
            if not problems:
                await self._security.ask_to_erase(user)
                response = visit.go("login.php?done=erase")
                self._site.sessions.end(response)
                return response
        return visit.show(
            "delete_account.html",
            user=user,
            problems=problems,
            days=visit.ctx.settings.accounts.erase_after_days,
        )


def profile_problems(form: Mapping[str, str]) -> dict[str, str]:
    """Return what is wrong with a posted profile, by field."""
    problems: dict[str, str] = {}
    if problem := fields.name_problem(form.get("user_name", "").strip()):
        problems["user_name"] = problem
    for name in ("country", "url"):
        if len(form.get(name, "").strip()) > 200:
            problems[name] = _("This is too long.")
    url = form.get("url", "").strip()
    if url and not url.startswith(("https://", "http://")):
        problems["url"] = _("A web address must begin with https://")
    if form.get("language", "") not in ("", *NAMES):
        problems["language"] = _("There is no such language.")
    return problems
