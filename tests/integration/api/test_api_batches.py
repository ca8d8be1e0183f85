"""From submission to the outputs, with simulated hosts."""

from __future__ import annotations

import asyncio
import html
import io
import zipfile
from typing import Any

import pytest
from tests.helpers.api_client import API, ApiClient
from tests.helpers.project_world import World, failed
from tests.helpers.wire_elements import Element

from cobblestone.domain.reasons import exit_advice
from cobblestone.store.catalog import files
from cobblestone.wire.scheduler.request import InProgressResult


def compute(world: World, *contents: bytes, users: int = 1) -> None:
    """Hosts of several users take and finish all jobs that there are; each output is the next content, or the first."""
    for number in range(users):
        host = world.host(world.user(f"user{number}"))
        host.rpc(ask=1e6)
        while host.held:
            reports = []
            for place, name in enumerate(sorted(host.held, key=job_number)):
                content = contents[min(place, len(contents) - 1)] if contents else b"out"
                reports.append(host.finish(name, content))
            host.rpc(ask=1e6, reports=reports)
            world.settle()
    world.settle()


def job_number(result_name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in result_name.split("_")[1:])


def submit(api: ApiClient, *jobs: dict[str, Any], **members: Any) -> Any:
    batch = api.post("/batches", {"app": "period", "jobs": list(jobs), **members})
    api.world.settle()
    return batch


def results(api: ApiClient, batch_id: int, **query: Any) -> Any:
    return api.get(f"/batches/{batch_id}/results", **query)


def test_a_batch_goes_from_submission_to_its_outputs(api: ApiClient, world: World):
    api.add_app()
    batch = submit(api, api.job(name="low"), api.job(b"[2]", name="high"), name="two")
    assert (batch["state"], batch["njobs"], batch["finished"]) == ("running", 2, False)
    compute(world, b"first", b"second")
    status = api.get(f"/batches/{batch['id']}")
    assert (status["state"], status["done"], status["failed"], status["finished"]) == ("complete", 2, 0, True)
    page = results(api, batch["id"])
    assert page["finished"]
    assert {job["name"]: job["status"] for job in page["results"]} == {"low": "done", "high": "done"}
    contents = {}
    for job in page["results"]:
        (output,) = job["outputs"]
        contents[job["name"]] = api.call("GET", output["url"].partition(API)[2]).content
        assert output["name"] == "output"
    assert contents == {"low": b"first", "high": b"second"}


def test_the_job_is_described_to_the_host_as_the_launcher_expects(api: ApiClient, world: World):
    api.add_app(command=["python3", "p.py", "{input}", "{output}", "{arg:k}"])
    submit(api, api.job(args={"k": "a b"}))
    host = world.host(world.user("u"))
    reply = host.rpc(ask=100)
    (workunit,) = reply.all("workunit")
    assert (
        workunit.get("command_line").strip()
        == "--input input=input.json --output output=output --arg k=a%20b"
    )
    assert [ref.get("open_name") for ref in workunit.all("file_ref")] == ["input.json"]
    assert workunit.all("file_ref")[0].has("copy_file")


def test_inputs_are_found_by_name_or_by_order(api: ApiClient, world: World):
    api.add_app(command=["p", "{input:table}", "{input:grid}", "{output}"])
    one, two = api.put(b"1"), api.put(b"2")
    submit(
        api,
        {"inputs": [{"file": one, "name": "grid"}, {"file": two, "file_name": "t.csv"}]},
        {"inputs": [{"file": one}, {"file": two, "file_name": "g.tar.gz"}]},
    )
    lines = [row[0] for row in world.query("SELECT command_line FROM workunit ORDER BY id")]
    assert lines[0] == "--input grid=grid --input table=table.csv --output output=output"
    assert lines[1] == "--input table=table --input grid=grid.tar.gz --output output=output"


