"""The pages of a statistics site over projects that do not exist."""

from __future__ import annotations

import csv
import html
import io
import json
import time
from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest
from PIL import Image
from tests.helpers.statistics_exports import DAY
from tests.helpers.statistics_site import ALICE, MARKUP, N_DAYS, NOON, Client, open_filled_site

from cobblestone.demo.family import read_curve
from cobblestone.statistics.folder import SiteFolder, StatisticsSettings
from cobblestone.statistics.web.site import StatisticsContext


class Links(HTMLParser):
    """Addresses and texts of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name in ("href", "src") and value]


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> StatisticsContext:
    return open_filled_site(tmp_path_factory.mktemp("site"), "http://stats.example.org/sub/")


@pytest.fixture
def client(ctx: StatisticsContext) -> Client:
    return Client(ctx)


def test_every_page_that_is_linked_is_there(client: Client):
    seen: dict[str, set[str]] = defaultdict(set)  # by the first part of the path
    waiting = ["/sub/", f"/sub/user/{ALICE}", "/sub/compare/user?keys=one-901"]
    while waiting:
        address = waiting.pop(0)
        alike = seen[address.split("/")[2].partition("?")[0]]
        if address in alike or len(alike) > 7 or "format=" in address:
            continue
        alike.add(address)
        answer = client.get(address.removeprefix("/sub/"))
        assert answer.status_code in (200, 303), address
        if answer.headers.get("content-type", "").startswith("text/html"):
            here = address.partition("?")[0]
            links = [here + link if link.startswith("?") else link for link in Links(answer.text).found]
            waiting += [link for link in links if link.startswith("/sub/")]
    assert seen.keys() >= {
        "",
        "ranking",
        "user",
        "host",
        "team",
        "country",
        "system",
        "processor",
        "gpu",
        "project",
        "compare",
        "milestones",
        "signature",
    }


def test_the_page_of_a_person_shows_all_projects_with_a_stacked_curve(client: Client):
    page = client.get(f"user/{ALICE}").text
    assert "Alice &lt;b&gt;" in page
    assert "One@home" in page
    assert "Two@home" in page
    assert page.count("<polygon") == 2
    assert "milestones/user" in page


def test_who_will_be_overtaken_and_when_is_foretold(client: Client):
    # At the end Alice has 9,900 + 4 * 150 and Bob 10,000 + 4 * 100 at "one": 100 more, and she is 50 a day faster.
    page = client.get("user/901?project=one").text
    ahead = client.get("user/900?project=one").text
    assert "is overtaken in" in page or "overtakes in" in page
    assert "10,500" in ahead


def test_milestones_are_a_feed(client: Client):
    answer = client.get("milestones/user/900.rss?project=one")
    assert answer.headers["content-type"].startswith("application/rss+xml")
    assert "10,000 credit" in answer.text


@pytest.mark.parametrize(
    "address",
    [
        "",
        "ranking/user?by=total",
        "ranking/team",
        f"user/{ALICE}",
        "project/one",
        "collection",
        f"compare/user?keys={ALICE},one-901",
    ],
)
def test_everything_is_there_for_programs(client: Client, address: str):
    mark = "&" if "?" in address else "?"
    rows = client.get(f"{address}{mark}format=json").json()
    table = list(csv.DictReader(io.StringIO(client.get(f"{address}{mark}format=csv").text)))
    assert rows
    assert [list(row) for row in rows] == [list(row) for row in table]


def test_the_history_for_programs_is_that_of_each_project(client: Client):
    rows = client.get(f"user/{ALICE}?format=json").json()
    assert [row["total_credit"] for row in rows if row["project"] == "Two@home"] == [
        500 + 10 * n for n in range(N_DAYS)
    ]
    assert len(rows) == 2 * N_DAYS


def test_what_a_feed_of_an_account_at_one_project_links_is_its_page(client: Client):
    feed = client.get("milestones/user/900.rss?project=one").text
    links = {text.partition("</link>")[0] for text in feed.split("<link>")[1:]}
    assert links == {"http://stats.example.org/sub/user/900?project=one"}
    assert client.get(links.pop()).status_code == 200


def test_signatures_are_pictures(client: Client):
    drawn = client.get(f"signature/user/{ALICE}.svg")
    assert drawn.headers["content-type"].startswith("image/svg+xml")
    assert "Alice &lt;b&gt;" in drawn.text
    with Image.open(io.BytesIO(client.get(f"signature/user/{ALICE}.png").content)) as image:
        assert image.size == (420, 92)


def test_a_name_is_no_formula_in_a_spreadsheet(client: Client):
    for sign in "=+-@":
        table = client.get("ranking/user", params={"q": f"{sign}sum", "format": "csv"}).text
        assert [row["name"] for row in csv.DictReader(io.StringIO(table))] == [f"'{sign}SUM(A1:A9)"]


@pytest.mark.parametrize(
    "address",
    [
        "user/x",
        "user/' OR 1=1--",
        "nothing/1",
        "ranking/x",
        "ranking/user?project=none",
        "ranking/user?by=x",
        "user/1?format=x",
        "user/" + "a" * 500,
        "compare/user",
        "compare/user?keys=a,b,c,d,e",
        f"compare/user?keys={','.join([ALICE] * 5)}",
        "signature/user/none.svg",
        "ranking/user?page=99999999999",
    ],
)
def test_what_does_not_exist_is_said_so(client: Client, address: str):
    answer = client.get(address)
    assert answer.status_code == 404
    assert "</html>" in answer.text


def test_search_finds_by_the_begin_of_a_name(client: Client):
    assert "Alice &lt;b&gt;" in client.get("ranking/user", params={"q": "ALICE"}).text
    assert client.get("ranking/user", params={"q": "%' --"}).status_code == 200
    long = client.get("ranking/user", params={"q": "x" * 150}).text
    assert f'value="{"x" * 100}"' in long


@pytest.mark.parametrize(("language", "word"), [("fr", "Projets"), ("sk", "Projekty")])
def test_pages_speak_the_language_of_the_visitor(client: Client, language: str, word: str):
    assert word in client.get("", headers={"Accept-Language": language}).text
    answer = client.get(f"language.php?to={language}&next=ranking/user?by=total")
    assert answer.headers["location"] == "/sub/ranking/user?by=total"
    assert client.get("language.php?to=fr&next=//evil.example.org/").headers["location"] == "/sub/"


def test_a_site_that_has_collected_nothing_says_so(tmp_path: Path):
    ctx = StatisticsContext(
        folder=SiteFolder(tmp_path),
        settings=StatisticsSettings(),
        secret=b"s",
        master_url="http://s.example.org/",
    )
    client = Client(ctx)
    assert "come in from any project yet" in client.get("").text
    assert client.get("ranking/user").status_code == 503
    assert client.get("collection").status_code == 200


def test_pages_take_less_than_50_milliseconds_of_the_processor(client: Client):
    for address in ("", "ranking/user?page=1", f"user/{ALICE}", "team/77?project=one", "project/one"):
        assert min(_seconds(client, address) for _ in range(5)) < 0.05, address


def _seconds(client: Client, address: str) -> float:
    began = time.process_time()
    assert client.get(address).status_code == 200
    return time.process_time() - began


def test_the_members_of_a_team_are_there_for_programs_as_on_its_page(client: Client, ctx: StatisticsContext):
    published = ctx.published
    assert published is not None
    first = published.ranking("team", 0, by_recent=False, first=1)[0]
    rows = json.loads(client.get(f"team/{first.key}?of=children&format=json").text)
    assert [row["rank_total"] for row in rows] == list(range(1, len(rows) + 1))
    assert rows[0]["total_credit"] == max(row["total_credit"] for row in rows)
    page = client.get(f"team/{first.key}").text
    assert all(row["name"] in page for row in rows)
    assert "of=children&amp;format=csv" in page


def test_the_type_of_a_team_is_shown_where_a_project_states_one_that_there_is(client: Client):
    assert "University or department" in client.get("team/77?project=one").text
    unknown = client.get("team/1?project=two").text
    assert "99" not in unknown.partition("crumbs")[2].partition("</p>")[0]
    assert "our  TEAM" in unknown


def test_badges_are_shown_by_their_titles_and_no_picture_of_others_is_ever_loaded(client: Client):
    answers = [client.get(f"user/{ALICE}"), client.get("user/900?project=one")]
    for answer in answers:
        assert "Fast &amp; steady" in answer.text
        assert html.escape(MARKUP) in answer.text, "a title is a text"
        assert all("evil" not in link for link in Links(answer.text).found)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy or "img-src 'self'" in policy
    assert "One@home" in answers[0].text.partition("Badges")[2]
    for address in (f"user/{ALICE}?", "user/900?project=one&"):
        rows = json.loads(client.get(f"{address}of=badges&format=json").text)
        assert [(row["project"], row["title"], row["image"]) for row in rows] == [
            ("One@home", MARKUP, ""),
            ("One@home", "Fast & steady", "http://one.example.org/img/fast.png"),
        ]
    assert "Fast &amp; steady" in client.get("team/77?project=one").text
    assert "Badges" not in client.get("user/7?project=two").text


def test_json_of_a_list_names_the_project(client: Client):
    rows = json.loads(client.get("ranking/user?project=two&format=json").text)
    assert [(row["project"], row["key"]) for row in rows] == [("two", "7")]


class InProcess(httpx.BaseTransport):
    """Sends what the demonstration asks to the site in this process."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = self._client.get(str(request.url))
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)


def test_the_demonstration_reads_a_curve_over_two_projects_when_all_exports_are_new(client: Client):
    with httpx.Client(transport=InProcess(client), base_url="http://stats.example.org/sub/") as http:
        curve = read_curve(http, "Alice <b>", since=NOON)
        assert curve is not None
        assert curve.address == f"http://stats.example.org/sub/user/{ALICE}"
        assert curve.totals.keys() == {"One@home", "Two@home"}
        assert curve.n_steps == N_DAYS
        assert read_curve(http, "Alice <b>", since=NOON + N_DAYS * DAY) is None
        assert read_curve(http, "nobody") is None
