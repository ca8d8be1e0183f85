"""What one's computers found, and tasks that are in the archive."""

from __future__ import annotations

import contextlib
import gzip
import sqlite3
from dataclasses import replace

import pytest
from lxml import html
from tests.helpers.project_world import SimHost, World, failed
from tests.helpers.visitors import Visitor, text_of

from cobblestone.domain.apps import App
from cobblestone.server.daemons import file_deleter
from cobblestone.store.catalog import apps

DAY = 86400.0


def show_outputs(world: World, app: App, shown: bool = True) -> None:
    world.write(lambda tx: tx.execute("UPDATE app SET show_outputs = ? WHERE id = ?", (int(shown), app.id)))


def compute(world: World, host: SimHost, content: bytes = b"answer") -> str:
    host.rpc(ask=1.0)
    (name, *_) = host.new_results()
    world.now += 1000
    host.rpc(reports=[host.finish(name, content)])
    world.settle()
    return name


@pytest.fixture
def found(world: World) -> World:
    """Ada and Bruno computed the same job: one of their answers became that of the job."""
    app = world.add_app(quorum=2)
    world.add_jobs(app)
    for name in ("ada", "bruno"):
        compute(world, world.host(world.user(name)))
    return world


def links(visitor: Visitor) -> list[str]:
    return html.fromstring(visitor.get("/found.php").text).xpath(
        "//main//a[contains(@href, 'found_file')]/@href"
    )


def test_answers_of_the_job_are_listed_and_files_are_given_where_the_app_allows(found: World) -> None:
    canonical = found.value("SELECT r.user_id FROM workunit w JOIN result r ON r.id = w.canonical_result_id")
    names = {1: "ada", 2: "bruno"}
    finder = Visitor(found).log_in(names[canonical])
    other = Visitor(found).log_in(names[3 - canonical])
    assert "not shown by the project" in text_of(finder.get("/found.php"))
    assert links(finder) == []
    result_id = found.value("SELECT canonical_result_id FROM workunit")
    address = f"/found_file.php?resultid={result_id}&file=1"
    assert finder.get(address).status_code == 404
    found.write(lambda tx: tx.execute("UPDATE app SET show_outputs = 1"))
    assert [f"/{link}" for link in links(finder)] == [address]
    answer = finder.get(address)
    assert answer.content == b"answer"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-security-policy"].endswith("sandbox")
    assert finder.get(f"/found_file.php?resultid={result_id}&file=2").status_code == 404
    assert "None yet" in text_of(other.get("/found.php"))
    assert other.get(address).status_code == 404  # it is not theirs
    assert found.get(address).status_code == 303  # to log in
    mine = found.value("SELECT id FROM result WHERE id <> ?", result_id)
    assert (
        other.get(f"/found_file.php?resultid={mine}&file=1").status_code == 404
    )  # not the answer of the job


def test_large_and_packed_answers_come_whole(world: World) -> None:
    app = world.add_app()
    show_outputs(world, app)
    world.add_jobs(app, 2)
    host = world.host(world.user("ada"))
    large = bytes(range(256)) * 1000
    compute(world, host, large)
    ada = Visitor(world).log_in("ada")
    (link,) = links(ada)
    assert ada.get(f"/{link}").content == large
    world.write(lambda tx: tx.execute("UPDATE upload SET gzipped = 1, data = ?", (gzip.compress(b"packed"),)))
    assert ada.get(f"/{link}").content == b"packed"
    world.write(lambda tx: tx.execute("DELETE FROM upload"))
    assert ada.get(f"/{link}").status_code == 404
    assert "no longer stored" in text_of(ada.get("/found.php"))


def purge(world: World) -> None:
    world.write(lambda tx: tx.execute("UPDATE batch SET state = 4"))
    world.settle()
    world.now += 40 * DAY
    while world.run(file_deleter.purge(world.ctx)):
        pass


