"""`zkgroup audit run`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from zkgroup.audit.findings import ALL_RULES
from zkgroup.audit.rules import AnyRule
from zkgroup.audit.spark.session import require_spark, session

from ..frame import command, output
from ..output import say
from ..parameters import Assignment
from ..tables import Column
from .common import EXIT_CHECK_FAILED
from .findings_command import Names, bounds_given
from .inputs import chroot_given
from .progress import progress
from .spark_options import spark_options

if TYPE_CHECKING:
    from zkgroup.audit.spark.job import Audited

_KEYS = (
    *("ensemble", "finding", "severity", "group", "topic", "partition", "session"),
    *("from_zxid", "to_zxid", "from", "to", "detail"),
)


@command()
@click.option(
    "--input",
    "inputs",
    multiple=True,
    required=True,
    metavar="[NAME=]DIR|URI",
    help="A server's version-2 folder or the folder above it, on a path that all workers have, or any Hadoop "
    "URI; or what an earlier run wrote. Repeat it for more: one NAME is for the servers of one ensemble.",
)
@click.option(
    "--output",
    "target",
    required=True,
    metavar="DIR|URI",
    help="A folder of its own for Parquet and findings; what is converted there already is not read again.",
)
@spark_options
@click.option("--only", type=Names(), metavar="NAME,...", help="Only these findings.")
@click.option(
    "--bound",
    "bounds",
    multiple=True,
    type=Assignment("FINDING.BOUND", "NUMBER"),
    metavar="FINDING.BOUND=N",
    help="Another bound than the usual one of a finding; may be repeated.",
)
@click.option(
    "--chroot",
    default="",
    callback=chroot_given,
    metavar="PATH",
    help="The path that clients have as their root, as behind the servers of -z.",
)
@click.pass_context
def run(
    ctx: click.Context,
    inputs: Sequence[str],
    target: str,
    master: str | None,
    settings: Sequence[tuple[str, str]],
    only: tuple[AnyRule, ...] | None,
    bounds: Sequence[tuple[str, str]],
    chroot: str,
) -> None:
    """Convert many folders to Parquet and look for what went wrong, with Spark.

    For days of logs of many ensembles, on this machine or on a cluster; one folder is answered sooner by
    `audit findings`, with the same findings. Exit code 3 where there is an error, or a file is damaged.
    """
    out = output()
    chosen = bounds_given(bounds)
    require_spark()
    from zkgroup.audit.spark import job

    with progress() as tell, session(master, dict(settings)) as spark:
        audited = job.run(
            spark, inputs, target, rules=only or ALL_RULES, bounds=chosen, chroot=chroot, progress=tell
        )
    if not out.document(job.document(audited), "findings", _KEYS):
        out.table(_COLUMNS, [_row(each) for each in audited])
        say(f"all findings: {target.rstrip('/')}/{job.FINDINGS_FILE}")
    for each in audited:
        for text in each.damages:
            say(f"damaged: {text}")
    if any(each.damages or each.errors for each in audited):
        ctx.exit(EXIT_CHECK_FAILED)


_COLUMNS = [
    Column(header="ENSEMBLE"),
    Column(header="ERRORS", right=True),
    Column(header="WARNINGS", right=True),
    Column(header="NOTES", right=True),
    Column(header="NOT LOOKED FOR", right=True),
]


def _row(each: Audited) -> list[Any]:
    counts = Counter(one.severity for one in each.findings)
    return [
        each.ensemble,
        str(counts["error"]),
        str(counts["warning"]),
        str(counts["info"]),
        str(len(each.skipped)),
    ]