def test_an_app_may_take_any_number_of_inputs(api: ApiClient, world: World):
    api.add_app(command=["p", "{inputs}", "{output}"])
    file = api.put(b"1")
    submit(api, {"inputs": [{"file": file, "file_name": "a.csv"}, {"file": file, "name": "last"}]})
    line = world.value("SELECT command_line FROM workunit")
    assert line == "--input input_0=input_0.csv --input last=last --output output=output"


def test_a_native_program_gets_its_files_and_options(api: ApiClient, world: World):
    api.post(
        "/apps",
        {
            "name": "native",
            "command_line": "--fast",
            "inputs": [{"name": "in", "open_name": "in.dat", "copy_file": False, "sticky": True}],
            "outputs": [{"name": "out"}],
            "version": api.version(),
        },
    )
    job = {"inputs": [{"file": api.put(b"1"), "file_name": "x.y"}], "command_line": "--n 3"}
    api.post("/batches", {"app": "native", "jobs": [job]})
    world.settle()
    reply = world.host(world.user("u")).rpc(ask=100)
    (workunit,) = reply.all("workunit")
    assert workunit.get("command_line").strip() == "--fast --n 3"
    assert workunit.all("file_ref")[0].get("open_name") == "in.dat"
    assert not workunit.all("file_ref")[0].has("copy_file")


def test_the_first_input_of_a_native_program_is_called_input(api: ApiClient, world: World):
    api.post("/apps", {"name": "native", "outputs": [{"name": "out"}], "version": api.version()})
    file = api.put(b"1")
    job = {"inputs": [{"file": file, "file_name": "piece-7"}, {"file": file, "name": "grid.nc"}]}
    api.post("/batches", {"app": "native", "jobs": [job]})
    world.settle()
    (workunit,) = world.host(world.user("u")).rpc(ask=100).all("workunit")
    assert [ref.get("open_name") for ref in workunit.all("file_ref")] == ["input", "grid.nc"]


WRONG_JOBS = {
    "missing input": ({}, "is missing the input input"),
    "too many inputs": ({"inputs": [{"file": "F"}, {"file": "F"}]}, "it has 2 inputs"),
    "unknown input": ({"inputs": [{"file": "F", "name": "inptu"}]}, "no input 'inptu'"),
    "file not stored": ({"inputs": [{"file": "jf_missing"}]}, "jf_missing is not stored"),
    "unknown argument": ({"inputs": [{"file": "F"}], "args": {"k": "1", "j": "2"}}, "does not use {arg:j}"),
    "missing argument": ({"inputs": [{"file": "F"}]}, "{arg:k}"),
    "command line": ({"inputs": [{"file": "F"}], "args": {"k": "1"}, "command_line": "-x"}, "native"),
    "long argument": ({"inputs": [{"file": "F"}], "args": {"k": "é" * 3900}}, "bytes"),
    "bad argument name": ({"inputs": [{"file": "F"}], "args": {"k": "1", "a b": "2"}}, "a b"),
    "bound below estimate": (
        {"inputs": [{"file": "F"}], "args": {"k": "1"}, "limits": {"rsc_fpops_bound": 1}},
        "rsc_fpops_bound",
    ),
}


@pytest.mark.parametrize(("wrong", "mentions"), WRONG_JOBS.values(), ids=WRONG_JOBS)
def test_one_wrong_job_is_named_and_nothing_is_stored(
    api: ApiClient, world: World, wrong: Any, mentions: str
):
    api.add_app(command=["p", "{input}", "{arg:k}", "{output}"])
    file = api.put(b"1")
    for given in wrong.get("inputs", []):
        given["file"] = file if given["file"] == "F" else given["file"]
    jobs = [{"inputs": [{"file": file}], "args": {"k": "1"}}, {"name": "second", **wrong}]
    problem = api.problem(422, "POST", "/batches", {"app": "period", "jobs": jobs})
    assert "Job 1 (second): " in problem["message"]
    assert mentions in problem["message"]
    assert api.get("/batches")["batches"] == []
    assert world.value("SELECT COUNT(*) FROM workunit") == 0
    assert world.value("SELECT refs FROM file WHERE name = ?", file) == 0


