"""Moves under control, in every order: steps of a rebalance, and warm-up (recipes 4 and 27).

Some members of a sticky group come late, crash, come back and lose their connection. The step function is the
production's (`zkgroup.assignment.steps`); the order of reads and writes is modelled. A step is one request,
as in the other models.

Checked in every state: no more partitions than the limit are between two living members; with warm-up, nobody
releases a partition before its new owner has prepared it, or the bound has passed. On the whole graph: from
everywhere the group comes to rest without another fault, and a partition without an owner gets one without
waiting for a preparation. `python -m tests.programs.model.moves --all`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple

from tests.programs.model.__main__ import main, runner
from zkgroup.assignment import assign
from zkgroup.assignment.steps import RebalanceStep, next_step
from zkgroup.model import EvaluatedMember, TopicPartition

Rule = Literal[
    "watch", "read after a cut", "read the others", "version", "moves under way", "bound",
    "claims do not wait", "ready ends with the session", "ready of this assignment",
]  # fmt: skip
Fault = Literal["crash", "come back", "cut"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MovesConfiguration:
    """A group, its faults, the rule that is left out, and the expected answer."""

    members: int = 3
    partitions: int = 3
    late: frozenset[int] = frozenset({1, 2})
    limit: int | None = 1
    """None: everything moves at once."""
    prepares: frozenset[int] = frozenset()
    """Members that prepare partitions before they take them over."""
    faults: Mapping[Fault, int] = field(default_factory=dict)
    without: Rule | None = None
    verdict: Literal["holds", "violated", "stuck"] = "holds"


class Plan(NamedTuple):
    """The assignment znode."""

    version: int
    gen: int
    owners: tuple[int | None, ...]
    moving: tuple[int | None, ...]
    """The member that had the partition before this step's move; None for one that does not move."""


class Member(NamedTuple):
    """What a member knows. It owns what the tree says."""

    pc: Literal["out", "idle", "read", "write", "advance"]
    gen: int = 0
    group: frozenset[int] = frozenset()
    plan: Plan | None = None
    """The assignment that it carries out; while it writes one, the znode that it read."""
    armed: bool = False
    cut: bool = False
    prepared: frozenset[int] = frozenset()
    held: tuple[int | None, ...] = ()
    """The generation in which it began to keep a partition for its new owner."""
    late: frozenset[int] = frozenset()
    """Partitions whose bound has passed."""


class State(NamedTuple):
    """One state of the group."""

    members: tuple[Member, ...]
    gen: int
    plan: Plan | None
    owners: tuple[int | None, ...]
    last: tuple[int | None, ...]
    """Who released a partition that nobody owns; None if it was lost, or never owned."""
    ready: tuple[tuple[int, frozenset[int]] | None, ...]
    """What each member has published as prepared, with the generation."""
    faults: tuple[int, ...]


Next = tuple[str, State, bool, str | None]
"""Label, state after, whether it need not happen, and a violation."""
FAULTS: tuple[Fault, ...] = ("crash", "come back", "cut")
WARM = "prepares "
BOUND = "bound of "


@lru_cache(maxsize=100_000)
def step_after(
    group: frozenset[int], owners: tuple[int | None, ...], moving: tuple[int | None, ...], limit: int | None
) -> tuple[tuple[int | None, ...], tuple[int | None, ...]]:
    """The production's next step, in numbers."""

    def threads(row: tuple[int | None, ...]) -> dict[TopicPartition, str]:
        return {TopicPartition("t", p): f"m{m}-0" for p, m in enumerate(row) if m is not None}

    members = [EvaluatedMember(f"m{m}", {"t": 1}) for m in sorted(group)]
    last = RebalanceStep(threads(owners), threads(moving))
    living = {member.member for member in members}
    partitions = {"t": range(len(owners))}
    if limit is None:
        step = RebalanceStep(assign("sticky", members, partitions, last.owners).owners, {})
    else:
        step = next_step("sticky", members, partitions, last, {}, living, limit)

    def row(found: Mapping[TopicPartition, str]) -> tuple[int | None, ...]:
        names = (found.get(TopicPartition("t", p)) for p in range(len(owners)))
        return tuple(None if name is None else int(name[1:-2]) for name in names)

    return row(step.owners), row(step.moving)


