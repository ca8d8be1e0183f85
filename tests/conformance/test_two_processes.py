"""Two processes with one PostgreSQL database (here: two open stores): nothing is lost, doubled, or waited for in a circle."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from tests.helpers.eventually import eventually
from tests.helpers.postgres_server import PostgresServer
from tests.helpers.store_content import NOW, add_app, add_jobs, open_batch

from cobblestone.domain.apps import AppVersion
from cobblestone.domain.errors import Conflict
from cobblestone.domain.people import SubmitRights
from cobblestone.domain.values import AppId, AppVersionId, HostId, ResultId, UserId, WorkunitId
from cobblestone.ops.settings import LimitsSection
from cobblestone.policy.dispatch.catalogue import Assignment, ResourceUsage
from cobblestone.policy.lifecycle.transition import next_transition
from cobblestone.service.rate_limits import RateLimits
from cobblestone.store.credit import ledger
from cobblestone.store.engine.database import Store, Transaction
from cobblestone.store.engine.process_group import ALL, SHARDS, LeaseLost, ProcessGroup
from cobblestone.store.people import hosts, users
from cobblestone.store.work import batches, dispatch, lifecycle, submitters
from cobblestone.store.work.batches import NewJob
from cobblestone.store.work.candidates import CandidateQueue

ROLES = ("validator", "purger")


@pytest.fixture
def address(postgres: PostgresServer) -> Iterator[str]:
    found = postgres.project_database()
    yield found
    postgres.release(found)


@pytest.fixture
def stores(address: str) -> Iterator[list[Store]]:
    found = [Store(address, readers=1) for _ in range(2)]
    yield found
    for store in found:
        store.close()


def at_once(stores: list[Store], operation: Callable[[Store, int], object]) -> list[object]:
    """Run something in both at the same time."""
    barrier = threading.Barrier(len(stores))

    def run(number: int) -> object:
        barrier.wait(10)
        return operation(stores[number], number)

    with ThreadPoolExecutor(len(stores)) as pool:
        return list(pool.map(run, range(len(stores))))


def add_people(tx: Transaction, n: int) -> None:
    for number in range(1, n + 1):
        users.create_user(
            tx,
            users.NewUserRow(
                name=f"u{number}",
                email_addr=f"u{number}@example.org",
                passwd_hash="x",
                authenticator=f"{number:032x}",
                cross_project_id=f"{number:032x}",
            ),
            weak_authenticator_of=str,
            now=NOW,
        )
        hosts.create_host(tx, UserId(number), host_cpid=f"{number:032x}", venue="", now=NOW)


def entry(result: int, owner: int) -> ledger.CreditEntry:
    return ledger.CreditEntry(
        result_id=ResultId(result),
        workunit_id=WorkunitId(result),
        host_id=HostId(owner),
        user_id=UserId(owner),
        app_version_id=AppVersionId(-2),
        system="benchmark",
        claimed=1.0,
        granted=1.0,
        unit=200.0,
        work_start=NOW - 100,
    )


def test_credit_of_two_validators_adds_up(stores: list[Store]):
    n_owners, rounds = 7, 15
    stores[0].write(lambda tx: add_people(tx, n_owners))

    def grant(store: Store, number: int) -> None:
        for each in range(rounds):
            first = 1 + (number * rounds + each) * n_owners
            order = range(n_owners) if number else reversed(range(n_owners))
            entries = [entry(first + owner, owner + 1) for owner in order]
            store.write(lambda tx, entries=entries: ledger.grant(tx, entries, now=NOW))

    at_once(stores, grant)
    for table in ("host", "user_account"):
        totals = stores[0].read(lambda db, table=table: db.query(f"SELECT total_credit FROM {table}"))
        assert [row[0] for row in totals] == [2.0 * rounds] * n_owners


def test_a_result_is_credited_once_whoever_tries(stores: list[Store]):
    stores[0].write(lambda tx: add_people(tx, 1))
    granted = at_once(
        stores,
        lambda store, _: sum(
            store.write(lambda tx, n=n: ledger.grant(tx, [entry(n, 1)], now=NOW)) for n in range(1, 30)
        ),
    )
    assert sum(granted) == 29  # type: ignore[arg-type]  # numbers of the processes
    assert stores[0].read(lambda db: db.value("SELECT total_credit FROM host")) == 29.0


def test_two_transitioners_share_what_is_due(stores: list[Store]):
    app = add_app(stores[0])
    add_jobs(stores[0], open_batch(stores[0], app), app, [NewJob()] * 200)

    def transition(tx: Transaction) -> int:
        due = lifecycle.due_workunits(tx, now=NOW, limit=20)
        decided = [(view, next_transition(view, now=NOW)) for view in due]
        lifecycle.apply_transitions(tx, decided, now=NOW)
        return len(due)

    def run(store: Store, _: int) -> int:
        total = 0
        while n := store.write(transition):
            total += n
        return total

    handled = at_once(stores, run)
    assert sum(handled) == 200  # type: ignore[arg-type]  # numbers of the processes
    assert stores[0].read(lambda db: db.value("SELECT COUNT(DISTINCT workunit_id) FROM result")) == 200


def test_jobs_added_to_a_batch_from_both_sides_have_names_of_their_own(stores: list[Store]):
    app = add_app(stores[0])
    batch = open_batch(stores[0], app)
    at_once(stores, lambda store, _: [add_jobs(store, batch, app, [NewJob()] * 3) for _ in range(10)])
    assert stores[0].read(lambda db: batches.batch_by_id(db, batch.id)).njobs == 60
    assert stores[0].read(lambda db: db.value("SELECT COUNT(*) FROM workunit")) == 60


def test_finished_jobs_get_places_without_gaps(stores: list[Store]):
    app = add_app(stores[0])
    batch = open_batch(stores[0], app)
    add_jobs(stores[0], batch, app, [NewJob()] * 60)
    stores[0].write(lambda tx: tx.execute("UPDATE workunit SET assimilate_state = 1"))

    def assimilate(store: Store, number: int) -> None:
        ids = [row[0] for row in store.read(lambda db: db.query("SELECT id FROM workunit ORDER BY id"))]
        for start in range(0, 60, 6):  # both try all of them
            part = ids[start : start + 6] if number else ids[54 - start : 60 - start]
            store.write(
                lambda tx, part=part: lifecycle.mark_assimilated(tx, lifecycle.views(tx, part), now=NOW)
            )

    at_once(stores, assimilate)
    places = stores[0].read(lambda db: db.query("SELECT completed_seq FROM workunit ORDER BY completed_seq"))
    assert [row[0] for row in places] == list(range(1, 61))
    assert stores[0].read(lambda db: batches.batch_by_id(db, batch.id)).n_success == 60


def test_schedulers_read_their_own_slice_first(stores: list[Store]):
    app = add_app(stores[0])
    add_jobs(stores[0], open_batch(stores[0], app), app, [NewJob()] * 30)
    stores[0].write(
        lambda tx: lifecycle.apply_transitions(
            tx,
            [
                (view, next_transition(view, now=NOW))
                for view in lifecycle.due_workunits(tx, now=NOW, limit=100)
            ],
            now=NOW,
        )
    )
    seen: list[list[int]] = []
    for number in range(2):
        queue = CandidateQueue()
        queue.set_slice(number, 2)
        seen.append(stores[0].read(lambda db, queue=queue: [each.workunit_id for each in queue.scan(db)]))
    assert sorted(seen[0]) == sorted(seen[1]) == sorted(set(seen[0]))
    assert len(seen[0]) == 30, "nothing is left to nobody"
    assert all(id_ % 2 == 0 for id_ in seen[0][:15])
    assert all(id_ % 2 == 1 for id_ in seen[1][:15])


def assignments(store: Store) -> dict[WorkunitId, list[Assignment]]:
    """What a scheduler that looks now may choose, by job."""
    found: dict[WorkunitId, list[Assignment]] = {}
    for candidate in store.read(lambda db: list(CandidateQueue().scan(db))):
        chosen = Assignment(
            candidate=candidate,
            version=AppVersion(id=AppVersionId(-2), app_id=candidate.app_id, platform="any", version_num=1),
            platform="x86_64-pc-linux-gnu",
            usage=ResourceUsage(),
            report_deadline=NOW + 1,
            estimated_seconds=1.0,
        )
        found.setdefault(candidate.workunit_id, []).append(chosen)
    return found


@pytest.mark.parametrize(
    ("per_user", "computers", "sent"), [(True, (1, 3), 1), (False, (1, 1), 1), (False, (1, 3), 2)]
)
def test_two_schedulers_send_a_person_or_a_computer_one_result_of_a_job(
    stores: list[Store], per_user: bool, computers: tuple[int, int], sent: int
):
    n = 30
    app = add_app(stores[0])
    add_jobs(stores[0], open_batch(stores[0], app), app, [NewJob()] * n)

    def prepare(tx: Transaction) -> None:
        add_people(tx, 2)
        hosts.create_host(tx, UserId(1), host_cpid="third", venue="", now=NOW)
        due = lifecycle.due_workunits(tx, now=NOW, limit=n)
        lifecycle.apply_transitions(tx, [(view, next_transition(view, now=NOW)) for view in due], now=NOW)
        # A second result of each.
        columns = "workunit_id, app_id, priority, turn, create_time, server_state, outcome"
        tx.execute(f"INSERT INTO result (name, {columns}) SELECT name || 'b', {columns} FROM result")

    stores[0].write(prepare)
    chosen = assignments(stores[0])
    assert [len(each) for each in chosen.values()] == [2] * n

    def claim(tx: Transaction, number: int, some: list[Assignment]) -> int:
        who = HostId(computers[number])
        rule = {"grace_period": 0.0, "one_result_per_user": per_user, "now": NOW}
        return len(dispatch.claim(tx, some, host_id=who, user_id=UserId(1), **rule))

    *contested, last = chosen.values()

    def send(store: Store, number: int) -> list[int]:
        return [store.write(partial(claim, number=number, some=[each[number]])) for each in contested]

    one, other = at_once(stores, send)
    both = [a + b for a, b in zip(one, other, strict=True)]  # type: ignore[call-overload]  # numbers, as `send` has it
    assert all(
        1 <= each <= sent for each in both
    )  # who finds a job in use by the other process goes without it
    assert stores[0].read(lambda db: db.value("SELECT COUNT(host_id) FROM result")) == sum(both)
    in_one_write = stores[0].write(lambda tx: [claim(tx, number, [last[number]]) for number in range(2)])
    assert in_one_write == [1, sent - 1]


# -- who does what -------------------------------------------------------------


def join(store: Store, heard: list[set[str]] | None = None) -> ProcessGroup:
    group = store.process_group(ROLES)
    group.join(["validator"], ["purger"], (heard if heard is not None else []).append)
    return group


def shards(group: ProcessGroup, role: str = "validator") -> set[int]:
    with group.lease_shards(role) as lease:
        assert lease.shards is not None
        return set(lease.shards)


def test_shards_are_divided_and_taken_over(stores: list[Store]):
    first = join(stores[0])
    assert shards(first) == set(range(SHARDS))
    assert shards(first, "purger") == {0}
    second = join(stores[1])
    eventually(lambda: len(shards(first)) == len(shards(second)) == SHARDS // 2)
    assert shards(first).isdisjoint(shards(second))
    assert (first.rank("validator"), second.rank("validator")) == ((0, 2), (1, 2))
    assert shards(second, "purger") == set()
    first.close()
    eventually(lambda: shards(second) == set(range(SHARDS)) and shards(second, "purger") == {0})
    second.close()


def test_a_shard_stays_with_who_works_on_it(stores: list[Store]):
    first = join(stores[0])
    with first.lease_shards("validator") as mine:
        assert mine.shards
        second = join(stores[1])
        eventually(lambda: first.rank("validator") == (0, 2))
        for _ in range(20):
            assert shards(second) == set()
    eventually(lambda: len(shards(second)) == SHARDS // 2)
    second.close()
    first.close()


def test_a_notification_is_heard_by_the_others_only(stores: list[Store]):
    heard: list[list[set[str]]] = [[], []]
    groups = [join(store, heard[number]) for number, store in enumerate(stores)]
    eventually(lambda: all({ALL} in each for each in heard))
    groups[0].notify({"validator"})
    groups[0].notify({"results"})
    eventually(lambda: {"validator", "results"} <= set().union(*heard[1]))
    assert "validator" not in set().union(*heard[0])
    for group in groups:
        group.close()


def test_a_lost_connection_is_made_again(stores: list[Store], postgres: PostgresServer):
    heard: list[set[str]] = []
    group = join(stores[0], heard)
    assert shards(group)
    heard.clear()
    postgres.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'cobblestone'"
    )
    eventually(lambda: {ALL} in heard)
    eventually(lambda: shards(group) == set(range(SHARDS)))
    other = join(stores[1])

    def is_heard() -> (
        bool
    ):  # the listening connection may come back later than the other; what is said until then is lost
        other.notify({"purger"})
        return {"purger"} in heard

    eventually(is_heard)
    other.close()
    group.close()


def test_connections_that_are_cut_take_no_shard_from_anybody(stores: list[Store], postgres: PostgresServer):
    groups = [join(store) for store in stores]
    eventually(lambda: all(len(shards(group)) == SHARDS // 2 for group in groups))
    before = [shards(group) for group in groups]
    ours = "FROM pg_stat_activity WHERE application_name = 'cobblestone'"
    for _ in range(3):
        postgres.execute(f"SELECT pg_terminate_backend(pid) {ours}")
        assert [shards(group) for group in groups] == before
        # One of each group listens, one keeps its leases.
        eventually(lambda: postgres.execute(f"SELECT count(*) {ours}")[0][0] == 2 * len(groups))
        assert [shards(group) for group in groups] == before
    for group in groups:
        group.close()


def test_a_write_whose_lease_was_lost_is_refused(stores: list[Store]):
    first = join(stores[0])
    with first.lease_shards("validator") as lease:
        stores[0].write(lambda tx: lease.check(tx, [1, 2, 3 + SHARDS]))
        stores[0].write(
            lambda tx: tx.execute(
                "UPDATE process_lease SET owner = 'another', fence = fence + 1 WHERE shard = 2"
            )
        )
        stores[0].write(lambda tx: lease.check(tx, [1, 3]))
        with pytest.raises(LeaseLost):
            stores[0].write(lambda tx: lease.check(tx, [1, 2, 3]))
    first.close()


def test_attempts_at_one_process_count_at_the_others(stores: list[Store]):
    settings = LimitsSection.model_validate({"failures_per_account": 400})
    limits: list[RateLimits] = []
    groups: list[ProcessGroup] = []
    for store in stores:
        group = store.process_group(ROLES)
        mine = RateLimits(settings, share=group.notify)
        group.join([], [], lambda names, mine=mine: mine.hear(names, now=NOW))
        groups.append(group)
        limits.append(mine)
    first, second = limits

    def second_has_heard() -> bool:  # what is told before the others listen is lost
        first.lookups.take("10.0.0.1", now=NOW)
        return second.lookups.wait("10.0.0.1", now=NOW) > 0

    eventually(second_has_heard)
    for number in range(399):
        first.try_password(f"10.1.0.{number}", "alice@example.org", now=NOW)
    second.try_password("10.0.0.3", "alice@example.org", now=NOW)
    eventually(
        lambda: all(each.failures_by_account.wait("alice@example.org", now=NOW) > 0 for each in limits)
    )
    assert second.try_password("10.0.0.4", "bob@example.org", now=NOW) == 0
    first.password_was_right("10.1.0.1", "alice@example.org", now=NOW)
    eventually(lambda: second.failures_by_account.wait("alice@example.org", now=NOW) == 0)
    for group in groups:
        group.close()


HANGING = """
import sys
from cobblestone.store.engine.database import Store
from cobblestone.store.engine.process_group import LeaseLost
group = Store(sys.argv[1], readers=1).process_group(("validator", "purger"))
group.join(["validator"], ["purger"], lambda names: None)
with group.lease_shards("validator") as lease:
    print(len(lease.shards), flush=True)
    for line in sys.stdin:
        try:
            lease.ensure(int(line))
            print("ours", flush=True)
        except LeaseLost:
            print("lost", flush=True)
