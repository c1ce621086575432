"""Elections, by a request to the controller: preferred ones and unclean ones.

A preferred election gives a partition back to its first replica. In an unclean one a live replica leads
although it may lack records; only a controller of zkgroup has such a request (leading Kafka brokers, recipes
15). Kafka has a setting before 2.4 and a call of its brokers' own API from then on, so there the request is
refused, with what to do instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from zkgroup.admin.change import AdminChange, ChangePlan
from zkgroup.admin.cluster.brokers import (
    held_topics,
    is_controller_only,
    notes_on_unreadable,
    partitions_of,
    states_of,
    unhosted_topics,
)
from zkgroup.admin.cluster.controller import (
    ZKGROUP_VERSION,
    ControllerInfo,
    controller_to_ask,
    notes_on_requests,
    read_controller_info,
)
from zkgroup.admin.guards import no_partitions_error, read_back, write
from zkgroup.errors import (
    ConflictError,
    CorruptZnodeError,
    OperationRefusedError,
    OutcomeUnknownError,
    PartlyDoneError,
    RefusedError,
)
from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.snapshot import decode_or_error
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import Check, Create
from zkgroup.model.text import counted, named
from zkgroup.znodes.admin_requests import (
    PartitionVerdict,
    PreferredElection,
    UncleanElection,
    UncleanElectionDone,
    admin_path,
    delete_topics_path,
)
from zkgroup.znodes.brokers import PartitionState
from zkgroup.znodes.controller import ControllerRegistration, controller_state_path
from zkgroup.znodes.paths import zkgroup_path

POLL_S = 0.5
"""Seconds between two reads at a request."""

ELECTS, LEADS = "elects", "leads"
"""Says what a preferred election does to a partition; others say why it stays: `not_live`, ..."""
UNCLEAN, CLEAN, LED = "unclean", "clean", "led"
"""Says what an unclean election would come to; the other outcomes say why nothing can."""
UNREADABLE, BEING_DELETED, UNHOSTED = "unreadable", "being_deleted", "unhosted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One partition and what an election makes of it."""

    topic_partition: TopicPartition
    """The partition."""
    replicas: tuple[int, ...]
    """Its replica list, the preferred leader first."""
    leader: int | None
    """-1: none; None: no controller has written a state yet, or it cannot be read."""
    isr: tuple[int, ...] | None
    """Its in-sync replicas; None if there is no state or it cannot be read."""
    live: tuple[int, ...]
    """Replicas whose broker is registered, in the order in which one is chosen."""
    outcome: str
    """Of a preferred election `elects`, `leads` (already) or `not_in_isr`; of an unclean one `unclean`,
    `clean` where a replica in sync is live, or `led` where the leader is. Of both `not_live`, `no_state`,
    `unreadable`, `being_deleted`, `unhosted`."""

    @property
    def preferred(self) -> int | None:
        """Its first replica; None where the list is empty."""
        return self.replicas[0] if self.replicas else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionPlan(ChangePlan):
    """The plan of a change: nothing has been asked for yet."""

    rows: tuple[Candidate, ...]
    """Every partition that was asked for, by topic and number."""
    unreadable: tuple[CorruptZnodeError, ...] = ()
    """Topics of which not even the partitions are known, where all are meant."""

    @property
    def wanted(self) -> tuple[TopicPartition, ...]:
        """The partitions to ask for: those that would get a leader, or another one."""
        return tuple(row.topic_partition for row in self.rows if row.outcome in (ELECTS, UNCLEAN, CLEAN))

    @property
    def losing(self) -> tuple[TopicPartition, ...]:
        """Those of them that may lose acknowledged records."""
        return tuple(row.topic_partition for row in self.rows if row.outcome == UNCLEAN)


