"""`KafkaCluster`: brokers in one process, and their failures. What clients see: `tests/long/clients`."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S, eventually
from tests.worlds.unhurried import unhurried
from zkgroup.errors import ConfigError, ConflictError, RefusedError, ZkGroupError
from zkgroup.model import TopicPartition
from zkgroup.testing import KafkaCluster
from zkgroup.testing.kafka_cluster.cluster import FAST, LOG_LIMIT
from zkgroup.wire.messages import encode_request
from zkgroup.wire.metadata import MetadataRequest
from zkgroup.znodes.brokers import BrokerRegistration
from zkgroup.znodes.config import TopicConfig
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC

ALL = {1, 2, 3}
CLEAN = ".kafka_cleanshutdown"

Make = Callable[..., KafkaCluster]


def connected(cluster: KafkaCluster, broker: int) -> socket.socket:
    """A connection to a broker's port."""
    host, _, port = cluster.address(broker).partition(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE_S)


def is_registered(cluster: KafkaCluster, broker: int) -> bool:
    return cluster.zookeeper.find(BrokerRegistration.path(broker)) is not None


def lead_elsewhere(cluster: KafkaCluster, topic: str, killed: int) -> int:
    """The leader of a topic's partition 0 once it is another broker than this one."""
    eventually(lambda: cluster.leader(topic) not in (None, killed))
    return cluster.wait_for_leader(topic, timeout_s=PATIENCE_S)


def test_a_cluster_is_ready_when_it_has_started(kafka_cluster: KafkaCluster) -> None:
    """All brokers are registered, know each other, have a controller among them, and name coordinators."""
    assert kafka_cluster.brokers == kafka_cluster.running == (1, 2, 3)
    assert kafka_cluster.bootstrap_servers == ",".join(map(kafka_cluster.address, (1, 2, 3)))
    assert kafka_cluster.wait_for_controller() in ALL
    slots = kafka_cluster.partitions(OFFSETS_TOPIC)
    for broker in ALL:
        assert is_registered(kafka_cluster, broker)
        assert kafka_cluster.broker(broker).health().live_brokers == ALL
        assert set(kafka_cluster.broker(broker).leaders(slots).values()) == ALL


def test_a_topic_is_served_when_it_has_been_created(kafka_cluster_factory: Make) -> None:
    """Each broker names the leaders, which are spread over the brokers; the settings are stored."""
    cluster = kafka_cluster_factory(settings=replace(unhurried(), replica_lag_time_max_ms=3_600_000))
    cluster.create_topic("orders", 4, replication_factor=2, configs={"min.insync.replicas": "2"})
    partitions = cluster.partitions("orders")

    assert [cluster.leader(*tp) for tp in partitions] == [1, 2, 3, 1]
    assert [cluster.isr(*tp) for tp in partitions] == [(1, 2), (2, 3), (3, 1), (1, 2)]
    for broker in ALL:
        assert cluster.broker(broker).leaders(partitions) == dict(zip(partitions, (1, 2, 3, 1), strict=True))
    path = TopicConfig.path("orders")
    stored = cluster.zookeeper.find(path)
    assert stored is not None
    assert TopicConfig.decode(path, stored.data).overrides == {"min.insync.replicas": "2"}


def test_a_topic_that_cannot_be_or_is_there_is_refused(kafka_cluster: KafkaCluster) -> None:
    """Before anything is written: there is no topic then, and one that was created stays."""
    for topic, arguments, reason in (
        ("a b", {}, "topic"),
        ("t" * 250, {}, "at most 249"),
        ("t", {"partitions": 0}, "at least one partition, found 0"),
        ("t", {"replication_factor": 4}, "replication factor from 1 to 3, found 4"),
        ("t", {"configs": {"min.insync.replicas": "none"}}, "min.insync.replicas"),
    ):
        with pytest.raises(ConfigError, match=reason):
            kafka_cluster.create_topic(topic, **arguments)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="no topic"):
            kafka_cluster.partitions(topic)

    kafka_cluster.create_topic("t", 2)
    with pytest.raises(ConflictError, match="topic 't' was not created: it exists already"):
        kafka_cluster.create_topic("t")
    assert len(kafka_cluster.partitions("t")) == 2


