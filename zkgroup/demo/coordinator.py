"""`zkgroup demo coordinator`: clients of Kafka share a group, then ZooKeeper members go on with it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import ClassVar

from rich.console import RenderableType
from rich.text import Text

from zkgroup.admin.coordinator import CoordinatedGroupDescription, SlotDescription, describe_coordinator
from zkgroup.clients import kafka_python
from zkgroup.coordinator.group_ids import slot_of
from zkgroup.demo import kafka_tools
from zkgroup.demo.cluster import SESSION_MS, ClusterStage
from zkgroup.demo.flight_data import PARTITIONS, TOPIC, Processed, Reduction, reduce
from zkgroup.demo.kafka_clients import CLIENTS, ClientWork, LeftOut
from zkgroup.demo.members import behind, check_committed, check_result, history_faults
from zkgroup.demo.processes import Child, Stopping
from zkgroup.demo.screen import COLORS, beside, frame, progress, state, table
from zkgroup.demo.stage import CheckResult, DemoOptions, DemoReport, Screen, checked, listed, opened
from zkgroup.demo.stored_group import JAVA, LoggedGroup
from zkgroup.errors import NotFoundError
from zkgroup.history import ClusterFigures, ClusterReport

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
GENERATIONS_MIN = 4
"""The first, without the killed client, without the paused one, with it again."""


def serve(stopping: Stopping, client: str, work: ClientWork, output: str, jars: str) -> None:
    """A client as a member of the group, until SIGTERM, on which it leaves.

    `client` is its package, or `java`; `output` is the file for the processed records, one line each.
    """
    work.stopping = stopping
    with open(output, "ab", buffering=0) as work.output:  # noqa: PTH123
        if client == JAVA:
            kafka_tools.run_member(work, jars)
        else:
            next(one for one in CLIENTS if one.name == client).run_member(work)
        work.report()


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorDemoReport(DemoReport):
    """The report of one run."""

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
    """True if the members went on in their generation when their coordinator was killed."""
    figures: ClusterFigures


def run(options: DemoOptions, screen: Screen) -> CoordinatorDemoReport:
    """Runs the whole demo. Leaves no process behind. Raises what the demo of brokers raises."""
    kafka_python.load("zkgroup demo coordinator")
    with opened(CoordinatorStage, options, screen) as stage:
        return stage.play()


@dataclass(kw_only=True)
class CoordinatorStage(ClusterStage):
    """The steps of the scenario."""

    command: ClassVar[str] = "zkgroup demo coordinator"
    broker_ids: ClassVar[Sequence[int]] = BROKERS
    opening: ClassVar[str] = f"starting a ZooKeeper server and {len(BROKERS)} brokers"
    read_every_s: ClassVar[float] = 0.3

    clients: dict[str, tuple[str, Child]] = field(default_factory=dict)
    """Name to package and process."""
    versions: dict[str, str] = field(default_factory=dict)
    coordinated: CoordinatedGroupDescription | None = None
    """The group as its coordinator reports it; None before it exists."""
    slots: tuple[SlotDescription, ...] = ()
    ends: dict[int, int] = field(default_factory=dict)
    """Partition to the next offset after the acknowledged records."""
    handed_over: Mapping[int, int] = field(default_factory=dict)
    """The offsets when the clients had left."""
    failover_s: float = 0.0
    kept_generation: bool = False
    paused: str = ""

    def read(self) -> None:
        """Reads the cluster, the group of either kind, and how far records are acknowledged."""
        super().read()
        for one in self.acknowledged:
            self.ends[one.partition] = max(one.offset + 1, self.ends.get(one.partition, 0))
        if not self.clients:
            return
        with suppress(NotFoundError):  # no client has asked for a coordinator yet
            described = describe_coordinator(self.ensemble)
            self.slots = described.slots
            self.coordinated = next(
                (one for one in described.groups if one.group == self.group), self.coordinated
            )

    def play(self) -> CoordinatorDemoReport:
        self.headline = "three brokers and a topic"
        for broker in BROKERS:
            self.start_broker(broker)
        self.until("all brokers are registered", lambda: self.cluster.registered == frozenset(BROKERS))
        self.log(f"the brokers are up; broker {self.cluster.controller} is controller", "good")
        self.create_topic()
        self._start_clients()
        self._kill_the_coordinator()
        first, second, *_ = (name for name, (client, _) in self.clients.items() if client != JAVA)
        self._kill_a_client(first)
        self._pause_a_client(second)
        handed_over = self._stop_clients()
        self._carry_on()
        return self._report(handed_over)

    def _start_clients(self) -> None:
        """All clients that are there join one group; then records are produced, so that each gets some."""
        found = self.find_clients("Java console consumer")
        self.versions = {one.name: one.version for one in found}
        if not self.tools.reason:
            self.versions[JAVA] = kafka_tools.RELEASE
        names = {name: name for name in self.versions}
        names |= {f"kafka-python-{n}": "kafka-python" for n in range(2, CLIENTS_MIN - len(names) + 2)}
        addresses, jars = self.bootstrap(), str(self.tools.jars)
        for name, client in names.items():
            work = ClientWork(name, self.group, addresses, session_timeout_ms=CLIENT_SESSION_MS)
            output = str(self.folder / f"{name}.processed.jsonl")
            settings = {"client": client, "work": work, "output": output, "jars": jars}
            child = Child(name, "zkgroup.demo.coordinator", self.folder, settings)
            self.clients[name] = client, child
            self.children.append(child)
        self.headline = "Kafka's own clients join one group"
        self.log(f"{', '.join(names)} join group {self.group}")
        self._wait_until_shared("the clients share all partitions", self.clients)
        self.produce(len(self.lines) - HELD_BACK, RECORDS_PER_S)
        self.log(f"records are produced with acks=all, {RECORDS_PER_S} a second")
        self.until("records are committed", lambda: self.committed > len(self.lines) // 100)

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
        self.kill(self.clients[name][1], text, CLIENT_SESSION_MS)
        self._wait_until_shared("the others share its partitions", self._alive() - {name})

    def _alive(self) -> set[str]:
        return {name for name, (_, child) in self.clients.items() if not child.killed}

    def _pause_a_client(self, name: str) -> None:
        """Pauses a client past its session, and lets it go on: it learns that it is no member, and joins."""
        _, victim = self.clients[name]
        self.headline = f"{name} is paused past its session"
        owned, processed = self.coordinated_partitions(name), victim.processed
        self.until(
            "it has read from its partitions, or all that was produced is committed",
            lambda: victim.processed > processed or self.committed >= sum(self.ends.values()),
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

    def _stop_clients(self) -> CheckResult:
        """Lets the clients consume the rest and leave; checks that they committed everything."""
        self.headline = "the rest of the records"
        self.finish_producing(len(self.lines) - HELD_BACK)
        self.until("every record is committed", lambda: self.committed >= sum(self.ends.values()))
        self.until("every replica is in sync", lambda: self.cluster.is_whole)
        self.log(f"{self.committed:,} records are consumed and committed to the end", "good")
        self.verify("clients: ")
        self.headline = "the clients leave"
        self.end([child for _, child in self.clients.values()], "the clients")
        self.until(
            "the group is empty, and its marker is off",
            lambda: bool(self.coordinated and not self.coordinated.members and not self.coordinated.marked),
        )
        self.log("the clients have left; the group is empty", "good")
        self.handed_over = self.owned.offsets
        return self._check_handed_over()

    def _carry_on(self) -> None:
        """ZooKeeper members go on with the group, at the same offsets."""
        self.headline = "ZooKeeper members carry on"
        for name in MEMBERS:
            self.start_member(name)
        self.log(f"{' and '.join(MEMBERS)}, ZooKeeper members, join the same group")
        self.until("they share all partitions", lambda: self.is_shared_by(MEMBERS))
        self.finish_producing(len(self.lines))
        self.until("every record is committed", lambda: self.committed >= sum(self.ends.values()))
        self.log(f"they have consumed and committed the last {HELD_BACK:,} records", "good")
        self.verify("ZooKeeper members: ")
        self.stop_members()

    def _report(self, handed_over: CheckResult) -> CoordinatorDemoReport:
        """Stops the brokers, and checks their files, the members' files and ZooKeeper's log."""
        left = self.left_files(self.read_last())
        clients = self.outputs(child for _, child in self.clients.values())
        members = self.outputs(self.members)
        reduction = reduce(clients | members)
        stored = LoggedGroup(self.group, slot_of(self.group, len(self.slots)), TOPIC)
        for transaction in left.log:
            stored.apply(transaction)
        kept = [left.kept.get(number, ()) for number in range(PARTITIONS)]
        checks = [
            *check_result(kept, reduction),
            _check_starts(clients, reduction, stored),
            handed_over,
            _check_owners(stored),
            _check_commits(stored),
            _check_kinds(stored),
            self._check_carried_on(members),
            check_committed(kept, self.owned.offsets),
            checked("group verify is clean", faults=self.problems, proof="clients and ZooKeeper members"),
            self._check_history(left.cluster, stored),
        ]
        return CoordinatorDemoReport(
            clients=tuple(
                ClientResult(
                    member=name,
                    client="Java console consumer" if client == JAVA else client,
                    version=self.versions[client],
                    records=len(clients[name]),
                    ended="paused" if name == self.paused else "killed" if child.killed else "left",
                    commits_failed=len(child.reported["not_committed"]),
                )
                for name, (client, child) in self.clients.items()
            ),
            left_out=tuple(self.left_out),
            records=len(reduction.processed),
            twice=len(reduction.repeated),
            generations=len({one.generation for one in stored.generations}),
            coordinators=tuple(stored.coordinators),
            failover_s=self.failover_s,
            kept_generation=self.kept_generation,
            figures=left.cluster.figures,
            **self.common(checks),
        )

    def _check_handed_over(self) -> CheckResult:
        faults, lines = behind(self.handed_over, self.ends), len(self.acknowledged)
        total = sum(self.handed_over.values())
        text = f"{total:,} of {lines:,} records in {len(self.ends)} partitions"
        if total != lines:
            faults.append(f"{total:,} of {lines:,} records")
        statement = "the clients committed everything to its end"
        return checked(statement, faults=faults, proof=text, enough=bool(self.ends))

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
        acknowledged = len({one.number for one in self.acknowledged})
        if acknowledged != len(self.lines):
            faults.append(f"acknowledged: {acknowledged:,} of {len(self.lines):,}")
        text = f"{cluster.figures.transactions:,} transactions, {members.figures.records:,} events"
        text += ", no violation"
        enough = cluster.holds and members.holds
        return checked("the checker finds nothing", faults=faults, proof=text, enough=enough)

    def draw(self, width: int = 100, height: int = 40) -> RenderableType:
        """Brokers; the group with its coordinator, phase and generation; members of both kinds; progress."""
        clients = [(one, name, self.coordinated_partitions(name)) for name, (_, one) in self.clients.items()]
        members = [(one, f"{one.name} (ZooKeeper)", self.partitions_of(one)) for one in self.members]
        rows = [self._row(number, *one) for number, one in enumerate([*clients, *members])]
        produced, total = len(self.acknowledged), len(self.lines)
        cells = progress({"produced": produced, "committed": self.committed}, total, 20)
        cells.append(Text(f"lag {max(produced - self.committed, 0):,}"))
        parts: list[RenderableType] = [
            table(">broker,>pid,state,>leads,>slots,", [self._broker_row(n) for n in sorted(self.brokers)]),
            Text(),
            self._group(),
            table("member,>pid,process,>session,>records,>lag,partitions", rows),
            beside(cells),
        ]
        return frame(self, parts, len(self.brokers) + len(rows) + 5, width, height)

    def _broker_row(self, number: int) -> list[RenderableType]:
        process = self.brokers[number]
        roles = ["coordinator"] if self._coordinator() == number else []
        roles += ["controller"] if self.cluster.controller == number else []
        slots = sum(slot.leader == number for slot in self.slots)
        counts = (str(self.cluster.leads(number)), str(slots))
        role = Text(", ".join(roles), style="bold green")
        return [str(number), str(process.pid), state(process.state), *counts, role]

    def _group(self) -> Text:
        text = Text.assemble("group ", (self.group, "bold"))
        one = None if self.members else self.coordinated
        if self.members:
            return text.append(
                f"   {self.owned.state}", style="green" if self.owned.state == "stable" else "yellow"
            )
        if one is None:
            return text.append("   no member yet", style="yellow")
        if one.phase is None:
            text.append("   the coordinator does not answer", style="bold red")
        else:
            text.append(f"   {one.phase}", style="green" if one.phase == STABLE else "yellow")
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

    def _row(self, number: int, one: Child, name: str, partitions: Sequence[int]) -> list[RenderableType]:
        session_s = self.session_s(name)
        color = "dim" if one.ended else COLORS[number % len(COLORS)]
        lag = sum(max(self.ends.get(n, 0) - max(self.owned.offsets.get(n, 0), 0), 0) for n in partitions)
        return [
            Text(name, style=color),
            Text(str(one.pid), style="dim" if one.ended else ""),
            state(one.state),
            Text(
                "" if session_s is None else f"{session_s:.1f} s",
                style="bold red" if one.state in ("killed", "paused") else "",
            ),
            f"{one.processed:,}",
            f"{lag:,}" if partitions else "",
            Text(listed(partitions, " "), style=color),
        ]


def _check_starts(
    outputs: Mapping[str, Sequence[Processed]], reduction: Reduction, stored: LoggedGroup
) -> CheckResult:
    """Each client begins a partition at a committed offset, not below what earlier assignments committed."""
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
    repeated = sum(count - 1 for count in reduction.repeated.values())
    text = f"{repeated:,} twice; {len(starts)} starts, each at the committed offset"
    statement = "nothing twice but what was not committed"
    return checked(statement, faults=faults, proof=text, enough=bool(starts))


def _check_owners(stored: LoggedGroup) -> CheckResult:
    """No stored generation gives a partition to two members, and no number is given to two assignments."""
    faults = [
        f"generation {one.generation}: {number} belongs to {' and '.join(owners)}"
        for one in stored.generations
        for number, owners in sorted(one.owners.items())
        if len(owners) > 1
    ]
    for before, after in zip(stored.generations, stored.generations[1:], strict=False):
        if after.generation < before.generation:
            faults.append(f"generation {after.generation} after {before.generation}")
        elif after.generation == before.generation and after.owners != before.owners:
            faults.append(f"generation {after.generation} has two assignments")
    numbers = sorted({one.generation for one in stored.generations})
    text = f"{len(numbers)} generations, {numbers[0]} to {numbers[-1]}" if numbers else "no generation"
    enough = len(numbers) >= GENERATIONS_MIN
    statement = "no two members of a generation own one partition"
    return checked(statement, faults=faults, proof=text, enough=enough)


def _check_commits(stored: LoggedGroup) -> CheckResult:
    """Each stored commit is of the member that owns the partition in the generation stored last."""
    commits = [one for one in stored.commits if one.client is not None]
    faults = [
        f"zxid {one.zxid:#x}: {one.partition}:{one.offset} by {one.client or 'Java'}"
        for one in commits
        if (one.client or JAVA) not in one.owners
    ]
    text = f"{len(commits):,} commits of clients in ZooKeeper's log, all of owners"
    statement = "no commit of an old generation was accepted"
    return checked(statement, faults=faults, proof=text, enough=bool(commits))


def _check_kinds(stored: LoggedGroup) -> CheckResult:
    """The log's decision: no ZooKeeper consumer was registered while Kafka's protocol was marked."""
    mixed = [one for one in stored.violations if one.invariant == "S27"]
    text = f"{stored.registrations} ZooKeeper consumers, after the last client had left"
    enough = stored.registrations >= len(MEMBERS) and stored.markers > 0
    return checked("one kind of members at a time", faults=mixed, proof=text, enough=enough)
