"""Convergence after the faults: the cluster reaches its goal within a bound, and stays there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tests.simulation.cluster.controller import ControllerProcess
from tests.simulation.cluster.corrupt_znodes import NOTHING_AFFECTED, AffectedByCorruption
from tests.simulation.cluster.world import ClusterWorld
from tests.worlds.batches import ValueBatch, batches_in
from zkgroup.broker.log.data_dir import stored_records
from zkgroup.broker.replica_view import Role
from zkgroup.controller.machine.event_manager import BACKOFF_MAX_MS
from zkgroup.history.cluster.replay import ReplayedCluster
from zkgroup.history.cluster.server_invariants import unfinished_work
from zkgroup.history.report import ClusterOptions
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create
from zkgroup.testing.memory_zookeeper.server import ServerStep
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.brokers import PartitionState, Topic, topics_path
from zkgroup.znodes.controller import ControllerStatus
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC
from zkgroup.znodes.reassignment_records import StoredPlan
from zkgroup.znodes.stray_replicas import StrayReplicas, stray_replicas_path

CONVERGE_MS = 60_000
CALM_MS = 3_000
STAY_MS = 6_000
ROUNDS_MAX = 20_000
FETCH_ROUNDS = 1


class ClusterConvergence:
    """Runs all processes in turns, without faults."""

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world

    def start(self) -> None:
        """Starts all processes, and waits for convergence before any fault."""
        for group in (self._world.setup.brokers, self._world.setup.alone):
            for broker in group:
                self._world.restart(broker)
            if self._world.setup.kafka_first:
                self.drain()
        self.drain()

    def converge(self) -> int:
        """Milliseconds until convergence. Raises AssertionError where it is not reached, or not kept."""
        world = self._world
        world.heal()
        world.stop_kafka()
        self.drain()
        if world.corrupt.paths():
            self._check_with_corruption()
        was_forbidden = bool(world.corrupt.forbidden)
        world.corrupt.repair()
        if was_forbidden:
            self.pass_time(BACKOFF_MAX_MS)  # no event reports a changed ACL: the controller tries again
        started_ms = world.clock.now_ms()
        self.drain()
        while True:
            while (reason := self.missing()) is not None:
                assert world.clock.now_ms() - started_ms <= CONVERGE_MS, f"L7 not converged: {reason}"
                world.restart_uninformed()
                self.pass_time(500)
            reached_ms, states = world.clock.now_ms(), self._states()
            self.pass_time(CALM_MS)  # the last notifications may still have effects
            if self.missing() is None and self._states() == states:
                if not world.switched_off:
                    return reached_ms - started_ms
                self._switch_on()
                started_ms = world.clock.now_ms()

    def _check_with_corruption(self) -> None:
        """Checks that everything unaffected by corrupt znodes converges, and that the status names them."""
        world = self._world
        started_ms = world.clock.now_ms()
        while (
            reason := self.missing(AffectedByCorruption(world.corrupt.paths())) or self._unreported()
        ) is not None:
            assert world.clock.now_ms() - started_ms <= CONVERGE_MS, f"L7 not served: {reason}"
            world.restart_uninformed()
            self.pass_time(500)
        world.figures["corruption outlived"] += 1

    def _unreported(self) -> str | None:
        """An unreadable topic, or a state of a readable one, that the status does not name.

        An active controller reads all states at its election, and one again only when its partition changes.
        """
        world = self._world
        controller = world.audit.catch_up().controller
        found = world.server.find(ControllerStatus.path())
        metadata = {} if found is None else ControllerStatus.decode(found.path, found.data).unreadable
        unreadable = [path for path in world.corrupt.paths() if path in world.corrupt.unreadable]
        for path in unreadable:
            topic = "/".join(path.split("/")[:4])
            znode = world.server.find(path)
            was_read = znode is not None and controller is not None and znode.stat.mzxid < controller.czxid
            is_state = topic not in unreadable and was_read
            is_asked = path.startswith(f"{topics_path()}/") and (path == topic or is_state)
            if is_asked and path not in metadata:
                return f"{path} is unreadable, and the status names {sorted(metadata)}"
        return None

    def _switch_on(self) -> None:
        """Starts switched off brokers again, with topics of the names of deleted ones whose replicas they
        have."""
        world = self._world
        topics = world.audit.catch_up().topics
        other = min(world.brokers.keys() - world.switched_off)
        lists: dict[str, dict[int, tuple[int, ...]]] = {}
        for broker, tp in sorted(world.audit.undeleted):
            if tp.topic not in topics and broker in world.switched_off:
                lists.setdefault(tp.topic, {})[tp.partition] = (broker, other)
        for name, replicas in lists.items():
            world.figures["topics recreated"] += world.write(
                Create(Topic.path(name), Topic(replicas).encode())
            )
        brokers = sorted(world.switched_off)
        world.switched_off.clear()
        for broker in brokers:
            world.restart(broker)

    def stay(self) -> None:
        """Checks that nothing changes any more, and that records can be acknowledged everywhere."""
        world = self._world
        (controller,) = world.active_controllers
        states = self._states()
        self._acknowledge()
        self.pass_time(STAY_MS)
        assert world.active_controllers == [controller], "L6 another controller at rest"
        assert (reason := self.missing()) is None, f"L7 did not stay: {reason}"
        self._compare_logs()
        moved = {tp: (states.get(tp), now) for tp, now in self._states().items() if states.get(tp) != now}
        assert not moved or world.setup.rebalances, f"S12 states changed at rest: {moved}"

    def _states(self) -> dict[TopicPartition, PartitionState | None]:
        """States of partitions that wait neither for a broker's restart nor for their deletion, during which
        the ISR may still shrink."""
        cluster = self._world.audit.catch_up()
        return {
            tp: seen.state
            for tp, seen in cluster.states.items()
            if tp.topic not in cluster.deletions
            and not self._waits_for_a_start(tp, cluster.replicas(tp) or ())
        }

    def missing(self, affected: AffectedByCorruption = NOTHING_AFFECTED) -> str | None:
        """The first difference from the goal, or None. Partitions affected by corrupt znodes are left out."""
        world = self._world
        active_controllers = world.active_controllers
        if len(active_controllers) != 1:
            return f"{len(active_controllers)} active controllers"
        controller = active_controllers[0]
        cluster = world.audit.catch_up()
        session = controller.client.session
        if cluster.controller is None or session is None or cluster.controller.session != session.session_id:
            return f"{controller.name} is active, and does not hold /controller"
        if isinstance(controller, ControllerProcess) and not controller.machine.election.may_send:
            return f"{controller.name} may not send"
        kept = self._kept_by_the_lost()
        for violation in unfinished_work(
            cluster, ClusterOptions(unserved=world.unserved, down=affected.brokers)
        ):
            is_kept = violation.topic_partition in kept and "the move to" in violation.detail
            if not affected.concerns(str(violation)) and not is_kept:
                return f"{violation}; {_unfinished(controller)}"
        moving = cluster.moves or any(topic is not None and topic.moving for topic in cluster.topics.values())
        if not moving and not affected and (plan := self._unfinished_plan()) is not None:
            return f"L7 {plan}; {_unfinished(controller)}"
        for broker in world.brokers.values():
            if broker.failure is not None:
                return f"broker {broker.broker} failed: {broker.failure}"
        if not affected and (left := self._left_of_forced_deletions()) is not None:
            return f"L7 {left}; {_unfinished(controller)}"
        known = {id_: held for id_, held in cluster.brokers.items() if id_ not in affected.brokers}
        registered = {id_: held.session for id_, held in known.items() if held.hosts}
        if registered != world.registrations():
            return f"registered are {sorted(registered)}, running are {sorted(world.brokers)}"
        waiting = {*cluster.moves, *_moving(cluster), *world.withdrawn} if affected.has_moves else ()
        served = {
            tp: state for tp, state in self._states().items() if tp not in affected and tp not in waiting
        }
        return self._difference(served)

    def _difference(self, states: dict[TopicPartition, PartitionState | None]) -> str | None:
        """A broker whose state differs from ZooKeeper's."""
        world = self._world
        cluster = world.audit.catch_up()
        for tp, state in sorted(states.items()):
            replicas = cluster.replicas(tp)
            if state is None or replicas is None or tp.topic in cluster.deletions:
                continue
            if state.leader not in world.brokers:
                continue
            former = {one for one in replicas if (one, str(tp)) in world.unprotected}
            if {*state.isr, *former} != {one for one in replicas if one in world.brokers} | former:
                return f"{tp}: of {list(replicas)} only {list(state.isr)} are in sync"
            for broker in replicas:
                if (why := self._role(tp, broker, state)) is not None:
                    return why
            for broker, process in world.brokers.items():
                cached = process.cache.partition(tp)
                known = None if cached is None else (cached.leader, cached.leader_epoch)
                if known != (state.leader, state.leader_epoch):
                    return f"{tp}: broker {broker} sends clients {known} as leader and epoch"
        for broker, process in world.brokers.items():
            if set(process.cache.brokers) != set(world.brokers):
                return f"broker {broker} sends clients the brokers {sorted(process.cache.brokers)}"
        return None

    def _left_of_forced_deletions(self) -> str | None:
        """A forced deletion that could be finished, or a stray replica that a running broker should have
        deleted."""
        world = self._world
        cluster, live = world.audit.catch_up(), world.brokers.keys()
        for name in sorted(cluster.deletions & cluster.topics.keys()):
            topic, found = cluster.topics[name], world.server.find(TopicDeletion.path(name))
            if topic is None or found is None or any(tp.topic == name for tp in cluster.moves):
                continue
            moving = [tp for tp in _moving(cluster) if tp.topic == name]
            if any(self._waits_for_a_start(tp, cluster.replicas(tp) or ()) for tp in moving):
                continue  # the deletion waits for a reassignment, and that for an offline replica
            named = TopicDeletion.decode(found.path, found.data).without_brokers
            awaited = {id_ for each in topic.partitions.values() for id_ in each} - set(named)
            if named and awaited <= live:
                return f"topic {name} is still to be deleted without {named}"
        for path in world.server.tree():
            place = StrayReplicas.place_of(path.removeprefix(f"{stray_replicas_path()}/"))
            if place is not None and place[0] in live:
                znode = world.server.find(path)
                topics = StrayReplicas.decode(path, znode.data if znode else None).topics
                names = sorted({each.topic for each in topics})
                return f"broker {place[0]} has not deleted its stray replicas of {', '.join(names)}"
        return None

    def _kept_by_the_lost(self) -> set[TopicPartition]:
        """Partitions with a replica on a lost broker that has a stray replica of a deleted topic: their
        reassignments wait until the broker is back or is forgotten."""
        world = self._world
        found = set()
        for path in world.server.tree():
            place = StrayReplicas.place_of(path.removeprefix(f"{stray_replicas_path()}/"))
            znode = world.server.find(path)
            if place is None or znode is None or place[0] in world.brokers:
                continue
            topics = {each.topic for each in StrayReplicas.decode(path, znode.data).topics}
            cluster = world.audit.catch_up()
            found |= {
                tp
                for tp in cluster.moves
                if tp.topic in topics and place[0] in (*(cluster.replicas(tp) or ()), *cluster.moves[tp])
            }
        return found

    def _unfinished_plan(self) -> str | None:
        """A stored plan that is running although nothing is being reassigned, or has ended and is still
        throttled."""
        for name in self._world.plans:
            path = StoredPlan.path(name)
            found = self._world.server.find(path)
            plan = None if found is None else StoredPlan.decode(path, found.data)
            if plan is not None and plan.state != "paused" and not plan.is_over:
                return f"plan {name} is {plan.state}, with phase {plan.next_phase} of {len(plan.phases)} next"
        return None

    def _waits_for_a_start(self, tp: TopicPartition, replicas: Iterable[int]) -> bool:
        """Whether a replica was elected before its broker knew of the partition. The broker cannot
        distinguish that from lost records and refuses; the controller skips the replica until the broker
        restarts, or follows another leader and catches up."""
        brokers = [self._world.brokers[one] for one in replicas if one in self._world.brokers]
        return any(tp in one.offline and tp not in one.follows for one in brokers)

    def _role(self, tp: TopicPartition, broker: int, state: PartitionState) -> str | None:
        process = self._world.brokers.get(broker)
        if process is None:
            return None
        view = process.host.view(tp)
        wanted = Role.LEADER if state.leader == broker else Role.FOLLOWER
        if view is None or (view.role, view.leader_epoch) != (wanted, state.leader_epoch):
            found = None if view is None else (view.role.value, view.leader_epoch, view.failure)
            return f"{tp}: broker {broker} is {found}, should be {wanted.value} in {state.leader_epoch}"
        return None

    def pass_time(self, ms: int) -> None:
        """Advances the clock, and runs everything that happens meanwhile."""
        clock = self._world.clock
        end_ms = clock.now_ms() + ms
        while clock.now_ms() < end_ms:
            due_ms = self._world.next_due_ms()
            next_ms = min(end_ms, clock.now_ms() + 500, due_ms if due_ms is not None else end_ms)
            self._world.advance(max(1, next_ms - clock.now_ms()), expires=1.0)
            self.drain()

    def drain(
        self,
        deliver: Callable[[ServerStep], object] | None = None,
        after_action: Callable[[], object] = lambda: None,
    ) -> None:
        """Runs everything that needs no time. Raises AssertionError where it does not end.

        `deliver` performs a step of the server, `after_action` is called after each action of a process.
        """
        deliver = deliver or self._world.server.deliver
        for _ in range(FETCH_ROUNDS):
            self._drain(deliver, after_action)
            for fetch in list(self._world.fetches()):
                fetch()
        self._drain(deliver, after_action)

    def drain_some(self, steps: int) -> None:
        """Performs a number of steps of the server, and the steps of processes in between."""
        world = self._world
        for _ in range(steps):
            pending = world.server.pending()
            if pending:
                world.server.deliver(pending[0])
            for action in world.actions():
                action()

    def _drain(self, deliver: Callable[[ServerStep], object], after_action: Callable[[], object]) -> None:
        world = self._world
        for _ in range(ROUNDS_MAX):
            steps = world.server.pending()
            for step in steps:
                deliver(step)
            done = 0
            for action in world.actions():
                done += 1
                action()
                if after_action():
                    break  # a process has ended
            for broker in world.brokers.values():
                if broker.waiting or broker.fetches.held:
                    broker.answer_waiting()
            if not steps and not done:
                return
        raise AssertionError("endless activity without time passing")

    def _acknowledge(self) -> None:
        """Checks that every leader acknowledges a record, and has all acknowledged records."""
        world = self._world
        cluster = world.audit.catch_up()
        led = {
            tp: state.leader
            for tp, state in self._states().items()
            if state is not None
            and state.leader in world.brokers
            and tp.topic not in cluster.deletions
            and tp.topic != OFFSETS_TOPIC
        }
        for tp, leader in led.items():
            assert world.brokers[leader].append(tp, (b"last appended",)), f"{tp}: {leader} accepts no record"
        self.pass_time(3_000)  # an answer may have the records of one partition only
        for tp, leader in sorted(led.items()):
            assert not [one for one in world.brokers[leader].waiting if one.topic_partition == tp], (
                f"L7 {tp}: the last record is not acknowledged, {_view(world, leader, tp)}"
            )
            world.brokers[leader].keep(tp)

    def _compare_logs(self) -> None:
        """Checks that all replicas in sync have equal logs."""
        world = self._world
        for tp, state in sorted(self._states().items()):
            if state is None or state.leader not in world.brokers:
                continue
            wanted = _batches(world, state.leader, tp)
            if any((broker, str(tp)) in world.unprotected for broker in world.brokers):
                continue
            for broker in sorted(world.brokers.keys() & set(state.isr)):
                found = _batches(world, broker, tp)
                hosts = (world.brokers[each].host for each in (broker, state.leader))
                start = max(host.offsets(tp).log_start_offset for host in hosts)
                parts = [
                    [each.values for each in one if each.base_offset >= start] for one in (found, wanted)
                ]
                assert parts[0] == parts[1], f"records {tp}: {broker} holds {found}, its leader {wanted}"


def _moving(cluster: ReplayedCluster) -> Iterator[TopicPartition]:
    """Partitions that their topic znode marks as being reassigned."""
    for name, topic in cluster.topics.items():
        yield from (TopicPartition(name, number) for number in (topic.moving if topic is not None else ()))


def _batches(world: ClusterWorld, broker: int, tp: TopicPartition) -> list[ValueBatch]:
    return list(batches_in(stored_records(world.storages[broker], tp)))


def _unfinished(controller: object) -> str:
    active = controller.machine.active if isinstance(controller, ControllerProcess) else None
    return f"blocked: {None if active is None else active.parts.events.blocked}"


def _view(world: ClusterWorld, leader: int, tp: TopicPartition) -> object:
    return world.brokers[leader].host.view(tp)
