"""The central service of scales against servers on loopback: decent ones, and every kind of bad one."""

from __future__ import annotations

import asyncio
import gzip
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from tests.helpers.export_servers import ExportServer, answers, closed_port, export, export_servers

from cobblestone.domain.errors import ConfigError
from cobblestone.policy.credit.cross_project import MAX_AGE
from cobblestone.scales import collector as collector_module
from cobblestone.scales.collector import DocumentUnreadable, ScalesCollector, read_document, read_sources
from cobblestone.scales.service import ScalesService, bind
from cobblestone.wire.project.scales import (
    MAX_BYTES,
    ParsedProject,
    parse_project_scales,
    parse_published_scales,
)

HONEST = [answers(export(0.10)), answers(export(0.10)), answers(export(0.12))]
WITHOUT_A_LIE = (0.10 + 0.10 + 0.12) / 3


class Watch:
    """A clock that tests turn."""

    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def honest() -> Iterator[list[ExportServer]]:
    with export_servers(*HONEST) as servers:
        yield servers


def collect(collector: ScalesCollector) -> dict[str, float]:
    asyncio.run(collector.collect())
    return {item.plan_class: item.scale for item in collector.publication().scales}


def sources_of(servers: list[ExportServer], *more: str) -> list[str]:
    return read_sources([*(server.url for server in servers), *more])


def test_the_average_of_projects_is_published(honest: list[ExportServer]) -> None:
    collector = ScalesCollector(sources_of(honest))
    assert collect(collector) == {"cuda": pytest.approx(WITHOUT_A_LIE)}
    assert [server.asked for server in honest] == [["/scales.json"]] * 3
    assert all(source.problem == "" for source in collector.sources)


def test_what_projects_said_survives_a_restart_of_the_service(
    honest: list[ExportServer], tmp_path: Path
) -> None:
    state = tmp_path / "deep" / "state.json"
    first = ScalesCollector(sources_of(honest), state=state)
    assert collect(first) == {"cuda": pytest.approx(WITHOUT_A_LIE)}
    urls = [source.url for source in first.sources]
    for server in honest:
        server.asked.clear()
    again = ScalesCollector([*urls[1:], "http://127.0.0.1:1/new/scales.json", urls[0]], state=state)
    # published before anybody was asked
    assert [(item.plan_class, item.n_projects) for item in again.publication().scales] == [("cuda", 3)]
    assert [server.asked for server in honest] == [[], [], []]
    assert again.sources[0].last == first.sources[1].last
    assert again.sources[2].last is None


def test_a_silent_project_keeps_its_last_word_over_restarts_until_it_is_too_old(
    honest: list[ExportServer], tmp_path: Path
) -> None:
    clock = Watch()
    collect(ScalesCollector(sources_of(honest), clock=clock, state=tmp_path / "state"))
    dead = [f"http://127.0.0.1:{closed_port()}/scales.json" for _ in honest]
    state = (tmp_path / "state").read_text()
    for alive, gone in zip(sources_of(honest), dead, strict=True):
        state = state.replace(alive, gone)
    (tmp_path / "state").write_text(state)
    for age in (0.0, MAX_AGE - 60.0):
        later = Watch()
        later.now = clock.now + age
        silent = ScalesCollector(read_sources(dead), clock=later, state=tmp_path / "state")
        assert [source.last is not None for source in silent.sources] == [True, True, True]
        assert collect(silent) == {"cuda": pytest.approx(WITHOUT_A_LIE)}
    later.now = clock.now + MAX_AGE + 60.0
    assert collect(ScalesCollector(read_sources(dead), clock=later, state=tmp_path / "state")) == {}


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"format": 2, "sources": []}', b"\xff", b'{"format": 1}']
)
def test_a_file_that_holds_something_else_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "state").write_bytes(content)
    with pytest.raises(ConfigError, match="remove it to start again"):
        ScalesCollector(["http://127.0.0.1:1/scales.json"], state=tmp_path / "state")
    assert (tmp_path / "state").read_bytes() == content


