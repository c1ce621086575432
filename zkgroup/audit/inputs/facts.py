"""Small facts about the whole history, which every rule gets beside its own rows.

They are made from the rows of sessions, brokers, controllers and topics only, before any rule runs; in
Spark they are collected and sent to each worker. Their size does not grow with commits.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from typing import Any, Concatenate, Final, Literal, NamedTuple, ParamSpec, TypeVar

from zkgroup.audit.inputs.events import Event
from zkgroup.errors import CorruptZnodeError
from zkgroup.model import TopicPartition
from zkgroup.model.text import hex_session, named
from zkgroup.zkfiles.records import FIRST_ZXIDS, is_below
from zkgroup.znodes.admin_requests import Reassignment
from zkgroup.znodes.consumers import Registration
from zkgroup.znodes.coordinated_groups import SlotConfig
from zkgroup.znodes.paths import Kind, PathKind, path_kind

_Item = TypeVar("_Item")
_Value = TypeVar("_Value")


class Life(NamedTuple):
    """One life of a znode, from its create to its delete."""

    path: str
    session: int
    """The session that created it; of an ephemeral its owner."""
    data: bytes | None
    """The data that it was created with."""
    from_zxid: int
    from_ms: int
    to_zxid: int | None = None
    """The zxid of its end; None while it lives."""
    to_ms: int | None = None
    ended_by: int | None = None
    """The session that deleted it."""


class SessionLife(NamedTuple):
    """One session. Fields are None where the history began after its creation, or ended before its end."""

    session: int
    timeout_ms: int | None
    from_zxid: int | None
    from_ms: int | None
    to_zxid: int | None = None
    to_ms: int | None = None
    expired: bool | None = None
    """True if the server ended it (closeSession with cxid 0); None while it lives."""


class Requested(NamedTuple):
    """A time in which a move of a partition was requested."""

    partition: int
    from_zxid: int
    to_zxid: int | None = None
    """The zxid of its end; None while the request stands."""


class DataChange(NamedTuple):
    """The data of a znode from a zxid on; None for its deletion."""

    zxid: int
    time_ms: int
    session: int
    data: bytes | None


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of one history. All sequences are ordered by zxid."""

    start_zxid: int = 0
    """The zxid of the first record of the log; seeds are before it."""
    start_ms: int = 0
    end_zxid: int = 0
    end_ms: int = 0
    """The latest time in the history, up to which everything that stands at its end has stood."""
    has_log: bool = True
    """False where there is only a snapshot."""
    is_whole: bool = True
    """False where the tree before the log is not known: no snapshot, nor the ensemble's first record."""
    unknown: frozenset[str] = frozenset()
    """Paths of which one tree tells nothing, nor of what is below them."""
    sessions: Mapping[int, SessionLife] = field(default_factory=dict)
    open_by_server: Mapping[int, int] = field(default_factory=dict)
    """The number of sessions that live at the end, by the `myid` of the server that issued them."""
    controllers: tuple[Life, ...] = ()
    """The lives of `/controller`."""
    controller_epochs: tuple[DataChange, ...] = ()
    brokers: Mapping[str, tuple[Life, ...]] = field(default_factory=dict)
    """The lives of `/brokers/ids/<id>`, by id."""
    topics: Mapping[str, tuple[DataChange, ...]] = field(default_factory=dict)
    """The data of `/brokers/topics/<topic>`, by topic."""
    slots_zxid: int | None = None
    """The zxid since which `__consumer_offsets` has the slots of zkgroup's group coordinators, or None."""
    moves: Mapping[str, tuple[Requested, ...]] = field(default_factory=dict)
    """The moves that `/admin/reassign_partitions` asked for, by topic, in the order in which they ended."""
    members: Mapping[str, tuple[Life, ...]] = field(default_factory=dict)
    """The lives of `/consumers/<group>/ids/<member>`, by group."""
    operator_acts: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """The zxids of transactions with a reset marker or an audit record of an operator, by group."""
    derived: dict[tuple[object, ...], Any] = field(default_factory=dict, compare=False, repr=False)
    """Results that rules computed from the other fields, kept for the next rule that needs them."""

    def knows(self, *paths: str) -> bool:
        """True if none of these paths, nor what is below them, is unknown."""
        pairs = ((path, each) for path in paths for each in self.unknown)
        return not any(is_below(path, (each,)) or is_below(each, (path,)) for path, each in pairs)

    def controller_at(self, zxid: int) -> Life | None:
        """The life of `/controller` that a zxid falls in, as of `life_at`."""
        return life_at(self.controllers, zxid)


