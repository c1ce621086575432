"""Before a broker opens its port: parents, the cluster's id, who else is there, the own id.

Source: controller.md 1.1, 1.2, 8.2; recipes 15; kafka/server/KafkaServer.scala@0.8.2.2 and @2.8.2.
"""

from __future__ import annotations

from zkgroup.broker.machine.core import Core
from zkgroup.broker.machine.effects import Prepared
from zkgroup.errors import ConfigError, CorruptZnodeError, ForeignBrokersError
from zkgroup.machinery.machine import Work
from zkgroup.machinery.procedures import Procedure, Query, ask, list_done, read_allowed, read_many, write
from zkgroup.model import Znode
from zkgroup.model.requests import Create, CreateMissing, ListChildren, MultiDone, SetData, Sync
from zkgroup.znodes.brokers import BrokerRegistration, broker_ids_path
from zkgroup.znodes.cluster import BrokerSequence, ClusterId, common_parents, later_parents

ANY_VERSION = -1
"""`/brokers/seqid` is set whatever its version is: who sets it last has the greatest number."""


class Preparing:
    """The part of a broker that runs once, in the first session that lets it."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.is_done = False

    def next(self) -> Work | None:
        return None if self.is_done else ("prepare", self._prepare)

    def _prepare(self) -> Procedure[None]:
        core = self._core
        yield from make_parents()
        registered = yield from self._others()
        if core.has_failed:
            return
        cluster_id = yield from self._cluster_id()
        while core.broker is None:
            core.broker = yield from self._given_out(registered)
        self.is_done = True
        core.emit(Prepared(core.broker, cluster_id))

    def _others(self) -> Procedure[frozenset[str]]:
        """Names that are registered. Among brokers of Kafka ours does not start: it cannot follow them."""
        _, listed = yield from ask(Query(Sync(broker_ids_path())), Query(ListChildren(broker_ids_path())))
        names = list_done(listed).children
        if not names:
            return frozenset()
        found = yield from read_allowed([f"{broker_ids_path()}/{name}" for name in names])
        foreign = []
        for name, znode in zip(names, found, strict=True):
            if isinstance(znode, Znode) and self._is_foreign(znode):
                foreign.append(name)
        if foreign:
            self._core.fail(ForeignBrokersError(sorted(foreign, key=_as_number)))
        return frozenset(names)

    def _is_foreign(self, znode: Znode) -> bool:
        """One that cannot be read is reported; nobody can say whose it is."""
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
            # refused: somebody else was faster, and that id is read
            yield from write([Create(path, ClusterId.of(self._core.config.new_cluster_id).encode())], ())

    def _given_out(self, registered: frozenset[str]) -> Procedure[int | None]:
        """An id that nobody else is given; None where a person has given it to a broker already."""
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
    """What a broker of 0.8.2.2 makes at start, and what tools of later releases look for."""
    yield from ask(Query(CreateMissing((*common_parents(), *later_parents()))))


def _as_number(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isdecimal() else (2**31, name)
