"""`zkgroup demo coordinator`: clients of Kafka share a group, then ZooKeeper members go on with it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, cycle
from typing import Any, ClassVar

from rich.console import RenderableType
from rich.text import Text

from zkgroup.admin.coordinator import CoordinatedGroupDescription, SlotDescription
from zkgroup.coordinator.group_ids import slot_of
from zkgroup.demo import checks
from zkgroup.demo.checks import CheckResult, broken, history_faults, proved
from zkgroup.demo.cluster import CLUSTER_MIN, SESSION_MS, ClusterRun
from zkgroup.demo.flight_data import PARTITIONS, TOPIC, Processed, listed, reduce
from zkgroup.demo.kafka_clients import CONSOLE, JAVA, ClientWork, KafkaClient
from zkgroup.demo.processes import Child
from zkgroup.demo.screen import COLORS, Row, beside, frame, progress, state, table
from zkgroup.errors import NotFoundError
from zkgroup.history import ClusterReport
from zkgroup.history.coordinated_group import CoordinatedGroupChecker

BROKERS = (1, 2, 3)
MEMBERS = ("ada", "ben")  # the ZooKeeper consumers that carry on
CLIENTS_MIN = 3  # one is killed, one is paused: kafka-python joins again where other clients are missing
RECORDS_PER_S = 400  # speed of the producer, until the last fault is over
HELD_BACK = 2_000  # records that are produced when the ZooKeeper members have taken over the group
CLIENT_SESSION_MS = 6_000
STABLE = "Stable"
MEMBERS_MIN = {"claims": 1, "commits": 1, "deliveries": 1}
"""Least contents of the history of the ZooKeeper consumers."""
GENERATIONS_MIN = 4  # the first, without the killed client, without the paused one, with it again
_NOTHING: dict[str, Any] = dict.fromkeys(CoordinatedGroupDescription.__dataclass_fields__)
UNKNOWN = CoordinatedGroupDescription(**_NOTHING | {"members": ()})


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
    """Those of Kafka's clients, by name."""
    kinds: dict[str, KafkaClient] = field(default_factory=dict)
    coordinated: CoordinatedGroupDescription = UNKNOWN
    slots: tuple[SlotDescription, ...] = ()
    ends: dict[int, int] = field(default_factory=dict)
    """Partition to the next offset after the acknowledged records."""
    handed_over: Mapping[int, int] = field(default_factory=dict)
    """The offsets when the clients had left."""
    handover: CheckResult = field(init=False)
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
        if self.processes:
            with suppress(NotFoundError):  # no client has asked for a coordinator yet
                described = self.admin.describe_coordinator()
                self.slots = described.slots
                groups = {one.group: one for one in described.groups}
                self.coordinated = groups.get(self.group, self.coordinated)

    def play(self) -> None:
        self.headline = "three brokers and a topic"
        for broker in BROKERS:
            self.start_broker(broker)
        self.until("all brokers are registered", lambda: self.registered == {*BROKERS})
        self.log(f"the brokers are up; broker {self.controller} is controller", "good")
        self.create_topic()
        self._start_clients()
        self._kill_the_coordinator()
        first, second, *_ = (name for name in self.kinds if name != JAVA)
        self._kill_a_client(first)
        self._pause_a_client(second)
        self._stop_clients()
        self._carry_on()
        self.quiet_from_ms = self.ensemble.clock.wall_ms()
        self.read_last()

    def _start_clients(self) -> None:
        """All clients that are there join one group; then records are produced, so that each gets some."""
        for one in self.find_clients("Java console consumer"):
            self.kinds[JAVA if one.name == CONSOLE else one.name] = one
        further = [f"kafka-python-{n}" for n in range(2, CLIENTS_MIN - len(self.kinds) + 2)]
        self.kinds |= dict.fromkeys(further, self.kinds["kafka-python"])
        addresses = self.bootstrap()
        for name, kind in self.kinds.items():
            work = ClientWork(name, self.group, addresses, session_timeout_ms=CLIENT_SESSION_MS)
            child = self.processes[name] = self.start(name, "kafka_clients")
            child.send(client=kind.name, work=work, output=str(child.output))
        self.headline = "Kafka's own clients join one group"
        self.log(f"{', '.join(self.kinds)} join group {self.group}")
        self._wait_until_shared("the clients share all partitions", self.kinds)
        self.produce(len(self.lines) - HELD_BACK, RECORDS_PER_S)
        self.log(f"records are produced with acks=all, {RECORDS_PER_S} a second")
        self.until("records are committed", lambda: self.owned.committed > len(self.lines) // 100)

    def _wait_until_shared(self, what: str, names: Iterable[str]) -> None:
        """Waits until the group is stable, with exactly these members, and each has partitions."""
        wanted = set(names)

        def is_shared() -> bool:
            group, shares = self.coordinated, [self.coordinated_partitions(name) for name in wanted]
            return (
                group.state == STABLE
                and {one.client_id for one in group.members} == wanted
                and all(shares)
                and sorted(chain(*shares)) == [*range(PARTITIONS)]
            )

        self.until(what, is_shared)
        share = "1 member has" if len(wanted) == 1 else f"{len(wanted)} members share"
        self.log(f"generation {self.coordinated.generation}: {share} {PARTITIONS} partitions", "good")

    def coordinated_partitions(self, name: str) -> list[int]:
        """The partitions that are assigned to the client of this id, as the coordinator reports them."""
        own = [one.partitions or () for one in self.coordinated.members if one.client_id == name]
        return sorted(tp.partition for tp in chain(*own))

    def _kill_the_coordinator(self) -> None:
        """Kills the broker that coordinates the group; the members go on with the next one."""
        self.until("the group has a coordinator", lambda: self.coordinated.leader in BROKERS)
        victim, generation = self.coordinated.leader, self.coordinated.generation
        assert victim is not None
        leads = self.leads(victim)
        text = f"SIGKILL to broker {victim}, which coordinates {self.group} and leads {leads} partitions"
        killed_s = self.kill(self.brokers[victim], text, SESSION_MS, "the coordinator")
        self.refresh()
        ends = dict(self.ends)
        self.until(
            "another broker coordinates the group, and members commit there",
            lambda: (
                self.coordinated.leader not in (None, victim)
                and self.coordinated.phase == STABLE
                and all(self.owned.offsets.get(number, 0) >= end for number, end in ends.items())
            ),
        )
        self.failover_s = time.monotonic() - killed_s
        self.kept_generation = self.coordinated.generation == generation
        same = "the same generation" if self.kept_generation else "generation"
        text = f"broker {self.coordinated.leader} coordinates it after {self.failover_s:.1f} s"
        self.log(f"{text}, in {same} {self.coordinated.generation}", "good")
        self.log(f"broker {victim} starts again")
        self.start_broker(victim)

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
        owned, before = self.coordinated_partitions(name), self.owned.offsets

        def has_committed() -> bool:
            return all(self.owned.offsets.get(number, 0) > before.get(number, 0) for number in owned)

        self.until("it has committed, or all has", lambda: has_committed() or self._is_committed())
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
        self.until("every replica is in sync", self.is_whole)
        self.log(f"{self.owned.committed:,} records are consumed and committed to the end", "good")
        self.verify("clients: ")
        self.headline = "the clients leave"
        self.end(self.processes.values(), "the clients")
        what = "the group is empty, and its marker is off"
        self.until(what, lambda: not self.coordinated.members and not self.coordinated.marked)
        self.log("the clients have left; the group is empty", "good")
        self.handed_over = self.owned.offsets
        total, lines = sum(self.handed_over.values()), self.acknowledged
        faults = checks.behind(self.handed_over, self.ends)
        faults += [f"{total:,} of {lines:,} records"] if total != lines else []
        proof = f"{total:,} of {lines:,} records in {len(self.ends)} partitions"
        self.handover = proved("the clients committed everything to its end", proof, faults, bool(self.ends))

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
        clients, members = self.outputs(self.processes.values()), self.outputs(self.members)
        self.reduction = reduce(clients | members)
        self.clients = tuple(self._result(name, len(records)) for name, records in clients.items())
        stored = CoordinatedGroupChecker(self.group, slot_of(self.group, len(self.slots)), TOPIC, JAVA)
        stored.run(self.log_read)
        self.coordinators = tuple(stored.coordinators)
        kept = [self.values.get(number, ()) for number in range(PARTITIONS)]
        yield from checks.check_work(kept, self.reduction)
        yield self._check_starts(clients, stored)
        yield self.handover
        yield from self._check_stored(stored)
        yield self._check_carried_on([*chain(*members.values())])
        yield checks.check_committed(kept, self.owned.offsets)
        yield proved("group verify is clean", "clients and ZooKeeper members", self.problems)
        yield self._check_history(report, stored)

    def _check_stored(self, stored: CoordinatedGroupChecker) -> Iterator[CheckResult]:
        """By the group in ZooKeeper's log: its generations, commits and kinds of members."""
        found, numbers = stored.violations, sorted({one.number for one in stored.generations})
        self.generations = len(numbers)
        proof = f"{len(numbers)} generations, {numbers[0]} to {numbers[-1]}" if numbers else "no generation"
        statement = "no two members of a generation own one partition"
        yield proved(statement, proof, broken(found, "S23", "S24"), len(numbers) >= GENERATIONS_MIN)
        commits = sum(one.metadata is not None for one in stored.commits)
        proof = f"{commits:,} commits of clients in ZooKeeper's log, all of owners"
        yield proved("no commit of an old generation was accepted", proof, broken(found, "S25"), commits > 0)
        proof = f"{stored.registrations} ZooKeeper consumers, after the last client had left"
        enough = stored.registrations >= len(MEMBERS) and stored.markers > 0
        yield proved("one kind of members at a time", proof, broken(found, "S27"), enough)

    def _result(self, name: str, records: int) -> ClientResult:
        kind, child = self.kinds[name], self.processes[name]
        client = "Java console consumer" if name == JAVA else kind.name
        ended = "paused" if name == self.paused else "killed" if child.killed else "left"
        failed = len(child.reported["not_committed"])
        return ClientResult(name, client, kind.version, records, ended, failed)

    def _check_starts(
        self, outputs: Mapping[str, Sequence[Processed]], stored: CoordinatedGroupChecker
    ) -> CheckResult:
        """Each client begins a partition at a committed offset, not below what earlier ones committed."""
        starts: dict[tuple[int, int, str], int] = {}
        for member, records in outputs.items():
            for record in records:
                starts.setdefault((record.token, record.partition, member), record.offset)
        faults = []
        for (token, partition, member), first in sorted(starts.items()):
            own = [one for one in stored.commits if one.partition == partition and one.metadata is not None]
            before = max((one.offset for one in own if 0 < one.token < token), default=0)
            if first < before:
                faults.append(f"{member} began {partition} at {first}, committed was {before}")
            elif first and first not in {one.offset for one in own}:
                faults.append(f"{member} began {partition} at {first}, which was not committed")
        repeated = sum(count - 1 for count in self.reduction.repeated.values())
        proof = f"{repeated:,} twice; {len(starts)} starts, each at the committed offset"
        return proved("nothing twice but what was not committed", proof, faults, bool(starts))

    def _check_carried_on(self, records: Sequence[Processed]) -> CheckResult:
        """The ZooKeeper consumers began where the clients had stopped."""
        first: dict[int, int] = {}
        for one in sorted(records, key=lambda one: one.offset):
            first.setdefault(one.partition, one.offset)
        before, wrong = self.handed_over, sorted(first.items() - self.handed_over.items())
        faults = [f"{number} at {offset}, committed was {before.get(number)}" for number, offset in wrong]
        proof = f"{len(records):,} records by {' and '.join(MEMBERS)}, from the same offsets"
        return proved("ZooKeeper members carried on at the same offsets", proof, faults, bool(first))

    def _check_history(self, cluster: ClusterReport, stored: CoordinatedGroupChecker) -> CheckResult:
        """The history checkers' verdicts over ZooKeeper's log and the members' histories."""
        members = self.history()
        faults = [*history_faults(cluster, CLUSTER_MIN), *history_faults(members, MEMBERS_MIN)]
        faults += map(str, stored.violations)
        happened = {
            "commits of members": any(one.token for one in stored.commits),
            "commits of ZooKeeper members": any(one.metadata is None for one in stored.commits),
            "slots taken": stored.coordinators,
            "markers set": stored.markers,
        }
        faults += [f"{name}: none" for name, seen in happened.items() if not seen]
        acknowledged, wanted = len({one.number for one in self.deliveries}), len(self.lines)
        faults += [f"acknowledged: {acknowledged:,} of {wanted:,}"] if acknowledged != wanted else []
        transactions, events = cluster.figures.transactions, members.figures.records
        text = f"{transactions:,} transactions, {events:,} events, no violation"
        return proved("the checker finds nothing", text, faults, cluster.holds and members.holds)

    def draw(self, width: int = 100, height: int = 40) -> RenderableType:
        """Brokers; the group with its coordinator, phase and generation; members of both kinds; progress."""
        shown = [(one, name, self.coordinated_partitions(name)) for name, one in self.processes.items()]
        shown += [(one, f"{one.name} (ZooKeeper)", self.owned.of(one.name)) for one in self.members]
        rows = [self._row(color, *one) for color, one in zip(cycle(COLORS), shown, strict=False)]
        produced, committed = self.acknowledged, self.owned.committed
        cells = progress({"produced": produced, "committed": committed}, len(self.lines), 20)
        cells.append(f"lag {max(produced - committed, 0):,}")
        brokers = table(">broker,>pid,state,>leads,>slots,", map(self._broker_row, sorted(self.brokers)))
        members = table("member,>pid,process,>session,>records,>lag,partitions", rows)
        lines = len(self.brokers) + len(rows) + 5
        return frame(self, [brokers, Text(), self._group(), members, beside(cells)], lines, width, height)

    def _broker_row(self, number: int) -> Row:
        child, slots = self.brokers[number], sum(slot.leader == number for slot in self.slots)
        roles = ["coordinator"] if self.coordinated.leader == number else []
        roles += ["controller"] if self.controller == number else []
        role = (", ".join(roles), "bold green")
        return [number, child.pid, state(child.state), self.leads(number), slots, role]

    def _group(self) -> Text:
        one, text = self.coordinated, Text.assemble("group ", (self.group, "bold"), "   ")
        phase = self.owned.state if self.members else one.phase
        if phase is not None:
            text.append(phase, style="green" if phase in (STABLE, "stable") else "yellow")
        elif one is UNKNOWN:
            text.append("no member yet", style="yellow")
        else:
            text.append("the coordinator does not answer", style="bold red")
        if self.members:
            return text
        if one.phase_ends_in_ms is not None:
            text.append(f", ends in {one.phase_ends_in_ms / 1000:.1f} s", style="yellow")
        if one.leader is not None:
            text.append(f"   coordinator: broker {one.leader}")
        if one.generation is not None:
            text.append("   generation ").append(str(one.generation), style="bold")
        return text

    def session_s(self, name: str) -> float | None:
        """Returns the seconds until the coordinator removes a client that sends no heartbeat."""
        found = [one.session_expires_in_ms for one in self.coordinated.members if one.client_id == name]
        return found[0] / 1000 if found and found[0] is not None else None

    def _row(self, color: str, one: Child, name: str, partitions: Sequence[int]) -> Row:
        session_s, faded = self.session_s(name), "dim" if one.ended else ""
        lag = sum(max(self.ends.get(n, 0) - max(self.owned.offsets.get(n, 0), 0), 0) for n in partitions)
        time_left = "" if session_s is None else f"{session_s:.1f} s"
        session = (time_left, "bold red" if one.state in ("killed", "paused") else "")
        process: Row = [(name, faded or color), (one.pid, faded), state(one.state), session]
        work: Row = [f"{one.processed:,}", f"{lag:,}" if partitions else ""]
        return [*process, *work, (listed(partitions, " "), faded or color)]
