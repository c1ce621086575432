"""A zkgroup member: every step that it could take next. One step is one request with its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from tests.programs.model import recipes, static_members
from tests.programs.model.plans import range_plan, registered, sticky_plan, subscribed
from tests.programs.model.recipes import Batch, is_mine
from tests.programs.model.values import (
    Configuration,
    Freeze,
    Node,
    Op,
    Pc,
    State,
    put,
    spend,
    swap,
)
from tests.programs.model.zookeeper import Refusal, catch_up, seen, write


class Step(NamedTuple):
    """A possible next step. Optional steps never have to happen."""

    label: str
    is_optional: bool
    state: State
    violation: str | None = None


class View(NamedTuple):
    """The member that takes the step, and the tree that its server shows."""

    s: State
    cfg: Configuration
    m: int
    nodes: tuple[Node | None, ...]

    @property
    def me(self) -> Any:
        return self.s.members[self.m]

    def node(self, where: Any, p: int) -> Node | None:
        return self.nodes[self.cfg.at(where, p)]

    def up_to_date(self) -> View:
        """The view after a quorum operation on the same connection, which precedes each read-back."""
        s = catch_up(self.s, self.cfg, self.cfg.client[self.m])
        return View(s, self.cfg, self.m, s.tree.nodes)


def member_steps(s: State, cfg: Configuration, m: int) -> Iterator[Step]:
    """Every next step of a zkgroup member."""
    me, client = s.members[m], s.clients[cfg.client[m]]
    if me.pc in (Pc.GONE, Pc.NOT_STARTED):
        return
    if client.serial != me.known and client.alive:
        yield Step("hears that its session is lost", False, lost(s, cfg, m))
    if client.alive:
        yield from _AT[me.pc](View(s, cfg, m, seen(s, cfg, m).nodes))


def lost(s: State, cfg: Configuration, m: int) -> State:
    """`on_lost`: the member believes nothing any more; a member that was leaving has left (recipes 10)."""
    return put(
        s, m, pc=Pc.GONE if s.members[m].leaving else Pc.UNREGISTERED, known=s.clients[cfg.client[m]].serial,
        gen=None, held=cfg.blank, target=(False,) * cfg.partitions, blocked=(), todo=(), reads=cfg.blank,
        plan=None, leaving=False, freeze=Freeze(),
    )  # fmt: skip


def refused_at(outcome: str | Refusal, ops: Sequence[Op]) -> tuple[str, int] | None:
    """The znode at which a write was refused, or None."""
    if not isinstance(outcome, Refusal):
        return None
    return ops[outcome.index].where, ops[outcome.index].key


def is_unregistered(cfg: Configuration, m: int, outcome: str | Refusal, ops: Sequence[Op]) -> bool:
    return refused_at(outcome, ops) == ("ids", m) and "lost on refusal" not in cfg.without


def _unregistered(v: View) -> Iterator[Step]:
    s, cfg, m, me = v.s, v.cfg, v.m, v.me
    there = s.tree.nodes[cfg.at("ids", m)]
    if there is None and m in cfg.static:
        entry = v.up_to_date().node("static", m)
        t = put(v.up_to_date().s, m, pc=Pc.REGISTER, todo=(entry and entry.version,))
        yield Step("reads its static entry", False, t)
    elif there is None:
        for note, t, out, bad in write(s, cfg, m, recipes.register_ops(m)):
            known = me.known if "session read" in cfg.without else t.clients[cfg.client[m]].serial
            yield Step(
                "registers" + note, False, put(t, m, pc=Pc.IDLE, known=known) if out == "ok" else t, bad
            )
    elif there.session == (cfg.client[m], me.known):
        yield Step("finds its registration (lost reply)", False, put(v.up_to_date().s, m, pc=Pc.IDLE))


def _register(v: View) -> Iterator[Step]:
    """Registration and entry in one transaction; after a refusal the entry is read again."""
    s, cfg, m = v.s, v.cfg, v.m
    ops = [*recipes.register_ops(m), *static_members.keep_ops(m, 1, v.me.todo[0])]
    for note, t, out, bad in write(s, cfg, m, ops):
        known, pc = t.clients[cfg.client[m]].serial, Pc.IDLE if out == "ok" else Pc.UNREGISTERED
        known = known if out == "ok" else v.me.known
        yield Step("registers" + note, False, put(t, m, pc=pc, known=known, todo=()), bad)


def _attend(v: View) -> Iterator[Step]:
    """Reads the other znode of an away member: its registration, after its entry."""
    s, cfg, m, seen = v.s, v.cfg, v.m, v.me.todo[0]
    if "entry first" in cfg.without:
        node = v.node("static", seen.of)
        seen = seen._replace(version=node.version, data=node.data) if node else seen
        goes_on = static_members.must_write(cfg, v.me, node)
    else:
        goes_on = v.node("ids", seen.of) is None
    t = put(s, m, pc=Pc.ATTEND_WRITE if goes_on else Pc.IDLE, todo=(seen,) if goes_on else ())
    yield Step(f"reads on about m{seen.of}", False, t)


def _attend_write(v: View) -> Iterator[Step]:
    s, cfg, m, seen = v.s, v.cfg, v.m, v.me.todo[0]
    ops = static_members.attend_ops(cfg, m, v.me, seen)
    for note, t, out, bad in write(s, cfg, m, ops):
        is_lost = is_unregistered(cfg, m, out, ops)
        t = lost(t, cfg, m) if is_lost else put(t, m, pc=Pc.IDLE, todo=())
        yield Step(f"writes about m{seen.of}, which was {seen.data[0]}" + note, False, t, bad)


def snapshot(s: State, cfg: Configuration, m: int) -> State:
    """Reads a snapshot; then the marker of a freeze, where `owners` says that it may be another one."""
    tree, me = seen(s, cfg, m), s.members[m]
    contents = recipes.registrations_seen(cfg, me, tree)
    counted = static_members.counted_by(cfg, m, tree.nodes, contents)
    cache = (tree.czxid, tree.cversion, contents)
    s = put(s, m, gen=tree.pzxid, cache=cache, counted=counted, blocked=())
    version = tree.nodes[cfg.at("root")].version
    if "freeze order" in cfg.without:
        marker = tree.nodes[cfg.at("frozen")]
        known = Freeze(None, marker and marker.data, marker and marker.version)
        return put(s, m, pc=Pc.FREEZE, freeze=known)
    if version == me.freeze.fence and not sees_another_marker(cfg, me, tree.nodes):
        return aim(s, cfg, m)
    if not version and "freeze bump" not in cfg.without:
        return aim(put(s, m, freeze=Freeze(0)), cfg, m)
    return put(s, m, pc=Pc.FREEZE, freeze=me.freeze._replace(fence=version))


def sees_another_marker(cfg: Configuration, me: Any, nodes: Sequence[Node | None]) -> bool:
    """The watch on the marker of a freeze fires."""
    marker = nodes[cfg.at("frozen")]
    return me.freeze.kind is not None and (marker is None or marker.version != me.freeze.version)


def _freeze(v: View) -> Iterator[Step]:
    """Reads the marker after the version of `owners`."""
    marker, fence = v.node("frozen", 0), v.me.freeze.fence
    known = Freeze(fence, marker and marker.data, marker and marker.version)
    if "freeze order" in v.cfg.without:
        known = v.me.freeze._replace(fence=v.node("root", 0).version)
    yield Step(f"reads the marker: {known.kind}", False, aim(put(v.s, v.m, freeze=known), v.cfg, v.m))


def aim(s: State, cfg: Configuration, m: int) -> State:
    """What the member should own: in a frozen group what it has; range knows it, sticky reads the plan znode
    first."""
    me, tree = s.members[m], seen(s, cfg, m)
    if me.freeze.kind == "frozen":
        return put(s, m, pc=Pc.IDLE, target=tuple(h is not None for h in me.held))
    if not cfg.sticky:
        plan = range_plan(subscribed(me.counted), cfg.partitions)
    elif "plan znode" in cfg.without:
        owners = [tree.nodes[cfg.at("owner", p)] for p in cfg.parts]
        plan = sticky_plan(subscribed(me.counted), [o and o.data for o in owners])
    else:
        return put(s, m, pc=Pc.PLAN)
    return put(s, m, pc=Pc.IDLE, target=_with_kept(me, m, plan))


def _with_kept(me: Any, m: int, plan: Sequence[int | None]) -> tuple[bool, ...]:
    """The partitions of the plan and, in a frozen group, those that the member has."""
    return tuple(o == m or bool(h and me.freeze.kind) for o, h in zip(plan, me.held, strict=True))


def _plan(v: View) -> Iterator[Step]:
    s, cfg, m = v.s, v.cfg, v.m
    plan = v.node("plan", 0)
    verdict = recipes.judge_plan(plan, v.me.gen)
    if verdict == "mine":
        target = _with_kept(v.me, m, plan.data[1])
        t = put(s, m, pc=Pc.IDLE, plan=plan.version, target=target, blocked=())
        yield Step("reads the plan", False, t)
    elif verdict == "newer":
        t = snapshot(v.up_to_date().s, cfg, m)
        yield Step("finds the plan newer than its snapshot, takes another", False, t)
    else:
        known = plan and (plan.version, plan.data[1])
        yield Step("finds the plan older than its snapshot", False, put(s, m, pc=Pc.PLAN_WRITE, plan=known))


def _plan_write(v: View) -> Iterator[Step]:
    s, cfg, m, me = v.s, v.cfg, v.m, v.me
    before = None if me.plan is None else Node(None, me.plan[0], 0, 0, None)
    row = sticky_plan(subscribed(me.counted), me.plan[1] if me.plan else cfg.blank)
    ops = recipes.plan_ops(cfg, m, before, me.gen, row)
    for note, t, out, bad in write(s, cfg, m, ops):
        if out == "ok" and s.tree.nodes[cfg.at("ids", m)] is None:
            bad = "a member that the plan does not know has written the plan: the past is forgotten"
        t = lost(t, cfg, m) if is_unregistered(cfg, m, out, ops) else put(t, m, pc=Pc.PLAN, plan=None)
        yield Step(f"writes the plan {list(row)}" + note, False, t, bad)


def _idle(v: View) -> Iterator[Step]:
    s, cfg, m, me = v.s, v.cfg, v.m, v.me
    is_outdated = me.gen is not None and (me.freeze.fence is None or sees_another_marker(cfg, me, v.nodes))
    if (seen(s, cfg, m).pzxid != me.gen or is_outdated) and not me.leaving:
        yield Step("snapshot", False, snapshot(s, cfg, m))
    drop = [p for p in cfg.parts if me.held[p] and not me.target[p]]
    want = tuple(p for p in cfg.parts if me.target[p] and not me.held[p] and p not in me.blocked)
    if me.freeze.fence is None and not me.leaving:
        drop, want = [], ()
    elif me.freeze.kind == "frozen":
        want = ()
    if drop:
        yield from _release(v, drop[0])
    elif want:
        reads = tuple(v.node("offset", p) if p in want else None for p in cfg.parts)
        yield Step(f"reads offsets of {list(want)}", False, put(s, m, pc=Pc.CLAIM, todo=want, reads=reads))
    elif me.leaving:
        leave = [*recipes.leave_ops(m), *static_members.kept_ops(cfg, s.tree.nodes, m, None)]
        for note, t, out, bad in write(s, cfg, m, leave):
            done = put(t, m, pc=Pc.IDLE if out == "lost" else Pc.GONE)
            yield Step("deletes its registration" + note, False, done, bad)
    if me.freeze.kind and not me.leaving:
        yield from _touch(v)
    yield from _notices(v)
    for seen_now in static_members.to_attend(s, cfg, m, v.nodes) if cfg.static else ():
        t = put(s, m, pc=Pc.ATTEND, todo=(seen_now,))
        yield Step(f"reads about m{seen_now.of}", False, t)
    if not me.leaving:
        yield from _requests(v)


def _touch(v: View) -> Iterator[Step]:
    """Writes the marker of a freeze that it takes to be over; the time of that write says whether it is."""
    s, cfg, m, me = v.s, v.cfg, v.m, v.me
    is_over = s.tree.nodes[cfg.at("over")] is not None
    before = s if is_over else spend(s, "early")
    if before is None:
        return
    ops = recipes.freeze_touch_ops(cfg, m, me.freeze)
    for note, t, out, bad in write(before, cfg, m, ops):
        if out == "ok":
            known = me.freeze._replace(version=t.tree.nodes[cfg.at("frozen")].version)
            t = put(t, m, pc=Pc.FREEZE_END if is_over else Pc.IDLE, freeze=known)
        elif is_unregistered(cfg, m, out, ops):
            t = lost(t, cfg, m)
        else:
            t = put(t, m, freeze=me.freeze._replace(fence=None))
        yield Step("writes the marker" + note, not is_over, t, bad)


def _freeze_end(v: View) -> Iterator[Step]:
    s, cfg, m, me = v.s, v.cfg, v.m, v.me
    ops = recipes.freeze_end_ops(cfg, m, me.freeze)
    for note, t, out, bad in write(s, cfg, m, ops):
        if is_unregistered(cfg, m, out, ops):
            t = lost(t, cfg, m)
        else:
            t = put(t, m, pc=Pc.IDLE, freeze=me.freeze._replace(fence=None))
        yield Step("deletes the marker" + note, False, t, bad)


def _notices(v: View) -> Iterator[Step]:
    """Watches and verification: the changes that a member notices between its recipes."""
    s, cfg, m, me = v.s, v.cfg, v.m, v.me
    for p in me.blocked:
        if v.node("owner", p) is None:
            yield Step(f"sees p{p} free", False, put(s, m, blocked=tuple(b for b in me.blocked if b != p)))
    for p in cfg.parts:
        offset, owner, marker, held = v.node("offset", p), v.node("owner", p), v.node("marker", p), me.held[p]
        if held and not is_mine(cfg, m, me, owner, held.token):
            yield Step(f"verifies p{p}: not its own any more", False, put(s, m, held=swap(me.held, p, None)))
        if not held and me.gen and not me.target[p] and is_mine(cfg, m, me, owner):
            yield Step(
                f"finds its orphaned claim of p{p}", False, put(s, m, pc=Pc.RELEASE_READS_FIRST, todo=(p,))
            )
        if (
            held
            and marker
            and (
                marker.mzxid > held.last
                if "marker by equality" not in cfg.without
                else offset and offset.version != held.fence
            )
        ):
            t = put(s, m, pc=Pc.COMMIT_READS_OFFSETS, todo=((p, None),))
            yield Step(f"sees the marker of p{p}", False, t)


def _requests(v: View) -> Iterator[Step]:
    """The application's wishes: a commit, to leave, another subscription."""
    s, cfg, m, me = v.s, v.cfg, v.m, v.me
    held = tuple(p for p in cfg.parts if me.held[p])
    if held and (t := spend(s, "commit")):
        yield from send_commit(t, cfg, m, tuple((p, me.held[p].value + 1) for p in held), "commits", True)
    if t := spend(s, "handover"):
        for p in held:
            yield from _hands_over(v._replace(s=t), p, is_optional=True)
    if t := spend(s, "leave"):
        yield Step("begins to leave", True, put(t, m, leaving=True, target=(False,) * cfg.partitions))
    if me.gen is not None and registered(cfg, s.tree)[m] and (t := spend(s, "resubscribe")):
        anew = [*recipes.resubscribe_ops(m, 0), *static_members.kept_ops(cfg, s.tree.nodes, m, 0)]
        for note, after, _, bad in write(t, cfg, m, anew):
            yield Step("registers again, subscribed to nothing" + note, True, after, bad)


