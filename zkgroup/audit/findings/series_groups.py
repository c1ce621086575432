"""What a series of snapshots shows of groups: their members, who owned their partitions, and offsets."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import sub

from zkgroup.audit.answers.partitions import members_named, offset_of, thread_of
from zkgroup.audit.findings import offsets, ownership, rebalances, sessions, states
from zkgroup.audit.findings.membership import numbers_of, topics_wanted
from zkgroup.audit.findings.rules import Bounds, Severity, StateRule
from zkgroup.audit.findings.states import SeriesView, Shown, Stretch, lives, session_in, state_in, stretches
from zkgroup.audit.inputs.events import Seen
from zkgroup.audit.inputs.facts import decoded, registration_of
from zkgroup.model import TopicPartition
from zkgroup.model.text import counted, hex_session
from zkgroup.zkfiles.records import StoredZnode
from zkgroup.znodes import consumers
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.group_records import AuditRecord, Reset
from zkgroup.znodes.paths import partition_of, path_kind
from zkgroup.znodes.sessions import effect_without_session, lacks_session

_ACT_MS = 60_000
"""An operator's change of many offsets takes several transactions, and no longer than this."""


def _claim(state: StoredZnode) -> str:
    """An owner in words: the thread, and its session."""
    session = session_in(state)
    return f"{thread_of(state)!r}{f' (session {hex_session(session)})' if session else ''}"


@StateRule(
    severity="info",
    question="Which partitions have another owner than in the snapshot before, or were claimed anew?",
    act="Nothing, for a few: that is a rebalance. Where one thread claims a partition again and again, see"
    " needless_move.",
)
def owner_changed(of: SeriesView, bounds: Bounds) -> Iterator[Shown]:
    """A partition whose owner is another znode than the last one before, also where it says the same."""
    for change in of.changes("owner", bool):
        if change.old and change.new and not change.is_same:
            again = "claimed again by the same thread: " if change.old.data == change.new.data else ""
            yield change.shown(f"{again}{_claim(change.old)} -> {_claim(change.new)}")


def _claims(of: SeriesView) -> Iterator[tuple[StoredZnode, list[Stretch]]]:
    """The owners that a session holds, each with the registrations of the members that it names."""
    never = of.runs(consumers.consumers_path())
    for life, owner in (each for of_path in of.of_kind("owner").values() for each in lives(of_path)):
        found = list[Stretch]()
        for seen in life if session_in(owner) else ():
            paths = (
                consumers.Registration.path(path_kind(owner.path).name, member)
                for member in members_named(thread_of(state_in(seen.state)))
            )
            members = [of_path for path in paths if (of_path := of.runs(path)) != never]
            found += stretches([seen], *(members or [never]))
        yield owner, found


@StateRule.of(ownership.orphan_owner, {"grace_ms": 10_000})
def orphan_owner(of: SeriesView, bounds: Bounds) -> Iterator[Shown]:
    """An owner whose member is not registered.

    An error where that lasted longer than `grace_ms`, info before. Where the member was never seen until
    then, it counts from the claim.
    """
    for owner, known in _claims(of):
        was_registered = any(seen.state or seen.first for each in known for seen in each.seen[1:])
        for between, times, claims in of.lasting(known, lambda owner, *there: None if any(there) else owner):
            since_ms, until_ms = (of.series.snapshots[number].time_ms for number in between)
            lasted_ms = until_ms - (since_ms if was_registered else owner.stat.ctime)
            severity: Severity = "error" if lasted_ms > bounds["grace_ms"] else "info"
            detail = f"owner {_claim(claims[-1])} stands without a registration of its member{times}"
            yield Shown(between, detail, owner.path, session_in(owner), None, severity, lasts=True)


def _in_another_session(owner: StoredZnode, *members: StoredZnode | None) -> Sequence[StoredZnode] | None:
    """An owner and its member's registration; None where there is one in the session of the owner."""
    there = [each for each in members if each is not None]
    return [owner, *there] if there and session_in(owner) not in map(session_in, there) else None


