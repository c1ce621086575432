"""Reads the status of the ensemble for one screen, and finds the problems in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from zkgroup.admin.access import DOCTOR_MAX, diagnose_access, diagnose_ports, read_access
from zkgroup.admin.cluster.brokers import Brokers, by_role, readable, registrations
from zkgroup.admin.cluster.controller import ControllerHealth, blocked_by_topic, read_controller_health
from zkgroup.admin.configs import unreadable_configs
from zkgroup.admin.coordinator import CoordinatedGroupDescription, live_reader
from zkgroup.admin.coordinator_status import (
    CoordinatorStatus,
    DoctorFinding,
    diagnose_coordinated,
    read_coordinator,
    read_rebalances,
)
from zkgroup.admin.persistent import FIX_PERSISTENT, by_parent, find_in_cluster
from zkgroup.admin.reassign.progress import list_reassignments
from zkgroup.admin.reassign.stored_plans import running_plans
from zkgroup.admin.reassign.throttles import Throttled, read_throttles
from zkgroup.admin.topics.listing import (
    MissingBroker,
    TopicDescription,
    TopicSummary,
    describe_topics,
    is_unavailable,
    is_under_replicated,
    list_topics,
    missing_brokers,
)
from zkgroup.admin.znodes import join
from zkgroup.errors import AccessDeniedError
from zkgroup.groups.descriptions import GroupState, GroupSummary
from zkgroup.groups.ensemble import AsOf, Ensemble
from zkgroup.groups.reads import LogEndReader, list_groups
from zkgroup.model.text import counted, iso_time, named, typed
from zkgroup.znodes.admin_requests import Reassignment
from zkgroup.znodes.brokers import BrokerRegistration, topics_path
from zkgroup.znodes.config import TopicConfig
from zkgroup.znodes.consumers import group_path
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC

NUMBERS_SHOWN = 8
"""Partitions that a finding names."""

LEADER_OF = "leader of "
"""The controller's name of a partition whose leader it waits for begins with it."""

