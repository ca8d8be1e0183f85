"""Mappings with a bounded part in memory behave like dictionaries."""

from __future__ import annotations

import math
import random

import pytest

from cobblestone.domain.errors import StoreError
from cobblestone.domain.statistics import CreditStatement, RecentAverage
from cobblestone.domain.values import DAY
from cobblestone.policy.credit.rac import idle_decayed
from cobblestone.server.credit.ledger_audit import SpilledStatements
from cobblestone.store.engine import spilled
from cobblestone.store.engine.spilled import Spilled

KEYS = (*range(40), *(f"file {i}" for i in range(40)), *((i, 1, "gpu") for i in range(40)))


def test_is_a_dictionary_whatever_happens_to_it_with_few_entries_in_memory(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(spilled, "MAX_NEAR", 7)
    rng = random.Random(1)
    found: Spilled[object, float] = Spilled()
    expected: dict[object, float] = {}
    for _ in range(5000):
        key, value = rng.choice(KEYS), rng.random()
        match rng.randrange(5):
            case 0 | 1:
                found[key] = expected[key] = value
            case 2:
                assert found.pop(key, None) == expected.pop(key, None)
            case 3:
                assert found.get(key) == expected.get(key)
            case _:
                assert (key in found, len(found)) == (key in expected, len(expected))
        assert len(found._near) <= 7
    assert dict(found) == expected
    with pytest.raises(KeyError):
        del found["none such"]


def test_equal_keys_are_one_key_however_they_were_made(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(spilled, "MAX_NEAR", 1)
    name = "app-1"
    found: Spilled[tuple[str, str], int] = Spilled()
    found[name, name] = 1
    found["else", ""] = 2
    assert found[name, "".join(["app", "-1"])] == 1


def test_values_are_set_while_it_is_iterated_over(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(spilled, "MAX_NEAR", 7)
    found: Spilled[int, int] = Spilled()
    found.update({i: i for i in range(3000)})
    for key in found:
        found[key] = -key
    assert found == {i: -i for i in range(3000)}


def test_a_disk_that_is_full_is_told_in_words(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(spilled, "MAX_NEAR", 100)
    found: Spilled[int, str] = Spilled()
    found._far.execute("PRAGMA max_page_count = 20")
    with pytest.raises(StoreError, match=r"No room for temporary files: .* full\. Set SQLITE_TMPDIR"):
        found.update(dict.fromkeys(range(200), "x" * 4000))


@pytest.mark.parametrize("near", [1, 7, 1000])
def test_statements_decay_in_their_file_to_the_last_bit(monkeypatch: pytest.MonkeyPatch, near: int):
    monkeypatch.setattr(spilled, "MAX_NEAR", near)
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    found = SpilledStatements()
    expected: dict[int, CreditStatement] = {}
    now = 1.7e9
    for _ in range(3000):
        now += rng.random() * DAY
        key = rng.randrange(1, 60)
        match rng.randrange(4):
            case 0 | 1:
                value = rng.choice([0.0, 0.1, 0.2, rng.random() * 1000])
                found[key] = expected[key] = CreditStatement(rng.random(), RecentAverage(value, now))
            case 2:
                assert found.get(key) == expected.get(key)
            case _:
                ids = range(key, key + rng.choice([1, 20, 10**12]))
                at = rng.choice([now, now, now, math.nan, math.inf])
                found.decay(ids, now=at)
                for row_id in sorted(set(expected) & set(range(key, min(ids.stop, 60)))):
                    recent = idle_decayed(expected[row_id].recent, now=at)
                    if recent is not None:
                        expected[row_id] = CreditStatement(expected[row_id].total, recent)
    assert dict(found) == expected
