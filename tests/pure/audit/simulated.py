"""Simulated groups of our own members, as the records that a real server would have written of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tests.pure.simulation.setups import SETUPS
from tests.simulation.group.setup import GroupSetup
from tests.worlds.record_by_record import events_of
from zkgroup.audit.inputs.events import Event
from zkgroup.testing.memory_zookeeper import tree
from zkgroup.testing.memory_zookeeper.leader import LoggedTransaction
from zkgroup.zkfiles.records import Operation, Transaction, TransactionType

STRANGE = ("steal", "foreign_write", "reset", "reset_then_write", "unregister")
"""Faults that are a foreign hand in the group's znodes."""


def _is_quiet(setup: GroupSetup) -> bool:
    """Offsets go forward: nobody else writes them, and no position is left for an earlier one."""
    goes_back = setup.habits.seeks or setup.weights.get("retention")
    return not any(map(setup.weights.get, STRANGE)) and not goes_back


QUIET = sorted(name for name, setup in SETUPS.items() if _is_quiet(setup))
STOLEN = ("foreign-writes", "lagging-steal", "three", "abandon-shared", "sticky-lost")
"""Groups in which a stranger deletes owners."""
UNREGISTERED = "unregister"
"""The group in which registrations are deleted."""
COUNTED = ("join", "lost-claims", "foreign-writes", "reset", "sticky", "jvm", "shared-client")
"""Groups whose claims, commits and owners are counted twice."""
AUDITED = frozenset((*QUIET, *STOLEN, UNREGISTERED, *COUNTED))
"""Groups whose schedules run with an audit: the first `SEEDS_OF_A_GROUP` of each."""

_KINDS: Mapping[str, int] = {
    "create_session": TransactionType.CREATE_SESSION,
    "close_session": TransactionType.CLOSE_SESSION,
}


def events_of_log(log: Iterable[LoggedTransaction], *, with_lists: bool) -> list[Event]:
    """The rows of a memory server's log; `with_lists` as from 3.6 on."""
    return list(events_of(_records(log, with_lists=with_lists)))


def _records(log: Iterable[LoggedTransaction], *, with_lists: bool) -> Iterator[Transaction]:
    for entry in log:
        operations = tuple(map(_operation, entry.changes, entry.stats))
        if entry.refused is not None:
            refusal = Operation(TransactionType.ERROR, error=-1)
            yield _record(entry, TransactionType.ERROR, (refusal,))
        elif entry.kind == "close_session":
            gone = tuple(operation.path or "" for operation in operations) if with_lists else None
            yield _record(entry, TransactionType.CLOSE_SESSION, (), gone)
        elif entry.kind in _KINDS:
            yield _record(entry, _KINDS[entry.kind], ())
        elif len(operations) == 1:
            yield _record(entry, operations[0].type, operations)
        else:
            yield _record(entry, TransactionType.MULTI, operations)


def _record(
    entry: LoggedTransaction,
    type_: int,
    operations: tuple[Operation, ...],
    gone: tuple[str, ...] | None = None,
) -> Transaction:
    return Transaction(entry.zxid, entry.session_id, 0, entry.time_ms, type_, operations, closed_paths=gone)


def _operation(change: tree.Change, stat: object) -> Operation:
    match change:
        case tree.CreatedNode(path, data, owner):
            return Operation(TransactionType.CREATE, path, data, is_ephemeral=bool(owner))
        case tree.DataSet(path, data):
            return Operation(TransactionType.SET_DATA, path, data, version=getattr(stat, "version", None))
        case tree.Deleted(path):
            return Operation(TransactionType.DELETE, path)
        case tree.Checked(path):
            return Operation(TransactionType.CHECK, path)
        case tree.AclSet(path, acl):
            return Operation(TransactionType.SET_ACL, path, acl=acl, version=getattr(stat, "aversion", None))
