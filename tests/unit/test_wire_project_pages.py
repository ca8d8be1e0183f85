"""Project configuration, server status, scheduler tags, feeds."""

from __future__ import annotations

import pytest
from tests.helpers.wire_elements import read_elements

from cobblestone.domain.errors import LocalProtocolError
from cobblestone.wire.project.pages import (
    AppTasks,
    DaemonStatus,
    FamilyDaemonState,
    PlatformEntry,
    ProjectConfig,
    RssChannel,
    RssItem,
    ServerStatus,
    rfc822_date,
    scheduler_link_tags,
    write_project_config,
    write_rss,
    write_server_status,
)


def test_both_forms_of_the_scheduler_tag_stand_on_their_own_lines():
    assert scheduler_link_tags("http://h.org/cgi").splitlines() == [
        '<link rel="boinc_scheduler" href="http://h.org/cgi">',
        "<!-- <scheduler>http://h.org/cgi</scheduler> -->",
    ]


def test_a_scheduler_url_that_makes_a_line_too_long_for_clients_is_refused():
    fits = "http://h.org/" + "x" * 206
    assert max(len(line) for line in scheduler_link_tags(fits).splitlines()) == 255
    with pytest.raises(LocalProtocolError, match="too long"):
        scheduler_link_tags(fits + "x")


@pytest.mark.parametrize(
    "url", ["http://h/ x", 'http://h/"x', "http://h/<x>", "http://h/a--b", "http://h/\n"]
)
def test_a_scheduler_url_that_does_not_fit_into_html_is_refused(url: str):
    with pytest.raises(LocalProtocolError, match="cannot be the scheduler's URL"):
        scheduler_link_tags(url)


def test_a_full_project_configuration_is_written():
    config = ProjectConfig(
        name="P & Q", master_url="http://p/", web_rpc_url_base="https://p/", server_version="820", account_manager=True,
        web_stopped=True, sched_stopped=True, min_passwd_length=8, uses_username=True, account_creation_disabled=True,
        client_account_creation_disabled=True, invite_code_required=True, min_client_version=716,
        terms_of_use="Be kind.\nDon't <cheat>.", platforms=(PlatformEntry(platform_name="x", plan_class="mt"),),
    )  # fmt: skip
    root = read_elements(write_project_config(config))
    assert root.tags == [
        "name", "master_url", "web_rpc_url_base", "server_version", "account_manager", "web_stopped",
        "account_creation_disabled", "client_account_creation_disabled", "invite_code_required", "uses_username",
        "min_passwd_length", "sched_stopped", "min_client_version", "terms_of_use", "platforms",
    ]  # fmt: skip
    assert root.get("terms_of_use").strip() == "Be kind.\nDon't <cheat>."
    platform = root.path("platforms", "platform")
    assert (
        platform.get("platform_name"),
        platform.get("user_friendly_name"),
        platform.get("plan_class"),
    ) == ("x", "x", "mt")


def test_the_server_status_has_the_shape_that_status_sites_read():
    daemons = [
        DaemonStatus(host="h", command="transitioner", status=FamilyDaemonState.RUNNING),
        DaemonStatus(host="h", command="validator (a)", status=FamilyDaemonState.NOT_RUNNING),
    ]
    apps = [AppTasks(id=1, name="a", unsent=5, avg_runtime=0.25), AppTasks(id=2, name="b")]
    status = ServerStatus(results_ready_to_send=3, transitioner_backlog_hours=0.5)
    root = read_elements(write_server_status(status, daemons, apps))
    assert root.tags == ["daemon_status", "database_file_states"]
    assert [daemon.get("status") for daemon in root.path("daemon_status").children] == [
        "running",
        "not running",
    ]
    states = root.path("database_file_states")
    assert states.tags == [
        "results_ready_to_send", "results_in_progress", "workunits_waiting_for_validation",
        "workunits_waiting_for_assimilation", "workunits_waiting_for_deletion", "results_waiting_for_deletion",
        "transitioner_backlog_hours", "users_with_recent_credit", "users_with_credit",
        "users_registered_in_past_24_hours", "hosts_with_recent_credit", "hosts_with_credit",
        "hosts_registered_in_past_24_hours", "current_floating_point_speed", "tasks_by_app",
    ]  # fmt: skip
    assert (states.get("results_ready_to_send"), states.get("transitioner_backlog_hours")) == (
        "3",
        "0.500000",
    )
    first, second = states.path("tasks_by_app").children
    assert first.tags == [
        "id",
        "name",
        "unsent",
        "in_progress",
        "avg_runtime",
        "min_runtime",
        "max_runtime",
        "users",
    ]
    assert (first.get("unsent"), first.get("avg_runtime"), second.get("name")) == ("5", "0.250000", "b")


def test_dates_in_feeds_are_those_of_mail():
    assert rfc822_date(0) == "Thu, 01 Jan 1970 00:00:00 GMT"


def test_a_feed_keeps_html_and_escapes_titles():
    item = RssItem(
        title="a & b", guid="http://x/?a=1&b", published=0.0, description="<p>x</p>", link="http://x/"
    )
    text = write_rss(
        RssChannel(title="<t>", link="http://x/", description="d", items=(item, item)), built=0.0
    )
    channel = read_elements(text).path("channel")
    assert (channel.get("title"), len(channel.all("item"))) == ("<t>", 2)
    first = channel.path("item")
    assert first.tags == ["title", "link", "guid", "pubDate", "description"]
    assert (first.get("title"), first.get("guid"), first.get("description")) == (
        "a & b",
        "http://x/?a=1&b",
        "<p>x</p>",
    )
    assert first.path("guid").attributes == 'isPermaLink="false"'
