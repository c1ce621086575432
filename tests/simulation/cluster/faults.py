"""Faults of a schedule of a cluster: networks, processes and disks."""

from __future__ import annotations

import random

from tests.simulation.cluster.controller import ControllerProcess
from tests.simulation.cluster.world import ClusterWorld
from tests.simulation.schedule import ScheduleFaults
from tests.worlds.replica_managers import log_end_offset
from zkgroup.model.requests import Delete
from zkgroup.testing.memory_zookeeper.server import ServerStep
from zkgroup.znodes.controller import ControllerRegistration


class ClusterFaults(ScheduleFaults):
    """The faults of one schedule."""

    def __init__(self, world: ClusterWorld, rng: random.Random) -> None:
        super().__init__(world.server, rng)
        self._world = world

    def _waiting(self) -> list[ServerStep]:
        running = self._world.clients()
        return [step for step in self._world.server.pending() if step.client in running]

    def _client(self) -> str | None:
        """A client; the active controller's is drawn more often."""
        active_controllers = [one.client.name for one in self._world.active_controllers]
        names = sorted(self._world.clients())
        return self._rng.choice(active_controllers * len(names) + names) if names else None

    def cut_client(self) -> object:
        name = self._client()
        if name is None:
            return False
        self._world.server.cut(
            name, executed=self._rng.randint(0, 2), keep_requests=self._rng.random() < 0.5, hold=False
        )
        return name

    def expire(self) -> object:
        name = self._client()
        if name is None or self._world.server.clients[name].session is None:
            return False
        self._world.server.expire(name)
        return name

    def isolate(self) -> object:
        """The client reaches no server for a while, perhaps for longer than its session timeout."""
        name = self._client()
        if name is None:
            return False
        self._world.isolate(name, self._rng.choice((300, 2000, 4500, 8000)))
        return name

    def stall(self) -> object:
        """Stops the traffic of a client with ZooKeeper for a while; its connection stays open."""
        name = self._client()
        if name is None:
            return False
        ms = self._rng.choice((1_000, 3_000, 5_000))
        self._world.stall(name, ms)
        return f"{name} for {ms}"

    def answer_late(self) -> object:
        """A broker with more queued requests responds after the controller's lease is over: ZooKeeper has not
        responded either."""
        world = self._world
        awake = world.awake_brokers()
        able = [
            (one, connection)
            for one in self._zkgroup_controllers()
            for connection in one.awaited
            if connection.process in awake
        ]
        if not able:
            return False
        controller, connection = self._rng.choice(able)
        ms = self._rng.randint(4_000, 5_500)
        world.stall(controller.name, ms + self._rng.choice((1, 500)))
        world.advance(ms)
        world.network.deliver(connection)
        world.network.answer(connection)
        while controller.shell.inbox and world.is_awake(controller.name):
            controller.shell.take_event()
        return f"{connection} after {ms}"

    def depose(self) -> object:
        """Deletes `/controller` between two transactions in flight of its owner."""
        able = [one for one in self._zkgroup_controllers() if len(one.transactions()) > 1]
        if not able:
            return False
        one = self._rng.choice(able)
        step = next(s for s in self._world.server.pending() if (s.kind, s.client) == ("request", one.name))
        left = self._rng.randint(1, len(one.transactions()))
        while len(one.transactions()) > left:
            self._world.server.deliver(step)
        return one.name if self.delete_controller() else False

    def _zkgroup_controllers(self) -> list[ControllerProcess]:
        return [one for one in self._world.active_controllers if isinstance(one, ControllerProcess)]

    def delete_controller(self) -> object:
        """By hand."""
        return self._world.write(Delete(ControllerRegistration.path(), -1))

    def pause(self) -> object:
        """Pauses the whole process: broker and controller."""
        name = self._client()
        if name is None:
            return False
        broker = self._world.clients()[name]
        ms = self._rng.choice((500, 3000, 5000, 9000))
        for process in (self._world.brokers.get(broker), self._world.controllers.get(broker)):
            if process is not None:
                self._world.pause(process.name, ms)
        return f"{broker} for {ms}"

    def kill_controller(self) -> object:
        """Kills the active controller's process; it is started again, sometimes at once."""
        active_controllers = self._world.active_controllers
        return self._kill(self._rng.choice(active_controllers).broker) if active_controllers else False

    def kill_broker(self) -> object:
        running = sorted(self._world.brokers)
        return self._kill(self._rng.choice(running)) if running else False

    def kill_ahead(self) -> object:
        """A leader appends a record, may serve it to consumers, and is killed before any follower has it."""
        world = self._world
        cluster = world.audit.catch_up()
        able = [
            (one, tp)
            for tp in sorted(cluster.partitions())
            for one in world.awake_brokers()
            if one.leads(tp) is not None
            and (state := cluster.state(tp)) is not None
            and len(world.brokers.keys() & set(state.isr)) > 1
        ]
        if not able:
            return False
        leader, tp = self._rng.choice(able)
        leader.append(tp, (b"ahead at %d" % world.clock.now_ms(),))
        world.consumers.read_from(leader, tp)
        return tp, self._kill(leader.broker)

    def _kill(self, broker: int) -> object:
        self._world.kill(broker, executed=self._rng.randint(0, 2), keep_requests=self._rng.random() < 0.3)
        back = self._rng.random() < 0.5
        if back:
            self._world.restart(broker)
        return f"{broker}{' and back' if back else ''}"

    def start(self) -> object:
        """Starts a stopped process again."""
        setup = self._world.setup
        down = [one for one in (*setup.brokers, *setup.alone) if not self._runs(one)]
        if not down:
            return False
        self._world.restart(self._rng.choice(down))
        return down

    def _runs(self, broker: int) -> bool:
        return (
            broker in self._world.brokers or broker in self._world.controllers or broker in self._world.lost
        )

    def bounce(self) -> object:
        """Restarts a broker in order, faster than any watch."""
        running = sorted(self._world.brokers)
        if not running:
            return False
        broker = self._rng.choice(running)
        self._world.close(broker)
        self._world.restart(broker)
        return broker

    def lose_broker(self) -> object:
        """Removes a broker and its disk for good, where no acknowledged record is lost by it."""
        world = self._world
        gone = world.lost | world.switched_off
        able = [one for one in sorted(world.brokers) if not gone and self._may_lose(one)]
        if not able or len(world.setup.brokers) < 3:
            return False
        broker = self._rng.choice(able)
        world.kill(broker)
        world.lost.add(broker)
        world.storages[broker].lose()
        return broker

    def _may_lose(self, broker: int) -> bool:
        """Whether another replica in each of its ISRs has every acknowledged record."""
        cluster = self._world.audit.catch_up()
        for tp, records in self._world.acked.items():
            state = cluster.state(tp)
            if state is None or broker not in state.isr or not records:
                continue
            others = [self._world.brokers.get(one) for one in state.isr if one != broker]
            end = max(max(records) + 1, self._world.read_ends.get((tp, self._world.life(tp.topic)), 0))
            if not any(one is not None and (log_end_offset(one.host, tp) or 0) >= end for one in others):
                return False
        return True

    def break_disk(self) -> object:
        """Breaks one log of a broker, so that it cannot be opened, created or deleted until it is
        repaired."""
        partitions = sorted(self._world.audit.catch_up().partitions())
        if not partitions:
            return False
        broker, tp = self._rng.choice(self._world.setup.brokers), self._rng.choice(partitions)
        self._world.storages[broker].broken.add(str(tp))
        self._world.broken.add((broker, tp))
        return f"{tp} of {broker}"

    def cut_connection(self) -> object:
        """Breaks a connection; preferably one with a request in flight."""
        connections = [
            connection for connection in self._world.network.connections if connection.process is not None
        ]
        busy = [
            connection
            for connection in connections
            if connection.request is not None or connection.response is not None
        ]
        if not connections:
            return False
        connection = self._rng.choice(busy or connections)
        self._world.network.cut(connection)
        return str(connection)

    def part(self) -> object:
        """Cuts the network between a controller and a broker, or restores it."""
        pairs = [
            (one.name, broker) for one in self._world.active_controllers for broker in self._world.brokers
        ]
        if not pairs:
            return False
        name, broker = self._rng.choice(pairs)
        cut_off = self._world.network.cut_off
        if (name, broker) in cut_off:
            cut_off.discard((name, broker))
            return f"{name} and {broker} again"
        cut_off.add((name, broker))
        for connection in list(self._world.network.connections):
            if (connection.owner.name, connection.broker) == (name, broker):
                self._world.network.cut(connection)
        return f"{name} and {broker}"
