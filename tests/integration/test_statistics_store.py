"""What a statistics site makes of exports: rows, history, persons; and what broken or lying exports cannot do."""

from __future__ import annotations

import gzip
import re
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from tests.helpers.statistics_exports import DAY, Export, cpid, host, next_day, population, team, user
from tests.helpers.statistics_site import Client

from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.domain.exports import BadgeHolder, Deletion, ExportedBadge, ExportedUser
from cobblestone.statistics.folder import (
    CollectedProject,
    CollectedSource,
    Join,
    SiteFolder,
    StatisticsSettings,
)
from cobblestone.statistics.ingest import ingest
from cobblestone.statistics.store import build as published_build
from cobblestone.statistics.store import history
from cobblestone.statistics.store.build import PublishedProject, build
from cobblestone.statistics.store.engine import workbench, write_parquet
from cobblestone.statistics.store.queries import DayFigures, Entity, PublishedFile, added_up
from cobblestone.statistics.store.rows import MOST_INTO_ONE, badge_file, merged_file
from cobblestone.statistics.web.curves import MOST_LAYERS, MOST_POINTS, curves, round_levels
from cobblestone.statistics.web.entities import View
from cobblestone.statistics.web.site import StatisticsContext
from cobblestone.wire.project.statistics_import import MOST_BADGES, parse_tables, picture_address

NOON = 20_000 * DAY + DAY / 2
ALICE, BOB = cpid("alice"), cpid("bob")


RECORDED = Path(__file__).parents[1] / "golden" / "statistics_export"


class Site:
    """A statistics site without its network."""

    def __init__(self, root: Path) -> None:
        self.folder = SiteFolder(root)
        self.sources: dict[str, CollectedSource] = {}

    def take(
        self,
        name: str,
        export: Export,
        *,
        join: Join = Join.NAME,
        step: float = DAY,
        now: float | None = None,
    ) -> CollectedProject:
        self.sources[name] = CollectedSource(
            name=name, title=name.title(), url=f"http://{name}.example.org/", join=join
        )
        project = self.folder.project(name)
        export.write(project.incoming)
        before = project.read_state()
        came = ingest(
            project,
            before.generation,
            now=export.time if now is None else now,
            max_rows=10**6,
            step=step,
            url=self.sources[name].url,
        )
        state = CollectedProject(
            generation=came.generation, exported=came.exported, counts=came.counts, tried=export.time
        )
        project.write_state(state)
        return state

    def generation(self, name: str) -> str:
        return self.folder.project(name).read_state().generation

    def publish(self, *, now: float = NOON, step: float = DAY) -> PublishedFile:
        members = [
            PublishedProject(
                number=number, source=source, rows=project.rows(project.read_state().generation), exported=now
            )
            for number, (name, source) in enumerate(self.sources.items(), 1)
            for project in [self.folder.project(name)]
        ]
        return PublishedFile(self.folder, build(self.folder, members, now=now, step=step), step=step)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def accounts_of(published: PublishedFile, key: str) -> set[tuple[str, str]]:
    person = published.find("user", 0, key)
    assert person is not None
    return {(published.projects[each.project].name, each.key) for each in published.members(person)}


def found(published: PublishedFile, kind: str, project: int, key: str) -> Entity:
    entity = published.find(kind, project, key)
    assert entity is not None
    return entity


def test_publishing_takes_a_bounded_part_of_the_memory(site: Site, monkeypatch: pytest.MonkeyPatch):
    limits: list[str] = []
    ranked = published_build._ranked

    def noting(db: duckdb.DuckDBPyConnection) -> None:
        limits.extend(db.execute("SELECT current_setting('memory_limit')").fetchone() or ())
        ranked(db)

    monkeypatch.setattr(published_build, "_ranked", noting)
    site.take("one", Export(NOON, [user(1, "Alice", 100, NOON)]))
    site.publish()
    assert limits == ["953.6 MiB"]


def test_accounts_of_one_person_are_joined_and_their_credit_is_added(site: Site):
    site.take(
        "one", Export(NOON, [user(1, "Alice", 100, NOON, cpid=ALICE), user(2, "Bob", 50, NOON, cpid=BOB)])
    )
    site.take("two", Export(NOON, [user(9, " ALICE ", 30, NOON, cpid=ALICE)]))
    published = site.publish()
    alice = found(published, "user", 0, ALICE)
    assert (alice.name, alice.total, alice.n, alice.rank_total) == ("Alice", 130, 2, 1)
    assert accounts_of(published, ALICE) == {("one", "1"), ("two", "9")}


def test_averages_of_a_project_whose_clock_is_ahead_decay_like_those_of_others(site: Site):
    ahead = NOON + 365 * DAY
    idle = [user(2, "Idle", 50, ahead - 28 * DAY, recent=160)]
    site.take("ahead", Export(ahead, [user(1, "Busy", 50, ahead, recent=100), *idle]), now=NOON)
    site.take("liar", Export(NOON, [user(1, "Liar", 50, ahead, recent=100)]))
    for days in (0, 7):
        published = site.publish(now=NOON + days * DAY)
        for project, key, recent in ((1, "1", 100), (1, "2", 10), (2, "1", 100)):
            shown = found(published, "user", project, key).recent
            assert shown == pytest.approx(recent / 2 ** (days / 7))
    assert site.folder.project("ahead").read_state().exported == NOON


def test_an_average_without_a_time_is_one_of_the_export(site: Site):
    export = Export(NOON, [user(1, "Alice", 50, NOON, recent=100)])
    change_users(site, export, "<expavg_time>.*</expavg_time>", "")
    assert found(site.publish(now=NOON + 7 * DAY), "user", 1, "1").recent == pytest.approx(50)


