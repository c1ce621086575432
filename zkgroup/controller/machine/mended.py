"""States that cannot be read: each is watched, and its partition goes on once somebody has mended it.

All else reads a state when something happens to its partition, which after the mending need not come.
Source: controller.md 1.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from zkgroup.controller.machine.agenda import Look
from zkgroup.controller.machine.reign import Reign
from zkgroup.controller.machine.rule_books import Answer
from zkgroup.controller.machine.states import unreadable_states
from zkgroup.controller.machine.topics import begin
from zkgroup.machinery.procedures import Procedure, ask_allowed
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Exists, Refused
from zkgroup.wire.control import LeaderAndIsrResponse
from zkgroup.znodes.brokers import PartitionState

HIDDEN_MS: Final = 5_000
"""Pause before a state that an ACL hides is read again: no watch tells of another ACL."""


def look(reign: Reign, subject: str = "") -> Procedure[None]:
    """The duty of `Look.UNREADABLE_STATES`. Another duty may have read a mended state before this one."""
    if paths := unreadable_states(reign):
        yield from _read_again(reign, paths)
    mended = [each for each in reign.mended if each in reign.picture]
    yield from begin(reign, mended)
    for each in mended:
        reign.mended.pop(each, None)
    if any(each in reign.moves for each in mended):
        reign.look(Look.REASSIGNMENT)


def _read_again(reign: Reign, paths: Mapping[str, TopicPartition]) -> Procedure[None]:
    """Watches these states, and reads them; those that can be read now are in `Reign.mended`."""
    seen = yield from ask_allowed(*(reign.watched(Exists(path), Look.UNREADABLE_STATES) for path in paths))
    for path, outcome in zip(paths, seen, strict=True):
        if isinstance(outcome, Refused):  # from 3.8.4 on a server lets nobody watch what an ACL hides
            reign.forget_watch(path)
    found = yield from reign.read_many(list(paths))
    if len(found) < len(paths):
        reign.later(Look.UNREADABLE_STATES, HIDDEN_MS)
    for path, each in paths.items():
        if reign.decoded(found.get(path), PartitionState.decode) is not None:
            reign.mended[each] = None


def heard(reign: Reign, answer: Answer) -> None:
    """What a broker was told of after all is no more named as what its first LeaderAndIsr has lacked."""
    if not isinstance(answer.response, LeaderAndIsrResponse) or answer.broker not in reign.unnamed:
        return
    told = {each.topic_partition for each in answer.response.partitions}
    left = tuple(each for each in reign.unnamed.pop(answer.broker) if each not in told)
    if left:
        reign.unnamed[answer.broker] = left
