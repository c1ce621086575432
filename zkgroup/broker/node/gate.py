"""The store of a broker as the controller beside it sees it: connected only while the broker is registered.

A broker registers before it stands for election, in every session (controller.md 2.5, K5). The controller
shares the broker's session; this store tells it of a session once the registration stands in it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from zkgroup.model.ports import Store
from zkgroup.model.requests import Connected, Outcome, Request, Session, SessionEvent, Suspended

Listener = Callable[[SessionEvent], None]


class RegisteredStore:
    """A `Store` over another. `registered` lets a session through. Closing it closes nothing."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.RLock()
        self._listeners: dict[object, Listener] = {}
        self._session: Session | None = None
        self._open = 0
        """Incarnation of the session that the broker is registered in."""
        self._unlisten = store.listen(self._hear)

    def registered(self, incarnation: int) -> None:
        """The broker stands in `/brokers/ids` in this session."""
        with self._lock:
            self._open = incarnation
            session = self._session
            if session is not None and session.incarnation == incarnation:
                self._tell(Connected(session))

    def _hear(self, event: SessionEvent) -> None:
        with self._lock:
            self._session = event.session if isinstance(event, Connected) else None
            match event:
                case Connected(session) if session.incarnation != self._open:
                    return
                case Suspended(incarnation) if incarnation != self._open:
                    return
            self._tell(event)

    def _tell(self, event: SessionEvent) -> None:
        for listener in tuple(self._listeners.values()):
            listener(event)

    # --- Store --------------------------------------------------------------------------------------

    def submit(
        self,
        request: Request,
        *,
        incarnation: int,
        on_outcome: Callable[[Outcome], None],
        on_watch: Callable[[str], None] | None = None,
    ) -> None:
        """See `Store`."""
        self._store.submit(request, incarnation=incarnation, on_outcome=on_outcome, on_watch=on_watch)

    @property
    def last_zxid(self) -> int:
        """See `Store`."""
        return self._store.last_zxid

    def listen(self, listener: Listener) -> Callable[[], None]:
        """See `Store`."""
        key = object()
        with self._lock:
            self._listeners[key] = listener
            session = self._session
            if session is not None and session.incarnation == self._open:
                listener(Connected(session))

        def remove() -> None:
            with self._lock:
                self._listeners.pop(key, None)

        return remove

    def abandon(self, incarnation: int, reason: str) -> None:
        """See `Store`."""
        self._store.abandon(incarnation, reason)

    def close(self, timeout_s: float = 5.0) -> None:
        """Listens no more; the store underneath is its owner's."""
        self._unlisten()
        with self._lock:
            self._listeners.clear()
