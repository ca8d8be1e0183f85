"""What the pages say: words, reasons, XML, escaping, bounds, headers, and the cost of their queries."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from lxml import html
from tests.helpers.project_world import World, failed
from tests.helpers.visitors import Visitor, text_of

from cobblestone.domain.people import SubmitRights
from cobblestone.domain.values import AppId, HostId, TeamId, UserId, WorkunitId
from cobblestone.domain.work import Outcome, ServerState, TaskState, ValidateState
from cobblestone.store.catalog import apps
from cobblestone.store.credit.app_credit import Owner
from cobblestone.store.credit.history import CreditOwner, ledger_marks
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.operation import interventions, listings, page_queries, ranking
from cobblestone.store.operation.listings import Page
from cobblestone.store.operation.page_queries import TaskOwner, task_state
from cobblestone.store.operation.ranking import Order
from cobblestone.store.people import account_changes, users
from cobblestone.store.work import batches, submitters
from cobblestone.store.work import rows as work

HOSTILE = "<script>alert(1)</script>"


def test_clients_find_the_scheduler_in_the_head_of_the_home_page(make_world: Callable[..., World]) -> None:
    world = make_world(project={"url": "http://127.0.0.1:8080/sun/"})
    page = world.get("/sun/").text
    head = page[: page.index("</head>")]
    lines = [line for line in head.splitlines() if "scheduler" in line]
    assert '<link rel="boinc_scheduler" href="http://127.0.0.1:8080/sun/cgi-bin/cgi">' in lines
    assert "<!-- <scheduler>http://127.0.0.1:8080/sun/cgi-bin/cgi</scheduler> -->" in lines
    assert all(len(line.encode()) < 256 for line in lines)
    assert "http://127.0.0.1:8080/sun/" in text_of(world.get("/sun/"))


def test_every_address_on_a_page_leads_somewhere(make_world: Callable[..., World]) -> None:
    """All pages that can be reached from the home page, below a path, logged in."""
    world = make_world(project={"url": "http://127.0.0.1:8080/sun/"})
    visitor = Visitor(world)
    visitor.send("/sun/join.php", user_name="Eve", email_addr="eve@example.org", passwd="long enough")
    seen: dict[str, int] = {}
    waiting = ["http://127.0.0.1:8080/sun/"]
    while waiting:
        address = waiting.pop()
        response = visitor.get(address)
        seen[address] = response.status_code
        if not response.headers.get("content-type", "").startswith("text/html"):
            continue
        assert "&lt;a " not in response.text, f"{address} shows the markup of a link"
        tree = html.fromstring(response.text)
        tree.make_links_absolute(str(response.url))
        targets = {target.partition("#")[0] for _, _, target, _ in tree.iterlinks()}
        for target in targets:
            if target.startswith("http://127.0.0.1:8080/") and target not in seen and "logout" not in target:
                assert target.startswith("http://127.0.0.1:8080/sun/"), target
                if "cgi-bin" not in target:
                    waiting.append(target)
    assert {address: status for address, status in seen.items() if status not in (200, 303)} == {}
    assert len(seen) > 15


# -- reasons -------------------------------------------------------------------


def test_a_failed_task_says_why_and_shows_its_stderr(world: World) -> None:
    world.add_jobs(world.add_app())
    host = world.host(world.user("ada"))
    host.rpc(ask=1000.0)
    (name,) = host.new_results()
    world.now += 500
    host.rpc(reports=[failed(name, exit_status=195, stderr=f"line 1\n{HOSTILE}\n")])
    page = world.get("/result.php?resultid=1")
    text = text_of(page)
    assert "The task failed on the computer." in text
    assert "Exit status 195 (0xc3): A program that the task started failed, or could not be started." in text
    assert "ended with status" not in text, "it is said once"
    assert "None: only valid results earn credit." in text
    assert HOSTILE in html.fromstring(page.text).xpath("//pre")[0].text_content()
    assert HOSTILE not in page.text


def test_a_valid_task_explains_its_credit_from_the_ledger(world: World) -> None:
    world.add_jobs(world.add_app())
    host = world.host(world.user("ada"))
    host.rpc(ask=1000.0)
    (name,) = host.new_results()
    world.now += 500
    host.rpc(reports=[host.finish(name, b"answer", cpu_time=400.0)])
    world.settle()
    text = text_of(world.get("/result.php?resultid=1"))
    granted = world.value("SELECT granted_credit FROM result")
    assert granted > 0
    assert f"{granted:.2f} granted just now" in text
    assert "system “benchmark”" in text
    assert "Whetstone" in text
    assert "The result passed the check." in text


def test_an_invalid_task_points_to_the_answer_that_it_was_compared_with(world: World) -> None:
    app = world.add_app(quorum=2)
    world.add_jobs(app)
    for name, output in (("ada", b"one"), ("bruno", b"two"), ("chandra", b"one")):
        host = world.host(world.user(name))
        host.rpc(ask=1000.0)
        (result,) = host.new_results()
        world.now += 100
        host.rpc(reports=[host.finish(result, output, cpu_time=50.0)])
        world.settle()
    page = world.get("/result.php?resultid=2")
    assert "The result differs from the one that the computers of this workunit agree on" in text_of(page)
    canonical = world.value("SELECT canonical_result_id FROM workunit")
    assert f'href="result.php?resultid={canonical}"' in page.text


# -- XML -----------------------------------------------------------------------


def test_server_status_is_well_formed_xml_with_the_families_elements(world: World) -> None:
    world.add_jobs(world.add_app(), 3)
    world.host(world.user("ada"), p_ncpus=1).rpc(ask=1.0)
    response = world.get("/server_status.php?xml=1")
    assert response.headers["content-type"].startswith("text/xml")
    root = ET.fromstring(response.text)
    states = {item.findtext("command"): item.findtext("status") for item in root.iter("daemon")}
    assert states["validator"] == "not running"  # no daemon runs in this test
    figures = root.find("database_file_states")
    assert figures is not None
    assert figures.findtext("results_ready_to_send") == "2"
    assert figures.findtext("results_in_progress") == "1"
    assert figures.findtext("users_registered_in_past_24_hours") == "1"
    assert figures.findtext("tasks_by_app/app/unsent") == "2"


def test_user_xml_is_well_formed_whatever_the_name_is(world: World) -> None:
    world.user("ada")
    world.write(lambda tx: tx.execute("UPDATE user_account SET name = ?, url = ?", (HOSTILE, "a&b<c>")))
    root = ET.fromstring(world.get("/show_user.php?format=xml&userid=1").text)
    assert root.findtext("name") == HOSTILE
    assert root.findtext("url") == "a&b<c>"


# -- hostile content -----------------------------------------------------------


def test_no_text_of_others_becomes_markup(make_world: Callable[..., World]) -> None:
    world = make_world(project={"name": 'A & "B" >', "description": HOSTILE})
    app = world.add_app()
    world.write(lambda tx: apps.update_app(tx, replace(app, user_friendly_name=HOSTILE)))
    world.add_jobs(app)
    key = world.user("ada")
    world.write(lambda tx: users.create_team(tx, HOSTILE, UserId(1), now=world.now))
    world.write(
        lambda tx: tx.execute(
            "UPDATE user_account SET name = ?, country = ?, url = ?",
            (HOSTILE, HOSTILE, f"javascript:{HOSTILE}"),
        )
    )
    world.write(lambda tx: tx.execute("UPDATE team SET description = ?, url = ?", (HOSTILE, "javascript:1")))
    world.write(lambda tx: users.add_news(tx, HOSTILE, HOSTILE, now=world.now))
    host = world.host(key, domain_name=HOSTILE, p_vendor=HOSTILE, p_model=HOSTILE, os_name=HOSTILE)
    host.rpc(ask=1000.0)
    world.write(lambda tx: interventions.block(tx, "host", 1, HOSTILE))
    (name,) = host.new_results()
    report = replace(failed(name, stderr=HOSTILE), error_message=HOSTILE)
    host.rpc(reports=[report])
    world.write(lambda tx: tx.execute("UPDATE workunit SET name = ?", (HOSTILE,)))
    visitor = Visitor(world).log_in("ada")
    for page in (
        "/", "/server_status.php", "/apps.php", "/news.php", "/news.php?id=1", "/top_users.php", "/top_hosts.php",
        "/top_teams.php", "/team_display.php?teamid=1", "/show_user.php?userid=1", "/home.php", "/hosts_user.php",
        "/show_host_detail.php?hostid=1", "/results.php", "/results.php?hostid=1", "/result.php?resultid=1",
        "/workunit.php?wuid=1", "/results.php?state=%3Cscript%3Ealert(1)%3C/script%3E",
        "/login.php?next=%3Cscript%3Ealert(1)%3C/script%3E",
    ):  # fmt: skip
        answer = visitor.get(page)
        assert "<script>alert" not in answer.text, page
        assert 'href="javascript:' not in answer.text, page
    assert HOSTILE in text_of(visitor.get("/show_host_detail.php?hostid=1"))


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/result.php", 404),
        ("/result.php?resultid=99", 404),
        ("/result.php?resultid=0", 404),
        ("/result.php?resultid=-1", 404),
        ("/result.php?resultid=1e3", 404),
        ("/result.php?resultid=" + "9" * 16, 404),
        ("/result.php?resultid=" + "9" * 400, 404),
        ("/result.php?resultid=١", 404),
        ("/result.php?resultid=1%00", 404),
        ("/workunit.php?wuid=x", 404),
        ("/show_user.php?userid=7", 404),
        ("/show_host_detail.php?hostid=7", 404),
        ("/team_display.php?teamid=7", 404),
        ("/credit.csv?teamid=7", 404),
        ("/credit.csv", 404),
        ("/credit.csv?userid=1&hostid=1", 404),
        ("/credit.csv?userid=1&days=367", 404),
        ("/credit.csv?userid=1&days=366", 200),
        ("/news.php?id=7", 404),
        ("/top_users.php?page=401", 404),
        ("/results.php?userid=1&page=400", 200),
        ("/results.php?userid=1&state=nonsense", 404),
        ("/top_users.php?page=99999999999999999999", 404),
        ("/top_users.php?page=400", 200),
        ("/top_hosts.php?page=400", 200),
        ("/top_teams.php?page=400", 200),
        ("/?" + "a=1&" * 100, 400),
        ("/?" + "a" * 9000, 400),
        ("/nothing/like/this", 404),
        ("/static/..%2fsite.py", 404),
        ("/static/site.py", 404),
    ],
)
def test_numbers_and_addresses_are_bounded(world: World, address: str, status: int) -> None:
    world.user("ada")
    answer = world.get(address, headers={"Accept": "text/html"})
    assert answer.status_code == status
    if answer.headers["content-type"].startswith("text/html"):
        assert text_of(answer)
        assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_programs_get_a_short_line_for_an_unknown_address(world: World) -> None:
    answer = world.get("/nothing.php", headers={"Accept": "*/*"})
    assert (answer.status_code, answer.text) == (404, "Not Found")


def test_a_mistake_of_the_server_becomes_a_page_and_a_log_line(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(db: Database, *, limit: int = 20) -> list[users.NewsItem]:
        raise RuntimeError("disk on fire")

    monkeypatch.setattr(users, "list_news", broken)
    answer = world.get("/news.php")
    assert answer.status_code == 500
    assert "There was an error in the project's server" in text_of(answer)
    assert "disk on fire" not in answer.text


# -- headers and files ---------------------------------------------------------


@pytest.mark.parametrize("page", ["/", "/login.php", "/home.php", "/show_user.php?userid=99", "/news.php"])
def test_every_page_has_the_security_headers(world: World, page: str) -> None:
    headers = world.get(page, headers={"Accept": "text/html"}).headers
    policy = headers["content-security-policy"]
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"


def test_pages_hold_no_script_or_style_of_their_own_and_nothing_from_elsewhere(world: World) -> None:
    for page in ("/", "/server_status.php", "/login.php", "/join.php"):
        tree = html.fromstring(world.get(page).text)
        assert tree.xpath("//style | //@style | //script[not(@src)] | //@*[starts-with(name(), 'on')]") == []
        loaded = tree.xpath("//script/@src | //link[@rel='stylesheet' or @rel='icon']/@href | //img/@src")
        assert loaded
        assert all(address.startswith("/static/") for address in loaded)


def test_files_of_the_pages_may_be_kept_for_ever_and_travel_packed(world: World) -> None:
    tree = html.fromstring(world.get("/").text)
    for address in tree.xpath("//script/@src | //link[@rel='stylesheet']/@href | //img/@src"):
        answer = world.get(address)
        assert answer.status_code == 200
        assert answer.headers["content-encoding"] == "gzip"
        assert "immutable" in answer.headers["cache-control"]
        assert world.get(address.partition("?")[0]).headers["cache-control"] == "no-cache"
    sheet = world.get("/static/pico.min.css", headers={"Accept-Encoding": "identity"}).text
    assert "Licensed under MIT" in sheet


# -- queries -------------------------------------------------------------------

STATES = list(itertools.product(ServerState, Outcome, ValidateState))


def test_filters_and_words_agree_on_every_state(world: World) -> None:
    world.user("ada")
    app = world.add_app()
    world.add_jobs(app)
    world.write(lambda tx: tx.execute("DELETE FROM result"))
    world.write(
        lambda tx: tx.execute_many(
            "INSERT INTO result (name, workunit_id, app_id, user_id, host_id, server_state, outcome, validate_state)"
            " VALUES (?, 1, 1, 1, 1, ?, ?, ?)",
            [(f"r{place}", *map(int, state)) for place, state in enumerate(STATES)],
        )
    )
    owner = TaskOwner(user_id=UserId(1))
    results = [work.RESULTS.load(row) for row in world.query(f"SELECT {work.RESULTS.columns} FROM result")]
    expected = {state: sum(task_state(result) == state for result in results) for state in TaskState}
    counts = world.ctx.store.read(lambda db: page_queries.count_tasks(db, owner))
    assert counts == expected
    for state in TaskState:
        listed = every_task(world, owner, state)
        assert len(listed) == expected[state]
        assert {task_state(row.result) for row in listed} == {state}
    assert len(every_task(world, owner, None)) == len(STATES)


def every_task(world: World, owner: TaskOwner, state: TaskState | None) -> list[page_queries.TaskRow]:
    found: list[page_queries.TaskRow] = []
    for _page in range(20):
        before = found[-1].result.id if found else None
        rows = list_page(world, owner, state, before)
        found += rows[: page_queries.PAGE_SIZE]
        if len(rows) <= page_queries.PAGE_SIZE:
            return found
    raise AssertionError("the list does not end")


def list_page(
    world: World, owner: TaskOwner, state: TaskState | None, before: int | None
) -> list[page_queries.TaskRow]:
    return world.ctx.store.read(lambda db: page_queries.list_tasks(db, owner, state=state, before=before))


@pytest.mark.parametrize(
    "ages", [[], [30.0], [0.5], [30.0, 20.0, 10.0, 0.9, 0.2], [0.9] * 7, [3.0] * 40 + [0.1]]
)
def test_the_new_ones_of_a_day_are_counted_from_ids_with_gaps(world: World, ages: list[float]) -> None:
    world.write(
        lambda tx: tx.execute_many(
            "INSERT INTO user_account (id, name, email_addr, authenticator, weak_authenticator, create_time)"
            " VALUES (?, '', ?, ?, ?, ?)",
            [
                (3 + 7 * place, str(place), f"a{place}", f"w{place}", world.now - age * 86400)
                for place, age in enumerate(ages)
            ],
        )
    )
    counts = world.ctx.store.read(lambda db: page_queries.project_counts(db, now=world.now))
    assert counts.users_new == sum(age < 1 for age in ages)
    assert counts.users == len(ages)


def cost(world: World) -> dict[str, int]:
    """Steps of SQLite's machine, in hundreds, for what each page reads."""
    ada, host = TaskOwner(user_id=UserId(1)), TaskOwner(host_id=HostId(1))
    reads: dict[str, Callable[[Database], object]] = {
        "project": lambda db: page_queries.project_counts(db, now=world.now),
        "task": lambda db: page_queries.task(db, 1),
        "workunit": lambda db: page_queries.tasks_of_workunit(db, WorkunitId(1)),
        "outcomes": lambda db: page_queries.outcomes_by_version(db, AppId(1)),
        "host": lambda db: page_queries.version_records(db, HostId(1)),
    }
    for name, owner in (("user's", ada), ("host's", host)):
        reads[f"{name} counts"] = lambda db, owner=owner: page_queries.count_tasks(db, owner)
        for state in (None, *TaskState):
            reads[f"{name} {state}"] = lambda db, owner=owner, state=state: page_queries.list_tasks(
                db, owner, state=state
            )
    for kind in Owner:
        for order in Order:
            for app_id in (None, 1):
                reads[f"top {kind} {order} {app_id}"] = lambda db, kind=kind, order=order, app_id=app_id: (
                    ranking.top(db, kind, order, page=0, app_id=app_id)
                )
    for owner in (CreditOwner("user", 1), CreditOwner("host", 1), CreditOwner("team", 1)):
        reads[f"credit of {owner}"] = lambda db, owner=owner: ledger_marks(db, owner, since=0.0)
    found: dict[str, int] = {}
    for name, read in reads.items():
        found[name] = world.ctx.store.read(lambda db, read=read: count_steps(db, read))
    return found


