"""The parts of `KafkaSource` that need no broker."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from types import SimpleNamespace

import kafka
import pytest
from kafka import errors

from tests.worlds.acls import UNREADABLE
from tests.worlds.memory_groups import hold
from zkgroup.clients.addresses import BrokerAddress
from zkgroup.clients.kafka_python import addresses_of, asked, protocol_of
from zkgroup.consumer.fetcher import ZooKeeperCluster
from zkgroup.consumer.sync import Consumer, GroupMember
from zkgroup.errors import (
    AuthorizationError,
    BrokerAuthenticationError,
    ConfigError,
    OffsetOutOfRangeError,
    SourceError,
    SourceUnavailableError,
    StoreUnavailableError,
    ZkGroupError,
)
from zkgroup.model import TopicPartition
from zkgroup.settings import GroupSettings
from zkgroup.sources.kafka import KafkaSource
from zkgroup.sources.port import Bounds
from zkgroup.testing import FakeClock, MemoryZooKeeper
from zkgroup.znodes.brokers import BrokerRegistration


@pytest.mark.parametrize(
    ("versions", "protocol"),
    [([1], (0, 8, 2)), ([2], (0, 9)), ([4], None), ([5, 1], (0, 8, 2)), ([], None)],
)
def test_the_oldest_registration_decides_the_protocol(
    versions: list[int], protocol: tuple[int, ...] | None
) -> None:
    """0.8 and 0.9 cannot negotiate it, 0.10 and newer can; in between the oldest decides."""
    brokers = [BrokerRegistration(host="h", port=9092, version=version) for version in versions]

    assert protocol_of(brokers) == protocol


@pytest.mark.parametrize(
    "bootstrap", ["http://h:9092", "PLAINTEXT://h:9092,i:1", "h:9092/c", "h:x", "h:1,,i:1"]
)
def test_an_address_of_brokers_that_cannot_be_is_named(bootstrap: str) -> None:
    """Before anything is connected to, as a text and as a list."""
    for given in (bootstrap, bootstrap.split(",")):
        with pytest.raises(ConfigError, match=r"KafkaSource, address .* of a broker: "):
            KafkaSource(given)


def test_the_address_is_the_plain_listener_or_the_first() -> None:
    """The first only where the client's own options name a protocol."""
    plain = BrokerRegistration(host="h", port=9092)
    secured = BrokerRegistration(None, -1, version=4, endpoints=("SSL://h:9093", "SASL_SSL://h:9094"))
    assert [str(one) for one in addresses_of([plain, secured])] == ["h:9092"]
    assert [str(one) for one in addresses_of([plain, secured], any_listener=True)] == ["h:9092", "h:9093"]
    for brokers, told in (
        ([secured], "each has no plain listener .*--command-config"),
        ([], "is registered"),
    ):
        with pytest.raises(SourceUnavailableError, match=told):
            addresses_of(brokers)


OURS = {"zkgroup": {"role": "data"}}


