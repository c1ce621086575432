"""`KafkaCluster`: brokers in one process, with real elections, replication and failures on demand."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from zkgroup.broker.broker import HOST_DEFAULT, Broker
from zkgroup.broker.log.storage import MemoryStorage
from zkgroup.broker.replica_view import Role
from zkgroup.broker.settings import BrokerSettings
from zkgroup.coordinator.group_ids import slot_of
from zkgroup.errors import ConfigError, ConflictError, RefusedError, StoreUnavailableError, ZkGroupError
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, MultiRefused
from zkgroup.model.text import named
from zkgroup.security.client import ClientSecurity
from zkgroup.testing.clock import wait_until
from zkgroup.testing.kafka_cluster.loops import BrokerLinks, BrokerLoops
from zkgroup.testing.kafka_cluster.member import KafkaClusterBroker
from zkgroup.testing.kafka_cluster.security import ClusterCredentials, ClusterSecurity
from zkgroup.testing.memory_zookeeper import MemoryZooKeeper
from zkgroup.testing.patience import PATIENCE_S
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, Topic
from zkgroup.znodes.config import TopicConfig
from zkgroup.znodes.config_settings import check_topic_settings
from zkgroup.znodes.controller import ControllerRegistration
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC, SlotConfig
from zkgroup.znodes.ids import validate_new_topic
from zkgroup.zookeeper.client import SystemClock
from zkgroup.zookeeper.embedded.server import ReservedPort

REPLICAS_DEFAULT: Final = 3
NAMED_MAX: Final = 3
"""Most reasons in the message of a wait that timed out."""
LOG_LIMIT: Final = 1_000
"""Transactions of the ZooKeeper in memory that are kept at least; at most twice that."""
FAST: Final = BrokerSettings(
    session_timeout_ms=2000,
    replica_lag_time_max_ms=2000,
    replica_fetch_wait_max_ms=100,
    replica_fetch_backoff_ms=20,
    replica_socket_timeout_ms=3000,
    controller_socket_timeout_ms=3000,
    controlled_shutdown_retry_backoff_ms=200,
    controller_takeover_grace_ms=100,
    group_initial_rebalance_delay_ms=100,
    offsets_topic_num_partitions=5,
)
"""The default settings: those of a broker with shorter times, and fewer partitions of group offsets."""


class KafkaCluster:
    """Brokers with ids from 1 on, in one process, on a ZooKeeper in memory.

    They are `zkgroup.broker.Broker`: they listen on ports of 127.0.0.1, elect a controller and leaders,
    replicate, and answer Kafka's clients. Time is real: a session without a connection expires after
    `settings.session_timeout_ms`. Methods may be called from any thread. Those that change something return
    when it has taken effect; a wait that is not over in time raises TimeoutError, which says what is missing.
    A cluster that has not been started, or is closed, raises RefusedError; an id, a topic or a partition that
    it does not have is a ConfigError.

    Example:
        >>> with KafkaCluster() as cluster:  # doctest: +SKIP
        ...     cluster.create_topic("orders", partitions=3)
        ...     producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        settings: BrokerSettings = FAST,
        data: str | Path | None = None,
        broker_settings: Mapping[int, BrokerSettings] | None = None,
        security: ClusterSecurity | None = None,
    ) -> None:
        """
        Args:
            brokers: how many.
            settings: of each broker. The default has short times for failures.
            data: a folder in which each broker gets a data directory; None keeps the logs in memory. In both
                cases a broker that is started again has its logs.
            broker_settings: settings of single brokers, by id, instead of `settings`.
            security: what brokers demand of clients and of each other; plain text, and no user, by default.

        Raises ConfigError.
        """
        if brokers < 1:
            raise ConfigError(f"a cluster has at least one broker, not {brokers}")
        self.settings = settings
        self.zookeeper = MemoryZooKeeper(SystemClock(), log_limit=LOG_LIMIT)
        """The ZooKeeper of the cluster; `zookeeper.client()` is a client for `zkgroup.Admin`."""
        self._own_settings = dict(broker_settings or {})
        self._folder = None if data is None else Path(data)
        self._credentials = None if security is None else ClusterCredentials(security)
        self._links = BrokerLinks()
        self._number = brokers
        self._brokers: dict[int, KafkaClusterBroker] = {}
        self._lock = threading.RLock()
        self._closed = False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    def start(self, timeout_s: float = PATIENCE_S) -> None:
        """Starts all brokers, once; returns when each is registered, knows all others, and serves groups.

        Raises TimeoutError, and the error that stopped a broker; the cluster is closed then.
        """
        self._check_open()
        if self._brokers:
            raise RefusedError("the cluster is started already")
        try:
            with self._lock:
                self._start_all()
            self.wait_until_ready(timeout_s)
            self._create_slots(timeout_s)
        except BaseException:
            self.close()
            raise

    def _create_slots(self, timeout_s: float) -> None:
        """Creates what the first group would create: librdkafka asks for a coordinator only once a second."""
        slots = self.settings.offsets_topic_num_partitions
        replicas = min(self.settings.offsets_topic_replication_factor, self._number)
        self.zookeeper.put(SlotConfig.path(), SlotConfig(slots).encode())
        self.create_topic(OFFSETS_TOPIC, slots, replication_factor=replicas, timeout_s=timeout_s)

    def _start_all(self) -> None:
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
        for broker in range(1, self._number + 1):
            port = ReservedPort()
            self._links.listens(broker, port.number)
            data = MemoryStorage() if self._folder is None else self._folder / f"broker-{broker}"
            if isinstance(data, MemoryStorage):
                data.directory_id = uuid.uuid4().hex
            self._brokers[broker] = KafkaClusterBroker(broker, port, BrokerLoops(broker, self._links), data)
        if self._credentials is not None:
            self._credentials.add_users(self.zookeeper)
        for one in self._brokers.values():
            self._start(one)

    def _check_open(self) -> None:
        if self._closed:
            raise RefusedError("the cluster is closed: make a new one")

    def _check_started(self) -> None:
        self._check_open()
        if not self._brokers:
            raise RefusedError(
                "the cluster has not been started: use `with KafkaCluster() as cluster`, or start()"
            )

    def close(self) -> None:
        """Closes all brokers at the same time, without controlled shutdowns. Idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            running = [one.broker for one in self._brokers.values() if one.broker is not None]
            for one in self._brokers.values():
                one.loops.resume()
            closing = [
                threading.Thread(target=broker.close, kwargs={"controlled_shutdown": False})
                for broker in running
            ]
            for thread in closing:
                thread.start()
            for thread in closing:
                thread.join()
            for one in self._brokers.values():
                one.broker, one.state = None, "was stopped"
                one.port.release()
            self.zookeeper.close()
            if self._credentials is not None:
                self._credentials.close()

    def _start(self, one: KafkaClusterBroker) -> None:
        one.starts += 1
        one.client = f"broker-{one.id}-{one.starts}"
        settings = self._own_settings.get(one.id, self.settings)
        broker = Broker(
            client=self.zookeeper.client(one.client, settings.session_timeout_ms),
            broker=one.id,
            port=one.port.number,
            security=None if self._credentials is None else self._credentials.settings(one.port.number),
            data=None if isinstance(one.data, MemoryStorage) else one.data,
            settings=settings,
        )
        broker._make_loop = one.loops.make
        broker._memory = one.data if isinstance(one.data, MemoryStorage) else None
        try:
            broker.start()
        except BaseException:
            broker.close(controlled_shutdown=False)
            raise
        one.broker, one.state = broker, "runs"

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, `HOST:PORT,HOST:PORT,...`, as each of Kafka's clients takes them."""
        return ",".join(self.address(broker) for broker in self.brokers)

    def client_security(self, user: str | None = None, *, password: str | None = None) -> ClientSecurity:
        """The security of a client of this cluster, which trusts its certificates.

        Args:
            user: of the SASL login, and of the certificate where one is demanded; None for a client that has
                none.
            password: another one than the user's, for a client that does not get in.

        Raises ConfigError for a cluster without `security`, and for a user without a password.
        """
        if self._credentials is None:
            raise ConfigError("the cluster demands nothing: make it with KafkaCluster(security=...)")
        return self._credentials.client(user, password)

    @property
    def brokers(self) -> tuple[int, ...]:
        """The ids of all brokers, also of those that do not run."""
        return tuple(range(1, self._number + 1))

    @property
    def running(self) -> tuple[int, ...]:
        """The ids of the brokers that run: started, and not killed, stopped or failed."""
        return tuple(one.id for one in self._brokers.values() if one.running is not None)

    def address(self, broker: int) -> str:
        """`HOST:PORT` of one broker, the same over all its starts. Raises ConfigError."""
        return f"{HOST_DEFAULT}:{self._known(broker).port.number}"

    def broker(self, broker: int) -> Broker:
        """The running broker with this id. Raises ConfigError, and ConflictError if it does not run."""
        one = self._known(broker)
        running = one.running
        if running is None:
            raise ConflictError(f"broker {broker} does not run: it {one.state}")
        return running

    def zookeeper_client(self, broker: int) -> str:
        """The name of a broker's client in `zookeeper`, for its faults: `zookeeper.expire(name)`."""
        return self._known(broker).client

    @property
    def controller(self) -> int | None:
        """The broker that is the active controller; None while there is none."""
        self._check_started()
        found = self.zookeeper.find(ControllerRegistration.path())
        if found is None or found.data is None:
            return None
        return ControllerRegistration.decode(ControllerRegistration.path(), found.data).broker

    def partitions(self, topic: str) -> tuple[TopicPartition, ...]:
        """The partitions of a topic. Raises ConfigError if there is no such topic."""
        self._check_started()
        found = self.zookeeper.find(Topic.path(topic))
        if found is None or found.data is None:
            raise ConfigError(f"there is no topic {topic!r}: create_topic makes one")
        numbers = sorted(Topic.decode(Topic.path(topic), found.data).partitions)
        return tuple(TopicPartition(topic, number) for number in numbers)

    def leader(self, topic: str, partition: int = 0) -> int | None:
        """The leader of a partition as ZooKeeper has it; None without one, and before it is elected.

        Raises ConfigError if there is no such partition.
        """
        return self._leader(self._existing(TopicPartition(topic, partition)))

    def _leader(self, tp: TopicPartition) -> int | None:
        state = self._state(tp)
        return None if state is None or state.leader < 0 else state.leader

    def isr(self, topic: str, partition: int = 0) -> tuple[int, ...]:
        """The in-sync replicas of a partition as ZooKeeper has them. Raises as `leader`."""
        state = self._state(self._existing(TopicPartition(topic, partition)))
        return () if state is None else state.isr

    def coordinator(self, group: str) -> int | None:
        """The broker that coordinates a group, as ZooKeeper has it; None while there is none."""
        return self.leader(OFFSETS_TOPIC, slot_of(group, len(self.partitions(OFFSETS_TOPIC))))

    def _existing(self, tp: TopicPartition) -> TopicPartition:
        """The partition itself. Raises ConfigError if there is no such one."""
        found = self.partitions(tp.topic)
        if tp not in found:
            raise ConfigError(
                f"topic {tp.topic!r} has no partition {tp.partition}: expected 0 to {len(found) - 1}"
            )
        return tp

    def _state(self, tp: TopicPartition) -> PartitionState | None:
        path = PartitionState.path(tp)
        found = self.zookeeper.find(path)
        return None if found is None or found.data is None else PartitionState.decode(path, found.data)

    def _known(self, broker: int) -> KafkaClusterBroker:
        self._check_started()
        if broker not in self._brokers:
            raise ConfigError(f"no broker {broker!r}: the cluster has {', '.join(map(str, self._brokers))}")
        return self._brokers[broker]

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        *,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
        timeout_s: float = PATIENCE_S,
    ) -> None:
        """Creates a topic; returns when every broker names its leaders to clients, and these serve.

        The replicas of partition 0 are on brokers 1, 2, 3, those of partition 1 on 2, 3, 4 and so on; the
        first one is the leader.

        Args:
            replication_factor: replicas of each partition; by default 3, or all brokers if there are fewer.
            configs: settings of the topic, such as `{"min.insync.replicas": "2"}`.

        Raises ConfigError for a name, number or setting that cannot be, ConflictError if the topic exists.
        """
        self._check_started()
        ids = self.brokers
        replicas = min(REPLICAS_DEFAULT, len(ids)) if replication_factor is None else replication_factor
        validate_new_topic(topic)
        configs = dict(configs or {})
        check_topic_settings(configs)
        if partitions < 1:
            raise ConfigError(f"topic {topic!r}: expected at least one partition, found {partitions}")
        if not 1 <= replicas <= len(ids):
            raise ConfigError(
                f"topic {topic!r}: expected a replication factor from 1 to {len(ids)}, found {replicas}"
            )
        placed = {
            number: tuple(ids[(number + place) % len(ids)] for place in range(replicas))
            for number in range(partitions)
        }
        done = self.zookeeper.write(
            Create(TopicConfig.path(topic), TopicConfig(configs).encode()),
            Create(Topic.path(topic), Topic(placed).encode()),
        )
        if isinstance(done, MultiRefused):
            exists = self.zookeeper.find(Topic.path(topic)) is not None
            why = "it exists already" if exists else f"{TopicConfig.path(topic)}: {done.code.value}"
            raise ConflictError(f"topic {topic!r} was not created: {why}")
        self._wait(lambda: self._unserved(self.partitions(topic)), timeout_s)

    def delete_topic(self, topic: str, timeout_s: float = PATIENCE_S) -> None:
        """Deletes a topic with its records and its committed offsets; returns when it is done.

        That takes every broker that has a replica. Raises ConfigError if there is no such topic.
        """
        self.partitions(topic)
        self.zookeeper.put(TopicDeletion.path(topic), TopicDeletion().encode())
        gone = f"topic {topic!r} is not deleted yet; brokers {named(self.running)} run"
        self._wait(lambda: [gone] if self.zookeeper.find(Topic.path(topic)) else [], timeout_s)

    def kill(self, broker: int, *, expire: bool = True) -> None:
        """Ends a broker as the death of its process: connections are cut, and its shutdown is not clean.

        `expire`: its session ends at once, so that others take over within a second; False: after the session
        timeout, as when a real process dies.
        """
        one, running = self._known(broker), self.broker(broker)
        with self._lock:
            self.zookeeper.suspend(one.client)
            one.loops.resume()
            running._kill()
            self._ended(one, "was killed")
            if expire:
                self.zookeeper.expire(one.client)

    def stop(self, broker: int) -> None:
        """Closes a broker in order: others lead its partitions before it goes (controlled shutdown)."""
        one, running = self._known(broker), self.broker(broker)
        with self._lock:
            self._heal(one, "pause")
            one.loops.resume()
            running.close()
            self._ended(one, "was stopped")

    def _ended(self, one: KafkaClusterBroker, state: str) -> None:
        one.broker, one.state = None, state
        one.cuts.clear()
        self._links.heal(one.id)

    def restart(self, broker: int, timeout_s: float = PATIENCE_S) -> None:
        """Starts a broker that was killed or stopped, or has failed; returns when it is registered.

        It has its data and its port. Raises ConflictError if it runs, TimeoutError, and the error that stops
        the broker, such as ConflictError if another program has its port meanwhile; it can be repeated.
        """
        one = self._known(broker)
        with self._lock:
            if one.running is not None:
                raise ConflictError(f"broker {broker} runs already")
            one.bury()
            self._start(one)
        try:
            self.wait_until_ready(timeout_s)
        finally:
            one.bury()

    def pause(self, broker: int) -> None:
        """Stops a broker as SIGSTOP does: it accepts connections and answers nothing, until `resume`.

        Its session expires after the session timeout.
        """
        one, _ = self._known(broker), self.broker(broker)
        with self._lock:
            one.loops.pause()
            self._cut(one, "pause")

    def resume(self, broker: int) -> None:
        """Lets a paused broker go on, in its session or, if that has expired, in a new one."""
        one, _ = self._known(broker), self.broker(broker)
        with self._lock:
            self._heal(one, "pause")
            one.loops.resume()

    def isolate(self, broker: int, *, zookeeper: bool = True, brokers: bool = True) -> None:
        """Cuts a broker off from ZooKeeper, from the other brokers, or from both; clients still reach it.

        Without ZooKeeper its session expires after the session timeout. `heal` ends it.
        """
        one, _ = self._known(broker), self.broker(broker)
        with self._lock:
            if brokers:
                self._links.isolate(broker)
            if zookeeper:
                self._cut(one, "isolate")

    def heal(self, broker: int | None = None) -> None:
        """Ends `isolate` of one broker or of all."""
        self._check_started()
        with self._lock:
            for one in [self._known(broker)] if broker is not None else list(self._brokers.values()):
                self._links.heal(one.id)
                self._heal(one, "isolate")

    def expire(self, broker: int) -> None:
        """Ends the session of a broker now, as if its timeout had passed; it registers again if it can."""
        self.broker(broker)
        self.zookeeper.expire(self._known(broker).client)

    def _cut(self, one: KafkaClusterBroker, reason: str) -> None:
        one.cuts.add(reason)
        self.zookeeper.suspend(one.client)

    def _heal(self, one: KafkaClusterBroker, reason: str) -> None:
        one.cuts.discard(reason)
        if one.broker is not None and not one.cuts:
            self.zookeeper.resume(one.client)

    def wait_until_ready(self, timeout_s: float = PATIENCE_S) -> None:
        """Waits until all brokers that are not paused or isolated are registered and know each other.

        Raises TimeoutError, and the error that stopped a broker.
        """
        self._wait(self._unready, timeout_s)

    def wait_for_controller(self, timeout_s: float = PATIENCE_S) -> int:
        """The active controller, once one of the running brokers is it."""
        while True:
            self._wait(self._uncontrolled, timeout_s)
            if (found := self.controller) is not None:
                return found

    def wait_for_leader(self, topic: str, partition: int = 0, timeout_s: float = PATIENCE_S) -> int:
        """The leader of a partition, once it serves and all brokers name it to clients."""
        tp = TopicPartition(topic, partition)
        while True:
            self._wait(lambda: self._unserved([tp]), timeout_s)
            if (found := self._leader(tp)) is not None:
                return found

    def wait_for_isr(
        self, topic: str, isr: Iterable[int], partition: int = 0, timeout_s: float = PATIENCE_S
    ) -> None:
        """Waits until these brokers, in any order, are the in-sync replicas of a partition."""
        wanted = set(isr)

        def different() -> list[str]:
            try:
                found = self.isr(topic, partition)
            except ConfigError as error:  # it may be created meanwhile
                return [str(error)]
            return [] if set(found) == wanted else [f"the ISR of {topic}-{partition} is {sorted(found)}"]

        self._wait(different, timeout_s)

    def _wait(self, missing: Callable[[], list[str]], timeout_s: float) -> None:
        """Waits until nothing is missing."""
        self._check_started()
        last: list[str] = []

        def is_over() -> bool:
            last[:] = missing()
            return not last

        def message() -> str:
            more = [f"and {len(last) - NAMED_MAX} more"] if len(last) > NAMED_MAX else []
            return "; ".join([*last[:NAMED_MAX], *more])

        wait_until(is_over, timeout_s, message)

    def _reachable(self) -> dict[int, Broker]:
        """The brokers that run and are neither paused nor isolated. Raises the error that stopped one."""
        found = {
            one.id: one.broker
            for one in self._brokers.values()
            if one.broker is not None and not one.cuts and not self._links.is_isolated(one.id)
        }
        if not found:
            raise ZkGroupError("no broker can be reached: all are killed, stopped, paused or isolated")
        for broker in found.values():
            broker.check()
        return found

    def _unready(self) -> list[str]:
        reachable = self._reachable()
        missing = [
            f"broker {one} is not registered"
            for one, broker in reachable.items()
            if broker.epoch is None or broker.epoch != self._registered_epoch(one)
        ]
        if missing:
            return missing
        for one, broker in reachable.items():
            with suppress(StoreUnavailableError):  # it does not listen yet
                if broker.health().live_brokers >= reachable.keys():
                    continue
            missing.append(f"broker {one} does not know all others")
        return missing

    def _registered_epoch(self, broker: int) -> int | None:
        found = self.zookeeper.find(BrokerRegistration.path(broker))
        return None if found is None else found.stat.czxid

    def _uncontrolled(self) -> list[str]:
        found = self.controller
        return [] if found in self._reachable() else [f"the active controller is {found}"]

    def _unserved(self, partitions: Collection[TopicPartition]) -> list[str]:
        """The reason for which partitions cannot be used yet."""
        reachable = self._reachable()
        missing = []
        for tp in partitions:
            try:
                state = self._state(self._existing(tp))
            except ConfigError as error:  # it may be created meanwhile
                missing.append(str(error))
                continue
            if state is None or state.leader not in reachable:
                missing.append(f"{tp} has no leader that can be reached: {state or 'no state'}")
                continue
            view = reachable[state.leader].replicas().get(tp)
            if view is None or view.role is not Role.LEADER or view.leader_epoch != state.leader_epoch:
                missing.append(f"broker {state.leader} does not lead {tp} yet")
        for one, broker in reachable.items():
            known = broker.leaders(partitions)
            missing += [
                f"broker {one} does not name the leader of {tp} yet"
                for tp in partitions
                if known.get(tp) != self._leader(tp)
            ]
        return missing
