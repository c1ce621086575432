"""Runs findings that read the servers' files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.worlds.golden_data import FOLDER, lines
from tests.worlds.server_history import ServerHistory
from zkgroup.audit.findings.engine import ALL_RULES, audit
from zkgroup.audit.findings.rules import Finding, WholeRule
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.opening import open_source
from zkgroup.audit.inputs.source import Source
from zkgroup.zkfiles.history import History

KAFKA = "kafka-0.8.2.2"
HEALTHY = ("zookeeper-3.4.6", "zookeeper-3.9.4")
INCIDENTS = "zookeeper-3.4.6-incidents"


class Incident(NamedTuple):
    """A labelled incident, with its first and last zxid."""

    name: str
    from_zxid: int
    to_zxid: int
    fields: dict[str, Any]

    def touches(self, finding: Finding) -> bool:
        """Whether a finding overlaps the incident."""
        to_zxid = self.to_zxid if finding.to_zxid is None else finding.to_zxid
        return (finding.from_zxid or 0) <= self.to_zxid and to_zxid >= self.from_zxid


def folder(name: str) -> Path:
    """The data folder of a server."""
    return FOLDER / KAFKA / name / "version-2"


@cache
def source(name: str) -> Source:
    return open_source([folder(name)])


@cache
def findings(name: str) -> tuple[Finding, ...]:
    """Findings of all rules in a folder."""
    return tuple(audit(source(name), ALL_RULES).findings)


def incidents() -> list[Incident]:
    return [
        Incident(each["incident"], each["from_zxid"], each["to_zxid"], each)
        for each in lines(f"{KAFKA}/{INCIDENTS}/incidents.jsonl")
    ]


def look(rule: WholeRule, *folders: Path, **bounds: float) -> list[Finding]:
    """Findings of one rule in the folders of one ensemble's servers."""
    return list(rule.find(History(*folders), Facts(), {**rule.bounds, **bounds}))


def calm(zxid: int = 1) -> ServerHistory:
    """A history without any fault."""
    world = ServerHistory(zxid)
    world.open(1)
    world.create("/a", b"1")
    world.set("/a", b"2")
    world.create("/b", b"", ephemeral=True)
    world.fail()
    world.multi(world.creation("/a/x"), world.change("/a", b"3"))
    world.close(1)
    return world


def places(findings: Sequence[Finding]) -> list[tuple[str, int | None, int | None]]:
    """Severity, first and last zxid of each."""
    return [(each.severity, each.from_zxid, each.to_zxid) for each in findings]
