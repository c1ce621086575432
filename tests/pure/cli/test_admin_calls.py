"""Each command that ends by itself is one call of `Admin`, or docs/admin.md says why not."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click
from zkgroup_cli.app import root

from tests.project import ROOT
from zkgroup import Admin

ALIASES = ("reassign plan", "offsets undo")
"""Other spellings of commands that are named elsewhere."""


def _commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Every command that is no group, as it is typed."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        typed = " ".join((*path, name))
        if typed in ALIASES:
            continue
        if isinstance(command, click.Group):
            yield from _commands(command, (*path, name))
        else:
            yield typed


def _rows(head: str) -> dict[str, str]:
    """The table below these words of docs/admin.md: command to its second column."""
    text = (ROOT / "docs" / "admin.md").read_text(encoding="utf-8")
    table = text.partition(head)[2].partition("\n## ")[0].strip().split("\n\n")[0]
    return {
        found[1]: found[2]
        for line in table.splitlines()
        if (found := re.fullmatch(r"\| `([^`]+)` \| (.+) \|", line)) and found[1] != "zkgroup"
    }


CALLS = _rows("Each command that ends by itself is one call:")
REASONS = _rows("These commands have no call of `Admin`:")


def _called(text: str) -> list[str]:
    return [name for name in re.findall(r"`(\w+)`", text) if hasattr(Admin, name)]


def test_each_command_is_a_call_or_has_a_reason() -> None:
    """A group may have one reason for all of its commands; no command is in both tables."""
    commands = set(_commands(root))
    with_reason = {one for one in commands if one in REASONS or one.split()[0] in REASONS}

    assert sorted(commands - with_reason) == sorted(CALLS)
    assert {name.split()[0] for name in REASONS} == {name.split()[0] for name in with_reason}


def test_each_call_is_a_method_and_each_method_belongs_to_a_command() -> None:
    """The table names methods that exist, and leaves none out."""
    methods = {
        name
        for name, _ in inspect.getmembers(Admin, inspect.isfunction)
        if not name.startswith("_") and name != "close"
    }

    assert [command for command, text in CALLS.items() if not _called(text)] == []
    assert {name for text in CALLS.values() for name in _called(text)} == methods
