"""Throughput of the scheduler and of the whole pipeline, over real HTTP, with durable commits.

    python tests/bench/bench_server.py [--seconds 5] [--connections 6]

Starts a project on SQLite in a temporary folder with one app (bitwise comparison, quorum 1) and many jobs, registers
hosts, and sends the real client's request bytes from another process.  Every run ends with a count of rows, so that
nothing that was not done is counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.helpers.wire_captures import messages

from cobblestone.demo.stock_client import free_port
from cobblestone.domain.apps import ANY_PLATFORM, App, AppFile, AppVersion, ComparisonRule
from cobblestone.domain.ids import AppId, AppVersionId
from cobblestone.domain.job_form import JobForm
from cobblestone.domain.work import JobLimits, OutputSpec, ReplicationRules
from cobblestone.ops.settings import settings_template
from cobblestone.server.project import ProjectFolder, write_private
from cobblestone.store import apps, batches, files, keys, people
from cobblestone.store.database import Store, Transaction
from cobblestone.store.upgrade import upgrade
from cobblestone.wire.signatures import encode_public_key, generate_key, sign_md5

N_USERS = 50
HOSTS_PER_USER = 20
STDERR = "bench line of ordinary length, as programs write them\n" * 16


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    rate: float
    p50_ms: float
    p99_ms: float
    note: str = ""


def template() -> str:
    """A request of client 7.20.5 that asks for work and reports nothing, with a place for reports and held jobs."""
    body = next(item.body for item in messages("05") if item.start_line.startswith("POST")).decode()
    body = re.sub(r"<result>.*?</result>\n", "", body, flags=re.DOTALL)
    body = re.sub(
        r"<other_results>.*?</other_results>",
        "<other_results>\n@HELD@</other_results>",
        body,
        flags=re.DOTALL,
    )
    for name, value in (
        ("authenticator", "@AUTH@"),
        ("hostid", "@HOST@"),
        ("rpc_seqno", "@SEQ@"),
        ("cpu_req_secs", "@SECS@"),
        ("work_req_seconds", "@SECS@"),
        ("cpu_req_instances", "0"),
        ("host_cpid", "@CPID@"),
    ):
        body = re.sub(rf"<{name}>[^<]*</{name}>", f"<{name}>{value}</{name}>", body, count=1)
    body = re.sub(r"    <code_sign_key>.*?</code_sign_key>\n", "", body, flags=re.DOTALL)
    return body.replace("<app_versions>", "@REPORTS@<app_versions>", 1)


REPORT = """<result>
    <name>{name}</name>
    <final_cpu_time>10.000000</final_cpu_time>
    <final_elapsed_time>10.500000</final_elapsed_time>
    <exit_status>0</exit_status>
    <state>5</state>
    <platform>x86_64-pc-linux-gnu</platform>
    <version_num>100</version_num>
    <final_peak_disk_usage>14792</final_peak_disk_usage>
    <app_version_num>100</app_version_num>
