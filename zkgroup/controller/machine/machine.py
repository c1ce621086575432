"""The machine of a controller: its session, its election, and the active controller; one procedure at a time.

The order of every choice is: the barrier of a lost session, the registration, the election and its fence, and
only then the handlers of the active controller (docs/adr/0017).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from zkgroup.controller.machine.active import ActiveController
from zkgroup.controller.machine.context import ControllerContext
from zkgroup.controller.machine.controller_election.elector import (
    ELECTION_TIMER,
    HEARTBEAT_TIMER,
    ControllerLease,
    Elector,
)
from zkgroup.controller.machine.controller_election.history import ControllerHistory
from zkgroup.controller.machine.controller_election.standby import STANDBY_TIMER, StandbyRegistration
from zkgroup.controller.machine.event_manager import EVENT_TIMER
from zkgroup.controller.machine.events import (
    BrokerAnswered,
    ChannelDown,
    ChannelUp,
    ControllerEffect,
    ControllerEvent,
    Effect,
    LeaveElection,
    ShutdownAnswered,
    ShutdownAsked,
)
from zkgroup.controller.machine.settings import ControllerSettings, ElectorConfig, ElectorContext
from zkgroup.controller.machine.status import ControllerMetrics, controller_metrics
from zkgroup.model.ports import Instant
from zkgroup.runtime.events import SharedEvent
from zkgroup.runtime.machine import ProcedureMachine
from zkgroup.runtime.procedures import (
    ConnectionLossError,
    GuardRefusedError,
    NoAuthError,
    Procedure,
    UnexpectedReplyError,
    Work,
)
from zkgroup.wire.messages import ErrorCode

MachineEvent = SharedEvent | ControllerEvent


class ControllerMachine(ProcedureMachine[ControllerEffect]):
    """One controller, active or not. Not thread-safe: one thread steps it."""

    def __init__(
        self,
        config: ElectorConfig,
        settings: ControllerSettings | None = None,
        prepare: Callable[[], Procedure[None]] | None = None,
    ) -> None:
        """
        Args:
            settings: of the active controller; None: it only takes part in elections.
            prepare: carried out in each session before the election, as a broker's registration.
        """
        self.core = core = ElectorContext(config)
        super().__init__(core)
        self._lease = ControllerLease(core)
        self.election = Elector(core, self._lease)
        self.records = ControllerHistory(self.election)
        self._standby = None if config.controller_only is None else StandbyRegistration(core)
        self._settings = settings
        self.active: ActiveController | None = None
        """Only while this controller is active; dropped whole when it resigns."""
        self._is_in_handler = False
        self._prepare = prepare
        self._is_prepared = False

    @property
    def context(self) -> ControllerContext | None:
        """The active controller's; None while it is not active or has not loaded, as for `figures`."""
        active = self.active
        return active.context if active is not None and active.context.was_loaded else None

    def figures(self) -> ControllerMetrics | None:
        active = self.active
        if active is None or not active.context.is_loaded:
            return None
        return controller_metrics(active.context, active.parts.events, self.core.now.ms)

    @property
    def has_left(self) -> bool:
        """After `LeaveElection`: whether its znodes are deleted, or cannot be: it is not connected."""
        return self.election.has_left or not self.core.connected

    def step(self, event: MachineEvent, now: Instant) -> tuple[Effect, ...]:
        """Takes one event, in the order of occurrence; returns the effects, in the order to perform them."""
        self.core.begin(now)
        self._take(event)
        self._follow_election()
        self._run()
        self._follow_election()
        if self.active is not None:
            self.active.flush()
        return self.core.take_effects()

    def _take(self, event: MachineEvent) -> None:
        match event:
            case LeaveElection(reason):
                self.election.leave_election(reason)
            case ShutdownAsked() | ChannelUp() | ChannelDown() | BrokerAnswered():
                self._take_of_broker(event)
            case _:
                self._take_shared(event)

    def _take_of_broker(self, event: ShutdownAsked | ChannelUp | ChannelDown | BrokerAnswered) -> None:
        """Events of brokers go to the active controller; without one, only requests get a response."""
        active = self.active
        match event:
            case ShutdownAsked(request_id) if active is None:
                self.core.emit(ShutdownAnswered(request_id, ErrorCode.STALE_CONTROLLER_EPOCH))
            case _ if active is None:
                pass
            case ShutdownAsked():
                active.features.shutdowns.requested(event)
            case ChannelUp(broker, incarnation):
                active.parts.requests.queues.up(broker, incarnation)
            case ChannelDown(broker, incarnation):
                active.parts.requests.queues.down(broker, incarnation)
            case BrokerAnswered():
                active.responded(event)
            case _:
                assert_never(event)

    def _timer_fired(self, name: str) -> None:
        if name == HEARTBEAT_TIMER:
            self._lease.timer_fired()
        elif name == EVENT_TIMER:
            if self.active is not None:
                self.active.timer_fired()
        elif name == STANDBY_TIMER and self._standby is not None:
            self._standby.wake()
        else:
            assert name == ELECTION_TIMER, name  # the elector reads the clock itself

    def _connected(self) -> None:
        self.election.connected()
        if self.active is not None:
            self.active.connected()
        if self._standby is not None:
            self._standby.wake()

    def _session_over(self, reason: str) -> None:
        self._is_prepared = False
        self.election.session_over(reason)
        self._follow_election()
        if self._standby is not None:
            self._standby.session_over()

    def _follow_election(self) -> None:
        """One active controller for each election won: the work of a former one is not continued."""
        election = self.election
        if self.active is not None and not self.active.is_current:
            self.active.stop()
            self.active = None
            if self._is_in_handler:
                self._runner.stop()
                self._is_in_handler = False
        if self.active is None and election.is_active and self._settings is not None:
            self.active = ActiveController(self.core, election, self._settings)

    def _next_of_active(self) -> Work | None:
        self._follow_election()
        return None if self.active is None else self.active.next()

    def _next(self) -> Work | None:
        election, standby = self.election, self._standby
        if not self._is_prepared and self._prepare is not None:
            return "prepare", self._prepared
        if standby is not None and not (standby.is_out or standby.is_blocked or election.is_out):
            if not election.is_active and not standby.is_shown:
                return "register as standby", standby.show
            if election.is_active and standby.is_shown and (work := election.next()) is None:
                return "deregister as standby", standby.hide
        election.may_be_elected = standby is None or standby.is_shown
        work = election.next()
        if work is not None or not election.is_active:
            return work
        if (handler := self._next_of_active()) is not None:
            name, procedure = handler
            return name, lambda: self._run_handler(procedure())
        return self.records.next()

    def _prepared(self) -> Procedure[None]:
        assert self._prepare is not None
        yield from self._prepare()
        self._is_prepared = True

    def _run_handler(self, procedure: Procedure[None]) -> Procedure[None]:
        """An error in a handler makes the controller resign, and does not end the process."""
        self._is_in_handler = True
        try:
            yield from procedure
        except (ConnectionLossError, GuardRefusedError, NoAuthError, UnexpectedReplyError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, this controller cannot go on
            detail = f"{type(error).__name__}: {error}"
            self.core.note("handler.failed", detail=detail)
            self.election.resign(f"failed: {detail}", yield_to_others=True)
        finally:
            self._is_in_handler = False

    def _ended_by(self, error: Exception) -> None:
        """Ends a controller alone that was never registered where an ACL refuses it; others try again."""
        standby = self._standby
        if (
            isinstance(error, NoAuthError)
            and standby is not None
            and not (standby.was_shown or standby.is_out)
        ):
            standby.refused(error.path)
        else:
            super()._ended_by(error)

    def _fenced(self, error: GuardRefusedError) -> None:
        self.election.fenced()
