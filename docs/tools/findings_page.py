"""The page of every finding: what it asks, what it needs, what to do, which bounds it has."""

from __future__ import annotations

from collections.abc import Iterator

from docs.tools import markdown
from zkgroup.audit.findings.engine import KNOWN_RULES, STATE_RULES
from zkgroup.audit.findings.rules import AnyRule, WholeRule

NEEDS = {
    ("tree",): "a snapshot is enough",
    ("log",): "a log",
    ("tree", "log"): "snapshot and log",
    ("series",): "a series of snapshots",
}

_SHOWN = {rule.name: rule for rule in STATE_RULES}


def page() -> str:
    """`reference/findings.md`."""
    intro = [
        "What `zkgroup audit findings` searches for, in the order of its output.",
        "The severity is the worst one of a finding; its section says when it is lower.",
        "A bound is set by `--bound NAME.BOUND=NUMBER`; those that end in `_ms` are in milliseconds.",
        "Findings that need only a snapshot are also found in an export and in a live ensemble.",
        "In a series of snapshots `from` and `to` are those around a change, or the ends of what lasts.",
        "`at_zxid` is there the create of a znode, or its write where that was the only one.",
    ]
    rows = [(f"[`{rule.name}`](#{rule.name})", rule.severity, needs_text(rule)) for rule in KNOWN_RULES]
    sections = [line for rule in KNOWN_RULES for line in _section(rule)]
    return markdown.page("Findings", intro, markdown.table(["finding", "worst", "needs"], rows), sections)


def needs_text(rule: AnyRule) -> str:
    """What it cannot do without, in words."""
    needs = NEEDS[tuple(sorted(rule.needs, reverse=True))]
    if isinstance(rule, WholeRule):
        needs = "the files of a server"
    return f"{needs}, or a series of snapshots" if _SHOWN.get(rule.name, rule) is not rule else needs


def _section(rule: AnyRule) -> Iterator[str]:
    yield f"## {rule.name}"
    yield ""
    yield f"*{rule.question}*"
    yield ""
    yield markdown.one_line(rule.find.__doc__ or "")
    yield ""
    shown = _SHOWN.get(rule.name, rule)
    if shown is not rule:
        yield f"In a series of snapshots: {markdown.one_line(shown.find.__doc__ or '')}"
        yield ""
    yield f"What to do: {rule.act}"
    if known := {**rule.bounds, **shown.bounds}:
        bounds = ", ".join(f"`{rule.name}.{name}` = {value:g}" for name, value in known.items())
        yield ""
        yield f"Bounds: {bounds}."
    if rule is not KNOWN_RULES[-1]:
        yield ""