def count_steps(db: Database, read: Callable[[Database], object]) -> int:
    steps = 0

    def tick() -> int:
        nonlocal steps
        steps += 1
        return 0

    connection: Any = db._connection  # SQLite's own, below the layer
    connection.set_progress_handler(tick, 100)
    try:
        read(db)
    finally:
        connection.set_progress_handler(None, 0)
    return steps


@pytest.mark.of_sqlite
def test_no_page_gets_slower_with_the_work_of_others(world: World) -> None:
    world.add_jobs(world.add_app(), 3)
    host = world.host(world.user("ada"))
    host.rpc(ask=1000.0)
    (first, *_) = host.new_results()
    host.rpc(reports=[host.finish(first, b"answer")])
    world.settle()
    before = cost(world)
    numbers = range(10, 20_010)
    world.write(
        lambda tx: tx.execute_many(
            "INSERT INTO result (id, name, workunit_id, app_id, user_id, host_id, server_state, outcome, validate_state)"
            " VALUES (?, ?, ?, 2, 2, 2, 5, 1, 1)",
            [(n, f"x{n}", n) for n in numbers],
        )
    )
    world.write(
        lambda tx: tx.execute_many(
            "INSERT INTO credit_entry (time, result_id, workunit_id, host_id, user_id, team_id, kind, granted)"
            " VALUES (?, ?, ?, 2, 2, 2, 'grant', 1.0)",
            [(world.now - 5 * 86400, n, n) for n in numbers],
        )
    )
    world.write(
        lambda tx: tx.execute("UPDATE credit_entry SET id = 90000, time = ? WHERE id = 1", (world.now,))
    )
    after = cost(world)
    assert {name: steps for name, steps in after.items() if steps > before[name] + 30} == {}


