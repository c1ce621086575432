"""Administration of a group of kafka-python consumers, on brokers of zkgroup in one process."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaTopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from tests.long.clients.group_readers import SESSION_MS, KafkaPythonReader
from tests.waiting import PATIENCE_S, eventually
from tests.worlds.kafka_clients import CLIENTS, KafkaRecord
from zkgroup import Admin, GroupMember
from zkgroup.errors import NotFoundError, RefusedError
from zkgroup.groups.descriptions import GroupDescription, GroupState
from zkgroup.model import TopicPartition
from zkgroup.testing import KafkaCluster

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

ALL = [TopicPartition("t", number) for number in range(4)]
GROUP = "billing"


@pytest.fixture(autouse=True)
def _collected(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """kafka-python 3.0 leaves sockets of refused connections to the collector, and its logs keep them."""
    caplog.set_level(logging.CRITICAL, "kafka")
    yield
    gc.collect()


@pytest.fixture
def cluster(kafka_cluster: KafkaCluster) -> KafkaCluster:
    """With the topic `t`, and five records in each of its partitions."""
    kafka_cluster.create_topic("t", partitions=len(ALL))
    for tp in ALL:
        records = [KafkaRecord(b"%d" % number) for number in range(5)]
        CLIENTS["confluent-kafka"].send(kafka_cluster.bootstrap_servers, tp, records)
    return kafka_cluster


@pytest.fixture
def admin(cluster: KafkaCluster, tmp_path: Path) -> Iterator[Admin]:
    """Over a client of the cluster's ZooKeeper; it waits long on a slow machine."""
    client = cluster.zookeeper.client("admin", 60_000)
    client.address = "zk:2181"
    with Admin(client=client, undo_folder=tmp_path, timeout_s=PATIENCE_S) as made:
        yield made
    client.close()


def is_stable(described: GroupDescription | None, members: int) -> bool:
    """Whether the coordinator reports so many members, and everything is as it should be."""
    return (
        described is not None
        and (described.state, described.protocol_state) == (GroupState.STABLE, "Stable")
        and len(described.members) == members
        and not described.problems
        and all(row.offset == 5 for row in described.partitions)
    )


def described(admin: Admin) -> GroupDescription | None:
    """The group; None while no member has joined."""
    try:
        return admin.describe_group(GROUP)
    except NotFoundError:
        return None


