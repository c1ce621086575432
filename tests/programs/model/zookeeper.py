"""The model's ZooKeeper: transactions, sessions, servers that lag.

`check`, `set` and `delete` compare the data version only, as ZooKeeper does: a znode that was deleted and
created again cannot be told from the old one by its path and version 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.programs.model.safety import audit
from tests.programs.model.values import ClientSession, Configuration, Node, Op, State, Tree, spend, swap


class Refusal(NamedTuple):
    """The operation at which a transaction was refused, and why."""

    index: int
    code: str


class Written(NamedTuple):
    """A possible result of a write. `outcome` is a `Refusal`, "ok", or "lost": no answer, applied or not."""

    note: str
    state: State
    outcome: str | Refusal
    violation: str | None


def multi(
    cfg: Configuration, tree: Tree, zxid: int, session: ClientSession | None, ops: Sequence[Op]
) -> tuple[Tree, Refusal | None]:
    """Applies all operations or none. Version -1 compares nothing."""
    nodes, cversion, pzxid = list(tree.nodes), tree.cversion, tree.pzxid
    for i, op in enumerate(ops):
        at = cfg.at(op.where, op.key)
        node = nodes[at]
        if op.kind == "create":
            if node is not None:
                return tree, Refusal(i, "NodeExists")
            nodes[at] = Node(op.data, 0, zxid, zxid, session if op.ephemeral else None)
        elif node is None:
            return tree, Refusal(i, "NoNode")
        elif op.version not in (-1, node.version):
            return tree, Refusal(i, "BadVersion")
        elif op.kind == "set":
            nodes[at] = node._replace(data=op.data, version=node.version + 1, mzxid=zxid)
        elif op.kind == "delete":
            nodes[at] = None
        if op.where == "frozen" and op.kind in ("create", "delete"):
            nodes[cfg.at("over")] = None
        if op.where == "ids" and op.kind in ("create", "delete"):
            cversion, pzxid = cversion + 1, zxid
    return Tree(tuple(nodes), tree.czxid, cversion, pzxid), None


def end_session(cfg: Configuration, tree: Tree, zxid: int, session: ClientSession) -> Tree:
    """Deletes all ephemerals of the session in one transaction."""
    gone = [node is not None and node.session == session for node in tree.nodes]
    nodes = tuple(None if g else node for g, node in zip(gone, tree.nodes, strict=True))
    left = sum(gone[: cfg.members])
    return Tree(nodes, tree.czxid, tree.cversion + left, zxid if left else tree.pzxid)


def seen(s: State, cfg: Configuration, m: int) -> Tree:
    """The tree as the server of this member's client shows it: where servers lag, an older one."""
    return s.views[cfg.client[m]] if cfg.lagging else s.tree


def catch_up(s: State, cfg: Configuration, client: int) -> State:
    return s._replace(views=swap(s.views, client, s.tree)) if cfg.lagging else s


def write(s: State, cfg: Configuration, m: int, ops: Sequence[Op]) -> Iterator[Written]:
    """A write of member `m` with its reply, in the session that its client has *now*.

    The member may not have heard of that session: this is what a request that waits in a queue does.
    """
    c = cfg.client[m]
    client = s.clients[c]
    if not client.alive:
        return
    session = (c, client.serial)
    tree, refusal = multi(cfg, s.tree, s.zxid, session, ops)
    after = s._replace(tree=tree, zxid=s.zxid + 1) if refusal is None else s
    bad = None if refusal or m in cfg.jvm else audit(s, cfg, m, session, ops)
    note = "" if refusal is None else f": {refusal.code} at {ops[refusal.index].where}"
    yield Written(note, catch_up(after, cfg, c), refusal or "ok", bad)
    if spend(s, "lost"):
        if refusal is None:
            yield Written(" [applied, reply lost]", spend(after, "lost"), "lost", bad)
        yield Written(" [not applied, no reply]", spend(s, "lost"), "lost", None)
