"""The cost of a Kafka cluster for its ensemble: as once estimated, as Kafka's source says, as measured.

The corrected formulas are read off the source of each release (ZooKeeper usage, controller.md 9): B brokers,
T topics, P partitions, R of them being reassigned, C change notifications, A requests of tools that wait.
They count the cluster at rest and nothing else in the ensemble: consumers, tools, other chroots. A measured
count is never guessed: it is None, with the reason, where no server reports it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from zkgroup.admin.cluster.controller import ControllerInfo, read_controller_info
from zkgroup.admin.znodes import PATHS_AT_ONCE, join
from zkgroup.errors import AccessDeniedError
from zkgroup.groups.ensemble import AsOf, Ensemble
from zkgroup.groups.snapshot import value_of
from zkgroup.model.requests import Code
from zkgroup.model.text import named
from zkgroup.znodes.admin_requests import PreferredElection, Reassignment
from zkgroup.znodes.brokers import Topic, broker_ids_path, topics_path
from zkgroup.znodes.ids import number_of
from zkgroup.znodes.notifications import config_changes_path
from zkgroup.zookeeper.four_letter_words import ADMIN_PORT, ServerStatus, ask_server

T = TypeVar("T")

QUANTITIES = ("connections", "watches", "leaf_znodes", "znodes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Counts what the formulas are made of."""

    brokers: int
    """Registered brokers."""
    topics: int
    """Topics below `/brokers/topics`."""
    partitions: int
    """Partitions of all topics."""
    reassigning: int
    """Partitions that the request names."""
    notifications: int
    """Children of `/config/changes`."""
    requests: int
    """0 to 2: a reassignment and a preferred election that wait."""


