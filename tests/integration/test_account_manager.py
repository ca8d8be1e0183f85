"""The account manager in one process: contacts, accounting, accounts at projects, pages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.helpers.manager_world import CREDIT_SECOND, LINUX, PASSWORD, Caller, ManagerWorld
from tests.helpers.visitors import hashes_verified

from cobblestone.account_manager.core.members import Members
from cobblestone.account_manager.model import ComputerFacts, ManagedHost, ProjectAccount
from cobblestone.account_manager.run import open_manager
from cobblestone.account_manager.store import accounts, figures, granted, hosts, ledger, projects
from cobblestone.policy.account_manager.accounting_policies import BySums, ReportedDay
from cobblestone.policy.credit.history import day_of
from cobblestone.store.engine.database import Transaction
from cobblestone.wire.client.account_manager import parse_manager_reply
from cobblestone.wire.project.account import (
    AccountInfo,
    WebRpcFailure,
    write_account_out,
    write_am_get_info_reply,
)
from cobblestone.wire.project.pages import PlatformEntry, ProjectConfig, write_project_config
from cobblestone.wire.project.signatures import decode_public_key, verify_bytes

DAY = 86400.0
WEAK = f"3_{'b' * 32}"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ManagerWorld]:
    made = ManagerWorld(tmp_path / "manager")
    yield made
    made.close()


def test_a_client_that_logs_in_gets_signed_projects_and_a_weak_key(world: ManagerWorld):
    world.project(1)
    world.project(2)
    weak = world.join()
    caller = Caller(world, name="Ann@example.org", password=PASSWORD)
    reply = caller.call()
    assert reply.error_num == 0
    assert reply.authenticator == weak
    assert reply.dynamic
    assert "<max_ncpus_pct>50" in reply.global_preferences
    key = decode_public_key(reply.signing_key)
    main, reserve = reply.accounts
    for each in reply.accounts:
        assert verify_bytes(key, each.url.encode(), each.url_signature)
        assert "_" in each.authenticator
    assert (main.resource_share, reserve.resource_share) == (100.0, 0.0)


@pytest.mark.parametrize(
    ("authenticator", "password"), [("", "wrong"), ("7_" + "0" * 32, ""), ("f" * 32, "")]
)
def test_a_wrong_password_or_key_is_refused_as_clients_know_it(
    world: ManagerWorld, authenticator: str, password: str
):
    world.join()
    caller = Caller(world, authenticator=authenticator, name="ann@example.org", password=password)
    assert caller.call().error_num == -206


@pytest.mark.parametrize("name", ["ann", "nobody"])
def test_each_log_in_verifies_one_password_hash_also_for_an_unknown_address(
    world: ManagerWorld, monkeypatch: pytest.MonkeyPatch, name: str
):
    world.join()
    verified = hashes_verified(monkeypatch)
    Caller(world, name=f"{name}@example.org", password="wrong").call()
    assert len(verified) == 1
    with pytest.raises(WebRpcFailure):
        world.run(Members(world.ctx).log_in(f"{name}@example.org", "wrong", address=""))
    assert len(verified) == 2


def test_guesses_of_passwords_run_out(world: ManagerWorld):
    world.join()
    caller = Caller(world, name="ann@example.org", password="wrong")
    numbers = [caller.call().error_num for _ in range(22)]
    assert numbers[0] == -206
    assert numbers[-1] == -1


def test_what_computers_do_is_counted_by_person_project_and_day_and_follows_from_the_ledger(
    world: ManagerWorld,
):
    project = world.project(1)
    weak = world.join()
    caller = Caller(world, authenticator=weak)
    caller.totals["https://P1.example.org:443"] = [1e6] * 6
    caller.call()
    for _ in range(3):
        world.now += DAY / 2
        caller.works("https://P1.example.org:443", DAY / 2)
        caller.call()
    caller.version = "8.0.2"
    reply = caller.call()
    worth = 1.5 * DAY * 4 * CREDIT_SECOND
    assert reply.accounts[0].user_total_ec == pytest.approx(worth)
    assert reply.accounts[0].user_avg_ec > 0
    world.run(world.days.step())
    account = int(weak.partition("_")[0])
    for counted in (
        world.read(lambda db: ledger.replayed(db, "account", account)),
        world.read(lambda db: ledger.sum_of(db, "project", project)),
        world.read(lambda db: ledger.sum_of(db, "all")),
    ):
        assert counted.credit == pytest.approx(worth)
        assert counted.njobs_success == 3
    days = world.read(lambda db: ledger.days_of(db, "all", 0, since_day=0))
    assert [each.day for each in days] == sorted({day_of(world.now - back * DAY) for back in (0, 0.5, 1)})
    world.write(lambda tx: ledger.fold(tx, since_day=0, until_day=day_of(world.now)))
    assert not world.read(ledger.wrong_days)
    (largest, *_) = world.read(lambda db: ledger.largest_entries(db, since_day=0, limit=10))
    world.write(lambda tx: ledger.delete_entries(tx, [largest.id]))
    assert not world.read(ledger.wrong_days)
    assert world.read(lambda db: ledger.sum_of(db, "account", account)).credit == pytest.approx(
        worth - largest.amounts.credit
    )


def test_what_was_done_before_a_computer_joined_is_never_counted(world: ManagerWorld):
    by_hand, by_manager = "https://P1.example.org:443", "http://p2.example.org/"
    for number in (1, 2):
        world.project(number)
    caller = Caller(world, authenticator=world.join(), dynamic=False)
    year = 365 * DAY
    caller.works(by_hand, year)
    caller.call()  # without totals: clients send them once they have been told to
    assert caller.dynamic
    for _ in range(16):
        world.now += DAY / 2
        caller.call()
    assert world.read(lambda db: ledger.replayed(db, "all")).credit == 0
    world.now += DAY
    for url in (by_hand, by_manager):
        caller.works(url, DAY / 2)
    caller.call()
    assert world.read(lambda db: ledger.replayed(db, "all")).credit == pytest.approx(DAY * 4 * CREDIT_SECOND)


def test_a_new_computer_calls_again_soon_so_that_its_owner_sees_a_figure(world: ManagerWorld):
    world.project(1)
    caller = Caller(world, authenticator=world.join(), dynamic=False)
    asked = []
    for _ in range(5):
        asked.append(caller.call().repeat_sec)
        world.now += asked[-1]
        caller.works("http://p1.example.org/", asked[-1])
    assert asked == [1800, 1800, 1800, 43200, 43200]


def test_old_contacts_that_are_sent_again_bring_no_work_twice(world: ManagerWorld):
    world.project(1)
    caller = Caller(world, authenticator=world.join())
    bodies: list[bytes] = []
    for _ in range(6):
        bodies.append(caller.body())
        caller.call()
        world.now += DAY
        caller.works("http://p1.example.org/", DAY)
    for n in (2, 2, 3, 4):
        world.run(world.http.post("rpc.php", content=bodies[n]))
    world.now += 7 * DAY
    caller.call()
    assert world.read(lambda db: ledger.replayed(db, "all")).credit == pytest.approx(
        6 * DAY * 4 * CREDIT_SECOND
    )


def test_a_running_manager_is_not_called_wrong_before_its_days_are_added_up(world: ManagerWorld):
    world.project(1)
    caller = Caller(world, authenticator=world.join())
    for step in (0.0, 0.1, 0.1, 1.0, 0.1):
        world.now += step * DAY
        caller.works("http://p1.example.org/", step * DAY)
        caller.call()
        assert not world.read(ledger.wrong_days)
        if step == 0.1:
            world.run(world.days.step())
    world.write(lambda tx: tx.execute("UPDATE daily SET cpu_ec = cpu_ec + 1"))
    assert len(world.read(ledger.wrong_days)) == 2
    world.write(lambda tx: tx.execute("UPDATE daily SET cpu_ec = cpu_ec - 2"))
    assert len(world.read(ledger.wrong_days)) == 1  # the last one may lack what came since


def test_a_report_without_totals_between_others_changes_no_mark(world: ManagerWorld):
    world.project(1)
    caller = Caller(world, authenticator=world.join())
    url = "https://p1.example.org/"
    caller.works(url, 100 * DAY)
    caller.call()
    for dynamic in (True, False, False, True):
        world.now += DAY
        caller.works(url, DAY)
        caller.dynamic = dynamic
        caller.call()
    assert world.read(lambda db: ledger.replayed(db, "all")).credit == pytest.approx(
        4 * DAY * 4 * CREDIT_SECOND
    )


def test_spellings_of_one_address_are_counted_once(world: ManagerWorld):
    world.project(1)
    caller = Caller(world, authenticator=world.join())
    caller.call()
    world.now += DAY
    for url in ("http://p1.example.org/", "https://p1.example.org", "HTTP://P1.EXAMPLE.ORG:80/"):
        caller.works(url, DAY)
    caller.call()
    assert world.read(lambda db: ledger.replayed(db, "all")).credit == pytest.approx(DAY * 4 * CREDIT_SECOND)


def test_a_computer_keeps_its_record_and_nobody_else_gets_it(world: ManagerWorld):
    world.project(1)
    mine = world.join()
    caller = Caller(world, authenticator=mine)
    caller.call()
    world.now += DAY
    caller.call()
    assert world.read(lambda db: db.value("SELECT COUNT(*) FROM host")) == 1
    thief = Caller(world, authenticator=mine, opaque=caller.opaque.replace("<host_key>", "<host_key>0"))
    thief.call()
    assert world.read(lambda db: db.value("SELECT COUNT(*) FROM host")) == 2


@pytest.mark.parametrize("element", ["host_info", "p_ncpus", "p_model", "p_fpops", "coprocs"])
@pytest.mark.parametrize("content", ["", "<p_ncpus>nan</p_ncpus>"])
def test_what_a_computer_leaves_out_or_spoils_stays_as_it_was(
    world: ManagerWorld, element: str, content: str
):
    world.project(1)
    caller = Caller(world, authenticator=world.join(), ncpus=8, gpu=True)
    caller.call()
    known = world.read(lambda db: hosts.calling_host(db, 1))
    body = re.sub(rf"<{element}>.*</{element}>".encode(), content.encode(), caller.body())
    response = world.run(world.http.post("rpc.php", content=body))
    assert parse_manager_reply(response.content).error_num == 0
    again = world.read(lambda db: hosts.calling_host(db, 1))
    assert known is not None
    assert again is not None
    assert again.facts == known.facts
    assert (known.facts.ncpus, known.facts.ngpus) == (8, 1)


def test_an_account_has_so_many_new_computers_a_day(world: ManagerWorld):
    weak = world.join()
    replies = [Caller(world, authenticator=weak).call() for _ in range(51)]
    assert replies[49].error_num == 0
    assert "too many" in replies[50].error_msg
    world.now += DAY + 1
    assert Caller(world, authenticator=weak).call().error_num == 0


def test_a_project_or_a_device_that_is_kept_out_is_left_and_said_why(world: ManagerWorld):
    first, second = world.project(1), world.project(2)
    caller = Caller(world, authenticator=world.join(), gpu=True)
    caller.call()
    world.post("choices.php", **{f"out_{first}": "1", f"out_{second}_NVIDIA": "1", "preset": "maximum"})
    world.now += DAY
    orders = {each.url: each for each in caller.call().accounts}
    assert caller.reply is not None
    left, kept = orders["http://p1.example.org/"], orders["http://p2.example.org/"]
    assert (left.detach_when_done, left.dont_request_more_work) == (True, True)
    assert kept.no_resources == ("NVIDIA",)
    assert "<max_ncpus_pct>100" in caller.reply.global_preferences
    page = world.get("computer.php?id=1").text
    assert "You excluded this project." in page
    assert "It should get 50.0 percent of all computing" in page


def test_wanted_keywords_go_first_and_refused_ones_never(world: ManagerWorld):
    world.write(lambda tx: projects.put_keywords(tx, {1: ("subject", "Stars"), 2: ("subject", "Numbers")}))
    world.project(1, keywords={1: 1.0}, share=9.0)
    world.project(2, keywords={2: 1.0})
    caller = Caller(world, authenticator=world.join())
    world.post("choices.php", keyword_1="no", keyword_2="yes", mode="science")
    reply = caller.call()
    assert [each.url for each in reply.accounts] == ["http://p2.example.org/"]
    assert (reply.keywords.yes, reply.keywords.no) == ((2,), (1,))


def test_by_hand_everybody_sets_shares_and_pauses(world: ManagerWorld):
    first, second, _ = world.project(1), world.project(2), world.project(3)
    caller = Caller(world, authenticator=world.join())
    world.post(
        "choices.php",
        **{"mode": "classic", f"share_{first}": "30", f"share_{second}": "70,5", f"suspend_{second}": "1"},
    )
    orders = {each.url: (each.resource_share, each.suspend) for each in caller.call().accounts}
    assert orders == {"http://p1.example.org/": (30.0, False), "http://p2.example.org/": (70.5, True)}
    assert "not a number" in world.post("choices.php", mode="classic", **{f"share_{first}": "much"}).text


def test_a_dry_project_gets_another_one_beside_it(world: ManagerWorld):
    for number in (1, 2, 3):
        world.project(number)
    caller = Caller(world, authenticator=world.join())
    caller.call()
    (first,) = caller.urls
    caller.in_vain[first] = ("CPU",)
    world.now += DAY
    caller.call()
    assert caller.urls
    assert caller.urls != [first]


def test_shares_are_kept_over_many_computers_and_a_restart(world: ManagerWorld, tmp_path: Path):
    world.project(1, share=3.0)
    world.project(2, share=1.0)
    weak = world.join()
    counts = {"http://p1.example.org/": 0, "http://p2.example.org/": 0}
    for _ in range(40):
        caller = Caller(world, authenticator=weak)
        caller.call()
        counts[caller.urls[0]] += 1
    assert counts == {"http://p1.example.org/": 30, "http://p2.example.org/": 10}
    before = world.ctx.projects.balances[1].expected
    world.run(world.balances.step())
    world.release()
    with open_manager(tmp_path / "manager", clock=lambda: world.now) as again:
        assert again.projects.balances[1].expected == pytest.approx(before)


def project_site(request: httpx.Request) -> httpx.Response:
    """A project that makes accounts, one that is full, one that is down."""
    if request.url.host == "down.example.org":
        return httpx.Response(503)
    if request.url.path == "/get_project_config.php":
        config = ProjectConfig(
            name="Pebbles",
            master_url="http://p.example.org/",
            platforms=(
                PlatformEntry(platform_name=LINUX),
                PlatformEntry(platform_name=LINUX, plan_class="cuda102"),
                PlatformEntry(platform_name=LINUX, plan_class="vbox64"),
            ),
        )
        return httpx.Response(200, content=write_project_config(config))
    if request.url.host == "full.example.org":
        error = b"<error><error_num>-137</error_num><error_msg>taken</error_msg></error>"
        return httpx.Response(200, content=error)
    if request.url.path == "/create_account.php":
        assert request.url.params["passwd_hash"] != ""
        return httpx.Response(200, content=write_account_out("c" * 32))
    if request.url.path == "/am_set_info.php":  # as the family's server answers
        refusal = b"<error><error_num>-1</error_num><error_msg>not supported</error_msg></error>"
        return httpx.Response(200, content=refusal)
    info = AccountInfo(id=3, name="Ann", weak_auth=WEAK)
    return httpx.Response(200, content=write_am_get_info_reply(info))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ManagerWorld]:
    made = ManagerWorld(tmp_path / "manager", projects_http=httpx.MockTransport(project_site))
    yield made
    made.close()


def add(world: ManagerWorld, url: str) -> int:
    from cobblestone.account_manager.core import operation

    signature = operation.sign_address(world.ctx.folder, url)
    return world.write(lambda tx: operation.add_project(tx, url, signature=signature, now=world.now))


def settle(world: ManagerWorld) -> None:
    done = 1
    while done:
        world.read(world.ctx.projects.load)
        done = world.run(world.checker.step()) + world.run(world.maker.step())


def test_an_address_that_is_none_holds_up_no_other_project(served: ManagerWorld):
    for url in ("http://p.example.org/", "http://q.example.org/"):
        add(served, url)
    served.write(lambda tx: tx.execute("UPDATE project SET url = 'https://a:b/' WHERE id = 1"))
    served.run(served.checker.step())
    first, second = served.read(projects.all_projects)
    assert first.problem.startswith("It cannot be reached: Invalid port")
    assert second.problem == ""


def test_accounts_at_projects_are_made_through_their_own_rpcs_and_only_weak_keys_go_out(served: ManagerWorld):
    add(served, "http://p.example.org/")
    weak = served.join()
    caller = Caller(served, authenticator=weak)
    assert caller.call().accounts == ()
    settle(served)
    served.now += 3600
    (order,) = caller.call().accounts
    assert order.authenticator == WEAK
    (project,) = served.ctx.projects.projects
    assert project.name == "Pebbles"
    assert {(each.device, each.virtualbox) for each in project.versions} == {
        ("CPU", False),
        ("NVIDIA", False),
        ("CPU", True),
    }


def test_the_page_says_which_projects_cannot_be_told_what_statistics_sites_may_show(served: ManagerWorld):
    add(served, "http://p.example.org/")
    served.join()
    settle(served)
    assert "cannot be set from here" in served.get("sharing.php").text
    served.post("sharing.php", statistics="1", team_name="x" * 255)
    assert served.run(served.maker.step()) == 0
    served.post("sharing.php", statistics="1", team_name="Stones")
    assert served.run(served.maker.step()) == 1
    assert Caller(served, name="ann@example.org", password=PASSWORD).call().team_name == "Stones"


def test_what_is_said_while_a_project_is_told_is_told_too(served: ManagerWorld):
    add(served, "http://p.example.org/")
    account = int(served.join().partition("_")[0])
    (wanted,) = served.read(lambda db: accounts.wanted_accounts(db, now=served.now, limit=9))
    served.write(lambda tx: accounts.set_made(tx, wanted, WEAK))
    served.now += 1
    served.write(lambda tx: accounts.want_told(tx, account, now=served.now))
    served.write(lambda tx: accounts.set_told(tx, wanted, "", now=served.now))
    assert served.read(lambda db: accounts.wanted_accounts(db, now=served.now, limit=9))


def test_a_project_that_refuses_or_is_down_is_not_chosen_says_why_and_is_left_alone_longer_and_longer(
    served: ManagerWorld,
):
    down, full = add(served, "http://down.example.org/"), add(served, "http://full.example.org/")
    caller = Caller(served, authenticator=served.join())
    settle(served)
    assert caller.call().accounts == ()
    page = served.get("computer.php?id=1").text
    assert "It answers with HTTP status 503." in page
    assert "Log in there, or create an account" in page
    first = next(each for each in served.ctx.projects.projects if each.id == down)
    assert (first.failures, first.next_check) == (1, served.now + 600)
    served.now += 601
    settle(served)
    first = next(each for each in served.ctx.projects.projects if each.id == down)
    assert (first.failures, first.next_check) == (2, served.now + 1200)
    token = served.get("home.php").text.partition('name="form_token" value="')[2].partition('"')[0]
    form = {"form_token": token, "project_id": str(full), "weak_key": WEAK}
    assert served.run(served.http.post("project_key.php", data=form)).status_code == 200
    assert [each.authenticator for each in caller.call().accounts] == [WEAK]


@pytest.mark.parametrize(
    "body", [b"", b"<acct_mgr_request>", b"\x00" * 100, b"<acct_mgr_request>" + b"<a>" * 60, b"<x/>" * 1000]
)
def test_rubbish_is_answered_with_an_error(world: ManagerWorld, body: bytes):
    response = world.run(world.http.post("rpc.php", content=body))
    assert response.status_code == 200
    assert b"<error_num>" in response.content


def test_a_client_that_asks_hears_that_this_is_an_account_manager(world: ManagerWorld):
    assert b"<account_manager/>" in world.get("get_project_config.php").content
    assert world.get("readyz").status_code == 200


def test_the_front_page_says_how_it_works_and_what_each_project_is_about(world: ManagerWorld):
    world.write(lambda tx: projects.put_keywords(tx, {1: ("subject", "Astronomy"), 2: ("place", "Europe")}))
    world.project(1, keywords={1: 1.0})
    page = world.get("").text
    assert "How it works" in page
    assert "Astronomy" in page
    assert "Europe" not in page


def test_pages_are_for_their_owner_and_operators_see_operation(world: ManagerWorld):
    world.project(1)
    weak = world.join()
    Caller(world, authenticator=weak).call()
    assert "Largest entries" in world.get("ops.php").text
    assert "p9.example.org" in world.post("ops.php", what="add", url="http://p9.example.org/").text
    other = ManagerWorld.browser(world)
    world.http, mine = other, world.http
    assert "Log in" in world.get("home.php").text
    world.join("Bob", "bob@example.org")
    assert world.get("computer.php?id=1").status_code == 404
    assert world.get("ops.php").status_code == 404
    world.run(other.aclose())
    world.http = mine


def test_whoever_deletes_an_account_leaves_nothing_but_what_projects_got(world: ManagerWorld):
    project = world.project(1)
    caller = Caller(world, authenticator=world.join())
    caller.call()
    world.now += DAY
    caller.works("http://p1.example.org/", DAY)
    caller.call()
    world.post("account.php", passwd=PASSWORD, what="erase")
    assert caller.call().error_num == -206
    for table in ("account", "host", "host_project", "project_account"):
        assert world.read(lambda db, table=table: db.value(f"SELECT COUNT(*) FROM {table}")) == 0
    assert world.read(lambda db: ledger.replayed(db, "project", project)).credit > 0
    assert world.read(lambda db: hosts.host_by_id(db, 1)) is None
    assert world.read(lambda db: accounts.account_by_id(db, 1)) is None


def test_computers_at_a_place_with_a_preset_of_its_own_are_told_of_it(world: ManagerWorld):
    caller = Caller(world, authenticator=world.join())
    caller.call()
    world.post("computer.php?id=1", venue="work")
    done = world.post(
        "choices.php", mode="science", preset="standard", preset_work="maximum", preset_home="no such"
    )
    assert "Saved" in done.text
    reply = caller.call()
    assert reply.host_venue == "work"
    everywhere, _, at_work = reply.global_preferences.partition('<venue name="work">')
    assert "<max_ncpus_pct>50" in everywhere
    assert "<max_ncpus_pct>100" in at_work
    assert "<venue" not in at_work
    page = world.get("choices.php").text
    assert page.count("selected") == 1


def test_a_farm_leafs_through_its_computers_and_each_figure_is_that_of_the_ledger(world: ManagerWorld):
    world.join()
    first, second = world.project(1), world.project(2)
    today = day_of(world.now)

    def fill(tx: Transaction) -> None:
        for number in range(1, 121):
            facts = ComputerFacts(domain_name=f"box-{number}.")
            new = ManagedHost(id=0, account_id=1, host_key="k", facts=facts, contact_time=world.now - number)
            assert hosts.add_host(tx, new) == number
        rows = [
            (number, project, today - ago, number + 0.25)
            for number in range(1, 121)
            for project in (first, second)
            for ago in range(2)
        ]
        tx.execute_many(
            "INSERT INTO ledger (host_id, account_id, project_id, day, cpu_ec) VALUES (?, 1, ?, ?, ?)", rows
        )
        both = [
            ProjectAccount(project_id=each, total=2 * sum(n + 0.25 for n in range(1, 121)))
            for each in (first, second)
        ]
        accounts.put_credit(tx, 1, both)

    world.write(fill)
    world.run(world.days.step())
    seen: list[str] = []
    for number in range(3):
        page = world.get(f"home.php?page={number}").text
        here = re.findall(r"box-(\d+)\.", page)
        seen += here
        for each in here:
            row = page.partition(f"box-{each}.")[2].partition("</tr>")[0]
            assert f">{4 * int(each) + 1}.00<" in row
        assert ("page=" + str(number + 1) in page) == (number < 2)
        assert page.partition("<h2>Projects</h2>")[2].count("14,580") == 2, "of both"
    assert seen == [str(number) for number in range(1, 121)]
    assert "Next: add a computer" not in world.get("home.php?page=9").text
    assert ">481.00<" in world.get("computer.php?id=120").text
    (entry,) = world.write(lambda tx: ledger.delete_entries(tx, [1]))
    assert f">{4 * entry.host_id + 1 - 1.25:.2f}<" in world.get("computer.php?id=1").text
    assert not world.read(lambda db: list(figures.totals_follow(db)))


def test_sums_of_days_are_written_where_they_changed_only(
    world: ManagerWorld, monkeypatch: pytest.MonkeyPatch
):
    today, put = day_of(world.now), list[Any]()
    world.write(
        lambda tx: tx.execute_many(
            "INSERT INTO ledger (host_id, account_id, project_id, day, cpu_ec) VALUES (?, ?, ?, ?, 1.0)",
            [(number, number, number % 5, today - number % 2) for number in range(1, 1201)],
        )
    )
    put_days = ledger.put_days

    def noted(tx: Transaction, rows: list[Any]) -> None:
        put.append([row[:3] for row in rows])
        put_days(tx, rows)

    monkeypatch.setattr(ledger, "put_days", noted)
    world.run(world.days.step())
    assert [len(each) for each in put] == [500, 500, 1200 + 10 + 2 - 1000]
    assert world.read(lambda db: ledger.sum_of(db, "all")) == world.read(
        lambda db: ledger.replayed(db, "all")
    )
    put.clear()
    world.run(world.days.step())
    assert put == []
    world.write(lambda tx: tx.execute("UPDATE ledger SET cpu_ec = 2.0 WHERE account_id = 7"))
    world.run(world.days.step())
    (rows,) = put
    assert sorted(rows) == [("account", 7, today - 1), ("all", 0, today - 1), ("project", 2, today - 1)]
    assert not world.read(ledger.wrong_days)


def test_an_answer_is_booked_with_one_row_however_many_projects_are_asked(world: ManagerWorld):
    person = int(world.join().partition("_")[0])
    ids = [world.project(number, shared=False) for number in range(1, 9)]

    def ask(tx: Transaction) -> None:
        accounts.want_project_accounts(tx, account_id=person, now=world.now)
        hosts.add_host(tx, ManagedHost(id=0, account_id=person, host_key="k", facts=ComputerFacts()))
        for id_ in ids:
            granted.change(tx, id_, token="t", vouched=True, now=world.now)
        for id_ in ids:
            granted.enrol(tx, id_, [(person, f"{person}_{id_}", f"{id_:032}")], now=world.now)

    world.write(ask)
    rows: list[tuple[object, ...]] = []

    def book(tx: Transaction) -> None:
        execute = tx.execute

        def noted(sql: str, parameters: Sequence[Any] = ()) -> int:
            changed = execute(sql, parameters)
            rows.extend([tuple(parameters[-2:])] * changed if "granted_account" in sql else [])
            return changed

        tx.execute = noted
        answers = {person: [ReportedDay(day=day_of(world.now), final=3.0, revoked=0.0, provisional=0.0)]}
        granted.book(tx, ids[2], BySums(), answers, now=world.now)

    world.write(book)
    assert rows == [(person, ids[2])]
