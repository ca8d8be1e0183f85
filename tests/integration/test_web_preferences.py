"""Preferences, computers and teams on pages: what is stored, what clients are told, and who may change what."""

from __future__ import annotations

import json
from typing import Any

import pytest
from lxml import html
from tests.helpers.project_world import World
from tests.helpers.visitors import Visitor, text_of

from cobblestone.domain.apps import AppDispatch
from cobblestone.domain.values import DAY
from cobblestone.server.daemons.housekeeping import follow_app_credit
from cobblestone.wire.project.account import email_hash
from cobblestone.wire.project.preferences import GlobalPreferences, UserKeywords, read_computing, read_project


def form_of(visitor: Visitor, page: str, action: str = "") -> tuple[str, dict[str, str]]:
    """Address and present fields of a page's form."""
    tree = html.fromstring(visitor.get(page).text)
    wanted = f"[.//input[@name='action' and @value='{action}']]" if action else ""
    form = tree.xpath(f"//main//form[@method='post']{wanted}")[0]
    fields = {name: value for name, value in form.form_values() if name != "reset"}
    return "/" + form.get("action"), fields


def send(
    visitor: Visitor, page: str, action: str = "", *, without: tuple[str, ...] = (), **changes: str
) -> Any:
    address, fields = form_of(visitor, page, action)
    kept = {name: value for name, value in fields.items() if name not in without}
    return visitor.post(address, **{**kept, **changes})


def test_computing_preferences_reach_the_client_and_a_venue_has_its_own(world: World) -> None:
    host = world.host(world.user("ada"))
    host.rpc()
    visitor = Visitor(world).log_in("ada")
    assert send(visitor, "/prefs_computing.php", max_ncpus_pct="50", run_on_batteries="1").status_code == 303
    world.now += 10
    assert send(visitor, "/prefs_computing.php?venue=home", max_ncpus_pct="12,5").status_code == 303
    text = world.value("SELECT global_prefs FROM user_account")
    sets = read_computing(text)
    assert sets[""].values["max_ncpus_pct"] == 50
    assert sets[""].values["run_on_batteries"] is True
    assert sets["home"].values["max_ncpus_pct"] == 12.5
    assert "12.5" in visitor.get("/prefs_computing.php?venue=home").text
    reply = host.rpc()
    assert reply.all("global_preferences")[0].get("max_ncpus_pct") == "50.000000"
    visitor.post(
        "/prefs_computing.php?venue=home",
        form_token=form_of(visitor, "/prefs_computing.php")[1]["form_token"],
        reset="1",
    )
    assert set(read_computing(world.value("SELECT global_prefs FROM user_account"))) == {""}


def test_preferences_that_a_client_sends_are_read_when_they_come_and_refused_in_words(world: World) -> None:
    host = world.host(world.user("ada"))
    visitor = Visitor(world).log_in("ada")
    source = (
        f"<global_prefs_source_email_hash>{email_hash('ada@example.org')}</global_prefs_source_email_hash>"
    )

    def sent(inner: str) -> str:
        text = f"<global_preferences>{source}<mod_time>{world.now}</mod_time>{inner}</global_preferences>"
        reply = host.rpc(global_preferences=GlobalPreferences(text=text))
        assert visitor.get("/prefs_computing.php?venue=home").status_code == 200
        return " ".join(each.text for each in reply.all("message"))

    home = '<venue name="home">'
    assert "cannot be read, and were not stored" in sent(home * 3300)
    assert world.value("SELECT global_prefs FROM user_account") == ""
    assert "preferences" not in sent(f"{home}<max_ncpus_pct>10</max_ncpus_pct></venue>")
    assert (
        read_computing(world.value("SELECT global_prefs FROM user_account"))["home"].values["max_ncpus_pct"]
        == 10
    )


