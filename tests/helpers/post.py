"""What a project's mailer sends."""

from __future__ import annotations

import email as email_parser
import re
from email.message import Message

from tests.helpers.project_world import World

from cobblestone.service.mail import Mailer, outbox


def post_office(world: World) -> list[Message]:
    """Send what waits; all mails in the outbox, oldest first."""
    while world.run(Mailer(world.ctx, world.ctx.settings.mail, world.ctx.folder.root).step()):
        pass
    folder = outbox(world.ctx.folder.root)
    return [email_parser.message_from_bytes(path.read_bytes()) for path in sorted(folder.glob("*.eml"))]


def link_in(message: Message) -> str:
    text = message.get_payload(decode=True).decode()  # type: ignore[union-attr]  # one part, text
    found = re.search(r"http://127\.0\.0\.1:8080(/\S+)", text)
    assert found, text
    return found[1]
