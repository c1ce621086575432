"""`zkgroup group history` on a real server, of a group that members of both kinds have had."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.real.broker.server_stores import ServerStores
from tests.waiting import eventually
from tests.worlds.shell import Shell
from tests.worlds.stepped_stores import GROUP, record
from zkgroup import GroupMember, GroupSettings
from zkgroup.coordinator.events import WriteOutcome
from zkgroup.znodes.group_history import GroupHistory, RebalanceRecord
from zkgroup.zookeeper.blocking import Blocking

STORED = WriteOutcome.STORED


@pytest.fixture
def stores(zk_server: Any, witness: Blocking) -> Iterator[ServerStores]:
    world = ServerStores(zk_server.address, witness)
    yield world
    world.close()


def _rebalance(
    generation: int, reason: str, joined: tuple[str, ...], left: tuple[str, ...]
) -> RebalanceRecord:
    return RebalanceRecord(
        time_ms=0, generation=generation, reason=reason, joined=joined, left=left, moved=0, took_ms=1500
    )


def test_members_of_both_kinds_have_one_history(
    shell: Shell, zk_server: Any, stores: ServerStores, witness: Blocking
) -> None:
    """A group of Kafka's protocol becomes one of ZooKeeper consumers: every format has all its rebalances,
    and the deletion of the group takes them with it.
    """
    node = stores.node(1)
    stores.lead(node)
    assert node.claim() is STORED
    first = replace(record(generation=1), rebalance=_rebalance(1, "member m1 joins", ("m1",), ()))
    empty = replace(
        record(generation=2, members=()), rebalance=_rebalance(2, "member m1 leaves", (), ("m1",))
    )
    assert (node.store(first), node.store(empty)) == (STORED, STORED)
    path = GroupHistory.path(GROUP)
    settings = GroupSettings(
        consumer_id="a", publish_interval_ms=20, session_timeout_ms=20_000, server_tick_ms=500
    )
    with GroupMember(zk_server.address, group=GROUP, topics=["t"], settings=settings):
        eventually(lambda: witness.exists(path))
        document = shell.json("group", "history", GROUP)
        table = shell.run("group", "history", GROUP)
        csv = shell.run("group", "history", GROUP, "--format", "csv")
        ndjson = shell.run("group", "history", GROUP, "--format", "ndjson")

    rows = document["rebalances"]
    assert [(row["reason"], row["joined"], row["left"], row["moved"]) for row in rows] == [
        ("member m1 joins", ["m1"], [], 0),
        ("member m1 leaves", [], ["m1"], 0),
        ("started", [f"{GROUP}_a"], [], 0),
    ]
    assert [row["generation"] for row in rows[:2]] == [1, 2]
    assert rows[0]["seconds"] == 1.5
    assert [line.split()[-3:] for line in table.lines[1:3]] == [["0", "1.5", "s"]] * 2
    assert csv.lines[0] == "time,generation,reason,joined,left,moved,seconds"
    assert len(csv.lines) == len(ndjson.lines) + 1 == 4
    assert shell.run("group", "history", "nobody").code == 5

    assert shell.run("group", "delete", GROUP, "--execute").code == 0
    assert witness.exists(path) is None
    assert shell.run("group", "history", GROUP).code == 5
