"""What goes wrong in a schedule: networks, processes, strangers, operators, people who change their mind.

Each method does one thing to the world and returns what it did, or False where there was nothing to do
it to. Which ones, and how often, the setup says.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from zkgroup.consumer import events as ev
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Delete, Operation, SetData
from zkgroup.testing.memory_zookeeper import Fault
from zkgroup.testing.simulation.actor import Actor
from zkgroup.testing.simulation.setup import GROUP
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import Offset, Owner, Registration, Reset

if TYPE_CHECKING:
    from zkgroup.testing.simulation.world import World


class Faults:
    """The faults of one schedule."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self._world = world
        self._rng = rng

    def happen(self, fault: str) -> object:
        """Does the fault of that name. False where it could not happen."""
        return getattr(self, fault)()

    def _lose(self, fault: Fault) -> object:
        waiting = [s for s in self._world.server.pending() if s.kind == "request"]
        if not waiting:
            return False
        step = self._rng.choice(waiting)
        self._world.server.deliver(step, fault)
        return step.client

    def lost_reply(self) -> object:
        return self._lose("lost_reply")

    def lost_request(self) -> object:
        return self._lose("lost_request")

    def late(self) -> object:
        return self._lose("late")

    def _some(self) -> Actor | None:
        living = self._world.living()
        return self._rng.choice(living) if living else None

    def cut(self) -> object:
        actor = self._some()
        if actor is None:
            return False
        self._world.server.cut(
            actor.client.name, executed=self._rng.randint(0, 2), keep_requests=self._rng.random() < 0.5
        )
        return actor.client.name

    def expire(self) -> object:
        actor = self._some()
        if actor is None or actor.client.session is None:
            return False
        self._world.server.expire(actor.client.name)
        return actor.client.name

    def isolate(self) -> object:
        """No server can be reached for a while, perhaps for longer than the session lives."""
        actor = self._some()
        if actor is None:
            return False
        self._world.isolate(actor.client.name, self._rng.choice((300, 2000, 4500, 8000)))
        return actor.client.name

    def pause(self) -> object:
        """The whole process stops: every member on that client."""
        actor = self._some()
        if actor is None:
            return False
        until_ms = self._world.clock.now_ms() + self._rng.choice((500, 3000, 5000, 9000))
        for other in self._world.living():
            if other.client is actor.client:
                self._world.pause(other, until_ms)
        return f"{actor.member_id} until {until_ms}"

    def abandon(self) -> object:
        actor = self._some()
        if actor is None:
            return False
        actor.client.abandon(actor.client.incarnation, "a fault")
        return actor.client.name

    def kill(self) -> object:
        """The process dies, its session lives on; it is started again under the same id."""
        actor = self._some()
        if actor is None or len(self._world.living()) < 2:
            return False
        victims = [other for other in self._world.living() if other.client is actor.client]
        for victim in victims:
            self._world.kill(victim)
        self._world.server.suspend(actor.client.name)
        for victim in victims:
            if self._rng.random() < 0.7:
                self._world.add_member(int(victim.member_id.rpartition("m")[2]), fresh_client=True)
        return [victim.member_id for victim in victims]

    def _partition(self) -> TopicPartition | None:
        found = []
        for path in self._world.server.tree():
            parts = path.split("/")
            if path.startswith(f"/consumers/{GROUP}/offsets/") and len(parts) == 6:
                found.append(TopicPartition(parts[4], int(parts[5])))
        return self._rng.choice(found) if found else None

    def _stranger(self, *operations: Operation) -> None:
        self._world.server.write(*operations)

    def steal(self) -> object:
        tp = self._partition()
        if tp is None or self._world.server.find(Owner.path(GROUP, tp)) is None:
            return False
        self._stranger(Delete(Owner.path(GROUP, tp), -1))
        return tp

    def foreign_write(self) -> object:
        tp = self._partition()
        znode = self._world.server.find(Offset.path(GROUP, tp)) if tp is not None else None
        if tp is None or znode is None:
            return False
        value = max(0, int(znode.data or b"0") + self._rng.choice((-3, 2, 7)))
        self._stranger(SetData(Offset.path(GROUP, tp), Offset(value).encode(), -1))
        return f"{tp}={value}"

    def reset(self) -> object:
        tp = self._partition()
        if tp is None:
            return False
        value, marker = self._rng.randint(0, 3), Reset.path(GROUP, tp)
        gone = [Delete(marker, -1)] if self._world.server.find(marker) is not None else []
        made = Create(marker, Reset(value, self._world.clock.wall_ms(), "operator").encode())
        self._stranger(SetData(Offset.path(GROUP, tp), Offset(value).encode(), -1), *gone, made)
        return f"{tp}={value}"

    def unregister(self) -> object:
        """A stranger deletes a registration; its session, and what it owns, stay."""
        actor = self._some()
        path = Registration.path(GROUP, actor.member_id) if actor is not None else ""
        if actor is None or self._world.server.find(path) is None:
            return False
        self._stranger(Delete(path, -1))
        return actor.member_id

    def grow(self) -> object:
        topic = self._rng.choice(list(self._world.setup.topics))
        znode = self._world.server.find(Topic.path(topic))
        count = len(Topic.decode(Topic.path(topic), znode.data).numbers) + 1 if znode is not None else 2
        self._world.server.put(Topic.path(topic), Topic(dict.fromkeys(range(min(count, 7)), (0,))).encode())
        return f"{topic}: {count}"

    def delete_topic(self) -> object:
        topic = self._rng.choice(list(self._world.setup.topics))
        self._world.server.remove(Topic.path(topic))
        return topic

    def leave(self) -> object:
        actor = self._some()
        if actor is None or len(self._world.living()) < 2:
            return False
        shares = any(o.client is actor.client for o in self._world.living() if o is not actor)
        deadline_ms = self._world.clock.now_ms() + 5000
        actor.inbox.append(ev.CloseRequested(not shares, deadline_ms))
        return actor.member_id

    def join(self) -> object:
        taken = {actor.member_id for actor in self._world.living()}
        free = [n for n in range(self._world.setup.members + 2) if f"{GROUP}_m{n}" not in taken]
        if not free:
            return False
        return self._world.add_member(self._rng.choice(free), fresh_client=True).member_id

    def resubscribe(self) -> object:
        actor = self._some()
        if actor is None or self._world.setup.strategy == "roundrobin":
            return False
        actor.inbox.append(ev.SubscriptionChanged(self._rng.choice(self._world.setup.subscriptions)))
        return actor.member_id

    def hand_back(self) -> object:
        actor = self._some()
        if actor is None or not actor.application.owned:
            return False
        tp = self._rng.choice(actor.application.owned)
        actor.inbox.append(ev.HandBackRequested(frozenset({tp})))
        return tp

    def poll_timeout(self) -> object:
        actor = self._some()
        if actor is None:
            return False
        actor.inbox.append(ev.PollOverdue())
        actor.inbox.append(ev.Polled())
        return actor.member_id

    def slow_callback(self) -> object:
        self._world.callbacks_hang = not self._world.callbacks_hang
        return self._world.callbacks_hang
