"""Each violation of S23 to S34 in a group with a coordinator is found under the name of that invariant."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tests.simulation.coordinator.assignments import subscription_bytes
from tests.simulation.coordinator.history import check_coordinator
from zkgroup.history import Change, HistoryRecord, ServerTransaction, TransactionRefusal
from zkgroup.model import TopicPartition
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import ids_path, offset_path
from zkgroup.znodes.coordinated_groups import (
    GroupChunk,
    GroupHeader,
    OffsetAndMetadata,
    ProtocolMarker,
    SlotOwner,
    StoredMember,
    chunks_of,
)

P0 = TopicPartition("t", 0)
FIRST, SECOND, OPERATOR, CONSUMER = 11, 12, 0, 21


class CoordinatedHistory:
    """The log and the records of group `g`, which a test goes on with."""

    def __init__(self) -> None:
        self.log: list[ServerTransaction] = []
        self.records: list[HistoryRecord] = []
        self._times = itertools.count(1)

    def now(self) -> int:
        """The next moment."""
        return next(self._times)

    def write(self, session: int, *changes: Change, refused: str = "") -> None:
        refusal = TransactionRefusal(refused, "BadVersion") if refused else None
        now = self.now()
        self.log.append(ServerTransaction(now, now, session, changes, "write", refusal))

    def note(self, kind: str, **fields: object) -> None:
        now = self.now()
        self.records.append(HistoryRecord(now * 1_000_000, now, 1, "m", 0, kind, {"group": "g", **fields}))

    def fence(self, session: int) -> None:
        self.write(session, Change("set", SlotOwner.path(0), SlotOwner(1, 1).encode()))

    def store(
        self, session: int, generation: int, *, members: int = 1, marks: bool = True, checksum: int = 0
    ) -> None:
        header = GroupHeader(
            generation=generation,
            reserved_generation=100,
            protocol_type="consumer",
            protocol="range",
            leader="a",
            state_timestamp_ms=1,
            chunks=members,
            checksum=checksum,
        )
        marker = ProtocolMarker.path("g")
        changes = [Change("set", GroupHeader.path(0, "g"), header.encode())]
        if marks:
            changes.append(Change("create" if members else "delete", marker, b"{}" if members else None))
        self.write(session, *changes)

    def join(self, generation: int, owner: str, *kept: int, leads: bool = False) -> None:
        rows = [["t", number] for number in kept]
        self.note(
            "join.ok", generation=generation, owner=owner, member_id=f"{owner}-id", leads=leads, kept=rows
        )

    def take_in(self, generation: int, topic: str) -> None:
        """Stores a generation of one member that subscribes to a topic."""
        member = StoredMember(
            member_id="a-id",
            group_instance_id=None,
            client_id="a",
            client_host="/h",
            session_timeout_ms=1,
            rebalance_timeout_ms=1,
            protocols=(("range", subscription_bytes(topic)),),
            assignment=b"",
        )
        (chunk,), checksum = chunks_of([member])
        path = GroupChunk.path(0, "g", generation, 0)
        self.write(FIRST, Change("create", path, chunk.encode()))
        self.store(FIRST, generation, marks=False, checksum=checksum)

    def delete(self, session: int, *paths: str) -> None:
        self.write(session, *(Change("delete", path) for path in paths))

    def begin(self, generation: int) -> None:
        self.note("generation.began", generation=generation)

    def sync(self, generation: int, owner: str, *partitions: int) -> None:
        rows = [["t", number] for number in partitions]
        self.note("sync.ok", generation=generation, owner=owner, partitions=rows)

    def set_offset(self, session: int, number: str, offset: int) -> None:
        """What the commit of this number stores."""
        metadata = OffsetAndMetadata(
            offset=offset,
            leader_epoch=-1,
            metadata=number,
            commit_timestamp_ms=1,
            expire_timestamp_ms=None,
        )
        self.write(
            session,
            Change("set", offset_path("g", P0), b"%d" % offset),
            Change("set", OffsetAndMetadata.path(0, "g", P0), metadata.encode()),
        )

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
        self.note("commit.sent", commit=number, generation=generation, owner=owner, member_id=f"{owner}-id")
        if is_stored:
            self.set_offset(session, number, offset)
        self.note("commit.ok", commit=number, partitions=[["t", 0]])

    def replace_topic(self) -> None:
        """Deletes the topic, and creates it again."""
        self.delete(OPERATOR, Topic.path("t"))
        self.write(OPERATOR, Change("create", Topic.path("t"), b""))

    def fetch(self, number: str) -> None:
        """A client gets what this commit has stored."""
        self.note("fetch.ok", since_ms=self.now(), offsets=[["t", 0, number]])

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
    history.write(FIRST, Change("delete", offset_path("g", P0)), Change("delete", GroupHeader.path(0, "g")))
    history.begin(1)
    history.join(1, "c", leads=True)
    history.sync(1, "c", 0, 1)

    assert history.broken() == set()


def test_a_cooperative_member_keeps_its_partition_until_it_is_revoked() -> None:
    """The next generation assigns it to nobody, the one after it to the other member."""
    history = good()
    history.begin(2)
    history.join(2, "a", 0, leads=True)
    history.join(2, "b", 1)
    history.sync(2, "a", 0)
    history.sync(2, "b")
    history.begin(3)
    history.join(3, "a", 0, leads=True)
    history.join(3, "b")
    history.sync(3, "a", 0, 1)
    history.sync(3, "b")

    report = check_coordinator(history.log, history.records)

    assert report.holds, report.violations
    assert report.figures["partitions kept"] == 3


def test_members_commit_in_a_generation_that_ends_before_it_is_stored() -> None:
    """Another client joined before the assignment: Kafka takes commits until that rebalance is over."""
    history = good()
    history.begin(2)
    history.commit(FIRST, "a.3", 2, 6)
    assert history.broken() == set()

    history.begin(3)
    history.store(FIRST, 3, marks=False)
    history.commit(FIRST, "a.4", 2, 7)
    assert history.broken() == {"S25"}


def test_a_member_no_longer_owns_what_a_generation_without_it_gave_away() -> None:
    """It joins again as if it had it, and the other member goes on with it."""
    history = good()
    history.begin(2)
    history.join(2, "b", 1, leads=True)
    history.sync(2, "b", 0, 1)
    history.begin(3)
    history.join(3, "a", 0)
    history.join(3, "b", 0, 1, leads=True)
    history.sync(3, "b", 0, 1)

    assert history.broken() == set()


def test_offsets_are_deleted_under_members_that_have_left() -> None:
    """The coordinator knows that they have left before the generation without them is stored."""
    history = good()
    history.take_in(2, "t")
    history.delete(FIRST, offset_path("g", P0))
    history.store(FIRST, 3, members=0)

    assert history.broken() == set()


def test_administration_of_a_group_without_members_holds() -> None:
    """Also a removed static member whose commits the next coordinator stores, as it has not learnt of it."""
    history = good()
    history.store(FIRST, 2, members=0)
    history.write(OPERATOR, Change("set", offset_path("g", P0), b"1"))
    history.note("static.removing", owner="a", request="1")
    history.note("static.removed", owner="a", request="1")
    history.fence(SECOND)
    history.store(SECOND, 101)
    history.commit(SECOND, "a.3", 101, 2)
    history.store(SECOND, 102, members=0)
    before = history.now()
    history.delete(SECOND, offset_path("g", P0), GroupHeader.path(0, "g"))
    history.note("offsets.deleted", since_ms=before, partitions=[["t", 0]])
    history.note("group.deleted", since_ms=before)

    assert history.broken() == set()


def given_twice(history: CoordinatedHistory) -> None:
    history.begin(1)


def given_by_nobody(history: CoordinatedHistory) -> None:
    history.join(2, "a")


def two_leaders(history: CoordinatedHistory) -> None:
    history.join(1, "b", leads=True)


def shared_partition(history: CoordinatedHistory) -> None:
    history.sync(1, "b", 0)


def kept_and_assigned(history: CoordinatedHistory) -> None:
    history.begin(2)
    history.join(2, "a", 0, leads=True)
    history.join(2, "b", 1)
    history.sync(2, "b", 0)


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


def goes_back_within_a_generation(history: CoordinatedHistory) -> None:
    history.commit(FIRST, "b.1", 1, 3, owner="b")


def consumer_goes_back(history: CoordinatedHistory) -> None:
    history.store(FIRST, 101, members=0)
    history.write(CONSUMER, Change("set", offset_path("g", P0), b"3"))


def acknowledged_only(history: CoordinatedHistory) -> None:
    history.commit(FIRST, "a.3", 1, 9, is_stored=False)


def removed_with_members(history: CoordinatedHistory) -> None:
    history.delete(FIRST, offset_path("g", P0), ProtocolMarker.path("g"), GroupHeader.path(0, "g"))


def removed_without_its_offset(history: CoordinatedHistory) -> None:
    history.store(FIRST, 2, members=0)
    history.delete(FIRST, GroupHeader.path(0, "g"))


def removed_without_its_marker(history: CoordinatedHistory) -> None:
    history.store(FIRST, 2, members=0)
    history.write(FIRST, Change("create", ProtocolMarker.path("g"), b"{}"))
    history.delete(FIRST, offset_path("g", P0), GroupHeader.path(0, "g"))


def deletion_acknowledged_only(history: CoordinatedHistory) -> None:
    history.note("group.deleted", since_ms=history.now())


def commit_of_a_former_group(history: CoordinatedHistory) -> None:
    history.note("commit.sent", commit="a.9", generation=1, owner="a")
    history.store(FIRST, 2, members=0)
    history.delete(FIRST, offset_path("g", P0), GroupHeader.path(0, "g"))
    history.store(FIRST, 1)
    history.begin(1)
    history.set_offset(FIRST, "a.9", 8)


def subscribed_offset_deleted(history: CoordinatedHistory) -> None:
    """Its member commits once more."""
    history.take_in(2, "t")
    history.delete(FIRST, offset_path("g", P0))
    history.commit(FIRST, "a.3", 2, 9)


def subscribed_offset_deleted_before_a_rebalance(history: CoordinatedHistory) -> None:
    """Its member is one of the next generation."""
    history.take_in(2, "t")
    history.delete(FIRST, offset_path("g", P0))
    history.take_in(3, "t")


def offset_deleted_beside_consumers(history: CoordinatedHistory) -> None:
    history.store(FIRST, 2, members=0)
    history.write(CONSUMER, Change("create", f"{ids_path('g')}/z", b"{}"))
    history.delete(FIRST, offset_path("g", P0))


def offset_deletion_acknowledged_only(history: CoordinatedHistory) -> None:
    history.note("offsets.deleted", since_ms=history.now(), partitions=[["t", 0]])


def operator_beside_members(history: CoordinatedHistory) -> None:
    history.write(OPERATOR, Change("set", offset_path("g", P0), b"1"))


def commit_over_an_operators_change(history: CoordinatedHistory) -> None:
    history.note("commit.sent", commit="a.9", generation=2, owner="a")
    history.store(FIRST, 2, members=0)
    history.write(OPERATOR, Change("set", offset_path("g", P0), b"1"))
    history.store(FIRST, 2)
    history.set_offset(FIRST, "a.9", 8)


def commit_of_a_removed_member(history: CoordinatedHistory) -> None:
    history.note("static.removing", owner="a", request="1")
    history.note("static.removed", owner="a", request="1")
    history.commit(FIRST, "a.3", 1, 9)


def former_topic_fetched(history: CoordinatedHistory) -> None:
    history.replace_topic()
    history.fetch("a.2")


@pytest.mark.parametrize(
    ("mistake", "rule"),
    [
        (given_twice, "S23"),
        (given_by_nobody, "S23"),
        (two_leaders, "S23"),
        (shared_partition, "S24"),
        (kept_and_assigned, "S24"),
        (late_commit, "S25"),
        (commit_before_its_generation, "S25"),
        (outside_beside_members, "S25"),
        (deposed_coordinator_commits, "S26"),
        (deposed_coordinator_stores, "S26"),
        (consumer_beside_members, "S27"),
        (members_without_a_marker, "S27"),
        (goes_back, "S28"),
        (goes_back_within_a_generation, "S28"),
        (consumer_goes_back, "S28"),
        (acknowledged_only, "S29"),
        (removed_with_members, "S30"),
        (removed_without_its_offset, "S30"),
        (removed_without_its_marker, "S30"),
        (deletion_acknowledged_only, "S30"),
        (commit_of_a_former_group, "S30"),
        (subscribed_offset_deleted, "S31"),
        (subscribed_offset_deleted_before_a_rebalance, "S31"),
        (offset_deleted_beside_consumers, "S31"),
        (offset_deletion_acknowledged_only, "S31"),
        (operator_beside_members, "S32"),
        (commit_over_an_operators_change, "S32"),
        (commit_of_a_removed_member, "S33"),
        (former_topic_fetched, "S34"),
    ],
)
def test_each_violation_has_its_name(mistake: Callable[[CoordinatedHistory], None], rule: str) -> None:
    """One mistake at the end of a good history."""
    history = good()
    assert history.broken() == set()

    mistake(history)

    assert history.broken() == {rule}


@pytest.mark.parametrize(("kept", "broken"), [((0,), set[str]()), ((), {"S28"})])
def test_a_member_that_missed_a_generation_commits_what_it_kept(
    kept: tuple[int, ...], broken: set[str]
) -> None:
    """S28: it claims the partition until it is told otherwise, and no protocol refuses its commit."""
    history = good()
    history.begin(2)
    history.join(2, "b", leads=True)
    history.store(FIRST, 2, marks=False)
    history.sync(2, "b", 0)
    history.commit(FIRST, "b.1", 2, 9, owner="b")
    history.begin(3)
    history.join(3, "a", *kept, leads=True)
    history.store(FIRST, 3, marks=False)
    history.commit(FIRST, "a.3", 3, 5)

    assert history.broken() == broken


def test_members_lose_the_offsets_of_a_deleted_topic() -> None:
    """S28, S31, S34: they are deleted under members; the next ones may be lower, and are served."""
    history = good()
    history.begin(2)
    history.take_in(2, "t")
    history.commit(FIRST, "a.8", 2, 6)
    history.replace_topic()
    history.delete(FIRST, offset_path("g", P0))
    history.commit(FIRST, "a.9", 2, 0)
    history.fetch("a.9")

    assert history.broken() == set()
