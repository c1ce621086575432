"""Every small situation: who acts on a partition, and at which moments of a recipe."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from tests.programs.model.environment import reset_ops
from tests.programs.model.following import ME, WIPE, Act, P
from tests.programs.model.values import Op, create, delete, set_data

OTHER = 1
INTENDED = 1
"""What the member is about to commit."""


def _claim_by(m: int) -> list[Op]:
    return [
        create("owner", P, m, ephemeral=True),
        set_data("owner", P, m, 0),
        set_data("offset", P, 0, -1),
    ]


STEAL = [delete("owner", P, -1)]
ACTS: Mapping[str, tuple[Sequence[Op], int | None]] = {
    "a stranger deletes the owner": (STEAL, None),
    "another member claims": (_claim_by(OTHER), 1),
    "a JVM member claims": ([create("owner", P, OTHER, ephemeral=True)], 1),
    "I have claimed once more": (_claim_by(ME), 0),
    "a member of my client claims": (_claim_by(OTHER), 0),
    "somebody of my name claims": (_claim_by(ME), 1),
    "a stranger writes": ([set_data("offset", P, 7, -1)], None),
    "a stranger writes a low offset": ([set_data("offset", P, -1, -1)], None),
    "a stranger writes what I intend": ([set_data("offset", P, INTENDED, -1)], None),
    WIPE: ([delete("offset", P, -1)], None),
    "a stranger makes the offset": ([create("offset", P, 0)], None),
    "an operator resets": (reset_ops(P, -1, is_marked=False), None),
    "an operator resets again": (reset_ops(P, -1, is_marked=True), None),
    "a stranger deletes my registration": ([delete("ids", ME, -1)], None),
}
"""Transactions of others, each with the client in whose session it runs. Where one is refused, the
situation is that of a shorter history."""


def histories(moments: int, length: int) -> Iterator[tuple[Act, ...]]:
    """Up to `length` acts before the first `moments` requests, in every order."""
    for count in range(length + 1):
        for when in itertools.combinations_with_replacement(range(moments), count):
            for names in itertools.product(ACTS, repeat=count):
                yield tuple(Act(before, name, *ACTS[name]) for before, name in zip(when, names, strict=True))
