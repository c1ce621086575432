"""The application's callbacks on their way: in order, with deadlines, left behind when they overstay.

Used on the member's thread only; the callbacks themselves run on a `CallbackRunner`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from zkgroup.consumer.callbacks import Callbacks
from zkgroup.consumer.effects import EndOverdue, OwnEffect, Revoke
from zkgroup.consumer.events import Event, Revoked
from zkgroup.consumer.share import Processed, Share
from zkgroup.consumer.telemetry import Telemetry
from zkgroup.consumer.worker import Call
from zkgroup.machinery.loop import MachineLoop
from zkgroup.model.ports import Clock

DRAIN_MARGIN = 0.1
"""Part of the revoke deadline kept for the way of the answer, so that what is processed is committed."""


class Calls:
    """The callbacks of one member that were ordered and have not returned."""

    def __init__(
        self,
        callbacks: Callbacks,
        loop: MachineLoop[Event, OwnEffect],
        clock: Clock,
        telemetry: Telemetry,
        *,
        timeout_ms: int,
        on_error: Callable[[BaseException], None],
    ) -> None:
        self._callbacks = callbacks
        self._loop = loop
        self._clock = clock
        self._telemetry = telemetry
        self._timeout_ms = timeout_ms
        self._on_error = on_error
        self._waiting: deque[Call] = deque()
        self._ended = False

    def call(self, name: str, *arguments: object, then: Callable[[], None] | None = None) -> Call | None:
        """Orders a callback; `then` follows on this thread. None where the application has none.

        A late callback is left behind but not forgotten: `then` comes when it returns after all, so a
        slow `on_assigned` delays the first delivery of its partitions and nothing else.
        """
        run = self._callbacks.bind(name, arguments)
        if run is None:
            if then is not None:
                then()
            return None

        def done(error: BaseException | None) -> None:
            self._loop.post(lambda: self._returned(call, error, then))

        call = Call(name, run, done)
        self._waiting.append(call)
        if len(self._waiting) == 1:
            self._watch_head()
        self._callbacks.runner.submit(call)
        return call

    def leave_behind(self, call: Call) -> bool:
        """The callback overstays: later ones run on a fresh worker. False if it never began."""
        if call not in self._waiting:
            return True
        begun = self._callbacks.runner.leave_behind(call)
        self._waiting.remove(call)
        self._watch_head()
        if begun:
            self._telemetry.overdue(call.name, self._timeout_ms)
        return begun

    def end(self) -> None:
        """The member has ended: what returns now changes nothing."""
        self._ended = True

    def _returned(self, call: Call, error: BaseException | None, then: Callable[[], None] | None) -> None:
        if call in self._waiting:
            self._waiting.remove(call)
            self._watch_head()
        if error is not None:
            self._on_error(error)
        if then is not None and not self._ended:
            then()

    def _watch_head(self) -> None:
        """The oldest callback has `timeout_ms` from now on."""
        if not self._waiting or self._ended:
            self._loop.unschedule("callback")
            return
        head = self._waiting[0]
        self._loop.schedule("callback", self._clock.now_ms() + self._timeout_ms, lambda: self._overdue(head))

    def _overdue(self, call: Call) -> None:
        if call.name == "on_revoked":  # the machine keeps that deadline itself: `EndOverdue`
            return
        if self._callbacks.runner.running is not call:  # the process stood still before the worker began it
            self._watch_head()
            return
        self.leave_behind(call)


@dataclass(eq=False)
class _Revocation:
    effect: Revoke
    begun_ms: int
    call: Call | None = None


class Revocations:
    """Each `Revoke` through its callback and the draining of the records in hand, to its `Revoked`.

    The answer is an event like any other: it waits until all effects of the present one are performed.
    """

    def __init__(
        self, calls: Calls, clock: Clock, share: Share | None, post: Callable[[Revoked], None]
    ) -> None:
        self._calls = calls
        self._clock = clock
        self._share = share
        self._post = post
        self._open: dict[int, _Revocation] = {}

    def begin(self, effect: Revoke) -> None:
        revocation = _Revocation(effect, self._clock.now_ms())
        self._open[effect.call_id] = revocation
        revocation.call = self._calls.call(
            "on_revoked", effect.partitions, then=lambda: self._drain(revocation)
        )

    def end_overdue(self, effect: EndOverdue) -> bool:
        """Too late; False where the callback never began, so the application does not know yet."""
        revocation = self._open.pop(effect.call_id, None)
        if revocation is None or revocation.call is None:
            return True
        return self._calls.leave_behind(revocation.call)

    def _drain(self, revocation: _Revocation) -> None:
        """The callback has returned: wait for the records in hand, then report."""
        effect = revocation.effect
        if effect.call_id not in self._open:
            return
        if self._share is None:
            self._report(revocation, Processed({}))
            return
        length_ms = effect.deadline_ms - revocation.begun_ms
        until_ms = effect.deadline_ms - int(length_ms * DRAIN_MARGIN)
        self._share.drain(effect.partitions, until_ms, lambda done: self._report(revocation, done))

    def _report(self, revocation: _Revocation, processed: Processed) -> None:
        call_id = revocation.effect.call_id
        if self._open.pop(call_id, None) is not None:
            self._post(Revoked(call_id, processed.positions, processed.last_move_id, processed.seeks))
