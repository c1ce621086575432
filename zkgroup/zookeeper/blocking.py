"""Blocking calls over any store, for tools, tests and start-up code; a member uses the asynchronous store.

Reads are retried (tenacity) until the timeout. A write is submitted once; its outcome is returned, raised as
refused, or raised as unknown.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import NoReturn, Self, TypeVar

from tenacity import RetryCallState, Retrying, wait_random_exponential

from zkgroup.errors import (
    AccessDeniedError,
    NotFoundError,
    OperationRefusedError,
    OutcomeUnknownError,
    RequestTooBigError,
    StoreUnavailableError,
    ZkGroupError,
)
from zkgroup.model.ports import Clock, Store, after, seconds_until, wait_for
from zkgroup.model.requests import (
    AclChange,
    Code,
    Connected,
    CreateMissing,
    CreateMissingDone,
    Exists,
    ExistsDone,
    ListChildren,
    ListChildrenDone,
    ListMany,
    ListManyDone,
    Lost,
    Multi,
    MultiDone,
    MultiRefused,
    NotSent,
    Operation,
    Outcome,
    Read,
    ReadAcls,
    ReadAclsDone,
    ReadDone,
    ReadMany,
    ReadManyDone,
    Refused,
    Request,
    Session,
    SessionEvent,
    SetAcls,
    SetAclsDone,
    Sync,
    SyncDone,
    Unanswered,
    Znode,
    ZnodeAcl,
    ZnodeStat,
)
from zkgroup.zookeeper.client import SystemClock

Done = TypeVar("Done", bound=Outcome)
Found = TypeVar("Found")


class Blocking:
    """Blocking requests to a store: each method waits for the session, submits, and waits for the outcome.

    All methods may be called from any thread except those of the store's callbacks. They raise
    `StoreUnavailableError` after `timeout_s` (`OutcomeUnknownError` for a write that may have been applied)
    and `AccessDeniedError` if an ACL forbids the request.
    """

    def __init__(self, store: Store, timeout_s: float = 10.0, clock: Clock | None = None) -> None:
        """`clock` measures `timeout_s` and the pauses between two attempts; by default the system's."""
        self._store = store
        self._clock = clock or SystemClock()
        self._timeout_s = timeout_s
        self._changed = threading.Condition()
        self._session: Session | None = None
        self._fatal: Exception | None = None
        self._stop_listening = store.listen(self._on_session)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stops listening to the store, which stays open."""
        self._stop_listening()

    def wait_connected(self) -> Session:
        """The connected session.

        Raises `StoreUnavailableError`, or the error that ended the store for good.
        """
        return self._connected(after(self._clock, self._timeout_s))

    @property
    def last_zxid(self) -> int:
        """The highest zxid of any reply so far."""
        return self._store.last_zxid

    def read(self, path: str) -> Znode:
        """The znode at a path. Raises `NotFoundError` if it does not exist."""
        found = self.find(path)
        if found is None:
            raise NotFoundError(f"there is no znode {path}")
        return found

    def find(self, path: str) -> Znode | None:
        """The znode at a path, or None if it does not exist."""
        return self._ask(Read(path), ReadDone, path).znode

    def read_many(self, paths: tuple[str, ...] | list[str]) -> dict[str, Znode | None]:
        """Path to znode, or to None if it does not exist."""
        wanted = tuple(paths)
        done = self._ask(ReadMany(wanted), ReadManyDone, "/")
        return _by_path(wanted, done.znodes)

    def children(self, path: str) -> tuple[tuple[str, ...], ZnodeStat]:
        """Names of the children and the parent's Stat. Raises `NotFoundError`."""
        done = self._ask(ListChildren(path), ListChildrenDone, path)
        if done.stat is None:
            raise NotFoundError(f"there is no znode {path}")
        return done.children, done.stat

    def list_many(self, paths: tuple[str, ...] | list[str]) -> dict[str, tuple[str, ...] | None]:
        """Path to the names of its children, or to None if it does not exist."""
        wanted = tuple(paths)
        done = self._ask(ListMany(wanted), ListManyDone, "/")
        return _by_path(wanted, done.children)

    def read_each(self, paths: Sequence[str]) -> dict[str, Znode | Code | None]:
        """Path to znode as in `read_many`, or to a Code if it may not be read."""
        done = self._ask(ReadMany(tuple(paths)), ReadManyDone, "/")
        return dict(zip(paths, done.znodes, strict=True))

    def list_each(self, paths: Sequence[str]) -> dict[str, tuple[str, ...] | Code | None]:
        """Path to children as in `list_many`, or to a Code if they may not be listed."""
        done = self._ask(ListMany(tuple(paths)), ListManyDone, "/")
        return dict(zip(paths, done.children, strict=True))

    def acl_each(self, paths: Sequence[str]) -> dict[str, ZnodeAcl | Code | None]:
        """Path to ACL and Stat, or to None or a Code if they cannot be read."""
        done = self._ask(ReadAcls(tuple(paths)), ReadAclsDone, "/")
        return dict(zip(paths, done.acls, strict=True))

    def set_acls(self, *changes: AclChange) -> tuple[ZnodeStat | Code | None, ...]:
        """For each change the new Stat, None if there is no such znode, a Code if it was refused.

        Raises `OutcomeUnknownError` if no reply came: some of them may have been made.
        """
        return _expect(self._write(SetAcls(changes)), SetAclsDone, changes[0].path if changes else "/").stats

    def exists(self, path: str) -> ZnodeStat | None:
        """The Stat of the znode at a path, or None if it does not exist."""
        return self._ask(Exists(path), ExistsDone, path).stat

    def sync(self, path: str = "/") -> None:
        """Waits until this server has everything that was written before: later reads return it."""
        self._ask(Sync(path), SyncDone, path)

    def multi(self, *operations: Operation) -> MultiDone:
        """The outcome of one transaction, submitted once.

        Raises `OperationRefusedError` with code and path, `OutcomeUnknownError` if no reply came, and
        `RequestTooBigError`.
        """
        outcome = self._write(Multi(operations))
        if isinstance(outcome, MultiRefused):
            _refused(outcome.code, operations[outcome.index].path)
        return _expect(outcome, MultiDone, operations[0].path if operations else "/")

    def create_missing(self, *paths: str) -> None:
        """Creates persistent znodes with null data, in this order, unless they exist."""
        _expect(self._write(CreateMissing(paths)), CreateMissingDone, paths[0] if paths else "/")

    def _on_session(self, event: SessionEvent) -> None:
        with self._changed:
            self._session = event.session if isinstance(event, Connected) else None
            if isinstance(event, Lost):
                self._fatal = event.fatal
            self._changed.notify_all()

    def _connected(self, end_ms: int) -> Session:
        def is_over() -> bool:
            return self._session is not None or isinstance(self._fatal, ZkGroupError)

        def wait(left_s: float) -> None:
            with self._changed:
                self._changed.wait_for(is_over, left_s)

        while True:
            in_time = wait_for(self._clock, is_over, end_ms, wait)
            if (session := self._session) is not None:
                return session
            if isinstance(self._fatal, ZkGroupError):
                raise self._fatal
            if not in_time:
                raise StoreUnavailableError(f"ZooKeeper could not be reached in {self._timeout_s:g} s")

    def _ask(self, request: Request, done: type[Done], path: str) -> Done:
        end_ms = after(self._clock, self._timeout_s)

        def attempt() -> Done:
            return _expect(self._submit(request, end_ms), done, path)

        def is_late(state: RetryCallState) -> bool:
            return seconds_until(self._clock, end_ms) <= state.upcoming_sleep

        def may_succeed_later(state: RetryCallState) -> bool:
            error = state.outcome.exception() if state.outcome is not None else None
            # refused credentials stay refused, and a closed client stays closed
            return type(error) is StoreUnavailableError and error is not self._fatal

        retrying = Retrying(
            retry=may_succeed_later,
            stop=is_late,
            wait=wait_random_exponential(multiplier=0.05, max=1.0),
            sleep=self._pause,
            reraise=True,
        )
        return retrying(attempt)

    def _pause(self, seconds: float) -> None:
        wait_for(self._clock, lambda: False, after(self._clock, seconds), time.sleep)

    def _write(self, request: Request) -> Outcome:
        outcome = self._submit(request, after(self._clock, self._timeout_s))
        if isinstance(outcome, Unanswered):
            raise OutcomeUnknownError(f"the write may or may not have been applied: {outcome.reason}")
        return outcome

    def _submit(self, request: Request, end_ms: int) -> Outcome:
        session = self._connected(end_ms)
        arrived = threading.Event()
        outcomes: list[Outcome] = []

        def on_outcome(outcome: Outcome) -> None:
            outcomes.append(outcome)
            arrived.set()

        self._store.submit(request, incarnation=session.incarnation, on_outcome=on_outcome)
        if not wait_for(self._clock, arrived.is_set, end_ms, arrived.wait):
            return Unanswered(f"no reply within {self._timeout_s:g} s")
        return outcomes[0]


