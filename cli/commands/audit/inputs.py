"""Options and inputs of the commands of `zkgroup audit`: sources, moments, spans, progress."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from zkgroup.audit.inputs.found_files import FoundFiles, SnapshotFile, folder_content
from zkgroup.audit.inputs.manifest import Folder, OutputFolder, is_converted
from zkgroup.audit.inputs.opening import open_source, path_of, require_source
from zkgroup.audit.inputs.source import (
    PointInTime,
    Progress,
    Source,
    require_columns,
    without_collector,
)
from zkgroup.errors import NotFoundError, NotZooKeeperFileError
from zkgroup.model import TopicPartition
from zkgroup.model.text import escaped
from zkgroup.zkfiles.tree import Tree

from ...app import Command, shared
from ...context import connected, target
from ...param_types import Parsed, topic_and_partitions
from ...render import echo_err
from ...units import parse_time_ms, time_left

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class Inputs:
    """The sources that a command reads."""

    texts: tuple[str, ...]
    """As typed: with Spark also URIs."""
    chroot: str
    ensemble: str | None = None
    """The ensemble to read, of Parquet that has several."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """As paths of this machine."""
        return tuple(map(path_of, self.texts))

    def require_live(self) -> None:
        """Raises UsageError for options that are for files only."""
        if self.chroot:
            raise click.UsageError(
                "--chroot is for --input; for a live ensemble it follows the servers in -z"
            )
        if self.ensemble is not None:
            raise click.UsageError("--ensemble is for --input; a live one is that of -z")

    def require_trees(self) -> None:
        """Raises UsageError for what holds no trees, however many ensembles it has."""
        for path in filter(is_converted, self.paths):
            if not any(each.series for each in OutputFolder(Folder(str(path))).ensembles.values()):
                raise click.UsageError(
                    f"{path} is Parquet of `audit run`, which holds operations and no trees: name the "
                    "folders of servers with --input"
                )

    def require_outside(self, file: Path) -> None:
        """Raises UsageError for a file among those that are read: evidence stays as it is."""
        for path in self.paths:
            if not path.is_dir():
                continue
            folders = {path} if is_converted(path) else {each.parent for each in folder_content(path).kinds}
            if file.parent.resolve() in {each.resolve() for each in folders}:
                raise click.UsageError(f"{file} would lie among the files that are read: name another folder")


class InputCommand(Command):
    """A command whose `--input` takes several files and folders at once: `--input ONE TWO THREE`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            try:
                return super().parse_args(ctx, inputs_apart(args))
            except click.MissingParameter:  # where to write there may be an export
                ctx.params.clear()
                return super().parse_args(ctx, inputs_apart(args, but_last=True))
        except click.UsageError as error:
            folder = _unnamed_input(args) if self._is_of_its_arguments(error) else None
            if folder is None:
                raise
            message = error.format_message().rstrip(".")
            raise click.UsageError(f"{message}; name what is read with --input {folder}", ctx) from None

    def _is_of_its_arguments(self, error: click.UsageError) -> bool:
        """Returns whether too many arguments, too few or a wrong one can be an input without its option."""
        if any(parameter.name == "further" for parameter in self.params):
            return False
        parameter = error.param if isinstance(error, click.BadParameter) else None
        return isinstance(parameter, click.Argument) or "extra argument" in error.message


def command() -> Callable[[Callable[..., Any]], InputCommand]:
    """Decorator: a command that takes `input_options`."""
    return click.command(cls=InputCommand)


def inputs_apart(args: Sequence[str], *, but_last: bool = False) -> list[str]:
    """Each input with an `--input` of its own, as click wants them.

    Words behind the first one are inputs too, where they are no Parquet, which is read alone. `but_last`: the
    last of them is none, but where to write.
    """
    found: list[str] = []
    last = None
    is_next = is_value = False
    for number, word in enumerate(args):
        if word == "--":
            found += args[number:]
            break
        if is_next and not word.startswith("-") and not is_converted(path_of(word)) and _is_input(word):
            last = len(found)
            found += ["--input", word]
            continue
        found.append(word)
        is_next = is_value or word.startswith("--input=")
        is_value = word == "--input" and not is_value
    return [*found[:last], *found[last + 1 :]] if but_last and last is not None else found


