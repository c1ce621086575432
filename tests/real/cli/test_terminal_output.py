"""What depends on whether stdout is a terminal: colour, width, and how JSON is written."""

from __future__ import annotations

import io
import os

import pytest
from zkgroup_cli import render

from tests.worlds.server_groups import ServerGroups
from tests.worlds.shell import Shell


class Terminal(io.StringIO):
    """A stdout that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "color"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_colour_is_for_terminals_without_no_color(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], color: bool
) -> None:
    """NO_COLOR and dumb terminals get none."""
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with monkeypatch.context() as patch:  # pytest itself asks for the terminal's size after the test
        patch.setattr("sys.stdout", Terminal())
        patch.setattr("shutil.get_terminal_size", lambda *_, **__: os.terminal_size((72, 20)))

        out = render.Output.of_this_process("table")

    assert (out.color, out.width) == (color, 72)


@pytest.mark.parametrize(("terminal", "lines"), [(True, 3), (False, 1)])
def test_json_is_indented_for_eyes_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminal: bool, lines: int
) -> None:
    """A program gets one line: the encoder that indents takes several times as long."""
    with monkeypatch.context() as patch:
        if terminal:
            patch.setattr("sys.stdout", Terminal())
        out = render.Output.of_this_process("json")

    out.document({"schema": "zkgroup.test/1"})

    assert capsys.readouterr().out.count("\n") == lines


def test_a_pipe_gets_no_colour_and_no_cut(shell: Shell, groups: ServerGroups) -> None:
    """Whole ids on one line each, whatever the width of some terminal."""
    groups.topic("orders", 1)
    name = "a" * 150
    groups.living("billing", "orders", 1, (name,))

    ran = shell.run("group", "describe", "billing")

    assert f"billing_{name}-0" in ran.out
    assert "\x1b" not in ran.out


def test_tables_fit_the_terminal(shell: Shell, groups: ServerGroups) -> None:
    """No line is longer than the width asked for."""
    groups.topic("orders", 2)
    groups.living("billing", "orders", 2, ("host-1.example.com-1396019241689-631e0040",))

    for width in (80, 200):
        for words in (["describe"], ["verify"], ["preview"]):
            ran = shell.run("group", *words, "billing", env={"COLUMNS": str(width)})

            assert max(map(len, ran.lines)) <= width
