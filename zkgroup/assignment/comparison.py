"""Compares assignments: the difference between two of them, and short stable hashes of inputs and results.

Members publish the hashes (views, assignment znode), so that a tool can name the member that disagrees.
Equal values have equal digests in every process and version; the texts hashed are part of the format.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from zkgroup.model import EvaluatedMember, TopicPartition


def inputs_digest(
    strategy: str,
    members: Sequence[EvaluatedMember],
    partitions: Mapping[str, Sequence[int]],
    previous: Mapping[TopicPartition, str] | None = None,
) -> str:
    """16 hex digits over the strategy, the members' subscriptions, the partitions and the previous owners."""
    wanted = {member.member: dict(sorted(member.threads.items())) for member in members}
    text = json.dumps(
        [
            strategy,
            sorted(wanted.items()),
            sorted((topic, sorted(numbers)) for topic, numbers in partitions.items()),
            _rows(previous or {}),
        ],
        separators=(",", ":"),
    )
    return _digest(text)


def result_digest(owners: Mapping[TopicPartition, str]) -> str:
    """16 hex digits over an assignment (partition to thread id)."""
    return _digest(json.dumps(_rows(owners), separators=(",", ":")))


def _rows(owners: Mapping[TopicPartition, str]) -> list[tuple[str, int, str]]:
    return sorted((tp.topic, tp.partition, thread) for tp, thread in owners.items())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class AssignmentDiff:
    """The partitions of two assignments by how their owner differs, in order.

    A change of thread within a member counts as a move.
    """

    kept: tuple[TopicPartition, ...]
    moved: tuple[TopicPartition, ...]
    gained: tuple[TopicPartition, ...]
    """Owned after, not before."""
    dropped: tuple[TopicPartition, ...]
    """Owned before, not after."""


def assignment_diff(
    before: Mapping[TopicPartition, str], after: Mapping[TopicPartition, str]
) -> AssignmentDiff:
    """Compares two assignments (partition to thread id)."""
    common = _sorted(before.keys() & after.keys())
    return AssignmentDiff(
        kept=tuple(tp for tp in common if before[tp] == after[tp]),
        moved=tuple(tp for tp in common if before[tp] != after[tp]),
        gained=tuple(_sorted(after.keys() - before.keys())),
        dropped=tuple(_sorted(before.keys() - after.keys())),
    )


def _sorted(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    # The same order as the values' own, several times faster.
    return sorted(partitions, key=lambda tp: (tp.topic, tp.partition))
