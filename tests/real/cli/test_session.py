"""`zkgroup session` on a real server and on its files."""

from __future__ import annotations

from tests.waiting import eventually
from tests.worlds.server_groups import ServerGroups
from tests.worlds.shell import Shell
from zkgroup.testing.plugin import ServerTree


def test_the_client_behind_a_session_is_found_until_it_ends_and_then_in_the_files(
    shell: Shell, groups: ServerGroups, zk_server: ServerTree
) -> None:
    """Connection, registration and owners; afterwards 5, and how it ended."""
    groups.topic("orders", 1)
    with ServerGroups(zk_server.address) as others:
        others.living("billing", "orders", 1, ("app",))
        session = shell.json("group", "describe", "billing")["members"][0]["session"]
        found = shell.json("session", session)
        table = shell.run("session", session)
    folder = str(zk_server.zookeeper.data_dir / "server-0")
    gone = eventually(lambda: shell.run("session", session), lambda ran: ran.code == 5)
    past = shell.json("session", session, "--input", folder, "--chroot", zk_server.chroot)
    unknown = shell.run("session", "0x7", "--input", folder)

    (connection,) = found["connections"]
    assert connection["client"].startswith("127.0.0.1:")
    assert [row["kind"] for row in found["znodes"]] == ["member", "owner"]
    assert (table.lines[0], connection["client"] in table.out) == (f"session {session}", True)
    assert f"zkgroup session {session} --input FOLDER" in gone.err
    assert past["past"]["ended"] == "closed"
    assert past["past"]["members"] == [{"group": "billing", "member": "billing_app"}]
    assert (unknown.code, "found none" in unknown.err) == (5, True)
