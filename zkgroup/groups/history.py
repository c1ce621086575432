"""Reads the history of a group's rebalances: what its members keep, and what its coordinators have kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from heapq import merge

from zkgroup.coordinator.group_ids import slot_of
from zkgroup.errors import NotFoundError
from zkgroup.groups.ensemble import AsOf, Ensemble
from zkgroup.groups.group_ids import validate_group_id
from zkgroup.groups.slots import read_slot_count
from zkgroup.groups.snapshot import decode_or_error
from zkgroup.znodes.consumers import group_path, views_path
from zkgroup.znodes.coordinated_groups import GroupHeader
from zkgroup.znodes.group_history import REBALANCES_MAX, GroupHistory, RebalanceRecord
from zkgroup.znodes.group_records import View


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceDescription:
    """One rebalance of a group."""

    time_ms: int
    """Its begin in epoch milliseconds, by the clock of the member or the broker that kept it."""
    generation: int
    """The generation that it led to: the `pzxid` of `ids`, or the number of Kafka's group protocol."""
    reason: str
    """What happened, for people."""
    joined: tuple[str, ...]
    """Members that came; one that registered again is in `left` too. Static members by their instance id."""
    left: tuple[str, ...]
    """Members that went."""
    moved: int | None
    """Number of partitions that got another member; None for unknown."""
    took_s: float | None
    """Seconds until the slowest zkgroup member owned its partitions, as far as that was seen, or until the
    coordinator had the assignment; None for unknown."""


def read_history(ensemble: Ensemble, group: str) -> tuple[AsOf, tuple[RebalanceDescription, ...]]:
    """The newest rebalances of a group, at most 200, the newest is the last.

    Raises NotFoundError where there is no such group, and CorruptZnodeError for a history of its members that
    cannot be read.
    """
    validate_group_id(group)
    ensemble.zk.sync("/")
    slots = read_slot_count(ensemble)
    header = None if slots is None else GroupHeader.path(slot_of(group, slots), group)
    of_group = [path for path in (group_path(group), GroupHistory.path(group), header) if path is not None]
    found = ensemble.zk.read_many(of_group)
    if not any(found.values()):
        raise NotFoundError(
            f"{group_path(group)}: there is no group {group!r}; `zkgroup group list` shows those there are"
        )
    of_members: list[RebalanceRecord] = []
    kept = found[GroupHistory.path(group)]
    if kept is not None:
        history = GroupHistory.decode(kept.path, kept.data)
        of_members = [*history.rebalances[:-1], _with_slowest(ensemble, group, history.rebalances[-1])]
    of_clients = _coordinated(ensemble, header) if header is not None and found[header] is not None else []
    rebalances = list(merge(of_members, of_clients, key=lambda each: each.time_ms))
    rows = tuple(
        RebalanceDescription(
            time_ms=each.time_ms,
            generation=each.generation,
            reason=each.reason,
            joined=each.joined,
            left=each.left,
            moved=each.moved,
            took_s=None if each.took_ms is None else each.took_ms / 1000,
        )
        for each in rebalances[-REBALANCES_MAX:]
    )
    return ensemble.as_of(), rows


def _with_slowest(ensemble: Ensemble, group: str, newest: RebalanceRecord) -> RebalanceRecord:
    """The newest rebalance with the longest time in the views of its generation: the member that writes the
    history reads them later."""
    names = ensemble.names_below(views_path(group))
    views: Mapping[str, View | None] = {
        name: decode_or_error(znode, View.decode).value
        for name, znode in ensemble.find_each(names, lambda name: View.path(group, name)).items()
    }
    times = [
        view.took_ms
        for view in views.values()
        if view is not None and view.generation == newest.generation and view.took_ms is not None
    ]
    return replace(newest, took_ms=max([*times, newest.took_ms or 0])) if times else newest


def _coordinated(ensemble: Ensemble, header: str) -> list[RebalanceRecord]:
    """What coordinators have kept, by generation; a znode that cannot be read is left out."""
    names = [name for name in ensemble.names_below(header) if RebalanceRecord.parse(name) is not None]
    found = ensemble.find_each(names, lambda name: f"{header}/{name}").values()
    read = (decode_or_error(znode, RebalanceRecord.decode).value for znode in found)
    return sorted((each for each in read if each is not None), key=lambda each: each.generation)
