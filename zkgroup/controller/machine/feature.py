"""The parts that the features of the active controller share, and the base class of features.

A feature owns its state; no other feature touches it. All features read one `ControllerContext` and write it
through the readers and writers here (docs/adr/0031).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from zkgroup.controller.machine.context import ControllerContext
from zkgroup.controller.machine.controller_election.elector import ControllerIdentity
from zkgroup.controller.machine.event_manager import EventKind, EventManager
from zkgroup.controller.machine.fenced_writes import Refusal
from zkgroup.controller.machine.open_reassignments import OpenReassignments
from zkgroup.controller.machine.pending_deletes import PendingDeletes
from zkgroup.controller.machine.requests.sender import BrokerResponse, RequestSender
from zkgroup.controller.machine.settings import ControllerSettings, ElectorContext
from zkgroup.controller.machine.state_machines import (
    ItemT,
    PartitionAndReplica,
    PartitionPhase,
    PhaseT,
    PhaseTable,
    ReplicaPhase,
)
from zkgroup.controller.machine.state_writes import StateWriter
from zkgroup.controller.machine.znode_reader import ZnodeReader
from zkgroup.model import TopicPartition

AGAIN_MS: Final = 1_000
"""Pause before a handler runs again because another client has written meanwhile."""


class FeatureHooks:
    """The features of one active controller; passes on what concerns every one of them."""

    def __init__(self, context: ControllerContext, requests: RequestSender, states: StateWriter) -> None:
        self._context = context
        self._requests = requests
        self._states = states
        self._features: list[Feature] = []

    def add(self, feature: Feature) -> None:
        self._features.append(feature)

    def forget_topic(self, topic: str) -> None:
        """The topic is gone: nothing that is known of it applies to another topic of the same name."""
        partitions = tuple(self._context.partitions(topic))
        self._requests.topic_forgotten(partitions)
        self._states.topic_forgotten(partitions)
        self._context.forget_topic(topic)
        self._context.deletions.discard(topic)
        for feature in self._features:
            feature.topic_forgotten(topic, partitions)

    def loaded(self) -> None:
        for feature in self._features:
            feature.loaded()

    def broker_gone(self, broker: int) -> None:
        """This incarnation is gone, perhaps for a new one: no request sent to it can still arrive."""
        for feature in self._features:
            feature.broker_gone(broker)
        self._requests.broker_gone(broker)

    def responded(self, response: BrokerResponse) -> None:
        for feature in self._features:
            feature.on_response(response)

    def stop(self) -> None:
        for feature in self._features:
            feature.stop()


@dataclass(frozen=True, slots=True)
class SharedParts:
    """The parts of one active controller that all features share. None of them is state of a feature."""

    core: ElectorContext
    settings: ControllerSettings
    identity: ControllerIdentity
    context: ControllerContext
    events: EventManager
    reader: ZnodeReader
    states: StateWriter
    requests: RequestSender
    pending_deletes: PendingDeletes
    reassignments: OpenReassignments
    hooks: FeatureHooks


class Feature:
    """Base of the features. A subclass overrides the hooks that concern it."""

    def __init__(self, parts: SharedParts) -> None:
        self._parts = parts
        self._core = parts.core
        self._settings = parts.settings
        self._identity = parts.identity
        self._context = parts.context
        self._events = parts.events
        self._reader = parts.reader
        self._states = parts.states
        self._requests = parts.requests
        self._pending_deletes = parts.pending_deletes
        self._reassignments = parts.reassignments
        self._hooks = parts.hooks
        parts.hooks.add(self)

    def loaded(self) -> None:
        """Everything was read: the feature enqueues the events whose handlers have to run once."""

    def on_response(self, response: BrokerResponse) -> None:
        """A broker has responded to a request."""

    def topic_forgotten(self, topic: str, partitions: Sequence[TopicPartition]) -> None:
        """The topic, which had these partitions, is gone."""

    def broker_gone(self, broker: int) -> None:
        """This incarnation of the broker is gone, perhaps for a new one."""

    def stop(self) -> None:
        """The controller has resigned: requests that wait for a response get one."""

    def _is_settled(self, refusal: Refusal | None, kind: EventKind, waiting: Iterable[str] = ()) -> bool:
        """Returns whether a write is done. If not its event comes again: soon after another client's write,
        with growing backoffs after an ACL or a limit. `waiting`: see `EventManager.back_off`."""
        if refusal is None:
            return True
        if refusal.is_conflict:
            self._events.enqueue_later(kind, AGAIN_MS)
        else:
            self._events.back_off(str(refusal), waiting)
        return False

    def _set_phase(
        self, table: PhaseTable[ItemT, PhaseT], items: Iterable[ItemT], after: PhaseT
    ) -> Mapping[ItemT, PhaseT]:
        """Changes the phase of those for which it is allowed; returns the phases before (controller.md 3.1,
        3.2)."""
        moved = table.move(items, after)
        for illegal in moved.illegal:
            self._core.note("transition.refused", detail=illegal)
        return moved.done

    def _set_partition_phase(
        self, partitions: Iterable[TopicPartition], after: PartitionPhase
    ) -> Mapping[TopicPartition, PartitionPhase]:
        return self._set_phase(self._context.partition_phases, partitions, after)

    def _set_replica_phase(self, replicas: Iterable[PartitionAndReplica], after: ReplicaPhase) -> None:
        self._set_phase(self._context.replica_phases, replicas, after)
