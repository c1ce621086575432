"""Groups of Kafka's clients at zkgroup brokers, which are processes: all records are read, none that is
committed again.

The clients are kafka-python, librdkafka, aiokafka and the Java client of two releases, all in one group. In
the long form (`matrix.py`) each client and release also makes up a group of its own. It always does for
`cooperative-sticky`, where a leader can misjudge what members of another client own.
With ZKGROUP_INTEROP_GROUPS_AT=2.8.2 the brokers are one of Kafka 2.8.2.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.long.interop.client_groups import (
    CREWS,
    EXPIRING,
    IDLE,
    PATIENT,
    WHOLE,
    ClientGroup,
    MemberProcesses,
    Served,
    alone_with,
    now_us,
)
from tests.long.interop.conftest import fetched
from tests.long.interop.servers import RealBroker, RealZooKeeper
from tests.long.interop.tooled import OurBrokers
from tests.waiting import PATIENCE_S, eventually
from zkgroup.coordinator.group_ids import slot_of
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC

KAFKA = os.environ.get("ZKGROUP_INTEROP_GROUPS_AT", "")


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemberProcesses]:
    made = MemberProcesses(tmp_path_factory.mktemp("client-members"))
    try:
        yield made
    finally:
        made.end()


@pytest.fixture(scope="module")
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    """Three zkgroup brokers, or one of Kafka."""
    if not KAFKA:
        brokers: OurBrokers = request.getfixturevalue("group_brokers")
        yield Served(
            lambda: brokers.bootstrap,
            lambda topic, count: _create(brokers, topic, count),
            brokers.committed,
        )
        return
    zookeeper: RealZooKeeper = request.getfixturevalue("real_zookeeper")
    folder = request.getfixturevalue("tmp_path_factory").mktemp("kafka")
    fetched(KAFKA)
    settings = {"group_initial_rebalance_delay_ms": 0, "group_min_session_timeout_ms": 100}
    broker = RealBroker(zookeeper, folder, 1, "", KAFKA, **settings)
    try:
        broker.wait_ready()
        yield Served(
            lambda: broker.address,
            lambda topic, count: _create_at(broker.address, topic, count),
            lambda group, topic: _committed_at(broker.address, group, topic),
        )
    finally:
        broker.stop()


def _create(brokers: OurBrokers, topic: str, count: int) -> None:
    brokers.create(topic, *((1 + p % 3, 1 + (p + 1) % 3, 1 + (p + 2) % 3) for p in range(count)))


def _create_at(address: str, topic: str, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, count, 1)])[topic].result(PATIENCE_S)


def _committed_at(address: str, group: str, topic: str) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": group})
    try:
        count = len(consumer.list_topics(topic).topics[topic].partitions)
        found = consumer.committed([KafkaPartition(topic, number) for number in range(count)])
        return {one.partition: one.offset for one in found if one.offset >= 0}
    finally:
        consumer.close()


@pytest.fixture
def group(
    request: pytest.FixtureRequest, served: Served, processes: MemberProcesses
) -> Iterator[ClientGroup]:
    """Of the clients with the ability that the test's parameter names, if any."""
    name, _, ability = str(request.param).partition(":")
    crew = [one for one in CREWS[name] if not ability or getattr(one, ability)]
    for client in crew:
        if client.name == "Java":
            fetched(client.release)
    made = ClientGroup(served, processes, crew)
    try:
        yield made
    finally:
        made.close()


def of(*names: str) -> pytest.MarkDecorator:
    """The parameter of `group`, shown as the name of the clients."""
    return pytest.mark.parametrize("group", names, ids=lambda name: name.partition(":")[0], indirect=True)


of_each = of(*WHOLE)


@of_each
def test_members_join_share_and_leave(group: ClientGroup) -> None:
    """With `range`; each member that leaves hands its partitions to the others."""
    group.produce(20)
    members = group.start_all()
    group.produce(20)
    group.wait_committed()
    while len(members) > 1:
        members.pop(0).close()
        group.wait_shared(members)
        group.produce(5)
        group.wait_committed()

    group.assert_well()


@of_each
def test_a_group_goes_on_at_its_commits(group: ClientGroup) -> None:
    """All members leave; others with other clients begin at the committed offsets, and repeat nothing."""
    group.produce(30)
    first = group.start_all()
    group.wait_committed()
    for member in first:
        member.begin_close()
    for member in first:
        member.close()
    group.produce(10)
    group.clients = [*group.clients[1:], group.clients[0]]
    begun = now_us()
    group.start_all()
    group.wait_committed()

    group.assert_well()
    read = {(line["partition"], line["first"]) for line in group.lines_since(begun, "read")}
    assert min(offset for _, offset in read) == 30


@of(*(f"{name}:has_static" for name in WHOLE if any(one.has_static for one in CREWS[name])))
def test_a_static_member_restarts_without_a_rebalance(group: ClientGroup) -> None:
    """Each in turn, the first one after SIGKILL; it gets its partitions back, and no other member stops."""
    settings = [
        {**PATIENT, "group.instance.id": f"instance-{number}"} for number in range(len(group.clients))
    ]
    group.produce(10)
    members = [group.start(number, one) for number, one in enumerate(settings)]
    owned = group.wait_shared(members)
    group.wait_committed()
    begun = now_us()
    for number, old in enumerate(members):
        if number:
            old.close()
        else:
            old.kill()
        group.produce(5)
        members[number] = new = group.start(number, settings[number])
        eventually(
            lambda new=new, old=old: group.deliveries().owned(new.name) == owned[old.name], what=group.tails
        )
        group.wait_committed()

    group.assert_well()
    restarted = [line["member"] for line in group.lines_since(begun, "assigned") if line["partitions"]]
    assert sorted(restarted) == sorted(member.name for member in members)


