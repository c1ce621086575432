"""What a series of snapshots shows of groups: their members, who owned their partitions, and offsets."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Final

from zkgroup.audit.answers.partitions import members_named
from zkgroup.audit.findings import offsets, ownership, rebalances, sessions
from zkgroup.audit.findings.membership import numbers_of, topics_wanted
from zkgroup.audit.findings.rules import Bounds, Severity, StateRule
from zkgroup.audit.findings.states import (
    Between,
    Shown,
    Stretch,
    ZnodeLife,
    as_runs,
    by_pair,
    is_proved,
    lasting,
    lives,
    of_kind,
    remade,
    rewrites,
    runs_of,
    session_in,
    span_ms,
    state_in,
    stretches,
    times_text,
    turns,
)
from zkgroup.audit.inputs.events import BY_MEMBERSHIP, BY_SUBTREE, Event, Key, Keys, is_of_groups
from zkgroup.audit.inputs.facts import decoded, registration_of
from zkgroup.audit.inputs.series import Seen, SeriesFacts, States, ZnodeState
from zkgroup.model import TopicPartition
from zkgroup.model.text import counted, hex_session, named
from zkgroup.znodes.consumers import (
    Offset,
    Registration,
    consumers_path,
    ids_path,
    offset_path,
    owner_path,
    owners_topic_path,
    subscription_kind,
)
from zkgroup.znodes.group_records import AuditRecord, Reset
from zkgroup.znodes.paths import path_kind
from zkgroup.znodes.sessions import lacks_session

_DIGITS: Final = 19
"""Fewer of them are an offset whatever they are, and almost every offset has fewer."""


def _of_group(event: Event) -> Key | None:
    place, name = path_kind(event.path), event.path.rpartition("/")[2]
    return (place.name,) if is_of_groups(place) else (name,) if event.path == AuditRecord.path(name) else None


BY_GROUP_ACTS: Final = Keys("group_acts", _of_group)
"""All of a group, and the last change of its offsets by an operator; key: the group."""
_ACT_MS: Final = 60_000
"""An operator's change of many offsets takes several transactions, and no longer than this."""


def _claim(state: ZnodeState) -> str:
    """An owner in words: the thread, and its session."""
    session = session_in(state)
    thread = repr((state.data or b"").decode("utf-8", "replace"))
    return f"{thread} (session {hex_session(session)})" if session else thread


