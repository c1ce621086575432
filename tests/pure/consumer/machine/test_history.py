"""The history of rebalances that members keep (recipes 25)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.group.members import Actor
from tests.worlds.stepped_group import GROUP, SteppedGroup, owned
from zkgroup.consumer.machine import events as ev
from zkgroup.model.requests import Create, Multi, Request, SetData
from zkgroup.testing.memory_zookeeper import ServerStep
from zkgroup.znodes.group_history import REBALANCES_MAX, GroupHistory, RebalanceRecord
from zkgroup.znodes.group_records import View
from zkgroup.zookeeper import Acl

PATH = GroupHistory.path(GROUP)
PUBLISHED_MS = 9000
"""The time after which a member has published its view, also where it had published one just before."""


def history(stage: SteppedGroup) -> GroupHistory:
    znode = stage.server.find(PATH)
    assert znode is not None
    return GroupHistory.decode(znode.path, znode.data)


def rows(stage: SteppedGroup) -> list[tuple[str, list[str], list[str], int | None]]:
    """Reason, who joined and left without the group's name, and the partitions moved."""
    return [
        (row.reason, [_short(name) for name in row.joined], [_short(name) for name in row.left], row.moved)
        for row in history(stage).rebalances
    ]


def _short(member: str) -> str:
    return member.removeprefix(f"{GROUP}_")


def is_of_history(request: Request) -> bool:
    return isinstance(request, Multi) and any(each.path == PATH for each in request.operations)


def close(stage: SteppedGroup, member: Actor) -> None:
    member.post(ev.CloseRequested(True, stage.clock.now_ms() + 30_000))


def test_history_of_a_group_from_the_first_member_to_the_last() -> None:
    """The reader sees who came and went, why, how many partitions moved, and how long it took."""
    stage = SteppedGroup()
    first = stage.join("a", run_ms=PUBLISHED_MS)
    stage.join("b", run_ms=PUBLISHED_MS)
    close(stage, first)
    stage.run(PUBLISHED_MS)
    stage.topic("t", 6)
    stage.run(PUBLISHED_MS)

    assert rows(stage) == [
        ("started", ["a"], [], 0),
        ("joined", ["b"], [], 2),
        ("left", [], ["a"], 2),
        ("topics changed", [], [], 0),
    ]
    found = history(stage).rebalances
    ids = stage.server.find(f"/consumers/{GROUP}/ids")
    assert ids is not None
    assert [row.generation for row in found[-2:]] == [ids.stat.pzxid] * 2
    assert all(row.took_ms is not None and row.took_ms < 2000 for row in found)
    assert [row.time_ms for row in found] == sorted(row.time_ms for row in found)


def test_members_that_died_together_have_left_when_the_next_one_joins() -> None:
    """Nobody was there to see it: the next member finds who was there in the znode."""
    stage = SteppedGroup()
    stage.join("a", run_ms=None)
    stage.join("b", run_ms=PUBLISHED_MS)
    for name in ("a", "b"):
        close(stage, stage.actors[name])
    stage.run(1000)
    stage.join("c", run_ms=PUBLISHED_MS)

    assert rows(stage)[-1] == ("joined, left", ["c"], ["a", "b"], None)


def test_oldest_member_that_dies_leaves_its_changes_to_the_next() -> None:
    """The next one has noted them as well; none is lost, and none is there twice."""
    stage = SteppedGroup()
    first = stage.join("a", run_ms=PUBLISHED_MS)
    stage.join("b", run_ms=PUBLISHED_MS)
    stage.join("c", run_ms=200)
    close(stage, first)
    stage.run(PUBLISHED_MS)

    assert rows(stage) == [
        ("started", ["a"], [], 0),
        ("joined", ["b"], [], 2),
        ("joined", ["c"], [], 1),
        ("left", [], ["a"], 3),
    ]


def test_only_the_oldest_member_writes_and_a_join_costs_no_packet_more() -> None:
    """The same members with and without the history: the same number of requests, one by one."""

    def requests(**settings: object) -> list[str]:
        stage = SteppedGroup(**settings)
        sent: list[str] = []
        for name in ("a", "b", "c"):
            stage.client(f"client-{name}")
            stage.join(name, run_ms=None)
            _count(stage, sent)
            stage.run(PUBLISHED_MS)
        return sent

    with_history, without = requests(), requests(group_history=False)
    assert with_history == without
    assert len(without) > 40


def _count(stage: SteppedGroup, sent: list[str]) -> None:
    """Notes each request that the server executes from now on."""
    deliver = stage.server.deliver

    def noting(step: ServerStep, fault: object = None) -> None:
        if step.kind == "request":
            request = stage.server.clients[step.client].requests[0].request
            sent.append(f"{step.client} {type(request).__name__}")
        deliver(step, fault)  # type: ignore[arg-type]

    stage.server.deliver = noting  # type: ignore[method-assign]


def refuse(stage: SteppedGroup, client: str, action: Callable[[], object]) -> None:
    """Does something just before the next write of the history."""
    stage.when(client, is_of_history, action)


