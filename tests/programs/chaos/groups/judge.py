"""Judges what members of groups saw, and what the servers' logs say. Pure.

G1  a generation has one leader and one list of members: none was given twice
G2  no two members of a generation are assigned a partition
G3  no commit of an older generation is accepted, once a member has its assignment in a newer one
G4  an offset that was acknowledged is not lost: each later fetch has it or a later one
G5  a write of a group or of an offset is by the session that last set its slot
G6  offsets in ZooKeeper grow, as their members' commits do
G7  a stored generation does not fall, and none is above what was reserved
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.programs.chaos.groups.history import Seen
from zkgroup.coordinator.group_ids import slot_of
from zkgroup.errors import CorruptZnodeError
from zkgroup.history import ServerTransaction
from zkgroup.znodes.coordinated_groups import GroupHeader, slot_groups_path, slots_path

OK = 0


@dataclass(slots=True)
class Judgement:
    """The violations, and how much was looked at."""

    wrong: list[str] = field(default_factory=list)
    figures: Counter[str] = field(default_factory=Counter)


def judge(seen: Iterable[Seen], log: Sequence[ServerTransaction], slots: int) -> Judgement:
    """All rules."""
    found = Judgement()
    by_group: defaultdict[str, list[Seen]] = defaultdict(list)
    for each in seen:
        by_group[each.group].append(each)
        found.figures[each.kind if each.error == OK else f"{each.kind} with error {each.error}"] += 1
    for group, events in sorted(by_group.items()):
        _generations(group, events, found)
        _old_generations(group, events, found)
        _offsets(group, events, found)
    _writes(log, slots, found)
    return found


def _generations(group: str, events: Sequence[Seen], found: Judgement) -> None:
    """G1 and G2."""
    leaders: defaultdict[int, set[str]] = defaultdict(set)
    lists: defaultdict[int, set[tuple[str, ...]]] = defaultdict(set)
    owners: dict[tuple[int, int], str] = {}
    for each in events:
        if each.error != OK:
            continue
        if each.kind == "joined":
            leaders[each.generation].add(each.leader)
            if each.members:
                lists[each.generation].add(tuple(sorted(each.members)))
        elif each.kind == "synced":
            for partition in each.partitions:
                other = owners.setdefault((each.generation, partition), each.member_id)
                if other != each.member_id:
                    found.wrong.append(
                        f"G2 {group}: partition {partition} in generation {each.generation}"
                        f" is assigned to {other} and {each.member_id}"
                    )
    for generation, names in leaders.items():
        if len(names) > 1 or len(lists[generation]) > 1:
            found.wrong.append(
                f"G1 {group}: generation {generation} has the leaders {sorted(names)}"
                f" and {len(lists[generation])} lists of members"
            )
    found.figures["generations"] += len(leaders)


def _old_generations(group: str, events: Sequence[Seen], found: Judgement) -> None:
    """G3, by when a member was given its assignment, and when a commit of an older generation was sent.

    A generation is stored with its assignment. Where only its joins were answered the next coordinator goes
    on with the one before: no member has partitions by an answer to a join. Heartbeats of an older generation
    are counted: while groups are loaded they are answered as good.
    """
    told = sorted((e.answered_ns, e.generation) for e in events if e.kind == "synced" and e.error == OK)
    newest, at = -1, 0
    for each in sorted((e for e in events if e.kind in ("committed", "beat")), key=lambda e: e.sent_ns):
        while at < len(told) and told[at][0] <= each.sent_ns:
            newest = max(newest, told[at][1])
            at += 1
        if each.generation >= newest:
            continue
        found.figures[f"{each.kind} in an old generation"] += 1
        if each.error == OK and each.kind == "committed":
            found.wrong.append(
                f"G3 {group}: a commit of {each.member_id} was accepted in generation"
                f" {each.generation}, when {newest} was assigned"
            )


def _offsets(group: str, events: Sequence[Seen], found: Judgement) -> None:
    """G4."""
    acknowledged: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for each in events:
        if each.kind == "committed" and each.error == OK:
            for partition, offset in each.offsets:
                acknowledged[partition].append((each.answered_ns, offset))
    for partition, commits in acknowledged.items():
        commits.sort()
        fetches = sorted(
            (each.sent_ns, offset)
            for each in events
            if each.kind == "fetched" and each.error == OK
            for number, offset in each.offsets
            if number == partition
        )
        least, at = -1, 0
        for sent_ns, offset in fetches:
            while at < len(commits) and commits[at][0] <= sent_ns:
                least = max(least, commits[at][1])
                at += 1
            if offset < least:
                found.wrong.append(f"G4 {group}: partition {partition} had {least}, and {offset} was fetched")


def _writes(log: Sequence[ServerTransaction], slots: int, found: Judgement) -> None:
    """G5, G6 and G7."""
    owners: dict[int, int] = {}
    offsets: dict[str, int] = {}
    headers: dict[str, GroupHeader] = {}
    for transaction in log:
        if transaction.refusal is not None:
            if transaction.changes and _slot_set(transaction.changes[0].path) is not None:
                found.figures["writes refused by the slot's version"] += not transaction.changes[1:]
            continue
        if any(change.path.startswith("/zkgroup/groups/") for change in transaction.changes):
            found.figures["writes of groups"] += 1
        for change in transaction.changes:
            slot = _slot_set(change.path)
            if slot is not None and change.action == "set":
                found.figures["fences"] += 1
                owners[slot] = transaction.session
                continue
            slot = _slot_of_path(change.path, slots)
            if slot is None or change.action not in ("create", "set"):
                continue
            if change.path.endswith("/ids"):
                continue
            if slot in owners and owners[slot] != transaction.session:
                found.wrong.append(
                    f"G5 {change.path} is written by session {transaction.session:#x}"
                    f" while {owners[slot]:#x} has fenced slot {slot}"
                )
            _values(change.path, change.data, offsets, headers, found)


def _values(
    path: str,
    data: bytes | None,
    offsets: dict[str, int],
    headers: dict[str, GroupHeader],
    found: Judgement,
) -> None:
    parts = path.split("/")
    if parts[1] == "consumers" and len(parts) == 6 and data:
        value = int(data)
        if value < offsets.get(path, -1):
            found.wrong.append(f"G6 {path} falls from {offsets[path]} to {value}")
        offsets[path] = value
    elif parts[1] == "zkgroup" and len(parts) == 5 and data:
        try:
            header = GroupHeader.decode(path, data)
        except CorruptZnodeError as error:
            found.wrong.append(f"G7 {error}")
            return
        before = headers.get(path)
        if before is not None and header.generation < before.generation:
            found.wrong.append(f"G7 {path}: generation {header.generation} after {before.generation}")
        if header.generation > header.reserved_generation:
            found.wrong.append(
                f"G7 {path}: generation {header.generation} and {header.reserved_generation} reserved"
            )
        headers[path] = header


def _slot_set(path: str) -> int | None:
    """The slot whose znode this is."""
    parent, _, name = path.rpartition("/")
    return int(name) if parent == slots_path() and name.isdigit() else None


def _slot_of_path(path: str, slots: int) -> int | None:
    """The slot of the group that a znode belongs to; None for other znodes."""
    parts = path.split("/")
    if len(parts) > 3 and parts[1] == "consumers":
        return slot_of(parts[2], slots)
    for slot in range(slots):
        if path.startswith(f"{slot_groups_path(slot)}/"):
            return slot
    return None


def owners_at_the_end(seen: Iterable[Seen]) -> Mapping[str, Mapping[str, Seen]]:
    """By group, the last answer that each client had to a sync, if it is still a member by it."""
    found: defaultdict[str, dict[str, Seen]] = defaultdict(dict)
    for each in sorted(seen, key=lambda each: each.answered_ns):
        if each.kind == "synced" and each.error == OK:
            found[each.group][each.client] = each
        elif each.kind == "left" and each.error == OK:
            found[each.group].pop(each.client, None)
    return found
