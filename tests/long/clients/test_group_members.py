"""Kafka's clients for Python as members of consumer groups, on brokers of zkgroup in one process."""

from __future__ import annotations

import gc
import logging
from collections.abc import Collection, Iterable, Iterator

import pytest

from tests.long.clients.group_readers import READERS, DefaultAiokafkaReader, GroupReader, KafkaPythonReader
from tests.waiting import eventually
from tests.worlds.kafka_clients import CLIENTS, KafkaRecord
from zkgroup.coordinator.group_ids import slot_of
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Delete
from zkgroup.testing import KafkaCluster
from zkgroup.znodes.consumers import offset_path
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

PARTITIONS = 6
ALL = frozenset(TopicPartition("t", number) for number in range(PARTITIONS))
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
    kafka_cluster.create_topic("t", partitions=PARTITIONS)
    send(kafka_cluster, 5)
    return kafka_cluster


LONG_POLL_MS = 10_000
"""kafka-python 3.0.12 drops an answer to SyncGroup in which the timeout of its poll ends, and then
has no partitions for longer than a session."""


def send(cluster: KafkaCluster, count: int) -> None:
    """So many records more in each partition."""
    records = [KafkaRecord(b"value %d" % number) for number in range(count)]
    for tp in sorted(ALL):
        CLIENTS["confluent-kafka"].send(cluster.bootstrap_servers, tp, records)


