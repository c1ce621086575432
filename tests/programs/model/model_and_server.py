"""The model's tree and a memory server, changed by the same transactions.

Members, sessions and transaction ids of one are translated to those of the other, so that the production
machine's requests and beliefs can be compared with the model's.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from tests.programs.model.static_members import AWAY, KEPT, NOTHING
from tests.programs.model.values import Configuration, Node, Op, State, initial
from tests.programs.model.zookeeper import multi
from zkgroup.model import StaticSubscription, TopicPartition
from zkgroup.model.requests import Check, Create, Delete, MultiDone, Operation, SetData
from zkgroup.testing import FakeClock, MemoryZooKeeper
from zkgroup.testing.memory_zookeeper.client import MemoryClient
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import (
    FEATURES,
    FEATURES_KEY,
    Offset,
    Owner,
    Registration,
    ids_path,
    offsets_topic_path,
    owners_path,
    owners_topic_path,
    resets_path,
    views_path,
)
from zkgroup.znodes.group_records import Freeze, Reset, StaticMember, StoredAssignment
from zkgroup.znodes.ids import split_thread_id, thread_id

GROUP, TOPIC, OTHER_TOPIC = "g", "t", "unwanted"
_KINDS = {Create: "create", SetData: "set", Delete: "delete", Check: "check"}


def tp(p: int) -> TopicPartition:
    return TopicPartition(TOPIC, p)


def member_id(m: int) -> str:
    return f"{GROUP}_m{m}"


@functools.cache
def registration(wants: int) -> bytes:
    topic = TOPIC if wants else OTHER_TOPIC
    extensions = {
        "zkgroup": "",
        "strategy": "sticky",
        "exclude_internal": "true",
        FEATURES_KEY: " ".join(FEATURES),
    }
    return Registration.of(StaticSubscription({topic: 1}), 0, extensions).encode()


class ModelAndServer:
    """Both trees. `s` is the model's state, `server` the memory server, in direct mode."""

    def __init__(self, cfg: Configuration) -> None:
        self.cfg = cfg
        self.s: State = initial(cfg)
        self.server = MemoryZooKeeper(FakeClock())
        self.clients: list[MemoryClient] = [self.server.client(f"c{c}") for c in range(cfg.clients_count)]
        self.inputs = ""
        """Digest of what plans are computed from."""
        self.paths = self._all_paths()
        self.places = {path: place for place, path in self.paths.items()}
        for path in (owners_topic_path(GROUP, TOPIC), offsets_topic_path(GROUP, TOPIC)):
            self.server.put(path)
        for path in (ids_path(GROUP), resets_path(GROUP), views_path(GROUP)):
            self.server.put(path)
        self.server.put(Topic.path(TOPIC), Topic(dict.fromkeys(cfg.parts, (0,))).encode())
        self.server.put(Topic.path(OTHER_TOPIC), Topic({0: (0,)}).encode())
        ids = self.server.find(ids_path(GROUP))
        assert ids is not None
        self.zxids = {0: 0, self.s.tree.czxid: ids.stat.czxid}
        """Transactions of the model, each with the server's."""

    def _all_paths(self) -> dict[tuple[str, int], str]:
        paths = {("ids", m): Registration.path(GROUP, member_id(m)) for m in range(self.cfg.members)}
        for p in self.cfg.parts:
            paths["owner", p] = Owner.path(GROUP, tp(p))
            paths["offset", p] = Offset.path(GROUP, tp(p))
            paths["marker", p] = Reset.path(GROUP, tp(p))
        paths["root", 0] = owners_path(GROUP)
        paths["frozen", 0] = Freeze.path(GROUP)
        for m in self.cfg.static:
            paths["static", m] = StaticMember.path(GROUP, member_id(m))
        paths["plan", 0] = StoredAssignment.path(GROUP)
        return paths

    def act(self, ops: Sequence[Op], client: int | None = None) -> bool:
        """Executes a transaction of another client in both worlds; False where both refuse it alike."""
        session = None if client is None else (client, self.s.clients[client].serial)
        tree, refusal = multi(self.cfg, self.s.tree, self.s.zxid, session, ops)
        session_id = 0 if client is None else self.session_id(client)
        done = self.server.write(*map(self.operation, ops), session_id=session_id)
        if not isinstance(done, MultiDone):
            assert refusal == (done.index, done.code.value)
            return False
        assert refusal is None
        self.moved(self.s._replace(tree=tree, zxid=self.s.zxid + 1))
        return True

    def repeat(self, ops: Sequence[Op], client: int) -> None:
        """Repeats in the model's tree the transaction that the server has just accepted."""
        session = (client, self.s.clients[client].serial)
        tree, refusal = multi(self.cfg, self.s.tree, self.s.zxid, session, ops)
        assert refusal is None
        self.moved(self.s._replace(tree=tree, zxid=self.s.zxid + 1))

    def moved(self, after: State) -> None:
        """Takes a step of the model; the server has taken it already."""
        if after.zxid != self.s.zxid:
            self.zxids[self.s.zxid] = self.server.log[-1].zxid
        self.s = after

    def session_id(self, client: int) -> int:
        session = self.clients[client].session
        assert session is not None
        return session.session_id

    def operation(self, op: Op) -> Operation:
        """A model's operation as an operation of the server."""
        path = self.paths[op.where, op.key]
        match op.kind:
            case "create":
                return Create(path, self._bytes(op.where, op.data), ephemeral=op.ephemeral)
            case "set":
                return SetData(path, self._bytes(op.where, op.data), op.version)
            case "delete":
                return Delete(path, op.version)
            case "check":
                return Check(path, op.version)

    def _bytes(self, where: str, data: Any) -> bytes:
        match where:
            case "ids":
                return registration(data)
            case "owner":
                return Owner(thread_id(member_id(data), 0)).encode()
            case "offset":
                return Offset(data).encode()
            case "root":
                return b""
            case "frozen":
                return Freeze(reason="", by="", for_ms=1, allows_takeover=data == "takeover").encode()
            case "marker":
                return Reset(data, 0, "operator").encode()
            case _:
                generation, row = data
                owners = {tp(p): thread_id(member_id(m), 0) for p, m in enumerate(row) if m is not None}
                return StoredAssignment(self.zxids[generation], self.inputs, owners).encode()

    def op(self, operation: Operation) -> Op:
        """An operation of the machine as one of the model."""
        where, key = self.places[operation.path]
        data = getattr(operation, "data", None)
        return Op(
            kind=_KINDS[type(operation)],
            where=where,
            key=key,
            data=None if data is None else self._value(where, operation.path, data),
            version=getattr(operation, "version", -1),
            ephemeral=getattr(operation, "ephemeral", False),
        )

    def _value(self, where: str, path: str, data: bytes) -> Any:
        match where:
            case "ids":
                wanted = Registration.decode(path, data).wanted()
                assert isinstance(wanted, StaticSubscription)
                return int(TOPIC in wanted.topics)
            case "owner":
                return self.member_of(Owner.decode(path, data).thread_id)
            case "offset":
                return Offset.decode(path, data).value
            case "root":
                return None
            case "frozen":
                return "takeover" if Freeze.decode(path, data).allows_takeover else "frozen"
            case "marker":
                return Reset.decode(path, data).offset
            case "static" if data == StaticMember.NOTHING:
                return (NOTHING, 0)
            case "static":
                kept = StaticMember.decode(path, data)
                return (AWAY if kept.is_away else KEPT, int(TOPIC in kept.registration.subscription))
            case _:
                plan = StoredAssignment.decode(path, data)
                numbers = {real: zxid for zxid, real in self.zxids.items()}
                row = tuple(self.member_of(plan.owners[tp(p)]) for p in self.cfg.parts)
                return numbers[plan.generation], row

    def member_of(self, thread: str) -> int:
        return int(split_thread_id(thread)[0].removeprefix(member_id(0)[:-1]))

    def assert_same_trees(self) -> None:
        """Compares every znode: data, version, both transactions and the session; and the Stat of `ids`."""
        for (where, key), path in self.paths.items():
            self._assert_same(self.s.tree.nodes[self.cfg.at(where, key)], where, path)
        ids = self.server.find(ids_path(GROUP))
        assert ids is not None
        tree = self.s.tree
        found = (ids.stat.czxid, ids.stat.cversion, ids.stat.pzxid)
        assert found == (self.zxids[tree.czxid], tree.cversion, self.zxids[tree.pzxid])

    def _assert_same(self, node: Node | None, where: str, path: str) -> None:
        found = self.server.find(path)
        if node is None or found is None:
            assert (node, found) == (None, None), path
            return
        if where == "root":  # a parent, which is older than the model's time
            assert found.stat.version == node.version
            return
        session = 0 if node.session is None else self.session_id(node.session[0])
        stat = found.stat
        assert self._value(where, path, found.data or b"") == node.data, path
        expected = (node.version, self.zxids[node.czxid], self.zxids[node.mzxid], session)
        assert (stat.version, stat.czxid, stat.mzxid, stat.ephemeral_owner) == expected, path