def swap(row: tuple, i: int, value: object) -> tuple:  # type: ignore[type-arg]
    return (*row[:i], value, *row[i + 1 :])


class Model:
    """The steps of one configuration."""

    def __init__(self, cfg: MovesConfiguration) -> None:
        self.cfg = cfg
        self.none: tuple[None, ...] = (None,) * cfg.partitions

    def initial(self) -> State:
        """The members that are not late own everything, and have read the assignment."""
        cfg = self.cfg
        group = frozenset(range(cfg.members)) - cfg.late
        owners, _ = step_after(group, self.none, self.none, cfg.partitions)
        plan = Plan(0, 1, owners, self.none)
        member = Member("idle", 1, group, plan, armed=True, held=self.none)
        return State(
            members=tuple(
                Member("out", held=self.none) if m in cfg.late else member for m in range(cfg.members)
            ),
            gen=1,
            plan=plan,
            owners=owners,
            last=self.none,
            ready=(None,) * cfg.members,
            faults=(*(cfg.faults.get(fault, 0) for fault in FAULTS), len(cfg.late)),
        )

    def registered(self, s: State) -> frozenset[int]:
        return frozenset(m for m, member in enumerate(s.members) if member.pc != "out")

    def succ(self, s: State) -> Iterator[Next]:
        for m, me in enumerate(s.members):
            if me.pc == "out":
                yield from self._enters(s, m)
            else:
                yield from self._faults(s, m)
                yield from _AT[me.pc](self, s, m)

    def _put(self, s: State, m: int, **changes: object) -> State:
        return s._replace(members=swap(s.members, m, s.members[m]._replace(**changes)))  # type: ignore[arg-type]

    def _enters(self, s: State, m: int) -> Iterator[Next]:
        for i, verb in ((3, "joins"), (1, "comes back")):
            is_first = m in self.cfg.late and s.members[m].gen == 0
            if s.faults[i] and (verb == "joins") == is_first:
                t = s._replace(gen=s.gen + 1, faults=swap(s.faults, i, s.faults[i] - 1))
                yield f"m{m} {verb}", self._put(t, m, pc="idle"), True, None

    def _faults(self, s: State, m: int) -> Iterator[Next]:
        if s.faults[0]:
            owners = tuple(None if owner == m else owner for owner in s.owners)
            stays = self.cfg.without == "ready ends with the session"
            t = s._replace(
                members=swap(s.members, m, Member("out", gen=-1, held=self.none)),
                gen=s.gen + 1,
                owners=owners,
                last=tuple(None if last == m else last for last in s.last),
                ready=s.ready if stays else swap(s.ready, m, None),
                faults=swap(s.faults, 0, s.faults[0] - 1),
            )
            yield f"m{m} crashes", t, True, None
        if s.faults[2] and s.members[m].armed:
            t = s._replace(faults=swap(s.faults, 2, s.faults[2] - 1))
            yield f"m{m} is cut", self._put(t, m, armed=False, cut=True), True, None

    def _idle(self, s: State, m: int) -> Iterator[Next]:
        me = s.members[m]
        if me.gen != s.gen:
            t = self._put(s, m, pc="read", gen=s.gen, group=self.registered(s))
            yield f"m{m} takes a snapshot", t, False, None
            return
        plan = me.plan
        assert plan is not None
        if me.armed and s.plan != plan and self.cfg.without != "watch":
            yield f"m{m} sees the assignment changed", self._put(s, m, pc="read"), False, None
        if me.cut:
            pc = "idle" if self.cfg.without == "read after a cut" else "read"
            yield f"m{m} is connected again", self._put(s, m, pc=pc, cut=False), False, None
        yield from self._prepares(s, m, plan)
        for p in range(self.cfg.partitions):
            if s.owners[p] == m and plan.owners[p] != m:
                yield from self._gives_up(s, m, p, plan)
            elif s.owners[p] is None and plan.owners[p] == m:
                yield from self._claims(s, m, p, plan)
        mine = tuple(owner == m for owner in s.owners)
        is_settled = mine == tuple(owner == m for owner in plan.owners)
        gets = any(plan.owners[p] == m for p in range(self.cfg.partitions) if plan.moving[p] is not None)
        if is_settled and gets:
            done = all(
                plan.moving[p] is None or s.owners[p] == plan.owners[p] for p in range(len(plan.owners))
            )
            if done or self.cfg.without == "read the others":
                yield f"m{m} finds the step done", self._put(s, m, pc="advance"), False, None

    def _prepares(self, s: State, m: int, plan: Plan) -> Iterator[Next]:
        """`on_prepare` returns at any moment, or never; what is ready is published with the generation."""
        me = s.members[m]
        if m not in self.cfg.prepares:
            return
        wanted = frozenset(
            p for p, owner in enumerate(plan.owners) if owner == m and s.owners[p] not in (m, None)
        )
        for p in wanted - me.prepared:
            yield f"m{m} {WARM}p{p}", self._put(s, m, prepared=me.prepared | {p}), True, None
        news = (me.gen, me.prepared & wanted)
        if news[1] and s.ready[m] != news:
            t = s._replace(ready=swap(s.ready, m, news))
            yield f"m{m} publishes that it is ready", t, False, None

    def _gives_up(self, s: State, m: int, p: int, plan: Plan) -> Iterator[Next]:
        me, to = s.members[m], plan.owners[p]
        must_wait = to is not None and to in self.cfg.prepares and to in me.group
        if must_wait and me.held[p] is None:
            t = self._put(s, m, held=swap(me.held, p, me.gen), late=me.late - {p})
            yield f"m{m} keeps p{p} for m{to}", t, False, None
            return
        bad = None
        if must_wait:
            assert to is not None
            news, begun = s.ready[to], me.held[p]
            assert begun is not None
            is_new = news is not None and (news[0] >= begun or self.cfg.without == "ready of this assignment")
            is_ready = news is not None and p in news[1] and is_new
            if p not in me.late and self.cfg.without != "bound":
                yield f"m{m}: {BOUND}p{p} passes", self._put(s, m, late=me.late | {p}), False, None
            if not is_ready and p not in me.late:
                return
            there = s.members[to]
            is_honest = there.pc == "out" or p in there.prepared or p in me.late or there.gen != me.gen
            bad = None if is_honest else f"p{p} is released before m{to} is ready, and before the bound"
        t = s._replace(owners=swap(s.owners, p, None), last=swap(s.last, p, m))
        t = self._put(t, m, held=swap(me.held, p, None), late=me.late - {p})
        yield f"m{m} releases p{p}", t, False, bad or self._too_many(t)

    def _claims(self, s: State, m: int, p: int, plan: Plan) -> Iterator[Next]:
        me = s.members[m]
        waits = m in self.cfg.prepares and p not in me.prepared
        if waits and self.cfg.without == "claims do not wait":
            yield f"m{m} {WARM}p{p}", self._put(s, m, prepared=me.prepared | {p}), True, None
            return
        if s.plan is None or s.plan.version != plan.version:
            yield f"m{m} is refused p{p}", self._put(s, m, pc="read"), False, None
            return
        t = s._replace(owners=swap(s.owners, p, m), last=swap(s.last, p, None))
        yield f"m{m} claims p{p}", self._put(t, m, prepared=me.prepared - {p}), False, None

    def _too_many(self, s: State) -> str | None:
        """Partitions that a living member has released for another living one."""
        if self.cfg.limit is None:
            return None
        alive, plan = self.registered(s), s.plan
        assert plan is not None
        between = [
            p
            for p, owner in enumerate(s.owners)
            if owner is None
            and s.last[p] in alive
            and plan.owners[p] in alive
            and plan.owners[p] != s.last[p]
        ]
        return None if len(between) <= self.cfg.limit else f"{between} are on their way at once"

    def _read(self, s: State, m: int) -> Iterator[Next]:
        me, plan = s.members[m], s.plan
        if me.gen != s.gen and (plan is None or plan.gen != me.gen):
            yield f"m{m} takes another snapshot", self._put(s, m, pc="idle"), False, None
            return
        assert plan is not None
        if plan.gen < me.gen:
            yield f"m{m} reads an old assignment", self._put(s, m, pc="write", plan=plan), False, None
            return
        mine = frozenset(p for p, owner in enumerate(plan.owners) if owner == m)
        held = tuple(None if p in mine else held for p, held in enumerate(me.held))
        t = self._put(
            s, m, pc="idle", plan=plan, armed=True, cut=False, prepared=me.prepared & mine, held=held
        )
        yield f"m{m} reads the assignment {plan.version}", t, False, None

    def _write(self, s: State, m: int) -> Iterator[Next]:
        me, plan = s.members[m], s.members[m].plan
        assert plan is not None
        moving = self.none if self.cfg.without == "moves under way" else plan.moving
        owners, moves = step_after(me.group, plan.owners, moving, self.cfg.limit)
        yield self._writes(s, m, Plan(0, me.gen, owners, moves), plan)

    def _advance(self, s: State, m: int) -> Iterator[Next]:
        me, plan = s.members[m], s.members[m].plan
        assert plan is not None
        owners, moves = step_after(me.group, plan.owners, self.none, self.cfg.limit)
        yield self._writes(s, m, Plan(0, me.gen, owners, moves), plan)

    def _writes(self, s: State, m: int, new: Plan, read: Plan) -> Next:
        assert s.plan is not None
        t = self._put(s, m, pc="read")
        if s.plan.version != read.version and self.cfg.without != "version":
            return f"m{m}: its assignment is refused", t, False, None
        t = t._replace(plan=new._replace(version=s.plan.version + 1))
        return f"m{m} writes {new.owners}, moving {new.moving}", t, False, self._too_many(t)

    def is_goal(self, s: State) -> bool:
        """All have carried out the newest assignment, which is balanced."""
        group = self.registered(s)
        if not group:
            return True
        if s.plan is None or any(s.plan.moving[p] is not None for p in range(self.cfg.partitions)):
            return False
        settled = all(
            one.pc == "idle" and one.gen == s.gen and one.plan == s.plan and not one.cut
            for one in s.members
            if one.pc != "out"
        )
        target, _ = step_after(group, s.plan.owners, self.none, self.cfg.partitions)
        return settled and s.owners == s.plan.owners == target


