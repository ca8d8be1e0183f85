"""Our client with a volunteer's own programs: a wrapper in the family's manner, and what it wraps, against our server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.e2e.conftest import LiveProject
from tests.helpers.own_client import OwnClient

SQUARE = "import sys\nx = int(open(sys.argv[1]).read())\nopen(sys.argv[2], 'w').write(f'{x * x}\\n')\n"

#: Does what wrappers do: reads its description, resolves links, runs a program beside, tells how far it is, obeys orders.
WRAPPER = """#!/usr/bin/python3
import glob, mmap, re, subprocess, sys, time
import xml.etree.ElementTree as tree

def resolve(name):
    found = re.match("<soft_link>(.*)</soft_link>", open(name, errors="replace").read(1000))
    return found.group(1) if found else name

with open("boinc_mmap_file", "r+b") as segment:
    memory = mmap.mmap(segment.fileno(), 8192)
task = tree.parse("job.xml").find("task")
program, source = resolve(task.find("application").text), sorted(glob.glob("input*"))[0]
with open(resolve(source)) as given, open(task.find("stdout_filename").text, "w") as out:
    worker = subprocess.Popen([program, *task.find("command_line").text.split()], stdin=given, stdout=out)
    begin = time.time()
    while worker.poll() is None:
        if memory[0] and b"<quit/>" in memory[1:1024]:
            worker.kill()
            sys.exit(0)
        memory[0] = 0
        part = min(0.99, (time.time() - begin) / 3)
        text = b"<current_cpu_time>%e</current_cpu_time>\\n<fraction_done>%e</fraction_done>\\n" % (time.process_time(), part)
        memory[5 * 1024] = 0
        memory[5 * 1024 + 1 : 5 * 1024 + 2 + len(text)] = text + bytes(1)
        memory[5 * 1024] = 1
        time.sleep(0.1)
sys.stderr.write("wrapped: exit status %d\\n" % worker.returncode)
open("boinc_finish_called", "w").write("%d\\n" % worker.returncode)
sys.exit(worker.returncode)
"""
WORKER = """#!/usr/bin/python3
import sys, time
time.sleep(float(sys.argv[1]))
x = int(sys.stdin.read())
print(x * x)
"""
JOB = """<job_desc><task><application>worker</application><command_line>1 --quiet</command_line>
<stdout_filename>output</stdout_filename></task></job_desc>
"""
APP_INFO = """<app_info>
    <app><name>square</name></app>
    <file_info><name>own_wrapper</name><executable/></file_info>
    <file_info><name>own_worker</name><executable/></file_info>
    <file_info><name>own_job.xml</name></file_info>
    <app_version>
        <app_name>square</app_name><version_num>317</version_num><flops>5e9</flops><api_version>7.9.0</api_version>
        <is_wrapper/>
        <file_ref><file_name>own_wrapper</file_name><main_program/></file_ref>
        <file_ref><file_name>own_worker</file_name><open_name>worker</open_name></file_ref>
        <file_ref><file_name>own_job.xml</file_name><open_name>job.xml</open_name><copy_file/></file_ref>
    </app_version>
</app_info>
"""


def test_a_volunteers_own_wrapper_computes_what_the_project_asks(
    live: Callable[..., LiveProject], tmp_path: Path
):
    project = live()
    project.app("square", SQUARE)
    key = project.account("alice")
    client = OwnClient(tmp_path / "own")
    folder = client.folder / "projects" / project.url.split("//")[1].rstrip("/").replace(":", "_")
    folder.mkdir(parents=True)
    for name, text in (
        ("own_wrapper", WRAPPER),
        ("own_worker", WORKER),
        ("own_job.xml", JOB),
        ("app_info.xml", APP_INFO),
    ):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    batch = project.submit("square", "3", "12")
    client.start()
    try:
        client.cli("attach", project.url, "--key", key)
        project.wait_for_batch(batch, client)
        assert sorted(result.text() for result in batch.results(timeout=10)) == ["144\n", "9\n"]
        versions = {row[0] % 1_000_000 for row in project.query("SELECT app_version_id FROM result")}
        assert versions == {2}  # the volunteer's, not the project's
        assert not list(folder.glob("square*.py*")), "files of the project's version were sent"
        assert {row["outcome"] for row in client.ask("history")} == {"uploaded"}
        assert (folder / "own_wrapper").exists()
        assert "Internal error" not in client.log()
        assert "Traceback" not in client.log()
    finally:
        client.stop()