CLEAR_THROTTLE = "zkgroup reassign verify --clear-throttle --execute"
"""Removes every throttle, once nothing moves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The state of the cluster that `status` prints and `doctor` checks."""

    as_of: AsOf
    """The moment at which the last part was read."""
    session_timeout_ms: int
    """The session timeout that the server granted to this client, in milliseconds."""
    brokers: Brokers
    """The registered brokers; those that no session holds are among its unreadable ones."""
    health: ControllerHealth
    """The controller."""
    topics: tuple[TopicSummary, ...]
    """Every topic, by name."""
    partitions: tuple[TopicDescription, ...]
    """The same topics with their leaders and ISRs, but for those that cannot be read or are being deleted."""
    moving: int
    """Partitions under way to other replicas."""
    plans: tuple[str, ...]
    """Stored plans that run."""
    groups: tuple[GroupSummary, ...]
    """Every group that can be read, by name."""
    groups_unreadable: Mapping[str, str] = field(default_factory=dict)
    """Path of each group that an ACL hides, and why."""
    configs_unreadable: Mapping[str, str] = field(default_factory=dict)
    """Path of each znode below `/config` that no broker can use, and what is wrong with it."""
    states_unreadable: Mapping[str, str] = field(default_factory=dict)
    """The same of states of partitions, also of those that the controller has not read since."""
    request_unreadable: Mapping[str, str] = field(default_factory=dict)
    """The same of the request to move replicas: no other can be made while it is there."""
    throttle_left: Throttled | None = None
    """Names what slows replication down though nothing moves and no plan runs; None where nothing does."""
    coordinator: CoordinatorStatus | None = None
    """The slots of group coordinators; None where no coordinator has ever started."""
    missing: tuple[MissingBroker, ...] = ()
    """Brokers that replica lists name and that are not registered, by id."""
    persistent_in_cluster: tuple[str, ...] = ()
    """Paths of brokers and controllers that are persistent, so that they end with no session."""

    @property
    def persistent(self) -> tuple[str, ...]:
        """The same with those of groups, by path."""
        of_groups = (path for group in self.groups for path in group.persistent)
        return tuple(sorted([*self.persistent_in_cluster, *of_groups]))

    @property
    def unreadable(self) -> Mapping[str, str]:
        """The same of what the controller cannot read, and of these."""
        own = {**self.states_unreadable, **self.request_unreadable, **self.groups_unreadable}
        found = {**own, **self.health.unreadable, **self.configs_unreadable}
        return {path: why for path, why in found.items() if path not in self.persistent_in_cluster}

    @property
    def controller(self) -> int | None:
        """Broker id of the controller; None if there is none, or its znode cannot be read."""
        return self.health.controller

    @property
    def controller_epoch(self) -> int | None:
        """The controller epoch; None if there never was a controller, or it cannot be read."""
        return self.health.epoch

    @property
    def offline(self) -> int:
        """Partitions without a live leader."""
        return sum(len(rows) for _, rows, _ in self._ill())

    @property
    def leaders_awaited(self) -> int:
        """Partitions for which the controller waits for a leader, although their state names a live broker.

        That broker refuses to lead, as one that was started again without its records. Only a controller of
        zkgroup reports it.
        """
        return len(self._leaders_awaited())

    @property
    def slot_leaders_awaited(self) -> int:
        """Slots of group coordinators among them."""
        gone = self.coordinator.slots_without_leader if self.coordinator else ()
        prefix = f"{OFFSETS_TOPIC}-"
        awaited = {name for name in self._leaders_awaited() if name.startswith(prefix)}
        return len(awaited - {f"{prefix}{slot}" for slot in gone})

    def _leaders_awaited(self) -> set[str]:
        offline = {f"{topic}-{number}" for topic, gone, _ in self._ill() for number in gone}
        waiting = {what.removeprefix(LEADER_OF) for what in self.health.waiting if what.startswith(LEADER_OF)}
        return waiting - offline

    @property
    def under_replicated(self) -> int:
        """Partitions that are led, with replicas missing from the ISR."""
        return sum(len(rows) for _, _, rows in self._ill())

    def _ill(self) -> Iterator[tuple[str, list[int], list[int]]]:
        return (ill(topic, self.brokers.data) for topic in self.partitions)


def read_status(ensemble: Ensemble, log_ends: LogEndReader | None = None) -> Status:
    """Brokers, controller, topics and groups. Takes 2 s more when a group is wrong and does not change.

    Brokers that coordinate groups are asked; a silent one takes 2 s more. `log_ends` is asked for lag.
    """
    session = ensemble.zk.wait_connected()
    health = read_controller_health(ensemble)
    entries = registrations(ensemble)
    persistent = tuple(znode.path for znode in find_in_cluster(ensemble))
    _, topics = list_topics(ensemble)
    leaving = {topic.topic for topic in topics if topic.marked_for_deletion}
    _, described, _ = describe_topics(ensemble)
    throttled = _throttles(ensemble, [topic.topic for topic in topics])
    _, moves, unreadable = list_reassignments(ensemble)
    plans = running_plans(ensemble)
    broken_request = {
        error.path: f"expected {error.expected}, found {error.found}"
        for error in unreadable
        if error.path == Reassignment.path()
    }
    configs = unreadable_configs(ensemble)
    unanswered: list[str] = []
    partitions = tuple(topic for topic in described if topic.topic not in leaving)
    registered = [number for number in entries if BrokerRegistration.path(number) not in persistent]
    as_of, groups, denied = list_groups(ensemble, log_ends, live_reader(ensemble, unanswered.append))
    return Status(
        as_of=as_of,
        session_timeout_ms=session.timeout_ms,
        brokers=by_role(entries),
        health=health,
        topics=topics,
        partitions=partitions,
        moving=len(moves),
        plans=plans,
        groups=groups,
        groups_unreadable=dict.fromkeys(map(group_path, denied), "its ACL does not let this user read it"),
        configs_unreadable=configs,
        states_unreadable={
            error.path: f"expected {error.expected}, found {error.found}"
            for topic in described
            for error in topic.unreadable
            if error.path != TopicConfig.path(topic.topic)
        },
        request_unreadable=broken_request,
        throttle_left=throttled if throttled and not (moves or plans or broken_request) else None,
        coordinator=read_coordinator(ensemble, unanswered),
        missing=missing_brokers(partitions, registered),
        persistent_in_cluster=persistent,
    )


