"""Simulated schedules of coordinated groups: production coordinators on production brokers and controllers.

`CoordinatorSimulation`: the seed draws the cluster, clients that behave as Kafka's, ZooKeeper consumers of
the same groups, and the faults: clients, brokers and controllers that are paused or killed, connections that
break, answers that are lost, slots that move, operators that fence; administrators delete groups, offsets and
topics, create topics again, change offsets, and remove static members. After the faults each group must
become stable with the one or the other kind of members, commit, and stay as it is. The checker of
`tests.simulation.coordinator.history` decides about the whole history.
"""

from __future__ import annotations

from collections.abc import Iterable

from tests.simulation.cluster.setup import AWAITED, ClusterSetup
from tests.simulation.cluster.simulation import (
    ClusterRun,
    ClusterSimulation,
    ClusterSimulationError,
)
from tests.simulation.cluster.world import ClusterWorld
from tests.simulation.coordinator.administration import Administrators
from tests.simulation.coordinator.client import ClientPhase, GroupClient
from tests.simulation.coordinator.faults import MemberFaults
from tests.simulation.coordinator.history import check_coordinator
from tests.simulation.coordinator.setup import (
    ADMINISTRATION,
    FREEZES,
    GROUP_FAULTS,
    RARE,
    CoordinatorSetup,
    draw_coordinator,
)
from tests.simulation.coordinator.world import CoordinatorWorld, is_settled
from tests.simulation.group.simulation import members_log_nothing
from tests.simulation.schedule import Action
from zkgroup.coordinator.group_ids import slot_of
from zkgroup.testing.memory_zookeeper.leader import server_transactions
from zkgroup.znodes.coordinated_groups import GroupHeader
from zkgroup.znodes.group_records import Freeze

CONVERGE_MS = 60_000
ROUND_MS = 500
STEP_MS = 250
STAY_MS = 2_500
"""Longer than a heartbeat and a commit of each client."""


class CoordinatorSimulationError(ClusterSimulationError):
    """A schedule violated an invariant. The message names the seed, which reproduces it."""


