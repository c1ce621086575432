"""Every test of this folder that asks for `face` runs on both."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.worlds.faces import EventLoop, Face, World


@pytest.fixture(params=["blocking", "asyncio"])
def face(request: pytest.FixtureRequest) -> Iterator[Face]:
    name: str = request.param
    face = Face(name, EventLoop() if name == "asyncio" else None)
    yield face
    face.close()


@pytest.fixture
def world() -> World:
    return World()
