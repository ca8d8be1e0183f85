"""Tokens, keys and remembered replies."""

from __future__ import annotations

from typing import Any

import pytest
from tests.helpers.store_content import NOW

from cobblestone.domain.errors import Conflict, NotFound
from cobblestone.domain.people import Scope
from cobblestone.store.catalog import apps
from cobblestone.store.engine.database import Store
from cobblestone.store.operation import audit
from cobblestone.store.people import credentials
from cobblestone.store.people.credentials import ApiToken


def make(store: Store, secret: str = "cob_secret", **options: Any) -> ApiToken:
    return store.write(
        lambda tx: credentials.create_token(tx, secret, name="bob", scopes=[Scope.READ], now=NOW, **options)
    )


def test_a_token_is_found_by_its_text_only(store: Store):
    made = make(store)
    assert store.read(lambda db: credentials.token_by_secret(db, "cob_secret")) == made
    assert store.read(lambda db: credentials.token_by_secret(db, "cob_Secret")) is None


def test_the_text_of_a_token_is_not_in_the_database(store: Store):
    make(store, "cob_very_secret_text")
    dump = store.read(lambda db: str(db.query("SELECT * FROM api_token")))
    assert "very_secret" not in dump


def test_fresh_tokens_differ_and_are_long():
    one, two = credentials.new_secret(), credentials.new_secret()
    assert one != two
    assert one.startswith("cob_")
    assert len(one) > 40


def test_a_token_expires(store: Store):
    token = make(store, expire_time=NOW + 10)
    assert token.usable(NOW + 9.9)
    assert not token.usable(NOW + 10)


def test_a_revoked_token_stays_revoked(store: Store):
    token = make(store)
    first = store.write(lambda tx: credentials.revoke_token(tx, token.id, now=NOW + 1))
    second = store.write(lambda tx: credentials.revoke_token(tx, token.id, now=NOW + 2))
    assert first.revoke_time == second.revoke_time == NOW + 1
    assert not second.usable(NOW)


def test_an_unknown_token_cannot_be_revoked(store: Store):
    with pytest.raises(NotFound, match="token 3"):
        store.write(lambda tx: credentials.revoke_token(tx, 3, now=NOW))


def test_scopes_come_back(store: Store):
    store.write(lambda tx: credentials.create_token(tx, "s", name="x", scopes=list(Scope), now=NOW))
    assert store.read(credentials.list_tokens)[0].scopes == frozenset(Scope)


def set_key(store: Store, text: str, **signatures: str) -> apps.CodeSignKey:
    handovers = {int(name.removeprefix("key")): value for name, value in signatures.items()}
    return store.write(lambda tx: apps.set_current_key(tx, text, successor_signatures=handovers, now=NOW))


def test_one_key_is_current_and_the_older_ones_vouch_for_it(store: Store):
    set_key(store, "first\n")
    set_key(store, "second", key1="by first")
    third = set_key(store, "third", key1="by first for third", key2="by second")
    found = store.read(apps.list_keys)
    assert [(key.public_key, key.is_current, key.successor_signature) for key in found] == [
        ("third", True, ""),
        ("second", False, "by second"),
        ("first", False, "by first for third"),
    ]
    assert store.read(apps.current_key) == third


def test_a_signature_for_an_earlier_successor_is_dropped(store: Store):
    set_key(store, "first")
    set_key(store, "second", key1="by first")
    set_key(store, "third", key2="by second")
    assert [key.successor_signature for key in store.read(apps.list_keys)] == ["", "by second", ""]


def test_a_key_is_not_used_again(store: Store):
    set_key(store, "first")
    with pytest.raises(Conflict, match="already"):
        set_key(store, " first \n")


def test_a_project_without_a_key_has_no_current_one(store: Store):
    assert store.read(apps.current_key) is None


def test_a_reply_is_recalled_for_the_same_request(store: Store):
    store.write(lambda tx: audit.remember_reply(tx, "key", "digest", '{"a b": 1}', now=NOW))
    assert store.read(lambda db: audit.recall_reply(db, "key", "digest")) == '{"a b": 1}'
    assert store.read(lambda db: audit.recall_reply(db, "other", "digest")) is None


def test_a_key_with_another_body_is_refused(store: Store):
    store.write(lambda tx: audit.remember_reply(tx, "key", "digest", "{}", now=NOW))
    with pytest.raises(Conflict, match="another body"):
        store.read(lambda db: audit.recall_reply(db, "key", "other"))


def test_replies_are_forgotten_after_a_while(store: Store):
    store.write(lambda tx: audit.remember_reply(tx, "old", "d", "{}", now=NOW))
    later = NOW + audit.KEEP_REPLIES_SECONDS + 1
    store.write(lambda tx: audit.remember_reply(tx, "new", "d", "{}", now=later))
    assert store.read(lambda db: audit.recall_reply(db, "old", "d")) is None
    assert store.read(lambda db: audit.recall_reply(db, "new", "d")) == "{}"