def send_commit(
    s: State, cfg: Configuration, m: int, batch: Batch, verb: str, is_optional: bool
) -> Iterator[Step]:
    held = s.members[m].held
    ops = recipes.commit_ops(cfg, m, batch, held)
    for note, t, out, bad in write(s, cfg, m, ops):
        if is_unregistered(cfg, m, out, ops):
            t = lost(t, cfg, m)
        elif out == "ok":
            now = recipes.committed(cfg, t.tree, s.zxid, batch, held)
            t = put(t, m, pc=Pc.IDLE, held=now, todo=(), reads=cfg.blank)
        else:
            t = put(t, m, pc=Pc.COMMIT_READS_OFFSETS, todo=batch)
        yield Step(f"{verb} " + ", ".join(f"p{p}={value}" for p, value in batch) + note, is_optional, t, bad)


def _commit_again(v: View) -> Iterator[Step]:
    yield from send_commit(v.s, v.cfg, v.m, v.me.todo, "commits again", False)


def _commit_reads_offsets(v: View) -> Iterator[Step]:
    v = v.up_to_date()
    looked_at = dict(v.me.todo)
    reads = tuple(v.node("offset", p) if p in looked_at else None for p in v.cfg.parts)
    yield Step("reads back: offsets", False, put(v.s, v.m, pc=Pc.COMMIT_READS_OWNERS, reads=reads))


