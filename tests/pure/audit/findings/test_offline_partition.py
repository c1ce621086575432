"""Partitions that nobody led."""

from __future__ import annotations

from tests.pure.audit.cluster import Cluster, started, state_path, state_text
from zkgroup.audit.findings.replicas import offline_partition

T0 = ("t", 0)


def led() -> Cluster:
    """A log with brokers 1 and 2; 2 leads t-0, which is on both."""
    log = started(1, 2)
    log.topic("t", {0: (2, 1)})
    log.state(T0, 2, (2, 1))
    return log


def test_no_leader_for_long_is_an_error() -> None:
    """A state without leader for over ten seconds is an error, up to the state that has one."""
    log = led()
    log.wait(60_000)
    gone = log.state(T0, -1, (), epoch=1)
    log.wait(10_001)
    back = log.state(T0, 2, (2,), epoch=2)

    (found,) = log.find(offline_partition)

    assert (found.severity, found.topic, found.partition) == ("error", "t", 0)
    assert (found.from_zxid, found.to_zxid) == (gone, back)
    assert found.detail == "no leader, replicas [2, 1], offline for 10.0 s"


def test_no_leader_for_a_short_time_is_a_warning() -> None:
    """A state without leader for ten seconds is a warning."""
    log = led()
    gone = log.state(T0, -1, (), epoch=1)
    log.wait(10_000)
    back = log.state(T0, 2, (2,), epoch=2)

    assert log.told(offline_partition, "severity", "from_zxid", "to_zxid") == [("warning", gone, back)]


def test_a_leader_whose_registration_ended_is_one_too_and_the_spell_goes_on_without_leader() -> None:
    """It begins when the leader's registration ends, and the state without leader only continues it."""
    log = led()
    died = log.expire(2)
    log.wait(4_000)
    log.state(T0, -1, (), epoch=1)
    log.wait(8_000)
    log.broker_comes(2, 22)
    back = log.state(T0, 2, (2,), epoch=2)

    (found,) = log.find(offline_partition)

    assert (found.severity, found.from_zxid, found.to_zxid) == ("error", died, back)
    assert found.detail == "leader 2 was not registered, offline for 12.0 s"


def test_an_ordinary_election_is_none() -> None:
    """Between the end of the leader's session and the next leader."""
    log = led()
    log.expire(2)
    log.wait(999)
    log.state(T0, 1, (1,), epoch=1)

    assert log.find(offline_partition) == []


def test_a_leader_that_returns_before_an_election_ends_it() -> None:
    """A leader that registers again ends it without a new state: five seconds are a warning."""
    log = led()
    died = log.expire(2)
    log.wait(5_000)
    back = log.broker_comes(2, 22)
    log.wait(5_000)
    log.open(23)

    assert log.told(offline_partition, "severity", "from_zxid", "to_zxid") == [("warning", died, back)]


def test_what_lasts_to_the_end_is_an_error_however_short() -> None:
    """A partition without leader at the end is an error, be it for half a second."""
    log = led()
    gone = log.state(T0, -1, (), epoch=1)
    log.passes(500)

    assert log.told(offline_partition, "severity", "from_zxid", "to_zxid") == [("error", gone, None)]


def test_a_topic_that_is_being_deleted_is_left_out() -> None:
    """Its controller takes the leaders away."""
    log = led()
    log.create("/admin/delete_topics/t")
    log.state(T0, -1, (), epoch=1)
    log.wait(60_000)
    log.delete(state_path(T0), 1)

    assert log.find(offline_partition) == []


def test_a_snapshot_alone_shows_a_leader_that_is_not_registered() -> None:
    """In a snapshot alone, a leader that is not registered is an error, and one that is registered none."""
    log = Cluster()
    log.seed("/brokers/topics/t", '{"version":1,"partitions":{"0":[2,1]}}', zxid=5)
    log.seed(state_path(T0), state_text(2, (2, 1)), zxid=6)
    log.seed("/brokers/topics/u", '{"version":1,"partitions":{"0":[1]}}', zxid=7)
    log.seed(state_path(("u", 0)), state_text(1, (1,)), zxid=8)
    log.seed("/brokers/ids/1", "{}", zxid=90, session=1, ms=log.ms + 50_000)

    (found,) = log.find(offline_partition)

    assert (found.severity, found.topic, found.to_zxid) == ("error", "t", None)
    assert found.detail == "leader 2 was not registered"


def test_a_leader_that_a_snapshot_lacks_is_away_since_the_log_began() -> None:
    """However long the state has stood: when the broker went nobody knows."""
    log = Cluster(100)
    log.seed("/brokers/topics/t", '{"version":1,"partitions":{"0":[2,1]}}', zxid=5, ms=log.ms - 90_000)
    log.seed(state_path(T0), state_text(2, (2, 1)), zxid=6, ms=log.ms - 90_000)
    first = log.open(1)
    log.wait(2_000)
    log.broker(1, 1)
    elected = log.state(T0, 1, (1,), epoch=1)

    (found,) = log.find(offline_partition)

    assert (found.severity, found.from_zxid, found.to_zxid) == ("warning", first, elected)
    assert found.detail == "leader 2 was not registered, offline for 2.0 s"


def test_of_the_time_before_a_snapshot_nothing_is_said() -> None:
    """A broker that registered again after the topic was made did not leave it without leader till then."""
    log = Cluster(100)
    log.seed("/brokers/topics/t", '{"version":1,"partitions":{"0":[1]}}', zxid=5)
    log.seed(state_path(T0), state_text(1, (1,)), zxid=6)
    log.seed("/brokers/ids/1", "{}", zxid=90, session=1, ms=log.ms + 50_000)
    log.passes(60_000)

    assert log.find(offline_partition) == []


def test_without_a_snapshot_a_broker_that_was_never_seen_may_live() -> None:
    """Without the log's beginning a leader whose registration nobody saw is not called away."""
    log = Cluster(100)
    log.state(T0, 2, (2, 1))
    log.passes(60_000)

    assert log.find(offline_partition) == []


def test_a_second_without_a_registered_leader_is_reported() -> None:
    """Under `election_ms` it is an election, from there on it is not."""
    log = led()
    died = log.expire(2)
    log.wait(1_000)
    elected = log.state(T0, 1, (1,), epoch=1)

    assert log.told(offline_partition, "severity", "from_zxid", "to_zxid") == [("warning", died, elected)]


def test_two_times_of_one_partition_are_two() -> None:
    """Each is judged by itself: that the first had no leader does not make an election of the second."""
    log = led()
    gone = log.state(T0, -1, (), epoch=1)
    back = log.state(T0, 2, (2, 1), epoch=2)
    log.wait(60_000)
    log.expire(2)
    log.wait(500)
    log.state(T0, 1, (1,), epoch=3)

    assert log.told(offline_partition, "severity", "from_zxid", "to_zxid") == [("warning", gone, back)]


def test_a_state_that_is_deleted_ends_it() -> None:
    """A partition without a state is one that no controller has made, whatever the topic lists."""
    log = led()
    gone = log.state(T0, -1, (), epoch=1)
    log.wait(2_000)
    deleted = log.delete(state_path(T0), 1)
    log.passes(60_000)

    assert log.told(offline_partition, "from_zxid", "to_zxid") == [(gone, deleted)]
