"""Handing over a new code signing key."""

from __future__ import annotations

from tests.helpers.project_world import World

from cobblestone.store.catalog import apps
from cobblestone.wire.project.signatures import (
    decode_public_key,
    encode_public_key,
    generate_key,
    sign_key_handover,
    sign_md5,
    verify_bytes,
)


def rotate(world: World, *, with_signature: bool) -> str:
    """Make a new key current; its text."""
    old, new = world.key, generate_key()
    text = encode_public_key(new.public_key())
    signatures = {1: sign_key_handover(old, text)} if with_signature else {}
    world.write(lambda tx: apps.set_current_key(tx, text, successor_signatures=signatures, now=world.now))
    for version in world.ctx.store.read(apps.list_versions):
        world.write(
            lambda tx, version=version: apps.set_signatures(
                tx, {file.name: sign_md5(new, file.md5) for file in version.files}
            )
        )
    return text.strip()


def test_a_client_with_the_old_key_gets_the_new_one_signed_with_the_old(world: World):
    world.add_jobs(world.add_app())
    host = world.host(world.user("alice"))
    host.rpc()
    old = host.key
    new = rotate(world, with_signature=True)
    reply = host.rpc(ask=1)
    assert host.key == new
    signature = reply.get("code_sign_key_signature")
    assert verify_bytes(decode_public_key(old), new.encode(), signature)
    assert host.new_results(), "files are signed with the key that it now has"
    assert not host.rpc().has("code_sign_key")


def test_a_client_whose_key_has_no_successor_gets_no_work_and_is_told_what_to_do(world: World):
    world.add_jobs(world.add_app())
    host = world.host(world.user("alice"))
    host.rpc()
    rotate(world, with_signature=False)
    host.rpc(ask=1)
    assert host.new_results() == []
    assert any("key" in text for text in host.messages())
