"""The benchmark of credit systems: the same seed, the same world; what is measured; what cannot be used is named."""

from __future__ import annotations

import json
import math
import re
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from cobblestone.cli import run_command
from cobblestone.credit_lab.attacks.acts import Act, Attack, Seen
from cobblestone.credit_lab.attacks.catalogue import ATTACKS, find_attack
from cobblestone.credit_lab.attacks.searched import PARAMETERS
from cobblestone.credit_lab.bench import tasks
from cobblestone.credit_lab.bench.measures import (
    Scene,
    attack_figures,
    baseline,
    honest_beside,
    honest_figures,
    ratio_interval,
    targets_of,
)
from cobblestone.credit_lab.bench.optimiser import Search, look_for_attack
from cobblestone.credit_lab.bench.population import computers
from cobblestone.credit_lab.bench.report import read_entries, write_report
from cobblestone.credit_lab.bench.run import NONE, Run
from cobblestone.credit_lab.bench.stream import read_prices, read_stream, watch, write_prices, write_stream
from cobblestone.credit_lab.bench.streams import generator, stream_key
from cobblestone.credit_lab.bench.tasks import (
    Plan,
    all_scenarios,
    default_scenarios,
    play,
    run_plan,
    seeds_from,
)
from cobblestone.credit_lab.bench.worlds import DAYS, SIZES, WORLDS, World, find_world, sized
from cobblestone.credit_lab.systems.find import LATE, VISIBLE, find_contender
from cobblestone.credit_lab.systems.pay import at_once
from cobblestone.credit_lab.systems.tape import ERROR, GPU, JOB, RESULT, START, Tape
from cobblestone.domain.errors import ConfigError
from cobblestone.simulator.report.picture import load_matplotlib


def world(name: str = "normal-q2", **more: Any) -> World:
    return replace(find_world(name), **({"hosts": 100, "jobs": 3000} | more))


def tape_of(name: str = "normal-q2", seed: int = 7, attack: str = "", checks: str = NONE) -> tuple[Run, Tape]:
    run = Run(world(name), seed, attack=find_attack(attack) if attack else None, checks=checks)
    return run, run.finish()


def played(system: str, of: World, attack: Attack | None = None, *, strict: bool = False) -> Scene:
    return play(of, attack, 3, [find_contender(system)], strict=strict)[0]


def same(one: Any, other: Any) -> bool:
    return all(
        np.array_equal(one[name], other[name], equal_nan=one[name].dtype.kind == "f")
        for name in one.dtype.names
    )


# Determinism


def test_a_seed_makes_one_world_and_another_seed_another() -> None:
    first, again, other = (tape_of(seed=seed)[1].results for seed in (2**64 - 1, 2**64 - 1, 5))
    assert same(first, again)
    assert not np.array_equal(first["run_time"], other["run_time"])


@pytest.mark.parametrize("attack", ["time-x10", "ring-x3", "no-number", "counts-x10", "forge-10"])
def test_an_attack_changes_no_honest_job(attack: str) -> None:
    run, attacked = tape_of("normal-q2", attack=attack)
    _, honest = tape_of("normal-q2")
    assert same(attacked.jobs, honest.jobs)
    names = ["run_time", "answer", "peak", "sent"]

    def reports(tape: Tape) -> dict[tuple[int, int], tuple[float, ...]]:
        rows = tape.results[run.hosts["group"][tape.results["host"]] == 0]
        return {(row["job"], row["host"]): tuple(row[name] for name in names) for row in rows}

    one, other = reports(attacked), reports(honest)
    common = one.keys() & other.keys()
    assert len(common) > 0.9 * len(other)
    assert all(one[key] == other[key] for key in common)


def test_streams_are_apart() -> None:
    assert stream_key(1, "noise") != stream_key(1, "pick") != stream_key(2, "pick")
    assert generator(3, "a").random() != generator(3, "b").random()


def test_one_attack_more_changes_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    before = tape_of(attack="random-half")[1].results
    monkeypatch.setitem(ATTACKS, "mine", replace(ATTACKS["time-x10"], name="mine"))
    assert same(before, tape_of(attack="random-half")[1].results)


