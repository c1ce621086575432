"""Interleavings that the exhaustive model found, performed with the production machine step by step.

Each one is a function that plays its situation and raises where a promise is broken: by the audit of
every transaction, by the history checker, or by its own last look. `test_scenarios` runs them on the
machine as it is; the catalogue of seeded bugs runs some of them on a machine without the rule.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from tests.simulation.group.step_checks import GroupAudit
from tests.worlds.stepped_group import GROUP, SteppedGroup, effects_of, is_stable, reads, tp, writes_to
from zkgroup.consumer.machine import events as ev
from zkgroup.consumer.machine.events import Lose, SeekTo
from zkgroup.history import CheckOptions, check_history
from zkgroup.model import StaticSubscription
from zkgroup.model.requests import Create, Delete, ReadMany, Request, SetData
from zkgroup.testing.memory_zookeeper.leader import server_transactions
from zkgroup.znodes.consumers import Offset, Owner, Registration
from zkgroup.znodes.group_records import Reset

Scenario = Callable[[], None]
Action = Callable[[], object]
IDLE = b'{"version":1,"subscription":{},"pattern":"static","timestamp":"1","zkgroup":"by hand"}'


def audit(stage: SteppedGroup) -> None:
    """Raises AssertionError for a violation in this run."""
    GroupAudit(stage.server, GROUP, stage.recording).catch_up()
    log = server_transactions(stage.server.log, stage.clock)
    report = check_history(stage.recording.records, log, CheckOptions(group=GROUP))
    violations = [v for v in report.violations if v.invariant != "S8"]  # foreign writes overrule leases here
    assert not violations, "; ".join(map(str, violations))


class Successor:
    """Another zkgroup member, `g_b`, written by hand: registered, without a subscription."""

    def __init__(self, stage: SteppedGroup) -> None:
        self._stage = stage
        stage.client("client-b")
        stage.drain()
        session = stage.client("client-b").session
        assert session is not None
        self.session_id = session.session_id
        stage.server.put("/consumers/g/ids")
        path = Registration.path(GROUP, "g_b")
        stage.server.write(Create(path, IDLE, ephemeral=True), session_id=self.session_id)

    def takes(self, number: int = 0) -> None:
        """A foreign writer deletes the owner, and this member claims the partition as the recipes say."""
        owner, offset = Owner.path(GROUP, tp(number)), Offset.path(GROUP, tp(number))
        self._stage.foreign_write(Delete(owner, -1))
        stored = self._stage.offset(number)
        self._stage.server.write(
            Create(owner, b"g_b-0", ephemeral=True),
            SetData(owner, b"g_b-0", 0),
            SetData(offset, stored.data or b"", stored.stat.version),
            session_id=self.session_id,
        )
        for client in self._stage.server.clients:
            self._stage.server.catch_up(client)

    def still_owns(self, number: int = 0) -> None:
        owner = self._stage.owner(number)
        assert owner is not None, "the successor's owner znode is gone"
        assert owner.data == b"g_b-0", "somebody else owns the successor's partition"


def nth(count: int, wanted: Callable[[Request], bool]) -> Callable[[Request], bool]:
    """The n-th request of a kind."""
    seen = [0]

    def is_it(request: Request) -> bool:
        seen[0] += wanted(request)
        return wanted(request) and seen[0] == count

    return is_it


def gets_a_session_without_an_event(stage: SteppedGroup, name: str) -> None:
    """The old session has ended; requests in flight reach the server in the new one, without a session event.

    Our own client does not do that (recipes 9: a request carries the session that it was asked for).
    """
    client = stage.server.clients[name]
    assert client.session is not None
    stage.server.expire_session(client.session.session_id)
    client.session = stage.server.leader.create_session(name, client.session_timeout_ms)
    client.requests = deque(flight._replace(session=client.session) for flight in client.requests)
    client.data_watches.clear()
    client.child_watches.clear()
    stage.server.catch_up(name)


def of_partition(request: Request) -> bool:
    """A bulk read of the owner or the offset of partition 0."""
    return isinstance(request, ReadMany) and any(
        p.endswith("/t/0") and "/consumers/" in p for p in request.paths
    )


def adopted_claim_takes_the_fence_of_its_own_read() -> None:
    """Recipes 5: the response to the claim is lost; a successor takes over between the two reads of the
    read-back.

    In the other order (owner, then offset) the successor's fence would be taken for ours, and the next
    commit accepted.
    """
    stage = SteppedGroup(topics={"t": 1})
    successor = Successor(stage)
    stage.when("client-a", writes_to("/owners/", Create), fault="lost_reply")
    # Read for the claim, then twice for the read-back: between those two.
    stage.when("client-a", nth(3, of_partition), successor.takes)
    stage.join("a", run_ms=4000)
    audit(stage)
    successor.still_owns()
    for begun in stage.notes("own.begin", "a"):
        assert begun.fields["version"] == 0, "S2: adopted with the fence of the successor"


def adopted_claim_is_safe_wherever_a_successor_comes() -> None:
    """As above, path by path, with the successor at each step of the read-back (recipes 5).

    So one request for both is seen as well: with the owner first in it, something fits between the two.
    """
    came = []
    for moment in range(1, 6):
        stage = SteppedGroup(topics={"t": 1}, verify_interval_ms=600_000)
        stage.server.bulk_paths = 1
        successor = Successor(stage)

        def takes(successor: Successor = successor, moment: int = moment) -> None:
            successor.takes()
            came.append(moment)

        def lose_the_reply(stage: SteppedGroup = stage, moment: int = moment, takes: Action = takes) -> str:
            stage.when("client-a", nth(moment, of_partition), takes)
            return "lost_reply"

        stage.when("client-a", writes_to("/owners/", Create), lose_the_reply)
        member = stage.join("a", run_ms=4000)
        if member.machine.grants():
            stage.commit(member, {tp(0): 1})
        audit(stage)
        for begun in stage.notes("own.begin", "a"):
            assert begun.fields["version"] == 0, "S2: adopted with the fence of the successor"
        if moment in came:
            successor.still_owns()
    assert came[:3] == [1, 2, 3], "before the offset, the owner and the marker are read"


def client_that_changed_its_session_silently_is_not_believed() -> None:
    """Recipes 2: at the registration, before the claim, before a commit. Nothing is claimed or
    committed in a session that the member does not know; after the session event it is a member again."""
    for moment in (
        writes_to("/ids/", Create),
        writes_to("/owners/", Create),
        writes_to("/offsets/", SetData),
    ):
        stage = SteppedGroup(topics={"t": 2})
        stage.when("client-a", moment, partial(gets_a_session_without_an_event, stage, "client-a"))
        member = stage.join("a", run_ms=2000)
        if member.machine.grants():
            stage.commit(member, {tp(0): 5})
            assert [loss.partitions for loss in effects_of(member, Lose)] == [(tp(0), tp(1))]
        stage.run(1000)
        assert stage.owners() == {}, "claimed in a session that the member was not told of"
        assert member.machine.grants() == {}
        client = member.client
        client.incarnation += 1
        client.become(client.link, client.connected_event())
        stage.run(3000)
        audit(stage)
        assert is_stable(member)
        assert stage.owners() == {0: "a-0", 1: "a-0"}


def release_without_commit_deletes_its_own_znode_only() -> None:
    """A foreign writer changed the offset, and a successor claims before the delete (recipes 7)."""
    stage = SteppedGroup(topics={"t": 1}, verify_interval_ms=600_000)
    successor = Successor(stage)
    member = stage.join("a")
    stage.commit(member, {tp(0): 3})
    stage.when(
        "client-a",
        writes_to("/owners/", Delete),
        lambda: stage.foreign_write(SetData(Offset.path(GROUP, tp(0)), b"9", -1)),
    )
    stage.when("client-a", nth(2, writes_to("/owners/", Delete)), successor.takes)
    member.post(ev.HandBackRequested(frozenset({tp(0)})))
    stage.run(2000)
    audit(stage)
    successor.still_owns()


def release_of_what_was_taken_deletes_nothing() -> None:
    """Recipes 7: a foreign write and a successor's claim precede the release; it deletes only the member's
    own owner."""
    stage = SteppedGroup(topics={"t": 1}, verify_interval_ms=600_000)
    successor = Successor(stage)
    member = stage.join("a")
    stage.commit(member, {tp(0): 3})
    stage.when("client-a", writes_to("/owners/", Delete), successor.takes)
    member.post(ev.HandBackRequested(frozenset({tp(0)})))
    stage.run(2000)
    audit(stage)
    successor.still_owns()
    assert member.machine.grants() == {}


def marker_counts_though_a_foreign_client_wrote_after_it() -> None:
    """Comparing the marker with the offset for equality loses the reset (recipes 6)."""
    stage = SteppedGroup(topics={"t": 1}, on_foreign_commit="reassert")
    member = stage.join("a")
    stage.commit(member, {tp(0): 50})
    member.client.child_watches.clear()  # the commit meets it first
    marker = Create(Reset.path(GROUP, tp(0)), Reset(7, 0, "operator").encode())
    stage.foreign_write(SetData(Offset.path(GROUP, tp(0)), b"7", -1), marker)
    stage.foreign_write(SetData(Offset.path(GROUP, tp(0)), b"60", -1))
    stage.commit(member, {tp(0): 51})
    stage.run(500)
    audit(stage)
    assert [move.offset for move in effects_of(member, SeekTo)] == [7], "the reset is ignored"
    assert stage.offset(0).data == b"7", "the reset is ignored"


def reset_is_applied_by_the_owner_only() -> None:
    """A fence is never taken from an offset read that is not followed by "owner is mine" (recipes 6)."""
    stage = SteppedGroup(topics={"t": 1}, verify_interval_ms=600_000)
    successor = Successor(stage)
    member = stage.join("a")
    stage.commit(member, {tp(0): 50})
    marker = Create(Reset.path(GROUP, tp(0)), Reset(7, 0, "operator").encode())
    stage.when("client-a", reads("/offsets/t/0"), successor.takes)
    stage.foreign_write(SetData(Offset.path(GROUP, tp(0)), b"7", -1), marker)
    stage.run(100)
    stage.commit(member, {tp(0): 8})
    audit(stage)
    assert effects_of(member, SeekTo) == []
    assert [loss.partitions for loss in effects_of(member, Lose)] == [(tp(0),)]


def refusal_at_the_registration_ends_everything() -> None:
    """No retry, no read-back: `on_lost`, and a new registration, without a session event (recipes 10)."""
    stage = SteppedGroup(topics={"t": 2})
    member = stage.join("a")
    stage.foreign_write(Delete(Registration.path(GROUP, "g_a"), -1))
    stage.commit(member, {tp(0): 1})
    assert [loss.partitions for loss in effects_of(member, Lose)] == [(tp(0), tp(1))]
    stage.run(2000)
    audit(stage)
    assert is_stable(member)


def leaving_member_that_is_not_registered_has_left() -> None:
    """Otherwise it retries for ever (recipes 10)."""
    stage = SteppedGroup(topics={"t": 2})
    member = stage.join("a", client="shared")
    stage.hangs.add("a")
    member.post(ev.CloseRequested(False, stage.clock.now_ms() + 60_000))
    stage.run(100)
    stage.foreign_write(Delete(Registration.path(GROUP, "g_a"), -1))
    stage.hangs.clear()
    stage.run(3000)
    audit(stage)
    assert member.finished is not None


def member_that_came_back_under_its_name_is_not_missed() -> None:
    """The same names, but `cversion` has risen by two (recipes 3)."""
    stage = SteppedGroup(topics={"t": 2})
    first, second = stage.join("a"), stage.join("b")
    second.post(ev.SubscriptionChanged(StaticSubscription({})))
    stage.run(1000)
    audit(stage)
    assert sorted(held.partition for held in first.machine.grants()) == [0, 1]


def neighbour_on_the_same_client_is_another_member() -> None:
    """One session, two members: neither adopts nor deletes the other's claim (recipes 1)."""
    stage = SteppedGroup(topics={"t": 2})
    first = stage.join("a", client="shared")
    second = stage.join("b", client="shared", run_ms=None)
    stage.when("shared", writes_to("/owners/", Create), fault="lost_reply")
    stage.run(3000)
    audit(stage)
    owners = stage.owners()
    assert owners == {0: "a-0", 1: "b-0"}
    assert [len(actor.machine.grants()) for actor in (first, second)] == [1, 1]


