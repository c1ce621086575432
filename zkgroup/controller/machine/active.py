"""The active controller: its features and what they share, from its election until it resigns.

Theory of operation
-------------------
An active controller begins with `Elected` and is dropped whole with `Resigned`: nothing of it survives
(KAFKA-5310). Watches, timers and the responses of brokers only enqueue events; `next` takes the first event
and returns its handler as a procedure, which reads, decides, writes and sends. One handler runs at a time and
waits for ZooKeeper alone, never for a broker.

What was written is sent: the sender keeps the partitions whose state got a new leader epoch that no
LeaderAndIsr has carried yet. A handler sends a batch; what it leaves goes out when it ends, and after a
missing reply everything is read again (`LOAD`) and compared, so that a write whose reply was lost is sent
too. A leader of 0.8.2.2 that never receives such a write never changes its ISR again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from zkgroup.controller.machine import event_manager
from zkgroup.controller.machine.context import ControllerContext
from zkgroup.controller.machine.controller_election.elector import ControllerIdentity, Elector
from zkgroup.controller.machine.deletion.deletion import EpochBump, TopicDeletions
from zkgroup.controller.machine.deletion.stray_replicas import StrayReplicaDeletion
from zkgroup.controller.machine.event_manager import (
    EVENT_TIMER,
    EventKind,
    EventManager,
    EventProcessor,
    Handler,
)
from zkgroup.controller.machine.events import BrokerAnswered
from zkgroup.controller.machine.failover.brokers import BrokerChanges
from zkgroup.controller.machine.failover.loading import Loading
from zkgroup.controller.machine.failover.notifications import Notifications
from zkgroup.controller.machine.failover.slots import Slots
from zkgroup.controller.machine.failover.topics import TopicChanges
from zkgroup.controller.machine.feature import FeatureHooks, SharedParts
from zkgroup.controller.machine.leadership import requested_elections
from zkgroup.controller.machine.leadership.controlled_shutdown import ControlledShutdowns
from zkgroup.controller.machine.leadership.initial_state import InitialStates
from zkgroup.controller.machine.leadership.leader_election import LeaderElections
from zkgroup.controller.machine.leadership.requested_elections import PreferredElections, UncleanElections
from zkgroup.controller.machine.open_reassignments import OpenReassignments
from zkgroup.controller.machine.pending_deletes import PART_BYTES, PendingDeletes
from zkgroup.controller.machine.reassignment.completion import ReassignmentCompletion
from zkgroup.controller.machine.reassignment.plans import ReassignmentPlans
from zkgroup.controller.machine.reassignment.rounds import Reassignments
from zkgroup.controller.machine.requests.sender import RequestSender
from zkgroup.controller.machine.settings import ControllerSettings, ElectorContext
from zkgroup.controller.machine.state_writes import StateWriter
from zkgroup.controller.machine.status import StatusPublisher
from zkgroup.controller.machine.znode_reader import ZnodeReader
from zkgroup.runtime.procedures import Work


class Features:
    """The features, as the table of handlers names them. A feature may call those above it."""

    def __init__(self, parts: SharedParts) -> None:
        self.parts = parts
        self.elections = LeaderElections(parts, InitialStates(parts))
        self.stray_replicas = StrayReplicaDeletion(parts)
        self.topic_deletions = TopicDeletions(parts, self.elections, self.stray_replicas)
        self.brokers = BrokerChanges(parts, self.elections, self.stray_replicas)
        self.slots = Slots(parts)
        self.topics = TopicChanges(parts, self.elections, self.stray_replicas, self.slots)
        self.loading = Loading(
            parts, self.brokers, self.topics, self.stray_replicas, self.elections, self.slots
        )
        self.epoch_bump = EpochBump(parts)
        self.notifications = Notifications(parts)
        self.shutdowns = ControlledShutdowns(parts, self.elections)
        self.preferred_elections = PreferredElections(parts, self.elections)
        self.unclean_elections = UncleanElections(parts, self.elections)
        self.reassignments = Reassignments(
            parts,
            ReassignmentCompletion(parts, self.stray_replicas),
            self.elections,
            self.topics,
            self.topic_deletions,
            self.stray_replicas,
        )
        self.plans = ReassignmentPlans(parts)
        self.status = StatusPublisher(parts)


class Row(NamedTuple):
    kind: EventKind
    handler: Callable[[Features], Handler]
    """Called once for each active controller, when it is elected."""
    reason: str = ""
    """The reason for which the handler changes leaders; the kind's name where it is empty."""


