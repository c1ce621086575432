"""What clients send neither forges lines of the log nor fills it."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from zkgroup.runtime.logs import LINES_MAX, PERIOD_S, PeerFilter, get_logger, limited

FORGED = "x\n00:00:00 controller FORGED \x1b[31m\u202e\x85"
SHOWN = r"x\n00:00:00 controller FORGED \x1b[31m\u202e\x85"


@pytest.fixture(name="lines")
def _lines() -> Iterator[io.StringIO]:
    """The lines of the logger `zkgroup.broker.test`, as a handler of a user writes them."""
    written = io.StringIO()
    log, handler = get_logger("zkgroup.broker.test"), logging.StreamHandler(written)
    log.addHandler(handler)
    log.propagate = False
    yield written
    log.removeHandler(handler)
    log.filters.clear()


def test_text_of_clients_is_escaped_in_messages_and_tracebacks(lines: io.StringIO) -> None:
    """Control characters, line ends and bidirectional marks; a line of a traceback is indented."""
    log = logging.getLogger("zkgroup.broker.test")
    log.warning("topic %s", FORGED)
    assert lines.getvalue() == f"topic {SHOWN}\n"
    try:
        raise ValueError(FORGED)
    except ValueError:
        log.exception("failed")
    assert "\x1b" not in lines.getvalue()
    forged = next(line for line in lines.getvalue().splitlines() if "FORGED" in line and "topic" not in line)
    assert forged.startswith("  ")


def test_a_long_text_is_shortened(lines: io.StringIO) -> None:
    """A name may have 32,767 bytes."""
    logging.getLogger("zkgroup.broker.test").warning("%s", "n" * 32_767)
    assert len(lines.getvalue()) < 5_000
    assert "characters)..." in lines.getvalue()


def test_lines_of_one_kind_have_a_bounded_rate_and_are_counted() -> None:
    """Another kind, and lines that no client causes, are not held back by them."""
    one = PeerFilter()

    def passed(at_s: float, message: str = "closed: %s", kind: str | None = "") -> str | None:
        record = logging.LogRecord("zkgroup.broker", logging.WARNING, "f", 1, message, ("x",), None)
        record.created = at_s
        if kind is not None:
            record.__dict__.update(limited(kind))
        return record.getMessage() if one.filter(record) else None

    assert [passed(float(number)) for number in range(LINES_MAX)] == ["closed: x"] * LINES_MAX
    assert [passed(30.0) for _ in range(5)] == [None] * 5
    assert passed(30.0, "cut off: %s") == "cut off: x"
    assert passed(30.0, kind="other") == "closed: x"
    assert [passed(30.0, kind=None) for _ in range(2 * LINES_MAX)] == ["closed: x"] * 2 * LINES_MAX
    assert passed(PERIOD_S) == "closed: x (5 more lines like this one were left out)"
    assert passed(PERIOD_S) == "closed: x"
