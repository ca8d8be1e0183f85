from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.helpers.api_client import ApiClient
from tests.helpers.project_world import World

from cobblestone.policy.validation.comparison import tolerance_of
from cobblestone.policy.validation.numeric import Tolerance
from cobblestone.store.catalog import apps
from cobblestone.wire.project.signatures import (
    encode_private_key,
    encode_public_key,
    generate_key,
    sign_key_handover,
    sign_md5,
    verify_md5,
)

COMMAND = ["python3", "period.py", "{input}", "{output}"]


def body(**members: Any) -> dict[str, Any]:
    return {"name": "period", "command": COMMAND, "outputs": [{"name": "output"}], **members}


def test_an_app_is_created_with_its_version(api: ApiClient):
    app = api.add_app(rules={"min_quorum": 2}, comparison={"kind": "numeric", "options": {"rtol": 1e-6}})
    assert app["inputs"] == [{"name": "input", "open_name": ""}]
    assert app["rules"]["target_nresults"] == 2
    assert app["comparison"] == {"kind": "numeric", "options": {"rtol": 1e-6, "atol": 0.0}}
    (version,) = app["versions"]
    assert (version["version_num"], version["platform"], version["signed"]) == (100, "any", True)
    assert api.get("/apps/period") == app
    assert api.get("/apps")["apps"] == [app]


def test_files_are_signed_with_the_project_s_key(api: ApiClient, world: World):
    api.add_app()
    files = world.value("SELECT files FROM app_version")
    import msgspec

    (file,) = msgspec.json.decode(files)
    assert verify_md5(world.key.public_key(), file["md5"], file["signature"])


def test_a_version_is_unsigned_when_the_private_key_is_elsewhere(api: ApiClient, world: World):
    world.ctx.folder.code_sign_private.unlink()
    app = api.add_app()
    assert not app["versions"][0]["signed"]
    note = api.post("/batches", {"app": "period", "jobs": [api.job()]})["notes"]
    assert "key sign" in note[0]


def test_a_private_key_of_another_project_is_noticed(api: ApiClient, world: World):
    world.ctx.folder.code_sign_private.write_text(encode_private_key(generate_key()))
    problem = api.problem(422, "POST", "/apps", body(version=api.version()))
    assert "does not belong" in problem["message"]
    assert api.get("/apps")["apps"] == []


def test_a_wrong_version_leaves_no_app(api: ApiClient):
    version = {"platform": "any", "files": [{"file": "gone", "open_name": "x", "main_program": True}]}
    problem = api.problem(404, "POST", "/apps", body(version=version))
    assert "gone" in problem["message"]
    api.problem(404, "GET", "/apps/period")


def test_nan_may_agree_with_nan(api: ApiClient, world: World):
    comparison = {"kind": "numeric", "options": {"nan_equal": "true", "atol": 0.5}}
    app = api.add_app(comparison=comparison)
    assert app["comparison"]["options"] == {"rtol": 1e-6, "atol": 0.5, "nan_equal": "true"}
    (stored,) = world.ctx.store.read(apps.list_apps)
    assert tolerance_of(stored.comparison.options) == Tolerance(rtol=1e-6, atol=0.5, nan_equal=True)


def test_a_taken_name_is_a_conflict(api: ApiClient):
    api.add_app()
    assert api.problem(409, "POST", "/apps", body())["code"] == "conflict"


def test_repeating_a_request_with_its_key_creates_one_app(api: ApiClient):
    key = {"headers": {"Idempotency-Key": "abc"}}
    first = api.post("/apps", body(), **key)
    assert api.post("/apps", body(), **key) == first
    assert api.problem(409, "POST", "/apps", body(title="other"), **key)["code"] == "conflict"


@pytest.mark.parametrize("key", ["", "k" * 201])
def test_a_key_of_bad_length_is_refused(api: ApiClient, key: str):
    headers = {"headers": {"Idempotency-Key": key}}
    assert api.problem(400, "POST", "/apps", body(), **headers)["code"] == "bad_idempotency_key"