def test_tasks_in_the_archive_are_counted_and_listed(world: World) -> None:
    app = world.add_app()
    host = world.host(world.user("ada"))
    for _ in range(2):
        world.add_jobs(app)
        compute(world, host)
    world.add_jobs(app)
    host.rpc(ask=1.0)
    (name,) = host.new_results()
    host.rpc(reports=[failed(name)])
    world.write(lambda tx: tx.execute("UPDATE workunit SET max_error_results = 0"))
    world.settle()
    ada = Visitor(world).log_in("ada")
    assert "in the archive" not in text_of(ada.get("/results.php"))
    before = world.value("SELECT count(*) FROM result WHERE user_id = 1")
    valid = world.value("SELECT count(*) FROM result WHERE user_id = 1 AND validate_state = 1")
    purge(world)
    assert world.value("SELECT count(*) FROM result WHERE user_id = 1") == 0
    assert (before, valid) == (3, 2)
    for query in ("userid=1", "hostid=1"):
        text = text_of(ada.get(f"/results.php?{query}"))
        assert f"{before} older tasks are in the archive" in text
        tree = html.fromstring(ada.get(f"/archived_tasks.php?{query}").text)
        assert len(tree.xpath("//tbody/tr")) == before
        assert len(tree.xpath("//span[@class='badge good']")) == valid
    ada = Visitor(world).log_in("ada")  # the session has ended by then
    assert "Earlier tasks, in the archive" in text_of(ada.get("/found.php"))
    canonical = html.fromstring(ada.get("/archived_tasks.php?userid=1&canonical=1").text)
    assert len(canonical.xpath("//tbody/tr")) == valid


def test_the_archive_is_leafed_through_and_private_like_the_tasks(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = world.add_app()
    host = world.host(world.user("ada"))
    for _ in range(3):
        world.add_jobs(app)
        compute(world, host)
    purge(world)
    monkeypatch.setattr("cobblestone.store.operation.page_queries.PAGE_SIZE", 2)
    monkeypatch.setattr("cobblestone.store.operation.listings.PAGE_SIZE", 2)
    world.write(lambda tx: tx.execute("UPDATE user_account SET show_hosts = 0"))
    for page in ("userid=1", "hostid=1"):
        assert world.get(f"/archived_tasks.php?{page}").status_code == 403
    ada = Visitor(world).log_in("ada")
    first = html.fromstring(ada.get("/archived_tasks.php?userid=1").text)
    (older,) = first.xpath("//a[@rel='next']/@href")
    second = html.fromstring(ada.get(f"/archived_tasks.php{older}").text)
    seen = [cell.text for tree in (first, second) for cell in tree.xpath("//tbody/tr/td[1]")]
    assert len(seen) == len(set(seen)) >= 3
    assert ada.get("/archived_tasks.php?teamid=1").status_code == 404
    assert ada.get("/archived_tasks.php").status_code == 404


def test_an_archive_without_the_index_is_not_walked_through_and_gets_it_from_the_next_purge(
    world: World,
) -> None:
    app = world.add_app()
    host = world.host(world.user("ada"))
    world.add_jobs(app)
    compute(world, host)
    purge(world)
    with contextlib.closing(sqlite3.connect(world.ctx.archive.path)) as connection:
        connection.execute("DROP INDEX result_by_user")
        connection.commit()
    assert "There are none." in text_of(world.get("/archived_tasks.php?userid=1"))
    world.add_jobs(app)
    compute(world, host)
    purge(world)
    assert len(html.fromstring(world.get("/archived_tasks.php?userid=1").text).xpath("//tbody/tr")) == 2


def test_without_an_archive_there_are_none(world: World) -> None:
    world.user("ada")
    ada = Visitor(world).log_in("ada")
    assert "There are none." in text_of(ada.get("/archived_tasks.php?userid=1"))


def test_an_app_keeps_whether_it_shows_outputs(world: World) -> None:
    app = world.add_app()
    assert not app.show_outputs
    world.write(lambda tx: apps.update_app(tx, replace(app, show_outputs=True)))
    assert world.ctx.store.read(lambda db: apps.app_by_id(db, app.id)).show_outputs