def test_others_lead_when_a_broker_is_killed(kafka_cluster: KafkaCluster) -> None:
    """Its port refuses connections; started again, it has the same address and is in sync again."""
    kafka_cluster.create_topic("t")
    address = kafka_cluster.address(1)
    with connected(kafka_cluster, 1) as client:
        kafka_cluster.kill(1)
        assert client.recv(1) == b""
    assert not is_registered(kafka_cluster, 1)
    assert kafka_cluster.wait_for_leader("t", timeout_s=PATIENCE_S) in {2, 3}
    assert kafka_cluster.running == (2, 3)
    with pytest.raises(ConnectionRefusedError):
        connected(kafka_cluster, 1)
    with pytest.raises(ConflictError, match="broker 1 does not run: it was killed"):
        kafka_cluster.broker(1)

    kafka_cluster.restart(1)
    assert kafka_cluster.address(1) == address
    kafka_cluster.wait_for_isr("t", ALL, timeout_s=PATIENCE_S)


def test_another_controller_is_elected(kafka_cluster: KafkaCluster) -> None:
    """It elects leaders for the partitions of the controller that was killed."""
    first = kafka_cluster.wait_for_controller()
    kafka_cluster.create_topic("t", 3)
    kafka_cluster.kill(first)

    assert kafka_cluster.wait_for_controller(PATIENCE_S) in ALL - {first}
    for tp in kafka_cluster.partitions("t"):
        assert kafka_cluster.wait_for_leader(*tp, timeout_s=PATIENCE_S) in ALL - {first}


def test_the_session_of_a_killed_broker_can_stay(kafka_cluster_factory: Make) -> None:
    """Until its timeout, as that of a real process: the others do not take over before."""
    cluster = kafka_cluster_factory(settings=unhurried())
    cluster.create_topic("t")
    name = cluster.zookeeper_client(1)
    cluster.kill(1, expire=False)
    assert is_registered(cluster, 1)
    assert cluster.leader("t") == 1

    cluster.zookeeper.expire(name)
    assert lead_elsewhere(cluster, "t", 1) in {2, 3}


def test_a_paused_broker_answers_nothing_until_it_continues(kafka_cluster_factory: Make) -> None:
    """Its session expires, others lead; it accepts the connection and the request all the while."""
    cluster = kafka_cluster_factory(settings=replace(FAST, session_timeout_ms=100))
    cluster.create_topic("t")
    cluster.pause(1)
    with connected(cluster, 1) as client:
        client.sendall(encode_request(MetadataRequest.of("t"), 5, "test"))
        assert lead_elsewhere(cluster, "t", 1) in {2, 3}
        assert not is_registered(cluster, 1)
        assert select.select([client], [], [], 0) == ([], [], [])

        cluster.resume(1)
        assert client.recv(4) != b""
    cluster.wait_until_ready(PATIENCE_S)
    assert is_registered(cluster, 1)
    cluster.wait_for_isr("t", ALL, timeout_s=PATIENCE_S)


def test_a_pause_within_the_session_timeout_changes_nothing(kafka_cluster_factory: Make) -> None:
    """The broker keeps its session and its leadership, also when it is paused twice."""
    cluster = kafka_cluster_factory(settings=unhurried())
    cluster.create_topic("t")
    epoch = cluster.broker(1).epoch
    cluster.pause(1)
    cluster.pause(1)
    cluster.resume(1)
    cluster.wait_until_ready(PATIENCE_S)

    assert cluster.broker(1).epoch == epoch
    assert cluster.wait_for_leader("t", timeout_s=PATIENCE_S) == 1


def test_a_broker_cut_off_from_the_others_is_alone_in_the_isr(kafka_cluster_factory: Make) -> None:
    """The leader removes followers that do not fetch; after `heal` they are back."""
    cluster = kafka_cluster_factory(settings=replace(unhurried(), replica_lag_time_max_ms=100))
    cluster.create_topic("t")
    cluster.wait_for_controller()
    cluster.isolate(1, zookeeper=False)
    cluster.wait_for_isr("t", {1}, timeout_s=PATIENCE_S)
    assert is_registered(cluster, 1)

    cluster.heal(1)
    cluster.wait_for_isr("t", ALL, timeout_s=PATIENCE_S)


def test_a_broker_cut_off_from_zookeeper_loses_its_session(kafka_cluster_factory: Make) -> None:
    """Others lead, and clients still reach it; after `heal` it registers again and follows."""
    cluster = kafka_cluster_factory(settings=replace(FAST, session_timeout_ms=100))
    cluster.create_topic("t")
    cluster.isolate(1, brokers=False)
    assert lead_elsewhere(cluster, "t", 1) in {2, 3}
    connected(cluster, 1).close()

    cluster.heal()
    cluster.wait_until_ready(PATIENCE_S)
    assert is_registered(cluster, 1)
    cluster.wait_for_isr("t", ALL, timeout_s=PATIENCE_S)


