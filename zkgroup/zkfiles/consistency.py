"""Proves a replay where servers wrote no digests: before 3.6, or with digests off.

Records hold what the leader computed from its own tree when it prepared them: the version after a set, the
parent's count of creates after a create. A replay that went wrong, or a log that lacks something, does not
have the numbers before these. Source: PrepRequestProcessor.pRequest2Txn@3.9.
"""

from __future__ import annotations

from zkgroup.zkfiles.records import CREATES, DELETES, SETS, Operation, Transaction, TransactionType
from zkgroup.zkfiles.tree import Tree, next_version


def apply_and_doubt(tree: Tree, transaction: Transaction) -> str | None:
    """Applies the transaction; says what in it cannot be where the tree is right, None for nothing.

    Of several doubts the first. Must not be asked inside the window of a fuzzy snapshot.
    """
    if transaction.type != TransactionType.MULTI:
        operations = transaction.operations
        doubt = _doubt(tree, operations[0]) if len(operations) == 1 else None
        tree.apply(transaction)
        return doubt
    first = None
    if transaction.is_applied:
        for operation in transaction.operations:
            first = first or _doubt(tree, operation)
            tree.apply_operation(operation, transaction)
    tree.arrive(transaction)
    return first


def _doubt(tree: Tree, operation: Operation) -> str | None:
    kind, path = operation.type, operation.path or "/"
    if path.startswith("/zookeeper/"):
        return None  # each server writes quotas and its configuration there by itself
    if kind in CREATES:
        return _create_doubt(tree, operation, path)
    if kind in DELETES:
        here = tree.stored(path)
        return None if here is not None else f"{path} is deleted and is not there"
    if kind in SETS or kind == TransactionType.SET_ACL:
        here = tree.stored(path)
        what = "ACL" if kind == TransactionType.SET_ACL else "data"
        if here is None:
            return f"the {what} of {path} is set and it is not there"
        before = here.stat.aversion if kind == TransactionType.SET_ACL else here.stat.version
        if operation.version is not None and operation.version != next_version(before):
            return f"the {what} of {path} gets version {operation.version} after {before}"
    return None


def _create_doubt(tree: Tree, operation: Operation, path: str) -> str | None:
    if path in tree:
        return f"{path} is created and is there already"
    parent_path = path.rpartition("/")[0] or "/"
    parent = tree.stored(parent_path)
    if parent is None:
        return f"{path} is created and its parent is not there"
    count, before = operation.parent_cversion, parent.stat.cversion
    if count not in (None, -1, next_version(before)):
        return f"{path} is created as number {count} below {parent_path}, which counted {before}"
    return None
