"""The history as members keep it: a group's registrations, one topic, the znode, what each member believes.

A step is one request to ZooKeeper with its answer, as in the model of the group. A pass of section 3 is one
step, because its result is the tree at its closing read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

RULES: Final = (
    "version",
    "read again",
    "keep the changes",
    "drop what is there",
    "difference at first",
    "czxid",
    "unknown outcome",
    "zxid",
)
"""The rules that a configuration can leave out."""
FAULTS: Final = ("join", "die", "expire", "topic", "lost")

Registrations = tuple[int, ...]
"""By member, the `czxid` of its registration; 0 for none."""
Event = tuple[str, int, int]
"""`+` or `-`, the member and the `czxid`; or `t`, 0 and the `mzxid` of the topic."""
Events = frozenset[Event]


class Configuration(NamedTuple):
    """What may happen, how often, and which rules are left out."""

    members: int = 2
    join: int = 3
    die: int = 0
    """Processes that end with their sessions."""
    expire: int = 0
    """Sessions that end; the process registers again with what it remembers."""
    topic: int = 0
    """Changes of the topic."""
    lost: int = 0
    """Answers of writes that are lost; the write was applied or not."""
    without: tuple[str, ...] = ()


class Change(NamedTuple):
    """What a member has noted of one assignment."""

    generation: int
    zxid: int
    events: Events


class History(NamedTuple):
    """The znode."""

    version: int
    zxid: int
    members: Registrations
    rows: tuple[Events, ...]


class Member(NamedTuple):
    """What one process believes."""

    seen: tuple[int, int] | None = None
    """Generation and `mzxid` of the topic of its newest snapshot."""
    known: Registrations = ()
    """The registrations in it."""
    topic: int = 0
    """The topic's `mzxid` in it; 0 before the first."""
    pending: tuple[Change, ...] = ()
    is_read: bool = False
    stored: History | None = None
    noted: Events = frozenset()
    """What it has ever noted. Nothing of the recipe reads it."""


class State(NamedTuple):
    """One state of the whole group."""

    zxid: int
    pzxid: int
    """Of `ids`."""
    topic: int
    registrations: Registrations
    history: History | None
    members: tuple[Member, ...]
    budget: tuple[int, ...]
    written: Events
    """All events of rows so far."""
    owed: Events
    """What the oldest member has noted: it has to be written."""


def swap(row: tuple, i: int, value: object) -> tuple:  # type: ignore[type-arg]
    """The row with another value at `i`."""
    return (*row[:i], value, *row[i + 1 :])


def difference(before: Registrations, after: Registrations, *, by_name: bool = False) -> Events:
    """The registrations that came and went; `by_name`: of two of one name in a row neither has."""
    pairs = [(m, was, now) for m, (was, now) in enumerate(zip(before, after, strict=True)) if was != now]
    if by_name:
        pairs = [(m, was, now) for m, was, now in pairs if not (was and now)]
    came = {("+", m, now) for m, _, now in pairs if now}
    return frozenset(came | {("-", m, was) for m, was, _ in pairs if was})


def applied(members: Registrations, events: Events) -> Registrations:
    """The registrations after these events."""
    for _, m, _ in sorted(event for event in events if event[0] == "-"):
        members = swap(members, m, 0)
    for _, m, czxid in sorted(event for event in events if event[0] == "+"):
        members = swap(members, m, czxid)
    return members


def undone(members: Registrations, events: Events) -> Registrations:
    """The registrations before these events."""
    return applied(members, frozenset(({"+": "-", "-": "+"}.get(kind, kind), m, z) for kind, m, z in events))


def oldest(registrations: Registrations) -> int | None:
    """The member whose registration has the lowest `czxid`."""
    return (
        min((czxid, m) for m, czxid in enumerate(registrations) if czxid)[1] if any(registrations) else None
    )


