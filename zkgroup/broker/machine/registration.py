"""Registers a broker at `/brokers/ids/<id>`, and prepares its first registration.

Source: registration of brokers (controller.md 8.2), kafka/zk/KafkaZkClient.scala@2.8.2.

The znode is created and set in one transaction, so that the reply has its czxid, the broker's epoch. If there
is a registration already, it is

* this one's, created by a request whose reply was lost: the broker is registered
* of a former session of this process: deleted and created again in one transaction (KAFKA-7165)
* perhaps of a former process of this broker (stale), by its address or its folder: the broker waits as long
  as a session without its process can last
* another broker's, or persistent, so that it ends with no session: the id is in use, and the broker fails
"""

from __future__ import annotations

from typing import Final

from zkgroup.broker.machine.events import BrokerContext, Prepared, Registered, Serving
from zkgroup.errors import BrokerIdInUseError, ConfigError, CorruptZnodeError, ForeignBrokersError
from zkgroup.model import Znode, ZnodeStat
from zkgroup.model.requests import (
    Code,
    Create,
    CreateMissing,
    Delete,
    ListChildren,
    MultiDone,
    Operation,
    Read,
    SetData,
    Sync,
)
from zkgroup.runtime.events import Watch
from zkgroup.runtime.procedures import (
    ConnectionLossError,
    Procedure,
    Query,
    Work,
    ask,
    list_done,
    read_allowed,
    read_done,
    read_many,
    write,
)
from zkgroup.znodes.brokers import ZKGROUP_KEY, BrokerRegistration, broker_ids_path
from zkgroup.znodes.cluster import BrokerSequence, ClusterId, common_parents, later_parents
from zkgroup.znodes.sessions import is_leftover

REGISTRATION_TIMER: Final = "registration"
SLACK_MS: Final = 2000
"""Milliseconds beyond the session timeout to wait for a registration that may be stale."""


class BrokerRegistrar:
    """Registers one broker, in every session anew."""

    def __init__(self, core: BrokerContext) -> None:
        self._core = core
        self.serving: Serving | None = None
        self.epoch: int | None = None
        """czxid of the last registration."""
        self.is_registered = False
        """True if it is registered in the present session."""
        self._is_blocked = False
        self._blocked_since_ms: int | None = None

    def session_over(self) -> None:
        self.is_registered = self._is_blocked = False
        self._blocked_since_ms = None

    def connected(self) -> None:
        """Restarts the wait for a stale registration: a new leader of the ensemble restarts all sessions."""
        self._blocked_since_ms = None
        self.wake()

    def wake(self) -> None:
        """Reads the other registration again: it may have changed."""
        self._is_blocked = False

    def next(self) -> Work | None:
        if self.serving is None or self.is_registered or self._is_blocked:
            return None
        return "register", self._register

    @property
    def path(self) -> str:
        assert self._core.broker is not None
        return BrokerRegistration.path(self._core.broker)

    def _register(self) -> Procedure[None]:
        try:
            operations = self._made()
        except ConfigError as error:
            self._core.fail(error)
            return
        answer = yield from write(operations, ())
        if isinstance(answer, MultiDone):
            self._registered(answer.stats[-1])
        elif answer.code is Code.NODE_EXISTS:
            yield from self._read_obstacle(operations)
        else:
            yield from make_parents()

    def _made(self) -> tuple[Operation, ...]:
        serving, config = self.serving, self._core.config
        assert serving is not None
        own = {"role": "data"} if serving.folder is None else {"role": "data", "folder": serving.folder}
        if len(serving.endpoints) > 1:
            own["inter_broker_listener"] = config.inter_broker.name
        data = BrokerRegistration.of(
            serving.endpoints,
            self._core.now.wall_ms,
            config.registration_version,
            rack=config.rack,
            extensions={ZKGROUP_KEY: own},
        ).encode()
        return Create(self.path, data, ephemeral=True), SetData(self.path, data, 0)

    def _registered(self, stat: ZnodeStat | None) -> None:
        core = self._core
        assert stat is not None
        assert core.session is not None
        self.is_registered, self._blocked_since_ms = True, None
        self.epoch = stat.czxid
        core.saw_server_time(stat.mtime)
        core.cancel_timer(REGISTRATION_TIMER)
        core.emit(Registered(stat.czxid, core.session.incarnation))

    def _read_obstacle(self, operations: tuple[Operation, ...]) -> Procedure[None]:
        core = self._core
        (outcome,) = yield from ask(Query(Read(self.path)))
        found = read_done(outcome)
        if found is None:
            return
        owner = found.stat.ephemeral_owner
        if core.owns(owner):
            self._registered(found.stat)
        elif owner in core.former_sessions:
            answer = yield from write([Delete(self.path, found.stat.version), *operations], ())
            if isinstance(answer, MultiDone):
                self._registered(answer.stats[-1])
        else:
            yield from self._wait_or_fail(found)

    def _wait_or_fail(self, found: Znode) -> Procedure[None]:
        core = self._core
        assert core.session is not None
        try:
            theirs = BrokerRegistration.decode(self.path, found.data)
        except CorruptZnodeError:
            theirs = None
        if self._blocked_since_ms is None:
            self._blocked_since_ms = core.now.ms
        until_ms = self._blocked_since_ms + core.session.timeout_ms + SLACK_MS
        is_stuck = is_leftover(found)
        if is_stuck or theirs is None or not self._may_be_stale(theirs) or core.now.ms >= until_ms:
            host = None if theirs is None else theirs.host
            core.fail(BrokerIdInUseError(self.path, found.stat.ephemeral_owner, host))
            return
        self._is_blocked = True
        core.set_timer(REGISTRATION_TIMER, until_ms)
        core.note("registration.waits", path=self.path, session=found.stat.ephemeral_owner)
        try:
            (outcome,) = yield from ask(Query(Read(self.path, watch=True), Watch(self.wake)))
        except ConnectionLossError:
            self.wake()
            raise
        if (now := read_done(outcome)) is None or now.stat.czxid != found.stat.czxid:
            self.wake()

    def _may_be_stale(self, theirs: BrokerRegistration) -> bool:
        """Returns whether it may be stale: only a former process of this broker had its port or folder."""
        serving = self.serving
        assert serving is not None
        if not {(each.host, each.port) for each in theirs.listeners}.isdisjoint(
            (each.host, each.port) for each in serving.endpoints
        ):
            return True
        own = theirs.extensions.get(ZKGROUP_KEY)
        return serving.folder is not None and isinstance(own, dict) and own.get("folder") == serving.folder


