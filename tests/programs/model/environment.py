"""The events outside a group: sessions that end, writes of foreign clients, operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.programs.model import static_members
from tests.programs.model.jvm import jvm_steps
from tests.programs.model.member import lost, member_steps
from tests.programs.model.recipes import freeze_ops
from tests.programs.model.values import (
    Client,
    ClientSession,
    Configuration,
    Fault,
    Node,
    Op,
    Pc,
    State,
    Tree,
    blank_nodes,
    create,
    delete,
    put,
    set_data,
    spend,
    swap,
)
from tests.programs.model.zookeeper import catch_up, end_session, multi

_ENDED = (Pc.GONE, Pc.NOT_STARTED)


class Successor(NamedTuple):
    """A step to a next state, and the client that takes it."""

    label: str
    actor: int
    is_optional: bool
    """Never has to happen: faults, and what applications and operators decide."""
    state: State
    violation: str | None = None


def successors(s: State, cfg: Configuration) -> Iterator[Successor]:
    """Every possible next step."""
    for m in range(cfg.members):
        for label, is_optional, t, bad in (jvm_steps if m in cfg.jvm else member_steps)(s, cfg, m):
            is_fault = label.endswith((" lost]", "no reply]"))
            yield Successor(f"m{m} {label}", m, is_optional or is_fault, t, bad)
    for c in range(cfg.clients_count):
        yield from _sessions(s, cfg, c)
    somebody = cfg.members + cfg.clients_count
    for m, me in enumerate(s.members):
        if me.pc == Pc.NOT_STARTED:
            yield Successor(f"m{m} is started", cfg.members, True, put(s, m, pc=Pc.UNREGISTERED))
    for p in cfg.parts:
        for fault, label, ops in foreign_writes(s, cfg, p):
            if t := spend(s, fault):
                tree, _ = multi(cfg, s.tree, s.zxid, None, ops)
                yield Successor(label, somebody, True, t._replace(tree=tree, zxid=s.zxid + 1))
    yield from _freezes(s, cfg, somebody)
    for label, t in static_members.passes(s, cfg):
        yield Successor(label, somebody, False, t)
    yield from _group_deletion(s, cfg, somebody)


def _ended(s: State, cfg: Configuration, session: ClientSession, client: Client) -> State:
    tree = end_session(cfg, s.tree, s.zxid, session)
    return s._replace(tree=tree, zxid=s.zxid + 1, clients=swap(s.clients, session[0], client))


def _sessions(s: State, cfg: Configuration, c: int) -> Iterator[Successor]:
    actor, client = cfg.members + c, s.clients[c]
    serial, alive, orphan = client
    if not alive:
        t = s._replace(clients=swap(s.clients, c, Client(serial + 1, True, orphan)))
        yield Successor(f"client {c} connects with a new session", actor, False, t)
    elif t := spend(s, "expire"):
        t = _ended(t, cfg, (c, serial), Client(serial, False, orphan))
        yield Successor(f"session of client {c} expires", actor, True, t)
    mine = [m for m in range(cfg.members) if cfg.client[m] == c and s.members[m].pc not in _ENDED]
    if alive and mine and (t := spend(s, "crash")):
        t = _ended(t, cfg, (c, serial), Client(serial, False, orphan))
        for m in mine:
            t = static_members.crashed(t, cfg, m)
        yield Successor(f"the process of client {c} crashes", actor, True, t)
    if alive and orphan is None and (t := spend(s, "abandon")):
        t = t._replace(clients=swap(s.clients, c, Client(serial + 1, True, serial)))
        for m in range(cfg.members):
            is_there = cfg.client[m] == c and s.members[m].pc not in (Pc.GONE, Pc.NOT_STARTED)
            if is_there and "deaf" not in cfg.without:
                t = lost(t, cfg, m)
        yield Successor(f"client {c} opens a new session, the old one lives on", actor, True, t)
    if orphan is not None:
        t = _ended(s, cfg, (c, orphan), Client(serial, alive, None))
        yield Successor(f"old session of client {c} ends", actor, False, t)
    if cfg.lagging and s.views[c] != s.tree:
        yield Successor(f"server of client {c} catches up", actor, False, catch_up(s, cfg, c))


def foreign_writes(s: State, cfg: Configuration, p: int) -> Iterator[tuple[Fault, str, Sequence[Op]]]:
    """The writes of foreign clients to one partition."""
    nodes = s.tree.nodes
    owner, offset, marker = (nodes[cfg.at(w, p)] for w in ("owner", "offset", "marker"))
    if owner is not None:
        yield "steal", f"a foreign client deletes owner of p{p}", [delete("owner", p, -1)]
    if offset is not None:
        value = offset.data + 2
        yield "write", f"a foreign client writes p{p}={value}", [set_data("offset", p, value, -1)]
        yield "wipe", f"a foreign client deletes offset of p{p}", [delete("offset", p, -1)]
        yield (
            "reset",
            f"an operator resets p{p} to 0",
            reset_ops(p, offset.version, is_marked=marker is not None),
        )


def reset_ops(p: int, version: int, *, is_marked: bool, value: int = 0) -> list[Op]:
    """The offset and the marker in one multi; the marker is always created anew (recipes 6)."""
    gone = [delete("marker", p, -1)] if is_marked else []
    return [set_data("offset", p, value, version), *gone, create("marker", p, value)]


def _freezes(s: State, cfg: Configuration, actor: int) -> Iterator[Successor]:
    """Operators who freeze and unfreeze the group, and the time that a freeze has."""
    nodes = s.tree.nodes
    frozen, over = nodes[cfg.at("frozen")], nodes[cfg.at("over")]
    if frozen is None:
        for fault, kind in (("freeze", "frozen"), ("takeover", "takeover")):
            if t := spend(s, fault):
                tree, refusal = multi(cfg, s.tree, s.zxid, None, freeze_ops(cfg, s.tree, kind))
                owners = [nodes[cfg.at("owner", p)] for p in cfg.parts]
                bad = "the freeze leaves a partition in transit without an owner"
                is_bad = kind == "frozen" and not all(owners)
                if refusal is None:
                    if "freeze wake" not in cfg.without:  # a child of `ids` comes and goes
                        tree = tree._replace(cversion=tree.cversion + 2, pzxid=s.zxid)
                    t = t._replace(tree=tree, zxid=s.zxid + 1)
                    yield Successor(
                        f"an operator freezes the group: {kind}", actor, True, t, bad if is_bad else None
                    )
        return
    if t := spend(s, "unfreeze"):
        tree, _ = multi(cfg, s.tree, s.zxid, None, [delete("frozen", 0, frozen.version)])
        yield Successor("an operator ends the freeze", actor, True, t._replace(tree=tree, zxid=s.zxid + 1))
    if over is None:
        tree = s.tree._replace(nodes=swap(nodes, cfg.at("over"), Node(None, 0, 1, 1, None)))
        yield Successor("the time of the freeze is over", actor, True, s._replace(tree=tree))


def _group_deletion(s: State, cfg: Configuration, actor: int) -> Iterator[Successor]:
    """Recipes 8, with its guard: only while no member is registered."""
    nodes = s.tree.nodes
    has_content = any(nodes[: cfg.at("root")]) or nodes[cfg.at("plan")] is not None
    if any(nodes[: cfg.members + cfg.partitions]) or not has_content:
        return
    if t := spend(s, "guard"):
        tree = Tree(blank_nodes(cfg), s.zxid, 0, s.zxid)
        yield Successor("the empty group is deleted", actor, True, t._replace(tree=tree, zxid=s.zxid + 1))