def plan_preferred(ensemble: Ensemble, partitions: Sequence[TopicPartition] | None = None) -> ElectionPlan:
    """Reads leaders and ISRs of these partitions, or of all (None) that brokers host.

    Controllers before 2.2 leave a request with an unknown partition for ever, so there must be none.

    Raises NotFoundError for a partition that does not exist, CorruptZnodeError for one whose topic cannot be
    read, ConflictError while an election runs, RefusedError on a migrated cluster, ConfigError for more than
    one request holds.
    """
    info = controller_to_ask(ensemble)
    _refuse_second(ensemble)
    plan = _plan(ensemble, info, partitions, info.brokers, _preferred_outcome)
    if plan.wanted:
        PreferredElection(plan.wanted).encode()  # too many are refused now
    return plan


def _plan(
    ensemble: Ensemble,
    info: ControllerInfo,
    partitions: Sequence[TopicPartition] | None,
    able: Collection[int],
    outcome_of: Callable[[PartitionState, Sequence[int], Collection[int]], str],
) -> ElectionPlan:
    """`outcome_of` is given a state, the replicas, and the brokers that are `able` to lead."""
    topics, broken = held_topics(ensemble)
    entries = states_of(ensemble, partitions_of(topics))
    unhosted = unhosted_topics(ensemble, topics, entries)
    hosted = (tp for tp in entries if tp.topic not in unhosted)
    chosen = sorted(hosted if partitions is None else set(partitions))
    if missing := [tp for tp in chosen if tp not in entries]:
        if hidden := [tp for tp in missing if tp.topic in broken]:
            raise broken[hidden[0].topic]
        raise no_partitions_error(missing)
    marked = ensemble.names_below(delete_topics_path())
    bars = dict.fromkeys(unhosted, UNHOSTED) | dict.fromkeys(marked, BEING_DELETED)
    rows = []
    for tp in chosen:
        replicas, entry = topics[tp.topic].partitions[tp.partition], entries[tp]
        state = entry.value if entry else None
        outcome = bars.get(tp.topic) or ("no_state" if entry is None else UNREADABLE)
        if state is not None and tp.topic not in bars:
            outcome = outcome_of(state, replicas, able)
        rows.append(
            Candidate(
                topic_partition=tp,
                replicas=replicas,
                leader=state.leader if state else None,
                isr=state.isr if state else None,
                live=tuple(broker for broker in replicas if broker in able),
                outcome=outcome,
            )
        )
    asked = any(row.outcome in (ELECTS, UNCLEAN, CLEAN) for row in rows)
    notes = [*notes_on_requests(info, asked=asked), *notes_on_unreadable(entries[tp] for tp in chosen)]
    return ElectionPlan(
        as_of=ensemble.as_of(),
        rows=tuple(rows),
        notes=tuple(notes),
        unreadable=tuple(broken.values()) if partitions is None else (),
    )


def _preferred_outcome(state: PartitionState, replicas: Sequence[int], able: Collection[int]) -> str:
    preferred = replicas[0] if replicas else None
    if state.leader == preferred:
        return LEADS
    if preferred not in able:
        return "not_live"
    return ELECTS if preferred in state.isr else "not_in_isr"


def _unclean_outcome(state: PartitionState, replicas: Sequence[int], able: Collection[int]) -> str:
    if state.leader in able:
        return LED
    live = set(replicas).intersection(able)
    if not live:
        return "not_live"
    return CLEAN if live & set(state.isr) else UNCLEAN


def elect_preferred(ensemble: Ensemble, plan: ElectionPlan) -> None:
    """Creates the request. Raises ConflictError where another one has come up since the plan."""
    ensemble.zk.create_missing(admin_path())
    data = PreferredElection(plan.wanted).encode()
    try:
        write(ensemble, [Create(PreferredElection.path(), data)], PreferredElection.path(), data)
    except ConflictError:
        _refuse_second(ensemble)
        raise


def wait_for_election(ensemble: Ensemble, plan: ElectionPlan, timeout_s: float) -> bool:
    """Waits until the controller has taken the request away and the leaders are the preferred ones.

    The result says whether they are; a controller removes a request whatever its result.
    """
    preferred = {row.topic_partition: row.preferred for row in plan.rows if row.outcome == ELECTS}

    def read() -> tuple[bool, bool]:
        ensemble.zk.sync("/")
        waiting = ensemble.zk.exists(PreferredElection.path()) is not None
        znodes = ensemble.find_each(preferred, PartitionState.path).values()
        states = [PartitionState.decode(znode.path, znode.data) for znode in znodes]
        return waiting, [state.leader for state in states] == list(preferred.values())

    waiting, led = ensemble.read_until(read, lambda found: not found[0], timeout_s, POLL_S)
    return led and not waiting