@pytest.mark.parametrize("name", ["total_credit", "expavg_credit"])
def test_a_record_without_its_credit_is_refused_and_not_taken_for_one_with_none(site: Site, name: str):
    users = [user(number, f"User {number}", 50, NOON) for number in range(1, 12)]
    export = Export(NOON, users)
    first_only = f"<user>\n <id>1</id>((?:(?!</user>).|\n)*?)<{name}>.*</{name}>"
    change_users(site, export, first_only, "<user>\n <id>1</id>\\1")
    published = site.publish()
    assert published.find("user", 1, "1") is None
    assert found(published, "user", 1, "2").total == 50
    assert site.folder.project("one").read_state().counts.refused == 1


def change_users(site: Site, export: Export, pattern: str, to: str) -> None:
    """Take an export of project "one" in whose users something is different."""
    documents = export.documents()
    text, n = re.subn(pattern, to, gzip.decompress(documents["user.gz"]).decode())
    assert n
    documents["user.gz"] = gzip.compress(text.encode())
    changed = replace(export)
    object.__setattr__(changed, "documents", lambda: documents)
    site.take("one", changed)


def test_a_project_cannot_take_an_id_away_rename_a_person_or_add_accounts_under_another_name(site: Site):
    site.take("old", Export(NOON, [user(1, "Alice", 100, NOON, cpid=ALICE)]))
    site.take("thief", Export(NOON, [user(5, "Mallory", 1e15, NOON, cpid=ALICE)]))
    published = site.publish()
    assert accounts_of(published, ALICE) == {("old", "1")}
    assert found(published, "user", 0, ALICE).total == 100
    assert found(published, "user", 0, "thief-5").name == "Mallory"
    assert published.by_name["thief"].not_joined == 1


def test_the_operator_may_vouch_for_a_project_or_keep_it_apart(site: Site):
    site.take("old", Export(NOON, [user(1, "Alice", 100, NOON, cpid=ALICE)]))
    site.take("friend", Export(NOON, [user(5, "Ally", 10, NOON, cpid=ALICE)]), join=Join.CPID)
    site.take("stranger", Export(NOON, [user(7, "Alice", 10, NOON, cpid=ALICE)]), join=Join.NO)
    assert accounts_of(site.publish(), ALICE) == {("old", "1"), ("friend", "5")}


def test_an_id_that_several_accounts_of_a_project_have_joins_none_of_them(site: Site):
    site.take("copy", Export(NOON, [user(n, "Alice", 10, NOON, cpid=ALICE) for n in (1, 2)]), join=Join.CPID)
    site.take("honest", Export(NOON, [user(3, "Alice", 10, NOON, cpid=ALICE)]))
    assert accounts_of(site.publish(), ALICE) == {("honest", "3")}


def test_computers_are_joined_within_one_person_only_and_teams_by_name(site: Site):
    machine = cpid("machine")
    teams = [team(1, "The  Team", 500, NOON)]
    for name, owner in (("one", "Alice"), ("two", "Alice"), ("three", "Carol")):
        users = [user(1, owner, 100, NOON, cpid=cpid(owner.lower()))]
        site.take(name, Export(NOON, users, [host(4, 1, 60, NOON, cpid=machine)], teams))
    published = site.publish()
    joined = list(published.ranking("host", 0, by_recent=False, first=1))
    assert sorted(each.total for each in joined) == [60, 120]
    (one_team,) = published.ranking("team", 0, by_recent=True, first=1)
    assert (one_team.n, one_team.total) == (3, 1500)


def test_averages_are_decayed_to_one_time(site: Site):
    site.take(
        "one",
        Export(NOON, [user(1, "A", 1, NOON - 7 * DAY, recent=100), user(2, "B", 1, NOON + DAY, recent=100)]),
    )
    published = site.publish()
    assert found(published, "user", 1, "1").recent == pytest.approx(50)
    assert found(published, "user", 1, "2").recent == pytest.approx(100)


