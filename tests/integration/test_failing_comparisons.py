"""A comparison that fails, of whatever kind and in whatever way, holds its own jobs until it is mended, and harms no host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.helpers.api_client import ApiClient
from tests.helpers.installed_kind import installed_kind
from tests.helpers.project_world import World

from cobblestone.domain.apps import ComparisonRule
from cobblestone.domain.work import OutputSpec, ReplicationRules
from cobblestone.server.operation.alerts import queue_warnings
from cobblestone.store.operation.figures import project_figures

MODULE = '''
"""A kind that fails where and how its options say, until the file ``mended`` lies beside it."""

import os
import time
from pathlib import Path

from cobblestone.domain.reasons import reason
from cobblestone.policy.validation.comparison import ReadsOutputs

MENDED = Path(__file__).with_name("mended")


def deeper():
    return deeper() + 1


def raises(error):
    raise error


WAYS = {
    "ValueError": lambda: int("1" * 5000),
    "OverflowError": lambda: int(float("inf")),
    "RecursionError": deeper,
    "exceeded the memory limit": lambda: bytearray(10**12),
    "SystemExit": lambda: raises(SystemExit(3)),
    "KeyboardInterrupt": lambda: raises(KeyboardInterrupt()),
    "process died": lambda: os._exit(9),
    "killed from outside": lambda: os.kill(os.getpid(), 9),
    "took longer": lambda: time.sleep(60),
    "UnicodeError": lambda: raises(UnicodeError("\\ud800\\0")),
    "is not iterable": lambda: None,
    "KeyError": lambda: [reason("odd", "{what}")],
}


class Moody(ReadsOutputs):
    name = "moody"
    syntax = "moody:WHERE WAY"

    def parse(self, text):
        return {"where": "", "way": ""}

    def fail(self, options, where):
        if options["where"] == where and not MENDED.exists():
            return WAYS[options["way"]]()
        return ()

    def agree_by_checksum(self, a, b):
        return self.fail({"where": "checksum", "way": "SystemExit"}, "checksum")

    def refusal(self, options, files, limits):
        self.fail(options, "refusal")

    def differences(self, options, a, b, limits):
        return self.fail(options, "differences")
'''

STRANGE = ("is not iterable", "KeyError")
"""Ways of returning something strange, which no refusal does here."""


@pytest.fixture
def mended(tmp_path: Path) -> Iterator[Path]:
    """A package with a kind that fails; the file that mends it."""
    with installed_kind(tmp_path / "site", "moody", "Moody", MODULE):
        yield tmp_path / "site" / "mended"


def ways() -> list[str]:
    """The ways to fail."""
    names: dict[str, object] = {}
    exec(MODULE.replace("Path(__file__)", "Path('x.py')"), names)
    return list(names["WAYS"])  # type: ignore[call-overload]


def compute(
    world: World, answers: Callable[[str, int], bytes], *, users: int = 2
) -> list[tuple[object, ...]]:
    """Have each of the users compute a result of every job; how hosts stood before the project judged."""
    for which, user in enumerate(("alice", "bob", "carol")[:users]):
        host = world.host(world.user(user), p_ncpus=64)
        host.rpc(ask=1e7, instances=64.0)
        world.now += 150
        host.rpc(
            reports=[host.finish(name, answers(name.partition("_")[0], which)) for name in host.new_results()]
        )
        world.run(world.transitioner.step())
    before = standing(world)
    world.settle()
    return before


def standing(world: World) -> list[tuple[object, ...]]:
    """What the project holds for and against its hosts with the apps whose comparisons fail."""
    return world.query(
        "SELECT h.host_id, h.app_version_id, h.max_jobs_per_day, h.consecutive_valid, h.error_rate, h.bad_results"
        " FROM host_app_version h JOIN app_version v ON v.id = h.app_version_id JOIN app a ON a.id = v.app_id"
        " WHERE a.name <> 'good' ORDER BY 1, 2"
    )


@pytest.mark.parametrize("where", ["refusal", "differences"])
def test_whatever_a_comparison_raises_holds_its_own_jobs_until_it_is_mended(
    make_world: Callable[..., World], mended: Path, where: str
) -> None:
    world = make_world(checks={"timeout": 2, "max_attempts": 1})
    cases = {
        f"app{number}": way
        for number, way in enumerate(ways())
        if where == "differences" or not way.startswith(STRANGE)
    }
    for name, way in cases.items():
        rule = ComparisonRule(kind="moody", options={"where": where, "way": way})
        world.add_jobs(world.add_app(name, quorum=2, comparison=rule))
    world.add_jobs(world.add_app("good", quorum=2))
    before = compute(world, lambda app, which: b"answer")
    assert len(before) == 2 * len(cases)
    assert standing(world) == before
    found = {
        name: rest
        for name, *rest in world.query(
            "SELECT a.name, w.id, w.assimilate_state, w.need_validate, w.handler_problem"
            " FROM workunit w JOIN app a ON a.id = w.app_id"
        )
    }
    assert found.pop("good")[1:] == [2, 0, ""]
    for name, (id_, *state, problem) in found.items():
        assert state == [0, 1], (cases[name], state, problem)
        assert cases[name] in problem
        explained = str(ApiClient(world).get(f"/explain/workunits/{id_}")["reasons"])
        assert cases[name] in explained
        assert "Nothing to do" not in explained
    unjudged = "FROM result r JOIN app a ON a.id = r.app_id WHERE a.name <> 'good'"
    assert world.query(f"SELECT DISTINCT validate_state, outcome, granted_credit {unjudged}") == [(0, 1, 0.0)]
    figures = world.run(world.ctx.store.aread(lambda db: project_figures(db, now=world.now)))
    assert figures.parked == len(found)
    assert "jobs_parked" in {warning.code for warning in queue_warnings(figures, world.ctx.settings)}
    mended.touch()
    for id_, *_ in found.values():
        ApiClient(world).post(f"/workunits/{id_}/retry", {})
    world.settle()
    assert world.query(f"SELECT DISTINCT validate_state {unjudged}") == [(1,)]
    assert world.query("SELECT DISTINCT assimilate_state FROM workunit") == [(2,)]


POISON = """
import os, time