def _commit_reads_owners(v: View) -> Iterator[Step]:
    held, again = recipes.settle_commit(v.cfg, v.m, v.me, v.nodes, v.me.todo, v.me.reads)
    pc = Pc.COMMIT_AGAIN if again else Pc.IDLE
    t = put(v.s, v.m, held=held, reads=v.cfg.blank, pc=pc, todo=again)
    yield Step("reads back: owners, markers", False, t)


def _claim(v: View) -> Iterator[Step]:
    s, cfg, m, me = v.s, v.cfg, v.m, v.me
    ops = recipes.claim_ops(cfg, m, me.todo, me.reads, me.plan, me.freeze.fence)
    for note, t, out, bad in write(s, cfg, m, ops):
        t = put(t, m, pc=Pc.IDLE, reads=cfg.blank, todo=())
        if out == "ok":
            claimed = (recipes.claimed(cfg, t.tree, me.reads[p], p) if p in me.todo else h
                       for p, h in enumerate(me.held))  # fmt: skip
            t = put(t, m, held=tuple(claimed))
        elif out == "lost":
            t = put(t, m, pc=Pc.CLAIM_READS_OFFSETS, todo=me.todo)
        elif is_unregistered(cfg, m, out, ops):
            t = lost(t, cfg, m)
        elif out.code == "NodeExists":
            t = put(t, m, pc=Pc.BLOCKED_READS_OFFSETS, todo=(refused_at(out, ops)[1],))
        elif refused_at(out, ops)[0] == "root":
            t = _frozen(t, m)
        elif refused_at(out, ops)[0] == "plan":
            t = put(t, m, pc=Pc.PLAN)
        yield Step(f"claims {list(me.todo)}" + note, False, t, bad)


