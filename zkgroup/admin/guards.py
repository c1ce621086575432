"""Writes that the server refuses where something is no longer as it was read, and lost answers resolved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from zkgroup.errors import (
    ConflictError,
    NotFoundError,
    OperationRefusedError,
    OutcomeUnknownError,
    PersistentZnodeError,
    RefusedError,
    StoreUnavailableError,
)
from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.freezes import freeze_text, stands
from zkgroup.groups.reader import read_snapshots
from zkgroup.groups.snapshot import GroupSnapshot
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import Create, Delete, Operation
from zkgroup.model.text import named, typed
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import ids_path
from zkgroup.znodes.coordinated_groups import ProtocolMarker

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Guard:
    """Operations that the server refuses when the precondition does not hold."""

    path: str
    operations: tuple[Operation, ...]
    marker: str | None = None
    """Of Kafka's group protocol."""

    def refused_by(self, error: OperationRefusedError) -> bool:
        """Returns whether it was this guard that made the server refuse."""
        return error.path in (self.path, self.marker)


def idle_guard(ensemble: Ensemble, group: str) -> Guard:
    """Holds while the group has no members: deleting `ids` fails with NotEmpty otherwise.

    It is created again at once. That restarts its `cversion`; caches of members notice that by its `czxid`.
    Members of Kafka's group protocol have the marker, which then cannot be created (the marker, recipes 22).
    """
    path, marker = ids_path(group), ProtocolMarker.path(group)
    found = ensemble.zk.find(path)
    unmarked = (Create(marker, None), Delete(marker, 0))
    if found is None:
        # no member has ever joined; one that does so meanwhile creates `ids` first
        return Guard(path, (Create(path, None), *unmarked), marker)
    return Guard(path, (Delete(path, found.stat.version), Create(path, found.data), *unmarked), marker)


def read_back(unknown: OutcomeUnknownError, applied: Callable[[], T]) -> T:
    """Resolves a write without an answer: what `applied` reads now where it was applied.

    Raises the unknown outcome where that is nothing, or where nothing can be read: "ZooKeeper cannot be
    reached" alone would hide that something may have been written.
    """
    try:
        found = applied()
    except StoreUnavailableError as error:
        raise OutcomeUnknownError(
            f"{unknown}, and reading back failed: {error}; check before you repeat"
        ) from error
    if not found:
        raise unknown
    return found


def no_topic_error(topic: str) -> NotFoundError:
    """Refuses a request for a topic that does not exist."""
    return NotFoundError(
        f"{Topic.path(topic)}: there is no topic {topic!r}; `zkgroup topic list` shows those there are"
    )


def no_partitions_error(missing: Sequence[TopicPartition]) -> NotFoundError:
    """Refuses a request for partitions that do not exist; names the first few, and where they should be."""
    return NotFoundError(
        f"{Topic.path(missing[0].topic)}: there is no partition {named(missing)}; nothing was changed; "
        "`zkgroup topic list` shows what there is"
    )


def frozen_error(ensemble: Ensemble, snapshot: GroupSnapshot) -> RefusedError | None:
    """The refusal of a change of a frozen group; None where it is not frozen, or the time is over."""
    marker = snapshot.frozen
    if marker is None or not stands(marker, ensemble.clock.wall_ms()):
        return None
    return RefusedError(
        f"{marker.znode.path}: {freeze_text(marker)}; "
        f"`{typed('group unfreeze', snapshot.group, options='--execute')}` ends it"
    )


def living_group_error(group: str, members: Sequence[str], persistent: Sequence[str] = ()) -> RefusedError:
    """The refusal of a change that needs a group without members; names the members.

    `persistent`: see `to_stop`.
    """
    what = named(sorted(members)) if members else "a member joined and left meanwhile"
    return RefusedError(
        f"{ids_path(group)}: expected no member of {group}, found {what}; {to_stop(persistent)}"
    )


def to_stop(persistent: Sequence[str]) -> str:
    """Says what to do about members that are in the way.

    `persistent` are paths of registrations and owners that no session holds: nothing can be stopped there.
    """
    return f"stop them first; {PersistentZnodeError(persistent[0])}" if persistent else "stop them first"


def clients_error(group: str, members: Sequence[str]) -> RefusedError:
    """The refusal of a change beside members of Kafka's group protocol; names those that are stored."""
    marker = ProtocolMarker.path(group)
    if members:
        return RefusedError(
            f"{marker}: expected no member of {group}, found {named(sorted(members))}, clients of Kafka's "
            "group protocol, which do not notice such a change; stop them first"
        )
    return RefusedError(
        f"{marker}: expected no member of {group}, found the marker of Kafka's group protocol: clients are "
        "joining, or the broker that coordinated them has ended; see "
        f"`{typed('coordinator describe', group)}`; where no live broker leads the slot, "
        f"`{typed('coordinator release', group)}` takes the marker off"
    )


def members_error(ensemble: Ensemble, group: str) -> RefusedError:
    """The refusal by `idle_guard`, with the members that are there now."""
    snapshot = read_snapshots(ensemble, [group])[group]
    if ensemble.zk.exists(ProtocolMarker.path(group)) is not None:
        coordinated = snapshot.coordinated if snapshot else None
        return clients_error(group, coordinated.names if coordinated else ())
    members = ensemble.names_below(ids_path(group))
    return living_group_error(group, members, snapshot.persistent_paths if snapshot else ())


def changed_error(error: OperationRefusedError) -> Exception:
    """The conflict of a transaction that was refused."""
    return ConflictError(f"{error.path}: changed since it was read ({error.code}); run the command again")


def transact(
    ensemble: Ensemble,
    operations: Iterable[Operation],
    is_applied: Callable[[], object],
    refusal: Callable[[OperationRefusedError], Exception] = changed_error,
) -> None:
    """One transaction; without an answer it is resolved by `is_applied`.

    Raises what `refusal` makes of a refused one: ConflictError, as something is not as it was read.
    """
    try:
        ensemble.zk.multi(*operations)
    except OutcomeUnknownError as error:
        read_back(error, is_applied)
    except OperationRefusedError as error:
        raise refusal(error) from error


def write(
    ensemble: Ensemble,
    operations: Sequence[Operation],
    path: str,
    data: bytes | None,
    above: int = -1,
    refusal: Callable[[OperationRefusedError], Exception] = changed_error,
) -> None:
    """One transaction, as `transact`; it was applied if `path` holds the data, in a version above `above`.

    data: None where the transaction deletes the znode.
    """
    transact(ensemble, operations, lambda: _holds(ensemble, path, data, above), refusal)


def are_gone(ensemble: Ensemble, znodes: Sequence[Znode]) -> bool:
    """Returns whether none of these znodes is there any more; others may have been made in their places."""
    ensemble.zk.sync("/")
    found = ensemble.zk.read_many([each.path for each in znodes])
    return all((now := found[each.path]) is None or now.stat.czxid != each.stat.czxid for each in znodes)


def _holds(ensemble: Ensemble, path: str, data: bytes | None, above: int) -> bool:
    ensemble.zk.sync("/")
    found = ensemble.zk.find(path)
    if found is None or data is None:
        return found is None and data is None
    return (found.data or b"") == data and found.stat.version > above
