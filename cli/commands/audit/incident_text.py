"""Incidents as text for a person: a block each, wrapped to the width."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from zkgroup.audit.findings.rules import Severity
from zkgroup.audit.incidents.incident import Incident, cause_text, counts_of, damage_text
from zkgroup.audit.incidents.titles import called
from zkgroup.model.text import escaped, iso_time

from ...audit_rows import hex_zxid
from ...render import Output

WIDTH = 80
"""Columns of the text where no terminal gives another number."""
_LEAST, _MOST = 50, 110
_INDENT = 9
STYLES: dict[Severity, str] = {"error": "bad", "warning": "warn", "info": "dim"}


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