def _throttles(ensemble: Ensemble, topics: Sequence[str]) -> Throttled:
    """Read before the moves, so that the throttle of one that begins meanwhile is not taken for left over."""
    try:
        return read_throttles(ensemble, topics)
    except AccessDeniedError:  # hidden from us, so nothing is known of it
        return Throttled({}, {})


def read_findings(ensemble: Ensemble, *, wanted_timeout_ms: int) -> tuple[AsOf, tuple[DoctorFinding, ...]]:
    """Reads everything that `doctor` judges."""
    status = read_status(ensemble)
    return status.as_of, read_diagnosis(ensemble, status, wanted_timeout_ms=wanted_timeout_ms)


def read_diagnosis(
    ensemble: Ensemble, status: Status, *, wanted_timeout_ms: int
) -> tuple[DoctorFinding, ...]:
    """The findings of `doctor` on a status; also reads what coordinators say of rebalances."""
    partitions = diagnose_partitions(status.partitions, status.brokers.data)
    rebalances = read_rebalances(ensemble, status.groups)
    access = read_access(ensemble, DOCTOR_MAX)
    ports = diagnose_ports(readable(registrations(ensemble)), access)
    more = [*partitions, *ports, diagnose_access(access)]
    return diagnose(status, more, rebalances, wanted_timeout_ms=wanted_timeout_ms)


def diagnose(
    status: Status,
    partitions: Sequence[DoctorFinding] = (),
    rebalances: Mapping[str, CoordinatedGroupDescription] | None = None,
    *,
    wanted_timeout_ms: int,
) -> tuple[DoctorFinding, ...]:
    """Reports what is wrong or worth knowing, the worst first.

    `partitions` as `diagnose_partitions` says, and other findings; `rebalances` as `read_rebalances`.
    """
    order = {"error": 0, "warning": 1, "info": 2}
    found = [
        *diagnose_persistent(status.persistent),
        *diagnose_groups(status.groups, status.coordinator, rebalances or {}),
        *_topics(status),
        *partitions,
        *_unreadable_brokers(status),
        *diagnose_brokers(status.brokers, status.controller, status.missing),
        *_controller(status),
        *_others(status),
        *_throttle(status),
        *_session(status, wanted_timeout_ms),
    ]
    return tuple(sorted(found, key=lambda finding: order[finding.severity]))


def diagnose_partitions(topics: Sequence[TopicDescription], live: Sequence[int]) -> tuple[DoctorFinding, ...]:
    """Partitions without a live leader, and those with replicas missing from the ISR.

    One that no controller has written a state of is wrong only where brokers are registered, and shall host
    its topic.
    """
    offline: list[DoctorFinding] = []
    short: list[DoctorFinding] = []
    for topic in topics:
        _, gone, behind = ill(topic, live)
        describe = typed("topic describe", topic.topic)
        if gone:
            detail = f"no live leader for partition {named(gone, NUMBERS_SHOWN)}"
            offline.append(DoctorFinding("error", f"topic {topic.topic}", detail, describe))
        if behind:
            detail = f"replicas are not in sync for partition {named(behind, NUMBERS_SHOWN)}"
            short.append(DoctorFinding("warning", f"topic {topic.topic}", detail, describe))
    return (*offline, *short)


