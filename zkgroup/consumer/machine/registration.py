"""Being in the group: `ids/<c>` (recipes.md 2).

Created with its final data in one create, never set. The create is the first write of a session. A
registration of the same name that is in the way is waited for: without limit where it belongs to one
of this member's former sessions (a ghost), for twice the session timeout where it is anybody else's.
"""

from __future__ import annotations

from zkgroup.consumer.machine.core import Core
from zkgroup.consumer.machine.paths import Paths
from zkgroup.errors import MemberIdInUseError
from zkgroup.machinery.procedures import (
    DeniedError,
    FencedError,
    Procedure,
    Query,
    ask,
    read_done,
    write,
)
from zkgroup.machinery.watch import Watch
from zkgroup.model import Subscription, Znode
from zkgroup.model.requests import (
    Create,
    CreateMissing,
    Delete,
    MultiDone,
    Read,
    ReadMany,
    ReadManyDone,
    Sync,
)
from zkgroup.znodes.consumers import Registration
from zkgroup.znodes.ids import member_host

WAIT_TIMER = "register"
RECHECK_MS = 2000
"""A second look at a registration that is in the way, beside the watch."""


class Membership:
    """The own registration."""

    def __init__(self, core: Core, paths: Paths) -> None:
        self._core = core
        self._paths = paths
        self.subscription: Subscription = core.config.subscription
        self.is_registered = False
        self.is_waiting = False
        """Somebody's registration of our name is in the way; a watch and a timer wake us."""
        self.data: bytes | None = None
        """What the registration holds, or what the create under way will write."""
        self.is_doubtful = False
        """A create was sent without an answer: there may be a registration of ours."""
        self.must_replace = False
        self.in_use: MemberIdInUseError | None = None
        self.may_have_leaked = False
        """Claims of an earlier member of this name may stand in the session of a shared client."""
        self._waiting_since: int | None = None
        self._ghost: int | None = None

    # --- joining ----------------------------------------------------------------------------------

    def register(self) -> Procedure[None]:
        """Sync, make the parents, create; ends registered, waiting, or `in_use`."""
        paths = self._paths
        outcomes = yield from ask(Query(Sync(paths.ids)), Query(ReadMany(paths.parents)))
        found = outcomes[1]
        assert isinstance(found, ReadManyDone)
        missing = tuple(p for p, znode in zip(paths.parents, found.znodes, strict=True) if znode is None)
        if missing:
            yield from ask(Query(CreateMissing(missing)))
        if self.data is None:
            self.data = self._encode()
        was_doubtful, self.is_doubtful = self.is_doubtful, True
        try:
            answer = yield from write([Create(paths.own, self.data, ephemeral=True)], ())
        except DeniedError:
            self.is_doubtful = was_doubtful
            raise
        if isinstance(answer, MultiDone):
            self._registered(answer.zxid)
        else:
            yield from self._look_at_obstacle()

    def _look_at_obstacle(self) -> Procedure[None]:
        (outcome,) = yield from ask(Query(Read(self._paths.own, watch=True), Watch(self.wake)))
        znode = read_done(outcome)
        self.is_doubtful = znode is not None and self.is_doubtful
        if znode is None:
            return
        session = self._core.session
        assert session is not None
        if znode.stat.ephemeral_owner != session.session_id:
            self.is_doubtful = False
            self._wait_for(znode)
        elif znode.data == self.data and znode.stat.version == 0:
            self._registered(znode.stat.czxid)  # an earlier create of ours whose reply was lost
        else:
            # Left over on a shared client, or rewritten by a stranger: ours to replace.
            yield from self._create_over(znode.stat.version)

    def _registered(self, czxid: int | None) -> None:
        core = self._core
        assert core.session is not None
        self.is_registered, self.is_waiting, self.is_doubtful = True, False, False
        self._waiting_since = self._ghost = None
        self.may_have_leaked = not core.config.owns_client
        core.registered_zxid = czxid
        core.cancel_timer(WAIT_TIMER)
        core.note("registered", session=core.session.session_id, czxid=czxid)

    def _wait_for(self, znode: Znode) -> None:
        core, holder = self._core, znode.stat.ephemeral_owner
        assert core.session is not None
        if self._ghost != holder:
            self._ghost, self._waiting_since = holder, core.now.ms
            core.note("ghost", path=znode.path, session=holder)
        core.reason = "waiting_for_old_registration"
        assert self._waiting_since is not None
        limit_ms = self._waiting_since + 2 * core.session.timeout_ms
        if holder in core.former_sessions:
            core.set_timer(WAIT_TIMER, core.now.ms + RECHECK_MS)
        elif core.now.ms < limit_ms:
            core.set_timer(WAIT_TIMER, min(limit_ms, core.now.ms + RECHECK_MS))
        else:
            host = member_host(core.config.group, core.config.member_id)
            self.in_use = MemberIdInUseError(znode.path, holder, host)
        self.is_waiting = True

    def wake(self) -> None:
        """The znode in the way changed, or it is time for another look."""
        self.is_waiting = False

    # --- leaving, and asking for something else ---------------------------------------------------

    def replace(self) -> Procedure[None]:
        """A changed subscription is a new registration (recipes.md 2): one multi, held claims stay valid."""
        self.data = self._encode()
        yield from self._create_over(0)
        # Without an answer `must_replace` stays: doing it twice is doing it once.
        self.must_replace = False

    def _create_over(self, version: int) -> Procedure[None]:
        assert self.data is not None
        operations = (Delete(self._paths.own, version), Create(self._paths.own, self.data, ephemeral=True))
        answer = yield from write(operations, (self._paths.own,))
        if isinstance(answer, MultiDone):
            self._registered(answer.zxid)

    def remove(self) -> Procedure[None]:
        """The last act of a member that shares its client (recipes.md 7)."""
        yield from write([Delete(self._paths.own, 0)], (self._paths.own,))
        raise FencedError(self._paths.own)

    def lost(self) -> None:
        """Not registered any more, for whatever reason; the next registration has a new timestamp."""
        self.is_registered = self.is_waiting = self.must_replace = self.is_doubtful = False
        self.data = None
        self._waiting_since = self._ghost = self._core.registered_zxid = None
        self._core.cancel_timer(WAIT_TIMER)

    def _encode(self) -> bytes:
        settings = self._core.config.settings
        extensions = {
            "zkgroup": self._core.config.version,
            "strategy": settings.partition_assignment_strategy,
            "exclude_internal": "true" if settings.exclude_internal_topics else "false",
        }
        if self._core.config.host is not None:
            extensions["host"] = self._core.config.host
        return Registration.of(self.subscription, self._core.now.wall_ms, extensions).encode()