def server_of(session: int) -> int:
    """The `myid` in a session's top byte: the server that issued it. A hint, never a proof."""
    return session >> 56 & 0xFF


_MOVES: Final = Reassignment.path()
_SLOTS: Final = SlotConfig.path()


def facts_of(events: Iterable[Event]) -> Facts:
    """The facts of a history, from its rows in order."""
    seen = _FactRows()
    for event in events:
        seen.add(event)
    return seen.facts()


@lru_cache(maxsize=1 << 18)
def is_fact_path(path: str) -> bool:
    """True if operations on a path change facts. Results are cached: logs repeat their paths."""
    return _kept(path) is not None or acted_on(path) is not None


def _kept(path: str) -> PathKind | None:
    """The kind of a path whose lives or contents are facts, and the name in it; None for other paths."""
    place = path_kind(path)
    match place.kind:
        case "member" | "controller" | "controller_epoch":
            return place
        case "broker" | "topic" if path.count("/") == 3:
            return place
        case "owner" | "offset" | "partition_state":  # these are nearly all paths of a log
            return None
    return place if path in (_MOVES, _SLOTS) else None


def acted_on(path: str) -> str | None:
    """The group whose offsets an operator set, if the path is a reset marker or an audit record."""
    if path_kind(path).kind in ("owner", "offset", "partition_state"):
        return None
    match path.split("/"):
        case ["", "consumers", group, "resets", _] | ["", "zkgroup", "audit", group]:
            return group
    return None


_Of = tuple[Kind, str]
"""Kind of a path, and the group, topic or broker that it belongs to."""


class _FactRows:
    def __init__(self) -> None:
        self._start: tuple[int, int] | None = None
        self._end_zxid = self._end_ms = 0
        self._has_seeds = False
        self._sessions: dict[int, SessionLife] = {}
        self._open: dict[str, int] = {}
        """The place of each open life among the lives of its kind, by path."""
        self._lives: dict[_Of, list[Life]] = defaultdict(list)
        self._changes: dict[_Of, list[DataChange]] = defaultdict(list)
        self._acts: dict[str, set[int]] = defaultdict(set)

    def add(self, event: Event) -> None:
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
            if place is None:
                if not event.seed and (group := acted_on(event.path)) is not None:
                    self._acts[group].add(event.zxid)
            elif place.kind in ("member", "broker", "controller"):
                self._life(event, self._lives[place.kind, place.name])
            else:
                data = None if event.op == "delete" else event.data
                change = DataChange(event.zxid, event.time_ms, event.session, data)
                self._changes[place.kind, place.name].append(change)

    def facts(self) -> Facts:
        start_zxid, start_ms = self._start or (0, 0)
        living = (life.session for life in self._sessions.values() if life.to_zxid is None)
        path = path_kind(_SLOTS)
        return Facts(
            start_zxid=start_zxid,
            start_ms=start_ms,
            end_zxid=self._end_zxid,
            end_ms=self._end_ms,
            has_log=self._start is not None,
            is_whole=self._has_seeds or start_zxid in FIRST_ZXIDS,
            sessions=self._sessions,
            open_by_server=Counter(map(server_of, living)),
            controllers=tuple(self._lives["controller", ""]),
            controller_epochs=tuple(self._changes["controller_epoch", ""]),
            brokers=_named(self._lives, "broker"),
            topics=_named(self._changes, "topic"),
            slots_zxid=min((change.zxid for change in self._changes[path.kind, path.name]), default=None),
            moves=_moves(self._changes["admin", path_kind(_MOVES).name]),
            members=_named(self._lives, "member"),
            operator_acts={name: frozenset(zxids) for name, zxids in self._acts.items()},
        )

    def _session(self, event: Event) -> None:
        session = event.session
        known = self._sessions.setdefault(session, SessionLife(session, None, None, None))
        if event.op == "createSession":
            zxid, time_ms = (None, None) if event.seed else (event.zxid, event.time_ms)
            self._sessions[session] = SessionLife(session, event.timeout_ms, zxid, time_ms)
        elif event.op == "closeSession":
            self._sessions[session] = known._replace(
                to_zxid=event.zxid, to_ms=event.time_ms, expired=event.cxid == 0
            )

    def _life(self, event: Event, lives: list[Life]) -> None:
        """Begins or ends a life; where the log has a hole, a create may end one, too."""
        if event.op == "set":
            return
        at = self._open.pop(event.path, None)
        if at is not None:
            ended_by = event.session if event.op == "delete" else None
            lives[at] = lives[at]._replace(to_zxid=event.zxid, to_ms=event.time_ms, ended_by=ended_by)
        if event.op == "create":
            self._open[event.path] = len(lives)
            lives.append(Life(event.path, event.session, event.data, event.zxid, event.time_ms))