def test_preferences_from_the_future_are_of_today(world: World) -> None:
    host = world.host(world.user("ada"))
    source = (
        f"<global_prefs_source_email_hash>{email_hash('ada@example.org')}</global_prefs_source_email_hash>"
    )
    for percent, ahead in ((10, 1e8), (20, 0.0)):
        world.now += 60
        inner = f"<mod_time>{world.now + ahead}</mod_time><max_ncpus_pct>{percent}</max_ncpus_pct>"
        text = f"<global_preferences>{source}{inner}</global_preferences>"
        host.rpc(global_preferences=GlobalPreferences(text=text))
    assert (
        read_computing(world.value("SELECT global_prefs FROM user_account"))[""].values["max_ncpus_pct"] == 20
    )


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("max_ncpus_pct", "0", "from 1 to 100"),
        ("max_ncpus_pct", "1e999", "not a number"),
        ("work_buf_min_days", "many", "not a number"),
        ("daily_xfer_limit_mb", "5", "enter the number of days"),
        ("ram_max_used_idle_pct", "10", "should not be less"),
        ("start_hour", "25", "from 0 to 24"),
    ],
)
def test_preferences_that_make_no_sense_are_refused_and_kept_on_the_page(
    world: World, field: str, value: str, problem: str
) -> None:
    world.user("ada")
    visitor = Visitor(world).log_in("ada")
    answer = send(visitor, "/prefs_computing.php", **{field: value})  # type: ignore[arg-type]  # no field is called `without`
    assert answer.status_code == 422
    assert problem in text_of(answer)
    assert world.value("SELECT global_prefs FROM user_account") == ""


def test_project_preferences_are_stored_and_sent_in_the_families_elements(world: World) -> None:
    first, second = world.add_app("one"), world.add_app("two")
    host = world.host(world.user("ada"))
    visitor = Visitor(world).log_in("ada")
    answer = send(
        visitor,
        "/prefs_project.php",
        without=(f"app_{second.id}", "use_cuda", "others"),
        resource_share="40",
        max_jobs="3",
        beta="1",
    )
    assert answer.status_code == 303, text_of(answer)
    found = read_project(world.value("SELECT project_prefs FROM user_account"))[""]
    assert found.app_ids == frozenset({int(first.id)})
    assert (found.resource_share, found.max_jobs, found.allow_beta_work) == (40, 3, True)
    assert (found.no_cuda, found.no_cpu, found.allow_non_preferred_apps) == (True, False, False)
    told = host.rpc().all("project_preferences")[0]
    assert told.get("resource_share") == "40.000000"
    assert told.get("no_cuda") == "1"


def test_subjects_chosen_on_the_page_or_at_an_account_manager_decide_what_is_sent(world: World) -> None:
    stars = world.add_app("stars", dispatch=AppDispatch(keywords=(1, 3)))
    cells = world.add_app("cells", dispatch=AppDispatch(keywords=(9,)))
    world.add_jobs(stars)
    world.add_jobs(cells, 3)
    host = world.host(world.user("ada"))
    visitor = Visitor(world).log_in("ada")
    slovak = visitor.get("/prefs_project.php", headers={"Accept-Language": "sk"}).text
    assert "Astronómia" in slovak
    assert "Astronomy" in visitor.get("/prefs_project.php").text
    assert "Physics" not in visitor.get("/prefs_project.php").text
    assert (
        send(visitor, "/prefs_project.php", keyword_1="no", keyword_9="yes", keyword_6="no").status_code
        == 303
    )
    found = read_project(world.value("SELECT project_prefs FROM user_account"))[""]
    assert (found.keywords_yes, found.keywords_no) == (frozenset({9}), frozenset({1}))
    assert 'value="no" selected' in visitor.get("/prefs_project.php").text
    told = host.rpc(ask=1.0, instances=1.0)
    assert [each.get("job_keyword_ids") for each in told.all("workunit")] == ["9"]
    host.rpc(ask=1.0, instances=4.0, user_keywords=UserKeywords(no=(9,)))
    assert host.new_results() == []
    assert any("You refuse a subject or place of cells" in said for said in host.messages())
    send(visitor, "/prefs_project.php", keyword_1="", keyword_9="")
    found = read_project(world.value("SELECT project_prefs FROM user_account"))[""]
    assert (found.keywords_yes, found.keywords_no) == (frozenset(), frozenset())


