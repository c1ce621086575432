"""A model of ZooKeeper's tree, and the walk over every state. Standard library only.

A tree is a tuple of nodes, addressed by small integers, and a last element: the
counter of creates (our zxid). A node is None or (data, version, czxid, owner);
owner is the session of an ephemeral, 0 for a persistent node.
"""

from __future__ import annotations

import sys
import time
from array import array
from collections.abc import Iterable, Sequence
from typing import Any

Node = tuple[Any, int, int, int]
Tree = tuple[Any, ...]

DATA, VER, CZXID, OWNER = range(4)


def multi(tree: Tree, session: int, ops: Any) -> tuple[Tree | None, str | None]:
    """Applies ops atomically. Returns (tree, None) or (None, reason).

    As in the server, `check` compares nothing but the data version: it cannot
    see which session owns a node, nor whether it was deleted and created again.
    """
    t = list(tree)
    for op in ops:
        kind, path = op[0], op[1]
        node = t[path]
        if kind == "create":  # create, path, data, ephemeral
            if node is not None:
                return None, "NodeExists"
            t[-1] += 1
            t[path] = (op[2], 0, t[-1], session if op[3] else 0)
            continue
        if node is None:
            return None, "NoNode"
        want = op[-1]
        if want != -1 and want != node[VER]:
            return None, "BadVersion"
        if kind == "set":  # set, path, data, version
            t[path] = (op[2], node[VER] + 1, node[CZXID], node[OWNER])
        elif kind == "delete":  # delete, path, version
            t[path] = None
        elif kind != "check":  # check, path, version
            raise ValueError(kind)
    return tuple(t), None


def close_session(tree: Tree, session: int) -> Tree:
    """The expiry of a session at the server: its ephemerals are deleted."""
    return tuple(None if isinstance(n, tuple) and n[OWNER] == session else n for n in tree[:-1]) + tree[-1:]


class Result:
    """The result of one exploration."""

    def __init__(self) -> None:
        self.states = self.edges = 0
        self.seconds = 0.0
        self.complete = True
        self.violations: dict[str, list[str]] = {}  # text -> shortest trace (labels)
        self.counts: dict[str, int] = {}  # text -> number of edges
        self.stuck: list[str] | None = None  # trace to the nearest stuck state
        self.stuck_states = 0
        self.seen_labels: set[str] = set()  # anti-vacuity: which actions happened

    @property
    def verdict(self) -> str:
        """`violated`, `stuck`, `holds`, or `unfinished` where a limit ended the walk."""
        if self.violations:
            return "violated"
        if not self.complete:
            return "unfinished"
        return "holds" if self.stuck is None else "stuck"


def explore(
    model: Any,
    max_states: int = 2_000_000,
    max_seconds: float = 280,
    progress: bool = True,
    stop: bool = False,
) -> Result:
    """Breadth first, every interleaving, states hashed; so traces are shortest.

    model.init() -> state; model.succ(state) -> iterable of
    (label, is_fault, state', violation or None); model.goal(state) -> bool.
    An edge that violates is recorded and not followed. With `progress` every
    reachable state must have a path without faults to a goal state (AG EF goal:
    with strong fairness, no state is stuck and no loop is a trap).
    """
    res, began = Result(), time.monotonic()
    first = model.init()
    index, states = {first: 0}, [first]
    parent, labels = array("l", [-1]), [""]
    src, dst = array("l"), array("l")  # fault-free edges
    at = 0

    def trace(i: int, last: str | None = None) -> list[str]:
        out = [last] if last else []
        while i > 0:
            out.append(labels[i])
            i = parent[i]
        return out[::-1]

    while at < len(states):
        if len(states) > max_states or time.monotonic() - began > max_seconds:
            res.complete = False
            break
        for label, fault, new, bad in model.succ(states[at]):
            res.edges += 1
            res.seen_labels.add(label.split(" [")[0])
            if bad:
                res.counts[bad] = res.counts.get(bad, 0) + 1
                if bad not in res.violations:
                    res.violations[bad] = trace(at, label)
                    if stop:
                        at = len(states)
                        res.complete = False
                        break
                continue
            j = index.get(new)
            if j is None:
                j = index[new] = len(states)
                states.append(new)
                parent.append(at)
                labels.append(sys.intern(label))
            if progress and not fault:
                src.append(at)
                dst.append(j)
        at += 1
    res.states = len(states)
    if progress and res.complete:
        stuck = _without_goal(list(map(model.goal, states)), zip(src, dst, strict=True))
        res.stuck_states = len(stuck)
        if stuck:
            res.stuck = trace(stuck[0])  # breadth first: the nearest one
    res.seconds = time.monotonic() - began
    return res


def _without_goal(goals: Sequence[bool], edges: Iterable[tuple[int, int]]) -> list[int]:
    """The numbers of the states from which no path leads to a goal state."""
    back: dict[int, list[int]] = {}
    for a, b in edges:
        back.setdefault(b, []).append(a)
    good = bytearray(goals)
    todo = [i for i, is_goal in enumerate(goals) if is_goal]
    while todo:
        for a in back.get(todo.pop(), ()):
            if not good[a]:
                good[a] = 1
                todo.append(a)
    return [i for i, reached in enumerate(good) if not reached]
