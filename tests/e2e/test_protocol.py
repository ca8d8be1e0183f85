"""The rest of the protocol, as boinccmd and the stock client see it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from tests.e2e.conftest import PASSWORD, LiveProject

COPY = "import sys\nopen(sys.argv[2], 'w').write(open(sys.argv[1]).read())\n"


def test_boinccmd_reads_the_configuration_and_makes_and_finds_accounts(live: Callable[..., LiveProject]):
    project = live()
    client = project.volunteer("alice")
    assert "E2E" in client.command("--get_project_config", project.url)
    made = client.command("--create_account", project.url, "carol@example.org", "secretpw", "Carol")
    key = project.value("SELECT authenticator FROM user_account WHERE name = 'Carol'")
    assert key in made
    assert key in client.command("--lookup_account", project.url, "carol@example.org", "secretpw")
    assert "bad password" in client.command("--lookup_account", project.url, "carol@example.org", "wrong!")
    assert PASSWORD not in str(project.query("SELECT passwd_hash FROM user_account"))
    md5 = hashlib.md5(b"secretpwcarol@example.org").hexdigest()
    assert md5 not in str(project.query("SELECT passwd_hash FROM user_account"))


def test_a_client_attaches_and_computes_with_the_weak_key(live: Callable[..., LiveProject]):
    project = live()
    project.app("copy", COPY)
    project.account("alice")
    weak = project.value("SELECT weak_authenticator FROM user_account")
    batch = project.submit("copy", "weak but willing")
    client = project.volunteer("alice", authenticator=weak)
    project.wait_for_batch(batch, client)


def test_news_reach_the_client_as_notices(live: Callable[..., LiveProject]):
    project = live()
    project.cli("news", "add", "First light", "The project has begun.", "--project", str(project.folder))
    client = project.volunteer("alice")
    project.wait(
        lambda: "The project has begun." in client.command("--get_notices"),
        client,
        seconds=90,
        what="the notice",
    )


def test_a_new_signing_key_reaches_attached_clients_and_they_compute_on(live: Callable[..., LiveProject]):
    project = live()
    project.app("copy", COPY)
    client = project.volunteer("alice")
    project.wait_for_batch(project.submit("copy", "before"), client)
    project.cli("key", "rotate", "--project", str(project.folder))
    project.wait_for_batch(project.submit("copy", "after"), client)
    assert "doesn't validate" not in client.log()


def test_large_inputs_travel_packed(live: Callable[..., LiveProject]):
    project = live()
    project.app("copy", COPY)
    text = "a line that repeats itself\n" * 20_000
    batch = project.submit("copy", text)
    client = project.volunteer("alice")
    project.wait_for_batch(batch, client)
    (result,) = batch.results(timeout=60)
    assert result.text() == text
    gzipped = project.value("SELECT gzipped_nbytes FROM file WHERE nbytes = ?", len(text))
    assert gzipped is not None
    assert gzipped < len(text) / 10


def test_without_work_the_reason_stands_in_the_clients_log(live: Callable[..., LiveProject]):
    project = live()
    client = project.volunteer("alice")
    project.wait(lambda: "No tasks sent" in client.log(), client, seconds=60, what="the reason")
    assert "no application to send at the moment" in client.log() or "no tasks waiting" in client.log()


def test_a_wrong_account_key_is_a_notice_that_says_what_to_do(live: Callable[..., LiveProject]):
    project = live()
    client = project.volunteer("mallory", authenticator="0" * 32)
    project.wait(
        lambda: "account key" in client.command("--get_notices"), client, seconds=60, what="the notice"
    )