<stderr_out>
<core_client_version>7.20.5</core_client_version>
<![CDATA[
<stderr_txt>
"""  # the rest follows in report()


def report(name: str) -> str:
    """A report of a successful job with about 0.9 kB of stderr."""
    return REPORT.replace("{name}", name) + STDERR + "\n</stderr_txt>\n]]>\n</stderr_out>\n</result>\n"


@dataclass
class Host:
    """A simulated host."""

    authenticator: str
    id: int = 0
    seqno: int = 0
    held: tuple[str, ...] = ()


async def exchange(port: int, body: bytes) -> bytes:
    """One request on a fresh connection, as clients do; the reply's body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /cgi-bin/cgi HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    data = await reader.read(-1)
    writer.close()
    head, _, rest = data.partition(b"\r\n\r\n")
    if b" 200 " not in head.split(b"\r\n")[0]:
        raise RuntimeError(data[:500])
    return rest


async def load(
    port: int, hosts: list[Host], text: str, *, seconds: float, connections: int, jobs: int, reporting: bool
) -> tuple[int, list[float], int]:
    """Send requests for some seconds: count, latencies, jobs received."""
    end = time.perf_counter() + seconds
    waiting = list(hosts)
    latencies: list[float] = []
    received = 0

    async def worker() -> None:
        nonlocal received
        while time.perf_counter() < end:
            host = waiting.pop(0)
            reports = "".join(report(name) for name in host.held) if reporting else ""
            held = (
                ""
                if reporting
                else "".join(
                    f"<other_result>\n<name>{name}</name>\n<app_version>0</app_version>\n</other_result>\n"
                    for name in host.held
                )
            )
            body = (
                text.replace("@AUTH@", host.authenticator)
                .replace("@HOST@", str(host.id))
                .replace("@SEQ@", str(host.seqno))
                .replace("@SECS@", str(jobs))
                .replace("@REPORTS@", reports)
                .replace("@HELD@", held)
                .replace("@CPID@", f"{host.id:032x}")
                .encode()
            )
            begin = time.perf_counter()
            reply = await exchange(port, body)
            latencies.append(time.perf_counter() - begin)
            host.seqno += 1
            names = re.findall(rb"<result>\s*<name>([^<]+)", reply)
            received += len(names)
            host.held = (
                tuple(name.decode() for name in names)
                if reporting
                else (*host.held, *(n.decode() for n in names))[-20:]
            )
            if host.id == 0:
                found = re.search(rb"<hostid>(\d+)", reply)
                host.id = int(found[1]) if found else 0
            waiting.append(host)

    await asyncio.gather(*(worker() for _ in range(connections)))
    return len(latencies), latencies, received


def run_load(
    port: int, authenticators: list[str], seconds: float, connections: int, jobs: int, reporting: bool
) -> tuple[int, list[float], int, float]:
    """Register hosts, then send the load; runs in its own process."""
    text = template()
    hosts = [Host(authenticators[n % len(authenticators)]) for n in range(N_USERS * HOSTS_PER_USER)]

    async def main() -> tuple[int, list[float], int, float]:
        await load(
            port, hosts, text.replace("@SECS@", "0"), seconds=0.0, connections=1, jobs=0, reporting=False
        )
        for number, host in enumerate(hosts):  # registration, not measured
            body = (
                text.replace("@AUTH@", host.authenticator)
                .replace("@HOST@", "0")
                .replace("@SEQ@", "0")
                .replace("@SECS@", "0")
            )
            body = body.replace("@REPORTS@", "").replace("@HELD@", "").replace("@CPID@", f"{number + 1:032x}")
            found = re.search(rb"<hostid>(\d+)", await exchange(port, body.encode()))
            host.id = int(found[1]) if found else 0
            host.seqno = 1
        begin = time.perf_counter()
        count, latencies, received = await load(
            port, hosts, text, seconds=seconds, connections=connections, jobs=jobs, reporting=reporting
        )
        return count, latencies, received, time.perf_counter() - begin

    return asyncio.run(main())


def make_project(root: Path, *, n_jobs: int, quorum: int = 1) -> tuple[str, list[str]]:
    """A project with jobs; its address and the authenticators of its users."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/"
    (root / "cobblestone.toml").write_text(
        settings_template(
            project={"url": url},
            server={"port": port},
            scheduler={"daily_result_quota": 1_000_000, "one_result_per_user": quorum > 1},
            log={"level": "warning"},
        )
    )
    folder = ProjectFolder(root)
    folder.make()
    write_private(folder.secret_file, os.urandom(32))
    upgrade(folder.database)
    store = Store(folder.database)
    now = time.time()
    key = generate_key()
    store.write(
        lambda tx: keys.set_current_key(
            tx, encode_public_key(key.public_key()), successor_signatures={}, now=now
        )
    )
    staged = files.stage_bytes(folder.staging, b"#!/bin/sh\n")
    stored = files.add_file(
        store, folder.download, staged, files.app_file_name("prog.sh", staged.sha256), now=now
    )
    app = store.write(
        lambda tx: apps.create_app(
            tx,
            App(
                id=AppId(0),
                name="bench",
                comparison=ComparisonRule(kind="bitwise"),
                rules=ReplicationRules(min_quorum=quorum, target_nresults=quorum),
                output_specs=(),
            ),
            form=JobForm(),
            now=now,
        )
    )
    version = AppVersion(
        id=AppVersionId(0),
        app_id=app.id,
        platform=ANY_PLATFORM,
        version_num=0,
        files=(
            AppFile(
                name=stored.name,
                open_name="prog.sh",
                nbytes=stored.nbytes,
                md5=stored.md5,
                executable=True,
                main_program=True,
                signature=sign_md5(key, stored.md5),
            ),
        ),
    )
    store.write(lambda tx: apps.add_version(tx, version, now=now))
    batch = store.write(lambda tx: batches.create_batch(tx, name="bench", app_id=app.id, now=now))
    job = batches.NewJob(
        limits=JobLimits(rsc_fpops_est=1e9),
        rules=app.rules,
        output_specs=(OutputSpec(open_name="o", optional=True),),
    )

    def add(tx: Transaction, n: int) -> None:
        batches.add_jobs(tx, batches.batch_by_id(tx, batch.id), "bench", [job] * n, now=now)

    begin = time.perf_counter()
    for start in range(0, n_jobs, 500):
        store.write(partial(add, n=min(500, n_jobs - start)))
    print(f"submitted {n_jobs / (time.perf_counter() - begin):,.0f} jobs/s")
    store.write(lambda tx: batches.close_batch(tx, batch.id, now=now))
    authenticators: list[str] = []
    for number in range(N_USERS):
        new = people.NewUser(
            name=f"user {number}",
            email_addr=f"user{number}@example.org",
            passwd_hash="x",
            authenticator=f"{number:032x}",
            cross_project_id=f"{number:032x}",
        )
        store.write(
            lambda tx, new=new: people.create_user(
                tx, new, weak_authenticator_of=lambda id_: f"{id_}_x{id_}", now=now
            )
        )
        authenticators.append(new.authenticator)
    store.close()
    return url, authenticators


def measure(
    name: str, *, seconds: float, connections: int, jobs: int, reporting: bool, n_jobs: int, quorum: int = 1
) -> list[Row]:
    """One run: a fresh project, a server process, a load process; checked by counting rows."""
    with tempfile.TemporaryDirectory(prefix="cobblestone-bench-") as folder:
        root = Path(folder)
        url, authenticators = make_project(root, n_jobs=n_jobs, quorum=quorum)
        port = int(url.rsplit(":", 1)[1].strip("/"))
        server = subprocess.Popen([sys.executable, "-m", "cobblestone", "run", str(root)])
        try:
            wait_until_open(port)
            wait_for_results(root, n_jobs * quorum)
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                count, latencies, received, took = pool.apply(
                    run_load, (port, authenticators, seconds, connections, jobs, reporting)
                )
            rows = count_rows(root)
        finally:
            server.terminate()
            server.wait()
    latencies.sort()
    p50, p99 = latencies[len(latencies) // 2] * 1000, latencies[int(len(latencies) * 0.99)] * 1000
    if rows["sent"] != received:
        raise SystemExit(f"{name}: {received} jobs were received but {rows['sent']} are noted as sent")
    found = [
        Row(f"{name}: requests/s", count / took, p50, p99),
        Row(f"{name}: jobs sent/s", received / took, p50, p99),
    ]
    if reporting:
        found.append(
            Row(
                f"{name}: validated, credited, assimilated/s",
                rows["assimilated"] / took,
                p50,
                p99,
                f"{rows['ledger']} ledger entries",
            )
        )
        if rows["ledger"] != rows["valid"]:
            raise SystemExit(f"{name}: {rows['valid']} valid results but {rows['ledger']} ledger entries")
    return found


def wait_until_open(port: int) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit("the server did not start")


def wait_for_results(root: Path, n: int) -> None:
    begin = time.perf_counter()
    store = Store(ProjectFolder(root).database, readers=1)
    while store.read(lambda db: db.value("SELECT COUNT(*) FROM result")) < n:
        time.sleep(0.05)
    store.close()
    print(f"transitioner created {n / (time.perf_counter() - begin):,.0f} results/s")


def count_rows(root: Path) -> dict[str, int]:
    """What the database says after a run."""
    store = Store(ProjectFolder(root).database, readers=1)
    queries = {
        "sent": "SELECT COUNT(*) FROM result WHERE server_state >= 4",
        "valid": "SELECT COUNT(*) FROM result WHERE validate_state = 1",
        "assimilated": "SELECT COUNT(*) FROM workunit WHERE assimilate_state = 2",
        "ledger": "SELECT COUNT(*) FROM credit_entry",
    }
    found = {name: int(store.read(lambda db, sql=sql: db.value(sql))) for name, sql in queries.items()}
    store.close()
    return found


def all_rows(*, seconds: float, connections: int) -> list[Row]:
    """All runs."""
    common = {"seconds": seconds, "connections": connections}
    return [
        *measure("one job", jobs=1, reporting=False, n_jobs=40_000, **common),
        *measure("ten jobs", jobs=10, reporting=False, n_jobs=120_000, **common),
        *measure("pipeline, one job", jobs=1, reporting=True, n_jobs=40_000, **common),
    ]


def show(rows: list[Row]) -> None:
    """Print a table."""
    for row in rows:
        print(
            f"{row.name:48} {row.rate:10,.0f}   p50 {row.p50_ms:6.1f} ms   p99 {row.p99_ms:6.1f} ms   {row.note}"
        )


def main() -> None:
    """Run all rows and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--connections", type=int, default=6)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = all_rows(seconds=arguments.seconds, connections=arguments.connections)
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows]))
    else:
        show(rows)


if __name__ == "__main__":
    main()
