"""The requests to brokers that follow from one decision, in order. Source: batching (controller.md 7.3),
Kafka brokers and moves (recipes 15 and 17).

(kafka/controller/ControllerChannelManager.scala@0.8.2.2, ControllerBrokerRequestBatch.)

A batch takes the states as the context has them when it is built, so it sends what was written, also
meanwhile, and not what was meant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from zkgroup.controller.machine.context import Brokers, ControllerContext, LeaderIsrAndControllerEpoch
from zkgroup.controller.machine.events import BrokerRequest, ControlRequest
from zkgroup.controller.machine.pending_deletes import PendingDeletes
from zkgroup.model import TopicPartition
from zkgroup.wire.control import (
    PROTOCOL_IDS,
    BrokerEndPoint,
    LeaderAndIsrRequest,
    PartitionStateInfo,
    StopReplicaRequest,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
)
from zkgroup.wire.messages import encode
from zkgroup.znodes.brokers import PartitionState

Targets = Mapping[TopicPartition, Brokers]
"""Partition to the target of its move, for moves that are past step 7."""


@dataclass(frozen=True, slots=True)
class BuiltRequests:
    requests: tuple[BrokerRequest, ...]
    """All LeaderAndIsr, then all UpdateMetadata, then all StopReplica."""
    omitted_partitions: Mapping[int, tuple[TopicPartition, ...]]
    """Broker to what is missing in its first LeaderAndIsr, as it cannot be read: it may fetch that again."""


class RequestBatch:
    """Requests to brokers that follow from one decision."""

    def __init__(self, controller: int, epoch: int) -> None:
        self._controller = controller
        self._epoch = epoch
        self._leaders: dict[int, dict[TopicPartition, Brokers | None]] = {}
        self._stops: dict[tuple[bool, int], dict[TopicPartition, None]] = {}
        self._metadata: dict[TopicPartition, None] = {}
        self._everything: frozenset[int] | None = frozenset()
        """Brokers that get every partition in UpdateMetadata; None for all."""
        self._has_metadata = False
        self.leads_all = False
        """True if every broker gets the states of all its partitions in LeaderAndIsr."""

    @property
    def named(self) -> frozenset[TopicPartition]:
        """The partitions that a LeaderAndIsr names, beside those of `leads_all`."""
        return frozenset(each for asked in self._leaders.values() for each in asked)

    def led(self, context: ControllerContext) -> Iterator[TopicPartition]:
        """All partitions that a LeaderAndIsr names."""
        named = self.named
        yield from named
        if self.leads_all:
            rest = (each for each in context.partitions() if each not in named)
            yield from (each for each in rest if not context.is_going(each))

    def reaches(self, topic_partition: TopicPartition, brokers: Iterable[int]) -> bool:
        """Returns whether all these brokers get the partition's state."""
        return all(topic_partition in self._leaders.get(broker, ()) for broker in brokers)

    def leader_and_isr(
        self, brokers: Iterable[int], topic_partition: TopicPartition, replicas: Brokers | None = None
    ) -> None:
        """The partition's state to these brokers, and to all in UpdateMetadata. The last call wins.

        `replicas` is the list to send where it is not the one in the context: the target, late in a
        reassignment. A stop queued here for the pair earlier is dropped: it would undo this.
        """
        for broker in brokers:
            self._leaders.setdefault(broker, {})[topic_partition] = replicas
            for delete in (False, True) if self._stops else ():
                self._stops.get((delete, broker), {}).pop(topic_partition, None)
        self._has_metadata = True
        self._metadata[topic_partition] = None

    def leader_and_isr_of_all(self) -> None:
        """To every broker the states of all that it has, but for topics that are being deleted."""
        assert not self._stops, "what was stopped before would have to be sent again (late StopReplica, K28)"
        self._has_metadata = self.leads_all = True

    def stop_replica(self, brokers: Iterable[int], topic_partition: TopicPartition, *, delete: bool) -> None:
        """The brokers stop fetching the partition; with `delete` they remove it."""
        for broker in brokers:
            self._stops.setdefault((delete, broker), {})[topic_partition] = None

    def update_metadata(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """The live brokers and these partitions, to every broker; without partitions the brokers alone."""
        self._has_metadata = True
        self._metadata.update(dict.fromkeys(partitions))

    def update_metadata_of_all(self, brokers: Iterable[int] | None = None) -> None:
        """The list of live brokers and every partition, to every broker or to these.

        The others get the live brokers and the partitions named (KAFKA-7537).
        """
        self._has_metadata = True
        if brokers is None or self._everything is None:
            self._everything = None
        else:
            self._everything |= frozenset(brokers)

    def build(
        self, context: ControllerContext, pending_deletes: PendingDeletes, late: Targets | None = None
    ) -> BuiltRequests:
        """The requests, from the states that the context has now.

        `late` are the targets of reassignments that are past step 7: from there on they are the replica list
        of every LeaderAndIsr. Notes in the context which brokers get their first LeaderAndIsr.
        """
        late = late or {}
        odd = {topic for topic, _ in late} | pending_deletes.topics(context) | context.deletions
        view = _View(context, pending_deletes, late, frozenset(odd))
        omitted: dict[int, tuple[TopicPartition, ...]] = {}
        requests: list[BrokerRequest] = []
        for broker in sorted(self._led(context)):
            is_first = context.first_request_sent.get(broker) != context.brokers[broker].epoch
            if is_first or self.leads_all:
                infos, missing = self._all_of(view, broker)
            else:
                infos, missing = view.infos(broker, self._leaders[broker]), []
            if is_first:
                context.first_request_sent[broker] = context.brokers[broker].epoch
                if missing:
                    omitted[broker] = tuple(missing)
            if infos:
                leaders = view.addresses({info.leader for info in infos})
                request = LeaderAndIsrRequest(self._controller, self._epoch, infos, leaders)
                requests.append(view.to(broker, request))
        requests.extend(self._update_metadata(view))
        requests.extend(self._stop_replicas(view))
        return BuiltRequests(tuple(requests), omitted)

    def _led(self, context: ControllerContext) -> Collection[int]:
        asked = self._leaders.keys() & context.live_or_shutting_down
        if not self.leads_all:
            return asked
        return asked | {
            broker
            for broker in context.live_or_shutting_down
            if any(not context.is_going(each) for each in context.on_broker(broker))
        }

    def _all_of(
        self, view: _View, broker: int
    ) -> tuple[tuple[PartitionStateInfo, ...], list[TopicPartition]]:
        """Returns what a broker has, and what of it cannot be named: a follower of 0.8.2.2 truncates to
        nothing what its first request does not name."""
        context, asked = view.context, self._leaders.get(broker, {})
        odd = view.odd | {
            each.topic
            for each, given in asked.items()
            if given is not None or broker not in context.replicas(each)
        }
        infos: list[PartitionStateInfo] = []
        singly = {each: given for each, given in asked.items() if each.topic in odd}
        for name, numbers in context.topics_on(broker):
            if name not in odd:
                infos += view.of_topic(name, numbers)
                continue
            for each in [TopicPartition(name, number) for number in numbers]:
                is_sent = self.leads_all or broker in view.replicas(each, None)
                if is_sent and not context.is_going(each):
                    singly.setdefault(each, None)
        if singly:
            infos = sorted((*infos, *view.infos(broker, singly)))
        unreadable = context.unreadable and [
            each
            for each in context.on_broker(broker)
            if context.leadership(each) is None
            and _is_unreadable(view, each)
            and (each.topic not in odd or (each in singly and not context.is_going(each)))
        ]
        return tuple(infos), unreadable or []

    def _update_metadata(self, view: _View) -> Iterator[BrokerRequest]:
        """One body for all that get the same: a hundred thousand partitions are encoded once."""
        if not self._has_metadata:
            return
        live_or_shutting_down = view.context.live_or_shutting_down
        full = live_or_shutting_down if self._everything is None else self._everything & live_or_shutting_down
        for brokers, infos in (
            (full, view.of_all),
            (live_or_shutting_down - full, lambda: view.of_each(sorted(self._metadata))),
        ):
            if brokers:
                request = self._metadata_request(view, infos())
                bodies: dict[int, bytes] = {}
                for broker in sorted(brokers):
                    version = view.metadata_version(broker)
                    if version not in bodies:
                        bodies[version] = encode(request, version)
                    yield view.to(broker, request, bodies[version], version)

    def _metadata_request(self, view: _View, partitions: list[PartitionStateInfo]) -> UpdateMetadataRequest:
        context = view.context
        partitions.extend(
            _going(each, context.leadership(each), context.replicas(each), self._epoch)
            for topic in sorted(context.deletions)
            for each in context.partitions(topic)
            if context.is_going(each) and (context.leadership(each) or _is_unreadable(view, each))
        )
        return UpdateMetadataRequest(self._controller, self._epoch, tuple(partitions), live_brokers(context))

    def _stop_replicas(self, view: _View) -> Iterator[BrokerRequest]:
        """One request for each broker and flag; to stop comes before to delete."""
        for (delete, broker), partitions in sorted(self._stops.items()):
            if partitions and broker in view.context.live_or_shutting_down:
                request = StopReplicaRequest(self._controller, self._epoch, delete, tuple(sorted(partitions)))
                yield view.to(broker, request)


@dataclass(frozen=True, slots=True)
class _View:
    context: ControllerContext
    pending_deletes: PendingDeletes
    late: Targets
    odd: frozenset[str]
    """Topics of which a replica list is not sent as it is, or nothing at all."""
    topics: dict[str, dict[int, PartitionStateInfo]] = field(default_factory=dict)
    """Of the other topics, what was made already, by number."""
    known: dict[TopicPartition, PartitionStateInfo] = field(default_factory=dict)
    """Of single partitions, what was built already: every replica of one gets the same."""

    def to(
        self, broker: int, request: ControlRequest, body: bytes | None = None, version: int = 0
    ) -> BrokerRequest:
        return BrokerRequest(broker, self.context.brokers[broker].epoch, request, body, version)

    def metadata_version(self, broker: int) -> int:
        """The version of UpdateMetadata: brokers of zkgroup get all listeners where there are others than
        the one plain listener that version 0 has."""
        is_zkgroup = self.context.brokers[broker].registration.is_zkgroup
        return LISTENERS_VERSION if is_zkgroup and not self.context.are_plain else 0

    def replicas(self, topic_partition: TopicPartition, given: Brokers | None) -> Brokers:
        """The list to be sent, without replicas that may still be deleted, also to their leader."""
        replicas = given or self.late.get(topic_partition) or self.context.replicas(topic_partition)
        left_out = self.pending_deletes.left_out(self.context, topic_partition)
        return tuple(each for each in replicas if each not in left_out) if left_out else replicas

    def infos(
        self, broker: int, asked: dict[TopicPartition, Brokers | None]
    ) -> tuple[PartitionStateInfo, ...]:
        found = []
        for topic_partition in sorted(asked):
            given = asked[topic_partition]
            leadership = self.context.leadership(topic_partition)
            if leadership and broker not in self.pending_deletes.of(self.context, topic_partition):
                found.append(self.info(topic_partition, leadership, given))
        return tuple(found)

    def of_all(self) -> list[PartitionStateInfo]:
        """Every partition with a state that is not being deleted, in order."""
        found: list[PartitionStateInfo] = []
        for name in sorted(self.context.topics):
            if name in self.odd:
                found += self.of_each(self.context.partitions(name))
            else:
                found += self._of_topic(name).values()
        return found

    def of_each(self, partitions: Iterable[TopicPartition]) -> list[PartitionStateInfo]:
        """Those of them with a state that are not being deleted."""
        context = self.context
        return [
            self.info(each, leadership, None)
            for each in partitions
            if not context.is_going(each) and (leadership := context.leadership(each))
        ]

    def of_topic(self, name: str, numbers: Collection[int]) -> Iterable[PartitionStateInfo]:
        """Those of these partitions with a state; the topic is not odd."""
        infos, seen = self._of_topic(name), self.context.topic(name)
        if seen is not None and len(numbers) == len(seen.topic.partitions):
            return infos.values()
        return [infos[number] for number in numbers if number in infos]

    def _of_topic(self, name: str) -> dict[int, PartitionStateInfo]:
        found = self.topics.get(name)
        if found is None:
            seen = self.context.topic(name)
            assert seen is not None
            found = self.topics[name] = {}
            for number, replicas in sorted(seen.topic.partitions.items()):
                if (leadership := seen.leaderships.get(number)) is not None:
                    found[number] = PartitionStateInfo.of(
                        (name, number), leadership.state, leadership.version, replicas
                    )
        return found

    def info(
        self, topic_partition: TopicPartition, leadership: LeaderIsrAndControllerEpoch, given: Brokers | None
    ) -> PartitionStateInfo:
        if given is None and (known := self.known.get(topic_partition)):
            return known
        replicas = self.replicas(topic_partition, given)
        found = PartitionStateInfo.of(topic_partition, leadership.state, leadership.version, replicas)
        if given is None:
            self.known[topic_partition] = found
        return found

    def addresses(self, brokers: Collection[int]) -> tuple[BrokerEndPoint, ...]:
        endpoints = self.context.endpoints
        return tuple(
            BrokerEndPoint(broker, endpoints[broker].host or "", endpoints[broker].port)
            for broker in sorted(endpoints.keys() & brokers)
        )


LISTENERS_VERSION: Final = 3
"""The first version of UpdateMetadata in which listeners have names."""


def live_brokers(context: ControllerContext) -> tuple[UpdateMetadataBroker, ...]:
    """All brokers that can be reached, for UpdateMetadata: the inter-broker listener for version 0, and all
    listeners for later ones."""
    found = []
    for broker, endpoint in sorted(context.endpoints.items()):
        registration = context.brokers[broker].registration
        endpoints = tuple(
            UpdateMetadataEndpoint(each.port, each.host, each.listener, PROTOCOL_IDS[each.protocol])
            for each in registration.listeners
            if each.host is not None and each.protocol in PROTOCOL_IDS
        )
        found.append(
            UpdateMetadataBroker(broker, endpoint.host or "", endpoint.port, endpoints, registration.rack)
        )
    return tuple(found)


def _is_unreadable(view: _View, topic_partition: TopicPartition) -> bool:
    return PartitionState.path(topic_partition) in view.context.unreadable


def _going(
    topic_partition: TopicPartition,
    leadership: LeaderIsrAndControllerEpoch | None,
    replicas: Brokers,
    epoch: int,
) -> PartitionStateInfo:
    """A partition of a topic that is being deleted, as 0.8.2.2 sends it: receivers forget it. Also one whose
    state cannot be read: what brokers know of it would outlive it."""
    decided, isr = (leadership.controller_epoch, leadership.isr) if leadership is not None else (epoch, ())
    return PartitionStateInfo.during_delete(topic_partition, decided, isr, replicas)