def check_outcomes(
    outcomes: Iterable[tuple[TopicPartition, str]],
    good: Collection[str],
    *,
    executed: bool,
    unreadable: Sequence[CorruptZnodeError] = (),
) -> None:
    """Checks an election in which not every partition was one to ask for.

    `good` are the outcomes of those asked for, and of those that are led already.

    Raises:
        PartlyDoneError: something cannot be read, or, once it was executed, some were refused.
        RefusedError: all are.
    """
    rows = list(outcomes)
    unread = [tp for tp, outcome in rows if outcome == UNREADABLE]
    refused = [(tp, outcome) for tp, outcome in rows if outcome not in {*good, UNREADABLE}]
    is_refused = len(refused) == len(rows) and not unreadable
    parts = []
    if refused and (executed or is_refused):
        whys = (f"{tp} ({outcome.replace('_', ' ')})" for tp, outcome in refused)
        parts.append(f"not elected: {named(whys)}")
    if unread:
        parts.append(f"cannot be read: {named(unread)}")
    parts += [f"not checked: {error}" for error in unreadable]
    if not parts:
        return
    text = "; ".join(parts)
    raise RefusedError(text) if is_refused else PartlyDoneError(text)


def _refuse_second(ensemble: Ensemble) -> None:
    if ensemble.zk.exists(PreferredElection.path()) is not None:
        raise ConflictError(
            f"{PreferredElection.path()}: an election is asked for already; wait until the controller has "
            f"removed it (`zkgroup znode get {PreferredElection.path()}` shows it)"
        )


def plan_unclean(ensemble: Ensemble, partitions: Sequence[TopicPartition]) -> ElectionPlan:
    """Reads leaders, ISRs and which brokers are live.

    Raises NotFoundError for a partition that does not exist, CorruptZnodeError for one whose topic cannot be
    read, ConflictError while such a request waits, RefusedError where a controller of Kafka is active, or
    none, ConfigError for more than one request holds.
    """
    info = controller_to_ask(ensemble)
    _refuse_other_controllers(info)
    _refuse_second_unclean(ensemble)
    able = {number for number, one in info.brokers.items() if not is_controller_only(one)}
    plan = _plan(ensemble, info, partitions, able, _unclean_outcome)
    if plan.wanted:
        UncleanElection(plan.wanted, 0, "").encode()  # too many are refused now
    return plan


def elect_unclean(ensemble: Ensemble, plan: ElectionPlan, by: str) -> int:
    """Creates the request and returns its `czxid`, which identifies its outcome.

    Raises ConflictError if another request was created since the plan, RefusedError if the active controller
    is no longer a zkgroup controller.
    """
    ensemble.zk.create_missing(zkgroup_path(), controller_state_path())
    path = UncleanElection.path()
    data = UncleanElection(plan.wanted, ensemble.clock.wall_ms(), by).encode()
    try:
        done = ensemble.zk.multi(Check(ControllerRegistration.path(), ZKGROUP_VERSION), Create(path, data))
    except OutcomeUnknownError as error:
        read_back(error, lambda: _czxid(ensemble, data) is not None)
        czxid = _czxid(ensemble, data)
    except OperationRefusedError as error:
        _refuse_other_controllers(read_controller_info(ensemble))
        _refuse_second_unclean(ensemble)
        raise ConflictError(f"{error.path}: changed since it was read ({error.code}); run again") from error
    else:
        czxid = _czxid(ensemble, data) if done.zxid is None else done.zxid
    if czxid is None:
        raise ConflictError(
            f"{path}: was removed as soon as it was made; `zkgroup topic describe` shows who leads"
        )
    return czxid