@StateRule.of(ownership.owner_session_mismatch)
def owner_session_mismatch(of: SeriesView, bounds: Bounds) -> Iterator[Shown]:
    """An owner that another session holds than the one in which its member is registered."""
    for owner, known in _claims(of):
        for between, times, found in of.lasting(known, _in_another_session):
            claim, registered, *_ = found[-1]
            member, session = path_kind(registered.path).member, session_in(registered)
            where = hex_session(session) if session else "none"
            detail = f"{_claim(claim)} owns it, but {member} is registered in {where}{times}"
            yield Shown(between, detail, owner.path, session_in(owner), owner.stat.czxid, lasts=True)


@StateRule.of(ownership.unowned_interval, {"snapshots": 2})
def unowned_interval(of: SeriesView, bounds: Bounds) -> Iterator[Shown]:
    """A partition without an owner in `snapshots` of them or more, while a member subscribed to its topic.

    A warning for the time in which it was so throughout: the parent of its owners counts no more creates
    (`cversion`) than snapshots show owners. Else it was so at every snapshot, which is info.
    """
    for path, (first, last), certain in _unowned(of, bounds["snapshots"]):
        for is_certain, part in groupby(range(first, max(last, first + 1)), certain.__contains__):
            pairs = list(part)
            between = pairs[0], min(pairs[-1] + 1, last)
            severity: Severity = "warning" if is_certain else "info"
            how = "at every snapshot; between them it may have had one"
            how = "throughout: no other owner was made meanwhile" if is_certain else how
            detail = f"no member owned it{of.times(between)}, {how}"
            yield Shown(between, detail, path, severity=severity, lasts=True)


@StateRule.of(ownership.never_owned, ownership.never_owned.bounds)
def never_owned(of: SeriesView, bounds: Bounds) -> Iterator[Shown]:
    """A partition without an owner in the last snapshots, while a member subscribed to its topic.

    An error where it was so throughout, as of `unowned_interval`, for the last `grace_ms`; else info.
    """
    for path, (first, last), certain in _unowned(of, 1) if of.series.ends else ():
        if last == len(of.series.snapshots) - 1:
            since = max((number + 1 for number in range(first, last) if number not in certain), default=first)
            severity: Severity = "error" if of.span_ms((since, last)) > bounds["grace_ms"] else "info"
            detail = f"no member owns it at the end{of.times((first, last))}, and members subscribe to it"
            yield Shown((first, last), detail, path, severity=severity, lasts=True)


def _unowned(of: SeriesView, least: float) -> Iterator[tuple[str, states.Between, set[int]]]:
    """The owners that are missing in `least` snapshots while they are wanted, and what is `_certain`."""
    for group, topic, wanted in _wanted(of):
        certain: set[int] | None = None
        of_topic = [(seen, numbers_of(seen.state and seen.state.data)) for seen in of.runs(Topic.path(topic))]
        for number in sorted({number for _, numbers in of_topic for number in numbers}):
            path = consumers.owner_path(group, TopicPartition(topic, number))
            gaps = [seen for seen in of.runs(path) if seen.state is None]
            there = [seen for seen, numbers in of_topic if number in numbers]
            for between, _, _ in of.lasting(stretches(gaps, there, wanted), lambda *_: True, least):
                certain = _certain(of, group, topic) if certain is None else certain
                yield path, between, certain


def _wanted(of: SeriesView) -> Iterator[tuple[str, str, list[Seen]]]:
    """Group, topic, and the snapshots in which a member of the one subscribed to the other, as runs."""
    found: dict[tuple[str, str], set[int]] = defaultdict(set)
    topics = [path_kind(path).name for path in of.of_kind("topic")]
    for path, of_path in of.of_kind("member").items():
        for seen in of_path:
            registration = None if seen.state is None else registration_of(seen.state.data)
            for topic in (registration and topics_wanted(registration, topics)) or ():
                if topic in topics:
                    found[path_kind(path).name, topic].update(range(seen.first, seen.last + 1))
    for (group, topic), numbers in found.items():
        yield group, topic, states.as_runs(sorted(numbers))