WRONG_APPS = {
    "unknown placeholder": (body(command=["a", "{inptu}", "{output}"]), "{input}"),
    "undeclared output": (body(command=["a", "{output:r.csv}"]), "r.csv"),
    "quorum above target": (body(rules={"min_quorum": 3, "target_nresults": 2}), "target_nresults"),
    "success above total": (body(rules={"max_success_results": 30, "max_total_results": 20}), "max_total"),
    "bound below estimate": (
        body(limits={"rsc_fpops_est": 1e15, "rsc_fpops_bound": 1e12}),
        "rsc_fpops_bound",
    ),
    "unknown option": (body(comparison={"kind": "numeric", "options": {"rtoll": 1}}), "rtoll"),
    "negative tolerance": (body(comparison={"kind": "numeric", "options": {"rtol": -1}}), "rtol"),
    "option of bitwise": (body(comparison={"kind": "bitwise", "options": {"rtol": 1}}), "takes no options"),
    "python without function": (body(comparison={"kind": "python"}), "must name a file"),
    "python with more": (
        body(comparison={"kind": "python", "options": {"function": "a.py:f", "x": 1}}),
        "'x'",
    ),
    "path out of the folder": (body(assimilator="../x.py:f"), "FILE.py:function"),
    "folder out of the project": (body(assimilator="folder:../x"), "folder"),
    "unknown credit system": (body(credit={"system": "magic"}), "magic"),
    "outputs twice": (body(outputs=[{"name": "output"}, {"name": "output"}]), "twice"),
    "command and inputs": (body(inputs=[{"name": "a"}]), "exclude"),
    "bad name": (body(name="no spaces"), "name"),
    "infinite estimate": (body(limits={"rsc_fpops_est": 1e300}), "rsc_fpops_est"),
}


@pytest.mark.parametrize(("wrong", "mentions"), WRONG_APPS.values(), ids=WRONG_APPS)
def test_a_wrong_app_is_refused_with_what_is_wrong(api: ApiClient, wrong: dict[str, Any], mentions: str):
    problem = api.problem(422, "POST", "/apps", wrong)
    assert mentions in problem["message"]
    assert api.get("/apps")["apps"] == []


def version_of(api: ApiClient, *files: tuple[str, dict[str, Any]], **members: Any) -> dict[str, Any]:
    return {
        "platform": "any",
        "files": [
            {"file": api.put(name.encode(), name), "open_name": name, **flags} for name, flags in files
        ],
        **members,
    }


MAIN = ("main.sh", {"main_program": True})


def test_a_wrong_version_is_refused_with_what_is_wrong(api: ApiClient):
    api.add_app()
    cases = [
        (version_of(api, ("a", {}), ("b", {})), 422, "exactly one"),
        (version_of(api, MAIN, ("a", {}), ("a", {})), 422, "'a'"),
        (version_of(api, MAIN, ("stderr.txt", {})), 422, "stderr.txt"),
        (version_of(api, MAIN, ("output", {})), 422, "'output'"),
        (version_of(api, MAIN, ("input.json", {})), 422, "'input'"),
        (version_of(api, MAIN, plan_class="cuda"), 404, "plan_classes.toml"),
        (version_of(api, ("main.sh", {"main_program": True, "signature": "ab" * 128})), 422, "signature"),
    ]
    for wrong, status, mentions in cases:
        assert mentions in api.problem(status, "POST", "/apps/period/versions", wrong)["message"]
    assert len(api.get("/apps/period/versions")["versions"]) == 1


def test_versions_of_an_unknown_app_are_not_found(api: ApiClient):
    problem = api.problem(404, "POST", "/apps/nope/versions", api.version())
    assert "Known: none yet" in problem["message"]


def test_a_version_and_changes_to_its_app_come_together(api: ApiClient):
    api.add_app()
    changes = {"command": ["python3", "x.py", "{output:r.csv}"], "outputs": [{"name": "r.csv"}]}
    added = api.post("/apps/period/versions", api.version(app_changes=changes))
    assert added["version_num"] == 101
    app = api.get("/apps/period")
    assert app["command"] == changes["command"]
    bad = api.version(plan_class="none", app_changes={"title": "changed"})
    api.problem(404, "POST", "/apps/period/versions", bad)
    assert api.get("/apps/period") == app


def test_an_app_is_changed_in_parts(api: ApiClient):
    before = api.add_app()
    after = api.patch(
        "/apps/period", {"title": "Periods", "deprecated": True, "limits": {"delay_bound": 3600}}
    )
    assert (after["title"], after["deprecated"]) == ("Periods", True)
    assert after["limits"] == {**before["limits"], "delay_bound": 3600}
    assert after["command"] == before["command"]


def test_outputs_that_the_command_names_cannot_be_taken_away(api: ApiClient):
    api.add_app(command=["a", "{output:x}"], outputs=[{"name": "x"}])
    problem = api.problem(422, "PATCH", "/apps/period", {"outputs": [{"name": "y"}]})
    assert "'x'" in problem["message"]


def test_a_native_program_gets_no_command(api: ApiClient):
    api.post("/apps", {"name": "native", "outputs": [{"name": "out"}]})
    assert "native" in api.problem(422, "PATCH", "/apps/native", {"command": ["a"]})["message"]


