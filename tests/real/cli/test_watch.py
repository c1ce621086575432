"""`--watch` on a terminal and on a pipe, with a real server that goes away."""

from __future__ import annotations

import json
import signal

from tests.real.cli.terminal import Terminal
from tests.waiting import eventually
from tests.worlds.server_groups import ServerGroups
from tests.worlds.shell import Shell
from zkgroup.testing.chaos import ChaosZooKeeper

OFTEN = ("--watch", "50ms", "--connect-timeout", "1s", "--source", "none")
HIDDEN, SHOWN, MARKED = "\x1b[?25l", "\x1b[?25h", "\x1b[7m"


def test_a_terminal_is_redrawn_with_marks_until_ctrl_c(
    shell: Shell, groups: ServerGroups, zk_chaos_server: ChaosZooKeeper
) -> None:
    """A group that appears is marked; while no server answers a line says so, above the last reading."""
    groups.topic("orders", 1)
    groups.living("billing", "orders", 1, ("first",))
    words = ("group", "list", *OFTEN, "-z", zk_chaos_server.address)

    with Terminal(*words, env={**shell.environment, "COLUMNS": "100", "LINES": "30"}) as terminal:
        first = terminal.until("billing")
        groups.living("shipping", "orders", 1, ("second",))
        terminal.until(f"{MARKED}shipping")
        zk_chaos_server.cut(refuse=True)
        terminal.until("not read; below is the reading before")  # a request under way has other words
        terminal.until("no connection to ZooKeeper")
        terminal.until("shipping")
        zk_chaos_server.heal()
        groups.living("returns", "orders", 1, ("third",))
        terminal.until(f"{MARKED}returns")
        terminal.process.send_signal(signal.SIGINT)
        code, seen = terminal.finish()

    assert HIDDEN in first
    assert MARKED not in first
    assert (code, seen.rstrip()[-len(SHOWN) :]) == (0, SHOWN)


def test_a_pipe_gets_a_document_for_each_reading(shell: Shell, groups: ServerGroups) -> None:
    """On one session; SIGTERM ends it with 0 as well."""
    groups.topic("orders", 1)

    with shell.piped("group", "list", *OFTEN) as watching:
        eventually(lambda: watching.printed.count("\n"), lambda count: count > 1)
        groups.living("billing", "orders", 1, ("first",))
        eventually(lambda: "billing" in watching.printed)
        watching.send(signal.SIGTERM)
        code, out, _ = watching.finish()

    documents = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert documents[0]["groups"] == []
    assert [row["group"] for row in documents[-1]["groups"]] == ["billing"]
    assert {one["schema"] for one in documents} == {"zkgroup.groups/1"}
