"""`zkgroup demo coordinator`: clients of Kafka share a group, then ZooKeeper members go on with it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import chain, cycle
from typing import ClassVar

from rich.console import RenderableType
from rich.text import Text

from zkgroup.admin.coordinator import CoordinatedGroupDescription, SlotDescription
from zkgroup.coordinator.group_ids import slot_of
from zkgroup.demo import kafka_tools
from zkgroup.demo.checks import (
    CheckResult,
    behind,
    check_committed,
    check_work,
    checked,
    history_faults,
    listed,
)
from zkgroup.demo.cluster import SESSION_MS, ClusterRun
from zkgroup.demo.flight_data import PARTITIONS, TOPIC, Processed, ProcessedFile, reduce
from zkgroup.demo.kafka_clients import CLIENTS, ClientWork
from zkgroup.demo.processes import Child, Stopping
from zkgroup.demo.screen import COLORS, Row, beside, frame, progress, state, table
from zkgroup.demo.stored_group import JAVA, LoggedGroup
from zkgroup.errors import NotFoundError
from zkgroup.history import ClusterReport

BROKERS = (1, 2, 3)
MEMBERS = ("ada", "ben")
"""The ZooKeeper consumers that carry on."""
CLIENTS_MIN = 3
"""One is killed and one is paused: further members of kafka-python join where other clients are missing."""
RECORDS_PER_S = 400
"""Speed of the producer, until the last fault is over."""
HELD_BACK = 2_000
"""Records that are produced when the ZooKeeper members have taken over the group."""
CLIENT_SESSION_MS = 6_000
STABLE = "Stable"
CLUSTER_MIN = {"elections": 1, "leader_changes": 1, "isr_writes": 1, "acknowledged_records": 1}
"""Least contents of the servers' log, by name of the cluster checker's figures."""
MEMBERS_MIN = {"claims": 1, "commits": 1, "deliveries": 1}
"""Least contents of the history of the ZooKeeper consumers."""
EXPIRING = dict.fromkeys(("killed", "paused"), "bold red")
"""Style of the session of a process in this state."""
GENERATIONS_MIN = 4
"""The first, without the killed client, without the paused one, with it again."""


def serve(stopping: Stopping, client: str, work: ClientWork, output: str, jars: str) -> None:
    """A client as a member of the group, until SIGTERM, on which it leaves.

    `client` is its package, or `java`; `output` is the file for the processed records, one line each.
    """
    work.stopping = stopping
    work.output = ProcessedFile(output)
    if client == JAVA:
        kafka_tools.run_member(work, jars)
    else:
        next(one for one in CLIENTS if one.name == client).run_member(work)
    work.output.report()


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


@dataclass(kw_only=True)
class CoordinatorRun(ClusterRun):
    """The steps of the scenario, and their result."""

    command: ClassVar[str] = "zkgroup demo coordinator"
    broker_ids: ClassVar[Sequence[int]] = BROKERS
    opening: ClassVar[str] = f"starting a ZooKeeper server and {len(BROKERS)} brokers"
    read_every_s: ClassVar[float] = 0.3

    processes: dict[str, Child] = field(default_factory=dict)
    """Those of Kafka's clients, by their names."""
    packages: dict[str, str] = field(default_factory=dict)
    """The package of each client."""
    coordinated: CoordinatedGroupDescription | None = None
    """The group as its coordinator reports it; None before it exists."""
    slots: tuple[SlotDescription, ...] = ()
    ends: dict[int, int] = field(default_factory=dict)
    """Partition to the next offset after the acknowledged records."""
    handed_over: Mapping[int, int] = field(default_factory=dict)
    """The offsets when the clients had left."""
    handover: CheckResult = field(init=False)
    """The check of that moment."""
    paused: str = ""
    clients: tuple[ClientResult, ...] = ()
    generations: int = 0
    coordinators: tuple[int, ...] = ()
    """The brokers that loaded the group's slot, in order."""
    failover_s: float = 0.0
    """From the SIGKILL of the coordinator until all that was produced before it was committed."""
    kept_generation: bool = False
    """True if the members went on in their generation when their coordinator was killed."""

    def read(self) -> None:
        """Reads the cluster, the group of either kind, and how far records are acknowledged."""
        super().read()
        for one in self.deliveries:
            self.ends[one.partition] = max(one.offset + 1, self.ends.get(one.partition, 0))
        if not self.processes:
            return
        with suppress(NotFoundError):  # no client has asked for a coordinator yet
            described = self.admin.describe_coordinator()
            self.slots = described.slots
            self.coordinated = next(
                (one for one in described.groups if one.group == self.group), self.coordinated
            )

    def play(self) -> None:
        self.headline = "three brokers and a topic"
        for broker in BROKERS:
            self.start_broker(broker)
        self.await_registered()
        self.log(f"the brokers are up; broker {self.cluster.controller} is controller", "good")
        self.create_topic()
        self._start_clients()
        self._kill_the_coordinator()
        first, second, *_ = (name for name, package in self.packages.items() if package != JAVA)
        self._kill_a_client(first)
        self._pause_a_client(second)
        self._stop_clients()
        self._carry_on()
        self.quiet_from_ms = self.ensemble.clock.wall_ms()
        self.read_last()

    def _start_clients(self) -> None:
        """All clients that are there join one group; then records are produced, so that each gets some."""
        found = [one.name for one in self.find_clients("Java console consumer")]
        found += [] if self.tools.reason else [JAVA]
        self.packages = {name: name for name in found}
        self.packages |= {f"kafka-python-{n}": "kafka-python" for n in range(2, CLIENTS_MIN - len(found) + 2)}
        addresses = self.bootstrap()
        for name, package in self.packages.items():
            work = ClientWork(name, self.group, addresses, session_timeout_ms=CLIENT_SESSION_MS)
            output = str(self.folder / f"{name}.processed.jsonl")
            given = {"client": package, "work": work, "output": output, "jars": str(self.tools.jars)}
            self.processes[name] = self.start(name, "coordinator", given)
        self.headline = "Kafka's own clients join one group"
        self.log(f"{', '.join(self.packages)} join group {self.group}")
        self._wait_until_shared("the clients share all partitions", self.packages)
        self.produce(len(self.lines) - HELD_BACK, RECORDS_PER_S)
        self.log(f"records are produced with acks=all, {RECORDS_PER_S} a second")
        self.until("records are committed", lambda: self.owned.committed > len(self.lines) // 100)

    def _wait_until_shared(self, what: str, names: Iterable[str]) -> None:
        """Waits until the group is stable, with exactly these members, and each has partitions."""
        wanted = set(names)

        def is_shared() -> bool:
            group = self.coordinated
            if group is None or group.state != STABLE:
                return False
            owned = [self.coordinated_partitions(name) for name in wanted]
            numbers = sorted(number for own in owned for number in own)
            members = {one.client_id for one in group.members}
            return members == wanted and all(owned) and numbers == [*range(PARTITIONS)]

        self.until(what, is_shared)
        assert self.coordinated is not None
        share = "1 member has" if len(wanted) == 1 else f"{len(wanted)} members share"
        self.log(f"generation {self.coordinated.generation}: {share} {PARTITIONS} partitions", "good")

    def coordinated_partitions(self, name: str) -> list[int]:
        """The partitions that are assigned to the client of this id, as the coordinator reports them."""
        members = self.coordinated.members if self.coordinated else ()
        return sorted(tp.partition for one in members if one.client_id == name for tp in one.partitions or ())

    def _kill_the_coordinator(self) -> None:
        """Kills the broker that coordinates the group; the members go on with the next one."""
        self.until("the group has a coordinator", lambda: self._coordinator() in BROKERS)
        victim = self._coordinator()
        assert self.coordinated is not None
        assert victim is not None
        generation = self.coordinated.generation
        leads = self.cluster.leads(victim)
        text = f"SIGKILL to broker {victim}, which coordinates {self.group} and leads {leads} partitions"
        killed_s = self.kill(self.brokers[victim], text, SESSION_MS, "the coordinator")
        self.refresh()
        ends = dict(self.ends)
        self.until(
            "another broker coordinates the group, and members commit there",
            lambda: (
                self._coordinator() not in (None, victim)
                and self.coordinated is not None
                and self.coordinated.phase == STABLE
                and all(self.owned.offsets.get(number, 0) >= end for number, end in ends.items())
            ),
        )
        self.failover_s = time.monotonic() - killed_s
        self.kept_generation = self.coordinated.generation == generation
        same = "the same generation" if self.kept_generation else "generation"
        text = f"broker {self._coordinator()} coordinates it after {self.failover_s:.1f} s"
        self.log(f"{text}, in {same} {self.coordinated.generation}", "good")
        self.log(f"broker {victim} starts again")
        self.start_broker(victim)

    def _coordinator(self) -> int | None:
        return self.coordinated.leader if self.coordinated else None

    def _kill_a_client(self, name: str) -> None:
        """Kills a client: the others share its partitions when its session has ended."""
        text = f"SIGKILL to {name}, owner of partitions {listed(self.coordinated_partitions(name))}"
        self.kill(self.processes[name], text, CLIENT_SESSION_MS)
        self._wait_until_shared("the others share its partitions", self._alive() - {name})

    def _alive(self) -> set[str]:
        return {name for name, child in self.processes.items() if not child.killed}

    def _pause_a_client(self, name: str) -> None:
        """Pauses a client past its session, and lets it go on: it learns that it is no member, and joins."""
        victim = self.processes[name]
        self.headline = f"{name} is paused past its session"
        owned, processed = self.coordinated_partitions(name), victim.processed
        self.until(
            "it has read from its partitions, or all that was produced is committed",
            lambda: victim.processed > processed or self._is_committed(),
        )
        victim.pause()
        self.paused = name
        self.log(f"SIGSTOP to {name}, owner of partitions {listed(owned)}", "bad")
        self._wait_until_shared("the others share its partitions", self._alive() - {name})
        self.refresh()
        failed = len(victim.reported["not_committed"])
        victim.resume()
        self.headline = f"{name} goes on, and is no member any more"
        self.log(f"SIGCONT to {name}: it still believes that it owns {listed(owned)}")
        self._wait_until_shared("it is a member again", self._alive())
        if refused := victim.reported["not_committed"][failed:]:
            self.log(f"its commit was refused: {refused[0]['error']}", "good")

    def _is_committed(self) -> bool:
        """Returns whether every record is committed that was acknowledged."""
        return self.owned.committed >= sum(self.ends.values())

    def _stop_clients(self) -> None:
        """Lets the clients consume the rest and leave."""
        self.headline = "the rest of the records"
        self.finish_producing(len(self.lines) - HELD_BACK)
        self.until("every record is committed", self._is_committed)
        self.until("every replica is in sync", lambda: self.cluster.is_whole)
        self.log(f"{self.owned.committed:,} records are consumed and committed to the end", "good")
        self.verify("clients: ")
        self.headline = "the clients leave"
        self.end(self.processes.values(), "the clients")
        self.until(
            "the group is empty, and its marker is off",
            lambda: bool(self.coordinated and not self.coordinated.members and not self.coordinated.marked),
        )
        self.log("the clients have left; the group is empty", "good")
        self.handed_over = self.owned.offsets
        self.handover = self._check_handover()

    def _check_handover(self) -> CheckResult:
        faults, lines = behind(self.handed_over, self.ends), self.acknowledged
        total = sum(self.handed_over.values())
        text = f"{total:,} of {lines:,} records in {len(self.ends)} partitions"
        if total != lines:
            faults.append(f"{total:,} of {lines:,} records")
        statement = "the clients committed everything to its end"
        return checked(statement, faults=faults, proof=text, enough=bool(self.ends))

    def _carry_on(self) -> None:
        """ZooKeeper members go on with the group, at the same offsets."""
        self.headline = "ZooKeeper members carry on"
        for name in MEMBERS:
            self.start_member(name)
        self.log(f"{' and '.join(MEMBERS)}, ZooKeeper members, join the same group")
        self.until("they share all partitions", lambda: self.is_shared_by(MEMBERS))
        self.finish_producing(len(self.lines))
        self.until("every record is committed", self._is_committed)
        self.log(f"they have consumed and committed the last {HELD_BACK:,} records", "good")
        self.verify("ZooKeeper members: ")
        self.stop_members()

    def judge(self) -> Iterator[CheckResult]:
        """Stops the brokers, and checks their files, the members' files and ZooKeeper's log."""
        report = self.read_files()
        outputs, members = self.outputs(self.processes.values()), self.outputs(self.members)
        self.reduction = reduce(outputs | members)
        stored = LoggedGroup(self.group, slot_of(self.group, len(self.slots)), TOPIC)
        for transaction in self.log_read:
            stored.apply(transaction)
        self.generations = len({one.generation for one in stored.generations})
        self.coordinators = tuple(stored.coordinators)
        self.clients = tuple(self._result(name, len(records)) for name, records in outputs.items())
        kept = [self.values.get(number, ()) for number in range(PARTITIONS)]
        yield from check_work(kept, self.reduction)
        yield self._check_starts(outputs, stored)
        yield self.handover
        yield stored.check_owners(GENERATIONS_MIN)
        yield stored.check_commits()
        yield stored.check_kinds(len(MEMBERS))
        yield self._check_carried_on(members)
        yield check_committed(kept, self.owned.offsets)
        yield checked("group verify is clean", faults=self.problems, proof="clients and ZooKeeper members")
        yield self._check_history(report, stored)

    def _result(self, name: str, records: int) -> ClientResult:
        package, child = self.packages[name], self.processes[name]
        is_java = package == JAVA
        return ClientResult(
            member=name,
            client="Java console consumer" if is_java else package,
            version=kafka_tools.RELEASE if is_java else version(package),
            records=records,
            ended="paused" if name == self.paused else "killed" if child.killed else "left",
            commits_failed=len(child.reported["not_committed"]),
        )

    def _check_starts(self, outputs: Mapping[str, Sequence[Processed]], stored: LoggedGroup) -> CheckResult:
        """Each client begins a partition at a committed offset, not below what earlier ones committed."""
        starts: dict[tuple[int, int, str], int] = {}
        for member, records in outputs.items():
            for record in records:
                starts.setdefault((record.token, record.partition, member), record.offset)
        faults = []
        for (token, partition, member), first in sorted(starts.items()):
            own = [one for one in stored.commits if one.partition == partition and one.client is not None]
            before = max((one.offset for one in own if 0 < one.token < token), default=0)
            if first < before:
                faults.append(f"{member} began {partition} at {first}, committed was {before}")
            elif first and first not in {one.offset for one in own}:
                faults.append(f"{member} began {partition} at {first}, which was not committed")
        repeated = sum(count - 1 for count in self.reduction.repeated.values())
        text = f"{repeated:,} twice; {len(starts)} starts, each at the committed offset"
        statement = "nothing twice but what was not committed"
        return checked(statement, faults=faults, proof=text, enough=bool(starts))

    def _check_carried_on(self, members: Mapping[str, Sequence[Processed]]) -> CheckResult:
        """The ZooKeeper consumers began where the clients had stopped."""
        first: dict[int, int] = {}
        for record in chain.from_iterable(members.values()):
            first[record.partition] = min(record.offset, first.get(record.partition, record.offset))
        faults = [
            f"{number} at {offset}, committed was {self.handed_over.get(number)}"
            for number, offset in sorted(first.items())
            if offset != self.handed_over.get(number)
        ]
        count = sum(map(len, members.values()))
        text = f"{count:,} records by {' and '.join(MEMBERS)}, from the same offsets"
        statement = "ZooKeeper members carried on at the same offsets"
        return checked(statement, faults=faults, proof=text, enough=bool(first))

    def _check_history(self, cluster: ClusterReport, stored: LoggedGroup) -> CheckResult:
        """The history checkers' verdicts over ZooKeeper's log and the members' histories."""
        members = self.history()
        faults = [*history_faults(cluster, CLUSTER_MIN), *history_faults(members, MEMBERS_MIN)]
        faults += map(str, stored.violations)
        happened = {
            "commits of members": any(one.token for one in stored.commits),
            "commits of ZooKeeper members": any(one.client is None for one in stored.commits),
            "slots taken": stored.coordinators,
            "markers set": stored.markers,
        }
        faults += [f"{name}: none" for name, seen in happened.items() if not seen]
        acknowledged = len({one.number for one in self.deliveries})
        if acknowledged != len(self.lines):
            faults.append(f"acknowledged: {acknowledged:,} of {len(self.lines):,}")
        text = f"{cluster.figures.transactions:,} transactions, {members.figures.records:,} events"
        text += ", no violation"
        enough = cluster.holds and members.holds
        return checked("the checker finds nothing", faults=faults, proof=text, enough=enough)

    def draw(self, width: int = 100, height: int = 40) -> RenderableType:
        """Brokers; the group with its coordinator, phase and generation; members of both kinds; progress."""
        shown = [(one, name, self.coordinated_partitions(name)) for name, one in self.processes.items()]
        shown += [(one, f"{one.name} (ZooKeeper)", self.owned.of(one.name)) for one in self.members]
        rows = [self._row(color, *one) for color, one in zip(cycle(COLORS), shown, strict=False)]
        produced, committed = self.acknowledged, self.owned.committed
        cells = progress({"produced": produced, "committed": committed}, len(self.lines), 20)
        cells.append(f"lag {max(produced - committed, 0):,}")
        parts: list[RenderableType] = [
            table(">broker,>pid,state,>leads,>slots,", map(self._broker_row, sorted(self.brokers))),
            Text(),
            self._group(),
            table("member,>pid,process,>session,>records,>lag,partitions", rows),
            beside(cells),
        ]
        return frame(self, parts, len(self.brokers) + len(rows) + 5, width, height)

    def _broker_row(self, number: int) -> Row:
        process = self.brokers[number]
        roles = ["coordinator"] if self._coordinator() == number else []
        roles += ["controller"] if self.cluster.controller == number else []
        slots = sum(slot.leader == number for slot in self.slots)
        counts = (str(self.cluster.leads(number)), str(slots))
        role = (", ".join(roles), "bold green")
        return [str(number), str(process.pid), state(process.state), *counts, role]

    def _group(self) -> Text:
        text = Text.assemble("group ", (self.group, "bold"), "   ")
        one, zookeeper = self.coordinated, self.owned.state
        if self.members:
            return text.append(zookeeper, style="green" if zookeeper == "stable" else "yellow")
        if one is None:
            return text.append("no member yet", style="yellow")
        if one.phase is None:
            text.append("the coordinator does not answer", style="bold red")
        else:
            text.append(one.phase, style="green" if one.phase == STABLE else "yellow")
        if one.phase_ends_in_ms is not None:
            text.append(f", ends in {one.phase_ends_in_ms / 1000:.1f} s", style="yellow")
        if one.leader is not None:
            text.append(f"   coordinator: broker {one.leader}")
        if one.generation is not None:
            text.append("   generation ").append(str(one.generation), style="bold")
        return text

    def session_s(self, name: str) -> float | None:
        """Returns the seconds until the coordinator removes a client that sends no heartbeat."""
        members = self.coordinated.members if self.coordinated else ()
        found = [one.session_expires_in_ms for one in members if one.client_id == name]
        return found[0] / 1000 if found and found[0] is not None else None

    def _row(self, color: str, one: Child, name: str, partitions: Sequence[int]) -> Row:
        session_s, faded = self.session_s(name), "dim" if one.ended else ""
        lag = sum(max(self.ends.get(n, 0) - max(self.owned.offsets.get(n, 0), 0), 0) for n in partitions)
        return [
            (name, faded or color),
            (str(one.pid), faded),
            state(one.state),
            ("" if session_s is None else f"{session_s:.1f} s", EXPIRING.get(one.state, "")),
            f"{one.processed:,}",
            f"{lag:,}" if partitions else "",
            (listed(partitions, " "), faded or color),
        ]
