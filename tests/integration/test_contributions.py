"""Storage that computers prove, and bytes that they moved: through the scheduler, with honest computers and others."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from tests.helpers.project_world import START, SimHost, World

from cobblestone.domain.statistics import Contribution
from cobblestone.domain.values import DAY, HostId, UserId
from cobblestone.domain.work import InputFile
from cobblestone.policy.storage import answer_of
from cobblestone.server.daemons.housekeeping import count_transfers
from cobblestone.server.daemons.storage_proofs import check_storage
from cobblestone.store.credit.app_credit import Owner
from cobblestone.store.credit.contributions import contributions
from cobblestone.store.operation.interventions import merge_computers
from cobblestone.wire.scheduler.report import StickyFile

CONTENT = random.Random(7).randbytes(200_000)
Answer = Callable[[bytes], bytes]


def _honest(content: bytes) -> bytes:
    return content


@pytest.fixture
def storing(make_world):
    return make_world(contributions={"storage": True, "network": True})


def _asked_to_keep(world: World, host: SimHost, content: bytes = CONTENT) -> str:
    """Send a host a job whose input it shall keep; the file's name."""
    app = world.add_app(f"app{world.value('SELECT count(*) FROM app')}")
    stored = world.store_file("kept", content)
    file = InputFile(name=stored.name, open_name="in", nbytes=stored.nbytes, md5=stored.md5, sticky=True)
    world.add_jobs(app, inputs=[file])
    host.rpc(ask=1e6)
    assert host.new_results()
    return stored.name


def _judge(world: World) -> None:
    world.run(check_storage(world.ctx))


def _keep(
    world: World,
    host: SimHost,
    name: str,
    *,
    days: float,
    address: str = "192.0.2.1",
    found: Answer = _honest,
) -> None:
    """Call every six hours, list the file, and answer what is asked from ``found`` of its range."""
    world.transport.client = (address, 1)
    answer: dict[str, str] = {}
    end = world.now + days * DAY
    while world.now < end:
        listed = StickyFile(name=name, nbytes=len(CONTENT), status=1, **answer)
        host.rpc(sticky_files=(listed,), client_cap_file_challenge=True)
        answer = {}
        if host.reply.has("file_challenge"):
            asked = host.reply.all("file_challenge")[0]
            offset, length = int(asked.get("offset")), int(asked.get("length"))
            digest = answer_of(asked.get("nonce"), found(CONTENT[offset : offset + length]))
            answer = {"nonce": asked.get("nonce"), "answer": digest}
        _judge(world)
        world.now += DAY / 4


def _given(world: World, owner: Owner, owner_id: int) -> dict[Contribution, float]:
    found = world.ctx.store.read(lambda db: contributions(db, owner, owner_id))
    return {kind: statement.total for kind, statement in found.items()}


def test_a_computer_that_keeps_a_file_earns_its_byte_days_and_no_credit(storing: World):
    host = storing.host(storing.user("alice"))
    name = _asked_to_keep(storing, host)
    _keep(storing, host, name, days=60)
    earned = _given(storing, Owner.HOST, host.id)[Contribution.STORAGE]
    # the days since the last question count with the next one; questions come at random, a day apart on average
    assert 0.6 * 60 * len(CONTENT) < earned <= 60 * len(CONTENT)
    assert _given(storing, Owner.USER, 1)[Contribution.STORAGE] == earned
    assert storing.value("SELECT total_credit FROM user_account") == 0
    entries = storing.query("SELECT kind, sum(amount) FROM contribution_entry GROUP BY kind")
    assert entries == [("storage", pytest.approx(earned))]
    recent = storing.value("SELECT expavg_credit FROM contribution WHERE owner = 'host'")
    assert recent == pytest.approx(len(CONTENT), rel=0.6)


def test_who_lists_a_file_that_is_gone_earns_nothing(storing: World):
    host = storing.host(storing.user("alice"))
    name = _asked_to_keep(storing, host)
    _keep(storing, host, name, days=8, found=lambda content: bytes(len(content)))
    assert _given(storing, Owner.HOST, host.id) == {}


def test_a_client_that_does_not_answer_is_not_asked_and_earns_nothing(storing: World):
    host = storing.host(storing.user("alice"))
    name = _asked_to_keep(storing, host)
    for _ in range(8):
        host.rpc(sticky_files=(StickyFile(name=name, nbytes=len(CONTENT), status=1),))
        assert not host.reply.has("file_challenge")
        _judge(storing)
        storing.now += DAY
    assert storing.value("SELECT nbytes FROM host_storage") == len(CONTENT)  # its list is known all the same
    assert _given(storing, Owner.HOST, host.id) == {}


def test_who_lists_what_it_was_not_asked_to_keep_earns_nothing(storing: World):
    alice, bob = (storing.host(storing.user(name)) for name in ("alice", "bob"))
    name = _asked_to_keep(storing, alice)
    bob.rpc()
    _keep(storing, bob, name, days=10)
    assert _given(storing, Owner.HOST, bob.id) == {}