def _frozen(s: State, m: int) -> State:
    """Refused by a freeze that the member has not read: it reads before anything else moves."""
    return put(s, m, freeze=s.members[m].freeze._replace(fence=None))


def _claim_reads_offsets(v: View) -> Iterator[Step]:
    v = v.up_to_date()
    cfg, m, todo = v.cfg, v.m, v.me.todo
    if "adopt offset first" in cfg.without:
        mine = tuple(p for p in todo if is_mine(cfg, m, v.me, v.node("owner", p)))
        if mine:
            t = put(v.s, m, pc=Pc.CLAIM_READS_OFFSETS_LAST, todo=mine, reads=cfg.blank)
            yield Step(f"reads back {list(todo)}: owners first", False, t)
            return
    reads = tuple(v.node("offset", p) if p in todo else None for p in cfg.parts)
    t = put(v.s, m, pc=Pc.CLAIM_READS_OWNERS, reads=reads)
    yield Step(f"reads back {list(todo)}: offsets", False, t)


def _claim_reads_owners(v: View) -> Iterator[Step]:
    yield _settled(v, f"reads back {list(v.me.todo)}: owners")


def _settled(v: View, label: str) -> Step:
    """Each claim is adopted, blocked or wanted; a claim of mine that cannot be adopted is released first."""
    held, blocked, unfenced = recipes.settle_claim(v.cfg, v.m, v.me, v.nodes)
    pc = Pc.RELEASE_READS_FIRST if unfenced else Pc.IDLE
    t = put(v.s, v.m, pc=pc, held=held, blocked=blocked, todo=unfenced[:1], reads=v.cfg.blank)
    return Step(label, False, t)