@dataclass(frozen=True, slots=True)
class Formula:
    """One formula: for people, and as a constant and the factor of each count."""

    text: str
    constant: int
    factors: Mapping[str, int]
    """Name of a field of `Counts` to its factor."""

    def count(self, counts: Counts) -> int:
        """Returns the value with these counts."""
        return self.constant + sum(each * int(getattr(counts, name)) for name, each in self.factors.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The value of a formula in this cluster."""

    formula: str
    """The formula, with B for brokers, T for topics, P for partitions, C for notifications."""
    value: int
    """The value of the formula with the counts of this cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """One quantity three times."""

    quantity: str
    """One of `QUANTITIES`."""
    early: Estimate | None
    """As estimated in Kafka's early days; None where there was no such estimate."""
    corrected: Estimate | None
    """As the source of the release here says; None where it has not been counted."""
    measured: int | None
    """The count; None if it could not be counted."""
    measured_by: str | None
    """`mntr`, `wchs`, `AdminServer` or `tree walk`."""
    reason: str | None
    """The reason why there is no measured count, or what it leaves out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterUsage:
    """`cluster usage`."""

    as_of: AsOf
    """The moment at which the tree was read."""
    counts: Counts
    """The numbers that the formulas use."""
    release: str | None
    """The releases of the formulas: `0.8.2`, `1.1-2.6`, `2.7+` or `zkgroup`; None where none is known."""
    rows: tuple[Usage, ...]
    """One row for each of `QUANTITIES`, in that order."""
    servers: tuple[ServerStatus, ...]
    """The status of each ZooKeeper server of the address."""
    unreadable: tuple[str, ...] = ()
    """Paths that an ACL hides: they, and what is below them, are missing in the counts."""


_B = Formula("B", 0, {"brokers": 1})
_LEAVES = dict.fromkeys(("brokers", "partitions", "topics", "notifications"), 1)
EARLY: Mapping[str, Formula] = {
    "connections": _B,
    "watches": Formula("3B + 2T + 6", 6, {"brokers": 3, "topics": 2}),
    "leaf_znodes": Formula("B + P + T + C + 8", 8, _LEAVES),
}
"""Of the design papers of Kafka 0.8."""

_LEAVES_NOW = {**_LEAVES, "requests": 1}
_ALL = {**_LEAVES_NOW, "partitions": 2, "topics": 3}
_WATCHES = {"brokers": 3, "topics": 1, "reassigning": 1}
CORRECTED: Mapping[str, Mapping[str, Formula]] = {
    "0.8.2": {
        "connections": _B,
        "watches": Formula("3B + T + R + 6, and 2 for delete.topic.enable", 8, _WATCHES),
        "leaf_znodes": Formula("B + P + T + C + A + 6", 6, _LEAVES_NOW),
        "znodes": Formula("B + 2P + 3T + C + A + 14", 14, _ALL),
    },
    "1.1-2.6": {
        "connections": _B,
        "watches": Formula("3B + T + R + 7", 7, _WATCHES),
        "leaf_znodes": Formula("B + P + T + C + A + about 14", 14, _LEAVES_NOW),
        "znodes": Formula("B + 2P + 3T + C + A + about 23", 23, _ALL),
    },
    "2.7+": {
        "connections": _B,
        "watches": Formula("4B + T + 7", 7, {"brokers": 4, "topics": 1}),
        "leaf_znodes": Formula("B + P + T + C + A + about 16", 16, _LEAVES_NOW),
        "znodes": Formula("B + 2P + 3T + C + A + about 25", 25, _ALL),
    },
    "zkgroup": {
        "connections": _B,
        "watches": Formula("3B + T + R + 6, and 3 for requests of zkgroup's own", 9, _WATCHES),
    },
}
"""Release to formulas. From 2.7 on that is with inter.broker.protocol.version 2.7 or later. The controller of
zkgroup also watches for requests to resign, for unclean elections and for stored plans."""

_RELEASES = {1: "0.8.2", 4: "1.1-2.6", 5: "2.7+"}


def read_usage(
    ensemble: Ensemble,
    servers: Sequence[tuple[str, int]],
    *,
    admin_port: int | None = ADMIN_PORT,
    words: bool = True,
) -> ClusterUsage:
    """Counts the cluster, asks every server, and walks the tree below the chroot.

    Args:
        servers: all of the ensemble, as the address names them: a server that is not named is not counted.
        admin_port: None to leave AdminServers alone.
        words: whether four-letter words may be sent.
    """
    ensemble.zk.sync("/")
    hidden: set[str] = set()
    counts = _count(ensemble, hidden)
    try:
        release = release_of(read_controller_info(ensemble))
    except AccessDeniedError:
        release = None  # whose formulas hold is not known; the walk names what is hidden
    figures = tuple(ask_server(host, port, admin_port=admin_port, words=words) for host, port in servers)
    znodes, leaves, unlisted = walk(ensemble)
    reason = None
    if unlisted:
        reason = f"not counted, as their ACLs hide it: what is below {named(unlisted)}"
    measured = {
        "connections": _summed(figures, lambda one: one.connections),
        "watches": _summed(figures, lambda one: one.watches),
        "leaf_znodes": (leaves, "tree walk", reason),
        "znodes": (znodes, "tree walk", reason),
    }
    formulas = CORRECTED[release] if release else {}
    rows = []
    for quantity in QUANTITIES:
        value, by, reason = measured[quantity]
        rows.append(
            Usage(
                quantity=quantity,
                early=_estimate(EARLY.get(quantity), counts),
                corrected=_estimate(formulas.get(quantity), counts),
                measured=value,
                measured_by=by,
                reason=reason,
            )
        )
    return ClusterUsage(
        as_of=ensemble.as_of(),
        counts=counts,
        release=release,
        rows=tuple(rows),
        servers=figures,
        unreadable=tuple(sorted(hidden | set(unlisted))),
    )


def release_of(info: ControllerInfo) -> str | None:
    """Returns whose formulas hold: those of Kafka's oldest broker, else zkgroup's; None for 0.9 to 0.10.1,
    not counted.

    Registrations of 0.10.2 to 1.0, not counted either, have the same form as those of 1.1 to 2.6.
    """
    if info.oldest is not None:
        return _RELEASES.get(info.oldest)
    return "zkgroup" if info.brokers else None


def walk(ensemble: Ensemble) -> tuple[int, int, tuple[str, ...]]:
    """Znodes below the chroot, itself included, those without children, and paths that may not be listed.

    By names alone. What may not be listed counts as a znode, of which it is not known whether it is a leaf.
    """
    znodes = leaves = 0
    hidden: list[str] = []
    level = ["/"]
    while level:
        below = []
        for start in range(0, len(level), PATHS_AT_ONCE):
            for parent, names in ensemble.zk.list_each(level[start : start + PATHS_AT_ONCE]).items():
                if names is None:
                    continue  # deleted since its name was read
                znodes += 1
                if isinstance(names, Code):
                    hidden.append(parent)
                    continue
                leaves += not names
                below += [join(parent, name) for name in names]
        level = below
    return znodes, leaves, tuple(sorted(hidden))


def _count(ensemble: Ensemble, hidden: set[str]) -> Counts:
    """Counts what may be read; paths that may not are added to `hidden`."""
    parents = [topics_path(), config_changes_path(), broker_ids_path()]
    listed = _allowed(ensemble.zk.list_each(parents), hidden)
    names = sorted(listed[topics_path()] or ())
    paths = [*map(Topic.path, names), Reassignment.path(), PreferredElection.path()]
    found = _allowed(ensemble.zk.read_each(paths), hidden)
    topics = [value_of(found[Topic.path(name)], Topic.decode) for name in names]
    request, election = found[Reassignment.path()], found[PreferredElection.path()]
    moves = value_of(request, Reassignment.decode)
    return Counts(
        brokers=sum(number_of(name) is not None for name in listed[broker_ids_path()] or ()),
        topics=len(names),
        partitions=sum(len(topic.partitions) for topic in topics if topic),
        reassigning=len(moves.moves) if moves else 0,
        notifications=len(listed[config_changes_path()] or ()),
        requests=(request is not None) + (election is not None),
    )


def _allowed(found: Mapping[str, T | Code | None], hidden: set[str]) -> dict[str, T | None]:
    """None for what may not be read as well; its path is added to `hidden`."""
    hidden |= {path for path, one in found.items() if isinstance(one, Code)}
    return {path: None if isinstance(one, Code) else one for path, one in found.items()}


def _estimate(formula: Formula | None, counts: Counts) -> Estimate | None:
    return None if formula is None else Estimate(formula=formula.text, value=formula.count(counts))


def _summed(
    figures: Sequence[ServerStatus], of: Callable[[ServerStatus], int | None]
) -> tuple[int | None, str | None, str | None]:
    """The sum over all servers, how it was found, why there is none: a silent one makes it unknown."""
    values = [of(one) for one in figures]
    silent = [f"{one.server}: {one.reason or 'does not report it'}" for one in figures if of(one) is None]
    if silent:
        return None, None, "; ".join(silent)
    by = ", ".join(dict.fromkeys(one.by for one in figures if one.by))
    return sum(value for value in values if value is not None), by, None
