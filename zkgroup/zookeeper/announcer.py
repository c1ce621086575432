"""Tells listeners, in order, one after the other, without a lock held while they run."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

_log = logging.getLogger("zkgroup.zookeeper")


class Announcer:
    """Runs actions in the order posted, from whichever thread comes by, never two at a time.

    An action that posts another one gets it run after itself. No lock is held while an action runs,
    so a listener may take locks of its own and may call the client.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._actions: deque[Callable[[], None]] = deque()
        self._busy = False

    def post(self, *actions: Callable[[], None]) -> None:
        """Puts actions in line; run them with `run`. May be called with other locks held."""
        with self._lock:
            self._actions.extend(actions)

    def run(self) -> None:
        """Runs what is in line, unless another thread is at it already."""
        while True:
            with self._lock:
                if self._busy or not self._actions:
                    return
                self._busy = True
                action = self._actions.popleft()
            try:
                action()
            except Exception:  # noqa: BLE001
                _log.exception("a listener of a ZooKeeper client failed")
            finally:
                with self._lock:
                    self._busy = False
