"""The active controller: who it is, how releases handle a request, its health, and its resignation.

A registration's format shows the oldest release among the brokers: 1 is 0.8, 2 is 0.9, 3 is 0.10.0 and
0.10.1, 4 is 0.10.2 to 2.6, 5 is 2.7 and later. Brokers of zkgroup register as 4 and do not count as Kafka's.
The data version of `/controller` is 1 for a controller of zkgroup and 0 for one of Kafka.

A resignation is a request of an operator: only its owner deletes `/controller`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TypeVar

from zkgroup.admin.change import AdminChange, ChangePlan
from zkgroup.admin.cluster.brokers import is_controller_only, oldest_format, readable, registrations
from zkgroup.admin.guards import write
from zkgroup.errors import ConflictError, NotFoundError, RefusedError
from zkgroup.groups.ensemble import AsOf, Ensemble
from zkgroup.groups.snapshot import decode_ephemeral, decode_or_error, value_of
from zkgroup.model import Znode
from zkgroup.model.requests import Check, Create, Operation, SetData
from zkgroup.znodes.brokers import BrokerRegistration, Topic, topics_path
from zkgroup.znodes.config import ConfigEntity, EntityKind
from zkgroup.znodes.config_settings import OBEYED, unknown_to, unknown_to_brokers, without_compaction
from zkgroup.znodes.controller import (
    ControllerEpoch,
    ControllerRecord,
    ControllerRegistration,
    ControllerStatus,
    ResignRequest,
    controller_history_path,
    controller_state_path,
    standby_controllers_path,
)
from zkgroup.znodes.ids import number_of
from zkgroup.znodes.paths import zkgroup_path
from zkgroup.znodes.sessions import is_leftover

NO_WORD = "its session ended"
"""Of a controller that could not write its end, and that another one has followed."""
ZKGROUP_VERSION = 1
"""Data version of a `/controller` of zkgroup: it is set once, in the transaction that makes it."""

_PATHS = (ControllerRegistration.path(), ControllerEpoch.path(), ControllerStatus.path())
_FIRST_THROTTLED = 3
_FIRST_WAITING = 4
_FIRST_DELETING = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerInfo:
    """Brokers and controller at one moment."""

    brokers: Mapping[int, BrokerRegistration]
    controller: ControllerRegistration | None
    controller_znode: Znode | None
    unreadable: tuple[str, ...] = field(default=())
    """Registrations, and a `/controller`, that cannot be read, or that no session holds."""

    @property
    def is_zkgroup(self) -> bool:
        """Returns whether a controller of zkgroup is active."""
        return self.kind == "zkgroup"

    @property
    def kind(self) -> str | None:
        """`zkgroup` or `kafka`; None where there is no controller."""
        return None if self.controller_znode is None else _kind(self.controller_znode)

    @property
    def oldest(self) -> int | None:
        """Registration format of the oldest broker of Kafka."""
        return oldest_format(self.brokers.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerDescription:
    """`controller describe`."""

    controller: int
    """Broker id of the controller."""
    epoch: int | None
    """The controller epoch; None if `/controller_epoch` cannot be read."""
    elected_at_ms: int
    """The time of its election, in epoch milliseconds: the time in `/controller`, else its ctime."""
    session: int
    """Id of the ZooKeeper session that owns `/controller`."""
    kind: str
    """`zkgroup` or `kafka`."""
    last_processed_zxid: int | None
    """The progress of a controller of zkgroup; None for one of Kafka, which does not report it."""


@dataclass(frozen=True, slots=True)
class PastController:
    """One row of `controller history`: an epoch in which a controller of zkgroup was active.

    One that wrote no end, though another epoch follows, was killed or lost its session.
    """

    epoch: int
    """The controller epoch."""
    record: ControllerRecord
    """Holds what the controller recorded about this epoch."""


def _kind(controller: Znode) -> str:
    return "zkgroup" if controller.stat.version == ZKGROUP_VERSION else "kafka"


def read_controller_info(ensemble: Ensemble) -> ControllerInfo:
    """Reads brokers and controller."""
    entries = registrations(ensemble)
    znode = ensemble.zk.find(ControllerRegistration.path())
    controller = decode_ephemeral(znode, ControllerRegistration.decode) if znode else None
    errors = [entry.error for entry in entries.values()] + [controller.error if controller else None]
    return ControllerInfo(
        brokers=readable(entries),
        controller=controller.value if controller else None,
        controller_znode=_held(znode),
        unreadable=tuple(str(error) for error in errors if error),
    )


def has_controller(ensemble: Ensemble) -> bool:
    """Returns whether a session holds `/controller` now."""
    return _held(ensemble.zk.find(ControllerRegistration.path())) is not None


def refuse_kraft(info: ControllerInfo) -> None:
    """Raises RefusedError where a KRaft controller has taken over: it does not read these znodes."""
    if info.controller is not None and info.controller.kraft_epoch is not None:
        raise RefusedError(
            f"{ControllerRegistration.path()}: expected a controller that reads requests from ZooKeeper, "
            f"found a migration to KRaft (epoch {info.controller.kraft_epoch}): ask its brokers instead"
        )


def controller_to_ask(ensemble: Ensemble) -> ControllerInfo:
    """Brokers and controller, by all that was written before; for a request. Raises as `refuse_kraft`."""
    ensemble.zk.sync("/")
    info = read_controller_info(ensemble)
    refuse_kraft(info)
    return info


def notes_on_requests(info: ControllerInfo, *, asked: bool = True) -> Iterator[str]:
    """Says what holds for every request that a controller has to carry out; `asked`: whether there is one."""
    yield from (f"{text}: it is ignored" for text in info.unreadable)
    if asked and info.controller_znode is None:
        yield "there is no active controller: the request waits for one"


def check_dead_targets(info: ControllerInfo, dead: Collection[int]) -> None:
    """Raises RefusedError where the controller would drop a move to brokers that are not registered.

    Controllers before 0.10.2 do, and leave a move that has begun at old and new replicas for ever.
    """
    if dead and info.kind == "kafka" and info.oldest is not None and info.oldest < _FIRST_WAITING:
        raise RefusedError(
            f"broker {', '.join(map(str, sorted(dead)))} is not registered, and controllers before Kafka "
            "0.10.2 drop such a move instead of waiting: start the broker first"
        )


def check_throttle(info: ControllerInfo) -> str | None:
    """Says what to know about a throttle here. Raises RefusedError where no broker would obey it."""
    oldest = info.oldest
    if oldest is None or oldest > _FIRST_THROTTLED:
        return None
    if oldest < _FIRST_THROTTLED:
        raise RefusedError(
            "--throttle: brokers before Kafka 0.10.1 ignore it, and one is registered; without it the move "
            "takes all the bandwidth there is: move less at a time (`zkgroup plan ... --max-moves N`)"
        )
    return (
        "brokers of Kafka 0.10.0 ignore the throttle, those of 0.10.1 apply it: their registrations are alike"
    )


def notes_on_settings(info: ControllerInfo, kind: EntityKind, settings: Mapping[str, str]) -> Iterator[str]:
    """Settings that brokers here will ignore: the oldest of Kafka, those of zkgroup, or all."""
    if hosts_topics(info.brokers) and (note := without_compaction(settings)) is not None:
        yield note
    if kind == "topics":
        for name, release in unknown_to(settings, info.oldest):
            yield f"{name} came with Kafka {release}: older brokers, of which one is registered, ignore it"
    unknown = dict(unknown_to_brokers(settings)) if kind == "brokers" else {}
    for name, guess in unknown.items():
        more = f" (did you mean {guess}?)" if guess else ""
        yield f"{name} is no setting that Kafka's brokers take while they run{more}; only a plug-in reads it"
    ignored = sorted(set(settings) - OBEYED.get(kind, frozenset()) - unknown.keys())
    if ignored and hosts_topics(info.brokers):
        yield f"{', '.join(ignored)}: brokers of zkgroup, of which one is registered, do not apply it"


def hosts_topics(brokers: Mapping[int, BrokerRegistration]) -> bool:
    """Returns whether one of these registered brokers is of zkgroup and hosts partitions."""
    return any(each.is_zkgroup and each.role == "data" for each in brokers.values())


def note_on_entity(info: ControllerInfo, entity: ConfigEntity) -> Iterator[str]:
    """A broker that is not there may be one that was never meant; a host name is no address."""
    if entity.kind == "ips" and entity.plain_name is not None and hosts_topics(info.brokers):
        try:
            ip_address(entity.plain_name)
        except ValueError:
            yield f"{entity.name}: brokers of zkgroup, of which one is registered, do not resolve host names"
    if entity.kind == "brokers" and entity.name.isdigit() and int(entity.name) not in info.brokers:
        yield f"broker {entity.name} is not registered: it applies this when it starts"


def note_on_deletion(info: ControllerInfo) -> str | None:
    """Says what to know before a controller of Kafka is asked to delete a topic."""
    if info.kind != "kafka" or info.oldest is None or info.oldest >= _FIRST_DELETING:
        return None
    what = "the request stays and nothing happens" if info.oldest == 1 else "nothing happens"
    return f"Kafka before 1.0 deletes only with delete.topic.enable=true; without it {what}"


def describe_controller(ensemble: Ensemble) -> tuple[AsOf, ControllerDescription]:
    """The active controller.

    Raises NotFoundError where there is none, PersistentZnodeError, CorruptZnodeError.
    """
    znode, epoch_znode, status_znode = ensemble.zk.read_many(_PATHS).values()
    epoch = value_of(epoch_znode, ControllerEpoch.decode)
    if znode is None:
        last = f"; the last epoch was {epoch.epoch}" if epoch else ""
        raise NotFoundError(
            f"{ControllerRegistration.path()}: there is no controller{last}; "
            "`zkgroup broker run` starts a broker that can be elected"
        )
    entry = decode_ephemeral(znode, ControllerRegistration.decode)
    if entry.error:
        raise entry.error
    assert entry.value is not None
    one = entry.value
    status = decode_ephemeral(status_znode, ControllerStatus.decode).value if status_znode else None
    is_current = status is not None and epoch is not None and status.epoch == epoch.epoch
    return ensemble.as_of(), ControllerDescription(
        controller=one.broker,
        epoch=epoch.epoch if epoch else None,
        elected_at_ms=znode.stat.ctime if one.timestamp_ms is None else one.timestamp_ms,
        session=znode.stat.ephemeral_owner,
        kind=_kind(znode),
        last_processed_zxid=status.zxid if is_current and status else None,
    )


def controller_history(ensemble: Ensemble) -> tuple[AsOf, tuple[PastController, ...], tuple[str, ...]]:
    """The epochs of controllers of zkgroup, the latest first, and the records that cannot be read."""
    epochs = ensemble.numbers_below(controller_history_path(), ControllerRecord.epoch_of)
    rows: list[PastController] = []
    unreadable = []
    for epoch, znode in ensemble.find_each(reversed(epochs), ControllerRecord.path).items():
        entry = decode_or_error(znode, ControllerRecord.decode)
        if entry.value is None:
            unreadable.append(str(entry.error))
        else:
            is_open = bool(rows) and entry.value.until_ms is None  # another epoch follows
            record = dataclasses.replace(entry.value, ended=NO_WORD) if is_open else entry.value
            rows.append(PastController(epoch, record))
    return ensemble.as_of(), tuple(rows), tuple(unreadable)


HUNG_AFTER_MS = 60_000
"""A change of topics or brokers that is older than this, and that the controller has not processed, hangs."""

WHOLE_TOPICS = ("deletion",)
"""These wait for a topic as a whole: `deletion of orders-2` is of the topic `orders-2`."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerHealth:
    """The controller, as `status` shows it."""

    controller: int | None
    """None where there is none, or its znode cannot be read."""
    epoch: int | None
    """The controller epoch; None if there never was a controller, or it cannot be read."""
    kind: str | None
    """`zkgroup` or `kafka`; None where there is no controller."""
    last_processed_zxid: int | None = None
    """None for a controller of Kafka, which does not report it."""
    hung: bool | None = None
    """It has left a change of a topic or broker alone for a minute; None where that is not known."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Path to what is wrong with it."""
    refetching: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Broker to partitions that it may fetch again from their beginning."""
    waiting: Mapping[str, str] = field(default_factory=dict)
    """Everything that waits, with the reason."""
    restart: Mapping[int, str] = field(default_factory=dict)
    """Broker that should be restarted, and why: a controller of Kafka that may not know that it is none."""
    left_off: int = 0
    """Entries of these that are not shown."""


def read_controller_health(ensemble: Ensemble) -> ControllerHealth:
    """Reads the active controller and its status; what cannot be read is None, its path in `unreadable`."""
    broken: dict[str, str] = {}
    znode, epoch_znode, status_znode = ensemble.zk.read_many(_PATHS).values()
    znode, status_znode = map(_held, (znode, status_znode))
    active = _value(znode, ControllerRegistration.decode, broken)
    epoch = _value(epoch_znode, ControllerEpoch.decode, broken)
    status = _value(status_znode, ControllerStatus.decode, broken)
    number = epoch.epoch if epoch else None
    kind = _kind(znode) if znode else None
    health = ControllerHealth(
        controller=active.broker if active else None,
        epoch=number,
        kind=kind,
        unreadable=_without_paths(broken),
    )
    if status is None or kind != "zkgroup" or status.epoch != number:
        return health
    return dataclasses.replace(
        health,
        last_processed_zxid=status.zxid,
        hung=is_hung(status.zxid, _changes(ensemble), ensemble.clock.wall_ms()),
        unreadable=_without_paths({**status.unreadable, **broken}),
        refetching=status.omitted_partitions,
        waiting={what: why for what, why in status.waiting.items() if _broker(what) is None},
        restart={
            broker: why for what, why in status.waiting.items() if (broker := _broker(what)) is not None
        },
        left_off=status.left_off,
    )


def is_hung(processed_zxid: int, changes: Iterable[tuple[int, int]], now_ms: int) -> bool:
    """Returns whether a change (zxid, time in ms) is older than `HUNG_AFTER_MS` and not processed."""
    return any(zxid > processed_zxid and now_ms - time_ms > HUNG_AFTER_MS for zxid, time_ms in changes)


def blocked_by_topic(waiting: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Returns what waits, for what, with a topic's partitions in one entry: `leader of orders: 0-2, 7`."""
    partitions: dict[tuple[str, str], dict[int, str]] = {}
    found: dict[tuple[str, str] | str, str] = {}
    for what, why in waiting.items():
        head, of, place = what.rpartition(" of ")
        topic, _, text = place.rpartition("-")
        number = number_of(text)
        if not of or not topic or number is None or head in WHOLE_TOPICS:
            found[what] = why
            continue
        found.setdefault((head, topic), "")
        partitions.setdefault((head, topic), {})[number] = why
    rows = []
    for key, why in found.items():
        if isinstance(key, str):
            rows.append((key, why))
            continue
        head, topic = key
        whys = partitions[key]
        if len(whys) == 1:
            ((number, only),) = whys.items()
            rows.append((f"{head} of {topic}-{number}", only))
            continue
        by_why: dict[str, list[int]] = {}
        for number in sorted(whys):
            by_why.setdefault(whys[number], []).append(number)
        reasons = "; ".join(
            f"{_ranges(numbers)}: {reason}" if len(by_why) > 1 else reason
            for reason, numbers in by_why.items()
        )
        rows.append((f"{head} of {len(whys)} partitions of {topic} ({_ranges(sorted(whys))})", reasons))
    return tuple(rows)


