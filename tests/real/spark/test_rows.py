"""Rows on their way through Arrow; no Spark is started."""

from __future__ import annotations

from zkgroup.audit.events import Event
from zkgroup.zkfiles.records import Acl, AclEntry

_OPEN = (AclEntry(31, "world", "anyone"),)
_TWO = (AclEntry(1, "world", "anyone"), AclEntry(31, "digest", "ada:secret"))


def _event(zxid: int, acl: Acl | None) -> Event:
    seen = Event(zxid, -1, 1000 * zxid, 7, 3, "create", f"/{zxid}", b"\0", 0, "session")
    return seen._replace(acl=acl)


EVENTS = [_event(zxid, acl) for zxid, acl in enumerate([None, _OPEN, (), _TWO, None, _OPEN, _TWO])]


def test_rows_come_back_as_they_went() -> None:
    """ACLs of none, one and two entries, and rows without; also of a batch that begins within another."""
    from zkgroup.audit.spark.rows import batch_of, events_in

    batch = batch_of(EVENTS, "east")

    assert events_in(batch) == EVENTS
    assert events_in(batch.slice(2, 4)) == EVENTS[2:6]
    assert events_in(batch.slice(3)) == EVENTS[3:]
    assert events_in(batch_of(EVENTS[:1], "east")) == EVENTS[:1]
    assert events_in(batch.slice(0, 0)) == []


def test_the_same_acl_is_kept_once() -> None:
    """Millions of rows have the same few."""
    from zkgroup.audit.spark.rows import batch_of, events_in

    events = events_in(batch_of(EVENTS, "east"))

    assert events[1].acl is events[5].acl
    assert events[3].acl is events[6].acl


def test_an_acl_is_the_text_that_spark_writes() -> None:
    """`to_json` makes the rows of logs, Python those of seeds: one is read like the other."""
    from zkgroup.audit.spark.rows import batch_of

    acl = (AclEntry(31, "world", "anyone"), AclEntry(1, "digest", 'ädä:"'))

    texts = batch_of([_event(1, acl), _event(2, ()), _event(3, None)], "east").column("acl").to_pylist()

    assert texts == [
        '[{"perms":31,"scheme":"world","id":"anyone"},{"perms":1,"scheme":"digest","id":"ädä:\\""}]',
        "[]",
        None,
    ]