def _unnamed_input(args: Sequence[str]) -> str | None:
    """The first word that is an input without an `--input` before it."""
    words = inputs_apart(args)
    pairs = zip([None, *words], words, strict=False)
    return next((word for before, word in pairs if before != "--input" and _is_input(word)), None)


def _is_input(word: str) -> bool:
    try:
        require_source(path_of(word))
    except NotZooKeeperFileError:
        return False
    return True


def input_options(*, more: bool, needs_trees: bool = False, needs_past: bool = False) -> Decorator:
    """`--input DIR...`, `--chroot` and `--ensemble`, as one argument `inputs`.

    `more`: arguments are inputs too, for commands that have none of their own. `needs_trees`: Parquet of
    logs is not enough. `needs_past`: an export or a live ensemble is not.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        def gathered(*args: Any, texts: Sequence[str], chroot: str, **values: Any) -> Any:
            inputs = Inputs((*texts, *values.pop("further", ())), chroot, values.pop("ensemble", None))
            if needs_trees:
                inputs.require_trees()
            return function(*args, inputs=inputs, **values)

        gathered.__doc__, gathered.__name__ = function.__doc__, function.__name__
        gathered.__dict__.update(function.__dict__)
        decorated = click.option(
            "--chroot",
            default="",
            callback=chroot_given,
            metavar="PATH",
            help="With --input: the path that clients have as their root, as behind the servers of -z.",
        )(gathered)
        text = (
            "Folders of the servers of one ensemble, each a version-2 or the one above it; its exports and "
            "snapshots, or folders of them"
        )
        text += "; or one folder that `audit run` wrote" + (" for such" if needs_trees else "")
        text += "" if needs_past else ". Without it the live ensemble is read"
        decorated = click.option(
            "--input",
            "texts",
            multiple=True,
            type=click.Path(),
            metavar="DIR...",
            help=f"{text}.",
        )(decorated)
        decorated = click.option(
            "--ensemble",
            metavar="NAME",
            help="With a folder that `audit run` wrote for several ensembles: which one.",
        )(decorated)
        if more:
            further = click.argument("further", metavar="[DIR...]", nargs=-1, type=click.Path())
            decorated = further(decorated)
        return decorated

    return decorate


def chroot_given(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """The path of `--chroot` without a slash at its end. Raises BadParameter for no path."""
    if value in ("", "/"):
        return ""
    if not value.startswith("/") or "//" in value:
        raise click.BadParameter(f"{value!r}: expected an absolute path such as /kafka", ctx, parameter)
    return value.rstrip("/")


@contextmanager
def opened(inputs: Inputs, *, in_columns: bool = True) -> Iterator[tuple[Source, Progress]]:
    """The opened source; its notes and damages are printed on stderr when the block ends.

    Raises ConfigError where numpy or pyarrow is not installed, unless `in_columns` is False.
    """
    if in_columns:
        require_columns()
    with without_collector(), progress() as report:
        if inputs.texts:
            if shared().zookeeper is not None:
                raise click.UsageError("--input and -z exclude each other: files or the live ensemble")
            source = open_source(inputs.paths, inputs.chroot, report, ensemble=inputs.ensemble)
        else:
            source = _live(inputs, report)
        try:
            yield source, report
        except NotFoundError:  # it may be in what could not be read
            echo_notes(source.notes(), source.damages())
            raise
    echo_notes(source.notes(), source.damages())


def echo_notes(notes: Sequence[str], damages: Sequence[str]) -> None:
    """Prints the notes and damages of an input on stderr."""
    for text in notes:
        echo_err(f"note: {text}")
    for text in damages:
        echo_err(f"damaged: {text}")


def _live(inputs: Inputs, report: Progress) -> Source:
    inputs.require_live()
    try:
        asked = target(shared())
    except click.UsageError as error:
        raise click.UsageError(f"name folders with --input, or a live ensemble: {error.message}") from None
    from zkgroup.audit.inputs.one_tree import of_walk, walk

    with connected() as ensemble:
        walked, found = walk(ensemble.zk, progress=report)
        header = of_walk(walked, ensemble.clock.wall_ms(), asked.zookeeper)
    from zkgroup.audit.inputs.series_source import read_series

    znodes = Tree.from_znodes((znode.stored() for znode in found), digests=False)
    path = Path(asked.zookeeper)
    one = SnapshotFile(
        header.zxid_before, path, header, lambda reader: reader.read_tree(path, header, znodes)
    )
    return read_series(FoundFiles(snapshots=[one]))


_DECIMAL = re.compile(r"[0-9]+")
_HEX = re.compile(r"0[xX][0-9a-fA-F]+")


def _moment(text: str) -> PointInTime:
    """Digits are a zxid, `0x...` is one in hex, anything else a time in ISO 8601."""
    clean = text.strip()
    zxid = None
    if _DECIMAL.fullmatch(clean):
        zxid = int(clean[:25])
    elif _HEX.fullmatch(clean):
        zxid = int(clean[:25], 16)
    if zxid is not None:
        if zxid >= 2**63:
            raise ValueError(f"{text!r} is too large for a zxid")
        return PointInTime(zxid, None)
    try:
        return PointInTime(None, parse_time_ms(clean))
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError(
            f"{text!r}: expected a zxid such as 4294967321 or 0x100000019, "
            "or a time such as 2026-01-31T14:03:00Z (without a zone it is UTC)"
        ) from error


MOMENT = Parsed("zxid|time", _moment)


def between_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--since` and `--until`, as `start` and `end`."""
    function = click.option(
        "--until",
        "--to",
        "end",
        type=MOMENT,
        metavar="ZXID|TIME",
        help="Up to this moment.  [default: the last]",
    )(function)
    return click.option(
        "--since",
        "--from",
        "start",
        type=MOMENT,
        metavar="ZXID|TIME",
        help="From this moment on.  [default: the first]",
    )(function)


