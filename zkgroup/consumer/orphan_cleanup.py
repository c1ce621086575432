"""Takes away what a member leaves on a shared client that ended without its machine (a crash, a stuck close).

With a client of its own its session ends, and all of its ephemerals with it. A shared session goes on for
the neighbours; so would its owners, and no member could claim the partitions. The machine is not asked, since
it may be what is broken: everything is read anew, and each delete proves itself (recipes 1 and 7). Nothing
is committed; the next owner goes on from the last commit.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from zkgroup.errors import OperationRefusedError, ZkGroupError
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.ports import Clock, Store
from zkgroup.model.requests import Check, Delete
from zkgroup.znodes.consumers import Offset, Owner, Registration, owners_path, owners_topic_path
from zkgroup.znodes.group_records import View
from zkgroup.znodes.ids import number_of, split_thread_id
from zkgroup.zookeeper.blocking import Blocking

log = logging.getLogger("zkgroup.consumer")

CLEAR_TIMEOUT_S = 2.0
"""For each request. What is not taken away by then goes with the session of the shared client."""
RELEASED_AT_ONCE = 200


class _OwnedZnode(NamedTuple):
    offset: Znode
    owner: Znode


def remove_orphans(store: Store, clock: Clock, group: str, member: str) -> None:
    """Deletes the member's owners, its view and its registration, each only while it is this member's.

    Blocks for some requests; never raises for what the world does: what is left is logged.
    """
    try:
        with Blocking(store, timeout_s=CLEAR_TIMEOUT_S, clock=clock) as zk:
            _OrphanCleanup(zk, group, member).run()
    except ZkGroupError as error:
        log.warning("%s: what it owned stays until the session of the shared client ends: %s", member, error)


class _OrphanCleanup:
    def __init__(self, zk: Blocking, group: str, member: str) -> None:
        self._zk = zk
        self._group = group
        self._member = member
        self._session_id = zk.wait_connected().session_id

    def run(self) -> None:
        path = Registration.path(self._group, self._member)
        registration = self._zk.find(path)
        if registration is None or registration.stat.ephemeral_owner != self._session_id:
            return  # nothing of this session is this member's; a former session takes its own away
        here = Check(path, registration.stat.version)
        held = self._held()
        for start in range(0, len(held), RELEASED_AT_ONCE):
            self._release(here, held[start : start + RELEASED_AT_ONCE])
        view = self._zk.find(View.path(self._group, self._member))
        mine = [view] if view is not None and view.stat.ephemeral_owner == self._session_id else []
        self._zk.multi(
            here, *(Delete(one.path, one.stat.version) for one in mine), Delete(path, here.version)
        )

    def _held(self) -> list[_OwnedZnode]:
        """What is this member's; offsets are read before owners, so no successor's is taken for ours."""
        parent = owners_path(self._group)
        topics = self._zk.list_many([parent])[parent] or ()
        listed = self._zk.list_many([owners_topic_path(self._group, topic) for topic in topics])
        partitions = [
            TopicPartition(topic, number)
            for topic in topics
            for name in listed[owners_topic_path(self._group, topic)] or ()
            if (number := number_of(name)) is not None
        ]
        offsets = self._zk.read_many([Offset.path(self._group, tp) for tp in partitions])
        owners = self._zk.read_many([Owner.path(self._group, tp) for tp in partitions])
        found = []
        for tp in partitions:
            offset, owner = offsets[Offset.path(self._group, tp)], owners[Owner.path(self._group, tp)]
            if offset is not None and owner is not None and self._is_mine(owner):
                found.append(_OwnedZnode(offset, owner))
        return found

    def _is_mine(self, owner: Znode) -> bool:
        try:
            member, _ = split_thread_id((owner.data or b"").decode())
        except ValueError:
            return False
        return member == self._member and owner.stat.ephemeral_owner == self._session_id

    def _release(self, here: Check, held: Sequence[_OwnedZnode]) -> None:
        """One transaction, again without those that have changed since they were read: not ours any more."""
        while held:
            operations = [
                operation
                for one in held
                for operation in (
                    Check(one.offset.path, one.offset.stat.version),
                    Delete(one.owner.path, one.owner.stat.version),
                )
            ]
            try:
                self._zk.multi(here, *operations)
            except OperationRefusedError as error:
                if error.path == here.path:
                    raise
                held = [one for one in held if error.path not in (one.offset.path, one.owner.path)]
            else:
                return
