"""What the commands that change configurations share: options, Kafka's syntax, the way back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import click

from zkgroup.admin.configs import ConfigPlan, can_be_set

from .consent import say_no_way_back
from .output import say


def notify_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--notify-format`, for clusters whose brokers are not all registered now."""
    return click.option(
        "--notify-format",
        type=click.Choice(["bare", "v1", "v2"]),
        help="Of the notification: bare for Kafka 0.8, v1 for 0.9 and 0.10.0, v2 for later ones; a wrong one "
        "can stop brokers from applying any change.  [default: by the registered brokers]",
    )(function)


class Settings(click.ParamType[tuple[tuple[str, str], ...]]):
    """`a=1,b=[x,y]`: Kafka's way to write several settings; brackets hold a value with commas."""

    name = "name=value[,...]"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[tuple[str, str], ...]:
        if isinstance(value, tuple):
            return value
        pairs = []
        for part in split_settings(value):
            name, equals, text = part.partition("=")
            if not equals or not name.strip():
                self.fail(f"{value!r}: expected NAME=VALUE, for example retention.ms=1000", param, ctx)
            bracketed = text.startswith("[") and text.endswith("]")
            pairs.append((name.strip(), text[1:-1] if bracketed else text))
        return tuple(pairs)


def split_settings(text: str) -> Iterator[str]:
    """The parts between commas that stand outside of brackets."""
    depth, begin = 0, 0
    for position, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if character == "," and depth <= 0:
            yield text[begin:position]
            begin = position + 1
    yield text[begin:]


def config_way_back(plan: ConfigPlan) -> dict[str, Any]:
    """How an undo record brings a configuration back to what it was, as far as it can be set again.

    Says what cannot: that belongs into the preview.
    """
    words = ["config", "alter", "--entity-type", plan.entity.kind]
    name = plan.entity.plain_name
    words += ["--entity-default"] if name is None else ["--entity-name", name]
    if plan.entity.client is not None:
        client = plan.entity.plain_client
        words += ["--client-default"] if client is None else ["--client", client]
    bare, lost = len(words), []
    for name, before, _ in plan.changes:
        if before is None:
            words += ["--delete-config", name]
        elif can_be_set(plan.entity, name, before):
            words += ["--set", f"{name}={before}"]
        else:
            lost.append(f"{name}={before}")
    told = f"{', '.join(lost)} is nothing that a broker can use"
    if len(words) == bare:
        if lost:
            say_no_way_back(told)
        return {"way_back": told}
    if lost:
        say(f"note: {told}, and stays away in an undo")
    if plan.znode is None:
        words += ["--delete-empty"]
    if plan.had_unknown:
        words += ["--allow-unknown"]
    return {
        "command_back": tuple(words),
        "left": ((plan.entity.config_path, plan.after.encode()),),
    }
