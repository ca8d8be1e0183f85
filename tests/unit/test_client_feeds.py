"""Feeds of notices: read whatever comes, fetched in time, shown once, gone when they are gone."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import time
from email.utils import formatdate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.client_state import URL, World, play
from tests.helpers.daemon_in_test import make_client
from tests.helpers.small_server import serving

from cobblestone.client.projects.web import Feed
from cobblestone.client.records.journal import MAX_NOTICES, Notices
from cobblestone.client.records.state import ManagerAttachment
from cobblestone.client.remote.access import notice_text
from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.policy.client.host.transfers import (
    LEAST_INTERVAL,
    LONGEST_INTERVAL,
    MAX_SHOWN,
    items_to_show,
    next_poll,
)
from cobblestone.wire.client.account_manager import parse_manager_reply
from cobblestone.wire.project.pages import (
    MAX_DESCRIPTION,
    MAX_FEED_BYTES,
    MAX_ITEMS,
    RssChannel,
    RssItem,
    read_rss,
    write_rss,
)
from cobblestone.wire.scheduler.reply import RssFeed

NOW = 1.8e9
DAY = 86400.0


def item(title: str, *, days: float = 1.0, text: str = "Something.") -> RssItem:
    return RssItem(title=title, guid=title, published=NOW - days * DAY, description=text)


def feed(*items: RssItem) -> bytes:
    return write_rss(RssChannel(title="News", link="https://p/", description="d", items=items), built=NOW)


# -- reading ------------------------------------------------------------------------------------------------


def test_what_our_server_writes_is_read_back() -> None:
    items = (
        RssItem(
            title="A <b> & c",
            guid="1",
            published=NOW,
            description="<p>ça &amp; là</p>",
            link="https://p/1?a=1&b=2",
        ),
        item("B"),
    )
    # clients write titles into their state without escapes, so our server sends none that needs them
    shown = dataclasses.replace(items[0], title="A ‹b> & c")
    assert read_rss(feed(*items)) == (shown, items[1])


def test_cdata_bare_ampersands_and_other_alphabets_are_understood() -> None:
    text = (
        "<rss version='2.0' xmlns:atom='x'><channel><title>T</title><atom:link href='y'/><item>"
        "<title><![CDATA[Pâques & <i>more</i>]]></title><description><![CDATA[<p>x</p>]]></description>"
        "<pubDate>Fri, 20 Nov 2026 00:00:00 GMT</pubDate><link>javascript:alert(1)</link></item></channel></rss>"
    )
    (found,) = read_rss(text.encode())
    assert (found.title, found.description, found.link) == ("Pâques & <i>more</i>", "<p>x</p>", "")
    assert found.published == 1795132800.0


def test_hostile_feeds_are_bounded() -> None:
    long = f"<channel>{'<item><title>t</title><description>' + 'x' * 9000 + '</description></item>' * 1}</channel>"
    assert len(read_rss(long.encode())[0].description) == MAX_DESCRIPTION
    many = f"<channel>{'<item><title>t</title></item>' * 5000}</channel>"
    assert len(read_rss(many.encode())) == MAX_ITEMS
    assert read_rss(b"<channel><item><guid>1</guid></item></channel>") == ()
    dates = "".join(
        f"<item><title>t</title><pubDate>{d}</pubDate></item>"
        for d in ("", "x", "Fri, 99 Nov 99999999 0:0:0 GMT")
    )
    assert {each.published for each in read_rss(f"<channel>{dates}</channel>".encode())} == {0.0}
    deep = b"<channel>" + b"<item>" * 100_000
    for wrong in (b"", b"<html></html>", deep, b"<channel>" + b" " * MAX_FEED_BYTES, b"<channel><item>"):
        with pytest.raises(RemoteProtocolError):
            read_rss(wrong)


@given(st.binary(max_size=300))
def test_rubbish_gives_items_or_is_refused(body: bytes) -> None:
    try:
        found = read_rss(b"<channel><item><title>a</title>" + body + b"</item></channel>")
    except RemoteProtocolError:
        return
    assert len(found) <= MAX_ITEMS


# -- when and what ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("interval", "failures", "wait"),
    [(0.0, 0, LEAST_INTERVAL), (1e18, 0, LONGEST_INTERVAL), (DAY, 0, DAY), (DAY, 1, LEAST_INTERVAL),
     (DAY, 1000, LONGEST_INTERVAL)],
)  # fmt: skip
def test_a_feed_s_own_pace_is_kept_within_bounds(interval: float, failures: int, wait: float) -> None:
    at = next_poll(NOW, interval=interval, failures=failures, rng=random.Random(1))
    assert 0.9 * wait <= at - NOW <= 1.1 * wait


def test_young_items_are_shown_the_latest_first() -> None:
    dated = [item("old", days=31), item("a", days=2), item("b", days=1), item("future", days=-400)]
    undated = RssItem(title="undated", guid="", published=0.0, description="")
    assert [each.title for each in items_to_show([*dated, undated], NOW)] == ["future", "undated", "b", "a"]
    assert len(items_to_show([item(str(n)) for n in range(100)], NOW)) == MAX_SHOWN


# -- notices ------------------------------------------------------------------------------------------------


def test_managers_see_what_is_new_and_are_told_to_forget_what_is_gone() -> None:
    notices = Notices(lambda: NOW)
    notices.add(title="a", text="one 1")
    notices.add(title="a", text="one 22")  # the same but for its digits
    notices.of_feed("f", [item("x"), item("y")], project_name="P", private=False)
    assert [n.title for n in notices.since(0)] == ["x", "y", "a"]
    assert notices.since(3) == []
    notices.of_feed("f", [item("y"), item("z")], project_name="P", private=False)
    first, *rest = notices.since(3)
    assert first.seqno == -1
    assert [n.title for n in rest] == ["z", "y", "a"]
    assert notices.since(rest[0].seqno) == []
    assert [n.title for n in notices.since(0)] == ["z", "y", "a"]
    notices.of_feed("f", (), project_name="", private=False)
    assert [n.title for n in notices] == ["a"]


def test_there_are_never_too_many() -> None:
    notices = Notices(lambda: NOW)
    for number in range(MAX_NOTICES + 50):
        notices.add(title="x" * number, text="")
    assert len(notices) == MAX_NOTICES


# -- following ----------------------------------------------------------------------------------------------


class FeedServer:
    """A web server with one page for each path."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes] = {}
        self.visits: list[str] = []

    async def __aenter__(self) -> FeedServer:
        self._serving = serving(self._serve)
        self.url = f"http://127.0.0.1:{await self._serving.__aenter__()}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._serving.__aexit__(None, None, None)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
        self.visits.append(path)
        body = self.pages.get(path, b"")
        status = b"200 OK" if path in self.pages else b"503 Busy"
        writer.write(
            b"HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)
        )
        await writer.drain()


