"""The page of every command, from click."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import click
from zkgroup_cli.app import SharedOption, root

from docs.tools import markdown

CHANGING = {
    "`--dry-run`": "Only show what would be done (the default).",
    "`--execute`": "Do it; without this it is only shown.",
    "`--yes`": "Do not ask on a terminal.",
}
"""Told once, where a command has all three with these meanings."""

_OF_EVERY = ("[OPTIONS]", "COMMAND [ARGS]...")


def page() -> str:
    """`reference/cli.md`."""
    context = click.Context(root, info_name="zkgroup")
    shared = [one for one in root.get_params(context) if isinstance(one, SharedOption)]
    blocks = [block for command, ctx in commands(root, context) for block in _blocks(command, ctx)]
    return markdown.page(
        "Command line",
        [_text(root)],
        ["## Options that every command takes"],
        _options(shared, context),
        ["## Options of commands that change something"],
        markdown.items(CHANGING.items()),
        *blocks,
    )


def commands(command: click.Command, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    """Every command below a group, groups before their members, in the order of the help."""
    if not isinstance(command, click.Group):
        return
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        if found is None or found.hidden:
            continue
        inner = click.Context(found, info_name=name, parent=context)
        yield found, inner
        yield from commands(found, inner)


def _blocks(command: click.Command, context: click.Context) -> Iterator[list[str]]:
    own = [one for one in command.get_params(context) if not isinstance(one, SharedOption)]
    options = [one for one in own if isinstance(one, click.Option)]
    yield [f"## {context.command_path}"]
    if arguments := [one for one in command.collect_usage_pieces(context) if one not in _OF_EVERY]:
        yield [f"`{' '.join([context.command_path, *arguments])}`"]
    yield [_text(command)]
    yield _options(options, context)


def _text(command: click.Command) -> str:
    """The help text; a paragraph marked with backspace (click's "do not wrap") becomes a code block."""
    paragraphs = (command.help or "").strip().split("\n\n")
    return "\n\n".join(
        "```text\n" + textwrap.dedent(part.replace("\b", "")).strip("\n") + "\n```" if "\b" in part else part
        for part in map(_unindent, paragraphs)
    )


def _unindent(text: str) -> str:
    return "\n".join(line.strip() if "\b" not in text else line.rstrip() for line in text.split("\n"))


def _options(
    options: list[click.Parameter] | list[click.Option] | list[SharedOption], context: click.Context
) -> list[str]:
    records = [record for one in options if (record := one.get_help_record(context)) is not None]
    rows = [(f"`{names}`", " ".join(text.split())) for names, text in records if "--help" not in names]
    if set(CHANGING.items()) <= set(rows):
        link = "[options of commands that change something](#options-of-commands-that-change-something)"
        return [
            *markdown.items(row for row in rows if row[0] not in CHANGING),
            f"- {', '.join(CHANGING)}: see {link}.",
        ]
    return markdown.items(rows)
