"""`/brokers/ids/<id>`: that the broker lives, and where.

Source: controller.md 8.2, kafka/zk/KafkaZkClient.scala@2.8.2.

It is made and set in one transaction, so that the answer tells its czxid, the broker's epoch. What stands in
the way is

* our own, made by a request whose answer was lost: good
* of a former session of this process: deleted and made again in one transaction (KAFKA-7165)
* perhaps of a former process of this very broker, by its address or its folder: waited for, as long as a
  session that nobody holds can last
* somebody else's: the id is in use, and the broker fails
"""

from __future__ import annotations

from typing import Final

from zkgroup.broker.machine.core import Core
from zkgroup.broker.machine.effects import Registered
from zkgroup.broker.machine.events import Serving
from zkgroup.broker.machine.preparing import make_parents
from zkgroup.errors import BrokerIdInUseError, ConfigError, CorruptZnodeError
from zkgroup.machinery.machine import Work
from zkgroup.machinery.procedures import NoAnswerError, Procedure, Query, ask, read_done, write
from zkgroup.machinery.watch import Watch
from zkgroup.model import Znode, ZnodeStat
from zkgroup.model.requests import Code, Create, Delete, MultiDone, Operation, Read, SetData
from zkgroup.znodes.broker_registration import PLAINTEXT, ZKGROUP_KEY
from zkgroup.znodes.brokers import BrokerRegistration, Endpoint

OBSTACLE_TIMER: Final = "registration"
SLACK_MS: Final = 2000
"""Beyond the session timeout, for a registration that may be our own ghost."""


class Registration:
    """The registration of one broker, in every session anew."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.serving: Serving | None = None
        self.epoch: int | None = None
        """czxid of the last registration."""
        self.is_registered = False
        """In the present session."""
        self._is_blocked = False
        self._blocked_since_ms: int | None = None

    def session_over(self) -> None:
        self.is_registered = self._is_blocked = False
        self._blocked_since_ms = None

    def connected(self) -> None:
        """The wait for a ghost begins anew: a new leader of the servers gives each session its whole time."""
        self._blocked_since_ms = None
        self.wake()

    def wake(self) -> None:
        """Something may have changed about what stands in the way."""
        self._is_blocked = False

    def next(self) -> Work | None:
        if self.serving is None or self.is_registered or self._is_blocked:
            return None
        return "register", self._register

    @property
    def path(self) -> str:
        assert self._core.broker is not None
        return BrokerRegistration.path(self._core.broker)

    def _register(self) -> Procedure[None]:
        try:
            operations = self._made()
        except ConfigError as error:
            self._core.fail(error)
            return
        answer = yield from write(operations, ())
        if isinstance(answer, MultiDone):
            self._registered(answer.stats[-1])
        elif answer.code is Code.NODE_EXISTS:
            yield from self._look_at_obstacle(operations)
        else:
            yield from make_parents()

    def _made(self) -> tuple[Operation, ...]:
        serving, config = self.serving, self._core.config
        assert serving is not None
        ours = {"role": "data"} if serving.folder is None else {"role": "data", "folder": serving.folder}
        data = BrokerRegistration.of(
            [Endpoint(PLAINTEXT, serving.host, serving.port, PLAINTEXT)],
            self._core.now.wall_ms,
            config.registration_version,
            rack=config.rack,
            extensions={ZKGROUP_KEY: ours},
        ).encode()
        return Create(self.path, data, ephemeral=True), SetData(self.path, data, 0)

    def _registered(self, stat: ZnodeStat | None) -> None:
        core = self._core
        assert stat is not None
        assert core.session is not None
        self.is_registered, self._blocked_since_ms = True, None
        self.epoch = stat.czxid
        core.saw_server_time(stat.mtime)
        core.cancel_timer(OBSTACLE_TIMER)
        core.emit(Registered(stat.czxid, core.session.incarnation))

    # --- what stands in the way -------------------------------------------------------------------

    def _look_at_obstacle(self, operations: tuple[Operation, ...]) -> Procedure[None]:
        core = self._core
        (outcome,) = yield from ask(Query(Read(self.path)))
        found = read_done(outcome)
        if found is None:
            return
        owner = found.stat.ephemeral_owner
        if core.owns(owner):
            self._registered(found.stat)
        elif owner in core.former_sessions:
            answer = yield from write([Delete(self.path, found.stat.version), *operations], ())
            if isinstance(answer, MultiDone):
                self._registered(answer.stats[-1])
        else:
            yield from self._wait_or_fail(found)

    def _wait_or_fail(self, found: Znode) -> Procedure[None]:
        core = self._core
        assert core.session is not None
        try:
            theirs = BrokerRegistration.decode(self.path, found.data)
        except CorruptZnodeError:
            theirs = None
        if self._blocked_since_ms is None:
            self._blocked_since_ms = core.now.ms
        until_ms = self._blocked_since_ms + core.session.timeout_ms + SLACK_MS
        if theirs is None or not self._may_be_ghost(theirs) or core.now.ms >= until_ms:
            host = None if theirs is None else theirs.host
            core.fail(BrokerIdInUseError(self.path, found.stat.ephemeral_owner, host))
            return
        self._is_blocked = True
        core.set_timer(OBSTACLE_TIMER, until_ms)
        core.note("registration.waits", path=self.path, session=found.stat.ephemeral_owner)
        try:
            (outcome,) = yield from ask(Query(Read(self.path, watch=True), Watch(self.wake)))
        except NoAnswerError:
            self.wake()
            raise
        if (now := read_done(outcome)) is None or now.stat.czxid != found.stat.czxid:
            self.wake()

    def _may_be_ghost(self, theirs: BrokerRegistration) -> bool:
        """Nobody else can listen where we listen, or use our folder: whoever registered this is gone."""
        serving = self.serving
        assert serving is not None
        if (theirs.host, theirs.port) == (serving.host, serving.port):
            return True
        ours = theirs.extensions.get(ZKGROUP_KEY)
        return serving.folder is not None and isinstance(ours, dict) and ours.get("folder") == serving.folder
