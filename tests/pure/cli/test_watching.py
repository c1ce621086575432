"""`--watch`: what counts as changed, what a pipe gets, and which errors end it."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import nullcontext

import click
import pytest
from click.testing import CliRunner, Result
from zkgroup_cli import watching
from zkgroup_cli.app import Group, command, output, with_pause
from zkgroup_cli.schemas import EVENTS

from tests.worlds.processes import violations
from tests.worlds.shell import logs_as_before
from zkgroup.errors import ConfigError, NotFoundError, PartlyDoneError, StoreUnavailableError, ZkGroupError

BEFORE = (
    "billing  stable  2 members  zxid 0x22\n\nTOPIC  P  OWNER  OWNED\norders  0  a-0  59s\norders  1  b-0  5s"
)


@pytest.mark.parametrize(
    ("after", "marked"),
    [
        (BEFORE.replace("59s", "1m00s").replace("5s", "6s").replace("0x22", "0x31"), []),
        (BEFORE.replace("b-0", "a-0 "), ["a-0"]),
        (BEFORE.replace("stable  2", "rebalancing  3"), ["rebalancing", "3"]),
        (BEFORE + "\norders  2  c-0  0s", ["orders", "2", "c-0", "0s"]),
        (BEFORE.replace("orders  0  a-0  59s\n", ""), []),
        (BEFORE.replace("orders  0  a-0  59s\norders  1  b-0", "orders  1  c-0"), ["c-0"]),
    ],
)
def test_words_that_differ_are_marked(after: str, marked: list[str]) -> None:
    """Ages and the zxid of a reading differ always, and lines are found again where others come and go."""
    assert [after[start:end] for start, end in watching.changes(BEFORE, after)] == marked


@pytest.mark.parametrize(
    ("typed", "understood"),
    [
        ("describe --watch billing", "describe --watch=2s billing"),
        ("describe billing --watch", "describe billing --watch=2s"),
        ("describe --watch 500ms billing", "describe --watch 500ms billing"),
        ("describe --watch 5 billing", "describe --watch 5 billing"),
        ("describe -- --watch billing", "describe -- --watch billing"),
    ],
)
def test_the_pause_may_be_left_out(typed: str, understood: str) -> None:
    """A name that follows is no pause; a number without a unit is refused as one."""
    assert with_pause(typed.split()) == understood.split()


class Watching:
    """A command with `--watch` whose readings print a document or fail, one after the other, then Ctrl-C."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pauses: list[float] = []
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(watching, "keeping_connection", nullcontext)
        monkeypatch.setattr(watching, "connected", nullcontext)

    def run(
        self, *readings: ZkGroupError | str | None, arguments: tuple[str, ...] = (), terminal: bool = False
    ) -> Result:
        """A text is printed as it is. On a terminal a warning is logged in each pause."""
        left: Iterator[ZkGroupError | str | None] = iter(readings)

        def pause(seconds: float) -> None:
            self.pauses.append(seconds)
            if terminal:
                logging.getLogger("zkgroup.test").warning("dropped %d", len(self.pauses))
            if len(self.pauses) == len(readings):
                raise KeyboardInterrupt

        @command("read")
        def read() -> None:
            if terminal:
                self._monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
            watching.watch(lambda: self._read(next(left)), 3000, pause)

        with logs_as_before():
            return CliRunner().invoke(_root(read), ["read", *arguments])

    @staticmethod
    def _read(error: ZkGroupError | str | None) -> None:
        if isinstance(error, str):
            click.echo(error, nl=False)
            return
        if error is None or isinstance(error, PartlyDoneError):
            output().document({"schema": "zkgroup.test/1", "rows": [1, 2]}, "rows")
            click.echo("note: as before", err=True)
        if error is not None:
            raise error


def _root(one: click.Command) -> Group:
    from zkgroup_cli.app import Root

    root = Root("zkgroup", help="A test.")
    root.add_command(one)
    return root


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watching:
    return Watching(monkeypatch)


def test_a_pipe_gets_one_line_for_each_reading(watched: Watching) -> None:
    """Whole documents; a note that stays is printed once, what failed is an event; Ctrl-C ends with 0."""
    result = watched.run(None, StoreUnavailableError("away"), NotFoundError("gone"), PartlyDoneError("half"))

    lines = [json.loads(line) for line in result.stdout.splitlines()]
    document = {"schema": "zkgroup.test/1", "rows": [1, 2]}
    details = [line.get("detail") for line in lines]
    assert (details, lines[0], lines[3]) == ([None, "away", "gone", None, "half"], document, document)
    for event in (lines[1], lines[2], lines[4]):
        assert violations(event, EVENTS["read_failed"]) == []
    assert (result.exit_code, watched.pauses) == (0, [3.0] * 4)
    assert result.stderr == "note: as before\n" * 2  # the second after a reading without it


def test_a_warning_between_readings_is_a_note_of_the_next(watched: Watching) -> None:
    """Printed beside the picture, it would leave lines of the former one; what nobody has seen comes last."""
    result = watched.run(None, StoreUnavailableError("away"), terminal=True)

    warning = "WARNING zkgroup.test: dropped"
    assert (result.exit_code, result.stderr) == (0, f"{warning} 2\n")
    first, _, second = result.stdout.partition("not read; below is the reading before: away")
    assert (warning in first, f"{warning} 1" in second) == (False, True)


def test_a_reading_of_nothing_takes_the_place_of_the_former_one(watched: Watching) -> None:
    """Past bug: `topic describe --under-replicated-partitions` went on to show those that were in sync
    again."""
    result = watched.run("orders 3\n", "", terminal=True)

    assert result.stdout.count("read at ") == result.stdout.count("orders 3") + 2 == 3
    assert "below is the reading before" not in result.stdout


@pytest.mark.parametrize(
    ("readings", "code"),
    [
        ((StoreUnavailableError("away"),), 7),
        ((NotFoundError("no such group"),), 5),
        ((None, ConfigError("wrong")), ConfigError.exit_code),
    ],
)
def test_errors_that_end_it(watched: Watching, readings: tuple[ZkGroupError | None, ...], code: int) -> None:
    """The first reading shows whether the command is right; some errors would come again each time."""
    result = watched.run(*readings)

    assert (result.exit_code, str(readings[-1]) in result.stderr) == (code, True)


def test_json_and_csv_are_not_for_a_watch(watched: Watching) -> None:
    """Their documents have no end that a program could find."""
    result = watched.run(None, arguments=("--format", "json"))

    assert (result.exit_code, "found --format json" in result.stderr) == (2, True)