def test_a_version_is_deprecated_and_given_out_again(api: ApiClient):
    version = api.add_app()["versions"][0]
    assert api.patch(f"/versions/{version['id']}", {"deprecated": True})["deprecated"]
    assert api.get("/apps/period/versions")["versions"] == []
    assert len(api.get("/apps/period/versions", deprecated="true")["versions"]) == 1
    api.patch(f"/versions/{version['id']}", {"deprecated": False})
    assert len(api.get("/apps/period")["versions"]) == 1


def test_the_scheduler_learns_of_a_new_version_at_once(api: ApiClient, world: World):
    offer = world.write(world.ctx.offers.get)
    assert offer.catalogue.apps == {}
    api.add_app()
    assert len(world.write(world.ctx.offers.get).catalogue.apps) == 1


# -- signing on another machine -----------------------------------------------------------------------------


def unsigned_app(api: ApiClient, world: World) -> dict[str, Any]:
    world.ctx.folder.code_sign_private.unlink()
    return api.add_app()


def test_signatures_made_elsewhere_are_imported(api: ApiClient, world: World):
    unsigned_app(api, world)
    manifest = api.get("/signatures")
    assert manifest["public_key"].strip() == encode_public_key(world.key.public_key()).strip()
    signatures = {file["file"]: sign_md5(world.key, file["md5"]) for file in manifest["files"]}
    reply = api.post("/signatures", {"signatures": signatures})
    assert reply == {"versions_changed": 1, "still_unsigned": []}
    assert api.get("/apps/period")["versions"][0]["signed"]
    assert api.get("/signatures")["files"] == []
    assert len(api.get("/signatures", all="true")["files"]) == 1


def test_files_to_sign_can_be_fetched(api: ApiClient, world: World):
    unsigned_app(api, world)
    (file,) = api.get("/signatures")["files"]
    assert world.get(file["url"]).content == b"#!/bin/sh\n"


def test_a_signature_of_another_key_is_refused(api: ApiClient, world: World):
    unsigned_app(api, world)
    (file,) = api.get("/signatures")["files"]
    wrong = {file["file"]: sign_md5(generate_key(), file["md5"])}
    assert "current key" in api.problem(422, "POST", "/signatures", {"signatures": wrong})["message"]
    assert "No app version" in api.problem(404, "POST", "/signatures", {"signatures": {"x": "ab"}})["message"]
    assert not api.get("/apps/period")["versions"][0]["signed"]


def new_key_body(api: ApiClient, world: World, **changes: Any) -> dict[str, Any]:
    key = generate_key()
    text = encode_public_key(key.public_key())
    old = next(each for each in api.get("/keys")["keys"] if each["current"])
    return {
        "public_key": text,
        "successor_signatures": {str(old["id"]): sign_key_handover(world.key, text)},
        "signatures": {
            file["file"]: sign_md5(key, file["md5"]) for file in api.get("/signatures", all="true")["files"]
        },
        **changes,
    }


def test_key_handover_and_signatures_change_together(api: ApiClient, world: World):
    api.add_app()
    body = new_key_body(api, world)
    assert api.post("/keys", body) == {"versions_changed": 1, "still_unsigned": []}
    new, old = api.get("/keys")["keys"]
    assert (new["current"], old["current"], old["has_successor_signature"]) == (True, False, True)
    assert new["public_key"] == body["public_key"].strip()


def test_files_that_the_new_key_did_not_sign_become_unsigned(api: ApiClient, world: World):
    api.add_app()
    reply = api.post("/keys", new_key_body(api, world, signatures={}))
    assert len(reply["still_unsigned"]) == 1
    assert not api.get("/apps/period")["versions"][0]["signed"]


def test_a_key_that_nobody_vouches_for_correctly_is_refused(api: ApiClient, world: World):
    api.add_app()
    for changes in (
        {"public_key": "nonsense"},
        {"successor_signatures": {"1": "ab" * 128}},
        {"successor_signatures": {"77": "ab" * 128}},
        {"signatures": {"unknown": "ab" * 128}},
    ):
        answer = api.call("POST", "/keys", new_key_body(api, world, **changes))
        assert answer.status_code in (404, 422), answer.text
    assert len(api.get("/keys")["keys"]) == 1


def test_a_computer_that_cannot_start_a_version_is_told_so_and_gets_none(api: ApiClient, world: World):
    command = {
        "command": ["./run.sh", "{output}"],
        "outputs": [{"name": "output"}],
        "version": version_of(
            api,
            ("run.sh", {"main_program": True}),
            platform="x86_64-pc-linux-gnu",
            also_for=["arm64-apple-darwin"],
        ),
    }
    app = api.post("/apps", {"name": "shell", **command})
    assert [(each["platform"], each["version_num"]) for each in app["versions"]] == [
        ("x86_64-pc-linux-gnu", 100),
        ("arm64-apple-darwin", 100),
    ]
    api.post("/batches", {"app": "shell", "jobs": [{}]})
    world.settle()
    for platform, n_jobs in (("windows_x86_64", 0), ("arm64-apple-darwin", 1)):
        host = world.host(world.user(platform))
        host.request = replace(host.request, platforms=(platform,))
        host.rpc(ask=1e6)
        assert len(host.new_results()) == n_jobs
        assert n_jobs or any(f"computers of type {platform}" in text for text in host.messages())


