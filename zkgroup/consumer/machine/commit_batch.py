"""Commits that are written together: whatever waits when the write before has ended. Pure.

Of the commits of one partition only where they lead is written: the highest offset, or what the
application has gone to by a seek since. The others are committed with it. So the number of commits that
wait costs no requests, and tasks that each commit their own record may end in any order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from zkgroup.consumer.machine.ownership import NO_FLOOR, Held
from zkgroup.errors import CommitRefusedError, CommitUnknownError, OffsetConflictError
from zkgroup.model import TopicPartition


@dataclass(slots=True, eq=False)
class Commit:
    """One that was asked for: what is still open, and what became of the rest."""

    commit_id: int | None
    """None for one of the machine's own, which nobody waits for."""
    values: dict[TopicPartition, int]
    seeks: Mapping[TopicPartition, int] = field(default_factory=dict)
    """As in `CommitRequested`."""
    tokens: dict[TopicPartition, int] = field(default_factory=dict)
    """The claims that the positions belong to; under another claim they are void."""
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    stands: dict[TopicPartition, int] = field(default_factory=dict)
    """Where the offsets of those committed stand when they are told."""
    refused: dict[TopicPartition, CommitRefusedError] = field(default_factory=dict)

    def accept(self, tp: TopicPartition, stands: int) -> None:
        self.committed[tp], self.stands[tp] = self.values.pop(tp), stands

    def refuse(self, tp: TopicPartition, error: CommitRefusedError) -> None:
        self.values.pop(tp, None)
        self.committed.pop(tp, None)
        self.stands.pop(tp, None)
        self.refused[tp] = error


class Batch:
    """The commits of one write, partition by partition in the order in which they were asked for."""

    def __init__(self, commits: Iterable[Commit]) -> None:
        self.commits = list(commits)
        self.values: dict[TopicPartition, int] = {}
        """What is still to be written."""
        self.sought: dict[TopicPartition, int] = {}
        """The last seek that led to each of these values."""
        self.is_in_doubt = False
        """What was sent must be read back before anything else is done."""
        self.unknown: set[TopicPartition] = set()
        """Sent without an answer, and not cleared up since: it may have been written for a moment."""
        self.foreign: set[TopicPartition] = set()
        """Written by somebody else when they were read back last, and to be written over."""
        self._of: dict[TopicPartition, list[Commit]] = {}
        for commit in self.commits:
            for tp in commit.values:
                self._of.setdefault(tp, []).append(commit)

    @property
    def partitions(self) -> list[TopicPartition]:
        """Those of which something is open."""
        return [tp for tp in self._of if self.open(tp)]

    def open(self, tp: TopicPartition) -> list[Commit]:
        """The commits that wait for the outcome of this partition."""
        return [commit for commit in self._of.get(tp, ()) if tp in commit.values]

    def aim(self, tp: TopicPartition, held: Held) -> None:
        """Finds what is to be written for a partition; what stands already is committed, what must not be
        written is refused."""
        value, sought, floor = held.value, held.sought, held.floor
        for commit in self.open(tp):
            asked, seek = commit.values[tp], commit.seeks.get(tp, 0)
            if seek > sought:
                value, sought, floor = asked, seek, NO_FLOOR
            elif seek < sought:
                continue  # from before that seek: committed with what the seek led to
            elif asked < floor:
                message = f"{tp} stood at {floor} before; {asked} would go back without a seek"
                self.refuse_one(commit, tp, OffsetConflictError(message))
            elif asked <= held.value and sought == held.sought and not held.unwritten:
                commit.accept(tp, held.value)
            else:
                value = max(value, asked)
        if not self.open(tp):
            return
        if value == held.value and not held.unwritten:
            held.commit(value, sought)
            self._accept(tp, value)
        else:
            self.values[tp], self.sought[tp] = value, sought

    def written(self, tp: TopicPartition, held: Held, fence: int, zxid: int) -> None:
        """The value stands in the znode, by the write `zxid`."""
        held.commit(self.values[tp], self.sought[tp])
        held.fence, held.last, held.unwritten = fence, zxid, False
        self._accept(tp, held.value)

    def _accept(self, tp: TopicPartition, stands: int) -> None:
        """All of the partition that is open is committed. What counted so already is told to stand there
        too: a seek may have followed it."""
        for commit in self._of.get(tp, ()):
            if tp in commit.values:
                commit.accept(tp, stands)
            elif tp in commit.committed:
                commit.stands[tp] = stands
        self.values.pop(tp, None)
        self.unknown.discard(tp)

    def refuse(self, tp: TopicPartition, error: CommitRefusedError) -> None:
        """None of the partition that is open is committed, or nobody knows."""
        for commit in self.open(tp):
            self.refuse_one(commit, tp, error)
        self.values.pop(tp, None)

    def void(self, tp: TopicPartition, error: CommitRefusedError) -> None:
        """The partition was moved: what counts as committed, and is not told yet, is so no more."""
        for commit in self._of.get(tp, ()):
            if tp in commit.values or tp in commit.committed:
                self.refuse_one(commit, tp, error)
        self.values.pop(tp, None)

    def refuse_one(self, commit: Commit, tp: TopicPartition, error: CommitRefusedError) -> None:
        commit.refuse(tp, CommitUnknownError(f"no answer; then: {error}") if tp in self.unknown else error)
