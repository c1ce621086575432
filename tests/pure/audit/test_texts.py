"""How findings say things."""

from __future__ import annotations

import pytest

from tests.worlds.audit_log import AuditLog
from zkgroup.audit.inputs.facts import client, only_group, server_of
from zkgroup.model.text import counted, duration_text, hex_session
from zkgroup.znodes.paths import subtree_text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (-5, "0 ms"),
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1.0 s"),
        (119_949, "119.9 s"),
        (120_000, "2.0 min"),
        (7_199_000, "120.0 min"),
        (7_200_000, "2.0 h"),
        (172_800_000, "2.0 d"),
    ],
)
def test_durations_have_the_unit_that_suits_them(ms: int, text: str) -> None:
    """A clock that stepped back is no duration."""
    assert duration_text(ms) == text


def test_sessions_are_unsigned_and_name_their_server() -> None:
    """As ZooKeeper's tools print them; a server's number may set the sign."""
    assert hex_session(-1) == "0xffffffffffffffff"
    assert (server_of(-1), server_of(0x0300_0000_0000_0001)) == (255, 3)


def test_a_subtree_is_the_first_names_of_a_path() -> None:
    """As many as there are, where the path has fewer; the root is of itself."""
    paths = ("/a/b/c", "/a/b", "/a", "/", "")
    assert [subtree_text(path, 2) for path in paths] == ["/a/b", "/a/b", "/a", "/", "/"]


def test_counts_agree_with_their_nouns() -> None:
    """Regular ones by themselves."""
    assert [counted(number, "commit") for number in (0, 1, 2)] == ["0 commits", "1 commit", "2 commits"]
    assert [counted(number, "child", "children") for number in (1, 2)] == ["1 child", "2 children"]


def test_a_session_is_named_by_what_it_registered() -> None:
    """Members, brokers, or nothing; of one group where it is asked for; each once, and not too many."""
    log = AuditLog()
    log.join("g", "g_a", 1)
    log.leave("g", "g_a", 1)
    log.join("g", "g_a", 1)
    log.join("h", "h_a", 1)
    log.create("/brokers/ids/7", "{}", 2, ephemeral=True)
    for number in range(5):
        log.join("g", f"g_{number}", 3)
    facts = log.facts()

    assert client(facts, 1) == "member g_a, member h_a (session 0x1)"
    assert client(facts, 1, "h") == "member h_a (session 0x1)"
    assert client(facts, 2, "h") == "broker 7 (session 0x2)"
    assert client(facts, 3) == "member g_0, member g_1, member g_2 and 2 more (session 0x3)"
    assert client(facts, 4) == "session 0x4"
    assert (only_group(facts, 1), only_group(facts, 2), only_group(facts, 3)) == (None, None, "g")
