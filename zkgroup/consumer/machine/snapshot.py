"""The picture of the group: who is registered, what each wants, which partitions there are (recipes.md 3).

One pass lists `ids` with a watch and then makes one unwatched bulk read: the registrations that are not
cached, the own registration, the owner znodes that this member holds (their verification costs no packet
of its own) and `ids` itself, which closes the pass: where it has moved, once more. Topics are cached
while their data watch is armed. So a join costs a member that is not affected two packets.

Cached registrations are good while `czxid(ids)` stands and `cversion(ids)` has risen by exactly the
names that came and went: a member that left and came back under its name counts two and shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from zkgroup.assignment.wildcards import evaluate
from zkgroup.consumer.machine.core import Core
from zkgroup.consumer.machine.paths import Paths
from zkgroup.consumer.machine.settling import Settling
from zkgroup.errors import CorruptZnodeError, UnsupportedRegexError
from zkgroup.machinery.procedures import (
    FencedError,
    Procedure,
    Query,
    ask,
    list_done,
    read_allowed,
    read_done,
    readable,
)
from zkgroup.machinery.watch import Watch
from zkgroup.model import EvaluatedMember, StaticSubscription, Subscription, Znode
from zkgroup.model.requests import Code, ListChildren, ListChildrenDone, Read
from zkgroup.znodes.brokers import Topic, broker_ids_path, topics_path
from zkgroup.znodes.consumers import Registration

PASSES_MAX = 10
"""Passes in a row before the member takes a breath; a group that moves faster is settled by time."""


@dataclass(frozen=True, slots=True)
class CachedTopic:
    """A topic znode as read; good while `watch` has not fired. `version` is None where there is none."""

    watch: Watch
    version: int | None
    mzxid: int
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """One consistent view of the group."""

    generation: int
    """pzxid of `ids` (docs/adr/0006)."""
    registrations: Mapping[str, Registration]
    """Readable ones only: who cannot be read owns nothing."""
    members: tuple[EvaluatedMember, ...]
    partitions: Mapping[str, tuple[int, ...]]
    """Of every topic that anybody subscribes; empty for one that does not exist."""
    topic_versions: Mapping[str, int | None]
    not_evaluable: tuple[str, ...] = ()
    """Members whose wildcard Python cannot evaluate as Java would."""
    has_brokers: bool = True

    @property
    def has_foreign_members(self) -> bool:
        """Somebody without our key is registered: a JVM member, as far as we can tell."""
        return any(not registration.is_zkgroup for registration in self.registrations.values())


@dataclass(frozen=True, slots=True)
class Peer:
    """A registration as read, with what does not change about it."""

    registration: Registration
    subscription: Subscription
    evaluated: EvaluatedMember | None
    """None for a wildcard: its topics depend on those there are."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The subscriptions of all members as topics."""

    members: tuple[EvaluatedMember, ...]
    topics: frozenset[str]
    not_evaluable: tuple[str, ...]


@dataclass(slots=True)
class _Cache:
    ids: tuple[int, int] | None = None
    """czxid and cversion of `ids` that `registrations` belongs to."""
    registrations: dict[str, Peer | None] = field(default_factory=dict)
    """None for one that cannot be read."""
    created_ms: dict[str, int] = field(default_factory=dict)
    """ctime of each registration."""
    listing: ListChildrenDone | None = None
    ids_watch: Watch | None = None
    topics: dict[str, CachedTopic] = field(default_factory=dict)
    topic_names: tuple[str, ...] = ()
    topic_names_watch: Watch | None = None
    brokers_watch: Watch | None = None
    has_brokers: bool = False