def test_one_fault_stays_when_the_other_ends(kafka_cluster_factory: Make) -> None:
    """A broker that is isolated and paused is not connected before both have ended."""
    cluster = kafka_cluster_factory(settings=replace(FAST, session_timeout_ms=50))
    cluster.pause(1)
    cluster.isolate(1, brokers=False)
    eventually(lambda: not is_registered(cluster, 1))
    cluster.resume(1)
    cluster.wait_until_ready(PATIENCE_S)
    assert not is_registered(cluster, 1)
    cluster.heal(1)
    cluster.wait_until_ready(PATIENCE_S)

    assert is_registered(cluster, 1)


def test_an_expired_session_is_replaced(kafka_cluster: KafkaCluster) -> None:
    """The broker registers again at once, with a new epoch."""
    epoch = kafka_cluster.broker(2).epoch
    kafka_cluster.expire(2)
    kafka_cluster.wait_until_ready(PATIENCE_S)

    assert kafka_cluster.broker(2).epoch != epoch


def test_a_broker_that_is_stopped_hands_its_partitions_over(
    kafka_cluster_factory: Make, tmp_path: Path
) -> None:
    """Another one leads when `stop` returns, and its shutdown is clean; that of a killed one is not."""
    cluster = kafka_cluster_factory(data=tmp_path / "data", settings=unhurried())
    cluster.create_topic("t")
    cluster.wait_for_isr("t", ALL, timeout_s=PATIENCE_S)
    cluster.stop(1)
    assert cluster.leader("t") in {2, 3}
    cluster.kill(2)

    assert (tmp_path / "data" / "broker-1" / CLEAN).exists()
    assert not (tmp_path / "data" / "broker-2" / CLEAN).exists()
    cluster.restart(1)
    cluster.restart(2)
    assert TopicPartition("t", 0) in cluster.broker(2).replicas()


def test_the_last_broker_stops_as_well(kafka_cluster_factory: Make) -> None:
    """It does not wait for others to lead; started again, it leads again."""
    cluster = kafka_cluster_factory(settings=unhurried())
    cluster.create_topic("t")
    for broker in (1, 2, 3):
        cluster.stop(broker)
    assert cluster.running == ()
    with pytest.raises(ZkGroupError, match="no broker can be reached"):
        cluster.wait_for_leader("t")

    cluster.restart(3)
    assert cluster.wait_for_leader("t", timeout_s=PATIENCE_S) == 3


def test_what_cannot_be_is_named(kafka_cluster_factory: Make) -> None:
    """Unknown ids, brokers that run already, and clusters without a broker."""
    cluster = kafka_cluster_factory(1)
    with pytest.raises(ConfigError, match="no broker 9: the cluster has 1"):
        cluster.kill(9)
    with pytest.raises(ConflictError, match="broker 1 runs already"):
        cluster.restart(1)
    with pytest.raises(ConfigError, match="at least one broker, not 0"):
        KafkaCluster(0)
    cluster.create_topic("t", 2)
    for ask in (cluster.leader, cluster.isr):
        with pytest.raises(ConfigError, match="there is no topic 'nope': create_topic makes one"):
            ask("nope")
        with pytest.raises(ConfigError, match="topic 't' has no partition 2: expected 0 to 1"):
            ask("t", 2)


CALLS: dict[str, Callable[[KafkaCluster], object]] = {
    "bootstrap_servers": lambda cluster: cluster.bootstrap_servers,
    "address": lambda cluster: cluster.address(1),
    "broker": lambda cluster: cluster.broker(1),
    "zookeeper_client": lambda cluster: cluster.zookeeper_client(1),
    "controller": lambda cluster: cluster.controller,
    "partitions": lambda cluster: cluster.partitions("t"),
    "leader": lambda cluster: cluster.leader("t"),
    "isr": lambda cluster: cluster.isr("t"),
    "coordinator": lambda cluster: cluster.coordinator("g"),
    "create_topic": lambda cluster: cluster.create_topic("t"),
    "delete_topic": lambda cluster: cluster.delete_topic("t"),
    "kill": lambda cluster: cluster.kill(1),
    "stop": lambda cluster: cluster.stop(1),
    "restart": lambda cluster: cluster.restart(1),
    "pause": lambda cluster: cluster.pause(1),
    "resume": lambda cluster: cluster.resume(1),
    "isolate": lambda cluster: cluster.isolate(1),
    "heal": lambda cluster: cluster.heal(),
    "expire": lambda cluster: cluster.expire(1),
    "wait_until_ready": lambda cluster: cluster.wait_until_ready(),
    "wait_for_controller": lambda cluster: cluster.wait_for_controller(),
    "wait_for_leader": lambda cluster: cluster.wait_for_leader("t"),
    "wait_for_isr": lambda cluster: cluster.wait_for_isr("t", {1}),
}
"""Every public method and property that needs a cluster that runs."""