def test_an_input_must_not_take_the_name_of_an_app_s_file(api: ApiClient):
    file = api.put(b"1")
    api.add_app(
        command=["p", "{inputs}", "{output}"],
        version={
            "platform": "any",
            "files": [
                {"file": file, "open_name": "m", "main_program": True},
                {"file": file, "open_name": "table.csv", "copy_file": True},
            ],
        },
    )
    job = {"inputs": [{"file": file, "name": "table", "file_name": "x.csv"}]}
    problem = api.problem(422, "POST", "/batches", {"app": "period", "jobs": [job]})
    assert "'table.csv'" in problem["message"]


def test_a_batch_of_an_unknown_or_deprecated_app_is_refused(api: ApiClient):
    assert "Known: none yet" in api.problem(404, "POST", "/batches", {"app": "nope", "jobs": [{}]})["message"]
    api.add_app()
    api.patch("/apps/period", {"deprecated": True})
    problem = api.problem(409, "POST", "/batches", {"app": "period", "jobs": [api.job()]})
    assert "--no-deprecated" in problem["message"]


def test_an_empty_batch_is_refused_unless_jobs_follow(api: ApiClient):
    api.add_app()
    assert api.problem(422, "POST", "/batches", {"app": "period"})["code"] == "no_jobs"
    assert submit(api, open=True)["state"] == "open"


def test_more_jobs_than_a_request_takes_are_refused(api: ApiClient):
    api.add_app()
    job = api.job()
    assert api.problem(422, "POST", "/batches", {"app": "period", "jobs": [job] * 1001})["code"] == "bad_body"
    assert submit(api, *[job] * 1000)["njobs"] == 1000


def test_a_repeated_submission_gives_the_first_batch(api: ApiClient, world: World):
    api.add_app()
    body = {"app": "period", "jobs": [api.job()]}
    key = {"headers": {"Idempotency-Key": "once"}}
    first = api.post("/batches", body, **key)
    assert api.post("/batches", body, **key)["id"] == first["id"]
    assert world.value("SELECT COUNT(*) FROM workunit") == 1
    api.problem(409, "POST", "/batches", {**body, "name": "other"}, **key)
    world.now += 30 * 86400  # the reply is forgotten, the batch is not
    api.post("/news", {"title": "t", "text": "x"}, headers={"Idempotency-Key": "other"})
    assert api.post("/batches", body, **key)["id"] == first["id"]


def test_keys_of_different_tokens_do_not_meet(api: ApiClient, world: World):
    api.add_app()
    body = {"app": "period", "jobs": [api.job()]}
    key = {"headers": {"Idempotency-Key": "once"}}
    assert api.post("/batches", body, **key)["id"] != ApiClient(world).post("/batches", body, **key)["id"]


def test_jobs_are_added_by_position(api: ApiClient):
    api.add_app()
    batch = submit(api, open=True)
    path = f"/batches/{batch['id']}/jobs"
    first = {"first": 0, "jobs": [api.job(name="a"), api.job(name="b")]}
    assert api.post(path, first)["njobs"] == 2
    assert api.post(path, first)["njobs"] == 2  # a repetition
    assert api.post(path, {"first": 2, "jobs": [api.job(name="c")]})["njobs"] == 3
    assert "first = 3" in api.problem(409, "POST", path, {"first": 5, "jobs": [api.job()]})["message"]
    assert "first = 3" in api.problem(409, "POST", path, {"first": 2, "jobs": [api.job()] * 2})["message"]
    api.post(f"/batches/{batch['id']}/close")
    api.problem(409, "POST", path, {"first": 3, "jobs": [api.job()]})
    assert [job["name"] for job in api.get(path)["jobs"]] == ["a", "b", "c"]


