"""The live validator is as fast as is asked for, with durable commits; see bench_validator.py, which is also a program."""

from __future__ import annotations

from tests.bench import bench_validator

ROUNDS = 3
FLOOR = 3_000.0
"""Workunits of quorum 2 per second of CPU time, under the third system as deployed."""

LEDGER_SHARE = 0.5
"""Workunits per second of CPU time under the ledger system, of those under the third system as deployed."""


def test_validation_with_credit_is_fast_enough() -> None:
    found = [bench_validator.measure(workunits=3000, system="creditnew-deployed") for _ in range(ROUNDS)]
    rate, cpu_rate = (max(column) for column in zip(*found, strict=True))
    print(f"validate + credit, quorum 2: {rate:,.0f} workunits/s, {cpu_rate:,.0f} per CPU second")
    assert cpu_rate >= FLOOR


def test_the_ledger_system_takes_a_bounded_share_of_validation() -> None:
    found = bench_validator.measure_in_turns(["creditnew-deployed", "ledger"])
    share = found["ledger"] / found["creditnew-deployed"]
    print(
        f"validate + credit, quorum 2, ledger: {found['ledger']:,.0f} per CPU second, {share:.2f} of deployed"
    )
    assert share >= LEDGER_SHARE
