"""The reads of a member outside its machine: committed offsets and the whole group."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from zkgroup.consumer.member_engine import MemberEngine
from zkgroup.errors import NotFoundError, StableTimeoutError, StoreUnavailableError
from zkgroup.groups import reads
from zkgroup.groups.descriptions import GroupDescription, Verification
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.ports import after, wait_for
from zkgroup.model.requests import Code, Outcome, ReadMany, ReadManyDone
from zkgroup.znodes.consumers import Offset
from zkgroup.zookeeper.blocking import Blocking

READ_AGAIN_S = 0.1
READ_AGAIN_MAX_S = 1.0
READ_TIMEOUT_S = 10.0


def offsets_request(group: str, partitions: Sequence[TopicPartition]) -> ReadMany:
    """The request for the offset znodes of these partitions."""
    return ReadMany(tuple(Offset.path(group, topic_partition) for topic_partition in partitions))


def offsets_of(partitions: Sequence[TopicPartition], outcome: Outcome) -> dict[TopicPartition, int | None]:
    """Committed offsets in the reply; None if there is none (no znode, or a negative value).

    Raises `StoreUnavailableError` without a reply, `CorruptZnodeError` naming a znode without a number.
    """
    if not isinstance(outcome, ReadManyDone):
        raise StoreUnavailableError(f"the committed offsets could not be read: {outcome}")
    found: dict[TopicPartition, int | None] = {}
    for topic_partition, znode in zip(partitions, outcome.znodes, strict=True):
        found[topic_partition] = _offset(topic_partition, znode)
    return found


def _offset(topic_partition: TopicPartition, znode: Znode | Code | None) -> int | None:
    if znode is None:
        return None
    if isinstance(znode, Code):
        raise StoreUnavailableError(f"{topic_partition}: the offset may not be read ({znode.value})")
    value = Offset.decode(znode.path, znode.data).value
    return value if value >= 0 else None


@contextmanager
def group_reads(engine: MemberEngine) -> Iterator[GroupReads]:
    """A context with the reads of a member's group, whose waits end with the member. A read that ends because
    a failed member closed its client raises the failure."""
    clock, ended = engine.clock, engine.finished

    def pause(seconds: float) -> None:
        wait_for(clock, ended.is_set, after(clock, seconds), ended.wait)

    with Blocking(engine.store, timeout_s=READ_TIMEOUT_S, clock=clock) as blocking:
        try:
            yield GroupReads(Ensemble(blocking, clock, pause), engine.group, ended)
        except StoreUnavailableError:
            engine.raise_failure()
            raise


class GroupReads:
    """Reads of the whole group through a member's own connection. Blocking; thread-safe."""

    def __init__(self, ensemble: Ensemble, group: str, ended: threading.Event) -> None:
        self._ensemble = ensemble
        self._group = group
        self._ended = ended

    def describe(self) -> GroupDescription:
        """The group as `zkgroup group describe` shows it."""
        return reads.describe(self._ensemble, self._group)

    def verify(self) -> Verification | None:
        """The problems of the group now; None while the group does not exist yet."""
        try:
            return reads.verify(self._ensemble, self._group)
        except NotFoundError:
            return None

    def wait_converged(
        self,
        deadline_ms: int,
        missing: Callable[[], Collection[str]],
        member_state: Callable[[], str],
        is_stopped: Callable[[], bool],
    ) -> bool:
        """Waits until the group has no problem or the member has ended; False if `is_stopped()` came first.

        `deadline_ms` is on the member's clock; `missing` are the topics that must be there and are not.
        Raises `StableTimeoutError` with the problems, and with the state of this member from `member_state`.
        """
        for pause_s in pauses():
            found = self.verify()
            if is_stable(found, missing()) or self._ended.is_set():
                return True
            if is_stopped():
                return False
            left_ms = deadline_ms - self._ensemble.clock.now_ms()
            if left_ms <= 0:
                raise not_stable(self._group, found, missing(), member_state())
            self._ensemble.pause(min(pause_s, left_ms / 1000))
        raise AssertionError("pauses have no end")


def pauses() -> Iterator[float]:
    """Growing pauses between two reads of the group, in seconds."""
    pause_s = READ_AGAIN_S
    while True:
        yield pause_s
        pause_s = min(pause_s * 1.5, READ_AGAIN_MAX_S)


def is_stable(found: Verification | None, missing: Collection[str]) -> bool:
    """Returns whether the group has converged on topics of which none is missing."""
    return found is not None and found.converged and not missing


def not_stable(
    group: str, found: Verification | None, missing: Collection[str], member_state: str
) -> StableTimeoutError:
    """The error of `wait_until_stable` at its timeout, with the partitions that are not owned as assigned."""
    problems = found.problems if found is not None else ()
    named = {
        TopicPartition(problem.topic, problem.partition): f"{problem.kind.value}: {problem.detail}"
        for problem in problems
        if problem.topic is not None and problem.partition is not None
    }
    others = [f"{problem.kind.value}: {problem.detail}" for problem in problems if problem.partition is None]
    texts = [
        *(
            f"topic {topic} does not exist: create it with `zkgroup topic create {topic} --partitions N`, or "
            "wait with allow_missing_topics=True"
            for topic in sorted(missing)
        ),
        *(f"{tp}: {text}" for tp, text in sorted(named.items())),
        *others,
    ]
    detail = "; ".join(texts) if texts else "no member is registered"
    return StableTimeoutError(
        f"group {group} has not converged: {detail}. This member: {member_state}", named
    )
