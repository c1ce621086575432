"""Membership: the registration `ids/<c>` and the lease of its session.

The registration is created with its final data in one create, never set. The create is the first write of a
session. If there is a registration of the same name, the member waits for its end: without limit if it
belongs to one of this member's former sessions (a stale registration), else for twice the session timeout
since its last connection: an election of ZooKeeper's closes all connections, and gives every session its time
anew. One that is persistent ends with no session, so it is not waited for.

The members of a group are of one kind at a time: the create is refused while the group's members are those of
a coordinator, which the marker `protocol` shows (the marker, recipes 22). The member waits for its end, for
as long: a group that is switched over may still have a client that was killed.

The lease limits how long delivery and commits are allowed without an acknowledged write:

    deadline = sent_at(last acknowledged write) + lease_fraction x T - min(server_tick_ms / 2, T / 4)

`sent_at` is the time of the step that issued the write: the server's own timer cannot have started
earlier. Only transactions count (claims, commits, releases, the check-only heartbeat); pings, reads and
`sync` are answered by servers that may be cut off from the quorum. After T without an acknowledgement the
session may have expired by the server's clock: it is given up before another one is opened.

A lease that has ended continues only after the owned partitions were read back and found unchanged.

Members that share a client share its session, so a write of one renews the leases of all (`SharedSession`); a
member takes it over when a timer of its lease fires, or its lease would end. Its own heartbeat, which finds
that its registration is gone, is then due T after its own last write.

The heartbeat follows the last write by T/6, and by up to a fifth of that more, so that the members of a group
do not send it together. It is not earlier: an idle session makes at most six quorum writes in T, and one
whose writes are never T/6 apart makes no heartbeat at all. It is not later: the lease (with the default
fraction at least 5/12 of T) spans two of the longest periods, so after one without a reply there is time for
another.
"""

from __future__ import annotations

from zkgroup.consumer.machine.events import ExtendLease
from zkgroup.consumer.machine.machine_context import GroupPaths, MemberContext
from zkgroup.consumer.machine.shared_results import KnownMembers
from zkgroup.consumer.machine.static_members import OwnStaticEntry
from zkgroup.consumer.machine.transactions import guard
from zkgroup.errors import CoordinatedGroupError, CorruptZnodeError, MemberIdInUseError
from zkgroup.model import Subscription, Znode
from zkgroup.model.assignors import strategy_names
from zkgroup.model.requests import (
    Check,
    Create,
    CreateMissing,
    Delete,
    Multi,
    MultiDone,
    MultiRefused,
    NotSent,
    Operation,
    Outcome,
    Read,
    ReadMany,
    ReadManyDone,
    Sync,
    Unanswered,
)
from zkgroup.runtime.events import Watch
from zkgroup.runtime.procedures import (
    GuardRefusedError,
    NoAuthError,
    Procedure,
    Query,
    ask,
    heartbeat_period_ms,
    lease_ms,
    read_done,
    readable,
    write,
)
from zkgroup.znodes.consumers import (
    COMMIT_RATE_KEY,
    FEATURES,
    FEATURES_KEY,
    MOVES_MAX_KEY,
    PREPARE_KEY,
    RESTART_GRACE_KEY,
    Registration,
)
from zkgroup.znodes.coordinated_groups import ProtocolMarker
from zkgroup.znodes.ids import member_host
from zkgroup.znodes.sessions import is_leftover

WAIT_TIMER = "register"
REGISTRATION_INDEX = 2
"""Place of the create of `ids/<c>` in the transaction of a registration."""
READ_BACK_MS = 2000
"""Milliseconds between two reads of another registration of this name, besides the watch."""