ANY_VERSION = -1
"""`/brokers/seqid` is set with any version: the last write gets the highest number."""


class BrokerStartup:
    """Prepares a broker once, in its first session: parents, cluster id, broker id."""

    def __init__(self, core: BrokerContext) -> None:
        self._core = core
        self.is_done = False
        self._cluster: str | None = None
        self._is_announced = False

    def next(self) -> Work | None:
        return None if self.is_done else ("prepare", self._prepare)

    def announce(self) -> None:
        """Lets the broker open its port, once: what its clients are and may do has been read by then."""
        if not self._is_announced:
            self._is_announced = True
            assert self._core.broker is not None
            self._core.emit(Prepared(self._core.broker, self._cluster))

    def _prepare(self) -> Procedure[None]:
        core = self._core
        yield from make_parents()
        registered = yield from self._others()
        if core.has_failed:
            return
        self._cluster = yield from self._cluster_id()
        while core.broker is None:
            core.broker = yield from self._given_out(registered)
        self.is_done = True

    def _others(self) -> Procedure[frozenset[str]]:
        """The names of registered brokers.

        Raises if one is Kafka's, as zkgroup's cannot replicate from it.
        """
        _, listed = yield from ask(Query(Sync(broker_ids_path())), Query(ListChildren(broker_ids_path())))
        names = list_done(listed).children
        if not names:
            return frozenset()
        found = yield from read_allowed([f"{broker_ids_path()}/{name}" for name in names])
        foreign = [each for each in found if isinstance(each, Znode) and self._is_foreign(each)]
        if foreign:
            ids = sorted((each.path.rpartition("/")[2] for each in foreign), key=_as_number)
            stuck = [each.path for each in foreign if is_leftover(each)]
            self._core.fail(ForeignBrokersError(ids, stuck))
        return frozenset(names)

    def _is_foreign(self, znode: Znode) -> bool:
        """Returns whether a registration is Kafka's; an unreadable one is reported and is not."""
        try:
            return not BrokerRegistration.decode(znode.path, znode.data).is_zkgroup
        except CorruptZnodeError as error:
            self._core.note("registration.unreadable", path=znode.path, detail=str(error))
            return False

    def _cluster_id(self) -> Procedure[str | None]:
        path = ClusterId.path()
        while True:
            ((znode,),) = yield from read_many([path])
            if znode is not None:
                try:
                    return ClusterId.decode(path, znode.data).id
                except CorruptZnodeError as error:
                    self._core.note("cluster_id.unreadable", path=path, detail=str(error))
                    return None
            # refused: another broker was faster, and its id is read
            yield from write([Create(path, ClusterId.of(self._core.config.new_cluster_id).encode())], ())

    def _given_out(self, registered: frozenset[str]) -> Procedure[int | None]:
        """A new generated id; None if a broker has this id already."""
        data = BrokerSequence().encode()
        answer = yield from write([SetData(BrokerSequence.path(), data, ANY_VERSION)], ())
        if not isinstance(answer, MultiDone):
            yield from make_parents()
            return None
        stat = answer.stats[0]
        assert stat is not None
        try:
            broker = BrokerSequence.broker(stat.version, self._core.config.reserved_max_id)
        except ConfigError as error:
            self._core.fail(error)
            return self._core.config.reserved_max_id
        return None if str(broker) in registered else broker


def make_parents() -> Procedure[None]:
    """Creates the znodes that a broker of 0.8.2.2 creates at its start, and those that later tools read."""
    yield from ask(Query(CreateMissing((*common_parents(), *later_parents()))))


def _as_number(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isdecimal() else (2**31, name)
