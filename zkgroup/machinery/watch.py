"""A watch that remembers whether it has fired.

The event of a watch and the answer to the request that armed it come from different threads of a real
client, so either may be seen first. What relied on the watch looks here, not at the order of events.
"""

from __future__ import annotations

from collections.abc import Callable


class Watch:
    """Called once when the watch fires. Who knows what it has to tell silences it: `fired`, set before."""

    __slots__ = ("_then", "fired")

    def __init__(self, then: Callable[[], None]) -> None:
        self.fired = False
        self._then = then

    def __call__(self) -> None:
        if not self.fired:
            self.fired = True
            self._then()
