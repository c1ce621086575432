"""Two small assignors, enough to make partitions move and to need a former assignment."""

from __future__ import annotations

from collections.abc import Sequence

from tests.programs.model.values import Configuration, Tree

Row = tuple[int | None, ...]
"""The member of each partition."""


def range_plan(members: Sequence[int], partitions: int) -> Row:
    """Contiguous blocks; the first `partitions % n` members get one more."""
    if not members:
        return (None,) * partitions
    base, extra = divmod(partitions, len(members))
    return tuple(m for i, m in enumerate(members) for _ in range(base + (i < extra)))


def sticky_plan(members: Sequence[int], previous: Sequence[int | None]) -> Row:
    """Keeps what fits the balance, and gives the rest to the member that has least."""
    if not members:
        return (None,) * len(previous)
    base, extra = divmod(len(previous), len(members))
    count, row = dict.fromkeys(members, 0), []
    for owner in previous:
        has_room = owner in count and (
            count[owner] < base or (count[owner] == base and sum(c > base for c in count.values()) < extra)
        )
        row.append(owner if has_room else None)
        if has_room:
            count[owner] += 1
    for p, owner in enumerate(row):
        if owner is None:
            row[p] = min(count, key=lambda m: (count[m], m))
            count[row[p]] += 1
    return tuple(row)


def registered(cfg: Configuration, tree: Tree) -> tuple[int | None, ...]:
    """The data of each member's registration."""
    return tuple(None if node is None else node.data for node in tree.nodes[: cfg.members])


def subscribed(contents: Sequence[int | None]) -> list[int]:
    return [m for m, wants in enumerate(contents) if wants]
