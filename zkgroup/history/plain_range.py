"""The range strategy once more, written differently and sharing no code with `zkgroup.assignment`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def plain_range(
    members: Mapping[str, Mapping[str, int]], partitions: Mapping[str, Sequence[int]]
) -> dict[tuple[str, int], str]:
    """(topic, partition) to thread id, from each member's thread counts by topic."""
    owners: dict[tuple[str, int], str] = {}
    for topic in {topic for wanted in members.values() for topic in wanted}:
        threads = [f"{name}-{n}" for name, wanted in members.items() for n in range(wanted.get(topic, 0))]
        threads.sort(key=lambda thread: thread.encode("utf-16-be"))
        left = sorted(set(partitions.get(topic, ())), reverse=True)
        while threads and left:
            # The next thread takes its share of what is left, rounded up.
            thread, share = threads[0], -(-len(left) // len(threads))
            del threads[0]
            owners.update({(topic, left.pop()): thread for _ in range(share)})
    return owners
