"""Who wrote an offset: one partition, the clients that may own it, an operator, and the znodes that tell.

A step is one transaction. What the znodes tell after each is asked of `zkgroup.groups.offset_writers`, the
function that commands use, and compared with what has happened.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from zkgroup.groups.as_of import AsOf
from zkgroup.groups.offset_writers import OffsetWriter, writer_of
from zkgroup.groups.snapshot import GroupSnapshot, decode_or_error
from zkgroup.model import StaticSubscription, TopicPartition, Znode, ZnodeStat
from zkgroup.znodes.consumers import Offset, Owner, Registration
from zkgroup.znodes.group_records import CommitRecord, Reset

RULES: Final = ("same transaction", "releases too", "commits only", "marker")
"""The rules that a configuration can leave out."""
FAULTS: Final = ("claim", "commit", "die", "reset", "stray")
PARTITION: Final = TopicPartition("t", 0)
OPERATOR: Final = "operator"


class Configuration(NamedTuple):
    """What may happen, how often, and which rules are left out."""

    members: tuple[str, ...] = ("a", "b")
    """Clients that keep records; those whose names begin with `plain` keep none, `jvm` are JVM members."""
    claim: int = 3
    commit: int = 3
    """Commits, also those of a release."""
    die: int = 0
    """Owners whose sessions end."""
    reset: int = 0
    """Resets by an operator, with a marker."""
    stray: int = 0
    """Commits of a JVM member that is not the owner: nothing fences it."""
    without: tuple[str, ...] = ()


class Written(NamedTuple):
    """A znode with a value, by whom, and the transaction that wrote it."""

    value: int
    who: str
    zxid: int
    token: int = 0


class State(NamedTuple):
    """One state of the partition."""

    zxid: int
    offset: Written
    """`who` is never read by the recipe."""
    record: Written | None
    marker: Written | None
    owner: tuple[str, int] | None
    """The owner and the `czxid` of its znode."""
    late: Written | None
    """A record that is still to be written, without the rule `same transaction`."""
    highest: int
    origin: Written | None
    """The write that gave the offset its present value: what has to be found."""
    budget: tuple[int, ...]


def keeps_records(who: str) -> bool:
    return not who.startswith(("plain", "jvm"))


class Model:
    """The steps of one configuration."""

    def __init__(self, cfg: Configuration) -> None:
        assert not set(cfg.without) - set(RULES), f"no such rule: {cfg.without}"
        self.cfg = cfg
        self.is_recorded = all(map(keeps_records, cfg.members)) and not cfg.stray

    def has(self, rule: str) -> bool:
        return rule not in self.cfg.without

    def init(self) -> State:
        budget = tuple(getattr(self.cfg, fault) for fault in FAULTS)
        return State(2, Written(-1, "", 1), None, None, None, None, 0, None, budget)

    def goal(self, s: State) -> bool:
        del s
        return True

    def succ(self, s: State) -> Iterator[tuple[str, bool, State, str | None]]:
        for label, after in self._steps(s):
            yield label, False, after._replace(zxid=s.zxid + 1), self._violation(after)

    def _steps(self, s: State) -> Iterator[tuple[str, State]]:
        if s.owner is None:
            for who in self.cfg.members:
                yield from self._claim(s, who)
        else:
            who, _ = s.owner
            for after in self._spend(s, "commit"):
                yield f"{who} commits", self._committed(after, who)
                released = self._committed(after, who, releases=True)
                yield f"{who} commits and releases", released._replace(owner=None)
            same = s.offset if who.startswith("jvm") else s.offset._replace(zxid=s.zxid)
            yield f"{who} releases", s._replace(owner=None, offset=same)
            for after in self._spend(s, "die"):
                yield f"{who} ends", after._replace(owner=None)
        for after in self._spend(s, "reset"):
            written = Written(0, OPERATOR, s.zxid)
            marker = written if self.has("marker") else s.marker
            yield "a reset", after._replace(offset=written, marker=marker, origin=written)
        for after in self._spend(s, "stray"):
            yield "a stray commit", self._committed(after, "jvm stray")
        if s.late is not None:
            yield "a late record", s._replace(record=s.late._replace(zxid=s.zxid), late=None)

    def _spend(self, s: State, fault: str) -> Iterator[State]:
        i = FAULTS.index(fault)
        if s.budget[i]:
            yield s._replace(budget=(*s.budget[:i], s.budget[i] - 1, *s.budget[i + 1 :]))

    def _claim(self, s: State, who: str) -> Iterator[tuple[str, State]]:
        for after in self._spend(s, "claim"):
            claimed = after._replace(owner=(who, s.zxid))
            if not who.startswith("jvm"):  # it writes the same offset, as its fence
                claimed = claimed._replace(offset=s.offset._replace(zxid=s.zxid))
            if keeps_records(who) and not self.has("commits only"):
                claimed = claimed._replace(record=Written(s.offset.value, who, s.zxid, s.zxid))
            yield f"{who} claims", claimed

    def _committed(self, s: State, who: str, *, releases: bool = False) -> State:
        token = s.owner[1] if s.owner is not None and s.owner[0] == who else 0
        written = Written(s.highest + 1, who, s.zxid, token)
        after = s._replace(offset=written, origin=written, highest=s.highest + 1)
        if not keeps_records(who) or (releases and not self.has("releases too")):
            return after
        if self.has("same transaction"):
            return after._replace(record=written)
        return after._replace(late=written)

    def _violation(self, s: State) -> str | None:
        told = tell(s)
        if told is None:
            is_owed = self.is_recorded and s.origin is not None and s.late is None
            return "nothing tells the writer" if is_owed else None
        is_sure = told.by != "owner" or not self.cfg.stray or (s.record and s.owner == owner_of(s.record))
        true = s.origin is not None and (told.name.removeprefix("g_"), told.at_ms) == (
            s.origin.who,
            s.origin.zxid,
        )
        return None if true or not is_sure else f"another writer is told by {told.by}"


def owner_of(record: Written) -> tuple[str, int]:
    """The owner that wrote a record."""
    return record.who, record.token


def tell(s: State) -> OffsetWriter | None:
    """What commands tell of this state; the times are zxids."""
    group = GroupSnapshot.of_nothing("g", AsOf(s.zxid, 0), {})
    offset = _znode(Offset.path("g", PARTITION), Offset(s.offset.value).encode(), s.offset.zxid)
    found = {PARTITION: decode_or_error(offset, Offset.decode)}
    owners, registrations = {}, {}
    if s.owner is not None:
        who, czxid = s.owner
        owner = _znode(Owner.path("g", PARTITION), Owner(f"g_{who}-0").encode(), czxid, session=9)
        keys = {} if who.startswith("jvm") else {"zkgroup": "1"}
        data = Registration.of(StaticSubscription({"t": 1}), 0, keys).encode()
        member = _znode(Registration.path("g", f"g_{who}"), data, 1, session=9)
        owners[PARTITION] = decode_or_error(owner, Owner.decode)
        registrations[f"g_{who}"] = decode_or_error(member, Registration.decode)
    snapshot = replace(group, offsets=found, owners=owners, registrations=registrations)
    record = marker = None
    if s.record is not None:
        one = s.record
        written = CommitRecord(
            offset=one.value, member=f"g_{one.who}", host=None, version="1", token=one.token
        )
        record = _znode(CommitRecord.path("g", PARTITION), written.encode(), one.zxid)
    if s.marker is not None:
        reset = Reset(s.marker.value, 0, OPERATOR)
        marker = _znode(Reset.path("g", PARTITION), reset.encode(), s.marker.zxid)
    return writer_of(snapshot, PARTITION, record, marker)


def _znode(path: str, data: bytes, zxid: int, session: int = 0) -> Znode:
    stat = ZnodeStat(
        czxid=zxid,
        mzxid=zxid,
        ctime=zxid,
        mtime=zxid,
        version=1,
        cversion=0,
        aversion=0,
        ephemeral_owner=session,
        data_length=len(data),
        children_count=0,
        pzxid=zxid,
    )
    return Znode(path, data, stat)
