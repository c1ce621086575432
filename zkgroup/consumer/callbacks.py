"""Which of the application's callbacks exist, and on what they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from zkgroup.consumer.listener import AsyncRebalanceListener, RebalanceListener
from zkgroup.consumer.worker import CallbackRunner


@dataclass(frozen=True, slots=True)
class Callbacks:
    """A listener and the worker of its calls."""

    listener: RebalanceListener | AsyncRebalanceListener | None
    runner: CallbackRunner

    def bind(self, name: str, arguments: tuple[object, ...]) -> Callable[[], object] | None:
        """The call as a thunk; None where the method is the base class's, which does nothing."""
        if self.listener is None:
            return None
        method = getattr(type(self.listener), name)
        if method in (getattr(RebalanceListener, name), getattr(AsyncRebalanceListener, name)):
            return None
        bound: Callable[..., object] = getattr(self.listener, name)
        return lambda: bound(*arguments)
