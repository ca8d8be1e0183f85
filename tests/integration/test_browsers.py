"""Browsers that compute: their jobs, their credit, and what a hostile one can do."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.helpers.browser import API, Browser, release
from tests.helpers.project_world import World, succeeded

from cobblestone.domain import pyodide
from cobblestone.domain.apps import App, AppDispatch
from cobblestone.domain.errors import ConfigError
from cobblestone.domain.values import UserId
from cobblestone.domain.work import JobLimits, ReplicationRules
from cobblestone.launcher.packing import PYODIDE_DESCRIPTION_FILE
from cobblestone.server.accounts.service import account_ticket
from cobblestone.store.catalog import apps
from cobblestone.store.people import users

SMALL = JobLimits(rsc_fpops_est=1e11)
VISITORS = "SELECT total_credit FROM user_account WHERE email_addr = 'visitors@browsers.invalid'"


def demo(
    world: World, *, quorum: int = 2, limits: JobLimits = SMALL, dispatch: AppDispatch | None = None
) -> App:
    """An app that browsers compute beside native hosts."""
    app = world.add_app(quorum=quorum, limits=limits, dispatch=dispatch)
    release(world, app)
    return app


@pytest.mark.both_databases
def test_a_browser_and_a_native_host_confirm_each_other_and_both_are_credited(world: World):
    batch = world.add_jobs(demo(world))
    browser, host = Browser(world), world.host(world.user("alice"))
    (job,) = browser.ask()["jobs"]
    assert job["module"]["open_name"] == "counting.wasm"
    assert world.get(job["module"]["url"]).content == b"\0asm"
    assert [file["open_name"] for file in job["files"]] == ["cobblestone_wasm.txt"]
    host.rpc(ask=1)
    (name,) = host.new_results()
    browser.finish(job, b"same bits")
    host.rpc(reports=[host.finish(name, b"same bits")])
    world.settle()
    assert world.query("SELECT validate_state, granted_credit > 0 FROM result") == [(1, 1), (1, 1)]
    assert world.value("SELECT state FROM batch WHERE id = ?", batch.id) == 2
    standing = browser.call("GET", "/me").json()
    assert standing["total_credit"] == world.value(VISITORS) > 0
    assert standing["account"] == ""


def test_whoever_is_logged_in_has_the_credit(world: World):
    world.add_jobs(demo(world))
    world.user("alice")
    user = world.ctx.store.read(lambda db: users.user_by_id(db, UserId(1)))
    assert user is not None
    browser, host = Browser(world, account=account_ticket(world.ctx, user)), world.host(world.user("bob"))
    (job,) = browser.ask()["jobs"]
    host.rpc(ask=1)
    host.rpc(reports=[host.finish(host.new_results()[0], b"same")])
    browser.finish(job, b"same")
    world.settle()
    assert browser.call("GET", "/me").json()["account"] == "Alice"
    assert world.value("SELECT total_credit FROM user_account WHERE id = 1") > 0
    ticket = account_ticket(world.ctx, user)
    # not its last letter, of which not every bit counts
    for wrong in ("rubbish", ticket[:-9] + ("A" if ticket[-9] != "A" else "B") + ticket[-8:]):
        assert world.post(API, json={"account": wrong}).status_code == 401
    world.now += (
        2 * 86400
    )  # (the ticket's own time is that of the machine: it is the user's session that ends here)
    world.write(lambda tx: tx.execute("UPDATE user_account SET session_epoch = session_epoch + 1"))
    assert world.post(API, json={"account": account_ticket(world.ctx, user)}).status_code == 401


@pytest.mark.both_databases
def test_two_browsers_never_make_a_quorum(world: World):
    app = demo(world)
    world.add_jobs(app)
    first, second = Browser(world), Browser(world, address="198.51.100.1")
    world.user("alice")
    user = world.ctx.store.read(lambda db: users.user_by_id(db, UserId(2)))
    assert user is not None
    assert user.name == "Alice"
    third = Browser(world, account=account_ticket(world.ctx, user), address="203.0.113.1")
    (job,) = first.ask()["jobs"]
    assert second.ask()["jobs"] == third.ask()["jobs"] == []
    first.finish(job, b"a lie")
    world.settle()
    release(world, app)  # a new version, by which the old one is not used any more
    reply = third.ask()
    assert reply["jobs"] == []
    assert any(
        "not for this browser" in text for text in reply["messages"]
    )  # by that rule, not for want of tasks
    assert world.value("SELECT COUNT(*) FROM result WHERE granted_credit > 0") == 0


def test_a_lie_is_found_out_and_brings_nothing(world: World):
    world.add_jobs(demo(world))
    browser = Browser(world)
    browser.finish(browser.ask()["jobs"][0], b"a lie", given_up=False)
    for name in ("alice", "bob"):
        host = world.host(world.user(name))
        host.rpc(ask=1)
        host.rpc(reports=[host.finish(host.new_results()[0], b"the truth")])
        world.settle()
    verdicts = world.query("SELECT validate_state, granted_credit > 0 FROM result ORDER BY host_id")
    assert verdicts == [(2, 0), (1, 1), (1, 1)]
    assert world.value(VISITORS) == 0


def test_an_app_of_commands_which_runs_anywhere_does_not_run_in_browsers(world: World):
    demo(world)
    world.add_jobs(world.add_app("command", quorum=2, limits=SMALL))
    assert Browser(world).ask()["jobs"] == []


def test_what_nobody_would_check_or_what_takes_too_long_is_not_for_browsers(world: World):
    alone = demo(world, quorum=1)
    world.add_jobs(alone)
    browser = Browser(world)
    reply = browser.ask()
    assert reply["jobs"] == []
    assert any("always checked by another computer" in text for text in reply["messages"])
    long = world.add_app("long", quorum=2, limits=JobLimits(rsc_fpops_est=1e14))
    release(world, long)
    world.add_jobs(long)
    reply = browser.ask()
    assert reply["jobs"] == []
    assert any("longer than an hour" in text for text in reply["messages"])


def test_adaptive_replication_asks_for_a_second_computer_as_for_any_newcomer(world: World):
    app = demo(world, dispatch=AppDispatch(adaptive=True))
    world.add_jobs(app, rules=ReplicationRules(min_quorum=1, target_nresults=1))
    browser = Browser(world)
    browser.finish(browser.ask()["jobs"][0], b"mine")
    world.settle()
    assert world.value("SELECT min_quorum FROM workunit") == 2
    assert world.value("SELECT COUNT(*) FROM result WHERE granted_credit > 0") == 0


def test_a_job_is_for_hours_and_a_lost_one_comes_again(world: World):
    world.add_jobs(demo(world, limits=JobLimits(rsc_fpops_est=1e11, delay_bound=7 * 86400)))
    browser = Browser(world)
    (job,) = browser.ask()["jobs"]
    assert job["deadline"] == world.now + 6 * 3600
    browser.held.clear()  # the browser's storage was emptied
    assert [each["name"] for each in browser.ask()["jobs"]] == [job["name"]]
    browser.report(job["name"], given_up=True)
    assert world.value("SELECT outcome FROM result WHERE name = ?", job["name"]) == 3
    assert world.value("SELECT exit_status FROM result WHERE name = ?", job["name"]) == 203


def test_the_page_is_cut_off_from_other_sites_and_its_thread_alone_may_compile(world: World):
    demo(world)
    page = world.get("/compute")
    assert page.headers["cross-origin-embedder-policy"] == "require-corp"
    assert page.headers["cross-origin-opener-policy"] == "same-origin"
    assert "wasm" not in page.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    worker = re.search(r'data-worker="([^"]+)"', page.text)
    assert worker is not None
    script = world.get(worker[1])
    assert (
        script.headers["content-security-policy"]
        == "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'"
    )
    assert script.headers["cross-origin-embedder-policy"] == "require-corp"
    for name in ("wasi.js", "compute.js", "live.js"):
        assert "wasm" not in world.get(f"/static/{name}").headers["content-security-policy"]


def test_only_sites_that_the_operator_names_may_frame_the_button(world: World, tmp_path: Path):
    demo(world)
    assert world.get("/compute_frame").status_code == 404
    named = World(
        tmp_path / "named", browsers={"origins": ["https://lab.example.org", "http://localhost:8000"]}
    )
    try:
        demo(named)
        page = named.get("/compute_frame")
        policy = page.headers["content-security-policy"]
        assert policy.endswith("frame-ancestors https://lab.example.org http://localhost:8000")
        assert "x-frame-options" not in page.headers
        assert 'data-ticket=""' in page.text
        assert named.get("/compute").headers["x-frame-options"] == "DENY"
    finally:
        named.close()
    for origin in (
        "*",
        "https://a b",
        "https://lab.example.org/path",
        "lab.example.org",
        "https://x; script-src *",
    ):
        with pytest.raises(ConfigError):
            World(tmp_path / "wrong", browsers={"origins": [origin]})


def test_the_page_says_what_is_missing(world: World, tmp_path: Path):
    assert "no work for browsers" in world.get("/compute").text
    closed = World(tmp_path / "closed", browsers={"visitors": False})
    try:
        demo(closed)
        assert "login.php?next=compute" in closed.get("/compute").text
        assert "Start computing" not in closed.get("/compute").text
        assert "Compute in a browser tab" in closed.get("/").text
    finally:
        closed.close()


# -------------------------------------------------------------------------------------------- hostile tabs


def test_the_job_of_another_browser_cannot_be_reported(world: World):
    world.add_jobs(demo(world))
    owner, thief = Browser(world), Browser(world)
    (job,) = owner.ask()["jobs"]
    for name in (job["name"], "no_such_job_0"):
        assert thief.call("POST", "/reports", {"name": name, "exit_status": 0}).status_code == 404
    assert (
        world.value("SELECT server_state FROM result WHERE name = ?", job["name"]) == 4
    )  # still in progress
    owner.finish(job, b"mine")
    assert world.value("SELECT server_state FROM result WHERE name = ?", job["name"]) == 5


def test_a_report_that_is_sent_again_counts_once(world: World):
    world.add_jobs(demo(world))
    browser, host = Browser(world), world.host(world.user("alice"))
    (job,) = browser.ask()["jobs"]
    host.rpc(ask=1)
    host.rpc(reports=[succeeded(host.new_results()[0])])
    host.rpc(ask=1)
    for _ in range(3):
        browser.finish(job, b"mine")
    world.settle()
    assert world.value("SELECT COUNT(*) FROM result WHERE server_state = 5 AND outcome = 1") == 1
    assert "<status>-1</status>" in browser.upload(job, b"another")[0]  # nor is an output replaced


def test_uploads_are_bound_to_the_job_and_to_its_size(world: World):
    world.add_jobs(demo(world))
    browser = Browser(world)
    (job,) = browser.ask()["jobs"]
    (output,) = job["outputs"]
    huge = output["upload_header"].replace("{nbytes}", str(output["max_nbytes"] + 1))
    assert "<status>-1</status>" in world.post(job["upload_url"], content=huge.encode()).text
    for forged in (
        output["upload_header"].replace("_0</name>", "_1</name>"),
        output["upload_header"].replace(str(output["max_nbytes"]), str(10 * output["max_nbytes"])),
    ):
        body = forged.replace("{nbytes}", "4").encode() + b"evil"
        assert "<status>-1</status>" in world.post(job["upload_url"], content=body).text
    assert world.value("SELECT COUNT(*) FROM upload") == 0


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/work", {"wanted": 10**9}),
        ("/work", {"wanted": 1, "threads": 65}),
        ("/work", {"wanted": 1, "held": ["x" * 300]}),
        ("/work", {"wanted": 1, "held": ["x"] * 1000}),
        ("/work", {"wanted": 1, "memory": 1e300}),
        ("/reports", {"name": "x", "exit_status": 2**40}),
        ("/reports", {"name": "x", "exit_status": 0, "cpu_time": -1}),
        ("/reports", {"name": "x", "exit_status": 0, "instructions": 1e30}),
        ("/reports", {"name": "x", "exit_status": 0, "stderr": "x" * 60_001}),
        ("/reports", {"name": "x", "exit_status": 0, "credit": 1e9}),
    ],
)
def test_rubbish_is_refused(world: World, path: str, body: object):
    demo(world)
    browser = Browser(world)
    answer = browser.call("POST", path, body)
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "bad_body"
    assert browser.call("POST", path, b"\xff\xfe".hex() * 60_000).status_code in (413, 422)


@pytest.mark.parametrize("system", ["", "counted"])
def test_a_count_that_no_tab_can_have_reached_brings_no_more_than_the_honest_one(world: World, system: str):
    app = demo(world)
    if system:
        world.write(lambda tx: apps.update_app(tx, replace(app, credit_system=system)))
    world.add_jobs(app)
    liar, host = Browser(world), world.host(world.user("alice"))
    (job,) = liar.ask()["jobs"]
    host.rpc(ask=1)
    liar.upload(job, b"same")
    liar.report(job["name"], cpu_time=1e7, elapsed_time=1e7, instructions=1e18)
    host.rpc(reports=[replace(host.finish(host.new_results()[0], b"same"), intops_cumulative=1e11)])
    world.settle()
    granted = world.query("SELECT validate_state, granted_credit FROM result ORDER BY id")
    assert granted == [(1, granted[1][1])] * 2
    assert 0 < granted[0][1] < 1


def test_two_tabs_with_one_token_hold_no_more_than_one_and_count_once(world: World):
    world.add_jobs(demo(world), 300)
    tab = Browser(world)
    replayed = Browser(world)
    replayed.headers = tab.headers
    first, second = ({job["name"] for job in each.ask(64, threads=64)["jobs"]} for each in (tab, replayed))
    assert first == second  # each hears of what the other holds, as of lost jobs
    assert world.value("SELECT COUNT(*) FROM result WHERE server_state = 4") == len(first) < 10
    name = min(first)
    tab.finish(tab.held[name], b"one")
    assert "<status>-1</status>" in replayed.upload(replayed.held[name], b"another")[0]
    replayed.report(name, exit_status=1)
    assert world.value("SELECT exit_status FROM result WHERE name = ?", name) == 0


def test_a_flood_of_new_browsers_and_one_of_requests_run_dry(tmp_path: Path):
    world = World(tmp_path / "project", limits={"browsers_per_address": 3, "requests_per_browser": 5})
    try:
        demo(world)
        browser = Browser(world)
        codes = [world.post(API, json={}).status_code for _ in range(5)]
        assert codes == [201, 201, 429, 429, 429]
        asked = [browser.call("POST", "/work", {}) for _ in range(7)]
        assert [answer.status_code for answer in asked] == [200] * 5 + [429] * 2
        assert int(asked[-1].headers["retry-after"]) > 0
        world.now += 3600
        assert browser.call("POST", "/work", {}).status_code == 200
    finally:
        world.close()


def test_a_token_of_a_browser_opens_nothing_else_and_others_open_no_jobs(world: World):
    demo(world)
    browser = Browser(world)
    for path in ("me", "me/tasks", "apps", "users", "status"):
        assert world.get(f"/api/v1/{path}", headers=browser.headers).status_code == 403
    world.write(lambda tx: tx.execute("UPDATE host SET user_id = 99"))
    assert browser.call("POST", "/work", {}).status_code == 401


def test_a_project_without_such_apps_or_without_visitors_says_so(tmp_path: Path):
    world = World(tmp_path / "project", browsers={"visitors": False})
    try:
        assert world.post(API, json={}).json()["error"]["code"] == "no_browser_apps"
        demo(world)
        assert world.post(API, json={}).json()["error"]["code"] == "account_needed"
        assert world.value("SELECT COUNT(*) FROM user_account") == 0
    finally:
        world.close()


def test_nobody_logs_in_as_the_visitors(world: World):
    demo(world)
    Browser(world)
    reply = world.get(
        "/lookup_account.php", params={"email_addr": "visitors@browsers.invalid", "passwd_hash": "!"}
    )
    assert "authenticator" not in reply.text
    stored = world.value(
        "SELECT passwd_hash FROM user_account WHERE email_addr = ?", "visitors@browsers.invalid"
    )
    assert not stored.startswith("$"), "it is no hash, so no password fits"


def test_a_browser_hears_that_pyodide_runs_a_program_and_gets_its_files_from_the_project(world: World):
    app = world.add_app(quorum=2, limits=SMALL)
    release(world, app, program=pyodide.PACKAGES_NAME, about=PYODIDE_DESCRIPTION_FILE)
    world.add_jobs(app)
    (job,) = Browser(world).ask()["jobs"]
    assert job["pyodide"] == pyodide.VERSION
    assert [file["open_name"] for file in job["files"]] == [PYODIDE_DESCRIPTION_FILE]
    place = world.ctx.folder.pyodide / pyodide.VERSION
    path = f"/pyodide/{pyodide.VERSION}/pyodide.mjs"
    assert world.get(path).status_code == 404
    place.mkdir(parents=True)
    (place / "pyodide.mjs").write_text("export {}")
    (place / "other.mjs").write_text("export {}")
    answer = world.get(path)
    assert answer.headers["content-type"].startswith("text/javascript")
    assert "wasm-unsafe-eval" not in answer.headers["content-security-policy"]
    for hidden in ("other.mjs", "..%2f..%2fcobblestone.toml", "python_stdlib.zip"):
        assert world.get(f"/pyodide/{pyodide.VERSION}/{hidden}").status_code == 404
    assert world.get("/pyodide/1.0.0/pyodide.mjs").status_code == 404
    worker = world.get("/static/pyodide_worker.js").headers
    assert worker["content-security-policy"] == "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'"