def test_a_cluster_that_does_not_run_says_so() -> None:
    """Before its start and after its end each call is refused with what to do, and has no effect."""
    public = {name for name in vars(KafkaCluster) if not name.startswith("_")}
    assert public - CALLS.keys() == {"start", "close", "brokers", "running", "client_security"}
    cluster = KafkaCluster(1)
    for call in CALLS.values():
        with pytest.raises(RefusedError, match="has not been started: use `with KafkaCluster"):
            call(cluster)
    assert (cluster.brokers, cluster.running) == ((1,), ())
    with cluster, pytest.raises(RefusedError, match="started already"):
        cluster.start()
    for call in (*CALLS.values(), KafkaCluster.start):
        with pytest.raises(RefusedError, match="the cluster is closed: make a new one"):
            call(cluster)
    cluster.close()
    assert (cluster.brokers, cluster.running) == ((1,), ())


def test_a_restart_that_fails_can_be_repeated(kafka_cluster_factory: Make) -> None:
    """Another program has the port meanwhile; the others go on without the broker."""
    cluster = kafka_cluster_factory(2)
    host, _, port = cluster.address(1).partition(":")
    cluster.kill(1)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((host, int(port)))
        other.listen()
        for _ in range(2):
            with pytest.raises(ConflictError, match=f"cannot listen on {cluster.address(1)}"):
                cluster.restart(1)
            assert cluster.running == (2,)
        with pytest.raises(ConflictError, match="broker 1 does not run: it has failed: cannot listen"):
            cluster.broker(1)
        cluster.create_topic("t")
    cluster.restart(1)

    assert cluster.running == (1, 2)


def test_a_wait_says_what_is_missing(kafka_cluster: KafkaCluster) -> None:
    """With the state that it has found last."""
    kafka_cluster.create_topic("t")
    kafka_cluster.kill(3)
    kafka_cluster.wait_for_isr("t", {1, 2}, timeout_s=PATIENCE_S)

    with pytest.raises(TimeoutError, match=r"not within 0 s: the ISR of t-0 is \[1, 2\]"):
        kafka_cluster.wait_for_isr("t", ALL, timeout_s=0)
    with pytest.raises(TimeoutError, match="topic 't' has no partition 7: expected 0 to 0"):
        kafka_cluster.wait_for_leader("t", 7, timeout_s=0)
    with pytest.raises(TimeoutError, match="there is no topic 'nope'"):
        kafka_cluster.wait_for_isr("nope", ALL, timeout_s=0)


def test_the_error_that_stops_a_broker_is_raised(tmp_path: Path) -> None:
    """A data directory of something else."""
    (tmp_path / "broker-1").mkdir()
    (tmp_path / "broker-1" / "foreign").touch()
    cluster = KafkaCluster(1, data=tmp_path)
    with pytest.raises(ConfigError, match="expected an empty folder or a broker's, found foreign"), cluster:
        pass
    assert cluster.running == ()


def test_settings_of_one_broker(kafka_cluster_factory: Make) -> None:
    """The others have the settings of the cluster."""
    own = replace(FAST, broker_rack="b")
    cluster = kafka_cluster_factory(2, broker_settings={2: own})

    assert cluster.broker(1).settings == FAST
    assert cluster.broker(2).settings == own


def test_a_cluster_on_an_event_loop() -> None:
    """`async with` starts and closes it on another thread, so the loop goes on."""

    async def main() -> None:
        async with KafkaCluster(1) as cluster:
            assert cluster.controller == 1
        assert cluster.running == ()
        cluster.close()

    asyncio.run(main())


def test_a_cluster_with_faults_is_closed(kafka_cluster: KafkaCluster) -> None:
    """A paused and an isolated broker end with the others."""
    kafka_cluster.create_topic("t")
    kafka_cluster.pause(1)
    kafka_cluster.isolate(2)
    kafka_cluster.close()

    assert kafka_cluster.running == ()


def test_the_log_of_its_zookeeper_is_bounded() -> None:
    """A cluster can run for days, and writes to ZooKeeper all the time."""
    zookeeper = KafkaCluster(1).zookeeper
    for number in range(4 * LOG_LIMIT):
        zookeeper.put("/a", str(number).encode())

    assert LOG_LIMIT <= len(zookeeper.log) <= 2 * LOG_LIMIT
