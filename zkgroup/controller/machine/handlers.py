"""Which procedure looks at what: the one place where the parts of a controller meet.

A part adds its module here: one line for each kind of work, one for the answers of brokers that it needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from zkgroup.controller.machine import status
from zkgroup.controller.machine.active import ActiveController, Handler, ResponseHandler
from zkgroup.controller.machine.controller_election import epochs
from zkgroup.controller.machine.controller_election.elector import Elector
from zkgroup.controller.machine.deletion import deletion, stray_replicas
from zkgroup.controller.machine.event_queue import EventKind
from zkgroup.controller.machine.failover import brokers, loading, notifications, topics
from zkgroup.controller.machine.leadership import controlled_shutdown, leader_election, preferred, unclean
from zkgroup.controller.machine.reassignment import plans, rounds
from zkgroup.controller.machine.settings import ControllerSettings, ElectorContext

EVENT_HANDLERS: Final[Mapping[EventKind, Handler]] = {
    EventKind.LOAD: loading.load,
    EventKind.EPOCH: epochs.bump_epoch,
    EventKind.BROKERS: brokers.on_broker_changes,
    EventKind.TOPICS: topics.on_topic_list_change,
    EventKind.TOPIC: topics.on_topic_change,
    EventKind.UNREADABLE_STATES: topics.on_unreadable_states,
    EventKind.ISR_CHANGES: notifications.on_isr_changes,
    EventKind.CONFIG_CHANGES: notifications.on_config_changes,
    EventKind.ELECTIONS: leader_election.elect_offline,
    EventKind.SHUTDOWNS: controlled_shutdown.on_shutdown_requests,
    EventKind.REASSIGNMENT: rounds.run_round,
    EventKind.PREFERRED_ELECTION: preferred.on_preferred_election_request,
    EventKind.UNCLEAN_ELECTION: unclean.on_unclean_election_requests,
    EventKind.DELETIONS: deletion.on_deletions,
    EventKind.STRAYS: stray_replicas.delete_stray_replicas,
    EventKind.ABANDONED: stray_replicas.on_abandoned_replicas,
    EventKind.STRAY_RECORDS: stray_replicas.on_stray_records,
    EventKind.BALANCE: preferred.check_balance,
    EventKind.PLANS: plans.on_plans,
    EventKind.STATUS: status.publish,
}

RESPONSE_HANDLERS: Final[tuple[ResponseHandler, ...]] = (
    deletion.on_stop_replica_response,
    stray_replicas.on_abandoned_response,
    stray_replicas.on_stray_response,
    topics.on_response,
)
"""Told of every answer of a broker, in this order."""


def new_active_controller(
    core: ElectorContext, election: Elector, settings: ControllerSettings
) -> ActiveController:
    """The reign of an election that was just won."""
    return ActiveController(core, election, settings, EVENT_HANDLERS, RESPONSE_HANDLERS)
