"""What the application hands in by mistake is its own error, never the member's end."""

from __future__ import annotations

from typing import Any

import pytest

from tests.faces.support import TIMEOUT_S, Face, World, orders
from zkgroup.consumer.sources.memory import MemorySource
from zkgroup.errors import ConfigError

ZERO, ONE = orders(0, 1)
NO_OFFSETS: list[dict[Any, Any]] = [
    {ZERO: "5"},
    {ZERO: 1.5},
    {ZERO: None},
    {ZERO: True},
    {ZERO: -1},
    {ZERO: 2**63},
    {("orders", 0): 5},
    {"orders-0": 5},
]


@pytest.mark.parametrize("wrong", NO_OFFSETS, ids=repr)
def test_a_commit_of_what_is_no_offset_is_refused_at_once(
    face: Face, world: World, wrong: dict[Any, Any]
) -> None:
    """ConfigError, nothing is committed, and the member goes on."""
    with face.member(client=world.client("a")) as member:
        member.wait_until_assigned(TIMEOUT_S)
        member.commit({ZERO: 1})

        with pytest.raises(ConfigError, match="expected"):
            member.commit({ONE: 1, **wrong})

        assert world.offsets() == {0: 1, 1: -1, 2: -1, 3: -1}
        assert member.commit({ZERO: 2}).committed == {ZERO: 2}


def test_a_consumer_checks_offsets_too(face: Face, world: World) -> None:
    """Those of a commit and of a seek."""
    with face.consumer(client=world.client("a"), source=MemorySource()) as consumer:
        consumer.wait_until_assigned(TIMEOUT_S)

        with pytest.raises(ConfigError, match="expected an offset"):
            consumer.commit({ZERO: "5"})
        with pytest.raises(ConfigError, match="expected an offset"):
            consumer.seek(ZERO, 1.5)

        assert consumer.commit({ZERO: 2}).committed == {ZERO: 2}


def test_partitions_are_checked_before_the_member_hears_of_them(face: Face, world: World) -> None:
    """`hand_back` and `committed` of something else are ConfigErrors."""
    with face.member(client=world.client("a")) as member:
        member.wait_until_assigned(TIMEOUT_S)

        with pytest.raises(ConfigError, match="TopicPartition"):
            member.hand_back(["orders-0"])
        with pytest.raises(ConfigError, match="TopicPartition"):
            member.committed([("orders", 0)])

        assert len(member.leases()) == 4
