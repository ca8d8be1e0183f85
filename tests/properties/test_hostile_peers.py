"""Bytes of the real client, damaged in every way: each peer's endpoint answers in its protocol, and no honest job suffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.helpers.project_world import SimHost, World, succeeded, upload_body
from tests.helpers.wire_captures import scheduler_requests
from tests.helpers.wire_requests import written_request

from cobblestone.policy.lifecycle.states import check_invariants
from cobblestone.server.credit.ledger_audit import recompute
from cobblestone.store.work import lifecycle

SCHEDULER = "/cgi-bin/cgi"
UPLOADS = "/cgi-bin/file_upload_handler"
REQUESTS = [message.body for message in scheduler_requests()]

#: What an attacker puts where a value belongs.
POISON = [
    b"",
    b"-1",
    b"nan",
    b"inf",
    b"-inf",
    b"1e300",
    b"1e308",
    b"1e309",
    b"9" * 400,
    b"0x7fffffff",
    b"2147483648",
    b"9223372036854775808",
    b"../../../../etc/passwd",
    b"/etc/passwd",
    b"..",
    b"a\\b",
    b"%00",
    b"\x00",
    b"\xff\xfe",
    b"'; DROP TABLE result; --",
    b"<x>" * 3000,
    b"<![CDATA[",
    b"&a;&#0;&#x110000;",
    b"<!DOCTYPE x [<!ENTITY a 'aaaa'><!ENTITY b '&a;&a;&a;'>]>&b;",
    "\U0001d7db\u00e9\u202e".encode(),
    b"A" * 70_000,
]


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """A message with some places changed: values replaced, parts cut, repeated, swapped, bytes altered."""
    body = whole
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(0, len(body) - 1)))
        other = draw(st.integers(0, max(0, len(body) - 1)))
        low, high = min(place, other), max(place, other)
        match draw(st.integers(0, 5)):
            case 0 | 1:  # the value of the next element
                begin = body.find(b">", place) + 1
                end = body.find(b"<", begin)
                if begin and end >= begin:
                    body = body[:begin] + draw(st.sampled_from(POISON)) + body[end:]
            case 2:
                body = body[:low] + body[high:]
            case 3:
                body = body[:high] + body[low:high][:5000] + body[high:]
            case 4:
                body = body[:place] + draw(st.binary(min_size=1, max_size=8)) + body[place + 1 :]
            case _:
                body = body[:place] + draw(st.sampled_from(POISON)) + body[place:]
    return body


class Besieged:
    """A project with an honest host, whose content the attacker knows in part."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.key = world.user("alice")
        self.mallory = world.user("mallory")
        self.app = world.add_app(quorum=1)
        self.honest = world.host(self.key)
        self.victim = self.started()

    def started(self) -> str:
        """A job that the honest host has."""
        self.world.add_jobs(self.app)
        self.honest.rpc(ask=1)
        (name,) = self.honest.new_results()
        return name

    def answers(self, path: str, body: bytes) -> str:
        reply = self.world.post(path, content=body)
        assert reply.status_code in (200, 503), (reply.status_code, reply.text[:300])
        return reply.text

    def still_works(self) -> None:
        """The honest host's job goes through, and every invariant holds."""
        world = self.world
        world.now += 200
        before = world.value("SELECT COUNT(*) FROM credit_entry")
        name = self.started()
        world.now += 200
        self.honest.rpc(reports=[self.honest.finish(name, b"answer")])
        world.settle()
        assert world.value("SELECT validate_state FROM result WHERE name = ?", name) == 1
        assert world.value("SELECT COUNT(*) FROM credit_entry") > before
        ids = [row[0] for row in world.query("SELECT id FROM workunit")]
        for view in world.ctx.store.read(lambda db: lifecycle.views(db, ids)):
            assert check_invariants(view) == []
        assert world.ctx.store.read(recompute).differences == []


@pytest.fixture(scope="module")
def besieged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Besieged]:
    folder: Path = tmp_path_factory.mktemp("hostile")
    world = World(folder / "project", scheduler={"daily_result_quota": 100_000})
    place = Besieged(world)
    yield place
    place.still_works()
    world.close()


QUIET = settings(
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ]
)


@QUIET
@given(data=st.data())
def test_a_damaged_scheduler_request_gets_a_reply_of_the_protocol(besieged: Besieged, data: st.DataObject):
    whole = data.draw(st.sampled_from(REQUESTS), label="request")
    start = whole.find(b"<authenticator>") + len(b"<authenticator>")
    own = whole[:start] + besieged.mallory.encode() + whole[whole.find(b"<", start) :]
    assert "<scheduler_reply>" in besieged.answers(SCHEDULER, data.draw(damaged(own)))