def test_brokers_of_zkgroup_negotiate_and_those_without_partitions_are_not_asked() -> None:
    """A zkgroup broker registers in the format of its controller, whatever requests it serves."""
    ours = BrokerRegistration(host="a", port=1, version=1, extensions=OURS)
    alone = BrokerRegistration(host="b", port=2, version=1, extensions={"zkgroup": {"role": "controller"}})
    kafkas = BrokerRegistration(host="c", port=3, version=2, endpoints=("PLAINTEXT://c:3",))

    assert addresses_of([ours, alone, kafkas]) == [
        BrokerAddress("a", 1),
        BrokerAddress("c", 3, negotiates=False),
    ]
    assert protocol_of([ours, alone]) is None
    assert protocol_of([ours, kafkas]) == (0, 9)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (errors.KafkaTimeoutError("no answer"), SourceUnavailableError),
        (errors.KafkaConnectionError("refused"), SourceUnavailableError),
        (errors.LeaderNotAvailableError("moving"), SourceUnavailableError),
        (errors.OffsetOutOfRangeError({}), errors.OffsetOutOfRangeError),
        (errors.TopicAuthorizationFailedError(["orders"]), AuthorizationError),
        (errors.SaslAuthenticationFailedError("no"), BrokerAuthenticationError),
        (errors.UnsupportedVersionError("old"), SourceError),
        (errors.KafkaConfigurationError("Unrecognized configs"), ConfigError),
    ],
)
def test_an_error_that_may_pass_is_a_pause(error: Exception, told: type[Exception]) -> None:
    """The fetcher retries these errors; the others are raised as zkgroup errors with their cause."""

    def asking() -> None:
        raise error

    with pytest.raises(told) as raised:
        asked(asking, "k1:9092,k2:9092", "KafkaSource")
    assert type(raised.value) is told
    assert raised.value is error or raised.value.__cause__ is error
    assert ("k1:9092,k2:9092" in str(raised.value)) == (raised.value is not error)


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (errors.TopicAuthorizationFailedError(["orders"]), "not authorized: "),
        (errors.ClusterAuthorizationFailedError(), "allow the user to describe and read"),
        (errors.UnsupportedVersionError(), "api_version="),
        (errors.IncompatibleBrokerVersion(), "api_version="),
        (errors.UnrecognizedBrokerVersion(), "api_version="),
        (errors.SaslAuthenticationFailedError(), "authentication failed (SASL): "),
        (errors.InvalidTopicError(), "a retry would not help"),
    ],
)
def test_an_error_that_stays_says_what_to_do(error: Exception, remedy: str) -> None:
    """Past bug: it stayed kafka-python's own, and the command line called it a bug of zkgroup."""

    def asking() -> None:
        raise error

    with pytest.raises(ZkGroupError, match=re.escape(remedy)):
        asked(asking, "k1:9092", "KafkaSource")


class Brokers:
    """kafka-python's consumer as far as bounds go: some partitions have no leader, some a dead one.

    `without`: partitions that their leader does not have.
    """

    def __init__(
        self, leaderless: Collection[int], dead: Collection[int], without: Collection[int] = ()
    ) -> None:
        self._leaderless, self._dead, self._without = leaderless, dead, without
        self.asked: list[list[int]] = []
        self.metadata_requests = 0
        cluster = SimpleNamespace(
            request_update=self._request_metadata,
            leader_for_partition=lambda tp: -1 if tp.partition in leaderless else tp.partition // 2,
        )
        self._client = SimpleNamespace(cluster=cluster)

    def _request_metadata(self) -> None:
        self.metadata_requests += 1

    def beginning_offsets(self, partitions: list[kafka.TopicPartition], timeout_ms: int) -> object:
        numbers = [one.partition for one in partitions]
        self.asked.append(numbers)
        if set(numbers).intersection(self._dead) or set(self._leaderless).issuperset(numbers):
            raise errors.KafkaTimeoutError("no answer")
        for one in partitions:
            if one.partition in self._without:
                raise KeyError(one)
        return {one: 0 for one in partitions if one.partition not in self._leaderless}

    def end_offsets(self, partitions: list[kafka.TopicPartition], timeout_ms: int) -> object:
        return {one: 7 for one in partitions if one.partition not in self._leaderless}


@pytest.mark.parametrize(
    ("leaderless", "dead", "questions"),
    [
        (set(), set(), [[0, 1, 2]]),
        ({1}, set(), [[0, 1, 2]]),
        (set(), {1}, [[0, 1, 2], [0, 1], [0], [1], [2]]),
    ],
)
def test_bounds_of_many_are_one_question(
    leaderless: set[int], dead: set[int], questions: list[list[int]]
) -> None:
    """A partition without a leader is left out of the answer; one whose broker is dead fails it for all."""
    source, brokers = KafkaSource("127.0.0.1:1"), Brokers(leaderless, dead)
    source._made = brokers
    wanted = [TopicPartition("orders", number) for number in range(3)]

    found = source.bounds_of(wanted, 1.0)

    away = leaderless | dead
    assert brokers.asked == questions
    assert [found[tp] for tp in wanted if tp.partition not in away] == [Bounds(0, 7)] * (3 - len(away))
    assert all(isinstance(found[wanted[number]], SourceUnavailableError) for number in away)


