"""What a series of snapshots shows of topics, configurations, rights, and the size of subtrees."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from zkgroup.audit.findings import files, load
from zkgroup.audit.findings.cluster import brokers_text, topic_of
from zkgroup.audit.findings.load import is_open
from zkgroup.audit.findings.rules import Bounds, StateRule
from zkgroup.audit.findings.states import Between, Shown, by_pair, rewrites, state_in, turns
from zkgroup.audit.inputs.events import BY_SUBTREE, BY_TOPIC, Event, Key, Keys
from zkgroup.audit.inputs.facts import decoded
from zkgroup.audit.inputs.series import Seen, SeriesFacts, States, ZnodeState
from zkgroup.model.text import counted, named
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.config import config_path, entities_path
from zkgroup.znodes.json_fields import read_object
from zkgroup.znodes.paths import path_kind, subtree_text

_NAMED_MAX: Final = 5


@StateRule(
    severity="info",
    question="Which topics were made, grew, or were deleted from one snapshot to the next?",
    act="Nothing, if that was meant. Offsets of a topic that was deleted stay (offset_of_missing_partition),"
    " and keyed records of one that grew go to other partitions from then on.",
    keys=BY_TOPIC,
)
def topic_changed(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """A topic that is not as in the snapshot before: made, deleted, made again, or with other partitions.

    `at_zxid` is its create, or its last write where that was the only one.
    """
    place, of_path = (None, key[0], None), states.get(Topic.path(key[0]), ())
    for between, old, new in turns(of_path):
        topic = None if new is None else topic_of(new.path, new.data)
        size = "" if topic is None else f" with {counted(len(topic.partitions), 'partition')}"
        yield Shown(between, f"{_turned(old, new)}{size}", place, None, new and new.stat.czxid)
    for rewrite in rewrites(of_path):
        was, now = (topic_of(state.path, state.data) for state in rewrite[1:])
        if was is not None and now is not None and (detail := _topic_text(was, now)):
            yield Shown(rewrite.between, detail, place, None, rewrite.at_zxid)


def _turned(old: ZnodeState | None, new: ZnodeState | None) -> str:
    return "deleted" if new is None else "made" if old is None else "deleted and made again"


def _topic_text(old: Topic, new: Topic) -> str:
    """What is otherwise, in words; empty where nothing is."""
    parts = []
    if len(old.partitions) != len(new.partitions):
        parts.append(f"{counted(len(old.partitions), 'partition')} -> {len(new.partitions)}")
    moved = [
        f"{number} {brokers_text(replicas)} -> {brokers_text(new.partitions[number])}"
        for number, replicas in sorted(old.partitions.items())
        if new.partitions.get(number, replicas) != replicas
    ]
    if moved:
        parts.append(f"other replicas: {named(moved, _NAMED_MAX)}")
    return "; ".join(parts)


def _config(event: Event) -> Key | None:
    place = path_kind(event.path)
    is_one = place.kind == "config" and not event.path.startswith(f"{config_path()}/changes")
    return (event.path,) if is_one and event.path.count("/") > 2 else None


BY_CONFIG: Final = Keys("config", _config, frozenset(("config",)))
"""Each configuration below `/config`, without the notifications; key: its path."""


@StateRule(
    severity="info",
    question="Which configurations changed from one snapshot to the next?",
    act="Nothing, if that was meant. `zkgroup config describe` shows what is in force now.",
    keys=BY_CONFIG,
)
def config_changed(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """A configuration of a topic, broker, client, user or address that is not as in the snapshot before.

    Names only: values may be secrets. `at_zxid` is its create, or its write where that was the only one.
    """
    for path, of_path in states.items():
        place = (None, path_kind(path).name if path.startswith(f"{entities_path('topics')}/") else None, None)
        for between, old, new in turns(of_path):
            names = sorted({} if new is None else _settings(new))
            detail = f"{path} was {_turned(old, new)}{': ' if names else ''}{named(names, _NAMED_MAX)}"
            yield Shown(between, detail, place, None, new and new.stat.czxid)
        for rewrite in rewrites(of_path):
            if rewrite.old.data != rewrite.new.data:
                was, now = _settings(rewrite.old), _settings(rewrite.new)
                names = sorted(name for name in was | now if was.get(name) != now.get(name))
                what = f"changed: {named(names, _NAMED_MAX)}" if names else "was written"
                yield Shown(rewrite.between, f"{path} {what}", place, None, rewrite.at_zxid)


def _settings(state: ZnodeState) -> dict[str, object]:
    fields = decoded(lambda path, data: read_object(path, data, "a configuration"), state.path, state.data)
    settings = (fields or {}).get("config")
    return settings if isinstance(settings, dict) else {}


@StateRule.of(load.open_acl, BY_SUBTREE, is_beside=True)
def open_acl(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """Znodes that any client may change, and that were closed in the snapshot before."""
    found = list[tuple[Between, str]]()
    for path, of_path in states.items():
        there = [seen for seen in of_path if seen.state is not None and seen.state.acl is not None]
        for before, after in pairwise(there):
            old, new = state_in(before).acl or (), state_in(after).acl or ()
            if old != new and is_open(new) and not is_open(old):
                found.append(((before.last, after.first), path))
    for between, paths in by_pair(found):
        what = f"any client may change {counted(len(paths), 'znode')} closed before"
        yield Shown(between, f"{what}: {named(sorted(paths), _NAMED_MAX)}")


class _Counts(NamedTuple):
    """By subtree, of each snapshot or of each two that follow each other."""

    znodes: Counter[str]
    size: Counter[str]
    added: Counter[str]
    removed: Counter[str]
    written: Counter[str]


@StateRule.of(files.growth, BY_SUBTREE)
def growth(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """What came and went from one snapshot to the next, by subtree of `depth` names; as of files.

    A path is left out where one of the two does not know it.
    """
    depth = int(bounds["depth"])
    counts: dict[int, _Counts] = defaultdict(lambda: _Counts(*(Counter() for _ in _Counts._fields)))
    for path, of_path in states.items():
        subtree = subtree_text(path, depth)
        for seen in of_path:
            if seen.state is not None:
                size = len(seen.state.data or b"")
                for number, sign in ((seen.first, 1), (seen.last + 1, -1)):
                    counts[number].znodes[subtree] += sign
                    counts[number].size[subtree] += sign * size
        _count_changes(of_path, subtree, counts)
    before = Counter[str](), Counter[str]()
    for number in range(len(facts.snapshots)):
        at = counts[number]
        after = Counter(before[0]), Counter(before[1])
        after[0].update(at.znodes)
        after[1].update(at.size)
        for subtree in sorted(at.added | at.removed | at.written) if number else ():
            sizes = [counted(each[1][subtree], "byte") for each in (before, after)]
            detail = (
                f"{subtree}: {at.added[subtree]} added, {at.removed[subtree]} removed,"
                f" {at.written[subtree]} changed; {counted(before[0][subtree], 'znode')},"
                f" {sizes[0]} of data -> {after[0][subtree]}, {sizes[1]}"
            )
            yield Shown((number - 1, number), detail)
        before = after


def _count_changes(of_path: Sequence[Seen], subtree: str, counts: Mapping[int, _Counts]) -> None:
    for old, new in pairwise(of_path):
        if old.last + 1 != new.first:
            continue
        at = counts[new.first]
        if old.state is None or new.state is None:
            at.added[subtree] += old.state is None and new.state is not None
            at.removed[subtree] += old.state is not None and new.state is None
        elif old.state.stat.mzxid != new.state.stat.mzxid:
            at.written[subtree] += 1