def _blocked_reads_offsets(v: View) -> Iterator[Step]:
    v, p = v.up_to_date(), v.me.todo[0]
    t = put(v.s, v.m, pc=Pc.BLOCKED_READS_OWNERS, reads=swap(v.cfg.blank, p, v.node("offset", p)))
    yield Step(f"reads the owner of p{p}: offset", False, t)


def _blocked_reads_owners(v: View) -> Iterator[Step]:
    yield _settled(v, f"reads the owner of p{v.me.todo[0]}")


def _claim_reads_offsets_last(v: View) -> Iterator[Step]:
    """The wrong order: the offset is read after the owner, so no "the owner is mine" follows it."""
    held = list(v.me.held)
    for p in v.me.todo:
        offset, owner = v.node("offset", p), v.node("owner", p)
        token = owner.czxid if owner else 0
        held[p] = recipes.Held(offset.data, offset.version, token, offset.czxid, 0)
    t = put(v.s, v.m, pc=Pc.IDLE, held=tuple(held), todo=())
    yield Step(f"reads back {list(v.me.todo)}: offsets", False, t)


def _release(v: View, p: int) -> Iterator[Step]:
    s, cfg, m, me = v.s, v.cfg, v.m, v.me
    ops = recipes.release_ops(cfg, m, p, me.held[p], recipes.unfrozen_ops(cfg, me, p))
    for note, t, out, bad in write(s, cfg, m, ops):
        if is_unregistered(cfg, m, out, ops):
            t = lost(t, cfg, m)
        elif out not in ("ok", "lost") and refused_at(out, ops)[0] == "root":
            t = put(_frozen(t, m), m, pc=Pc.IDLE, todo=(), reads=cfg.blank)
        elif out == "ok":
            t = _dropped(t, cfg, m, p)
        else:
            t = put(t, m, pc=Pc.RELEASE_READS_FIRST, todo=(p,))
        yield Step(f"releases p{p}" + note, False, t, bad)