def _expect(outcome: Outcome, done: type[Done], path: str) -> Done:
    """The outcome if it is of type `done`; raises the matching exception otherwise."""
    if isinstance(outcome, done):
        return outcome
    match outcome:
        case Refused(code=code, path=where):
            _refused(code, where)
        case NotSent(reason=reason, too_big=True):
            raise RequestTooBigError(f"{path}: {reason}")
        case NotSent(reason=reason) | Unanswered(reason=reason):
            raise StoreUnavailableError(f"{path}: {reason}")
    raise AssertionError(f"{type(outcome).__name__} does not answer {path}")


def _refused(code: Code, path: str) -> NoReturn:
    if code is Code.NO_AUTH:
        raise AccessDeniedError(
            f"{path}: expected the permission for this request, found an ACL that does not give it; "
            "connect as a user who has it, with --zk-digest-file, --zk-sasl-file or --zk-tls-cert "
            "(in a program: `ClientSettings(auth=..., tls=...)`)"
        )
    raise OperationRefusedError(code.value, path)


def _by_path(paths: Sequence[str], found: Sequence[Found | Code]) -> dict[str, Found]:
    """Path to what was found. Raises `AccessDeniedError` for the first path that may not be read."""
    for path, one in zip(paths, found, strict=True):
        if type(one) is Code:
            _refused(one, path)
    return dict(zip(paths, found, strict=True))  # type: ignore[arg-type]  # no Code is left
