"""`zkgroup audit findings`: the findings, and the incidents that they are brought together into, as text."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import click

from zkgroup.audit.findings.engine import ALL_RULES, KNOWN_RULES, Found, Skipped, audit
from zkgroup.audit.findings.rules import SEVERITIES, AnyRule, Finding, Severity
from zkgroup.audit.incidents.attribution import called, numbered, only_of, with_causes
from zkgroup.audit.incidents.incident import (
    FoundIncidents,
    Incident,
    NumberedFinding,
    PartitionDamage,
    cause_fields,
    cause_text,
    counts_of,
    damage_text,
    findings_document,
)
from zkgroup.audit.inputs.source import PointInTime
from zkgroup.model.text import counted, escaped, hex_zxid, iso_time

from ...app import fail_check, output
from ...audit_rows import SESSION_KEY, SPAN, Brief, document
from ...param_types import Parsed, name_value, nearest
from ...render import Output, echo_err
from ...schema import (
    COUNT,
    STRING,
    TIME,
    Inline,
    JsonKey,
    KeyColumn,
    Shape,
    given,
    map_of,
    nullable,
    object_of,
)
from .inputs import Inputs, between_options, command, input_options, opened

STYLES: dict[Severity, str] = {"error": "bad", "warning": "warn", "info": "dim"}
_NOUNS: Mapping[Severity, str] = {"error": "error", "warning": "warning", "info": "note"}


# The objects of findings, incidents and runs are built by `zkgroup.audit`, which writes them as findings.json
# too; tests/pure/cli/test_documents.py and tests/real/spark/test_run_document.py compare them with these.
_BASIS = ("basis", "at_zxid")
FINDING = Shape(
    Finding, "finding", "severity", "group", "topic", "partition", SESSION_KEY, *SPAN, *_BASIS, "detail"
)
SKIPPED = Shape(
    Skipped,
    JsonKey("finding", nullable(STRING), lambda one: one.rule.name),
    JsonKey("path", nullable(STRING), lambda one: None),  # of a file that could not be read
    "reason",
)
NUMBERED_FINDING = Shape(
    NumberedFinding,
    *(Inline("finding", FINDING), "incident"),
    columns=(
        KeyColumn("from", at=lambda row, brief: brief.time(row.finding.from_ms), rank=2),
        KeyColumn("severity", styles=STYLES),
        KeyColumn("finding", shorten="wrap", least=12),
        KeyColumn("incident", rank=3),
        KeyColumn("group", shorten="middle", least=8, rank=1),
        KeyColumn("place", "PARTITION", lambda row: _place(row.finding), shorten="middle", least=8, rank=1),
        KeyColumn("from_zxid", "ZXID", lambda row: hex_zxid(row.finding.from_zxid), rank=3),
        KeyColumn("detail", shorten="below", least=40),
    ),
)
# Nullable in the published schema, also where a row always knows it.
_LENGTHS = (given("unowned_ms", COUNT), given("leaderless_ms", COUNT))
DAMAGE = Shape(PartitionDamage, *("group", "topic", "partition", "delivered_again"), *_LENGTHS)
_CAUSE = object_of(
    kind=STRING, what=STRING, session=SESSION_KEY.schema, zxid=nullable(COUNT), time=nullable(TIME)
)
INCIDENT = Shape(
    Incident,
    *("number", "title", "severity", "group", "from_zxid", "to_zxid"),
    JsonKey("from", nullable(TIME), lambda row: iso_time(row.from_ms)),
    JsonKey("to", nullable(TIME), lambda row: iso_time(row.to_ms)),
    "basis",
    JsonKey("cause", nullable(_CAUSE), lambda row: cause_fields(row.cause)),
    *("damage", "act"),
    JsonKey("counts", map_of(COUNT), lambda row: counts_of(row.findings)),
)
FINDINGS = document("findings", Shape(FoundIncidents, "incidents", "findings", "skipped"))


def _rules(text: str) -> tuple[AnyRule, ...]:
    """`NAME,...`: names of findings."""
    known = {rule.name: rule for rule in KNOWN_RULES}
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            guess = nearest(name, list(known))
            hint = f"did you mean {guess!r}?" if guess else f"expected one of {', '.join(known)}"
            raise ValueError(f"{name!r} is no finding: {hint}")
    if not names:
        raise ValueError(f"{text!r}: expected names such as orphan_owner,zombie_commit")
    return tuple(rule for rule in KNOWN_RULES if rule.name in names)


RULES = Parsed("name,...", _rules)
bound_option = click.option(
    "--bound",
    "bounds",
    multiple=True,
    type=name_value("FINDING.BOUND", "NUMBER"),
    metavar="FINDING.BOUND=N",
    help="Override a bound of a finding; may be repeated.",
)
group_option = click.option("--group", metavar="GROUP", help="Only what is about this group.")


@command()
@input_options(more=True)
@click.option(
    "--only",
    type=RULES,
    metavar="NAME,...",
    help="Only these findings, and the incidents that have one; `reference/findings` has all.",
)
@group_option
@bound_option
@click.option(
    "--severity",
    type=click.Choice(SEVERITIES),
    help="Only what is as bad as this, or worse.  [default: warning; info with --findings and for programs]",
)
@click.option("--findings", "as_rows", is_flag=True, help="Print a row for each finding, not incidents.")
@click.option(
    "--incidents",
    "as_incidents",
    is_flag=True,
    help="In csv and ndjson, too, a row for each incident, not for each finding.",
)
@between_options
def findings(
    inputs: Inputs,
    only: tuple[AnyRule, ...] | None,
    group: str | None,
    bounds: Sequence[tuple[str, str]],
    severity: Severity | None,
    as_rows: bool,
    as_incidents: bool,
    start: PointInTime | None,
    end: PointInTime | None,
) -> None:
    """Find what went wrong with groups, brokers and the ensemble.

    Also with offsets and controllers. Findings that have one cause are printed as one incident, errors first;
    JSON has both; csv and ndjson have a row for each finding, whose `incident` is the `number` of a row with
    --incidents. Exit code 3 where there is an error, or a file is damaged. In one tree (an export, a live
    ensemble) only the findings that need no log are searched for.

    \b
    Example:
      zkgroup audit findings --input copy/version-2 --only double_ownership,offset_regression
    """
    if as_rows and as_incidents:
        raise click.UsageError("--findings and --incidents exclude each other")
    out = output()
    chosen = bounds_given(bounds)
    with opened(inputs) as (source, _report):
        rules = with_causes(only) if only else ALL_RULES
        found = audit(source, rules, chosen, start=start, end=end, group=group)
    incidents = numbered(found)
    if only:
        found, incidents = only_of(only, found, incidents)
    if out.is_table:
        shown = as_bad_as(severity or ("info" if as_rows else "warning"), incidents)
        if as_rows:
            brief = Brief(out, (one.finding.from_ms for one in shown.findings))
            brief.show_dates()
            NUMBERED_FINDING.table(out, shown.findings, brief)
        else:
            show_incidents(out, shown.incidents)
        summary(found, incidents)
        if not as_rows and severity is None and len(shown.incidents) < len(incidents.incidents):
            echo_err("notes: --severity info; every finding: --findings")
    else:
        rows, shape = ("incidents", INCIDENT) if as_incidents else ("findings", NUMBERED_FINDING)
        out.document(findings_document(found, as_bad_as(severity or "info", incidents)), rows, shape.keys)
    errors = sum(one.severity == "error" for one in found.findings)
    if errors or source.damages():
        fail_check()


def bounds_given(given: Sequence[tuple[str, str]]) -> Mapping[str, float]:
    """The bounds of `--bound`. Raises UsageError for one that is no number."""
    chosen = {}
    for name, text in given:
        try:
            chosen[name] = float(text)
        except ValueError:
            raise click.UsageError(f"--bound {name}={text}: expected a number") from None
    return chosen


def as_bad_as(severity: Severity, found: FoundIncidents) -> FoundIncidents:
    """The incidents and the findings of this severity, and of worse ones; numbers stay."""
    wanted = SEVERITIES[: SEVERITIES.index(severity) + 1]
    return FoundIncidents(
        [one for one in found.incidents if one.severity in wanted],
        [one for one in found.findings if one.finding.severity in wanted],
        found.skipped,
    )


def severity_counts(counts: Mapping[Severity, int]) -> str:
    """The counts of findings, as text; 0 for severities that are not there."""
    return ", ".join(counted(counts.get(severity, 0), noun) for severity, noun in _NOUNS.items())


def _place(one: Finding) -> str | None:
    if one.topic is None:
        return None
    return one.topic if one.partition is None else f"{one.topic}-{one.partition}"


def summary(found: Found, incidents: FoundIncidents) -> None:
    """Prints how many incidents and findings of each severity there are, and which were not searched for."""
    severities = severity_counts(Counter(one.severity for one in incidents.incidents))
    counts = severity_counts(Counter(one.severity for one in found.findings))
    echo_err(f"{counts}, in {counted(len(incidents.incidents), 'incident')}: {severities}")
    echo_skipped(found)


def echo_skipped(found: Found) -> None:
    """Prints how many findings were not searched for, and why."""
    if found.skipped:
        reasons = Counter(one.reason for one in found.skipped)
        message = ", ".join(f"{counted(count, 'finding')} ({reason})" for reason, count in reasons.items())
        echo_err(f"not searched for: {message}")


WIDTH = 80
"""Columns of the text where no terminal gives another number."""
_LEAST, _MOST = 50, 110
_INDENT = 9


def show_incidents(out: Output, incidents: Sequence[Incident]) -> None:
    """Errors and warnings as blocks; notes as a line each."""
    width = min(max(out.width or WIDTH, _LEAST), _MOST)
    for at, one in enumerate(incidents):
        is_block = one.severity != "info"
        if at and (is_block or incidents[at - 1].severity != "info"):
            out.line()
        head, *rest = _wrapped(f"{one.number}. {one.title}", width)
        out.line(
            f"{out.paint(one.severity, STYLES[one.severity])}{' ' * (_INDENT - len(one.severity))}{head}"
        )
        for line in rest:
            out.line(" " * _INDENT + line)
        for name, text in _rows(one) if is_block else ():
            for place, line in enumerate(_wrapped(text, width - _INDENT + 1)):
                label = out.paint(name, "dim") + " " * (8 - len(name)) if place == 0 else " " * 8
                out.line(f"{' ' * _INDENT}{label}{line}")


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(escaped(text), width - _INDENT, break_on_hyphens=False) or [""]


def _rows(one: Incident) -> Iterator[tuple[str, str]]:
    yield "when", _when(one)
    cause = cause_text(one.cause)
    if cause:
        yield "cause", cause
    damage = damage_text(one.damage)
    if damage:
        yield "damage", damage
    counts = counts_of(one.findings)
    yield "found", ", ".join(f"{count} {called(name, count)}" for name, count in counts.items())
    yield "to do", one.act


def _when(one: Incident) -> str:
    if one.from_zxid is None:
        return "at the end of the history"
    times = [iso_time(one.from_ms), "the end" if one.to_zxid is None else iso_time(one.to_ms)]
    zxids = [hex_zxid(one.from_zxid), "" if one.to_zxid is None else hex_zxid(one.to_zxid)]
    time, zxid = (" to ".join(dict.fromkeys(text for text in each if text)) for each in (times, zxids))
    return ", ".join(text for text in (time, f"zxid {zxid}") if text)