def _hands_over(v: View, p: int, *, is_optional: bool = False) -> Iterator[Step]:
    """Between two threads, or to its own one: by another claim in the same transaction."""
    s, cfg, m, me = v.s, v.cfg, v.m, v.me
    ops = recipes.handover_ops(cfg, m, p, me.held[p])
    for note, t, out, bad in write(s, cfg, m, ops):
        if is_unregistered(cfg, m, out, ops):
            t = lost(t, cfg, m)
        elif out == "ok":
            held = recipes.claimed(cfg, t.tree, None, p)
            t = put(t, m, pc=Pc.IDLE, held=swap(me.held, p, held), todo=(), reads=cfg.blank)
        else:
            t = put(t, m, pc=Pc.HANDOVER_READS_OFFSET, todo=(p,))
        yield Step(f"hands over p{p}" + note, is_optional, t, bad)


def _handover_again(v: View) -> Iterator[Step]:
    yield from _hands_over(v, v.me.todo[0])


def _handover_reads_offset(v: View) -> Iterator[Step]:
    v, p = v.up_to_date(), v.me.todo[0]
    t = put(v.s, v.m, pc=Pc.HANDOVER_READS_OWNER, reads=swap(v.cfg.blank, p, v.node("offset", p)))
    yield Step(f"reads back: offset of p{p}", False, t)


def _handover_reads_owner(v: View) -> Iterator[Step]:
    """Mine by its token: sent again, with the offset as read. Mine by another one: it was applied."""
    s, cfg, m, me, p = v.s, v.cfg, v.m, v.me, v.me.todo[0]
    owner, offset, held = v.node("owner", p), me.reads[p], me.held[p]
    if is_mine(cfg, m, me, owner, held.token):
        as_read = offset and held._replace(value=offset.data, fence=offset.version, life=offset.czxid)
        is_release = offset is None or "handover as read" in cfg.without
        if recipes.release_stands(held, offset, v.node("marker", p)):
            t = put(s, m, pc=Pc.HANDOVER_AGAIN)
        elif is_release:
            t = put(s, m, pc=Pc.RELEASE_WITHOUT_COMMIT)
        else:
            t = put(s, m, pc=Pc.HANDOVER_AGAIN, held=swap(me.held, p, as_read))
    elif is_mine(cfg, m, me, owner):
        now = recipes.adopted(cfg, owner, offset)
        after = Pc.IDLE if now else Pc.RELEASE_READS_FIRST
        t = put(s, m, pc=after, held=swap(me.held, p, now), todo=() if now else (p,), reads=cfg.blank)
    else:
        t = _dropped(s, cfg, m, p)
    yield Step(f"reads back: owner of p{p}", False, t)


