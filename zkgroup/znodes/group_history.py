"""The history of a group's rebalances, for people: what `group history` shows.

Members keep it in one znode of the group, written by the oldest of them; a coordinator keeps each rebalance
in a znode below the group's header. Nothing depends on it (recipes 25).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Self

from zkgroup.errors import CorruptZnodeError
from zkgroup.znodes.coordinated_groups import GroupHeader
from zkgroup.znodes.json_fields import (
    INT32,
    decimal,
    integer_text_of,
    object_of,
    read_object,
    show,
    text_of,
    write_object,
)
from zkgroup.znodes.paths import zkgroup_path

REBALANCES_MAX: Final = 200
"""Rebalances that are kept of a group, the newest ones."""


def group_history_path() -> str:
    """The parent of the histories that members keep, one for each group."""
    return f"{zkgroup_path()}/group_history"


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceRecord:
    """`/zkgroup/groups/<slot>/<g>/rebalance-<generation>`: one rebalance, kept by a coordinator. Persistent.

    Created in the transaction that stores the generation. A row of `GroupHistory` has the same fields.
    """

    time_ms: int
    """Its begin in epoch milliseconds, by the clock of the member or the broker that wrote it."""
    generation: int
    """The generation that it led to: the `pzxid` of `ids`, or the coordinator's number."""
    reason: str
    """For people: `joined`, `left`, ... of members, or the coordinator's words."""
    joined: tuple[str, ...]
    """Member ids. One that has registered again is in `left` too."""
    left: tuple[str, ...]
    """Member ids."""
    moved: int | None
    """Number of partitions that have another member than before; None for unknown."""
    took_ms: int | None
    """Milliseconds from the first change until the partitions were owned; None for unknown."""

    @staticmethod
    def path(slot: int, group: str, generation: int) -> str:
        return f"{GroupHeader.path(slot, group)}/rebalance-{generation}"

    @staticmethod
    def parse(name: str) -> int | None:
        """The generation in the name of a child of a header; None for another name."""
        prefix, _, number = name.partition("-")
        return decimal(number, range(INT32[-1] + 1)) if prefix == "rebalance" else None

    def fields(self) -> dict[str, object]:
        """The fields as they are written."""
        fields: dict[str, object] = {
            "time": str(self.time_ms),
            "generation": str(self.generation),
            "reason": self.reason,
            "joined": list(self.joined),
            "left": list(self.left),
        }
        if self.moved is not None:
            fields["moved"] = self.moved
        if self.took_ms is not None:
            fields["took"] = str(self.took_ms)
        return fields

    @classmethod
    def of_fields(cls, path: str, fields: Mapping[str, object]) -> Self:
        """The rebalance of these fields. `path`: for errors."""
        return cls(
            time_ms=integer_text_of(path, fields, "time"),
            generation=integer_text_of(path, fields, "generation"),
            reason=text_of(path, fields, "reason"),
            joined=_texts(path, fields, "joined"),
            left=_texts(path, fields, "left"),
            moved=moved if isinstance(moved := fields.get("moved"), int) else None,
            took_ms=integer_text_of(path, fields, "took") if "took" in fields else None,
        )

    def encode(self) -> bytes:
        return write_object({"version": 1, **self.fields()})

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        return cls.of_fields(path, read_object(path, data, "a rebalance"))


class MemberChange(NamedTuple):
    """A rebalance that no znode has yet, as one member has noticed it."""

    rebalance: RebalanceRecord
    """Without `joined` and `left`."""
    zxid: int
    """The newest transaction that its assignment follows from: the generation, or the `mzxid` of a topic."""
    joined: Mapping[str, int]
    """The registrations that were not there at the change before: member id to `czxid`."""
    left: Mapping[str, int]
    """The registrations that are not there any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHistory:
    """`/zkgroup/group_history/<g>`: the newest rebalances of a group of ZooKeeper consumers. Persistent.

    Written by the oldest zkgroup member with the version that it has read or written.
    """

    zxid: int
    """The newest transaction that the newest rebalance follows from."""
    members: Mapping[str, int]
    """Member id to the `czxid` of its registration, after the newest rebalance."""
    rebalances: tuple[RebalanceRecord, ...]
    """The newest is the last; there is at least one."""

    @staticmethod
    def path(group: str) -> str:
        return f"{group_history_path()}/{group}"

    def lacks(self, change: MemberChange) -> bool:
        """Returns whether a change came after the newest rebalance here."""
        return change.zxid > self.zxid

    def encode(self) -> bytes:
        return write_object(
            {
                "version": 1,
                "zxid": str(self.zxid),
                "members": {name: str(czxid) for name, czxid in self.members.items()},
                "rebalances": [each.fields() for each in self.rebalances],
            }
        )

    def encode_newest(self, bytes_max: int) -> bytes | None:
        """The znode with as many of the newest rebalances as fit; None if the newest one does not."""
        kept = self
        while len(data := kept.encode()) > bytes_max:
            if len(kept.rebalances) == 1:
                return None
            kept = replace(kept, rebalances=kept.rebalances[(len(kept.rebalances) + 1) // 2 :])
        return data

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        fields = read_object(path, data, "the history of a group")
        members = object_of(path, fields, "members")
        rows = fields.get("rebalances")
        if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
            raise CorruptZnodeError(path, "a list of rebalances", show(rows))
        return cls(
            zxid=integer_text_of(path, fields, "zxid"),
            members={name: integer_text_of(path, members, name) for name in members},
            rebalances=tuple(RebalanceRecord.of_fields(path, row) for row in rows),
        )


def continued(
    stored: GroupHistory | None, changes: Sequence[MemberChange], members: Mapping[str, int]
) -> GroupHistory:
    """The history with these changes, of which there is at least one, and with `members` after them.

    The member that has noticed the changes may have come after the newest rebalance in `stored`: whatever
    else is different from the members there has happened by the first change.
    """
    before = dict(members)
    for change in reversed(changes[1:]):
        for name in change.joined:
            del before[name]
        before.update(change.left)
    known = stored.members if stored is not None else {}
    first = _row(changes[0], *difference(known, before))
    if not known:
        first = replace(first, reason="started", moved=0)
    rows = [first, *(_row(each, each.joined, each.left) for each in changes[1:])]
    kept = stored.rebalances if stored is not None else ()
    return GroupHistory(zxid=changes[-1].zxid, members=members, rebalances=(*kept, *rows)[-REBALANCES_MAX:])


def difference(
    before: Mapping[str, int], after: Mapping[str, int]
) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """The registrations that have come, and those that have gone: member id to `czxid`."""
    joined = {name: czxid for name, czxid in after.items() if before.get(name) != czxid}
    left = {name: czxid for name, czxid in before.items() if after.get(name) != czxid}
    return joined, left


def _row(change: MemberChange, joined: Mapping[str, int], left: Mapping[str, int]) -> RebalanceRecord:
    reasons = {
        "joined": joined.keys() - left.keys(),
        "left": left.keys() - joined.keys(),
        "registered again": joined.keys() & left.keys(),
    }
    return replace(
        change.rebalance,
        reason=", ".join(word for word, names in reasons.items() if names) or change.rebalance.reason,
        joined=tuple(sorted(joined)),
        left=tuple(sorted(left)),
    )


def _texts(path: str, fields: Mapping[str, object], key: str) -> tuple[str, ...]:
    found = fields.get(key)
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise CorruptZnodeError(path, f"a list of texts as {key!r}", show(found))
    return tuple(found)