def test_refused_history_is_written_with_the_next_view() -> None:
    """Another member that thinks it is the oldest has written; both changes are there in the end."""
    stage = SteppedGroup()
    stage.join("a", run_ms=PUBLISHED_MS)
    other = RebalanceRecord(
        time_ms=1, generation=1, reason="joined", joined=("g_x",), left=(), moved=0, took_ms=None
    )

    def foreign() -> None:
        known = history(stage)
        znode = stage.server.find(PATH)
        assert znode is not None
        members = {**known.members, "g_x": 7}
        written = GroupHistory(zxid=known.zxid, members=members, rebalances=(*known.rebalances, other))
        stage.foreign_write(SetData(PATH, written.encode(), znode.stat.version))

    refuse(stage, "client-a", foreign)
    member = stage.join("b", run_ms=2 * PUBLISHED_MS)

    assert owned(member) == [2, 3]
    assert rows(stage)[1:] == [("joined", ["x"], [], 0), ("joined, left", ["b"], ["x"], 2)]


def test_lost_reply_of_a_write_neither_loses_nor_repeats_a_rebalance() -> None:
    """The znode is read again, and has what was written."""
    stage = SteppedGroup()
    stage.join("a", run_ms=PUBLISHED_MS)
    stage.when("client-a", is_of_history, fault="lost_reply")
    stage.join("b", run_ms=2 * PUBLISHED_MS)
    stage.join("c", run_ms=2 * PUBLISHED_MS)

    assert [reason for reason, *_ in rows(stage)] == ["started", "joined", "joined"]


@pytest.mark.parametrize("permissions", ["r", "cdwa"])
def test_history_without_rights_costs_the_member_nothing(permissions: str) -> None:
    """In a closed tree the member says it once, publishes its view, and goes on."""
    stage = SteppedGroup()
    stage.foreign_write(Create("/zkgroup", None))
    stage.server.set_acl("/zkgroup", Acl(permissions, "world", "anyone"))
    member = stage.join("a", run_ms=2 * PUBLISHED_MS)

    assert owned(member) == [0, 1, 2, 3]
    assert stage.server.find(View.path(GROUP, member.member_id)) is not None
    stage.topic("t", 6)
    stage.run(2 * PUBLISHED_MS)
    assert len(stage.notes("history_denied")) == 1


def test_longest_time_of_all_members_is_the_rebalances() -> None:
    """A slow callback of another member: the writer reads its view later, and writes it with the next."""
    stage = SteppedGroup(verify_interval_ms=20_000, revoke_timeout_ms=8000)
    stage.join("a", run_ms=PUBLISHED_MS)
    stage.join("b", run_ms=PUBLISHED_MS)
    stage.hangs.add("b")
    stage.join("c", run_ms=60_000)
    stage.hangs.clear()
    stage.join("d", run_ms=PUBLISHED_MS)

    took = history(stage).rebalances[2].took_ms
    assert took is not None
    assert took >= 8000


def test_newest_rebalances_that_fit_are_kept() -> None:
    """At most 200, and never more bytes than half a request has."""
    stage = SteppedGroup()
    stage.join("a", run_ms=PUBLISHED_MS)
    known = history(stage)
    long = GroupHistory(zxid=known.zxid, members=known.members, rebalances=known.rebalances * REBALANCES_MAX)
    stage.foreign_write(SetData(PATH, long.encode(), 0))
    stage.join("b", run_ms=3 * PUBLISHED_MS)
    assert len(history(stage).rebalances) == REBALANCES_MAX
    assert history(stage).rebalances[-1].joined == (f"{GROUP}_b",)
    assert long.encode_newest(2000) is not None


def test_member_with_credentials_does_not_create_what_others_need() -> None:
    """`/zkgroup` would be its own in a cluster that is closed later; where the parents are, it writes."""
    stage = SteppedGroup()
    first = stage.join("a", run_ms=PUBLISHED_MS, creates_parents=False)
    assert stage.server.find("/zkgroup") is None
    assert len(stage.notes("history_denied")) == 1
    close(stage, first)
    stage.foreign_write(Create("/zkgroup", None), Create("/zkgroup/group_history", None))
    stage.join("b", run_ms=PUBLISHED_MS, creates_parents=False)
    assert rows(stage) == [("started", ["b"], [], 0)]


def test_history_that_does_not_fit_is_left_out() -> None:
    """The transaction of the view would be too large for the server: the view is published alone."""
    stage = SteppedGroup()
    member = stage.join("a", run_ms=PUBLISHED_MS, request_bytes_max=300)

    assert stage.server.find(View.path(GROUP, member.member_id)) is not None
    assert stage.server.find(PATH) is None


def test_history_that_cannot_be_read_is_begun_anew() -> None:
    """It is reported, and overwritten."""
    stage = SteppedGroup()
    stage.foreign_write(Create("/zkgroup", None))
    stage.foreign_write(Create("/zkgroup/group_history", None))
    stage.foreign_write(Create(PATH, b"{"))
    stage.join("a", run_ms=PUBLISHED_MS)
    assert rows(stage) == [("started", ["a"], [], 0)]
    assert len(stage.notes("corrupt_znode")) == 1


def test_oldest_member_that_comes_back_reads_what_was_written_meanwhile() -> None:
    """It is the youngest then; when it is the oldest again, it adds to the rows of the other."""
    stage = SteppedGroup()
    stage.join("a", run_ms=PUBLISHED_MS)
    other = stage.join("b", run_ms=PUBLISHED_MS)
    session = stage.client("client-a").session
    assert session is not None
    stage.server.expire_session(session.session_id)
    stage.run(2 * PUBLISHED_MS)
    close(stage, other)
    stage.run(2 * PUBLISHED_MS)

    reasons = [reason for reason, *_ in rows(stage)]
    assert reasons[:2] == ["started", "joined"]
    assert reasons[-1] == "left"
    assert [names for _, names, *_ in rows(stage)].count(["a"]) == 2
