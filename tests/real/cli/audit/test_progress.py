"""The line that says how far a long command is."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout

import pytest
from zkgroup_cli.commands.audit.inputs import EVERY_S, FIRST_AFTER_S, progress, progress_text


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def _written(*, out: io.StringIO) -> str:
    """What a terminal as stderr gets of work that reports progress five times in three seconds."""
    now_s = 0.0
    with redirect_stderr(Terminal()) as err, redirect_stdout(out), progress(lambda: now_s) as report:
        for second in (0.1, 1.0, 1.0 + EVERY_S / 2, 3.0):
            now_s = second
            report("reading transactions", int(second * 1000))
        report("searching")
    return err.getvalue()


def test_it_is_written_over_seldom_and_wiped_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing for what is fast; at most five times a second, and each new step, which may say no more."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert 0.1 < FIRST_AFTER_S < 1.0

    message = _written(out=Terminal())

    last = "reading transactions 3,000, 1,034/s"
    searching = f"{'searching':<{len(last)}}\r{' ' * len('searching')}"
    assert message == f"\rreading transactions 1,000\r{last}\r{searching}\r"


def test_it_has_rate_and_time_left_once_they_are_known() -> None:
    """Not in the first second, nor for what counts nothing."""
    assert progress_text("reading", None, None, 9.0) == "reading"
    assert progress_text("reading", 500, 4_000, 0.5) == "reading 500"
    assert progress_text("reading", 2_000, None, 4.0) == "reading 2,000, 500/s"
    assert progress_text("reading", 2_000, 62_000, 4.0) == "reading 2,000, 500/s, about 2m left"
    assert progress_text("reading", 2_000, 2_000, 4.0) == "reading 2,000, 500/s"


def test_progress_is_shown_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither where data go into a file nor under NO_COLOR."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert _written(out=io.StringIO()) == ""
    monkeypatch.setenv("NO_COLOR", "1")
    assert _written(out=Terminal()) == ""


def test_it_is_wiped_when_the_work_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The word of the interruption stands on a clean line."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    now_s = 0.0

    def work() -> None:
        nonlocal now_s
        with progress(lambda: now_s) as report:
            now_s = 1.0
            report("reading")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), redirect_stderr(Terminal()) as err, redirect_stdout(Terminal()):
        work()

    assert err.getvalue() == "\rreading\r       \r"