def test_the_counts_of_the_project_are_kept_for_a_few_seconds(world: World) -> None:
    world.add_jobs(world.add_app(), 2)
    assert "<strong>2</strong><span>tasks waiting to be sent" in world.get("/").text
    world.host(world.user("ada"), p_ncpus=1).rpc(ask=1.0)
    assert "<strong>2</strong><span>tasks waiting to be sent" in world.get("/").text
    world.now += 6
    assert "<strong>1</strong><span>task waiting to be sent" in world.get("/").text


def test_computers_apps_and_job_counts_are_told_in_the_familys_format(world: World) -> None:
    app = world.add_app()
    world.write(lambda tx: apps.update_app(tx, replace(app, user_friendly_name="Demo & more")))
    world.add_jobs(app, n=3)
    host = world.host(world.user("alice"), p_ncpus=1)
    host.rpc(ask=1)
    asked = world.get("/server_status.php?counts=1").content
    assert (
        asked == world.post("/server_status.php?counts=1", data={"request": ""}).content
    )  # the family's client
    counts = ET.fromstring(asked)
    assert (counts.findtext("results_ready_to_send"), counts.findtext("results_in_progress")) == ("2", "1")
    (told,) = ET.fromstring(world.get("/apps.php?xml=1").content).findall("application")
    assert [each.tag for each in told] == ["user_friendly_name", "name", "id", "version"]
    assert [told.findtext(name) for name in ("user_friendly_name", "name", "id")] == [
        "Demo & more",
        "demo",
        "1",
    ]
    (version,) = told.findall("version")
    assert {each.tag: each.text for each in version} == {
        "platform_short": "any",
        "platform_long": "any",
        "version_num": "100",
        "plan_class": None,
        "date": "15 Jan 2027, 8:00:00 UTC",
        "date_unix": f"{world.now:.0f}",
    }
    (computer,) = ET.fromstring(world.get("/hosts_user.php?userid=1&format=xml").content).findall("host")
    assert (computer.findtext("id"), computer.findtext("p_ncpus"), computer.findtext("domain_name")) == (
        "1",
        "1",
        "",
    )


