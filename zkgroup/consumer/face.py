"""What every face of a member has: its options, its engine, and what it owns, told without waiting."""

from __future__ import annotations

import threading
from abc import ABC
from typing import ClassVar

from zkgroup.consumer.arguments import checked_partition
from zkgroup.consumer.effects import MemberState
from zkgroup.consumer.engine import MemberEngine
from zkgroup.consumer.lease import Lease
from zkgroup.consumer.listener import AsyncRebalanceListener, RebalanceListener
from zkgroup.consumer.opening import MemberOptions
from zkgroup.errors import MemberClosedError
from zkgroup.model import TopicPartition


class Face(ABC):
    """Plain methods and properties; each may be used from any thread."""

    _listener_kind: ClassVar[type[RebalanceListener | AsyncRebalanceListener]]
    _how_to_start: ClassVar[str]

    def __init__(self, options: MemberOptions) -> None:
        options.check_listener(self._listener_kind)
        self._options = options
        self._settings = options.settings
        self._engine_made: MemberEngine | None = None
        self._closed = threading.Event()
        self._stopped = False

    def stop(self) -> None:
        """Asks to end, and does nothing else: may be called in a signal handler, and from any thread.

        Iterations and polls end after the records in hand, waits with `MemberClosedError`, `start` without
        waiting for a connection. What is owned stays owned until `close()`, or the end of the `with` block:
        that leaves, and waits for it.
        """
        self._stopped = True
        engine = self._engine_made
        if engine is not None and not engine.forked:
            engine.call_soon(self._wake)

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called: for loops of your own."""
        return self._stopped

    def _wake(self) -> None:
        """There may be something new for whoever waits; on the engine's thread, or from any other."""
        return  # waits of a member are asked again after every task of its loop

    def _check_stopped(self, engine: MemberEngine) -> None:
        """Raises MemberClosedError where a wait ended because of `stop`."""
        if self._stopped and engine.state is not MemberState.STABLE:
            raise MemberClosedError(f"{engine.member} was asked to stop")

    def _launch(self, engine: MemberEngine) -> None:
        engine.start()

    def _begin_close(self, engine: MemberEngine, timeout_s: float) -> None:
        engine.begin_close(timeout_s)

    @property
    def _engine(self) -> MemberEngine:
        """The engine, where calls on it can succeed."""
        if self._engine_made is None:
            raise MemberClosedError(f"the member has not been started: {self._how_to_start}")
        self._engine_made.check_usable()
        return self._engine_made

    @property
    def member_id(self) -> str:
        """The consumer id string `<group>_<...>`: the name of the registration znode."""
        return self._engine.member

    @property
    def state(self) -> MemberState:
        """`MemberState.NEW` before the start; never raises."""
        return self._engine_made.state if self._engine_made is not None else MemberState.NEW

    def leases(self) -> tuple[Lease, ...]:
        """What this member owns now, ordered by topic and partition."""
        board = self._engine.board
        return tuple(Lease(grant, board) for _, grant in sorted(board.current.grants.items()))

    def lease(self, topic_partition: TopicPartition) -> Lease | None:
        """The lease of one partition, None where this member does not own it."""
        board = self._engine.board
        grant = board.current.grants.get(checked_partition(topic_partition))
        return Lease(grant, board) if grant is not None else None