def _release_again(v: View) -> Iterator[Step]:
    yield from _release(v, v.me.todo[0])


def _release_reads(v: View, what: str, then: str) -> Iterator[Step]:
    p, me = v.me.todo[0], v.me
    held = me.held[p]
    if what == "offset":
        t = put(v.s, v.m, pc=then, reads=swap(v.cfg.blank, p, v.node("offset", p)))
    elif not is_mine(v.cfg, v.m, me, v.node("owner", p), held and held.token):
        t = _dropped(v.s, v.cfg, v.m, p)
    elif held and recipes.release_stands(held, me.reads[p], v.node("marker", p)):
        t = put(v.s, v.m, pc=Pc.RELEASE_AGAIN, reads=v.cfg.blank)
    else:
        t = put(v.s, v.m, pc=then)
    yield Step(f"fallback: reads {what} of p{p}", False, t)


def _release_reads_first(v: View) -> Iterator[Step]:
    what = "owner" if "offset first" in v.cfg.without else "offset"
    yield from _release_reads(v.up_to_date(), what, Pc.RELEASE_READS_SECOND)


def _release_reads_second(v: View) -> Iterator[Step]:
    what = "offset" if "offset first" in v.cfg.without else "owner"
    yield from _release_reads(v, what, Pc.RELEASE_WITHOUT_COMMIT)


def _dropped(s: State, cfg: Configuration, m: int, p: int) -> State:
    return put(s, m, pc=Pc.IDLE, held=swap(s.members[m].held, p, None), todo=(), reads=cfg.blank)


def _release_without_commit(v: View) -> Iterator[Step]:
    s, cfg, m, p = v.s, v.cfg, v.m, v.me.todo[0]
    ops = recipes.release_without_commit_ops(m, p, v.me.reads[p], recipes.unfrozen_ops(cfg, v.me, p))
    for note, t, out, bad in write(s, cfg, m, ops):
        if is_unregistered(cfg, m, out, ops):
            t = lost(t, cfg, m)
        elif out not in ("ok", "lost") and refused_at(out, ops)[0] == "root":
            t = put(_frozen(t, m), m, pc=Pc.IDLE, todo=(), reads=cfg.blank)
        elif out == "ok":
            t = _dropped(t, cfg, m, p)
        else:
            t = put(t, m, pc=Pc.RELEASE_READS_FIRST, reads=cfg.blank)
        yield Step(f"fallback: deletes owner of p{p}" + note, False, t, bad)


_AT: dict[str, Callable[[View], Iterator[Step]]] = {
    Pc.UNREGISTERED: _unregistered,
    Pc.REGISTER: _register,
    Pc.ATTEND: _attend,
    Pc.ATTEND_WRITE: _attend_write,
    Pc.IDLE: _idle,
    Pc.FREEZE: _freeze,
    Pc.FREEZE_END: _freeze_end,
    Pc.PLAN: _plan,
    Pc.PLAN_WRITE: _plan_write,
    Pc.CLAIM: _claim,
    Pc.CLAIM_READS_OFFSETS: _claim_reads_offsets,
    Pc.CLAIM_READS_OWNERS: _claim_reads_owners,
    Pc.CLAIM_READS_OFFSETS_LAST: _claim_reads_offsets_last,
    Pc.BLOCKED_READS_OFFSETS: _blocked_reads_offsets,
    Pc.BLOCKED_READS_OWNERS: _blocked_reads_owners,
    Pc.COMMIT_READS_OFFSETS: _commit_reads_offsets,
    Pc.COMMIT_READS_OWNERS: _commit_reads_owners,
    Pc.COMMIT_AGAIN: _commit_again,
    Pc.RELEASE_READS_FIRST: _release_reads_first,
    Pc.RELEASE_READS_SECOND: _release_reads_second,
    Pc.RELEASE_AGAIN: _release_again,
    Pc.RELEASE_WITHOUT_COMMIT: _release_without_commit,
    Pc.HANDOVER_READS_OFFSET: _handover_reads_offset,
    Pc.HANDOVER_READS_OWNER: _handover_reads_owner,
    Pc.HANDOVER_AGAIN: _handover_again,
}
