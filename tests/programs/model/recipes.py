"""The recipes' transactions, and what a member concludes from what it reads back. Pure functions.

The production machine must agree with each of these lines; `test_machine_equals_model.py` compares
them one by one. The order of the steps around them is in `member.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tests.programs.model.plans import Row, registered
from tests.programs.model.values import (
    NO_OFFSET,
    Configuration,
    Freeze,
    Held,
    Member,
    Node,
    Op,
    Tree,
    check,
    create,
    delete,
    set_data,
)

Batch = Sequence[tuple[int, int | None]]
"""Partitions with the value to be committed; None for a partition that is only read."""


def register_ops(m: int, wants: int = 1) -> list[Op]:
    """Final data in one create (recipes 2)."""
    return [create("ids", m, wants, ephemeral=True)]


def resubscribe_ops(m: int, wants: int) -> list[Op]:
    """A changed subscription is a new registration (recipes 2)."""
    return [delete("ids", m, 0), *register_ops(m, wants)]


def leave_ops(m: int) -> list[Op]:
    """Recipes 7, the last act of a member that shares its client."""
    return [delete("ids", m, 0)]


def plan_ops(cfg: Configuration, m: int, before: Node | None, generation: int, row: Row) -> list[Op]:
    """Written by members only, under the version that was read (recipes 4)."""
    data = (generation, row)
    change = create("plan", 0, data) if before is None else set_data("plan", 0, data, before.version)
    return [change] if "plan by members" in cfg.without else [check("ids", m, 0), change]


def claim_ops(
    cfg: Configuration,
    m: int,
    partitions: Iterable[int],
    reads: Sequence[Node | None],
    plan_version: int | None,
    freeze_fence: int | None = 0,
) -> list[Op]:
    """Recipes 5: create the owner, set it once, bump the offset. The bump is the fence."""
    ops = [] if "ids check" in cfg.without else [check("ids", m, 0)]
    if "freeze claim" not in cfg.without:
        ops.append(check("root", 0, freeze_fence))
    if cfg.sticky and "plan znode" not in cfg.without:
        ops.append(check("plan", 0, plan_version))
    for p in partitions:
        ops += [create("owner", p, m, ephemeral=True), set_data("owner", p, m, 0)]
        read = reads[p]
        if read is None:
            if "create offset" not in cfg.without:
                ops.append(create("offset", p, NO_OFFSET))
        elif "bump" not in cfg.without:
            ops.append(set_data("offset", p, read.data, read.version))
    return ops


def commit_ops(cfg: Configuration, m: int, batch: Batch, held: Sequence[Held | None]) -> list[Op]:
    """The owner is a claim of this member, the offset is as the member left it (recipes 6)."""
    ops = [] if "ids check" in cfg.without else [check("ids", m, 0)]
    for p, value in batch:
        if "owner check" not in cfg.without:
            ops.append(check("owner", p, 1))
        fence = held[p].fence
        ops.append(create("offset", p, value) if fence is None else set_data("offset", p, value, fence))
    return ops


def release_ops(cfg: Configuration, m: int, p: int, held: Held, freeze: Sequence[Op] = ()) -> list[Op]:
    """The last commit and the end of the claim, at once (recipes 7); `freeze`: of `unfrozen_ops`."""
    if "release check" in cfg.without:
        return [delete("owner", p, -1)]
    return [
        check("ids", m, 0),
        *freeze,
        check("owner", p, 1),
        set_data("offset", p, held.value, held.fence),
        delete("owner", p, 1),
    ]


def handover_ops(cfg: Configuration, m: int, p: int, held: Held) -> list[Op]:
    """Recipes 5, between threads of one member: it is released and claimed at once, and never without an
    owner."""
    return [
        *release_ops(cfg, m, p, held),
        create("owner", p, m, ephemeral=True),
        set_data("owner", p, m, 0),
    ]


def release_without_commit_ops(m: int, p: int, read: Node | None, freeze: Sequence[Op] = ()) -> list[Op]:
    """Recipes 7, the fallback, after "offset, then owner" was read."""
    unmoved = [] if read is None else [check("offset", p, read.version)]
    return [check("ids", m, 0), *freeze, *unmoved, delete("owner", p, 1)]


def unfrozen_ops(cfg: Configuration, me: Member, p: int) -> list[Op]:
    """The check of a release for a rebalance; a leave, and the end of an orphaned claim, make none."""
    is_move = me.held[p] is not None and not me.leaving and not me.target[p]
    return [check("root", 0, me.freeze.fence)] if is_move and "freeze release" not in cfg.without else []


def freeze_ops(cfg: Configuration, tree: Tree, kind: str) -> list[Op]:
    """Recipes 26, by an operator. Without takeover a partition in transit would stay without an owner."""
    checks = [
        check("owner", p, -1) for p in cfg.parts if kind == "frozen" and "freeze transit" not in cfg.without
    ]
    version = tree.nodes[cfg.at("root")].version
    counted = [] if "freeze bump" in cfg.without else [set_data("root", 0, None, version)]
    return [*checks, create("frozen", 0, kind), *counted]


def freeze_end_ops(cfg: Configuration, m: int, freeze: Freeze) -> list[Op]:
    """Recipes 26, by a member whose write of the marker has shown that the time is over."""
    return [check("ids", m, 0), *_same_freeze(cfg, freeze), delete("frozen", 0, _marker_version(cfg, freeze))]


def freeze_touch_ops(cfg: Configuration, m: int, freeze: Freeze) -> list[Op]:
    """Recipes 26, by a member that takes the freeze to be over: the server's time is in the answer."""
    touched = set_data("frozen", 0, freeze.kind, _marker_version(cfg, freeze))
    return [check("ids", m, 0), *_same_freeze(cfg, freeze), touched]


