"""The commands that the pages name: they exist, and so do their options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import pytest
from zkgroup_cli.app import root

from tests.project import ROOT, files_below

PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *files_below("docs", ending=".md"),
]
_CODE = re.compile(r"`([^`\n]+)`")
_BLOCK = re.compile(r"^```(?:sh|shell|bash|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"(?<!from )(?<![\w/.-])zkgroup ((?:[^|;&`>\n()]|\|(?=[a-z]))+)")
_NAMED = re.compile(r"[a-z]+ [a-z-]+\b")
"""`group verify`, as a sentence names it."""
_PLACEHOLDER = re.compile(r"[A-Z.…\[\]()]+|.*\.\.\.")


def commands(text: str) -> Iterator[str]:
    """What stands behind `zkgroup` in the code of a page: in its shell blocks, and between backquotes."""
    for block in _BLOCK.findall(text):
        yield from _COMMAND.findall(block.replace("\\\n", " "))
    for code in _CODE.findall(_BLOCK.sub("", text)):
        yield from _COMMAND.findall(code)
        if _NAMED.match(code) and isinstance(_command(code.split()[0]), click.Group):
            yield code


def _command(name: str, of: click.Group = root) -> click.Command | None:
    return of.get_command(click.Context(of), name)


def _options(command: click.Command) -> dict[str, click.Parameter]:
    return {name: one for one in command.params for name in (*one.opts, *one.secondary_opts)}


def unknown_words(line: str) -> list[str]:
    """Names of commands and options in a line that the command line does not know."""
    command: click.Command = root
    known = {"--help": None, "-h": None, "--version": None, **_options(root)}
    unknown = []
    words = iter(line.split())
    for word in words:
        word = word.strip("\"'").rstrip(",.:;")
        if re.match(r"--?[a-z]", word):
            name = word.partition("=")[0].partition("|")[0]
            if name not in known:
                unknown.append(name)
            elif isinstance(one := known[name], click.Option) and not one.is_flag and "=" not in word:
                next(words, None)
        elif isinstance(command, click.Group) and word and not _PLACEHOLDER.fullmatch(word):
            found = _command(word, command)
            if found is None:
                return [*unknown, word]
            command = found
            known |= _options(command)
    return unknown


def test_commands_on_a_page_exist() -> None:
    """A command or an option that was renamed stands on no page with its former name."""
    found = {
        (str(page.relative_to(ROOT)), line.strip()): unknown_words(line)
        for page in PAGES
        for line in commands(page.read_text(encoding="utf-8"))
    }

    assert len(found) > 100
    assert {place: words for place, words in found.items() if words} == {}


def test_commands_are_found_on_pages() -> None:
    """In shell blocks, between backquotes, behind a pipe; outputs are not read."""
    text = """Run `zkgroup topic list`, then `group verify`; `zkgroup` and `topic` are words.

```sh
seq 9 | zkgroup produce orders \\
  --key id || echo "$(zkgroup status)"
```

```text
zkgroup printed this
```
"""
    assert [shlex.join(line.split()) for line in commands(text)] == [
        "produce orders --key id",
        "status",
        "topic list",
        "group verify",
    ]


@pytest.mark.parametrize(
    ("line", "unknown"),
    [
        ("group describe billing --source files:records", []),
        ("-z HOST:PORT group list --format csv", []),
        ("plan ... --execute", ["--execute"]),
        ("reassign verify ... --clear-throttle --execute", []),
        ("topic configure orders", ["configure"]),
        ("topic delete orders --now", ["--now"]),
        ("offsets reset billing --to -5 --execute", []),
    ],
)
def test_unknown_words_are_named(line: str, unknown: list[str]) -> None:
    """Values and placeholders are not taken for commands or options."""
    assert unknown_words(line) == unknown
