"""A project on loopback with some weeks of history, and Debian's chromium."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import uvicorn
from playwright.sync_api import Browser, expect, sync_playwright
from starlette.routing import Route
from tests.browser.windows import LOOKS, OpenPage, RunningSite, Watched
from tests.helpers.project_world import SimHost, World, failed
from tests.helpers.volunteers import PASSWORD, email, fetch, populate

from cobblestone.domain.apps import App, AppDispatch
from cobblestone.domain.people import SubmitRights
from cobblestone.domain.values import AppVersionId, UserId
from cobblestone.domain.work import ReplicationRules
from cobblestone.policy.dispatch.rollout import RolloutPlan
from cobblestone.server.accounts.ownership import create_key
from cobblestone.server.accounts.service import Accounts
from cobblestone.server.app import create_app
from cobblestone.server.daemons.housekeeping import BadgeKeeper, HistoryKeeper, follow_app_credit
from cobblestone.server.operation import interventions as operations
from cobblestone.server.operation import rollout
from cobblestone.server.operation.alerts import Watcher
from cobblestone.server.web import web_routes
from cobblestone.store.catalog import apps
from cobblestone.store.engine.database import Transaction
from cobblestone.store.operation import audit, interventions
from cobblestone.store.operation.audit import Actor
from cobblestone.store.work import submitters

expect.set_options(timeout=30_000)  # ms; other tests compute at the same time
CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PROJECT_TEXT = """\
# What we look for

The Sun has had spots for *three centuries* of [records](https://www.sidc.be/). We search them for cycles:

- band by band,
- with every answer computed twice.

## How

`period.py` reads one band and writes one line.

```sh
python3 period.py --from 1700 --to 2008 --band 4.5:5.5 --steps 2000 --detrend linear sunspots.csv spectrum-of-the-band.json
```
"""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSite]:
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    project: dict[str, object] = {
        "name": "Sunspots at home",
        "url": url,
        "description": "How regular is the Sun? We search three centuries of sunspot counts for cycles,"
        " band by band, and you can see each answer arrive.",
    }
    world = World(tmp_path_factory.mktemp("browser") / "project", project=project)
    for name in ("about", "science", "terms"):
        (world.ctx.folder.root / f"{name}.md").write_text(PROJECT_TEXT)
    people = populate(world, random.Random(7))
    ids = run_for_a_while(world)
    world.now += 120
    steps = (
        partial(follow_app_credit, world.ctx),
        HistoryKeeper(world.ctx).step,
        BadgeKeeper(world.ctx).step,
    )
    for step in steps:
        while world.run(step()):
            pass
    create_key(world.ctx.folder)
    world.ctx.started = world.now - 86400
    server = uvicorn.Server(uvicorn.Config(create_app(world.ctx), log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="pages")
    thread.start()
    yield RunningSite(url=url, people=people, ids=ids, paths=paths_of(world), now=world.now)
    server.should_exit = True
    thread.join()
    listener.close()
    world.close()


def paths_of(world: World) -> frozenset[str]:
    """Where the server answers browsers that only look."""
    routes = web_routes(world.ctx, Accounts(world.ctx))
    return frozenset(
        route.path for route in routes if isinstance(route, Route) and "GET" in (route.methods or ())
    )


def run_for_a_while(world: World) -> dict[str, int]:
    """What an operator sees: samples, an app of two versions, batches of which jobs failed, an audit log; Olga is the operator.

    Each thing is for one test, so that none disturbs another.
    """
    key = world.user("olga")
    olga = int(world.value("SELECT id FROM user_account WHERE email_addr = ?", email("olga")))
    world.write(lambda tx: interventions.set_role(tx, olga, "operator"))
    host = world.host(key, domain_name="gabbro.with-a-rather-long-name.of-some-university.example.org")
    host.rpc()
    app = world.add_app(
        "transit",
        rules=ReplicationRules(min_quorum=1, target_nresults=1, max_error_results=0),
        dispatch=AppDispatch(keywords=(9, 14, 26)),
    )
    batch_ids: dict[str, int] = {}
    for name in ("failed", "retried"):
        batch_ids[f"{name}_batch"] = world.add_jobs(app, 3).id
        world.now += 90
        names = fetch(host)
        host.rpc(reports=[failed(each, exit_status=-1073741819) for each in names])
        world.settle()
    batch_ids["my_batch"] = submitted_by(world, "ada", app, host)
    batch_ids["cancelled_batch"] = world.add_jobs(app, 5).id
    actor = Actor(name=f"user:{olga} Olga", origin="web 2001:db8:85a3::8a2e:370:7334")
    reason = "Each of its tasks ends in a memory error; please look at its memory."
    world.write(lambda tx: operations.block(tx, world.ctx, "host", host.id, reason, actor))
    unchanged = ("send password reset", f"user {olga}")  # an entry that has nothing before and nothing after
    world.write(lambda tx: audit.record(tx, actor, *unchanged, now=world.now))
    newest = world.write(lambda tx: add_newer_version(tx, app, now=world.now))
    plan = RolloutPlan(stages=(0.05, 0.25, 1.0))
    world.write(lambda tx: rollout.start_rollout(tx, newest, plan, actor, now=world.now))
    watcher = Watcher(world.ctx)
    for n in range(12):
        world.add_jobs(app, 1 + n % 4)
        world.run(watcher.step())
        world.now += 1801
    open_workunit = "SELECT MAX(id) FROM workunit WHERE completed_seq IS NULL AND error_mask = 0"
    return {
        "olga": olga,
        "failed_version": int(world.value("SELECT MAX(app_version_id) FROM result WHERE outcome = 3")),
        "blocked_host": host.id,
        "open_workunit": int(world.value(open_workunit)),
        **batch_ids,
    }


def submitted_by(world: World, name: str, app: App, host: SimHost) -> int:
    """A batch of an account that may submit, of which jobs failed."""
    user_id = UserId(int(world.value("SELECT id FROM user_account WHERE email_addr = ?", email(name))))
    world.write(lambda tx: submitters.allow(tx, user_id, SubmitRights(max_jobs=1000), now=world.now))
    token = world.ctx.store.read(lambda db: submitters.submitter_of(db, user_id))
    assert token is not None
    batch = world.add_jobs(app, 3, token_id=token.id)
    host.rpc(reports=[failed(each, exit_status=-1073741819) for each in fetch(host)])
    world.settle()
    return batch.id


def add_newer_version(tx: Transaction, app: App, *, now: float) -> AppVersionId:
    """Another version of an app, with the same files."""
    (first,) = apps.list_versions(tx, app.id)
    return apps.add_version(tx, replace(first, version_num=0), now=now).id


@pytest.fixture(scope="session")
def browser(site: RunningSite) -> Iterator[Browser]:
    # After the project: nothing else may run an event loop in this thread from here on.
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser: Browser, site: RunningSite) -> Iterator[OpenPage]:
    """Open browser windows, logged in as somebody or not."""
    contexts: list[Any] = []

    def open_(look: str = "desktop", *, log_in: str = "", **options: Any) -> Watched:
        context = browser.new_context(base_url=site.url, **{**LOOKS[look], **options})
        contexts.append(context)
        watched = Watched(context.new_page())
        if log_in:
            watched.page.goto("login.php")
            watched.page.get_by_label("E-mail address").fill(email(log_in))
            watched.page.get_by_label("Password").fill(PASSWORD)
            watched.page.get_by_role("button", name="Log in").click()
            expect(watched.page.get_by_role("heading", name="Your account")).to_be_visible()
        return watched

    yield open_
    for context in contexts:
        context.close()
