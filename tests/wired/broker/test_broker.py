"""Brokers over a ZooKeeper in memory, with open ports, threads and event loops."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from tests.waiting import PATIENCE_S, happened, joined, outcome
from tests.worlds.batches import records_of
from tests.worlds.replica_managers import records_on_disk
from tests.worlds.running_brokers import QUICK, T0, MemoryBrokers, ask
from zkgroup.broker.settings import BrokerSettings
from zkgroup.errors import BrokerIdInUseError, ConfigError, ConflictError, StoreUnavailableError
from zkgroup.metrics.prometheus import PrometheusMetrics
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Delete
from zkgroup.testing import MemoryZooKeeper
from zkgroup.wire.control import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    PartitionStateInfo,
)
from zkgroup.wire.metadata import MetadataRequest, MetadataResponse
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, Topic
from zkgroup.znodes.config import TopicConfig
from zkgroup.znodes.config_settings import LEADER_REPLICAS
from zkgroup.znodes.controller import ControllerRegistration
from zkgroup.zookeeper.client import SystemClock
from zkgroup.zookeeper.embedded.server import ReservedPort


def test_records_are_acknowledged_once_the_followers_have_them(world: MemoryBrokers) -> None:
    """Three brokers; two fetch from the leader."""
    world.add(1, 2, 3)
    world.running.lead(world.zk, T0, 1, (1, 2, 3))
    for number in range(20):
        answer = world.running.append(1, T0, b"line %d" % number)
        assert (answer.error, answer.offset) == (0, number)

    for broker in (2, 3):
        assert world.running.view(broker, T0).log_end_offset == 20
    assert world.running.told[1].of("leader") == [("leader", T0, 0)]
    assert world.running.told[2].of("follower") == [("follower", T0, 0)]


def test_the_metrics_of_a_broker(world: MemoryBrokers) -> None:
    """Replicas, requests, bytes and ISRs, counted as the broker works."""
    registry = CollectorRegistry()

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"zkgroup_broker_{name}", {"broker": "1", **labels})

    world.add(1, metrics=PrometheusMetrics(registry))
    world.add(2)
    world.running.lead(world.zk, T0, 1, (1, 2))
    for record in (b"abc", b"de"):
        assert world.running.append(1, T0, record).error == 0
    world.becomes(lambda: value("log_end_offset", topic="t", partition="0"), 2)
    world.becomes(lambda: (value("partition_count"), value("leader_count")), (1, 1))
    world.becomes(lambda: value("under_replicated_partitions"), 0)
    assert value("requests_total", request="Produce") == 2
    assert value("request_seconds_count", request="Produce") == 2
    batches = [records_of([record], timestamp_ms=1) for record in (b"abc", b"de")]
    assert value("bytes_in_total") == sum(map(len, batches))
    world.becomes(lambda: value("bytes_out_total"), sum(map(len, batches)))
    assert (value("connection_count") or 0) >= 1

    world.running.brokers[2].close()
    world.becomes(lambda: value("isr_shrinks_total"), 1)
    world.becomes(lambda: value("under_replicated_partitions"), 1)


def test_many_partitions_share_the_connections_to_a_leader(world: MemoryBrokers) -> None:
    """More partitions than connections: they take turns."""
    world.add(1, 2, settings=replace(QUICK, num_replica_fetchers=2))
    partitions = [TopicPartition("t", number) for number in range(7)]
    for tp in partitions:
        world.running.lead(world.zk, tp, 1, (1, 2))
    for tp in partitions:
        assert world.running.append(1, tp, b"x").error == 0

    assert world.running.brokers[2].health().following == 7
    world.becomes(lambda: world.running.brokers[1].health().connections, 2)


def test_a_follower_that_is_gone_leaves_the_isr_and_comes_back(
    world: MemoryBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    """By time, with ZooKeeper's znode as the truth; acks=all waits for it until it has left."""
    caplog.set_level(logging.INFO, "zkgroup.state_change")
    world.add(1, 2, 3)
    world.running.lead(world.zk, T0, 1, (1, 2, 3))
    assert world.running.append(1, T0, b"a").error == 0
    world.running.brokers[3].close()
    assert world.running.append(1, T0, b"b").error == 0
    assert world.isr() == (1, 2)
    world.eventually(lambda: ("isr", T0, 0, (1, 2)) in world.running.told[1].of("isr"))

    del world.running.brokers[3]
    world.running.add(world.server.client("again"), 3, settings=QUICK)
    world.running.lead(world.zk, T0, 1, (1, 2, 3), isr=(1, 2), leader_epoch=1)
    world.becomes(lambda: set(world.isr()), {1, 2, 3})
    assert world.running.view(3, T0).log_end_offset == 2
    world.becomes(
        lambda: [each.message for each in caplog.records if each.name == "zkgroup.state_change"],
        [
            "isr.shrank partition=t-0 isr=(1, 2) was=(1, 2, 3)",
            "isr.expanded partition=t-0 isr=(1, 2, 3) was=(1, 2)",
        ],
    )


