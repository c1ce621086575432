"""Compares the claim of a peer to be the controller or a broker with ZooKeeper.

A frame can come from anyone who reaches the port, so no claim is believed beyond ZooKeeper: the epoch of a
broker is the czxid of its registration, that of a controller is in `/controller_epoch`. A claim above what
was read is no reason to refuse it, because this broker may lag: ZooKeeper is read first. While it cannot be
read, only what it said before is believed. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from zkgroup.broker.replica_view import FollowerId
from zkgroup.errors import CorruptZnodeError
from zkgroup.model import Znode
from zkgroup.model.requests import Code
from zkgroup.znodes.brokers import BrokerRegistration
from zkgroup.znodes.controller import ControllerEpoch, ControllerRegistration


class ControllerId(NamedTuple):
    """A broker, and the controller epoch in which it is the active controller."""

    broker: int
    epoch: int


class ClaimVerdict(Enum):
    """The result of a comparison."""

    CONFIRMED = "confirmed"
    """ZooKeeper says the same."""
    FORMER = "former"
    """Of a lower controller epoch: `ControlRequestHandler` decides by the highest that it has obeyed.

    A controller raises its epoch while its requests of the former epoch are still on their way."""
    STALE = "stale"
    """It was true before: a former registration, or a controller without a successor."""
    IMPOSSIBLE = "impossible"
    """It never was true."""
    UNREAD = "unread"
    """Unknown until ZooKeeper is read."""


class FoundPeers(NamedTuple):
    """The result of a read of ZooKeeper."""

    controller_epoch: int
    controller: int | None
    """The broker in `/controller`, read after the epoch; None without one."""
    brokers: Mapping[int, int | None]
    """The broker epoch of each broker that was asked for; None: it is not registered."""
    zkgroup: frozenset[int] = frozenset()
    """Those of them that are brokers of zkgroup."""


class PeerClaims:
    """Compares claims with what was read so far."""

    def __init__(self) -> None:
        self._controller: ControllerId | None = None
        """The last active controller that was read."""
        self._brokers: dict[int, int] = {}
        """The last epoch of each broker that was read."""

    def compare(self, claim: ControllerId | FollowerId) -> ClaimVerdict:
        """Compares without a new read; UNREAD for a claim beyond what was read."""
        if isinstance(claim, ControllerId):
            known = self._controller
            if claim == known:
                return ClaimVerdict.CONFIRMED
            return (
                ClaimVerdict.FORMER
                if known is not None and claim.epoch < known.epoch
                else ClaimVerdict.UNREAD
            )
        epoch = self._brokers.get(claim.broker)
        if epoch is None or claim.broker_epoch > epoch:
            return ClaimVerdict.UNREAD
        return ClaimVerdict.CONFIRMED if claim.broker_epoch == epoch else ClaimVerdict.STALE

    def knows(self, broker: int) -> bool:
        """Returns whether a registration of this broker was read."""
        return broker in self._brokers

    def read(self, found: FoundPeers) -> None:
        """Takes what a read has found; an older read changes nothing."""
        before = self._controller
        if found.controller is not None and (before is None or found.controller_epoch >= before.epoch):
            self._controller = ControllerId(found.controller, found.controller_epoch)
        for broker, epoch in found.brokers.items():
            if epoch is not None:
                self._brokers[broker] = max(epoch, self._brokers.get(broker, epoch))

    def decide(self, claim: ControllerId | FollowerId, found: FoundPeers) -> ClaimVerdict:
        """Compares a claim with a read that began after it arrived, and was taken; never UNREAD."""
        if (verdict := self.compare(claim)) is not ClaimVerdict.UNREAD:
            return verdict
        if isinstance(claim, ControllerId):
            if claim.epoch < found.controller_epoch:
                return ClaimVerdict.FORMER
            is_former = claim.epoch == found.controller_epoch and found.controller is None
        else:
            is_former = found.brokers.get(claim.broker) is None
        return ClaimVerdict.STALE if is_former else ClaimVerdict.IMPOSSIBLE


def registered_in(brokers: list[int], znodes: tuple[Znode | Code | None, ...]) -> FoundPeers | None:
    """The content of `/controller_epoch`, `/controller` and the registrations of these brokers.

    None if something cannot be read.
    """
    if any(isinstance(znode, Code) for znode in znodes):
        return None
    epoch, controller, *registrations = (each if isinstance(each, Znode) else None for each in znodes)
    try:
        return FoundPeers(
            0 if epoch is None else ControllerEpoch.decode(epoch.path, epoch.data).epoch,
            None
            if controller is None
            else ControllerRegistration.decode(controller.path, controller.data).broker,
            {
                broker: None if znode is None else znode.stat.czxid
                for broker, znode in zip(brokers, registrations, strict=True)
            },
            frozenset(
                broker
                for broker, znode in zip(brokers, registrations, strict=True)
                if znode is not None and _is_zkgroup(znode)
            ),
        )
    except CorruptZnodeError:
        return None


def _is_zkgroup(registration: Znode) -> bool:
    try:
        return BrokerRegistration.decode(registration.path, registration.data).is_zkgroup
    except CorruptZnodeError:
        return False
