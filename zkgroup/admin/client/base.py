"""The connection of an `Admin`, its undo records, and how its methods take partitions and return rows."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Generic, Self, TypeAlias, TypeVar

from zkgroup.admin import Move
from zkgroup.admin.change import (
    AdminChange,
    ChangeResult,
    OutcomeT,
    PlanT,
    UndoRecorder,
    WrittenT,
    default_undo_folder,
)
from zkgroup.admin.offsets.planning import Absolute, AtTime, Target, parse_target
from zkgroup.admin.topics import listing
from zkgroup.admin.undo_records import UndoFolder
from zkgroup.errors import ConfigError
from zkgroup.groups.ensemble import AsOf, Ensemble
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Clock, Store
from zkgroup.security.client import BrokerAccess, ClientSecurity
from zkgroup.zookeeper import ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.client import SystemClock
from zkgroup.zookeeper.settings import Address, ClientSettings, check_connection

RowT = TypeVar("RowT")

Partitions: TypeAlias = Iterable[str | TopicPartition]
"""A topic by name means all its partitions."""

SESSION_TIMEOUT_MS = 10_000
"""An `Admin` asks for it where no settings are given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Generic[RowT]):
    """Rows of a read, in order; iterate over it."""

    as_of: AsOf
    """The moment of the read: zxid, and wall time in milliseconds."""
    rows: tuple[RowT, ...]
    """The rows, in the order that the method states."""
    unreadable: tuple[str, ...] = ()
    """Paths that cannot be read, each with the reason; what they hold is in no row."""

    def __iter__(self) -> Iterator[RowT]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


def listing_of(as_of: AsOf, rows: tuple[RowT, ...], unreadable: Iterable[object] = ()) -> Listing[RowT]:
    """A listing of what a function of a module has read."""
    return Listing(as_of=as_of, rows=rows, unreadable=tuple(map(str, unreadable)))


class AdminBase:
    """The base of the methods of `Admin`: connection, undo records and arguments."""

    def __init__(
        self,
        address: str | None = None,
        *,
        client: Store | None = None,
        connection: ClientSettings | None = None,
        security: ClientSecurity | None = None,
        undo_folder: str | Path | None = None,
        timeout_s: float = 10.0,
        user: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Does not connect yet: `with`, or the first call, does.

        Args:
            address: `HOST:PORT[,HOST:PORT...][/CHROOT]`.
            client: a ZooKeeper client instead of `address`; it stays the caller's to close.
            connection: credentials, TLS and timeouts for `address`.
            security: protocol and user for the brokers, of methods that ask any; in plain text by default.
            undo_folder: where undo records are kept; by default `$XDG_STATE_HOME/zkgroup/undo`.
            timeout_s: how long a call waits for the connection and for answers, in seconds.
            user: who makes the changes, for the records; by default the user of the process.
            clock: for tests; the system's by default.

        Raises:
            ConfigError: an address that cannot be, both or none of address and client, or settings beside a
                client.
        """
        check_connection("an admin", address, client, connection)
        self._own: ZooKeeperClient | None = None
        if client is None:
            assert address is not None
            connection = connection or ClientSettings(session_timeout_ms=SESSION_TIMEOUT_MS)
            client = self._own = ZooKeeperClient(address, connection)
        else:
            address = getattr(client, "address", None)
        self._store = client
        self._address, self._connection = address, connection
        self._access = BrokerAccess(security=security)
        self._timeout_s = timeout_s
        self._clock = clock or SystemClock()
        self._opening = threading.Lock()
        self._opened: Ensemble | None = None
        folder = default_undo_folder() if undo_folder is None else UndoFolder(Path(undo_folder))
        self._recorder = UndoRecorder(folder, zookeeper=address or "an open client", user=user)

    @property
    def _ensemble(self) -> Ensemble:
        """The methods read and write it; its first use begins to connect."""
        with self._opening:
            if self._opened is None:
                blocking = Blocking(self._store, timeout_s=self._timeout_s, clock=self._clock)
                self._opened = Ensemble(zk=blocking, clock=self._clock, access=self._access)
            return self._opened

    def __enter__(self) -> Self:
        if self._own is not None:
            try:
                self._own.wait_connected(self._timeout_s)
            except BaseException:
                self.close()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the session; an open client that was given stays open. May be called again."""
        with self._opening:
            if self._opened is not None:
                self._opened.zk.close()
        if self._own is not None:
            self._own.close()

    @property
    def address(self) -> str:
        """The ensemble as undo records name it."""
        return self._recorder.zookeeper

    @contextmanager
    def _above_chroot(self) -> Iterator[tuple[Ensemble, str]]:
        """The ensemble without the chroot of the address, and the chroot. Raises ConfigError without one."""
        if self._own is None or self._address is None:
            raise ConfigError("an open client is below its chroot: give an `Admin` the address instead")
        address = Address.parse(self._address)
        if not address.chroot:
            raise ConfigError(f"address {self._address!r}: expected HOST:PORT/CHROOT, found no chroot")
        client = ZooKeeperClient(address.servers, self._connection)
        try:
            client.wait_connected(self._timeout_s)
            with Blocking(client, timeout_s=self._timeout_s, clock=self._clock) as blocking:
                yield Ensemble(zk=blocking, clock=self._clock), address.chroot
        finally:
            client.close()

    def _run(
        self,
        change: AdminChange[PlanT, WrittenT, OutcomeT],
        dry_run: bool,
        wait_s: float | None = None,
    ) -> ChangeResult[PlanT, WrittenT, OutcomeT]:
        return change.preview() if dry_run else change.apply(self._recorder, wait_s=wait_s)

    def _partitions(self, partitions: Partitions) -> list[TopicPartition]:
        """The partitions named; a topic means all of its partitions. Raises NotFoundError."""
        return listing.partitions_named(self._ensemble, selection_of(partitions))


def selection_of(partitions: Partitions) -> list[tuple[str, tuple[int, ...]]]:
    """Topics with their numbers, in order; no numbers where the topic itself is named."""
    if isinstance(partitions, (str, TopicPartition)):
        raise ConfigError(f"{partitions!r}: expected a list of topics and partitions")
    chosen: dict[str, set[int] | None] = {}
    for one in partitions:
        if isinstance(one, TopicPartition):
            numbers = chosen.setdefault(one.topic, set())
            if numbers is not None:
                numbers.add(one.partition)
        else:
            chosen[one] = None
    return [(topic, tuple(sorted(numbers or ()))) for topic, numbers in chosen.items()]


def moves_of(replicas: Mapping[TopicPartition, Sequence[int]]) -> tuple[Move, ...]:
    """Replica lists by partition, as a request has them."""
    return tuple(Move(tp, tuple(brokers)) for tp, brokers in sorted(replicas.items()))


def target_of(target: Target | datetime | int | str) -> Target:
    """Raises ConfigError for a text that names no target."""
    if isinstance(target, int):
        return Absolute(target)
    if isinstance(target, datetime):
        return AtTime(round(target.timestamp() * 1000))
    if not isinstance(target, str):
        return target
    try:
        found = parse_target(target)
    except ValueError as error:
        raise ConfigError(f"target {target!r}: {error}") from error
    if found is None:
        raise ConfigError(f"target {target!r}: expected earliest, latest, N, +N or -N, or a datetime")
    return found