def test_jobs_of_an_open_batch_run_at_once(api: ApiClient, world: World):
    api.add_app()
    batch = submit(api, api.job(), open=True)
    compute(world)
    page = results(api, batch["id"])
    assert (len(page["results"]), page["finished"]) == (1, False)
    assert api.post(f"/batches/{batch['id']}/close")["state"] == "complete"
    assert results(api, batch["id"], after=page["next"]) == {"results": [], "next": 1, "finished": True}


def test_results_are_given_in_pages(api: ApiClient, world: World):
    api.add_app()
    batch = submit(api, *[api.job() for _ in range(5)])
    compute(world)
    seen, after, pages = [], 0, 0
    while True:
        page = results(api, batch["id"], after=after, limit=2)
        seen += [job["seq"] for job in page["results"]]
        after, pages = page["next"], pages + 1
        if page["finished"]:
            break
    assert (seen, pages) == ([1, 2, 3, 4, 5], 3)


def test_a_waiting_request_is_answered_when_a_job_finishes(api: ApiClient, world: World):
    api.add_app()
    batch = submit(api, api.job())
    host = world.host(world.user("u"))
    host.rpc(ask=100)
    host.rpc(reports=[host.finish(name, b"out") for name in list(host.held)])
    world.ctx.signals.bind(world.loop)

    async def wait_and_finish() -> tuple[Any, bool]:
        path = f"{API}/batches/{batch['id']}/results"
        waiting = asyncio.create_task(world.http.get(path, params={"wait": 30}, headers=api.headers))
        await asyncio.sleep(0)
        for _ in range(50):  # until the request has found nothing and listens
            await world.ctx.store.aread(lambda db: None)
        early = waiting.done()
        while await world.transitioner.step() + await world.validator.step() + await world.assimilator.step():
            pass
        return (await asyncio.wait_for(waiting, 20)).json(), early

    page, early = world.run(wait_and_finish())
    assert not early
    assert (len(page["results"]), page["finished"]) == (1, True)


def test_a_waiting_request_ends_empty_after_its_time(api: ApiClient):
    api.add_app()
    batch = submit(api, api.job())
    assert results(api, batch["id"], wait=0.05) == {"results": [], "next": 0, "finished": False}
    api.problem(422, "GET", f"/batches/{batch['id']}/results", params={"wait": 61})
    api.problem(422, "GET", f"/batches/{batch['id']}/results", params={"wait": "nan"})


def test_a_failed_job_says_why(api: ApiClient, world: World):
    api.add_app(rules={"max_error_results": 0})
    batch = submit(api, api.job(name="bad"))
    host = world.host(world.user("u"))
    host.rpc(ask=100)
    stderr = "Traceback\nValueError: boom\n\ncobblestone: the command ended with exit status 7\n"
    (name,) = host.held
    host.rpc(reports=[failed(name, exit_status=7, stderr=stderr)])
    world.settle()
    (job,) = results(api, batch["id"])["results"]
    assert (job["status"], job["exit_status"], job["outputs"]) == ("failed", 7, [])
    assert "too many computers" in job["error"]
    assert "failed. Exit status 7 (0x7). The end of the task's error output says more." in job["error"]
    assert "boom" in job["stderr"]
    status = api.get(f"/batches/{batch['id']}")
    assert (status["state"], status["done"], status["failed"]) == ("complete", 0, 1)
    assert status["notes"] == [
        "Last failure of a job that was given up: ValueError: boom / cobblestone: the command ended with exit status 7"
    ]
    assert api.get(f"/explain/results/{name}")["error_output"] == stderr.splitlines()


