"""The flag that writes the expected values anew."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bless", action="store_true", help="write the expected values from what the code gives now"
    )


@pytest.fixture
def bless(request: pytest.FixtureRequest) -> bool:
    """Whether expected values are to be written.  Known only when pytest is given this folder."""
    return bool(request.config.getoption("--bless", default=False))
