"""The line that says how far a long command is."""

from __future__ import annotations

import pytest
from zkgroup_cli.audit.progress import EVERY_S, FIRST_AFTER_S, progress


class Terminal:
    """A stream that says it is a terminal, and keeps what it is given."""

    def __init__(self) -> None:
        self.written = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.written += text
        return len(text)

    def flush(self) -> None:
        pass


def _told(monkeypatch: pytest.MonkeyPatch, *, out: object, err: Terminal) -> str:
    """What stderr gets of work that tells something five times in three seconds."""
    now_s = 0.0
    monkeypatch.setattr("sys.stderr", err)
    monkeypatch.setattr("sys.stdout", out)
    with progress(lambda: now_s) as tell:
        for second in (0.1, 1.0, 1.0 + EVERY_S / 2, 3.0):
            now_s = second
            tell("reading transactions", int(second * 1000))
        tell("reading")
    return err.written


def test_it_is_written_over_seldom_and_wiped_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing for what is fast; not more often than eyes can follow."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert 0.1 < FIRST_AFTER_S < 1.0

    told = _told(monkeypatch, out=Terminal(), err=Terminal())

    last = "reading transactions 3,000"
    assert told == f"\rreading transactions 1,000\r{last}\r{' ' * len(last)}\r"


def test_only_a_person_at_a_terminal_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither where data go into a file nor under NO_COLOR."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    with capsys.disabled(), open("/dev/null", "w") as file:  # noqa: PTH123 - a stream that is no terminal
        assert _told(monkeypatch, out=file, err=Terminal()) == ""
    monkeypatch.setenv("NO_COLOR", "1")
    assert _told(monkeypatch, out=Terminal(), err=Terminal()) == ""


def test_it_is_wiped_when_the_work_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The word of the interruption stands on a clean line."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    err = Terminal()
    monkeypatch.setattr("sys.stderr", err)
    monkeypatch.setattr("sys.stdout", Terminal())
    now_s = 0.0

    def work() -> None:
        nonlocal now_s
        with progress(lambda: now_s) as tell:
            now_s = 1.0
            tell("reading")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()

    assert err.written == "\rreading\r       \r"
