"""What is to be recorded of deliveries, on its way to the application's history sink.

It is noted while the delivery's lock is held, where its order is decided, and recorded after the lock is
given back: a sink may ask the consumer whatever it likes. Whoever goes on because of what was noted (a
commit that covers it, the end of an ownership) calls `send` first, which also waits for what another thread
is recording at that moment.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping

log = logging.getLogger("zkgroup.history")

SEND_WAIT_S = 0.5
"""For a sink that another thread is in. It may itself wait for this thread, so nobody waits longer."""

Note = tuple[str, Mapping[str, object]]


class Outbox:
    """In order, one at a time. `add` may be called with a lock held, `send` may not."""

    def __init__(self, record: Callable[[str, Mapping[str, object]], None]) -> None:
        self._record = record
        self._waiting: deque[Note] = deque()
        self._sending = threading.Lock()
        self._sender: int | None = None

    def add(self, kind: str, fields: Mapping[str, object]) -> None:
        self._waiting.append((kind, fields))

    def send(self) -> None:
        """Records all that waits; from within the sink, leaves it to the call that is under way."""
        if not self._waiting and not self._sending.locked():
            return
        me = threading.get_ident()
        if self._sender == me:
            return
        if not self._sending.acquire(timeout=SEND_WAIT_S):
            log.warning("the history sink takes more than %g s: records may be out of order", SEND_WAIT_S)
            return
        self._sender = me
        try:
            while self._waiting:
                self._record(*self._waiting.popleft())
        finally:
            self._sender = None
            self._sending.release()
