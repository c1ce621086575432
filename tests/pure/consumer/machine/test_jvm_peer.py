"""A JVM 0.8.2.2 member beside a zkgroup member: it tries four times, two seconds apart, then fails."""

from __future__ import annotations

import pytest

from tests.worlds.stepped_group import GROUP, SteppedGroup, is_stable, tp
from zkgroup.assignment import assign
from zkgroup.model import EvaluatedMember, StaticSubscription
from zkgroup.model.requests import Create, Delete, Operation
from zkgroup.znodes.consumers import Owner, Registration

ATTEMPTS = 4
BACKOFF_MS = 2000
PARTITIONS = 4
WANTS_NOTHING = Registration.of(StaticSubscription({}), 0).encode()


class JvmPeer:
    """Claims as ZookeeperConsumerConnector of 0.8.2.2 does: one by one, and all back after a conflict."""

    def __init__(self, stage: SteppedGroup, name: str) -> None:
        self.stage = stage
        self.member = f"{GROUP}_{name}"
        client = stage.client(name, 30_000)
        stage.drain()
        assert client.session is not None
        self.session = client.session.session_id
        text = Registration.of(StaticSubscription({"t": 1}), stage.clock.wall_ms()).encode()
        self._write(Create(Registration.path(GROUP, self.member), text, ephemeral=True))

    def rebalance(self) -> int | None:
        """Its attempts now, and after each backoff; which one succeeded, None when all failed."""
        for attempt in range(1, ATTEMPTS + 1):
            if self._attempt():
                return attempt
            self.stage.run(BACKOFF_MS)
        return None

    def _attempt(self) -> bool:
        claimed: list[int] = []
        for number in self._share():
            if self.stage.owner(number) is not None:
                for mine in claimed:
                    self._write(Delete(Owner.path(GROUP, tp(mine)), 0))
                return False
            data = f"{self.member}-0".encode()
            self._write(Create(Owner.path(GROUP, tp(number)), data, ephemeral=True))
            claimed.append(number)
        return claimed != []

    def _share(self) -> list[int]:
        """What the range strategy gives it among those registered now."""
        prefix = f"/consumers/{GROUP}/ids/"
        members = [
            EvaluatedMember(path.removeprefix(prefix), Registration.decode(path, znode.data).subscription)
            for path, znode in self.stage.server.tree().items()
            if path.startswith(prefix)
        ]
        owners = assign("range", members, {"t": range(PARTITIONS)}).owners
        return [tp.partition for tp, thread in sorted(owners.items()) if thread == f"{self.member}-0"]

    def _write(self, *operations: Operation) -> None:
        self.stage.server.write(*operations, session_id=self.session)


@pytest.mark.parametrize("stuck", [False, True], ids=["callbacks return", "callbacks hang"])
def test_jvm_peer_gets_its_share_before_it_gives_up(stuck: bool) -> None:
    """Even if `on_revoked` hangs, the zkgroup member releases in time for one of its attempts."""
    stage = SteppedGroup({"t": PARTITIONS})
    ours = stage.join("a")
    assert set(stage.owners().values()) == {"a-0"}
    if stuck:
        stage.hangs.add("a")

    succeeded = JvmPeer(stage, "jvm").rebalance()

    assert succeeded == (3 if stuck else 2)
    assert stage.owners() == {0: "a-0", 1: "a-0", 2: "jvm-0", 3: "jvm-0"}
    stage.run(1000)
    assert is_stable(ours) or stuck


def test_jvm_peer_that_joins_a_burst_is_not_starved() -> None:
    """Joins that never let the group settle put a rebalance off by `settle_max_ms` at the most."""
    stage = SteppedGroup({"t": PARTITIONS})
    stage.join("a")
    peer = JvmPeer(stage, "jvm")
    started_ms = stage.clock.now_ms()
    number = 0
    while "a-0" in {stage.owners().get(2), stage.owners().get(3)}:
        stage.server.put(Registration.path(GROUP, f"{GROUP}_late-{number}"), WANTS_NOTHING)
        stage.run(stage.settings.settle_ms - 10)
        number += 1
        assert stage.clock.now_ms() - started_ms < 3 * BACKOFF_MS

    assert stage.clock.now_ms() - started_ms <= 2 * stage.settings.settle_max_ms
    assert peer.rebalance() == 1