def _ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers, with those that follow each other as `first-last`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _broker(what: str) -> int | None:
    """The broker, where it is a whole broker that something is said of: `broker 3`."""
    word, _, number = what.partition(" ")
    return number_of(number) if word == "broker" else None


def _changes(ensemble: Ensemble) -> list[tuple[int, int]]:
    """Returns what any controller processes at once: topics that were written, brokers that have started."""
    topics = ensemble.find_each(ensemble.names_below(topics_path()), Topic.path)
    return [
        *((znode.stat.mzxid, znode.stat.mtime) for znode in topics.values()),
        *((entry.stat.czxid, entry.stat.ctime) for entry in registrations(ensemble).values()),
    ]


def _value(znode: Znode | None, decode: Callable[[str, bytes | None], T], broken: dict[str, str]) -> T | None:
    if znode is None:
        return None
    entry = decode_or_error(znode, decode)
    if entry.error:
        broken[znode.path] = f"expected {entry.error.expected}, found {entry.error.found}"
    return entry.value


def _held(znode: Znode | None) -> Znode | None:
    """A znode of a session; None for a persistent one, which is nobody's."""
    if znode is None or is_leftover(znode):
        return None
    return znode


def _without_paths(unreadable: Mapping[str, str]) -> dict[str, str]:
    """Errors of znodes begin with the path; it is shown once."""
    return {path: why.removeprefix(f"{path}: ") for path, why in unreadable.items()}