@pytest.mark.parametrize(
    ("without", "problem"),
    [
        (("use_cpu", "use_cuda", "use_ati", "use_intel_gpu"), "no device is selected"),
        (("app_1", "others"), "no app is selected"),
    ],
)
def test_preferences_that_would_stop_all_work_are_refused(
    world: World, without: tuple[str, ...], problem: str
) -> None:
    world.add_app()
    world.user("ada")
    answer = send(Visitor(world).log_in("ada"), "/prefs_project.php", without=without)
    assert answer.status_code == 422
    assert problem in text_of(answer)


def test_a_venue_that_does_not_exist_has_no_page(world: World) -> None:
    world.user("ada")
    assert Visitor(world).log_in("ada").get("/prefs_computing.php?venue=moon").status_code == 404


# -- computers -------------------------------------------------------------------------------------------


def test_a_computer_gets_a_name_and_a_venue_and_is_hidden(world: World) -> None:
    host = world.host(world.user("ada"), domain_name="astra")
    world.add_jobs(world.add_app())
    host.rpc(ask=1)
    visitor = Visitor(world).log_in("ada")
    page = f"/host_edit.php?hostid={host.id}"
    assert send(visitor, page, "save", label="the old one", venue="work", hidden="1").status_code == 303
    assert "the old one" in text_of(visitor.get("/hosts_user.php"))
    assert host.rpc().get("host_venue") == "work"
    other = Visitor(world)
    assert other.get(f"/show_host_detail.php?hostid={host.id}").status_code == 403
    assert other.get(f"/results.php?hostid={host.id}").status_code == 403
    assert other.get(f"/credit.csv?hostid={host.id}").status_code == 403
    assert f"hostid={host.id}" not in other.get("/hosts_user.php?userid=1").text
    assert "the old one" in visitor.get("/results.php?userid=1").text
    assert f'<option value="{host.id}"' not in other.get("/results.php?userid=1").text.partition("appid")[0]
    assert "the old one" not in other.get("/top_hosts.php").text


def test_only_the_owner_changes_a_computer(world: World) -> None:
    host = world.host(world.user("ada"))
    host.rpc()
    world.user("bruno")
    bruno = Visitor(world).log_in("bruno")
    token = form_of(bruno, "/account.php")[1]["form_token"]
    for action in ("save", "merge", "remove"):
        answer = bruno.post(
            f"/host_edit.php?hostid={host.id}",
            form_token=token,
            action=action,
            label="mine",
            into="1",
            venue="",
        )
        assert answer.status_code == 404
    assert world.query("SELECT label, removed_time FROM host") == [("", None)]


def test_merging_moves_credit_and_tasks_and_keeps_the_sums(world: World) -> None:
    app = world.add_app()
    key = world.user("ada")
    old, new = world.host(key, domain_name="a"), world.host(key, domain_name="b")
    for host in (old, new):
        world.add_jobs(app)
        host.rpc(ask=1.0)
        (name,) = host.new_results()
        world.now += 500
        host.rpc(reports=[host.finish(name, b"answer", cpu_time=400.0)])
        world.settle()
    total = world.value("SELECT sum(total_credit) FROM host")
    visitor = Visitor(world).log_in("ada")
    answer = send(visitor, f"/host_edit.php?hostid={old.id}", "merge", into=str(new.id))
    assert answer.status_code == 303
    assert world.value("SELECT total_credit FROM host WHERE id = ?", new.id) == pytest.approx(total)
    ledger = dict(world.query("SELECT host_id, sum(granted) FROM credit_entry GROUP BY host_id"))
    assert sum(ledger.values()) == pytest.approx(total)
    assert ledger[old.id] > 0, "what is written in the ledger stays as it is"
    assert world.value("SELECT count(*) FROM result WHERE host_id = ?", old.id) == 0
    assert visitor.get(f"/show_host_detail.php?hostid={old.id}").status_code == 200  # leads to the survivor
    assert f"Computer {old.id}" not in text_of(visitor.get("/hosts_user.php"))