"""


def test_shards_of_a_process_that_hangs_go_to_the_others(stores: list[Store], address: str):
    words = [sys.executable, "-c", HANGING, address]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask() -> str:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("1\n")
        process.stdin.flush()
        return process.stdout.readline().strip()

    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == str(SHARDS)
        second = join(stores[1])
        assert shards(second) == set(), "it works on all of them"
        assert ask() == "ours"
        process.send_signal(signal.SIGSTOP)
        eventually(lambda: shards(second) == set(range(SHARDS)))
        process.send_signal(signal.SIGCONT)
        assert ask() == "lost", "at once"
        second.close()
        sql = "SELECT COUNT(*) FROM process_lease WHERE role = 'validator' AND until > 0"
        eventually(lambda: stores[0].read(lambda db: db.value(sql)) == SHARDS)
        assert ask() == "lost", "it has leases again, but other ones"
    finally:
        process.kill()
        process.communicate()


def test_two_submissions_at_once_do_not_pass_the_limit_of_a_submitter(stores: list[Store]):
    add_app(stores[0])
    stores[0].write(lambda tx: add_people(tx, 1))
    rights = SubmitRights(max_jobs=10)
    stores[0].write(lambda tx: submitters.allow(tx, UserId(1), rights, now=NOW))
    token = stores[0].read(lambda db: submitters.submitter_of(db, UserId(1)))

    def submit(store: Store, number: int) -> int:
        def make(tx: Transaction) -> None:
            batch = batches.create_batch(tx, name="b", app_id=AppId(1), token_id=token and token.id, now=NOW)
            submitters.check_rights(tx, token, "demo", 3, now=NOW)
            batches.add_jobs(tx, batch, "demo", [NewJob()] * 3, now=NOW)

        done = 0
        for _ in range(5):
            with contextlib.suppress(Conflict):
                store.write(make)
                done += 1
        return done

    assert sum(map(int, map(str, at_once(stores, submit)))) == 3
    assert stores[0].read(lambda db: db.value("SELECT sum(njobs) FROM batch")) == 9
    assert stores[0].read(lambda db: db.value("SELECT count(*) FROM batch")) == 3
