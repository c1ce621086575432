"""Reassignments that do not end, or end without being done."""

from __future__ import annotations

from tests.pure.audit.cluster import REASSIGN, Cluster
from zkgroup.audit.findings.controller import stuck_reassignment

T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)


def placed() -> Cluster:
    log = Cluster()
    log.topic("t", {0: (1,), 1: (1,), 2: (1,)})
    return log


def test_one_that_stands_for_long_names_what_was_not_begun() -> None:
    """A request that stands for over ten minutes is a warning; partitions with their old list are named."""
    log = placed()
    asked = log.reassign({T0: (2,), T1: (2,)})
    log.topic("t", {0: (2, 1), 1: (1,), 2: (1,)})
    log.passes(600_001)

    (found,) = log.find(stuck_reassignment)

    assert (found.severity, found.from_zxid, found.to_zxid) == ("warning", asked, None)
    assert found.detail == "2 partitions to be moved; not even begun: t-1; has stood for 10.0 min"


def test_a_reassignment_that_took_long_is_reported_too() -> None:
    """A request that was finished after more than ten minutes is told with the time that it stood."""
    log = placed()
    asked = log.reassign({T0: (2,)})
    log.wait(600_001)
    log.topic("t", {0: (2,), 1: (1,), 2: (1,)})
    done = log.delete(REASSIGN)

    assert log.told(stuck_reassignment, "from_zxid", "to_zxid", "detail") == [
        (asked, done, "1 partition to be moved; stood for 10.0 min")
    ]


def test_one_that_is_done_in_time_is_none() -> None:
    """Entry by entry, the last with the znode; real controllers write the list before, ours both at once."""
    log = placed()
    log.reassign({T0: (2,), T1: (2,)})
    log.wait(590_000)
    log.topic("t", {0: (2,), 1: (1,), 2: (1,)})
    log.reassign({T1: (2,)})
    log.multi(
        1,
        log.setting("/brokers/topics/t", '{"version":1,"partitions":{"0":[2],"1":[2],"2":[1]}}'),
        log.deletion(REASSIGN),
    )

    assert log.find(stuck_reassignment) == []


def test_one_without_entries_is_never_removed() -> None:
    """A request that names no partition is told after a second: no controller of 0.8.2.2 takes it off."""
    log = placed()
    asked = log.reassign({})
    log.wait(1_001)
    gone = log.delete(REASSIGN)
    log.reassign({})
    log.wait(1_000)
    log.delete(REASSIGN)

    (found,) = log.find(stuck_reassignment)

    assert (found.from_zxid, found.to_zxid) == (asked, gone)
    assert found.detail == (
        "the request names no partition, and Kafka 0.8.2.2 never removes such a one; stood for 1.0 s"
    )


def test_an_unreadable_request_is_carried_out_by_no_controller() -> None:
    """A request that is no JSON is told with how long it has stood, without waiting ten minutes."""
    log = placed()
    asked = log.create(REASSIGN, "{")
    log.passes(5_000)

    assert log.told(stuck_reassignment, "from_zxid", "detail") == [
        (asked, "the request cannot be read; has stood for 5.0 s")
    ]


def test_an_entry_that_went_with_the_partition_elsewhere_was_given_up() -> None:
    """A controller of 0.8.2.2 that takes over drops what has a dead target, and leaves the union behind."""
    log = placed()
    asked = log.reassign({T0: (2,), T1: (2,)})
    log.topic("t", {0: (2, 1), 1: (1,), 2: (1,)})
    dropped = log.reassign({T1: (2,)}, 5)
    log.topic("t", {0: (2, 1), 1: (2, 1), 2: (1,)})
    gone = log.delete(REASSIGN, 6)

    found = log.find(stuck_reassignment)

    assert [
        (each.severity, each.partition, each.session, each.from_zxid, each.to_zxid) for each in found
    ] == [
        ("warning", 0, 5, asked, dropped),
        ("warning", 1, 6, asked, gone),
    ]
    assert found[0].detail == "given up: asked for [2], left at [2, 1]"


def test_of_a_topic_that_is_gone_nothing_is_left_to_move() -> None:
    """A request that goes after its topic was deleted was not given up."""
    log = placed()
    log.reassign({T0: (2,)})
    log.delete("/brokers/topics/t")
    log.delete(REASSIGN)

    assert log.find(stuck_reassignment) == []


def test_moves_of_a_topic_that_is_being_deleted_are_given_up_rightly() -> None:
    """A request that goes while the deletion of its topic is asked for is no finding."""
    log = placed()
    log.reassign({T0: (2,)})
    log.create("/admin/delete_topics/t")
    log.delete(REASSIGN)

    assert log.find(stuck_reassignment) == []


def test_a_new_target_is_no_giving_up() -> None:
    """A cancellation: the target becomes what the list was."""
    log = placed()
    log.reassign({T0: (2,)})
    log.reassign({T0: (1,)})
    log.delete(REASSIGN)

    assert log.find(stuck_reassignment) == []


def test_a_request_that_is_shrunk_stands_since_it_was_made() -> None:
    """What is left of it is no new request; one that is made after it was taken off is."""
    log = placed()
    asked = log.reassign({T0: (2,), T1: (2,)})
    log.wait(500_000)
    log.topic("t", {0: (2,), 1: (1,), 2: (1,)}, 1)
    log.reassign({T1: (2,)})
    log.wait(100_001)
    log.topic("t", {0: (2,), 1: (2,), 2: (1,)}, 1)
    done = log.delete(REASSIGN, 1)
    log.reassign({T2: (2,)})
    log.passes(600_000)

    assert log.told(stuck_reassignment, "from_zxid", "to_zxid") == [(asked, done)]