def test_systems_that_share_a_run_are_paid_as_each_alone() -> None:
    names = ("counted:minimum", "creditnew-designed", "creditnew-deployed")
    attack = find_attack("fresh-time")
    together = play(world("normal-q1"), attack, 3, [find_contender(name) for name in names])
    for name, scene in zip(names, together, strict=True):
        alone = played(name, world("normal-q1"), attack)
        assert np.array_equal(alone.pay.price, scene.pay.price)
        assert alone.pay.state_bytes == scene.pay.state_bytes > 0


def test_a_job_that_nobody_takes_is_known_as_refused() -> None:
    attack = replace(find_attack("cherry-error=0"), share=0.25)  # they take no job
    of = replace(world("normal-q1", hosts=8, jobs=300), leaving=0.0)
    run = Run(of, 3, attack=attack)
    run._known = [host for host in run._known if host.group]
    run._member = {1: ([0, 1], [1.0, 2.0])}
    watcher = find_contender("ledger").watcher(1, run.accounts, 1)
    tape = run.finish([watcher])
    assert set(tape.results["outcome"]) == {ERROR}
    assert watcher.pay().price.size == tape.results.size


def test_checks_are_drawn_as_the_dispatch_draws_them() -> None:
    _, visible = tape_of("normal-q1", checks=VISIBLE)
    _, late = tape_of("normal-q1", checks=LATE)
    assert 0.02 < visible.results["check"].mean() < 0.5
    assert late.results["check"].sum() == visible.results["check"].sum()  # the same draws


# Worlds and attacks


def test_the_population_has_what_the_note_asks_for() -> None:
    hosts = computers(world(hosts=4000), 3)
    assert 0.27 < (hosts["kind"] == GPU).mean() < 0.33
    assert 0.02 < (hosts["benchmark"] == 1e9).mean() < 0.06
    assert (hosts["busy"] < hosts["threads"]).any()
    assert np.isfinite(hosts["ends"]).any()
    assert hosts["wrong"].min() >= 0.001
    assert len(set(hosts["person"])) < hosts.size


def test_jobs_follow_their_world() -> None:
    step = tape_of("estimate-step-q2")[1].jobs
    half = step["time"] > START + DAYS * 86400.0 / 2
    ratio = step["estimate"] / step["work"]
    assert np.median(ratio[half]) / np.median(ratio[~half]) == pytest.approx(2.0, rel=0.05)
    assert len(set(tape_of("constant-q2")[1].jobs["estimate"])) == 1
    assert set(tape_of("tag-q2")[1].jobs["stratum"]) == {0, 1}
    assert set(tape_of("projects-q2")[1].jobs["app"]) == set(range(1, 9))
    released = tape_of("faster-q2")[1].results["version"]
    assert {11, 16} & set(released)


@pytest.mark.parametrize("name", ATTACKS)
def test_every_attack_runs_and_its_computers_are_always_there(name: str) -> None:
    attack = ATTACKS[name]
    of = f"{attack.world}-q{attack.quorums[0]}"
    run, tape = tape_of(of, attack=name, checks=VISIBLE)
    attackers = run.hosts["group"] > 0
    assert 2 <= attackers.sum() <= 20
    rows = tape.results[attackers[tape.results["host"]]]
    assert rows.size
    if attack.renew is not find_attack("time-x10").renew and not name.startswith(("forge", "long")):
        assert len(set(rows["identity"])) > attackers.sum()
    if name == "forge-all":
        assert (rows["work"][rows["outcome"] < 2] == 0.0).all()
    if name == "pair-x10":
        met = [
            len(set(run.hosts["group"][tape.results["host"][tape.results["job"] == job]])) == 1
            for job in set(rows["job"])
        ]
        assert np.mean(met) > 0.4  # by chance one in twenty


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_beyond_its_range_is_refused_and_not_made_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    words = ["creditbench", "run", str(tmp_path), "--only", "nope", "--seed", str(seed)]
    assert run_command(words) == 2
    assert "'--seed'" in capsys.readouterr().err


def test_attacks_are_mixed_strengthened_and_refused() -> None:
    assert find_attack("time-x10=4").strength == 4.0
    act = Act()
    mixed = find_attack("time-x10+benchmark-x10")
    mixed.report(Seen(), act, mixed.strength)
    assert (act.time, act.benchmark) == (10.0, 10.0)
    assert find_attack("search:" + ",".join("1" for _ in PARAMETERS)).ring
    for wrong in ("nobody", "time-x10=much", "search:1,2", "search:a"):
        with pytest.raises(ConfigError):
            find_attack(wrong)


