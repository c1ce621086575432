"""Findings about replicas and their leaders, and about brokers that come and go."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise, zip_longest
from typing import Final

from zkgroup.audit.findings import cluster
from zkgroup.audit.findings.rules import Bounds, Finding, KeyRows, Rule, Severity, runs
from zkgroup.audit.inputs.events import BY_TOPIC, REPLICATION, Key
from zkgroup.audit.inputs.facts import Facts, life_at
from zkgroup.model import TopicPartition
from zkgroup.model.text import counted, duration_text, named
from zkgroup.znodes.brokers import NO_LEADER, PartitionState
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC
from zkgroup.znodes.paths import path_kind


def _joined(
    stretches: Iterable[cluster.ViewStretch],
) -> Iterator[tuple[cluster.ChangeStamp, cluster.ChangeStamp | None, Sequence[cluster.ViewStretch]]]:
    """Yields the times that stretches cover, one for those that meet: from, to, and its stretches."""
    for run in runs(stretches, lambda one, following: one.to == following.since):
        yield run[0].since, run[-1].to, run


def _faults(
    stretches: Iterable[cluster.ViewStretch], fault: Callable[[cluster.PartitionView], object]
) -> Iterator[tuple[cluster.ChangeStamp, cluster.ChangeStamp | None, Sequence[cluster.ViewStretch]]]:
    return _joined(stretch for stretch in stretches if fault(stretch.view))


@Rule(
    severity="error",
    question="Which partitions were led by a broker that is not in their ISR?",
    needs=("tree",),
    act="No controller or leader of Kafka writes such a state: find the session that did. Restart the broker"
    " that leads, or have the leader elected again (`zkgroup elect preferred`), so that the state is written"
    " anew.",
    keys=BY_TOPIC,
)
def leader_not_in_isr(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """A partition led by a broker that its state does not count as in sync.

    The time is from the transaction that left it so to the one that ended it.
    """
    for partition, stretches in rows.once(cluster.partition_stretches, key, facts):
        for since, to, run in _faults(stretches, _leader_outside):
            detail = (
                f"{_leader_outside(run[0].view)} for {duration_text(cluster.lasted_ms(since, to, facts))}"
            )
            yield cluster.change_finding("leader_not_in_isr", "error", since, to, detail, key[0], partition)


def _leader_outside(view: cluster.PartitionView) -> str | None:
    state = view.state
    if state is None or state.leader == NO_LEADER or state.leader in state.isr:
        return None
    return f"leader {state.leader} is not in the ISR {cluster.brokers_text(state.isr)}"


@Rule(
    severity="error",
    question="Which partitions had brokers in their ISR that their replica list does not name?",
    needs=("tree",),
    act="A warning came with a reassignment and ends with it. An error stays: a replica in no replica list"
    " can be elected. Find the session that wrote the state or the replica list, then reassign the partition"
    " to the replicas that it shall have.",
    keys=BY_TOPIC,
)
def isr_outside_assignment(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """A broker in the ISR of a partition whose replica list does not name it.

    A warning where it began during a move and ended, or the move still stands; an error otherwise. A value
    that cannot be read is not known, and contradicts nothing.
    """
    for partition, stretches in rows.once(cluster.partition_stretches, key, facts):
        of_partition = TopicPartition(key[0], partition)
        for since, to, run in _faults(stretches, _isr_outside):
            moves = run[0].view.is_moving or cluster.is_requested(facts, of_partition, since.zxid)
            if to is None:
                moves &= run[-1].view.is_moving or cluster.is_requested(facts, of_partition, facts.end_zxid)
            detail = f"{_isr_outside(run[0].view)} for {duration_text(cluster.lasted_ms(since, to, facts))}"
            detail += "; it is being moved" if moves else ""
            severity: Severity = "warning" if moves else "error"
            yield cluster.change_finding("isr_outside_assignment", severity, since, to, detail, *of_partition)


def _isr_outside(view: cluster.PartitionView) -> str | None:
    if view.state is None or view.replicas is None or view.is_deleting:
        return None
    outside = [broker for broker in view.state.isr if broker not in view.replicas]
    listed = cluster.brokers_text(view.replicas)
    return (
        f"{cluster.brokers_text(outside)} in the ISR, not in the replica list {listed}" if outside else None
    )


@Rule(
    question="Which partitions had fewer replicas in sync than they should, without whom, and how long; and"
    " how much of it was whose?",
    act="Look at the brokers named: were they down, or too slow to follow? The row of a broker has"
    " the time in which it was missing anywhere: begin with the largest. A partition that stays so after a"
    " reassignment waits for a replica that no broker creates; reassign it again.",
    keys=REPLICATION,
    bounds={"least_ms": 10_000},
)
def under_replicated(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """A partition whose ISR lacks some of its replicas, for how long, and the part of each broker in that.

    Reported where it lasts `least_ms` or more, with the time that each broker was missing; and once for each
    broker, with the time in which it was missing in any of these. Replicas that a move adds are missing until
    they follow. A topic that is being deleted counts no further than to the request.
    """
    of_broker: dict[int, list[tuple[TopicPartition, cluster.ViewStretch]]] = defaultdict(list)
    for of_partition, stretches in rows.once(cluster.all_stretches, key, facts):
        for since, to, run in _faults(stretches, _missing):
            if cluster.lasted_ms(since, to, facts) < bounds["least_ms"]:
                continue
            away_ms: dict[int, int] = defaultdict(int)
            for stretch in run:
                for broker in _missing(stretch.view):
                    away_ms[broker] += cluster.lasted_ms(stretch.since, stretch.to, facts)
                    of_broker[broker].append((of_partition, stretch))
            away = ", ".join(f"{broker} for {duration_text(ms)}" for broker, ms in sorted(away_ms.items()))
            detail = f"replicas {cluster.brokers_text(run[0].view.replicas or ())}, not in sync: {away}"
            yield cluster.change_finding("under_replicated", "warning", since, to, detail, *of_partition)
    for broker, away_from in sorted(of_broker.items()):
        partitions = {of_partition for of_partition, _ in away_from}
        topics = {of_partition.topic for of_partition in partitions}
        away_in = [stretch for _, stretch in away_from]
        ends = [stretch.to for stretch in away_in if stretch.to is not None]
        until = max(ends) if len(ends) == len(away_in) else None
        detail = (
            f"broker {broker} was not in sync in {counted(len(partitions), 'partition')}"
            f" of {counted(len(topics), 'topic')}, for {duration_text(_somewhere_ms(away_in, facts))}"
        )
        since = min(stretch.since for stretch in away_in)
        yield Finding.between("under_replicated", "warning", since, until, detail)


def _missing(view: cluster.PartitionView) -> list[int]:
    if view.state is None or view.replicas is None or view.is_deleting:
        return []
    return [broker for broker in view.replicas if broker not in view.state.isr]


def _somewhere_ms(stretches: Sequence[cluster.ViewStretch], facts: Facts) -> int:
    """The time that these stretches cover together: where several do, it counts once."""
    spans = sorted((each.since.time_ms, (each.to.time_ms if each.to else facts.end_ms)) for each in stretches)
    total, counted_to = 0, spans[0][0]
    for since, until in spans:
        total += max(until - max(since, counted_to), 0)
        counted_to = max(counted_to, until)
    return total


@Rule(
    severity="error",
    question="Which partitions had no leader, or one whose broker was gone, and how long?",
    act="A warning is over and was short. An error lasts, or lasted for long: start a broker of the replica"
    " list, the last one in sync first. Only if that one is lost for good, and its records with it,"
    " `zkgroup elect unclean` makes another lead. Topics that are being deleted are left out.",
    keys=BY_TOPIC,
    bounds={"election_ms": 1_000, "error_ms": 10_000},
)
def offline_partition(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """A partition without a leader: its state names none, or one that was not registered.

    A leader whose registration ended counts from that end on, and not at all where another is elected, or
    it is back, before `election_ms`. An error where it lasts to the end of the history, or lasted longer
    than `error_ms`; a warning otherwise. A topic that is being deleted counts no further than to the
    request.
    """
    for partition, stretches in rows.once(cluster.partition_stretches, key, facts):
        offline = (part for stretch in stretches for part in _offline(stretch, facts))
        for since, to, run in _joined(offline):
            view, ms = run[0].view, cluster.lasted_ms(since, to, facts)
            # Some state in that time named no leader, so more was wrong than the end of a registration.
            was_leaderless = any(_leader(piece.view) == NO_LEADER for piece in run)
            if ms < bounds["election_ms"] and not was_leaderless and facts.has_log:
                continue
            severity: Severity = "error" if to is None or ms > bounds["error_ms"] else "warning"
            detail = f"leader {_leader(view)} was not registered"
            if _leader(view) == NO_LEADER:
                detail = f"no leader, replicas {cluster.brokers_text(view.replicas or ())}"
            if facts.has_log or was_leaderless:
                detail += f", offline for {duration_text(ms)}"
            yield cluster.change_finding("offline_partition", severity, since, to, detail, key[0], partition)


def _leader(view: cluster.PartitionView) -> int | None:
    return None if view.state is None else view.state.leader


def _offline(stretch: cluster.ViewStretch, facts: Facts) -> Iterator[cluster.ViewStretch]:
    since, to, view = stretch
    if view.state is None or view.is_deleting:
        return
    if view.state.leader == NO_LEADER:
        yield stretch
        return
    # A snapshot says when a state was written, not when its leader went.
    start = cluster.history_start(facts)
    for gone, back in cluster.absences(
        facts, view.state.leader, since if since.zxid > start.zxid else start, to
    ):
        yield cluster.ViewStretch(gone, back, view)


@Rule(
    severity="error",
    question="Which leaders were elected although they were not in sync?",
    act="Records that only the in-sync replicas had are lost, and offsets may mean other records than before:"
    " check the consumers of the topic. Set `unclean.leader.election.enable=false` for topics that must not"
    " lose records (`zkgroup config alter --topic T --set ... --execute`); at 0.8.2.2 the default is true.",
    keys=BY_TOPIC,
)
def unclean_election(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """A leader that was not in sync when it was elected: records that only the others had are lost.

    Compared with the last ISR that was not empty, in the same life of the partition: a controller of 0.8.2.2
    writes an empty one, and the last replica of it may come back. Slots of zkgroup's group coordinators have
    empty logs, so any replica of them may lead.
    """
    slots_zxid = facts.slots_zxid if key[0] == OFFSETS_TOPIC else None
    for partition, stretches in rows.once(cluster.partition_stretches, key, facts):
        life, in_sync = 0, tuple[int, ...]()  # those of the last state with an ISR that was not empty
        led_before: int | None = None
        for at, _, view in stretches:
            before, led_before = led_before, _leader(view)
            if view.state is None or (slots_zxid is not None and at.zxid >= slots_zxid):
                continue
            leader = view.state.leader
            if life == view.life and leader not in (NO_LEADER, before, *in_sync):
                detail = f"broker {leader} leads, in sync were {cluster.brokers_text(in_sync)}"
                yield cluster.change_finding("unclean_election", "error", at, at, detail, key[0], partition)
            if view.state.isr:
                life, in_sync = view.life, view.state.isr


@Rule(
    severity="error",
    question="Which partitions changed their leader without a new leader epoch, or went back in it?",
    act="Brokers obey only a higher leader epoch, so this state is not what they do: find the session that"
    " wrote it, and let the controller elect again (`zkgroup elect preferred`, or a restart of the leader).",
    keys=BY_TOPIC,
)
def leader_epoch_not_rising(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """A leader epoch that fell, or stayed while the leader changed, in one life of a partition."""
    for partition, stretches in rows.once(cluster.partition_stretches, key, facts):
        for (_, _, before), (at, _, after) in pairwise(stretches):
            was, now = before.state, after.state
            if was is None or now is None or before.life != after.life:
                continue
            if (detail := epoch_fault(was, now)) is not None:
                yield cluster.change_finding(
                    "leader_epoch_not_rising", "error", at, at, detail, key[0], partition
                )


def epoch_fault(was: PartitionState, now: PartitionState) -> str | None:
    """What is wrong with the leader epoch of a state, in words; None where nothing is."""
    if now.leader_epoch < was.leader_epoch:
        return f"leader epoch fell from {was.leader_epoch} to {now.leader_epoch}"
    if now.leader != was.leader and now.leader_epoch == was.leader_epoch:
        return f"leader {was.leader} became {now.leader} within leader epoch {now.leader_epoch}"
    return None


@Rule(
    question="Which replicas left the ISR and were back within a minute, though their broker stayed up?",
    act="The broker named follows too slowly now and then: check its pauses, its disks, its network and"
    " `replica.lag.time.max.ms`. Each pair costs two writes of the state and, with acks=all, a wait.",
    keys=BY_TOPIC,
    bounds={"within_ms": 60_000, "pairs": 1},
)
def isr_flapping(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """Replicas that leave the ISR and are back within a minute while their broker stays registered.

    A broker that was registered anew in between is `broker_flapping`. Pairs of a shrink and an expansion no
    more than `within_ms` apart are one row, which is reported if it has at least `pairs` of them.
    """
    within_ms = bounds["within_ms"]
    for partition, stretches in rows.once(cluster.partition_stretches, key, facts):
        for broker, flaps in _isr_flaps(stretches, facts, within_ms).items():
            for run in runs(flaps, lambda one, following: following[0].time_ms - one[1].time_ms <= within_ms):
                if len(run) >= bounds["pairs"]:
                    times = "once" if len(run) == 1 else f"{len(run)} times"
                    away = duration_text(sum(cluster.lasted_ms(left, back, facts) for left, back in run))
                    detail = f"broker {broker} left the ISR and came back {times}, away for {away}"
                    ends = run[0][0], run[-1][1]
                    yield cluster.change_finding("isr_flapping", "warning", *ends, detail, key[0], partition)


def _isr_flaps(
    stretches: Sequence[cluster.ViewStretch], facts: Facts, within_ms: float
) -> dict[int, list[tuple[cluster.ChangeStamp, cluster.ChangeStamp]]]:
    """The changes by which each broker left the ISR and soon came back, without a start in between."""
    left: dict[int, cluster.ChangeStamp] = {}
    flaps: dict[int, list[tuple[cluster.ChangeStamp, cluster.ChangeStamp]]] = defaultdict(list)
    for (_, _, before), (at, _, after) in pairwise(stretches):
        if before.life != after.life:
            continue
        if after.replicas is not None:  # a broker that a move takes off the replica list was not too slow
            left = {broker: since for broker, since in left.items() if broker in after.replicas}
        if before.state is None or after.state is None:
            continue
        left |= dict.fromkeys(set(before.state.isr) - set(after.state.isr), at)
        for broker in set(after.state.isr) - set(before.state.isr):
            since = left.pop(broker, None)
            if since is not None and at.time_ms - since.time_ms <= within_ms:
                life = life_at(facts.brokers.get(str(broker), ()), at.zxid)
                if life is None or life.from_zxid <= since.zxid:
                    flaps[broker].append((since, at))
    return flaps


_NAMED_MAX: Final = 5


@Rule(
    question="Which brokers were registered for a short time only, how long were they away, and what had"
    " they led?",
    act="Look at the broker's own log and its pauses at that time. Sessions that expire again and again mean"
    " that `zookeeper.session.timeout.ms` is shorter than its longest pause, or a network that loses pings.",
    keys=REPLICATION,
    bounds={"short_ms": 300_000},
)
def broker_flapping(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """Registrations of brokers that did not last, the time without the broker, and the topics that it led.

    Each registration that ended within `short_ms` is reported, from its end to the next one, with the
    topics that had a partition whose state named the broker as leader while it was registered.
    """
    led = _led(rows)
    for broker, lives in sorted(facts.brokers.items()):
        for life, following in zip_longest(lives, lives[1:]):
            down, back = cluster.end_of(life), cluster.begin_of(following) if following else None
            if down is None or life.ended_by is None:
                continue
            up_ms = cluster.lasted_ms(cluster.begin_of(life), down, facts)
            if up_ms < bounds["short_ms"]:
                away = f"away for {duration_text(cluster.lasted_ms(down, back, facts))}"
                ending = f"{cluster.ending_text(facts, life)}, {away}{'' if back else ' and not back'}"
                lived = f"was up for {duration_text(up_ms)} only"
                detail = f"broker {broker} {lived}, {ending}; {_led_text(led[broker, down.zxid])}"
                session = life.session or None
                yield Finding.between("broker_flapping", "warning", down, back, detail, session=session)


def _led(rows: KeyRows) -> dict[tuple[str, int], set[TopicPartition]]:
    """The partitions that each registration led, by broker and the zxid at which it ended."""
    leaders: dict[TopicPartition, str] = {}
    leads: dict[str, set[TopicPartition]] = defaultdict(set)
    led: dict[str, set[TopicPartition]] = defaultdict(set)
    found: dict[tuple[str, int], set[TopicPartition]] = {}
    for event in rows:
        place = path_kind(event.path)
        if place.kind == "broker":
            if event.op == "create":
                led[place.name] = set(leads[place.name])
            elif event.op == "delete":
                found[place.name, event.zxid] = led.pop(place.name, set())
        elif place.kind == "partition_state" and event.op in cluster.CHANGES:
            partition = TopicPartition(place.name, place.partition)
            leads[leaders.pop(partition, "")].discard(partition)
            state = None if event.op == "delete" else cluster.state_of(event.path, event.data)
            if state is not None:
                leader = leaders[partition] = str(state.leader)
                leads[leader].add(partition)
                led[leader].add(partition)
    return found


def _led_text(led: set[TopicPartition]) -> str:
    if not led:
        return "it led nothing"
    topics = sorted({each.topic for each in led})
    return f"it led {counted(len(led), 'partition')} of {named(topics, _NAMED_MAX)}"


@Rule(
    question="Which brokers lead fewer partitions than they are the first replica of, at the end?",
    needs=("tree",),
    act="`zkgroup elect preferred` brings leaders back to the first replica, once that is in sync. A broker"
    " that is not registered has to be started first, or its partitions reassigned.",
    keys=REPLICATION,
    bounds={"share": 0.1},
)
def preferred_leader_imbalance(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """Brokers whose partitions are led by others, so that load is not where the replica lists put it.

    A broker is reported if, at the end of the history, more than `share` of its partitions (those whose
    replica list begins with it) are led by another broker or by none.
    """
    all_of: Counter[int] = Counter()
    away: Counter[int] = Counter()
    for _, stretches in rows.once(cluster.all_stretches, key, facts):
        last = stretches[-1].view
        if last.state is not None and last.replicas and not last.is_deleting:
            all_of[last.replicas[0]] += 1
            away[last.replicas[0]] += last.state.leader != last.replicas[0]
    for broker, count in sorted(all_of.items()):
        share = away[broker] / count
        if share > bounds["share"]:
            lives = facts.brokers.get(str(broker), ())
            is_up = bool(lives) and lives[-1].to_zxid is None
            detail = (
                f"broker {broker} does not lead {away[broker]} of {count} partitions ({share:.0%})"
                f" that it should{'' if is_up else '; it is not registered'}"
            )
            end = cluster.ChangeStamp(facts.end_zxid, facts.end_ms)
            yield Finding.between("preferred_leader_imbalance", "warning", end, None, detail)
