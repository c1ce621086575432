"""All features of one active controller, each constructed with the features that it calls."""

from __future__ import annotations

from zkgroup.controller.machine.controller_election.elector import Elector
from zkgroup.controller.machine.deletion.deletion import TopicDeletions
from zkgroup.controller.machine.deletion.epoch_bump import EpochBump
from zkgroup.controller.machine.deletion.stray_replicas import StrayReplicaDeletion
from zkgroup.controller.machine.failover.brokers import BrokerChanges
from zkgroup.controller.machine.failover.loading import Loading
from zkgroup.controller.machine.failover.notifications import Notifications
from zkgroup.controller.machine.failover.slots import Slots
from zkgroup.controller.machine.failover.topics import TopicChanges
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
