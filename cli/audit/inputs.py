"""Where a command of `zkgroup audit` looks, by its options."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from zkgroup.audit.live import walk
from zkgroup.audit.manifest import is_converted
from zkgroup.audit.sources import OneTree, Source, open_source, told_of
from zkgroup.errors import NotFoundError, NotZooKeeperFileError
from zkgroup.zkfiles.exports import is_export
from zkgroup.zkfiles.names import list_files

from ..connection import connected, target
from ..frame import Command, shared
from ..output import say
from .progress import Progress, progress

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class Inputs:
    """What was asked to be looked at."""

    texts: tuple[str, ...]
    """As they were typed: with Spark also URIs."""
    chroot: str
    ensemble: str | None = None
    """Which one, of Parquet that has several."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """As paths of this machine."""
        return tuple(map(Path, self.texts))

    def require_living(self) -> None:
        """Raises UsageError for options that are for files only."""
        if self.chroot:
            raise click.UsageError(
                "--chroot is for --input; of a living ensemble it stands behind the servers of -z"
            )
        if self.ensemble is not None:
            raise click.UsageError("--ensemble is for --input; a living one is that of -z")

    def require_outside(self, file: Path) -> None:
        """Raises UsageError for a file among those that are read: evidence stays as it is."""
        for path in self.paths:
            if not path.is_dir():
                continue
            folder = path if is_converted(path) else list_files(path).folder
            if folder.resolve() == file.parent.resolve():
                raise click.UsageError(f"{file} would lie among the files that are read: name another folder")


class InputCommand(Command):
    """A command whose `--input` takes several folders at once: `--input ONE TWO THREE`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, inputs_apart(args))


def command() -> Callable[[Callable[..., Any]], InputCommand]:
    """Decorator: a command that takes `input_options`."""
    return click.command(cls=InputCommand)


def inputs_apart(args: Sequence[str]) -> list[str]:
    """Each input with an `--input` of its own, as click wants them.

    What follows the first one is another input where it is one: a folder of a server, an export, or Parquet.
    """
    found: list[str] = []
    is_next = is_value = False
    for number, word in enumerate(args):
        if word == "--":
            return [*found, *args[number:]]
        if is_next and not word.startswith("-") and _is_input(Path(word)):
            found += ["--input", word]
            continue
        found.append(word)
        is_next = is_value or word.startswith("--input=")
        is_value = word == "--input" and not is_value
    return found


def _is_input(path: Path) -> bool:
    try:
        return is_export(path) or is_converted(path) or bool(list_files(path))
    except NotZooKeeperFileError:
        return False


def input_options(*, more: bool, converted: bool) -> Decorator:
    """`--input DIR...`, `--chroot` and `--ensemble`, as one argument `inputs`.

    `more`: arguments are inputs too, for commands that have none of their own. `converted`: Parquet of
    `audit run` is enough.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        def gathered(*args: Any, texts: Sequence[str], chroot: str, **values: Any) -> Any:
            inputs = Inputs((*texts, *values.pop("further", ())), chroot, values.pop("ensemble", None))
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
        also = "one export, or one folder that `audit run` wrote" if converted else "one export"
        decorated = click.option(
            "--input",
            "texts",
            multiple=True,
            type=click.Path(),
            metavar="DIR...",
            help="Folders of the servers of one ensemble, each a version-2 or the one above it; or "
            f"{also}. Without it the living ensemble is read.",
        )(decorated)
        if converted:
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
def opened(inputs: Inputs) -> Iterator[tuple[Source, Progress]]:
    """What the questions are asked of; what is to be known of it is told on stderr when the block ends."""
    with progress() as tell:
        if inputs.texts:
            if shared().zookeeper is not None:
                raise click.UsageError("--input and -z exclude each other: files or the living ensemble")
            source = open_source(inputs.paths, inputs.chroot, tell, ensemble=inputs.ensemble)
        else:
            source = _living(inputs, tell)
        try:
            yield source, tell
        except NotFoundError:  # what was asked for may be in what could not be read
            tell_of(source.notes(), source.damages())
            raise
    tell_of(source.notes(), source.damages())


def tell_of(notes: Sequence[str], damages: Sequence[str]) -> None:
    """What is to be known of an input, on stderr."""
    for text in notes:
        say(f"note: {text}")
    for text in damages:
        say(f"damaged: {text}")


def _living(inputs: Inputs, tell: Progress) -> Source:
    inputs.require_living()
    try:
        target(shared())
    except click.UsageError as error:
        raise click.UsageError(f"name folders with --input, or a living ensemble: {error.message}") from None
    with connected() as ensemble:
        tree = walk(ensemble.zk, progress=tell)
        now_ms = ensemble.clock.wall_ms()
    return OneTree(
        znodes=lambda: (znode.stored() for znode in tree.znodes),
        zxid=tree.zxid_before,
        time_ms=now_ms,
        is_exact=not tree.changed and not tree.unreadable,
        detail=told_of(tree.changed, tree.unreadable, tree.zxid_after),
    )