class Model:
    """The steps of one configuration."""

    def __init__(self, cfg: Configuration) -> None:
        unknown = set(cfg.without) - set(RULES)
        assert not unknown, f"no such rule: {unknown}"
        self.cfg = cfg

    def has(self, rule: str) -> bool:
        return rule not in self.cfg.without

    def init(self) -> State:
        nobody = (0,) * self.cfg.members
        budget = tuple(getattr(self.cfg, fault) for fault in FAULTS)
        members = (Member(known=nobody),) * self.cfg.members
        return State(2, 1, 1, nobody, None, members, budget, frozenset(), frozenset())

    def goal(self, s: State) -> bool:
        """The znode has the group as it is, and all that the oldest members have noted."""
        if not any(s.registrations):
            return True
        return s.history is not None and s.history.members == s.registrations and s.owed <= s.written

    def succ(self, s: State) -> Iterator[tuple[str, bool, State, str | None]]:
        yield from self._faults(s)
        for m, me in enumerate(s.members):
            if not s.registrations[m]:
                continue
            if me.seen != (s.pzxid, s.topic):
                yield f"m{m} reads the group", False, self._pass(s, m), None
            if not me.pending or oldest(me.known) != m:
                continue
            if not me.is_read:
                yield f"m{m} reads the history", False, self._read(s, m), None
            else:
                yield from self._write(s, m)

    def _spend(self, s: State, fault: str) -> State | None:
        i = FAULTS.index(fault)
        return s._replace(budget=swap(s.budget, i, s.budget[i] - 1)) if s.budget[i] else None

    def _faults(self, s: State) -> Iterator[tuple[str, bool, State, str | None]]:
        for m, czxid in enumerate(s.registrations):
            if not czxid and (after := self._spend(s, "join")):
                yield f"m{m} registers", True, self._registered(after, m, s.zxid), None
            for fault in ("die", "expire") if czxid else ():
                if (after := self._spend(s, fault)) is None:
                    continue
                me = Member(known=(0,) * self.cfg.members) if fault == "die" else s.members[m]
                after = after._replace(members=swap(s.members, m, me._replace(is_read=False, seen=None)))
                yield f"m{m} {fault}s", True, self._left(self._registered(after, m, 0), s), None
        if after := self._spend(s, "topic"):
            yield "the topic grows", True, after._replace(topic=s.zxid, zxid=s.zxid + 1), None

    def _registered(self, s: State, m: int, czxid: int) -> State:
        registrations = swap(s.registrations, m, czxid)
        return s._replace(registrations=registrations, pzxid=s.zxid, zxid=s.zxid + 1)

    def _left(self, s: State, before: State) -> State:
        """What is owed when the oldest leaves: what the next one has noted as well."""
        heir = oldest(s.registrations)
        if heir == oldest(before.registrations):
            return s
        return s._replace(owed=s.owed & s.members[heir].noted if heir is not None else frozenset())

    def _pass(self, s: State, m: int) -> State:
        me = s.members[m]
        events = difference(me.known, s.registrations, by_name=not self.has("czxid"))
        noted = difference(me.known, s.registrations)
        if not noted and me.topic not in (0, s.topic):
            events = noted = frozenset({("t", 0, s.topic)})
        zxid = max(s.pzxid, s.topic) if self.has("zxid") else s.pzxid
        pending = (*me.pending, Change(s.pzxid, zxid, events)) if events else me.pending
        if not self.has("keep the changes") and oldest(s.registrations) != m:
            pending = ()
        after = me._replace(
            seen=(s.pzxid, s.topic),
            known=s.registrations,
            topic=s.topic,
            pending=pending,
            noted=me.noted | noted,
        )
        is_oldest = oldest(s.registrations) == m
        return s._replace(
            members=swap(s.members, m, after), owed=s.owed | noted if is_oldest and me.seen else s.owed
        )

    def _read(self, s: State, m: int) -> State:
        me, h = s.members[m], s.history
        pending = me.pending
        if h is not None and self.has("drop what is there"):
            pending = tuple(change for change in pending if change.zxid > h.zxid)
        after = me._replace(is_read=True, stored=h, pending=pending)
        return s._replace(members=swap(s.members, m, after))

    def rows(self, me: Member) -> tuple[Events, ...]:
        """The rows that a member adds."""
        before = me.known
        for change in reversed(me.pending[1:]):
            before = undone(before, change.events)
        first = me.pending[0].events
        if self.has("difference at first"):
            there = me.stored.members if me.stored is not None else (0,) * self.cfg.members
            topics = frozenset(event for event in first if event[0] == "t")
            first = difference(there, before, by_name=not self.has("czxid")) or topics
        return (first, *(change.events for change in me.pending[1:]))

    def _write(self, s: State, m: int) -> Iterator[tuple[str, bool, State, str | None]]:
        me, h = s.members[m], s.history
        version = me.stored.version if me.stored is not None else None
        is_blind = not self.has("version") and h is not None
        refused = not is_blind and version != (h.version if h is not None else None)
        if refused:
            again = me._replace(is_read=not self.has("read again"))
            yield f"m{m} writes: refused", False, s._replace(members=swap(s.members, m, again)), None
            return
        added = self.rows(me)
        known = me.stored.rows if me.stored is not None else ()
        new = History(
            version=0 if h is None else h.version + 1,
            zxid=me.pending[-1].zxid,
            members=me.known,
            rows=(*known, *added),
        )
        events = frozenset().union(*added)
        after = s._replace(history=new, written=s.written | events, zxid=s.zxid + 1)
        bad = self._violation(s, new, added)
        done = me._replace(pending=(), stored=new)
        yield f"m{m} writes", False, after._replace(members=swap(s.members, m, done)), bad
        if self._spend(s, "lost"):
            unknown = me._replace(is_read=False) if self.has("unknown outcome") else done
            for state, what in ((after, "applied"), (s, "not applied")):
                spent = self._spend(state, "lost")
                assert spent is not None
                lost = spent._replace(members=swap(s.members, m, unknown))
                yield f"m{m} writes: no answer, {what}", True, lost, bad if state is after else None

    def _violation(self, s: State, new: History, added: tuple[Events, ...]) -> str | None:
        before = s.history
        rows = before.rows if before is not None else ()
        if new.rows[: len(rows)] != rows:
            return "a row is lost"
        members = before.members if before is not None else (0,) * self.cfg.members
        for events in added:
            if events & s.written:
                return "an event is there twice"
            members = applied(members, events)
        return None if members == new.members else "the rows do not lead to the members"
