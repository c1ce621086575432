"""The events that the machine of a controller takes, and the effects that it returns.

Events are those of every machine (sessions, replies, timers), connections to brokers, and requests to stop.
Events of another incarnation than the one whose channel was opened last are ignored.

`Controller` performs the effects of a step in the order given, all of them before the next event. Nothing is
sent to a broker before `Elected` or after `Resigned`, nor after the time of the last `ExtendSendLease` has
come (fenced elections, recipes 13): an expired controller would otherwise delete a replica that is back in
sync.
"""

from __future__ import annotations

from dataclasses import dataclass

from zkgroup.controller.machine.fenced_writes import Fence
from zkgroup.model import TopicPartition
from zkgroup.runtime.events import LogEvent, SharedEffect
from zkgroup.wire.control import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from zkgroup.wire.messages import Response


@dataclass(frozen=True, slots=True)
class ChannelUp:
    """A connection to the broker is made; nothing was sent on it yet."""

    broker: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class ChannelDown:
    """That connection is gone; what was sent on it and not answered may or may not have arrived."""

    broker: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class BrokerAnswered:
    """The response to the one request that was in flight, of the type that belongs to it."""

    broker: int
    incarnation: int
    response: Response


@dataclass(frozen=True, slots=True)
class ShutdownAsked:
    """A broker requests a controlled shutdown; `ShutdownAnswered` with this id replies."""

    request_id: int
    broker: int


@dataclass(frozen=True, slots=True)
class LeaveElection:
    """The controller resigns and takes part in no more elections; its znodes are deleted."""

    reason: str


ControllerEvent = ChannelUp | ChannelDown | BrokerAnswered | ShutdownAsked | LeaveElection


ControlRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest


@dataclass(frozen=True, slots=True)
class BrokerRequest:
    """Send this request on the present connection of the incarnation; never more than one is unanswered.

    Its answer is reported as `BrokerAnswered`. Dropped, and nothing reported but `ChannelDown`, where the
    connection is gone or the lease has ended meanwhile.
    """

    broker: int
    incarnation: int
    """czxid of the registration. What is meant for another one is not sent (late requests, K8)."""
    request: ControlRequest
    body: bytes | None = None
    """The request's bytes where many brokers get the same; None: encoded when it is sent."""
    version: int = 0
    """Of the request."""


@dataclass(frozen=True, slots=True)
class Elected:
    """This controller is active: it loads the cluster, and begins with UpdateMetadata to every broker."""

    fence: Fence
    """With the epoch of every request to brokers."""
    czxid: int
    """Of its `/controller`, which a request to resign names."""
    foreign_epoch: int
    """The last epoch of a controller of Kafka; 0 where there is none.

    Each state with this controller epoch or a smaller one is written anew (recipes 13, recovery).
    """

    @property
    def epoch(self) -> int:
        return self.fence.epoch


@dataclass(frozen=True, slots=True)
class Resigned:
    """It is no longer active: drop what was loaded, close the channels, send nothing that waits."""

    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class ExtendSendLease:
    """Requests to brokers may be sent before this time, on the machine's clock."""

    until_ms: int


@dataclass(frozen=True, slots=True)
class IdInUse:
    """Another process is registered under this controller's id; it takes part in no more elections."""

    broker: int
    path: str
    session: int
    """It belongs to this session."""


@dataclass(frozen=True, slots=True)
class AccessDenied:
    """An ACL refuses the first registration of a controller alone; it takes part in no elections."""

    path: str


@dataclass(frozen=True, slots=True)
class OpenChannel:
    """Connect to this incarnation of a broker, again and again until `CloseChannel` or `Resigned`.

    Each connection is reported as `ChannelUp`, its end as `ChannelDown`.
    """

    broker: int
    incarnation: int
    """czxid of the registration."""
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class CloseChannel:
    """The incarnation is gone: end its connection and report nothing more of it."""

    broker: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class ShutdownAnswered:
    """The answer to `ShutdownAsked` with the same id."""

    request_id: int
    error: int
    """An `ErrorCode`: 0; 11 where this controller is not active; 8 for an unknown broker."""
    remaining: tuple[TopicPartition, ...] = ()
    """Partitions with more than one replica that the broker still leads."""


ControllerEffect = (
    Elected
    | Resigned
    | ExtendSendLease
    | IdInUse
    | AccessDenied
    | OpenChannel
    | CloseChannel
    | BrokerRequest
    | ShutdownAnswered
    | LogEvent
)
Effect = ControllerEffect | SharedEffect