def test_feeds_are_fetched_in_time_shown_and_kept_over_a_restart(tmp_path: Path) -> None:
    now = [time.time()]

    def fresh(title: str) -> RssItem:
        return RssItem(title=title, guid=title, published=now[0] - 60, description="d")

    async def check(world: World) -> None:
        client = world.client
        async with FeedServer() as server:
            server.pages = {
                "/news": feed(fresh("one"), fresh("two")),
                "/notices.php?auth=k": feed(fresh("yours")),
            }
            world.content.project.rss_feeds = (
                RssFeed(url=f"{server.url}/news", poll_interval=7200.0),
                RssFeed(url=f"{server.url}/notices.php?auth=k"),
                RssFeed(url="file:///etc/passwd"),
            )
            await client.feeds.poll(client.connections)
            await client.feeds.poll(client.connections)  # too early
            assert server.visits == ["/news", "/notices.php?auth=k"]
            assert [values[0] for _, values in client.state._statements].count("feeds") == 1  # all together
            assert {n.title: n.is_private for n in client.journal.notices} == {
                "one": False,
                "two": False,
                "yours": True,
            }
            server.pages["/news"] = feed(fresh("two"), fresh("three"))
            now[0] += 3 * 7200.0
            await client.feeds.poll(client.connections)
            assert sorted(n.title for n in client.journal.notices) == ["three", "two", "yours"]
            del server.pages["/news"]
            client.feeds.refresh(URL)
            await client.feeds.poll(client.connections)
            assert server.visits[2:] == ["/news", "/news", "/notices.php?auth=k"]
            assert sorted(n.title for n in client.journal.notices) == ["three", "two", "yours"]
            client.state.put_project(world.content.project)
            client.state.flush()
            server.pages["/of-manager"] = feed(fresh("hello"))
            client.state.notes.manager = ManagerAttachment(
                url="https://m/", feeds=(f"{server.url}/of-manager",), no_project_notices=True
            )
            await client.feeds.poll(client.connections)
            assert [n.title for n in client.journal.notices] == ["hello"]

    def again(world: World) -> None:
        assert sorted(n.title for n in world.client.journal.notices) == ["three", "two", "yours"]

    play(tmp_path, check, lambda: now[0])
    play(tmp_path, again, lambda: now[0])


def test_a_project_that_is_left_takes_its_notices_along(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        client = world.client
        async with FeedServer() as server:
            server.pages["/"] = feed(RssItem(title="a", guid="", published=0.0, description=formatdate(0)))
            world.content.project.rss_feeds = (RssFeed(url=f"{server.url}/"),)
            await client.feeds.poll(client.connections)
            assert len(client.journal.notices) == 1
            client.state.drop_project(URL)
            await client.feeds.poll(client.connections)
            assert len(client.journal.notices) == 0
            assert client.feeds._feeds == {}

    play(tmp_path, check)


def test_a_manager_s_feeds_are_read() -> None:
    body = b"<acct_mgr_reply><rss_feeds><rss_feed><url>https://m/news?a=1&amp;b=2</url></rss_feed></rss_feeds></acct_mgr_reply>"
    assert parse_manager_reply(body).feeds == ("https://m/news?a=1&b=2",)


def test_a_stored_feed_that_nobody_names_any_more_is_forgotten(tmp_path: Path) -> None:
    client = make_client(tmp_path)
    client.state.keep("feeds", [Feed(url="https://gone/", items=(item("x"),))])
    client.state.flush()
    client.state.close()

    async def check() -> None:
        client = make_client(tmp_path)
        assert len(client.journal.notices) == 1
        await client.feeds.poll(client.connections)
        assert len(client.journal.notices) == 0
        await client.connections.close()
        client.state.close()

    asyncio.run(check())


@pytest.mark.parametrize(
    ("title", "description", "said"),
    [
        (
            "Down",
            "<p>We <b>move</b>\n&amp; are back <a href='x'>soon</a>.</p>",
            "Down: We move & are back soon .",
        ),
        ("", "&lt;ncpus&gt; is 3 &lt; 4", "<ncpus> is 3 < 4"),
        ("", "1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
    ],
)
def test_a_notice_is_said_in_one_line_with_its_title_and_without_tags(
    title: str, description: str, said: str
) -> None:
    assert notice_text({"title": title, "description": description}) == said
