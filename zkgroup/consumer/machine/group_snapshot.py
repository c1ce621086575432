"""Reads a snapshot of the group: its members, their subscriptions and the partitions (snapshots, recipes 3).

One pass lists `ids` with a watch and then makes one unwatched bulk read: the registrations that are not
cached, the static members that are away, the own registration, the owner znodes of this member (so their
verification costs no packet of its own) and `ids` itself. If `ids` has changed since the listing, the pass is
repeated. Topics are cached while their data watch is armed. So a join costs a member that is not affected two
packets.

Cached registrations are valid while `czxid(ids)` is the same and `cversion(ids)` has risen by exactly the
number of names that came and went: a member that left and came back under its name counts two.

`SnapshotTiming` decides when to read, so that a burst of changes is read once. The reader waits `settle_ms`
after a change. If it then finds more than one change, it waits until `settle_ms` pass without another one, at
most until `settle_max_ms` after the first. The members of a new group wait, once each, until the oldest
registration is `initial_rebalance_delay_ms` old, so that the members started with it are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from zkgroup.assignment.wildcards import evaluate
from zkgroup.consumer.machine.freeze import GroupFreeze
from zkgroup.consumer.machine.machine_context import GroupPaths, MemberContext
from zkgroup.consumer.machine.membership import SharedSession
from zkgroup.consumer.machine.overload import REST_PASSES, PassPace
from zkgroup.consumer.machine.shared_results import (
    DecodedMember,
    KnownMembers,
    Terms,
    decoded_member,
    decoded_topic,
    member_of,
)
from zkgroup.consumer.machine.static_members import AwayMembers
from zkgroup.errors import CorruptZnodeError, PersistentZnodeError, UnsupportedRegexError
from zkgroup.model import EvaluatedMember, Znode
from zkgroup.model.assignors import Racks, all_have_racks, racks_of_replicas
from zkgroup.model.requests import Code, ListChildren, ListChildrenDone, Read
from zkgroup.runtime.events import Watch
from zkgroup.runtime.procedures import (
    GuardRefusedError,
    Procedure,
    Query,
    ask,
    list_done,
    read_allowed,
    read_done,
    read_many,
    readable,
)
from zkgroup.znodes.brokers import BrokerRegistration, Topic, broker_ids_path, topics_path
from zkgroup.znodes.consumers import Registration
from zkgroup.znodes.group_records import Freeze
from zkgroup.znodes.sessions import is_leftover

SNAPSHOT_TIMER = "snapshot"


class SnapshotTiming:
    """Decides when the next snapshot is taken."""

    def __init__(self, context: MemberContext) -> None:
        self._context = context
        self.marks = 0
        """Number of changes noticed so far; a pass remembers the number at its start."""
        self.is_dirty = False
        self._since_ms = 0
        self._due_ms = 0
        self._is_burst = False
        self._joined_ms: int | None = None
        self._listed_cversion: int | None = None
        self.pace = PassPace(context)

    @property
    def is_due(self) -> bool:
        return self.is_dirty and self._context.now.ms >= self._due_ms

    @property
    def since_ms(self) -> int:
        """The time of the first change that the newest snapshot has, or the next one will have."""
        return self._since_ms

    def mark_changed(self) -> None:
        """Notes that the group may have changed: a snapshot is taken after `settle_ms`."""
        settings, now_ms = self._context.config.settings, self._context.now.ms
        self.marks += 1
        if not self.is_dirty:
            self.is_dirty, self._since_ms = True, now_ms
            self._wait_until(max(now_ms + settings.settle_ms, self.pace.rest_until_ms))

    def mark_changed_now(self) -> None:
        """Notes that the group has changed: a snapshot is taken at once."""
        self.marks += 1
        if not self.is_dirty:
            self.is_dirty, self._since_ms = True, self._context.now.ms
        self._due_ms = self._context.now.ms
        self._context.cancel_timer(SNAPSHOT_TIMER)

    @property
    def is_slow(self) -> bool:
        """Returns whether a pass that was due has not succeeded for `settle_max_ms`."""
        return self._context.now.ms - self._due_ms > self._context.config.settings.settle_max_ms

    def pause(self) -> None:
        """Pauses after passes that the group changed in: other work and other members get their turn."""
        took_ms = min(self._context.now.ms - self._due_ms, self._rest_ms_max())
        self._wait_until(self._context.now.ms + max(took_ms, self._context.config.settings.settle_max_ms))

    def joined(self) -> None:
        """Notes a new registration of this member: a snapshot is taken at once."""
        self._joined_ms = self._context.now.ms
        self.mark_changed_now()

    def must_delay_initial_rebalance(self, read_ages_ms: Callable[[], Sequence[int]]) -> bool:
        """Returns whether the whole group is new, or many join it, once after joining; sets the time of the
        next snapshot. The ages are those of all registrations when this member's was created."""
        joined_ms, self._joined_ms = self._joined_ms, None
        if joined_ms is None:
            return False
        settings, ages_ms = self._context.config.settings, read_ages_ms()
        until_ms = joined_ms + settings.initial_rebalance_delay_ms - max(ages_ms)
        rest_ms = REST_PASSES * (self._context.now.ms - self._due_ms)
        if rest_ms > settings.settle_max_ms and sum(age_ms < rest_ms for age_ms in ages_ms) > 2:
            until_ms = max(until_ms, self._context.now.ms + min(rest_ms, self._rest_ms_max()))
        if until_ms <= self._context.now.ms:
            return False
        self._wait_until(until_ms)
        return True

    def must_wait(self, listing: ListChildrenDone, known_cversion: int | None) -> bool:
        """Returns whether the group is still changing; then sets the time of the next snapshot."""
        settings, now_ms = self._context.config.settings, self._context.now.ms
        assert listing.stat is not None
        if self._joined_ms is not None:
            return False
        before = self._listed_cversion if self._listed_cversion is not None else known_cversion
        rise = listing.stat.cversion - before if before is not None else 0
        self._is_burst = rise > 1 or (self._is_burst and rise > 0)
        until_ms = min(
            now_ms + max(settings.settle_ms, self.pace.took_ms), self._since_ms + settings.settle_max_ms
        )
        self._listed_cversion = listing.stat.cversion
        if self._is_burst and until_ms > now_ms:
            self._wait_until(until_ms)
            return True
        return False

    def done(self, marks: int, *, has_foreign_members: bool) -> None:
        """Notes a snapshot that contains every change up to this number."""
        self._is_burst, self._listed_cversion = False, None
        self.pace.passed(self._due_ms, 0 if has_foreign_members else self._rest_ms_max())
        self.is_dirty = False
        if marks != self.marks:
            self.mark_changed()

    def _rest_ms_max(self) -> int:
        session = self._context.session
        return session.timeout_ms // 2 if session is not None else 0

    def _wait_until(self, at_ms: int) -> None:
        self._due_ms = at_ms
        self._context.set_timer(SNAPSHOT_TIMER, at_ms)


