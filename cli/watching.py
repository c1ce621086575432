"""`--watch [DURATION]`: a command that reads runs again and again, and what it prints is shown in place.

A reading is everything that one run of the command prints. On a terminal the new reading takes the place of
the former one, and the words that differ are marked; elsewhere, and with `--format ndjson`, each is one line.
The connection is kept between readings, and opened anew once ZooKeeper could not be reached.
"""

from __future__ import annotations

import io
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import wraps
from typing import Any, Protocol

import click

from zkgroup.errors import (
    AuthenticationError,
    BrokerAuthenticationError,
    ConfigError,
    PartlyDoneError,
    ZkGroupError,
)
from zkgroup.model.text import iso_time

from .app import logs_into, output, shared, taken_refusal
from .context import connected, keeping_connection
from .param_types import SOME_TIME
from .render import message_text
from .schema import JsonEvent, NamedKeys

READ_FAILED = JsonEvent("read_failed", NamedKeys(detail=str))
"""`--watch`: one reading failed, or is not whole; the next one comes."""

_ENDING = (ConfigError, AuthenticationError, BrokerAuthenticationError)
"""Errors that the next reading would have too."""

_PASSING = re.compile(r"\bzxid 0x[0-9a-f]+|\b(?:\d+h\d\dm|\d+m\d\ds|\d+[sd]|\d+\.\d s)\b")
"""Text that differs in every reading: the moment of the reading, ages, and the time to a deadline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one run of the command has printed."""

    time_ms: int
    """When it began, in epoch milliseconds."""
    text: str
    """Its data, coloured; empty where it failed."""
    notes: str
    """Its messages."""
    failure: str | None = None
    """Why it failed or is not whole."""


class ReadingView(Protocol):
    """Where readings are shown."""

    def show(self, reading: Reading) -> None: ...


