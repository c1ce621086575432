"""The program around a simulated consumer: it polls, processes, commits, seeks and is called back, in steps.

What it does next is drawn. What it is given is judged at once: no record of a claim comes before the
`on_assigned` of that claim has returned, and no commit counts what is not processed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from zkgroup.consumer.consuming import ConsumingMember
from zkgroup.consumer.flows import Flows
from zkgroup.consumer.lease import Lease
from zkgroup.consumer.listener import RebalanceListener
from zkgroup.consumer.records import Record
from zkgroup.consumer.worker import Call
from zkgroup.errors import CommitResult
from zkgroup.model import TopicPartition

Act = Callable[[], object]

TAKEN_AT_ONCE = (1, 1, 2, 5)


class ApplicationError(AssertionError):
    """A consumer did to its application what it must not."""


@dataclass(slots=True)
class Ordered:
    """A commit of the application, until its future ends."""

    future: Future[CommitResult]
    counts: bool
    """It was ordered as what is processed, and not by offsets of the application's own."""
    tokens: dict[TopicPartition, int] = field(default_factory=dict)
    """The claims that it was ordered under."""


class Application(RebalanceListener):
    """One member's program. Its steps raise `ApplicationError` for what must not be."""

    def __init__(self, rng: random.Random, *, acks: bool) -> None:
        self._rng = rng
        self._acks = acks
        """It acknowledges each record; else asking for more does."""
        self._member: ConsumingMember | None = None
        self._is_polling = False
        self._is_woken = False
        self.in_hand: list[Record] = []
        """Delivered and not acknowledged."""
        self._returned: set[int] = set()
        """Tokens of the claims whose `on_assigned` has returned."""
        self._assigning: dict[Call, list[int]] = {}
        self._assigned: list[int] = []
        self._open: list[Ordered] = []
        self.results: list[CommitResult] = []
        self.reached: dict[TopicPartition, int] = {}
        """The offset after the last record delivered."""

    def attach(self, member: ConsumingMember) -> None:
        self._member = member

    @property
    def member(self) -> ConsumingMember:
        assert self._member is not None
        return self._member

    def wake(self) -> None:
        """There may be something new for a poll that waits."""
        self._is_woken = True

    # --- RebalanceListener ------------------------------------------------------------------------

    def on_assigned(self, leases: Sequence[Lease]) -> None:
        self._assigned = [lease.token for lease in leases]

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        pass

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        pass

    def began(self, call: Call) -> None:
        """A callback has run up to its return."""
        self._assigning[call], self._assigned = self._assigned, []

    def returned(self, call: Call) -> None:
        self._returned.update(self._assigning.pop(call, ()))

    # --- steps ------------------------------------------------------------------------------------

    @property
    def owned(self) -> tuple[TopicPartition, ...]:
        return self.member.delivery.owned()

    def claims(self) -> dict[TopicPartition, int]:
        """Tokens of what is owned."""
        return {tp: flow.grant.token for tp, flow in self._flows.by_partition.items()}

    @property
    def _flows(self) -> Flows:
        return self.member.delivery._flows

    @property
    def open_commits(self) -> int:
        return len(self._open)

    def acts(self) -> list[Act]:
        """What it may do next by itself."""
        acts: list[Act] = []
        if not self._is_polling:
            acts.append(self.begin_poll)
        elif self._is_woken:
            acts.append(self.take)
        if self._acks and self.in_hand:
            acts.append(lambda: self.ack(self._rng.randrange(len(self.in_hand))))
        return acts

    def begin_poll(self) -> None:
        if not self._acks:
            self.in_hand.clear()
        self._is_polling = self._is_woken = True
        self.member.begin_poll()

    def take(self) -> None:
        """A poll that waits looks again; it ends where there are records."""
        self._is_woken = False
        records = self.member.delivery.take(self._rng.choice(TAKEN_AT_ONCE))
        if not records:
            return
        self._is_polling = False
        self.member.end_poll()
        for record in records:
            if record.token not in self._returned:
                raise ApplicationError(
                    f"{record.topic_partition} at {record.offset} was delivered before the on_assigned of "
                    f"its claim {record.token} had returned"
                )
            self.reached[record.topic_partition] = record.offset + 1
        self.in_hand += records

    def ack(self, index: int) -> None:
        self.member.ack(self.in_hand.pop(index))

    def commit(self) -> None:
        """What is processed."""
        self._order(None)

    def _order(self, offsets: dict[TopicPartition, int] | None) -> None:
        self._open.append(Ordered(self.member.commit(offsets), offsets is None, self.claims()))

    def reap(self) -> None:
        """Looks at the commits that have ended."""
        if not any(ordered.future.done() for ordered in self._open):
            return
        ended = [ordered for ordered in self._open if ordered.future.done()]
        self._open = [ordered for ordered in self._open if not ordered.future.done()]
        for ordered in ended:
            if ordered.future.exception() is None:
                self.results.append(ordered.future.result())
                if ordered.counts:
                    self._check_counted(ordered)

    def _check_counted(self, ordered: Ordered) -> None:
        """A position from before a reset would show here: what it counts is not processed any more."""
        for tp, value in ordered.future.result().committed.items():
            flow = self._flows.find(tp)
            if flow is None or flow.grant.token != ordered.tokens.get(tp) or flow.sought or flow.settling:
                continue
            if value > flow.tracker.position:
                raise ApplicationError(f"{tp} committed at {value}, processed up to {flow.tracker.position}")

    # --- at rest ----------------------------------------------------------------------------------

    def calm(self) -> bool:
        """Does what keeps an application going, one thing at a time; False where it waits for records."""
        while self._acks and self.in_hand:
            self.ack(0)
        if not self._is_polling:
            self.begin_poll()
        elif self._is_woken:
            self.take()
        else:
            return False
        return True
