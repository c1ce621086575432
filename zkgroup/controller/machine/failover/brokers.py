"""Brokers that start, stop and bounce. Source: controller.md 5.1, 5.2; recipes.md 13, 15."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from zkgroup.controller.machine.active import ActiveController
from zkgroup.controller.machine.context import LiveBroker
from zkgroup.controller.machine.event_queue import EventKind
from zkgroup.controller.machine.leadership.leader_election import elect_leaderless, remove_from_isr
from zkgroup.controller.machine.state_machines import PartitionPhase, Replica, ReplicaPhase
from zkgroup.model.requests import ListChildren
from zkgroup.runtime.procedures import Procedure, ask, list_done
from zkgroup.znodes.brokers import BrokerRegistration, broker_ids_path
from zkgroup.znodes.json_fields import INT32, decimal, show

HOST_BYTES_MAX: Final = 255
"""Longest name of a host (RFC 1035)."""
PORTS: Final = range(1, 65536)


def on_broker_changes(active: ActiveController, subject: str = "") -> Procedure[None]:
    """The registrations: who is new, gone, or another incarnation than the one known (K7)."""
    found = yield from registered(active)
    yield from apply_changes(active, found)


def registered(active: ActiveController) -> Procedure[dict[int, LiveBroker]]:
    """All registrations that can be read; the others are reported and passed over (recipes 13).

    The list is read with its watch, and then every registration: a broker that went and came back between two
    readings is known by its czxid alone.
    """
    (outcome,) = yield from ask(active.watched(ListChildren(broker_ids_path()), EventKind.BROKERS))
    names = list_done(outcome).children
    active.only(broker_ids_path(), names)
    ids: dict[str, int] = {}
    for name in names:
        id_ = decimal(name, range(INT32[-1] + 1))
        if id_ is None:
            active.report(f"{broker_ids_path()}/{name}", "expected a broker id as the name")
        else:
            ids[BrokerRegistration.path(id_)] = id_
    znodes = yield from active.read_many(ids)
    found = {}
    for path, znode in znodes.items():
        registration = active.decoded(znode, BrokerRegistration.decode)
        if registration is None:
            continue
        if (why := _unusable(registration)) is not None:
            active.report(path, why)
        else:
            found[ids[path]] = LiveBroker(registration, znode.stat.czxid)
    return found


def _unusable(registration: BrokerRegistration) -> str | None:
    """Why a registration with an address names no place that others can be told of, or None."""
    host, port = registration.host, registration.port
    if host is None:
        return None
    if not 0 < len(host.encode("utf-8", "surrogatepass")) <= HOST_BYTES_MAX or _is_torn(host):
        return f"expected a host of 1 to {HOST_BYTES_MAX} bytes of UTF-8, found {show(host)}"
    if port not in PORTS:
        return f"expected a port from {PORTS[0]} to {PORTS[-1]}, found {port}"
    return None


def _is_torn(text: str) -> bool:
    """Whether it holds half of a pair of surrogates, which JSON can say and UTF-8 cannot."""
    return any("\ud800" <= each <= "\udfff" for each in text)


def apply_changes(active: ActiveController, found: Mapping[int, LiveBroker]) -> Procedure[None]:
    """Takes the registrations for what they are. A bounced broker is gone, and then new."""
    context = active.context
    known = context.brokers
    bounced = {id_ for id_ in known if id_ in found and found[id_].epoch != known[id_].epoch}
    change = context.set_brokers({id_: each for id_, each in found.items() if id_ not in bounced})
    for id_ in change.gone:
        active.requests.queues.close(id_)
        active.broker_restarted(id_)
    open_channels(active, change.new)
    if change.gone:
        active.core.note("brokers.gone", brokers=tuple(sorted(change.gone)))
        yield from on_broker_failure(active, change.gone)
    context.set_brokers(found)
    open_channels(active, bounced)
    if new := (change.new | bounced) & context.reachable:
        active.core.note("brokers.new", brokers=tuple(sorted(new)))
        yield from on_broker_startup(active, new)


def open_channels(active: ActiveController, brokers: Collection[int]) -> None:
    """Channels to those of the brokers that are told things."""
    for id_ in sorted(active.context.reachable.intersection(brokers)):
        active.requests.queues.open(id_, active.context.brokers[id_], active.epoch)


def on_broker_failure(active: ActiveController, brokers: Collection[int]) -> Procedure[None]:
    """They are gone: others lead what they led, they leave every ISR, all hear of the live brokers (K27)."""
    context = active.context
    led = [each for id_ in sorted(brokers) for each in context.led_by(id_) if not context.is_going(each)]
    active.move_partitions(led, PartitionPhase.OFFLINE)
    batch = active.requests.batch()
    yield from elect_leaderless(active, batch)
    lost = [
        Replica(each, id_)
        for id_ in sorted(brokers)
        for each in context.on_broker(id_)
        if not context.is_going(each)
    ]
    active.move_replicas(lost, ReplicaPhase.OFFLINE)
    yield from remove_from_isr(active, lost, batch)
    batch.update_metadata()
    active.requests.send(batch)
    _queue_followups(active)


def on_broker_startup(active: ActiveController, brokers: Collection[int]) -> Procedure[None]:
    """They are new: they hear of everything, the others of them; what had no leader may have one now."""
    context = active.context
    first = active.requests.batch()
    first.update_metadata_of_all(brokers)
    active.requests.send(first)
    theirs = [Replica(each, id_) for id_ in sorted(brokers) for each in context.on_broker(id_)]
    back = [each for each in theirs if not context.is_going(each.topic_partition)]
    active.move_replicas(back, ReplicaPhase.ONLINE)
    batch = active.requests.batch()
    yield from elect_leaderless(active, batch)
    for topic_partition, broker in back:
        batch.leader_and_isr([broker], topic_partition)
    active.requests.send(batch)
    for topic_partition, _ in theirs:
        context.ineligible.pop(topic_partition.topic, None)
    _queue_followups(active)
    if active.strays:
        active.enqueue(EventKind.STRAYS)
    if active.pending_deletes.abandoned:
        active.enqueue(EventKind.ABANDONED)


def _queue_followups(active: ActiveController) -> None:
    for on_broker_changes in (EventKind.REASSIGNMENT, EventKind.DELETIONS):
        active.enqueue(on_broker_changes)
