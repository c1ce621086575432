"""Options of the questions about a stretch of a history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from zkgroup.audit.facts import Facts
from zkgroup.audit.gathering import facts_of
from zkgroup.audit.sources import Moment, Rows, Source
from zkgroup.model import TopicPartition

from ..parameters import TopicPartitions
from .moments import MOMENT


def between_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--since` and `--until`, as `start` and `end`."""
    function = click.option(
        "--until",
        "--to",
        "end",
        type=MOMENT,
        metavar="ZXID|TIME",
        help="Up to this moment. --to is the old name.  [default: the last]",
    )(function)
    return click.option(
        "--since",
        "--from",
        "start",
        type=MOMENT,
        metavar="ZXID|TIME",
        help="From this moment on. --from is the old name.  [default: the first]",
    )(function)


class OnePartition(click.ParamType[TopicPartition]):
    """`TOPIC:PARTITION`."""

    name = "topic:partition"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> TopicPartition:
        if isinstance(value, TopicPartition):
            return value
        topic, partitions = TopicPartitions().convert(value, param, ctx)
        if len(partitions) != 1:
            self.fail(f"{value!r}: expected TOPIC:PARTITION, for example orders:3", param, ctx)
        return TopicPartition(topic, partitions[0])


def read_facts(source: Source, start: Moment | None, end: Moment | None) -> tuple[Rows, Facts]:
    """The rows of a stretch, and the facts about it: a first pass over them."""
    rows = source.rows(start, end)
    return rows, facts_of(rows.events())