class Membership:
    """The registration of this member."""

    def __init__(self, context: MemberContext, paths: GroupPaths) -> None:
        self._context = context
        self._paths = paths
        self._static = OwnStaticEntry(context, paths)
        self.subscription: Subscription = context.config.subscription
        self.is_registered = False
        self.is_waiting = False
        """True if another session has a registration of this name, or the group has the marker of a
        coordinator; a watch and a timer end the wait."""
        self.data: bytes | None = None
        """The data of the registration, or of the running create."""
        self.is_outcome_unknown = False
        """True if a create was sent without a reply: there may be a registration of this member."""
        self.must_replace = False
        self.in_use: MemberIdInUseError | CoordinatedGroupError | None = None
        """The reason why the member has given up to register."""
        self.may_have_orphans = False
        """True if the session of a shared client may have claims of an earlier member of this name."""
        self._waiting_since: int | None = None
        """Milliseconds; None until the obstacle was read on this connection."""
        self._obstacle: int | str | None = None
        """The obstacle that it waits for: the session of the other registration, or the marker's path."""

    def register(self) -> Procedure[None]:
        """Registers: sync, create the parents, create. Ends registered, waiting, or with `in_use` set."""
        paths = self._paths
        parents = (*paths.parents, paths.static) if self._static.is_used else paths.parents
        own = (paths.own_static,) if self._static.is_used else ()
        outcomes = yield from ask(Query(Sync(paths.ids)), Query(ReadMany((*parents, *own))))
        found = outcomes[1]
        assert isinstance(found, ReadManyDone)
        missing = tuple(p for p, znode in zip(parents, found.znodes, strict=False) if znode is None)
        for path, znode in zip(own, found.znodes[len(parents) :], strict=True):
            self._static.found(readable(path, znode))
        if missing:
            yield from ask(Query(CreateMissing(missing)))
        if self.data is None:
            self.data = self._encode()
        was_outcome_unknown, self.is_outcome_unknown = self.is_outcome_unknown, True
        try:
            answer = yield from write(
                [
                    Create(paths.protocol, None),
                    Delete(paths.protocol, 0),
                    Create(paths.own, self.data, ephemeral=True),
                    *self._static.keep(self.data),
                ],
                (),
            )
        except NoAuthError:
            self.is_outcome_unknown = was_outcome_unknown
            raise
        if isinstance(answer, MultiDone):
            self._static.kept()
            self._registered(answer.zxid)
        elif answer.index == 0:
            yield from self._read_marker()
        elif answer.index == REGISTRATION_INDEX:
            yield from self._read_obstacle()
        else:  # the entry of a static member has changed: it is read again
            self.is_outcome_unknown = False

    def _read_marker(self) -> Procedure[None]:
        """Waits for the end of the marker; the registration of this member cannot exist beside it."""
        self.is_outcome_unknown = False
        (outcome,) = yield from ask(Query(Read(self._paths.protocol, watch=True), Watch(self.wake)))
        znode = read_done(outcome)
        if znode is None:
            return
        if self._obstacle != znode.path:
            self._obstacle, self._waiting_since = znode.path, None
            self._context.note("coordinated_group", path=znode.path)
        self._context.reason = "waiting_for_coordinated_members"
        if not self._wait():
            group = self._context.config.group
            self.in_use = CoordinatedGroupError(znode.path, group, _broker_of(znode))

    def _read_obstacle(self) -> Procedure[None]:
        (outcome,) = yield from ask(Query(Read(self._paths.own, watch=True), Watch(self.wake)))
        znode = read_done(outcome)
        self.is_outcome_unknown = znode is not None and self.is_outcome_unknown
        if znode is None:
            return
        session = self._context.session
        assert session is not None
        if znode.stat.ephemeral_owner != session.session_id:
            self.is_outcome_unknown = False
            self._wait_for(znode)
        elif znode.data == self.data and znode.stat.version == 0:
            self._registered(znode.stat.czxid)  # an earlier create of this member whose reply was lost
        else:
            # Left over on a shared client, or rewritten by another client: this member replaces it.
            yield from self._create_over(znode.stat.version)

    def _registered(self, czxid: int | None) -> None:
        context = self._context
        assert context.session is not None
        self.is_registered, self.is_waiting, self.is_outcome_unknown = True, False, False
        self._waiting_since = self._obstacle = None
        self.may_have_orphans = not context.config.owns_client
        context.registered_zxid = czxid
        context.cancel_timer(WAIT_TIMER)
        context.note("registered", session=context.session.session_id, czxid=czxid)

    def _wait_for(self, znode: Znode) -> None:
        context, holder = self._context, znode.stat.ephemeral_owner
        if self._obstacle != holder:
            self._obstacle, self._waiting_since = holder, None
            context.note("stale_registration", path=znode.path, session=holder)
        context.reason = "waiting_for_old_registration"
        waits = self._wait(without_limit=holder in context.former_sessions)
        if not waits or is_leftover(znode):
            host = member_host(context.config.group, context.config.member_id)
            self.in_use = MemberIdInUseError(znode.path, holder, host)

    def _wait(self, *, without_limit: bool = False) -> bool:
        """Waits for the end of the obstacle; False if it has stood for two timeouts of the session."""
        context = self._context
        assert context.session is not None
        self.is_waiting = True
        if self._waiting_since is None:
            self._waiting_since = context.now.ms
        limit_ms = self._waiting_since + 2 * context.session.timeout_ms
        next_ms = context.now.ms + READ_BACK_MS
        if without_limit or context.now.ms < limit_ms:
            context.set_timer(WAIT_TIMER, next_ms if without_limit else min(limit_ms, next_ms))
            return True
        return False

    def reconnected(self) -> None:
        """Ends the wait, and its time begins again: the time of the other session may have."""
        self._waiting_since = None
        self.wake()

    def wake(self) -> None:
        """Ends the wait: the other registration, or the marker, has changed, or is to be read again."""
        self.is_waiting = False

    def replace(self) -> Procedure[None]:
        """Replaces the registration for a new subscription in one multi; claims stay valid."""
        subscription, self.data = self.subscription, self._encode()
        yield from self._create_over(0)
        # Without a reply `must_replace` stays: the replacement is idempotent. It may have changed meanwhile.
        self.must_replace = self.subscription is not subscription

    def _create_over(self, version: int) -> Procedure[None]:
        assert self.data is not None
        create = (Delete(self._paths.own, version), Create(self._paths.own, self.data, ephemeral=True))
        while True:
            answer = yield from write((*create, *self._static.keep(self.data)), (self._paths.own,))
            if isinstance(answer, MultiDone):
                self._static.kept()
                self._registered(answer.zxid)
                return
            yield from self._static.read()

    @property
    def is_kept(self) -> bool:
        """Returns whether the entry of a static member keeps the claims of this registration."""
        return self._static.version is not None

    def give_up(self) -> Procedure[None]:
        """Gives up what the entry of a static member keeps, before the session ends."""
        yield from self._end(guard(self._paths))

    def remove(self, *, keep: bool = False) -> Procedure[None]:
        """Deletes the registration of a member that shares its client, as its last write."""
        yield from self._end(Delete(self._paths.own, 0), keep=keep)
        raise GuardRefusedError(self._paths.own)

    def _end(self, head: Operation, *, keep: bool = False) -> Procedure[None]:
        while True:
            given_up = self._static.give_up() if self.is_kept and not keep else ()
            answer = yield from write((head, *given_up), (self._paths.own,))
            if isinstance(answer, MultiDone):
                self._static.version = None
                return
            yield from self._static.read()

    def lost(self) -> None:
        """Notes that the registration is gone; the next one has a new timestamp."""
        self.is_registered = self.is_waiting = self.must_replace = self.is_outcome_unknown = False
        self.data = None
        self._waiting_since = self._obstacle = None
        self._context.registered_zxid = None
        self._context.cancel_timer(WAIT_TIMER)

    def _encode(self) -> bytes:
        settings = self._context.config.settings
        extensions = {
            "zkgroup": self._context.config.version,
            "strategy": ",".join(strategy_names(settings.partition_assignment_strategy)),
            "exclude_internal": "true" if settings.exclude_internal_topics else "false",
            FEATURES_KEY: " ".join(FEATURES),
        }
        published = {
            RESTART_GRACE_KEY: settings.restart_grace_ms,
            "host": self._context.config.host,
            "pid": self._context.config.pid,
            "capacity": settings.capacity,
            "rack": settings.client_rack or None,  # Kafka's clients have an empty one instead of none
            COMMIT_RATE_KEY: settings.commit_rate_max,
            MOVES_MAX_KEY: settings.rebalance_moves_max,
            PREPARE_KEY: settings.prepare_timeout_ms if self._context.config.prepares else None,
        }
        extensions.update({key: str(value) for key, value in published.items() if value is not None})
        return Registration.of(self.subscription, self._context.now.wall_ms, extensions).encode()


