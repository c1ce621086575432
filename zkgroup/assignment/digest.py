"""Short stable hashes of what went into an assignment and of what came out.

Members publish them (views, plan), so that anybody can name who disagrees. Equal values have equal digests
in every process and version; the texts hashed are part of the format.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from zkgroup.model import EvaluatedMember, TopicPartition


def inputs_digest(
    strategy: str,
    members: Sequence[EvaluatedMember],
    partitions: Mapping[str, Sequence[int]],
    previous: Mapping[TopicPartition, str] | None = None,
) -> str:
    """16 hex digits over the strategy, who wants what, the partitions there are and the common past."""
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
