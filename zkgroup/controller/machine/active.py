"""The active controller: its features and what they share, from its election until it resigns.

Theory of operation
-------------------
An active controller begins with `Elected` and is dropped whole with `Resigned`: nothing of it survives
(KAFKA-5310). Watches, timers and the responses of brokers only enqueue events; `next` takes the first event
and returns its handler as a procedure, which reads, decides, writes and sends. One handler runs at a time and
waits for ZooKeeper alone, never for a broker.

What was written is sent: the sender keeps the partitions whose state got a new leader epoch that no
LeaderAndIsr has carried yet. A handler sends a batch; what it leaves goes out when it ends, and after a
missing reply everything is read again (`event_kinds.LOAD`) and compared, so that a write whose reply was lost
is sent too. A leader of 0.8.2.2 that never receives such a write never changes its ISR again (K9).
"""

from __future__ import annotations

from zkgroup.controller.machine.context import ControllerContext
from zkgroup.controller.machine.controller_election.elector import ControllerIdentity, Elector
from zkgroup.controller.machine.event_manager import EventManager
from zkgroup.controller.machine.event_processor import EventHandler, EventProcessor
from zkgroup.controller.machine.events import BrokerAnswered
from zkgroup.controller.machine.handlers import EVENT_HANDLERS, Features
from zkgroup.controller.machine.open_reassignments import OpenReassignments
from zkgroup.controller.machine.pending_deletes import PART_BYTES, PendingDeletes
from zkgroup.controller.machine.ports import FeatureList, Ports
from zkgroup.controller.machine.requests.sender import RequestSender
from zkgroup.controller.machine.settings import ControllerSettings, ElectorContext
from zkgroup.controller.machine.state_writes import StateWriter
from zkgroup.controller.machine.status import ControllerMetrics, controller_metrics
from zkgroup.controller.machine.znode_reader import ZnodeReader
from zkgroup.runtime.procedures import Work


class ActiveController:
    """One controller while it is active. Not thread-safe: the machine's thread steps it."""

    def __init__(self, core: ElectorContext, election: Elector, settings: ControllerSettings) -> None:
        """Begins by loading. Only for an election that was won."""
        self.open_reassignments = OpenReassignments()
        self.ports = _ports(core, election, settings, self.open_reassignments)
        self.features = Features(self.ports, election, self.open_reassignments)
        self._election = election
        self._processor = EventProcessor(
            core,
            self.ports.context,
            self.ports.events,
            self.ports.reader,
            self.ports.states,
            [EventHandler(row.kind, row.handler(self.features), row.reason) for row in EVENT_HANDLERS],
            after_event=self.ports.requests.send_unsent,
        )
        self.ports.events.enqueue_load()

    @property
    def context(self) -> ControllerContext:
        """The cluster as last read or written."""
        return self.ports.context

    @property
    def is_current(self) -> bool:
        """Whether the election that this controller won is still the last one."""
        return self.ports.identity.is_current

    def metrics(self) -> ControllerMetrics:
        """Counts the cluster; goes through all partitions."""
        return controller_metrics(self.ports.context, self.ports.events, self.ports.core.now.ms)

    def next(self) -> Work | None:
        """The procedure that is due, or None."""
        return self._processor.next()

    def connected(self) -> None:
        """A new connection of the same session: all watches are gone, so everything is read again."""
        self._processor.load_again()

    def timer_fired(self) -> None:
        """Events that were delayed are due."""
        self.ports.events.timer_fired()

    def responded(self, event: BrokerAnswered) -> None:
        """Passes the response of a broker to the features."""
        requests, features = self.ports.requests, self.ports.features
        delivered = requests.responded(event)
        if delivered is None:
            return
        for earlier in delivered.resolved:
            requests.delete_is_over(earlier)
            features.responded(earlier)
        if requests.settle_delete(delivered):
            features.responded(delivered.response)

    def flush(self) -> None:
        """Sends what is due, while it may be sent."""
        if self._election.may_send:
            self.ports.requests.flush()

    def stop(self) -> None:
        """The controller has resigned. Requests that wait for a response get one."""
        self.ports.requests.stop()
        self.ports.events.cancel_timer()
        self.ports.features.stop()


def _ports(
    core: ElectorContext, election: Elector, settings: ControllerSettings, reassignments: OpenReassignments
) -> Ports:
    identity = ControllerIdentity(core, election)
    context = ControllerContext()
    events = EventManager(core, [row.kind for row in EVENT_HANDLERS])
    reader = ZnodeReader(core, context, events)
    pending_deletes = PendingDeletes(min(PART_BYTES, core.config.request_bytes_max // 8))
    requests = RequestSender(
        core,
        context,
        pending_deletes,
        reassignments,
        epoch=lambda: identity.epoch,
        enqueue=events.enqueue,
    )
    states = StateWriter(core, context, identity, events, reader, requests)
    features = FeatureList(context, requests, states)
    return Ports(
        core, settings, identity, context, events, reader, states, requests, pending_deletes, features
    )
