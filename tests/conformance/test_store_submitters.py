"""Rights to submit, of accounts and of tokens."""

from __future__ import annotations

import pytest
from tests.helpers.store_content import NOW, add_app

from cobblestone.domain.errors import Conflict, NotAllowed, NotFound
from cobblestone.domain.people import Scope, SubmitRights
from cobblestone.domain.values import UserId
from cobblestone.store.catalog import apps
from cobblestone.store.engine.database import Store, Transaction
from cobblestone.store.operation import interventions
from cobblestone.store.people import account_changes, credentials, users
from cobblestone.store.people.credentials import ApiToken
from cobblestone.store.work import batches, submitters
from cobblestone.store.work.batches import NewJob

ADA = UserId(1)
DEMO = SubmitRights(apps=("demo",), max_jobs=5, share=2.0)


@pytest.fixture
def people(store: Store) -> Store:
    """Ada, who may have five jobs of one app, and Bob."""
    add_app(store)
    add_app(store, "other")

    def fill(tx: Transaction) -> None:
        for name in ("ada", "bob"):
            users.create_user(
                tx,
                users.NewUserRow(
                    name=name,
                    email_addr=f"{name}@example.org",
                    passwd_hash="x",
                    authenticator=name,
                    cross_project_id=name,
                ),
                weak_authenticator_of=str,
                now=NOW,
            )
        submitters.allow(tx, ADA, DEMO, now=NOW)

    store.write(fill)
    return store


def ada(store: Store) -> ApiToken:
    found = store.read(lambda db: submitters.submitter_of(db, ADA))
    assert found is not None
    return found


def check(store: Store, token: ApiToken | None, app: str = "demo", n_jobs: int = 1, now: float = NOW) -> None:
    store.write(lambda tx: submitters.check_rights(tx, token, app, n_jobs, now=now))


def submitted(store: Store, token: ApiToken, n_jobs: int) -> batches.BatchRow:
    """A batch with so many jobs."""

    def make(tx: Transaction) -> batches.BatchRow:
        app = apps.list_apps(tx)[0]
        batch = batches.create_batch(tx, name="b", app_id=app.id, token_id=token.id, now=NOW)
        return batches.add_jobs(tx, batch, app.name, [NewJob()] * n_jobs, now=NOW)

    return store.write(make)


def test_an_account_that_may_submit_has_one_token_that_no_text_opens(people: Store):
    token = ada(people)
    assert (token.rights, token.user_id) == (DEMO, ADA)
    assert token.scopes == {Scope.READ, Scope.SUBMIT}
    assert people.read(lambda db: submitters.submitter_of(db, UserId(2))) is None
    stored = people.read(lambda db: db.value("SELECT token_hash FROM api_token"))
    assert people.read(lambda db: credentials.token_by_secret(db, stored)) is None
    assert people.read(lambda db: credentials.list_tokens(db, user_id=ADA)) == []
    with pytest.raises(NotFound):
        people.write(lambda tx: credentials.revoke_token(tx, token.id, now=NOW, user_id=ADA))


def test_a_right_that_is_given_again_is_that_of_the_same_batches(people: Store):
    token = ada(people)
    batch = submitted(people, token, 3)
    people.write(lambda tx: submitters.withdraw(tx, ADA, now=NOW))
    assert people.read(lambda db: submitters.submitter_of(db, ADA)) is None
    assert people.read(lambda db: submitters.token_of(db, ADA)) is None
    everything = SubmitRights(max_jobs=9)
    people.write(lambda tx: submitters.allow(tx, ADA, everything, now=NOW + 1))
    again = ada(people)
    assert (again.id, again.rights) == (token.id, everything)
    assert people.read(lambda db: submitters.own_batch(db, again, batch.id)).njobs == 3
    assert people.read(lambda db: submitters.jobs_in_progress(db, again.id)) == 3


def test_the_right_ends_with_the_account(people: Store):
    token = ada(people)
    people.write(lambda tx: interventions.block(tx, "user", ADA, "spam"))
    assert people.read(lambda db: submitters.submitter_of(db, ADA)) is None
    with pytest.raises(NotAllowed, match="any more"):  # of a request that had begun before
        check(people, token)
    people.write(lambda tx: interventions.block(tx, "user", ADA, ""))
    check(people, token)
    people.write(lambda tx: account_changes.ask_to_erase(tx, ADA, NOW + 10))
    assert people.read(lambda db: submitters.submitter_of(db, ADA)) is None
    people.write(lambda tx: account_changes.ask_to_erase(tx, ADA, None))
    assert ada(people) == token
    people.write(lambda tx: account_changes.erase(tx, ADA, key="k", now=NOW))
    with pytest.raises(NotAllowed):
        check(people, token)
    assert people.read(lambda db: submitters.token_of(db, ADA)) is None


def test_a_refusal_names_app_and_figures(people: Store):
    token = ada(people)
    with pytest.raises(NotAllowed, match="jobs of demo only"):
        check(people, token, "other")
    batch = submitted(people, token, 3)
    check(people, token, n_jobs=2)
    with pytest.raises(Conflict, match="You may submit 2 more jobs until some are finished"):
        check(people, token, n_jobs=3)
    people.write(lambda tx: batches.abort_batch(tx, batch.id))
    check(people, token, n_jobs=5)
    with pytest.raises(NotFound, match="no app 'gone'"):
        people.write(lambda tx: submitters.allow(tx, ADA, SubmitRights(apps=("gone",)), now=NOW))
    assert ada(people).rights == DEMO


def test_tokens_of_programs_have_the_same_limits(people: Store):
    token = people.write(
        lambda tx: credentials.create_token(
            tx, "secret", name="bob", scopes=[Scope.SUBMIT], rights=DEMO, expire_time=NOW + 9, now=NOW
        )
    )
    submitted(people, token, 5)
    with pytest.raises(Conflict, match="You may submit 0 more jobs"):
        check(people, token)
    check(people, token, n_jobs=0)
    with pytest.raises(NotAllowed, match="any more"):
        check(people, token, n_jobs=0, now=NOW + 9)
    check(people, None, "other", 10**6)  # an operator


def test_a_batch_of_another_is_as_none(people: Store):
    mine, theirs = (
        ada(people),
        people.write(
            lambda tx: credentials.create_token(tx, "secret", name="bob", scopes=[Scope.SUBMIT], now=NOW)
        ),
    )
    batch = submitted(people, theirs, 1)
    with pytest.raises(NotFound) as others:
        people.read(lambda db: submitters.own_batch(db, mine, batch.id))
    with pytest.raises(NotFound) as missing:
        people.read(lambda db: submitters.own_batch(db, mine, 99))
    assert str(others.value) == str(missing.value).replace("99", str(batch.id))
    own = submitted(people, mine, 1)
    assert [each.id for each in people.read(lambda db: batches.list_batches(db, token_id=mine.id))] == [
        own.id
    ]
    assert len(people.read(batches.list_batches)) == 2
