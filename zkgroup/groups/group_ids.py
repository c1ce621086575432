"""Checks the names of groups that the administration takes: of ZooKeeper consumers and Kafka's clients.

A consumer of Kafka 0.8 refuses a name outside `[a-zA-Z0-9._-]` (`znodes.ids.validate_group`). A coordinator
serves every name that can be that of a znode and is not too long: there are groups like `my group` and
`app:v1`.
"""

from __future__ import annotations

from zkgroup.coordinator.group_ids import GROUP_ID_BYTES_MAX, is_znode_name
from zkgroup.errors import ConfigError
from zkgroup.znodes.ids import validate_group


def validate_group_id(name: str) -> str:
    """Returns the name. Raises ConfigError for one that no group can have: without a znode of that name."""
    if not name:
        raise ConfigError("group: expected a name, found nothing")
    if not is_znode_name(name):
        raise ConfigError(
            f"group {name!r}: expected no '/', no '%' and no character that ZooKeeper refuses in it, "
            "and not '.' or '..'"
        )
    return name


def validate_length(name: str) -> str:
    """Returns the name of a new group. Raises ConfigError for one that is longer than a coordinator takes."""
    size = len(name.encode())
    if size > GROUP_ID_BYTES_MAX:
        raise ConfigError(
            f"group {name[:40]!r}...: expected at most {GROUP_ID_BYTES_MAX} bytes, found {size}"
        )
    return name


def validate_new_group(name: str) -> str:
    """Returns the name. Raises ConfigError for one that only Kafka's clients may have."""
    try:
        return validate_group(name)
    except ConfigError as error:
        raise ConfigError(
            f"{error}: there is no such group, and only Kafka's clients could join it; --allow-missing "
            "creates it for them"
        ) from None
