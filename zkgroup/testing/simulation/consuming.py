"""A consumer in steps: the production delivery, fetcher and poll watch around a stepped member."""

from __future__ import annotations

from types import TracebackType

from zkgroup.consumer.consuming import ConsumingMember
from zkgroup.consumer.engine import MemberEngine
from zkgroup.consumer.listener import RebalanceListener
from zkgroup.consumer.machine import MemberConfig
from zkgroup.consumer.opening import MemberOptions
from zkgroup.consumer.share import Share
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
    ) -> None:
        self.application = application
        self._source = SteppedSource(log)
        self._fetch_due_ms: int | None = 0
        self._lock = CheckedLock()
        super().__init__(config, client, clock, recording, pid, listener=application)

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
        self.member.open()
        return self.member.engine

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
        if self.finished is not None:
            self._source.close()
            assert self.finished.error is None, f"{self.member_id} failed: {self.finished.error!r}"
        self.application.reap()

    def leave(self, timeout_s: float) -> None:
        self.member.begin_close(timeout_s)

    def kill(self) -> None:
        super().kill()
        self._source.close()
