"""Deletes the znodes of a member on a shared client that ended without its machine (a crash, a stuck close).

A member with a client of its own ends its session, and all its ephemerals with it. A shared session goes on
for the other members, and so would the owner znodes: no member could claim the partitions. The machine may
have failed, so everything is read anew, and each delete is checked (releases, recipes 1 and 7). Nothing is
committed; the next owner continues from the last commit.
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
"""Seconds for each request. Znodes that are left after that end with the session of the shared client."""
RELEASED_AT_ONCE = 200


class _OwnedZnode(NamedTuple):
    offset: Znode
    owner: Znode


def remove_orphans(store: Store, clock: Clock, group: str, member: str) -> None:
    """Deletes the member's owners, its view and its registration, each only while it is this member's.

    Blocks for some requests. Never raises for a fault of the server or the network: it logs the rest.
    """
    try:
        with Blocking(store, timeout_s=CLEAR_TIMEOUT_S, clock=clock) as zk:
            _OrphanCleanup(zk, group, member).run()
    except ZkGroupError as error:
        log.warning("%s: its znodes stay until the session of the shared client ends: %s", member, error)


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
            return  # this session has no znodes of this member; a former session deletes its own
        here = Check(path, registration.stat.version)
        owned = self._owned()
        for start in range(0, len(owned), RELEASED_AT_ONCE):
            self._release(here, owned[start : start + RELEASED_AT_ONCE])
        view = self._zk.find(View.path(self._group, self._member))
        mine = [view] if view is not None and view.stat.ephemeral_owner == self._session_id else []
        self._zk.multi(
            here, *(Delete(one.path, one.stat.version) for one in mine), Delete(path, here.version)
        )

    def _owned(self) -> list[_OwnedZnode]:
        """The member's owner znodes. Offsets are read first, so that no successor's offset is used."""
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

    def _release(self, here: Check, owned: Sequence[_OwnedZnode]) -> None:
        """Deletes in one transaction; repeats it without znodes that have changed since they were read."""
        while owned:
            operations = [
                operation
                for one in owned
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
                owned = [one for one in owned if error.path not in (one.offset.path, one.owner.path)]
            else:
                return
