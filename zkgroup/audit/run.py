"""Runs findings on a laptop: one pass for the facts, one for all folds together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.gathering import facts_of
from zkgroup.audit.rules import AnyRule, Bounds, Finding, Fold, Key, Keying, Rule
from zkgroup.errors import ConfigError


def find(
    rules: Sequence[Rule],
    events: Callable[[], Iterable[Event]],
    bounds: Mapping[str, float] | None = None,
    facts: Facts | None = None,
) -> list[Finding]:
    """What the rules find, by zxid.

    Args:
        events: gives the rows of the history from the beginning, each time it is called.
        bounds: what the user set, by `finding.bound`.
        facts: those of this history, where they are known already.

    Raises ConfigError for a bound that no rule has.
    """
    chosen = bounds_of(rules, bounds or {})
    if facts is None:
        facts = facts_of(events())
    return sorted(fold_all(rules, events(), facts, chosen), key=order)


def bounds_of(rules: Sequence[AnyRule], given: Mapping[str, float]) -> dict[str, Bounds]:
    """The bounds of each rule by its name: its own, and over them those given as `finding.bound`.

    Raises ConfigError for one that no rule has.
    """
    chosen = {rule.name: dict(rule.bounds) for rule in rules}
    for name, value in given.items():
        finding, _, bound = name.partition(".")
        if bound not in chosen.get(finding, ()):
            known = ", ".join(f"{rule.name}.{each}" for rule in rules for each in rule.bounds)
            raise ConfigError(f"bound {name!r}: expected one of {known}")
        chosen[finding][bound] = value
    return {**chosen}


def fold_all(
    rules: Sequence[Rule], events: Iterable[Event], facts: Facts, bounds: Mapping[str, Bounds]
) -> Iterator[Finding]:
    """One pass over the rows; findings come as folds are sure of them."""
    passes = [_Pass(keying, of_keying, facts, bounds) for keying, of_keying in _by_keying(rules)]
    for event in events:
        for each in passes:
            yield from each.see(event)
    for each in passes:
        yield from each.end()


def order(finding: Finding) -> tuple[object, ...]:
    """Sort key: by zxid, then name, then what it is about."""
    return (
        finding.from_zxid or 0,
        finding.finding,
        finding.group or "",
        finding.topic or "",
        -1 if finding.partition is None else finding.partition,
        finding.session or 0,
        finding.to_zxid or 0,
        finding.severity,
        finding.detail,
    )


def _by_keying(rules: Sequence[Rule]) -> list[tuple[Keying, list[Rule]]]:
    found: dict[str, tuple[Keying, list[Rule]]] = {}
    for rule in rules:
        found.setdefault(rule.keying.name, (rule.keying, []))[1].append(rule)
    return list(found.values())


class _Pass:
    """The open folds of all keys of one keying."""

    def __init__(
        self, keying: Keying, rules: Sequence[Rule], facts: Facts, bounds: Mapping[str, Bounds]
    ) -> None:
        self._key, self._rules, self._facts, self._bounds = keying.key, rules, facts, bounds
        self._folds: dict[Key, list[Fold]] = {}

    def see(self, event: Event) -> Iterator[Finding]:
        key = self._key(event)
        if key is None:
            return
        folds = self._folds.get(key)
        if folds is None:
            folds = [rule.fold(key, self._facts, self._bounds[rule.name]) for rule in self._rules]
            self._folds[key] = folds
        for fold in folds:
            yield from fold.see(event)

    def end(self) -> Iterator[Finding]:
        for folds in self._folds.values():
            for fold in folds:
                yield from fold.end()
