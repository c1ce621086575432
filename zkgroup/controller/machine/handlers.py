"""The table of events: every kind in the order of handling, with its handler and the reason for the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from zkgroup.controller.machine import event_kinds
from zkgroup.controller.machine.event_processor import Handler
from zkgroup.controller.machine.event_queue import EventKind
from zkgroup.controller.machine.features import Features
from zkgroup.controller.machine.leadership import preferred, unclean


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
