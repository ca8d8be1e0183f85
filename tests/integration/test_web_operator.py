"""Pages of operators: who may open them, what they show, and what their forms do."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from lxml import html
from tests.helpers.project_world import URL, World, failed
from tests.helpers.visitors import Visitor, text_of
from tests.helpers.volunteers import Volunteers, email, fetch, populate

from cobblestone.domain.people import SubmitRights
from cobblestone.domain.values import UserId
from cobblestone.domain.work import ReplicationRules
from cobblestone.server.operation.alerts import Watcher
from cobblestone.server.web.presentation.plots import rate_per_hour, sparkline, thinned
from cobblestone.store.engine.database import Transaction
from cobblestone.store.operation import figures, interventions
from cobblestone.store.operation.figures import FigureSample
from cobblestone.store.work import submitters
from cobblestone.wire.scheduler.host import CoprocRequest


@dataclass(frozen=True, slots=True)
class Village:
    """A populated project; Ada runs it."""

    world: World
    people: Volunteers
    visitors: dict[str, Visitor]

    @property
    def operator(self) -> Visitor:
        return self.visitors["ada"]

    def audit(self) -> list[tuple[str, str, str]]:
        return self.world.query("SELECT actor, action, target FROM audit_entry ORDER BY id")

    def act(self, page: str, action: str, **fields: str) -> int:
        """Send the form of an action from a page, as it stands there."""
        tree = html.fromstring(self.operator.get(page).text)
        for form in tree.xpath("//form[@class='act']"):
            hidden = {
                item.get("name"): item.get("value") for item in form.xpath(".//input[@name and @value]")
            }
            hidden.pop("abort_jobs", None)
            if hidden.get("action") == action:
                return self.operator.post(form.get("action"), **{**hidden, **fields}).status_code
        raise AssertionError(f"{page} has no form for {action}")


@pytest.fixture
def village(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Village]:
    world = World(tmp_path_factory.mktemp("village") / "project")
    people = populate(world, random.Random(3))
    world.write(lambda tx: interventions.set_role(tx, people.user_ids["ada"], "operator"))
    visitors = {
        "nobody": Visitor(world),
        "bruno": Visitor(world).log_in("bruno"),
        "ada": Visitor(world).log_in("ada"),
    }
    yield Village(world=world, people=people, visitors=visitors)
    for visitor in visitors.values():
        world.run(visitor.http.aclose())
    world.close()


PAGES = (
    "/ops.php",
    "/ops.php?part=live",
    "/ops_search.php",
    "/ops_search.php?q=demo",
    "/ops_batch.php?id=1",
    "/ops_workunit.php?id=1",
    "/ops_host.php?id=1",
    "/ops_user.php?id={bruno}",
    "/ops_versions.php",
    "/ops_news.php",
    "/ops_news.php?id=1",
    "/ops_errors.php?version=1",
    "/ops_audit.php",
    "/ops_audit.php?target=host+1",
)


def test_only_operators_open_the_pages(village: Village):
    for page in PAGES:
        address = page.format(**village.people.user_ids)
        found = {who: visitor.get(address).status_code for who, visitor in village.visitors.items()}
        assert found == {"nobody": 303, "bruno": 403, "ada": 200}, page
        assert village.visitors["nobody"].get(address).headers["location"].startswith("/login.php?next=ops")


def test_only_operators_act_and_only_with_a_token(village: Village):
    user_id = str(village.people.user_ids["bruno"])
    wish = {"action": "block_host", "id": "1", "reason": "because I can"}
    assert village.visitors["nobody"].post("/ops_do.php", **wish).status_code == 303
    assert village.visitors["bruno"].post("/ops_do.php", **wish).status_code == 403
    assert village.operator.post("/ops_do.php", **wish).status_code == 403
    token = html.fromstring(village.visitors["bruno"].get("/home.php").text).xpath(
        "//input[@name='form_token']/@value"
    )[0]
    assert village.visitors["bruno"].post("/ops_do.php", form_token=token, **wish).status_code == 403
    assert village.operator.post("/ops_do.php", form_token=token, **wish).status_code == 403
    assert village.operator.get("/ops_do.php").status_code == 405
    assert village.audit() == []
    assert village.world.value("SELECT blocked_reason FROM host WHERE id = 1") == ""
    assert village.world.value("SELECT role FROM user_account WHERE id = ?", int(user_id)) == ""


def test_the_way_to_the_pages_is_shown_to_operators_only(village: Village):
    assert "ops.php" in village.operator.get("/").text
    assert "ops.php" not in village.visitors["bruno"].get("/").text


def test_a_host_is_blocked_with_a_reason_and_gets_work_again(village: Village):
    assert village.act("/ops_host.php?id=1", "block_host", reason="  Its   memory is broken ") == 303
    page = text_of(village.operator.get("/ops_host.php?id=1"))
    assert "Gets no work: Its memory is broken" in page
    assert "block host" in page
    assert village.act("/ops_host.php?id=1", "unblock_host") == 303
    assert village.world.value("SELECT blocked_reason FROM host WHERE id = 1") == ""
    assert village.act("/ops_host.php?id=1", "block_host", reason=" ") == 409
    ada = f"user:{village.people.user_ids['ada']} Ada"
    assert village.audit() == [(ada, "block host", "host 1"), (ada, "unblock host", "host 1")]


def test_roles_are_given_but_not_taken_from_oneself(village: Village):
    bruno, ada = village.people.user_ids["bruno"], village.people.user_ids["ada"]
    assert village.act(f"/ops_user.php?id={bruno}", "set_role") == 303
    assert village.visitors["bruno"].get("/ops.php").status_code == 200
    assert village.act(f"/ops_user.php?id={bruno}", "set_role") == 303
    assert village.visitors["bruno"].get("/ops.php").status_code == 403
    token = html.fromstring(village.operator.get("/ops_audit.php").text).xpath(
        "//input[@name='form_token']/@value"
    )[0]
    answer = village.operator.post("/ops_do.php", form_token=token, action="set_role", id=str(ada), role="")
    assert answer.status_code == 409
    assert village.operator.get("/ops.php").status_code == 200


def test_an_account_is_allowed_to_submit_and_no_more(village: Village):
    bruno = village.people.user_ids["bruno"]
    page, app = f"/ops_user.php?id={bruno}", village.world.value("SELECT name FROM app ORDER BY id LIMIT 1")
    hidden = {"all_apps": "", "max_jobs": "20", "share": "1.5"}
    names = village.world.query("SELECT name FROM app")
    none = {f"app {name}": "" for (name,) in names}
    assert village.act(page, "set_rights", **hidden, **{**none, f"app {app}": "1"}) == 303
    held = village.world.ctx.store.read(lambda db: submitters.submitter_of(db, UserId(bruno)))
    assert held is not None
    assert held.rights == SubmitRights(apps=(app,), max_jobs=20, share=1.5)
    assert "may submit jobs, and has 0 unfinished" in text_of(village.operator.get(page))
    assert village.act(page, "set_rights", **{**hidden, "all_apps": "1"}) == 303
    assert village.act(page, "set_rights", **{**hidden, "max_jobs": "many"}) == 409
    assert village.act(page, "withdraw_rights") == 303
    assert "This account may not submit jobs." in text_of(village.operator.get(page))
    assert village.act(page, "set_rights", **hidden, **none) == 409
    assert [entry[1:] for entry in village.audit()] == [("set rights to submit", f"user {bruno}")] * 3


def test_an_account_is_deleted_only_when_its_number_is_typed(village: Village):
    bruno = village.people.user_ids["bruno"]
    assert village.act(f"/ops_user.php?id={bruno}", "delete_user", confirm="7777") == 409
    assert village.world.value("SELECT erase_time FROM user_account WHERE id = ?", bruno) is None
    assert village.act(f"/ops_user.php?id={bruno}", "delete_user", confirm=str(bruno)) == 303
    assert village.world.value("SELECT erase_time FROM user_account WHERE id = ?", bruno) == village.world.now


def test_a_batch_is_cancelled_and_a_workunit_tried_again(village: Village):
    batch = village.world.value("SELECT MAX(id) FROM batch")
    workunit = village.world.value(
        "SELECT MAX(id) FROM workunit WHERE completed_seq IS NULL AND error_mask = 0"
    )
    assert village.act(f"/ops_workunit.php?id={workunit}", "retry_workunit") == 303
    assert village.act(f"/ops_workunit.php?id={workunit}", "cancel_workunit") == 303
    assert village.act(f"/ops_batch.php?id={batch}", "cancel_batch") == 303
    page = village.operator.get(f"/ops_batch.php?id={batch}")
    (state,) = html.fromstring(page.text).xpath("//dt[.='State']/following-sibling::dd[1]/text()")
    assert state == "cancelled"
    assert ": The project cancelled it." in text_of(page)
    assert "cancelled ·" in text_of(village.operator.get("/ops.php"))
    assert [entry[1] for entry in village.audit()] == ["retry workunit", "cancel workunit", "cancel batch"]


def rows_of_failures(village: Village, address: str) -> list[list[str]]:
    """The cells of the table of failures of a page."""
    tree = html.fromstring(village.operator.get(address).text)
    heading = "//table[thead//th='Last line of its output']/tbody/tr"
    return [
        [" ".join(cell.text_content().split()) for cell in row.xpath("td")] for row in tree.xpath(heading)
    ]


def test_one_click_leads_from_the_overview_to_why_the_results_of_a_version_failed(village: Village):
    world = village.world
    broken = world.query(
        "SELECT id, host_id, app_version_id FROM result WHERE outcome = 3 AND exit_status = 1 ORDER BY id DESC"
    )
    host_id, version_id = broken[0][1:]
    overview = html.fromstring(village.operator.get("/ops.php").text)
    assert f"ops_errors.php?version={version_id}" in overview.xpath("//a/@href")
    (row,) = rows_of_failures(village, f"/ops_errors.php?version={version_id}")
    assert row[0] == "Error Exit status 1 (0x1)."
    assert row[1] == "MemoryError: cannot allocate <2.1 GB>"
    assert row[3:7] == [
        str(len(broken)), str(len(broken)), str(host_id), ", ".join(str(found[0]) for found in broken[:3])
    ]  # fmt: skip
    page = text_of(village.operator.get(f"/ops_errors.php?version={version_id}"))
    assert "Errors of mersenne" in page
    assert village.operator.get("/ops_errors.php?version=987654").status_code == 404
    assert village.operator.get("/ops_errors.php").status_code == 404


def test_failures_that_differ_in_numbers_only_stand_together(village: Village):
    world = village.world
    results = world.query("SELECT id, app_version_id FROM result WHERE outcome = 3 AND exit_status = 1")
    version_id = results[0][1]
    assert len(results) >= 2
    for (result_id, _), said in zip(results, ("lost 12 of 0x7ffe", "lost 9 of 0x1"), strict=False):
        packed = zlib.compress(f"{said}\ncobblestone: it exited with status 1\n".encode())
        world.write(lambda tx, id_=result_id, text=packed: _say(tx, id_, text))
    (row,) = rows_of_failures(village, f"/ops_errors.php?version={version_id}")
    assert [row[1], row[3]] == ["lost 9 of 0x1", str(len(results))]
    world.write(lambda tx: _say(tx, results[0][0], zlib.compress(b"no space left\n")))
    assert {row[1] for row in rows_of_failures(village, f"/ops_errors.php?version={version_id}")} == {
        "no space left", "lost 9 of 0x1"
    }  # fmt: skip


def _say(tx: Transaction, result_id: int, packed: bytes) -> None:
    assert tx.execute("UPDATE result_text SET stderr = ? WHERE result_id = ?", (packed, result_id)) == 1


def test_only_the_newest_failures_are_looked_at_and_the_page_says_so(
    village: Village, monkeypatch: pytest.MonkeyPatch
):
    version_id = village.world.value(
        "SELECT app_version_id FROM result WHERE outcome = 3 AND exit_status = 1"
    )
    address = f"/ops_errors.php?version={version_id}"
    assert "There are more failures" not in text_of(village.operator.get(address))
    monkeypatch.setattr(figures, "FAILURES_READ", 1)
    assert [row[3] for row in rows_of_failures(village, address)] == ["1"]
    assert "There are more failures" in text_of(village.operator.get(address))
    monkeypatch.setattr(figures, "RATE_WINDOW", 1)
    assert "No task failed." in text_of(village.operator.get(address))


def test_a_batch_says_why_its_jobs_failed(village: Village):
    world = village.world
    app = world.add_app(
        "transit", rules=ReplicationRules(min_quorum=1, target_nresults=1, max_error_results=1)
    )
    batch = world.add_jobs(app, 2)
    address = f"/ops_batch.php?id={batch.id}"
    assert "Why jobs failed" not in text_of(village.operator.get(address))
    for n, owner in enumerate(("ada", "bruno"), 1):
        host = world.host(village.people.keys[owner], domain_name="basalt")
        host.rpc()
        said = f"no light in frame {n}"
        world.now += 90
        names = [name for name in fetch(host) if name.startswith("transit")]
        assert len(names) == 2
        host.rpc(reports=[failed(name, exit_status=9, stderr=f"{said}\n") for name in names])
        world.settle()
        (row,) = rows_of_failures(village, address)
        assert row[:2] == ["Error Exit status 9 (0x9).", said]
        assert row[2:5] == ["transit 1.00 anyLinux Debian", str(2 * n), "2"]
        assert str(host.id) in row[5].split(", ")
        page = text_of(village.operator.get(address))
        assert ("2 jobs: It failed on too many computers." in page) == (n == 2), "others may try before"


def test_people_computers_and_jobs_are_found_in_any_case(village: Village):
    world = village.world
    host_id, host_name = world.query("SELECT id, domain_name FROM host WHERE domain_name <> '' ORDER BY id")[
        0
    ]
    user_id = village.people.user_ids["bruno"]
    workunit_id = world.value("SELECT MAX(id) FROM workunit")

    def rename(tx: Transaction) -> None:
        tx.execute("UPDATE user_account SET name = 'Žofia McKay' WHERE id = ?", (user_id,))
        tx.execute("UPDATE workunit SET label = 'Scan_ÉTÉ-07.fits' WHERE id = ?", (workunit_id,))

    world.write(rename)

    def found(text: str) -> list[tuple[str, int]]:
        hits = world.ctx.store.read(lambda db: interventions.search(db, text))
        assert len({(hit.kind, hit.id) for hit in hits}) == len(hits), "each once"
        return [(hit.kind, hit.id) for hit in hits]

    for text in ("Žofia McKay", "žofia mck", "ŽOFIA"):
        assert found(text) == [("user", user_id)], text
    for text in ("scan_été", "SCAN_ÉTÉ-07.FITS", "Scan"):
        assert found(text) == [("workunit", workunit_id)], text
    for text in (host_name.upper(), host_name.title(), host_name.lower()):
        assert ("host", host_id) in found(text), text
    assert found("%") == found("_") == found("zofia") == []
    answer = village.operator.get("/ops_search.php?q=žofia")
    assert answer.headers["location"].endswith(f"ops_user.php?id={user_id}")


def test_a_version_is_rolled_out_in_stages_held_and_withdrawn(village: Village):
    assert village.act("/ops_versions.php", "rollout", stages="5, 100") == 303
    assert village.world.value("SELECT COUNT(*) FROM app_version WHERE rollout_fraction = 0.05") == 1
    assert "for 5" in text_of(village.operator.get("/ops_versions.php"))
    assert village.act("/ops_versions.php", "rollout", stages="50,5") == 409
    assert village.act("/ops_versions.php", "rollout", stages="a lot") == 409
    assert village.act("/ops_versions.php", "rollout", stages="nan") == 409
    assert village.act("/ops_versions.php", "hold") == 303
    assert village.act("/ops_versions.php", "roll_back") == 303
    page = text_of(village.operator.get("/ops_versions.php"))
    assert "withdrawn" in page


def test_news_reach_pages_and_feed_as_they_were_typed_are_edited_and_withdrawn(village: Village):
    desk = village.operator
    text = "We looked for x < y & found it.\r\n\r\nNext: <b>more</b>."
    assert desk.send("/ops_news.php", title="  First \n light ", text=text).status_code == 303
    number = village.world.value("SELECT MAX(id) FROM news")
    assert "We looked for x < y & found it. Next: <b>more</b>." in text_of(desk.get(f"/news.php?id={number}"))
    feed = village.world.get("/rss_main.php").text
    assert "<title>First light</title>" in feed
    assert "x &lt; y &amp; found it.</p>" in feed
    assert "<p>Next: &lt;b&gt;more&lt;/b&gt;.</p>" in feed
    assert desk.send(f"/ops_news.php?id={number}", title="Second light", text="More").status_code == 303
    feed = village.world.get("/rss_main.php").text
    assert "First light" not in feed
    assert f"news.php?id={number}</guid>" in feed, "the same piece of news"
    assert desk.send(f"/ops_news.php?id={number}", action="withdraw", title="", text="").status_code == 303
    assert "Second light" not in village.world.get("/rss_main.php").text
    assert desk.get(f"/news.php?id={number}").status_code == 404
    assert [entry[1:] for entry in village.audit()] == [
        (action, f"news {number}") for action in ("publish news", "edit news", "withdraw news")
    ]


def test_what_is_wrong_with_news_is_told_and_what_was_typed_stays(village: Village):
    answer = village.operator.send("/ops_news.php", title="", text="half a day's work")
    assert answer.status_code == 422
    assert "This is empty." in text_of(answer)
    assert "half a day's work" in text_of(answer)
    assert village.operator.send("/ops_news.php", title="t" * 201, text="x").status_code == 422
    assert village.operator.send("/ops_news.php", title="t", text="€" * 20_000 + "\a").status_code == 303
    assert village.operator.send("/ops_news.php", title="t", text="€" * 40_000).status_code == 413
    assert village.operator.get("/ops_news.php?id=987").status_code == 404
    assert [entry[1] for entry in village.audit()] == ["publish news"]


def test_only_operators_write_news_and_only_with_a_token(village: Village):
    wish = {"action": "publish", "title": "t", "text": "t"}
    assert village.visitors["nobody"].post("/ops_news.php", **wish).status_code == 303
    assert village.visitors["bruno"].post("/ops_news.php", **wish).status_code == 403
    assert village.operator.post("/ops_news.php", **wish).status_code == 403
    assert village.operator.post("/ops_news.php?id=1", **{**wish, "action": "withdraw"}).status_code == 403
    assert village.world.value("SELECT COUNT(*) FROM news") == 2
    assert village.audit() == []


def test_a_user_is_sent_a_link_for_a_new_password_in_their_language(village: Village):
    bruno = village.people.user_ids["bruno"]
    village.world.write(
        lambda tx: tx.execute("UPDATE user_account SET language = 'sk' WHERE id = ?", (bruno,))
    )
    assert village.act(f"/ops_user.php?id={bruno}", "send_reset") == 303
    ((recipient, body),) = village.world.query("SELECT recipient, body FROM mail ORDER BY id DESC LIMIT 1")
    assert recipient == email("bruno")
    assert "Dobrý deň, Bruno" in body
    assert village.visitors["bruno"].get("/home.php").status_code == 200, "nothing has changed yet"
    link = next(line for line in body.splitlines() if "password_new.php" in line)
    answer = village.visitors["nobody"].send(link.removeprefix(URL[:-1]), new_passwd="a new password")
    assert answer.status_code == 303, text_of(answer)
    ada = f"user:{village.people.user_ids['ada']} Ada"
    assert village.audit() == [(ada, "send password reset", f"user {bruno}")]


def test_the_audit_log_shows_what_changed(village: Village):
    village.act("/ops_host.php?id=1", "block_host", reason="Its memory is broken")
    village.act("/ops_versions.php", "rollout", stages="5, 100")
    page = text_of(village.operator.get("/ops_audit.php"))
    assert "blocked → Its memory is broken" in page
    assert "fraction 1.0 → 0.05" in page
    assert "max error rate" not in page, "as before"
    french = text_of(village.operator.get("/ops_audit.php", headers={"Accept-Language": "fr"}))
    assert "bloquer l'ordinateur" in french
    assert "block host" not in french


def test_a_search_leads_to_the_thing(village: Village):
    found = village.operator.get("/ops_search.php?q=Ada")
    assert found.status_code in (200, 303)
    assert village.operator.get("/ops_search.php?q=nothing-like-this").status_code == 200
    name = village.world.value("SELECT name FROM batch LIMIT 1")
    assert name in village.operator.get(f"/ops_search.php?q={name}").text


def test_things_that_do_not_exist_are_told(village: Village):
    for page in ("ops_batch", "ops_workunit", "ops_host", "ops_user"):
        assert village.operator.get(f"/{page}.php?id=987654").status_code == 404
        assert village.operator.get(f"/{page}.php?id=x").status_code == 404
        assert village.operator.get(f"/{page}.php").status_code == 404


def test_the_overview_draws_what_was_sampled(village: Village):
    watcher = Watcher(village.world.ctx)
    for _ in range(4):
        village.world.run(watcher.step())
        village.world.now += 301
    tree = html.fromstring(village.operator.get("/ops.php").text)
    assert len(tree.xpath("//svg[@class='spark']/polyline")) >= 8
    assert "disk" in text_of(village.operator.get("/ops.php?part=live"))


def test_the_overview_lists_the_graphics_cards_of_computers_that_called_within_a_month(village: Village):
    world, key = village.world, village.people.keys["bruno"]

    def call(name: str, ram: float, kind: str = "NVIDIA") -> None:
        host = world.host(key, domain_name=f"{name}{ram}")
        card = CoprocRequest(type=kind, name=name, ram=ram, peak_flops=1e12)
        host.request = replace(host.request, coprocs=(card,))
        host.rpc()

    call("Old <b>", 2e9)
    world.now += 31 * 86400
    for ram in (8.1e9, 7.9e9, 16e9):
        call("RTX", ram)
    call("Radeon", 4e9, "ATI")
    world.write(lambda tx: tx.execute("UPDATE app_version SET plan_class = 'gpu-nvidia'"))
    operator = Visitor(world).log_in("ada")  # the session of before has ended
    page = operator.get("/ops.php")
    tree = html.fromstring(page.text)
    world.run(operator.http.aclose())
    rows = tree.xpath("//h2[.='Graphics cards over the last month']/following-sibling::table/tbody/tr")
    assert [[cell.text_content() for cell in row] for row in rows] == [
        ["RTX", "NVIDIA", "8.0 GB", "2"],
        ["RTX", "NVIDIA", "16.0 GB", "1"],
        ["Radeon", "ATI", "4.0 GB", "1"],
    ]
    told = tree.xpath("//h2[.='Graphics cards over the last month']/following-sibling::p/text()")
    assert {each.partition(" ")[2] for each in told} == {
        "has no version for AMD, whose cards have 25 % of the peak speed of all (1 computer)."
    }


# -- drawings ------------------------------------------------------------------------------------------


def test_rates_are_differences_of_counters_and_a_restart_begins_at_zero():
    samples = [FigureSample(t * 3600.0, {"n": value}) for t, value in enumerate([100, 250, 20, 20])]
    assert rate_per_hour(samples, "n") == [(3600, 150), (7200, 20), (10800, 0)]
    assert rate_per_hour(samples, "missing") == []


def test_a_line_stays_inside_of_its_drawing():
    drawn = sparkline([(0, 5), (10, 0), (20, 10)])
    points = [tuple(map(float, point.split(","))) for point in drawn.points.split()]
    assert all(0 <= x <= 140 and 0 <= y <= 30 for x, y in points)
    assert (drawn.last, drawn.least, drawn.most) == (10, 0, 10)
    assert sparkline([]).points == ""
    assert sparkline([(1, 1)]).points == ""
    assert len(sparkline([(0, 0), (1, 0)]).points.split()) == 2


def test_many_samples_are_thinned_and_the_newest_is_kept():
    samples = [FigureSample(float(t), {}) for t in range(1000)]
    chosen = thinned(samples)
    assert len(chosen) <= 140
    assert chosen[-1].time == 999


def test_the_desk_says_when_older_news_are_not_listed(village: Village):
    def publish(tx: Transaction) -> None:
        tx.execute_many(
            "INSERT INTO news (title, text, time) VALUES (?, '', ?)", [(f"n{n}", float(n)) for n in range(51)]
        )

    assert "newest 50" not in text_of(village.operator.get("/ops_news.php"))
    village.world.write(publish)
    page = text_of(village.operator.get("/ops_news.php"))
    assert "The newest 50 are listed" in page
    assert "n50" in page
    oldest = village.world.value("SELECT id FROM news WHERE title = 'n0'")
    assert village.operator.get(f"/ops_news.php?id={oldest}").status_code == 200