def test_all_scenarios_can_be_found() -> None:
    found = all_scenarios()
    assert len(found) == len(set(found)) > 90
    assert {each.partition("/")[0] for each in found} <= set(WORLDS)
    assert set(default_scenarios("L")) < set(default_scenarios("S")) == set(found)
    assert seeds_from(2**64 - 1, 2, "S") == (2**64 - 1, 0)
    assert sized(find_world("lasting-q1"), "M").hosts == 300
    with pytest.raises(ConfigError):
        sized(find_world("normal-q1"), "XL")


# Measures, on cases that are counted by hand


def scene(
    prices: list[float], works: list[float], *, hosts: list[int], attackers: tuple[int, ...] = ()
) -> Scene:
    """Results late in the run, one job each, of CPU hosts with speeds 1, 2, 3 …"""
    of = world(hosts=10, jobs=len(works), quorum=1)
    table = computers(of, 1)
    table["kind"], table["group"] = 0, 0
    table["group"][list(attackers)] = 1
    jobs: Any = np.zeros(len(works), dtype=JOB)
    jobs["app"], jobs["estimate"], jobs["work"] = 1, works, works
    jobs["time"] = START + 86400.0 * (DAYS / 3 + 1 + np.arange(len(works)) * (DAYS * 2 / 3 - 2) / len(works))
    rows: Any = np.zeros(len(works), dtype=RESULT)
    rows["job"], rows["work"], rows["host"], rows["time"] = np.arange(len(works)), works, hosts, jobs["time"]
    rows["identity"] = rows["host"] + 1
    tape = Tape(jobs=jobs, results=rows, accounts=np.arange(11), quorum=1)
    return Scene(world=of, hosts=table, tape=tape, pay=at_once(tape, np.array(prices)))


def test_spread_and_level() -> None:
    figures = honest_figures(scene([1.0, math.e], [1.0, 1.0], hosts=[0, 1]))
    assert figures["spread"] == pytest.approx(0.5)
    assert figures["spread_job"] == pytest.approx(0.5)
    assert figures["overhead"] == 0.0
    assert figures["unpaid"] == 0.0
    assert honest_figures(scene([1.0, 0.0], [1.0, 1.0], hosts=[0, 1]))["unpaid"] == 0.5


def test_gpus_and_drift() -> None:
    of = scene([2.0, 2.0, 1.0, 1.0] * 6, [1.0] * 24, hosts=[0, 0, 1, 1] * 6)
    of.hosts["kind"][0] = GPU
    assert honest_figures(of)["device"] == pytest.approx(2.0)
    level = honest_figures(scene([1.0] * 12 + [3.0] * 12, [1.0] * 24, hosts=[0, 1] * 12))
    assert level["drift"] == pytest.approx(3.0)
    assert len(level["periods"]) == 12


def test_gain_is_relative_to_the_same_computers_when_honest() -> None:
    base = baseline(scene([1.0, 1.0, 2.0, 2.0], [1.0] * 4, hosts=[0, 0, 1, 1]))
    found = attack_figures(
        scene([1.5, 1.5, 2.0, 2.0], [1.0] * 4, hosts=[0, 0, 1, 1], attackers=(0,)), base, generator(1, "x")
    )
    assert found["gain"] == pytest.approx(1.5)
    assert found["gain_mean"] == pytest.approx(1.5)
    assert found["gain_low"] == found["gain_high"] == pytest.approx(1.5)
    assert found["windfall"] == pytest.approx(2.0 / 1.5)
    assert found["people"] == 1


def test_forged_results_are_paid_for_no_work() -> None:
    base = baseline(scene([1.0, 1.0], [1.0, 1.0], hosts=[0, 1]))
    half = scene([1.0, 1.0, 1.0], [1.0, 0.0, 1.0], hosts=[0, 0, 1], attackers=(0,))
    found = attack_figures(half, base, generator(1, "x"))
    assert found["gain"] == pytest.approx(2.0)
    assert found["per_slot"] == pytest.approx(1.0)


