"""Small facts about the whole history, which every rule may know beside its own rows.

They are folded from the rows of sessions, brokers, controllers and topics only, before any rule is asked; in
Spark they are collected and sent to each worker. Nothing that grows with commits is here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

from zkgroup.audit.inputs.events import Event
from zkgroup.errors import CorruptZnodeError
from zkgroup.model import TopicPartition
from zkgroup.znodes.admin_requests import Reassignment
from zkgroup.znodes.coordinated_groups import SlotConfig
from zkgroup.znodes.paths import Kind, PathKind, path_kind

_Item = TypeVar("_Item")


class Life(NamedTuple):
    """One existence of a znode, from its create to its delete."""

    path: str
    session: int
    """Names who created it; for an ephemeral its owner."""
    data: bytes | None
    """Holds what it was created with."""
    from_zxid: int
    from_ms: int
    to_zxid: int | None = None
    """None while it lives."""
    to_ms: int | None = None
    ended_by: int | None = None
    """The session that deleted it."""


class SessionLife(NamedTuple):
    """One session: None where the history began after its creation, or ended before its end."""

    session: int
    timeout_ms: int | None
    from_zxid: int | None
    from_ms: int | None
    to_zxid: int | None = None
    to_ms: int | None = None
    expired: bool | None = None
    """True if the server ended it (closeSession with cxid 0); None while it lives."""


class Requested(NamedTuple):
    """A time in which a move of a partition was asked for."""

    partition: int
    from_zxid: int
    to_zxid: int | None = None
    """None while the request stands."""


class DataChange(NamedTuple):
    """Holds what a znode held from a zxid on; None for its deletion."""

    zxid: int
    time_ms: int
    session: int
    data: bytes | None


@dataclass(frozen=True, slots=True)
class Facts:
    """The small things of one history. All sequences are ordered by zxid."""

    start_zxid: int = 0
    """Says where the log begins; seeds are before it."""
    start_ms: int = 0
    end_zxid: int = 0
    end_ms: int = 0
    """The latest time in the history: what stands at the end has stood until then."""
    has_log: bool = True
    """False where only a snapshot was given."""
    is_whole: bool = True
    """False where what stood before the log is not known: no snapshot, nor the ensemble's first record."""
    sessions: Mapping[int, SessionLife] = field(default_factory=dict)
    open_by_server: Mapping[int, int] = field(default_factory=dict)
    """Says how many sessions live at the end, by the `myid` of the server that issued them."""
    controllers: tuple[Life, ...] = ()
    """The lives of `/controller`."""
    controller_epochs: tuple[DataChange, ...] = ()
    brokers: Mapping[str, tuple[Life, ...]] = field(default_factory=dict)
    """The lives of `/brokers/ids/<id>`, by id."""
    topics: Mapping[str, tuple[DataChange, ...]] = field(default_factory=dict)
    """Holds what `/brokers/topics/<topic>` held, by topic."""
    slots_zxid: int | None = None
    """Since when `__consumer_offsets` has the slots of zkgroup's group coordinators; None: never."""
    moves: Mapping[str, tuple[Requested, ...]] = field(default_factory=dict)
    """By topic: the moves that `/admin/reassign_partitions` asked for, in the order in which they ended."""
    members: Mapping[str, tuple[Life, ...]] = field(default_factory=dict)
    """The lives of `/consumers/<group>/ids/<member>`, by group."""
    operator_acts: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """By group, the zxids of transactions with a reset marker or an audit record (recipes 6 and 18)."""
    derived: dict[tuple[str, ...], Any] = field(default_factory=dict, compare=False, repr=False)
    """Holds what rules computed of the other fields, kept for the next one that needs it."""


def server_of(session: int) -> int:
    """The `myid` in a session's top byte: the server that issued it. A hint, never a proof."""
    return session >> 56 & 0xFF


_FIRST_ZXIDS: Final = frozenset((1, 1 << 32 | 1))
"""Of the first record ever: of a server alone, and of an ensemble's first leader."""


def facts_of(events: Iterable[Event]) -> Facts:
    """The facts of a history, from its rows in order."""
    builder = FactBuilder()
    for event in events:
        builder.see(event)
    return builder.facts()


@lru_cache(maxsize=1 << 18)
def is_fact_path(path: str) -> bool:
    """Returns whether what is applied to a path changes facts. Results are cached: logs have the same
    paths."""
    return _kept(path) is not None or _acted_on(path) is not None


def _kept(path: str) -> PathKind | None:
    """Returns what a path is of, where its lives or contents are facts."""
    place = path_kind(path)
    match place.kind:
        case "member" | "controller" | "controller_epoch":
            return place
        case "broker" | "topic" if path.count("/") == 3:
            return place
        case "admin" if path == Reassignment.path():
            return place
        case "owner" | "offset" | "partition_state":  # nearly all paths of a log
            return None
    if path == SlotConfig.path():
        return place
    return None


def _acted_on(path: str) -> str | None:
    """The group whose offsets an operator set, where this is a reset marker or an audit record."""
    if path_kind(path).kind in ("owner", "offset", "partition_state"):
        return None
    names = path.split("/")
    match names:
        case ["", "consumers", group, "resets", _] | ["", "zkgroup", "audit", group]:
            return group
    return None


