"""Each violation of S23 to S29 in a group with a coordinator is found under the name of that invariant."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from zkgroup.history import Change, HistoryRecord, ServerTransaction, TransactionRefusal
from zkgroup.history.coordinator import check_coordinator
from zkgroup.model import TopicPartition
from zkgroup.znodes.consumers import ids_path, offset_path
from zkgroup.znodes.coordinated_groups import GroupHeader, OffsetMetadata, ProtocolMarker, SlotOwner

P0 = TopicPartition("t", 0)
FIRST, SECOND, OPERATOR, CONSUMER = 11, 12, 0, 21


class CoordinatedHistory:
    """The log and the records of group `g`, which a test goes on with."""

    def __init__(self) -> None:
        self.log: list[ServerTransaction] = []
        self.records: list[HistoryRecord] = []
        self._times = itertools.count(1)

    def write(self, session: int, *changes: Change, refused: str = "") -> None:
        refusal = TransactionRefusal(refused, "BadVersion") if refused else None
        now = next(self._times)
        self.log.append(ServerTransaction(now, now, session, changes, "write", refusal))

    def note(self, kind: str, **fields: object) -> None:
        now = next(self._times)
        self.records.append(HistoryRecord(now * 1_000_000, now, 1, "m", 0, kind, {"group": "g", **fields}))

    def fence(self, session: int) -> None:
        self.write(session, Change("set", SlotOwner.path(0), b"{}"))

    def store(self, session: int, generation: int, *, members: int = 1, marks: bool = True) -> None:
        header = GroupHeader(
            generation=generation,
            reserved_generation=100,
            protocol_type="consumer",
            protocol="range",
            leader="a",
            state_timestamp_ms=1,
            chunks=members,
        )
        marker = ProtocolMarker.path("g")
        changes = [Change("set", GroupHeader.path(0, "g"), header.encode())]
        if marks:
            changes.append(Change("create" if members else "delete", marker, b"{}" if members else None))
        self.write(session, *changes)

    def join(self, generation: int, owner: str, *, leads: bool = False) -> None:
        self.note("join.ok", generation=generation, owner=owner, leads=leads)

    def begin(self, generation: int) -> None:
        self.note("generation.began", generation=generation)

    def sync(self, generation: int, owner: str, *partitions: int) -> None:
        rows = [["t", number] for number in partitions]
        self.note("sync.ok", generation=generation, owner=owner, partitions=rows)

    def commit(
        self,
        session: int,
        number: str,
        generation: int,
        offset: int,
        *,
        owner: str = "a",
        is_stored: bool = True,
    ) -> None:
        self.note("commit.sent", commit=number, generation=generation, owner=owner)
        if is_stored:
            metadata = OffsetMetadata(
                offset=offset,
                leader_epoch=-1,
                metadata=number,
                commit_timestamp_ms=1,
                expire_timestamp_ms=None,
            )
            self.write(
                session,
                Change("set", offset_path("g", P0), b"%d" % offset),
                Change("set", OffsetMetadata.path(0, "g", P0), metadata.encode()),
            )
        self.note("commit.ok", commit=number, partitions=[["t", 0]])

    def broken(self) -> set[str]:
        return {each.invariant for each in check_coordinator(self.log, self.records).violations}


def good() -> CoordinatedHistory:
    """One generation of two members, with a commit of each."""
    history = CoordinatedHistory()
    history.fence(FIRST)
    history.begin(1)
    history.join(1, "a", leads=True)
    history.join(1, "b")
    history.store(FIRST, 1)
    history.sync(1, "a", 0)
    history.sync(1, "b", 1)
    history.commit(FIRST, "a.1", 1, 5)
    history.commit(FIRST, "a.2", 1, 4)  # a request that was overtaken
    return history


def test_a_history_without_mistakes_holds() -> None:
    """Also a failover, an empty group, and one of ZooKeeper consumers."""
    history = good()
    history.fence(SECOND)
    history.write(FIRST, Change("set", SlotOwner.path(0), b"{}"), refused=SlotOwner.path(0))
    history.commit(SECOND, "a.3", 1, 7)
    history.store(SECOND, 101, members=0)
    history.commit(SECOND, "out.1", -1, 2, owner="out")
    history.write(CONSUMER, Change("create", f"{ids_path('g')}/z", b"{}"))
    history.write(CONSUMER, Change("set", offset_path("g", P0), b"9"))

    report = check_coordinator(history.log, history.records)

    assert report.holds, report.violations
    assert report.figures["refused by the slot's check"] == 1
    assert report.figures["commits of members"] == 3


def test_a_group_that_was_removed_begins_again() -> None:
    """As in Kafka; its former members are unknown."""
    history = good()
    history.store(FIRST, 2, members=0)
    history.write(FIRST, Change("delete", GroupHeader.path(0, "g")))
    history.begin(1)
    history.join(1, "c", leads=True)
    history.sync(1, "c", 0, 1)

    assert history.broken() == set()


def given_twice(history: CoordinatedHistory) -> None:
    history.begin(1)


def given_by_nobody(history: CoordinatedHistory) -> None:
    history.join(2, "a")


def two_leaders(history: CoordinatedHistory) -> None:
    history.join(1, "b", leads=True)


def shared_partition(history: CoordinatedHistory) -> None:
    history.sync(1, "b", 0)


def late_commit(history: CoordinatedHistory) -> None:
    history.store(FIRST, 2, marks=False)
    history.commit(FIRST, "a.3", 1, 9)


def commit_before_its_generation(history: CoordinatedHistory) -> None:
    history.commit(FIRST, "a.3", 2, 9)


def outside_beside_members(history: CoordinatedHistory) -> None:
    history.commit(FIRST, "out.1", -1, 9, owner="out")


def deposed_coordinator_commits(history: CoordinatedHistory) -> None:
    history.fence(SECOND)
    history.commit(FIRST, "a.3", 1, 9)


def deposed_coordinator_stores(history: CoordinatedHistory) -> None:
    history.fence(OPERATOR)
    history.store(FIRST, 2, marks=False)


def consumer_beside_members(history: CoordinatedHistory) -> None:
    history.write(CONSUMER, Change("create", f"{ids_path('g')}/z", b"{}"))


def members_without_a_marker(history: CoordinatedHistory) -> None:
    history.write(FIRST, Change("delete", ProtocolMarker.path("g")))


def goes_back(history: CoordinatedHistory) -> None:
    history.store(FIRST, 2, marks=False)
    history.commit(FIRST, "b.1", 2, 3, owner="b")


def consumer_goes_back(history: CoordinatedHistory) -> None:
    history.store(FIRST, 101, members=0)
    history.write(CONSUMER, Change("set", offset_path("g", P0), b"3"))


def acknowledged_only(history: CoordinatedHistory) -> None:
    history.commit(FIRST, "a.3", 1, 9, is_stored=False)


@pytest.mark.parametrize(
    ("mistake", "rule"),
    [
        (given_twice, "S23"),
        (given_by_nobody, "S23"),
        (two_leaders, "S23"),
        (shared_partition, "S24"),
        (late_commit, "S25"),
        (commit_before_its_generation, "S25"),
        (outside_beside_members, "S25"),
        (deposed_coordinator_commits, "S26"),
        (deposed_coordinator_stores, "S26"),
        (consumer_beside_members, "S27"),
        (members_without_a_marker, "S27"),
        (goes_back, "S28"),
        (consumer_goes_back, "S28"),
        (acknowledged_only, "S29"),
    ],
)
def test_each_violation_has_its_name(mistake: Callable[[CoordinatedHistory], None], rule: str) -> None:
    """One mistake at the end of a good history."""
    history = good()
    assert history.broken() == set()

    mistake(history)

    assert history.broken() == {rule}
