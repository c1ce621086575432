"""A frozen group: nothing moves but by leaving and death, until the freeze is over (recipes 26)."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest

from tests.worlds.stepped_group import (
    GROUP,
    Member,
    SteppedGroup,
    claims,
    is_stable,
    owned,
    packets,
    reads,
    tp,
    writes_to,
)
from zkgroup.admin.freezes import freeze_operations
from zkgroup.consumer.machine.events import CloseRequested, HandBackRequested
from zkgroup.consumer.machine.machine_context import MemberConfig
from zkgroup.consumer.machine.scheduler import Components
from zkgroup.model import StaticSubscription, Znode, ZnodeStat
from zkgroup.model.ports import Instant
from zkgroup.model.requests import (
    Check,
    Delete,
    Multi,
    MultiDone,
    Operation,
    Outcome,
    Read,
    ReadDone,
    Request,
    SetData,
)
from zkgroup.runtime.procedures import Procedure, Query
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import Offset, Registration, owners_path
from zkgroup.znodes.group_records import Freeze

ANY = StaticSubscription({"t": 1})

FOR_MS = 20_000


def freeze(stage: SteppedGroup, for_ms: int = FOR_MS, *, takeover: bool = False) -> None:
    """Freezes the group as an operator does, and runs until it is noticed."""
    owners = stage.server.find(owners_path(GROUP))
    assert owners is not None
    marker = Freeze(reason="deploy", by="me", for_ms=for_ms, allows_takeover=takeover)
    stage.foreign_write(*freeze_operations(GROUP, marker, owners, [tp(n) for n in stage.owners()]))
    stage.run(100)


def close(stage: SteppedGroup, member: Member, *, closes_session: bool = True) -> None:
    member.post(CloseRequested(closes_session, stage.clock.now_ms() + 5000))


def run(procedure: Procedure[None], *answers: Outcome) -> list[Query]:
    """Runs a procedure with these answers; its queries, one a round."""
    asked = []
    with contextlib.suppress(StopIteration):
        asked += next(procedure)
        for answer in answers:
            asked += procedure.send((answer,))
    return asked


def is_frozen(stage: SteppedGroup) -> bool:
    return stage.server.find(Freeze.path(GROUP)) is not None


def reason(member: Member) -> str:
    return member.describe().reason


def test_nobody_gains_until_the_freeze_is_over() -> None:
    """A new member owns nothing, what a member leaves stays without an owner, and then all is shared."""
    stage = SteppedGroup(topics={"t": 4})
    a, b = stage.join("a"), stage.join("b")
    freeze(stage)
    tokens = {tp: grant.token for tp, grant in b.grants().items()}
    c = stage.join("c")
    close(stage, a)
    stage.run(5000)

    assert (owned(b), owned(c)) == ([2, 3], [])
    assert {tp: grant.token for tp, grant in b.grants().items()} == tokens
    assert sorted(stage.owners()) == [2, 3]
    assert is_stable(b)
    assert is_stable(c)
    assert (reason(b), reason(c)) == ("frozen", "frozen")

    stage.run_until(lambda: not is_frozen(stage), FOR_MS)
    stage.run_until(lambda: is_stable(b) and is_stable(c) and sorted(stage.owners()) == [0, 1, 2, 3])
    assert (owned(b), owned(c)) == ([0, 1], [2, 3])
    assert reason(c) == "assigned"


def test_a_freeze_ends_by_the_clock_of_the_server() -> None:
    """A member whose clock is fast asks too early, and waits for as long as the answer says."""
    context = (components := Components(MemberConfig(group=GROUP, member_id="g_a", subscription=ANY))).context
    context.begin(Instant(ms=0, wall_ms=10**12))
    freeze, path = components.snapshot.freeze, Freeze.path(GROUP)
    data = Freeze(reason="", by="", for_ms=FOR_MS, allows_takeover=False).encode()

    def stat(mtime: int) -> ZnodeStat:
        return ZnodeStat(5, 5, 1000, mtime, 1, 0, 0, 0, len(data), 0, 5)

    owners = Znode(owners_path(GROUP), b"", stat(1000))
    run(freeze.read(owners), ReadDone(Znode(path, data, stat(1000))))

    def writes(now_ms: int, *mtimes: int) -> list[tuple[Operation, ...]]:
        context.begin(Instant(ms=now_ms, wall_ms=10**12))
        freeze.timer_fired()
        assert freeze.is_end_due
        answers = [MultiDone((None, None, stat(at)), 1) for at in mtimes]
        return [query.request.operations for query in run(freeze.end(), *answers)]

    (early,) = writes(2000, 1000 + FOR_MS - 7000)
    assert isinstance(early[-1], SetData)
    context.begin(Instant(ms=8000, wall_ms=10**12))
    freeze.timer_fired()
    assert not freeze.is_end_due
    _, end = writes(10_000, 1000 + FOR_MS, 1000 + FOR_MS)
    assert end == (Check(Registration.path(GROUP, "g_a"), 0), Check(owners.path, 1), Delete(path, -1))


def test_a_read_of_the_marker_that_is_not_answered_is_repeated() -> None:
    """Its watch does not exist: the end of the freeze would not be noticed."""
    stage = SteppedGroup(topics={"t": 2}, verify_interval_ms=2000)
    a = stage.join("a")
    freeze(stage, 600_000)

    def is_of_marker(request: Request) -> bool:
        return isinstance(request, Read) and request.path == Freeze.path(GROUP)

    stage.when("client-a", is_of_marker, fault="lost_request")
    stage.run(5000)
    stage.foreign_write(Delete(Freeze.path(GROUP), -1))
    stage.run(3000)
    assert (reason(a), owned(a)) == ("assigned", [0, 1])


def test_a_takeover_claims_what_nobody_owns_and_nothing_else() -> None:
    """The partitions of a member that left go to those that are assigned to; no other one moves."""
    stage = SteppedGroup(topics={"t": 4})
    a, b = stage.join("a"), stage.join("b")
    freeze(stage, takeover=True)
    c = stage.join("c")
    stage.run(3000)
    assert (owned(a), owned(b), owned(c)) == ([0, 1], [2, 3], [])
    assert is_stable(c)

    close(stage, a)
    stage.run(2000)
    assert owned(b) == [0, 1, 2, 3]  # as `range` assigns for b and c, and what b has
    stage.foreign_write(Delete(Freeze.path(GROUP), -1))
    stage.run_until(lambda: is_stable(c) and owned(c) == [2, 3])
    assert owned(b) == [0, 1]


def test_what_was_being_revoked_goes_back_to_its_thread() -> None:
    """The release is refused: a handover to the same thread gives a new token, and nobody else claims. It
    starts where another client has set the offset meanwhile."""
    stage = SteppedGroup(topics={"t": 4}, revoke_timeout_ms=60_000)
    a = stage.join("a")
    stage.hangs.add("a")
    b = stage.join("b")
    tokens = {tp: grant.token for tp, grant in a.grants().items()}
    freeze(stage)
    stage.foreign_write(SetData(Offset.path(GROUP, tp(3)), b"7", -1))
    stage.hangs.clear()
    stage.run(2000)

    assert (owned(a), owned(b)) == ([0, 1, 2, 3], [])
    assert a.grants()[tp(3)].offset == 7
    assert stage.owners() == dict.fromkeys(range(4), "a-0")
    renewed = {each.partition for each, grant in a.grants().items() if grant.token > tokens[each]}
    assert renewed == {2, 3}


def test_what_goes_back_needs_no_plan() -> None:
    """Another member has written a plan, which this one does not read before the end of the freeze."""
    stage = SteppedGroup(topics={"t": 4}, revoke_timeout_ms=60_000, partition_assignment_strategy="sticky")
    slow = replace(stage.settings, settle_ms=3000, settle_max_ms=3000)
    a = stage.join("a", settings=slow, run_ms=5000)
    stage.hangs.add("a")
    stage.join("b", run_ms=5000)
    stage.join("c", run_ms=500)
    freeze(stage)
    stage.hangs.clear()
    stage.run(5000)

    assert (owned(a), is_stable(a), reason(a)) == ([0, 1, 2, 3], True, "frozen")


def test_what_a_freeze_keeps_is_not_taken_for_the_assignment() -> None:
    """The pass after its end has read that, and still reads a topic: something else happens meanwhile."""
    stage = SteppedGroup(topics={"t": 4}, revoke_timeout_ms=60_000)
    a = stage.join("a")
    stage.hangs.add("a")
    stage.join("b")
    freeze(stage)
    stage.hangs.clear()
    stage.run(2000)
    before = len(stage.notes("rebalance.end", "a"))
    stage.when("client-a", reads(Topic.path("t")), lambda: a.post(HandBackRequested(frozenset())))
    stage.foreign_write(Delete(Freeze.path(GROUP), -1))
    stage.topic("t", 6)
    stage.run(3000)

    ends = [[row["partition"] for row in end.fields["mine"]] for end in stage.notes("rebalance.end", "a")]
    assert ends[before:] == [[0, 1, 2]]


def test_an_application_may_hand_back_and_a_member_may_leave_its_client() -> None:
    """Both are deliberate; what is handed back has no owner until the end."""
    stage = SteppedGroup(topics={"t": 4})
    a, b = stage.join("a", client="shared"), stage.join("b", client="shared")
    freeze(stage)
    a.post(HandBackRequested(frozenset({tp(0)})))
    stage.run(1000)
    assert sorted(stage.owners()) == [1, 2, 3]
    close(stage, a, closes_session=False)
    stage.run(2000)
    assert sorted(stage.owners()) == [2, 3]
    assert owned(b) == [2, 3]


@pytest.mark.parametrize("is_frozen_before", [False, True])
def test_a_freeze_costs_no_packet_to_join_or_to_claim(is_frozen_before: bool) -> None:
    """Without one a join is as it was; with one that allows a takeover a claim is. The marker itself is read
    once."""
    stage = SteppedGroup(topics={"t": 4})
    a, b = stage.join("a"), stage.join("b")
    if is_frozen_before:
        freeze(stage, takeover=True)
    b.asked.clear()
    close(stage, a)
    stage.run_until(lambda: len(owned(b)) == 4)
    (claim,) = claims(b)

    before = next(i for i, request in enumerate(b.asked) if request == Multi(claim))
    assert packets(b.asked[: before + 1]) == 4
    assert [o for o in claim if isinstance(o, Check) and o.path == owners_path(GROUP)] == [
        Check(owners_path(GROUP), int(is_frozen_before))
    ]


def test_a_registration_that_goes_while_a_freeze_refuses_releases_is_a_loss_and_nothing_else() -> None:
    """Past bug: of two packets one was refused at the freeze, the next at the registration: a crash."""
    stage = SteppedGroup(topics={"t": 4})
    a = stage.join("a", request_bytes_max=300)
    releases: list[Request] = []

    def is_second(request: Request) -> bool:
        if writes_to("/owners/", Delete)(request):
            releases.append(request)
        return len(releases) == 2

    def freezes() -> None:
        stage.foreign_write(SetData(owners_path(GROUP), b"", -1))

    stage.when("client-a", writes_to("/owners/", Delete), freezes)
    stage.when("client-a", is_second, lambda: stage.server.remove(Registration.path(GROUP, "g_a")))
    b = stage.join("b", run_ms=5000)

    assert len(stage.notes("registered", "a")) == 2
    assert (owned(a), owned(b)) == ([0, 1], [2, 3])
