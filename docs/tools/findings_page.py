"""The page of every finding: what it asks, what it needs, what to do, which bounds it has."""

from __future__ import annotations

from collections.abc import Iterator

from docs.tools import markdown
from zkgroup.audit.findings.engine import ALL_RULES
from zkgroup.audit.findings.rules import AnyRule, WholeRule

NEEDS = {
    ("tree",): "a snapshot is enough",
    ("log",): "a log",
    ("tree", "log"): "snapshot and log",
}


def page() -> str:
    """`reference/findings.md`."""
    intro = [
        "What `zkgroup audit findings` searches for, in the order of its output.",
        "The severity is the worst one of a finding; its section says when it is lower.",
        "A bound is set by `--bound NAME.BOUND=NUMBER`; those that end in `_ms` are in milliseconds.",
        "Findings that need only a snapshot are also found in an export and in a live ensemble.",
    ]
    rows = [(f"[`{rule.name}`](#{rule.name})", rule.severity, needs_text(rule)) for rule in ALL_RULES]
    sections = [line for rule in ALL_RULES for line in _section(rule)]
    return markdown.page("Findings", intro, markdown.table(["finding", "worst", "needs"], rows), sections)


def needs_text(rule: AnyRule) -> str:
    """What it cannot do without, in words."""
    if isinstance(rule, WholeRule):
        return "the files of a server"
    return NEEDS[tuple(sorted(rule.needs, reverse=True))]


def _section(rule: AnyRule) -> Iterator[str]:
    yield f"## {rule.name}"
    yield ""
    yield f"*{rule.question}*"
    yield ""
    yield markdown.one_line(rule.find.__doc__ or "")
    yield ""
    yield f"What to do: {rule.act}"
    if rule.bounds:
        bounds = ", ".join(f"`{rule.name}.{name}` = {value:g}" for name, value in rule.bounds.items())
        yield ""
        yield f"Bounds: {bounds}."
    if rule is not ALL_RULES[-1]:
        yield ""
