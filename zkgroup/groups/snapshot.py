"""`GroupSnapshot`: all znodes of one group at one moment, as a value. Pure.

Each znode is stored with its Stat and either its decoded value or the reason why it cannot be read:
one unreadable znode never hides the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from zkgroup.errors import CorruptZnodeError, PersistentZnodeError
from zkgroup.groups.ensemble import AsOf
from zkgroup.model import TopicPartition, Znode, ZnodeStat
from zkgroup.model.assignors import Racks, racks_of_replicas
from zkgroup.model.requests import Code
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import STATIC_MEMBERS, Offset, Owner, Registration
from zkgroup.znodes.coordinated_groups import GroupHeader, ProtocolMarker, StoredMember
from zkgroup.znodes.group_records import Freeze, StaticMember, StoredAssignment, View
from zkgroup.znodes.paths import path_kind
from zkgroup.znodes.sessions import is_leftover

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedZnode(Generic[T]):
    """A znode as found: where `value` is None, `error` says why it cannot be read, unless it has no data."""

    znode: Znode
    value: T | None
    error: CorruptZnodeError | None = None

    @property
    def stat(self) -> ZnodeStat:
        return self.znode.stat

    @property
    def text(self) -> str:
        """The raw data for a person; bytes that are no UTF-8 are escaped."""
        return (self.znode.data or b"").decode("utf-8", "backslashreplace")


def decode_or_error(znode: Znode, decode: Callable[[str, bytes | None], T]) -> DecodedZnode[T]:
    """Decodes a znode; an error is returned instead of raised."""
    try:
        return DecodedZnode(znode=znode, value=decode(znode.path, znode.data))
    except CorruptZnodeError as error:
        return DecodedZnode(znode=znode, value=None, error=error)


def value_of(znode: Znode | None, decode: Callable[[str, bytes | None], T]) -> T | None:
    """The value of a znode; None where there is none, or it cannot be read."""
    return None if znode is None else decode_or_error(znode, decode).value


def decode_ephemeral(znode: Znode, decode: Callable[[str, bytes | None], T]) -> DecodedZnode[T]:
    """The same of a znode that belongs to a session: a persistent one has no value, its error says why."""
    if is_leftover(znode):
        return DecodedZnode(znode=znode, value=None, error=PersistentZnodeError(znode.path))
    return decode_or_error(znode, decode)


Marks = Mapping[str, tuple[int, int, int] | None]
"""Path to the `czxid`, `mzxid` and `pzxid` of a znode; to None where there is none."""


def mark_of(znode: Znode | Code | None) -> tuple[int, int, int] | None:
    """The transactions that have changed a znode or its children last; None where none can be read."""
    if znode is None or isinstance(znode, Code):
        return None
    stat = znode.stat
    return stat.czxid, stat.mzxid, stat.pzxid


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatedGroup:
    """The znodes of a group of Kafka's group protocol (slots, generations and marker, recipes
    20-22)."""

    slot: int
    """The partition of `__consumer_offsets` whose leader coordinates the group."""
    marker: DecodedZnode[ProtocolMarker] | None
    """None: ZooKeeper consumers may be members."""
    header: DecodedZnode[GroupHeader] | None
    """None: only the marker is there. Without value and error: offsets are stored, and never were members."""
    members: tuple[StoredMember, ...] = ()
    """The members of the last stored generation."""
    error: CorruptZnodeError | None = None
    """The reason why header or members cannot be read."""

    @property
    def names(self) -> tuple[str, ...]:
        """Ids of the stored members, sorted."""
        return tuple(sorted(member.member_id for member in self.members))

    @property
    def has_members(self) -> bool:
        """Returns whether ZooKeeper has members; they may join at this moment and not be stored."""
        return self.marker is not None or bool(self.members)

    @property
    def path(self) -> str:
        """Of the marker, else of the header; for messages."""
        entry = self.marker or self.header
        assert entry is not None
        return entry.znode.path

    @property
    def newest_change_ms(self) -> int:
        """Time of the last write of marker or header."""
        return max(entry.stat.mtime for entry in (self.marker, self.header) if entry is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSnapshot:
    """One group, and the topics that concern it, as read in one pass without changes."""

    group: str
    as_of: AsOf
    stood_still: bool
    """False when members or owners went on changing through every try: part of it is older."""
    ids: ZnodeStat | None
    """None where the group has no `ids`: no member has ever joined it."""
    registrations: Mapping[str, DecodedZnode[Registration]]
    owners: Mapping[TopicPartition, DecodedZnode[Owner]]
    offsets: Mapping[TopicPartition, DecodedZnode[Offset]]
    strays: tuple[str, ...]
    """Paths below `owners` and `offsets` whose last name is no partition number."""
    views: Mapping[str, DecodedZnode[View]]
    plan: DecodedZnode[StoredAssignment] | None
    topics: Mapping[str, DecodedZnode[Topic]]
    """Topics that a member subscribes to, owns or has offsets of; those that do not exist are absent."""
    topic_names: frozenset[str]
    """Every topic of the ensemble: what wildcards are evaluated against."""
    frozen: DecodedZnode[Freeze] | None = None
    """The marker of a freeze; None where the group is not frozen."""
    coordinated: CoordinatedGroup | None = None
    """None where neither a marker nor a coordinator's group is there."""
    broker_racks: Mapping[int, str] = field(default_factory=dict)
    """Broker to its rack; read only where every member has a rack."""
    exists: bool = True
    """False where there is no znode of the group."""
    static: Mapping[str, DecodedZnode[StaticMember]] = field(default_factory=dict)
    """What is kept for static members, also for those that are away."""
    marks: Marks = field(default_factory=dict)
    """What it is known by, where it stood still: as long as a read of these paths gives the same marks,
    nothing of it but offsets has changed."""

    @classmethod
    def of_nothing(cls, group: str, as_of: AsOf, topics: Mapping[str, DecodedZnode[Topic]]) -> GroupSnapshot:
        """The snapshot of a group that does not exist, where these topics do."""
        return cls(
            group=group,
            as_of=as_of,
            stood_still=True,
            ids=None,
            registrations={},
            owners={},
            offsets={},
            strays=(),
            views={},
            plan=None,
            topics=topics,
            topic_names=frozenset(topics),
            exists=False,
        )

    @classmethod
    def of_offsets(cls, group: str, as_of: AsOf, znodes: Iterable[Znode]) -> GroupSnapshot:
        """The snapshot of a group of which only the offsets are known, from znodes at and below its path."""
        found = {}
        for znode in znodes:
            place = path_kind(znode.path)
            tp = TopicPartition(place.topic, place.partition)
            if place.kind == "offset" and znode.path == Offset.path(group, tp):
                found[tp] = decode_or_error(znode, Offset.decode)
        return replace(cls.of_nothing(group, as_of, {}), offsets=found, exists=True)

    @property
    def is_coordinated(self) -> bool:
        """Returns whether it is a group of Kafka's protocol, by its members or by those that it had last."""
        if self.coordinated is None:
            return False
        return self.coordinated.has_members or not self.registrations

    @property
    def generation(self) -> int | None:
        """The `pzxid` of `ids`: identifies one membership."""
        return self.ids.pzxid if self.ids else None

    def is_away(self, member: str) -> bool:
        """Returns whether this is a static member that is not registered, and that something is kept for."""
        entry = self.static.get(member)
        return entry is not None and entry.value is not None and member not in self.registrations

    @property
    def away(self) -> Mapping[str, StaticMember]:
        """The static members that are away."""
        entries = sorted(self.static.items())
        return {member: entry.value for member, entry in entries if entry.value and self.is_away(member)}

    def away_until_ms(self, member: str) -> int | None:
        """The end of the grace of an away member; None for others, and before a member has noticed it."""
        entry, away = self.static.get(member), self.away.get(member)
        return entry.stat.mtime + away.grace_ms if entry and away and away.is_away else None

    @property
    def without_grace(self) -> tuple[str, ...]:
        """The registered members that do not know static members; while there is one, no grace holds."""
        known = {member: entry.value for member, entry in self.registrations.items() if entry.value}
        return tuple(member for member, one in sorted(known.items()) if STATIC_MEMBERS not in one.features)

    @property
    def persistent(self) -> tuple[Znode, ...]:
        """Znodes of sessions that no session holds, by path."""
        entries: tuple[Mapping[Any, DecodedZnode[Any]], ...] = (self.registrations, self.owners, self.views)
        znodes = [entry.znode for found in entries for entry in found.values()]
        return tuple(sorted(znode for znode in znodes if is_leftover(znode)))

    @property
    def persistent_paths(self) -> tuple[str, ...]:
        return tuple(znode.path for znode in self.persistent)

    def registered_owner(self, tp: TopicPartition) -> str | None:
        """The member that the owner znode of a partition names, if a session has it registered.

        Of several it is the one that is registered by the session of the znode.
        """
        entry = self.owners.get(tp)
        if entry is None or entry.value is None:
            return None
        holder, known = entry.stat.ephemeral_owner, self.registrations
        named = [each for each in entry.value.members if each in known and not is_leftover(known[each].znode)]
        mine = (member for member in named if known[member].stat.ephemeral_owner == holder)
        return next(mine, named[0] if named else None)

    def partitions(self, topic: str) -> tuple[int, ...]:
        """Partition numbers of a topic, ascending; none where it is missing or unreadable."""
        entry = self.topics.get(topic)
        return entry.value.numbers if entry and entry.value else ()

    def racks(self, topics: Iterable[str]) -> Racks:
        """The racks of the replicas of each partition of these topics."""
        values = {topic: entry.value for topic in topics if (entry := self.topics.get(topic))}
        return racks_of_replicas({t: v.partitions for t, v in values.items() if v}, self.broker_racks)

    def fingerprint(self) -> tuple[object, ...]:
        """Equal for two snapshots iff no member joined or left and no partition changed hands in between."""
        return (
            self.generation,
            tuple(sorted((member, entry.stat.czxid) for member, entry in self.registrations.items())),
            tuple(sorted((tp, entry.stat.mzxid) for tp, entry in self.owners.items())),
        )

    def newest_change_ms(self) -> int | None:
        """Time of the youngest registration or owner; None where there is neither."""
        joined = [entry.stat.mtime for entry in self.registrations.values()]
        claimed = [entry.stat.mtime for entry in self.owners.values()]
        return max([*joined, *claimed], default=None)