@pytest.mark.parametrize("max_errors", [0, 3])
def test_a_clients_code_is_one_sentence_everywhere(api: ApiClient, world: World, max_errors: int):
    api.add_app(rules={"max_error_results": max_errors})
    batch = submit(api, api.job())
    host = world.host(world.user("u"))
    host.rpc(ask=100)
    (name,) = host.held
    host.rpc(reports=[failed(name, exit_status=-186, stderr="")])
    world.settle()
    sentence = exit_advice(-186).text()
    result = world.value("SELECT id FROM result WHERE name = ?", name)
    said = [
        api.get(f"/batches/{batch['id']}")["notes"],
        api.get("/explain/workunits/1")["reasons"],
        api.get(f"/explain/results/{result}")["reasons"],
        html.unescape(world.get(f"/result.php?resultid={result}").text),
        api.get(f"/batches/{batch['id']}/jobs")["jobs"] if max_errors == 0 else sentence,
    ]
    assert [sentence in str(each) for each in said] == [True] * 5


def test_a_job_that_failed_once_and_waits_for_another_computer_says_why(api: ApiClient, world: World):
    api.add_app(rules={"max_error_results": 3})
    batch = submit(api, api.job(name="bad"))
    host = world.host(world.user("u"))
    host.rpc(ask=100)
    host.rpc(reports=[failed(name, exit_status=7, stderr="Traceback\nboom") for name in host.held])
    world.settle()
    status = api.get(f"/batches/{batch['id']}")
    assert not status["finished"]
    assert "Unfinished jobs that wait for another person's computer after a failure: 1." in status["notes"][0]
    assert status["notes"][0].endswith("boom")
    assert "1 of them cannot continue: no one available could take it" in status["notes"][1]
    (stuck,) = api.get(f"/batches/{batch['id']}/stuck")["jobs"]
    assert (stuck["status"], stuck["exit_status"]) == ("waiting", 7)
    assert "boom" in stuck["stderr"]
    world.host(world.user("another")).rpc(ask=0)
    assert len(api.get(f"/batches/{batch['id']}")["notes"]) == 1
    assert api.get(f"/batches/{batch['id']}/stuck")["jobs"] == []


def test_a_quorum_that_the_people_at_hand_cannot_reach_is_said_when_jobs_are_submitted(
    api: ApiClient, world: World
):
    one = world.user("one")
    for _ in range(3):
        world.host(one).rpc(ask=0)
    api.add_app(rules={"min_quorum": 2, "target_nresults": 2})
    (note,) = submit(api, api.job(name="pair"))["notes"]
    assert "Each job needs agreeing answers of 2 people, and 1 could give one" in note
    assert "cobblestone app update period --quorum 1" in note
    assert world.ctx.master_url in note
    world.host(world.user("two")).rpc(ask=0)
    assert api.get("/batches/1")["notes"] == []
    world.now += 8 * 86400
    (note,) = api.get("/batches/1")["notes"]
    assert "and none could give one" in note


def test_computers_that_cannot_take_jobs_do_not_count_for_their_quorum(api: ApiClient, world: World):
    for name in ("one", "two"):
        world.host(world.user(name)).rpc(ask=0)
    api.add_app(limits={"rsc_memory_bound": 1e15}, rules={"min_quorum": 2, "target_nresults": 2})
    (note,) = submit(api, api.job())["notes"]
    assert "and none could give one" in note
    assert note.endswith("cobblestone explain workunit period_1_0")
    reasons = {each["code"]: each["text"] for each in api.get("/explain/workunits/period_1_0")["reasons"]}
    assert reasons["not_taken"].startswith("2 would not: they have less memory for the client")
    assert "each from a different person, and 0 of those available" in reasons["quorum_out_of_reach"]


def test_nobody_is_asked_for_fewer_answers_than_one(api: ApiClient, world: World):
    world.host(world.user("one")).rpc(ask=0)
    api.add_app(limits={"rsc_memory_bound": 1e15})
    (note,) = submit(api, api.job())["notes"]
    assert note == (
        "No computer of those in contact in the last 7 days (1) takes these jobs."
        " Why computers do not take them: cobblestone explain workunit period_1_0"
    )
    codes = {each["code"] for each in api.get("/explain/workunits/period_1_0")["reasons"]}
    assert "not_taken" in codes
    assert "quorum_out_of_reach" not in codes


