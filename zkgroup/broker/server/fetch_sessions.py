"""The fetch sessions of followers (KIP-227): a request names only what has changed since the last one.

So a follower of many idle partitions fetches the busy ones at the cost of these alone. Consumers get no
session: they are answered as by a broker whose cache of sessions is full.

Source: kafka/server/FetchSession.scala@2.8.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from zkgroup.broker.machine.events import FollowerFetched
from zkgroup.broker.replica_view import FollowerId
from zkgroup.broker.server.fetch_requests import (
    DelayedFetch,
    KnownOffsets,
    follower_of,
    forgotten_by,
    partitions_of,
)
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.records import (
    FINAL_SESSION_EPOCH,
    INITIAL_SESSION_EPOCH,
    NO_EPOCH_END,
    FetchPartition,
    FetchRequest,
    next_session_epoch,
)

SESSIONS_MAX: Final = 1_000
"""Most sessions (`max.incremental.fetch.session.cache.slots`); the one used longest ago makes room."""


class FetchSession:
    """The partitions that one fetcher of a follower fetches, and what the follower knows of them."""

    def __init__(self, session_id: int, follower: FollowerId) -> None:
        self.session_id = session_id
        self.follower = follower
        self.epoch = next_session_epoch(INITIAL_SESSION_EPOCH)
        """Of the next request."""
        self.partitions: dict[TopicPartition, FetchPartition] = {}
        self._known: dict[TopicPartition, KnownOffsets] = {}
        """The offsets of each partition in the last answer that had it, if the logs agreed then."""
        self._due: dict[TopicPartition, None] = {}
        """Partitions to read for the next request, in order.

        Those of the last answer too: the request says that the follower has got that answer, and it joins the
        ISR only after an answer (`ReplicaManager.fetch`)."""
        self._last: dict[TopicPartition, FollowerFetched] = {}
        """The fetch of each partition, since it was named or has changed, that began a request, if the
        follower had everything."""
        self._resting: dict[TopicPartition, FollowerFetched] = {}
        """The second such fetch: until the partition changes or is named again, others would find the same.
        By the second one the leader knows that the follower is level."""

    def begin(self, request: FetchRequest) -> DelayedFetch:
        """Takes the changes of a request; its answer has the partitions with something new."""
        for tp, partition in partitions_of(request):
            before = self.partitions.get(tp)
            if before is None or before.current_leader_epoch != partition.current_leader_epoch:
                self._known.pop(tp, None)  # the follower needs an answer, whatever it knew
            self.partitions[tp] = partition
            self._due[tp] = None
            self._disturb(tp)
        for tp in forgotten_by(request):
            self.partitions.pop(tp, None)
            self._known.pop(tp, None)
            self._due.pop(tp, None)
            self._disturb(tp)
        return DelayedFetch(self.partitions, request, self._known)

    def due(
        self, changed: Iterable[TopicPartition], *, all_partitions: bool
    ) -> tuple[list[TopicPartition], list[FollowerFetched]]:
        """The partitions to read first for a request, after `begin`; `changed` are read as well.

        With `all_partitions` the second list has the fetches of the partitions that need not be read: the
        follower has everything, and nothing has changed.
        """
        due, self._due = self._due, {}
        for tp in changed:
            due[tp] = None
            self._disturb(tp)
        if not all_partitions:
            return list(due), []
        due.update((tp, None) for tp in self.partitions if tp not in self._resting)
        return list(due), [fetched for tp, fetched in self._resting.items() if tp not in due]

    def was_read(
        self, partitions: Iterable[TopicPartition], fetched: Iterable[FollowerFetched], *, held: bool
    ) -> None:
        """Notes what `DelayedFetch.read` has returned for these partitions."""
        found = {one.topic_partition: one for one in fetched if one.offset >= one.log_end_offset}
        for tp in partitions:
            if held or (one := found.get(tp)) is None:
                self._disturb(tp)
            elif self._last.get(tp) == one:
                self._resting[tp] = one
            else:
                self._disturb(tp)
                self._last[tp] = one

    def _disturb(self, tp: TopicPartition) -> None:
        self._last.pop(tp, None)
        self._resting.pop(tp, None)

    def answered(self, delayed: DelayedFetch) -> None:
        """Notes an answer. Partitions whose records did not fit have precedence in the next one."""
        self._due = dict.fromkeys(delayed.unfinished)
        for tp, result in delayed.news.items():
            self._due.setdefault(tp)
            if result.error == ErrorCode.NONE and result.diverging == NO_EPOCH_END:
                self._known[tp] = KnownOffsets.of(result)
            else:
                self._known.pop(tp, None)


class FetchSessions:
    """The sessions of all followers."""

    def __init__(self, ended: Callable[[FetchSession], None] = lambda session: None) -> None:
        """`ended` is called with each session that ends."""
        self._ended = ended
        self._sessions: dict[int, FetchSession] = {}
        """By id, the one that was used longest ago first."""
        self._last_id = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, request: FetchRequest) -> FetchSession | ErrorCode | None:
        """The session of a request; None without one.

        Errors: 70 no such session (of this incarnation of the follower), 71 another epoch than the next one.
        """
        follower = follower_of(request)
        if request.session_epoch in (INITIAL_SESSION_EPOCH, FINAL_SESSION_EPOCH):
            if (old := self._sessions.get(request.session_id)) is not None and old.follower == follower:
                self._end(old)
            is_new = follower is not None and request.session_epoch == INITIAL_SESSION_EPOCH
            return self._open(follower) if is_new and follower is not None else None
        session = self._sessions.get(request.session_id)
        if session is None or session.follower != follower:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if request.session_epoch != session.epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        session.epoch = next_session_epoch(session.epoch)
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        return session

    def _open(self, follower: FollowerId) -> FetchSession:
        """A new session; those of earlier incarnations of the follower end, so that none counts for it."""
        for session in tuple(self._sessions.values()):
            if session.follower.broker == follower.broker and session.follower < follower:
                self._end(session)
        while len(self._sessions) >= SESSIONS_MAX:
            self._end(next(iter(self._sessions.values())))
        self._last_id = next_session_epoch(self._last_id)
        session = self._sessions[self._last_id] = FetchSession(self._last_id, follower)
        return session

    def _end(self, session: FetchSession) -> None:
        del self._sessions[session.session_id]
        self._ended(session)

    def end_all(self, broker: int) -> None:
        """Ends the sessions of a broker: it is not live."""
        for session in [one for one in self._sessions.values() if one.follower.broker == broker]:
            self._end(session)
