"""How many clients a change wakes."""

from __future__ import annotations

from tests.worlds.audit_log import AuditLog
from zkgroup.audit.findings.load import herd_size


def test_members_of_a_group_watch_its_ids() -> None:
    """Who joins wakes those before; who leaves wakes itself too, as long as it is there."""
    log = AuditLog()
    zxids = [log.join("g", f"g_{number}", 0xA0 + number) for number in range(5)]
    left = log.leave("g", "g_0", 0xA0)

    (found,) = log.find(herd_size, watchers=4)

    assert (found.severity, found.group) == ("warning", "g")
    assert (found.from_zxid, found.to_zxid) == (zxids[4], left)
    assert found.detail == (
        f"2 changes of /consumers/g/ids woke 9 watchers, at most 5 at once (zxid 0x{left:x})"
    )


def test_members_of_every_group_watch_brokers_and_topics() -> None:
    """And brokers watch the controller."""
    log = AuditLog()
    log.create("/brokers/ids/1", "{}", 1, ephemeral=True)
    log.create("/brokers/ids/2", "{}", 2, ephemeral=True)
    for number in range(2):
        log.join("g", f"g_{number}", 0xA0 + number)
        log.join("h", f"h_{number}", 0xB0 + number)
    topic = log.topic("t", 1)
    broker = log.delete("/brokers/ids/2", 2)
    controller = log.create("/controller", "{}", 1, ephemeral=True)

    woken = {each.from_zxid: each.detail for each in log.find(herd_size, watchers=1) if each.group is None}

    assert {zxid: detail.split(",")[0] for zxid, detail in woken.items()} == {
        topic: "1 change of /brokers/topics woke 4 watchers",
        broker: "1 change of /brokers/ids woke 4 watchers",
        controller: "1 change of /controller woke 1 watcher",
    }


def test_small_groups_and_unwatched_znodes_are_no_herd() -> None:
    """Commits wake nobody, however many members there are; a set of the topic is no child."""
    log = AuditLog()
    for number in range(100):
        log.join("g", f"g_{number}", 1000 + number)
    log.commit("g", ("t", 0), 5, 1000)
    log.claim("g", ("t", 0), "g_0-0", 1000)

    assert log.find(herd_size) == []
    log.join("g", "g_100", 2000)
    assert len(log.find(herd_size)) == 1


def test_znodes_present_at_the_beginning_fire_no_watch() -> None:
    """Seeds are no changes; their lives count as watchers."""
    log = AuditLog(zxid=100)
    for number in range(4):
        log.seed(f"/consumers/g/ids/g_{number}", "{}", zxid=5 + number, session=0xA0 + number)
    zxid = log.join("g", "g_new", 0xB)

    (found,) = log.find(herd_size, watchers=2)

    assert (found.from_zxid, found.to_zxid) == (zxid, zxid)
    assert "woke 4 watchers" in found.detail