def test_why_a_second_result_waits_is_said_in_the_words_of_whoever_submitted_it(api: ApiClient, world: World):
    api.add_app(rules={"min_quorum": 2, "target_nresults": 2})
    submit(api, api.job())
    compute(world)
    reasons = {each["code"]: each["text"] for each in api.get("/explain/workunits/period_1_0")["reasons"]}
    assert (
        reasons["not_taken"]
        == "1 would not: their owner has, or had, a result of this job; each must come from another person."
    )
    assert "It needs 1 more answer, each from a different person" in reasons["quorum_out_of_reach"]


def test_busy_computers_count_for_a_quorum(api: ApiClient, world: World):
    api.add_app(rules={"min_quorum": 2, "target_nresults": 2})
    submit(api, *[api.job() for _ in range(3)])
    for name in ("one", "two"):
        world.host(world.user(name)).rpc(ask=1e9)
    assert submit(api, api.job())["notes"] == []


def test_the_last_jobs_of_a_batch_are_reported_as_soon_as_they_are_done(api: ApiClient, world: World):
    api.add_app(rules={"max_error_results": 3}, dispatch={"max_jobs_per_day_init": 20})
    submit(api, *[api.job() for _ in range(12)])
    first, second = (world.host(world.user(name)) for name in ("one", "two"))

    def at_once(reply: Element) -> list[bool]:
        return [result.has("report_immediately") for result in reply.all("result")]

    hosts = [(first, 1.0), (second, 1e6)]
    counts = [at_once(host.rpc(ask=ask, instances=4)) for host, ask in hosts]
    assert len(counts[0]) == 4
    assert not any(counts[0])
    assert counts[1][:4] == [False] * 4
    assert counts[1][4:] == [True] * 4
    retried = next(name for name in sorted(first.held, key=job_number))
    first.rpc(reports=[failed(retried)])
    world.settle()
    assert at_once(world.host(world.user("three")).rpc(ask=1)) == [True]


def test_single_jobs_of_a_batch_are_cancelled(api: ApiClient, world: World):
    api.add_app()
    batch = submit(api, api.job(), api.job(), api.job())
    names = ["period_1_0", "period_1_2", "period_9_9"]
    api.post(f"/batches/{batch['id']}/jobs/cancel", {"workunits": names})
    world.settle()
    compute(world)
    assert [job["status"] for job in api.get("/batches/1/jobs")["jobs"]] == ["cancelled", "done", "cancelled"]
    assert api.get("/batches/1")["finished"]
    api.post("/batches/1/jobs/cancel", {"workunits": ["period_1_1"]})
    assert api.get("/batches/1/jobs")["jobs"][1]["status"] == "done"


def test_cancelling_keeps_what_is_done(api: ApiClient, world: World):
    api.add_app()
    batch = submit(api, api.job(), open=True)
    compute(world)
    api.post(f"/batches/{batch['id']}/jobs", {"first": 1, "jobs": [api.job(), api.job()]})
    world.settle()
    host = world.host(world.user("late"))
    host.rpc(ask=1)
    held = list(host.held)
    status = api.post(f"/batches/{batch['id']}/cancel")
    assert (status["state"], status["done"]) == ("cancelled", 1)
    world.settle()
    status = api.get(f"/batches/{batch['id']}")
    assert (status["done"], status["failed"], status["finished"]) == (1, 2, True)
    statuses = [job["status"] for job in results(api, batch["id"])["results"]]
    assert sorted(statuses) == ["cancelled", "cancelled", "done"]
    reply = host.rpc(ask=1e6)
    assert host.new_results() == []
    assert [abort.get("name") for abort in reply.all("result_abort")] == held
    assert api.post(f"/batches/{batch['id']}/cancel") == status


