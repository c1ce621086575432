"""The election of the active controller, and the lease under which it sends requests to brokers.

Source: fenced elections and controllers without partitions (recipes 13, 14).

Theory of operation
-------------------
    UNKNOWN   read /controller: another's -> WATCHING; none -> VACANT; a stale one of this session -> deleted
    WATCHING  until the watch says that it went or changed
    VACANT    sync, read the epoch, whether the predecessor may still be writing, and which epochs were
              zkgroup's
    GRACE     a controller of Kafka whose znode is gone has time to notice; then, if there is still none:
    ELECTING  the transaction of the election, with the epoch's version read *before* the grace
    ACTIVE    until another client changes /controller or /controller_epoch

Each state but ACTIVE may be left for UNKNOWN at any moment: all it costs is another read. ACTIVE is left by
`resign` alone, which says so (`Resigned`) before anything else is asked; what is still in ZooKeeper is
deleted after the next read, and only what is of this session. An election without a reply is UNKNOWN as
well: what is read decides.

The order of reading is the epoch, then `/controller`: a change in between makes the version that is kept too
old, which costs a grace, and never too new, which would save one.

How long a controller may send requests to brokers without news from the quorum.

    deadline = sent_at(last acknowledged write) + lease_fraction x T - min(server_tick_ms / 2, T / 4)

Writes to ZooKeeper need no lease, they carry the fence. Requests to brokers carry nothing that the next
controller could make invalid, so they end with the lease. A write that is acknowledged renews it; where
there is none, a transaction of the two checks of the fence goes out every T/6, and by up to a fifth of
that more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from zkgroup.controller.machine.controller_election import transactions as acts
from zkgroup.controller.machine.controller_election.transactions import (
    NO_PREDECESSOR,
    ElectionAttempt,
    ElectorState,
    Predecessor,
    WonElection,
    last_foreign_epoch,
)
from zkgroup.controller.machine.events import Elected, ExtendSendLease, IdInUse, Resigned
from zkgroup.controller.machine.fenced_writes import Fence
from zkgroup.controller.machine.settings import ElectorContext
from zkgroup.errors import PersistentZnodeError
from zkgroup.model import Znode
from zkgroup.model.requests import (
    Code,
    Create,
    CreateMissing,
    Delete,
    ListChildren,
    Multi,
    MultiDone,
    MultiRefused,
    Operation,
    Outcome,
    Read,
    SetData,
    Sync,
)
from zkgroup.runtime.events import Watch
from zkgroup.runtime.procedures import (
    ConnectionLossError,
    Procedure,
    Query,
    Work,
    ask,
    heartbeat_period_ms,
    lease_ms,
    list_done,
    read_done,
    write,
)
from zkgroup.znodes.brokers import BrokerRegistration
from zkgroup.znodes.controller import (
    ControllerEpoch,
    ControllerRecord,
    ControllerRegistration,
    ResignRequest,
    controller_history_path,
)
from zkgroup.znodes.sessions import is_leftover

HEARTBEAT_TIMER: Final = "controller heartbeat"


class ControllerLease:
    """The lease of one active controller."""

    def __init__(self, core: ElectorContext) -> None:
        self._core = core
        core.on_write_acknowledged = self._acknowledged
        self.until_ms: int | None = None
        """Its end as emitted last; None while this controller is not active, and before the first
        acknowledgement."""
        self.on_refused: Callable[[], None] = lambda: None
        """A heartbeat was refused at the fence."""
        self._fence: Fence | None = None
        self._last_sent_ms: int | None = None
        """Time at which the newest acknowledged write of this session was issued."""
        self._under_way = False

    @property
    def is_valid(self) -> bool:
        return self.until_ms is not None and self._core.now.ms < self.until_ms

    def start(self, fence: Fence, *, proven: bool) -> None:
        """`proven`: the election was answered. Where it was read back, the first heartbeat is the proof."""
        self._fence = fence
        if proven:
            self._extend()
        self._core.set_timer(HEARTBEAT_TIMER, self._core.now.ms if not proven else self._due_ms())

    def stop(self) -> None:
        self._fence = self.until_ms = None
        self._core.cancel_timer(HEARTBEAT_TIMER)

    def session_over(self) -> None:
        """Acknowledgements of the old session do not count for the next one."""
        self.stop()
        self._last_sent_ms = None
        self._under_way = False

    def connected(self) -> None:
        """Back in the same session: the next heartbeat is due at once."""
        self._under_way = False
        if self._fence is not None:
            self._core.set_timer(HEARTBEAT_TIMER, self._core.now.ms)

    def timer_fired(self) -> None:
        """Sends a heartbeat unless a write was acknowledged meanwhile; arms the next."""
        if self._fence is None or not self._core.connected:
            return
        due_ms = self._due_ms()
        if self._core.now.ms >= due_ms or not self.is_valid:
            due_ms = self._core.now.ms + self._period_ms()
            self._send(self._fence)
        self._core.set_timer(HEARTBEAT_TIMER, due_ms)

    def _send(self, fence: Fence) -> None:
        if self._under_way:
            return
        self._under_way = True

        def on_outcome(outcome: Outcome) -> None:
            self._under_way = False
            if isinstance(outcome, MultiRefused) and fence == self._fence:
                self.on_refused()

        self._core.ask(Multi(fence.checks()), on_outcome)

    def _acknowledged(self, sent_ms: int) -> None:
        self._last_sent_ms = max(self._last_sent_ms or sent_ms, sent_ms)
        if self._fence is not None:
            self._extend()

    def _extend(self) -> None:
        assert self._last_sent_ms is not None
        until_ms = self._last_sent_ms + self._span_ms()
        if until_ms > self._core.now.ms and (self.until_ms is None or until_ms > self.until_ms):
            self.until_ms = until_ms
            self._core.emit(ExtendSendLease(until_ms))

    def _due_ms(self) -> int:
        return (self._last_sent_ms or self._core.now.ms) + self._period_ms()

    def _period_ms(self) -> int:
        return heartbeat_period_ms(self._timeout_ms(), self._core.config.jitter)

    def _span_ms(self) -> int:
        config = self._core.config
        return lease_ms(self._timeout_ms(), config.lease_fraction, config.server_tick_ms)

    def _timeout_ms(self) -> int:
        session = self._core.session
        assert session is not None
        return session.timeout_ms


ELECTION_TIMER: Final = "election"
GRACE_SPREAD: Final = 0.25
"""The grace is longer by up to this fraction, so that electors do not all wake at once."""
FENCE_PATHS: Final = (ControllerEpoch.path(), ControllerRegistration.path())
"""In the order of reading."""


class Elector:
    """Takes part in elections, and notices when this controller is no longer active."""

    def __init__(self, core: ElectorContext, lease: ControllerLease) -> None:
        self._core = core
        self._lease = lease
        lease.on_refused = self.fenced
        self.stage = ElectorState.UNKNOWN
        self.won: WonElection | None = None
        self.predecessor: Predecessor = NO_PREDECESSOR
        self.former: Predecessor | None = None
        """The controller before this one, as far as was read."""
        self.attempt: ElectionAttempt | None = None
        """The next attempt is based on it, from VACANT on."""
        self.may_be_elected = False
        """The host is registered in this session (controller.md 2.5: registration precedes election)."""
        self.is_out = False
        """The id is another process's, or this controller leaves: no more elections."""
        self._reason = ""
        """The reason of its last resignation, for its next record; empty once another one was active."""
        self._must_read = True
        self._tried: ElectionAttempt | None = None
        """An attempt whose outcome is unknown."""
        self._ended: WonElection | None = None
        """An election won in this session, whose end is to be written."""
        self._not_before_ms = 0
        self._greatest_epoch = 0
        self.recorded: tuple[int, ...] = ()
        """Epochs of which there is a record, oldest first; that of the active controller is the last."""
        self._watches: dict[str, Watch] = {}

    @property
    def is_active(self) -> bool:
        return self.won is not None

    @property
    def may_send(self) -> bool:
        """Returns whether requests to brokers may be sent now: active, connected, within its lease."""
        return self.is_active and self._core.connected and self._lease.is_valid

    def connected(self) -> None:
        """A connection, of this session or of a new one: every watch is gone."""
        self._watches.clear()
        self._must_read = True
        self._lease.connected()

    def session_over(self, reason: str) -> None:
        """The barrier: before anything of a new session, this controller has resigned."""
        if self.won is not None:
            self._resigned(self.won, reason)
        self._lease.session_over()
        self.stage = ElectorState.UNKNOWN
        self.may_be_elected = False
        self._tried = self._ended = None
        self._not_before_ms = 0

    def resign(self, reason: str, *, yield_to_others: bool = False) -> None:
        """Is no longer active, from now on; its znodes are deleted after the next read.

        yield_to_others: waits as long as a grace before the next attempt.
        """
        if self.won is None:
            return
        self._ended = self.won
        self._resigned(self.won, reason)
        if yield_to_others:
            self._wait_a_grace()

    def leave_election(self, reason: str) -> None:
        self.is_out = True
        self._must_read = True
        self.resign(reason)

    @property
    def has_left(self) -> bool:
        """Returns whether it takes part in no more elections, and the last read found no znode of it."""
        has_read = not self._must_read and self.stage in (ElectorState.WATCHING, ElectorState.VACANT)
        return self.is_out and self._ended is None and has_read

    def fenced(self) -> None:
        """A write was refused at `/controller` or `/controller_epoch`."""
        self.resign("a write was refused at its fence")

    def epoch_raised(self, fence: Fence, record: ControllerRecord) -> None:
        """The active controller has written a new epoch with its record, and stays active in it."""
        assert self.won is not None, "only the active controller raises the epoch"
        self.won = self.won._replace(fence=fence, record=record, record_version=0)
        self._greatest_epoch = max(self._greatest_epoch, fence.epoch)
        self.recorded = (*self.recorded, fence.epoch)
        self.predecessor = self.predecessor._replace(epoch_version=fence.version)
        self._lease.start(fence, proven=True)

    def _resigned(self, won: WonElection, reason: str) -> None:
        self.won = None
        self.stage, self._must_read = ElectorState.UNKNOWN, True
        self._lease.stop()
        self._reason = f"{reason} (epoch {won.fence.epoch} of broker {self._core.config.broker})"
        self._core.emit(Resigned(won.fence.epoch, reason))
        if self._ended is won:
            self._ended = won._replace(record=won.record.over(self._core.now.wall_ms, reason))

    def _wait_a_grace(self) -> None:
        core = self._core
        longer = round(core.config.takeover_grace_ms * (1 + GRACE_SPREAD * core.config.jitter()))
        self._not_before_ms = core.now.ms + longer
        core.set_timer(ELECTION_TIMER, self._not_before_ms)

    def next(self) -> Work | None:
        """The procedure that is due, or None; the host starts it before any other work."""
        if self.stage is ElectorState.UNKNOWN or (self._must_read and self.stage.is_waiting):
            return "read the controller", self._read_controller
        if self.is_out or not self.may_be_elected or self._core.now.ms < self._not_before_ms:
            may_read = self._must_read and (self.is_out or self.stage is ElectorState.VACANT)
            return ("read the controller", self._read_controller) if may_read else None
        match self.stage:
            case ElectorState.VACANT:
                return "prepare the election", self._prepare_attempt
            case ElectorState.GRACE:
                return "end the grace", self._end_grace
            case ElectorState.ELECTING:
                return "elect", self._elect
            case _:
                return None

    def _read_controller(self) -> Procedure[None]:
        self._must_read = False
        first = () if self._tried is None else (Query(Sync(ControllerRegistration.path())),)
        paths = FENCE_PATHS if self.won is None else (*FENCE_PATHS, ResignRequest.path())
        outcomes = yield from self._asked(*first, *map(self._watched, paths))
        epoch, controller, *requests = map(read_done, outcomes[len(first) :])
        request = requests[0] if requests else None
        self._greatest_epoch = max(self._greatest_epoch, acts.epoch_of(epoch) or 0)
        if self.won is not None:
            yield from self._check_election(self.won, epoch, controller, request)
        elif controller is None:
            yield from self._withdraw(None, epoch, None)
            self.stage, self._tried = ElectorState.VACANT, None
        elif self._core.owns(controller.stat.ephemeral_owner):
            yield from self._check_own_controller(epoch, controller)
        else:
            yield from self._withdraw(None, epoch, None)
            if self.stage is ElectorState.UNKNOWN or controller.stat.czxid != self.predecessor.czxid:
                self.predecessor = acts.predecessor_of(controller, epoch)
                if is_leftover(controller):  # no session ends that would delete it
                    detail = str(PersistentZnodeError(controller.path))
                    broker = self.predecessor.broker
                    self._core.note("controller.persistent", broker=broker, detail=detail)
            self.stage, self._tried, self._reason = ElectorState.WATCHING, None, ""

    def _check_election(
        self, won: WonElection, epoch: Znode | None, controller: Znode | None, request: Znode | None
    ) -> Procedure[None]:
        """Resigns where another client has changed `/controller` or the epoch, or an operator asks for it."""
        if why := acts.reason_lost(won, epoch, controller):
            self.resign(why)
            yield from self._withdraw(controller, epoch, None)
        elif request is not None and acts.asks_to_resign(request, won.czxid):
            self.resign("an operator asked for it", yield_to_others=True)
            yield from self._withdraw(controller, epoch, request)
        elif request is not None:
            self._core.note("resign_request.stale", path=request.path, czxid=won.czxid)
            yield from write([*won.fence.checks(), Delete(request.path, request.stat.version)], FENCE_PATHS)

    def _check_own_controller(self, epoch: Znode | None, controller: Znode) -> Procedure[None]:
        """`/controller` is of this session while it is not active: won without a reply, or stale."""
        tried = self._tried
        if tried is not None and acts.is_won(tried, epoch, controller):
            self._won(tried, controller.stat.czxid, proven=False)
        else:
            yield from self._withdraw(controller, epoch, None)
            self._must_read = True

    def _withdraw(
        self, controller: Znode | None, epoch: Znode | None, request: Znode | None
    ) -> Procedure[None]:
        """Deletes the znodes of this session, and writes the end into the record."""
        core, ended = self._core, self._ended
        registration = None
        if core.config.controller_only and (ended or controller):
            (outcome,) = yield from self._asked(Query(Read(BrokerRegistration.path(core.config.broker))))
            registration = self._if_own(read_done(outcome))
        mine = self._if_own(controller)
        if operations := acts.withdraw(mine, epoch, self._greatest_epoch, (registration, request)):
            yield from self._written(operations)
        if ended is not None:
            self._ended = None
            yield from self._end_record(ended)

    def _end_record(self, ended: WonElection) -> Procedure[None]:
        """Notes the end, also where what was written last had no answer by then (`acts.ends`)."""
        epoch, data = ended.fence.epoch, ended.record.encode()
        operation = SetData(ControllerRecord.path(epoch), data, ended.record_version)
        answer = yield from self._written((operation,))
        if isinstance(answer, MultiRefused):
            paths = map(ControllerRecord.path, (epoch, epoch + 1))
            found = yield from self._asked(*(Query(Read(path)) for path in paths))
            if operations := acts.end_records(map(read_done, found), ended.record):
                yield from self._written(operations)

    def _if_own(self, znode: Znode | None) -> Znode | None:
        return znode if znode is not None and self._core.owns(znode.stat.ephemeral_owner) else None

    def _prepare_attempt(self) -> Procedure[None]:
        """`/controller` is gone: reads what an attempt is based on, and whether to wait before it."""
        before = self.predecessor
        queries = [
            Query(Sync(ControllerRegistration.path())),
            Query(Read(ControllerEpoch.path())),
            Query(ListChildren(controller_history_path())),
        ]
        if before.is_real and before.broker is not None:
            queries.append(Query(Read(BrokerRegistration.path(before.broker))))
        _, epoch_read, listed, *rest = yield from self._asked(*queries)
        epoch, history = read_done(epoch_read), list_done(listed)
        if epoch is None or history.stat is None:
            yield from self._make_parents(epoch)
            return
        if (number := acts.epoch_of(epoch)) is None:
            self._core.note("controller_epoch.unreadable", path=epoch.path)
            self._wait_a_grace()
            return
        recorded = [each for name in history.children if (each := ControllerRecord.epoch_of(name))]
        foreign = yield from last_foreign_epoch(self._asked, number, recorded)
        self.attempt = ElectionAttempt(number, epoch.stat.version, foreign)
        self.recorded = tuple(sorted(each for each in recorded if each <= number))
        self.stage = ElectorState.ELECTING
        record = None
        if epoch.stat.version != before.epoch_version and number in recorded:
            (outcome,) = yield from self._asked(Query(Read(ControllerRecord.path(number))))
            record = read_done(outcome)
        if acts.needs_grace(before, epoch, record, read_done(rest[0]) if rest else None):
            self.stage = ElectorState.GRACE
            self._core.note("takeover.grace", broker=before.broker, session=before.session)
            self._wait_a_grace()

    def _make_parents(self, epoch: Znode | None) -> Procedure[None]:
        yield from self._asked(Query(CreateMissing(acts.parents(bool(self._core.config.controller_only)))))
        if epoch is None:
            data = ControllerEpoch(self._greatest_epoch).encode()
            yield from self._written((Create(ControllerEpoch.path(), data),))

    def _end_grace(self) -> Procedure[None]:
        """Attempts an election if there is still no controller, with what was read before the grace."""
        (outcome,) = yield from self._asked(self._watched(ControllerRegistration.path()))
        self.stage = ElectorState.ELECTING if read_done(outcome) is None else ElectorState.UNKNOWN

    def _elect(self) -> Procedure[None]:
        core, tried = self._core, self.attempt
        assert tried is not None
        broker, alone, wall_ms = core.config.broker, core.config.controller_only, core.now.wall_ms
        registration = alone and acts.register_broker(broker, alone, wall_ms)
        self._tried = tried
        record = self._record(tried, wall_ms)
        operations = acts.elect(tried, ControllerRegistration(broker, wall_ms), record, registration)
        answer = yield from self._written(operations)
        if isinstance(answer, MultiDone):
            made = answer.stats[1]
            assert made is not None
            self._won(tried, made.czxid, proven=True)
            return
        self._tried, self.stage = None, ElectorState.UNKNOWN
        if operations[answer.index] is registration:
            yield from self._check_conflict(answer.code)

    def _check_conflict(self, code: Code) -> Procedure[None]:
        """`/brokers/ids/<id>` is in the way, or its parent is missing. No lost race: the id is in use."""
        if code is not Code.NODE_EXISTS:
            yield from self._make_parents(None)
            return
        path = BrokerRegistration.path(self._core.config.broker)
        (outcome,) = yield from self._asked(Query(Read(path)))
        found = read_done(outcome)
        if found is None:
            return
        if self._core.owns(found.stat.ephemeral_owner):
            yield from self._written((Delete(path, found.stat.version),))
        elif found.stat.ephemeral_owner in self._core.former_sessions:
            self._wait_a_grace()
        else:
            self.is_out = True
            self._core.emit(IdInUse(self._core.config.broker, path, found.stat.ephemeral_owner))

    def _record(self, tried: ElectionAttempt, wall_ms: int) -> ControllerRecord:
        session = self._core.session
        assert session is not None
        reason = self._reason or acts.why_elected(self.predecessor)
        mine = ControllerRecord(self._core.config.broker, session.session_id, reason, wall_ms)
        return mine.after(tried.foreign_epoch)

    def _won(self, tried: ElectionAttempt, czxid: int, *, proven: bool) -> None:
        core = self._core
        assert core.session is not None
        self.won = WonElection(
            tried.fence, czxid, self._record(tried, core.now.wall_ms), 0, tried.foreign_epoch
        )
        self.recorded = (*self.recorded, tried.fence.epoch)
        self.stage, self._must_read, self._tried = ElectorState.ACTIVE, True, None
        self._greatest_epoch = max(self._greatest_epoch, tried.fence.epoch)
        self.former = self.predecessor
        self.predecessor = Predecessor(
            czxid, core.session.session_id, core.config.broker, False, tried.fence.version
        )
        core.emit(Elected(tried.fence, czxid, tried.foreign_epoch))
        self._lease.start(tried.fence, proven=proven)
        if self.is_out:
            self.resign("elected while it was leaving")

    def _watched(self, path: str) -> Query:
        """A read that also arms the watch, unless one is armed."""
        armed = self._watches.get(path)
        if armed is not None and not armed.fired:
            return Query(Read(path))
        watch = self._watches[path] = Watch(self._changed)
        return Query(Read(path, watch=True), watch)

    def _changed(self) -> None:
        self._must_read = True

    def _asked(self, *queries: Query) -> Procedure[tuple[Outcome, ...]]:
        try:
            return (yield from ask(*queries))
        except ConnectionLossError:
            self._unsure()
            raise

    def _written(self, operations: tuple[Operation, ...]) -> Procedure[MultiDone | MultiRefused]:
        """A write that no fence guards: it makes the fence, or takes it off."""
        try:
            return (yield from write(operations, ()))
        except ConnectionLossError:
            self._unsure()
            raise

    def _unsure(self) -> None:
        """A reply is missing: whether a watch was armed is not known, nor the outcome of a write."""
        self._watches.clear()
        self._must_read = True
        if self.won is None:
            self.stage = ElectorState.UNKNOWN


class ControllerIdentity:
    """One controller from an election until it resigns. Its epoch may be raised meanwhile."""

    def __init__(self, core: ElectorContext, election: Elector) -> None:
        """Only for an election that was won."""
        assert election.won is not None, "only an elected controller becomes active"
        self.election = election
        self._won = election.won
        self.broker = core.config.broker

    @property
    def fence(self) -> Fence:
        """The fence of every write. It changes when the epoch is raised."""
        if self.election.won is not None and self.is_current:
            self._won = self.election.won
        return self._won.fence

    @property
    def epoch(self) -> int:
        """The controller epoch of every request to brokers."""
        return self.fence.epoch

    @property
    def foreign_epoch(self) -> int:
        """The last epoch of a controller of Kafka; 0 where there is none (recipes 13, recovery)."""
        return self._won.foreign_epoch

    @property
    def is_current(self) -> bool:
        """Returns whether the election that this controller won is still the last one."""
        return self.election.won is not None and self.election.won.czxid == self._won.czxid