ELF = b"\x7fELF\x02\x01\x01" + bytes(11) + b"\x3e\x00" + bytes(44)
PE = b"MZ" + bytes(58) + b"\x40\0\0\0" + b"PE\0\0" + b"\x64\x86" + bytes(20)
MACH_O = b"\xcf\xfa\xed\xfe" + b"\x0c\0\0\x01" + bytes(24)
SCRIPT = b"#!/bin/sh\n"
LINUX, WINDOWS, MAC = "x86_64-pc-linux-gnu", "windows_x86_64", "arm64-apple-darwin"


STARTED: list[tuple[bytes, bytes | None, str, list[str], str]] = [
    (ELF, None, LINUX, [], ""),
    (ELF, None, WINDOWS, [], "main cannot be started on 'windows_x86_64', but on x86_64-pc-linux-gnu"),
    (ELF, None, LINUX, [MAC], "main cannot be started on 'arm64-apple-darwin'"),
    (ELF, None, "any", [], "main cannot be started on 'any'"),
    (PE, None, LINUX, [], "but on windows_x86_64"),
    (PE, None, WINDOWS, [], ""),
    (MACH_O, None, MAC, [], ""),
    (MACH_O, None, "x86_64-apple-darwin", [], "but on arm64-apple-darwin"),
    (SCRIPT, None, WINDOWS, [], "main cannot be started on 'windows_x86_64'"),
    (SCRIPT, ELF, "any", [], "tool cannot be started on 'any', but on x86_64-pc-linux-gnu"),
    (SCRIPT, ELF, LINUX, [], ""),
    (SCRIPT, ELF, LINUX, [MAC], "tool cannot be started on 'arm64-apple-darwin'"),
    (SCRIPT, SCRIPT, "any", [], "tool cannot be started on 'any'"),
    (ELF[:18] + b"\xf3\0" + ELF[20:], None, LINUX, [], "no BOINC client"),
    (ELF, None, "sparc-sun-solaris", [], ""),  # nothing is known of it
    (b"a program of its own kind", None, LINUX, [], ""),
]
"""Main program, the file that the command starts, platforms, and what is said against that."""


def test_a_posted_version_is_only_for_platforms_that_can_start_its_files(api: ApiClient):
    for number, (main, tool, platform, also_for, refused) in enumerate(STARTED):
        command = ["./tool", "{output}"] if tool is not None else []
        app = f"shell{number}"
        api.post("/apps", {"name": app, "command": command, "outputs": [{"name": "output"}]})
        files = [{"file": api.put(main, "main"), "open_name": "main", "main_program": True}]
        if tool is not None:
            files.append({"file": api.put(tool, "tool"), "open_name": "tool"})
        version = {"platform": platform, "also_for": also_for, "files": files}
        if refused:
            problem = api.problem(422, "POST", f"/apps/{app}/versions", version)
            assert refused in problem["message"]
            assert api.get(f"/apps/{app}/versions")["versions"] == []
        else:
            assert api.post(f"/apps/{app}/versions", version)["platform"] == platform


def test_each_platform_of_a_version_may_have_a_program_of_its_own(api: ApiClient):
    programs = {LINUX: ELF, WINDOWS: PE}
    own = {
        platform: [{"file": api.put(program, "main"), "open_name": "main", "main_program": True}]
        for platform, program in programs.items()
    }
    data = [{"file": api.put(b"data", "data"), "open_name": "data"}]
    version = {"platform": LINUX, "also_for": [WINDOWS], "files": data, "platform_files": own}
    app = {"name": "shell", "outputs": [{"name": "output"}]}
    swapped = dict(zip(own, reversed(own.values()), strict=True))
    assert (
        "cannot be started on"
        in api.problem(422, "POST", "/apps", {**app, "version": {**version, "platform_files": swapped}})[
            "message"
        ]
    )
    assert len(api.post("/apps", {**app, "version": version})["versions"]) == 2


def test_a_version_for_every_platform_has_no_further_ones(api: ApiClient):
    body = {
        "name": "x",
        "command": ["a", "{output}"],
        "outputs": [{"name": "output"}],
        "version": version_of(api, ("a", {"main_program": True})),
    }
    body["version"] |= {"platform": "any", "also_for": ["windows_x86_64"]}
    assert "also_for" in api.problem(422, "POST", "/apps", body)["message"]
