"""ACLs that change while a broker follows them, its connection breaks and its sessions end.

`Schedule` is one random run of a broker's machine on a ZooKeeper in memory. The ACLs of each moment are kept
beside the log of the server; of one that was written and not yet notified of, the old and the new one count.
After each emission every decision has to be one that the ACLs of some moment give, since the notifications
were listed that the emission has followed. In the end it is that of the last moment.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from random import Random

from tests.pure.broker.stepped_brokers import SteppedBrokers
from zkgroup.broker.authorizer.authorizer import Authorizer
from zkgroup.broker.machine.acl_changes import UNREADABLE, Entries
from zkgroup.broker.machine.events import AclsChanged
from zkgroup.model.requests import Create, Delete, ListChildren, Operation, SetData
from zkgroup.security.acls import (
    PATTERN_TYPES,
    AccessControlEntry,
    AclCache,
    AclOperation,
    AclPermission,
    AclSettings,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from zkgroup.testing.memory_zookeeper import Fault, ServerStep
from zkgroup.znodes.acls import AclChangeNode, ResourceAcls, acl_changes_path, acl_folders

MINUTE_MS = 60_000
READ, TOPIC = AclOperation.READ, ResourceType.TOPIC
PATTERNS = (
    ResourcePattern(TOPIC, "ab"),
    ResourcePattern(TOPIC, "*"),
    ResourcePattern(TOPIC, "a", PatternType.PREFIXED),
    ResourcePattern(TOPIC, "ab", PatternType.PREFIXED),
)
PROBES = tuple(itertools.product(("User:alice", "User:bob"), ("a", "ab", "b")))
HOST = "10.0.0.1"
Acls = Mapping[ResourcePattern, frozenset[Entries]]
"""The entries that each pattern has or may have."""
LISTED = acl_changes_path(PATTERN_TYPES[0])
"""The folder that is listed first."""


class ViolationError(AssertionError):
    """A decision that no moment gives."""


def decisions(cache: AclCache) -> tuple[bool, ...]:
    """Whether each of `PROBES` may read."""
    return tuple(cache.authorize(who, HOST, READ, TOPIC, name).is_allowed for who, name in PROBES)


def _decided(acls: Mapping[ResourcePattern, Entries]) -> tuple[bool, ...]:
    cache = AclCache()
    for pattern, entries in acls.items():
        cache.change(pattern, entries)
    cache.loaded()
    return decisions(cache)


class Schedule:
    """A run by a seed; `counts` has how often each thing has happened."""

    def __init__(self, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self._draw = Random(seed)
        self.world = SteppedBrokers()
        self.server = self.world.server
        self.server.bulk_paths = self._draw.choice((None, 1, 2))
        for path in acl_folders():
            self.server.put(path)
        self._history: list[tuple[int, Acls]] = [(0, dict.fromkeys(PATTERNS, frozenset([()])))]
        """Places in the log of the server, and the ACLs from there on."""
        self.node = self.world.node(follows_acls=True)
        self.client = self.node.client
        self._authorizer = Authorizer(AclSettings(), self.world.clock)
        self._emitted = 0
        self._listed_at = 0
        """How much of the log the last list of notifications has seen."""

    def run(self, steps: int) -> None:
        """Raises ViolationError."""
        often = (self._change, self._write, self._notify)
        rarely = (self._disturb, self._break, self._end, self._leave)
        for _ in range(steps):
            if self._draw.random() < 0.9:
                self._deliver()
            else:
                self._draw.choice(often if self._draw.random() < 0.8 else rarely)()
        self._calm()

    def _deliver(self) -> None:
        ready = self._ready()
        if not ready:
            self._pass(1000)  # it waits before it tries again
            if self.client.held and self._draw.random() < 0.3:
                self.server.resume(self.client.name)
        else:
            step = self._draw.choice(ready)
            is_lost = step.kind == "request" and self._draw.random() < 0.02
            self._perform(step, "lost_request" if is_lost else None)
            if step.kind == "request" and self._draw.random() < 0.1:
                self._change()  # between two reads

    def _ready(self) -> list[ServerStep]:
        """Watch events come before later answers, as in ZooKeeper."""
        return [step for step in self.server.pending() if step.kind != "reply" or not self.client.watches]

    def _perform(self, step: ServerStep, fault: Fault | None = None) -> None:
        lists = step.kind == "request" and fault is None and self._is_list()
        self.server.deliver(step, fault)
        if lists:
            self._listed_at = self.client.applied
        self.node.loop.run_pending()
        self._look()

    def _is_list(self) -> bool:
        request = self.client.requests[0].request
        return isinstance(request, ListChildren) and request.path == LISTED

    def _look(self) -> None:
        """Applies what was emitted, and checks it."""
        for effect in self.node.emitted(AclsChanged)[self._emitted :]:
            self._emitted += 1
            self.counts["emitted"] += bool(effect.acls)
            self._authorizer.change(effect.acls)
            self._check()

    def _check(self) -> None:
        found = decisions(self._authorizer.cache)
        moments = [acls for place, acls in self._history if place > self._listed_at]
        before = [acls for place, acls in self._history if place <= self._listed_at][-1]
        possible = {one for acls in (before, *moments) for one in self._possible(acls)}
        for (who, name), is_allowed, *given in zip(PROBES, found, *possible, strict=True):
            if is_allowed not in given:
                word = "may" if is_allowed else "may not"
                raise ViolationError(f"{who} {word} read {name}, by the ACLs of no moment")
        if moments:
            self.counts["followed late"] += 1

    def _possible(self, acls: Acls) -> Iterator[tuple[bool, ...]]:
        for each in itertools.product(*acls.values()):
            yield _decided(dict(zip(acls, each, strict=True)))

    def _entries(self) -> Entries:
        """Few, which are often contrary."""
        return tuple(
            AccessControlEntry(
                self._draw.choice(("User:alice", "User:bob", "User:*")),
                "*",
                READ,
                self._draw.choice((AclPermission.ALLOW, AclPermission.DENY)),
            )
            for _ in range(self._draw.choice((0, 1, 1, 2)))
        )

    def _putting(self, pattern: ResourcePattern, entries: Entries) -> list[Operation]:
        path = ResourceAcls.path(pattern)
        data = b"{" if entries == UNREADABLE else ResourceAcls({one: {} for one in entries}).encode()
        if self.server.find(path) is None:
            return [Create(path, data)] if entries else []
        return [SetData(path, data, -1) if entries else Delete(path, -1)]

    def _notifying(self, pattern: ResourcePattern) -> Operation:
        return Create(
            AclChangeNode.prefix(pattern.pattern_type), AclChangeNode(pattern).encode(), sequential=True
        )

    def _is_now(self, pattern: ResourcePattern, *entries: Entries) -> None:
        acls = {**self._history[-1][1], pattern: frozenset(entries)}
        self._history.append((len(self.server.log), acls))

    def _change(self) -> None:
        """As zkgroup: with the notification. Others often follow at once."""
        for pattern in self._draw.sample(PATTERNS, self._draw.choice((1, 2, 3))):
            entries = UNREADABLE if self._draw.random() < 0.1 else self._entries()
            self.world.write(*self._putting(pattern, entries), self._notifying(pattern))
            self._is_now(pattern, entries)
            self.counts["changed"] += 1

    def _write(self) -> None:
        """As Kafka's tools: the notification comes later."""
        if any(len(each) > 1 for each in self._history[-1][1].values()):
            return
        pattern, entries = self._draw.choice(PATTERNS), self._entries()
        (before,) = self._history[-1][1][pattern]
        if operations := self._putting(pattern, entries):
            self.world.write(*operations)
            self._is_now(pattern, before, entries)
            self.counts["written"] += 1

    def _notify(self) -> None:
        for pattern in PATTERNS:
            if len(self._history[-1][1][pattern]) > 1:
                self.world.write(self._notifying(pattern))
                self._is_now(pattern, self._read(pattern))

    def _read(self, pattern: ResourcePattern) -> Entries:
        path = ResourceAcls.path(pattern)
        znode = self.server.find(path)
        return tuple(ResourceAcls.decode(path, znode.data).entries) if znode is not None else ()

    def _disturb(self) -> None:
        """Notifications that say nothing, and time in which old ones expire."""
        prefix = AclChangeNode.prefix(self._draw.choice(PATTERN_TYPES))
        self.world.write(Create(prefix, b"?", sequential=True))
        self._pass(self._draw.choice((1000, MINUTE_MS, 20 * MINUTE_MS)))

    def _pass(self, ms: int) -> None:
        self.world.clock.advance(ms)
        self.node.loop.run_pending()
        self._look()

    def _break(self) -> None:
        if self.client.held:
            self.server.resume(self.client.name)
            return
        hold = self._draw.random() < 0.5
        self.server.cut(self.client.name, executed=self._draw.randint(0, 2), hold=hold)
        self.counts["cut"] += 1

    def _end(self) -> None:
        if self.client.session is not None and self._draw.random() < 0.5:
            self.server.expire(self.client.name)
            self.counts["expired"] += 1

    def _leave(self) -> None:
        """Its session ends, ACLs change, and other brokers delete the notifications, which have expired."""
        if self.client.session is None:
            return
        self.server.expire(self.client.name)
        self.server.cut(self.client.name, hold=True)
        self._change()
        self._pass(20 * MINUTE_MS)
        folders = tuple(f"{acl_changes_path(each)}/" for each in PATTERN_TYPES)
        for path in self.server.tree():
            if path.startswith(folders):
                self.world.write(Delete(path, -1))
        self.server.resume(self.client.name)
        self.counts["away"] += 1

    def _calm(self) -> None:
        """Once nothing disturbs any more, the broker decides by the ACLs that there are."""
        self._notify()
        self.server.resume(self.client.name)
        for _ in range(60):
            while ready := self._ready():
                self._perform(ready[0])
            self._pass(1000)
        (now,) = set(self._possible(self._history[-1][1]))
        if decisions(self._authorizer.cache) != now:
            raise ViolationError("the broker has not followed the last changes")
        self.counts["runs"] += 1