def test_of_a_retired_batch_without_jobs_nothing_is_left_to_archive(api: ApiClient, world: World):
    api.add_app(command=["p", "{output}", "{arg:k}"])
    batch = api.post("/batches", {"app": "period", "open": True})
    api.post(f"/batches/{batch['id']}/close", {})
    api.post(f"/batches/{batch['id']}/retire")
    assert world.query("SELECT state, archived FROM batch") == [(4, 1)]


def test_a_retired_batch_lets_go_of_its_outputs(api: ApiClient, world: World):
    api.add_app()
    batch = submit(api, api.job())
    problem = api.problem(409, "POST", f"/batches/{batch['id']}/retire")
    assert "batch cancel" in problem["message"]
    compute(world)
    (job,) = results(api, batch["id"])["results"]
    path = job["outputs"][0]["url"].partition(API)[2]
    assert api.call("GET", path).content == b"out"
    assert api.post(f"/batches/{batch['id']}/retire")["state"] == "retired"
    world.settle()
    assert "retired" in api.problem(404, "GET", path)["message"]
    assert world.value("SELECT COUNT(*) FROM upload") == 0


def test_input_files_are_let_go_when_their_jobs_are_done(api: ApiClient, world: World):
    api.add_app()
    submit(api, api.job(), api.job())
    name = api.job()["inputs"][0]["file"]
    assert world.value("SELECT refs FROM file WHERE name = ?", name) == 2
    compute(world)
    assert world.value("SELECT refs FROM file WHERE name = ?", name) == 0
    world.now += 2 * 86400
    files.delete_unused(world.ctx.store, world.ctx.folder.download, before=world.now - 86400)
    api.problem(404, "GET", f"/files/{name}")


def test_outputs_that_are_not_there_say_why(api: ApiClient, world: World):
    api.add_app()
    batch = submit(api, api.job())
    base = f"/batches/{batch['id']}/jobs/1/outputs"
    assert "is waiting" in api.problem(404, "GET", f"{base}/output")["message"]
    compute(world)
    assert "it has: output" in api.problem(404, "GET", f"{base}/other")["message"]
    api.problem(404, "GET", f"/batches/{batch['id']}/jobs/77/outputs/output")
    api.problem(404, "GET", "/batches/77/jobs/1/outputs/output")


def test_large_and_compressed_outputs_arrive_as_the_program_wrote_them(make_world):
    world = make_world(server={"small_upload_bytes": 1000})
    api = ApiClient(world)
    content = bytes(range(256)) * 4000
    app = world.add_app("big")
    batch = world.add_jobs(app)
    compute(world, content)
    (job,) = results(api, batch.id)["results"]
    answer = api.call("GET", job["outputs"][0]["url"].partition(API)[2])
    assert answer.content == content
    assert answer.headers["content-length"] == str(len(content))
    assert world.value("SELECT data IS NULL FROM upload") == 1


def test_compressed_outputs_are_unpacked(api: ApiClient, world: World):
    import gzip

    api.add_app(outputs=[{"name": "output", "gzip": True}])
    batch = submit(api, api.job())
    compute(world, gzip.compress(b"plain" * 1000))
    (job,) = results(api, batch["id"])["results"]
    assert api.call("GET", job["outputs"][0]["url"].partition(API)[2]).content == b"plain" * 1000


def test_all_outputs_come_as_a_zip(api: ApiClient, world: World):
    api.add_app(dispatch={"max_jobs_per_day_init": 20})
    batch = submit(api, *[api.job(name=name) for name in ("a", "b", "b", "..", "")])
    compute(world, b"1", b"2", b"3", b"4", b"5")
    answer = api.call("GET", f"/batches/{batch['id']}/outputs.zip")
    archive = zipfile.ZipFile(io.BytesIO(answer.content))
    assert archive.testzip() is None
    folders = {name.rpartition("/")[0]: archive.read(name) for name in archive.namelist()}
    assert len(folders) == 5
    assert {"a", "b"} < set(folders)
    assert not any(".." in name for name in archive.namelist())
    assert sorted(folders.values()) == [b"1", b"2", b"3", b"4", b"5"]


