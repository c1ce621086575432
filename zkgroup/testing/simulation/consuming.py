"""A consumer in steps: the production delivery, fetcher and poll watch around a stepped member."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, cast

from zkgroup.consumer.consuming import ConsumingMember
from zkgroup.consumer.delivery import Delivery
from zkgroup.consumer.engine import MemberEngine
from zkgroup.consumer.listener import RebalanceListener
from zkgroup.consumer.machine import MemberConfig
from zkgroup.consumer.opening import MemberOptions
from zkgroup.consumer.share import Processed, Share
from zkgroup.errors import MemberIdInUseError
from zkgroup.model import TopicPartition
from zkgroup.testing.clock import FakeClock
from zkgroup.testing.memory_zookeeper_client import MemoryClient
from zkgroup.testing.simulation.actor import Actor
from zkgroup.testing.simulation.application import Application
from zkgroup.testing.simulation.recording import Recording
from zkgroup.testing.simulation.source import Log, SteppedSource


class CheckedLock:
    """The delivery's lock: one that is taken twice would stand still for ever."""

    def __init__(self) -> None:
        self.is_held = False
        self.was_taken_twice = False

    def __enter__(self) -> None:
        if self.is_held:
            self.was_taken_twice = True  # whoever calls may be guarded against errors of the application
            raise AssertionError("the lock of the delivery is taken by whoever holds it")
        self.is_held = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.is_held = False


class ConsumingActor(Actor):
    """One consumer, stepped from outside."""

    def __init__(
        self,
        config: MemberConfig,
        client: MemoryClient,
        clock: FakeClock,
        recording: Recording,
        pid: int,
        *,
        log: Log,
        application: Application,
        acknowledged: Callable[[Mapping[TopicPartition, int]], None],
    ) -> None:
        self.application = application
        self._source = SteppedSource(log)
        self._fetch_due_ms: int | None = 0
        self._acknowledged = acknowledged
        self._lock = CheckedLock()
        self._complaints: list[str] = []
        self._sought: dict[TopicPartition, tuple[int, int]] = {}
        """Claims that were sought in and are given up: token, and position to be released with."""
        super().__init__(config, client, clock, recording, pid, listener=application)
        self.runner.may_return = application.may_return
        self.machine.on_committed = self._committed

    def _open(self, listener: RebalanceListener | None, share: Share | None) -> MemberEngine:
        """The delivery is the share."""
        del share
        config = self._config
        options = MemberOptions(
            address=None,
            client=self.client,
            group=config.group,
            subscription=config.subscription,
            settings=config.settings,
            listener=listener,
            history=self,
            metrics=None,
            clock=self._clock,
            connection=None,
        )
        self.member = ConsumingMember(
            options,
            self._source,
            self.runner,
            self.application.wake,
            lambda _, __, share: self._built(listener, share),
        )
        self.member.delivery._flows.lock = self._lock  # type: ignore[assignment]
        self.application.attach(self.member)
        self._watch_drains(self.member.delivery)
        self.member.open()
        return self.member.engine

    def _committed(self, stands: Mapping[TopicPartition, int]) -> None:
        """What counts as committed is in the tree, and no further than what is processed."""
        self._acknowledged(stands)
        flows = self.member.delivery._flows
        for tp, value in stands.items():
            flow, held = flows.find(tp), self.machine._parts.core.owned.held.get(tp)
            if flow is None or held is None or flow.grant.token != held.token or flow.settling:
                continue
            is_of_before = flow.sought != held.sought or held.moved > flows.last_move_id
            if is_of_before or held.token in self.application.own_committed:
                continue
            at = flow.tracker.position
            assert value <= at, f"{tp} is committed at {value}, processed up to {at}"

    def _watch_drains(self, delivery: Delivery) -> None:
        """Notes what a claim that was sought in is given up with."""
        real = delivery.drain

        def drain(
            partitions: Iterable[TopicPartition], until_ms: int, done: Callable[[Processed], None]
        ) -> None:
            tokens = {tp: self.held()[tp].token for tp in partitions if tp in self.held()}

            def drained(processed: Processed) -> None:
                for tp in processed.seeks.keys() & tokens.keys() & processed.positions.keys():
                    if tokens[tp] not in self.application.own_committed:
                        self._sought[tp] = (tokens[tp], processed.positions[tp])
                done(processed)

            real(partitions, until_ms, drained)

        delivery.drain = drain  # type: ignore[method-assign]

    def _check_release(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """A seek goes with the partition that is given up, unless somebody has moved the offset since."""
        for row in rows:
            tp, offset = TopicPartition(row["topic"], row["partition"]), row["offset"]
            token, position = self._sought.pop(tp, (None, None))
            if token == row["token"] and offset is not None and offset != position:
                self._complaints.append(f"{tp} was sought, processed up to {position}, released at {offset}")

    # --- steps ------------------------------------------------------------------------------------

    def next_timer_ms(self) -> int | None:
        times = [at for at in (super().next_timer_ms(), self._fetch_due_ms) if at is not None]
        return min(times, default=None)

    @property
    def can_fetch(self) -> bool:
        """The fetcher has something to do."""
        if self.finished is not None:
            return False
        is_due = self._fetch_due_ms is not None and self._clock.now_ms() >= self._fetch_due_ms
        return is_due or self.member.fetcher.is_woken or self._source.is_rung

    def fetch(self) -> None:
        """One round of the fetcher."""
        self._source.is_rung = False
        due_ms = self.member.fetcher.run_pending()
        slept_ms = self._source.slept_until()
        self._fetch_due_ms = due_ms if slept_ms is None else slept_ms

    def begin_callback(self) -> None:
        self.application.began(self.runner.begin())

    def end_callback(self) -> None:
        self.application.returned(self.runner.finish())

    def end_late_callback(self) -> None:
        self.application.returned(self.runner.finish_late())

    def check(self) -> None:
        """Raises AssertionError for what steps before this one have shown."""
        assert not self._lock.was_taken_twice, "application code was called under the lock of the delivery"
        assert not self._complaints, "; ".join(self._complaints)
        if self.finished is not None:
            self._source.close()
            self.application.check_ended()
            error = self.finished.error  # an id is in use where a process that was killed is not expired yet
            is_in_order = error is None or isinstance(error, MemberIdInUseError)
            assert is_in_order, f"{self.member_id} failed: {error!r}"
        self.application.reap()

    def record(self, kind: str, fields: Mapping[str, object]) -> None:
        self._lock.was_taken_twice |= self._lock.is_held
        if kind in ("reset.obeyed", "foreign_write"):  # what was given up leads elsewhere
            self._sought.pop(TopicPartition(str(fields["topic"]), cast("int", fields["partition"])), None)
        if kind == "release.ok":
            self._check_release(cast("Iterable[Mapping[str, Any]]", fields["partitions"]))
        super().record(kind, fields)

    def leave(self, timeout_s: float) -> None:
        self.member.begin_close(timeout_s)

    def kill(self) -> None:
        super().kill()
        self._source.close()
