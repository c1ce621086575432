"""Runs findings that read the servers' files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.worlds.server_history import ServerHistory
from zkgroup.audit.facts import Facts
from zkgroup.audit.rules import Finding, WholeRule
from zkgroup.zkfiles.history import History


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
