"""What effects about partitions mean: for the leases, for the delivery, for the application's callbacks."""

from __future__ import annotations

from typing import assert_never

from zkgroup.consumer.calls import Calls, Revocations
from zkgroup.consumer.effects import (
    Assign,
    EndLease,
    EndOverdue,
    ExtendLease,
    Lose,
    MoveTo,
    Revoke,
)
from zkgroup.consumer.lease import Lease, LeaseBoard
from zkgroup.consumer.share import Share
from zkgroup.consumer.telemetry import Telemetry
from zkgroup.model import TopicPartition

PartitionEffect = Assign | Revoke | EndOverdue | EndLease | Lose | ExtendLease | MoveTo


class Holding:
    """What a member holds, as it changes. Used on the member's thread.

    The board is changed before anybody is told: a thread that asks it must never find more than there is.
    """

    def __init__(
        self,
        board: LeaseBoard,
        calls: Calls,
        revocations: Revocations,
        telemetry: Telemetry,
        share: Share | None,
    ) -> None:
        self._board = board
        self._calls = calls
        self._revocations = revocations
        self._telemetry = telemetry
        self._share = share

    def perform(self, effect: PartitionEffect) -> None:
        match effect:
            case Assign():
                self._assign(effect)
            case Revoke():
                self._revoke(effect)
            case EndOverdue():
                self._end_overdue(effect)
            case EndLease(partitions):
                self._end(partitions)
            case Lose(partitions):
                self._end(partitions)
                self._calls.call("on_lost", partitions)
            case ExtendLease(until_ms):
                self._extend(until_ms)
            case MoveTo():
                self._move(effect)
            case _:
                assert_never(effect)

    def _extend(self, until_ms: int) -> None:
        self._board.extend(until_ms)
        self._telemetry.holdings()
        if self._share is not None:
            self._share.extended()

    def _assign(self, effect: Assign) -> None:
        self._board.grant(effect.grants, effect.move_id)
        self._telemetry.holdings()
        if self._share is not None:
            self._share.assigned(effect)

        def returned() -> None:
            if self._share is not None:
                self._share.started(effect.grants)

        leases = [Lease(grant, self._board) for grant in effect.grants]
        self._calls.call("on_assigned", leases, then=returned)

    def _revoke(self, effect: Revoke) -> None:
        self._board.stop(effect.partitions)
        if self._share is not None:
            self._share.stop(effect.partitions)
        self._revocations.begin(effect)

    def _end_overdue(self, effect: EndOverdue) -> None:
        told = self._revocations.end_overdue(effect)
        self._end(effect.partitions)
        if not told:
            self._calls.call("on_lost", effect.partitions)

    def _end(self, partitions: tuple[TopicPartition, ...]) -> None:
        self._board.end(partitions)
        self._telemetry.holdings()
        if self._share is not None:
            self._share.ended(partitions)

    def _move(self, effect: MoveTo) -> None:
        self._board.moved(effect.move_id)
        if self._share is not None:
            self._share.moved(effect)

    def finish(self) -> None:
        """The member has ended: nothing is held any more."""
        partitions = tuple(self._board.current.grants)
        self._board.clear()
        self._telemetry.holdings()
        if self._share is not None:
            self._share.ended(partitions)
            self._share.finished()