_AT: dict[str, Callable[[Model, State, int], Iterator[Next]]] = {
    "idle": Model._idle,
    "read": Model._read,
    "write": Model._write,
    "advance": Model._advance,
}


class Answer(NamedTuple):
    """What the walk over all states has shown."""

    verdict: str
    states: int
    edges: int
    seconds: float
    violations: Mapping[str, list[str]]
    stuck: list[str] | None


def explore(cfg: MovesConfiguration, limit_s: float = 600) -> Answer:
    """Walks the whole graph, or up to the first violation. Raises TimeoutError after `limit_s` seconds."""
    model, begun = Model(cfg), time.monotonic()
    first = model.initial()
    came: dict[State, tuple[State, str] | None] = {first: None}
    back: dict[State, list[tuple[State, str]]] = {}
    violations: dict[str, list[str]] = {}
    queue, edges = [first], 0
    for s in queue:
        if violations:
            break
        if time.monotonic() - begun > limit_s:
            raise TimeoutError(f"{len(came)} states")
        for label, t, is_optional, bad in model.succ(s):
            edges += 1
            if bad and bad not in violations:
                violations[bad] = [*_trace(came, s), label]
            if t not in came:
                came[t] = (s, label)
                queue.append(t)
            if not is_optional:
                back.setdefault(t, []).append((s, label))
    stuck = None
    if not violations:
        stuck = _stuck(came, back, [s for s in came if model.is_goal(s)], lambda s: True, lambda label: True)
        for p in range(cfg.partitions):
            # As without warm-up: neither a preparation nor its bound is waited for.
            owned = [s for s in came if s.owners[p] is not None or not model.registered(s)]
            stuck = stuck or _stuck(
                came, back, owned, lambda s: True, lambda label: WARM not in label and BOUND not in label
            )
    verdict = "violated" if violations else "stuck" if stuck else "holds"
    return Answer(verdict, len(came), edges, time.monotonic() - begun, violations, stuck)


