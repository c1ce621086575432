"""The features of an active controller, and the table of events.

The table has every kind of event in the order of handling, with its handler and the reason for the log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from zkgroup.controller.machine import event_kinds
from zkgroup.controller.machine.controller_election.elector import Elector
from zkgroup.controller.machine.deletion.deletion import TopicDeletions
from zkgroup.controller.machine.deletion.epoch_bump import EpochBump
from zkgroup.controller.machine.deletion.stray_replicas import StrayReplicaDeletion
from zkgroup.controller.machine.event_processor import Handler
from zkgroup.controller.machine.event_queue import EventKind
from zkgroup.controller.machine.failover.brokers import BrokerChanges
from zkgroup.controller.machine.failover.loading import Loading
from zkgroup.controller.machine.failover.notifications import Notifications
from zkgroup.controller.machine.failover.slots import Slots
from zkgroup.controller.machine.failover.topics import TopicChanges
from zkgroup.controller.machine.leadership import preferred, unclean
from zkgroup.controller.machine.leadership.controlled_shutdown import ControlledShutdowns
from zkgroup.controller.machine.leadership.initial_state import InitialStates
from zkgroup.controller.machine.leadership.leader_election import LeaderElections
from zkgroup.controller.machine.leadership.preferred import PreferredElections
from zkgroup.controller.machine.leadership.unclean import UncleanElections
from zkgroup.controller.machine.open_reassignments import OpenReassignments
from zkgroup.controller.machine.ports import Ports
from zkgroup.controller.machine.reassignment.completion import ReassignmentCompletion
from zkgroup.controller.machine.reassignment.plans import ReassignmentPlans
from zkgroup.controller.machine.reassignment.rounds import Reassignments
from zkgroup.controller.machine.status import StatusPublisher


class Features:
    """The features, as the table of handlers names them. A feature may call those above it."""

    def __init__(self, ports: Ports, election: Elector, open_reassignments: OpenReassignments) -> None:
        self.ports = ports
        self.elections = LeaderElections(ports, InitialStates(ports))
        self.stray_replicas = StrayReplicaDeletion(ports, open_reassignments)
        self.topic_deletions = TopicDeletions(ports, self.elections, self.stray_replicas)
        self.brokers = BrokerChanges(ports, self.elections, self.stray_replicas)
        self.slots = Slots(ports, open_reassignments)
        self.topics = TopicChanges(ports, self.elections, self.stray_replicas, open_reassignments, self.slots)
        self.loading = Loading(
            ports, election, self.brokers, self.topics, self.stray_replicas, self.elections, self.slots
        )
        self.epoch_bump = EpochBump(ports, election)
        self.notifications = Notifications(ports, open_reassignments)
        self.shutdowns = ControlledShutdowns(ports, self.elections)
        self.preferred_elections = PreferredElections(ports, self.elections)
        self.unclean_elections = UncleanElections(ports, self.elections)
        self.reassignments = Reassignments(
            ports,
            open_reassignments,
            ReassignmentCompletion(ports, open_reassignments, self.stray_replicas),
            self.elections,
            self.topics,
            self.topic_deletions,
            self.stray_replicas,
        )
        self.plans = ReassignmentPlans(ports, open_reassignments)
        self.status = StatusPublisher(ports)


class Row(NamedTuple):
    """One kind of event."""

    kind: EventKind
    handler: Callable[[Features], Handler]
    """Called once for each active controller, when it is elected."""
    reason: str = ""
    """Why the handler changes leaders and leader epochs; the kind's name where it is empty."""


EVENT_HANDLERS: Final = (
    Row(event_kinds.LOAD, lambda f: f.loading.load, "take-over"),
    Row(event_kinds.EPOCH_BUMP, lambda f: f.epoch_bump.bump_epoch),
    Row(event_kinds.BROKERS, lambda f: f.brokers.on_broker_changes, "change of brokers"),
    Row(event_kinds.TOPICS, lambda f: f.topics.on_topic_list_change, "new topic"),
    Row(event_kinds.TOPIC, lambda f: f.topics.on_topic_change, "new partition"),
    Row(event_kinds.UNREADABLE_STATES, lambda f: f.topics.on_unreadable_states, "state readable again"),
    Row(event_kinds.ISR_CHANGES, lambda f: f.notifications.on_isr_changes),
    Row(event_kinds.CONFIG_CHANGES, lambda f: f.notifications.on_config_changes),
    Row(event_kinds.ELECTIONS, lambda f: f.elections.elect_offline, "leader cannot serve"),
    Row(event_kinds.SHUTDOWNS, lambda f: f.shutdowns.on_shutdown_requests, "controlled shutdown"),
    Row(event_kinds.REASSIGNMENT, lambda f: f.reassignments.run_round, "reassignment"),
    Row(preferred.PREFERRED_ELECTION, lambda f: f.preferred_elections.on_request, "preferred election"),
    Row(unclean.UNCLEAN_ELECTION, lambda f: f.unclean_elections.on_requests, "unclean election requested"),
    Row(event_kinds.DELETIONS, lambda f: f.topic_deletions.on_deletions, "deletion"),
    Row(event_kinds.STRAY_REPLICAS, lambda f: f.stray_replicas.delete_stray_replicas),
    Row(
        event_kinds.REPLICAS_OF_DELETED_TOPICS,
        lambda f: f.stray_replicas.on_abandoned_replicas,
        "broker may have replicas again",
    ),
    Row(event_kinds.STRAY_RECORDS, lambda f: f.stray_replicas.on_stray_records),
    Row(preferred.BALANCE, lambda f: f.preferred_elections.check_balance, "preferred election, automatic"),
    Row(event_kinds.SLOT_REPLICAS, lambda f: f.slots.add_replicas),
    Row(event_kinds.PLANS, lambda f: f.plans.on_plans),
    Row(event_kinds.STATUS, lambda f: f.status.publish),
)
"""The first kind, loading, comes before all others; a later one is not passed over for ever."""