def _one_partition(text: str) -> TopicPartition:
    topic, partitions = topic_and_partitions(text)
    if len(partitions) != 1:
        raise ValueError(f"{text!r}: expected TOPIC:PARTITION, for example orders:3")
    return TopicPartition(topic, partitions[0])


ONE_PARTITION = Parsed("topic:partition", _one_partition)
"""`TOPIC:PARTITION`."""


FIRST_AFTER_S = 0.5
"""Before that no line is written."""
EVERY_S = 0.2
RATE_AFTER_S = 1.0
"""Before that a rate says little."""


@contextmanager
def progress(clock: Callable[[], float] = time.monotonic) -> Iterator[Progress]:
    """A line on a terminal that is removed when the block ends. A new step is written at once."""
    wanted = sys.stderr.isatty() and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    next_s = first_s = clock() + FIRST_AFTER_S
    width = 0
    step, step_s = "", 0.0

    def show(what: str, count: int | None = None, total: int | None = None) -> None:
        nonlocal next_s, width, step, step_s
        now = clock()
        if what != step:
            step, step_s = what, now
            next_s = first_s
        if not wanted or now < next_s:
            return
        next_s = now + EVERY_S
        text = escaped(progress_text(what, count, total, now - step_s))
        click.echo(f"\r{text:<{width}}", err=True, nl=False)
        width = len(text)

    try:
        yield show
    finally:
        if width:
            click.echo(f"\r{' ' * width}\r", err=True, nl=False)


def progress_text(what: str, count: int | None, total: int | None, elapsed_s: float) -> str:
    """Returns the step under way, its progress, and once they can be known the rate and the time left."""
    if count is None:
        return what
    text = f"{what} {count:,}"
    if elapsed_s < RATE_AFTER_S or not count:
        return text
    rate = count / elapsed_s
    text += f", {rate:,.0f}/s"
    if total is not None and total > count:
        text += f", about {time_left((total - count) / rate)} left"
    return text
