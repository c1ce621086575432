"""Compares what peers claim to be with ZooKeeper, and reads it where a claim goes beyond what was read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from zkgroup.broker.replica_view import FollowerId
from zkgroup.broker.server.connection_choice import Peer, PeerKind
from zkgroup.broker.server.peer_claims import (
    ClaimVerdict,
    ControllerId,
    FoundPeers,
    PeerClaims,
    registered_in,
)
from zkgroup.model import Znode
from zkgroup.model.ports import Store
from zkgroup.model.requests import (
    Code,
    Connected,
    Outcome,
    ReadMany,
    ReadManyDone,
    SessionEvent,
    Sync,
    SyncDone,
)
from zkgroup.runtime.logs import get_logger, limited
from zkgroup.znodes.brokers import BrokerRegistration
from zkgroup.znodes.controller import ControllerEpoch, ControllerRegistration

_log = get_logger("zkgroup.broker")


class PeerClaimChecker:
    """Compares claims, and reads ZooKeeper where that is necessary. Made and used on one event loop.

    At most one read is on its way, whatever clients claim; the next one is for all claims that came
    meanwhile.
    """

    def __init__(self, store: Store | None = None) -> None:
        """`store`: the session to read with; `connect` may set it later."""
        self._loop = asyncio.get_running_loop()
        self._claims = PeerClaims()
        self._store = store
        self._incarnation: int | None = None
        """Of the connected session; None while ZooKeeper cannot be read. Set on any thread."""
        self._unlisten: Callable[[], None] = lambda: None
        self._wanted: set[int] = set()
        """Brokers of the next read."""
        self._next: asyncio.Future[FoundPeers | None] | None = None
        """The result of the next read; None while nothing waits for it."""
        self._is_reading = False
        if store is not None:
            self.connect(store)

    def connect(self, store: Store) -> None:
        """Reads with this session from now on."""
        self._store = store
        self._unlisten = store.listen(self._on_session)

    def close(self) -> None:
        """Reads nothing more."""
        self._unlisten()
        self._incarnation = None

    def _on_session(self, event: SessionEvent) -> None:
        self._incarnation = event.session.incarnation if isinstance(event, Connected) else None

    async def verdict(self, claim: ControllerId | FollowerId, peer: Peer) -> ClaimVerdict:
        """The result for what a peer claims to be, which is logged; UNREAD while ZooKeeper cannot be read.

        A peer whose claim is confirmed is one of the cluster's from then on (`Peer.kind`).
        """
        verdict = self._claims.compare(claim)
        if verdict is ClaimVerdict.UNREAD:
            found = await self._read(claim.broker if isinstance(claim, FollowerId) else None)
            if found is not None:
                verdict = self._claims.decide(claim, found)
        kind = PeerKind.CONTROLLER if isinstance(claim, ControllerId) else PeerKind.FOLLOWER
        if verdict is ClaimVerdict.CONFIRMED:
            peer.confirm(kind)
        elif verdict in (ClaimVerdict.IMPOSSIBLE, ClaimVerdict.UNREAD):
            _log.warning(
                "%s claims to be %s %d of epoch %d: %s",
                peer,
                kind.value,
                *claim,
                "ZooKeeper has no such registration; refused"
                if verdict is ClaimVerdict.IMPOSSIBLE
                else "refused for now, ZooKeeper cannot be read",
                extra=limited(f"{kind.value} {verdict.value}"),
            )
        return verdict

    async def of_stopping(self, broker: int, epoch: int | None, peer: Peer) -> ClaimVerdict:
        """The result for a broker that stops, by its epoch; None: it names none, as Kafka's brokers.

        FORMER: it is no broker of zkgroup. IMPOSSIBLE: it is, and would name its epoch.
        """
        if epoch is not None:
            return await self.verdict(FollowerId(broker, epoch), peer)
        found = await self._read(broker)
        if found is None:
            return ClaimVerdict.UNREAD
        if broker not in found.zkgroup:
            return ClaimVerdict.FORMER
        message = "%s claims to be broker %d, which stops, without its epoch; refused"
        _log.warning(message, peer, broker, extra=limited())
        return ClaimVerdict.IMPOSSIBLE

    async def learn(self, brokers: Iterable[int]) -> None:
        """Reads the epochs of brokers that were never read: they can follow while ZooKeeper is away."""
        if unknown := [broker for broker in brokers if not self._claims.knows(broker)]:
            self._wanted.update(unknown)
            await self._read(None)

    async def read(self, paths: tuple[str, ...]) -> tuple[Znode | Code | None, ...] | None:
        """The znodes as they are now; None while ZooKeeper cannot be read."""
        result: asyncio.Future[tuple[Znode | Code | None, ...] | None] = self._loop.create_future()
        self._submit(paths, result.set_result)
        return await asyncio.shield(result)

    def _submit(
        self, paths: tuple[str, ...], done: Callable[[tuple[Znode | Code | None, ...] | None], None]
    ) -> None:
        """Reads znodes; `done` gets them on the loop, None where ZooKeeper does not answer."""
        store, incarnation = self._store, self._incarnation
        if store is None or incarnation is None:
            done(None)
            return
        outcomes: list[Outcome] = []

        def on_outcome(outcome: Outcome) -> None:
            outcomes.append(outcome)
            if len(outcomes) == 2:
                synced, read = outcomes
                found = read.znodes if isinstance(read, ReadManyDone) else None
                with suppress(RuntimeError):  # the loop is closed
                    self._loop.call_soon_threadsafe(done, found if isinstance(synced, SyncDone) else None)

        for request in (Sync(ControllerEpoch.path()), ReadMany(paths)):
            store.submit(request, incarnation=incarnation, on_outcome=on_outcome)

    async def _read(self, broker: int | None) -> FoundPeers | None:
        """The result of a read that begins now or later; None if ZooKeeper does not answer."""
        if broker is not None:
            self._wanted.add(broker)
        if self._next is None:
            self._next = self._loop.create_future()
        found = self._next
        if not self._is_reading:
            self._begin()
        return await asyncio.shield(found)

    def _begin(self) -> None:
        result, self._next = self._next, None
        brokers, self._wanted = sorted(self._wanted), set()
        assert result is not None
        self._is_reading = True
        # The epoch before the controller: its own epoch may be read beside a later controller, not a former
        # controller beside the epoch of the present one.
        registrations = map(BrokerRegistration.path, brokers)
        paths = (ControllerEpoch.path(), ControllerRegistration.path(), *registrations)
        self._submit(paths, partial(self._end, result, brokers))

    def _end(
        self,
        result: asyncio.Future[FoundPeers | None],
        brokers: list[int],
        znodes: tuple[Znode | Code | None, ...] | None,
    ) -> None:
        self._is_reading = False
        found = None if znodes is None else registered_in(brokers, znodes)
        if found is not None:
            self._claims.read(found)
        result.set_result(found)
        if self._next is not None:
            self._begin()
