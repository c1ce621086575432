"""What the demo reads of a group in ZooKeeper's log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.worlds.coordinated_groups import assignment_bytes
from zkgroup.demo.coordinator.stored_group import StoredHistory, check_generations_of_commits, read_history
from zkgroup.history import Change, ServerTransaction, TransactionRefusal
from zkgroup.model import TopicPartition
from zkgroup.znodes.consumers import Offset, Registration
from zkgroup.znodes.coordinated_groups import (
    GroupChunk,
    GroupHeader,
    OffsetAndMetadata,
    ProtocolMarker,
    SlotOwner,
    StoredMember,
    chunks_of,
)

SLOT = 3


def member(client: str, *partitions: int) -> StoredMember:
    """A member with these partitions of the topic `t`."""
    return StoredMember(
        member_id=f"{client}-1",
        group_instance_id=None,
        client_id=client,
        client_host="/h",
        session_timeout_ms=6_000,
        rebalance_timeout_ms=6_000,
        protocols=(),
        assignment=assignment_bytes([TopicPartition("t", number) for number in partitions]),
    )


def generation(number: int, *members: StoredMember) -> list[Change]:
    """The changes that store a generation, with the marker."""
    chunks, checksum = chunks_of(members)
    header = GroupHeader(
        generation=number,
        reserved_generation=100,
        protocol_type="consumer",
        protocol="range",
        leader=None,
        state_timestamp_ms=0,
        chunks=len(chunks),
        checksum=checksum,
    )
    paths = [GroupChunk.path(SLOT, "g", number, index) for index in range(len(chunks))]
    return [
        *(Change("create", path, chunk.data) for path, chunk in zip(paths, chunks, strict=True)),
        Change("set", GroupHeader.path(SLOT, "g"), header.encode()),
        Change("create", ProtocolMarker.path("g"), ProtocolMarker(1, 0).encode()),
    ]


def commit(offset: int, metadata: str | None = None) -> list[Change]:
    """The changes of a commit of partition 0; without metadata it is a ZooKeeper consumer's."""
    tp = TopicPartition("t", 0)
    offset_change = Change("set", Offset.path("g", tp), b"%d" % offset)
    if metadata is None:
        return [offset_change]
    stored = OffsetAndMetadata(offset=offset, leader_epoch=-1, metadata=metadata, commit_timestamp_ms=0)
    return [offset_change, Change("set", OffsetAndMetadata.path(SLOT, "g", tp), stored.encode())]


def log_of(*changes: Sequence[Change], refused: Mapping[int, str] | None = None) -> list[ServerTransaction]:
    """Transactions of one session."""
    return [
        ServerTransaction(
            zxid,
            0,
            1,
            tuple(each),
            refusal=TransactionRefusal("", code) if (code := (refused or {}).get(zxid)) else None,
        )
        for zxid, each in enumerate(changes, 1)
    ]


def history(*changes: Sequence[Change], refused: Mapping[int, str] | None = None) -> StoredHistory:
    """The history of a log with these transactions."""
    log = log_of(*changes, refused=refused)
    return read_history(log, "g", SLOT, "t")


def test_generations_have_their_owners_by_client_id() -> None:
    """A generation without members, as of an empty group, is none."""
    found = history(generation(1, member("a", 0, 1), member("b", 1)), generation(2))

    assert [(one.generation, dict(one.owners)) for one in found.generations] == [
        (1, {0: ("a",), 1: ("a", "b")})
    ]


def test_commits_have_client_token_and_the_owners_at_that_time() -> None:
    """confluent-kafka's metadata ends with a zero byte; Java's console consumer sends none."""
    found = history(
        generation(1, member("a", 0)),
        commit(5, "a 17"),
        generation(2, member("b", 0)),
        commit(6, "b 18\0"),
        commit(7, ""),
        commit(8),
    )

    assert [(one.offset, one.client, one.token, one.owners) for one in found.commits] == [
        (5, "a", 17, ("a",)),
        (6, "b", 18, ("b",)),
        (7, "", 0, ("b",)),
        (8, None, 0, ("b",)),
    ]


def test_refused_transactions_are_left_out() -> None:
    """A commit of a former coordinator, for example."""
    found = history(generation(1, member("a", 0)), commit(5, "a 17"), refused={2: "BadVersion"})

    assert found.commits == ()


def test_coordinators_are_those_that_fenced_the_slot() -> None:
    """Its znode is first created without data."""
    path = SlotOwner.path(SLOT)
    found = history(
        [Change("create", path)],
        [Change("set", path, SlotOwner(3, 0).encode())],
        [Change("set", path, SlotOwner(1, 1).encode())],
    )

    assert found.coordinators == (3, 1)


def test_both_kinds_of_members_at_once_are_found() -> None:
    """A registration while the marker is there; one after it was taken off is right."""
    registered = Change("create", Registration.path("g", "g_ada"), b"{}")
    gone = Change("delete", registered.path)
    taken_off = Change("delete", ProtocolMarker.path("g"))

    wrong = history(generation(1, member("a", 0)), [registered], [gone])
    right = history(generation(1, member("a", 0)), [taken_off], [registered])

    assert wrong.mixed == ("zxid 0x2: /consumers/g/ids/g_ada",)
    assert right.mixed == ()
    assert (wrong.registrations, right.registrations) == (1, 1)


def test_a_late_commit_of_an_assignment_is_found_by_the_checker() -> None:
    """Java's commits, which have no metadata, are left out."""
    slot = [Change("set", SlotOwner.path(SLOT), SlotOwner(1, 0).encode())]
    right = [slot, generation(1, member("a", 0)), commit(5, "a 17"), commit(7, "")]
    late = [*right, generation(2, member("b", 0)), commit(8, "a 17")]

    for changes, commits, violated in ((right, 1, []), (late, 2, ["S25"])):
        log = log_of(*changes)
        stored = read_history(log, "g", SLOT, "t")
        found = check_generations_of_commits(log, stored, "g")
        assert [one.invariant for one in found.violations] == violated
        assert found.figures["commits of members"] == commits
