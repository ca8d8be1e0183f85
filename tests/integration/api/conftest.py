"""A project's JSON API."""

from __future__ import annotations

import pytest
from tests.helpers.api_client import ApiClient
from tests.helpers.project_world import World

from cobblestone.wire.project.signatures import encode_private_key


@pytest.fixture
def api(world: World) -> ApiClient:
    """The API of a project that signs by itself, with a token that may do everything."""
    world.ctx.folder.code_sign_private.write_text(encode_private_key(world.key))
    return ApiClient(world)