def same(one, other):
    read = [paths["out"].read_text() for paths in (one, other)]
    if "poison" in read:
        WHAT
    return read[0] == read[1]
"""


GOOD_OR_NOT = [("poison", "good", "good"), ("good", "poison", "good"), ("good", "good", "poison")]
RAISES = "raise ValueError('poison')"
FAILURES = [(RAISES, answers, together) for answers in GOOD_OR_NOT for together in (2, 3)]
FAILURES += [(what, GOOD_OR_NOT[0], 2) for what in ("return None", "time.sleep(60)", "os._exit(9)")]


@pytest.mark.parametrize(("what", "answers", "together"), FAILURES)
def test_an_output_at_which_a_comparison_fails_holds_no_job_and_is_no_hosts_fault(
    make_world: Callable[..., World], what: str, answers: tuple[str, ...], together: int
) -> None:
    """Two results or three are judged at first; the third comes to them, or to the canonical one, later."""
    world = make_world(checks={"timeout": 1, "max_attempts": 1})
    (world.ctx.folder.root / "check.py").write_text(POISON.replace("WHAT", what))
    rule = ComparisonRule(kind="python", options={"function": "check.py:same"})
    rules = ReplicationRules(min_quorum=2, target_nresults=3)
    world.add_jobs(world.add_app(rules=rules, comparison=rule))
    hosts = [world.host(world.user(user), p_ncpus=8) for user in ("alice", "bob", "carol")]
    for host in hosts:
        host.rpc(ask=1e5)
    world.now += 150
    poisoned = answers.index("poison")
    before: list[tuple[object, ...]] = []
    for number, (host, answer) in enumerate(zip(hosts, answers, strict=True), start=1):
        (name,) = host.new_results()
        host.rpc(reports=[host.finish(name, answer.encode())])
        if number in (together, poisoned + 1):
            before = standing(world)
        if number >= together:
            world.settle()
    states = [(5 if answer == "poison" else 1,) for answer in answers]  # too late, valid
    assert world.query("SELECT validate_state FROM result WHERE sent_time > 0 ORDER BY host_id") == states
    assert world.query("SELECT assimilate_state, handler_problem FROM workunit") == [(2, "")]
    assert standing(world)[poisoned] == before[poisoned]
    (report,) = world.query(
        "SELECT report FROM result_text t JOIN result r ON r.id = t.result_id WHERE validate_state = 5"
    )
    assert "comparison failed" in str(report)


KILLED = '''
"""A kind whose process is killed while it reads an answer, until the file ``mended`` lies beside it."""

import os
from pathlib import Path

from cobblestone.policy.validation.comparison import ReadsOutputs


class Killed(ReadsOutputs):
    name = syntax = "killed"

    def parse(self, text):
        return {}

    def refusal(self, options, files, limits):
        if files["out"] == b"first" and not Path(__file__).with_name("mended").exists():
            os.kill(os.getpid(), 9)

    def differences(self, options, a, b, limits):
        return ()
'''


def test_a_process_that_somebody_kills_is_not_the_affair_of_the_host_whose_answer_it_read(
    make_world: Callable[..., World], tmp_path: Path
) -> None:
    with installed_kind(tmp_path / "site", "killed", "Killed", KILLED):
        world = make_world(checks={"max_attempts": 5})
        world.add_jobs(world.add_app(quorum=2, comparison=ComparisonRule(kind="killed")))
        before = compute(world, lambda app, which: (b"first", b"second")[which])
        assert standing(world) == before
        assert world.query("SELECT validate_state FROM result") == [(0,), (0,)]
        (tmp_path / "site" / "mended").touch()
        world.now += 61
        world.settle()
        assert world.query("SELECT validate_state FROM result") == [(1,), (1,)]


ODD = '''
"""A kind whose reasons are nothing that a database takes."""

from cobblestone.domain.reasons import phrase, reason
from cobblestone.policy.validation.comparison import ReadsOutputs


class Odd(ReadsOutputs):
    name = syntax = "odd"

    def parse(self, text):
        return {}

    def differences(self, options, a, b, limits):
        if a != b:
            yield reason("odd\\0", "\\ud800 {what}", what=lambda: 1)
            yield reason("odd", "{what} {more}", what="\\ud800\\0", more=phrase("{x}", x=b"\\xff"))
'''


@pytest.mark.both_databases
def test_the_reasons_of_a_foreign_comparison_are_kept_and_shown_whatever_they_hold(
    make_world: Callable[..., World], tmp_path: Path
) -> None:
    with installed_kind(tmp_path / "site", "odd", "Odd", ODD):
        world = make_world(checks={"max_attempts": 1})
        rules = ReplicationRules(min_quorum=2, target_nresults=3)
        world.add_jobs(world.add_app(rules=rules, comparison=ComparisonRule(kind="odd")))
        compute(world, lambda app, which: b"bad" if which == 0 else b"good", users=3)
        assert world.query("SELECT validate_state FROM result ORDER BY host_id") == [(2,), (1,), (1,)]
        assert world.query("SELECT assimilate_state, handler_problem FROM workunit") == [(2, "")]
        assert "function" in world.value("SELECT report FROM result_text WHERE result_id = 1")
        assert world.get("/result.php?resultid=1").status_code == 200


NUMBERS_CUT_OFF = b"E = -3e %s 1e+ 2.d 1.5D- .e3 +.5e\n"
NEAR: dict[str, tuple[str, tuple[bytes, bytes]]] = {
    "text": ("r.txt", (NUMBERS_CUT_OFF % b"1.0", NUMBERS_CUT_OFF % b"1.00000001")),
    "unnamed": ("out", (b"-3e+ 1\n", b"-3e + 1.00000001\n")),
    "head": ("r.csv", (b"n,2.d,-3e\n1,2,3\n", b"n,2.d,-3e\n1,2,3.0000001\n")),
    "same": ("r.csv", (b"n,2.d,-3e\n1,2,3\n", b"n,2.d,-3e\n1,2,3\n")),
    "cell": ("r.csv", (b"n,d\n1e+,2.0\n", b"n,d\n1e+,2.00000001\n")),
}
"""Outputs that agree, of which some words begin like numbers."""

APART: dict[str, tuple[str, tuple[bytes, bytes]]] = {
    "word": ("r.txt", (b"E -3e\n", b"E -3.0\n")),
    "cell": ("r.csv", (b"n,d\n1,2.d\n", b"n,d\n1,2.0\n")),
}
"""Outputs that do not agree."""


@pytest.mark.parametrize(("cases", "expected"), [(NEAR, (2, 1)), (APART, (0, 4))], ids=["near", "apart"])
def test_words_that_begin_like_numbers_are_compared_as_words(
    world: World, cases: dict[str, tuple[str, tuple[bytes, bytes]]], expected: tuple[int, int]
) -> None:
    rule = ComparisonRule(kind="numeric", options={"rtol": 1e-6})
    for name, (output, _) in cases.items():
        world.add_jobs(
            world.add_app(name, quorum=2, comparison=rule, outputs=(OutputSpec(open_name=output),))
        )
    compute(world, lambda app, which: cases[app][1][which])
    assert world.query(
        "SELECT DISTINCT w.assimilate_state, r.validate_state, w.need_validate, w.handler_problem"
        " FROM result r JOIN workunit w ON w.id = r.workunit_id WHERE r.sent_time IS NOT NULL"
    ) == [(*expected, 0, "")]
