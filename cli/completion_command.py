"""`zkgroup completion`: the script that teaches a shell our commands."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from .frame import command


@command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of SHELL.

    For bash: `eval "$(zkgroup completion bash)"` in ~/.bashrc; zsh likewise;
    for fish: `zkgroup completion fish > ~/.config/fish/completions/zkgroup.fish`.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, "zkgroup", "_ZKGROUP_COMPLETE").source())