def _certain(of: SeriesView, group: str, topic: str) -> set[int]:
    """The exact snapshots up to whose next one all owners of a topic that were made are in some snapshot."""
    parent, snapshots = consumers.owners_topic_path(group, topic), of.series.snapshots
    owners = (runs for path, runs in of.of_kind("owner").items() if path.startswith(f"{parent}/"))
    claims = sorted(owner.stat.czxid for of_path in owners for _, owner in lives(of_path))
    found = {number for seen in of.runs(parent) if seen.state for number in range(seen.first, seen.last)}
    for change in states.changes(of.runs(parent)):
        last, first = change.between
        ends = (bisect_right(claims, snapshots[number].zxid) for number in (first, last))
        if first == last + 1 and change.is_same and change.grown("cversion") <= sub(*ends):
            found.add(last)
    return {number for number in found if snapshots[number].is_exact and snapshots[number + 1].is_exact}


@StateRule.of(rebalances.rebalance)
def rebalance(of: SeriesView, bounds: Bounds) -> Iterator[Shown]:
    """The registrations of a group that `ids` counted between two snapshots (`cversion`).

    Each makes the members rebalance, and so does each member that leaves, which is not counted. `at_zxid` is
    the last of these changes (`pzxid`).
    """
    for change in of.changes("group"):
        is_of_ids = change.path == consumers.ids_path(path_kind(change.path).name)
        if is_of_ids and change.new and change.is_same and change.grown("pzxid") > 0:
            joined, last = change.grown("cversion"), change.new.stat.pzxid
            what = f"{counted(joined, 'registration')} and" if joined else "members left:"
            detail = f"{what} at least 1 rebalance; the last change was at {last:#x}"
            yield Shown(change.between, detail, change.path, None, last)


@StateRule(
    severity="info",
    question="Which members came, went, or registered anew from one snapshot to the next?",
    act="Nothing, if processes were started or stopped then. One that registers anew again and again has a"
    " session timeout that is shorter than its pauses.",
)
def membership_changed(of: SeriesView, bounds: Bounds) -> Iterator[Shown]:
    """A member that joined or was lost between two snapshots, or that registered anew (`czxid`)."""
    for change in of.changes("member"):
        if not change.is_same:
            what = change.turned("joined", "lost", "registered anew")
            yield change.shown(f"{what}: {path_kind(change.path).member}")


@StateRule.of(sessions.persistent_znode)
def persistent_znode(of: SeriesView, bounds: Bounds) -> Iterator[Shown]:
    """A znode that belongs to a session and is persistent; `at_zxid` is its create."""
    kinds = (of.of_kind(kind) for kind in sessions.BY_SESSION_ZNODE.kinds or ())
    for path, of_path in (each for of_kind in kinds for each in of_kind.items()):
        for life, state in lives(of_path) if effect_without_session(path) else ():
            if lacks_session(path, state.stat.ephemeral_owner, state.data):
                between, detail = (life[0].first, life[-1].last), sessions.persistent_text(path)
                yield Shown(between, detail, path, None, state.stat.czxid, lasts=True)


def _value(state: StoredZnode | None) -> int | None:
    return None if state is None else offset_of(state.path, state.data)


def _text(state: StoredZnode | None) -> str:
    return (state_in(state).data or b"").decode("utf-8", "replace")


def _reset(marker: StoredZnode | None) -> Reset | None:
    return None if marker is None else decoded(Reset.decode, marker.path, marker.data)


