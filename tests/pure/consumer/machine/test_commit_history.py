"""Records of who wrote an offset: in the transactions that write it, and never in the way of a commit."""

from __future__ import annotations

from tests.worlds.stepped_group import (
    GROUP,
    Member,
    SteppedGroup,
    effects_of,
    multis,
    owned,
    packets,
    tp,
    writes_to,
)
from zkgroup.consumer.machine.events import FinishCommit
from zkgroup.model.requests import Check, Delete, Request, SetData
from zkgroup.znodes.consumers import Offset, Owner, Registration, commits_path
from zkgroup.znodes.group_records import CommitRecord
from zkgroup.zookeeper import Acl


def record(stage: SteppedGroup, number: int) -> CommitRecord | None:
    path = CommitRecord.path(GROUP, tp(number))
    znode = stage.server.find(path)
    return CommitRecord.decode(path, znode.data) if znode is not None else None


def joined(**settings: object) -> tuple[SteppedGroup, Member]:
    stage = SteppedGroup(topics={"t": 2}, verify_interval_ms=600_000, **settings)
    return stage, stage.join("a")


def committed(stage: SteppedGroup, actor: Member, value: int) -> list[Request]:
    """Commits this offset of all owned partitions; the requests that were sent for it."""
    actor.asked.clear()
    stage.commit(actor, {tp(n): value for n in owned(actor)})
    assert not effects_of(actor, FinishCommit)[-1].refused
    return list(actor.asked)


def test_a_commit_sets_the_record_in_its_transaction_and_sends_no_packet_more() -> None:
    """Created with the first commit, set with the others; a join sends no packet more either."""
    plain_stage, plain = joined()
    plain_packets = packets(plain.asked)
    stage, actor = joined(commit_history=True)
    assert packets(actor.asked) == plain_packets + 1  # the parent of the records, once in the group's life

    assert packets(committed(stage, actor, 10)) == packets(committed(plain_stage, plain, 10)) == 1
    (operations,) = multis(committed(stage, actor, 11))
    fences, grants = actor.machine.describe().fences, actor.machine.grants()
    each = []
    for one, grant in sorted(grants.items()):
        text = CommitRecord(offset=11, member="g_a", host=None, version="1.2.3", token=grant.token).encode()
        each += [
            Check(Owner.path(GROUP, one), 1),
            SetData(Offset.path(GROUP, one), b"11", fences[one] - 1),
            SetData(CommitRecord.path(GROUP, one), text, -1),
        ]
    assert operations == (Check(Registration.path(GROUP, "g_a"), 0), *each)
    assert plain_stage.server.find(commits_path(GROUP)) is None


def test_a_release_names_who_made_its_commit_and_a_claim_nobody() -> None:
    """The record stays that of the last commit, with its time, when the partition has another owner."""
    stage, actor = joined(commit_history=True)
    committed(stage, actor, 10)
    actor.application.deliver(tp(1))
    actor.application._claims[tp(1)].position = 20
    stage.join("b")
    (moved,) = owned(stage.actors["b"])
    assert moved == 1
    found = record(stage, 1)
    assert found is not None
    assert (found.offset, found.member) == (20, "g_a")
    assert stage.offset(1).data == b"20"

    committed(stage, stage.actors["b"], 21)
    found = record(stage, 1)
    assert found is not None
    assert (found.offset, found.member) == (21, "g_b")


def test_records_that_another_program_deletes_are_created_again() -> None:
    """The commit is sent once more without them; the next one reads which there are, and creates them."""
    stage, actor = joined(commit_history=True)
    committed(stage, actor, 10)
    stage.foreign_write(*(Delete(CommitRecord.path(GROUP, tp(n)), -1) for n in (0, 1)))
    committed(stage, actor, 11)
    assert [stage.offset(n).data for n in (0, 1)] == [b"11", b"11"]
    assert record(stage, 0) is None

    asked = committed(stage, actor, 12)
    assert len(multis(asked)) == 1
    assert [one.offset for n in (0, 1) if (one := record(stage, n))] == [12, 12]


def test_an_acl_that_forbids_records_ends_them_and_no_commit() -> None:
    """It is noted once; the member goes on without a history of its commits."""
    stage, actor = joined(commit_history=True)
    committed(stage, actor, 10)
    stage.server.set_acl(CommitRecord.path(GROUP, tp(0)), Acl("r", "world", "anyone"))
    for value in (11, 12):
        committed(stage, actor, value)
    assert [stage.offset(n).data for n in (0, 1)] == [b"12", b"12"]
    assert len(stage.notes("commit_history_denied")) == 1
    assert not any(map(writes_to("/commits/"), actor.asked))