class Snapshot:
    """Takes pictures of the group when something may have changed."""

    def __init__(self, core: Core, paths: Paths) -> None:
        self._core = core
        self._paths = paths
        self._cache = _Cache()
        self._reported: set[tuple[str, int]] = set()
        self.settling = Settling(core)
        self.picture: Picture | None = None
        self.is_new = False
        """`picture` differs from the one before and has not been planned from."""
        self.topic_facts: Mapping[str, int] = {}
        """Paths of the topics in the picture, each with its mzxid (0 for one that is missing)."""

    # --- when -------------------------------------------------------------------------------------

    def forget_watches(self) -> None:
        """After a disconnect every watch is gone, so nothing that relied on one is known any more."""
        cache = self._cache
        cache.ids_watch = cache.topic_names_watch = cache.brokers_watch = cache.listing = None
        cache.topics.clear()

    def forget_topic(self, topic: str) -> None:
        """A claim was refused at this topic: what is cached is old, whatever the watch says."""
        self._cache.topics.pop(topic, None)

    def forget(self) -> None:
        """The registration is gone: the next picture is planned from, even if it looks the same."""
        self.picture, self.is_new = None, False

    def _watch(self) -> Watch:
        return Watch(self.settling.mark)

    # --- one pass ---------------------------------------------------------------------------------

    def take(self) -> Procedure[Mapping[str, Znode | None] | None]:
        """A picture, or None where the group is still moving. Returns the own owner znodes as seen."""
        for _ in range(PASSES_MAX):
            marks = self.settling.marks
            listing = yield from self._list()
            if self.settling.must_wait(listing, self._known_cversion()):
                self._cache.listing = listing
                return None
            self._cache.listing = None
            owned = yield from self._read(listing)
            if owned is not None and self.settling.must_wait_for_company(self._group_age_ms()):
                self._cache.listing = listing
                return None
            if owned is not None:
                evaluation = yield from self._read_topics()
                if self._settle_picture(listing, evaluation):
                    self.settling.done(marks)
                    return owned
        self.settling.breathe()
        return None

    def _group_age_ms(self) -> int:
        """How much older than this member's registration the oldest one is, by the server's clock."""
        created_ms = self._cache.created_ms
        return created_ms[self._core.config.member_id] - min(created_ms.values())

    def _known_cversion(self) -> int | None:
        return self._cache.ids[1] if self._cache.ids else None

    def _list(self) -> Procedure[ListChildrenDone]:
        cache = self._cache
        needs_brokers = self._core.config.settings.require_brokers is True and not _armed(cache.brokers_watch)
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
            raise FencedError(self._paths.ids)
        cache.ids_watch = ids_watch
        if needs_brokers:
            cache.brokers_watch, cache.has_brokers = brokers_watch, bool(list_done(outcomes[1]).children)
        return listing

    def _read(self, listing: ListChildrenDone) -> Procedure[Mapping[str, Znode | None] | None]:
        """The bulk read. None where `ids` has moved since the listing."""
        core, paths = self._core, self._paths
        assert listing.stat is not None
        cached = self._cached(listing)
        own = core.config.member_id
        unread = sorted(name for name in listing.children if name not in cached and name != own)
        held = tuple(core.owned.held)
        wanted = [*map(paths.registration, unread), paths.own, *paths.owners(held), paths.ids]
        found = yield from read_allowed(wanted)
        # A peer's registration that an ACL hides is that peer's trouble; the rest is needed.
        needed = [readable(path, found[i]) for i, path in enumerate(wanted) if i >= len(unread)]
        own_znode, *owners, closing = needed
        if closing is None:
            raise FencedError(paths.ids)
        if (closing.stat.pzxid, closing.stat.cversion) != (listing.stat.pzxid, listing.stat.cversion):
            return None
        self._check_own(own_znode)
        self._remember(listing, cached, {**dict(zip(unread, found, strict=False)), own: own_znode})
        return dict(zip(paths.owners(held), owners, strict=True))

    def _remember(
        self,
        listing: ListChildrenDone,
        cached: Mapping[str, Peer | None],
        fresh: Mapping[str, Znode | Code | None],
    ) -> None:
        """The registrations of this listing, those just read and those that need no reading."""
        cache, stat = self._cache, listing.stat
        assert stat is not None
        registrations = {n: cached[n] for n in listing.children if n in cached and n not in fresh}
        created_ms = {name: cache.created_ms[name] for name in registrations}
        for name, znode in fresh.items():
            created_ms[name] = znode.stat.ctime if isinstance(znode, Znode) else stat.ctime
            registrations[name] = self._decoded(name, znode) if isinstance(znode, Znode) else None
            if isinstance(znode, Code):
                self._report((self._paths.registration(name), 0), f"it may not be read: {znode.value}")
        cache.registrations, cache.created_ms = registrations, created_ms
        cache.ids = (stat.czxid, stat.cversion)

    def _cached(self, listing: ListChildrenDone) -> Mapping[str, Peer | None]:
        """The registrations that need no reading (recipes.md 3)."""
        cache, stat = self._cache, listing.stat
        if cache.ids is None or stat is None or cache.ids[0] != stat.czxid:
            return {}
        moved = len(set(cache.registrations) ^ set(listing.children))
        return cache.registrations if stat.cversion - cache.ids[1] == moved else {}

    def _check_own(self, znode: Znode | None) -> None:
        """My session is the owner of my own registration, never what the client says (recipes.md 2)."""
        session = self._core.session
        assert session is not None
        if znode is None or znode.stat.ephemeral_owner != session.session_id:
            raise FencedError(self._paths.own)

    def _decoded(self, name: str, znode: Znode) -> Peer | None:
        try:
            registration = Registration.decode(znode.path, znode.data)
        except CorruptZnodeError as error:
            self.report_poison(znode, error)
            return None
        subscription = registration.wanted()
        evaluated = None
        if isinstance(subscription, StaticSubscription):
            evaluated = EvaluatedMember(name, subscription.topics)
        return Peer(registration, subscription, evaluated)

    def report_poison(self, znode: Znode, error: CorruptZnodeError) -> None:
        """Told once for each life of a znode."""
        self._report((znode.path, znode.stat.mzxid), str(error))

    def _report(self, seen: tuple[str, int], detail: str) -> None:
        if seen not in self._reported:
            self._reported.add(seen)
            self._core.note("poison", path=seen[0], detail=detail)

    # --- topics -----------------------------------------------------------------------------------

    def _read_topics(self) -> Procedure[Evaluation]:
        cache = self._cache
        has_wildcard = any(
            peer is not None and peer.evaluated is None for peer in cache.registrations.values()
        )
        if has_wildcard and not _armed(cache.topic_names_watch):
            watch = self._watch()
            (outcome,) = yield from ask(Query(ListChildren(topics_path(), watch=True), watch))
            cache.topic_names, cache.topic_names_watch = tuple(sorted(list_done(outcome).children)), watch
        evaluation = self._evaluated()
        unread = [name for name in sorted(evaluation.topics) if not self._is_cached(name)]
        if unread:
            watches = [self._watch() for _ in unread]
            outcomes = yield from ask(
                *(Query(Read(Topic.path(t), watch=True), w) for t, w in zip(unread, watches, strict=True))
            )
            for name, watch, outcome in zip(unread, watches, outcomes, strict=True):
                cache.topics[name] = self._topic(read_done(outcome), watch)
        return evaluation

    def _is_cached(self, topic: str) -> bool:
        cached = self._cache.topics.get(topic)
        return cached is not None and not cached.watch.fired

    def _topic(self, znode: Znode | None, watch: Watch) -> CachedTopic:
        if znode is None:
            return CachedTopic(watch, None, 0, ())
        try:
            partitions = Topic.decode(znode.path, znode.data).numbers
        except CorruptZnodeError as error:
            self.report_poison(znode, error)
            partitions = ()
        return CachedTopic(watch, znode.stat.version, znode.stat.mzxid, partitions)

    def _evaluated(self) -> Evaluation:
        """The members with their topics, all topics, and who cannot be evaluated."""
        cache, excluded = self._cache, self._core.config.settings.exclude_internal_topics
        members: list[EvaluatedMember] = []
        names: set[str] = set()
        puzzling: list[str] = []
        for name, peer in sorted(cache.registrations.items()):
            if peer is None:
                continue
            member = peer.evaluated
            if member is None:
                try:
                    threads = evaluate(peer.subscription, cache.topic_names, excluded)
                except UnsupportedRegexError:
                    puzzling.append(name)
                    continue
                member = EvaluatedMember(name, threads)
            members.append(member)
            names.update(member.threads)
        return Evaluation(tuple(members), frozenset(names), tuple(puzzling))

    # --- the result -------------------------------------------------------------------------------

    def _settle_picture(self, listing: ListChildrenDone, evaluation: Evaluation) -> bool:
        """False where a topic is not known any more: a connection was lost while the answers came in."""
        cache = self._cache
        assert listing.stat is not None
        names = evaluation.topics
        if not names <= cache.topics.keys():
            return False
        topics = {name: cache.topics[name] for name in sorted(names)}
        facts = {Topic.path(name): topic.mzxid for name, topic in topics.items()}
        has_brokers = cache.has_brokers or self._core.config.settings.require_brokers is not True
        before = self.picture
        same = (
            before is not None
            and before.generation == listing.stat.pzxid
            and before.has_brokers == has_brokers
            and facts == self.topic_facts
        )
        if same:
            return True
        self.topic_facts, self.is_new = facts, True
        self.picture = Picture(
            generation=listing.stat.pzxid,
            registrations={n: p.registration for n, p in cache.registrations.items() if p is not None},
            members=evaluation.members,
            partitions={name: topic.partitions for name, topic in topics.items()},
            topic_versions={name: topic.version for name, topic in topics.items()},
            not_evaluable=evaluation.not_evaluable,
            has_brokers=has_brokers,
        )
        return True


def _armed(watch: Watch | None) -> bool:
    return watch is not None and not watch.fired