def _markers(of: SeriesView) -> dict[str, Sequence[Seen]]:
    """The markers of operators' resets, by the path of the offset."""
    paths = ((offsets.marked_offset(path), of_path) for path, of_path in of.of_kind("group").items())
    return {path: of_path for path, of_path in paths if path is not None}


def _is_recorded(of: SeriesView, old: StoredZnode, new: StoredZnode) -> bool:
    """True if an operator changed offsets of the group between two writes, or at the second one."""
    runs = of.runs(AuditRecord.path(path_kind(new.path).name))
    acts = (seen.state.stat for seen in runs if seen.state is not None)
    return any(old.stat.mzxid < each.mzxid and each.mtime <= new.stat.mtime + _ACT_MS for each in acts)


@StateRule.of(offsets.offset_regression)
def offset_regression(of: SeriesView, bounds: Bounds) -> Iterator[Shown]:
    """An offset that is lower than in the snapshot before, though its znode is the same.

    Some write between the two set it back. Info where an operator's marker explains it. Snapshots do not tell
    who wrote.
    """
    markers = _markers(of)
    for change in of.changes("offset"):
        was, now = _value(change.old), _value(change.new)
        if not (change.old and change.new and change.is_same) or was is None or now is None:
            continue
        if now < was >= 0:
            zxids = range(change.old.stat.mzxid + 1, change.new.stat.mzxid + 1)
            there = (seen.state for seen in markers.get(change.path, ()))
            resets = [_reset(each) for each in there if each and each.stat.mzxid in zxids]
            is_meant = any(reset and reset.offset <= now for reset in resets)
            is_meant = is_meant or _is_recorded(of, change.old, change.new)
            detail = f"{was} -> {now}, in {counted(change.grown(), 'write')}"
            detail += "; an operator's reset, by its marker" if is_meant else ""
            yield change.shown(detail, "info" if is_meant else None)


@StateRule(
    question="Which offsets were deleted, and which of them were made again?",
    act="A consumer without an offset begins where its reset policy says. Find out who deletes below"
    " `offsets`: a tool that prunes groups, or a client that makes its offset anew at each start.",
)
def offset_deleted(of: SeriesView, bounds: Bounds) -> Iterator[Shown]:
    """An offset that was deleted, or made again (`czxid`): its value goes on from nothing.

    A warning where the new one is lower, info otherwise.
    """
    for change in of.changes("offset", bool):
        if not change.is_same:
            was, now = _value(change.old), _value(change.new)
            severity: Severity = "warning" if (now or 0) < (was or 0) else "info"
            values = f"it was {_text(change.old)}, and then {_text(change.new)}"
            yield change.shown(f"deleted and made again: {values}", severity)
    last = {change.path: change for change in of.changes("offset") if not change.is_same}
    for change in last.values():
        if change.new is None:
            yield change.shown(f"deleted; it was {_text(change.old)}", "info")


@StateRule.of(offsets.commit_rate)
def commit_rate(of: SeriesView, bounds: Bounds) -> Iterator[Shown]:
    """How often the offsets of a group were written, by the growth of their versions.

    Claims of zkgroup's members count, too; writes of a znode that was deleted in between are not known.
    """
    from zkgroup.audit.findings.series_columns import writes_of_offsets

    writes: dict[str, dict[states.Between, int]] = defaultdict(dict)
    for group, last, first, number in writes_of_offsets(of.series):
        writes[group][last, first] = number
    for group, pairs in writes.items():
        rates = {pair: 1_000 * number / ms for pair, number in pairs.items() if (ms := of.span_ms(pair))}
        whole = min(first for first, _ in pairs), max(last for _, last in pairs)
        detail = f"at least {counted(sum(pairs.values()), 'write')} of offsets"
        if rates:
            busiest = max(rates, key=lambda pair: (rates[pair], pair))
            since, until = (of.series.snapshots[number] for number in busiest)
            detail += f", most between {since.zxid:#x} and {until.end_zxid:#x}: {rates[busiest]:.2f}/s"
        yield Shown(whole, detail, consumers.group_path(group))


