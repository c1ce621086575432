"""Every test of this folder that asks for `api` runs on both."""

from __future__ import annotations

import pytest

from tests.worlds.public_apis import MemberWorld
from tests.worlds.public_apis import api as api


@pytest.fixture
def world() -> MemberWorld:
    return MemberWorld()