def _broker_of(marker: Znode) -> int | None:
    """The broker that set the marker; None if it cannot be read."""
    try:
        return ProtocolMarker.decode(marker.path, marker.data).broker
    except CorruptZnodeError:
        return None


HEARTBEAT_TIMER = "heartbeat"
LEASE_TIMER = "lease"
EXPIRY_TIMER = "expiry"


class SharedSession:
    """What the members that share a client know together: the writes of their session, and the registrations.

    Any thread reads and writes it without a lock. A race may forget the newer of two times, or of two
    listings: then a lease is shorter, and a registration is read once more.
    """

    def __init__(self) -> None:
        self.known_members: dict[str, KnownMembers] = {}
        """By the path of `ids`; the newest listing of a group."""
        self._acknowledged = self._beat = (0, 0)

    def acknowledged(self, incarnation: int, sent_ms: int) -> None:
        """Notes an acknowledged write, with the time at which it was sent."""
        self._acknowledged = max(self._acknowledged, (incarnation, sent_ms))

    def acknowledged_ms(self, incarnation: int) -> int:
        """When the newest acknowledged write of this session was sent; 0 for none."""
        of, sent_ms = self._acknowledged
        return sent_ms if of == incarnation else 0

    def beat(self, incarnation: int, sent_ms: int) -> None:
        """Notes a heartbeat that is sent."""
        self._beat = max(self._beat, (incarnation, sent_ms))

    def beat_ms(self, incarnation: int) -> int:
        """When the newest heartbeat of this session was sent; 0 for none."""
        of, sent_ms = self._beat
        return sent_ms if of == incarnation else 0

    def learn(self, path: str, known: KnownMembers) -> None:
        """Takes what a member has read, unless what is known is newer."""
        before = self.known_members.get(path)
        if before is None or (before.czxid, before.cversion) < (known.czxid, known.cversion):
            self.known_members[path] = known