@StateRule.of(offsets.stalled_offset, {"snapshots": 3})
def stalled_offset(of: SeriesView, bounds: Bounds) -> Iterator[Shown]:
    """A partition that had an owner in `snapshots` of them or more, one after the other, without a commit.

    Its offset was not written in all that time, or is missing in each of them.
    """
    least = bounds["snapshots"]
    for path, owner in of.of_kind("owner").items():
        for seen in of.runs(consumers.offset_path(path_kind(path).name, partition_of(path))):
            known = stretches(owner, [seen]) if seen.last - seen.first + 1 >= least else ()
            for between, times, owners in of.lasting(known, lambda owner, _: owner, least):
                what = "without an offset" if seen.state is None else f"at {_text(seen.state)}"
                session = session_in(owners[0]) if len({*map(session_in, owners)}) == 1 else None
                yield Shown(
                    between, f"{what}{times}, with an owner in each of them", path, session, lasts=True
                )


@StateRule.of(offsets.reset_overwritten)
def reset_overwritten(of: SeriesView, bounds: Bounds) -> Iterator[Shown]:
    """An offset that an operator set, by its marker, and that was written otherwise after that.

    Lower than the marker, which nobody who obeys it writes; or, of an offset that was set back, as high again
    as before, by the one write behind it, or while a member of Kafka's own consumer owned it all along.
    """
    for path, of_marker in _markers(of).items():
        of_offset, told = of.runs(path), 0
        for stretch in stretches(of_marker, of_offset):
            marker, offset = stretch.states
            if (
                not marker
                or not offset
                or marker.stat.mzxid == told
                or not states.is_proved(stretch, of.series)
            ):
                continue
            has_jvm_owner = _has_jvm_owner(of, path, marker.stat.mzxid, stretch.seen[1].first)
            detail = _overwritten(marker, offset, of_offset, has_jvm_owner=has_jvm_owner)
            if detail is not None and not _is_recorded(of, marker, offset):
                told = marker.stat.mzxid
                yield Shown((max(stretch.first - 1, 0), stretch.first), detail, path)


def _overwritten(
    marker: StoredZnode, offset: StoredZnode, of_offset: Sequence[Seen], *, has_jvm_owner: bool
) -> str | None:
    """The way in which an offset was overwritten after a reset; None where that is not known."""
    reset, at = _reset(marker), marker.stat.mzxid
    if reset is None or not offset.stat.czxid <= at < offset.stat.mzxid:
        return None
    known = [seen.state for seen in of_offset if seen.state and seen.state.stat.czxid == offset.stat.czxid]
    before = next((state for state in reversed(known) if state.stat.mzxid < at), None)
    is_next = before is not None and offset.stat.version == before.stat.version + 2
    was = _value(before) if is_next or has_jvm_owner else None
    how = offsets.overwritten_text(reset.offset, was, _value(offset))
    return None if how is None else f"{how}; the reset was at {at:#x}, by {reset.by}"


def _has_jvm_owner(of: SeriesView, path: str, before_zxid: int, number: int) -> bool:
    """True if the owner of an offset was older than a zxid, and in a snapshot, and is Kafka's own consumer.

    That is so where all that its session registered is of these.
    """
    group = path_kind(path).name
    of_members = (runs for each, runs in of.of_kind("member").items() if path_kind(each).name == group)
    members = [seen.state for runs in of_members for seen in runs]
    for life, owner in lives(of.runs(consumers.owner_path(group, partition_of(path)))):
        if owner.stat.czxid < before_zxid and life[-1].last >= number and (session := session_in(owner)):
            mine = [each for each in members if session_in(each) == session]
            if {consumers.subscription_kind(state_in(each).data) for each in mine} == {"jvm"}:
                return True
    return False
