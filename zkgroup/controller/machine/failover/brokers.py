"""Changes of brokers: those that start, stop and restart. Source: broker startup and broker failure
(controller.md 5.1, 5.2); fenced elections and leading Kafka brokers (recipes 13, 15)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from zkgroup.controller.machine import event_manager
from zkgroup.controller.machine.context import LiveBroker
from zkgroup.controller.machine.deletion.stray_replicas import StrayReplicaDeletion
from zkgroup.controller.machine.feature import Feature, SharedParts
from zkgroup.controller.machine.leadership.leader_election import LeaderElections
from zkgroup.controller.machine.state_machines import PartitionAndReplica, PartitionPhase, ReplicaPhase
from zkgroup.errors import PersistentZnodeError
from zkgroup.model.requests import ListChildren
from zkgroup.runtime.procedures import Procedure, ask, list_done
from zkgroup.znodes.brokers import BrokerRegistration, broker_ids_path
from zkgroup.znodes.json_fields import INT32, decimal, show
from zkgroup.znodes.sessions import is_leftover

HOST_BYTES_MAX: Final = 255
"""Longest name of a host (RFC 1035)."""
PORTS: Final = range(1, 65536)


class BrokerChanges(Feature):
    """Follows the registrations of brokers."""

    def __init__(self, parts: SharedParts, elections: LeaderElections, strays: StrayReplicaDeletion) -> None:
        super().__init__(parts)
        self._elections = elections
        self._strays = strays

    def on_broker_changes(self) -> Procedure[None]:
        """Finds brokers that are new, gone, or another incarnation than the known one (unnoticed restarts,
        K7)."""
        found = yield from self.registered()
        yield from self.apply_changes(found)

    def registered(self) -> Procedure[dict[int, LiveBroker]]:
        """All registrations that can be read, and that a session holds; the others are reported and passed
        over (fenced elections, recipes 13).

        The list is read with its watch, and then every registration: a broker that went and came back between
        two readings is known by its czxid alone.
        """
        (outcome,) = yield from ask(
            self._reader.watched(ListChildren(broker_ids_path()), event_manager.BROKERS)
        )
        names = list_done(outcome).children
        self._reader.only(broker_ids_path(), names)
        ids: dict[str, int] = {}
        for name in names:
            id_ = decimal(name, range(INT32[-1] + 1))
            if id_ is None:
                self._reader.report(f"{broker_ids_path()}/{name}", "expected a broker id as the name")
            else:
                ids[BrokerRegistration.path(id_)] = id_
        znodes = yield from self._reader.read_many(ids)
        found = {}
        for path, znode in znodes.items():
            registration = self._reader.decoded(znode, BrokerRegistration.decode)
            if registration is None:
                continue
            if is_leftover(znode):
                self._reader.report(path, str(PersistentZnodeError(path)))
                continue
            if (why := _unusable(registration)) is not None:
                self._reader.report(path, why)
            else:
                found[ids[path]] = LiveBroker(registration, znode.stat.czxid)
        return found

    def apply_changes(self, found: Mapping[int, LiveBroker]) -> Procedure[None]:
        """Takes the registrations for what they are. A bounced broker is gone, and then new."""
        context = self._context
        known = context.brokers
        bounced = {id_ for id_ in known if id_ in found and found[id_].epoch != known[id_].epoch}
        change = context.set_brokers({id_: each for id_, each in found.items() if id_ not in bounced})
        for id_ in change.gone:
            self._requests.queues.close(id_)
            self._hooks.broker_gone(id_)
        self.open_channels(change.new)
        if change.gone:
            self._core.note("brokers.gone", brokers=tuple(sorted(change.gone)))
            yield from self.on_broker_failure(change.gone)
        context.set_brokers(found)
        self.open_channels(bounced)
        if new := (change.new | bounced) & context.live_or_shutting_down:
            self._core.note("brokers.new", brokers=tuple(sorted(new)))
            yield from self.on_broker_startup(new)

    def open_channels(self, brokers: Collection[int]) -> None:
        for id_ in sorted(self._context.live_or_shutting_down.intersection(brokers)):
            live, endpoint = self._context.brokers[id_], self._context.endpoints[id_]
            self._requests.queues.open(id_, live.epoch, endpoint, self._identity.epoch)

    def on_broker_failure(self, brokers: Collection[int]) -> Procedure[None]:
        """Elects other leaders, shrinks the ISRs, sends the live brokers to all (unannounced brokers,
        K27)."""
        context = self._context
        led = [each for id_ in sorted(brokers) for each in context.led_by(id_) if not context.is_going(each)]
        self._set_partition_phase(led, PartitionPhase.OFFLINE)
        batch = self._requests.batch()
        yield from self._elections.elect_leaderless(batch)
        lost = [
            PartitionAndReplica(each, id_)
            for id_ in sorted(brokers)
            for each in context.on_broker(id_)
            if not context.is_going(each)
        ]
        self._set_replica_phase(lost, ReplicaPhase.OFFLINE)
        yield from self._elections.remove_from_isr(lost, batch)
        batch.update_metadata()
        self._requests.send(batch)
        self._queue_followups()

    def on_broker_startup(self, brokers: Collection[int]) -> Procedure[None]:
        """Sends new brokers everything, the others their addresses; elects where there was no leader."""
        context = self._context
        first = self._requests.batch()
        first.update_metadata_of_all(brokers)
        self._requests.send(first)
        theirs = [
            PartitionAndReplica(each, id_) for id_ in sorted(brokers) for each in context.on_broker(id_)
        ]
        back = [each for each in theirs if not context.is_going(each.topic_partition)]
        self._set_replica_phase(back, ReplicaPhase.ONLINE)
        batch = self._requests.batch()
        yield from self._elections.elect_leaderless(batch)
        for topic_partition, broker in back:
            batch.leader_and_isr([broker], topic_partition)
        self._requests.send(batch)
        for topic_partition, _ in theirs:
            context.ineligible.pop(topic_partition.topic, None)
        self._queue_followups()
        self._strays.broker_started()

    def _queue_followups(self) -> None:
        for kind in (event_manager.REASSIGNMENT, event_manager.DELETIONS, event_manager.SLOT_REPLICAS):
            self._events.enqueue(kind)


def _unusable(registration: BrokerRegistration) -> str | None:
    """Returns why a registration has an address that cannot be sent to others, or None."""
    for host, port in [(each.host, each.port) for each in registration.listeners]:
        if host is None:
            continue
        if not 0 < len(host.encode("utf-8", "surrogatepass")) <= HOST_BYTES_MAX or _is_torn(host):
            return f"expected a host of 1 to {HOST_BYTES_MAX} bytes of UTF-8, found {show(host)}"
        if port not in PORTS:
            return f"expected a port from {PORTS[0]} to {PORTS[-1]}, found {port}"
    return None


def _is_torn(text: str) -> bool:
    """Returns whether it holds half of a pair of surrogates, which JSON can say and UTF-8 cannot."""
    return any("\ud800" <= each <= "\udfff" for each in text)
