"""Being in the group: `ids/<c>` (recipes.md 2).

Created with its final data in one create, never set. The create is the first write of a session. A
registration of the same name that is in the way is waited for: without limit where it belongs to one of this
member's former sessions (a stale registration), for twice the session timeout where it is another client's.
"""

from __future__ import annotations

from zkgroup.consumer.machine.machine_context import MemberContext, Paths
from zkgroup.errors import MemberIdInUseError
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
from zkgroup.runtime.events import Watch
from zkgroup.runtime.procedures import GuardRefusedError, NoAuthError, Procedure, Query, ask, read_done, write
from zkgroup.znodes.consumers import Registration
from zkgroup.znodes.ids import member_host

WAIT_TIMER = "register"
RECHECK_MS = 2000
"""A second look at a registration that is in the way, beside the watch."""


class Membership:
    """The own registration."""

    def __init__(self, context: MemberContext, paths: Paths) -> None:
        self._context = context
        self._paths = paths
        self.subscription: Subscription = context.config.subscription
        self.is_registered = False
        self.is_waiting = False
        """Another session's registration of this name is in the way; a watch and a timer wake us."""
        self.data: bytes | None = None
        """What the registration holds, or what the create under way will write."""
        self.is_outcome_unknown = False
        """A create was sent without an answer: there may be a registration of this member."""
        self.must_replace = False
        self.in_use: MemberIdInUseError | None = None
        self.may_have_orphans = False
        """Claims of an earlier member of this name may stand in the session of a shared client."""
        self._waiting_since: int | None = None
        self._stale_session: int | None = None

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
        was_outcome_unknown, self.is_outcome_unknown = self.is_outcome_unknown, True
        try:
            answer = yield from write([Create(paths.own, self.data, ephemeral=True)], ())
        except NoAuthError:
            self.is_outcome_unknown = was_outcome_unknown
            raise
        if isinstance(answer, MultiDone):
            self._registered(answer.zxid)
        else:
            yield from self._look_at_obstacle()

    def _look_at_obstacle(self) -> Procedure[None]:
        (outcome,) = yield from ask(Query(Read(self._paths.own, watch=True), Watch(self.wake)))
        znode = read_done(outcome)
        self.is_outcome_unknown = znode is not None and self.is_outcome_unknown
        if znode is None:
            return
        session = self._context.session
        assert session is not None
        if znode.stat.ephemeral_owner != session.session_id:
            self.is_outcome_unknown = False
            self._wait_for(znode)
        elif znode.data == self.data and znode.stat.version == 0:
            self._registered(znode.stat.czxid)  # an earlier create of this member whose reply was lost
        else:
            # Left over on a shared client, or rewritten by a stranger: ours to replace.
            yield from self._create_over(znode.stat.version)

    def _registered(self, czxid: int | None) -> None:
        context = self._context
        assert context.session is not None
        self.is_registered, self.is_waiting, self.is_outcome_unknown = True, False, False
        self._waiting_since = self._stale_session = None
        self.may_have_orphans = not context.config.owns_client
        context.registered_zxid = czxid
        context.cancel_timer(WAIT_TIMER)
        context.note("registered", session=context.session.session_id, czxid=czxid)

    def _wait_for(self, znode: Znode) -> None:
        context, holder = self._context, znode.stat.ephemeral_owner
        assert context.session is not None
        if self._stale_session != holder:
            self._stale_session, self._waiting_since = holder, context.now.ms
            context.note("ghost", path=znode.path, session=holder)
        context.reason = "waiting_for_old_registration"
        assert self._waiting_since is not None
        limit_ms = self._waiting_since + 2 * context.session.timeout_ms
        if holder in context.former_sessions:
            context.set_timer(WAIT_TIMER, context.now.ms + RECHECK_MS)
        elif context.now.ms < limit_ms:
            context.set_timer(WAIT_TIMER, min(limit_ms, context.now.ms + RECHECK_MS))
        else:
            host = member_host(context.config.group, context.config.member_id)
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
        raise GuardRefusedError(self._paths.own)

    def lost(self) -> None:
        """Not registered any more, for whatever reason; the next registration has a new timestamp."""
        self.is_registered = self.is_waiting = self.must_replace = self.is_outcome_unknown = False
        self.data = None
        self._waiting_since = self._stale_session = self._context.registered_zxid = None
        self._context.cancel_timer(WAIT_TIMER)

    def _encode(self) -> bytes:
        settings = self._context.config.settings
        extensions = {
            "zkgroup": self._context.config.version,
            "strategy": settings.partition_assignment_strategy,
            "exclude_internal": "true" if settings.exclude_internal_topics else "false",
        }
        if self._context.config.host is not None:
            extensions["host"] = self._context.config.host
        return Registration.of(self.subscription, self._context.now.wall_ms, extensions).encode()