class CoordinatorSimulation(ClusterSimulation):
    """A seeded schedule. `run()` returns its report or raises `CoordinatorSimulationError`."""

    error = CoordinatorSimulationError
    awaited = (*AWAITED, *RARE)
    groups_world: CoordinatorWorld

    def __init__(self, seed: int, *, steps: int = 120, setup: CoordinatorSetup | None = None) -> None:
        """Draws the setup; `run` plays the schedule.

        Args:
            seed: decides everything that is drawn: the same seed gives the same schedule.
            steps: number of events that are drawn before the faults end.
            setup: replaces the drawn setup, its `steps` too.
        """
        super().__init__(seed, steps=steps, setup=setup)
        self._member_faults = MemberFaults(self.groups_world, self.rng, self._operations)
        self._administrators = Administrators(self.groups_world, self.rng)
        self._frozen: dict[str, tuple[int, GroupHeader | None]] = {}
        """Creation of the marker of each frozen group, and its header then, if it had members."""

    def _draw(self, seed: int, steps: int) -> ClusterSetup:
        return draw_coordinator(seed, steps)

    def _new_world(self) -> ClusterWorld:
        assert isinstance(self.setup, CoordinatorSetup)
        self.groups_world = CoordinatorWorld(self.setup, self.rng)
        return self.groups_world

    def run(self, chaos: Action | None = None) -> ClusterRun:
        """Runs the whole schedule: start, faults (drawn, unless `chaos` is given), convergence, history
        check."""
        with members_log_nothing():
            return super().run(chaos)

    def begin(self) -> None:
        """Starts all processes and members, and creates the topics."""
        super().begin()
        world, setup = self.groups_world, self.groups_world.members_setup
        for group in setup.groups:
            is_with_clients = setup.zookeeper_members == 0 or self.rng.random() < 0.7
            alone = setup.options.is_cooperative and self.rng.random() < 0.7  # the others join a stable group
            for index in range((1 if alone else setup.clients) if is_with_clients else 0):
                world.start_client(group, index)
            for index in range(0 if is_with_clients else setup.zookeeper_members):
                world.start_zookeeper_member(group, index)

    def _happen(self, what: str) -> tuple[str, object]:
        if what in (*GROUP_FAULTS, *FREEZES):
            return "fault", self._member_faults.inject(what)
        if what in ADMINISTRATION:
            return "administration", self._administrators.inject(what)
        return super()._happen(what)

    def step(self) -> None:
        """Perhaps a fault, then one of the possible events; members that have ended come back."""
        super().step()
        self._check_freezes()
        if self.rng.random() < 0.03:
            self.inject("start_member")

    def _check_freezes(self) -> None:
        """A frozen group with members begins no generation with members (recipes 26)."""
        server, slots = self.world.server, self.groups_world.setup.slots
        for group in self.groups_world.members_setup.groups:
            marker = server.find(Freeze.path(group))
            found = server.find(GroupHeader.path(slot_of(group, slots), group))
            if marker is None or found is None or not found.data:
                self._frozen.pop(group, None)
                continue
            header = GroupHeader.decode(found.path, found.data)
            czxid, kept = self._frozen.setdefault(
                group, (marker.stat.czxid, header if header.chunks else None)
            )
            if czxid != marker.stat.czxid:
                self._frozen[group] = (marker.stat.czxid, header if header.chunks else None)
            elif kept is not None and header.chunks and header.generation != kept.generation:
                self.report.figures["generations in a frozen group"] += 1
                raise AssertionError(f"{group} is frozen in {kept.generation}, and began {header.generation}")
            elif kept is not None:
                self.report.figures["steps of a frozen group"] += 1

    def _choices(self) -> list[Action]:
        world, server = self.world, self.world.server
        self._catch_up()
        pending = filter(world.passes, server.pending())
        choices: list[Action] = [lambda s=step: server.deliver(s) for step in pending]  # type: ignore[misc]
        choices += list(world.actions())
        is_busy = bool(choices)
        fetches = list(world.fetches())
        if fetches:
            choices.append(self.rng.choice(fetches))
        choices.append(lambda: self._pass_time(is_busy))
        return choices

    def converge(self) -> None:
        """Ends the faults: each group must become stable within a bound (L8), commit, and stay."""
        world = self.groups_world
        for broker in sorted(world.stopping & world.brokers.keys()):
            world.close(broker)
        world.heal()
        started_ms = world.clock.now_ms()
        while (reason := self._missing() or self._moving()) is not None:
            assert world.clock.now_ms() - started_ms <= CONVERGE_MS, f"L8 {reason}"
            self._complete_groups()
            self.pass_time(ROUND_MS)
        self.report.converged_ms = world.clock.now_ms() - started_ms

    def pass_time(self, ms: int) -> None:
        """Lets time pass, in steps in which everything that is due happens."""
        for _ in range(0, ms, STEP_MS):
            self.world.advance(STEP_MS, expires=1.0)
            self.convergence.drain()

    def _moving(self) -> str | None:
        """What has changed, or was not acknowledged, in a time at rest; slots may still move in the first."""
        world = self.groups_world
        before = [(one, one.believes.generation, one.acknowledged) for one in world.group_clients]
        self.pass_time(STAY_MS)
        if (reason := self._missing()) is not None:
            return f"did not stay: {reason}"
        for client, generation, acknowledged in before:
            if client.believes.generation != generation:
                return f"{client.name} rebalances at rest, from {generation}"
            if client.assigned and client.acknowledged == acknowledged:
                return f"commits of {client.name} are not acknowledged at rest"
        return None

    def _complete_groups(self) -> None:
        """Ends the members of the kind that the schedule does not end with, and starts those that lack."""
        world, setup = self.groups_world, self.groups_world.members_setup
        world.forget_ended()
        for topic in world.missing_topics():
            world.create_topic(topic)
        with_clients = setup.ends_with_clients or not setup.zookeeper_members
        for group in setup.groups:
            clients, members = world.clients_of(group), world.members_of(group)
            if with_clients:
                for member in members:
                    member.leave()
                missing = set(range(setup.clients)) - {one.index for one in clients}
                for index in sorted(missing):
                    world.start_client(group, index)
                self._enforce_rebalance(clients)
            else:
                for client in clients:
                    client.leave()
                if len(members) < setup.zookeeper_members:
                    world.start_zookeeper_member(group, len(members))

    def _enforce_rebalance(self, clients: list[GroupClient]) -> None:
        """Lets a cooperative group with static members begin another generation, where partitions are left.

        A static member that restarts between its assignment and its next join gets the assignment without a
        rebalance, and does not know what its former process was to revoke. Kafka waits for the next one, too.
        """
        setup = self.groups_world.members_setup
        are_working = all(one.phase is ClientPhase.WORKING for one in clients)
        has_ended = self.groups_world.figures["client static.ended"] > 0
        if setup.options.is_cooperative and has_ended and are_working and not is_settled(clients):
            for client in clients:
                client.enforce_rebalance()

    def _missing(self) -> str | None:
        """The first group that is not as it should be at the end."""
        world, setup = self.groups_world, self.groups_world.members_setup
        world.forget_ended()
        with_clients = setup.ends_with_clients or not setup.zookeeper_members
        for group in setup.groups:
            clients, members = world.clients_of(group), world.members_of(group)
            if with_clients and (members or len(clients) < setup.clients or not is_settled(clients)):
                return f"{group} is stuck"
            if with_clients and (tp := world.offset_of_former_topic(group)) is not None:
                return f"{group} has an offset of {tp}, from before the topic was deleted"
            owned = {tp for one in members for tp in one.owned}
            if not with_clients and (clients or owned != set(world.partitions())):
                return f"{group} is stuck, its ZooKeeper consumers own {sorted(owned)}"
        return None

    def check_history(self) -> None:
        """Runs the history checker on the log, and on what brokers and clients recorded."""
        world = self.world
        log = server_transactions(world.server.log, world.clock)
        report = check_coordinator(log, world.recording.records)
        if report.violations:
            raise AssertionError("; ".join(map(str, report.violations)))
        self.report.figures.update(report.figures)

    def _state(self) -> Iterable[str]:
        world = self.groups_world
        yield from super()._state()
        for client in world.group_clients:
            yield f"{client.name}: {client.phase.value}, {client.believes}, calls {client.open_calls}"
        for member in world.zookeeper_members:
            yield f"{member.name} of {member.group}: {member.actor.state}, owns {sorted(member.owned)}"
        for broker in world.brokers.values():
            if broker.coordinator is not None:
                groups = broker.coordinator.stored.coordinator.groups()
                known = [(one.group_id, one.state.value, one.generation, [*one.members]) for one in groups]
                yield f"{broker.name}: leads {broker.coordinator.led_slots}, {known}"
