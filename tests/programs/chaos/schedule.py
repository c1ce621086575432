"""The schedule of a round, drawn from its seed. Pure: the same seed is the same schedule.

Numbers are those of docs/reference/faults.md. A slot has two faults that overlap, and operations of operators
meanwhile. A seed repeats the faults and operations and their times, but not how the processes of the cluster
interleave.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from tests.programs.chaos.moves import MOVE_STEPS

BROKERS: Final = (1, 2, 3, 4)

PAIRED: Final = ("F1", "F2", "F7", "F9", "F12", "F13", "F15", "F29")
"""The faults of which every pair is tried."""
SLEEPS: Final = ("asleep", "late", "held")
"""How one of two controllers came by it (F38): it sleeps, what it writes comes late, one write is held."""
OTHERS: Final = (
    *("F3", "F8", "F16"),
    *(f"F37:{step}" for step in MOVE_STEPS),
    *(f"F38:{way}" for way in SLEEPS),
    *("F39", "shutdown", "wipe"),
)
"""Faults tried beside one of them; behind a colon the step of a move, or the way, that it is about."""

VICTIMS: Final = ("controller", "leader", "follower", "any")
ReaderAct = Literal["none", "kill", "restart", "pause"]
READER_ACTS: Final[tuple[ReaderAct, ...]] = ("none", "kill", "restart", "pause")
OPERATIONS: Final = (
    "create",
    "grow",
    "delete",
    "delete moving",
    "move",
    "move",
    "cancel",
    "retarget",
    "prefer",
    "freeze",
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault; its victim is chosen when it begins."""

    kind: str
    victim: str
    number: int
    """Chooses among victims and ways."""
    hold_ms: int
    way: str = ""
    """The part of its name behind the colon."""

    @property
    def name(self) -> str:
        """The name, as in `PAIRED` and `OTHERS`."""
        return f"{self.kind}:{self.way}" if self.way else self.kind


@dataclass(frozen=True, slots=True)
class Slot:
    """Two faults, the second `gap_ms` after the first, and operations before, between and after."""

    first: Fault
    second: Fault
    gap_ms: int
    operations: tuple[tuple[str, int], ...]
    """Names, each with a number that chooses its objects."""
    reader: tuple[ReaderAct, int]
    """The act on a consumer, and a number that chooses the consumer."""

    def __str__(self) -> str:
        return f"{self.first.name}/{self.first.victim} + {self.second.name}/{self.second.victim}"


def pairs() -> list[tuple[str, str]]:
    """All pairs to try: every pair of the paired faults, and each other fault beside two of them."""
    both = list(itertools.combinations_with_replacement(PAIRED, 2))
    return both + [(other, PAIRED[number % len(PAIRED)]) for number, other in enumerate(OTHERS * 2)]


def draw(seed: int, slots: int, chosen: Sequence[tuple[str, str]] | None = None) -> tuple[Slot, ...]:
    """The slots of one round. Rounds of consecutive seeds go through all pairs in turn."""
    rng = random.Random(f"chaos {seed}")
    every = pairs()
    random.Random("pairs").shuffle(every)
    mine = chosen or [every[(seed * slots + number) % len(every)] for number in range(slots)]
    return tuple(_slot(rng, *pair) for pair in mine)


def _slot(rng: random.Random, one: str, other: str) -> Slot:
    kinds = [one, other]
    rng.shuffle(kinds)
    first, second = (_fault(rng, kind) for kind in kinds)
    operations = tuple((rng.choice(OPERATIONS), rng.randrange(1 << 30)) for _ in range(rng.randint(2, 4)))
    gap_ms = rng.choice((0, 300, 1500))
    return Slot(first, second, gap_ms, operations, (rng.choice(READER_ACTS), rng.randrange(1 << 30)))


def _fault(rng: random.Random, name: str) -> Fault:
    kind, _, way = name.partition(":")
    holds = (400, 2_000, 6_000) if kind in ("F2", "F7", "F16") else (1_000, 3_000)
    weights = (3, 1, 1, 2)
    victim = rng.choices(VICTIMS, weights)[0]
    return Fault(kind, victim, rng.randrange(1 << 30), rng.choice(holds), way)
