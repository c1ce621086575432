"""Walks every reachable state of a configuration, checks it, and returns the result."""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence
from typing import NamedTuple

from tests.programs.model.canonical import canonical
from tests.programs.model.environment import successors
from tests.programs.model.safety import broken, settled
from tests.programs.model.values import Configuration, State, initial

LIMITS_CHECK_INTERVAL = 1000


class Finding(NamedTuple):
    """The result of a walk. `trace`: the steps to the violation, a shortest one for safety."""

    verdict: str
    """"holds", "violated", or "unfinished" where a limit was reached."""
    states: int
    steps: int
    """Without fault: those that liveness speaks of."""
    violation: str | None
    trace: Sequence[str]


class Space:
    """The states reached so far, the first step to each, and the steps that need no fault."""

    def __init__(self, cfg: Configuration) -> None:
        self._cfg = cfg
        self._index: dict[State, int] = {}
        self._labels: dict[str, int] = {}
        self._shared: dict[object, object] = {}
        self.states: list[State] = []
        self._parent, self._via = array("l"), array("l")
        self.first, self.to, self.goal = array("l"), array("l"), bytearray()
        """The steps of state i lead to `to[first[i]:first[i + 1]]`; whether it is in the goal."""

    def add(self, s: State, parent: int, label: str) -> int:
        """The number of this state, which is added if it is new."""
        s = canonical(s, self._cfg)
        known = self._index.get(s)
        if known is not None:
            return known
        keep = self._shared.setdefault
        s = s._replace(tree=keep(s.tree, s.tree), members=tuple(keep(m, m) for m in s.members))
        self._index[s] = number = len(self.states)
        self.states.append(s)
        self._parent.append(parent)
        self._via.append(self._labels.setdefault(label, len(self._labels)))
        return number

    def trace(self, number: int) -> list[str]:
        names, steps = list(self._labels), []
        while number > 0:
            steps.append(names[self._via[number]])
            number = self._parent[number]
        return steps[::-1]


def first_state(cfg: Configuration) -> State:
    """The initial state. With `joined`: after those members have joined without faults."""
    s = initial(cfg)
    while cfg.joined:
        calm = [
            step.state for step in successors(s, cfg) if not step.is_optional and step.actor in cfg.joined
        ]
        if not calm:
            break
        s = calm[0]
    return s


def explore(cfg: Configuration, limit_s: float = 600, limit_states: int = 4_000_000) -> Finding:
    """Breadth first, so the first violation of safety has a shortest trace."""
    space, deadline = Space(cfg), time.monotonic() + limit_s
    space.add(first_state(cfg), -1, "start")
    done = 0
    while done < len(space.states):
        s = space.states[done]
        space.first.append(len(space.to))
        space.goal.append(settled(s, cfg))
        if bad := broken(s, cfg):
            return _finding(space, "violated", bad, space.trace(done))
        for label, _, is_optional, t, bad in successors(s, cfg):
            if bad:
                return _finding(space, "violated", bad, [*space.trace(done), label])
            number = space.add(t, done, label)
            if not is_optional:
                space.to.append(number)
        done += 1
        if done % LIMITS_CHECK_INTERVAL == 0 and (
            time.monotonic() > deadline or len(space.states) > limit_states
        ):
            return _finding(space, "unfinished")
    space.first.append(len(space.to))
    bad, where = liveness(space) if cfg.liveness else (None, None)
    return _finding(space, "violated", bad, space.trace(where)) if bad else _finding(space, "holds")


def _finding(space: Space, verdict: str, violation: str | None = None, trace: Sequence[str] = ()) -> Finding:
    return Finding(verdict, len(space.states), len(space.to), violation, trace)


def liveness(space: Space) -> tuple[str | None, int | None]:
    """A state from which the goal can be missed for ever without further faults, if there is one.

    States outside the goal are removed when all their steps lead to the goal or to removed states. A state
    that cannot be removed is stuck, or lies on or before a cycle that avoids the goal. Requiring no cycle at
    all is stronger than fairness: any order of the members' steps reaches the goal.
    """
    first, to, goal = space.first, space.to, space.goal
    before: list[list[int]] = [[] for _ in goal]
    left = array("l", bytes(array("l").itemsize * len(goal)))
    for i in range(len(goal)):
        steps = {to[e] for e in range(first[i], first[i + 1])} - {i}
        if not goal[i] and not steps:
            return "stuck: no member has a step left and the plan is not carried out", i
        left[i] = 0 if goal[i] else len(steps)
        for j in steps:
            before[j].append(i)
    ready = [i for i in range(len(goal)) if goal[i]]
    while ready:
        for i in before[ready.pop()]:
            left[i] -= 1
            if left[i] == 0 and not goal[i]:
                ready.append(i)
    endless = next((i for i in range(len(goal)) if left[i] > 0 and not goal[i]), None)
    return (None, None) if endless is None else ("livelock: the goal can be avoided for ever", endless)
