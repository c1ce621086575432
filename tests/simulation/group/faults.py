"""Faults of a schedule of a group: networks, processes, foreign writers, operators, changes of subscription.

Each method injects one fault and returns what it did, or False where it was not possible. The setup says
which faults happen, and how often.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.simulation.group.members import ConsumingActor
from tests.simulation.group.setup import GROUP, topic_of
from tests.simulation.schedule import ScheduleFaults
from zkgroup.admin.freezes import freeze_operations
from zkgroup.consumer.machine import events as ev
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Delete, Multi, Operation, SetData
from zkgroup.testing.memory_zookeeper.server import ServerStep
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import Offset, Owner, Registration, ids_path, owners_path
from zkgroup.znodes.group_records import Freeze, Reset

if TYPE_CHECKING:
    from tests.simulation.group.world import GroupWorld


class GroupFaults(ScheduleFaults):
    """The faults of one schedule."""

    def __init__(self, world: GroupWorld, rng: random.Random) -> None:
        super().__init__(world.server, rng)
        self._world = world

    def _waiting(self) -> list[ServerStep]:
        return self._world.pending()

    def _some(self) -> ConsumingActor | None:
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
        """The client reaches no server for a while, perhaps for longer than its session timeout."""
        actor = self._some()
        if actor is None:
            return False
        self._world.isolate(actor.client.name, self._rng.choice((300, 2000, 4500, 8000)))
        return actor.client.name

    def pause(self) -> object:
        """Pauses the whole process: every member on that client."""
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
        """Kills the process; its session stays, and it is started again under the same id."""
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
            components = path.split("/")
            if path.startswith(f"/consumers/{GROUP}/offsets/") and len(components) == 6:
                found.append(TopicPartition(components[4], int(components[5])))
        return self._rng.choice(found) if found else None

    def _foreign_transaction(self, *operations: Operation) -> None:
        self._world.server.write(*operations)

    def steal(self) -> object:
        tp = self._partition()
        if tp is None or self._world.server.find(Owner.path(GROUP, tp)) is None:
            return False
        self._foreign_transaction(Delete(Owner.path(GROUP, tp), -1))
        return tp

    def foreign_write(self) -> object:
        tp = self._partition()
        return self._write_offset(tp) if tp is not None else False

    def _write_offset(self, tp: TopicPartition) -> object:
        znode = self._world.server.find(Offset.path(GROUP, tp))
        if znode is None:
            return False
        value = max(0, int(znode.data or b"0") + self._rng.choice((-3, 2, 7)))
        self._foreign_transaction(SetData(Offset.path(GROUP, tp), Offset(value).encode(), -1))
        return f"{tp}={value}"

    def reset(self) -> object:
        tp = self._partition()
        return self._reset(tp) if tp is not None else False

    def _reset(self, tp: TopicPartition) -> object:
        value, marker = self._rng.randint(0, 3), Reset.path(GROUP, tp)
        gone = [Delete(marker, -1)] if self._world.server.find(marker) is not None else []
        made = Create(marker, Reset(value, self._world.clock.wall_ms(), "operator").encode())
        self._foreign_transaction(SetData(Offset.path(GROUP, tp), Offset(value).encode(), -1), *gone, made)
        return f"{tp}={value}"

    def freeze(self) -> object:
        """An operator freezes the group, also while partitions move; a command would refuse that."""
        tree = self._world.server.tree()
        owners = tree.get(owners_path(GROUP))
        is_frozen = Freeze.path(GROUP) in tree
        if owners is None or is_frozen or ids_path(GROUP) not in tree or self._world.jvm:
            return False
        for_ms, takeover = self._rng.choice((300, 2000, 12_000)), self._rng.random() < 0.4
        freeze = Freeze(reason="a fault", by="operator", for_ms=for_ms, allows_takeover=takeover)
        self._foreign_transaction(*freeze_operations(GROUP, freeze, owners, ()))
        return freeze

    def unfreeze(self) -> object:
        if self._world.server.find(Freeze.path(GROUP)) is None:
            return False
        self._foreign_transaction(Delete(Freeze.path(GROUP), -1))
        return True

    def unregister(self) -> object:
        """A foreign writer deletes a registration; its session and its owner znodes stay."""
        actor = self._some()
        path = Registration.path(GROUP, actor.member_id) if actor is not None else ""
        if actor is None or self._world.server.find(path) is None:
            return False
        self._foreign_transaction(Delete(path, -1))
        return actor.member_id

    def grow(self) -> object:
        return self._grow(self._rng.choice(list(self._world.setup.topics)))

    def _grow(self, topic: str) -> object:
        znode = self._world.server.find(Topic.path(topic))
        count = len(Topic.decode(Topic.path(topic), znode.data).numbers) + 1 if znode is not None else 2
        self._world.server.put(Topic.path(topic), topic_of(min(count, 7)).encode())
        return f"{topic}: {count}"

    def delete_topic(self) -> object:
        topic = self._rng.choice(list(self._world.setup.topics))
        self._world.server.remove(Topic.path(topic))
        return topic

    def leave(self) -> object:
        actor = self._some()
        if actor is None or len(self._world.living()) < 2:
            return False
        actor.leave(6.0, leave=self._world.setup.grace_ms is None or self._rng.random() < 0.5)
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
        actor.post(ev.SubscriptionChanged(self._rng.choice(self._world.setup.subscriptions)))
        return actor.member_id

    def hand_back(self) -> object:
        actor = self._some()
        if actor is None or not actor.application.owned:
            return False
        tp = self._rng.choice(actor.application.owned)
        actor.application.hand_back(tp)
        return tp

    def poll_timeout(self) -> object:
        """The application is stuck, perhaps for longer than `max_poll_interval_ms`."""
        actor = self._some()
        if actor is None:
            return False
        now_ms, interval_ms = self._world.clock.now_ms(), self._world.setup.poll_interval_ms
        ends = [now_ms + 500, now_ms + 1500, now_ms + 5000]
        if interval_ms is not None:  # it comes back in the moment in which it is given up
            ends += [actor.member._polls.since_ms(now_ms) + interval_ms] * 3
        until_ms = self._rng.choice(ends)
        actor.application.stuck_until_ms = until_ms
        return f"{actor.member_id} until {until_ms}"

    def slow_callback(self) -> object:
        self._world.callbacks_hang = not self._world.callbacks_hang
        return self._world.callbacks_hang

    def _sent(self, part: str, kind: type[Operation]) -> list[TopicPartition]:
        """Partitions of transactions in flight with such an operation."""
        found = []
        for step in self._world.pending():
            client = self._world.server.clients[step.client]
            request = client.requests[0].request if step.kind == "request" else None
            if isinstance(request, Multi):
                paths = [o.path for o in request.operations if isinstance(o, kind) and part in o.path]
                found += [TopicPartition(*_named(path)) for path in paths]
        return found

    def grow_at_claim(self) -> object:
        """A topic grows between the assignment and the claims that follow from it."""
        claimed = self._sent(f"/consumers/{GROUP}/owners/", Create)
        if not claimed:
            return False
        return self._grow(self._rng.choice(claimed).topic)

    def write_at_commit(self) -> object:
        """A foreign writer writes an offset between a member's read and its write."""
        written = self._sent(f"/consumers/{GROUP}/offsets/", SetData)
        return self._write_offset(self._rng.choice(written)) if written else False

    def late_answer(self) -> object:
        """Responses arrive much later, and then the connection breaks."""
        names = [
            actor.client.name
            for actor in self._world.awake()
            if any(reply.is_answer for reply in actor.client.replies)
        ]
        if not names:
            return False
        name, timeout_ms = self._rng.choice(names), self._world.setup.session_timeout_ms
        self._world.hold_answers(name, int(timeout_ms * self._rng.choice((0.3, 0.4, 0.45, 0.7))))
        return name

    def lose_brokers(self) -> object:
        """The last broker goes away, or comes back."""
        if not self._world.setup.require_brokers:
            return False
        if self._world.lose_broker():
            return "gone"
        self._world.bring_broker()
        return "back"

    def retention(self) -> object:
        """Deletes the records that a member would read next."""
        tp = self._partition()
        if tp is None:
            return False
        self._world.log.drop(tp)
        return tp

    def reset_then_write(self) -> object:
        """A foreign writer overwrites an offset that an operator has just reset."""
        tp = self._partition()
        if tp is None:
            return False
        self._reset(tp)
        self._write_offset(tp)
        return tp

    def source_fails(self) -> object:
        """Records of one partition are unavailable for a while."""
        tp = self._partition()
        if tp is None:
            return False
        self._world.log.fail(tp, self._world.clock.now_ms() + self._rng.choice((300, 3000, 20_000)))
        return tp


def _named(path: str) -> tuple[str, int]:
    topic, number = path.rsplit("/", 2)[1:]
    return topic, int(number)