def neighbour_in_the_way_is_waited_for() -> None:
    """A partition that another member of the session has not released is not adopted (recipes 1)."""
    stage = SteppedGroup(topics={"t": 2}, revoke_timeout_ms=60_000)
    stage.hangs.add("b")
    stage.join("b", client="shared")
    first = stage.join("a", client="shared", run_ms=2000)
    if first.machine.grants():
        stage.commit(first, dict.fromkeys(first.machine.grants(), 5))
    audit(stage)
    assert stage.owners() == {0: "b-0", 1: "b-0"}, "release by a neighbour"
    stage.hangs.clear()
    stage.run(2000)
    audit(stage)
    assert stage.owners() == {0: "a-0", 1: "b-0"}


def sticky_readers_of_one_change_agree() -> None:
    """Both find the assignment too old; the loser of the write reads the winner's (recipes 4)."""
    stage = SteppedGroup(topics={"t": 4}, partition_assignment_strategy="sticky")
    first, second = stage.join("a"), stage.join("b")
    third = stage.join("c")
    third.post(ev.CloseRequested(True, stage.clock.now_ms() + 5000))
    stage.run(3000)
    audit(stage)
    assert first.machine.describe().owners == second.machine.describe().owners
    assert len(first.machine.grants()) + len(second.machine.grants()) == 4


