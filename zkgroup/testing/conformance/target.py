"""The store under test: opens clients for a check, makes single requests, and sets ACLs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self, TypeVar

from zkgroup.model import ZnodeStat
from zkgroup.model.ports import Store
from zkgroup.model.requests import (
    Code,
    Connected,
    Create,
    Exists,
    ExistsDone,
    Multi,
    MultiDone,
    Operation,
    Outcome,
    Request,
    Session,
    SessionEvent,
    Sync,
)
from zkgroup.testing.patience import PATIENCE_S
from zkgroup.zookeeper.settings import OPEN_ACL, Acl, Digest

UNHURRIED_MS = 20_000
"""Session timeout of a check without its own: a client leaves a server that is silent for part of it."""

T = TypeVar("T")


class OpenStore(Protocol):
    """Opens a client with its own session, on a tree that is empty at the first call of a check."""

    def __call__(self, session_timeout_ms: int) -> Store: ...


class Pending:
    """A request that was submitted: its outcomes, and how often its watch fired."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self.watched: list[str] = []
        self._changed = threading.Condition()

    def on_outcome(self, outcome: Outcome) -> None:
        with self._changed:
            self.outcomes.append(outcome)
            self._changed.notify_all()

    def on_watch(self, path: str) -> None:
        with self._changed:
            self.watched.append(path)
            self._changed.notify_all()

    def outcome(self) -> Outcome:
        self._await(lambda: self.outcomes, "an outcome")
        return self.outcomes[0]

    def fired(self) -> str:
        """Path of the watch event; waits for it."""
        self._await(lambda: self.watched, "a watch event")
        return self.watched[0]

    def _await(self, condition: Callable[[], object], what: str) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE_S), f"{what} did not come in {PATIENCE_S} s"


class Caller:
    """One client, used step by step."""

    def __init__(self, store: Store) -> None:
        """Listens to the events of the client.

        Args:
            store: the client; `Target` closes it.
        """
        self.store = store
        self.events: list[SessionEvent] = []
        self._changed = threading.Condition()
        self.unlisten = store.listen(self._on_event)

    def _on_event(self, event: SessionEvent) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def await_event(self, kind: type[SessionEvent], incarnation: int | None = None) -> SessionEvent:
        """The first event of this kind (of this incarnation); waits for it."""

        def find() -> SessionEvent | None:
            return next((event for event in self.events if matches(event)), None)

        def matches(event: SessionEvent) -> bool:
            found = event.session.incarnation if isinstance(event, Connected) else event.incarnation
            return isinstance(event, kind) and incarnation in (None, found)

        with self._changed:
            came = self._changed.wait_for(find, PATIENCE_S)
        assert came, f"no {kind.__name__} of {incarnation or 'any incarnation'}; events: {self.events}"
        return came

    def session(self, incarnation: int = 1) -> Session:
        """The session of an incarnation; waits for it."""
        event = self.await_event(Connected, incarnation)
        assert isinstance(event, Connected)
        return event.session

    def submit(self, request: Request, incarnation: int = 1) -> Pending:
        """Submits a request and returns at once; the result has the outcome and the watch events."""
        pending = Pending()
        self.store.submit(
            request, incarnation=incarnation, on_outcome=pending.on_outcome, on_watch=pending.on_watch
        )
        return pending

    def ask(self, request: Request, kind: type[T], incarnation: int = 1) -> T:
        """The outcome, which must be of this kind."""
        outcome = self.submit(request, incarnation).outcome()
        assert isinstance(outcome, kind), f"{request}: expected {kind.__name__}, got {outcome}"
        return outcome

    def write(self, *operations: Operation, incarnation: int = 1) -> MultiDone:
        """One transaction, which must be accepted."""
        return self.ask(Multi(operations), MultiDone, incarnation)

    def make(self, *paths: str) -> None:
        """Creates persistent znodes with the data `b"0"`."""
        self.write(*(Create(path, b"0") for path in paths))

    def stat(self, path: str) -> ZnodeStat:
        """The stat of a znode, which must exist."""
        stat = self.ask(Exists(path), ExistsDone).stat
        assert stat is not None, f"{path} does not exist"
        return stat

    def catch_up(self) -> None:
        """Waits until this client's server has all earlier writes of all clients."""
        self.ask(Sync("/"), object)


class Target:
    """The implementation under test. Closes what a check opened."""

    def __init__(self, open_store: OpenStore) -> None:
        """Opens no client yet.

        Args:
            open_store: opens a client with its own session, of this timeout in milliseconds.
        """
        self._open = open_store
        self._stores: list[Store] = []

    def connect(self, session_timeout_ms: int = UNHURRIED_MS) -> Caller:
        """A new client, connected."""
        caller = Caller(self.open(session_timeout_ms))
        caller.session()
        return caller

    def open(self, session_timeout_ms: int = UNHURRIED_MS) -> Store:
        """A new client, perhaps not connected yet."""
        store = self._open(session_timeout_ms)
        self._stores.append(store)
        return store

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for store in self._stores:
            store.close()


class OpenAs(Protocol):
    """Opens a client on the tree; `auth` and `acl` as in `ClientSettings`."""

    def __call__(self, session_timeout_ms: int, auth: Digest | None, acl: tuple[Acl, ...]) -> Store: ...


class AclSetter(Protocol):
    """Sets the ACL of a znode, which no `Store` does, with this authentication. Returns the refusal, if
    any."""

    def __call__(self, path: str, acl: tuple[Acl, ...], version: int, auth: Digest | None) -> Code | None: ...


class AclTarget(Target):
    """The implementation under test, with credentials and ACLs."""

    def __init__(self, open_as: OpenAs, set_acl: AclSetter) -> None:
        """Opens no client yet.

        Args:
            open_as: opens a client with these credentials, whose creates have this ACL.
            set_acl: sets the ACL of a znode with these credentials; returns the refusal, or None.
        """
        super().__init__(lambda session_timeout_ms: open_as(session_timeout_ms, None, OPEN_ACL))
        self._open_as = open_as
        self._set_acl = set_acl

    def connect_as(self, auth: Digest | None = None, *acl: Acl) -> Caller:
        """A new connected client; its creates have this ACL, the open one by default."""
        store = self._open_as(UNHURRIED_MS, auth, acl or OPEN_ACL)
        self._stores.append(store)
        caller = Caller(store)
        caller.session()
        return caller

    def set_acl(self, path: str, *acl: Acl, version: int = -1, auth: Digest | None = None) -> Code | None:
        """Sets the ACL of a znode with these credentials; returns the server's refusal, or None."""
        return self._set_acl(path, acl, version, auth)
