"""Static members (recipes 24): what counts in an assignment, and the watch over who is away.

An entry's data is its state and whether the member subscribes. "kept" is a registration's own, "away" is
marked, "over" is marked and the grace has passed, which no write shows. "nothing" keeps nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tests.programs.model.values import (
    Configuration,
    Node,
    Op,
    Pc,
    State,
    check,
    create,
    delete,
    put,
    set_data,
)

KEPT, AWAY, OVER, NOTHING = "kept", "away", "over", "nothing"
Contents = tuple[int | None, ...]


class Watching(NamedTuple):
    """An absence that a member attends to: whose, and its entry as read."""

    of: int
    version: int
    data: Any


def state_of(node: Node | None) -> str:
    return NOTHING if node is None else node.data[0]


def is_away(cfg: Configuration, nodes: Sequence[Node | None], m: int) -> bool:
    """Whether something is kept for a member that is not registered."""
    if m not in cfg.static or nodes[cfg.at("ids", m)] is not None:
        return False
    return state_of(nodes[cfg.at("static", m)]) != NOTHING


def is_void(cfg: Configuration, contents: Contents) -> bool:
    """Whether a registered member does not know static members, so that nobody counts who is away."""
    return any(contents[m] is not None for m in cfg.old)


def counted(cfg: Configuration, nodes: Sequence[Node | None], contents: Contents) -> Contents:
    """Whether each member subscribes, of those that an assignment counts. `contents`: the registrations."""
    if not cfg.static or is_void(cfg, contents):
        return contents
    return tuple(
        nodes[cfg.at("static", m)].data[1] if wants is None and is_away(cfg, nodes, m) else wants
        for m, wants in enumerate(contents)
    )


def counted_by(cfg: Configuration, m: int, nodes: Sequence[Node | None], contents: Contents) -> Contents:
    """The same for the assignment of one member; an old one knows registrations only."""
    return contents if m in cfg.old or "count away" in cfg.without else counted(cfg, nodes, contents)


def keep_ops(m: int, wants: int, version: int | None) -> list[Op]:
    """The registration's own operation on the entry, under the version that was read."""
    data = (KEPT, wants)
    return [create("static", m, data) if version is None else set_data("static", m, data, version)]


def kept_ops(cfg: Configuration, nodes: Sequence[Node | None], m: int, wants: int | None) -> list[Op]:
    """The same of a member that is registered; with None it keeps nothing."""
    node = nodes[cfg.at("static", m)] if m in cfg.static else None
    if node is None:
        return []
    data = (NOTHING, 0) if wants is None else (KEPT, wants)
    return [set_data("static", m, data, node.version)]


def mark_ops(m: int, seen: Watching) -> list[Op]:
    return [check("ids", m, 0), set_data("static", seen.of, (AWAY, seen.data[1]), seen.version)]


def end_ops(cfg: Configuration, m: int, seen: Watching) -> list[Op]:
    """The registration is created and deleted, so that the generation changes."""
    touch = [create("ids", seen.of, None), delete("ids", seen.of, 0)]
    end = set_data("static", seen.of, (NOTHING, 0), seen.version)
    if "empty entry" in cfg.without:
        end = delete("static", seen.of, seen.version)
    return [check("ids", m, 0), *([] if "touch ids" in cfg.without else touch), end]


def to_attend(s: State, cfg: Configuration, m: int, nodes: Sequence[Node | None]) -> Iterator[Watching]:
    """The absences that a member marks or ends now, with its last snapshot."""
    me = s.members[m]
    if m in cfg.old or me.gen != s.tree.pzxid or me.leaving:
        return
    first = "ids" if "entry first" in cfg.without else "static"
    for of in sorted(cfg.static - {m}):
        node = nodes[cfg.at("static", of)]
        if me.cache[2][of] is None and (first == "ids" or must_write(cfg, me, node)):
            yield Watching(of, node.version if node else 0, node.data if node else (NOTHING, 0))


def must_write(cfg: Configuration, me: Any, node: Node | None) -> bool:
    state = state_of(node)
    return state in (KEPT, OVER) or (state == AWAY and is_void(cfg, me.cache[2]))


def attend_ops(cfg: Configuration, m: int, me: Any, seen: Watching) -> list[Op]:
    ends = seen.data[0] == OVER or is_void(cfg, me.cache[2])
    return end_ops(cfg, m, seen) if ends else mark_ops(m, seen)


def audit_static(
    s: State, cfg: Configuration, m: int, ops: Sequence[Op], owners: Sequence[int | None]
) -> str | None:
    """The violation of static members by an accepted write: a grace cut short, or partitions taken in it."""
    nodes, me, plan = s.tree.nodes, s.members[m], s.tree.nodes[cfg.at("plan")]
    is_newest = me.gen == s.tree.pzxid and (not cfg.sticky or plan is None or plan.data[0] == me.gen)
    for op in ops:
        if op.where == "static" and op.key != m:
            state = state_of(nodes[cfg.at("static", op.key)])
            is_there = nodes[cfg.at("ids", op.key)] is not None
            is_end = op.kind == "delete" or op.data[0] == NOTHING
            if is_end and state != OVER and not is_void(cfg, me.cache[2]):
                return f"m{m} ended the absence of m{op.key}, whose grace has not passed: it is {state}"
            if not is_end and is_there:
                return f"m{m} marked m{op.key} as away, which is registered"
        if op.where == "owner" and op.kind == "create" and is_newest:
            planned = owners[op.key]
            if planned is not None and planned != m and is_away(cfg, nodes, planned):
                return f"m{m} took p{op.key} from m{planned}, which is away"
    return None


def passes(s: State, cfg: Configuration) -> Iterator[tuple[str, State]]:
    """Time: the grace of a marked absence passes."""
    for m in sorted(cfg.static):
        at = cfg.at("static", m)
        node = s.tree.nodes[at]
        if node is not None and node.data[0] == AWAY:
            nodes = list(s.tree.nodes)
            nodes[at] = node._replace(data=(OVER, node.data[1]))
            yield f"the grace of m{m} passes", s._replace(tree=s.tree._replace(nodes=tuple(nodes)))


def is_attended(s: State, cfg: Configuration) -> bool:
    """Whether nothing is left to mark or to end, while a member is there that could."""
    nodes = s.tree.nodes
    contents = tuple(node and node.data for node in nodes[: cfg.members])
    able = [m for m, wants in enumerate(contents) if wants is not None and m not in cfg.old]
    away = [state_of(nodes[cfg.at("static", m)]) for m in cfg.static if is_away(cfg, nodes, m)]
    return not able or all(state == AWAY and not is_void(cfg, contents) for state in away)


def crashed(s: State, cfg: Configuration, m: int) -> State:
    """The member's process has ended; another may be started in its place."""
    return put(
        s, m, pc=Pc.NOT_STARTED, gen=None, cache=None, target=(False,) * cfg.partitions, held=cfg.blank,
        blocked=(), todo=(), reads=cfg.blank, plan=None, leaving=False, counted=(),
    )  # fmt: skip