def watch_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--watch [DURATION]` of a command that reads: runs it again and again until Ctrl-C."""

    @wraps(function)
    def watched(*args: Any, watch_ms: int | None, **values: Any) -> Any:
        if watch_ms is None:
            return function(*args, **values)
        return watch(lambda: function(*args, **values), watch_ms)

    return click.option(
        "--watch",
        "watch_ms",
        type=SOME_TIME,
        metavar="[DURATION]",
        help="Read again and again, with this pause (2s unless given), until Ctrl-C. A terminal marks the "
        "changes; a pipe gets a line of JSON for each reading.",
    )(watched)


def watch(read: Callable[[], object], pause_ms: int, pause: Callable[[float], object] = time.sleep) -> None:
    """Shows what `read` prints, again and again until SIGINT or SIGTERM, after which it returns.

    Raises the error of the first reading, and of any that the next one would have too. All others are shown.
    """
    options = shared()
    as_lines = options.format == "ndjson" or not sys.stdout.isatty()
    if options.format not in (None, "ndjson") and (as_lines or options.format != "table"):
        raise click.UsageError(
            f"--watch prints a table on a terminal, ndjson elsewhere; found --format {options.format}"
        )
    options.format, options.whole_documents = ("ndjson" if as_lines else "table"), as_lines
    with suppress(KeyboardInterrupt), _terminable(), keeping_connection(), ExitStack() as stack:
        with connected():
            pass  # so that the wait for it is said before the screen is taken
        view: ReadingView = _JsonLines() if as_lines else stack.enter_context(_screen(pause_ms))
        has_read = False
        while True:
            _read_once(read, view, has_read=has_read)
            has_read = True
            pause(pause_ms / 1000)


def _read_once(read: Callable[[], object], view: ReadingView, *, has_read: bool) -> None:
    begun_ms, text, notes = time.time_ns() // 1_000_000, _Captured(sys.stdout.isatty()), io.StringIO()
    failure: ZkGroupError | None = None
    leaving: click.exceptions.Exit | None = None
    try:
        with redirect_stdout(text), redirect_stderr(notes), logs_into(notes):
            try:
                read()
            except click.exceptions.Exit as error:
                leaving = error
            failure = taken_refusal()
    except ZkGroupError as error:
        if isinstance(error, _ENDING) or not (has_read or isinstance(error, PartlyDoneError)):
            click.echo(notes.getvalue(), err=True, nl=False)
            raise
        failure = taken_refusal() or error
    why = None if failure is None else str(failure)
    view.show(Reading(time_ms=begun_ms, text=text.getvalue(), notes=notes.getvalue(), failure=why))
    if leaving is not None:
        raise leaving


class _Captured(io.StringIO):
    """Takes what is printed, for a stdout that is a terminal or is none."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@contextmanager
def _terminable() -> Iterator[None]:
    """While the block runs, SIGTERM ends it as SIGINT does: the cursor comes back, the session is closed."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


class _JsonLines:
    """One line of JSON for each reading; messages to stderr where they are not those of the former one."""

    def __init__(self) -> None:
        self._notes = ""

    def show(self, reading: Reading) -> None:
        """Raises BrokenPipeError, so that the command ends with its reader."""
        click.echo(reading.text, nl=False)
        if reading.failure is not None:
            output().event(READ_FAILED.json({"detail": reading.failure}, iso_time(reading.time_ms)))
        sys.stdout.flush()
        if reading.notes != self._notes:
            click.echo(reading.notes, err=True, nl=False)
        self._notes = reading.notes


@contextmanager
def _screen(pause_ms: int) -> Iterator[ReadingView]:
    """A part of the terminal, redrawn in place; the last reading stays, whole, when the block ends.

    The log of the time between readings is a note of the next one: a line of its own would move the cursor.
    """
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False, markup=False, emoji=False)
    live = Live(
        console=console,
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
        vertical_overflow="ellipsis",
    )
    screen = _Screen(live, pause_ms)
    try:
        with logs_into(screen.between), live:
            yield screen
    finally:
        click.echo(screen.new_notes(), err=True, nl=False)


class _Screen:
    def __init__(self, live: Any, pause_ms: int) -> None:
        self.between = io.StringIO()
        self._shown = 0
        self._live = live
        self._pause = f"{pause_ms / 1000:g}s"
        self._good: Reading | None = None
        self._plain: str | None = None

    def new_notes(self) -> str:
        """What is in `between` since the last call."""
        new = self.between.getvalue()[self._shown :]
        self._shown += len(new)
        return new

    def show(self, reading: Reading) -> None:
        from rich.text import Text

        is_read = bool(reading.text) or reading.failure is None  # what there is to show may be nothing
        good = reading if is_read or self._good is None else self._good
        head = Text(f"every {self._pause}, read at {_clock(good)}; Ctrl-C ends", "dim")
        if reading.failure is not None:
            what = "not whole" if good is reading else "not read; below is the reading before"
            head.append(f"\n{_clock(reading)} {what}: {message_text(reading.failure)}", "not dim bold red")
        body = Text.from_ansi(good.text.rstrip("\n"))
        if self._plain is not None and good is reading:
            for start, end in changes(self._plain, body.plain):
                body.stylize("reverse", start, end)
        self._good, self._plain = good, body.plain
        parts = [head, Text(), body]
        if notes := self.new_notes() + reading.notes:
            parts.append(Text(notes.rstrip("\n"), "dim"))
        self._live.update(Text("\n").join(parts), refresh=True)


def _clock(reading: Reading) -> str:
    return time.strftime("%H:%M:%S", time.localtime(reading.time_ms / 1000))


@dataclass(frozen=True, slots=True)
class _Line:
    """A line as words, without spaces and passing text."""

    words: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    """Where each is in the whole text."""


def changes(before: str, after: str) -> Iterator[tuple[int, int]]:
    """Yields where in `after` the words are that differ from `before`: begin and end.

    Ages and other text that differs in every reading count as equal, spaces as nothing. A line that has
    changed is compared with the former one that has its first two words, else with the one at its place.
    """
    old, new = _lines(before), _lines(after)
    matcher = SequenceMatcher(
        None, [line.words for line in old], [line.words for line in new], autojunk=False
    )
    for tag, old_start, old_end, start, end in matcher.get_opcodes():
        if tag in ("replace", "insert"):
            yield from _changes_of_lines(old[old_start:old_end], new[start:end])


def _changes_of_lines(old: Sequence[_Line], new: Sequence[_Line]) -> Iterator[tuple[int, int]]:
    named = {line.words[:2]: line.words for line in old}
    for place, line in enumerate(new):
        former = named.get(line.words[:2])
        if former is None:
            former = old[place].words if len(old) == len(new) else ()
        for tag, _, _, start, end in SequenceMatcher(None, former, line.words, autojunk=False).get_opcodes():
            if tag in ("replace", "insert"):
                yield from line.spans[start:end]


def _lines(text: str) -> list[_Line]:
    found, start = [], 0
    for line in text.split("\n"):
        shown = _PASSING.sub(lambda match: "\0" * len(match[0]), line)
        words = [(match[0], match.span()) for match in re.finditer(r"\S+", shown)]
        found.append(
            _Line(
                tuple(re.sub("\0+", "\0", word) for word, _ in words),
                tuple((start + first, start + last) for _, (first, last) in words),
            )
        )
        start += len(line) + 1
    return found
