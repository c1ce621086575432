"""Static members: a member that comes back within its grace gets its partitions again (recipes 24).

A member with `restart_grace_ms` writes `static/<c>` in the transaction of its registration. While `ids/<c>`
is gone and `static/<c>` is kept, the member is *away*: it counts in every assignment, so nobody claims what
it is assigned. `OwnStaticEntry` is the entry of this member. `AwayMembers` watches over the others: it marks
the begin of an absence and ends it after the grace, both by the server's clock.

All members watch over an absence, by turns: the first one by id acts at once, each next one `TURN_MS` later.
So a group writes once, and a member that hangs delays it by a turn.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from zkgroup.consumer.machine.machine_context import GroupPaths, MemberContext
from zkgroup.consumer.machine.transactions import guard
from zkgroup.errors import CorruptZnodeError
from zkgroup.model import Znode
from zkgroup.model.requests import (
    Create,
    Delete,
    ListChildren,
    MultiDone,
    MultiRefused,
    Operation,
    SetData,
)
from zkgroup.runtime.procedures import Procedure, Query, ask, list_done, read_many, write
from zkgroup.znodes.consumers import STATIC_MEMBERS, Registration
from zkgroup.znodes.group_records import StaticMember

AWAY_TIMER = "away"
TURN_MS = 500


class OwnStaticEntry:
    """`static/<c>` of this member; without `restart_grace_ms` it writes none."""

    def __init__(self, context: MemberContext, paths: GroupPaths) -> None:
        self._paths = paths
        self.is_used = context.config.settings.restart_grace_ms is not None
        self.version: int | None = None
        """Data version as last read or written; None if there is no znode, and once it is given up."""

    @property
    def path(self) -> str:
        return self._paths.own_static

    def found(self, znode: Znode | None) -> None:
        """Takes the entry as read."""
        self.version = znode.stat.version if znode is not None else None

    def read(self) -> Procedure[None]:
        """Reads the entry, after a refusal at it."""
        ((znode,),) = yield from read_many([self.path])
        self.found(znode)

    def keep(self, data: bytes) -> tuple[Operation, ...]:
        """The operation that writes the registration's data, in the transaction of the registration."""
        if not self.is_used:
            return ()
        return (Create(self.path, data) if self.version is None else SetData(self.path, data, self.version),)

    def kept(self) -> None:
        """Notes that a transaction with `keep` was applied."""
        if self.is_used:
            self.version = 0 if self.version is None else self.version + 1

    def give_up(self) -> tuple[Operation, ...]:
        """The operation that keeps nothing for this member."""
        if self.version is None:
            return ()
        return (SetData(self.path, StaticMember.NOTHING, self.version),)


@dataclass(slots=True)
class AwayEntry:
    """`static/<c>` of a member that is away."""

    kept: StaticMember
    version: int
    due_ms: int
    """The time, on this member's clock, at which the entry is to be marked, or its absence may end."""


