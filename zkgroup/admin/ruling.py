"""Who rules the cluster, and what the versions there make of a request: said before, never after.

A registration's format tells the oldest release among the brokers: 1 is 0.8, 2 is 0.9, 3 is 0.10.0 and
0.10.1, 4 is 0.10.2 to 2.6, 5 is 2.7 and later. Brokers of ours register as 4 and do not count as real ones.
The data version of `/controller` tells a controller of ours (1) from a real one (0) (recipes 13).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from zkgroup.admin.brokers import oldest_format, readable, registrations
from zkgroup.admin.ensemble import AsOf, Ensemble
from zkgroup.admin.picture import held
from zkgroup.errors import NotFoundError, RefusedError
from zkgroup.model import Znode
from zkgroup.znodes.brokers import BrokerRegistration
from zkgroup.znodes.config_entity import ConfigEntity, EntityKind
from zkgroup.znodes.controller import Controller, ControllerEpoch
from zkgroup.znodes.controller_records import (
    ControllerRecord,
    ControllerStatus,
    controller_history_path,
)
from zkgroup.znodes.entity_settings import OBEYED, unknown_to_brokers
from zkgroup.znodes.topic_settings import unknown_to

NO_WORD = "its session ended"
"""Of a controller that could not write its end, and that another one has followed."""
OURS_VERSION = 1
"""Data version of a `/controller` of ours: it is set once, in the transaction that makes it."""

_FIRST_THROTTLED = 3
_FIRST_WAITING = 4
_FIRST_DELETING = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """Brokers and controller at one moment."""

    brokers: Mapping[int, BrokerRegistration]
    controller: Controller | None
    controller_znode: Znode | None
    unreadable: tuple[str, ...] = field(default=())
    """Registrations, and a `/controller`, that cannot be read."""

    @property
    def is_ours(self) -> bool:
        """Whether a controller of ours rules."""
        return self.controller_znode is not None and self.controller_znode.stat.version == OURS_VERSION

    @property
    def kind(self) -> str | None:
        """`zkgroup` or `kafka`; None where nobody rules."""
        if self.controller_znode is None:
            return None
        return "zkgroup" if self.is_ours else "kafka"

    @property
    def oldest(self) -> int | None:
        """Registration format of the oldest real broker."""
        return oldest_format(self.brokers.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerDescription:
    """`controller describe`."""

    controller: int
    epoch: int | None
    elected_at_ms: int
    session: int
    kind: str
    """`zkgroup` or `kafka`."""
    last_processed_zxid: int | None
    """How far a controller of ours has come; None for a real one, which does not tell."""


@dataclass(frozen=True, slots=True)
class PastController:
    """One row of `controller history`: an epoch in which a controller of ours ruled.

    One that wrote no end, though another epoch follows, was killed or lost its session.
    """

    epoch: int
    record: ControllerRecord


def read_ruling(ensemble: Ensemble) -> Ruling:
    """Reads brokers and controller."""
    entries = registrations(ensemble)
    znode = ensemble.zk.find(Controller.path())
    controller = held(znode, Controller.decode) if znode else None
    errors = [entry.error for entry in entries.values()] + [controller.error if controller else None]
    return Ruling(
        brokers=readable(entries),
        controller=controller.value if controller else None,
        controller_znode=znode,
        unreadable=tuple(str(error) for error in errors if error),
    )


def refuse_kraft(ruling: Ruling) -> None:
    """Raises RefusedError where a KRaft controller has taken over: it does not look at these znodes."""
    if ruling.controller is not None and ruling.controller.kraft_epoch is not None:
        raise RefusedError(
            f"{Controller.path()}: expected a controller that obeys ZooKeeper, found a migration to KRaft "
            f"(epoch {ruling.controller.kraft_epoch}): ask its brokers instead"
        )


def notes_on_requests(ruling: Ruling, *, asked: bool = True) -> Iterator[str]:
    """What holds for every request that a controller has to carry out; `asked` tells whether there is one."""
    yield from (f"{text}: it is passed over" for text in ruling.unreadable)
    if asked and ruling.controller_znode is None:
        yield "no controller lives: the request waits until there is one"


def check_dead_targets(ruling: Ruling, dead: Collection[int]) -> None:
    """Raises RefusedError where the controller would drop a move to brokers that are not registered.

    Controllers before 0.10.2 do, and leave a move that has begun at old and new replicas for ever (K12).
    """
    if dead and ruling.kind == "kafka" and ruling.oldest is not None and ruling.oldest < _FIRST_WAITING:
        raise RefusedError(
            f"broker {', '.join(map(str, sorted(dead)))} is not registered, and controllers before Kafka "
            "0.10.2 drop such a move instead of waiting: start the broker first"
        )


def check_throttle(ruling: Ruling) -> str | None:
    """What to know about a throttle here. Raises RefusedError where no broker would obey it."""
    oldest = ruling.oldest
    if oldest is None or oldest > _FIRST_THROTTLED:
        return None
    if oldest < _FIRST_THROTTLED:
        raise RefusedError(
            "--throttle: brokers before Kafka 0.10.1 ignore it, and one is registered; without it the move "
            "takes all the bandwidth there is: move less at a time (`reassign plan --max-moves`)"
        )
    return "brokers of Kafka 0.10.0 ignore the throttle, those of 0.10.1 obey: their registrations are alike"


def notes_on_settings(ruling: Ruling, kind: EntityKind, settings: Collection[str]) -> Iterator[str]:
    """Settings that brokers here will ignore: the oldest of Kafka, those of zkgroup, or all."""
    if kind == "topics":
        for name, release in unknown_to(settings, ruling.oldest):
            yield f"{name} came with Kafka {release}: older brokers, of which one is registered, ignore it"
    unknown = dict(unknown_to_brokers(settings)) if kind == "brokers" else {}
    for name, guess in unknown.items():
        more = f" (did you mean {guess}?)" if guess else ""
        yield f"{name} is no setting that Kafka's brokers take while they run{more}; only a plug-in reads it"
    ignored = sorted(set(settings) - OBEYED.get(kind, frozenset()) - unknown.keys())
    if ignored and any(each.is_zkgroup and each.role == "data" for each in ruling.brokers.values()):
        yield f"{', '.join(ignored)}: brokers of zkgroup, of which one is registered, do not obey it"


def note_on_entity(ruling: Ruling, entity: ConfigEntity) -> Iterator[str]:
    """A broker that is not there may be one that was never meant."""
    if entity.kind == "brokers" and entity.name.isdigit() and int(entity.name) not in ruling.brokers:
        yield f"broker {entity.name} is not registered: it applies this when it starts"


def note_on_deletion(ruling: Ruling) -> str | None:
    """What to know before a real controller is asked to delete a topic."""
    if ruling.kind != "kafka" or ruling.oldest is None or ruling.oldest >= _FIRST_DELETING:
        return None
    what = "the request stays and nothing happens" if ruling.oldest == 1 else "nothing happens"
    return f"Kafka before 1.0 deletes only with delete.topic.enable=true; without it {what}"


def describe_controller(ensemble: Ensemble) -> tuple[AsOf, ControllerDescription]:
    """Who rules. Raises NotFoundError where nobody does, CorruptZnodeError."""
    found = ensemble.zk.read_many([Controller.path(), ControllerEpoch.path(), ControllerStatus.path()])
    znode = found[Controller.path()]
    epoch_znode, status_znode = found[ControllerEpoch.path()], found[ControllerStatus.path()]
    epoch = held(epoch_znode, ControllerEpoch.decode).value if epoch_znode else None
    if znode is None:
        last = f"; the last epoch was {epoch.epoch}" if epoch else ""
        raise NotFoundError(
            f"{Controller.path()}: there is no controller{last}; `zkgroup broker run` starts a candidate"
        )
    one = Controller.decode(znode.path, znode.data)
    status = held(status_znode, ControllerStatus.decode).value if status_znode else None
    told = status is not None and epoch is not None and status.epoch == epoch.epoch
    return ensemble.as_of(), ControllerDescription(
        controller=one.broker,
        epoch=epoch.epoch if epoch else None,
        elected_at_ms=znode.stat.ctime if one.timestamp_ms is None else one.timestamp_ms,
        session=znode.stat.ephemeral_owner,
        kind="zkgroup" if znode.stat.version == OURS_VERSION else "kafka",
        last_processed_zxid=status.zxid if told and status else None,
    )


def controller_history(ensemble: Ensemble) -> tuple[AsOf, tuple[PastController, ...], tuple[str, ...]]:
    """The epochs of controllers of ours, the latest first, and the records that cannot be read."""
    names = ensemble.zk.list_many([controller_history_path()])[controller_history_path()] or ()
    epochs = sorted(
        (epoch for name in names if (epoch := ControllerRecord.epoch_of(name)) is not None), reverse=True
    )
    znodes = ensemble.zk.read_many([ControllerRecord.path(epoch) for epoch in epochs])
    rows: list[PastController] = []
    unreadable = []
    for epoch in epochs:
        znode = znodes[ControllerRecord.path(epoch)]
        if znode is None:
            continue
        entry = held(znode, ControllerRecord.decode)
        if entry.value is None:
            unreadable.append(str(entry.error))
        else:
            rows.append(PastController(epoch, _with_end(entry.value, rows[-1] if rows else None)))
    return ensemble.as_of(), tuple(rows), tuple(unreadable)


def _with_end(record: ControllerRecord, later: PastController | None) -> ControllerRecord:
    if later is None or record.until_ms is not None:
        return record
    return dataclasses.replace(record, ended=NO_WORD)
