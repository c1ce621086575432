"""States that cannot be read: each is watched, and its partition goes on once somebody has mended it.

All else reads a state when something happens to its partition, which after the mending need not come.
Source: controller.md 1.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from zkgroup.controller.machine.active import ActiveController
from zkgroup.controller.machine.event_queue import EventKind
from zkgroup.controller.machine.failover.topics import on_new_partitions
from zkgroup.controller.machine.requests.sender import BrokerResponse
from zkgroup.controller.machine.state_writes import unreadable_states
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Exists, Refused
from zkgroup.runtime.procedures import Procedure, ask_allowed
from zkgroup.wire.control import LeaderAndIsrResponse
from zkgroup.znodes.brokers import PartitionState

HIDDEN_MS: Final = 5_000
"""Pause before a state that an ACL hides is read again: no watch tells of another ACL."""


def on_unreadable_states(active: ActiveController, subject: str = "") -> Procedure[None]:
    """Handles `EventKind.UNREADABLE_STATES`. Another handler may have read a mended state before."""
    if paths := unreadable_states(active):
        yield from _read_again(active, paths)
    mended = [each for each in active.readable_again if each in active.context]
    yield from on_new_partitions(active, mended)
    for each in mended:
        active.readable_again.pop(each, None)
    if any(each in active.reassignments for each in mended):
        active.enqueue(EventKind.REASSIGNMENT)


def _read_again(active: ActiveController, paths: Mapping[str, TopicPartition]) -> Procedure[None]:
    """Watches these states, and reads them; those that can be read now are in
    `ActiveController.readable_again`.
    """
    seen = yield from ask_allowed(
        *(active.watched(Exists(path), EventKind.UNREADABLE_STATES) for path in paths)
    )
    for path, outcome in zip(paths, seen, strict=True):
        if isinstance(outcome, Refused):  # from 3.8.4 on a server lets nobody watch what an ACL hides
            active.forget_watch(path)
    found = yield from active.read_many(list(paths))
    if len(found) < len(paths):
        active.enqueue_later(EventKind.UNREADABLE_STATES, HIDDEN_MS)
    for path, each in paths.items():
        if active.decoded(found.get(path), PartitionState.decode) is not None:
            active.readable_again[each] = None


def on_response(active: ActiveController, answer: BrokerResponse) -> None:
    """What a broker was told of after all is no more named as what its first LeaderAndIsr has lacked."""
    if not isinstance(answer.response, LeaderAndIsrResponse) or answer.broker not in active.requests.omitted:
        return
    told = {each.topic_partition for each in answer.response.partitions}
    left = tuple(each for each in active.requests.omitted.pop(answer.broker) if each not in told)
    if left:
        active.requests.omitted[answer.broker] = left
