"""`zkgroup offsets export --input`: the offsets of the past, out of exports and the files of servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.cli.audit.golden import V394, damaged_copy
from tests.worlds.server_groups import ServerGroups
from tests.worlds.shell import Shell
from zkgroup.model.requests import Create, ZnodeStat
from zkgroup.zkfiles.exports import ExportedZnode, ExportHeader, write_export


def test_offsets_of_the_past_come_back_in_two_commands(
    shell: Shell, groups: ServerGroups, tmp_path: Path
) -> None:
    """The document and the lines are those that the live group had; stderr has the moment."""
    tree, lines = str(tmp_path / "tree.gz"), tmp_path / "offsets.txt"
    groups.topic("orders", 3)
    groups.parents("billing", "orders")
    for number in range(3):
        groups.offset("billing", "orders", number, 10 * number)
    groups.zk.multi(Create("/consumers/billing/offsets/orders/x", b"1"))
    live = shell.json("offsets", "export", "billing")
    moment = shell.json("audit", "export", tree)["as_of"]
    shell.run("offsets", "set", "billing", "orders:1=99", "orders:2=99", "--execute")

    past = shell.json("offsets", "export", "--input", tree, "-g", "billing")
    written = shell.run("offsets", "export", "--input", tree, "--at", str(moment["zxid"]), "billing")
    lines.write_text(written.out)
    shell.run("offsets", "import", str(lines), "--execute")

    assert past == {**live, "as_of": moment}
    assert written.err == f"the offsets at {moment['zxid']:#x}, {moment['time']}: exact\n"
    assert shell.json("offsets", "export", "billing")["offsets"] == past["offsets"]
    assert shell.run("offsets", "export", "--input", tree, "-g", "none").code == 5
    assert shell.run("offsets", "export", "--input", tree).code == 2
    assert shell.run("offsets", "export", "--at", "5", "billing").code == 2


def test_offsets_of_files_say_how_good_they_are(lone_shell: Shell, tmp_path: Path) -> None:
    """A damaged log on the way is exit 3, an offset that cannot be read 4; --chroot is that of clients."""
    damaged = damaged_copy(tmp_path)
    words = ("offsets", "export", "--input")

    whole = lone_shell.run(*words, str(V394), "--at", "0x113", "g")
    partly = lone_shell.run(*words, str(damaged), "--at", "0x113", "g")
    nothing = lone_shell.run(*words, str(V394), "--chroot", "/consumers", "g")

    assert (whole.code, whole.err.endswith(": exact\n")) == (0, True)
    assert (partly.code, "missing" in partly.err) == (3, True)
    assert (nothing.code, "there was no group 'g'" in nothing.err) == (5, True)


@pytest.mark.parametrize(
    ("unreadable", "codes"),
    [
        ("/consumers/billing/offsets/orders/1", (4, 0)),
        ("/consumers/billing/offsets", (4, 0)),
        ("/consumers/billing/ids", (0, 0)),
        ("/consumers", (4, 1)),
    ],
)
def test_offsets_that_an_export_may_lack_are_named(
    lone_shell: Shell, tmp_path: Path, unreadable: str, codes: tuple[int, int]
) -> None:
    """Exit 4 where the group may have more than what is written, 1 where it may be all that is missing."""
    stat = ZnodeStat(1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 1)
    paths = ["/consumers/billing/offsets/orders/0", "/consumers/other/offsets/orders/0"]
    above = {path[:at] for path in paths for at, letter in enumerate(path) if letter == "/" and at}
    znodes = [ExportedZnode(path, b"7", None, stat) for path in sorted({"/", *above, *paths})]
    header = ExportHeader(time_ms=1, source="", zxid_before=7, zxid_after=7, unreadable=(unreadable,))
    write_export(tmp_path / "tree.gz", header, znodes)

    ran = lone_shell.run("offsets", "export", "--input", str(tmp_path / "tree.gz"), "billing")
    other = lone_shell.run("offsets", "export", "--input", str(tmp_path / "tree.gz"), "gone")

    assert ran.out == "/consumers/billing/offsets/orders/0:7\n"
    assert (ran.code, f"{unreadable}: could not be read" in ran.err) == (codes[0], codes[0] == 4)
    assert other.code == (codes[1] or 5)
