"""Controlled shutdowns (controller.md 5.9): other brokers lead what brokers that will stop lead.

(kafka/controller/KafkaController.scala, ControlledShutdown, @0.8.2.2; in batches as from 1.1 on, recipients
as from 2.1 on, KAFKA-7482.) The response does not wait for the brokers that get LeaderAndIsr: it says what is
written.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from zkgroup.controller.machine import event_manager
from zkgroup.controller.machine.events import ShutdownAnswered, ShutdownAsked
from zkgroup.controller.machine.feature import Feature, SharedParts
from zkgroup.controller.machine.leadership import selectors
from zkgroup.controller.machine.leadership.leader_election import LeaderElections
from zkgroup.controller.machine.leadership.selectors import Choice, NoChoice, NotNeeded, PartitionElection
from zkgroup.controller.machine.state_machines import PartitionAndReplica, ReplicaPhase
from zkgroup.model import TopicPartition
from zkgroup.runtime.procedures import Procedure
from zkgroup.wire.messages import ErrorCode


class ShutdownRequest(NamedTuple):
    """The request of a broker for a controlled shutdown, and which incarnation sent it."""

    request_id: int
    broker: int
    incarnation: int


class ControlledShutdowns(Feature):
    """Moves leaderships away from brokers that will stop."""

    def __init__(self, parts: SharedParts, elections: LeaderElections) -> None:
        super().__init__(parts)
        self._elections = elections
        self._waiting: list[ShutdownRequest] = []
        """The unanswered requests, in order. Each is answered once, by the handler or by `stop`."""

    def requested(self, event: ShutdownAsked) -> None:
        known = self._context.brokers.get(event.broker)
        if known is None:
            is_loaded = self._context.is_loaded
            error = ErrorCode.BROKER_NOT_AVAILABLE if is_loaded else ErrorCode.STALE_CONTROLLER_EPOCH
            self._core.emit(ShutdownAnswered(event.request_id, error))
            return
        self._waiting.append(ShutdownRequest(event.request_id, event.broker, known.epoch))
        self._events.enqueue(event_manager.SHUTDOWNS)

    def stop(self) -> None:
        for request in self._waiting:
            self._core.emit(ShutdownAnswered(request.request_id, ErrorCode.STALE_CONTROLLER_EPOCH))
        self._waiting.clear()

    def on_shutdown_requests(self) -> Procedure[None]:
        """Elects other leaders for all brokers that have asked, together, and answers them.

        A request stays until it is answered, so none is forgotten if a reply of ZooKeeper is missing.
        """
        asked = list(self._waiting)
        known = {each.broker for each in asked if self._is_there(each)}
        if known:
            yield from self._hand_over(known)
        for each in asked:
            self._waiting.remove(each)
            if each.broker in known and self._is_there(each):
                remaining = tuple(sorted(self._led(each.broker)))
                self._core.note("shutdown.answered", broker=each.broker, remaining=len(remaining))
                self._core.emit(ShutdownAnswered(each.request_id, ErrorCode.NONE, remaining))
            else:
                self._core.emit(ShutdownAnswered(each.request_id, ErrorCode.BROKER_NOT_AVAILABLE))

    def _is_there(self, asked: ShutdownRequest) -> bool:
        """Returns whether the incarnation that asked still runs. Another one does not stop."""
        found = self._context.brokers.get(asked.broker)
        if found is None or asked.broker not in self._context.live_or_shutting_down:
            return False
        return asked.incarnation == found.epoch

    def _hand_over(self, brokers: Collection[int]) -> Procedure[None]:
        """Others lead what the brokers led; what they followed they stop, and leave its ISR."""
        context = self._context
        context.shutting_down.update(brokers)
        led = [each for broker in sorted(brokers) for each in self._led(broker)]
        followed = [
            PartitionAndReplica(each, broker)
            for broker in sorted(brokers)
            for each in context.on_broker(broker)
            if self._can_be_led_by_others(each)
            and (leadership := context.leadership(each))
            and leadership.leader != broker
        ]

        def select(topic_partition: TopicPartition, now: PartitionElection) -> Choice | NoChoice | NotNeeded:
            if now.leader not in context.shutting_down:
                return NotNeeded(now.leader)
            return selectors.controlled_shutdown(now, context.shutting_down)

        batch = self._requests.batch()
        yield from self._elections.elect(led, select, batch)
        yield from self._elections.remove_from_isr(followed, batch)
        stopped = self._context.replica_phases.move(followed, ReplicaPhase.OFFLINE).done
        for (topic_partition, broker), before in stopped.items():
            if before is not ReplicaPhase.OFFLINE:
                batch.stop_replica([broker], topic_partition, delete=False)
        self._requests.send(batch)

    def _led(self, broker: int) -> list[TopicPartition]:
        return [each for each in self._context.led_by(broker) if self._can_be_led_by_others(each)]

    def _can_be_led_by_others(self, topic_partition: TopicPartition) -> bool:
        """Partitions with one replica are left alone, and so are topics that are being deleted."""
        context = self._context
        return len(context.replicas(topic_partition)) > 1 and not context.is_going(topic_partition)
