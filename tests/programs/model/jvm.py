"""A member like Kafka 0.8.2.2's: releases by path, commits without condition, adopts by text, and continues
after an expiry (`ZookeeperConsumerConnector`, `ZkUtils`).
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.programs.model.member import Step
from tests.programs.model.plans import range_plan, registered, subscribed
from tests.programs.model.recipes import register_ops
from tests.programs.model.values import (
    NO_OFFSET,
    Configuration,
    Held,
    Pc,
    State,
    create,
    delete,
    put,
    set_data,
    spend,
    swap,
)
from tests.programs.model.zookeeper import write


def jvm_steps(s: State, cfg: Configuration, m: int) -> Iterator[Step]:
    """Every next step of a JVM member, which uses only the value of `Held`."""
    me, client = s.members[m], s.clients[cfg.client[m]]
    if not client.alive or me.pc in (Pc.GONE, Pc.NOT_STARTED):
        return
    if client.serial != me.known:
        t = put(s, m, pc=Pc.UNREGISTERED, known=client.serial, gen=None, held=cfg.blank, todo=())
        yield Step("hears that its session is lost", False, t)
    yield from _commits(s, cfg, m)
    if me.pc == Pc.UNREGISTERED and s.tree.nodes[cfg.at("ids", m)] is None:
        for _, t, out, _ in write(s, cfg, m, register_ops(m)):
            if out != "lost":
                yield Step("(JVM) registers", False, put(t, m, pc=Pc.IDLE))
    elif me.pc == Pc.IDLE and me.gen != s.tree.pzxid:
        yield from _rebalances(s, cfg, m)
    elif me.pc == Pc.JVM_CLAIM and me.todo:
        yield from _claims(s, cfg, m)
    elif me.pc == Pc.JVM_CLAIM:
        yield Step("(JVM) done", False, put(s, m, pc=Pc.IDLE, reads=cfg.blank))


def _commits(s: State, cfg: Configuration, m: int) -> Iterator[Step]:
    held = s.members[m].held
    for p in cfg.parts:
        t = spend(s, "jvm_commit")
        if not held[p] or t is None:
            continue
        value = held[p].value + 1
        is_there = s.tree.nodes[cfg.at("offset", p)] is not None
        op = set_data("offset", p, value, -1) if is_there else create("offset", p, value)
        for note, after, _, _ in write(t, cfg, m, [op]):
            after = put(after, m, held=swap(held, p, held[p]._replace(value=value)))
            yield Step(f"(JVM) writes p{p}={value} without condition" + note, True, after)


def _rebalances(s: State, cfg: Configuration, m: int) -> Iterator[Step]:
    held = s.members[m].held
    mine = next((p for p in cfg.parts if held[p]), None)
    if mine is None:
        plan = range_plan(subscribed(registered(cfg, s.tree)), cfg.partitions)
        todo = tuple(p for p in cfg.parts if plan[p] == m)
        reads = tuple(s.tree.nodes[cfg.at("offset", p)] if p in todo else None for p in cfg.parts)
        t = put(s, m, pc=Pc.JVM_CLAIM, todo=todo, reads=reads, gen=s.tree.pzxid)
        yield Step(f"(JVM) snapshot, fetches offsets of {list(todo)}", False, t)
        return
    for note, t, out, _ in write(s, cfg, m, [delete("owner", mine, -1)]):
        if out != "lost":
            t = put(t, m, held=swap(held, mine, None))
            yield Step(f"(JVM) deletes owner of p{mine} by path" + note, False, t)


def _claims(s: State, cfg: Configuration, m: int) -> Iterator[Step]:
    me = s.members[m]
    p = me.todo[0]
    for note, t, out, _ in write(s, cfg, m, [create("owner", p, m, ephemeral=True)]):
        if out == "lost":
            continue
        if out == "ok" or s.tree.nodes[cfg.at("owner", p)].data == m:
            value = me.reads[p].data if me.reads[p] else NO_OFFSET
            t = put(t, m, held=swap(me.held, p, Held(value, 0, 0, 0, 0)), todo=me.todo[1:])
        else:
            t = put(t, m, pc=Pc.IDLE, gen=None, todo=(), reads=cfg.blank)
        yield Step(f"(JVM) claims p{p}" + note, False, t)
