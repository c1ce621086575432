"""The findings of all rows as objects, of which nothing is screened: what columns are compared with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from zkgroup.audit.findings.engine import bounds_of, order
from zkgroup.audit.findings.rules import Bounds, Finding, KeyRows, Rule
from zkgroup.audit.inputs.events import Event
from zkgroup.audit.inputs.facts import Facts, facts_of
from zkgroup.audit.inputs.keys import Key


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
    by_keys = {rule.keys.name: (rule.keys.key, defaultdict[Key, list[Event]](list)) for rule in rules}
    for event in events:
        for key_of, lists in by_keys.values():
            key = key_of(event)
            if key is not None:
                lists[key].append(event)
    for name, (_, lists) in by_keys.items():
        asked = [rule for rule in rules if rule.keys.name == name]
        for key, of_key in lists.items():
            rows = KeyRows(of_key)
            for rule in asked:
                yield from rule.find(rows, key, facts, bounds[rule.name])