def test_a_computer_with_tasks_is_not_removed_and_a_removed_one_comes_back(world: World) -> None:
    world.add_jobs(world.add_app())
    host = world.host(world.user("ada"), domain_name="astra")
    host.rpc(ask=1.0)
    visitor = Visitor(world).log_in("ada")
    token = form_of(visitor, "/account.php")[1]["form_token"]
    page = f"/host_edit.php?hostid={host.id}"
    assert visitor.post(page, form_token=token, action="remove").status_code == 422
    (name,) = host.new_results()
    host.rpc(reports=[host.finish(name, b"answer")])
    world.now += 10
    assert visitor.post(page, form_token=token, action="remove").status_code == 303
    assert "astra" not in visitor.get("/hosts_user.php").text
    assert "astra" not in repr(world.query("SELECT * FROM host"))
    world.now += 10
    host.rpc()
    assert "astra" in visitor.get("/hosts_user.php").text


# -- teams -----------------------------------------------------------------------------------------------


def test_a_team_is_founded_found_joined_left_and_handed_over(world: World) -> None:
    world.user("ada")
    world.user("bruno")
    ada, bruno = Visitor(world).log_in("ada"), Visitor(world).log_in("bruno")
    answer = send(
        ada, "/team_create.php", name="Sunny 100%", description="We <3\r\nthe Sun", url="", country=""
    )
    page = answer.headers["location"]
    assert page == "/team_display.php?teamid=1"
    assert world.value("SELECT description FROM team") == "We <3\nthe Sun"
    assert "Sunny 100%" in text_of(Visitor(world).get("/teams.php?words=100%25"))
    assert "Sunny" not in text_of(Visitor(world).get("/teams.php?words=__"))
    send(bruno, page)
    assert world.query("SELECT team_id FROM user_account ORDER BY id") == [(1,), (1,)]
    assert bruno.get("/team_edit.php?teamid=1").status_code == 403
    assert send(ada, "/team_edit.php?teamid=1", "hand_over", heir="99").status_code == 422
    assert send(ada, "/team_edit.php?teamid=1", "hand_over", heir="2").status_code == 303
    assert ada.get("/team_edit.php?teamid=1").status_code == 403
    send(bruno, "/team_edit.php?teamid=1", without=("joinable",), name="Sunny")
    send(ada, page)  # leaves
    assert world.value("SELECT team_id FROM user_account WHERE id = 1") is None
    assert "does not accept new members" in text_of(ada.get(page))
    token = form_of(ada, "/account.php")[1]["form_token"]
    assert ada.post("/team_join.php?teamid=1", form_token=token).status_code == 409
    assert send(ada, "/team_create.php", name="SUNNY").status_code == 422
    refused = send(bruno, "/team_create.php", name="Rainy")
    assert refused.status_code == 422
    assert "You founded a team less than a day ago." in text_of(refused)
    assert world.value("SELECT team_id FROM user_account WHERE id = 2") == 1, "he is still in his old one"
    world.now += DAY
    assert send(bruno, "/team_create.php", name="Rainy").status_code == 303


def test_operators_change_and_hand_over_teams_of_others_and_it_is_recorded(world: World) -> None:
    for name in ("ada", "bruno", "olga"):
        world.user(name)
    ada, bruno, olga = (Visitor(world).log_in(name) for name in ("ada", "bruno", "olga"))
    send(ada, "/team_create.php", name="Rude words")
    send(bruno, "/team_display.php?teamid=1")
    assert "team_edit" not in olga.get("/team_display.php?teamid=1").text
    assert olga.get("/team_edit.php?teamid=1").status_code == 403
    world.write(lambda tx: tx.execute("UPDATE user_account SET role = 'operator' WHERE id = 3"))
    assert "team_edit" in olga.get("/team_display.php?teamid=1").text
    assert send(olga, "/team_edit.php?teamid=1", name="Team 1").status_code == 303
    assert send(olga, "/team_edit.php?teamid=1", "hand_over", heir="2").status_code == 303
    assert world.query("SELECT name, founder_id FROM team") == [("Team 1", 2)]
    assert ada.get("/team_edit.php?teamid=1").status_code == 403
    send(bruno, "/team_edit.php?teamid=1", name="Sunny")
    notes = world.query("SELECT actor, action, before FROM audit_entry WHERE target = 'team 1' ORDER BY id")
    assert [(actor, action) for actor, action, _ in notes] == [
        ("user:3 Olga", "change team"),
        ("user:3 Olga", "hand over team"),
    ]
    assert "Rude words" in notes[0][2]
    assert json.loads(notes[1][2])["founder_id"] == 1