MANY = 3000


@pytest.fixture
def crowded(world: World) -> World:
    """Ada, who may submit, has a team of 3000, 3000 computers and a batch of 3000 jobs; Bruno is in her team."""
    app = world.add_app()
    world.user("ada")
    world.user("bruno")
    numbers = range(10, 10 + MANY)

    def fill(tx: Transaction) -> None:
        users.create_team(tx, "Sunny", UserId(1), now=world.now)
        users.join_team(tx, UserId(2), TeamId(1))
        submitters.allow(tx, UserId(1), SubmitRights(), now=world.now)
        batch = batches.create_batch(tx, name="large", app_id=app.id, now=world.now)
        for table, columns, rows in (
            (
                "user_account",
                "name, email_addr, authenticator, weak_authenticator, team_id, expavg_credit",
                [(str(n), f"a{n}", f"w{n}", 1, n) for n in numbers],
            ),
            (
                "host",
                "user_id, rpc_time, domain_name, description",
                [(world.now - n, f"node-{n}", "{}" + " " * 1500) for n in numbers],
            ),
            ("workunit", "name, app_id, batch_id, input_files", [(app.id, batch.id, "[]") for _ in numbers]),
        ):
            places = ", ".join("?" * (columns.count(",") + 2))
            first = [1 if table == "host" else f"{table}{n}" for n in numbers]
            tx.execute_many(
                f"INSERT INTO {table} (id, {columns}) VALUES ({places})",
                [(n, one, *row) for n, one, row in zip(numbers, first, rows, strict=True)],
            )

    world.write(fill)
    return world