def test_open_escrow_counts_for_the_attacker_and_what_was_revoked_does_not() -> None:
    base = baseline(scene([1.0, 1.0], [1.0, 1.0], hosts=[0, 1]))
    of = scene([3.0, 4.0, 1.0], [1.0, 1.0, 1.0], hosts=[0, 0, 1], attackers=(0,))
    never = np.full(3, np.inf)
    of = replace(of, pay=replace(of.pay, final=never, revoked=np.array([np.inf, START + 1e7, np.inf])))
    assert attack_figures(of, base, generator(1, "x"))["gain"] == pytest.approx(1.5)
    assert honest_figures(of)["escrow"][-1] > 0.0
    beside = attack_figures(of, honest_beside(of), generator(1, "x"))
    assert beside["gain"] == pytest.approx(1.5)


def test_a_fall_is_seen_and_small_ones_are_not() -> None:
    steady = scene([1.0] * 60, [1.0] * 60, hosts=[0] * 60)
    assert honest_figures(steady)["small_falls"] == 1.0
    lost = np.full(60, np.inf)
    lost[30:40] = START + 1e7
    taken = replace(steady, pay=replace(steady.pay, revoked=lost))
    figures = honest_figures(taken)
    assert figures["small_falls"] == 0.0
    assert figures["fall_99"] == pytest.approx(10 / 60)
    assert figures["taken_back"] == pytest.approx(10 / 60)


def test_the_interval_holds_the_ratio_and_shrinks() -> None:
    rng = generator(4, "people")
    below = np.ones(400)
    above = 1.0 + 0.3 * rng.standard_normal(400)
    low, high = ratio_interval(above, below, rng)
    few = ratio_interval(above[:20], below[:20], rng)
    assert low < above.mean() < high
    assert high - low < few[1] - few[0]
    assert math.isnan(ratio_interval(above[:0], below[:0], rng)[0])


def test_targets_belong_to_scenarios() -> None:
    assert {each.figure for each in targets_of("normal-q1/time-x10")} == {"gain", "gain_mean"}
    assert "spread" in {each.figure for each in targets_of("normal-q2")}
    assert {each.figure for each in targets_of("creep-q2")} == {"drift"}


# The sizes, resuming, the report


def test_size_s_of_a_system(tmp_path: Path) -> None:
    plan = Plan(systems=("ledger",), scenarios=("normal-q1/fresh-time",), seeds=(12345678901234567890,))
    steps = list[tuple[int, int]]()
    paths = run_plan(plan, tmp_path, workers=1, progress=lambda done, total: steps.append((done, total)))
    assert len(paths) == 2  # the honest world of the attack, too
    assert (steps[0], steps[-1]) == ((0, 2), (2, 2))
    found = {entry["scenario"]: entry["figures"] for entry in read_entries(tmp_path)}
    assert found["normal-q1"]["spread"] < 0.15
    assert found["normal-q1/fresh-time"]["gain"] < 1.10


def test_what_is_there_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SIZES, "S", (60, 2000, 1, 1))
    plan = Plan(systems=("fixed", "steady"), scenarios=("normal-q2", "normal-q2/time-x10"))
    ran = list[tasks.Task]()

    class Here:
        """Runs tasks in this process, and is killed after some."""

        left = 1

        def submit(self, function: Any, argument: Any) -> Any:
            class Done:
                def result(self) -> Any:
                    if Here.left == 0:
                        raise KeyboardInterrupt
                    Here.left -= 1
                    ran.append(argument)
                    return function(argument)

            return Done()

        def as_completed(self, futures: Any) -> Any:
            return ((future, future.result()) for future in list(futures))

        def close(self) -> None:
            pass

    monkeypatch.setattr(tasks, "open_backend", lambda scheduler, workers: Here())
    with pytest.raises(KeyboardInterrupt):
        run_plan(plan, tmp_path)
    assert len(ran) == 1
    Here.left = 9
    paths = run_plan(plan, tmp_path)
    assert [task.scenario for task in ran] == ["normal-q2", "normal-q2/time-x10"]
    assert all(path.is_file() for path in paths)
    report = write_report(tmp_path).read_text()
    assert "normal-q2/time-x10" in report
    assert "creditbench run OUT --size S --seed 1" in report
    assert {path.name for path in tmp_path.iterdir()} == {
        *("results", "report.md", "report.html", "figures.csv"),
        *("gains.svg", "cloud.svg", "drift.svg", "escrow.svg"),
    }
    page = (tmp_path / "report.html").read_text()
    assert "prefers-color-scheme:dark" in page
    assert "name=viewport" in page
    assert '<img src="gains.svg"' in page
    assert re.search(r'<td class="miss"[^>]*>[0-9.]+ !</td>', page)
    before = (tmp_path / "gains.svg").read_bytes()
    write_report(tmp_path)
    assert (tmp_path / "gains.svg").read_bytes() == before
    assert load_matplotlib().rcParams["svg.hashsalt"] is None, "others in this process draw as they did"


