"""Groups of Kafka's clients that lose a right while they run: members are told it and leave, others go on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.long.interop.client_groups import (
    EXPIRING,
    ClientGroup,
    MemberProcesses,
    Served,
    clients,
    crews,
)
from tests.long.interop.conftest import fetched
from tests.long.interop.refusals import kind_of
from tests.long.interop.releases import EVERYTHING
from tests.waiting import PATIENCE_S, eventually
from tests.worlds.listening_brokers import ListeningBrokers
from zkgroup import Admin
from zkgroup.testing.kafka_cluster.cluster import FAST

PROPERTIES = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
}
EVERYBODY = "User:*"
PYTHON = [one for one in clients() if one.name in ("kafka-python", "librdkafka")]
CREWS = dict(crews()) if EVERYTHING else {"kafka-python and librdkafka": PYTHON}


@dataclass(frozen=True)
class World:
    """One broker, at which everybody may write each topic, and read those of groups."""

    admin: Admin
    served: Served
    processes: MemberProcesses


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    brokers = ListeningBrokers(lambda broker: PROPERTIES, count=1, settings=FAST)
    processes = MemberProcesses(tmp_path)
    with Admin(client=brokers.zookeeper.client("admin"), undo_folder=tmp_path) as admin:
        admin.add_acls(EVERYBODY, "all", cluster=True)  # of the broker itself, too
        admin.add_acls(EVERYBODY, "write", topics=["*"])

        def create(topic: str, partitions: int) -> None:
            admin.create_topic(topic, partitions, wait_s=PATIENCE_S)
            admin.add_acls(EVERYBODY, "read", topics=[topic], groups=[topic])

        with brokers:
            served = Served(lambda: brokers.address(1, "PLAINTEXT"), create, lambda group, topic: {})
            try:
                yield World(admin, served, processes)
            finally:
                processes.end()


@pytest.mark.parametrize("right", ["group", "topic"])
@pytest.mark.parametrize("crew", CREWS)
def test_a_group_loses_its_right_to_read(world: World, crew: str, right: str) -> None:
    """Each member fails with the right's own exception and closes; another group reads on all the time.

    Once the right is back, new members get all partitions, and commit all that was written meanwhile.
    """
    for one in CREWS[crew]:
        if one.name == "Java":
            fetched(one.release)
    group = ClientGroup(world.served, world.processes, CREWS[crew], in_one_process=True)
    other = ClientGroup(world.served, world.processes, PYTHON[:1], in_one_process=True)
    members = group.start_all(EXPIRING)
    other.start_all()
    for each in (group, other):
        each.produce(3)
        each.wait_committed()

    rights = {f"{right}s": [group.name]}
    world.admin.remove_acls(EVERYBODY, **rights)
    for member in members:
        (failed,) = eventually(
            lambda member=member: member.lines("failed"), what=lambda: f"members fail; {group.tails()}"
        )
        assert kind_of(failed["error"]) == right
        eventually(lambda member=member: member.lines("closed"), what=lambda: group.tails())
    group.produce(3)
    other.produce(3)
    other.wait_committed()

    world.admin.add_acls(EVERYBODY, "read", **rights)
    group.members.clear()
    group.start_all(EXPIRING)
    eventually(
        lambda: group.deliveries().committed, lambda found: found == group.ends, what=lambda: group.tails()
    )
    for each in (group, other):
        each.close()