def test_log_ends_that_cannot_be_read_are_absent() -> None:
    """Past bug: one without a leader or with a dead one took all away, as the command's answer with them."""
    source, brokers = KafkaSource("127.0.0.1:1"), Brokers({3}, {0}, {4})
    source._made = brokers
    wanted = [TopicPartition("orders", number) for number in range(6)]

    found = source.log_ends(wanted)

    assert found == {wanted[1]: 7, wanted[2]: 7, wanted[5]: 7}
    assert [3] not in brokers.asked, "its leader is known to be none"


def test_a_leader_without_the_partition_is_an_error_of_this_partition() -> None:
    """kafka-python raises KeyError for all of them, and does not read its metadata again by itself."""
    source, brokers = KafkaSource("127.0.0.1:1"), Brokers(set(), set(), {1})
    source._made = brokers
    wanted = [TopicPartition("orders", number) for number in range(3)]

    found = source.bounds_of(wanted, 1.0)

    assert [found[wanted[0]], found[wanted[2]]] == [Bounds(0, 7)] * 2
    assert "the leader of orders-1 does not have it" in str(found[wanted[1]])
    assert brokers.metadata_requests == 3
    with pytest.raises(SourceUnavailableError, match="the leader of orders-1 does not have it"):
        source.bounds(wanted[1])


def test_metadata_are_read_again_between_the_slices_of_a_wait() -> None:
    """kafka-python asks the broker that it takes for the leader until the end of the timeout."""
    source, brokers = KafkaSource("127.0.0.1:1"), Brokers(set(), {0})
    source._made = brokers

    with pytest.raises(SourceUnavailableError, match="no answer"):
        source.bounds(TopicPartition("orders", 0))

    assert brokers.metadata_requests == len(brokers.asked) == 5


def test_an_option_that_kafka_python_does_not_know_is_a_usage_error() -> None:
    """It is found when the source connects first; the brokers and the option are named."""
    source = KafkaSource("127.0.0.1:1", options={"nonsense": 1}, api_version=(0, 8, 2))

    with pytest.raises(ConfigError, match=r"127\.0\.0\.1:1: .*nonsense"):
        source.bounds(TopicPartition("orders", 0))


class Idle:
    """kafka-python's consumer without records."""

    def __init__(self) -> None:
        self.closed = False

    def assignment(self) -> set[object]:
        return set()

    def close(self, **_: object) -> None:
        self.closed = True

    def poll(self, **_: object) -> dict[object, object]:
        return {}

    def __getattr__(self, name: str) -> object:
        return lambda *_: None


class Registered:
    """A cluster whose brokers have these addresses; None: ZooKeeper does not answer."""

    def __init__(self, *addresses: str) -> None:
        self.addresses: tuple[str, ...] | None = addresses

    def brokers(self) -> dict[int, BrokerRegistration]:
        if self.addresses is None:
            raise StoreUnavailableError("no connection")
        parts = [address.partition(":") for address in self.addresses]
        return {n: BrokerRegistration(host, int(port)) for n, (host, _, port) in enumerate(parts, 1)}

    def partitions(self, topic: str) -> tuple[int, ...]:
        return (0,)


def test_brokers_that_all_have_new_addresses_are_found_again() -> None:
    """kafka-python only knows the old ones then; one that is still known tells it the others."""
    source, cluster, clock, made = KafkaSource(), Registered("h:1", "h:2"), FakeClock(), list[Idle]()
    source._clock = clock  # type: ignore[assignment]

    def connect(bootstrap: Sequence[str], version: object) -> Idle:
        made.append(Idle())
        return made[-1]

    source._connect = connect  # type: ignore[method-assign]
    source.open(cluster)

    def polled_after_a_while() -> None:
        clock.advance(11_000)
        source.poll({TopicPartition("orders", 0): 5}, 10, 0.0)

    def connections() -> list[bool]:
        return [one.closed for one in made]

    source.poll({TopicPartition("orders", 0): 5}, 10, 0.0)
    for addresses in (("h:1", "h:3"), ("h:3", "h:4"), None, ()):
        cluster.addresses = addresses
        polled_after_a_while()
    assert connections() == [False], "known ones were left each time, or ZooKeeper said nothing"

    cluster.addresses = ("h:5",)
    polled_after_a_while()
    source.poll({TopicPartition("orders", 0): 5}, 10, 0.0)
    assert connections() == [True, False]
    assert source._next == {TopicPartition("orders", 0): 5}, "it goes on where it was"
    source.close()