def ill(topic: TopicDescription, live: Sequence[int]) -> tuple[str, list[int], list[int]]:
    """The topic, its partitions without a live leader, and those that are led but not fully in sync."""
    known = [] if topic.unhosted else [row for row in topic.partitions if live or row.leader is not None]
    gone = [row.partition for row in known if is_unavailable(row, live)]
    behind = [row.partition for row in known if row.partition not in gone and is_under_replicated(row)]
    return topic.topic, gone, behind


def missing_replicas(missing: MissingBroker) -> str:
    """Names what is to be on a broker that is not registered, and since when it is out of sync."""
    text = f"replicas of {named(missing.partitions, NUMBERS_SHOWN)}"
    if missing.out_of_sync_since_ms is None:
        return text
    since = datetime.fromtimestamp(missing.out_of_sync_since_ms / 1000, UTC)
    return f"{text}, out of sync since {since:%Y-%m-%dT%H:%M:%SZ} by their states"


def diagnose_groups(
    groups: Sequence[GroupSummary],
    coordinator: CoordinatorStatus | None,
    rebalances: Mapping[str, CoordinatedGroupDescription],
) -> Iterator[DoctorFinding]:
    """Groups that are wrong, rebalancing, or have nothing to share; `rebalances` as `read_rebalances`."""
    for group in groups:
        if coordinator and (own := diagnose_coordinated(group, coordinator, rebalances)):
            yield own
            continue
        if group.persistent and not group.unowned:
            continue  # `diagnose_persistent` names the cause; what else there is shows once they are removed
        subject = f"group {group.group}"
        if group.state is GroupState.INCONSISTENT:
            detail = f"owners are missing ({group.unowned}) or wrong, and nothing moves"
            yield DoctorFinding("error", subject, detail, typed("group verify", group.group))
        elif group.frozen is not None:
            until = iso_time(group.frozen.until_ms) or "its marker is removed"
            detail = f"frozen until {until} by {group.frozen.by}: {group.frozen.reason}"
            command = typed("group unfreeze", group.group, options="--execute")
            yield DoctorFinding("warning" if group.unowned else "info", subject, detail, command)
        elif group.state is GroupState.REBALANCING:
            wait = typed("group verify", group.group, options="--wait")
            yield DoctorFinding("info", subject, "is rebalancing", wait)
        elif group.away:
            until = iso_time(group.away_until_ms) or "their grace ends"
            detail = f"{counted(group.away, 'partition')} without owner, away until {until}"
            yield DoctorFinding("info", subject, detail, typed("group describe", group.group))
        elif group.members and not group.partitions:
            wanted = ", ".join(group.topics) or "no topic that exists"
            create = (
                typed("topic create", group.topics[0], options="--partitions N") if group.topics else None
            )
            yield DoctorFinding(
                "warning", subject, f"has nothing to share: it subscribes to {wanted}", create
            )


def _topics(status: Status) -> Iterator[DoctorFinding]:
    for topic in status.topics:
        subject = f"topic {topic.topic}"
        if topic.partitions is None:
            path = join(topics_path(), topic.topic)  # its name may be none that a topic can have
            yield DoctorFinding("error", subject, "its znode cannot be read", _command_for(path))
        if topic.marked_for_deletion and status.controller is None:
            detail = "waits to be deleted, but there is no active controller"
            yield DoctorFinding("warning", subject, detail, typed("topic delete", topic.topic))
        elif topic.marked_for_deletion:
            detail = "is being deleted; that waits for every broker with a replica"
            yield DoctorFinding("info", subject, detail, typed("topic describe", topic.topic))


def diagnose_persistent(persistent: Sequence[str]) -> Iterator[DoctorFinding]:
    """Paths of znodes that no session ends, though they belong to one."""
    for paths, effect in by_parent(persistent):
        detail = f"persistent, so no session ends it: {effect}"
        yield DoctorFinding("error", paths, detail, FIX_PERSISTENT)