# Systems of one's own, and what cannot be used

OWN = """
class Mine:
    name = "mine"
    def __init__(self):
        self.issued = {}
        self.seen = -1
    def handle(self, event):
        from cobblestone.credit_lab.systems.events import CheckRequest, Issue, Price, Replicate, Verdict
        if isinstance(event, Issue):
            self.issued[event.job] = event.estimate
        elif isinstance(event, CheckRequest) and event.job % 10 == 0 and event.job != self.seen:
            self.seen = event.job
            return [Replicate(event.job)]
        elif isinstance(event, Verdict):
            return [Price(event.job, host, self.price(event, host)) for host in event.valid]
    def price(self, event, host):
        return self.issued[event.job] * 1e-12
"""


def own(tmp_path: Path, text: str = OWN) -> str:
    path = tmp_path / "mine.py"
    path.write_text(text)
    return f"{path}:Mine"


def test_a_system_of_ones_own_sees_events_and_asks_for_checks(tmp_path: Path) -> None:
    mine = played(own(tmp_path), world("normal-q1"), None)
    assert mine.pay.problems == ()
    fixed = played("fixed", world("normal-q2"), None)
    assert honest_figures(mine)["spread"] == pytest.approx(honest_figures(fixed)["spread"], abs=0.02)
    checked = set(mine.tape.results["job"][mine.tape.results["check"]])
    assert {job for job in range(3000) if job % 10 == 0} <= checked


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("float('nan')", "nan is not an amount"),
        ("float('inf')", "inf is not an amount"),
        ("-1.0", "-1.0 is not an amount"),
        ("'much'", "'much' is not an amount"),
    ],
)
def test_a_price_that_is_none_is_named_with_line_and_event(tmp_path: Path, answer: str, told: str) -> None:
    text = OWN.replace("self.issued[event.job] * 1e-12", f"{answer} if event.job == 5 else 1.0")
    name = own(tmp_path, text)
    small = world("normal-q1", jobs=200)
    problems = played(name, small, None).pay.problems
    assert len([each for each in problems if told in each and "verdict" in each and "line " in each]) >= 1
    assert any("no price for job 5" in each for each in problems)
    with pytest.raises(ConfigError, match=r"line .* verdict: price of host"):
        played(name, small, None, strict=True)


@pytest.mark.parametrize("handle", ["raise RuntimeError('boom')", "return 7"])
def test_a_system_that_fails_is_named_with_line_and_place_and_its_report_is_written(
    tmp_path: Path, handle: str
) -> None:
    text = f"class Mine:\n    name = 'mine'\n    def handle(self, event):\n        {handle}\n"
    name, small = own(tmp_path, text), world("normal-q1", jobs=200)
    problems = played(name, small, None).pay.problems
    assert problems[0].startswith("line 1, release: it failed: ")
    assert ", line " in problems[0]
    with pytest.raises(ConfigError, match="line 1, release: it failed"):
        played(name, small, None, strict=True)


def test_a_system_that_pays_nobody_has_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SIZES, "S", (60, 2000, 1, 1))
    name = own(
        tmp_path, "class Mine:\n    name = 'mine'\n    def handle(self, event):\n        return None\n"
    )
    assert (
        run_command(["creditbench", "run", str(tmp_path / "o"), "--system", name, "--only", "normal-q2"]) == 0
    )
    assert "Not all answers of" in (tmp_path / "o" / "report.md").read_text()


def test_a_system_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    text = "class Mine:\n    def __init__(self):\n        raise KeyError('x')\n    def handle(self, event): ...\n"
    with pytest.raises(ConfigError, match="cannot be made: KeyError"):
        find_contender(own(tmp_path, text))