class AwayMembers:
    """The members that are away, as last read."""

    def __init__(
        self, context: MemberContext, paths: GroupPaths, report: Callable[[Znode, CorruptZnodeError], None]
    ) -> None:
        self._context = context
        self._paths = paths
        self._report = report
        self.is_due = False
        self.names: tuple[str, ...] = ()
        """The children of `static`."""
        self._listed: tuple[int, int] | None = None
        """czxid and cversion of `static` that `names` belongs to; None if it does not exist."""
        self._away: dict[str, AwayEntry] = {}
        self._turn_ms = 0
        self._lacking: tuple[str, ...] = ()
        """Registered members that do not know static members: while there is one, no grace holds."""
        self._noted: tuple[str, ...] = ()
        self._left_over: Znode | None = None
        """The entry of this member's name, if it was static once and is not any more."""

    @property
    def counted(self) -> Mapping[str, Registration]:
        """The registrations of away members that count in the assignment."""
        return {} if self._lacking else {name: one.kept.registration for name, one in self._away.items()}

    def to_read(self, registered: Collection[str]) -> list[str]:
        """The members whose entries a pass reads: those that are not registered, and one left over."""
        own = None if self._is_static else self._context.config.member_id
        return [name for name in self.names if name not in registered or name == own]

    @property
    def _is_static(self) -> bool:
        return self._context.config.settings.restart_grace_ms is not None

    def must_list(self, static: Znode | None) -> bool:
        """Returns whether the children of `static` have changed since they were listed."""
        return self._listed != ((static.stat.czxid, static.stat.cversion) if static is not None else None)

    def list_names(self) -> Procedure[None]:
        """Lists the children of `static`."""
        (outcome,) = yield from ask(Query(ListChildren(self._paths.static)))
        listing = list_done(outcome)
        self.names = tuple(sorted(listing.children))
        self._listed = (listing.stat.czxid, listing.stat.cversion) if listing.stat is not None else None

    def found(self, entries: dict[str, Znode], read: Callable[[], Mapping[str, Registration]]) -> None:
        """Takes the entries, and the registrations, that a pass has read."""
        if not entries and not self._away:
            return
        registered = read()
        own = entries.pop(self._context.config.member_id, None)
        self._left_over = own if own is not None and own.data != StaticMember.NOTHING else None
        self.is_due = self.is_due or self._left_over is not None
        self._lacking = tuple(n for n, one in registered.items() if STATIC_MEMBERS not in one.features)
        self._turn_ms = TURN_MS * sorted(registered).index(self._context.config.member_id)
        self._take(entries)
        if self._away and self._lacking != self._noted:
            self._noted = self._lacking
            if self._lacking:
                self._context.note("restart_grace_void", members=list(self._lacking))

    def _take(self, entries: Mapping[str, Znode]) -> None:
        before, self._away = self._away, {}
        for name, znode in entries.items():
            if znode.data == StaticMember.NOTHING:
                continue
            known, version = before.get(name), znode.stat.version
            if known is None or known.version != version:
                try:
                    kept = StaticMember.decode(znode.path, znode.data)
                except CorruptZnodeError as error:
                    self._report(znode, error)
                    continue
                known = AwayEntry(kept, version, self._guessed_ms(kept, znode.stat.mtime))
            if self._lacking:
                known.due_ms = self._context.now.ms
            self._away[name] = known
        self._set_timer()

    def _guessed_ms(self, kept: StaticMember, since_ms: int) -> int:
        """The time to act on an entry. This machine's clock may be wrong: the server's is asked then."""
        now = self._context.now
        if not kept.is_away:
            return now.ms
        return now.ms + max(0, min(kept.grace_ms, since_ms + kept.grace_ms - now.wall_ms))

    def _set_timer(self) -> None:
        if self._away:
            due_ms = min(one.due_ms for one in self._away.values())
            self._context.set_timer(AWAY_TIMER, max(due_ms, self._context.now.ms) + self._turn_ms)
        else:
            self._context.cancel_timer(AWAY_TIMER)

    def timer_fired(self) -> None:
        self.is_due = bool(self._away)

    def forget(self) -> None:
        """Drops what was read: the registration is gone."""
        self._away, self._lacking, self._noted = {}, (), ()
        self.is_due, self._left_over = False, None
        self._context.cancel_timer(AWAY_TIMER)

    def attend(self) -> Procedure[None]:
        """Marks the absences that nobody has marked, and ends those whose grace has passed."""
        if self._left_over is not None:
            yield from self._clear(self._left_over)
        names = sorted(self._away)
        # First the entries: a member that registers after this read has set its entry.
        entries, registrations = yield from read_many(
            [*map(self._paths.static_member, names)], [*map(self._paths.registration, names)]
        )
        rows = zip(names, entries, registrations, strict=True)
        away = {name: entry for name, entry, found in rows if entry is not None and found is None}
        self._take(away)
        server_ms: int | None = None
        for name, one in list(self._away.items()):
            if one.due_ms > self._context.now.ms:
                continue
            if self._lacking:
                yield from self._end(name)
            elif not one.kept.is_away:
                yield from self._mark(name)
            else:
                if server_ms is None:
                    server_ms = yield from self._server_ms()
                left_ms = away[name].stat.mtime + one.kept.grace_ms - server_ms
                if left_ms > 0:
                    one.due_ms = self._context.now.ms + left_ms
                else:
                    yield from self._end(name)
        self.is_due = False
        self._set_timer()

    def _clear(self, own: Znode | None) -> Procedure[None]:
        """Gives up what this member kept when it was static. Another one may mark the absence meanwhile."""
        while own is not None and own.data != StaticMember.NOTHING:
            change = SetData(own.path, StaticMember.NOTHING, own.stat.version)
            answer = yield from write([guard(self._paths), change], (self._paths.own,))
            if isinstance(answer, MultiDone):
                break
            ((own,),) = yield from read_many([own.path])
        self._left_over = None

    def _mark(self, name: str) -> Procedure[None]:
        one, path = self._away[name], self._paths.static_member(name)
        marked = StaticMember(one.kept.registration, is_away=True)
        answer = yield from write(
            [guard(self._paths), SetData(path, marked.encode(), one.version)], (self._paths.own,)
        )
        one.due_ms = self._context.now.ms + (one.kept.grace_ms if isinstance(answer, MultiDone) else TURN_MS)
        if isinstance(answer, MultiDone):
            one.kept, one.version = marked, one.version + 1
            self._context.note("away", away=name, grace_ms=marked.grace_ms)

    def _end(self, name: str) -> Procedure[None]:
        """Ends an absence. The registration is created and deleted so that every member notices it."""
        registration = self._paths.registration(name)
        operations: Sequence[Operation] = (
            guard(self._paths),
            Create(registration, None),
            Delete(registration, 0),
            SetData(self._paths.static_member(name), StaticMember.NOTHING, self._away[name].version),
        )
        answer = yield from write(operations, (self._paths.own,))
        if isinstance(answer, MultiRefused):  # another member was faster, or it has come back
            self._away[name].due_ms = self._context.now.ms + TURN_MS
            return
        del self._away[name]
        self._context.note("away_end", away=name)

    def _server_ms(self) -> Procedure[int]:
        """The server's clock, by the time of a write: the parent `static` has no data of its own."""
        answer = yield from write(
            [guard(self._paths), SetData(self._paths.static, b"", -1)], (self._paths.own,)
        )
        stat = answer.stats[1] if isinstance(answer, MultiDone) else None
        return stat.mtime if stat is not None else 0
