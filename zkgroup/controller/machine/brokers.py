"""Brokers that start, stop and bounce. Source: controller.md 5.1, 5.2; recipes.md 13, 15."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from zkgroup.controller.machine.agenda import Look
from zkgroup.controller.machine.leading import elect_leaderless, remove_from_isr
from zkgroup.controller.machine.picture import LiveBroker
from zkgroup.controller.machine.reign import Reign
from zkgroup.controller.machine.transitions import PartitionPhase, Replica, ReplicaPhase
from zkgroup.machinery.procedures import Procedure, ask, list_done
from zkgroup.model.requests import ListChildren
from zkgroup.znodes.broker_paths import broker_ids_path
from zkgroup.znodes.brokers import BrokerRegistration
from zkgroup.znodes.json_object import INT32, decimal, show

HOST_BYTES_MAX: Final = 255
"""Longest name of a host (RFC 1035)."""
PORTS: Final = range(1, 65536)


def look(reign: Reign, subject: str = "") -> Procedure[None]:
    """The registrations: who is new, gone, or another incarnation than the one known (K7)."""
    found = yield from registered(reign)
    yield from follow(reign, found)


def registered(reign: Reign) -> Procedure[dict[int, LiveBroker]]:
    """All registrations that can be read; the others are reported and passed over (recipes 13).

    The list is read with its watch, and then every registration: a broker that went and came back between two
    readings is known by its czxid alone.
    """
    (outcome,) = yield from ask(reign.watched(ListChildren(broker_ids_path()), Look.BROKERS))
    names = list_done(outcome).children
    reign.only(broker_ids_path(), names)
    ids: dict[str, int] = {}
    for name in names:
        id_ = decimal(name, range(INT32[-1] + 1))
        if id_ is None:
            reign.report(f"{broker_ids_path()}/{name}", "expected a broker id as the name")
        else:
            ids[BrokerRegistration.path(id_)] = id_
    znodes = yield from reign.read_many(ids)
    found = {}
    for path, znode in znodes.items():
        registration = reign.decoded(znode, BrokerRegistration.decode)
        if registration is None:
            continue
        if (why := _unusable(registration)) is not None:
            reign.report(path, why)
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


def follow(reign: Reign, found: Mapping[int, LiveBroker]) -> Procedure[None]:
    """Takes the registrations for what they are. A bounced broker is gone, and then new."""
    picture = reign.picture
    known = picture.brokers
    bounced = {id_ for id_ in known if id_ in found and found[id_].epoch != known[id_].epoch}
    change = picture.set_brokers({id_: each for id_, each in found.items() if id_ not in bounced})
    for id_ in change.gone:
        reign.channels.close(id_)
        reign.restarted(id_)
    open_channels(reign, change.new)
    if change.gone:
        reign.core.note("brokers.gone", brokers=tuple(sorted(change.gone)))
        yield from fail(reign, change.gone)
    picture.set_brokers(found)
    open_channels(reign, bounced)
    if new := (change.new | bounced) & picture.reachable:
        reign.core.note("brokers.new", brokers=tuple(sorted(new)))
        yield from begin(reign, new)


def open_channels(reign: Reign, brokers: Collection[int]) -> None:
    """Channels to those of the brokers that are told things."""
    for id_ in sorted(reign.picture.reachable.intersection(brokers)):
        reign.channels.open(id_, reign.picture.brokers[id_], reign.epoch)


def fail(reign: Reign, brokers: Collection[int]) -> Procedure[None]:
    """They are gone: others lead what they led, they leave every ISR, all hear of the live brokers (K27)."""
    picture = reign.picture
    led = [each for id_ in sorted(brokers) for each in picture.led_by(id_) if not picture.is_going(each)]
    reign.move_partitions(led, PartitionPhase.OFFLINE)
    batch = reign.batch()
    yield from elect_leaderless(reign, batch)
    lost = [
        Replica(each, id_)
        for id_ in sorted(brokers)
        for each in picture.on_broker(id_)
        if not picture.is_going(each)
    ]
    reign.move_replicas(lost, ReplicaPhase.OFFLINE)
    yield from remove_from_isr(reign, lost, batch)
    batch.update_metadata()
    reign.tell(batch)
    _others_look(reign)


def begin(reign: Reign, brokers: Collection[int]) -> Procedure[None]:
    """They are new: they hear of everything, the others of them; what had no leader may have one now."""
    picture = reign.picture
    first = reign.batch()
    first.update_metadata_of_all(brokers)
    reign.tell(first)
    theirs = [Replica(each, id_) for id_ in sorted(brokers) for each in picture.on_broker(id_)]
    back = [each for each in theirs if not picture.is_going(each.topic_partition)]
    reign.move_replicas(back, ReplicaPhase.ONLINE)
    batch = reign.batch()
    yield from elect_leaderless(reign, batch)
    for topic_partition, broker in back:
        batch.leader_and_isr([broker], topic_partition)
    reign.tell(batch)
    for topic_partition, _ in theirs:
        picture.ineligible.pop(topic_partition.topic, None)
    _others_look(reign)
    if reign.strays:
        reign.look(Look.STRAYS)
    if reign.holding.abandoned:
        reign.look(Look.ABANDONED)


def _others_look(reign: Reign) -> None:
    for look in (Look.REASSIGNMENT, Look.DELETIONS):
        reign.look(look)