def test_an_output_that_is_gone_from_disk_is_an_error_and_not_an_empty_file(make_world):
    world = make_world(server={"small_upload_bytes": 10})
    api = ApiClient(world)
    batch = world.add_jobs(world.add_app("big"))
    compute(world, b"x" * 100)
    (job,) = results(api, batch.id)["results"]
    for path in world.ctx.folder.upload.rglob("*_0_0"):
        path.unlink()
    problem = api.problem(503, "GET", job["outputs"][0]["url"].partition(API)[2])
    assert "cannot be read" in problem["message"]


def test_batches_are_listed(api: ApiClient):
    api.add_app()
    for name in "abc":
        submit(api, api.job(), name=name)
    assert [batch["name"] for batch in api.get("/batches", limit=2)["batches"]] == ["c", "b"]
    assert [batch["name"] for batch in api.get("/batches", before=2)["batches"]] == ["a"]


def test_a_higher_priority_is_sent_first(api: ApiClient, world: World):
    api.add_app()
    submit(api, api.job(name="normal"))
    submit(api, api.job(name="urgent"), priority=5)
    host = world.host(world.user("u"))
    host.rpc(ask=1)
    assert host.new_results()[0].startswith("period_2_")


def test_a_job_that_makes_progress_but_will_be_late_gets_a_later_deadline(api: ApiClient, world: World):
    api.add_app(limits={"delay_bound": 3600.0})
    submit(api, api.job())
    host = world.host(world.user("u"))
    reply = host.rpc(ask=1)
    assert reply.has("send_full_workload")
    (name,) = host.held
    sent = world.now

    def tell(remaining: float, after: float) -> float:
        """The client says what it still needs; seconds from sending to the deadline after that."""
        world.now = sent + after
        told = InProgressResult(name=name, report_deadline=sent + 3600, time_remaining=remaining)
        host.rpc(in_progress_results=(told,))
        world.settle()
        (deadline,) = world.query("SELECT report_deadline FROM result")[0]
        return deadline - sent

    assert tell(3000, 300) == 3600  # in time
    assert tell(9000, 600) == 3600  # late, but is there progress?
    later = tell(7000, 2600)
    assert 2600 + 7000 < later <= 3 * 3600
    assert tell(9000, 3000) == later
    world.now = sent + 3700
    world.settle()
    assert world.query("SELECT COUNT(*) FROM result")[0] == (1,)  # nobody else gets it
    assert tell(6000, 9000) == 3 * 3600
    world.now = sent + 3 * 3600 + 1
    world.settle()
    assert world.query("SELECT COUNT(*) FROM result")[0] == (2,)


def test_a_deadline_is_proposed_by_what_jobs_took(api: ApiClient, world: World):
    api.add_app(dispatch={"max_jobs_per_day_init": 20})
    assert api.get("/apps/period/deadline")["proposed"] is None
    submit(api, *[api.job() for _ in range(20)])
    host = world.host(world.user("u"))
    host.rpc(ask=1e6, instances=20)
    world.now += 5 * 3600
    host.rpc(reports=[host.finish(name, b"out") for name in sorted(host.held)])
    world.settle()
    world.write(lambda tx: tx.execute("UPDATE result SET elapsed_time = 600"))
    found = api.get("/apps/period/deadline")
    assert (found["n"], found["run_time"], found["turnaround"]) == (20, 600, 5 * 3600)
    assert (found["delay_bound"], found["proposed"]) == (7 * 86400, 12 * 3600)
