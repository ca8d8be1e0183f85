"""Profiles: volunteers' texts about themselves, with an optional picture."""

from __future__ import annotations

import asyncio

from starlette.responses import PlainTextResponse, Response

from cobblestone.domain.people import User
from cobblestone.domain.values import UserId
from cobblestone.server.web.presentation.site import ProjectSite, ProjectVisit
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages.pages import BOTH, POST, Pages, shows
from cobblestone.service.pages.pictures import MAX_BYTES, MEDIA_TYPE, BadPicture, small_picture
from cobblestone.service.pages.site import PageError
from cobblestone.service.pages.static_files import SECURITY_HEADERS
from cobblestone.store.engine.database import Transaction
from cobblestone.store.people import users
from cobblestone.store.people.users import Profile
from cobblestone.wire.text.writer import printable

MAX_TEXT = 2000


class ProfilePages(Pages[ProjectSite]):
    """Profiles."""

    def __init__(self, site: ProjectSite) -> None:
        super().__init__(site)
        self._one_at_a_time = asyncio.Semaphore(1)  # an unpacked picture may take 100 MB

    @shows("/profile_edit.php", methods=BOTH, own=True)
    async def edit(self, visit: ProjectVisit, user: User) -> Response:
        """Show the user's own profile in a form."""
        present = await visit.read(lambda db: users.profile_of(db, user.id)) or Profile()
        if visit.request.method != "POST":
            return self._form(visit, present)
        form, sent = await visit.form_with_file("picture", max_file_bytes=MAX_BYTES)
        text = printable(form.get("text", "")).strip()
        if len(text) > MAX_TEXT:
            problem = _("A profile may have at most %(most)d characters.") % {"most": MAX_TEXT}
            return self._form(visit, present, typed=form, problems={"text": problem})
        picture: bytes | None = None
        if sent:
            try:
                async with self._one_at_a_time:
                    picture = await asyncio.to_thread(small_picture, sent)
            except BadPicture:
                problem = _(
                    "This is not a picture (PNG, JPEG, WebP or GIF) of at most 5 MB and 25 million pixels."
                )
                return self._form(visit, present, typed=form, problems={"picture": problem})

        def transact(tx: Transaction) -> None:
            users.set_profile(tx, user.id, text=text, searchable="searchable" in form, now=visit.ctx.clock())
            if picture is not None or "no_picture" in form:
                users.set_picture(tx, user.id, picture)

        await visit.write(transact)
        return visit.go(f"show_user.php?userid={user.id}")

    def _form(
        self,
        visit: ProjectVisit,
        present: Profile,
        *,
        typed: dict[str, str] | None = None,
        problems: dict[str, str] | None = None,
    ) -> Response:
        return visit.show(
            "profile_edit.html",
            present=present,
            typed=typed if typed is not None else {"text": present.text},
            searchable="searchable" in typed if typed is not None else present.searchable,
            problems=problems or {},
        )

    @shows("/profile_remove.php", methods=POST, own=True)
    async def remove(self, visit: ProjectVisit, user: User) -> Response:
        """Remove the user's own profile, or, as an operator, that of another user."""
        await visit.form()
        user_id = UserId(visit.needed_number("userid"))
        if user_id != user.id and not user.is_operator:
            raise PageError(403, _("Not allowed"), _("Only operators can remove other people's profiles."))

        def transact(tx: Transaction) -> None:
            before = users.profile_of(tx, user_id)
            users.remove_profile(tx, user_id)
            if user_id != user.id and before is not None:
                visit.note(tx, "remove profile", f"user {user_id}", before={"text": before.text})

        await visit.write(transact)
        return visit.go(f"show_user.php?userid={user_id}")

    @shows("/user_picture.php")
    async def picture(self, visit: ProjectVisit) -> Response:
        """Return the picture of a user."""
        user_id = visit.needed_number("userid")
        found = await visit.read(lambda db: users.picture_of(db, user_id))
        if found is None:
            return PlainTextResponse("Not Found", 404)
        headers = {**SECURITY_HEADERS, "Cache-Control": "public, max-age=3600"}
        headers["Content-Security-Policy"] += "; sandbox"
        return Response(found, media_type=MEDIA_TYPE, headers=headers)
