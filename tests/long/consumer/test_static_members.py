"""Processes of static members on three real servers: killed, and back within their grace or after it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.waiting import becomes, eventually
from tests.worlds.processes import Process
from tests.worlds.shell import Shell
from zkgroup import Admin
from zkgroup.groups.descriptions import GroupDescription, GroupState
from zkgroup.model.requests import Create
from zkgroup.testing.plugin import ServerTree
from zkgroup.znodes.brokers import Topic
from zkgroup.zookeeper.blocking import Blocking

GRACE_S = 8
Owners = dict[int, tuple[str | None, int | None]]
"""Partition to owning member and token."""


class Group:
    """Processes of `zkgroup consume`, and an operator."""

    def __init__(self, shell: Shell, admin: Admin, stack: ExitStack) -> None:
        self._shell = shell
        self._admin = admin
        self._stack = stack

    def start(self, name: str, *options: str) -> Process:
        arguments = [
            "--topic",
            "orders",
            "--source",
            "none",
            "--consumer-id",
            name,
            "--session-timeout",
            "4s",
        ]
        grace = ["--restart-grace", f"{GRACE_S}s", "--set", "server_tick_ms=500"]
        return self._stack.enter_context(self._shell.start("consume", "g", *arguments, *grace, *options))

    def described(self) -> GroupDescription:
        return self._admin.describe_group("g")

    def owners(self) -> Owners:
        rows = self.described().partitions
        return {row.topic_partition.partition: (row.member, row.token) for row in rows}

    def away(self) -> list[str]:
        return [one.member for one in self.described().members if one.away_until_ms is not None]

    def settled(self, members: set[str]) -> Owners:
        """The owners, once these members own all partitions."""

        def found() -> Owners | None:
            owners = self.owners()
            return owners if {member for member, _ in owners.values()} == members else None

        return eventually(found)


@pytest.fixture
def group(zk_ensemble: ServerTree, witness: Blocking, tmp_path: Path) -> Iterator[Group]:
    witness.create_missing("/brokers", "/brokers/ids", "/brokers/topics")
    topic = Topic(dict.fromkeys(range(4), (0,)))
    witness.multi(Create(Topic.path("orders"), topic.encode()))
    with ExitStack() as stack, Admin(zk_ensemble.address) as admin:
        yield Group(Shell(tmp_path, zk_ensemble.address), admin, stack)


def _of(owners: Owners, member: str) -> Owners:
    return {number: owner for number, owner in owners.items() if owner[0] == member}


def test_a_killed_process_gets_its_partitions_back_and_after_the_grace_they_move(group: Group) -> None:
    """SIGKILL, and a new process at once: it waits for the old session, and nothing moves. SIGKILL, and none:
    the partitions are away, and move when the grace has passed."""
    group.start("a").until_event("assigned")
    killed = group.start("b")
    before = group.settled({"g_a", "g_b"})

    killed.stop(signal.SIGKILL)
    again = group.start("b")

    def is_back() -> bool:
        return all(token != before[number][1] for number, (_, token) in _of(group.owners(), "g_b").items())

    eventually(is_back)
    after = group.settled({"g_a", "g_b"})
    assert _of(after, "g_a") == _of(before, "g_a")  # the same claims: they never moved
    assert _of(after, "g_b").keys() == _of(before, "g_b").keys()

    again.stop(signal.SIGKILL)
    becomes(group.away, ["g_b"])
    kept = group.described()
    assert (kept.state, {row.owner for row in kept.partitions if row.problem}) == (GroupState.STABLE, {None})
    moved = group.settled({"g_a"})
    assert _of(moved, "g_a").items() >= _of(before, "g_a").items()


def test_a_process_that_is_told_to_stop_keeps_or_gives_up(group: Group) -> None:
    """`--no-leave` keeps the partitions for the next process; without it they move at once."""
    group.start("a").until_event("assigned")
    first = group.start("b", "--no-leave")
    before = group.settled({"g_a", "g_b"})
    assert first.stop() == 0
    becomes(group.away, ["g_b"])
    second = group.start("b")
    assert _of(group.settled({"g_a", "g_b"}), "g_a") == _of(before, "g_a")
    assert second.stop() == 0
    group.settled({"g_a"})
    assert group.away() == []