POLL_S = 0.5
"""Seconds between two reads at `/controller`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResignationPlan(ChangePlan):
    """The controller that would be asked to resign."""

    controller: int
    """Broker id of the controller that would be asked."""
    epoch: int | None
    """Its controller epoch; None if `/controller_epoch` cannot be read."""
    czxid: int
    """Of its `/controller`."""
    earlier_request: Znode | None
    """A request that an earlier controller has left: this one replaces it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resignation:
    """The result of a request to resign."""

    as_of: AsOf
    """The moment at which `/controller` was last read."""
    resigned: bool
    """The `/controller` that was meant is gone."""
    successor: int | None
    """The controller now; the same broker may have been elected again where there is no other candidate."""


def plan_resignation(ensemble: Ensemble) -> ResignationPlan:
    """Finds the controller.

    Raises NotFoundError where there is none, RefusedError where it is one of Kafka or cannot be read,
    ConflictError where it has been asked already.
    """
    info = controller_to_ask(ensemble)
    epoch, request = ensemble.zk.read_many([ControllerEpoch.path(), ResignRequest.path()]).values()
    controller = _refuse_others(info)
    assert info.controller_znode is not None
    czxid = info.controller_znode.stat.czxid
    asked = value_of(request, ResignRequest.decode)
    if request is not None and asked is not None and asked.czxid == czxid:
        raise ConflictError(
            f"{request.path}: broker {controller.broker} has been asked already and has not resigned yet; "
            "`zkgroup controller describe` shows how far it has come"
        )
    number = value_of(epoch, ControllerEpoch.decode)
    return ResignationPlan(
        as_of=ensemble.as_of(),
        controller=controller.broker,
        epoch=number.epoch if number else None,
        czxid=czxid,
        earlier_request=request,
        notes=tuple(_notes(ensemble, info, controller.broker)),
    )


