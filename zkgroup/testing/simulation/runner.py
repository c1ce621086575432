"""The application's callbacks in steps: each begins, and returns, when the scheduler says so. No thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from zkgroup.consumer.worker import Call


class SteppedRunner:
    """A `CallbackRunner`. What a callback does is done when it begins; it returns later, or never."""

    def __init__(self) -> None:
        self._waiting: deque[Call] = deque()
        self._running: Call | None = None
        self._left: list[Call] = []
        """Left behind, and not returned yet."""
        self._errors: dict[Call, BaseException] = {}
        self._inside = False
        self.may_return: Callable[[], bool] = lambda: True
        """Whether what the running callback itself waits for has come."""

    # --- CallbackRunner ---------------------------------------------------------------------------

    def submit(self, call: Call) -> None:
        self._waiting.append(call)

    def leave_behind(self, call: Call) -> bool:
        if call in self._waiting:
            self._waiting.remove(call)
            return False
        if self._running is call:
            self._running = None
            self._left.append(call)
        return True

    @property
    def running(self) -> Call | None:
        return self._running

    def is_inside(self) -> bool:
        return self._inside

    def stop(self, timeout_s: float) -> bool:
        del timeout_s
        return self._running is None

    # --- steps ------------------------------------------------------------------------------------

    @property
    def can_begin(self) -> bool:
        return self._running is None and bool(self._waiting)

    @property
    def can_return(self) -> bool:
        return self._running is not None and self.may_return()

    @property
    def can_return_late(self) -> bool:
        return bool(self._left)

    def begin(self) -> Call:
        """The next callback runs. What it raises is told when it returns."""
        call = self._running = self._waiting.popleft()
        self._inside = True
        try:
            call.run()
        except Exception as error:  # noqa: BLE001 - the application's; it is given to the member below
            self._errors[call] = error
        finally:
            self._inside = False
        return call

    def finish(self) -> Call:
        """The running callback returns."""
        assert self._running is not None
        call, self._running = self._running, None
        call.done(self._errors.pop(call, None))
        return call

    def finish_late(self) -> Call:
        """One that was left behind returns after all."""
        call = self._left.pop(0)
        call.done(self._errors.pop(call, None))
        return call