class SessionLease:
    """The lease of one registration in one session."""

    def __init__(self, context: MemberContext, paths: GroupPaths) -> None:
        self._context = context
        self._paths = paths
        self.shared = SharedSession()
        context.on_write_acknowledged = self._acknowledged
        self.until_ms: int | None = None
        """End of the lease in milliseconds; None before the first acknowledgement and after its end."""
        self.has_ended = False
        """True if it ran out and the owned partitions were not verified since."""
        self.is_refused = False
        """True if a heartbeat was refused at the own registration."""
        self._is_running = False
        self._last_sent_ms: int | None = None
        """Time at which the newest acknowledged write of the session was issued, as far as noticed."""
        self._own_sent_ms = 0
        """The same of this member's own writes."""
        self._last_beat_ms = 0
        """Time at which the newest heartbeat was due; sent or not, the next one is a period later."""
        self._period_ms = 0
        """Milliseconds from the last write to the next heartbeat; drawn anew for each heartbeat."""
        self._heartbeat_under_way = False

    @property
    def is_valid(self) -> bool:
        return self.until_ms is not None and self._context.now.ms < self.until_ms

    def start(self) -> None:
        """Starts the lease before the registration is created: its create is the first write that counts."""
        self._is_running = True
        self._period_ms = self._draw_period_ms()

    def stop(self) -> None:
        """Stops the lease: the registration is gone."""
        self._is_running = False
        self.until_ms = self._last_sent_ms = None
        self.has_ended = self.is_refused = self._heartbeat_under_way = False
        for name in (HEARTBEAT_TIMER, LEASE_TIMER, EXPIRY_TIMER):
            self._context.cancel_timer(name)

    def _acknowledged(self, sent_ms: int) -> None:
        if not self._is_running:
            return
        self._own_sent_ms = max(self._own_sent_ms, sent_ms)
        self.shared.acknowledged(self._incarnation(), sent_ms)
        self._take(max(sent_ms, self.shared.acknowledged_ms(self._incarnation())))

    def _take(self, sent_ms: int) -> None:
        self._last_sent_ms = max(self._last_sent_ms or sent_ms, sent_ms)
        if not self.has_ended:
            self._extend()
        self._arm()

    def _follow(self) -> None:
        """Takes the newest acknowledged write of the members that share the session."""
        if self._last_sent_ms is not None and self._newest_ms() > self._last_sent_ms:
            self._take(self._newest_ms())

    def _newest_ms(self) -> int:
        assert self._last_sent_ms is not None
        return max(self._last_sent_ms, self.shared.acknowledged_ms(self._incarnation()))

    def _incarnation(self) -> int:
        assert self._context.session is not None
        return self._context.session.incarnation

    def verified(self) -> None:
        """Continues the lease: the owned partitions were read back after an acknowledged write."""
        self.has_ended = False
        self._extend()

    def _extend(self) -> None:
        assert self._last_sent_ms is not None
        until_ms = self._last_sent_ms + self._span_ms()
        if until_ms <= self._context.now.ms:
            self.has_ended = True  # the reply came too late
            self.until_ms = None
        elif self.until_ms is None or until_ms > self.until_ms:
            self.until_ms = until_ms
            self._context.emit(ExtendLease(until_ms))
            self._context.note("lease.renew", sent_ms=self._last_sent_ms, until_ms=until_ms)

    def _span_ms(self) -> int:
        settings = self._context.config.settings
        return lease_ms(self._timeout_ms(), settings.lease_fraction, settings.server_tick_ms)

    def _timeout_ms(self) -> int:
        session = self._context.session
        assert session is not None
        return session.timeout_ms

    @property
    def is_late(self) -> bool:
        """Returns whether two heartbeats were due since the last acknowledged write was sent."""
        if self._last_sent_ms is None:
            return False
        late_ms = 2 * heartbeat_period_ms(self._timeout_ms(), lambda: 1.0)
        return self._context.now.ms - self._newest_ms() > late_ms

    def has_run_out(self) -> bool:
        """Returns whether the lease is over. Each step checks it first: the process may have been stopped."""
        if self.until_ms is not None and self._context.now.ms >= self.until_ms:
            self._follow()
        return self.until_ms is not None and self._context.now.ms >= self.until_ms

    def end(self) -> None:
        self.until_ms, self.has_ended = None, True
        self._context.note("lease.expired")

    def is_expired(self) -> bool:
        """Returns whether T has passed since the last acknowledged write was sent."""
        return (
            self._last_sent_ms is not None
            and self._context.session is not None
            and self._context.now.ms >= self._newest_ms() + self._timeout_ms()
        )

    def _arm(self) -> None:
        """Sets the timers. They are set when they fire, not at every write."""
        context, sent_ms = self._context, self._last_sent_ms
        assert sent_ms is not None
        if self.until_ms is not None and not context.has_timer(LEASE_TIMER):
            context.set_timer(LEASE_TIMER, self.until_ms)
        if not context.has_timer(EXPIRY_TIMER):
            context.set_timer(EXPIRY_TIMER, sent_ms + self._timeout_ms())
        if not context.has_timer(HEARTBEAT_TIMER):
            context.set_timer(HEARTBEAT_TIMER, max(self._heartbeat_due_ms(), context.now.ms + 1))

    def _heartbeat_due_ms(self) -> int:
        assert self._last_sent_ms is not None
        beat_ms, shared_beat_ms = self._last_beat_ms, self.shared.beat_ms(self._incarnation())
        of_session_ms = max(self._last_sent_ms, beat_ms, shared_beat_ms) + self._period_ms
        return min(of_session_ms, max(self._own_sent_ms + self._timeout_ms(), beat_ms + self._period_ms))

    def _draw_period_ms(self) -> int:
        return heartbeat_period_ms(self._timeout_ms(), self._context.config.jitter)

    def timer_fired(self, name: str) -> None:
        """Sends a heartbeat if no other write was acknowledged for a period; sets the next timers."""
        if self._last_sent_ms is None or self._context.session is None:
            return
        self._follow()
        if name == HEARTBEAT_TIMER and self._context.now.ms >= self._heartbeat_due_ms():
            self._last_beat_ms, self._period_ms = self._context.now.ms, self._draw_period_ms()
            self._send_heartbeat()
        self._arm()

    def _send_heartbeat(self) -> None:
        """Sends the check-only multi. A reconnection sends its own, so none is sent while disconnected."""
        if self._context.connected and not self._heartbeat_under_way:
            self._heartbeat_under_way = True
            self.shared.beat(self._incarnation(), self._context.now.ms)
            self._context.ask(Multi((Check(self._paths.own, 0),)), self._heartbeat_answered)

    def _heartbeat_answered(self, outcome: Outcome) -> None:
        self._heartbeat_under_way = False
        if isinstance(outcome, MultiRefused):
            self.is_refused = True
        elif isinstance(outcome, (Unanswered, NotSent)):
            self._context.caught_up = False
