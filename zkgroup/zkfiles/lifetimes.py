"""Says what the ephemeralOwner of a znode means: a session, a container, a time to live, or nothing.

Source: EphemeralType.java@3.9. Whether a server took owners from 0xff00... on for times to live depends on a
setting that no file holds (`extendedTypesEnabled`). A session id of server 255 has parts of a clock in the 16
bits below the top byte, a time to live has zeros there, so these distinguish them.
"""

from __future__ import annotations

from typing import Final, Literal

from zkgroup.zkfiles.records import Operation, TransactionType

Lifetime = Literal["session", "container", "ttl"]

CONTAINER_OWNER: Final = -(2**63)
_TTL_BASE: Final = -(2**56)
"""0xff00000000000000 as a signed number: what a time to live is added to."""
_TTL_BITS: Final = 2**40
_CREATE_CONTAINER: Final = int(TransactionType.CREATE_CONTAINER)


def lifetime_of(owner: int) -> Lifetime | None:
    """Returns what ends a znode with this ephemeralOwner (signed); None for a persistent one."""
    if owner == 0:
        return None
    if owner == CONTAINER_OWNER:
        return "container"
    return "ttl" if _TTL_BASE <= owner < _TTL_BASE + _TTL_BITS else "session"


def owner_of(create: Operation, session: int) -> int:
    """The ephemeralOwner of the znode that a create by this session makes."""
    if create.type == _CREATE_CONTAINER:
        return CONTAINER_OWNER
    if create.ttl_ms is not None:
        return _TTL_BASE + create.ttl_ms
    return session if create.is_ephemeral else 0
