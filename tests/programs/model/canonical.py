"""Reduces a state to what can still matter, so that states with equal futures are equal.

An owner or marker that no member remembers has transaction 1; a remembered transaction is 1 if it is the
present one, else 0. Where offsets can be deleted, owners keep their order among the creations of offsets.
Offset versions count from the present one. Generations keep their order. Where servers lag, older trees
are visible and the state is kept as it is.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.programs.model.values import Configuration, Held, Member, Node, State, Tree

KEEP = 3
"""How far below the present version a remembered one still matters (read-back compares fence + 1)."""
FRESH = 99
"""The next transaction id: any number that no state uses."""


def canonical(s: State, cfg: Configuration) -> State:
    if cfg.lagging:
        return s
    tree, plan = s.tree, s.tree.nodes[-1]
    generations = _ranks({tree.pzxid, *_generations(s, plan)} if cfg.sticky else {tree.pzxid})
    partitions = [_Partition(s, cfg, p) for p in cfg.parts]
    lives = _lives(s, cfg)
    members = tuple(_member(s, cfg, me, partitions, lives, generations) for me in s.members)
    nodes, owners, first, marks = list(tree.nodes), cfg.at("owner"), cfg.at("offset"), cfg.at("marker")
    for i, node in enumerate(nodes[:-1]):
        if node is not None and first <= i < marks:
            nodes[i] = partitions[i - first].offset(node, lives)
        elif node is not None and owners <= i < first:
            nodes[i] = Node(node.data, node.version, lives.get(node.czxid, 1), 1, node.session)
        elif node is not None:
            nodes[i] = Node(node.data, node.version, 1, 1, node.session)
    if plan:
        nodes[-1] = Node((generations[plan.data[0]], plan.data[1]), plan.version, 1, 1, None)
    tree = Tree(tuple(nodes), 1, 0, generations[tree.pzxid])
    return State(tree, FRESH, s.clients, members, s.budget, s.views)


def _ranks(zxids: set[int]) -> dict[int, int]:
    return {zxid: rank for rank, zxid in enumerate(sorted(zxids), 1)}


def _generations(s: State, plan: Node | None) -> set[int]:
    planned = {plan.data[0]} if plan else set()
    return planned | {me.gen for me in s.members if me.gen}


def _lives(s: State, cfg: Configuration) -> Mapping[int, int]:
    """The creations of offset znodes: in order with those of owners where an offset can be deleted, else all
    equal.
    """
    offsets = s.tree.nodes[cfg.at("offset") : cfg.at("marker")]
    present = {node.czxid for node in offsets if node}
    if not cfg.is_absolute:
        return dict.fromkeys(present, 1)
    held = {h.life for me in s.members for h in me.held if h and h.life}
    read = {node.czxid for me in s.members for node in me.reads if node and node.czxid}
    owners = {node.czxid for node in s.tree.nodes[cfg.at("owner") : cfg.at("offset")] if node}
    return _ranks(present | held | read | owners)


class _Partition:
    """The transactions and versions with which those of one partition are compared."""

    def __init__(self, s: State, cfg: Configuration, p: int) -> None:
        nodes = s.tree.nodes
        offset, owner, marker = (nodes[cfg.at(where, p)] for where in ("offset", "owner", "marker"))
        self._shift = max(offset.version - KEEP, 0) if offset and not cfg.is_absolute else 0
        self._token = owner and owner.czxid
        self._marked = marker and marker.mzxid

    def _against_marker(self, zxid: int) -> int:
        if not self._marked or zxid < self._marked:
            return 0
        return 1 if zxid == self._marked else 2

    def offset(self, node: Node | None, lives: Mapping[int, int]) -> Node | None:
        if node is None:
            return None
        version = max(node.version - self._shift, 0)
        return Node(node.data, version, lives.get(node.czxid, 0), self._against_marker(node.mzxid), None)

    def held(self, h: Held | None, lives: Mapping[int, int]) -> Held | None:
        if h is None:
            return None
        fence = h.fence and max(h.fence - self._shift, 0)
        life = lives.get(h.life, 0)
        token = lives.get(h.token, 1) if h.token == self._token else 0
        return Held(h.value, fence, token, life, self._against_marker(h.last))


def _member(
    s: State,
    cfg: Configuration,
    me: Member,
    partitions: list[_Partition],
    lives: Mapping[int, int],
    generations: Mapping[int, int],
) -> Member:
    held, reads, cache = me.held, me.reads, me.cache
    if held != cfg.blank:
        held = tuple(part.held(h, lives) for part, h in zip(partitions, held, strict=True))
    if reads != cfg.blank:
        reads = tuple(part.offset(node, lives) for part, node in zip(partitions, reads, strict=True))
    if cache:
        cache = (int(cache[0] == s.tree.czxid), cache[1] - s.tree.cversion, cache[2])
    gen = me.gen and generations.get(me.gen, 0)
    return me._replace(held=held, reads=reads, cache=cache, gen=gen)