@QUIET
@given(data=st.data())
def test_another_users_host_and_results_are_out_of_reach(besieged: Besieged, data: st.DataObject):
    """Mallory claims to be Alice's host, with her results, under many forms of number and name."""
    forged = replace(
        besieged.honest.request,
        authenticator=besieged.mallory,
        rpc_seqno=data.draw(st.integers(0, 1000)),
        results=(succeeded(besieged.victim, b"forged"),),
    )
    body = written_request(forged)
    if data.draw(st.booleans()):
        body = data.draw(damaged(body))
    besieged.answers(SCHEDULER, body)
    owner, state = besieged.world.query(
        "SELECT user_id, server_state FROM result WHERE name = ?", besieged.victim
    )[0]
    assert (owner, state) == (1, 4)


@QUIET
@given(data=st.data())
def test_a_damaged_upload_gets_a_reply_of_the_protocol_and_stores_nothing_else(
    besieged: Besieged, data: st.DataObject
):
    host: SimHost = besieged.honest
    info = host.file_info(f"{besieged.victim}_0")
    whole = upload_body(
        data.draw(st.sampled_from([f"{besieged.victim}_0", "other_0", "../x", "a/b", "x" * 300])),
        b"content",
        signature=data.draw(st.sampled_from([info.get("xml_signature").strip(), "", "ab" * 128])),
        max_nbytes=data.draw(st.sampled_from([int(info.get("max_nbytes")), 10**15, 0])),
        nbytes=data.draw(st.sampled_from([7, 0, 6, 8, 10**12, 2**63])),
        offset=data.draw(st.sampled_from([0, 0, 3, 7, 9])),
    )
    body = data.draw(st.one_of(st.just(whole), damaged(whole)))
    assert "<data_server_reply>" in besieged.answers(UPLOADS, body)
    folder = besieged.world.ctx.folder.root
    assert {path.name for path in folder.parent.iterdir()} == {folder.name}


WEB_RPC = ["/create_account.php", "/lookup_account.php", "/am_get_info.php", "/get_project_config.php"]
FIELDS = [
    "email_addr",
    "passwd_hash",
    "user_name",
    "account_key",
    "invite_code",
    "team_name",
    "ldap_auth",
    "x",
]


@QUIET
@given(
    path=st.sampled_from(WEB_RPC),
    values=st.dictionaries(
        st.sampled_from(FIELDS), st.one_of(st.sampled_from(POISON), st.binary(max_size=50)), max_size=6
    ),
    many=st.booleans(),
)
@example(path="/create_account.php", values={}, many=True)
def test_any_account_request_gets_a_reply_of_the_protocol(
    besieged: Besieged, path: str, values: dict[str, bytes], many: bool
):
    query = "&".join(f"{name}={quote(value)}" for name, value in values.items())
    if many:
        query += "&x=1" * 3000
    reply = besieged.world.get(f"{path}?{query[:60_000]}")
    assert reply.status_code in (200, 400, 414, 429), reply.status_code
    assert reply.text.lstrip().startswith("<")


def nested(depth: int) -> bytes:
    return b"<scheduler_request>" + b"<a>" * depth + b"</a>" * depth + b"</scheduler_request>"


def entity_bomb() -> bytes:
    levels = "".join(f"<!ENTITY l{n} '{f'&l{n - 1};' * 10}'>" for n in range(1, 10))
    return (
        f"<!DOCTYPE b [<!ENTITY l0 'ha'>{levels}]><scheduler_request><a>&l9;</a></scheduler_request>".encode()
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: nested(100_000),
        entity_bomb,
        lambda: b"<scheduler_request>" + b"<result>" * 50_000 + b"</scheduler_request>",
        lambda: b"<scheduler_request>" + b"<a " + b"b='c' " * 50_000 + b"/></scheduler_request>",
        lambda: b"\x1f\x8b" + b"\x00" * 1000,
        lambda: b"<scheduler_request>\n" + b"\n" * 1_500_000 + b"</scheduler_request>",
    ],
    ids=["deep", "entity bomb", "unclosed", "attributes", "gzip", "empty lines"],
)
def test_a_bomb_is_only_a_bad_request(besieged: Besieged, make: Callable[[], bytes]):
    for path in (SCHEDULER, UPLOADS):
        besieged.answers(path, make())