def two_that_never_committed_are_distinguished() -> None:
    """`-1` for a partition without offset makes the version of the first claim a fence, too (recipes 5)."""
    stage = SteppedGroup(topics={"t": 1}, verify_interval_ms=600_000)
    successor = Successor(stage)
    member = stage.join("a")
    successor.takes()
    stage.commit(member, {tp(0): 1})
    audit(stage)
    successor.still_owns()
    assert stage.offset(0).data == b"-1"


def new_session_of_the_client_is_an_event_before_its_first_request() -> None:
    """Partitions of the old session are lost before the new one is used (recipes 9)."""
    stage = SteppedGroup(topics={"t": 1})
    member = stage.join("a")
    stage.commit(member, {tp(0): 4})
    member.client.abandon(1, "a fault")
    member.post(member.application.commit({tp(0): 5}))
    stage.run(10_000)
    audit(stage)
    assert effects_of(member, Lose)
    assert is_stable(member)


def late_request_is_over_before_it_is_read_back() -> None:
    """Recipes 10: the read-back follows an acknowledged write, so none of the member's writes is in
    flight."""
    stage = SteppedGroup(topics={"t": 2})
    for name in "ab":
        stage.when(f"client-{name}", writes_to("/owners/", Create), fault="late")
    first, second = stage.join("a", run_ms=50), stage.join("b")
    stage.run(3000)
    audit(stage)
    assert [len(actor.machine.grants()) for actor in (first, second)] == [1, 1]


SCENARIOS: tuple[Scenario, ...] = (
    adopted_claim_takes_the_fence_of_its_own_read,
    adopted_claim_is_safe_wherever_a_successor_comes,
    client_that_changed_its_session_silently_is_not_believed,
    release_without_commit_deletes_its_own_znode_only,
    release_of_what_was_taken_deletes_nothing,
    marker_counts_though_a_foreign_client_wrote_after_it,
    reset_is_applied_by_the_owner_only,
    refusal_at_the_registration_ends_everything,
    leaving_member_that_is_not_registered_has_left,
    member_that_came_back_under_its_name_is_not_missed,
    neighbour_on_the_same_client_is_another_member,
    neighbour_in_the_way_is_waited_for,
    sticky_readers_of_one_change_agree,
    two_that_never_committed_are_distinguished,
    new_session_of_the_client_is_an_event_before_its_first_request,
    late_request_is_over_before_it_is_read_back,
)
