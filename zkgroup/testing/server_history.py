"""The log of `MemoryZooKeeper` as transactions that `zkgroup.history` reads."""

from __future__ import annotations

from collections.abc import Iterable

from zkgroup.history import Change, ServerTransaction, TransactionRefusal, check_history
from zkgroup.model import ZnodeStat
from zkgroup.model.ports import Clock
from zkgroup.model.requests import Create, Delete, Operation, SetData
from zkgroup.testing.memory_zookeeper import tree
from zkgroup.testing.memory_zookeeper.leader import Transaction

__all__ = ["check_history", "server_transactions"]


def server_transactions(log: Iterable[Transaction], clock: Clock) -> tuple[ServerTransaction, ...]:
    """Translates a log. Its wall times become times of the members' clock, by the present difference."""
    ahead_ms = clock.wall_ms() - clock.now_ms()
    return tuple(_translate(entry, entry.time_ms - ahead_ms) for entry in log)


def _translate(entry: Transaction, at_ms: int) -> ServerTransaction:
    if entry.refused is None:
        applied = zip(entry.changes, entry.stats, strict=True)
        changes = tuple([_applied(c, stat) for c, stat in applied if not isinstance(c, tree.AclSet)])
        return ServerTransaction(entry.zxid, at_ms, entry.session_id, changes, entry.kind)
    refusal = TransactionRefusal(entry.operations[entry.refused.index].path, entry.refused.code.value)
    asked = tuple([_asked(each) for each in entry.operations if not isinstance(each, tree.SetAcl)])
    return ServerTransaction(entry.zxid, at_ms, entry.session_id, asked, entry.kind, refusal)


def _applied(
    change: tree.CreatedNode | tree.DataSet | tree.Deleted | tree.Checked, stat: ZnodeStat | None
) -> Change:
    match change:
        case tree.CreatedNode(path, data, owner):
            return Change("create", path, data, 0, owner)
        case tree.DataSet(path, data):
            return Change("set", path, data, stat.version if stat is not None else None)
        case tree.Deleted(path):
            return Change("delete", path)
        case tree.Checked(path):
            return Change("check", path)


def _asked(operation: Operation) -> Change:
    match operation:
        case Create(path, data):
            return Change("create", path, data)
        case SetData(path, data):
            return Change("set", path, data)
        case Delete(path):
            return Change("delete", path)
        case _:
            return Change("check", operation.path)