def _same_freeze(cfg: Configuration, freeze: Freeze) -> list[Op]:
    return [] if "freeze end" in cfg.without else [check("root", 0, freeze.fence)]


def _marker_version(cfg: Configuration, freeze: Freeze) -> int:
    return freeze.version if "freeze end" in cfg.without else -1


def claimed(cfg: Configuration, tree: Tree, read: Node | None, p: int) -> Held:
    """The result of an accepted claim: token, fence and the value to start from."""
    offset, owner = tree.nodes[cfg.at("offset", p)], tree.nodes[cfg.at("owner", p)]
    if "bump" in cfg.without and read is not None:
        return Held(read.data, read.version, owner.czxid, read.czxid, owner.czxid)
    if offset is None:
        return Held(NO_OFFSET, None, owner.czxid, None, owner.czxid)
    return Held(offset.data, offset.version, owner.czxid, offset.czxid, owner.czxid)


def committed(
    cfg: Configuration, tree: Tree, zxid: int, batch: Batch, held: Sequence[Held | None]
) -> tuple[Any, ...]:
    """Beliefs after an accepted commit in transaction `zxid`."""
    now = list(held)
    for p, value in batch:
        before = held[p]
        life = tree.nodes[cfg.at("offset", p)].czxid
        fence = 0 if before.fence is None else before.fence + 1
        now[p] = before._replace(value=value, fence=fence, life=life, last=zxid)
    return tuple(now)


def is_mine(cfg: Configuration, m: int, me: Member, owner: Node | None, token: int | None = None) -> bool:
    """My session and my text and, once claimed, my token (recipes 1)."""
    if owner is None or owner.session != (cfg.client[m], me.known):
        return False
    return ("text" in cfg.without or owner.data == m) and token in (None, owner.czxid)


