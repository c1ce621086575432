"""The scenario of `zkgroup demo coordinator`, from starting ZooKeeper to the checks at the end."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from zkgroup.admin.cluster.brokers import ClusterReader
from zkgroup.admin.coordinator import live_reader
from zkgroup.admin.topics import creation
from zkgroup.clients import kafka_python
from zkgroup.demo.brokers import kafka_clients
from zkgroup.demo.brokers.client_checks import LeftOut
from zkgroup.demo.brokers.clients_step import wait_for_maven
from zkgroup.demo.brokers.kafka_tools import RELEASE, KafkaTools
from zkgroup.demo.coordinator import evidence
from zkgroup.demo.coordinator.checks import HandedOver
from zkgroup.demo.coordinator.cluster import (
    BROKERS,
    GROUP,
    READ_EVERY_S,
    TICK_MS,
    CoordinatorCluster,
    CoordinatorDemoOptions,
)
from zkgroup.demo.coordinator.group_clients import JAVA
from zkgroup.demo.coordinator.view import CoordinatorView
from zkgroup.demo.coordinator.worker import ClientChild
from zkgroup.demo.flight_data import PARTITIONS, TOPIC, bundled_lines
from zkgroup.demo.processes import connected
from zkgroup.demo.progress import ANSWER_S, VERIFY_S, CheckResult, Screen
from zkgroup.groups import reads
from zkgroup.groups.ensemble import AsOf
from zkgroup.history import ClusterFigures
from zkgroup.zookeeper import ClientSettings
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

MEMBERS = ("ada", "ben")
"""The ZooKeeper consumers that carry on."""
CLIENTS_MIN = 3
"""One is killed and one is paused: further members of kafka-python join where other clients are missing."""
SMALL_FILES = "-Dzookeeper.preAllocSize=4096"
"""Preallocation of the server's log in KiB: small, because the checks read the whole log."""
STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class ClientResult:
    """One client of the group: what it processed, and how it ended."""

    member: str
    client: str
    version: str
    records: int
    ended: str
    """`left`, `killed`, or `paused`: it was paused past its session, came back, and left."""
    commits_failed: int
    """As the client reported them; 0 for Java's, which does not."""


@dataclass(frozen=True, slots=True)
class CoordinatorDemoReport:
    """The report of one run."""

    checks: tuple[CheckResult, ...]
    clients: tuple[ClientResult, ...]
    left_out: tuple[LeftOut, ...]
    records: int
    """Records that were processed."""
    twice: int
    """Of these, processed more than once."""
    generations: int
    coordinators: tuple[int, ...]
    """The brokers that loaded the group's slot, in order."""
    failover_s: float
    """From the SIGKILL of the coordinator until all that was produced before it was committed."""
    kept_generation: bool
    """Whether the members went on in their generation when their coordinator was killed."""
    figures: ClusterFigures
    took_s: float
    as_of: AsOf
    group: str
    zookeeper: str
    folder: Path | None
    """Folder of the kept files, the server's included; None when they were removed."""

    @property
    def passed(self) -> bool:
        """Whether every check holds."""
        return all(check.holds for check in self.checks)


def run(options: CoordinatorDemoOptions, screen: Screen[CoordinatorView]) -> CoordinatorDemoReport:
    """Runs the whole demo. Leaves no process behind, whatever happens.

    Raises `StableTimeoutError` when the group does not reach an expected state in time, `MemberFailedError`
    when a process ended by itself, `EmbeddedServerError` when there is no server to start, `ConfigError`
    without kafka-python.
    """
    kafka_python.load("zkgroup demo coordinator")
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="zkgroup-demo-"))
        if not options.keep:
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        tools = KafkaTools(folder)
        stack.callback(tools.close)
        scenario = CoordinatorScenario(
            tools=tools,
            options=options,
            screen=screen,
            folder=folder,
            timeout_s=options.timeout_s,
            lines=tuple(bundled_lines()),
        )
        stack.callback(scenario.close)
        scenario.log(f"starting a ZooKeeper server and {len(BROKERS)} brokers")
        for broker in BROKERS:
            scenario.spawn(broker)
        server = EmbeddedZooKeeper(
            data_dir=folder / "zookeeper", tick_time_ms=TICK_MS, java_options=[SMALL_FILES]
        )
        scenario.zookeeper = stack.enter_context(server).address
        scenario.ensemble = stack.enter_context(connected(scenario.zookeeper, ClientSettings(), ANSWER_S))
        stack.callback(scenario.close)  # before the server goes
        return scenario.run_steps([server.data_dir / "server-0" / "version-2"])