def test_logs_that_differ_from_what_was_read_are_out_of_range_one_by_one() -> None:
    """kafka-python raises one error for all of them, and would go on; a position that was set anew holds."""
    tps = [TopicPartition("orders", number) for number in range(3)]
    positions = dict.fromkeys(tps, 5)
    source, brokers, broken = KafkaSource("127.0.0.1:1"), Idle(), [True]

    def poll(**_: object) -> dict[object, object]:
        if broken.pop() if broken else False:
            gone = {kafka.TopicPartition(*tp): None for tp in tps}
            raise errors.LogTruncationError(gone)
        return {}

    brokers.poll = poll  # type: ignore[method-assign]
    source._made = brokers
    with pytest.raises(OffsetOutOfRangeError) as first:
        source.poll(positions, 10, 0.0)
    lost = first.value.topic_partition
    positions[lost], other = 0, next(tp for tp in tps if tp != lost)
    positions[other] = 3
    with pytest.raises(OffsetOutOfRangeError) as second:
        source.poll(positions, 10, 0.0)
    assert second.value.topic_partition not in (lost, other)
    positions[second.value.topic_partition] = 0
    assert source.poll(positions, 10, 0.0) == []
    source.close()


def test_a_source_serves_one_consumer_at_a_time(memory_zookeeper: MemoryZooKeeper) -> None:
    """It holds positions; a second start is refused by name, also of the same group, until it is closed."""
    source = KafkaSource("127.0.0.1:1")
    settings = GroupSettings(session_timeout_ms=6000)
    source.configure(settings, "billing")

    with pytest.raises(ConfigError, match="used by a consumer of group billing already"):
        Consumer(client=memory_zookeeper.client(), group="g", topics=["orders"], source=source).start()
    source.close()

    source.configure(settings, "g")
    source.close()


def test_a_consumer_that_cannot_be_put_together_gives_its_source_back(
    memory_zookeeper: MemoryZooKeeper,
) -> None:
    """Two of one name on a client: the second is refused, and its source is free for another."""
    source, client = KafkaSource("127.0.0.1:1"), memory_zookeeper.client()
    named = GroupSettings(consumer_id="a")
    with GroupMember(client=client, group="g", topics=["orders"], settings=named):
        with pytest.raises(ConfigError, match="g_a is a member on this client already"):
            Consumer(client=client, group="g", topics=["orders"], settings=named, source=source).start()

        source.configure(named, "other")
    source.close()


def test_a_name_that_is_no_broker_id_is_passed_over(memory_zookeeper: MemoryZooKeeper) -> None:
    """Past bug: digits without end ended the consumer; so did a registration that cannot be read.

    One that no session holds is passed over as well.
    """
    registration = BrokerRegistration(host="h", port=9092, timestamp_ms=1).encode()
    hold(memory_zookeeper, "/brokers/ids/1", registration)
    memory_zookeeper.put("/brokers/ids/4", registration)
    for name in ("9" * 5000, "²", "٣", "01"):
        memory_zookeeper.put(f"/brokers/ids/{name}", b"{}")
    memory_zookeeper.put("/brokers/ids/2", b"no JSON")
    memory_zookeeper.put("/brokers/ids/3", registration)
    memory_zookeeper.set_acl("/brokers/ids/3", UNREADABLE)
    cluster = ZooKeeperCluster(memory_zookeeper.client(), memory_zookeeper.clock)

    assert list(cluster.brokers()) == [1]
    cluster.close()