def test_nothing_twice_too_late_and_unknown(tmp_path: Path) -> None:
    text = OWN.replace(
        "return [Price(event.job, host, self.price(event, host)) for host in event.valid]",
        textwrap.dedent("""
            found = [Price(event.job, host, 1.0) for host in event.valid]
            if event.job == 3: self.late = found; return None
            if event.job == 4: return found + found
            if event.job == 5: return [Price(99999, 1, 1.0), "what?", Replicate(5)] + found
            if event.job == 190: return self.late + found
            return found
        """)
        .strip()
        .replace("\n", "\n            "),
    )
    problems = played(own(tmp_path, text), world("normal-q1", jobs=200), None).pay.problems
    for told in (
        "final before",
        "no such valid result",
        "is no answer",
        "does not answer it",
        "after the verdict",
    ):
        assert any(told in each for each in problems), told
    assert any("no price for job 3" in each for each in problems)


def example(first_line: str) -> str:
    """The block of the page that begins like this."""
    page = (Path(__file__).parents[2] / "docs" / "creditbench.md").read_text(encoding="utf-8")
    return page.split(f"```python\n{first_line}\n")[1].split("```")[0]


def test_the_system_of_the_page_runs(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(example("# mine.py"))
    scene = played(f"{path}:ByEstimate", world("normal-q1"), None)
    assert scene.pay.problems == ()
    assert honest_figures(scene)["overhead"] == pytest.approx(0.05, abs=0.02)


def test_the_attack_of_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[str, Any] = {}
    exec(example("# attack"), made)  # the page's own code
    monkeypatch.setitem(ATTACKS, "at-night", made["ATTACK"])
    base = baseline(played("runtime", world("normal-q1"), None))
    run = played("runtime", world("normal-q1"), find_attack("at-night"))
    assert attack_figures(run, base, generator(1, "x"))["gain"] > 1.3


def test_a_file_that_is_no_system_is_refused(tmp_path: Path) -> None:
    for name in (f"{tmp_path}/none.py:Mine", own(tmp_path).replace("Mine", "Other"), own(tmp_path, "1 +")):
        with pytest.raises(ConfigError):
            find_contender(name)
    with pytest.raises(ConfigError):
        Plan(systems=("fixed",), scenarios=("normal-q2",), seeds=(2**64,))


# Recorded streams


def recorded(tmp_path: Path, name: str = "normal-q1", attack: str = "") -> tuple[Tape, Path]:
    _, tape = tape_of(name, attack=attack, checks=LATE)
    path = tmp_path / "events.parquet"
    assert write_stream(tape, path) > tape.results.size * 2
    return tape, path


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("system", ["creditnew-deployed", "steady"])
def test_a_recorded_stream_is_paid_as_the_run_itself(tmp_path: Path, system: str, ending: str) -> None:
    run = Run(world("normal-q1"), 7, attack=find_attack("cherry-error"), checks=LATE)
    watcher = find_contender(system).watcher(1, run.accounts, 1)
    tape = run.finish([watcher])
    path = tmp_path / f"events.{ending}"
    assert write_stream(tape, path) > tape.results.size * 2
    again, problems = read_stream(path, strict=True)
    assert problems == ()
    pay = watch(again, find_contender(system).watcher(1, again.accounts.tolist(), 1))
    assert pay.price[again.valid] == pytest.approx(watcher.pay().price[tape.valid], rel=1e-9)
    write_prices(again, pay, tmp_path / f"prices.{ending}")
    assert read_prices(tmp_path / f"prices.{ending}", tape, strict=True).price == pytest.approx(pay.price)


def test_prices_of_any_program_are_scored(tmp_path: Path) -> None:
    tape, path = recorded(tmp_path)
    events = pyarrow.parquet.read_table(path).to_pydict()
    estimate = {
        events["job"][line]: events["estimate"][line]
        for line, kind in enumerate(events["event"])
        if kind == "issue"
    }
    lines = [line for line, kind in enumerate(events["event"]) if kind == "verdict" and events["valid"][line]]
    jobs, hosts = ([events[name][line] for line in lines] for name in ("job", "host"))
    prices = tmp_path / "prices.parquet"

    def write(amounts: list[float]) -> None:
        pyarrow.parquet.write_table(pyarrow.table({"job": jobs, "host": hosts, "price": amounts}), prices)

    write([estimate[job] for job in jobs])
    pay = read_prices(prices, tape, strict=True)
    assert pay.problems == ()
    assert pay.price[tape.valid] == pytest.approx(tape.of("estimate")[tape.valid])
    write([math.nan, -1.0, math.inf] + [1.0] * (len(jobs) - 3))
    told = read_prices(prices, tape).problems
    assert len(told) == 6
    assert told[0].startswith("line 1, price: price of host")
    jobs[5], hosts[5], jobs[6] = jobs[4], hosts[4], -5
    write([1.0] * len(jobs))
    told = read_prices(prices, tape).problems
    assert any("one already" in each for each in told)
    assert any("no such valid result" in each for each in told)
    with pytest.raises(ConfigError, match="line 6, price"):
        read_prices(prices, tape, strict=True)


def test_a_stream_that_cannot_be_is_named_by_line_and_event(tmp_path: Path) -> None:
    _, path = recorded(tmp_path)
    columns = pyarrow.parquet.read_table(path).to_pydict()
    kinds = columns["event"]
    report = next(line for line, kind in enumerate(kinds) if kind == "report" and line > 50)
    columns["host"][report] = 77777
    late = next(line for line, kind in enumerate(kinds) if kind == "issue" and line > 200)
    columns["time"][late] -= 1e6
    verdict = next(line for line, kind in enumerate(kinds) if kind == "verdict" and line > 300)
    kinds[verdict] = "verdikt"
    issue = next(line for line, kind in enumerate(kinds) if kind == "issue" and line > 400)
    columns["estimate"][issue] = math.nan
    bad = tmp_path / "bad.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), bad)
    tape, problems = read_stream(bad)
    assert tape.results.size > 3000
    for line, event, told in (
        (report, "report", "was not given the job"),
        (late, "issue", "time goes back"),
        (verdict, "verdikt", "no such event"),
        (issue, "issue", "not usable"),
    ):
        assert any(each.startswith(f"line {line + 1}, {event}: ") and told in each for each in problems), told
    assert any("there is no verdict" in each for each in problems)
    with pytest.raises(ConfigError, match=f"line {report + 1}, report"):
        read_stream(bad, strict=True)
    pyarrow.parquet.write_table(pyarrow.table({"job": [1]}), bad)
    with pytest.raises(ConfigError, match="columns are missing"):
        read_stream(bad)


def test_the_ledger_system_prices_a_recorded_stream(tmp_path: Path) -> None:
    _, path = recorded(tmp_path)
    tape, _ = read_stream(path)
    pay = watch(tape, find_contender("ledger").watcher(1, tape.accounts.tolist(), 1, strict=True))
    assert (pay.price[tape.valid] > 0.0).all()


# The optimiser, and the commands


def test_the_optimiser_finds_a_way_to_cheat_the_gullible() -> None:
    found = look_for_attack(Search(system="runtime", hosts=40, jobs=600, rounds=1, crowd=2))
    assert found.confirmed > 1.5
    assert found.tries >= 32
    assert find_attack(found.attack).share == 0.1
    assert json.dumps(found.as_data())


def test_the_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SIZES, "S", (60, 2000, 1, 1))
    assert run_command(["creditbench", "list"]) == 0
    assert "cherry-churn" in capsys.readouterr().out
    events, prices = str(tmp_path / "e.parquet"), str(tmp_path / "p.parquet")
    chosen = ["--scenario", "normal-q2/time-x10", "--seed", "9"]
    assert run_command(["creditbench", "record", events, *chosen]) == 0
    assert run_command(["creditbench", "price", events, prices, "--system", "fixed", "--strict"]) == 0
    capsys.readouterr()
    assert run_command(["creditbench", "score", prices, *chosen, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["gain"] == pytest.approx(1.0, abs=0.05)
    assert run_command(["creditbench", "run", str(tmp_path / "o"), "--only", "nothing"]) != 0
    assert "no such world" in capsys.readouterr().err
    assert run_command(["creditbench", "run", str(tmp_path / "o"), "--size", "X"]) == 2
    assert "size 'X': allowed are S, M, L" in capsys.readouterr().err
    assert run_command(["creditbench", "run", str(tmp_path / "o"), "--system", "nobody"]) == 2
    assert "here also ledger" in capsys.readouterr().err
