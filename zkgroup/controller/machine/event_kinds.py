"""The kinds of events that more than one feature enqueues. The table in `handlers` ranks them.

A kind that one feature alone enqueues is declared in the module of that feature.
"""

from __future__ import annotations

from typing import Final

from zkgroup.controller.machine.event_queue import EventKind

LOAD: Final = EventKind("load")
"""Read everything: after an election, on each new connection, and after a missing reply."""
EPOCH_BUMP: Final = EventKind("epoch")
"""A new controller epoch, as an old copy of a StopReplica with deletion may still arrive."""
BROKERS: Final = EventKind("brokers")
"""The registrations of brokers."""
TOPICS: Final = EventKind("topics")
"""The list of topics."""
TOPIC: Final = EventKind("topic")
"""The replica lists of one topic."""
UNREADABLE_STATES: Final = EventKind("unreadable states")
"""States of partitions that could not be read."""
ISR_CHANGES: Final = EventKind("isr changes")
"""Notifications of leaders that have changed an ISR."""
CONFIG_CHANGES: Final = EventKind("config changes")
"""Notifications of tools that have changed a configuration."""
ELECTIONS: Final = EventKind("elections")
"""Partitions without a leader that can serve, or without a state."""
SHUTDOWNS: Final = EventKind("shutdowns")
"""Brokers that have requested a controlled shutdown."""
REASSIGNMENT: Final = EventKind("reassignment")
"""The open reassignments, and the request for them."""
DELETIONS: Final = EventKind("deletions")
"""Topics that are queued for deletion."""
SLOT_REPLICAS: Final = EventKind("slot replicas")
"""Slots of group coordinators that may have more replicas."""
STRAY_REPLICAS: Final = EventKind("stray replicas")
"""Replicas that a reassignment has left behind and that could not be deleted."""
REPLICAS_OF_DELETED_TOPICS: Final = EventKind("replicas of deleted topics")
"""Replicas of deleted topics, on brokers that the deletion has not waited for."""
STRAY_RECORDS: Final = EventKind("stray records")
"""The records of replicas that brokers may still have."""
PLANS: Final = EventKind("plans")
"""Stored reassignment plans whose next phase may be submitted."""
STATUS: Final = EventKind("status")
"""The status znode of the controller."""
