"""One round: starts a cluster, runs slots of faults and operations, waits for rest, checks the invariants."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.programs.chaos.cluster import ENTRY, RECORDS, ChaosCluster
from tests.programs.chaos.faults import End, Faults
from tests.programs.chaos.operations import Operations
from tests.programs.chaos.producer import Produced, kept
from tests.programs.chaos.readers import Readers
from tests.programs.chaos.schedule import Slot
from tests.programs.on_servers import comes_true, hold
from tests.waiting import PATIENCE_S, eventually
from zkgroup.errors import ZkGroupError
from zkgroup.history import (
    ClusterOptions,
    ClusterReport,
    HistoryRecord,
    Report,
    ServerTransaction,
    Violation,
    check_cluster,
    read_transactions,
)
from zkgroup.model import TopicPartition
from zkgroup.testing.proxies import PeerLinks
from zkgroup.znodes.brokers import BrokerRegistration, broker_ids_path
from zkgroup.znodes.controller import ControllerRegistration
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

BETWEEN_S = 30.0
"""Longest wait for a controller between two slots; then the next one begins all the same."""

Say = Callable[[str], None]


@dataclass(slots=True)
class Round:
    """The events of a round, and the errors that it found."""

    seed: int
    wrong: list[str] = field(default_factory=list)
    figures: Counter[str] = field(default_factory=Counter)
    bitten: Counter[str] = field(default_factory=Counter)
    report: ClusterReport | None = None
    group: Report | None = None
    """Of the consumers."""
    rest_s: float = 0.0
    """From the end of the faults until all was done, led and in sync."""


def run_round(
    zookeeper: EmbeddedZooKeeper,
    links: PeerLinks,
    home: Path,
    seed: int,
    slots: Sequence[Slot],
    *,
    calm_s: float = 3.0,
    entry: Sequence[str] = ENTRY,
    say: Say = lambda _: None,
) -> Round:
    """Runs a schedule on running servers with these links, and checks the invariants.

    `calm_s`: how long the cluster is watched at rest: no other broker may become controller (L6).
    `entry`: the arguments with which Python is started as a broker.
    """
    chroot = f"/chaos-{seed}-{time.monotonic_ns()}"
    zookeeper.create_chroot(chroot)
    home.mkdir(parents=True, exist_ok=True)
    done = Round(seed)
    with ChaosCluster(zookeeper, links, home, chroot, entry) as cluster:
        operations = Operations(cluster)
        faults = Faults(cluster, operations)
        try:
            _play(cluster, operations, faults, slots, done, calm_s, say)
        except (AssertionError, ZkGroupError) as error:
            done.wrong.append(f"{type(error).__name__}: {error}")
            cluster.heal()
        finally:
            done.bitten += faults.bitten
            done.figures.update({f"done {name}": count for name, count in operations.done.items()})
            done.figures.update({f"refused {name}": count for name, count in operations.refused.items()})
        done.wrong += [why for node in cluster.nodes.values() for why in node.died]
        done.figures["roles"] = sum(len(node.events) for node in cluster.nodes.values())
    return done


def _play(
    cluster: ChaosCluster,
    operations: Operations,
    faults: Faults,
    slots: Sequence[Slot],
    done: Round,
    calm_s: float,
    say: Say,
) -> None:
    cluster.start_all()
    eventually(cluster.controller, what="a controller")
    operations.begin()
    cluster.rest()
    with Produced(cluster) as produced, Readers(cluster) as readers:
        for number, slot in enumerate(slots):
            say(f"seed {done.seed} slot {number}: {slot} {[name for name, _ in slot.operations]}")
            readers.begin(*slot.reader)
            _slot(cluster, operations, faults, slot)
            readers.end()
        cluster.heal()
        quiet_from_ms = int(time.time() * 1000)
        for node in cluster.nodes.values():
            node.start()
        done.rest_s = cluster.rest()
        say(f"seed {done.seed}: at rest after {done.rest_s:.1f} s")
        _watch(cluster, calm_s)
        produced.stop()
        readers.stop()
    done.wrong += readers.wrong
    done.wrong += [f"records were not acknowledged: {why}" for why in produced.trouble]
    _check(cluster, produced, readers, quiet_from_ms, done, faults.held)


def _slot(cluster: ChaosCluster, operations: Operations, faults: Faults, slot: Slot) -> None:
    """Runs two faults that overlap: the first one ends first, unless it lasts longer."""
    todo = iter(slot.operations)
    ends: list[tuple[float, End]] = []
    operations.do(*next(todo))
    for fault, gap_ms in ((slot.first, slot.gap_ms), (slot.second, 0)):
        ends.append((fault.hold_ms / 1000, faults.begin(fault)))
        if gap_ms:
            operations.do(*next(todo))
            hold(gap_ms / 1000)
    began_s = time.monotonic()
    for operation in todo:
        operations.do(*operation)
    for hold_s, end in sorted(ends, key=lambda each: each[0]):
        hold(max(0.0, began_s + hold_s - time.monotonic()))
        end()
    comes_true(lambda: cluster.controller() is not None, BETWEEN_S)


def _watch(cluster: ChaosCluster, calm_s: float) -> None:
    """Raises AssertionError where another broker becomes controller.

    A follower may still leave the ISR and return, where a slow machine delays its fetches for a moment.
    """
    active, until_s = cluster.controller(), time.monotonic() + calm_s
    while time.monotonic() < until_s:
        if (found := cluster.controller()) != active:
            raise AssertionError(f"no longer at rest: {found} is controller after {active}; {cluster.told()}")
        hold(0.2)


def _check(
    cluster: ChaosCluster,
    produced: Produced,
    readers: Readers,
    quiet_from_ms: int,
    done: Round,
    held: Collection[int],
) -> None:
    """Stops the brokers one after the other, so that their files are complete, then checks all logs."""
    states = cluster.states()
    leaders = {
        tp: (state.leader, cluster.nodes[state.leader].data)
        for tp, state in states.items()
        if tp.topic == RECORDS and state is not None
    }
    folders = [server.folder / "version-2" for server in cluster.zookeeper.servers]
    log = read_transactions(folders, cluster.chroot)
    for node in cluster.nodes.values():
        node.ask_to_stop()
    for node in cluster.nodes.values():
        if (code := node.wait_stopped()) != 0:
            done.wrong.append(f"broker {node.broker} ended with code {code} when it was asked to stop")
    records = [*produced.records(leaders), *_roles(cluster)]
    options = ClusterOptions(
        quiet_from_ms=quiet_from_ms,
        takeover_ms=int(PATIENCE_S * 1000),
        recovery_ms=int(PATIENCE_S * 1000),
        same_process=_processes(log),
    )
    report = check_cluster(log, records, options)
    done.report, done.group = report, readers.check(log)
    done.wrong += [f"group: {each}" for each in (*done.group.violations, *done.group.damage)]
    stillborn = cluster.stillborn(states)
    done.figures["stillborn partitions"] = len(stillborn)
    undone = [each for each in report.violations if _is_about(each, stillborn)]
    done.wrong += [str(each) for each in (*report.violations, *report.damage) if each not in undone]
    done.figures["unacknowledged"] = len(produced.failed)
    done.figures["writes refused as the epoch was another's"] = sum(map(_is_fenced, log))
    arrived = [transaction for transaction in log if transaction.zxid in held]
    done.figures["held writes refused"] = sum(map(_is_fenced, arrived))
    done.figures["held writes accepted"] = sum(each.refusal is None for each in arrived)
    if not (
        report.figures.elections and report.figures.governed_writes and report.figures.acknowledged_records
    ):
        done.wrong.append(f"nothing happened that could prove anything: {report.figures}")
    for tp, (broker, folder) in leaders.items():
        for other in states[tp].isr:  # type: ignore[union-attr]
            theirs = kept(cluster.nodes[other].data, tp)
            if theirs != kept(folder, tp):
                done.wrong.append(f"{tp}: {other} has other records than its leader {broker}")


def _is_about(violation: Violation, stillborn: Collection[TopicPartition]) -> bool:
    """Whether the violation says only that one of these has no leader and its move does not advance."""
    return violation.invariant == "L7" and any(
        violation.topic_partition == each or violation.detail.startswith(f"{each} ") for each in stillborn
    )


def _is_fenced(transaction: ServerTransaction) -> bool:
    """Whether the fence refused it: the log has the operations before the refused one: the first check."""
    before = [change.path for change in transaction.changes]
    return transaction.refusal is not None and before == [ControllerRegistration.path()]


def _processes(log: Sequence[ServerTransaction]) -> list[set[int]]:
    """The sessions of each process: every process listens on a port of its own."""
    found: defaultdict[tuple[str, int | None], set[int]] = defaultdict(set)
    for transaction in log:
        for change in transaction.changes if transaction.refusal is None else ():
            if change.action == "create" and change.path.startswith(f"{broker_ids_path()}/"):
                told = BrokerRegistration.decode(change.path, change.data)
                found[change.path, told.port].add(transaction.session)
    return list(found.values())


def _roles(cluster: ChaosCluster) -> list[HistoryRecord]:
    """Which broker led the records' partitions in which leader epoch, from the brokers' own events."""
    made: list[HistoryRecord] = []
    for node in cluster.nodes.values():
        for event in node.events:
            if event.get("event") == "leader" and event["topic"] == RECORDS:
                tp = TopicPartition(event["topic"], event["partition"])
                fields = {
                    "broker": node.broker,
                    "topic": tp.topic,
                    "partition": tp.partition,
                    "leader": node.broker,
                    "leader_epoch": event["leader_epoch"],
                }
                made.append(
                    HistoryRecord(0, len(made) + 1, 0, f"broker-{node.broker}", None, "role.taken", fields)
                )
    return made