@pytest.mark.of_sqlite
def test_who_has_much_and_many_beside_him_is_found_without_reading_them_all(crowded: World) -> None:
    page = Page(limit=25)
    reads: dict[str, Callable[[Any], object]] = {
        "submitter": lambda db: submitters.submitter_of(db, UserId(1)),
        "leaving": lambda tx: account_changes.leave_team(tx, UserId(2), TeamId(1)),
        "computers": lambda db: listings.newest_hosts(db, page, user_id=1),
        "jobs": lambda db: listings.newest_workunits(db, page, batch_id=1),
    }
    hundreds = {
        name: crowded.write(lambda tx, read=read: count_steps(tx, read)) for name, read in reads.items()
    }
    # A user and a team have one row; of computers and jobs the ids are read from an index, and not their rows.
    most = {"submitter": 1, "leaving": 2, "computers": MANY // 15, "jobs": MANY // 7}
    assert {name: n for name, n in hundreds.items() if n > most[name]} == {}


def test_many_computers_are_counted_and_shown_page_by_page(crowded: World) -> None:
    assert f"{MANY:,}computers" in text_of(crowded.get("/show_user.php?userid=1"))
    (first, *_), last = (
        ET.fromstring(crowded.get(f"/hosts_user.php?userid=1&format=xml&page={page}").content).findall("host")
        for page in (3, MANY // 25 - 1)
    )
    assert (first.findtext("id"), last[-1].findtext("id"), len(last)) == ("85", str(9 + MANY), 25)


def test_a_page_of_many_computers_reads_only_its_own(crowded: World, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[object] = []

    def note(name: str) -> None:
        load = getattr(Database, name)

        def noted(self: Database, *arguments: Any) -> list[Any]:
            found = list(load(self, *arguments))
            loaded.extend(found)
            return found

        monkeypatch.setattr(Database, name, noted)

    note("load")
    note("readable")
    crowded.get("/hosts_user.php?userid=1&page=100")
    assert 25 <= len(loaded) <= 30
    loaded.clear()
    crowded.get("/show_user.php?userid=1")
    assert len(loaded) <= 5
