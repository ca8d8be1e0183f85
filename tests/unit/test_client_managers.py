"""What managers ask of the client by GUI RPC, and what they are shown."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from tests.helpers.client_state import World, play
from tests.helpers.daemon_in_test import until
from tests.helpers.gui_rpc_peer import Peer

from cobblestone.client.projects.task_specs import guessed_fraction
from cobblestone.client.remote import interfaces
from cobblestone.client.remote.gui_rpc_operations import Operations
from cobblestone.client.remote.interfaces import GuiRpcServer
from cobblestone.domain.computing import ComputingPreferences
from cobblestone.policy.client.host.preferences import allowed_disk
from cobblestone.wire.client.gui_rpc import GuiRpcCall, GuiRpcConnection, GuiRpcReply
from cobblestone.wire.text.tree import read_tree


def ask(world: World, operation: str, content: str = "") -> str:
    node = read_tree(f"<{operation}>{content}</{operation}>".encode(), operation)
    return Operations(world.client.controls).carry_out(GuiRpcCall(operation, node.reader([]), node))


def test_a_product_name_given_by_a_manager_is_reported(tmp_path: Path) -> None:
    def check(world: World) -> None:
        ask(world, "set_host_info", "<host_info><product_name>A phone</product_name></host_info>")
        assert world.client.facts().host.product_name == "A phone"
        assert "<product_name>A phone</product_name>" in ask(world, "get_host_info")

    play(tmp_path, check)


def test_the_list_of_projects_of_another_client_is_passed_on(tmp_path: Path) -> None:
    def check(world: World) -> None:
        assert ask(world, "get_all_projects_list") == ""
        text = "<projects>\n<project><name>A</name></project>\n</projects>\n"
        world.write("all_projects_list.xml", f'<?xml version="1.0"?>\n{text}')
        assert ask(world, "get_all_projects_list") == text

    play(tmp_path, check)


def test_connections_that_say_nothing_give_way_to_a_manager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interfaces, "MAX_GUI_RPC_CONNECTIONS", 3)

    async def check(world: World) -> None:
        server = GuiRpcServer(world.client.controls, port=0)
        await server.start()
        try:
            idle = [await asyncio.to_thread(Peer, server.port) for _ in range(5)]
            await until(lambda: len(server._connections) == 3, seconds=30, what="five connections")
            with await asyncio.to_thread(Peer, server.port) as manager:
                assert await asyncio.to_thread(manager.ask, "<exchange_versions/>")
            for each in idle:
                each.socket.close()
        finally:
            await server.close()

    play(tmp_path, check)


def test_a_request_is_read_beside_the_event_loop_and_others_have_their_turn_between_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[int, int]] = []
    receive_data = GuiRpcConnection.receive_data

    def noted(self: GuiRpcConnection, data: bytes) -> list[GuiRpcCall | GuiRpcReply]:
        found = receive_data(self, data)
        read.append((len(found), threading.get_ident()))
        return found

    monkeypatch.setattr(GuiRpcConnection, "receive_data", noted)

    async def check(world: World) -> None:
        server = GuiRpcServer(world.client.controls, port=0)
        await server.start()
        answered: list[str] = []
        carry_out = server._operations.carry_out

        def slowly(call: GuiRpcCall) -> str:
            answered.append(call.operation)
            return carry_out(call)

        monkeypatch.setattr(server._operations, "carry_out", slowly)
        try:
            with await asyncio.to_thread(Peer, server.port) as manager:
                content = f"<get_cc_status>{'<a/>' * 5000}</get_cc_status>"
                assert "task_mode" in await asyncio.to_thread(manager.ask, content)
                assert [ident != threading.get_ident() for n, ident in read if n] == [True]
                answered.clear()
                request = b"<boinc_gui_rpc_request><get_cc_status/></boinc_gui_rpc_request>\3"
                manager.socket.sendall(request * 50)
                turns = 0
                while len(answered) < 50:
                    await asyncio.sleep(0)
                    turns += bool(answered)
                assert turns >= 40
        finally:
            await server.close()

    play(tmp_path, check)


def test_a_program_that_does_not_say_how_far_it_is_is_shown_by_its_time(tmp_path: Path) -> None:
    def check(world: World) -> None:
        job = world.content.jobs["wide_0_r"]
        version = world.content.version_of(job)
        assert version is not None
        estimate = world.content.workunits[job.result.wu_name].rsc_fpops_est / version.flops
        assert guessed_fraction(world.content, job, 0.0) == 0.0
        assert guessed_fraction(world.content, job, estimate) == pytest.approx(0.632, abs=0.001)
        assert 0.99 < guessed_fraction(world.content, job, 6 * estimate) < 1.0

    play(tmp_path, check)


def test_a_gigabyte_of_disk_has_as_many_bytes_as_in_the_family() -> None:
    allowed = allowed_disk(ComputingPreferences(disk_max_used_gb=10.0), total=1e12, free=1e12, used=0.0)
    assert allowed == 10 * 2**30
