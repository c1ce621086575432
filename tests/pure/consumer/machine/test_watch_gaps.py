"""Changes without a watch event: found by the verification, counted, and handled (recipes 5)."""

from __future__ import annotations

from tests.simulation.group.members import Actor
from tests.worlds.stepped_group import SteppedGroup, is_stable, owned
from zkgroup.model.requests import ReadMany
from zkgroup.znodes.brokers import Topic

VERIFY_MS = 5000
LONGEST_MS = round(VERIFY_MS * 1.3) + 1000
"""To the next verification, and from there until what it has found counts as a gap."""


def deaf_stage() -> tuple[SteppedGroup, Actor]:
    """A member that owns everything, and whose server has forgotten its watches."""
    stage = SteppedGroup(verify_interval_ms=VERIFY_MS)
    member = stage.join("a", run_ms=2000)
    assert owned(member) == [0, 1, 2, 3]
    make_deaf(member)
    return stage, member


def make_deaf(member: Actor) -> None:
    """Its server forgets its watches, and does not say so."""
    member.client.child_watches.clear()
    member.client.data_watches.clear()


def gaps(stage: SteppedGroup) -> int:
    return len(stage.notes("watch_gap", "a"))


def test_member_without_a_watch_event_is_found_and_gets_its_share() -> None:
    """The gap is counted once and handled: the group is read, the other member's partitions are released."""
    stage, member = deaf_stage()
    other = stage.join("b")
    assert owned(other) == []

    stage.run_until(lambda: is_stable(other) and owned(other) == [2, 3], LONGEST_MS + 1000)
    assert owned(member) == [0, 1]
    assert gaps(stage) == 1


def test_after_a_gap_the_watches_are_armed_anew() -> None:
    """A watch event reports the next change, long before the next verification."""
    stage, member = deaf_stage()
    stage.join("b")
    stage.run_until(lambda: owned(member) == [0, 1], LONGEST_MS + 1000)
    stage.run(1000)
    stage.join("0", run_ms=None)

    assert stage.run_until(lambda: owned(member) == [2]) < 1500
    assert gaps(stage) == 1


def test_topic_that_has_grown_without_a_word_is_read_again() -> None:
    """The cached topic is not used then; a watch event reports its next growth."""
    stage, member = deaf_stage()
    stage.topic("t", 6)
    stage.run(1000)
    assert owned(member) == [0, 1, 2, 3]

    stage.run_until(lambda: owned(member) == [0, 1, 2, 3, 4, 5], LONGEST_MS)
    assert gaps(stage) == 1
    stage.topic("t", 7)
    assert stage.run_until(lambda: len(owned(member)) == 7) < 1500


def test_topic_that_went_without_a_word_is_given_up() -> None:
    """What is missing has no mzxid; its partitions are released, and the gap is counted once."""
    stage, member = deaf_stage()
    stage.server.remove(Topic.path("t"))
    stage.run(1000)
    assert owned(member) == [0, 1, 2, 3]

    stage.run_until(lambda: owned(member) == [], LONGEST_MS)
    assert stage.owners() == {}
    assert gaps(stage) == 1


def test_every_gap_is_found_and_not_the_first_one_alone() -> None:
    """The verification comes again, whatever the one before has found."""
    stage, member = deaf_stage()
    for partitions in (5, 6, 7):
        make_deaf(member)
        stage.topic("t", partitions)
        stage.run_until(lambda wanted=partitions: len(owned(member)) == wanted, LONGEST_MS)  # type: ignore[misc]

    assert gaps(stage) == 3


def test_watch_that_is_only_late_is_no_gap() -> None:
    """Its event comes within a second of the verification that has seen the change."""
    stage, member = deaf_stage()
    stage.join("b", run_ms=None)
    ids = "/consumers/g/ids"
    stage.run(500)
    member.asked.clear()
    stage.run_until(
        lambda: any(isinstance(each, ReadMany) and ids in each.paths for each in member.asked), LONGEST_MS
    )
    assert owned(member) == [0, 1, 2, 3]
    member.machine._components.snapshot.settling.mark_changed()  # what the watch does when its event comes
    stage.run(3000)

    assert owned(member) == [0, 1]
    assert gaps(stage) == 0


def test_changes_with_a_watch_event_are_no_gap() -> None:
    """A group that comes, grows and goes for a minute, with a verification each five seconds."""
    stage = SteppedGroup(verify_interval_ms=VERIFY_MS)
    member = stage.join("a", run_ms=2000)
    for number in range(10):
        stage.join(f"m{number}", run_ms=3000)
        stage.topic("t", 5 + number)
        stage.run(3000)

    assert is_stable(member)
    assert stage.notes("watch_gap") == []
