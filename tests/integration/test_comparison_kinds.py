"""A package's own kind of comparison rule: found by its entry point, known to the API, used by the validator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.helpers.api_client import ApiClient
from tests.helpers.installed_kind import installed_kind
from tests.helpers.project_world import World

from cobblestone.domain.apps import ComparisonRule
from cobblestone.domain.errors import ConfigError
from cobblestone.policy.validation.comparison import COMPARISON_KINDS, kind_named, parse_comparison
from cobblestone.server.core.comparisons import comparison_kinds

MODULE = '''
"""Answers agree when they have the same words, in any order."""

from collections import Counter
from itertools import chain

from cobblestone.domain.errors import ConfigError
from cobblestone.domain.reasons import reason
from cobblestone.policy.validation.comparison import ReadsOutputs, differences_of_files


class Words(ReadsOutputs):
    name = "words"
    syntax = "words:case=keep"

    def parse(self, text):
        case = text.removeprefix("case=") or "keep"
        if case not in ("keep", "ignore"):
            raise ConfigError(f"words comparison: case is keep or ignore, not {case!r}")
        return {"case": case}

    def differences(self, options, a, b, limits):
        def words(content):
            return Counter((content.lower() if options["case"] == "ignore" else content).split())

        def compare_one(one, other, name):
            if words(one) != words(other):
                yield reason("words_differ", "{file} has other words", file=name)

        return differences_of_files(a, b, compare_one)
'''


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[None]:
    """A package with a kind of its own."""
    with installed_kind(tmp_path / "site", "words", "Words", MODULE):
        yield


def test_a_built_in_kind_is_known_without_packages() -> None:
    assert comparison_kinds() == COMPARISON_KINDS
    with pytest.raises(ConfigError, match="unknown comparison 'words'; use bitwise, trivial, numeric:"):
        parse_comparison("words")


def test_an_installed_kind_is_read_with_its_own_options(installed: None) -> None:
    assert parse_comparison("words", comparison_kinds()) == ComparisonRule(
        kind="words", options={"case": "keep"}
    )
    with pytest.raises(ConfigError, match="case is keep or ignore, not 'both'"):
        parse_comparison("words:case=both", comparison_kinds())


def test_every_built_in_kind_reads_what_its_syntax_shows() -> None:
    for name, kind in COMPARISON_KINDS.items():
        text = kind.syntax.replace("FILE.py:FUNCTION", "check.py:same")
        assert parse_comparison(text).kind == name
        assert kind_named(name) is kind


@pytest.mark.parametrize(
    ("other", "agree"), [(b"night good", True), (b"Good night", True), (b"good morning", False)]
)
def test_the_api_takes_it_and_the_validator_compares_by_it(
    installed: None, tmp_path: Path, other: bytes, agree: bool
) -> None:
    world = World(tmp_path / "project")
    try:
        app = world.add_app(quorum=2)
        api = ApiClient(world)
        changed = api.patch(
            f"/apps/{app.name}", {"comparison": {"kind": "words", "options": {"case": "ignore"}}}
        )
        assert changed["comparison"] == {"kind": "words", "options": {"case": "ignore"}}
        world.add_jobs(app)
        for name, answer in (("ada", b"good night"), ("bob", other)):
            host = world.host(world.user(name))
            host.rpc(ask=1e6)
            host.rpc(reports=[host.finish(each, answer) for each in sorted(host.held)])
        world.settle()
        canonical = world.value("SELECT canonical_result_id FROM workunit")
        assert (canonical is not None) is agree
    finally:
        world.close()
