"""A group of JVM members alone, with which the mixed groups are compared."""

from __future__ import annotations

from collections.abc import Callable

from tests.long.interop.conftest import Scene
from tests.long.interop.servers import Producer


def test_a_group_of_jvm_members_owns_by_range_and_delivers_everything(
    make_scene: Callable[..., Scene], producer: Producer
) -> None:
    """Four real 0.8.2.2 members own ten partitions by range and deliver every record exactly once."""
    scene = make_scene()
    members = [scene.start("jvm", name) for name in "abcd"]
    for member in members:
        member.wait_ready()
    scene.wait_owned_by(members)
    ends = producer.fill(scene.topic, scene.partitions, 20)
    scene.ledger.wait_all(ends)
    assert scene.ledger.duplicates() == {}
    scene.ledger.assert_well()
