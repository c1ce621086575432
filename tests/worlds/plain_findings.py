"""The findings of all rows, of which nothing is screened; some are counted in columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from zkgroup.audit.findings.engine import bounds_of, order
from zkgroup.audit.findings.rules import Bounds, Finding, KeyRows, Rule
from zkgroup.audit.findings.tables import ScreenTables
from zkgroup.audit.inputs.events import Event, Key
from zkgroup.audit.inputs.facts import Facts, facts_of
from zkgroup.audit.inputs.rows import columns_of


def find(
    rules: Sequence[Rule],
    events: Callable[[], Iterable[Event]],
    bounds: Mapping[str, float] | None = None,
    facts: Facts | None = None,
) -> list[Finding]:
    """What the rules find in all rows, by zxid.

    Args:
        events: gives the rows of the history from the beginning, each time it is called.
        facts: those of this history, where they are known already.

    Raises ConfigError for a bound that no rule has.
    """
    chosen = bounds_of(rules, bounds or {})
    if facts is None:
        facts = facts_of(events())
    return sorted(find_all(rules, events(), facts, chosen), key=order)


def find_all(
    rules: Sequence[Rule], events: Iterable[Event], facts: Facts, bounds: Mapping[str, Bounds]
) -> Iterator[Finding]:
    """What the rules find, key by key."""
    rows_in_order = list(events)
    tables = ScreenTables(columns_of(rows_in_order), facts)
    for rule in rules:
        if rule.is_counted:
            yield from rule.find(tables, bounds[rule.name])
    plain = [rule for rule in rules if not rule.is_counted]
    by_keys = {rule.keys.name: (rule.keys.key, defaultdict[Key, list[Event]](list)) for rule in plain}
    for event in rows_in_order:
        for key_of, lists in by_keys.values():
            key = key_of(event)
            if key is not None:
                lists[key].append(event)
    for name, (_, lists) in by_keys.items():
        asked = [rule for rule in plain if rule.keys.name == name]
        for key, of_key in lists.items():
            rows = KeyRows(of_key)
            for rule in asked:
                yield from rule.find(rows, key, facts, bounds[rule.name])