def shared(members: Collection[GroupReader]) -> bool:
    """Whether the members own every partition once, each of them as many as the others."""
    owned = [each.assigned for each in members]
    fair = {len(each) for each in owned} == {PARTITIONS // len(owned)}
    return fair and frozenset().union(*owned) == ALL and sum(map(len, owned)) == PARTITIONS


def read(members: Iterable[GroupReader]) -> set[tuple[TopicPartition, int]]:
    return {record for member in members for record in member.records}


def records_to(end: int) -> set[tuple[TopicPartition, int]]:
    return {(tp, offset) for tp in ALL for offset in range(end)}


def stored(cluster: KafkaCluster, tp: TopicPartition, group: str = GROUP) -> bytes | None:
    """The committed offset, where a ZooKeeper consumer of this group would look for it."""
    found = cluster.zookeeper.find(offset_path(group, tp))
    return None if found is None else found.data


def test_a_member_reads_commits_and_leaves(cluster: KafkaCluster) -> None:
    """Another one of the group then goes on at the committed offsets."""
    for number, (client, reader) in enumerate(READERS.items()):
        group, end = f"{GROUP}-{client}", 5 + 2 * number
        with reader(cluster.bootstrap_servers, group) as member:
            eventually(lambda member=member, end=end: read([member]) == records_to(end))
            committed = {b"%d" % end}
            eventually(lambda g=group, c=committed: {stored(cluster, tp, g) for tp in ALL} == c)
        send(cluster, 2)

        with reader(cluster.bootstrap_servers, group) as successor:
            eventually(lambda successor=successor: len(successor.records) >= 2 * PARTITIONS)

        assert (client, read([successor])) == (client, records_to(end + 2) - records_to(end))


def test_two_members_share_the_partitions(cluster: KafkaCluster) -> None:
    """The second one causes a rebalance; when it leaves, the first has all partitions again."""
    for number, (client, reader) in enumerate(READERS.items(), 1):
        group, end = f"{GROUP}-{client}", 5 + 2 * number
        with reader(cluster.bootstrap_servers, group) as first:
            eventually(lambda first=first: first.assigned == ALL)
            with reader(cluster.bootstrap_servers, group) as second:
                members = [first, second]
                eventually(lambda members=members: shared(members))
                send(cluster, 2)
                eventually(lambda members=members, end=end: read(members) == records_to(end))
            eventually(lambda first=first: first.assigned == ALL)


def test_all_clients_are_members_of_one_group(cluster: KafkaCluster) -> None:
    """kafka-python, confluent-kafka and aiokafka share the partitions with `range`."""
    members = [kind(cluster.bootstrap_servers, GROUP) for kind in READERS.values()]
    with members[0], members[1], members[2]:
        eventually(lambda: shared(members))
        send(cluster, 2)
        eventually(lambda: read(members), lambda found: found == records_to(7))
        members[0].close()
        eventually(lambda: shared(members[1:]))
        members[1].close()
        eventually(lambda: shared(members[2:]))


def test_a_member_without_a_common_strategy_is_refused(cluster: KafkaCluster) -> None:
    """aiokafka's default, roundrobin, beside Java's, range: the later one gets 23."""
    from kafka.errors import InconsistentGroupProtocolError

    with DefaultAiokafkaReader(cluster.bootstrap_servers, GROUP) as first:
        eventually(lambda: first.assigned, lambda found: found == ALL)
        later = KafkaPythonReader(cluster.bootstrap_servers, GROUP)
        with pytest.raises(InconsistentGroupProtocolError), later:
            eventually(lambda: later.error)

        eventually(lambda: read([first]), lambda found: found == records_to(5))
        assert (first.assigned, first.assignments, later.assignments) == (ALL, 1, 0)


@pytest.mark.parametrize("client", READERS)
def test_members_go_on_when_the_coordinator_is_killed(cluster: KafkaCluster, client: str) -> None:
    """Another broker is their coordinator, in the same generation: no rebalance."""
    with (
        READERS[client](cluster.bootstrap_servers, GROUP) as first,
        READERS[client](cluster.bootstrap_servers, GROUP) as second,
    ):
        members = [first, second]
        eventually(lambda: shared(members))
        eventually(lambda: read(members), lambda found: found == records_to(5))
        before = [each.assignments for each in members]
        killed = cluster.coordinator(GROUP)
        assert killed is not None

        cluster.kill(killed)
        slot = slot_of(GROUP, len(cluster.partitions(OFFSETS_TOPIC)))
        assert cluster.wait_for_leader(OFFSETS_TOPIC, slot) == cluster.coordinator(GROUP) != killed
        for tp in ALL:
            cluster.wait_for_leader(*tp)
        send(cluster, 2)

        eventually(lambda: read(members), lambda found: found == records_to(7))
        eventually(lambda: {stored(cluster, tp) for tp in ALL}, lambda found: found == {b"7"})
        assert [each.assignments for each in members] == before


def test_a_group_has_one_kind_of_members_at_a_time(cluster: KafkaCluster) -> None:
    """While a ZooKeeper consumer is a member, a client cannot join (23); once it has left, the client can."""
    from kafka import KafkaConsumer
    from kafka.errors import InconsistentGroupProtocolError

    registered = f"/consumers/{GROUP}/ids/{GROUP}_host-1-00000000"
    parents = ("/consumers", f"/consumers/{GROUP}", f"/consumers/{GROUP}/ids")
    for path in (*parents, registered):
        if cluster.zookeeper.find(path) is None:
            cluster.zookeeper.write(Create(path, b""))
    consumer = KafkaConsumer(
        "t", bootstrap_servers=cluster.bootstrap_servers, group_id=GROUP, auto_offset_reset="earliest"
    )

    def refused() -> bool:
        try:
            consumer.poll(LONG_POLL_MS)
        except InconsistentGroupProtocolError:
            return True
        return False

    eventually(refused)
    cluster.zookeeper.write(Delete(registered, 0))

    assert eventually(lambda: len(consumer.poll(LONG_POLL_MS)))
    consumer.close()


@pytest.mark.parametrize("client", READERS)
def test_members_go_on_when_the_coordinator_stops_in_order(cluster: KafkaCluster, client: str) -> None:
    """Its slots are led by others before it is gone; no rebalance follows."""
    with READERS[client](cluster.bootstrap_servers, GROUP) as member:
        eventually(lambda: read([member]), lambda found: found == records_to(5))
        before = member.assignments
        stopped = cluster.coordinator(GROUP)
        assert stopped is not None

        cluster.stop(stopped)
        for tp in ALL:
            cluster.wait_for_leader(*tp)
        send(cluster, 2)

        eventually(lambda: {stored(cluster, tp) for tp in ALL}, lambda found: found == {b"7"})
        assert cluster.coordinator(GROUP) != stopped
        assert member.assignments == before
