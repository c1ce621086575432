"""The help texts of all commands: a short help that fits, and an example that the parser accepts."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from zkgroup_cli.app import Group, first_sentence, root

WIDTH = 78
"""What click uses of a terminal of 80 columns."""
FILES = ("lines.txt", "billing.txt", "topics.json", "moves.json")
"""That examples read; click opens some while it parses."""
ALIASES = (("zkgroup", "reassign", "plan"), ("zkgroup", "offsets", "undo"))


def _walk(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), name)
            assert found is not None
            yield from _walk(found, (*path, name))


ALL = list(_walk(root, ("zkgroup",)))
IDS = [" ".join(path) for path, _ in ALL]
GROUPS = [(path, one) for path, one in ALL if isinstance(one, Group)]


def _examples(command: click.Command) -> list[list[str]]:
    """The commands below `Example:`, as words; what a shell would do with their output is left out."""
    _, _, below = inspect.cleandoc(command.help or "").partition("\b\nExample:\n")
    lines = [line.strip() for line in below.split("\n\n")[0].splitlines()]
    return [shlex.split(line.partition(" > ")[0]) for line in lines if line]


def _parsed(words: list[str]) -> tuple[str, ...]:
    """The names of the commands that a command line goes through. Raises UsageError where it is none."""
    command: click.Command = root
    path, rest = ["zkgroup"], words[1:]
    while True:
        ctx = command.make_context(path[-1], list(rest), resilient_parsing=False)
        if not isinstance(command, click.Group):
            ctx.close()
            return tuple(path)
        name, inner, rest = command.resolve_command(ctx, [*ctx._protected_args, *ctx.args])
        assert name is not None
        assert inner is not None
        path.append(name)
        command = inner


def test_every_help_has_an_example_that_is_a_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the command itself; of a group, one of its commands. An alias has that of the command."""
    monkeypatch.chdir(tmp_path)
    for name in FILES:
        (tmp_path / name).touch()
    examples = {path: _examples(command) for path, command in ALL}

    assert [path for path, found in examples.items() if not found] == []
    for path, found in examples.items():
        for words in found:
            assert words[0] == "zkgroup", path
            assert _parsed(words)[: len(path)] == path or path[:3] in ALIASES, words


@pytest.mark.parametrize(("path", "group"), GROUPS, ids=[" ".join(path) for path, _ in GROUPS])
def test_short_helps_are_one_line_that_is_not_cut(path: tuple[str, ...], group: Group) -> None:
    """On a terminal of 80 columns; the help of a group imports nothing, so its words are compared here."""
    ctx = click.Context(group, info_name=" ".join(path), terminal_width=WIDTH, max_content_width=WIDTH)
    listed = group.get_help(ctx).split("\nCommands:\n")[1].splitlines()
    found = [(name, group.get_command(ctx, name)) for name in group.list_commands(ctx)]
    shown = [(name, command) for name, command in found if command is not None and not command.hidden]

    assert len(listed) == len(shown)
    for (name, command), line in zip(shown, listed, strict=True):
        short = line.strip().removeprefix(name).strip()
        assert short
        assert not short.endswith(("...", "…"))
        assert len(line) <= WIDTH
        assert short == first_sentence(command) or short.startswith("Same as `zkgroup ")


def test_the_old_spelling_of_plan_is_hidden_and_its_help_names_plan() -> None:
    """`reassign plan` works; the help and the completion of `reassign` leave it out."""
    reassign = _command("reassign")
    assert isinstance(reassign, Group)
    alias = _command("reassign", "plan")

    assert "plan" in reassign.list_commands(click.Context(reassign))
    assert "\n  plan " not in reassign.get_help(click.Context(reassign))
    assert [item.value for item in reassign.shell_complete(click.Context(reassign), "p")] == []
    assert alias.hidden
    assert "old spelling of `zkgroup plan`" in (alias.help or "")


@pytest.mark.parametrize("name", ["decommission", "replace", "set-rf", "balance"])
def test_commands_of_the_old_spelling_have_the_parameters_of_plan(name: str) -> None:
    """All that it has: names, options, types, defaults; and the same help."""
    alias = _command("reassign", "plan")
    old, new = _command("reassign", "plan", name), _command("plan", name)

    assert isinstance(alias, Group)
    assert name in alias.list_commands(click.Context(alias))
    assert [one.to_info_dict() for one in old.params] == [one.to_info_dict() for one in new.params]
    assert old.help == new.help


def test_the_old_spelling_has_no_other_commands() -> None:
    """Resume, pause and cancel are options there."""
    alias = _command("reassign", "plan")
    assert isinstance(alias, Group)

    assert set(alias.list_commands(click.Context(alias))) == {"decommission", "replace", "set-rf", "balance"}


def _command(*path: str) -> click.Command:
    command: click.Command = root
    for name in path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    return command


@pytest.mark.parametrize(
    ("words", "old"),
    [
        (["topic", "create", "orders"], "--config"),
        (["topic", "alter", "orders"], "--config"),
        (["consume", "billing"], "--setting"),
        (["audit", "report", "page.html"], "--setting"),
        (["config", "alter"], "--add-config"),
    ],
)
def test_settings_have_one_word_and_the_old_ones_work(words: list[str], old: str) -> None:
    """`--set NAME=VALUE` everywhere; its old names are accepted, and not shown."""
    values = []
    for word in ("--set", old):
        ctx = root.make_context("zkgroup", [*words, word, "a.b=1"])
        while isinstance(ctx.command, click.Group):
            name, command, rest = ctx.command.resolve_command(ctx, [*ctx._protected_args, *ctx.args])
            assert command is not None
            ctx = command.make_context(name, rest, parent=ctx)
        values.append([value for value in ctx.params.values() if value and "a.b" in str(value)])
        shown = ctx.command.get_help(ctx)

    assert all(values)
    assert "--set NAME=VALUE" in shown
    assert old not in shown.replace("--settings", "")
