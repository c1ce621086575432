"""`GroupMember`: a share of a group's partitions as leases, without any records."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError

from zkgroup.consumer.engine import MemberEngine
from zkgroup.consumer.facing import BlockingFace, answer_timeout_s, result_of
from zkgroup.consumer.listener import RebalanceListener
from zkgroup.consumer.opening import MemberOptions, Topics, open_engine, subscription_of
from zkgroup.consumer.worker import CallbackWorker
from zkgroup.errors import CommitResult, OutcomeUnknownError
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Clock, HistorySink, MetricsSink, Store
from zkgroup.settings import GroupSettings
from zkgroup.zookeeper import ClientSettings


class GroupMember(BlockingFace):
    """A member of a consumer group that owns partitions and delivers nothing.

    ```python
    with GroupMember("host:2181/chroot", group="billing", topics=["orders"]) as member:
        member.wait_until_assigned(timeout_s=30)
        for lease in member.leases():
            work_on(lease.partition, lease.token)
    ```

    It joins when it is entered (or by `start()`) and leaves when it is left (or by `close()`). Every
    method may be called from any thread, also inside a listener's callbacks, where `close()` only
    schedules the end. What a callback raised is raised by the next call. A process forked from this
    one must make its own member: here every call but `close()` and `stop()` raises `ForkedClientError`.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        group: str,
        topics: Topics,
        settings: GroupSettings | None = None,
        listener: RebalanceListener | None = None,
        client: Store | None = None,
        connection: ClientSettings | None = None,
        history: HistorySink | None = None,
        metrics: MetricsSink | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Checks everything that needs no network; raises `ConfigError`.

        Args:
            address: `host:port[,host:port...][/chroot]` for a connection of its own; or `client`.
            group: name of the group, below `/consumers`.
            topics: names, names with thread counts, `Whitelist` or `Blacklist`.
            settings: see `GroupSettings`.
            listener: told of assignments and revocations, on a thread of its own.
            client: a `ZooKeeperClient` shared with other members; it is not closed with the member.
            connection: authentication, TLS and access lists of the connection to `address`.
            history: records what the member does, for `zkgroup.history`.
            metrics: see `zkgroup.metrics`.
            clock: for tests.
        """
        options = MemberOptions(
            address=address,
            client=client,
            group=group,
            subscription=subscription_of(topics),
            settings=GroupSettings() if settings is None else settings,
            listener=listener,
            history=history,
            metrics=metrics,
            clock=clock,
            connection=connection,
        )
        super().__init__(options)

    def _build(self) -> MemberEngine:
        worker = CallbackWorker(f"zkgroup-{self._options.group}", self._options.clock_used)
        return open_engine(self._options, worker)

    def commit(self, offsets: Mapping[TopicPartition, int]) -> CommitResult:
        """Writes offsets (of the *next* record to process) of owned partitions: fenced, in one transaction
        with what else waits to be committed. At or below one's own last commit they count as committed.

        The partitions that could be committed are, whatever happens to the others. Raises
        `CommitRefusedError` with the result when any was refused; when all refusals are of one kind,
        that subclass: `NotOwnerError`, `OffsetConflictError`, `LeaseLostError`, `CommitUnknownError`.
        `ConfigError`, and nothing is committed, where a key or a value is no partition or no offset.
        `OutcomeUnknownError` where there was no answer at all in time.
        """
        engine = self._engine
        try:
            result = result_of(engine, engine.commit_now(offsets), answer_timeout_s(self._settings))
        except FutureTimeoutError:
            raise OutcomeUnknownError("the commit got no answer in time; it may have been applied") from None
        result.raise_if_refused()
        return result