PASSES_MAX = 10
"""Passes in a row before the member pauses."""


@dataclass(frozen=True, slots=True)
class CachedTopic:
    """A topic znode as read; valid while `watch` has not fired. `version` is None if it does not exist."""

    watch: Watch
    version: int | None
    mzxid: int
    replicas: Mapping[int, Sequence[int]]
    """Partition to the ids of the brokers that hold it."""


@dataclass(frozen=True, slots=True)
class MembershipSnapshot:
    """One consistent view of the group."""

    generation: int
    """pzxid of `ids` (docs/adr/0006)."""
    registrations: Mapping[str, Registration]
    """The readable ones only: a member with an unreadable registration owns nothing."""
    members: tuple[EvaluatedMember, ...]
    """Also the static members that are away (static members, recipes 24)."""
    partitions: Mapping[str, tuple[int, ...]]
    """Of every topic that a member subscribes to; empty for one that does not exist."""
    topic_versions: Mapping[str, int | None]
    not_evaluable: tuple[str, ...] = ()
    """Members whose wildcard Python cannot evaluate as Java would."""
    has_brokers: bool = True
    created: Mapping[str, int] = field(default_factory=dict)
    """czxid of each registration, also of an unreadable one; 0 for one that an ACL hides."""
    racks: Racks = field(default_factory=dict)
    """The racks of the replicas of each partition; empty unless every member has a rack."""
    frozen: Freeze | None = None
    """The freeze of the group that stood when the pass ended."""
    terms: Mapping[Terms, int] = field(default_factory=dict)
    """The terms of the registrations, each with the number of registrations that have it."""

    @property
    def has_foreign_members(self) -> bool:
        """Returns whether a member without zkgroup's key is registered: probably a JVM member."""
        return any(not each.is_zkgroup for each in self.terms)

    def lacking(self, feature: str) -> tuple[str, ...]:
        """The members that do not publish this name of `FEATURES`: JVM members, and older ones of zkgroup."""
        return tuple(name for name, one in self.registrations.items() if feature not in one.features)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The members with their topics, all topics, and the members that cannot be evaluated."""

    members: tuple[EvaluatedMember, ...]
    topics: frozenset[str]
    not_evaluable: tuple[str, ...]


@dataclass(slots=True)
class _GroupCache:
    members: KnownMembers | None = None
    listing: ListChildrenDone | None = None
    ids_watch: Watch | None = None
    topics: dict[str, CachedTopic] = field(default_factory=dict)
    topic_names: tuple[str, ...] = ()
    topic_names_watch: Watch | None = None
    brokers_watch: Watch | None = None
    has_brokers: bool = False
    racks: Mapping[int, str] = field(default_factory=dict)
    """Broker to its rack; read, under `racks_watch`, only while every member has a rack."""
    racks_watch: Watch | None = None


class GroupSnapshotReader:
    """Takes snapshots of the group."""

    def __init__(self, context: MemberContext, paths: GroupPaths) -> None:
        self._context = context
        self._paths = paths
        self._cache = _GroupCache()
        self.shared = SharedSession()
        self._reported: set[tuple[str, str, int]] = set()
        self.settling = SnapshotTiming(context)
        self.away = AwayMembers(context, paths, self.report_corrupt)
        self.freeze = GroupFreeze(context, paths, self.settling.mark_changed_now, self.report_corrupt)
        self.newest: MembershipSnapshot | None = None
        self.is_new = False
        """True if `newest` differs from the one before and no assignment was computed from it yet."""
        self.topic_facts: Mapping[str, int] = {}
        """Paths of the topics in the snapshot, each with its mzxid (0 for one that is missing)."""

    def forget_watches(self) -> None:
        """Drops everything that relied on watches: a disconnect has ended them."""
        cache = self._cache
        cache.ids_watch = cache.topic_names_watch = cache.brokers_watch = cache.racks_watch = None
        cache.listing = None
        cache.topics.clear()
        self.freeze.forget_watches()

    def forget_topic(self, topic: str) -> None:
        """Drops a cached topic: a claim was refused at it, so it has changed."""
        self._cache.topics.pop(topic, None)

    def forget(self) -> None:
        """Makes the next snapshot count as new, even if it is equal: the registration is gone."""
        self.newest, self.is_new = None, False
        if self.away.names:
            self.away.forget()
        if self.freeze.newest is not None or not self._context.is_leaving:
            self.freeze.forget()  # after a leave a member forgets it when it registers again

    def _watch(self) -> Watch:
        return Watch(self.settling.mark_changed)

    def take(self) -> Procedure[Mapping[str, Znode | None] | None]:
        """Takes a snapshot. Returns the member's owner znodes as read; None if the group is still
        changing."""
        for _ in range(PASSES_MAX):
            marks = self.settling.marks
            listing = yield from self._list()
            if self.settling.must_wait(listing, self._known_cversion()):
                self._cache.listing = listing
                return None
            self._cache.listing = None
            owned = yield from self._read(listing)
            if owned is not None and self.settling.must_delay_initial_rebalance(self._ages_ms):
                self._cache.listing = listing
                return None
            if owned is not None:
                evaluation = yield from self._read_topics()
                if all_have_racks(evaluation.members):
                    yield from self._read_racks()
                if self._store_snapshot(listing, evaluation):
                    assert self.newest is not None
                    self.settling.done(marks, has_foreign_members=self.newest.has_foreign_members)
                    return owned
            if self.settling.is_slow:
                break  # the group is likely to change in the next pass as well
        self.settling.pause()
        return None

    def _ages_ms(self) -> list[int]:
        """The ages of all registrations when this member's was created, by the server's clock."""
        assert self._cache.members is not None
        created_ms = self._cache.members.created_ms
        own_ms = created_ms[self._context.config.member_id]
        return [own_ms - ms for ms in created_ms.values()]

    def _known_cversion(self) -> int | None:
        return self._cache.members.cversion if self._cache.members is not None else None

    def _list(self) -> Procedure[ListChildrenDone]:
        cache = self._cache
        needs_brokers = self._context.config.settings.require_brokers is True and not _armed(
            cache.brokers_watch
        )
        if cache.listing is not None and _armed(cache.ids_watch) and not needs_brokers:
            return cache.listing
        queries, ids_watch = [], cache.ids_watch
        if _armed(ids_watch):
            queries.append(Query(ListChildren(self._paths.ids)))
        else:
            ids_watch = self._watch()
            queries.append(Query(ListChildren(self._paths.ids, watch=True), ids_watch))
        brokers_watch = self._watch()
        if needs_brokers:
            queries.append(Query(ListChildren(broker_ids_path(), watch=True), brokers_watch))
        outcomes = yield from ask(*queries)
        listing = list_done(outcomes[0])
        if listing.stat is None:
            raise GuardRefusedError(self._paths.ids)
        cache.ids_watch = ids_watch
        if needs_brokers:
            cache.brokers_watch, cache.has_brokers = brokers_watch, bool(list_done(outcomes[1]).children)
        return listing

    def _read(self, listing: ListChildrenDone) -> Procedure[Mapping[str, Znode | None] | None]:
        """Makes the bulk read; None if `ids` has changed since the listing."""
        context, paths = self._context, self._paths
        assert listing.stat is not None
        cached = self._cached(listing)
        own = context.config.member_id
        unread = sorted(n for n in listing.children if n not in cached.registrations and n != own)
        owned = tuple(context.owned.partitions)
        away = self.away.to_read(listing.children)
        peers = [*map(paths.registration, unread), *map(paths.static_member, away)]
        wanted = [*peers, paths.static, paths.own, *paths.owners(owned), paths.owners_root, paths.ids]
        found = yield from read_allowed(wanted)
        # An ACL may hide a peer's znodes, but not the others.
        needed = [readable(path, found[i]) for i, path in enumerate(wanted) if i >= len(peers)]
        static, own_znode, *owners, owners_root, closing = needed
        if closing is None:
            raise GuardRefusedError(paths.ids)
        self._check_own(own_znode)
        self._remember(listing, cached, {**dict(zip(unread, found, strict=False)), own: own_znode})
        if (closing.stat.pzxid, closing.stat.cversion) != (listing.stat.pzxid, listing.stat.cversion):
            return None  # the next pass reads only what has changed since this listing
        if self.away.must_list(static):
            yield from self.away.list_names()
            if self.away.must_list(static) or self.away.to_read(listing.children):
                return None
        entries = dict(zip(away, found[len(unread) :], strict=False))
        self.away.found({n: one for n, one in entries.items() if isinstance(one, Znode)}, self._readable)
        yield from self.freeze.read(owners_root)
        return dict(zip(paths.owners(owned), owners, strict=True))

    def _remember(
        self,
        listing: ListChildrenDone,
        cached: KnownMembers,
        fresh: Mapping[str, Znode | Code | None],
    ) -> None:
        """Stores the registrations of this listing, those just read and the cached ones."""
        stat, known = listing.stat, cached.registrations
        assert stat is not None
        registrations = {n: known[n] for n in listing.children if n in known and n not in fresh}
        created_ms = {name: cached.created_ms[name] for name in registrations}
        created = {name: cached.created[name] for name in registrations}
        for name, znode in fresh.items():
            created_ms[name] = znode.stat.ctime if isinstance(znode, Znode) else stat.ctime
            created[name] = znode.stat.czxid if isinstance(znode, Znode) else 0
            registrations[name] = self._decoded(name, znode) if isinstance(znode, Znode) else None
            if isinstance(znode, Code):
                self._report(
                    "corrupt_znode", self._paths.registration(name), 0, f"it may not be read: {znode.value}"
                )
        self._cache.members = KnownMembers(stat.czxid, stat.cversion, registrations, created_ms, created)
        self.shared.learn(self._paths.ids, self._cache.members)

    def _readable(self) -> Mapping[str, Registration]:
        return {n: peer.registration for n, peer in self._registrations().items() if peer is not None}

    def _registrations(self) -> Mapping[str, DecodedMember | None]:
        return self._cache.members.registrations if self._cache.members is not None else {}

    def _counted(self) -> Mapping[str, DecodedMember | None]:
        """The members that the assignment counts: the registered ones, and those that are away."""
        registrations, away = self._registrations(), self.away.counted
        if not away:
            return registrations
        return {**{name: member_of(name, one) for name, one in away.items()}, **registrations}

    def _cached(self, listing: ListChildrenDone) -> KnownMembers:
        """The newest valid registrations that this member, or one on the same client, has read."""
        found = (self.shared.known_members.get(self._paths.ids), self._cache.members)
        valid = [known for known in found if known is not None and known.is_valid(listing)]
        return max(valid, key=lambda known: known.cversion, default=KnownMembers(0, 0))

    def _check_own(self, znode: Znode | None) -> None:
        """Checks the own registration by its owner session, not by the client's state."""
        session = self._context.session
        assert session is not None
        if znode is None or znode.stat.ephemeral_owner != session.session_id:
            raise GuardRefusedError(self._paths.own)

    def _decoded(self, name: str, znode: Znode) -> DecodedMember | None:
        self.report_persistent(znode)
        try:
            return decoded_member(name, znode.path, znode.data)
        except CorruptZnodeError as error:
            self.report_corrupt(znode, error)
            return None

    def report_corrupt(self, znode: Znode, error: CorruptZnodeError) -> None:
        """Reports a corrupt znode, once for each version of it."""
        self._report("corrupt_znode", znode.path, znode.stat.mzxid, str(error))

    def report_persistent(self, znode: Znode) -> PersistentZnodeError | None:
        """Reports a znode that a session should hold and none does, once for each; None for another."""
        if not is_leftover(znode):
            return None
        error = PersistentZnodeError(znode.path)
        self._report("persistent_znode", znode.path, znode.stat.mzxid, str(error))
        return error

    def _report(self, kind: str, path: str, mzxid: int, detail: str) -> None:
        if (kind, path, mzxid) not in self._reported:
            self._reported.add((kind, path, mzxid))
            self._context.note(kind, path=path, detail=detail)

    def _read_topics(self) -> Procedure[Evaluation]:
        cache = self._cache
        counted = self._counted()
        has_wildcard = any(peer is not None and peer.evaluated is None for peer in counted.values())
        if has_wildcard and not _armed(cache.topic_names_watch):
            watch = self._watch()
            (outcome,) = yield from ask(Query(ListChildren(topics_path(), watch=True), watch))
            cache.topic_names, cache.topic_names_watch = tuple(sorted(list_done(outcome).children)), watch
        evaluation = self._evaluated(counted)
        unread = [name for name in sorted(evaluation.topics) if not self._is_cached(name)]
        if unread:
            watches = [self._watch() for _ in unread]
            outcomes = yield from ask(
                *(Query(Read(Topic.path(t), watch=True), w) for t, w in zip(unread, watches, strict=True))
            )
            for name, watch, outcome in zip(unread, watches, outcomes, strict=True):
                cache.topics[name] = self._topic(read_done(outcome), watch)
        return evaluation

    def _read_racks(self) -> Procedure[None]:
        """Reads the racks of the registered brokers, unless none came or went since the last time."""
        cache = self._cache
        if _armed(cache.racks_watch):
            return
        watch = self._watch()
        (outcome,) = yield from ask(Query(ListChildren(broker_ids_path(), watch=True), watch))
        ids = [int(name) for name in sorted(list_done(outcome).children) if name.isdecimal()]
        (znodes,) = yield from read_many([BrokerRegistration.path(broker) for broker in ids])
        racks = {}
        for broker, znode in zip(ids, znodes, strict=True):
            try:
                registered = znode and BrokerRegistration.decode(znode.path, znode.data)
            except CorruptZnodeError:
                continue
            if registered and registered.rack:
                racks[broker] = registered.rack
        cache.racks, cache.racks_watch = racks, watch

    def _is_cached(self, topic: str) -> bool:
        cached = self._cache.topics.get(topic)
        return cached is not None and not cached.watch.fired

    def _topic(self, znode: Znode | None, watch: Watch) -> CachedTopic:
        if znode is None:
            return CachedTopic(watch, None, 0, {})
        try:
            replicas = decoded_topic(znode.path, znode.data).partitions
        except CorruptZnodeError as error:
            self.report_corrupt(znode, error)
            replicas = {}
        return CachedTopic(watch, znode.stat.version, znode.stat.mzxid, replicas)

    def _evaluated(self, counted: Mapping[str, DecodedMember | None]) -> Evaluation:
        """The members with their topics, all topics, and who cannot be evaluated."""
        cache, excluded = self._cache, self._context.config.settings.exclude_internal_topics
        members: list[EvaluatedMember] = []
        names: set[str] = set()
        not_evaluable: list[str] = []
        for name, peer in sorted(counted.items()):
            if peer is None:
                continue
            member = peer.evaluated
            if member is None:
                try:
                    threads = evaluate(peer.subscription, cache.topic_names, excluded)
                except UnsupportedRegexError:
                    not_evaluable.append(name)
                    continue
                member = peer.registration.evaluated(name, threads)
            members.append(member)
            names.update(member.threads)
        return Evaluation(tuple(members), frozenset(names), tuple(not_evaluable))

    def _store_snapshot(self, listing: ListChildrenDone, evaluation: Evaluation) -> bool:
        """Stores the snapshot; False if a topic was dropped by a disconnect while the replies came in."""
        cache = self._cache
        assert listing.stat is not None
        names = evaluation.topics
        if not names <= cache.topics.keys():
            return False
        topics = {name: cache.topics[name] for name in sorted(names)}
        facts = {Topic.path(name): topic.mzxid for name, topic in topics.items()}
        has_brokers = cache.has_brokers or self._context.config.settings.require_brokers is not True
        replicas = {name: topic.replicas for name, topic in topics.items()}
        racks = racks_of_replicas(replicas, cache.racks) if all_have_racks(evaluation.members) else {}
        before = self.newest
        same = (
            before is not None
            and before.generation == listing.stat.pzxid
            and before.has_brokers == has_brokers
            and before.frozen == self.freeze.newest
            and facts == self.topic_facts
            and before.members
            == evaluation.members  # wildcards count what was listed before the topics were read
            and before.racks == racks
        )
        if same:
            return True
        self.topic_facts, self.is_new = facts, True
        self.newest = MembershipSnapshot(
            generation=listing.stat.pzxid,
            registrations=self._readable(),
            terms=Counter(peer.terms for peer in self._registrations().values() if peer is not None),
            members=evaluation.members,
            partitions={name: tuple(sorted(topic.replicas)) for name, topic in topics.items()},
            topic_versions={name: topic.version for name, topic in topics.items()},
            not_evaluable=evaluation.not_evaluable,
            has_brokers=has_brokers,
            created=cache.members.created if cache.members is not None else {},
            racks=racks,
            frozen=self.freeze.newest,
        )
        return True


def _armed(watch: Watch | None) -> bool:
    return watch is not None and not watch.fired