@pytest.mark.parametrize("same", ["account", "network"])
def test_copies_of_one_account_or_network_count_once(storing: World, same: str):
    users = (storing.user("alice"), storing.user("bob"))
    one = storing.host(users[0])
    two = storing.host(users[0] if same == "account" else users[1], domain_name="other")
    name = _asked_to_keep(storing, one)
    assert _asked_to_keep(storing, two) == name
    addresses = ("192.0.2.1", "203.0.113.9") if same == "account" else ("192.0.2.1", "192.0.2.77")
    for _ in range(12):
        for host, address in zip((one, two), addresses, strict=True):
            _keep(storing, host, name, days=0.25, address=address)
    # Each part of the play takes a quarter of a day: both have had six days, of which one computer's count.
    total = sum(_given(storing, Owner.HOST, host.id).get(Contribution.STORAGE, 0.0) for host in (one, two))
    assert total <= (storing.now - START) / DAY * len(CONTENT)
    assert storing.query("SELECT counted FROM kept_file ORDER BY counted") == [(-1,), (1,)]


def test_a_copy_counts_when_the_one_that_counted_is_gone(storing: World):
    alice = storing.user("alice")
    one, two = storing.host(alice), storing.host(alice, domain_name="other")
    name = _asked_to_keep(storing, one)
    _asked_to_keep(storing, two)
    _keep(storing, one, name, days=0.25)
    _keep(storing, two, name, days=0.25)
    one.rpc(sticky_files=())
    _judge(storing)
    assert storing.query("SELECT host_id, counted FROM kept_file") == [(two.id, 1)]
    _keep(storing, two, name, days=40)
    assert _given(storing, Owner.HOST, two.id)[Contribution.STORAGE] > 24 * len(CONTENT)


def test_a_merged_computer_leaves_its_files_and_what_it_gave_to_the_survivor(storing: World):
    alice = storing.user("alice")
    old, new = storing.host(alice), storing.host(alice, domain_name="other")
    name = _asked_to_keep(storing, old)
    _asked_to_keep(storing, new)
    _keep(storing, old, name, days=20)
    given = _given(storing, Owner.HOST, old.id)[Contribution.STORAGE]
    storing.write(lambda tx: tx.execute("UPDATE result SET server_state = 5, outcome = 6"))
    storing.write(lambda tx: merge_computers(tx, UserId(1), HostId(old.id), HostId(new.id), now=storing.now))
    assert _given(storing, Owner.HOST, old.id) == {}
    assert _given(storing, Owner.HOST, new.id)[Contribution.STORAGE] == given
    _keep(storing, new, name, days=0.5)
    assert storing.query("SELECT host_id, counted FROM kept_file") == [(new.id, 1)]


def test_a_replayed_or_repeated_answer_pays_nothing_more(storing: World):
    host = storing.host(storing.user("alice"))
    name = _asked_to_keep(storing, host)
    _keep(storing, host, name, days=8)
    earned = _given(storing, Owner.HOST, host.id)
    row = storing.query("SELECT challenge FROM host_storage")
    for _ in range(5):
        listed = StickyFile(name=name, nbytes=1e18, status=1, nonce="00" * 16, answer="11" * 32)
        host.rpc(sticky_files=(listed, listed), client_cap_file_challenge=True)
        _judge(storing)
    assert _given(storing, Owner.HOST, host.id) == earned
    assert len(row) == 1


def test_a_file_that_the_project_deleted_is_given_back_and_held_against_nobody(storing: World):
    host = storing.host(storing.user("alice"))
    name = _asked_to_keep(storing, host)
    _keep(storing, host, name, days=5)
    storing.write(lambda tx: tx.execute("DELETE FROM file WHERE name = ?", (name,)))
    host.rpc(sticky_files=(StickyFile(name=name, nbytes=len(CONTENT), status=1),))
    assert [each.text.strip() for each in host.reply.all("delete_file_info")] == [name]
    _judge(storing)
    assert storing.value("SELECT nbytes FROM host_storage") == 0


def test_transfers_count_for_valid_results_and_inputs_once_for_each_computer(storing: World):
    app = storing.add_app("transfers")
    stored = storing.store_file("input", CONTENT)
    file = InputFile(name=stored.name, open_name="in", nbytes=stored.nbytes, md5=stored.md5)
    storing.run(count_transfers(storing.ctx))
    storing.add_jobs(app, n=2, inputs=[file])
    host = storing.host(storing.user("alice"))
    host.rpc(ask=1e6)
    reports = [host.finish(name, b"answer") for name in host.new_results()]
    assert len(reports) == 2
    host.rpc(reports=reports)
    storing.settle()
    storing.now += 120
    storing.run(count_transfers(storing.ctx))
    given = _given(storing, Owner.HOST, host.id)
    assert given[Contribution.SENT] == 2 * len(b"answer")
    program = storing.value("SELECT coalesce(sum(nbytes), 0) FROM file WHERE name <> ?", stored.name)
    assert len(CONTENT) <= given[Contribution.RECEIVED] <= len(CONTENT) + program
    storing.run(count_transfers(storing.ctx))
    assert _given(storing, Owner.HOST, host.id) == given


def test_nothing_is_kept_where_the_project_counts_nothing(world: World):
    host = world.host(world.user("alice"))
    name = _asked_to_keep(world, host)
    host.rpc(
        sticky_files=(StickyFile(name=name, nbytes=len(CONTENT), status=1),), client_cap_file_challenge=True
    )
    assert world.value("SELECT count(*) FROM kept_file") == 0
    assert world.value("SELECT count(*) FROM host_storage") == 0
