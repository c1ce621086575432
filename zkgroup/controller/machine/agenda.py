"""What a controller has yet to look at. Source: controller.md D7, section 10 rule 5.

An event says only that something may have changed; the state is read when its turn comes. So an event that
waits already need not wait twice.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Look(IntEnum):
    """Kinds of work, in the order in which they are taken: what ends this controller's rule comes first."""

    EXPIRED = 0
    CONTROLLER = 1
    """`/controller`, `/controller_epoch` or a request to resign."""
    LOAD = 2
    """Everything: at the start of a rule, on each new connection, and after a missing answer."""
    EPOCH = 3
    """A new epoch, as an old copy of a StopReplica with deletion may still arrive."""
    BROKERS = 4
    TOPICS = 5
    TOPIC = 6
    """The replica lists of one topic."""
    UNREADABLE_STATES = 7
    """States of partitions that somebody may have mended."""
    ISR_CHANGES = 8
    CONFIG_CHANGES = 9
    ELECTIONS = 10
    """Partitions without a leader, or without a state."""
    SHUTDOWNS = 11
    """Brokers that ask to be relieved of their leaderships before they stop."""
    REASSIGNMENT = 12
    PREFERRED_ELECTION = 13
    UNCLEAN_ELECTION = 14
    DELETIONS = 15
    STRAYS = 16
    """Replicas that a move has left behind and that could not be deleted."""
    ABANDONED = 17
    """Replicas that forced deletions have not waited for."""
    BALANCE = 18
    PLANS = 19
    """Stored plans whose next phase is to be submitted."""
    STATUS = 20


class Work(NamedTuple):
    """Something to look at; equal ones are one."""

    look: Look
    subject: str = ""
    """The topic, for `Look.TOPIC`."""


class Agenda:
    """Waiting work: each once, by kind, within a kind as it came."""

    def __init__(self) -> None:
        self._waiting: dict[Look, dict[Work, int]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, work: Work, now_ms: int) -> bool:
        """Whether it is new. What waits already keeps its place and its time."""
        waiting = self._waiting.setdefault(work.look, {})
        if work in waiting:
            return False
        waiting[work] = now_ms
        return True

    def take(self) -> tuple[Work, int] | None:
        """The next work and when it was added. What is added for it from now on will be looked at again."""
        for look in Look:
            if waiting := self._waiting.get(look):
                work = next(iter(waiting))
                return work, waiting.pop(work)
        return None

    def clear(self) -> None:
        """Everything that waits is void: another session, another picture."""
        self._waiting.clear()