def _unreadable_brokers(status: Status) -> Iterator[DoctorFinding]:
    for text in status.brokers.unreadable:
        if text.partition(": ")[0] not in status.persistent_in_cluster:
            yield DoctorFinding("error", "broker", f"{text}: every JVM member fails its rebalances on it")


def diagnose_brokers(
    brokers: Brokers, controller: int | None, missing: Sequence[MissingBroker]
) -> Iterator[DoctorFinding]:
    """Brokers that are not registered and have replicas, and registered ones without a controller."""
    for one in missing:
        detail = f"not registered, with {missing_replicas(one)}: start it, or give its replicas to others"
        yield DoctorFinding(
            "warning", f"broker {one.broker}", detail, f"zkgroup plan decommission {one.broker}"
        )
    if brokers.data and controller is None:
        yield DoctorFinding("error", "controller", "brokers are registered, but none is controller")
    if not brokers.data:
        yield DoctorFinding(
            "info", "brokers", "no broker is registered: JVM members wait for one, zkgroup members need none"
        )


def _others(status: Status) -> Iterator[DoctorFinding]:
    """Reports what cannot be read where the controller does not say so."""
    for paths, whose in (
        (status.configs_unreadable, "no broker applies it"),
        (status.states_unreadable, "no controller can use it"),
        (status.request_unreadable, "no replica can be moved while it is there"),
    ):
        for path, detail in paths.items():
            if path not in status.health.unreadable:
                yield DoctorFinding("error", path, f"{detail}; {whose}", _command_for(path))
    for path, detail in status.groups_unreadable.items():
        yield DoctorFinding(
            "warning", path, f"{detail}; the state of the group is not known", _command_for(path)
        )


def _command_for(path: str) -> str:
    """The command to type for a path that cannot be read."""
    if path == Reassignment.path():
        return "zkgroup reassign cancel"
    return typed("znode get", path)


def _throttle(status: Status) -> Iterator[DoctorFinding]:
    if status.throttle_left:
        detail = f"{status.throttle_left.named}: throttled, and nothing moves"
        yield DoctorFinding("warning", "throttle", detail, CLEAR_THROTTLE)


def _controller(status: Status) -> Iterator[DoctorFinding]:
    """Reports what the controller says of itself."""
    health = status.health
    if health.hung:
        detail = f"broker {health.controller} hangs since zxid {health.last_processed_zxid}: restart it"
        yield DoctorFinding("error", "controller", detail, "zkgroup controller describe")
    for path in (each for each in health.unreadable if each in status.unreadable):
        detail = health.unreadable[path]
        yield DoctorFinding("error", path, f"{detail}; the controller ignores it", _command_for(path))
    for broker, partitions in health.refetching.items():
        detail = f"may fetch {', '.join(partitions)} again from the start: their states could not be read"
        yield DoctorFinding("warning", f"broker {broker}", detail, f"zkgroup broker describe {broker}")
    for broker, why in health.restart.items():
        yield DoctorFinding("warning", f"broker {broker}", why, f"zkgroup broker describe {broker}")
    for what, why in blocked_by_topic(health.waiting):
        # also where the state names a leader: a broker without the records refuses to lead
        yield DoctorFinding("error" if what.startswith(LEADER_OF) else "info", what, why)
    if health.left_off:
        yield DoctorFinding("info", "controller", f"{health.left_off} further entries are not shown")


def _session(status: Status, wanted_ms: int) -> Iterator[DoctorFinding]:
    granted = status.session_timeout_ms
    if granted != wanted_ms:
        limits = "minSessionTimeout and maxSessionTimeout of the servers"
        yield DoctorFinding(
            "warning", "session", f"asked for {wanted_ms} ms, granted {granted} ms: see {limits}"
        )