def settle_commit(
    cfg: Configuration,
    m: int,
    me: Member,
    nodes: Sequence[Node | None],
    batch: Batch,
    reads: Sequence[Node | None],
) -> tuple[tuple[Held | None, ...], tuple[tuple[int, int], ...]]:
    """The claims that are still mine, their fences, and the commits that must be sent again (recipes 6).

    `reads`: offsets, read before `nodes`, from which owners and markers are taken.
    """
    held, again = list(me.held), []
    for p, intended in batch:
        mine, offset = held[p], reads[p]
        owner, marker = nodes[cfg.at("owner", p)], nodes[cfg.at("marker", p)]
        if mine is None:
            continue
        is_still_mine = is_mine(cfg, m, me, owner, mine.token) or "obey owner" in cfg.without
        is_other_life = (offset and offset.czxid) != mine.life and "life check" not in cfg.without
        if not is_still_mine or offset is None or is_other_life:
            held[p] = None
        elif marker and marker.mzxid > mine.last and "marker by equality" not in cfg.without:
            held[p] = mine._replace(value=marker.data, fence=offset.version, last=marker.mzxid)
        elif offset.version == mine.fence:
            if intended is not None:
                again.append((p, intended))
        elif intended is not None and offset.version == mine.fence + 1 and offset.data == intended:
            held[p] = mine._replace(value=intended, fence=offset.version, last=offset.mzxid)
        elif (marker and marker.mzxid == offset.mzxid) or cfg.policy == "adopt":
            held[p] = mine._replace(value=offset.data, fence=offset.version, last=offset.mzxid)
        else:
            held[p] = mine._replace(fence=offset.version)
            if intended is not None:
                again.append((p, intended))
    return tuple(held), tuple(again)


def adopted(cfg: Configuration, owner: Node, offset: Node | None) -> Held | None:
    """A claim of mine without a reply, with the offset that was read *before* its owner (recipes 5).

    None where that offset is younger than the claim: the version that fenced the claim is gone.
    """
    if offset is not None:
        if offset.czxid > owner.czxid and "life check" not in cfg.without:
            return None
        return Held(offset.data, offset.version, owner.czxid, offset.czxid, owner.czxid)
    return Held(NO_OFFSET, None, owner.czxid, None, owner.czxid) if "create offset" in cfg.without else None


def settle_claim(
    cfg: Configuration, m: int, me: Member, nodes: Sequence[Node | None]
) -> tuple[tuple[Held | None, ...], tuple[int, ...], tuple[int, ...]]:
    """Recipes 5, a claim without a reply: mine is adopted, another's blocks, a free one is claimed again.

    Returns held, blocked, and the claims that are mine but have no offset (any more) that fences them.
    """
    held, blocked, unfenced = list(me.held), set(me.blocked), []
    for p in me.todo:
        owner = nodes[cfg.at("owner", p)]
        if is_mine(cfg, m, me, owner):
            held[p] = adopted(cfg, owner, me.reads[p])
            if held[p] is None:
                unfenced.append(p)
        elif owner is not None:
            blocked.add(p)
    return tuple(held), tuple(sorted(blocked)), tuple(unfenced)


def release_stands(held: Held, offset: Node | None, marker: Node | None) -> bool:
    """The claim is mine and nothing was written, so the release as a whole is sent again (recipes 7, 10)."""
    is_as_left = offset is not None and (offset.version, offset.czxid) == (held.fence, held.life)
    return is_as_left and not (marker is not None and marker.mzxid > held.last)


def registrations_seen(cfg: Configuration, me: Member, tree: Tree) -> tuple[int | None, ...]:
    """The registrations, from the last snapshot's contents as far as they are still valid (recipes 3)."""
    contents, old = registered(cfg, tree), me.cache
    if old is None:
        return contents
    czxid, cversion, known = old
    moved = sum((a is None) != (b is None) for a, b in zip(known, contents, strict=True))
    if "cversion" in cfg.without or (czxid == tree.czxid and tree.cversion - cversion == moved):
        both = zip(known, contents, strict=True)
        return tuple(a if a is not None and b is not None else b for a, b in both)
    return contents


def judge_plan(plan: Node | None, generation: int) -> str:
    """Whether the plan is "mine", "newer" than my snapshot, or "older" and to be written (recipes 4)."""
    if plan is not None and plan.data[0] == generation:
        return "mine"
    return "newer" if plan is not None and plan.data[0] > generation else "older"