def _named(lists: Mapping[_Of, list[_Item]], kind: Kind) -> dict[str, tuple[_Item, ...]]:
    return {name: tuple(items) for (of_kind, name), items in lists.items() if of_kind == kind}


def _moves(requests: Iterable[DataChange]) -> dict[str, tuple[Requested, ...]]:
    """The moves that were requested, by topic; a request that cannot be read asks for nothing."""
    moves: dict[str, list[Requested]] = defaultdict(list)
    asked: dict[TopicPartition, int] = {}
    """The zxid since which each move is requested."""
    for request in requests:
        now: dict[TopicPartition, int] = {}
        with suppress(CorruptZnodeError):
            targets = Reassignment.decode(_MOVES, request.data).targets
            now = {partition: asked.get(partition, request.zxid) for partition in targets}
        for (topic, number), since in asked.items():
            if (topic, number) not in now:
                moves[topic].append(Requested(number, since, request.zxid))
        asked = now
    for (topic, number), since in asked.items():
        moves[topic].append(Requested(number, since))
    return {topic: tuple(of_topic) for topic, of_topic in moves.items()}


_About = ParamSpec("_About")
_Known = TypeVar("_Known")
_Make = Callable[Concatenate[Facts, _About], _Known]


def derived(make: _Make[_About, _Known]) -> _Make[_About, _Known]:
    """Computes a value from facts and names once; the facts keep it."""

    @wraps(make)
    def known(facts: Facts, /, *about: _About.args, **more: _About.kwargs) -> _Known:
        key = make.__name__, *about
        if key not in facts.derived:
            facts.derived[key] = make(facts, *about, **more)
        found: _Known = facts.derived[key]
        return found

    return known


def members_of(facts: Facts, session: int, group: str | None = None) -> tuple[tuple[str, str], ...]:
    """The group and member id of all that a session ever registered, in a group or in all, each once."""
    known = _registered(facts, "members").get(session, ())
    return tuple((name, path_kind(path).member) for name, path in known if group in (None, name))


def brokers_of(facts: Facts, session: int) -> tuple[str, ...]:
    """The ids of the brokers that a session registered."""
    return tuple(name for name, _ in _registered(facts, "brokers").get(session, ()))


@derived
def _registered(facts: Facts, what: Literal["members", "brokers"]) -> dict[int, dict[tuple[str, str], None]]:
    """The registrations of each session, by session: their group or broker, and their path."""
    known: dict[int, dict[tuple[str, str], None]] = {}
    lives_of = facts.members if what == "members" else facts.brokers
    for name, lives in lives_of.items():
        for life in lives:
            known.setdefault(life.session, {})[name, life.path] = None
    return known


def only_group(facts: Facts, session: int) -> str | None:
    """The only group that a session's members are in; None where there are several, or none."""
    groups = {group for group, _ in members_of(facts, session)}
    return groups.pop() if len(groups) == 1 else None


def client(facts: Facts, session: int, group: str | None = None) -> str:
    """The text of a session: its members (those of `group` if one is named) or brokers, and its number."""
    names = [f"member {member}" for _, member in members_of(facts, session, group)]
    names += [f"broker {name}" for name in brokers_of(facts, session)]
    number = f"session {hex_session(session)}"
    return f"{named(names, 3)} ({number})" if names else number


def decoded(decode: Callable[[str, bytes | None], _Value], path: str, data: bytes | None) -> _Value | None:
    """The value of a znode, or None where it cannot be read."""
    try:
        return decode(path, data)
    except CorruptZnodeError:
        return None


def change_at(changes: Sequence[DataChange], zxid: int) -> DataChange | None:
    """The last change up to a zxid, itself included."""
    at = bisect_right(changes, zxid, key=lambda change: change.zxid)
    return changes[at - 1] if at else None


def life_at(lives: Sequence[Life], zxid: int) -> Life | None:
    """The life that a zxid falls in, its beginning and its end included; of two that meet, the later."""
    at = bisect_right(lives, zxid, key=lambda life: life.from_zxid)
    life = lives[at - 1] if at else None
    return None if life is None or (life.to_zxid is not None and life.to_zxid < zxid) else life


@lru_cache(maxsize=1 << 14)
def registration_of(data: bytes | None) -> Registration | None:
    """The registration of a member; None where JVM members cannot read it."""
    return decoded(Registration.decode, "registration", data)


def member_of(life: Life) -> str:
    """The consumer id of a registration."""
    return path_kind(life.path).member
