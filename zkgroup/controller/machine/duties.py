"""Which procedure looks at what: the one place where the parts of a controller meet.

A part adds its module here: one line for each kind of work, one for the answers of brokers that it needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from zkgroup.controller.machine import (
    abandoned,
    brokers,
    deletions,
    isr_changes,
    leading,
    loading,
    mended,
    plans,
    preferring,
    raising,
    reassigning,
    reconfiguring,
    shutdowns,
    status,
    stray_records,
    strays,
    topics,
    unclean_elections,
)
from zkgroup.controller.machine.agenda import Look
from zkgroup.controller.machine.core import Core
from zkgroup.controller.machine.election import Election
from zkgroup.controller.machine.reign import Duty, Listener, Reign
from zkgroup.controller.machine.rule_books import ControllerSettings

DUTIES: Final[Mapping[Look, Duty]] = {
    Look.LOAD: loading.load,
    Look.EPOCH: raising.look,
    Look.BROKERS: brokers.look,
    Look.TOPICS: topics.look,
    Look.TOPIC: topics.look_at_one,
    Look.UNREADABLE_STATES: mended.look,
    Look.ISR_CHANGES: isr_changes.look,
    Look.CONFIG_CHANGES: reconfiguring.look,
    Look.ELECTIONS: leading.look,
    Look.SHUTDOWNS: shutdowns.look,
    Look.REASSIGNMENT: reassigning.look,
    Look.PREFERRED_ELECTION: preferring.look,
    Look.UNCLEAN_ELECTION: unclean_elections.look,
    Look.DELETIONS: deletions.look,
    Look.STRAYS: strays.look,
    Look.ABANDONED: abandoned.look,
    Look.STRAY_RECORDS: stray_records.look,
    Look.BALANCE: preferring.look_at_balance,
    Look.PLANS: plans.look,
    Look.STATUS: status.look,
}

LISTENERS: Final[tuple[Listener, ...]] = (deletions.heard, abandoned.heard, strays.heard, mended.heard)
"""Told of every answer of a broker, in this order."""


def begin(core: Core, election: Election, settings: ControllerSettings) -> Reign:
    """The reign of an election that was just won."""
    return Reign(core, election, settings, DUTIES, LISTENERS)