def ask_to_resign(ensemble: Ensemble, plan: ResignationPlan) -> None:
    """Writes the request, if a controller of zkgroup is still active.

    Raises ConflictError where another request has come up, or the controller changed, since the plan.
    """
    ensemble.zk.create_missing(zkgroup_path(), controller_state_path())
    path, data = ResignRequest.path(), ResignRequest(plan.czxid).encode()
    asked: Operation = Create(path, data)
    if plan.earlier_request is not None:
        asked = SetData(path, data, plan.earlier_request.stat.version)
    write(ensemble, [Check(ControllerRegistration.path(), ZKGROUP_VERSION), asked], path, data)


def wait_for_successor(ensemble: Ensemble, plan: ResignationPlan, timeout_s: float) -> Resignation:
    """Waits until the controller has resigned and another is elected; the last read is the result."""

    def read() -> Znode | None:
        ensemble.zk.sync("/")
        return ensemble.zk.find(ControllerRegistration.path())

    def is_next(znode: Znode | None) -> bool:
        return znode is not None and znode.stat.czxid != plan.czxid

    znode = ensemble.read_until(read, is_next, timeout_s, POLL_S)
    active = value_of(znode, ControllerRegistration.decode) if is_next(znode) else None
    return Resignation(
        as_of=ensemble.as_of(),
        resigned=znode is None or is_next(znode),
        successor=active.broker if active else None,
    )