def test_the_replicas_that_a_later_controller_names_join_in_the_same_term(world: MemoryBrokers) -> None:
    """The former controller had sent the end of a reassignment to 1 and 2, which was cancelled afterwards."""
    world.add(1, 2, 3)
    world.running.lead(world.zk, T0, 1, (1, 2))
    world.running.controller_epoch += 1
    world.running.take_over(world.zk)
    again = PartitionStateInfo(*T0, 1, 1, 0, (1, 2), 0, (1, 2, 3))
    for broker in (1, 3):
        request = LeaderAndIsrRequest(
            world.running.controller, world.running.controller_epoch, (again,), (world.running.address(1),)
        )
        answer = world.running.ask(broker, request, LeaderAndIsrResponse)
        assert [one.error for one in answer.partitions] == [0]

    world.becomes(lambda: set(world.isr()), {1, 2, 3})
    assert world.running.append(1, T0, b"a").error == 0
    assert world.running.view(3, T0).log_end_offset == 1


def test_a_topic_that_wants_two_replicas_takes_no_record_with_one(world: MemoryBrokers) -> None:
    """The topic's setting applies although another setting cannot be read, and so does the leader's ISR."""
    settings = {"min.insync.replicas": "2", LEADER_REPLICAS: "of no form"}
    world.add(1, 2)
    world.server.put(TopicConfig.path("t"), TopicConfig(settings).encode())
    world.running.lead(world.zk, T0, 1, (1, 2))
    assert world.running.append(1, T0, b"a").error == 0
    world.running.brokers[2].close()
    world.becomes(world.isr, (1,))

    world.becomes(lambda: world.running.append(1, T0, b"b").error, 19)  # the broker hears of its write last
    end = world.running.view(1, T0).log_end_offset
    assert world.running.append(1, T0, b"c").error == 19
    assert world.running.view(1, T0).log_end_offset == end


def test_the_leadership_moves_and_the_old_leader_follows(world: MemoryBrokers) -> None:
    """An append at the old leader epoch is refused."""
    world.add(1, 2)
    world.running.lead(world.zk, T0, 1, (1, 2))
    assert world.running.append(1, T0, b"a").error == 0
    world.running.lead(world.zk, T0, 2, (1, 2), leader_epoch=1)
    assert world.running.append(2, T0, b"b").error == 0

    assert world.running.append(1, T0, b"c").error == 6
    assert world.running.view(1, T0).log_end_offset == 2
    assert world.running.told[1].of("follower") == [("follower", T0, 1)]


def test_a_leader_that_is_elsewhere_is_followed_there(world: MemoryBrokers, tmp_path: Path) -> None:
    """It restarted on another port and leads in the same leader epoch; no follower gets a new request."""
    world.add(1, 2)
    world.add(3, data=tmp_path / "data")
    world.running.lead(world.zk, T0, 3, (2, 3))
    assert world.running.append(3, T0, b"a").error == 0
    before = world.running.address(3)
    world.running.brokers[3].close()
    world.running.add(world.server.client("again"), 3, settings=QUICK, data=tmp_path / "data")
    assert world.running.address(3) != before
    world.running.lead(world.zk, T0, 3, (2, 3), told=(3,))

    assert world.running.append(3, T0, b"b").error == 0
    assert world.running.view(2, T0).log_end_offset == 2


