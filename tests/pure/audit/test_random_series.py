"""What series of snapshots show of random histories is true of these, and all that they prove is found.

The histories are `random_histories`, as a strict server has them, with resets and configurations added.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import pairwise

import pytest

from tests.worlds.made_series import Cut, History, enriched, found_in
from tests.worlds.plain_findings import find
from tests.worlds.random_histories import histories
from zkgroup.audit.answers.partitions import members_named
from zkgroup.audit.findings.engine import RULES
from zkgroup.audit.findings.load import is_open
from zkgroup.audit.findings.membership import numbers_of, topics_wanted
from zkgroup.audit.findings.rules import Finding
from zkgroup.audit.inputs.events import Event
from zkgroup.audit.inputs.facts import decoded, registration_of
from zkgroup.zkfiles.records import StoredZnode
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.consumers import Offset
from zkgroup.znodes.controller import ControllerEpoch
from zkgroup.znodes.paths import path_kind
from zkgroup.znodes.sessions import lacks_session

SEEDS = int(os.environ.get("ZKGROUP_SERIES", "30"))
OFTEN = {
    *("offset_regression", "offset_deleted", "commit_rate", "stalled_offset", "reset_overwritten"),
    *("owner_changed", "orphan_owner", "owner_session_mismatch", "unowned_interval", "never_owned"),
    *("membership_changed", "persistent_znode", "controller_election", "growth", "rebalance"),
    *("broker_changed", "leadership_changed", "under_replicated", "offline_partition", "open_acl"),
    *("stuck_reassignment", "topic_changed", "config_changed"),
}
"""In these histories; the others have their tests in `findings/test_series.py`."""
Tree = dict[str, StoredZnode]


class World:
    """A history, a series out of it, and what logs show of it."""

    def __init__(self, seed: int, events: list[Event]) -> None:
        self.draw = draw = random.Random(seed)
        self.history = History(enriched(events, draw))
        zxids = sorted({event.zxid for event in self.history.events if not event.seed})
        chosen = sorted(draw.sample(zxids, min(len(zxids), draw.choice((2, 3, 6, 12)))))
        window = draw.choice((0, 0, 3))
        self.cuts = [self._cut(zxid, window) for zxid in chosen]
        self.series = self.history.series(self.cuts, draw)
        self.trees: list[Tree] = [self._tree(number) for number in range(len(self.cuts))]

    def _cut(self, zxid: int, window: int) -> Cut:
        draw, paths = self.draw, sorted(self.history.of_path)
        is_server = window > 0
        unknown = (
            frozenset()
            if is_server or draw.random() < 0.7
            else frozenset(draw.sample(paths, min(4, len(paths))))
        )
        return Cut(zxid, zxid + draw.randrange(window + 1), is_server, unknown)

    def _tree(self, number: int) -> Tree:
        return {state.path: state for state in self.series.tree(number)}

    @cached_property
    def logged(self) -> dict[str, list[Finding]]:
        found: dict[str, list[Finding]] = {}
        for one in find(RULES, lambda: self.history.events):
            found.setdefault(one.finding, []).append(one)
        return found

    def rows(self, one: Finding) -> list[Event]:
        """The rows within a finding."""
        until = max(cut.end_zxid for cut in self.cuts if cut.zxid <= (one.to_zxid or cut.zxid))
        return [row for row in self.history.events if one.from_zxid < row.zxid <= until and row.applied]  # type: ignore[operator]

    def has_logged(self, one: Finding, name: str) -> bool:
        """True if the rule about logs finds the same within it, and at its very transaction."""
        zxids = {row.zxid for row in self.rows(one)}
        return any(
            each.to_zxid in zxids and one.at_zxid in (None, each.to_zxid)
            for each in self.logged.get(name, ())
            if (each.group, each.topic, each.partition) == (one.group, one.topic, one.partition)
        )

    def holds(self, one: Finding, is_so: Callable[[int], bool]) -> bool:
        """True if something is so at each exact snapshot of a finding; of fuzzy ones alone, at some time."""
        until = one.to_zxid if one.to_zxid is not None else self.cuts[-1].end_zxid
        of_one = [cut for cut in self.cuts if one.from_zxid <= cut.zxid and cut.end_zxid <= until]  # type: ignore[operator]
        exact = [cut for cut in of_one if cut.zxid == cut.end_zxid]
        if exact and are_apart(self):
            return all(is_so(cut.zxid) for cut in exact)
        return any(is_so(zxid) for zxid in range(one.from_zxid or 0, until + 1))


def _value(state: StoredZnode | None) -> int | None:
    offset = None if state is None else decoded(Offset.decode, state.path, state.data)
    return None if offset is None else offset.value


def _of(rows: Iterable[Event], kind: str, one: Finding, *ops: str) -> list[Event]:
    """The rows of a kind of znode at the place of a finding."""
    return [
        row
        for row in rows
        if (place := path_kind(row.path)).kind == kind
        and (not ops or row.op in ops)
        and one.group in (None, place.name)
        and one.partition in (None, place.partition)
    ]


def is_true(world: World, one: Finding) -> bool:
    """True if a finding of the series is true of the history."""
    history, rows = world.history, world.rows(one)
    owner = f"/consumers/{one.group}/owners/{one.topic}/{one.partition}"
    offset = f"/consumers/{one.group}/offsets/{one.topic}/{one.partition}"
    state = f"/brokers/topics/{one.topic}/partitions/{one.partition}/state"

    def registrations(zxid: int) -> list[StoredZnode]:
        claim = history.at(owner, zxid)
        thread = "" if claim is None else (claim.data or b"").decode("utf-8", "replace")
        paths = (f"/consumers/{one.group}/ids/{name}" for name in members_named(thread))
        return [each for path in paths if (each := history.at(path, zxid)) is not None]

    def wanted(zxid: int) -> bool:
        topic = history.at(f"/brokers/topics/{one.topic}", zxid)
        members = [path for path in history.of_path if path.startswith(f"/consumers/{one.group}/ids/")]
        wishes = [registration_of(each.data) for path in members if (each := history.at(path, zxid))]
        wants = any(wish and one.topic in (topics_wanted(wish, (str(one.topic),)) or ()) for wish in wishes)
        return wants and topic is not None and one.partition in numbers_of(topic.data)

    match one.finding:
        case "offset_regression" | "leader_epoch_not_rising":
            return world.has_logged(one, one.finding)
        case "reset_overwritten":  # logs have a row for each reset that is in them
            reset = int(one.detail.split()[-3].strip(","), 0)
            logged = world.logged.get("reset_overwritten", ())
            is_before = all(row.seed for row in history.events if row.zxid <= reset)
            return is_before or any(
                each.topic == one.topic and f" {reset:#x}" in each.detail for each in logged
            )
        case "offset_deleted":
            return any(row.path == offset and row.op == "delete" for row in rows)
        case "commit_rate":
            return int(one.detail.split()[2]) <= len(_of(rows, "offset", one, "create", "set"))
        case "stalled_offset":
            is_there = world.holds(one, lambda zxid: history.at(owner, zxid) is not None)
            return is_there and (
                "without an offset" in one.detail or not _writes_between_ends(world, one, offset)
            )
        case "owner_changed":
            return any(row.path == owner and row.op == "create" and row.zxid == one.at_zxid for row in rows)
        case "orphan_owner":
            return world.holds(one, lambda zxid: bool(history.at(owner, zxid)) and not registrations(zxid))
        case "owner_session_mismatch":

            def is_other(zxid: int) -> bool:
                claim, there = history.at(owner, zxid), registrations(zxid)
                if claim is None or not there:
                    return False
                return claim.stat.ephemeral_owner not in {each.stat.ephemeral_owner for each in there}

            return world.holds(one, is_other)
        case "unowned_interval" | "never_owned":
            is_free = world.holds(one, lambda zxid: history.at(owner, zxid) is None and wanted(zxid))
            made = any(row.path == owner and row.op == "create" for row in rows)
            return is_free and not (one.severity == "warning" and made)
        case "rebalance":
            members = _of(rows, "member", one, "create", "delete")
            joined = sum(row.op == "create" for row in members)
            stated = int(one.detail.split()[0]) if one.detail[0].isdigit() else 0
            return stated <= joined and one.at_zxid in {row.zxid for row in members}
        case "membership_changed":
            members = _of(rows, "member", one, "create", "delete")
            names = {(row.op, path_kind(row.path).member) for row in members}
            for part in one.detail.split("; "):
                what, _, some = part.partition(": ")
                op = "delete" if what == "lost" else "create"
                if not all((op, name) in names for name in some.split(", ")):
                    return False
            return one.at_zxid is None or one.at_zxid in {row.zxid for row in members if row.op == "create"}
        case "persistent_znode":
            found = history.at(one.detail.split()[0], one.at_zxid or 0)
            if found is None or found.stat.czxid != one.at_zxid:
                return False
            return lacks_session(found.path, found.stat.ephemeral_owner, found.data)
        case "controller_election":
            ops = {row.op for row in rows if row.path == "/controller"}
            at = history.at("/controller", one.at_zxid or 0)
            return "delete" in ops if one.at_zxid is None else at is not None and at.stat.czxid == one.at_zxid
        case "controller_epoch_gap":
            return one.severity == "info" or world.has_logged(one, one.finding)
        case "broker_changed":
            path = f"/brokers/ids/{one.detail.split()[1]}"
            at = history.at(path, one.at_zxid or 0)
            return (
                any(row.path == path and row.op == "delete" for row in rows)
                if one.at_zxid is None
                else at is not None and at.stat.czxid == one.at_zxid
            )
        case "leadership_changed":
            return int(one.detail.split()[0]) <= len(
                [row for row in rows if row.path.endswith("/state") and row.op == "set"]
            )
        case "under_replicated" | "offline_partition":

            def is_bad(zxid: int) -> bool:
                read = _state_of(history.at(state, zxid))
                topic = history.at(f"/brokers/topics/{one.topic}", zxid)
                if read is None or history.at(f"/admin/delete_topics/{one.topic}", zxid) is not None:
                    return False
                if one.finding == "offline_partition":
                    return read.leader < 0 or history.at(f"/brokers/ids/{read.leader}", zxid) is None
                listed = None if topic is None else decoded(Topic.decode, topic.path, topic.data)
                replicas = () if listed is None else listed.partitions.get(one.partition or 0, ())
                return not set(replicas) <= set(read.isr)

            return world.holds(one, is_bad)
        case "stuck_reassignment":
            return world.holds(one, lambda zxid: history.at("/admin/reassign_partitions", zxid) is not None)
        case "stuck_topic_deletion":
            return world.holds(
                one, lambda zxid: history.at(f"/admin/delete_topics/{one.topic}", zxid) is not None
            )
        case "topic_changed":
            return any(row.path == f"/brokers/topics/{one.topic}" for row in rows)
        case "config_changed":
            return any(row.path == "/config/topics/t" for row in rows)
        case "open_acl":
            return any(row.op in ("setACL", "create") and is_open(row.acl or ()) for row in rows)
        case "growth":
            return are_apart(world) is False or any(
                row.path.startswith(one.detail.partition(":")[0]) or row.op == "closeSession" for row in rows
            )
    return False


def _writes_between_ends(world: World, one: Finding, path: str) -> bool:
    """True if a path was written between the moments that two snapshots must have of it."""
    first = next(cut for cut in world.cuts if cut.zxid == one.from_zxid)
    last = (
        world.cuts[-1]
        if one.to_zxid is None
        else next(cut for cut in world.cuts if cut.end_zxid == one.to_zxid)
    )
    within = (row for row in world.history.events if first.end_zxid < row.zxid <= last.zxid and row.applied)
    return any(row.path == path and row.op in ("create", "set", "delete") for row in within)


def _state_of(state: StoredZnode | None) -> PartitionState | None:
    return None if state is None else decoded(PartitionState.decode, state.path, state.data)


def are_apart(world: World) -> bool:
    """True if no windows of snapshots overlap, nor touch."""
    return all(one.end_zxid < other.zxid for one, other in pairwise(world.cuts))


Found = tuple[str, str | None, str | None, int | None, int | None]
"""Name, group, topic, partition, and the snapshot that shows it first."""


def proved(world: World) -> Iterator[Found]:
    """What two trees that follow each other prove, each compared by itself with the other.

    Nothing where windows overlap: which of two came first is not always known then.
    """
    if not are_apart(world):
        return
    for number, (old, new) in enumerate(pairwise(world.trees), 1):
        unknown = world.cuts[number - 1].unknown | world.cuts[number].unknown
        end = world.cuts[number].end_zxid
        for path, now in new.items():
            if any(path == each or path.startswith(f"{each}/") for each in unknown):
                continue
            was, place = old.get(path), path_kind(path)
            is_same = was is not None and was.stat.czxid == now.stat.czxid
            topic = place.topic or None
            if place.kind == "offset" and was is not None:
                before, after = _value(was), _value(now)
                if not is_same:
                    yield "offset_deleted", place.name, topic, place.partition, end
                elif before is not None and after is not None and after < before >= 0:
                    yield "offset_regression", place.name, topic, place.partition, end
            elif place.kind == "owner" and was is not None and not is_same:
                yield "owner_changed", place.name, topic, place.partition, end
            elif place.kind == "member" and not is_same:
                yield "membership_changed", place.name, None, None, end
            elif place.kind == "controller" and not is_same:
                yield "controller_election", None, None, None, end
            elif place.kind == "broker" and path.count("/") == 3 and not is_same:
                yield "broker_changed", None, None, None, end
            elif place.kind == "topic" and path.count("/") == 3 and not is_same:
                yield "topic_changed", None, place.name, None, end
            elif place.kind == "controller_epoch" and was is not None:
                epochs = [decoded(ControllerEpoch.decode, path, each.data) for each in (was, now)]
                if None not in epochs and epochs[1].epoch < epochs[0].epoch:  # type: ignore[union-attr]
                    yield "controller_epoch_gap", None, None, None, end
            elif place.kind == "partition_state" and is_same:
                states = [_state_of(each) for each in (was, now)]
                if None not in states and states[1].leader_epoch < states[0].leader_epoch:  # type: ignore[union-attr]
                    yield "leader_epoch_not_rising", None, place.name, place.partition, end
            if place.kind == "config" and path.count("/") > 2 and (was is None or was.data != now.data):
                yield "config_changed", None, "t", None, end
            if was is not None and was.acl and now.acl and is_open(now.acl) and not is_open(was.acl):
                yield "open_acl", None, None, None, end
            if (
                is_same
                and path.endswith("/ids")
                and was is not None
                and was.stat.pzxid != now.stat.pzxid
                and place.kind == "group"
            ):
                yield "rebalance", place.name, None, None, end


def standing(world: World) -> Iterator[tuple[str, str | None, str | None, int | None, int]]:
    """What an exact tree shows by itself, with its zxid."""
    for cut, tree in zip(world.cuts, world.trees, strict=True):
        if cut.zxid != cut.end_zxid:
            continue
        for path, state in tree.items():
            place = path_kind(path)
            if place.kind == "owner" and state.stat.ephemeral_owner:
                names = members_named((state.data or b"").decode("utf-8", "replace"))
                paths = [f"/consumers/{place.name}/ids/{name}" for name in names]
                if any(one == each or one.startswith(f"{each}/") for one in paths for each in cut.unknown):
                    continue
                there = [tree[each] for each in paths if each in tree]
                if not there:
                    yield "orphan_owner", place.name, place.topic, place.partition, cut.zxid
                elif all(each.stat.ephemeral_owner != state.stat.ephemeral_owner for each in there):
                    yield "owner_session_mismatch", place.name, place.topic, place.partition, cut.zxid
            if lacks_session(path, state.stat.ephemeral_owner, state.data):
                is_owner = place.kind == "owner"
                yield (
                    "persistent_znode",
                    place.name if path.startswith("/consumers/") else None,
                    place.topic if is_owner else None,
                    place.partition if is_owner else None,
                    cut.zxid,
                )


def unowned(world: World) -> Iterator[tuple[str, str, int, int, int]]:
    """What two trees prove to have had no owner between them, while somebody wanted it: with their zxids."""
    for (one, old), (other, new) in pairwise(zip(world.cuts, world.trees, strict=True)):
        if one.unknown or other.unknown or one.zxid != one.end_zxid or other.zxid != other.end_zxid:
            continue
        for group in ("g", "h", "dead"):
            for topic in ("t", "u"):
                parent = f"/consumers/{group}/owners/{topic}"
                if not (
                    _wants(old, group, topic)
                    and _wants(new, group, topic)
                    and parent in old
                    and parent in new
                ):
                    continue
                was, now = old[parent].stat, new[parent].stat
                seen = [
                    path for path in new if path.startswith(f"{parent}/") and new[path].stat.czxid > one.zxid
                ]
                if was.czxid == now.czxid and now.cversion - was.cversion <= len(seen):
                    of_topic = f"/brokers/topics/{topic}"
                    for number in {*numbers_of(old[of_topic].data)} & {*numbers_of(new[of_topic].data)}:
                        if f"{parent}/{number}" not in old and f"{parent}/{number}" not in new:
                            yield group, topic, number, one.zxid, other.zxid


def _wants(tree: Tree, group: str, topic: str) -> bool:
    members = (state for path, state in tree.items() if path.startswith(f"/consumers/{group}/ids/"))
    wishes = [wish for each in members if (wish := registration_of(each.data)) is not None]
    return f"/brokers/topics/{topic}" in tree and any(
        topic in (topics_wanted(wish, (topic,)) or ()) for wish in wishes
    )


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_what_is_found_is_true_and_what_is_proved_is_found(first: int) -> None:
    """Every finding, and every change or state that trees prove by themselves."""
    names: Counter[str] = Counter()
    for seed, events in histories(first, 20):
        world = World(seed, events)
        found = found_in(world.series)
        for one in found:
            assert is_true(world, one), (seed, one, world.cuts)
        names.update(one.finding for one in found)
        changes = {(one.finding, one.group, one.topic, one.partition, one.to_zxid) for one in found}
        for proof in proved(world):
            assert proof in changes, (seed, proof)
        for *where, from_zxid, to_zxid in unowned(world):
            assert any(
                (one.finding, one.severity) == ("unowned_interval", "warning")
                and [one.group, one.topic, one.partition] == where
                and (one.from_zxid or 0) <= from_zxid
                and to_zxid <= (one.to_zxid or to_zxid)
                for one in found
            ), (seed, where, from_zxid, to_zxid)
            names["unowned for certain"] += 1
        for name, *place, zxid in standing(world):
            assert any(
                one.finding == name
                and [one.group, one.topic, one.partition] == place
                and (one.from_zxid or 0) <= zxid <= (one.to_zxid or zxid)
                for one in found
            ), (seed, name, place, zxid)
    assert first >= 60 or names.keys() >= OFTEN
