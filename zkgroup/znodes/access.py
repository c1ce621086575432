"""Which znodes a closed cluster closes, which it hides, which it leaves open: Kafka's rule, by path. Pure.

Source: kafka/zk/ZkData.scala@2.8.2 (`defaultAcls`, `SensitiveRootPaths`, `SecureRootPaths`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from zkgroup.model.requests import AclEntry
from zkgroup.znodes.admin_requests import admin_path
from zkgroup.znodes.brokers import brokers_path
from zkgroup.znodes.cluster import ClusterId, FinalizedFeatures, ProducerIdBlock
from zkgroup.znodes.config import config_path, entities_path
from zkgroup.znodes.consumers import consumers_path, group_path, offsets_path
from zkgroup.znodes.controller import ControllerEpoch, ControllerRegistration
from zkgroup.znodes.group_history import group_history_path
from zkgroup.znodes.notifications import isr_changes_path, log_dir_events_path
from zkgroup.znodes.paths import zkgroup_path

OPEN_PATH: Final = consumers_path()
"""It is open in every cluster: consumers of all users create their groups there."""
HIDDEN_PATHS: Final = (entities_path("users"), entities_path("brokers"), "/delegation_token/tokens")
"""What begins with one of these has secrets, of users, brokers and tokens. None of zkgroup's own has."""

CLOSED_ROOTS: Final = (
    admin_path(),
    brokers_path(),
    ClusterId.path().rpartition("/")[0],
    config_path(),
    ControllerRegistration.path(),
    ControllerEpoch.path(),
    isr_changes_path(),
    ProducerIdBlock.path(),
    log_dir_events_path(),
    "/delegation_token",
    "/kafka-acl",
    "/kafka-acl-changes",
    "/kafka-acl-extended",
    "/kafka-acl-extended-changes",
    FinalizedFeatures.path(),
    zkgroup_path(),
)
"""What a closed cluster closes, with everything below, beside `/` itself. Kafka's tool leaves out `/feature`,
though its brokers create that closed."""

_READ: Final = 1
_BELOW_GROUPS: Final = f"{consumers_path()}/"
_BELOW_HISTORIES: Final = f"{group_history_path()}/"


def models_of(path: str) -> tuple[str, ...]:
    """The znodes whose ACL a new znode gets, of the first one that exists; none for most paths.

    What is in a group, and its history, gets the group's ACL, and an offset that of the group's `offsets`: so
    who may join the group, and who may read its offsets, may do so with whatever its members create. Where
    secrets are, the ACL of their parent counts by `secret_acl`.
    """
    if path.startswith(HIDDEN_PATHS):
        return tuple(parent for parent in HIDDEN_PATHS if path.startswith(f"{parent}/"))
    if path.startswith(_BELOW_HISTORIES):
        return (group_path(path.removeprefix(_BELOW_HISTORIES)),)
    if not path.startswith(_BELOW_GROUPS):
        return ()
    names = path.split("/", 4)
    if len(names) < 4:
        return ()
    group = group_path(names[2])
    return (offsets_path(names[2]), group) if len(names) == 5 and names[3] == "offsets" else (group,)


def secret_acl(parent: Iterable[AclEntry]) -> tuple[AclEntry, ...] | None:
    """The ACL of a new secret whose creator asks for an open one, by that of its parent; None for the open
    one. In a closed cluster nobody else may read or replace a password, whatever the creator was set to."""
    entries = tuple(parent)
    if is_open("", entries):
        return None
    return tuple(entry for entry in entries if (entry.scheme, entry.id) != ("world", "anyone"))


def is_open(path: str, acl: Iterable[AclEntry]) -> bool:
    """Returns whether everyone may change a znode with this ACL, or read it where it has secrets."""
    rights = 0
    for entry in acl:
        if (entry.scheme, entry.id) == ("world", "anyone"):
            rights |= entry.perms
    return rights & ~_READ != 0 or (rights & _READ != 0 and path.startswith(HIDDEN_PATHS))
