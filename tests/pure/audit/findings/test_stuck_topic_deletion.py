"""Topics whose deletion does not come to an end."""

from __future__ import annotations

from tests.worlds.audit_log import AuditLog
from zkgroup.audit.findings.controller import stuck_topic_deletion

REQUEST = "/admin/delete_topics/t"


def test_a_topic_that_is_still_there_after_long_is_a_warning() -> None:
    """A deletion asked for over ten minutes ago, with the topic still there, is a warning without an end."""
    log = AuditLog()
    log.topic("t", 1)
    asked = log.create(REQUEST, b"", 5)
    log.passes(600_001)

    (found,) = log.find(stuck_topic_deletion)

    assert (found.severity, found.topic, found.session) == ("warning", "t", 5)
    assert (found.from_zxid, found.to_zxid) == (asked, None)
    assert found.detail == "deletion asked for 10.0 min ago, and the topic is still there"


def test_a_deletion_that_took_long_is_reported_too() -> None:
    """A deletion that came to its end after more than ten minutes is told with its length."""
    log = AuditLog()
    log.topic("t", 1)
    asked = log.create(REQUEST)
    log.wait(700_000)
    log.delete("/brokers/topics/t")
    done = log.delete(REQUEST)

    assert log.told(stuck_topic_deletion, "from_zxid", "to_zxid", "detail") == [
        (asked, done, "deletion took 11.7 min")
    ]


def test_a_quick_one_and_one_whose_topic_is_gone_are_none() -> None:
    """Done within ten minutes, or the topic gone and only the request left behind: no finding."""
    log = AuditLog()
    log.topic("t", 1)
    log.topic("u", 1)
    log.create(REQUEST)
    log.create("/admin/delete_topics/u")
    log.wait(600_000)
    log.delete("/brokers/topics/t")
    log.delete(REQUEST)
    log.delete("/brokers/topics/u")
    log.passes(600_000)

    assert log.find(stuck_topic_deletion) == []


def test_a_snapshot_alone_shows_it() -> None:
    """Its latest time is the end."""
    log = AuditLog()
    log.seed("/brokers/topics/t", '{"version":1,"partitions":{"0":[1]}}', zxid=5)
    log.seed(REQUEST, b"", zxid=6)
    log.seed("/other", b"", zxid=7, ms=log.ms + 700_000)

    assert log.told(stuck_topic_deletion, "topic", "from_zxid") == [("t", 6)]
