"""Convergence after the faults: the cluster reaches its goal within a bound, and stays there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from zkgroup.broker.replicas.replica_view import Role
from zkgroup.history.cluster.replay import ReplayedCluster
from zkgroup.history.cluster.server_invariants import unfinished_work
from zkgroup.history.report import ClusterOptions
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create
from zkgroup.testing.memory_zookeeper.server import Step
from zkgroup.testing.simulation.cluster.controller import ControllerProcess
from zkgroup.testing.simulation.cluster.foreign_writers import NOTHING_AFFECTED, AffectedByCorruption
from zkgroup.testing.simulation.cluster.world import ClusterWorld
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.brokers import PartitionState, Topic, topics_path
from zkgroup.znodes.controller import ControllerStatus
from zkgroup.znodes.reassignment_records import StoredPlan
from zkgroup.znodes.stray_replicas import StrayReplicas, stray_replicas_path

CONVERGE_MS = 60_000
CALM_MS = 3_000
STAY_MS = 6_000
ROUNDS_MAX = 20_000
FETCH_ROUNDS = 1


class ClusterConvergence:
    """Lets everything happen in turns, without faults."""

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world

    def start(self) -> None:
        """Everybody is started, and a cluster comes to be, before anything goes wrong."""
        for group in (self._world.setup.brokers, self._world.setup.alone):
            for broker in group:
                self._world.restart(broker)
            if self._world.setup.real_first:
                self.drain()
        self.drain()

    def converge(self) -> int:
        """Milliseconds until the goal was reached. Raises AssertionError where it is not, or not kept."""
        world = self._world
        world.heal()
        world.stop_kafka()
        self.drain()
        if world.garbage.paths():
            self._serve_the_rest()
        world.garbage.mend()
        started_ms = world.clock.now_ms()
        self.drain()
        while True:
            while (reason := self.missing()) is not None:
                assert world.clock.now_ms() - started_ms <= CONVERGE_MS, f"L7 not converged: {reason}"
                world.restart_uninformed()
                self.pass_time(500)
            reached_ms, states = world.clock.now_ms(), self._states()
            self.pass_time(CALM_MS)  # what was told of last may yet be acted upon
            if self.missing() is None and self._states() == states:
                if not world.switched_off:
                    return reached_ms - started_ms
                self._switch_on()
                started_ms = world.clock.now_ms()

    def _serve_the_rest(self) -> None:
        """With what strangers have left all else is done, and the status names what is unreadable."""
        world = self._world
        started_ms = world.clock.now_ms()
        while (
            reason := self.missing(AffectedByCorruption(world.garbage.paths())) or self._not_told()
        ) is not None:
            assert world.clock.now_ms() - started_ms <= CONVERGE_MS, f"L7 not served: {reason}"
            world.restart_uninformed()
            self.pass_time(500)
        world.figures["garbage outlived"] += 1

    def _not_told(self) -> str | None:
        """An unreadable topic that the status does not name, or a state of a readable one.

        All states are read at a take-over, and later one only where something happens to its partition.
        """
        world = self._world
        ruler = world.audit.look().controller
        found = world.server.find(ControllerStatus.path())
        told = {} if found is None else ControllerStatus.decode(found.path, found.data).unreadable
        unreadable = [path for path in world.garbage.paths() if path in world.garbage.unreadable]
        for path in unreadable:
            topic = "/".join(path.split("/")[:4])
            znode = world.server.find(path)
            was_read = znode is not None and ruler is not None and znode.stat.mzxid < ruler.czxid
            is_state = topic not in unreadable and was_read
            is_asked = path.startswith(f"{topics_path()}/") and (path == topic or is_state)
            if is_asked and path not in told:
                return f"{path} is unreadable, and the status names {sorted(told)}"
        return None

    def _switch_on(self) -> None:
        """Who was switched off comes back, and finds topics of the names of those that went without it."""
        world = self._world
        topics = world.audit.look().topics
        other = min(world.brokers.keys() - world.switched_off)
        lists: dict[str, dict[int, tuple[int, ...]]] = {}
        for broker, tp in sorted(world.audit.abandoned):
            if tp.topic not in topics and broker in world.switched_off:
                lists.setdefault(tp.topic, {})[tp.partition] = (broker, other)
        for name, replicas in lists.items():
            world.figures["topics made again"] += world.write(
                Create(Topic.path(name), Topic(replicas).encode())
            )
        brokers = sorted(world.switched_off)
        world.switched_off.clear()
        for broker in brokers:
            world.restart(broker)

    def stay(self) -> None:
        """Everything remains as it is, and lines can be acknowledged everywhere."""
        world = self._world
        (ruler,) = world.rulers
        states = self._states()
        self._acknowledge()
        self.pass_time(STAY_MS)
        assert world.rulers == [ruler], "L6 another controller at rest"
        assert (reason := self.missing()) is None, f"L7 did not stay: {reason}"
        self._compare_logs()
        moved = {tp: (states.get(tp), now) for tp, now in self._states().items() if states.get(tp) != now}
        assert not moved or world.setup.rebalances, f"S12 states changed at rest: {moved}"

    def _states(self) -> dict[TopicPartition, PartitionState | None]:
        """Of the partitions that wait neither for a broker to start anew nor for their deletion, which leaves
        the ISR to the lag of those that are gone."""
        picture = self._world.audit.look()
        return {
            tp: seen.state
            for tp, seen in picture.states.items()
            if tp.topic not in picture.deletions
            and not self._waits_for_a_start(tp, picture.replicas(tp) or ())
        }

    # --- the goal -------------------------------------------------------------------------------------

    def missing(self, spoilt: AffectedByCorruption = NOTHING_AFFECTED) -> str | None:
        """What is not as it should be, or None. Nothing is asked of what is spoilt."""
        world = self._world
        rulers = world.rulers
        if len(rulers) != 1:
            return f"{len(rulers)} rule"
        ruler = rulers[0]
        picture = world.audit.look()
        session = ruler.client.session
        if picture.controller is None or session is None or picture.controller.session != session.session_id:
            return f"{ruler.name} rules, and does not hold /controller"
        if isinstance(ruler, ControllerProcess) and not ruler.machine.election.may_send:
            return f"{ruler.name} may not send"
        kept = self._kept_by_the_lost()
        for violation in unfinished_work(
            picture, ClusterOptions(unserved=world.unserved, down=spoilt.brokers)
        ):
            is_kept = violation.topic_partition in kept and "the move to" in violation.detail
            if not spoilt.concerns(str(violation)) and not is_kept:
                return f"{violation}; {_unfinished(ruler)}"
        moving = picture.moves or any(topic is not None and topic.moving for topic in picture.topics.values())
        if not moving and not spoilt and (plan := self._unfinished_plan()) is not None:
            return f"L7 {plan}; {_unfinished(ruler)}"
        for broker in world.brokers.values():
            if broker.failure is not None:
                return f"broker {broker.broker} failed: {broker.failure}"
        if not spoilt and (left := self._left_of_forced_deletions()) is not None:
            return f"L7 {left}; {_unfinished(ruler)}"
        known = {id_: held for id_, held in picture.brokers.items() if id_ not in spoilt.brokers}
        registered = {id_: held.session for id_, held in known.items() if held.hosts}
        if registered != world.registrations():
            return f"registered are {sorted(registered)}, running are {sorted(world.brokers)}"
        waiting = {*picture.moves, *_moving(picture), *world.taken_back} if spoilt.has_moves else ()
        served = {tp: state for tp, state in self._states().items() if tp not in spoilt and tp not in waiting}
        return self._unlike(served)

    def _unlike(self, states: dict[TopicPartition, PartitionState | None]) -> str | None:
        """A broker that does not know, or do, what stands in ZooKeeper."""
        world = self._world
        picture = world.audit.look()
        for tp, state in sorted(states.items()):
            replicas = picture.replicas(tp)
            if state is None or replicas is None or tp.topic in picture.deletions:
                continue
            if state.leader not in world.brokers:
                continue
            former = {one for one in replicas if (one, str(tp)) in world.let_go}
            if {*state.isr, *former} != {one for one in replicas if one in world.brokers} | former:
                return f"{tp}: of {list(replicas)} only {list(state.isr)} are in sync"
            for broker in replicas:
                if (why := self._role(tp, broker, state)) is not None:
                    return why
            for broker, process in world.brokers.items():
                told = process.cache.partition(tp)
                if told is None or (told.leader, told.leader_epoch) != (state.leader, state.leader_epoch):
                    return f"{tp}: broker {broker} tells clients {told and (told.leader, told.leader_epoch)}"
        for broker, process in world.brokers.items():
            if set(process.cache.brokers) != set(world.brokers):
                return f"broker {broker} tells clients of brokers {sorted(process.cache.brokers)}"
        return None

    def _left_of_forced_deletions(self) -> str | None:
        """A topic that nobody has to be waited for, or what a broker that is there should have deleted."""
        world = self._world
        picture, live = world.audit.look(), world.brokers.keys()
        for name in sorted(picture.deletions & picture.topics.keys()):
            topic, found = picture.topics[name], world.server.find(TopicDeletion.path(name))
            if topic is None or found is None or any(tp.topic == name for tp in picture.moves):
                continue
            moving = [tp for tp in _moving(picture) if tp.topic == name]
            if any(self._waits_for_a_start(tp, picture.replicas(tp) or ()) for tp in moving):
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
                return f"broker {place[0]} has not deleted what it had of {', '.join(names)}"
        return None

    def _kept_by_the_lost(self) -> set[TopicPartition]:
        """Partitions with a replica on a broker that is gone, and that has something of a former topic: no
        move of theirs begins until the broker is back, or is forgotten."""
        world = self._world
        found = set()
        for path in world.server.tree():
            place = StrayReplicas.place_of(path.removeprefix(f"{stray_replicas_path()}/"))
            znode = world.server.find(path)
            if place is None or znode is None or place[0] in world.brokers:
                continue
            topics = {each.topic for each in StrayReplicas.decode(path, znode.data).topics}
            picture = world.audit.look()
            found |= {
                tp
                for tp in picture.moves
                if tp.topic in topics and place[0] in (*(picture.replicas(tp) or ()), *picture.moves[tp])
            }
        return found

    def _unfinished_plan(self) -> str | None:
        """A stored plan that goes on although nothing is being moved, or has ended and is throttled still."""
        for name in self._world.plans:
            path = StoredPlan.path(name)
            found = self._world.server.find(path)
            plan = None if found is None else StoredPlan.decode(path, found.data)
            if plan is not None and plan.state != "paused" and not plan.is_over:
                return f"plan {name} is {plan.state}, with phase {plan.next_phase} of {len(plan.phases)} next"
        return None

    def _waits_for_a_start(self, tp: TopicPartition, replicas: Iterable[int]) -> bool:
        """A replica was to lead before it was ever told of the partition. Its host cannot tell that from
        lost lines and refuses; the controller passes it over until its broker starts anew."""
        return any(tp in self._world.brokers[one].unfit for one in replicas if one in self._world.brokers)

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

    # --- time and steps -------------------------------------------------------------------------------

    def pass_time(self, ms: int) -> None:
        """Everything that happens meanwhile."""
        clock = self._world.clock
        end_ms = clock.now_ms() + ms
        while clock.now_ms() < end_ms:
            due_ms = self._world.next_due_ms()
            next_ms = min(end_ms, clock.now_ms() + 500, due_ms if due_ms is not None else end_ms)
            self._world.advance(max(1, next_ms - clock.now_ms()), expires=1.0)
            self.drain()

    def drain(
        self, deliver: Callable[[Step], object] | None = None, acted: Callable[[], object] = lambda: None
    ) -> None:
        """Everything that can happen without time passing. Raises AssertionError where it never ends.

        `deliver` makes a step of the server happen, `acted` is called after each act of a process.
        """
        deliver = deliver or self._world.server.deliver
        for _ in range(FETCH_ROUNDS):
            self._drain(deliver, acted)
            for fetch in list(self._world.fetches()):
                fetch()
        self._drain(deliver, acted)

    def drain_some(self, steps: int) -> None:
        """So many steps of the server, with what processes make of each."""
        world = self._world
        for _ in range(steps):
            pending = world.server.pending()
            if pending:
                world.server.deliver(pending[0])
            for act in world.acts():
                act()

    def _drain(self, deliver: Callable[[Step], object], acted: Callable[[], object]) -> None:
        world = self._world
        for _ in range(ROUNDS_MAX):
            steps = world.server.pending()
            for step in steps:
                deliver(step)
            acts = 0
            for act in world.acts():
                acts += 1
                act()
                if acted():
                    break  # somebody is gone
            for broker in world.brokers.values():
                if broker.waiting or broker.held_fetches:
                    broker.look_at_waiting()
            if not steps and not acts:
                return
        raise AssertionError("something goes on for ever without time passing")

    # --- lines ----------------------------------------------------------------------------------------

    def _acknowledge(self) -> None:
        """At rest every leader acknowledges, and has all that was acknowledged before."""
        world = self._world
        picture = world.audit.look()
        led = {
            tp: state.leader
            for tp, state in self._states().items()
            if state is not None and state.leader in world.brokers and tp.topic not in picture.deletions
        }
        for tp, leader in led.items():
            assert world.brokers[leader].append(tp, (b"the last line",)), f"{tp}: {leader} takes no line"
        self.pass_time(1_000)
        for tp, leader in sorted(led.items()):
            assert not [one for one in world.brokers[leader].waiting if one.topic_partition == tp], (
                f"L7 {tp}: the last line is not acknowledged, {_view(world, leader, tp)}"
            )
            world.brokers[leader].keep(tp)

    def _compare_logs(self) -> None:
        """Whoever is in sync holds what the leader holds, line for line."""
        world = self._world
        for tp, state in sorted(self._states().items()):
            if state is None or state.leader not in world.brokers:
                continue
            wanted = _lines(world, state.leader, tp)
            if any((broker, str(tp)) in world.let_go for broker in world.brokers):
                continue
            for broker in sorted(world.brokers.keys() & set(state.isr)):
                found = _lines(world, broker, tp)
                assert found == wanted, f"lines {tp}: {broker} holds {found}, its leader {wanted}"


def _moving(picture: ReplayedCluster) -> Iterator[TopicPartition]:
    """Partitions of which their topic says that they are being moved."""
    for name, topic in picture.topics.items():
        yield from (TopicPartition(name, number) for number in (topic.moving if topic is not None else ()))


def _lines(world: ClusterWorld, broker: int, tp: TopicPartition) -> list[bytes]:
    log = world.places[broker].open(tp)
    return [] if log is None else [batch.lines for batch in log.read(0, log.end_offset, 1 << 30)]


def _unfinished(ruler: object) -> str:
    active = getattr(getattr(ruler, "machine", None), "active", None)
    return f"waiting: {getattr(active, 'waiting', None)}"


def _view(world: ClusterWorld, leader: int, tp: TopicPartition) -> object:
    return world.brokers[leader].host.view(tp)
