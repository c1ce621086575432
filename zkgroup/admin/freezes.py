"""Freezes a group, and ends a freeze: nothing moves but by leaving and death while its marker stands.

The transaction of a freeze counts it in the data version of `owners`, which members check when they claim or
release, and wakes every member (recipes 26).
"""

from __future__ import annotations

from collections.abc import Iterable

from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import Check, Create, Delete, Operation, SetData
from zkgroup.znodes.consumers import Owner, Registration
from zkgroup.znodes.group_records import Freeze


def freeze_operations(
    group: str, freeze: Freeze, owners: Znode, owned: Iterable[TopicPartition]
) -> tuple[Operation, ...]:
    """The transaction of a freeze. `owners`: as read; `owned`: partitions that must have an owner."""
    child = Registration.path(group, f"{group}_freeze")
    return (
        *(Check(Owner.path(group, tp), -1) for tp in owned),
        Create(Freeze.path(group), freeze.encode()),
        SetData(owners.path, owners.data or b"", owners.stat.version),
        Create(child, b""),
        Delete(child, 0),
    )
