"""Options of the commands that start Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from ..parameters import Assignment


def spark_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--master` and `--set`, as `master` and `settings`."""
    function = click.option(
        "--set",
        "--setting",
        "settings",
        multiple=True,
        type=Assignment("KEY", "VALUE"),
        metavar="KEY=VALUE",
        help="A setting of Spark, for example spark.driver.memory=8g; may be repeated. "
        "--setting is the old name.",
    )(function)
    return click.option(
        "--master", metavar="URL", help="Where Spark runs.  [default: that of spark-submit, else local[*]]"
    )(function)