def wait_for_verdicts(ensemble: Ensemble, czxid: int, timeout_s: float) -> UncleanElectionDone | None:
    """Waits for what the controller says of the request; None where it has said nothing in time.

    Raises CorruptZnodeError.
    """

    def read() -> Znode | None:
        ensemble.zk.sync("/")
        return ensemble.zk.find(UncleanElectionDone.path(czxid))

    znode = ensemble.read_until(read, bool, timeout_s, POLL_S)
    return UncleanElectionDone.decode(znode.path, znode.data) if znode else None


def all_led(verdicts: Sequence[PartitionVerdict], wanted: Sequence[TopicPartition]) -> bool:
    """Returns whether every partition that was asked for has a leader now."""
    led = {each.topic_partition for each in verdicts if each.verdict != "refused" and each.leader is not None}
    return set(wanted) <= led


def _czxid(ensemble: Ensemble, data: bytes) -> int | None:
    ensemble.zk.sync("/")
    found = ensemble.zk.find(UncleanElection.path())
    return found.stat.czxid if found is not None and found.data == data else None


def _refuse_other_controllers(info: ControllerInfo) -> None:
    """Raises RefusedError where no controller of zkgroup is active."""
    if info.is_zkgroup:
        return
    path = UncleanElection.path()
    if info.controller_znode is None:
        raise RefusedError(
            f"{path}: there is no active controller, and the next one may be a Kafka controller, which never "
            "reads it; `zkgroup broker run` starts one that does"
        )
    active = info.controller.broker if info.controller else "?"
    raise RefusedError(
        f"{path}: broker {active} is a Kafka controller, which has no such request in ZooKeeper; from "
        "Kafka 2.4 on ask its brokers (`kafka-leader-election --election-type unclean`); before, set "
        "unclean.leader.election.enable=true (`zkgroup config alter --topic T --add-config ...`), which the "
        "next election follows: when a replica's broker starts, or another controller is elected"
    )


def _refuse_second_unclean(ensemble: Ensemble) -> None:
    znode = ensemble.zk.find(UncleanElection.path())
    if znode is None:
        return
    request = decode_or_error(znode, UncleanElection.decode)
    found = named(request.value.partitions) if request.value else str(request.error)
    raise ConflictError(
        f"{znode.path}: an unclean election is asked for already ({found}); wait until the controller has "
        f"removed it (`zkgroup znode get {znode.path}` shows it)"
    )


def elect_preferred_change(ensemble: Ensemble, plan: ElectionPlan) -> AdminChange[ElectionPlan, None, bool]:
    """Gives partitions back to their first replica; the wait says whether all are led by it."""
    return AdminChange(
        ensemble=ensemble,
        subject="elect preferred",
        question=f"Change {counted(len(plan.wanted), 'leader')}?",
        plan=plan,
        notes=plan.notes,
        is_effective=bool(plan.wanted),
        no_undo="no command asks for the former leaders" if plan.wanted else None,
        write=lambda by: elect_preferred(ensemble, plan),
        wait=lambda _, longest_s: wait_for_election(ensemble, plan, longest_s),
    )


def elect_unclean_change(
    ensemble: Ensemble, plan: ElectionPlan
) -> AdminChange[ElectionPlan, int, UncleanElectionDone | None]:
    """Lets a live replica lead partitions without a leader, in sync or not: records may be lost for good.

    What is written is the czxid of the request; the wait gives the controller's answer, None without one.
    """
    lost = counted(len(plan.losing), "partition")
    return AdminChange(
        ensemble=ensemble,
        subject="elect unclean",
        question=f"Elect for {counted(len(plan.wanted), 'partition')}, and lose records of {lost}?",
        plan=plan,
        notes=plan.notes,
        is_effective=bool(plan.wanted),
        no_undo="other replicas truncate what the new leader does not have" if plan.wanted else None,
        write=lambda by: elect_unclean(ensemble, plan, by.user),
        wait=lambda czxid, longest_s: wait_for_verdicts(ensemble, czxid, longest_s),
    )
