"""Configurations, and notifications of their changes, that nobody can read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from zkgroup.admin.ensemble import Ensemble
from zkgroup.errors import CorruptZnodeError
from zkgroup.model import Znode
from zkgroup.model.requests import Code
from zkgroup.znodes.config_changes import ConfigChange, config_changes_path
from zkgroup.znodes.config_entity import ConfigEntity, EntityKind, entities_path
from zkgroup.znodes.configs import EntityConfig

_KINDS: tuple[EntityKind, ...] = get_args(EntityKind)


def unreadable_configs(ensemble: Ensemble) -> dict[str, str]:
    """Path to what is wrong with it, of every znode below `/config` that brokers have to pass over.

    What an access list hides from us is not looked at: the brokers may be allowed to read it. Bulk reads.
    """
    parents = {entities_path(kind): kind for kind in _KINDS}
    listed = ensemble.zk.list_each([*parents, config_changes_path()])
    entities = {
        f"{parent}/{name}": f"{kind}/{name}"
        for parent, kind in parents.items()
        for name in _names(listed[parent])
    }
    folders = [f"{path}/clients" for path, text in entities.items() if text.startswith("users/")]
    clients = ensemble.zk.list_each(folders) if folders else {}
    for folder, names in clients.items():
        user = folder.removesuffix("/clients")
        entities |= {f"{folder}/{name}": f"{entities[user]}/clients/{name}" for name in _names(names)}
    changes = [
        f"{config_changes_path()}/{name}"
        for name in _names(listed[config_changes_path()])
        if ConfigChange.sequence_of(name) is not None
    ]
    paths = [*entities, *changes]
    found = ensemble.zk.read_each(paths) if paths else {}
    unreadable = {}
    for path in paths:
        if isinstance(znode := found[path], Znode) and (error := _error(znode, entities.get(path))):
            unreadable[path] = f"expected {error.expected}, found {error.found}"
    return unreadable


def _names(listed: tuple[str, ...] | Code | None) -> Iterable[str]:
    return sorted(listed) if isinstance(listed, tuple) else ()


def _error(znode: Znode, entity: str | None) -> CorruptZnodeError | None:
    """`entity` as notifications name it; None for a notification."""
    try:
        if entity is None:
            ConfigChange.decode(znode.path, znode.data)
        else:
            ConfigEntity.parse(znode.path, entity)
            EntityConfig.decode(znode.path, znode.data)
    except CorruptZnodeError as error:
        return error
    return None
