"""The checker on the log of `MemoryZooKeeper`."""

from __future__ import annotations

from zkgroup.history import CheckOptions, check_history
from zkgroup.model import StaticSubscription, TopicPartition
from zkgroup.model.requests import (
    Check,
    Create,
    Delete,
    Multi,
    MultiDone,
    MultiRefused,
    Operation,
    Outcome,
    SetData,
)
from zkgroup.testing import FakeClock, MemoryZooKeeper
from zkgroup.testing.memory_zookeeper.leader import server_transactions
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import Offset, Owner, Registration

TP = TopicPartition("t", 0)
OWNER, OFFSET = Owner.path("g", TP), Offset.path("g", TP)


class Member:
    """Writes the znodes that a member writes."""

    def __init__(self, server: MemoryZooKeeper, name: str) -> None:
        self.ids = Registration.path("g", name)
        self.name = name
        self._store = server.client(name=name)
        data = Registration.of(StaticSubscription({"t": 1}), 1, {"zkgroup": "1"}).encode()
        self.multi(Create(self.ids, data, ephemeral=True))

    def multi(self, *operations: Operation) -> Outcome:
        outcomes: list[Outcome] = []
        self._store.submit(Multi(operations), incarnation=1, on_outcome=outcomes.append)
        return outcomes[0]

    def claim(self, value: bytes, version: int) -> Outcome:
        text = f"{self.name}-0".encode()
        return self.multi(
            Check(self.ids, 0),
            Create(OWNER, text, ephemeral=True),
            SetData(OWNER, text, 0),
            SetData(OFFSET, value, version),
        )

    def close(self) -> None:
        self._store.close()


def test_commits_refusals_and_an_accepted_stale_write() -> None:
    """Fenced writes are no violation; a write without the fence is found, with its zxid."""
    clock = FakeClock()
    server = MemoryZooKeeper(clock)
    server.put(Topic.path("t"), Topic({0: (0,)}).encode())
    server.put(OFFSET, b"5")
    for path in ("/consumers/g/ids", "/consumers/g/owners/t"):
        server.put(path, None)
    a, b = Member(server, "g_a"), Member(server, "g_b")
    assert isinstance(a.claim(b"5", 0), MultiDone)
    assert isinstance(
        a.multi(Check(a.ids, 0), Check(OWNER, 1), SetData(OFFSET, b"6", 1), Delete(OWNER, 1)), MultiDone
    )
    assert isinstance(b.claim(b"6", 2), MultiDone)
    assert isinstance(a.multi(Check(a.ids, 0), Check(OWNER, 1), SetData(OFFSET, b"9", 2)), MultiRefused)

    good = check_history([], server_transactions(server.log, clock))
    a.multi(Check(a.ids, 0), Check(OWNER, 1), SetData(OFFSET, b"9", 3))
    bad = check_history([], server_transactions(server.log, clock), CheckOptions(group="g"))
    a.close()
    b.close()

    assert good.violations == ()
    assert (good.figures.claims, good.figures.ownership_changes, good.figures.commits) == (2, 1, 1)
    assert good.figures.refused_stale_commits == 1
    assert [violation.invariant for violation in bad.violations] == ["S2"]
    assert "g_b-0" in bad.violations[0].detail
    assert bad.violations[0].zxid == server.log[-3].zxid