def test_a_disk_that_takes_nothing_does_not_stop_the_service(
    honest: list[ExportServer], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    assert collect(ScalesCollector(sources_of(honest), state=tmp_path / "file" / "state"))


BAD = {
    "lie upwards": answers(export(100.0, 1e9)),
    "lie downwards": answers(export(0.0001, 1e9)),
    "nonsense": answers(b"\x00\xffnonsense"),
    "a page": answers(b"<html><body>Welcome!</body></html>"),
    "NaN": answers(export("NaN")),
    "infinite credit": answers(export(100.0, 1e400)),
    "nested": answers(b"[" * 1_000_000),
    "an error": answers(b"down for maintenance", 503),
    "not there": answers(b"", 404),
    "elsewhere": answers(b"", 302, Location="http://127.0.0.1:1/"),
    "to a file": answers(b"", 301, Location="file:///etc/passwd"),
    "a bomb": answers(gzip.compress(b" " * 50_000_000), Content_Encoding="gzip"),
    "too long": answers(b" " * (MAX_BYTES + 1)),
    "a broken header": answers(b"", Content_Length="many"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_project_moves_nothing_beyond_the_bound(honest: list[ExportServer], kind: str) -> None:
    with export_servers(BAD[kind]) as (bad,):
        collector = ScalesCollector(sources_of([*honest, bad]))
        (found,) = collect(collector).values()
        assert 0.8 * 0.10 <= found <= 1.4 * 0.12
        if not kind.startswith("lie"):
            assert found == pytest.approx(WITHOUT_A_LIE)
            source = collector.sources[-1]
            assert source.problem or source.n_refused == 1


@pytest.mark.parametrize("habit", ["silent", "dripping", "endless"])
def test_a_project_that_dawdles_or_floods_is_left(honest: list[ExportServer], habit: str) -> None:
    with export_servers(answers(b"")) as (bad,):
        bad.behave = getattr(bad, habit)
        collector = ScalesCollector(sources_of([*honest, bad]), timeout_seconds=0.5)
        assert collect(collector) == {"cuda": pytest.approx(WITHOUT_A_LIE)}
        problem = collector.sources[-1].problem
        assert ("did not answer within 0.5 s" in problem) == (habit != "endless")
        assert ("more than" in problem) == (habit == "endless")


def test_nobody_listening_is_said_with_the_address(honest: list[ExportServer]) -> None:
    down = f"http://127.0.0.1:{closed_port()}/"
    collector = ScalesCollector(sources_of(honest, down))
    collect(collector)
    assert f"{down}scales.json cannot be read" in collector.sources[-1].problem


def test_a_project_that_goes_down_keeps_its_say_for_a_while(honest: list[ExportServer]) -> None:
    clock = Watch()
    collector = ScalesCollector(sources_of(honest), clock=clock)
    before = collect(collector)
    honest[0].behave = answers(b"", 500)
    clock.now += 86400
    assert collect(collector) == pytest.approx(before, rel=0.02)
    assert collector.in_use(collector.sources[0])
    clock.now += MAX_AGE * 0.6
    collect(collector)
    clock.now += MAX_AGE * 0.6
    after = collect(collector)
    assert not collector.in_use(collector.sources[0])
    assert after == {}  # two are not enough any more
    assert collector.publication().withheld == {"cuda": 2}


def test_a_project_may_answer_in_xml(honest: list[ExportServer]) -> None:
    body = (
        b"<version_scales><app_version><app_name>a</app_name><plan_class>cuda</plan_class>"
        b"<expavg_credit>1000</expavg_credit><pfc_scale>0.16</pfc_scale></app_version></version_scales>"
    )
    with export_servers(answers(body)) as (other,):
        found = collect(ScalesCollector(sources_of(honest, f"{other.url}scales.xml")))
        assert other.asked == ["/scales.xml"]
    assert found["cuda"] == pytest.approx((0.10 + 0.10 + 0.12 + 0.16) / 4)


def test_a_mistake_of_ours_with_one_answer_does_not_end_the_round(
    honest: list[ExportServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    def careless(body: bytes) -> ParsedProject:
        if b"0.66" in body:
            raise RuntimeError("nobody thought of that")
        return parse_project_scales(body)

    monkeypatch.setattr(collector_module, "parse_project_scales", careless)
    with export_servers(answers(export(0.66))) as (odd,):
        collector = ScalesCollector(sources_of([*honest, odd]))
        assert collect(collector) == {"cuda": pytest.approx(WITHOUT_A_LIE)}
        assert "bug in this service" in collector.sources[-1].problem


# -- the list ----------------------------------------------------------------------------------------------


def test_the_list_is_addresses_and_files_with_comments_each_project_once(tmp_path: Path) -> None:
    path = tmp_path / "projects.txt"
    path.write_text("# ours\nhttp://a.example/x/  # the first\n\nhttp://b.example/scales.xml\n")
    assert read_sources([str(path), "http://a.example/x/"]) == [
        "http://a.example/x/scales.json",
        "http://b.example/scales.xml",
    ]


@pytest.mark.parametrize(
    "place",
    ["ftp://a.example/", "http:///x", "http://a:port/", "nowhere.txt", "http://a b/", "file:///etc/passwd"],
)
def test_what_is_no_address_and_no_file_is_refused(place: str) -> None:
    with pytest.raises(ConfigError):
        read_sources([place])


def test_an_empty_list_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.write_text("# nothing\n")
    with pytest.raises(ConfigError, match="no projects"):
        read_sources([str(path)])


# -- the service over HTTP -----------------------------------------------------------------------------------


@pytest.fixture
def service(honest: list[ExportServer]) -> Iterator[str]:
    """Address of a running service that has collected once."""
    collector = ScalesCollector(sources_of(honest, f"http://127.0.0.1:{closed_port()}/<b>"))
    asyncio.run(collector.collect())
    with bind("127.0.0.1", 0) as listener:
        config = uvicorn.Config(ScalesService(collector).app(), log_level="warning", lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        server.should_exit = True
        thread.join()


def test_the_service_answers_programs_and_people(service: str) -> None:
    for form in ("scales.json", "scales.xml"):
        assert parse_published_scales(read_document(service + form)) == {"cuda": pytest.approx(WITHOUT_A_LIE)}
    assert parse_published_scales(read_document(service)) == {"cuda": pytest.approx(WITHOUT_A_LIE)}
    page = httpx.get(service).text
    assert "<td>cuda</td><td>0.1067</td><td>3</td><td>0.1 … 0.12</td>" in page
    assert "3 of 4 projects" in page
    states: list[dict[str, Any]] = json.loads(httpx.get(f"{service}sources.json").content)["sources"]
    assert [state["in_use"] for state in states] == [True, True, True, False]
    assert states[0]["name"] == "P"
    assert "cannot be read" in states[3]["problem"]
    assert httpx.get(f"{service}healthz").text == "ok\n"


def test_a_port_in_use_is_said(service: str) -> None:
    port = int(service.rsplit(":", 1)[1].strip("/"))
    with pytest.raises(ConfigError, match="Choose another --port"):
        bind("127.0.0.1", port)


def test_the_command_collects_answers_and_ends_on_an_interrupt(
    honest: list[ExportServer], tmp_path: Path
) -> None:
    path = tmp_path / "projects.txt"
    path.write_text("".join(f"{server.url}  # honest\n" for server in honest))
    command = [sys.executable, "-m", "cobblestone", "scales", "serve", str(path), "--port", "0"]
    command += ["--state", str(tmp_path / "state.json")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as service:
        assert service.stderr is not None
        lines = iter(service.stderr.readline, "")
        address = (
            next(line for line in lines if "Scales (projects: 3) at " in line).split(" at ")[1].split()[0]
        )
        assert any("scales_collected" in line for line in lines)
        assert parse_published_scales(read_document(address)) == {"cuda": pytest.approx(WITHOUT_A_LIE)}
        service.send_signal(signal.SIGINT)
        assert service.wait(60) == 0


def test_published_scales_that_cannot_be_fetched_are_said(tmp_path: Path) -> None:
    with pytest.raises(DocumentUnreadable, match="cannot be read"):
        read_document(str(tmp_path / "nothing.json"))
    with pytest.raises(DocumentUnreadable, match="cannot be read"):
        read_document(f"http://127.0.0.1:{closed_port()}/")