def test_the_type_and_the_html_name_of_a_team_are_its_founder_s_choice(world: World) -> None:
    world.user("ada")
    ada = Visitor(world).log_in("ada")
    html_name = "<b onclick=x()>Sunny</b> &amp; <script>warm"
    page = send(ada, "/team_create.php", name="Sunny", type="4", name_html=html_name).headers["location"]
    assert world.query("SELECT type, name_html FROM team") == [(4, html_name)]
    shown = ada.get(page).text
    assert "Secondary school" in shown
    assert "Sunny &amp; warm" in shown
    assert "onclick" not in shown
    assert "<script>warm" not in shown
    assert form_of(ada, "/team_edit.php?teamid=1")[1]["type"] == "4"
    assert send(ada, "/team_edit.php?teamid=1", type="6").status_code == 303
    assert world.query("SELECT type, name_html FROM team") == [(6, html_name)]
    for bad in ("8", "", "x"):
        assert send(ada, "/team_edit.php?teamid=1", type=bad).status_code == 422
    assert send(ada, "/team_edit.php?teamid=1", name_html="x" * 256).status_code == 422
    # A form without a type leaves it as it is.
    assert send(ada, "/team_edit.php?teamid=1", without=("type",)).status_code == 303
    assert world.query("SELECT type, name_html FROM team") == [(6, html_name)]


def test_credit_by_app_follows_the_ledger_and_sorts_the_lists(world: World) -> None:
    one, two = world.add_app("one"), world.add_app("two")
    for user, app in (("ada", one), ("bruno", two)):
        host = world.host(world.user(user))
        world.add_jobs(app)
        host.rpc(ask=1.0)
        (name,) = host.new_results()
        world.now += 500
        host.rpc(reports=[host.finish(name, b"answer", cpu_time=400.0)])
        world.settle()
    world.now += 100
    while world.run(follow_app_credit(world.ctx)):
        pass
    sums = dict(world.query("SELECT owner_id, total_credit FROM app_credit WHERE owner = 'user'"))
    assert sums == dict(world.query("SELECT user_id, sum(granted) FROM credit_entry GROUP BY user_id"))
    assert world.run(follow_app_credit(world.ctx)) == 0
    visitor = Visitor(world)
    everybody = text_of(visitor.get("/top_users.php?by=total"))
    assert "Ada" in everybody
    assert "Bruno" in everybody
    only = text_of(visitor.get(f"/top_users.php?by=recent&appid={two.id}"))
    assert "Bruno" in only
    assert "Ada" not in only
    assert visitor.get("/top_users.php?by=height").status_code == 404
    assert visitor.get("/top_hosts.php?appid=99").status_code == 404
    page = text_of(visitor.get(f"/app.php?appid={one.id}"))
    assert "100 %" in page
    assert "Ada" in page


def test_tasks_are_filtered_by_app_and_computer(world: World) -> None:
    one, two = world.add_app("one"), world.add_app("two")
    key = world.user("ada")
    host = world.host(key)
    world.add_jobs(one, 2)
    world.add_jobs(two, 1)
    host.rpc(ask=10_000.0)
    visitor = Visitor(world).log_in("ada")

    def shown(query: str) -> int:
        return len(html.fromstring(visitor.get(f"/results.php?{query}").text).xpath("//main//tbody/tr"))

    assert shown("") == 3
    assert shown(f"appid={one.id}") == 2
    assert shown(f"hostid={host.id}&appid={two.id}&state=in_progress") == 1
    assert shown(f"hostid={host.id}&appid={two.id}&state=valid") == 0