@dataclass(kw_only=True)
class CoordinatorScenario(CoordinatorCluster):
    """The steps of the scenario."""

    tools: KafkaTools
    versions: dict[str, str] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    failover_s: float = 0.0
    kept_generation: bool = False
    was_paused: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)

    def run_steps(self, logs: Sequence[Path]) -> CoordinatorDemoReport:
        """Runs all steps in order, and checks the result."""
        self._assemble()
        self._start_clients()
        self._kill_the_coordinator()
        self._kill_a_client(self.clients[0])
        self._pause_a_client(self.clients[1])
        handed_over = self._stop_clients()
        self._carry_on()
        quiet_from_ms = self.ensemble.clock.wall_ms()
        found = evidence.collect(
            self,
            logs,
            handed_over=handed_over,
            problems=self.problems,
            zookeeper_members=MEMBERS,
            quiet_from_ms=quiet_from_ms,
        )
        return CoordinatorDemoReport(
            checks=found.checks,
            clients=tuple(self._result(one, found.records_of.get(one.name, 0)) for one in self.clients),
            left_out=tuple(self.left_out),
            records=found.records,
            twice=found.twice,
            generations=found.generations,
            coordinators=found.coordinators,
            failover_s=self.failover_s,
            kept_generation=self.kept_generation,
            figures=found.figures,
            took_s=self.elapsed_s,
            as_of=found.as_of,
            group=GROUP,
            zookeeper=self.zookeeper,
            folder=self.folder if self.options.keep else None,
        )

    def _result(self, process: ClientChild, records: int) -> ClientResult:
        return ClientResult(
            member=process.name,
            client="Java console consumer" if process.settings.client == JAVA else process.settings.client,
            version=self.versions[process.settings.client],
            records=records,
            ended="paused" if process.name in self.was_paused else "killed" if process.killed else "left",
            commits_failed=len(process.refusals),
        )

    def _wait(self, what: str, reached: Callable[[], bool]) -> None:
        self.until(what, reached, READ_EVERY_S)

    def _assemble(self) -> None:
        """Starts the brokers, and creates the topic."""
        self.headline = "three brokers and a topic"
        for broker in BROKERS:
            self.start_broker(broker)
        self._wait("all brokers are registered", lambda: self.seen.registered == frozenset(BROKERS))
        self.log(f"the brokers are up; broker {self.seen.controller} is controller", "good")
        lists = [
            tuple(BROKERS[(number + i) % len(BROKERS)] for i in range(len(BROKERS)))
            for number in range(PARTITIONS)
        ]
        plan = creation.plan_topic(self.ensemble, TOPIC, partitions=PARTITIONS, replica_assignment=lists)
        creation.create_topic(self.ensemble, plan)
        self._wait("every partition has its replicas in sync", lambda: self.seen.is_whole)
        self.log(f"topic {TOPIC}: {PARTITIONS} partitions x {len(BROKERS)} replicas, all in sync", "good")

    def _start_clients(self) -> None:
        """All clients that are there join one group; then records are produced, so that each gets some."""
        wait_for_maven(self, self.tools)
        found, self.left_out = kafka_clients.installed()
        self.versions = {one.name: one.version for one in found}
        names = [(one.name, one.name) for one in found]
        if self.tools.reason:
            self.left_out.append(LeftOut("Java console consumer", self.tools.reason))
        else:
            names.append((JAVA, JAVA))
            self.versions[JAVA] = RELEASE
        names += [
            (f"kafka-python-{number}", "kafka-python") for number in range(2, CLIENTS_MIN - len(names) + 2)
        ]
        for one in self.left_out:
            self.log(f"left out: {one.client} ({one.reason})")
        addresses = kafka_python.addresses_of(ClusterReader(self.ensemble).brokers().values())
        for name, client in names:
            self.start_client(name, client, ",".join(addresses), self.tools.jars)
        self.headline = "Kafka's own clients join one group"
        self.log(f"{', '.join(name for name, _ in names)} join group {GROUP}")
        self._wait("the clients share all partitions", lambda: self._is_shared(self.clients))
        self.log(self._sharing(), "good")
        self.produce(self.lines[: -self.options.held_back])
        self.log(f"records are produced with acks=all, {self.options.records_per_s} a second")
        self._wait("records are committed", lambda: self.committed > len(self.lines) // 100)

    def _is_shared(self, clients: Sequence[ClientChild]) -> bool:
        """Whether the group is stable, with exactly these members, and each has partitions."""
        if self.group is None or self.group.state != STABLE:
            return False
        owned = {one.name: self.partitions_of(one.name) for one in clients}
        return (
            {one.client_id for one in self.group.members} == set(owned)
            and all(owned.values())
            and sorted(number for numbers in owned.values() for number in numbers) == [*range(PARTITIONS)]
        )

    def _sharing(self) -> str:
        assert self.group is not None
        count = len(self.group.members)
        share = "1 member has" if count == 1 else f"{count} members share"
        return f"generation {self.group.generation}: {share} {PARTITIONS} partitions"

    def _kill_the_coordinator(self) -> None:
        """Kills the broker that coordinates the group; the members go on with the next one."""
        self._wait(
            "the group has a coordinator", lambda: self.group is not None and self.group.leader in BROKERS
        )
        assert self.group is not None
        assert self.group.leader is not None
        victim, generation = self.group.leader, self.group.generation
        lives_s = self.options.session_timeout_ms / 1000
        self.headline = f"the coordinator is dead; its session lives for {lives_s:g} s more"
        self.brokers[victim].kill()
        killed_s = time.monotonic()
        leads = self.seen.leads(victim)
        self.log(f"SIGKILL to broker {victim}, which coordinates {GROUP} and leads {leads} partitions", "bad")
        self.refresh()
        ends = dict(self.ends)

        def is_back() -> bool:
            group = self.group
            return (
                group is not None
                and group.leader not in (None, victim)
                and group.phase == STABLE
                and all(self.offsets.get(number, 0) >= end for number, end in ends.items())
            )

        self._wait("another broker coordinates the group, and members commit there", is_back)
        self.failover_s = time.monotonic() - killed_s
        self.kept_generation = self.group.generation == generation
        same = "the same generation" if self.kept_generation else "generation"
        self.log(
            f"broker {self.group.leader} coordinates it after {self.failover_s:.1f} s, "
            f"in {same} {self.group.generation}",
            "good",
        )
        self.log(f"broker {victim} starts again")
        self.spawn(victim)
        self.start_broker(victim)

    def _kill_a_client(self, victim: ClientChild) -> None:
        """Kills a client: the others share its partitions when its session has ended."""
        lives_s = self.options.client_session_timeout_ms / 1000
        self.headline = f"{victim.name} is dead; its session lives for {lives_s:g} s more"
        owned = self.partitions_of(victim.name)
        victim.kill()
        self.log(f"SIGKILL to {victim.name}, owner of partitions {_listed(owned)}", "bad")
        others = [one for one in self.clients if one is not victim]
        self._wait("the others share its partitions", lambda: self._is_shared(others))
        self.log(self._sharing(), "good")

    def _pause_a_client(self, victim: ClientChild) -> None:
        """Pauses a client past its session, and lets it go on: it learns that it is no member, and joins."""
        self.headline = f"{victim.name} is paused past its session"
        owned, processed = self.partitions_of(victim.name), victim.processed
        self._wait(
            "it has read from its partitions, or all that was produced is committed",
            lambda: victim.processed > processed or self.committed >= sum(self.ends.values()),
        )
        victim.pause()
        self.was_paused.add(victim.name)
        self.log(f"SIGSTOP to {victim.name}, owner of partitions {_listed(owned)}", "bad")
        others = [one for one in self.clients if one is not victim and not one.killed]
        self._wait("the others share its partitions", lambda: self._is_shared(others))
        self.log(self._sharing(), "good")
        self.refresh()
        failed = len(victim.refusals)
        victim.resume()
        self.headline = f"{victim.name} goes on, and is no member any more"
        self.log(f"SIGCONT to {victim.name}: it still believes that it owns {_listed(owned)}")
        self._wait("it is a member again", lambda: self._is_shared([victim, *others]))
        refused = victim.refusals[failed:]
        if refused:
            self.log(f"its commit was refused: {refused[0]}", "good")
        self.log(self._sharing(), "good")

    def _stop_clients(self) -> HandedOver:
        """Waits until everything is committed, verifies the group, and stops the clients."""
        (producer,) = self.producers
        self.headline = "the rest of the records"
        producer.lift_limit()
        self._wait("every record is acknowledged", lambda: producer.ended)
        producer.check()
        self._wait("every record is committed", lambda: self.committed >= sum(self.ends.values()))
        self._wait("every replica is in sync", lambda: self.seen.is_whole)
        self.log(f"{self.committed:,} records are consumed and committed to the end", "good")
        self._verify("clients")
        self.headline = "the clients leave"
        alive = [one for one in self.clients if not one.killed]
        for one in alive:
            one.terminate()
        self._wait("the clients have left", lambda: all(one.ended for one in alive))
        for one in alive:
            one.wait(0)
        self._wait(
            "the group is empty, and its marker is off",
            lambda: self.group is not None and not self.group.members and not self.group.marked,
        )
        self.log("the clients have left; the group is empty", "good")
        return HandedOver(len(producer.acknowledged), dict(self.offsets), dict(self.ends))

    def _carry_on(self) -> None:
        """ZooKeeper members go on with the group, at the same offsets."""
        self.headline = "ZooKeeper members carry on"
        for name in MEMBERS:
            self.start_member(name)
        self.log(f"{' and '.join(MEMBERS)}, ZooKeeper members, join the same group")
        self._wait("they share all partitions", self._is_owned)
        producer = self.produce(self.lines[-self.options.held_back :])
        producer.lift_limit()
        self._wait("every record is acknowledged", lambda: producer.ended)
        producer.check()
        self._wait("every record is committed", lambda: self.committed >= sum(self.ends.values()))
        self.log(f"they have consumed and committed the last {self.options.held_back:,} records", "good")
        self._verify("ZooKeeper members")
        for one in self.members:
            one.terminate()
        self._wait("the members have left", lambda: all(one.ended for one in self.members))
        for one in self.members:
            one.wait(0)
        self.refresh()

    def _is_owned(self) -> bool:
        owners = self.zookeeper_group.owners
        return len(owners) == PARTITIONS and set(owners.values()) == set(MEMBERS)

    def _verify(self, kind: str) -> None:
        """Runs `group verify --wait`."""
        verdict = reads.verify(self.ensemble, GROUP, wait_s=VERIFY_S, live=live_reader(self.ensemble))
        self.problems += [
            f"{kind}: {one.kind.value} {one.topic}:{one.partition} {one.detail}".strip()
            for one in verdict.problems
        ]


def _listed(partitions: Sequence[int]) -> str:
    return ", ".join(map(str, partitions))
