"""Joins, clean leaves and a SIGKILL of each kind while records are written."""

from __future__ import annotations

from collections.abc import Callable

from tests.long.interop.conftest import Scene
from tests.long.interop.members import Kind, Member
from tests.long.interop.pump import Change, Pump, Recorder
from tests.long.interop.servers import Producer


def assert_exactly_once(scene: Scene, producer: Producer, each: int = 10) -> None:
    """Checks that records written while nothing changes are delivered once and only once."""
    before = producer.fill(scene.topic, scene.partitions, 1)
    ends = producer.fill(scene.topic, scene.partitions, each)
    scene.ledger.wait_all(ends)
    counts = scene.ledger.counts()
    quiet = {(p, o): counts[p, o] for p, end in ends.items() for o in range(before[p], end)}
    assert quiet == dict.fromkeys(quiet, 1)


def assert_bounded(change: Change) -> None:
    """Checks that only records that were not committed when the change began are delivered again."""
    for partition, offsets in change.again.items():
        assert min(offsets) >= change.committed.get(partition, 0), change.summary()


def assert_none_again(change: Change, partitions: set[int]) -> None:
    """Checks that these partitions repeated nothing."""
    assert not partitions & change.again.keys(), change.summary()


class Story:
    """One group through its changes, and what holds after each of them."""

    def __init__(self, scene: Scene, recorder: Recorder) -> None:
        self.scene, self._recorder = scene, recorder
        self.present: list[Member] = []
        self.kinds: dict[str, Kind] = {}

    def join(self, kind: Kind, name: str, *, alone: bool = False) -> Member:
        with self._recorder.change(f"{kind} {name} joins") as change:
            member = self._start(kind, name, alone)
            change.owners_after = self.scene.wait_owned_by(self.present)
        self._clean(change)
        return member

    def leave(self, member: Member) -> None:
        with self._recorder.change(f"{member.kind} {member.name} leaves") as change:
            self.present.remove(member)
            member.leave()
            change.owners_after = self.scene.wait_owned_by(self.present)
        self._clean(change)

    def kill(self, member: Member) -> None:
        with self._recorder.change(f"{member.kind} {member.name} is killed") as change:
            self.present.remove(member)
            self.scene.kill(member)
            change.owners_after = self.scene.wait_owned_by(self.present)
        assert_bounded(change)
        assert_none_again(change, self._ours(change) - set(change.moved))

    def _start(self, kind: Kind, name: str, alone: bool) -> Member:
        member = self.scene.start(kind, name, alone=alone)
        self.present.append(member)
        self.kinds[member.id] = kind
        return member

    def _clean(self, change: Change) -> None:
        """Clean moves between zkgroup members, and partitions that one keeps, repeat nothing."""
        assert_bounded(change)
        assert_none_again(change, self._ours(change))

    def _ours(self, change: Change) -> set[int]:
        """Partitions that a zkgroup member owned before and a zkgroup member owns now."""
        return {
            partition
            for partition, owner in change.owners_after.items()
            if self._kind(owner) == "python" and self._kind(change.owners_before.get(partition)) == "python"
        }

    def _kind(self, thread: str | None) -> Kind | None:
        return self.kinds[thread.rpartition("-")[0]] if thread is not None else None


def test_joins_leaves_and_kills_of_each_kind(make_scene: Callable[..., Scene], producer: Producer) -> None:
    """Every partition converges on one owner, nothing is missing, what is repeated is bounded."""
    scene = make_scene()
    with Pump(scene) as pump:
        recorder = Recorder(scene, pump)
        story = Story(scene, recorder)
        python1 = story.join("python", "b")
        story.join("jvm", "d")
        python2 = story.join("python", "a", alone=True)
        jvm2 = story.join("jvm", "c")
        assert_exactly_once(scene, producer)
        story.leave(python1)
        story.leave(jvm2)
        story.join("python", "e")
        jvm3 = story.join("jvm", "f", alone=True)
        story.kill(python2)
        story.kill(jvm3)
    assert_exactly_once(scene, producer)
    scene.ledger.wait_all(dict(pump.ends))
    scene.ledger.assert_well()
    for change in recorder.changes:
        print(change.summary())