EVENT_HANDLERS: Final = (
    Row(event_manager.LOAD, lambda f: f.loading.load, "take-over"),
    Row(event_manager.EPOCH_BUMP, lambda f: f.epoch_bump.bump_epoch),
    Row(event_manager.BROKERS, lambda f: f.brokers.on_broker_changes, "change of brokers"),
    Row(event_manager.TOPICS, lambda f: f.topics.on_topic_list_change, "new topic"),
    Row(event_manager.TOPIC, lambda f: f.topics.on_topic_change, "new partition"),
    Row(event_manager.UNREADABLE_STATES, lambda f: f.topics.on_unreadable_states, "state readable again"),
    Row(event_manager.ISR_CHANGES, lambda f: f.notifications.on_isr_changes),
    Row(event_manager.CONFIG_CHANGES, lambda f: f.notifications.on_config_changes),
    Row(event_manager.ELECTIONS, lambda f: f.elections.on_elections, "leader cannot serve"),
    Row(event_manager.SHUTDOWNS, lambda f: f.shutdowns.on_shutdown_requests, "controlled shutdown"),
    Row(event_manager.REASSIGNMENT, lambda f: f.reassignments.run_round, "reassignment"),
    Row(
        requested_elections.PREFERRED_ELECTION,
        lambda f: f.preferred_elections.on_request,
        "preferred election",
    ),
    Row(
        requested_elections.UNCLEAN_ELECTION,
        lambda f: f.unclean_elections.on_requests,
        "unclean election requested",
    ),
    Row(event_manager.DELETIONS, lambda f: f.topic_deletions.on_deletions, "deletion"),
    Row(event_manager.STRAY_REPLICAS, lambda f: f.stray_replicas.delete_stray_replicas),
    Row(
        event_manager.REPLICAS_OF_DELETED_TOPICS,
        lambda f: f.stray_replicas.on_abandoned_replicas,
        "broker may have replicas again",
    ),
    Row(event_manager.STRAY_RECORDS, lambda f: f.stray_replicas.on_stray_records),
    Row(
        requested_elections.BALANCE,
        lambda f: f.preferred_elections.check_balance,
        "preferred election, automatic",
    ),
    Row(event_manager.SLOT_REPLICAS, lambda f: f.slots.add_replicas),
    Row(event_manager.PLANS, lambda f: f.plans.on_plans),
    Row(event_manager.STATUS, lambda f: f.status.publish),
)
"""The first kind, loading, comes before all others; a later one is not passed over for ever."""


class ActiveController:
    """One controller while it is active. Not thread-safe: the machine's thread steps it."""

    def __init__(self, core: ElectorContext, election: Elector, settings: ControllerSettings) -> None:
        """Begins by loading. Only for an election that was won."""
        self.parts = _parts(core, election, settings)
        self.features = Features(self.parts)
        self._election = election
        self._processor = EventProcessor(
            core,
            self.parts.context,
            self.parts.events,
            {row.kind: (row.handler(self.features), row.reason) for row in EVENT_HANDLERS},
            forget_watches=self.parts.reader.forget_watches,
            after_event=self.parts.requests.send_unsent,
        )
        self.parts.events.enqueue_load()

    @property
    def context(self) -> ControllerContext:
        return self.parts.context

    @property
    def is_current(self) -> bool:
        return self.parts.identity.is_current

    def next(self) -> Work | None:
        return self._processor.next()

    def connected(self) -> None:
        """A new connection of the same session: all watches are gone, so everything is read again."""
        self._processor.load_again()

    def timer_fired(self) -> None:
        self.parts.events.timer_fired()

    def responded(self, event: BrokerAnswered) -> None:
        for response in self.parts.requests.responded(event):
            self.parts.hooks.responded(response)

    def flush(self) -> None:
        """Sends what is due, while it may be sent."""
        if self._election.may_send:
            self.parts.requests.queues.flush()

    def stop(self) -> None:
        """The controller has resigned. Requests that wait for a response get one."""
        self.parts.requests.stop()
        self.parts.core.cancel_timer(EVENT_TIMER)
        self.parts.hooks.stop()


def _parts(core: ElectorContext, election: Elector, settings: ControllerSettings) -> SharedParts:
    identity = ControllerIdentity(core, election)
    context = ControllerContext(core.config.inter_broker)
    events = EventManager(core, [row.kind for row in EVENT_HANDLERS])
    reader = ZnodeReader(core, context, events)
    reassignments = OpenReassignments()
    pending_deletes = PendingDeletes(min(PART_BYTES, core.config.request_bytes_max // 8))
    requests = RequestSender(
        core,
        context,
        pending_deletes,
        reassignments,
        epoch=lambda: identity.epoch,
        enqueue=events.enqueue,
    )
    states = StateWriter(core, context, identity, events, reader, requests)
    hooks = FeatureHooks(context, requests, states)
    return SharedParts(
        core,
        settings,
        identity,
        context,
        events,
        reader,
        states,
        requests,
        pending_deletes,
        reassignments,
        hooks,
    )
