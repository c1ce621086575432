"""The requests that a broker serves: its table, and the parts that answer them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Final

from zkgroup.broker.quotas.managers import ClientQuotaManager
from zkgroup.broker.quotas.replication import ReplicationQuota
from zkgroup.broker.replicas.executor import ReplicaExecutor
from zkgroup.broker.replicas.min_insync import MinInsync
from zkgroup.broker.server.access_log import logged
from zkgroup.broker.server.control_queue import ControlHandlers, RequestObserver
from zkgroup.broker.server.control_requests import ControlRequestHandler
from zkgroup.broker.server.fetch_handler import SWEEP_S, FetchHandler
from zkgroup.broker.server.handlers import Answer, ApiTable, RequestContext, ServedApi
from zkgroup.broker.server.logins import refuse_handshake, refuse_token
from zkgroup.broker.server.metadata_requests import (
    CoordinatorHandler,
    CreateTopic,
    MetadataHandlers,
    MetadataSource,
    SlotSource,
    api_versions,
)
from zkgroup.broker.server.offset_requests import OffsetHandlers
from zkgroup.broker.server.peer_claim_checker import PeerClaimChecker
from zkgroup.broker.server.peer_claims import ClaimVerdict
from zkgroup.broker.server.produce_requests import ProduceHandler, ProducerIdManager
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Clock
from zkgroup.wire.control import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from zkgroup.wire.messages import ErrorCode, Request
from zkgroup.wire.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeClusterRequest,
    FindCoordinatorRequest,
    MetadataRequest,
)
from zkgroup.wire.records import (
    DeleteRecordsRequest,
    FetchRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
    ProduceRequest,
)
from zkgroup.wire.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

BROKER_EPOCH_VERSION: Final = 2
"""The first version of ControlledShutdown in which a broker names its epoch."""


class BrokerApis:
    """Answers the requests at a broker's port. Made and used on one event loop; `close` ends its task.

    Args:
        broker: the id of this broker.
        control_requests: handles LeaderAndIsr, StopReplica and UpdateMetadata.
        metadata: the metadata for clients.
        clock: gives the time of each UpdateMetadata.
        replicas: None for a broker without replicas: it can neither lead nor follow (56), and serves no
            requests for records.
        controlled_shutdown: asks the controller in this process, with the id of the broker that stops; None
            without a controller.
        observer: is notified of handled requests.
        leader_quota: None sends batches without a throttle.
        client_quota: of the bytes that consumers fetch; None without one.
        accepts_control: whether control requests are handled now. Otherwise they close the connection: they
            were sent for an earlier start or session, whose registration still exists (late requests: K8).
        is_live: whether a broker is live, by the last UpdateMetadata. A fetch of another broker comes from an
            earlier incarnation (77), which may follow a topic that was deleted and created again (ADR 0024).
        min_insync: None appends with acks=all without a check of the ISR size.
        is_known: whether a partition exists, by the last UpdateMetadata. One without a replica here is
            answered with error 6 if it exists, else with 3.
        producer_ids: None does not serve InitProducerId.
        cluster_id: returns the id of the cluster; None if it is not known.
        create_topic: creates a topic that a client asks for in Metadata, and returns the error of its answer;
            None: such a topic is unknown (`auto.create.topics.enable`).
        slots: returns the number of slots, by which the coordinators of groups are found; None names none.
        create_offsets_topic: begins to create the topic of the slots, and returns at once; None: it is not
            created for a client that asks for a coordinator.
        further: more rows of the table.
        sweep_s: interval at which all partitions of a follower's session are read (`FetchHandler`).
        claims: compares controllers and followers with ZooKeeper; None believes anyone, for tests.
    """

    def __init__(
        self,
        *,
        broker: int,
        control_requests: ControlRequestHandler,
        metadata: MetadataSource,
        clock: Clock,
        replicas: ReplicaExecutor | None = None,
        controlled_shutdown: Callable[[int], Awaitable[ControlledShutdownResponse]] | None = None,
        observer: RequestObserver | None = None,
        leader_quota: ReplicationQuota | None = None,
        client_quota: ClientQuotaManager | None = None,
        accepts_control: Callable[[], bool] = lambda: True,
        is_live: Callable[[int], bool] = lambda broker: True,
        min_insync: MinInsync | None = None,
        is_known: Callable[[TopicPartition], bool] = lambda tp: False,
        producer_ids: ProducerIdManager | None = None,
        cluster_id: Callable[[], str | None] = lambda: None,
        create_topic: CreateTopic | None = None,
        slots: SlotSource | None = None,
        create_offsets_topic: Callable[[], None] | None = None,
        further: Iterable[ServedApi[Any]] = (),
        sweep_s: float = SWEEP_S,
        claims: PeerClaimChecker | None = None,
    ) -> None:
        self._controlled_shutdown = controlled_shutdown
        self._claims = claims
        self._control = ControlHandlers(
            broker, control_requests, clock, replicas, observer, accepts_control, claims
        )
        self._metadata = MetadataHandlers(metadata, cluster_id, create_topic)
        self._coordinators = CoordinatorHandler(metadata, slots, create_offsets_topic)
        rows = [*self._rows(), *further]
        if replicas is not None:
            fetches = FetchHandler(
                replicas,
                is_live=is_live,
                is_known=is_known,
                observer=observer,
                leader_quota=leader_quota,
                client_quota=client_quota,
                sweep_s=sweep_s,
                claims=claims,
            )
            rows.append(ServedApi(FetchRequest, fetches.fetch))
            offsets = OffsetHandlers(replicas, is_live=is_live, is_known=is_known)
            rows.append(ServedApi(DeleteRecordsRequest, offsets.delete_records))
            rows.append(ServedApi(ListOffsetsRequest, offsets.list_offsets))
            rows.append(ServedApi(OffsetForLeaderEpochRequest, offsets.epoch_ends))
            rows.append(ServedApi(ProduceRequest, ProduceHandler(replicas, min_insync, is_known).produce))
        if producer_ids is not None:
            rows.append(ServedApi(InitProducerIdRequest, producer_ids.init_producer_id))
        self.table = ApiTable(map(logged, rows))
        """The APIs that this broker serves."""

    def _rows(self) -> Iterator[ServedApi[Any]]:
        """The rows of every broker, also of one without replicas."""
        control, metadata = self._control, self._metadata
        yield ServedApi(ApiVersionsRequest, self._api_versions)
        yield ServedApi(MetadataRequest, metadata.metadata)
        yield ServedApi(DescribeClusterRequest, metadata.describe_cluster)
        yield ServedApi(FindCoordinatorRequest, self._coordinators.find_coordinator)
        yield ServedApi(LeaderAndIsrRequest, control.submit)
        yield ServedApi(StopReplicaRequest, control.submit)
        yield ServedApi(UpdateMetadataRequest, control.submit)
        yield ServedApi(ControlledShutdownRequest, self._shut_down)
        yield ServedApi(SaslHandshakeRequest, refuse_handshake)
        yield ServedApi(SaslAuthenticateRequest, refuse_token)

    async def respond(self, context: RequestContext, request: Request) -> Answer:
        """Answers a request; None closes the connection without an answer.

        Cancellation ends the wait, but calls of the replica manager or controller that have begun are
        completed.
        """
        return await self.table.respond(context, request)

    def drop_control_requests(self, then: Callable[[], None]) -> None:
        """Refuses the queued control requests; `then` is called after the request in progress, or now."""
        self._control.drop(then)

    async def close(self) -> None:
        """Ends the task of the control requests; requests in its queue are cancelled."""
        await self._control.close()

    async def _api_versions(
        self, context: RequestContext, request: ApiVersionsRequest
    ) -> ApiVersionsResponse:
        return api_versions(context.version, request, self.table.requests)

    async def _shut_down(
        self, context: RequestContext, request: ControlledShutdownRequest
    ) -> ControlledShutdownResponse:
        """Only the broker itself can stop: it names the epoch of its registration.

        Versions 0 and 1 have none, and are those of Kafka's brokers; a zkgroup broker sends version 2.
        """
        if self._controlled_shutdown is None:
            return ControlledShutdownResponse(ErrorCode.STALE_CONTROLLER_EPOCH)
        if self._claims is not None:
            epoch = request.broker_epoch if context.version >= BROKER_EPOCH_VERSION else None
            match await self._claims.of_stopping(request.broker, epoch, context.peer):
                case ClaimVerdict.UNREAD:  # the sender asks again
                    return ControlledShutdownResponse(ErrorCode.STALE_CONTROLLER_EPOCH)
                case ClaimVerdict.STALE | ClaimVerdict.IMPOSSIBLE:
                    return ControlledShutdownResponse(ErrorCode.STALE_BROKER_EPOCH)
        return await self._controlled_shutdown(request.broker)