def _refuse_others(info: ControllerInfo) -> ControllerRegistration:
    """The controller, which is one of zkgroup."""
    path = ControllerRegistration.path()
    if info.controller_znode is None:
        leftover = next((text for text in info.unreadable if text.startswith(f"{path}: ")), None)
        raise NotFoundError(leftover or f"{path}: there is no controller to resign")
    if info.controller is None:
        unreadable = "; ".join(info.unreadable)
        raise RefusedError(
            f"{path}: expected a controller of zkgroup, found what cannot be read: {unreadable}"
        )
    if not info.is_zkgroup:
        raise RefusedError(
            f"{path}: broker {info.controller.broker} is a Kafka controller, which reads no such "
            "request, and only its owner may delete its znode (it would go on writing beside the next "
            "one); stop that broker instead, and another one is elected"
        )
    return info.controller


def _notes(ensemble: Ensemble, info: ControllerInfo, controller: int) -> Iterator[str]:
    """The notes about the brokers that may be elected after `controller`."""
    waiting = ensemble.numbers_below(standby_controllers_path())
    hosts = sorted(
        number for number, one in info.brokers.items() if number != controller and not is_controller_only(one)
    )
    kafka = [number for number in hosts if not info.brokers[number].is_zkgroup]
    if kafka:
        yield f"broker {', '.join(map(str, kafka))} runs Kafka and may be elected next"
    if not waiting and not hosts:
        yield f"no other broker is registered: broker {controller} will be elected again"


def resign_controller_change(
    ensemble: Ensemble, plan: ResignationPlan
) -> AdminChange[ResignationPlan, None, Resignation]:
    """Asks the controller to give up `/controller`; the wait is for its successor."""
    return AdminChange(
        ensemble=ensemble,
        subject="controller resign",
        question=f"Have controller {plan.controller} resign?",
        plan=plan,
        notes=plan.notes,
        no_undo="the election that follows decides which broker is controller",
        write=lambda by: ask_to_resign(ensemble, plan),
        wait=lambda _, longest_s: wait_for_successor(ensemble, plan, longest_s),
    )