def test_a_broker_serves_on_while_zookeeper_is_away(world: MemoryBrokers) -> None:
    """Metadata, records and fetches; it says how old its metadata is, and whose."""
    world.add(1, 2)
    world.running.lead(world.zk, T0, 1, (1, 2))
    world.server.suspend("b1")
    world.server.suspend("b2")
    world.eventually(lambda: world.running.told[1].of("disconnected"))

    assert world.running.append(1, T0, b"a").error == 0
    answer = world.running.ask(2, MetadataRequest.of("t"), MetadataResponse)
    assert [one.leader for one in answer.topics[0].partitions] == [1]
    health = world.running.brokers[1].health()
    assert health.controller_epoch == 1
    assert health.metadata_age_ms is not None
    assert world.running.told[1].of("disconnected")[0][2] == 1
    world.server.resume("b1")
    world.server.resume("b2")


def test_the_controller_beside_it_sees_a_session_once_the_broker_is_registered_in_it(
    world: MemoryBrokers,
) -> None:
    """Registration comes before the election, in every session (K5)."""
    world.add(1)
    idle = world.running.idle[1]
    assert idle.started
    assert idle.connected == [1]
    first = world.zk.read(BrokerRegistration.path(1)).stat.czxid
    world.server.expire("b1")
    world.becomes(lambda: idle.connected, [1, 2])

    assert world.zk.read(BrokerRegistration.path(1)).stat.czxid > first
    assert world.running.brokers[1].epoch == world.zk.read(BrokerRegistration.path(1)).stat.czxid


def test_a_follower_continues_after_the_end_of_its_session(world: MemoryBrokers) -> None:
    """It gets no request; the topic has the czxid that it was ordered to follow."""
    world.add(1, 2)
    world.running.lead(world.zk, T0, 1, (1, 2))
    assert world.running.append(1, T0, b"a").error == 0
    world.server.expire("b2")
    world.becomes(lambda: len(world.running.told[2].of("registered")), 2)
    for value in (b"b", b"c"):
        assert world.running.append(1, T0, value).error == 0

    world.becomes(lambda: world.running.view(2, T0).log_end_offset, 3)
    world.becomes(lambda: world.isr(), (1, 2))