class FactBuilder:
    """Takes rows in order."""

    def __init__(self) -> None:
        self._start: tuple[int, int] | None = None
        self._end_zxid = 0
        self._end_ms = 0
        self._has_seeds = False
        self._sessions: dict[int, SessionLife] = {}
        self._lives: defaultdict[Kind, dict[str, list[Life]]] = defaultdict(dict)
        """By the kind of path, and by name."""
        self._open: dict[str, int] = {}
        """Of what lives: the place of its life among those of its kind and name."""
        self._changes: defaultdict[Kind, dict[str, list[DataChange]]] = defaultdict(dict)
        self._asked: dict[TopicPartition, int] = {}
        """Moves that are asked for, each with the zxid since which it is."""
        self._slots_zxid: int | None = None
        self._moves: dict[str, list[Requested]] = {}
        self._acts: dict[str, set[int]] = {}

    def see(self, event: Event) -> None:
        if event.seed:
            self._has_seeds = True
        elif self._start is None:
            self._start = event.zxid, event.time_ms
        self._end_zxid = max(self._end_zxid, event.zxid)
        self._end_ms = max(self._end_ms, event.time_ms, event.mtime_ms or 0)
        if event.session:
            self._session(event)
        if event.applied and event.op in ("create", "set", "delete"):
            place = _kept(event.path)
            if place is not None:
                self._znode(event, place)
            elif not event.seed and (group := _acted_on(event.path)) is not None:
                self._acts.setdefault(group, set()).add(event.zxid)

    def facts(self) -> Facts:
        start_zxid, start_ms = self._start or (0, 0)
        lives, changes = self._lives, self._changes
        moves = {topic: list(ended) for topic, ended in self._moves.items()}
        for partition, since in self._asked.items():
            moves.setdefault(partition.topic, []).append(Requested(partition.partition, since))
        return Facts(
            start_zxid=start_zxid,
            start_ms=start_ms,
            end_zxid=self._end_zxid,
            end_ms=self._end_ms,
            has_log=self._start is not None,
            is_whole=self._has_seeds or start_zxid in _FIRST_ZXIDS,
            sessions=dict(self._sessions),
            open_by_server=Counter(
                server_of(life.session) for life in self._sessions.values() if life.to_zxid is None
            ),
            controllers=tuple(*lives["controller"].values()),
            controller_epochs=tuple(*changes["controller_epoch"].values()),
            brokers=_tuples(lives["broker"]),
            topics=_tuples(changes["topic"]),
            slots_zxid=self._slots_zxid,
            moves=_tuples(moves),
            members=_tuples(lives["member"]),
            operator_acts={name: frozenset(zxids) for name, zxids in self._acts.items()},
        )

    def _session(self, event: Event) -> None:
        session, known = event.session, self._sessions.get(event.session)
        if known is None:
            known = self._sessions[session] = SessionLife(session, None, None, None)
        if event.op == "createSession":
            zxid, time_ms = (None, None) if event.seed else (event.zxid, event.time_ms)
            self._sessions[session] = SessionLife(session, event.timeout_ms, zxid, time_ms)
        elif event.op == "closeSession":
            self._sessions[session] = known._replace(
                to_zxid=event.zxid, to_ms=event.time_ms, expired=event.cxid == 0
            )

    def _znode(self, event: Event, place: PathKind) -> None:
        match place.kind:
            case "member" | "broker" | "controller":
                self._life(event, self._lives[place.kind].setdefault(place.name, []))
            case "controller_epoch" | "topic":
                data = None if event.op == "delete" else event.data
                change = DataChange(event.zxid, event.time_ms, event.session, data)
                self._changes[place.kind].setdefault(place.name, []).append(change)
            case "admin":
                self._request(event)
            case _:  # the number of slots, which is written once
                self._slots_zxid = event.zxid if self._slots_zxid is None else self._slots_zxid

    def _request(self, event: Event) -> None:
        """A request that cannot be read asks for nothing."""
        targets: Iterable[TopicPartition] = ()
        if event.op != "delete":
            with suppress(CorruptZnodeError):
                targets = Reassignment.decode(event.path, event.data).targets
        asked = {partition: self._asked.get(partition, event.zxid) for partition in targets}
        for partition, since in self._asked.items():
            if partition not in asked:
                ended = Requested(partition.partition, since, event.zxid)
                self._moves.setdefault(partition.topic, []).append(ended)
        self._asked = asked

    def _life(self, event: Event, lives: list[Life]) -> None:
        """Lives are listed from their beginning; where the log has a hole, a create may end one, too."""
        if event.op == "set":
            return
        at = self._open.pop(event.path, None)
        if at is not None:
            ended_by = event.session if event.op == "delete" else None
            lives[at] = lives[at]._replace(to_zxid=event.zxid, to_ms=event.time_ms, ended_by=ended_by)
        if event.op == "create":
            self._open[event.path] = len(lives)
            lives.append(Life(event.path, event.session, event.data, event.zxid, event.time_ms))


def _tuples(lists: Mapping[str, list[_Item]]) -> dict[str, tuple[_Item, ...]]:
    return {name: tuple(items) for name, items in lists.items()}