@StateRule(
    severity="info",
    question="Which partitions have another owner than in the snapshot before, or were claimed anew?",
    act="Nothing, for a few: that is a rebalance. Where one thread claims a partition again and again, see"
    " needless_move.",
    keys=BY_MEMBERSHIP,
)
def owner_changed(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """A partition whose owner is another znode than the last one before, also where it says the same.

    `at_zxid` is the claim of the new owner (`czxid`); there may have been others in between.
    """
    for place, of_path in of_kind(states, "owner"):
        for between, old, new in remade(of_path):
            if old is not None and new is not None:
                again = "claimed again by the same thread: " if old.data == new.data else ""
                detail, at = f"{again}{_claim(old)} -> {_claim(new)}", (key[0], place.topic, place.partition)
                yield Shown(between, detail, at, session_in(new), new.stat.czxid)


def _with_members(life: ZnodeLife, states: States, group: str, facts: SeriesFacts) -> list[Stretch]:
    """The snapshots of an owner that a session holds, with the registrations of the members that it names."""
    found = list[Stretch]()
    for seen in life.states if session_in(life.end) else ():
        named = members_named((state_in(seen).data or b"").decode("utf-8", "replace"))
        paths = [Registration.path(group, member) for member in named]
        numbers = range(seen.first, seen.last + 1)
        some = [
            path
            for path in paths
            if path in states or not all(facts.is_known(path, number) for number in numbers)
        ]
        found += stretches([seen], *(runs_of(states, path, facts) for path in some or paths[:1]))
    return found


def _unregistered(stretch: Stretch) -> ZnodeState | None:
    """An owner without a registration; None where it has one."""
    owner, *members = (seen.state for seen in stretch.seen)
    return None if any(members) else owner


@StateRule.of(ownership.orphan_owner, BY_MEMBERSHIP, {"grace_ms": 10_000})
def orphan_owner(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """An owner whose member is not registered, from the first snapshot that shows it to the last.

    An error where that lasted longer than `grace_ms`, info before. Where the member was never seen with this
    owner, it counts from the claim.
    """
    for place, of_path in of_kind(states, "owner"):
        for life in lives(of_path):
            known = _with_members(life, states, key[0], facts)
            for between, owners in lasting(known, _unregistered, facts):
                since_ms, until_ms = (facts.snapshots[number].time_ms for number in between)
                if all(map(_unregistered, known)):
                    since_ms = life.end.stat.ctime
                severity: Severity = "error" if until_ms - since_ms > bounds["grace_ms"] else "info"
                detail = f"owner {_claim(owners[-1])} stands without a registration of its member"
                detail, at = detail + times_text(between, facts), (key[0], place.topic, place.partition)
                yield Shown(between, detail, at, session_in(life.end), None, severity, lasts=True)


def _in_another_session(stretch: Stretch) -> tuple[ZnodeState, ZnodeState] | None:
    """An owner and its member's registration; None where there is one in the session of the owner."""
    owner, *there = (seen.state for seen in stretch.seen if seen.state is not None)
    is_own = session_in(owner) in map(session_in, there)
    return None if is_own or not there else (owner, there[0])


@StateRule.of(ownership.owner_session_mismatch, BY_MEMBERSHIP)
def owner_session_mismatch(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """An owner that another session holds than the one in which its member is registered.

    From the first snapshot that shows it to the last; `at_zxid` is the claim.
    """
    for place, of_path in of_kind(states, "owner"):
        for life in lives(of_path):
            known = _with_members(life, states, key[0], facts)
            for between, found in lasting(known, _in_another_session, facts):
                owner, registered = found[-1]
                member, session = path_kind(registered.path).member, session_in(registered)
                where = hex_session(session) if session else "none"
                detail = f"{_claim(owner)} owns it, but {member} is registered in {where}"
                detail, at = detail + times_text(between, facts), (key[0], place.topic, place.partition)
                yield Shown(between, detail, at, session_in(life.end), life.czxid, lasts=True)


@StateRule.of(ownership.unowned_interval, BY_MEMBERSHIP, {"snapshots": 2})
def unowned_interval(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """A partition without an owner in `snapshots` of them or more, while a member subscribed to its topic.

    A warning for the time in which it was so throughout: the parent of its owners counts no more creates
    (`cversion`) than snapshots show owners. Else it was so at every snapshot, which is info.
    """
    for topic, of_topic in sorted(facts.topics.items()):
        wanted = _wanted(facts, key[0], topic)
        numbers = [(seen, frozenset(_numbers(seen))) for seen in of_topic] if wanted else []
        certain: list[bool] = []
        for number in sorted(frozenset[int]().union(*(known for _, known in numbers))):
            of_owner = runs_of(states, owner_path(key[0], TopicPartition(topic, number)), facts)
            gaps = [seen for seen in of_owner if seen.state is None]
            there = [seen for seen, known in numbers if number in known] if gaps else []
            some = stretches(gaps, there, wanted)
            for (first, last), _ in lasting(some, lambda _: True, facts, bounds["snapshots"]):
                certain = certain or _are_all_seen(states, key[0], topic, facts)
                for is_certain, part in groupby(range(first, max(last, first + 1)), certain.__getitem__):
                    pairs = list(part)
                    between = pairs[0], min(pairs[-1] + 1, last)
                    severity: Severity = "warning" if is_certain else "info"
                    how = "at every snapshot; between them it may have had one"
                    how = "throughout: no other owner was made meanwhile" if is_certain else how
                    detail = f"no member owned it{times_text(between, facts)}, {how}"
                    yield Shown(between, detail, (key[0], topic, number), severity=severity, lasts=True)


def _numbers(seen: Seen) -> Sequence[int]:
    return () if seen.state is None else numbers_of(seen.state.data)


def _wanted(facts: SeriesFacts, group: str, topic: str) -> list[Seen]:
    """The snapshots in which a member of a group subscribed to a topic, as runs."""
    numbers: set[int] = set()
    for of_path in facts.members.get(group, {}).values():
        for seen in of_path:
            registration = None if seen.state is None else registration_of(seen.state.data)
            if registration is not None and topic in (topics_wanted(registration, (topic,)) or ()):
                numbers.update(range(seen.first, seen.last + 1))
    return as_runs(sorted(numbers))


def _are_all_seen(states: States, group: str, topic: str, facts: SeriesFacts) -> list[bool]:
    """Of each snapshot, whether all owners of a topic that were made up to the next one are in some snapshot.

    That is so where their parent counts no more creates; between exact snapshots only.
    """
    of_topic = (of_path for place, of_path in of_kind(states, "owner") if place.topic == topic)
    claims = sorted(life.czxid for of_path in of_topic for life in lives(of_path))
    parent = {
        number: seen.state.stat
        for seen in states.get(owners_topic_path(group, topic), ())
        if seen.state is not None
        for number in range(seen.first, seen.last + 1)
    }
    found = []
    for one, other in pairwise(facts.snapshots):
        old, new = parent.get(one.number), parent.get(other.number)
        count = bisect_right(claims, other.zxid) - bisect_right(claims, one.zxid)
        is_known = old is not None and new is not None and old.czxid == new.czxid
        made = new.cversion - old.cversion if is_known and old and new else count + 1
        found.append(made <= count and one.is_exact and other.is_exact)
    return [*found, False]


@StateRule.of(rebalances.rebalance, BY_MEMBERSHIP)
def rebalance(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """The registrations of a group that `ids` counted between two snapshots (`cversion`).

    Each makes the members rebalance, and so does each member that leaves, which is not counted. `at_zxid` is
    the last of these changes (`pzxid`).
    """
    for between, old, new in rewrites(states.get(ids_path(key[0]), ())):
        if old.stat.pzxid < new.stat.pzxid:
            joined = new.stat.cversion - old.stat.cversion
            what = f"{counted(joined, 'registration')} and" if joined else "members left:"
            detail = f"{what} at least 1 rebalance; the last change was at {new.stat.pzxid:#x}"
            yield Shown(between, detail, (key[0], None, None), None, new.stat.pzxid)


@StateRule(
    severity="info",
    question="Which members came, went, or registered anew from one snapshot to the next?",
    act="Nothing, if processes were started or stopped then. One that registers anew again and again has a"
    " session timeout that is shorter than its pauses.",
    keys=BY_MEMBERSHIP,
)
def membership_changed(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """Members that joined or were lost between two snapshots, and those that registered anew (`czxid`).

    A row for each two snapshots; `at_zxid` is the registration where it is of one member alone.
    """
    found = (
        (turn.between, (place.member, turn))
        for place, of_path in of_kind(states, "member")
        for turn in turns(of_path)
    )
    for between, members in by_pair(found):
        names: dict[str, list[str]] = {"joined": [], "lost": [], "registered anew": []}
        for member, (_, old, new) in sorted(members, key=lambda each: each[0]):
            names["joined" if old is None else "lost" if new is None else "registered anew"].append(member)
        detail = "; ".join(f"{what}: {named(some)}" for what, some in names.items() if some)
        one = members[0][1].new if len(members) == 1 else None
        at_zxid = None if one is None else one.stat.czxid
        yield Shown(between, detail, (key[0], None, None), session_in(one), at_zxid)


@StateRule.of(sessions.persistent_znode, sessions.BY_SESSION_ZNODE)
def persistent_znode(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """A znode that belongs to a session and is persistent, from the first snapshot that shows it to the last.

    `at_zxid` is its create.
    """
    for path, of_path in states.items():
        for life in lives(of_path):
            if lacks_session(path, life.end.stat.ephemeral_owner, life.end.data):
                detail, place = sessions.persistent_text(path), sessions.place_of(path)
                yield Shown(life.between, detail, place, None, life.czxid, lasts=True)


@StateRule(
    severity="error",
    question="Which sessions have ephemeral znodes, though the servers do not know them?",
    act="Nothing ends such a session, so its znodes stay, and every client takes what they say for alive."
    " Find out how the server got this tree (a restored or edited snapshot), and delete the znodes.",
    keys=BY_SUBTREE,
)
def missing_session(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """Sessions that hold ephemerals and are missing in the list of sessions of the same snapshot.

    Of servers' snapshots: an export has no such list. A row for each session and subtree, from the first
    snapshot that shows it to the last.
    """
    listing = [each for each in facts.snapshots if each.sessions is not None]
    held: dict[int, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path, of_path in states.items() if listing else ():
        for seen in of_path:
            if seen.state is not None and (session := session_in(seen.state)) is not None:
                for each in facts.snapshots[seen.first : seen.last + 1]:
                    # The list is written first: sessions that are younger than that are not in it.
                    is_older = seen.state.stat.czxid <= each.zxid
                    if each.sessions is not None and session not in each.sessions and is_older:
                        held[session][each.number].append(path)
    for session, numbers in sorted(held.items()):
        some = [Stretch(place, place, ()) for place, each in enumerate(listing) if each.number in numbers]
        for (first, last), _ in lasting(some, lambda _: True, facts):
            between = listing[first].number, listing[last].number
            paths = numbers[between[1]]
            groups = {path_kind(path).name for path in paths if path.startswith(f"{consumers_path()}/")}
            detail = (
                f"session {hex_session(session)} is in no list of sessions, and holds"
                f" {counted(len(paths), 'znode')}: {named(sorted(paths))}"
            )
            group = groups.pop() if len(groups) == 1 else None
            yield Shown(between, detail, (group, None, None), session, lasts=True)


def _value(state: ZnodeState | None) -> int | None:
    data = None if state is None else state.data
    if data is not None and data.isdigit() and len(data) < _DIGITS:
        return int(data)
    offset = None if state is None else decoded(Offset.decode, state.path, data)
    return None if offset is None else offset.value


def _resets(states: States, group: str) -> Iterator[tuple[TopicPartition, Sequence[Seen]]]:
    """The markers of an operator's resets."""
    for path, of_path in states.items():
        if (partition := offsets.marked_partition(path, group)) is not None:
            yield partition, of_path


def _is_up_to(offset: int, marker: ZnodeState) -> bool:
    reset = _reset(marker)
    return reset is not None and reset.offset <= offset


def _is_recorded(states: States, group: str, old: ZnodeState, new: ZnodeState) -> bool:
    """True if an operator changed offsets of the group between two writes, or at the second one."""
    acts = (seen.state.stat for seen in states.get(AuditRecord.path(group), ()) if seen.state is not None)
    return any(old.stat.mzxid < each.mzxid and each.mtime <= new.stat.mtime + _ACT_MS for each in acts)


def _reset(marker: ZnodeState | None) -> Reset | None:
    return None if marker is None else decoded(Reset.decode, marker.path, marker.data)


@StateRule.of(offsets.offset_regression, BY_GROUP_ACTS)
def offset_regression(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """An offset that is lower than in the snapshot before, though its znode is the same.

    Some write between the two set it back; `at_zxid` is that write where it was the only one. Info where an
    operator's marker explains it. Snapshots do not tell who wrote.
    """
    markers = dict(_resets(states, key[0]))
    for place, of_path in of_kind(states, "offset"):
        partition = TopicPartition(place.topic, place.partition)
        for rewrite in rewrites(of_path):
            was, now = _value(rewrite.old), _value(rewrite.new)
            if was is None or now is None or not now < was >= 0:
                continue
            detail = f"{was} -> {now}, in {counted(rewrite.writes, 'write')}"
            severity: Severity = "error"
            between = range(rewrite.old.stat.mzxid + 1, rewrite.new.stat.mzxid + 1)
            resets = (seen.state for seen in markers.get(partition, ()) if seen.state is not None)
            is_marked = any(each.stat.mzxid in between and _is_up_to(now, each) for each in resets)
            if is_marked or _is_recorded(states, key[0], rewrite.old, rewrite.new):
                detail, severity = f"{detail}; an operator's reset, by its marker", "info"
            yield Shown(rewrite.between, detail, (key[0], *partition), None, rewrite.at_zxid, severity)


@StateRule(
    question="Which offsets were deleted, and which of them were made again?",
    act="A consumer without an offset begins where its reset policy says. Find out who deletes below"
    " `offsets`: a tool that prunes groups, or a client that makes its offset anew at each start.",
    keys=BY_GROUP_ACTS,
)
def offset_deleted(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """An offset that was deleted, or made again (`czxid`): its value goes on from nothing.

    A warning where the new one is lower, info otherwise. `at_zxid` is the create of the new znode.
    """
    for of, of_path in of_kind(states, "offset"):
        place = (key[0], of.topic, of.partition)
        for turn in remade(of_path):
            was, now = _value(turn.old), _value(turn.new)
            severity: Severity = "warning" if (now or 0) < (was or 0) else "info"
            detail = f"deleted and made again: it was {was}, and then {now}"
            yield Shown(turn.between, detail, place, None, turn.new and turn.new.stat.czxid, severity)
        gone = [turn for turn in turns(of_path) if turn.new is None][-1:]
        if gone and of_path[-1].state is None:
            detail = f"deleted; it was {_value(gone[0].old)}"
            yield Shown(gone[0].between, detail, place, severity="info")


@StateRule.of(offsets.commit_rate, BY_GROUP_ACTS)
def commit_rate(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """How often the offsets of a group were written, by the growth of their versions.

    Claims of zkgroup's members count, too; writes of a znode that was deleted in between are not known.
    """
    writes: Counter[Between] = Counter()
    for _, of_path in of_kind(states, "offset"):
        for rewrite in rewrites(of_path):
            writes[rewrite.between] += rewrite.writes
        for turn in turns(of_path):
            writes[turn.between] += 0 if turn.new is None else turn.new.stat.version + 1

    rates = {pair: 1_000 * number / ms for pair, number in writes.items() if (ms := span_ms(pair, facts))}
    if total := writes.total():
        whole = min(first for first, _ in writes), max(last for _, last in writes)
        detail = f"at least {counted(total, 'write')} of offsets"
        if rates:
            busiest = max(rates, key=lambda pair: (rates[pair], pair))
            since, until = (facts.snapshots[number] for number in busiest)
            detail += f", most between {since.zxid:#x} and {until.end_zxid:#x}: {rates[busiest]:.2f}/s"
        yield Shown(whole, detail, (key[0], None, None))


@StateRule.of(offsets.stalled_offset, BY_GROUP_ACTS, {"snapshots": 3})
def stalled_offset(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """A partition that had an owner in `snapshots` of them or more, one after the other, without a commit.

    Its offset was not written in all that time, or is missing in each of them.
    """
    least = bounds["snapshots"]
    for place, of_owner in of_kind(states, "owner"):
        partition = TopicPartition(place.topic, place.partition)
        for seen in runs_of(states, offset_path(key[0], partition), facts):
            some = stretches(of_owner, [seen]) if seen.last - seen.first + 1 >= least else ()
            for between, holders in lasting(some, _holder, facts, least):
                what = "without an offset" if seen.state is None else f"at {_value(seen.state)}"
                detail = f"{what}{times_text(between, facts)}, with an owner in each of them"
                session = holders[0] if len({*holders}) == 1 else None
                yield Shown(between, detail, (key[0], *partition), session, lasts=True)


def _holder(stretch: Stretch) -> int | None:
    """The session of the owner, 0 for one that none holds; None where there is no owner."""
    state = stretch.seen[0].state
    return None if state is None else session_in(state) or 0


@StateRule.of(offsets.reset_overwritten, BY_GROUP_ACTS)
def reset_overwritten(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """An offset that an operator set, by its marker, and that was written otherwise after that.

    Lower than the marker, which nobody who obeys it writes; or, of an offset that was set back, as high again
    as before, by the one write behind it, or while a member of Kafka's own consumer owned it all along.
    """
    for partition, of_marker in _resets(states, key[0]):
        of_offset, told = states.get(offset_path(key[0], partition), ()), 0
        for stretch in stretches(of_marker, of_offset):
            marker, offset = (seen.state for seen in stretch.seen)
            if marker is None or offset is None or marker.stat.mzxid == told or not is_proved(stretch, facts):
                continue
            owners = states.get(owner_path(key[0], partition), ())
            kept = [
                life.end
                for life in lives(owners)
                if life.czxid < marker.stat.mzxid and life.between[1] >= stretch.seen[1].first
            ]
            detail = _overwritten(marker, offset, of_offset, any(_is_jvm(each, states) for each in kept))
            if detail is not None and not _is_recorded(states, key[0], marker, offset):
                told = marker.stat.mzxid
                yield Shown((max(stretch.first - 1, 0), stretch.first), detail, (key[0], *partition))


def _overwritten(
    marker: ZnodeState, offset: ZnodeState, of_offset: Sequence[Seen], has_jvm_owner: bool
) -> str | None:
    """The way in which an offset was overwritten after a reset; None where that is not known."""
    reset, at = _reset(marker), marker.stat.mzxid
    if reset is None or not offset.stat.czxid <= at < offset.stat.mzxid:
        return None
    states = [seen.state for seen in of_offset if seen.state and seen.state.stat.czxid == offset.stat.czxid]
    before = next((state for state in reversed(states) if state.stat.mzxid < at), None)
    is_next = before is not None and offset.stat.version == before.stat.version + 2
    was = _value(before) if is_next or has_jvm_owner else None
    how = offsets.overwritten_text(reset.offset, was, _value(offset))
    return None if how is None else f"{how}; the reset was at {at:#x}, by {reset.by}"


def _is_jvm(owner: ZnodeState, states: States) -> bool:
    """True if all that its session registered is of Kafka's own consumers."""
    session = session_in(owner)
    kinds = {
        subscription_kind(seen.state.data)
        for _, of_path in of_kind(states, "member")
        for seen in of_path
        if seen.state is not None and session_in(seen.state) == session
    }
    return session is not None and kinds == {"jvm"}
