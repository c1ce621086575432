"""`zkgroup audit findings`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import click

from zkgroup.audit.documents import findings_document
from zkgroup.audit.findings import ALL_RULES
from zkgroup.audit.rules import AnyRule, Finding, Severity
from zkgroup.audit.run import Found, audit
from zkgroup.audit.sources import Moment

from ..frame import nearest, output
from ..output import Output, say
from ..parameters import Assignment
from ..tables import Cell, Column
from ..units import counted, iso_time
from .common import EXIT_CHECK_FAILED, hex_zxid
from .history_options import between_options
from .inputs import Inputs, command, input_options, opened

_KEYS = (
    *("finding", "severity", "group", "topic", "partition", "session", "from_zxid", "to_zxid", "from", "to"),
    "detail",
)
_NOUNS: Mapping[Severity, str] = {"error": "error", "warning": "warning", "info": "note"}
_STYLES = {"error": "bad", "warning": "warn", "info": "dim"}


class Names(click.ParamType[tuple[AnyRule, ...]]):
    """`NAME,...`: names of findings."""

    name = "name,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[AnyRule, ...]:
        if isinstance(value, tuple):
            return value
        known = {rule.name: rule for rule in ALL_RULES}
        names = [name.strip() for name in value.split(",") if name.strip()]
        for name in names:
            if name not in known:
                guess = nearest(name, list(known))
                hint = f"did you mean {guess!r}?" if guess else f"expected one of {', '.join(known)}"
                self.fail(f"{name!r} is no finding: {hint}", param, ctx)
        if not names:
            self.fail(f"{value!r}: expected names such as orphan_owner,zombie_commit", param, ctx)
        return tuple(rule for rule in ALL_RULES if rule.name in names)


@command()
@input_options(more=True, converted=True)
@click.option(
    "--only", type=Names(), metavar="NAME,...", help="Only these findings; `reference/findings` has all."
)
@click.option("--group", metavar="GROUP", help="Only what is about this group.")
@click.option(
    "--bound",
    "bounds",
    multiple=True,
    type=Assignment("FINDING.BOUND", "NUMBER"),
    metavar="FINDING.BOUND=N",
    help="Another bound than the usual one of a finding; may be repeated.",
)
@between_options
@click.pass_context
def findings(
    ctx: click.Context,
    inputs: Inputs,
    only: tuple[AnyRule, ...] | None,
    group: str | None,
    bounds: Sequence[tuple[str, str]],
    start: Moment | None,
    end: Moment | None,
) -> None:
    """Look for what went wrong: with groups, offsets, brokers, controllers and the ensemble itself.

    Exit code 3 where there is an error, or a file is damaged. Of one tree (an export, a living ensemble)
    only the findings that need no log are looked for.
    """
    out = output()
    chosen = bounds_given(bounds)
    with opened(inputs) as (source, _tell):
        found = audit(source, only or ALL_RULES, chosen, start=start, end=end, group=group)
    fields = findings_document(found)
    if not out.document(fields, "findings", _KEYS):
        _show(out, found.findings)
        summary(found)
    errors = sum(one.severity == "error" for one in found.findings)
    if errors or source.damages():
        ctx.exit(EXIT_CHECK_FAILED)


def bounds_given(given: Sequence[tuple[str, str]]) -> Mapping[str, float]:
    """The bounds of `--bound`. Raises UsageError for one that is no number."""
    chosen = {}
    for name, text in given:
        try:
            chosen[name] = float(text)
        except ValueError:
            raise click.UsageError(f"--bound {name}={text}: expected a number") from None
    return chosen


def _show(out: Output, found: Sequence[Finding]) -> None:
    columns = [
        Column(header="FROM", rank=1),
        Column(header="SEVERITY"),
        Column(header="FINDING"),
        Column(header="GROUP", shorten="middle", least=8, rank=1),
        Column(header="PARTITION", shorten="middle", least=8, rank=1),
        Column(header="ZXID", right=True, rank=2),
        Column(header="DETAIL", shorten="end", least=24),
    ]
    out.table(
        columns,
        [
            [
                iso_time(one.from_ms),
                Cell(one.severity, _STYLES[one.severity]),
                one.finding,
                one.group,
                _place(one),
                hex_zxid(one.from_zxid),
                one.detail,
            ]
            for one in found
        ],
    )


def _place(one: Finding) -> str | None:
    if one.topic is None:
        return None
    return one.topic if one.partition is None else f"{one.topic}-{one.partition}"


def summary(found: Found) -> None:
    """Tells how many of each severity there are, and what was not looked for."""
    counts = Counter(one.severity for one in found.findings)
    say(", ".join(counted(counts[severity], noun) for severity, noun in _NOUNS.items()))
    if found.skipped:
        reasons = Counter(one.reason for one in found.skipped)
        told = ", ".join(f"{counted(count, 'finding')} ({reason})" for reason, count in reasons.items())
        say(f"not looked for: {told}")
