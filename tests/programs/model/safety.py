"""The violations: at each accepted write (`audit`), in each state (`broken`), and for ever (`settled`)."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from tests.programs.model.plans import range_plan, registered, subscribed
from tests.programs.model.static_members import audit_static, counted, is_attended, is_away
from tests.programs.model.values import ClientSession, Configuration, Held, Node, Op, Pc, State


def audit(s: State, cfg: Configuration, m: int, session: ClientSession, ops: Sequence[Op]) -> str | None:
    """The violation, if any, by an accepted zkgroup write, decided by the tree just before it."""
    if cfg.static and (bad := audit_static(s, cfg, m, ops, planned(s, cfg))):
        return bad
    claimed = {op.key for op in ops if op.kind == "create" and op.where == "owner"}
    if bad := _audit_freeze(s, cfg, m, ops, claimed):
        return bad
    for op in ops:
        if op.where not in ("owner", "offset"):
            continue
        owner, offset = (s.tree.nodes[cfg.at(where, op.key)] for where in ("owner", "offset"))
        is_mine = owner is not None and owner.data == m and owner.session == session
        if op.where == "owner" and op.kind == "delete" and not is_mine:
            return f"release of m{m} deleted the owner znode of m{owner.data}"
        if op.where == "offset" and op.kind == "set" and op.key in claimed and op.data != offset.data:
            return f"resurrected: the claim of m{m} changed the offset from {offset.data} to {op.data}"
        if op.where == "offset" and op.kind in ("set", "create") and op.key not in claimed:
            if not is_mine:
                return f"S2: commit of m{m} accepted, owner is {f'm{owner.data}' if owner else 'nobody'}"
            marker = s.tree.nodes[cfg.at("marker", op.key)]
            bad = _audit_commit(cfg, m, op, s.members[m].held[op.key], owner, offset, marker)
            if bad:
                return bad
    return None


def _audit_freeze(
    s: State, cfg: Configuration, m: int, ops: Sequence[Op], claimed: AbstractSet[int]
) -> str | None:
    """A freeze stands until it is over: then nothing moves but by leaving, and by claims that it allows. A
    handover within a member moves nothing."""
    frozen, over = s.tree.nodes[cfg.at("frozen")], s.tree.nodes[cfg.at("over")]
    me = s.members[m]
    if frozen is None:
        return None
    for op in ops:
        if op.where == "frozen" and op.kind == "delete" and over is None:
            return f"m{m} ended the freeze before its time"
        is_kept = op.key in claimed and s.tree.nodes[cfg.at("owner", op.key)] is not None
        if op.where != "owner" or is_kept:
            continue
        if op.kind == "create" and frozen.data == "frozen":
            return f"m{m} claimed p{op.key} in a frozen group"
        if op.kind == "delete" and me.held[op.key] and not me.leaving:
            return f"m{m} released p{op.key} for a rebalance of a frozen group"
    return None


def _audit_commit(
    cfg: Configuration,
    m: int,
    op: Op,
    held: Held | None,
    owner: Node,
    offset: Node | None,
    marker: Node | None,
) -> str | None:
    if held and held.token != owner.czxid:
        return f"S2: commit of m{m} accepted by the token of an older claim"
    if offset is None:
        return None
    if held and held.life != offset.czxid:
        return f"resurrected: m{m} wrote into a newer life of the offset znode"
    is_sought = marker and held and held.last == marker.mzxid and op.data - marker.data in (0, 1)
    if op.data < offset.data and cfg.policy != "reassert" and not is_sought:
        return f"S4: offset went back from {offset.data} to {op.data}"
    if marker and held and marker.mzxid > held.last and op.data > marker.data + 1:
        return f"reset to {marker.data} ignored, {op.data} written"
    return None


def broken(s: State, cfg: Configuration) -> str | None:
    """State invariants: S1, and that at most the owner's commit would be accepted now."""
    nodes = s.tree.nodes
    for p in cfg.parts:
        owner, offset = nodes[cfg.at("owner", p)], nodes[cfg.at("offset", p)]
        if owner is None:
            continue
        if owner.data not in cfg.jvm:
            own = nodes[cfg.at("ids", owner.data)]
            if own is None or own.session != owner.session:
                return f"S1: p{p} is owned by m{owner.data}, whose session has no registration"
        if offset is None or owner.version != 1:
            continue
        able = [m for m in range(cfg.members) if _could_commit(s, cfg, m, p, offset)]
        if any(m != owner.data for m in able):
            return f"valid fences of p{p} at {able}, owner is m{owner.data}"
    return None


def _could_commit(s: State, cfg: Configuration, m: int, p: int, offset: Node) -> bool:
    held = s.members[m].held[p]
    return bool(
        m not in cfg.jvm
        and held
        and held.fence == offset.version
        and s.tree.nodes[cfg.at("ids", m)]
        and s.clients[cfg.client[m]].alive
    )


def settled(s: State, cfg: Configuration) -> bool:
    """The goal of liveness: all idle on the newest snapshot, every partition with its planned member."""
    nodes = s.tree.nodes
    for m, me in enumerate(s.members):
        if me.pc not in (Pc.IDLE, Pc.GONE, Pc.NOT_STARTED):
            return False
        is_in_session = s.clients[cfg.client[m]][:2] == (me.known, True)
        if me.pc == Pc.IDLE and (me.gen != s.tree.pzxid or me.leaving or not is_in_session):
            return False
    members = subscribed(registered(cfg, s.tree))
    if nodes[cfg.at("frozen")] is not None and any(nodes[: cfg.members]):
        return _is_at_rest(s, cfg, members)
    if not members:
        return not any(nodes[cfg.at("owner", p)] for p in cfg.parts)
    if cfg.static and not is_attended(s, cfg):
        return False
    return all(_is_carried_out(s, cfg, p, m) for p, m in enumerate(planned(s, cfg)))


def planned(s: State, cfg: Configuration) -> Sequence[int | None]:
    """The member that each partition belongs to, by the tree."""
    nodes, contents = s.tree.nodes, registered(cfg, s.tree)
    members = subscribed(counted(cfg, nodes, contents))
    plan = nodes[cfg.at("plan")]
    if cfg.sticky and "plan znode" not in cfg.without:
        return plan.data[1] if plan is not None else cfg.blank
    if cfg.sticky:
        return [next((m for m in members if s.members[m].held[p]), None) for p in cfg.parts]
    return range_plan(members, cfg.partitions)


def _is_at_rest(s: State, cfg: Configuration, members: Sequence[int]) -> bool:
    """The goal in a frozen group whose time is not over: who owns, knows it; nobody else expects to own."""
    nodes = s.tree.nodes
    owners = [nodes[cfg.at("owner", p)] for p in cfg.parts]
    is_allowed = nodes[cfg.at("frozen")].data == "takeover"
    if nodes[cfg.at("over")] is not None or (is_allowed and members and not all(owners)):
        return False
    return all(_is_carried_out(s, cfg, p, owner.data) for p, owner in enumerate(owners) if owner is not None)


def _is_carried_out(s: State, cfg: Configuration, p: int, m: int | None) -> bool:
    owner = s.tree.nodes[cfg.at("owner", p)]
    if m is not None and owner is None and is_away(cfg, s.tree.nodes, m):
        return True
    if m is None or owner is None or owner.data != m:
        return False
    held = s.members[m].held[p]
    return held is not None and (m in cfg.jvm or held.token == owner.czxid)
