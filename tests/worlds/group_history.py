"""`GroupHistory`: a group that follows the protocol, with the server's log and the members' records.

Tests change one event of it, so that one invariant is violated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zkgroup.assignment import assign
from zkgroup.assignment.strategies import inputs_digest, result_digest
from zkgroup.history import (
    Change,
    CheckOptions,
    HistoryRecord,
    Report,
    ServerTransaction,
    TransactionRefusal,
    check_history,
)
from zkgroup.model import EvaluatedMember, StaticSubscription, TopicPartition
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import Offset, Owner, Registration
from zkgroup.znodes.group_records import Reset

GROUP = "g"
TOPIC = "t"

SERVER = {"S1", "S2", "S3", "S4", "S6", "S22"}
RECORDS = {"S1", "S2", "S3", "S4", "S5", "S7", "S8", "S9", "S10"}
"""Safety invariants that the log, and that the records decide."""
AT_REST = {"L1", "L2", "L3", "L4"}
"""Liveness invariants."""


def broken(report: Report) -> set[str]:
    """The violated invariants of a report."""
    return {violation.invariant for violation in report.violations}


def tp(number: int) -> TopicPartition:
    return TopicPartition(TOPIC, number)


class GroupHistory:
    """One group on one topic. Sessions are numbers; member `g_a` is called `a`."""

    def __init__(self, partitions: int = 4) -> None:
        self.zxid = 100
        self.ms = 1_000
        self.records: list[HistoryRecord] = []
        self.transactions: list[ServerTransaction] = []
        self.versions: dict[TopicPartition, int] = {}
        self.values: dict[TopicPartition, int] = {}
        self.tokens: dict[TopicPartition, int] = {}
        self.sessions: dict[str, int] = {}
        self._seq = 0
        self._partitions = {TOPIC: list(range(partitions))}
        self.write(
            0, Change("create", Topic.path(TOPIC), Topic(dict.fromkeys(range(partitions), (0,))).encode(), 0)
        )

    def write(
        self, session: int, *changes: Change, refused: TransactionRefusal | None = None, kind: Any = "write"
    ) -> int:
        """Adds a transaction to the server's log; returns its zxid."""
        self.zxid += 1
        self.ms += 1
        self.transactions.append(ServerTransaction(self.zxid, self.ms, session, changes, kind, refused))
        return self.zxid

    def note(self, name: str, kind: str, **fields: Any) -> None:
        """Adds a record of a member."""
        self._seq += 1
        session = self.sessions.get(name)
        self.records.append(
            HistoryRecord(self.ms * 1_000_000, self._seq, 1, f"g_{name}", session, kind, fields)
        )

    def check(self, *, server: bool = True, **options: Any) -> Report:
        transactions = self.transactions if server else ()
        return check_history(self.records, transactions, CheckOptions(**options))

    def register(self, name: str, session: int, *, is_jvm: bool = False, threads: int = 1) -> None:
        extensions = {} if is_jvm else {"zkgroup": "1", "strategy": "range"}
        registration = Registration.of(StaticSubscription({TOPIC: threads}), 1, extensions)
        path = Registration.path(GROUP, f"g_{name}")
        zxid = self.write(session, Change("create", path, registration.encode(), 0, session))
        self.sessions[name] = session
        if not is_jvm:
            self.note(name, "registered", czxid=zxid)
            self.renew(name)

    def renew(self, name: str, *, until_ms: int | None = None) -> None:
        self.note(name, "lease.renew", sent_ms=self.ms, until_ms=until_ms or self.ms + 3_000)

    def guard(self, name: str) -> Change:
        return Change("check", Registration.path(GROUP, f"g_{name}"))

    def claim(
        self, name: str, *partitions: int, bump: bool = True, recorded: bool = True, **broken: Any
    ) -> int:
        """A claim, as in recipes.md 5, and its records; `broken` replaces parts of the changes."""
        session = broken.get("session", self.sessions.get(name, 0))
        changes = [self.guard(name)]
        for number in partitions:
            owner = Owner(f"g_{name}-0").encode()
            changes += [
                Change(
                    "create", Owner.path(GROUP, tp(number)), owner, 0, broken.get("ephemeral_owner", session)
                ),
                Change("set", Owner.path(GROUP, tp(number)), owner, 1),
            ]
            if bump:
                changes.append(self._offset(number, self.values.get(tp(number), -1)))
        zxid = self.write(session, *changes)
        grants = [
            self._row(number, offset=self.values.get(tp(number), -1), token=zxid, thread=0)
            for number in partitions
        ]
        self.tokens.update({tp(number): zxid for number in partitions})
        if recorded:
            self.note(name, "claim.invoke", id=zxid, partitions=grants)
            self.note(name, "claim.ok", id=zxid, zxid=zxid, grants=grants)
            for grant in grants:
                self.note(name, "own.begin", **{key: grant[key] for key in grant if key != "thread"})
        return zxid

    def _offset(self, number: int, value: int) -> Change:
        path, exists = Offset.path(GROUP, tp(number)), tp(number) in self.versions
        self.versions[tp(number)] = self.versions.get(tp(number), -1) + 1
        self.values[tp(number)] = value
        return Change("set" if exists else "create", path, str(value).encode(), self.versions[tp(number)])

    def _row(self, number: int, **more: Any) -> dict[str, Any]:
        return {"topic": TOPIC, "partition": number, "version": self.versions.get(tp(number)), **more}

    def commit(
        self,
        name: str,
        number: int,
        value: int,
        *,
        token: int | None = None,
        outcome: str = "ok",
        rewind: bool = False,
    ) -> None:
        """An accepted commit, with its records."""
        session = self.sessions[name]
        token = token or self.tokens[tp(number)]
        invoked = {
            "topic": TOPIC,
            "partition": number,
            "offset": value,
            "fence": self.versions[tp(number)],
            "token": token,
        }
        if rewind:
            invoked["rewind"] = True
        self.note(name, "commit.invoke", id=self.zxid, offsets=[invoked])
        commit_id = self.zxid
        zxid = self.write(
            session,
            self.guard(name),
            Change("check", Owner.path(GROUP, tp(number))),
            self._offset(number, value),
        )
        if outcome == "ok":
            self.note(
                name,
                "commit.ok",
                id=commit_id,
                zxid=zxid,
                offsets=[self._row(number, offset=value, token=token)],
            )
        else:
            self.note(
                name,
                f"commit.{outcome}",
                id=commit_id,
                partitions=[{"topic": TOPIC, "partition": number}],
                reason="x",
            )

    def refused_commit(self, name: str, number: int) -> None:
        """A commit that the fence refused."""
        commit_id, fence = self.zxid, self.versions[tp(number)]
        row = {"topic": TOPIC, "partition": number, "offset": 1, "fence": fence, "token": None}
        self.note(name, "commit.invoke", id=commit_id, offsets=[row])
        path = Offset.path(GROUP, tp(number))
        changes = (
            self.guard(name),
            Change("check", Owner.path(GROUP, tp(number))),
            Change("set", path, b"1"),
        )
        self.write(self.sessions[name], *changes, refused=TransactionRefusal(path, "BadVersion"))
        self.note(
            name,
            "commit.fail",
            id=commit_id,
            partitions=[{"topic": TOPIC, "partition": number}],
            reason="BadVersion",
        )

    def release(self, name: str, *partitions: int, value: int | None = None) -> None:
        for number in partitions:
            offset, token = self.values[tp(number)] if value is None else value, self.tokens[tp(number)]
            row = self._row(number, offset=offset, token=token)
            row["version"] += 1
            self.note(name, "own.end", topic=TOPIC, partition=number, token=token, reason="rebalance")
            self.note(name, "release.invoke", id=self.zxid + 1, partitions=[row])
            zxid = self.write(
                self.sessions[name],
                self.guard(name),
                self._offset(number, offset),
                Change("delete", Owner.path(GROUP, tp(number))),
            )
            self.note(name, "release.ok", id=zxid, zxid=zxid, partitions=[row])

    def end_session(self, name: str, *partitions: int, recorded: bool = True) -> None:
        """The server ends the session, and deletes the registration and the owners."""
        paths = [Owner.path(GROUP, tp(number)) for number in partitions]
        changes = [Change("delete", path) for path in [*paths, Registration.path(GROUP, f"g_{name}")]]
        self.write(self.sessions[name], *changes, kind="close_session")
        for number in partitions if recorded else ():
            self.note(
                name, "own.end", topic=TOPIC, partition=number, token=self.tokens[tp(number)], reason="lost"
            )

    def work(self, name: str, number: int, offset: int) -> None:
        """Delivers a record, and commits the position after it."""
        self.deliver(name, number, offset)
        self.commit(name, number, offset + 1)

    def deliver(
        self, name: str, number: int, offset: int, *, token: int | None = None, ended: bool = True
    ) -> None:
        fields = {
            "topic": TOPIC,
            "partition": number,
            "offset": offset,
            "token": token or self.tokens[tp(number)],
        }
        self.note(name, "deliver.start", **fields, until_ms=self.ms + 1_000)
        if ended:
            self.ms += 1
            self.note(name, "deliver.end", **fields)

    def foreign_set(self, number: int, value: int, *, marker: bool = False) -> None:
        """A foreign write of an offset; with the marker it is a reset that owners apply."""
        changes = [self._offset(number, value)]
        if marker:
            path = Reset.path(GROUP, tp(number))
            changes.append(Change("create", path, Reset(value, 1, "me").encode(), 0))
        self.write(999, *changes)

    def rebalance(
        self, name: str, names: Sequence[str], mine: Sequence[int] | None = None, **broken: Any
    ) -> None:
        """Records a member's assignment and its result; `broken` replaces fields of either record."""
        members = [EvaluatedMember(f"g_{each}", {TOPIC: 1}) for each in names]
        owners = assign("range", members, self._partitions).owners
        view: Mapping[str, Any] = {
            "generation": self.zxid,
            "inputs": inputs_digest("range", members, self._partitions),
            "strategy": "range",
            "members": {each.member: dict(each.threads) for each in members},
            "partitions": self._partitions,
        }
        if mine is None:
            mine = [each.partition for each, thread in sorted(owners.items()) if thread == f"g_{name}-0"]
        end = {
            "generation": self.zxid,
            "result": result_digest(owners),
            "mine": [{"topic": TOPIC, "partition": number} for number in mine],
        }
        for kind, fields in (("rebalance.begin", view), ("rebalance.end", end)):
            self.note(name, kind, **{**fields, **{key: broken[key] for key in broken if key in fields}})


def good_history() -> GroupHistory:
    """Two members share four partitions; one ends, and the other takes its share; one commit is stale."""
    world = GroupHistory()
    world.register("a", 1)
    world.rebalance("a", ["a"])
    world.claim("a", 0, 1, 2, 3)
    for number in range(4):
        world.commit("a", number, 0)
        world.deliver("a", number, 0)
        world.commit("a", number, 1)
    world.register("b", 2)
    world.rebalance("b", ["a", "b"])
    world.release("a", 2, 3)
    world.rebalance("a", ["a", "b"])
    world.claim("b", 2, 3)
    world.work("b", 2, 1)
    world.end_session("a", 0, 1)
    world.refused_commit("a", 0)
    world.rebalance("b", ["b"])
    world.claim("b", 0, 1)
    world.work("b", 0, 1)
    return world