@of(*alone_with("has_cooperative"))
def test_a_cooperative_rebalance_revokes_only_what_moves(group: ClientGroup) -> None:
    """With `cooperative-sticky`, in a group of one client: a member joins, and leaves again."""
    group.in_one_process = True
    group.produce(20)
    members = [group.start(number, assignor="cooperative-sticky") for number in range(1, len(group.clients))]
    before = group.wait_shared(members)
    group.wait_committed()
    begun = now_us()
    newcomer = group.start(0, assignor="cooperative-sticky")
    after = group.wait_shared([*members, newcomer])
    revoked = {name: group.revoked_since(begun, name) for name in before}
    assert revoked == {name: before[name] - after[name] for name in before}, group.tails()
    assert after[newcomer.name]

    group.produce(10)
    group.wait_committed()
    begun = now_us()
    newcomer.close()
    last = group.wait_shared(members)
    for name, owned in last.items():
        assert group.revoked_since(begun, name) == after[name] - owned, group.tails()
    group.produce(10)
    group.wait_committed()
    group.assert_well()


@of_each
def test_what_a_killed_member_had_not_committed_is_read_again(group: ClientGroup) -> None:
    """SIGKILL of two processes in five: the others read again the records that they had not committed."""
    victims = {0, len(group.clients) - 2} if len(group.clients) > 3 else {0}
    members = [
        group.start(number, EXPIRING if number in victims else PATIENT)
        for number in range(len(group.clients))
    ]
    group.produce(10)
    group.wait_shared(members)
    group.wait_committed()
    begun = now_us()
    for number in victims:
        members[number].hold()
    group.produce(5)
    group.wait_committed(but_for=[members[number] for number in victims])
    for number in victims:
        members[number].kill()
    survivors = [member for number, member in enumerate(members) if number not in victims]
    group.wait_shared(survivors)
    group.wait_committed()

    group.assert_well()
    found = group.deliveries()
    lost = [found.uncommitted(members[number].name) for number in victims]
    assert found.repeated() >= set().union(*lost)
    assert any(lost) or group.lines_since(begun, "revoked", "lost", without=survivors)  # they had expired


@of_each
def test_a_member_paused_past_its_session_comes_back_and_commits_nothing_old(group: ClientGroup) -> None:
    """SIGSTOP of all processes but one, then SIGCONT: their commits are refused, and they join again."""
    members = [group.start(number, EXPIRING) for number in range(len(group.clients) - 1)]
    members.append(group.start(len(members), PATIENT))
    *paused, survivor = members
    group.produce(10)
    group.wait_shared(members)
    group.wait_committed()
    for member in paused:
        member.hold()
    group.produce(5)
    group.wait_read()
    begun = now_us()
    for member in paused:
        member.stop()
    group.wait_shared([survivor])
    group.wait_committed()
    group.produce(5)
    group.wait_committed()
    for member in paused:
        member.tell("commit")
        member.resume_process()
    group.wait_shared(members)
    group.produce(5)
    group.wait_committed()

    group.assert_well()
    noticed = {line["member"] for line in group.lines_since(begun, "refused", "lost", "revoked")}
    had = group.deliveries().left_with
    assert noticed >= {member.name for member in paused if had[member.name]}


@of_each
def test_a_member_that_does_not_poll_loses_its_partitions(group: ClientGroup) -> None:
    """All members but one exceed max.poll.interval.ms while they send heartbeats; later they join again."""
    members = [group.start(number, IDLE) for number in range(len(group.clients) - 1)]
    members.append(group.start(len(members), PATIENT))
    *stalled, survivor = members
    group.produce(10)
    group.wait_shared(members)
    group.wait_committed()
    for member in stalled:
        member.hold()
    group.produce(5)
    group.wait_read()
    begun = now_us()
    for member in stalled:
        member.stall()
    group.wait_shared([survivor])
    group.wait_committed()
    for member in stalled:
        member.tell("commit")
        member.tell("resume")
    group.wait_shared(members)
    group.produce(5)
    group.wait_committed()

    group.assert_well()
    noticed = {line["member"] for line in group.lines_since(begun, "refused", "lost", "revoked")}
    had = group.deliveries().left_with
    assert noticed >= {member.name for member in stalled if had[member.name]}


@pytest.mark.skipif(bool(KAFKA), reason="one broker")
@of_each
def test_members_go_on_when_the_coordinator_is_killed(group: ClientGroup, group_brokers: OurBrokers) -> None:
    """SIGKILL of the broker's process. No member loses a partition, and all commit."""
    group.produce(20)
    members = group.start_all()
    group.wait_committed()
    for member in members:
        member.hold()
    group.produce(5)
    group.wait_read()
    begun = now_us()
    before = group.deliveries().read
    coordinator = _coordinator(group_brokers, group.name)
    group_brokers.kill(coordinator)
    try:
        for member in members:
            member.tell("commit")
        eventually(lambda: _coordinator(group_brokers, group.name) not in (-1, coordinator))
        group.wait_committed()
    finally:
        group_brokers.start(coordinator)
        group_brokers.wait_served(group.name, len(group.partitions))
    group.produce(5)
    group.wait_committed()

    group.assert_well()
    assert not group.lines_since(begun, "assigned", "revoked", "lost")
    new = {(partition, end - 5 + n) for partition, end in group.ends.items() for n in range(5)}
    assert group.deliveries().read - before == dict.fromkeys(new, 1)


def _coordinator(brokers: OurBrokers, group: str) -> int:
    """The broker that leads the group's slot."""
    slot = slot_of(group, len(brokers.replicas(OFFSETS_TOPIC)))
    return int(brokers.json(f"/brokers/topics/{OFFSETS_TOPIC}/partitions/{slot}/state")["leader"])
