"""Calls `on_prepare` of the application: beside its other callbacks, so that nothing waits for a warm-up."""

from __future__ import annotations

from collections.abc import Callable

from zkgroup.consumer.callbacks import CallbackCall, CallbackRunner, Callbacks
from zkgroup.consumer.machine.events import Event, OwnEffect, PreparationDone, Prepare
from zkgroup.runtime.loop import MachineLoop


class Preparations:
    """Performs each `Prepare` on a runner of its own, so that nothing waits for it."""

    def __init__(
        self,
        callbacks: Callbacks,
        loop: MachineLoop[Event, OwnEffect],
        on_error: Callable[[BaseException], None],
    ) -> None:
        self._callbacks = callbacks
        self._loop = loop
        self._on_error = on_error
        self._runner: CallbackRunner | None = None
        """Made for the first call."""

    def begin(self, effect: Prepare) -> None:
        run = self._callbacks.bind("on_prepare", (effect.partitions,))
        assert run is not None, "the machine prepares only if the application does"

        def done(error: BaseException | None) -> None:
            self._loop.post(lambda: self._returned(effect, error))

        if self._runner is None:
            self._runner = self._callbacks.runner.another()
        self._runner.submit(CallbackCall("on_prepare", run, done))

    def _returned(self, effect: Prepare, error: BaseException | None) -> None:
        if error is not None:
            self._on_error(error)
        else:
            self._loop.post(PreparationDone(effect.call_id))