def test_a_group_is_administered_from_its_first_member_to_its_deletion(
    cluster: KafkaCluster, admin: Admin
) -> None:
    """Described with its clients, protected while they live, changed when they have left, and deleted.

    Between, ZooKeeper members carry the group on from the same offsets.
    """
    with (
        KafkaPythonReader(cluster.bootstrap_servers, GROUP) as first,
        KafkaPythonReader(cluster.bootstrap_servers, GROUP) as second,
    ):
        found = eventually(lambda: described(admin), lambda one: is_stable(one, 2))
        assert found is not None
        by_member = {
            frozenset(row.topic_partition for row in found.partitions if row.owner == one.member)
            for one in found.members
        }
        eventually(lambda: {reader.assigned for reader in (first, second)}, lambda got: got == by_member)
        assert {(one.kind, one.host) for one in found.members} == {("client", "127.0.0.1")}
        assert found.assignor == "range"

        whole = eventually(lambda: admin.describe_coordinator(GROUP), lambda one: not one.unanswered)
        (group,), (slot,) = whole.groups, whole.slots
        assert (group.phase, group.marked, group.pending_members) == ("Stable", True, 0)
        assert group.leader == slot.leader == slot.owner == cluster.coordinator(GROUP)
        assert group.generation == group.stored_generation == found.group_generation
        assert {one.session_timeout_ms for one in group.members} == {SESSION_MS}
        assert all(0 < (one.session_expires_in_ms or 0) <= SESSION_MS for one in group.members)
        assert [(one.group, one.protocol, one.members) for one in admin.list_groups()] == [
            (GROUP, "coordinator", 2)
        ]

        names = found.members[0].member
        with pytest.raises(RefusedError, match=names):
            admin.set_offsets(GROUP, dict.fromkeys(ALL, 2), force=True)
        with pytest.raises(RefusedError, match=names):
            admin.delete_group(GROUP)
        with pytest.raises(RefusedError, match="leads slot"):
            admin.release_group(GROUP)

    empty = eventually(
        lambda: described(admin), lambda one: one is not None and one.state is GroupState.EMPTY
    )
    assert empty is not None
    assert not admin.describe_coordinator(GROUP).groups[0].marked
    admin.set_offsets(GROUP, dict.fromkeys(ALL, 2))

    with GroupMember(client=cluster.zookeeper.client("member", 60_000), group=GROUP, topics=["t"]) as member:
        member.wait_until_stable(PATIENCE_S)
        assert {lease.topic_partition: lease.offset for lease in member.leases()} == dict.fromkeys(ALL, 2)
        carried_on = admin.describe_group(GROUP)
        assert (carried_on.protocol, carried_on.state) == ("zookeeper", GroupState.STABLE)
    with KafkaPythonReader(cluster.bootstrap_servers, GROUP) as third:
        eventually(
            lambda: set(third.records), lambda got: got == {(tp, n) for tp in ALL for n in range(2, 5)}
        )
        eventually(lambda: described(admin), lambda one: is_stable(one, 1))
    eventually(lambda: described(admin), lambda one: one is not None and one.state is GroupState.EMPTY)

    admin.delete_group(GROUP)

    assert admin.list_groups().rows == ()
    with pytest.raises(NotFoundError):
        admin.describe_coordinator(GROUP)


def test_a_group_that_only_commits_is_listed_as_its_coordinator_lists_it(
    cluster: KafkaCluster, admin: Admin
) -> None:
    """Empty, of a coordinator; deleted by it, nothing is left."""
    _commit(cluster, ALL[0], 2)

    found, (row,) = admin.describe_group(GROUP), admin.list_groups().rows
    (reported,) = admin.describe_coordinator(GROUP).groups

    assert (reported.state, reported.protocol_type, reported.members) == ("Empty", None, ())
    assert (row.protocol, row.protocol_state, row.state) == ("coordinator", "Empty", GroupState.EMPTY)
    assert (found.protocol, found.protocol_state, found.problems) == ("coordinator", "Empty", ())
    assert [(one.topic_partition, one.offset) for one in found.partitions] == [(ALL[0], 2)]

    admin.delete_group(GROUP)

    assert admin.list_groups().rows == ()


def test_the_offsets_of_a_deleted_topic_are_deleted(cluster: KafkaCluster, admin: Admin) -> None:
    """As at Kafka: a new topic of that name is not consumed from them, and no tool asks for its end."""
    cluster.create_topic("kept")
    kept = TopicPartition("kept", 0)
    _commit(cluster, ALL[0], 2)
    _commit(cluster, kept, 3)

    admin.delete_topic("t", wait_s=PATIENCE_S)

    eventually(
        lambda: {row.topic_partition: row.offset for row in admin.describe_group(GROUP).partitions},
        lambda got: got == {kept: 3},
    )


def _commit(cluster: KafkaCluster, tp: TopicPartition, offset: int) -> None:
    """Commits without joining the group."""
    consumer = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, group_id=GROUP, enable_auto_commit=False
    )
    named = KafkaTopicPartition(*tp)
    consumer.assign([named])
    commit = {named: OffsetAndMetadata(offset, "", -1)}
    eventually(lambda: _is_committed(consumer, commit), lambda is_done: is_done)
    consumer.close()


def _is_committed(consumer: KafkaConsumer, offsets: Mapping[KafkaTopicPartition, OffsetAndMetadata]) -> bool:
    try:
        consumer.commit(offsets)
    except KafkaError:  # the coordinator is not known yet
        return False
    return True
