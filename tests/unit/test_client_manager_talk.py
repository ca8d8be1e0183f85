"""All that the BOINC Manager was seen to ask is answered, and what it orders is done."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.client_state import World, play
from tests.helpers.gui_rpc_peer import structure

from cobblestone.client.remote.gui_rpc_operations import Operations
from cobblestone.wire.client.gui_rpc import END, GuiRpcCall, GuiRpcConnection, write_reply

#: Debian's Manager 7.20.5 (22 November 2026, under Xvfb): it connects, all its pages are looked at in turn, computing is
#: switched on, a project is suspended and resumed, the dialogs of preferences and for a new project are opened.
RECORDED = Path(__file__).parents[1] / "golden" / "gui_rpc_manager" / "requests.xml"
#: The first element of each answer, where the stock client has any.
FIRST = {
    "acct_mgr_info": "/acct_mgr_info",
    "exchange_versions": "/server_version",
    "get_cc_status": "/cc_status",
    "get_disk_usage": "/disk_usage_summary",
    "get_file_transfers": "/file_transfers",
    "get_global_prefs_file": "/global_preferences",
    "get_global_prefs_override": "/global_preferences",
    "get_global_prefs_working": "/global_preferences",
    "get_messages": "/msgs",
    "get_notices": "/notices",
    "get_project_init_status": "/get_project_init_status",
    "get_project_status": "/projects",
    "get_results": "/results",
    "get_state": "/client_state",
    "get_statistics": "/statistics",
    "project_resume": "/success",
    "project_suspend": "/success",
    "set_language": "/success",
    "set_run_mode": "/success",
}


def calls() -> list[GuiRpcCall]:
    connection = GuiRpcConnection(password="", local=True, nonce="1.2")
    found: list[GuiRpcCall] = []
    for line in RECORDED.read_bytes().splitlines():
        found += [each for each in connection.receive_data(line + END) if isinstance(each, GuiRpcCall)]
    return found


def test_what_the_manager_asks_is_answered_and_what_it_orders_is_done(tmp_path: Path) -> None:
    def talk(world: World) -> None:
        for name in ("global_prefs.xml", "global_prefs_override.xml"):
            world.write(
                name,
                "<global_preferences>\n<run_if_user_active>1</run_if_user_active>\n</global_preferences>\n",
            )
        operations = Operations(world.client)
        project = world.content.project
        suspended: list[bool] = []
        answered: dict[str, list[str]] = {}
        for call in calls():
            answer = write_reply(operations.carry_out(call)).removesuffix(END).decode()
            answered[call.operation] = structure(answer)
            suspended.append(project.suspended_via_gui)
        assert len(answered) == len(RECORDED.read_text().splitlines()) == 20
        assert {
            name: found[0].removeprefix("/boinc_gui_rpc_reply")
            for name, found in answered.items()
            if name in FIRST
        } == FIRST
        assert True in suspended
        assert not suspended[-1]
        assert world.client.state.notes.run_mode.permanent == 1

    play(tmp_path, talk)