def test_a_controllers_word_of_a_known_term_ends_the_doubt_about_a_topic(
    world: MemoryBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    """The topic was created again: an earlier leader epoch is of the former topic.

    The known leader epoch is answered with 13, and the broker follows the new topic.
    """
    world.add(1, 2)
    world.running.lead(world.zk, T0, 1, (1, 2))
    world.server.suspend("b2")
    world.server.expire("b2")
    state = PartitionState.path(T0)
    paths = [Topic.path("t"), *(state.rsplit("/", back)[0] for back in (2, 1)), state]
    data = [world.zk.read(path).data for path in paths]
    world.zk.multi(*(Delete(path, -1) for path in reversed(paths)), *map(Create, paths, data))
    world.server.resume("b2")
    world.eventually(lambda: "topic.not_followed path=/brokers/topics/t" in caplog.text)

    def order(leader_epoch: int) -> None:
        told = PartitionStateInfo(*T0, 1, 1, leader_epoch, (1, 2), 0, (1, 2))
        request = LeaderAndIsrRequest(world.running.controller, 1, (told,), (world.running.address(1),))
        answer = world.running.ask(2, request, LeaderAndIsrResponse)
        assert [one.error for one in answer.partitions] == [13]

    order(-1)
    assert world.running.brokers[2].health().following == 0
    order(0)
    assert world.running.brokers[2].health().following == 1
    assert world.running.append(1, T0, b"a").error == 0
    world.becomes(lambda: world.running.view(2, T0).log_end_offset, 1)


def test_a_stopping_broker_asks_the_controller_until_nothing_remains(world: MemoryBrokers) -> None:
    """5.9: 11 and partitions that remain are no success; the third try is."""
    world.add(1, 2)
    world.server.put("/x")
    session = world.server.clients["b1"].session
    assert session is not None
    world.server.write(
        Create(ControllerRegistration.path(), ControllerRegistration(1, 0).encode(), True),
        session_id=session.session_id,
    )
    world.running.lead(world.zk, T0, 2, (2,))
    asked = world.running.idle[1]
    asked.answers += [ControlledShutdownResponse(11), ControlledShutdownResponse(0, (T0,))]
    world.running.brokers[2].close()

    assert asked.asked == [2, 2, 2]
    assert world.running.idle[2].closed
    assert world.zk.exists(BrokerRegistration.path(2)) is None


def test_a_stopping_follower_is_not_taken_back_into_the_isr(world: MemoryBrokers) -> None:
    """5.9: from its request on it fetches nothing, also after new requests: no leader adds it to the ISR."""
    world.add(1, 2)
    session = world.server.clients["b1"].session
    assert session is not None
    world.server.write(
        Create(ControllerRegistration.path(), ControllerRegistration(1, 0).encode(), True),
        session_id=session.session_id,
    )
    world.running.lead(world.zk, T0, 1, (1, 2))
    world.becomes(lambda: world.running.brokers[2].health().following, 1)
    answer: Future[ControlledShutdownResponse] = Future()
    asked = threading.Event()

    def shut_down(broker: int) -> Future[ControlledShutdownResponse]:
        asked.set()
        return answer

    world.running.idle[1].shut_down = shut_down  # type: ignore[method-assign]
    life = world.running.brokers[2]._lifecycle
    assert life is not None
    assert life.network is not None
    stopping = threading.Thread(target=world.running.brokers[2].close)
    stopping.start()
    try:
        happened(asked)
        world.running.lead(world.zk, T0, 1, (1, 2), isr=(1,), leader_epoch=1)
        told = outcome(life.thread.run(life.network.health()))
        roles = world.running.told[2].of("follower")
    finally:
        answer.set_result(ControlledShutdownResponse(0))
        joined(stopping)

    assert told.following == 0
    assert roles[-1] == ("follower", T0, 1)


def test_a_broker_without_replicas_stops_without_asking(world: MemoryBrokers) -> None:
    """There is nothing to hand over, and perhaps no controller yet."""
    world.add(1, settings=BrokerSettings())
    world.running.brokers[1].close()

    assert world.running.idle[1].asked == []


def test_a_broker_that_is_not_registered_yet_is_no_controller(world: MemoryBrokers) -> None:
    """Past bug: it failed a controlled shutdown that reached its port before it had a candidate."""
    held = ReservedPort()
    port = held.number
    stale = BrokerRegistration("127.0.0.1", port, timestamp_ms=1, extensions={"zkgroup": {"role": "data"}})
    world.zk.create_missing("/brokers", "/brokers/ids")
    world.zk.multi(Create(BrokerRegistration.path(1), stale.encode(), ephemeral=True))
    broker = world.running.add(world.server.client("b1"), 1, wait=False, port=port)
    world.eventually(lambda: broker.serving is not None)

    assert ask(port, ControlledShutdownRequest(2), ControlledShutdownResponse).error == 11
    assert 1 not in world.running.idle
    world.zk.multi(Delete(BrokerRegistration.path(1), 0))
    broker.wait_registered(PATIENCE_S)
    assert ask(port, ControlledShutdownRequest(2), ControlledShutdownResponse).error == 0  # of Kafka
    assert ask(port, ControlledShutdownRequest(1), ControlledShutdownResponse).error == 77
    held.release()


def test_a_stopping_broker_that_is_refused_stops_all_the_same(world: MemoryBrokers) -> None:
    """Three tries; the controller is the one of the last UpdateMetadata where ZooKeeper names none."""
    world.add(1, 2)
    world.running.lead(world.zk, T0, 1, (1, 2))
    assert world.running.brokers[1].health().controller == 9
    world.running.brokers[2].close()

    assert world.running.idle[1].asked == []
    assert world.zk.exists(BrokerRegistration.path(2)) is None


def test_a_stopping_broker_does_not_wait_for_a_zookeeper_that_is_away(world: MemoryBrokers) -> None:
    """It asks the controller that it knows, three times, and stops (K36)."""
    world.add(1, 2)
    world.running.lead(world.zk, T0, 1, (1, 2))
    world.server.suspend("b2")
    world.eventually(lambda: world.running.told[2].of("disconnected"))
    assert world.running.brokers[2].health().controller == 9
    world.running.brokers[2].close()

    assert world.running.idle[2].closed


def test_a_folder_remembers_its_broker(world: MemoryBrokers, tmp_path: Path) -> None:
    """Its id is taken where none is given, and another one is refused, as another cluster is."""
    folder = tmp_path / "data"
    first = world.running.add(world.server.client("a"), None, data=folder, settings=QUICK)
    assert first.broker == 1001
    first.close()
    second = world.running.add(world.server.client("b"), None, data=folder, settings=QUICK)
    assert second.broker == 1001
    second.close()

    with pytest.raises(ConfigError, match="is the folder of broker 1001, not of 7"):
        world.running.add(world.server.client("c"), 7, data=folder)
    other = MemoryZooKeeper(SystemClock())
    with pytest.raises(ConfigError, match="the folder is of cluster"):
        world.running.add(other.client("d"), 1001, data=folder, settings=QUICK)


def test_records_that_no_controller_has_placed_here_are_named_and_kept(
    world: MemoryBrokers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A topic was deleted while the broker was away. Once for each controller, and never removed."""
    gone = TopicPartition("gone", 0)
    world.add(1, data=tmp_path / "one")
    world.running.lead(world.zk, T0, 1, (1,))
    world.running.lead(world.zk, gone, 1, (1,))
    for tp in (T0, gone):
        assert world.running.append(1, tp, b"a").error == 0
    assert "has not placed here" not in caplog.text
    world.running.brokers[1].close()
    world.running.add(world.server.client("again"), 1, data=tmp_path / "one")
    for leader_epoch in (1, 2):
        world.running.lead(world.zk, T0, 1, (1,), leader_epoch=leader_epoch)
    assert caplog.text.count("keeps records of gone-0, which the controller has not placed here") == 1
    world.running.controller_epoch += 1
    world.running.lead(world.zk, T0, 1, (1,), leader_epoch=3)
    assert caplog.text.count("keeps records of gone-0, which the controller has not placed here") == 2
    assert records_on_disk(tmp_path / "one", TopicPartition("gone", 0)) == [b"a"]


def test_a_folder_in_use_is_refused(world: MemoryBrokers, tmp_path: Path) -> None:
    """Two brokers never share one."""
    world.add(1, data=tmp_path / "data")
    with pytest.raises(ConflictError, match="used by another broker"):
        world.running.add(world.server.client("b"), 1, data=tmp_path / "data")


def test_an_id_in_use_is_raised_in_each_waiting_call(world: MemoryBrokers) -> None:
    """And the first one is left alone."""
    world.add(1)
    with pytest.raises(BrokerIdInUseError, match=r"on host 127\.0\.0\.1"):
        world.running.add(world.server.client("other"), 1, settings=QUICK)


def test_a_port_in_use_is_raised_in_each_waiting_call(world: MemoryBrokers) -> None:
    """Nothing is registered then."""
    world.add(1)
    serving = world.running.brokers[1].serving
    assert serving is not None
    with pytest.raises(ConflictError, match="cannot listen"):
        world.running.add(world.server.client("other"), 2, port=serving[1], settings=QUICK)
    assert world.zk.exists(BrokerRegistration.path(2)) is None


def test_without_zookeeper_the_wait_for_the_registration_ends(world: MemoryBrokers) -> None:
    """Closing needs none either."""
    client = world.server.client("b1")
    world.server.suspend("b1")
    broker = world.running.add(client, 1, wait=False)
    with pytest.raises(StoreUnavailableError, match=r"not registered within 0\.05 s"):
        broker.wait_registered(0.05)
    with pytest.raises(StoreUnavailableError, match="does not serve"):
        broker.health()


def test_an_advertised_address_is_the_one_that_is_registered(world: MemoryBrokers) -> None:
    """Others reach the broker under another name than it listens on."""
    settings = replace(QUICK, advertised_host_name="outside", advertised_port=77, broker_rack="r1")
    world.add(1, settings=settings)
    found = BrokerRegistration.decode("/", world.zk.read(BrokerRegistration.path(1)).data)

    assert (found.host, found.port, found.rack) == ("outside", 77, "r1")
