"""The world of one schedule of a group: server, clock, members, and which of them are paused."""

from __future__ import annotations

import random

from tests.simulation.group.application import Application, Log
from tests.simulation.group.jvm_consumer import JvmConsumer
from tests.simulation.group.members import ConsumingActor
from tests.simulation.group.setup import GROUP, GroupSetup, topic_of
from tests.simulation.group.step_checks import GroupAudit
from tests.simulation.schedule import ScheduleRecording
from zkgroup.consumer.machine import MemberConfig
from zkgroup.model import TopicPartition
from zkgroup.testing.clock import FakeClock
from zkgroup.testing.memory_zookeeper.server import MemoryZooKeeper, ServerStep
from zkgroup.znodes.brokers import Topic

BROKER = "/brokers/ids/0"
IN_RACK_A = b'{"version":3,"host":"h","port":1,"endpoints":["PLAINTEXT://h:1"],"rack":"a"}'
FOR_EVER = 10**12

LARGE_BYTES = 100_000
"""A packet that holds the whole history of a schedule."""


class GroupWorld:
    """The state of one schedule: server, clock, members, sources and figures."""

    def __init__(self, setup: GroupSetup, rng: random.Random) -> None:
        self.setup = setup
        self.clock = FakeClock()
        self.server = MemoryZooKeeper(self.clock, stepped=True)
        self.server.bulk_paths = setup.bulk_paths
        self.recording = ScheduleRecording(self.clock)
        self.log = Log(self.clock)
        is_whole = setup.request_bytes_max >= LARGE_BYTES
        self.audit = GroupAudit(self.server, GROUP, self.recording, self._has_let_go, keeps_history=is_whole)
        self.actors: list[ConsumingActor] = []
        self.jvm: list[JvmConsumer] = []
        self.killed: list[ConsumingActor] = []
        self.callbacks_hang = False
        self.sessions_expired = 0
        self._rng = rng
        self._paused_until: dict[ConsumingActor, int] = {}
        self._isolated_until: dict[str, int] = {}
        self._joined = 0
        for topic, partitions in setup.topics.items():
            self.server.put(Topic.path(topic), topic_of(partitions).encode())
        self.dead: set[TopicPartition] = set()
        """Partitions that are never available."""
        if setup.dead_partition:
            topic = rng.choice(list(setup.topics))
            self.dead.add(TopicPartition(topic, rng.randrange(setup.topics[topic])))
        if setup.require_brokers or "client_rack" in setup.traits[0]:
            self.bring_broker()
        self._late_at: dict[str, int] = {}
        """Clients that receive nothing for now, and the time at which their responses arrive."""
        self.end_faults()

    def bring_broker(self) -> None:
        """Registers the one broker."""
        self.server.put(BROKER, IN_RACK_A)

    def lose_broker(self) -> bool:
        """Removes the broker; False where there is none."""
        if self.server.find(BROKER) is None:
            return False
        self.server.remove(BROKER)
        return True

    def end_faults(self) -> None:
        """Makes all partitions and the broker available again."""
        self.log.repair()
        for tp in self.dead:
            self.log.fail(tp, FOR_EVER)

    def add_member(self, index: int, *, fresh_client: bool = False) -> ConsumingActor:
        """Starts a member. Its id is free, or was its own before."""
        self._joined += 1
        number = self.setup.clients[index % len(self.setup.clients)]
        shares = self.setup.clients.count(number) > 1 and not fresh_client
        name = f"c{number}-{self._joined}" if fresh_client else f"c{number}"
        client = self.server.clients.get(name)
        if client is None:
            client = self.server.client(name, self.setup.session_timeout_ms)
        config = MemberConfig(
            group=GROUP,
            member_id=f"{GROUP}_m{index}",
            subscription=self.setup.subscriptions[index % len(self.setup.subscriptions)],
            settings=self.setup.settings(index),
            version="sim",
            prepares=self.setup.prepares[index % len(self.setup.prepares)],
            jitter=self._rng.random,
            owns_client=not shares,
            request_bytes_max=self.setup.request_bytes_max,
        )
        application = Application(self._rng, self.setup.habits)
        actor = ConsumingActor(
            config,
            client,
            self.clock,
            self.recording,
            self._joined,
            log=self.log,
            application=application,
            acknowledged=self.audit.acknowledged,
        )
        actor.machine.on_extended = lambda until_ms: self._check_lease(actor, until_ms)
        self.actors.append(actor)
        return actor

    def _has_let_go(self, member: str, tp: TopicPartition) -> bool:
        """Returns whether a member of this name may release the partition although the group is frozen."""
        machines = [actor.machine for actor in (*self.actors, *self.killed) if actor.member_id == member]
        return any(machine.let_go is None or tp in machine.let_go for machine in machines)

    def _check_lease(self, actor: ConsumingActor, until_ms: int) -> None:
        """Checks that no lease ends after the server may expire the session (recipes 9)."""
        session_id = actor.machine.session_id
        session = self.server.leader.sessions[session_id] if session_id is not None else None
        assert session is not None, "a lease without a session"
        end_ms = session.heard_ms + session.timeout_ms
        assert until_ms <= end_ms, f"lease until {until_ms}, and the session may expire at {end_ms}"

    def add_jvm_member(self, index: int) -> JvmConsumer:
        """Starts a member that behaves as Kafka 0.8.2.2's does."""
        client = self.server.client(f"jvm{index}", self.setup.session_timeout_ms)
        actor = JvmConsumer(GROUP, f"{GROUP}_j{index}", self.setup.topics, client, self.clock)
        self.jvm.append(actor)
        return actor

    def kill(self, actor: ConsumingActor) -> None:
        """Kills a process; its session stays until it expires."""
        actor.kill()
        self.actors.remove(actor)
        self.killed.append(actor)

    def living(self) -> list[ConsumingActor]:
        return [actor for actor in self.actors if actor.finished is None]

    def awake(self) -> list[ConsumingActor]:
        now_ms = self.clock.now_ms()
        return [actor for actor in self.living() if self._paused_until.get(actor, 0) <= now_ms]

    def pause(self, actor: ConsumingActor, until_ms: int) -> None:
        self._paused_until[actor] = until_ms

    def isolate(self, client: str, ms: int) -> None:
        """Disconnects a client; `advance` reconnects it."""
        self.server.suspend(client)
        self._isolated_until[client] = self.clock.now_ms() + ms

    def hold_answers(self, client: str, ms: int) -> None:
        """Delays a client: its requests do not arrive, and its responses arrive `ms` later. Then its
        connection breaks for longer than its session timeout."""
        self._late_at[client] = self.clock.now_ms() + ms

    def pending(self) -> list[ServerStep]:
        """Possible next steps of the server and its connections."""
        steps = self.server.pending()
        if self._late_at:
            steps = [step for step in steps if step.client not in self._late_at or step.kind == "catch_up"]
        return steps

    def _give_late_answers(self) -> None:
        for name in [name for name, at_ms in self._late_at.items() if at_ms <= self.clock.now_ms()]:
            del self._late_at[name]
            while any(step == ServerStep("reply", name) for step in self.server.pending()):
                self.server.deliver(ServerStep("reply", name))
            self.isolate(name, self.setup.session_timeout_ms + 2000)

    def wake_all(self) -> None:
        """Ends all lasting faults."""
        self._paused_until.clear()
        self._isolated_until.clear()
        self.callbacks_hang = False
        self.end_faults()
        if self.setup.require_brokers:
            self.bring_broker()
        self._late_at.clear()
        for name in self.server.clients:
            self.server.resume(name)

    def produce(self) -> None:
        """Appends records to a partition."""
        topic = self._rng.choice(list(self.setup.topics))
        self.log.append(TopicPartition(topic, self._rng.randrange(self.setup.topics[topic])))

    def is_busy(self) -> bool:
        """Whether something can happen without time passing."""
        is_moving = any(step.kind != "catch_up" for step in self.pending())
        return is_moving or any(actor.has_work for actor in self.awake())

    def next_due_ms(self) -> int | None:
        """When the next timer of a running member fires."""
        due = [at for actor in self.awake() if (at := actor.next_timer_ms()) is not None]
        due += [at for jvm in self.jvm if (at := jvm.next_timer_ms()) is not None]
        return min(due, default=None)

    def advance(self, ms: int) -> None:
        """Advances the clock: running clients ping, and overdue sessions expire sooner or later."""
        self.clock.advance(ms)
        self._give_late_answers()
        for name in [n for n, until_ms in self._isolated_until.items() if until_ms <= self.clock.now_ms()]:
            del self._isolated_until[name]
            self.server.resume(name)
        stopped = {actor.client.name for actor in self.living()} - {a.client.name for a in self.awake()}
        running = {actor.client.name for actor in self.living()} - stopped
        for name in (running | {jvm.client.name for jvm in self.jvm}) - self._late_at.keys():
            self.server.ping(name)
        for session_id in self.server.overdue():
            if self._rng.random() < 0.5:
                self.server.expire_session(session_id)
                self.sessions_expired += 1
