"""Islands: jobs on a database of their own, accounts and credit at the centre, each entry of the ledger once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.helpers.postgres_server import PostgresServer
from tests.helpers.project_world import URL, SimHost, World

from cobblestone.domain.errors import CobblestoneError, ConfigError, StoreError
from cobblestone.domain.ids import HostId, UserId
from cobblestone.domain.reasons import reason
from cobblestone.policy.dispatch.islands import HOST_IDS, ROW_IDS
from cobblestone.server.core.islands import Island, Islands, islands_text, load_islands, made_island
from cobblestone.server.credit.ledger_audit import recompute
from cobblestone.server.daemons.island_follower import IslandFollower
from cobblestone.server.operation.islands import add_island, island_findings, island_states
from cobblestone.store.credit import ledger
from cobblestone.store.operation import island_credit
from cobblestone.store.operation.merged_computers import merge_computers
from cobblestone.store.people import account_changes, hosts, users
from cobblestone.store.schema.project import PROJECT

ISLAND_URL = "http://127.0.0.2:8080/"


class Archipelago:
    """A centre that takes no new computers itself, and one island."""

    def __init__(self, root: Path, centre: str, island: str) -> None:
        first = World(root / "centre", database=centre)
        self.island_entry = made_island(name="north", number=3, url=ISLAND_URL, database=island, share=1.0)
        add_island(first.ctx.folder, root / "north", self.island_entry, now=first.now)
        first.close()
        text = islands_text(Islands(centre_share=0.0, island=(self.island_entry,)))
        (root / "centre" / "islands.toml").write_text(text)
        self.centre = World(root / "centre", made_with=first.key)
        self.island = World(root / "north", made_with=first.key)
        self.follower = IslandFollower(self.centre.ctx, self.island_entry)
        self.app = self.island.add_app()
        self.centre.add_app()

    def close(self) -> None:
        self.follower.close()
        self.centre.close()
        self.island.close()

    def wait(self, seconds: float) -> None:
        self.centre.now += seconds
        self.island.now += seconds

    def follow(self) -> int:
        """Let the follower carry everything; how many entries."""
        found = 0
        while done := self.centre.run(self.follower.step()):
            found += done
        return found

    def computer(self, authenticator: str, **info: Any) -> SimHost:
        return SimHost(OneAddress(self), authenticator, "", {"domain_name": "", **info})

    def earn(self, host: SimHost, n: int = 1) -> None:
        """Let a computer do some jobs of the island."""
        self.island.add_jobs(self.app, n)
        host.rpc(ask=1e5)
        self.wait(3600)
        reports = [host.finish(name, b"answer") for name in host.new_results()]
        assert len(reports) == n
        host.rpc(reports=reports)
        self.island.settle()

    def totals(self, table: str) -> dict[int, float]:
        rows = self.centre.query(f"SELECT id, total_credit FROM {table} WHERE total_credit <> 0")
        return {row[0]: row[1] for row in rows}

    def findings(self) -> list[str]:
        with_db = self.centre.ctx.store.read(lambda db: list(island_findings(self.centre.ctx, db)))
        return [f"{each.code}: {each.text}" for each in with_db]


class OneAddress:
    """The way of a stock client: it calls the centre and follows where that sends it, with the whole request."""

    def __init__(self, found: Archipelago) -> None:
        self._found = found

    def post(self, path: str, **options: Any) -> httpx.Response:
        if path == "/cgi-bin/cgi":
            reply = self._found.centre.post(path, **options)
            assert reply.status_code == 307
            assert reply.headers["location"] == f"{ISLAND_URL}cgi-bin/cgi"
        return self._found.island.post(path, **options)


@pytest.fixture
def found(tmp_path: Path, postgres: PostgresServer) -> Iterator[Archipelago]:
    centre, island = postgres.project_database(), postgres.empty_database()
    made = Archipelago(tmp_path, centre, island)
    yield made
    made.close()
    postgres.release(centre)


def test_credit_of_an_island_is_at_the_centre_once(found: Archipelago) -> None:
    ada, bob = found.centre.user("ada"), found.centre.user("bob")
    team = found.centre.write(lambda tx: users.create_team(tx, "Sky", UserId(1), now=found.centre.now))
    found.follow()
    first, second = found.computer(ada), found.computer(bob)
    first.rpc()
    second.rpc()
    assert (first.id // HOST_IDS, second.id // HOST_IDS) == (3, 3)
    found.earn(first, 3)
    found.earn(second)
    assert first.file_info(next(iter(first.outputs))).get("url").startswith(ISLAND_URL)
    assert found.totals("user_account") == {}
    assert [each.partition(":")[0] for each in found.findings()] == ["late"]
    found.wait(61)
    assert found.follow() == 4
    granted = {row[0]: row[1] for row in found.island.query("SELECT id, granted FROM credit_entry")}
    assert min(granted) > 3 * ROW_IDS
    assert sum(granted.values()) > 0
    assert found.totals("user_account") == pytest.approx(
        {1: sum(list(granted.values())[:3]), 2: list(granted.values())[3]}
    )
    assert found.totals("host") == pytest.approx(
        dict(found.island.query("SELECT id, total_credit FROM host"))
    )
    assert found.totals("team") == {team.id: found.totals("user_account")[1]}
    assert sum(found.totals("app_version").values()) == pytest.approx(sum(granted.values()))
    assert found.follow() == 0
    # a replay, or a second follower that had read the same, changes nothing
    portion = found.island.ctx.store.read(
        lambda db: island_credit.next_portion(db, after=0, after_host=0, now=found.island.now)
    )
    for after in (0, min(granted)):
        take = found.centre.write(
            lambda tx, after=after: island_credit.take_portion(tx, 3, after, portion, now=found.centre.now)
        )
        assert take == 0
    # what happens to credit later follows too: a correction, and two computers that become one
    line = found.island.ctx.store.read(lambda db: next(iter(ledger.ledger(db))))
    why = reason("cheat", "It was copied.")
    found.island.write(lambda tx: ledger.correct(tx, line, -line.granted, why, now=found.island.now))
    third = found.computer(ada, domain_name="new")
    third.rpc()
    found.earn(third)
    found.island.write(
        lambda tx: merge_computers(tx, UserId(1), HostId(first.id), HostId(third.id), now=found.island.now)
    )
    found.wait(61)
    assert found.follow() == 3
    assert found.centre.ctx.store.read(recompute).differences == []
    assert found.island.ctx.store.read(recompute).differences == []
    assert found.totals("host") == pytest.approx(
        dict(found.island.query("SELECT id, total_credit FROM host WHERE total_credit <> 0"))
    )
    assert found.findings() == []
    (state,) = found.centre.ctx.store.read(lambda db: list(island_states(found.centre.ctx, db)))
    assert (state.waiting, state.entries, state.entries_there, state.agrees) == (0, 6, 6, True)
    at_centre = found.centre.ctx.store.read(lambda db: ledger.entries_of_result(db, line.result_id))[0]
    with pytest.raises(CobblestoneError, match="granted on island 3: correct it there"):
        found.centre.write(lambda tx: ledger.correct(tx, at_centre, -1.0, why, now=found.centre.now))
    found.centre.write(lambda tx: tx.execute("DELETE FROM credit_entry WHERE id = ?", (at_centre.id,)))
    assert [each.partition(":")[0] for each in found.findings()] == ["not_of_ledger"]


def test_what_happens_to_an_account_reaches_the_island_and_its_preferences_come_back(
    found: Archipelago,
) -> None:
    ada, bob = found.centre.user("ada"), found.centre.user("bob")
    early = found.computer(ada)
    early.rpc()
    assert (
        float(early.reply.get("request_delay")) == 60
    )  # and not an hour: it was not told of the account yet
    found.follow()
    host = found.computer(ada)
    host.rpc()
    assert host.id > 3 * HOST_IDS

    # two addresses change places, which are unique at every moment
    for user_id, address in ((1, "free@example.org"), (2, "ada@example.org"), (1, "bob@example.org")):
        found.centre.write(
            lambda tx, user_id=user_id, address=address: account_changes.set_email(
                tx, UserId(user_id), email_addr=address, passwd_hash="x", now=found.centre.now
            )
        )
    found.centre.write(
        lambda tx: account_changes.set_keys(tx, UserId(2), authenticator="new", weak_authenticator="2_new")
    )
    found.follow()
    query = "SELECT id, email_addr, authenticator FROM user_account ORDER BY id"
    assert found.island.query(query) == found.centre.query(query)
    assert float(found.computer(bob).rpc().get("request_delay")) == 60

    # preferences: the newer ones win, wherever they are
    of_ours, of_others = (f"<global_preferences>{n}</global_preferences>" for n in (1, 2))

    def preferences(world: World) -> tuple[Any, ...]:
        return world.query("SELECT global_prefs, global_prefs_time FROM user_account WHERE id = 1")[0]

    found.island.write(lambda tx: users.set_global_preferences(tx, UserId(1), of_ours, 50.0))
    found.follow()
    assert preferences(found.centre) == preferences(found.island) == (of_ours, 50.0)
    found.centre.write(lambda tx: users.set_global_preferences(tx, UserId(1), of_others, 60.0))
    found.follow()
    assert preferences(found.centre) == preferences(found.island) == (of_others, 60.0)

    # a computer's venue and block are chosen at the centre, where it is known by now
    found.centre.write(lambda tx: tx.execute("UPDATE host SET venue = 'home' WHERE id = ?", (host.id,)))
    found.centre.write(lambda tx: hosts.set_blocked(tx, HostId(host.id), "It overheats."))
    found.follow()
    chosen = "SELECT venue, blocked_reason FROM host WHERE id = ?"
    assert found.island.query(chosen, host.id) == [("home", "It overheats.")]
    found.centre.write(lambda tx: hosts.set_blocked(tx, HostId(host.id), ""))
    found.follow()

    # an erased account is erased there, and what comes afterwards does not bring its computer's description back
    found.earn(host)
    found.centre.write(lambda tx: account_changes.erase(tx, UserId(1), key="k" * 32, now=found.centre.now))
    found.wait(61)
    found.follow()
    assert found.island.query("SELECT name, email_addr FROM user_account WHERE id = 1") == [
        ("deleted", "erased-1")
    ]
    assert found.totals("user_account").keys() == {1}
    assert found.centre.value("SELECT COUNT(*) FROM host WHERE user_id = 1 AND description <> '{}'") == 0

    # people are sent to the centre, and nobody joins on the island
    reply = found.island.get("/home.php?a=1")
    assert (reply.status_code, reply.headers["location"]) == (307, f"{URL}home.php?a=1")
    assert found.island.get("/create_account.php").status_code == 307


def test_what_does_not_fit_is_refused(found: Archipelago, tmp_path: Path, postgres: PostgresServer) -> None:
    folder = found.centre.ctx.folder
    entry = found.island_entry
    other = Island(name="south", number=3, url="http://127.0.0.3:8080/", database=postgres.address("nowhere"))
    with pytest.raises(ConfigError, match="ranges of ids overlap"):
        add_island(folder, tmp_path / "south", other, now=0.0)
    with pytest.raises(ConfigError, match="is an island itself"):
        add_island(found.island.ctx.folder, tmp_path / "south", other, now=0.0)
    number_4 = replaced(other, number=4)
    with pytest.raises(ConfigError, match="not an empty folder"):
        add_island(folder, tmp_path / "north", number_4, now=0.0)
    with pytest.raises(ConfigError, match="number"):
        made_island(name="south", number=21, url=other.url, database=other.database)
    sqlite = World(tmp_path / "plain")
    sqlite.close()
    with pytest.raises(ConfigError, match="SQLite"):
        add_island(sqlite.ctx.folder, tmp_path / "south", other, now=0.0)
    (folder.root / "islands.toml").write_text("[[island]]\nname = 'A b'\n")
    with pytest.raises(ConfigError, match=r"islands\.toml cannot be used"):
        load_islands(folder.root)

    # a database that is another's, and a ledger that went back
    for wrong, text in (
        (replaced(entry, number=4), "that of island 3"),
        (replaced(entry, database=found.centre.ctx.settings.database.url), "a project of its own"),
        (replaced(entry, database=postgres.address("nowhere")), "nowhere"),
    ):
        lost = IslandFollower(found.centre.ctx, wrong)
        with pytest.raises(StoreError, match=text):
            found.centre.run(lost.step())
        lost.close()
    found.island.write(lambda tx: tx.execute("UPDATE alembic_version SET version_num = '0001'"))
    early = IslandFollower(found.centre.ctx, entry)
    with pytest.raises(StoreError, match="has schema 0001"):
        found.centre.run(early.step())
    early.close()
    found.island.write(lambda tx: tx.execute("UPDATE alembic_version SET version_num = ?", (PROJECT.head,)))
    found.centre.write(
        lambda tx: tx.execute("INSERT INTO meta (key, value) VALUES ('island_3_entry', '3000000000009')")
    )
    with pytest.raises(StoreError, match="older backup"):
        found.follow()
    found.centre.write(lambda tx: tx.execute("DELETE FROM meta WHERE key = 'island_3_entry'"))
    assert found.follow() == 0


def replaced(island: Island, **changes: Any) -> Island:
    values = {name: getattr(island, name) for name in island.__struct_fields__}
    return Island(**{**values, **changes})
