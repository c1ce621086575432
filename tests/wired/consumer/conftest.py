"""Every test of this folder that asks for `face` runs on both."""

from __future__ import annotations

import pytest

from tests.worlds.faces import MemberWorld
from tests.worlds.faces import face as face


@pytest.fixture
def world() -> MemberWorld:
    return MemberWorld()
