"""The znodes that belong to a session, and the marks of one that no session holds. Pure.

They are ephemeral. A tree that was restored from a backup has them as persistent znodes: they end with no
session, and every client takes what they say for alive. `zkgroup doctor --fix` removes them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from zkgroup.errors import CorruptZnodeError
from zkgroup.model import Znode
from zkgroup.znodes.brokers import broker_ids_path
from zkgroup.znodes.controller import ControllerRegistration, ControllerStatus, standby_controllers_path
from zkgroup.znodes.ids import number_of

_SINGLES: Final = {
    ControllerRegistration.path(): "no broker is elected while it is there",
    ControllerStatus.path(): "it is taken for the status of the active controller",
}
_OF_BROKERS: Final = {
    broker_ids_path(): "Kafka's clients and controllers take this broker for alive, and it cannot start",
    standby_controllers_path(): "the controller with this id cannot start",
}
_OF_GROUPS: Final = {
    "ids": "the group shares partitions with this member, which cannot start",
    "owners": "no member can claim the partition",
    "views": "it says what a former member has computed",
    "prepared": "the owner of a partition takes a former member to be ready for it",
}


SINGLES_IN_CLUSTER: Final = tuple(_SINGLES)
"""Those that belong to no group and have a path of their own."""
PARENTS_IN_CLUSTER: Final = tuple(_OF_BROKERS)
"""The parents of the others that belong to no group."""


@lru_cache(maxsize=1 << 16)
def effect_without_session(path: str) -> str | None:
    """Returns the effect of this znode without a session; None for a path that belongs to no session.

    `path` is below the chroot. Results are cached: logs and trees have the same paths many times.
    """
    parent, _, name = path.rpartition("/")
    if parent in _OF_BROKERS:
        return _OF_BROKERS[parent] if number_of(name) is not None else None
    match path.split("/"):
        case ["", "consumers", _, "ids" | "views" | "prepared" as kind, _]:
            return _OF_GROUPS[kind]
        case ["", "consumers", _, "owners" as kind, _, partition] if number_of(partition) is not None:
            return _OF_GROUPS[kind]
    return _SINGLES.get(path)


def lacks_session(path: str, ephemeral_owner: int, data: bytes | None) -> bool:
    """Returns whether this znode belongs to a session, and none holds it: it is persistent.

    `/controller` is persistent by right after a migration to KRaft, whose controller has no session; its data
    shows that (kafka/zk/KafkaZkClient.scala@3.4, `tryRegisterKRaftControllerAsActiveController`).
    """
    if ephemeral_owner != 0 or effect_without_session(path) is None:
        return False
    return path != ControllerRegistration.path() or not _is_of_kraft(path, data)


def is_leftover(znode: Znode) -> bool:
    """The same of a znode as read."""
    return lacks_session(znode.path, znode.stat.ephemeral_owner, znode.data)


def _is_of_kraft(path: str, data: bytes | None) -> bool:
    try:
        return ControllerRegistration.decode(path, data).kraft_epoch is not None
    except CorruptZnodeError:
        return False