def test_a_broken_export_says_what_is_wrong_where_and_changes_nothing(site: Site):
    export = Export(NOON, [user(n, f"U{n}", n, NOON) for n in range(1, 200)])
    state = site.take("one", export)
    project = site.folder.project("one")
    good = export.documents()["user.gz"]
    text = gzip.decompress(good)
    for broken, problem in (
        (good[: len(good) // 2], "user.gz, after .* bytes: the compressed file is cut off"),
        (gzip.compress(text[: len(text) // 2]), "user.gz, after .* bytes: it ends before </users>"),
        (gzip.compress(b"<users>" + b" " * 50_000_000), "times its size"),
        (gzip.compress(text.replace(b"<id>", b"<id>-")), "user.gz: 199 of 199 records are invalid"),
        (gzip.compress(b"<users></users>"), "user.gz: it has 0 records, but tables.xml says 199"),
        (good[:40] + b"x" + good[41:], "damaged|cut|ends before|record"),
    ):
        (project.incoming / "user.gz").write_bytes(broken)
        with pytest.raises(RemoteProtocolError, match=problem):
            ingest(project, state.generation, now=NOON + DAY, max_rows=10**6)
    (project.incoming / "user.gz").unlink()
    with pytest.raises(RemoteProtocolError, match=r"user.gz: the project exports none"):
        ingest(project, state.generation, now=NOON + DAY, max_rows=10**6)
    assert [path.name for path in (project.root / "rows").iterdir()] == [state.generation]
    assert found(site.publish(), "user", 1, "7").total == 7


HOSTILE = """<?xml version="1.0"?>
<!DOCTYPE users [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c SYSTEM "file:///etc/passwd">]>
<users>
%s
<user><id>1</id><name>&b;&c;&lt;b&gt;</name><total_credit>5</total_credit><expavg_credit>0</expavg_credit></user>
<user><id>2</id><name>huge</name><total_credit>1e300</total_credit></user>
<user><id>3</id><name>minus</name><total_credit>-5</total_credit></user>
<user><id>4</id><name>none</name><total_credit>nan</total_credit></user>
<user><id>-5</id><name>negative</name><total_credit>5</total_credit></user>
<user><id>99999999999999999999</id><name>beyond</name><total_credit>5</total_credit></user>
<user><id>6</id><name>future</name><total_credit>5</total_credit><expavg_credit>9</expavg_credit><expavg_time>1e99</expavg_time></user>
<user><id>7</id><name>%s</name><total_credit>7</total_credit><expavg_credit>0</expavg_credit></user>
</users>
"""


def test_hostile_records_are_refused_and_counted_and_the_others_stay_as_they_are(site: Site):
    honest = [user(number, f"U{number}", number, NOON) for number in range(100, 200)]
    project = site.folder.project("one")
    Export(NOON, honest).write(project.incoming)
    text = gzip.decompress((project.incoming / "user.gz").read_bytes()).decode()
    rows = text.partition("<users>")[2].partition("</users>")[0]
    (project.incoming / "user.gz").write_bytes(gzip.compress((HOSTILE % (rows, "x" * 190_000)).encode()))
    came = ingest(project, "", now=NOON, max_rows=10**6)
    assert (came.counts.users, came.counts.refused) == (102, 6)
    project.write_state(
        CollectedProject(generation=came.generation, exported=came.exported, counts=came.counts)
    )
    site.sources["one"] = CollectedSource(name="one", title="One", url="http://one.example.org/")
    published = site.publish()
    assert found(published, "user", 1, "1").name == "&b;&c;<b>", "no entity means anything"
    assert len(found(published, "user", 1, "7").name) == 255
    assert published.size("user", 1).total == sum(range(100, 200)) + 5 + 7


def test_the_family_s_own_export_is_taken_with_its_quirks(site: Site):
    """Recorded from its server: descending numbers, two encodings in one file, markup in names, a file that is no XML."""
    project = site.folder.project("one")
    project.incoming.mkdir(parents=True)
    for path in RECORDED.glob("*.xml"):
        data, plain = path.read_bytes(), path.stem in ("tables", "db_dump")
        (project.incoming / (path.name if plain else f"{path.stem}.gz")).write_bytes(
            data if plain else gzip.compress(data)
        )
    came = ingest(project, "", now=NOON, max_rows=10**6)
    assert (came.counts.users, came.counts.hosts, came.counts.teams, came.counts.refused) == (6, 9, 2, 0)


def test_a_person_whose_cross_project_id_changes_keeps_accounts_history_and_owns_nothing_of_others(
    site: Site,
):
    """Ids change when a client brings two projects together, or with the e-mail address."""
    old, new = cpid("alice before"), cpid("alice after")
    for day, (first, second) in enumerate([(old, new), (old, old), (new, old), (new, new)]):
        now = NOON + day * DAY
        site.take("one", Export(now, [user(1, "Alice", 100 + day, now, cpid=first)]))
        site.take("two", Export(now, [user(5, "Alice", 10 + day, now, cpid=second)]))
        published = site.publish(now=now)
        joined = first == second
        assert accounts_of(published, first) == ({("one", "1"), ("two", "5")} if joined else {("one", "1")})
        assert published.size("user").n == (1 if joined else 2)
    published = site.publish(now=NOON + 3 * DAY)
    one = published.history(found(published, "user", 1, "1"))
    assert [day.total for day in one] == [100, 101, 102, 103]
    assert published.find("user", 0, old) is None, "nobody has that id any more"


def test_an_account_that_is_renamed_stays_itself_and_leaves_a_person_whose_name_it_no_longer_has(site: Site):
    site.take("one", Export(NOON, [user(1, "Alice", 100, NOON, cpid=cpid("a"))]))
    site.take("two", Export(NOON, [user(5, "Alice", 10, NOON, cpid=cpid("a"))]))
    assert len(accounts_of(site.publish(), cpid("a"))) == 2
    site.take("two", Export(NOON + DAY, [user(5, "Mallory", 11, NOON, cpid=cpid("a"))]))
    published = site.publish(now=NOON + DAY)
    assert accounts_of(published, cpid("a")) == {("one", "1")}
    assert accounts_of(published, "two-5") == {("two", "5")}
    assert [day.total for day in published.history(found(published, "user", 2, "5"))] == [10, 11]


def test_doubled_numbers_and_impossible_credit_have_no_effect(site: Site):
    rows = [user(1, "Alice", 100, NOON), user(1, "Eve", 999, NOON), user(2, "Max", 1e29, NOON)]
    state = site.take("one", Export(NOON, rows))
    assert (state.counts.users, state.counts.doubled) == (1, 1)
    assert found(site.publish(), "user", 1, "1").name == "Alice"


def test_a_computer_of_somebody_who_is_not_exported_shows_no_owner(site: Site):
    site.take("one", Export(NOON, [user(1, "Alice", 100, NOON)], [host(1, 1, 1, NOON), host(2, 77, 1, NOON)]))
    published = site.publish()
    assert [found(published, "host", 1, key).parent for key in ("1", "2")] == ["1", None]


def test_history_keeps_the_days_on_which_something_changed(site: Site):
    export = Export(NOON, [user(1, "Alice", 100, NOON), user(2, "Idle", 5, NOON, recent=0)])
    for _ in range(9):
        site.take("one", export)
        export = next_day(export)
    published = site.publish(now=export.time)
    alice = published.history(found(published, "user", 1, "1"))
    assert [day.total for day in alice] == [100 + 100 * n for n in range(9)]
    assert [day.day for day in alice] == list(range(20_000, 20_009))
    assert len(published.history(found(published, "user", 1, "2"))) == 1
    assert len(history.spans(site.folder.project("one").history("user"))) <= 4


def test_a_second_export_on_one_day_takes_the_place_of_the_first_in_history(site: Site):
    site.take("one", Export(NOON, [user(1, "A", 100, NOON), user(2, "B", 100, NOON)]))
    site.take("one", Export(NOON + 60, [user(1, "A", 150, NOON), user(2, "B", 100, NOON)]))
    published = site.publish()
    assert [
        [day.total for day in published.history(found(published, "user", 1, key))] for key in ("1", "2")
    ] == [[150], [100]]


def test_a_site_may_keep_history_by_the_minute(site: Site):
    times = [NOON + 60 * minute + 7 for minute in range(5)]
    for minute, now in enumerate(times):
        site.take("one", Export(now, [user(1, "Ada", 10.0 * minute + 1, now)]), step=60)
        site.publish(now=now, step=60)
    published = site.publish(now=times[-1], step=60)
    ada = found(published, "user", 1, "1")
    days = published.history(ada)
    assert [day.total for day in days] == [1, 11, 21, 31, 41]
    assert [round((day.day - days[0].day) * 1440, 1) for day in days] == [0, 1, 2, 3, 4]
    assert published.until == days[-1].day
    drawn = curves({"One": days}, until=published.until, step=published.step)
    assert drawn is not None
    tops = drawn.layers[0].points.split()[:5]
    heights = [236 - float(point.partition(",")[2]) for point in tops]
    assert heights == sorted(heights)
    assert len(set(heights)) == 5
    assert drawn.dates[0].label.endswith("UTC"), "within a day the times are told apart"


def test_a_page_reads_a_small_part_of_a_history(tmp_path: Path):
    """Pages show fifty of these and more: each reads about two thousand rows, however long the file is."""
    db = workbench(tmp_path)
    rows = "SELECT id, 20000.0 + d AS day, id * d * 1.0 AS total, 1.0 AS recent FROM range(1, 20000) t(id), range(4) u(d)"
    write_parquet(db, f"{rows} ORDER BY id, day", tmp_path / "020000-020003.parquet")
    about = pq.read_metadata(tmp_path / "020000-020003.parquet")
    assert max(about.row_group(place).num_rows for place in range(about.num_row_groups)) <= 4096
    for id_ in (1, 512, 10_240, 19_999):
        assert [total for _day, total, _recent in history.days_of(tmp_path, id_)] == [
            id_ * d for d in range(4)
        ]
    assert list(history.days_of(tmp_path, 20_000)) == []


def test_who_is_announced_as_deleted_is_forgotten_with_the_history(site: Site):
    site.take("one", Export(NOON, [user(1, "A", 1, NOON), user(2, "B", 1, NOON)]))
    site.take(
        "one",
        Export(NOON + DAY, [user(1, "A", 1, NOON), user(2, "B", 2, NOON)], deleted_users=[Deletion(2, "")]),
    )
    published = site.publish(now=NOON + DAY)
    assert published.find("user", 1, "2") is None
    assert ids_in_history(site, "one") == {1}


def test_badges_are_those_of_accounts_that_are_shown_and_go_with_them(site: Site):
    badges = [ExportedBadge(id=n, name=f"b{n}", title=f"Badge {n}", image_url="") for n in range(1, 61)]
    people = [user(1, "Alice", 100, NOON, cpid=ALICE, team=3), user(2, "Bob", 1, NOON)]
    export = Export(
        NOON,
        people,
        teams=[team(3, "T", 1, NOON)],
        badges=badges,
        user_badges=[
            *(BadgeHolder(1, n, NOON + n) for n in range(1, 61)),
            BadgeHolder(1, 60, NOON + 60),  # twice
            BadgeHolder(2, 7, NOON),
            BadgeHolder(2, 99, NOON),  # there is no such badge
            BadgeHolder(77, 7, NOON),  # nor such a user
        ],
        team_badges=[BadgeHolder(3, 5, NOON)],
    )
    site.take("one", export)
    site.take("two", Export(NOON, [user(9, "Alice", 5, NOON, cpid=ALICE)]))
    published = site.publish()

    def titles(kind: str, project: int, key: str) -> list[str]:
        return [badge.title for badge in published.badges(found(published, kind, project, key))]

    newest = [f"Badge {n}" for n in range(11, 61)]
    assert titles("user", 0, ALICE) == titles("user", 1, "1") == newest
    assert titles("user", 2, "9") == []
    assert titles("user", 1, "2") == ["Badge 7"]
    assert titles("team", 1, "3") == ["Badge 5"]
    site.take("one", replace(export, time=NOON + DAY, deleted_users=[Deletion(1, "")]))
    had = badge_file(site.folder.project("one").rows(site.generation("one")), "user")
    assert pq.read_table(had).column("id").to_pylist() == [2], "what was deleted leaves nothing"
    had.unlink()  # as with rows of a version before
    published = site.publish()
    assert titles("user", 1, "2") == []


def test_hostile_badges_are_bounded_or_left_out(site: Site):
    records = [
        "<id>1</id><title>Team <best>&amp;&#0;\u202e\x07</title><image_url>http://evil.example.net/x.png</image_url>",
        "<id>1</id><title>the number again</title>",
        "<id>-2</id><title>negative</title>",
        "<id>99999999999999999999</id><title>beyond</title>",
        f"<id>3</id><title>{'x' * 5000}</title>",
        "<id>4</id><title></title><name></name>",
        "<id>5</id><name>only a name</name><image_url>javascript:alert(1)</image_url>",
    ]
    start = "<tables><update_time>5</update_time><nusers_total>1</nusers_total><badges>"
    blocks = "".join(f"<badge>{record}</badge>" for record in records)
    many = "".join(f"<badge><id>{n}</id><title>t</title></badge>" for n in range(10, 5000))
    totals = parse_tables(start + blocks + many + "<badge><id>6</id>" * 200_000)
    assert len(totals.badges) == MOST_BADGES - 4
    by_number = {badge.id: badge for badge in totals.badges}
    assert by_number[1].title == "Team <best>&\ufffd\u202e"
    assert not by_number.keys() & {2, 4, 6}
    assert by_number[3].title == "x" * 100
    assert by_number[5].title == "only a name"
    export = "https://one.example.org/project/stats/"
    for said, address in {
        "img/a.png": "https://one.example.org/project/img/a.png",
        "/a.png": "https://one.example.org/a.png",
        "http://one.example.org/a.png": "http://one.example.org/a.png",
        "": "",
        "https://one.example.org.evil.net/a.png": "",
        "https://one.example.org:81/a.png": "",
        "https://me@one.example.org/a.png": "",
        "https://one.example.org\\@evil.net/a.png": "",
        "//evil.net/a.png": "",
        "javascript:alert(1)": "",
        "data:image/png;base64,AA==": "",
        "https://[::1/a.png": "",
        'a.png" onload="x': "",
    }.items():
        assert picture_address(export, said) == address, said

    project = site.folder.project("one")
    good = Export(NOON, [user(1, "A", 1, NOON)])
    good.write(project.incoming)
    (project.incoming / "badge_user.gz").write_bytes(
        gzip.compress(b"<badge_users>" + b"<badge_user>" * 30_000)
    )
    with pytest.raises(RemoteProtocolError, match=r"badge_user\.gz, after .* bytes: "):
        ingest(project, "", now=NOON, max_rows=10**6)
    flood = replace(good, user_badges=[BadgeHolder(1, n, NOON) for n in range(1, 200)])
    flood.write(project.incoming)
    with pytest.raises(
        RemoteProtocolError, match=r"badge_user\.gz, after .* bytes: it holds more than 100 records"
    ):
        ingest(project, "", now=NOON, max_rows=100)


def test_who_is_missing_is_not_shown_and_forgotten_a_month_later(site: Site):
    both = [user(1, "A", 1, NOON), user(2, "B", 1, NOON)]
    site.take("one", Export(NOON, both))
    site.take("one", Export(NOON + DAY, both[:1]))
    assert site.publish(now=NOON + DAY).find("user", 1, "2") is None
    assert ids_in_history(site, "one") == {1, 2}
    site.take("one", Export(NOON + 31 * DAY, both[:1]))
    assert ids_in_history(site, "one") == {1}


def ids_in_history(site: Site, name: str) -> set[int]:
    with workbench(site.folder.root) as db:
        files = [str(path) for path in history.files(site.folder.project(name).history("user"))]
        return {row[0] for row in db.execute("SELECT id FROM read_parquet(?)", [files]).fetchall()}


def test_a_computer_whose_credit_went_to_another_one_was_merged(site: Site):
    owner = [user(1, "A", 100, NOON)]
    site.take("one", Export(NOON, owner, [host(1, 1, 60, NOON), host(2, 1, 40, NOON), host(3, 1, 5, NOON)]))
    state = site.take("one", Export(NOON + DAY, owner, [host(2, 1, 100, NOON), host(3, 1, 5, NOON)]))
    with workbench(site.folder.root) as db:
        gone = site.folder.project("one").rows(state.generation) / "gone.parquet"
        assert db.execute("SELECT id, why, merged_into FROM read_parquet(?)", [str(gone)]).fetchall() == [
            (1, "missing", 2)
        ]


def totals_of(published: PublishedFile, project: int, key: str) -> list[tuple[float, float]]:
    days = published.history(found(published, "user", project, key))
    return [(each.day - 20_000, each.total) for each in days]


def test_the_history_of_an_account_that_was_merged_goes_on_under_the_other(site: Site):
    def export(day: int, *people: tuple[int, float], deleted: tuple[int, ...] = ()) -> Export:
        now = NOON + day * DAY
        users = [user(number, "Alice", total, now, cpid=ALICE) for number, total in people]
        return Export(now, users, deleted_users=[Deletion(number, "") for number in deleted])

    site.take("one", export(0, (1, 100), (2, 1000), (3, 10)))
    site.take("one", export(1, (1, 150), (2, 1000), (3, 10)))
    # 1 goes into 2, which did some work besides, and is announced as deleted.
    state = site.take("one", export(2, (2, 1170), (3, 10), deleted=(1,)))
    assert site.take("one", export(2, (2, 1175), (3, 10), deleted=(1,))).counts.users == 2
    published = site.publish(now=NOON + 2 * DAY)
    assert totals_of(published, 1, "2") == [(0, 1100), (1, 1150), (2, 1175)]
    assert published.size("user").total == 1185, "nothing counts twice"
    curve = [
        each.total for each in added_up([published.history(found(published, "user", 1, key)) for key in "23"])
    ]
    assert curve == [1110, 1160, 1185]
    assert state.generation != site.generation("one")
    # Then 2 goes into 3: all three are one, and stay so when the list of deletions and the note of who is gone have ended.
    site.take("one", export(3, (3, 1190), deleted=(1, 2)))
    whole = [(0, 1110), (1, 1160), (2, 1185), (3, 1190)]
    for day in (3, 40, 100):
        site.take("one", export(day, (3, 1190)))
        assert totals_of(site.publish(now=NOON + day * DAY), 1, "3") == whole
    # Whoever leaves takes along what was merged.
    site.take("one", export(101, deleted=(3,)))
    assert ids_in_history(site, "one") == set()


@pytest.mark.parametrize(
    ("total", "other"),
    [
        pytest.param(1050.0, ALICE, id="grew by less"),
        pytest.param(1900.0, ALICE, id="grew by much more: its own work"),
        pytest.param(1100.0, BOB, id="another person"),
        pytest.param(1100.0, "", id="nobody's id"),
    ],
)
def test_an_account_that_was_erased_is_not_taken_for_a_merged_one(site: Site, total: float, other: str):
    site.take(
        "one", Export(NOON, [user(1, "A", 100, NOON, cpid=ALICE), user(2, "A", 1000, NOON, cpid=other)])
    )
    later = NOON + DAY
    people = [user(2, "A", total, later, cpid=other)]
    site.take("one", Export(later, people, deleted_users=[Deletion(1, ALICE)]))
    assert totals_of(site.publish(now=later), 1, "2") == [(0, 1000), (1, total)]
    assert ids_in_history(site, "one") == {2}


def test_an_account_that_comes_back_has_its_history_again(site: Site):
    both = [user(1, "A", 100, NOON, cpid=ALICE), user(2, "A", 1000, NOON, cpid=ALICE)]
    site.take("one", Export(NOON, both))
    site.take("one", Export(NOON + DAY, [user(2, "A", 1100, NOON, cpid=ALICE)]))
    assert totals_of(site.publish(now=NOON + DAY), 1, "2") == [(0, 1100), (1, 1100)]
    site.take("one", Export(NOON + 2 * DAY, both))
    published = site.publish(now=NOON + 2 * DAY)
    assert totals_of(published, 1, "1") == [(0, 100), (2, 100)]
    assert totals_of(published, 1, "2") == [(0, 1000), (1, 1100), (2, 1000)]


def test_a_project_cannot_note_merged_accounts_without_end(site: Site):
    many = [user(n, "A", 1, NOON, cpid=ALICE) for n in range(1, 101)]
    site.take("one", Export(NOON, many))
    site.take("one", Export(NOON + DAY, [user(500, "A", 100, NOON, cpid=ALICE)]))
    rows = pq.read_table(merged_file(site.folder.project("one").rows(site.generation("one"))))
    assert rows.num_rows == MOST_INTO_ONE


def test_files_left_over_from_a_crash_are_not_counted_twice(tmp_path: Path):
    for name in ("000001-000002", "000001-000004", "000003-000004", "000005-000005"):
        (tmp_path / f"{name}.parquet").touch()
    assert [(span.first, span.last) for span in history.spans(tmp_path)] == [(1, 4), (5, 5)]


def test_what_a_project_brings_when_it_is_first_seen_is_no_work_of_that_day(site: Site):
    def publish(day: int) -> PublishedFile:
        now = NOON + day * DAY
        site.take("one", Export(now, [user(1, "Alice", 100 + day, now, cpid=ALICE, country="France")]))
        if day:
            other = user(5, "Alice", 1e6 + 10 * day, now, cpid=ALICE, country="France")
            site.take("two", Export(now, [other]))
        return site.publish(now=now)

    *_, published = map(publish, range(3))
    person = View(published, found(published, "user", 0, ALICE))
    assert [each.total for each in added_up(person.histories.values())] == [1_000_110, 1_000_111, 1_000_122]
    assert person.milestones == []
    plot = curves(person.histories, until=published.until)
    assert plot is not None
    assert {layer.label: layer.last for layer in plot.layers} == {"One": 102, "Two": 1_000_020}
    top = next(layer for layer in plot.layers if layer.label == "Two").points.split()
    heights = [float(point.partition(",")[2]) for point in top[: len(top) // 2]]
    assert max(heights) - min(heights) < 1
    france = published.ranking("country", 0, by_recent=False, first=1)[0]
    assert [each.total for each in published.history(france)] == [1_000_110, 1_000_111, 1_000_122]


class PastOfAlice:
    """Alice computes at "one"; what "other" says of an account there for some days, then as hers, is seen on her page."""

    def __init__(self, site: Site, *, before: bool = False) -> None:
        self.site, self.day = site, 0
        if before:  # the other project is the more trusted one
            self.site.take("other", Export(NOON, [user(9, "Somebody", 1, NOON)]))
        self.published = self.next()

    def next(self, *others: ExportedUser, alice: str = ALICE, name: str = "Alice") -> PublishedFile:
        """Another day; the accounts of the other project on it."""
        now = NOON + self.day * DAY
        self.site.take("one", Export(now, [user(1, name, 900 + 40 * self.day, now, cpid=alice)]))
        self.site.take("other", Export(now, [user(9, "Somebody", 1, now), *others]))
        self.day += 1
        self.published = self.site.publish(now=now)
        return self.published


def seen_of(published: PublishedFile, key: str = ALICE) -> dict[str, list[tuple[float, float]]]:
    """By project, day and total on a person's page."""
    person = View(published, found(published, "user", 0, key))
    return {
        title: [(each.day - 20_000, each.total) for each in days] for title, days in person.histories.items()
    }


HERS = [(day, 900 + 40 * day) for day in range(9)]


#: The id that the other project says of an account called Mallory, before it is of the person with this name.
HIDDEN = {"Alice": "", "Beth": BOB, "Cleo": cpid("Cleo")}


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
def test_an_account_counts_to_a_person_from_the_day_on_which_it_joined(site: Site, before: bool):
    if before:  # the other project is the more trusted one
        site.take("other", Export(NOON, [user(9, "Somebody", 1, NOON)]))
    people = list(enumerate(HIDDEN, 1))

    def next_day(day: int) -> PublishedFile:
        now = NOON + day * DAY
        total, late = 900 + 40 * day, day >= 5
        others = [user(9, "Somebody", 1, now)]
        if late:
            others += [user(n + 10, name, 4e6 + day, NOON, cpid=cpid(name)) for n, name in people]
        elif day:
            others += [user(n + 10, "Mallory", 1e6 * day, NOON, cpid=HIDDEN[name]) for n, name in people]
        site.take("one", Export(now, [user(n, name, total, now, cpid=cpid(name)) for n, name in people]))
        site.take("other", Export(now, others))
        return site.publish(now=now)

    published = [next_day(day) for day in range(7)][-1]
    for n, name in people:
        assert seen_of(published, cpid(name)) == {
            "One": HERS[:7],
            "Other": [(5, 4_000_005), (6, 4_000_006)],
        }, name
        person = View(published, found(published, "user", 0, cpid(name)))
        whole = added_up(person.histories.values())
        assert [each.total for each in whole] == [900, 940, 980, 1020, 1060, 4_001_105, 4_001_146]
        assert [each.credit for each in person.milestones] == [1000]
        plot = curves(person.histories, until=published.until)
        assert plot is not None
        drawn = next(layer for layer in plot.layers if layer.label == "Other").points.split()
        assert drawn[0] == drawn[-1].replace(drawn[-1], drawn[0]), "nothing before"
        assert [each.since - 20_000 if each.since else 0 for each in person.members] == [5, 0]
        own = published.history(found(published, "user", published.by_name["other"].number, str(n + 10)))
        assert len(own) == 6, "the account's own page has all that its project said"


def test_a_page_says_since_when_an_account_counts(site: Site):
    past = PastOfAlice(site)
    past.next(user(5, "Mallory", 1e6, NOON))
    past.next(user(5, "Alice", 2e6, NOON, cpid=ALICE))
    ctx = StatisticsContext(
        folder=site.folder,
        settings=StatisticsSettings(project=tuple(site.sources.values())),
        secret=b"s" * 32,
        master_url="http://stats.example.org/",
        clock=lambda: NOON + 2 * DAY,
    )
    ctx.open_newest()
    page = Client(ctx).get(f"user/{ALICE}").text
    assert page.count("counts since") == 1
    assert re.search(r"counts since <time [^>]*>6 Oct 2024<", page)


def test_an_account_whose_id_was_doubled_for_a_while_counts_from_the_day_on_which_it_joined(site: Site):
    past = PastOfAlice(site)
    for day in range(1, 4):
        past.next(*(user(n, "Alice", 1e6 * day, NOON, cpid=ALICE) for n in (5, 6)))
    published = past.next(user(5, "Alice", 3e6, NOON, cpid=ALICE))
    assert seen_of(published)["Other"] == [(4, 3_000_000)]


def test_an_account_that_was_merged_brings_its_past_from_the_day_on_which_it_was_the_person_s(site: Site):
    past = PastOfAlice(site)
    for day in range(1, 4):
        past.next(user(5, "Alice", 7, NOON, cpid=ALICE), user(6, "Mallory", 1e6 * day, NOON))
    past.next(user(5, "Alice", 7, NOON, cpid=ALICE), user(6, "Alice", 3e6, NOON, cpid=ALICE))
    published = past.next(user(5, "Alice", 3e6 + 7, NOON, cpid=ALICE))
    shown = seen_of(published)["Other"]
    assert [each for each in shown if each[0] < 4] == [(1, 7)]
    assert shown[-1] == (5, 3_000_007)


def test_two_accounts_that_had_another_id_together_bring_no_past(site: Site):
    past = PastOfAlice(site)
    for day in range(1, 6):
        id_ = ALICE if day == 5 else BOB
        site.take("third", Export(NOON + day * DAY, [user(3, "Alice", 1e5 * day, NOON, cpid=id_)]))
        past.next(user(5, "Alice", 1e6 * day, NOON, cpid=id_))
    assert seen_of(past.published) == {"One": HERS[:6], "Other": [(5, 5e6)], "Third": [(5, 5e5)]}


@pytest.mark.parametrize("first", [True, False], ids=["hers first", "the other one first"])
def test_somebody_who_changes_the_address_at_one_project_after_the_other_keeps_the_whole_past(
    site: Site, first: bool
):
    past, new = PastOfAlice(site), cpid("alice's new address")
    ids = [(ALICE, ALICE), *(((new, ALICE), (new, new)) if first else ((ALICE, new), (new, new)))]
    for day, (hers, other) in enumerate(ids, 1):
        past.next(user(5, "Alice", 10 * day, NOON, cpid=other), alice=hers)
    assert seen_of(past.published, new) == {"One": HERS[:4], "Other": [(1, 10), (2, 20), (3, 30)]}


def test_a_holder_whose_past_does_not_count_gets_it_by_no_change_of_the_id(site: Site):
    past, new = PastOfAlice(site, before=True), cpid("alice's new address")
    past.next(user(5, "Mallory", 1e6, NOON))
    past.day += 40
    for day, id_ in enumerate((ALICE, ALICE, new, new)):
        published = past.next(user(5, "Alice", 2e6 + day, NOON, cpid=id_), alice=ALICE if day < 2 else id_)
        assert [day for day, _ in seen_of(published, id_)["Other"]] == list(range(42, 43 + day))
    past.next(user(5, "Alice", 3e6, NOON, cpid=new), alice=new)


def test_a_project_that_knows_a_new_address_first_takes_no_past_away(site: Site):
    past, new = PastOfAlice(site), cpid("alice's new address")
    past.next()
    past.next(user(5, "Alice", 1e6, NOON, cpid=new))
    published = past.next(user(5, "Alice", 2e6, NOON, cpid=new), alice=new)
    assert seen_of(published, new) == {"One": HERS[:4], "Other": [(2, 1e6), (3, 2e6)]}


def test_computers_and_teams_that_get_an_owner_id_or_name_later_bring_no_past(site: Site):
    done: list[PublishedFile] = []
    for day in range(4):
        now, late = NOON + day * DAY, day == 3
        alice = user(1, "Alice", 100 + day, now, cpid=ALICE)
        site.take(
            "one",
            Export(now, [alice], [host(1, 1, 50 + day, now, cpid="a" * 32)], [team(1, "We", 10 + day, now)]),
        )
        others = [user(1, "Alice", 5, now, cpid=ALICE), user(2, "Eve", 5, now)]
        moved = host(7, 1 if late else 2, 1e6 + day, now, cpid="a" * 32)
        site.take("other", Export(now, others, [moved], [team(1, "We" if late else "They", 1e6 + day, now)]))
        done.append(site.publish(now=now))
    published = done[-1]
    for kind in ("host", "team"):
        member = next(each for each in published.ranking(kind, 1, by_recent=False, first=1))
        assert member.whole is not None
        shown = View(published, found(published, kind, 0, member.whole)).histories
        assert [(each.day - 20_000, each.total) for each in shown["Other"]] == [(3, 1_000_003)]
        assert len(shown["One"]) == 4


def test_countries_systems_processors_and_projects_are_added_up(site: Site):
    for number in (1, 2):
        site.take(f"p{number}", population(number, n_users=60, time=NOON))
    published = site.publish()
    users = published.size("user")
    for kind in ("country", "system", "processor", "gpu", "project"):
        ranked = published.ranking(kind, 0, by_recent=False, first=1)
        assert ranked
        assert [each.total for each in ranked] == sorted((each.total for each in ranked), reverse=True)
    assert published.size("project").total == pytest.approx(users.total)
    assert published.size("system").total == pytest.approx(published.size("host").total)


def test_models_of_gpus_are_added_up_and_a_computer_with_two_counts_for_both(site: Site):
    hosts = [
        host(1, 1, 10, NOON, gpus=["Arc"]),
        host(2, 1, 20, NOON, gpus=["RTX 9", "arc", "RTX 9"]),
        host(3, 1, 40, NOON),
    ]
    site.take("one", Export(NOON, [user(1, "A", 70, NOON)], hosts))
    published = site.publish()
    found = {each.name.lower(): (each.total, each.n) for each in published.all_of("gpu")}
    assert found == {"arc": (30.0, 2), "rtx 9": (20.0, 1)}
    both = published.find("host", 1, "2")
    assert both is not None
    assert both.detail.endswith(" · RTX 9, arc")
    later = NOON + DAY
    site.take("one", Export(later, [user(1, "A", 70, NOON)], [host(1, 1, 15, NOON, gpus=["Arc"])]))
    published = site.publish(now=later)
    (arc,) = published.all_of("gpu")
    assert [day.total for day in published.history(arc)] == [30.0, 15.0]


def test_rows_of_a_version_that_knew_no_gpus_are_shown(site: Site):
    site.take("one", Export(NOON, [user(1, "A", 70, NOON)], [host(1, 1, 10, NOON, gpus=["Arc"])]))
    project = site.folder.project("one")
    path = project.rows(project.read_state().generation) / "host.parquet"
    pq.write_table(pq.read_table(path).drop_columns("gpus"), path)
    published = site.publish()
    assert published.size("host", 1).n == 1
    assert published.all_of("gpu") == []


def test_teams_of_a_version_that_read_no_types_have_none_until_the_next_export(site: Site):
    site.take("one", Export(NOON, teams=[team(3, "Our team", 220, NOON)]))
    site.take("two", Export(NOON, teams=[replace(team(9, "our team", 50, NOON), type=6)]))
    project = site.folder.project("one")
    path = project.rows(project.read_state().generation) / "team.parquet"
    pq.write_table(pq.read_table(path).drop_columns("type"), path)
    published = site.publish()
    before, other = (published.find("team", number, key) for number, key in ((1, "3"), (2, "9")))
    assert before is not None
    assert other is not None
    whole = published.find("team", 0, other.whole or "")
    assert whole is not None
    assert [each.detail for each in (before, other, whole)] == ["", "6", "6"]


def test_the_members_of_a_team_over_all_projects_are_persons_with_what_they_did_for_it(site: Site):
    one = [user(1, "Alice", 100, NOON, cpid=ALICE, team=3), user(2, "Bob", 120, NOON, team=3)]
    two = [user(7, "alice", 50, NOON, cpid=ALICE, team=9), user(8, "Carol", 10, NOON, team=8)]
    three = [user(5, "Alice", 1000, NOON, cpid=ALICE)]
    site.take("one", Export(NOON, one, teams=[team(3, "Our team", 220, NOON)]))
    site.take("two", Export(NOON, two, teams=[team(9, "our  TEAM", 50, NOON), team(8, "Other", 10, NOON)]))
    site.take("three", Export(NOON, three))
    published = site.publish()
    account = published.find("team", 1, "3")
    assert account is not None
    whole = published.find("team", 0, account.whole or "")
    assert whole is not None
    members = published.children("user", whole)
    assert [(each.name, each.total, each.rank_total) for each in members] == [
        ("Alice", 150.0, 1),
        ("Bob", 120.0, 2),
    ]
    assert published.find("user", 0, members[0].key) is not None


def test_lists_are_leafed_through_and_searched(site: Site):
    site.take("one", population(1, n_users=120, time=NOON))
    published = site.publish()
    by_total = [
        each for first in (1, 51, 101) for each in published.ranking("user", 1, by_recent=False, first=first)
    ]
    assert [each.rank_total for each in by_total] == list(range(1, 121))
    by_recent = [
        each for first in (1, 51, 101) for each in published.ranking("user", 1, by_recent=True, first=first)
    ]
    assert [each.rank_recent for each in by_recent] == list(range(1, 121))
    name = by_total[77].name
    assert by_total[77] in published.search("user", 1, name.upper())
    assert published.search("user", 1, "nobody") == []
    assert by_total[5] in published.neighbours(by_total[6])


def test_an_export_that_names_a_team_with_quotes_and_letters_of_any_kind_is_read(site: Site):
    name = 'O\'Brien "x" – ž; DROP TABLE entity --'
    site.take(
        "one",
        Export(NOON, [replace(user(1, name, 1, NOON), url="javascript:x")], teams=[team(1, name, 1, NOON)]),
    )
    published = site.publish()
    assert published.search("team", 0, "o'brien")[0].name == name


def test_a_drawing_has_few_layers_and_points_however_much_there_is():
    days = [DayFigures(day=float(n), total=float(n), recent=1.0) for n in range(5000)]
    drawn = curves({f"project {n}": days for n in range(20)}, until=5000.0)
    assert drawn is not None
    assert len(drawn.layers) == MOST_LAYERS == 8
    assert drawn.layers[-1].label == "others"
    assert all(len(layer.points.split()) <= 2 * (MOST_POINTS + 1) for layer in drawn.layers)


def test_a_team_lists_its_largest_users_only(site: Site):
    many = [user(n, f"u{n}", n, NOON, team=3) for n in range(1, 81)]
    site.take("one", Export(NOON, many, teams=[team(3, "Our team", 220, NOON)]))
    published = site.publish()
    account = published.find("team", 1, "3")
    assert account is not None
    assert [each.total for each in published.children("user", account)] == list(range(80, 30, -1))


def test_levels_of_a_drawing_are_round_and_within_it():
    assert round_levels(5.56) == [0, 1, 2, 3, 4, 5]
    assert round_levels(100) == [0, 20, 40, 60, 80, 100]
    assert round_levels(0) == round_levels(float("inf")) == [0]
    for most in (1e-9, 0.3, 3.99, 17, 8.2e7, 1e16):
        levels = round_levels(most)
        assert 4 <= len(levels) <= 11
        assert 0.5 * most < levels[-1] <= most * (1 + 1e-9)