def _stuck(
    came: Mapping[State, tuple[State, str] | None],
    back: Mapping[State, list[tuple[State, str]]],
    goals: list[State],
    counts: Callable[[State], bool],
    follows: Callable[[str], bool],
) -> list[str] | None:
    """The way to a state from which no goal can be reached by steps that must happen; None if there is
    none."""
    reached, queue = set(goals), list(goals)
    for s in queue:
        for before, label in back.get(s, ()):
            if before not in reached and follows(label):
                reached.add(before)
                queue.append(before)
    lost = next((s for s in came if s not in reached and counts(s)), None)
    return None if lost is None else [*_trace(came, lost), "nothing leads on from here"]


def _trace(came: Mapping[State, tuple[State, str] | None], s: State) -> list[str]:
    steps = []
    while (step := came[s]) is not None:
        s, label = step
        steps.append(label)
    return steps[::-1]


def _of(**entry: object) -> MovesConfiguration:
    return MovesConfiguration(**entry)  # type: ignore[arg-type]


_TWO = {"members": 2, "late": frozenset({1})}
_WARM = {"members": 2, "late": frozenset({1}), "limit": None, "partitions": 2, "prepares": frozenset({0, 1})}

CONFIGURATIONS: dict[str, MovesConfiguration] = {
    "steps": _of(faults={"crash": 1}),
    "steps-of-four": _of(partitions=4, faults={}),
    "two-at-a-time": _of(partitions=4, limit=2, faults={}),
    "cuts": _of(**_TWO, partitions=4, faults={"cut": 2}),
    "come-back": _of(**_TWO, partitions=3, faults={"crash": 1, "come back": 1, "cut": 1}),
    "warm-up": _of(**_WARM, faults={"crash": 2, "come back": 2}),
    "warm-up-in-steps": _of(prepares=frozenset({1, 2}), faults={"crash": 1}),
    "one-prepares": _of(
        **{**_WARM, "prepares": frozenset({1})}, faults={"crash": 1, "come back": 1, "cut": 1}
    ),
    "no-watch": _of(without="watch", **_TWO, partitions=4, verdict="stuck"),
    "cut-unnoticed": _of(
        without="read after a cut", **_TWO, partitions=4, faults={"cut": 1}, verdict="stuck"
    ),
    "others-unread": _of(without="read the others", partitions=7, limit=2, verdict="violated"),
    "no-version": _of(without="version", faults={"crash": 1}, verdict="violated"),
    "moves-forgotten": _of(without="moves under way", partitions=3, verdict="violated"),
    "no-bound": _of(without="bound", **_WARM, verdict="stuck"),
    "claims-wait": _of(without="claims do not wait", **_WARM, faults={"crash": 1}, verdict="stuck"),
    "ready-outlives": _of(
        without="ready ends with the session", **_WARM, faults={"crash": 1, "come back": 1},
        verdict="violated"
    ),
    "ready-of-before": _of(
        without="ready of this assignment", verdict="violated", faults={"crash": 1},
        **{**_WARM, "members": 3, "late": frozenset({1, 2}), "partitions": 4},
    ),
}  # fmt: skip


if __name__ == "__main__":
    sys.exit(main("tests.programs.model.moves", CONFIGURATIONS, runner(CONFIGURATIONS, explore)))
