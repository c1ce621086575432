"""A partition without a leader: its state names none, or one that was not registered.

A leader whose registration ended counts from that end on, and not at all where another is elected, or it is
back, before `election_ms`. An error where it lasts to the end of the history, or lasted longer than
`error_ms`; a warning otherwise. A topic that is being deleted counts no further than to the request.
"""

from __future__ import annotations

from collections.abc import Iterator

from zkgroup.audit.controller_lookup import absences
from zkgroup.audit.facts import Facts
from zkgroup.audit.keys import BY_TOPIC, Key
from zkgroup.audit.partitions import ChangeStamp, Spell, TopicFold, View, brokers_text, spell_finding
from zkgroup.audit.rules import Bounds, Finding, Rule, Severity, folded
from zkgroup.audit.texts import duration_text
from zkgroup.znodes.brokers import NO_LEADER


class _Fold(TopicFold):
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        super().__init__(key, facts, bounds)
        self._since: dict[int, ChangeStamp] = {}
        """By partition: when it became what it is."""
        self._open: dict[int, Spell] = {}
        self._leaderless: set[int] = set()
        """Partitions whose open spell had, at some time, a state without leader."""

    def changed(
        self, partition: int, before: View | None, after: View | None, at: ChangeStamp
    ) -> Iterator[Finding]:
        if before is not None:
            yield from self._look(partition, before, at)
        if after is None:
            yield from self._close(partition)
            self._since.pop(partition, None)
        else:
            self._since[partition] = at

    def over(self) -> Iterator[Finding]:
        for partition, view in sorted(self.views.items()):
            yield from self._look(partition, view, None)
            yield from self._close(partition)

    def _look(self, partition: int, view: View, until: ChangeStamp | None) -> Iterator[Finding]:
        """What came of a view that stood until then: the spells in it, and of the one before if it ended."""
        for since, to, detail in self._spells(partition, view, until):
            known = self._open.get(partition)
            if known is not None and known.to == since:
                self._open[partition] = known._replace(to=to)
            else:
                yield from self._close(partition)
                self._open[partition] = Spell(since, to, view, detail)
            if view.state is not None and view.state.leader == NO_LEADER:
                self._leaderless.add(partition)

    def _spells(
        self, partition: int, view: View, until: ChangeStamp | None
    ) -> Iterator[tuple[ChangeStamp, ChangeStamp | None, str]]:
        if view.state is None or view.is_deleting:
            return
        since = self._since[partition]
        if view.state.leader == NO_LEADER:
            yield since, until, f"no leader, replicas {brokers_text(view.replicas or ())}"
            return
        # A snapshot says since when a state stands, and nothing of when its leader went.
        since = since if since.zxid > self.first.zxid else self.first
        for gone in absences(self.facts, view.state.leader, since, until):
            yield gone.since, gone.to, f"leader {view.state.leader} was not registered"

    def _close(self, partition: int) -> Iterator[Finding]:
        spell = self._open.pop(partition, None)
        was_leaderless = partition in self._leaderless
        self._leaderless.discard(partition)
        if spell is None:
            return
        ms = spell.ms(self.last)
        if ms < self.bounds["election_ms"] and not was_leaderless and self.facts.has_log:
            return
        severity: Severity = "error" if spell.to is None or ms > self.bounds["error_ms"] else "warning"
        lasted = f", offline for {duration_text(ms)}" if self.facts.has_log or was_leaderless else ""
        yield spell_finding(RULE.name, severity, self.topic, partition, spell, f"{spell.detail}{lasted}")


RULE = Rule(
    name="offline_partition",
    severity="error",
    question="Which partitions had no leader, or one whose broker was gone, and how long?",
    needs=("log",),
    act="A warning is over and was short. An error lasts, or lasted for long: start a broker of the replica"
    " list, the last one in sync first. Only if that one is lost for good, and its records with it,"
    " `zkgroup elect unclean` makes another lead. Topics that are being deleted are left out.",
    keys=BY_TOPIC,
    find=folded(_Fold),
    bounds={"election_ms": 1_000, "error_ms": 10_000},
)
