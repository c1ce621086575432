"""The handlers of the requests that change the cluster."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar

from zkgroup.admin.undo_records import ChangeRecord
from zkgroup.broker.admin import configs, partitions, quotas, topics, users
from zkgroup.broker.admin.acls import AclApis
from zkgroup.broker.admin.failures import Failure, RequestPartError, failure_of
from zkgroup.broker.admin.known_configs import known_configs
from zkgroup.broker.admin.topics import Created, RequestedDeletion, TopicDefaults
from zkgroup.broker.quotas.managers import ControllerMutationQuotaManager, MutationPermits
from zkgroup.broker.request_time import measured
from zkgroup.broker.server.handlers import ANONYMOUS, RequestContext
from zkgroup.broker.server.metadata_cache import MetadataCache
from zkgroup.broker.settings import BrokerSettings
from zkgroup.errors import ZkGroupError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Clock, Store, after, wait_for
from zkgroup.runtime.logs import get_logger, limited
from zkgroup.security.acls import AclCache
from zkgroup.wire.admin_apis import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlteredResource,
    AlteredResourceResult,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ChangedResource,
    CreatableTopic,
    CreatedTopic,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    ElectionResult,
    ElectionTopic,
    ElectLeadersRequest,
    ElectLeadersResponse,
    GrownTopicResult,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingTopic,
    ReassignedPartitionResult,
    ReassignedTopicResult,
)
from zkgroup.wire.messages import Api, ErrorCode, by_topic
from zkgroup.wire.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from zkgroup.wire.schema import NO_UUID
from zkgroup.wire.users import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC
from zkgroup.zookeeper.blocking import Blocking

CREATE_TOPICS_STRICT: Final = 6
"""The first version of CreateTopics that is refused beyond a quota (KIP-599)."""
DELETE_TOPICS_STRICT: Final = 5
CREATE_PARTITIONS_STRICT: Final = 3
_THROTTLED: Final = "The throttling quota has been exceeded."
THREADS: Final = 4
"""Requests of this kind that are handled at the same time; more wait."""
TIMEOUT_MAX_S: Final = 600.0
"""Longest wait for an effect, whatever the timeout of the request."""
ZOOKEEPER_TIMEOUT_S: Final = 10.0
ACLS_SEEN_MS: Final = 5_000
"""Longest wait until this broker decides by the ACLs that it has written."""
POLL_MIN_S: Final = 0.05
"""Between the first two reads of a deletion that is awaited; doubled up to `POLL_MAX_S`."""
POLL_MAX_S: Final = 1.0

T = TypeVar("T")
_log = get_logger("zkgroup.broker")


class AdminApis:
    """Handles the requests that change the cluster, and those that show what can be changed.

    A request is carried out on a thread, over the broker's ZooKeeper session. Its effect is awaited in this
    broker's own metadata, so that a client that asks this broker next sees it. Made and used on one event
    loop.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        metadata: MetadataCache,
        *,
        broker: int,
        settings: BrokerSettings,
        started: Mapping[str, str],
        mutations: ControllerMutationQuotaManager | None = None,
        acls: AclCache | None = None,
    ) -> None:
        """
        Args:
            store: the broker's ZooKeeper session.
            metadata: what this broker answers to clients.
            started: what DescribeConfigs tells of the broker's start beside the settings: `listeners`,
                `log.dirs` and others under Kafka's names.
            mutations: the quotas of what clients create and delete; None without any.
            acls: the ACLs that this broker decides by; None without an authorizer.
        """
        self._metadata = metadata
        self._defaults = TopicDefaults(
            settings.num_partitions,
            settings.default_replication_factor,
            settings.offsets_topic_num_partitions,
            settings.offsets_topic_replication_factor,
        )
        self._known_configs = known_configs(broker, settings, started)
        self._broker = broker
        self._mutations, self._taking = mutations, threading.Lock()
        self._closed = threading.Event()
        self._zk = Blocking(store, timeout_s=ZOOKEEPER_TIMEOUT_S, clock=clock)

        def pause(seconds: float) -> None:
            wait_for(clock, self._closed.is_set, after(clock, seconds), self._closed.wait)

        self._ensemble = Ensemble(zk=self._zk, clock=clock, pause=pause)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix=f"zkgroup-broker-{broker}-admin")
        self._waiting: set[asyncio.Event] = set()
        self.acls = AclApis(
            self._run, lambda are_seen: self._wait_until(are_seen, self._deadline(ACLS_SEEN_MS)), acls
        )
        self._auto_created: dict[str, _AutoCreation] = {}

    def close(self) -> None:
        """Ends all waits; calls in progress end by themselves."""
        self._closed.set()
        for creation in self._auto_created.values():
            creation.task.cancel()
        self._zk.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def wake(self) -> None:
        """Wakes the requests that wait for their effect; see `AdminRows.wake`."""
        for event in self._waiting:
            event.set()

    async def create_topics(
        self, context: RequestContext, request: CreateTopicsRequest
    ) -> CreateTopicsResponse:
        """Creates topics, and waits until this broker knows a leader of each partition.

        The answer has a row for each row of the request, also for a topic that is named twice, as Kafka's.
        """
        permits = self._permits(context, CREATE_TOPICS_STRICT)
        response = await self._create_topics(request, _by(context), self._permit(permits))
        return response if permits is None else replace(response, throttle_ms=permits.throttle_ms)

    async def _create_topics(
        self,
        request: CreateTopicsRequest,
        by: ChangeRecord,
        permit: topics.Permit = topics.no_quota,
        written: Callable[[Mapping[str, Created | Failure]], None] = lambda found: None,
    ) -> CreateTopicsResponse:
        """`written` is called before the wait for leaders."""
        found = await self._run(
            lambda ensemble: topics.create_topics(ensemble, request, self._defaults, by, permit)
        )
        written(found)
        leaderless: Collection[str] = ()
        if not request.validate_only:
            made = {name: one.replicas for name, one in found.items() if isinstance(one, Created)}
            leaderless = await self._until_led(made, request.timeout_ms)
        names = [topic.topic for topic in request.topics]
        return CreateTopicsResponse(
            topics=tuple(self._created(name, found[name], is_led=name not in leaderless) for name in names)
        )

    def _created(self, topic: str, result: Created | Failure, *, is_led: bool) -> CreatedTopic:
        if isinstance(result, Failure):
            return CreatedTopic(topic=topic, error=result.error, error_message=result.message)
        if not is_led:
            return CreatedTopic(topic=topic, error=ErrorCode.REQUEST_TIMED_OUT, error_message=_NO_LEADERS)
        return CreatedTopic(
            topic=topic,
            error=ErrorCode.NONE,
            partitions=len(result.replicas),
            replication_factor=result.replication_factor,
            configs=configs.created_configs(result.configs, self._known_configs),
        )

    async def create_unknown_topic(self, context: RequestContext, topic: str) -> ErrorCode:
        """Creates a topic that a client has asked for in Metadata; returns the error for the client.

        That is 5 (leader not available), at which it asks again, or as in Kafka why the topic cannot be
        created, such as 38: fewer brokers than `default.replication.factor`. As in Kafka, too, its partitions
        count for the quota of the client, but are made beyond it.
        """
        permits = self._permits(context)
        refusal = self.begin_unknown_topic(topic, self._permit(permits))
        await asyncio.wait([refusal], timeout=AUTO_CREATION_ANSWER_S)
        is_known = refusal.done() and not refusal.cancelled()
        return refusal.result() if is_known else ErrorCode.LEADER_NOT_AVAILABLE

    def begin_unknown_topic(
        self, topic: str, permit: topics.Permit = topics.no_quota
    ) -> asyncio.Future[ErrorCode]:
        """Begins to create it, unless that goes on; the future gets the error for the client."""
        if (running := self._auto_created.get(topic)) is None:
            loop = asyncio.get_running_loop()
            refusal: asyncio.Future[ErrorCode] = loop.create_future()
            creation = (
                self._create_slots(refusal)
                if topic == OFFSETS_TOPIC
                else self._create_unknown(topic, refusal, permit)
            )
            running = self._auto_created[topic] = _AutoCreation(loop.create_task(creation), refusal)
            running.task.add_done_callback(lambda _: self._auto_created.pop(topic, None))
            running.task.add_done_callback(lambda _: refusal.cancel())
        return running.refusal

    async def _create_slots(self, refusal: asyncio.Future[ErrorCode]) -> None:
        """Creates the topic of the slots, and waits until this broker knows their leaders."""
        by = ChangeRecord(undo_id="", command="the first group", user=f"broker {self._broker}")
        defaults = self._defaults
        failure = await self._run(lambda ensemble: topics.create_offsets_topic(ensemble, defaults, by))
        refusal.set_result(_for_asking_again(failure))
        if failure is not None:
            _log.warning("topic %s cannot be created: %s", OFFSETS_TOPIC, failure.message)
            return
        until = self._deadline(AUTO_CREATION_MS)
        await self._wait_until(lambda: self._metadata.leaders(OFFSETS_TOPIC) is not None, until)

    async def _create_unknown(
        self, topic: str, refusal: asyncio.Future[ErrorCode], permit: topics.Permit
    ) -> None:
        new = CreatableTopic(topic=topic, partitions=topics.UNSET, replication_factor=topics.UNSET)
        by = ChangeRecord(undo_id="", command="Metadata of an unknown topic", user=f"broker {self._broker}")
        request = CreateTopicsRequest(topics=(new,), timeout_ms=AUTO_CREATION_MS)

        def written(found: Mapping[str, Created | Failure]) -> None:
            refusal.set_result(_for_asking_again(found[topic]))

        (made,) = (await self._create_topics(request, by, permit, written)).topics
        if made.error == ErrorCode.NONE:
            _log.info("topic %s was created for a client", topic)
        elif made.error != ErrorCode.TOPIC_ALREADY_EXISTS:
            _log.warning(
                "topic %s, which a client asks for, cannot be created: %s",
                topic,
                made.error_message,
                extra=limited(),
            )

    async def delete_topics(
        self, context: RequestContext, request: DeleteTopicsRequest
    ) -> DeleteTopicsResponse:
        """Has the controller delete topics, and waits until they are gone.

        The answer has a row for each row of the request; a topic that is named twice is deleted once. Topics
        have no ids: one that is given by an id gets 100.
        """
        until = self._deadline(request.timeout_ms)
        wanted = request.topics or tuple(DeleteTopicState(topic=name) for name in request.topic_names)
        if any(one.topic is not None and one.topic_id != NO_UUID for one in wanted):
            refusal = (
                ErrorCode.INVALID_REQUEST,
                "a topic is given by its name and by an id, not by one of them",
            )
            return DeleteTopicsResponse(topics=tuple(_deleted(one, *refusal) for one in wanted))
        named = [one.topic for one in wanted if one.topic is not None]
        partitions = {name: len(self._metadata.leaders(name) or ()) for name in named}
        permits = self._permits(context, DELETE_TOPICS_STRICT)
        permit = self._permit(permits)
        found = await self._run(
            lambda ensemble: topics.delete_topics(
                ensemble, named, _by(context), lambda name: permit(partitions[name])
            )
        )
        names = [name for name, one in found.items() if isinstance(one, RequestedDeletion)]
        await self._wait_until(lambda: all(self._metadata.leaders(name) is None for name in names), until)
        rows: dict[str | None, Failure | None] = {None: _UNKNOWN_ID}
        for name, one in found.items():
            rows[name] = one if isinstance(one, Failure) else await self._until_deleted(one, until)
        return DeleteTopicsResponse(
            topics=tuple(_deleted(one, *(rows[one.topic] or (ErrorCode.NONE, None))) for one in wanted),
            throttle_ms=0 if permits is None else permits.throttle_ms,
        )

    async def _until_deleted(self, deletion: RequestedDeletion, until: float) -> Failure | None:
        """Waits until nothing is left of a topic; it takes no thread while it waits for a lost broker."""
        pause_s = POLL_MIN_S
        while True:
            try:
                seen = await self._run(lambda _: deletion.read())
            except ZkGroupError as error:
                return failure_of(error)
            left_s = until - asyncio.get_running_loop().time()
            if seen.gone:
                return None
            if seen.is_over or left_s <= 0:
                text = seen.detail or "the topic is still being deleted"
                return Failure(ErrorCode.REQUEST_TIMED_OUT, text)
            await asyncio.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, POLL_MAX_S)

    async def create_partitions(
        self, context: RequestContext, request: CreatePartitionsRequest
    ) -> CreatePartitionsResponse:
        """Adds partitions, and waits until this broker knows a leader of each."""
        permits = self._permits(context, CREATE_PARTITIONS_STRICT)
        permit = self._permit(permits)
        found = await self._run(
            lambda ensemble: topics.create_partitions(ensemble, request, _by(context), permit)
        )
        leaderless: Collection[str] = ()
        if not request.validate_only:
            made = {name: one for name, one in found.items() if not isinstance(one, Failure)}
            leaderless = await self._until_led(made, request.timeout_ms)
        rows = []
        for name, one in found.items():
            failure = one if isinstance(one, Failure) else None
            if name in leaderless:
                failure = Failure(ErrorCode.REQUEST_TIMED_OUT, _NO_LEADERS)
            error, message = (ErrorCode.NONE, None) if failure is None else failure
            rows.append(GrownTopicResult(topic=name, error=error, error_message=message))
        wait_ms = 0 if permits is None else permits.throttle_ms
        return CreatePartitionsResponse(topics=tuple(rows), throttle_ms=wait_ms)

    def _permits(self, context: RequestContext, strict_from: int | None = None) -> MutationPermits | None:
        """What a request may create or delete; None for any number. Before version `strict_from` it is not
        refused, as its client would not know the error; without one it never is."""
        if self._mutations is None:
            return None
        loop, client = asyncio.get_running_loop(), (context.user, context.client_id or "")
        is_strict = strict_from is not None and context.version >= strict_from
        return self._mutations.permits(*client, lambda: int(loop.time() * 1000), is_strict=is_strict)

    def _permit(self, permits: MutationPermits | None) -> topics.Permit:
        """Takes permits, on any thread."""

        def take(partitions: int) -> None:
            assert permits is not None
            with self._taking:
                is_taken = permits.take(partitions)
            if not is_taken:
                raise RequestPartError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, _THROTTLED)

        return topics.no_quota if permits is None else take

    async def describe_configs(
        self, context: RequestContext, request: DescribeConfigsRequest
    ) -> DescribeConfigsResponse:
        """The configs of topics and of this broker."""
        known = self._known_configs
        rows = await self._run(
            lambda ensemble: configs.describe(
                ensemble,
                request.resources,
                known,
                synonyms=request.include_synonyms,
                documented=request.include_documentation,
            )
        )
        return DescribeConfigsResponse(resources=rows)

    async def alter_configs(
        self, context: RequestContext, request: AlterConfigsRequest
    ) -> AlterConfigsResponse:
        """Replaces the configs of topics and brokers."""
        rows = await self._alter(context, request.resources, validate_only=request.validate_only)
        return AlterConfigsResponse(resources=rows)

    async def incremental_alter_configs(
        self, context: RequestContext, request: IncrementalAlterConfigsRequest
    ) -> IncrementalAlterConfigsResponse:
        """Changes single configs of topics and brokers."""
        rows = await self._alter(context, request.resources, validate_only=request.validate_only)
        return IncrementalAlterConfigsResponse(resources=rows)

    async def _alter(
        self,
        context: RequestContext,
        resources: Iterable[AlteredResource | ChangedResource],
        *,
        validate_only: bool,
    ) -> tuple[AlteredResourceResult, ...]:
        known, by = self._known_configs, _by(context)
        return await self._run(
            lambda ensemble: tuple(
                configs.alter(ensemble, resource, known, by, validate_only=validate_only)
                for resource in resources
            )
        )

    async def elect_leaders(
        self, context: RequestContext, request: ElectLeadersRequest
    ) -> ElectLeadersResponse:
        """Has the controller elect leaders, and waits until it has."""
        wanted = None if request.topics is None else partitions.by_topic(request.topics)
        timeout_s = _seconds(request.timeout_ms)
        try:
            found = await self._run(
                lambda ensemble: partitions.elect_leaders(
                    ensemble, request.election_type, wanted, timeout_s, _by(context)
                )
            )
        except ZkGroupError as error:
            return ElectLeadersResponse(error=failure_of(error).error, topics=())
        return ElectLeadersResponse(topics=by_topic(_rows(found, ElectionResult), ElectionTopic))

    async def alter_partition_reassignments(
        self, context: RequestContext, request: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsResponse:
        """Begins and cancels reassignments; the answer does not wait for their end."""
        wanted = {
            TopicPartition(topic.topic, one.partition): one.replicas
            for topic in request.topics
            for one in topic.partitions
        }
        try:
            found = await self._run(
                lambda ensemble: partitions.alter_reassignments(ensemble, wanted, _by(context))
            )
        except ZkGroupError as error:
            code, message = failure_of(error)
            return AlterPartitionReassignmentsResponse(error=code, error_message=message)
        return AlterPartitionReassignmentsResponse(
            error=ErrorCode.NONE,
            topics=by_topic(_rows(found, ReassignedPartitionResult), ReassignedTopicResult),
        )

    async def list_partition_reassignments(
        self, context: RequestContext, request: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsResponse:
        """The reassignments that run now."""
        wanted = None if request.topics is None else partitions.by_topic(request.topics)
        try:
            found = await self._run(lambda ensemble: partitions.running_reassignments(ensemble, wanted))
        except ZkGroupError as error:
            code, message = failure_of(error)
            return ListPartitionReassignmentsResponse(error=code, error_message=message)
        topics = by_topic(found.items(), OngoingTopic)
        return ListPartitionReassignmentsResponse(error=ErrorCode.NONE, topics=topics)

    async def describe_client_quotas(
        self, context: RequestContext, request: DescribeClientQuotasRequest
    ) -> DescribeClientQuotasResponse:
        """The quotas of users, clients and addresses."""
        try:
            found = await self._run(lambda ensemble: quotas.describe(ensemble, request))
        except ZkGroupError as error:
            code, message = failure_of(error)
            return DescribeClientQuotasResponse(error=code, error_message=message, entries=None)
        return DescribeClientQuotasResponse(error=ErrorCode.NONE, entries=found)

    async def alter_client_quotas(
        self, context: RequestContext, request: AlterClientQuotasRequest
    ) -> AlterClientQuotasResponse:
        """Changes quotas of users, clients and addresses."""
        found = await self._run(lambda ensemble: quotas.alter(ensemble, request, _by(context)))
        return AlterClientQuotasResponse(entries=found)

    async def describe_user_scram_credentials(
        self, context: RequestContext, request: DescribeUserScramCredentialsRequest
    ) -> DescribeUserScramCredentialsResponse:
        """The users who can log in by SCRAM."""
        try:
            found = await self._run(lambda ensemble: users.describe(ensemble, request))
        except ZkGroupError as error:
            code, message = failure_of(error)
            return DescribeUserScramCredentialsResponse(error=code, error_message=message)
        return DescribeUserScramCredentialsResponse(error=ErrorCode.NONE, users=found)

    async def alter_user_scram_credentials(
        self, context: RequestContext, request: AlterUserScramCredentialsRequest
    ) -> AlterUserScramCredentialsResponse:
        """Changes credentials of users."""
        found = await self._run(lambda ensemble: users.alter(ensemble, request, _by(context)))
        return AlterUserScramCredentialsResponse(users=found)

    async def _run(self, act: Callable[[Ensemble], T]) -> T:
        """Calls on one of the threads; if the caller is cancelled, the call goes on to its end."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, measured(act), self._ensemble)

    def _deadline(self, timeout_ms: int) -> float:
        return asyncio.get_running_loop().time() + _seconds(timeout_ms)

    async def _until_led(self, made: Mapping[str, Collection[int]], timeout_ms: int) -> Collection[str]:
        """Waits until this broker knows a leader of all these partitions; the topics of which it does not."""
        await self._wait_until(lambda: not self._leaderless(made), self._deadline(timeout_ms))
        return self._leaderless(made)

    def _leaderless(self, made: Mapping[str, Collection[int]]) -> set[str]:
        return {
            topic
            for topic, numbers in made.items()
            if any((self._metadata.leaders(topic) or {}).get(number, -1) < 0 for number in numbers)
        }

    async def _wait_until(self, is_over: Callable[[], bool], until: float) -> None:
        """Waits for the metadata of this broker, up to a time of the event loop."""
        changed = asyncio.Event()
        self._waiting.add(changed)
        try:
            async with asyncio.timeout_at(until):
                while not is_over():
                    await changed.wait()
                    changed.clear()
        except TimeoutError:
            pass
        finally:
            self._waiting.discard(changed)


AUTO_CREATION_MS: Final = 30_000
AUTO_CREATION_ANSWER_S: Final = 1.0
"""Longest time for which Metadata waits to know whether a topic can be created."""


class _AutoCreation(NamedTuple):
    """The creation of a topic that a client has asked for."""

    task: asyncio.Task[None]
    """Ends when this broker knows the leaders."""
    refusal: asyncio.Future[ErrorCode]
    """The error for the client, once the topic is written."""


def _for_asking_again(result: Created | Failure | None) -> ErrorCode:
    """The error in Metadata: 5 where the topic exists soon, or may when the client asks again."""
    later = (ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.REQUEST_TIMED_OUT)
    if isinstance(result, Failure) and result.error not in later:
        return result.error
    return ErrorCode.LEADER_NOT_AVAILABLE


_UNKNOWN_ID: Final = Failure(ErrorCode.UNKNOWN_TOPIC_ID, "topics have no ids here: name the topic")
_NO_LEADERS = "the topic exists, and the broker does not know a leader of each partition yet"


def _deleted(one: DeleteTopicState, error: int, message: str | None) -> DeletedTopic:
    return DeletedTopic(topic=one.topic, topic_id=one.topic_id, error=error, error_message=message)


def _by(context: RequestContext) -> ChangeRecord:
    """Returns the author of a change that came as a request."""
    user = f"{context.client_id or 'a client'} at {context.peer}"
    if context.principal != ANONYMOUS:
        user = f"{context.principal}, {user}"
    return ChangeRecord(undo_id="", command=Api(context.api_key).name, user=user)


def _seconds(timeout_ms: int) -> float:
    return min(max(0.0, timeout_ms / 1000), TIMEOUT_MAX_S)


def _rows(found: partitions.Results, make: Callable[..., T]) -> Iterator[tuple[TopicPartition, T]]:
    """Each partition with its number, error code and text, in order."""
    for tp, failure in sorted(found.items()):
        error, message = (ErrorCode.NONE, None) if failure is None else failure
        yield tp, make(partition=tp.partition, error=error, error_message=message)
