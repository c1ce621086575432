"""What a series of snapshots shows of the members of groups, and of who owned their partitions."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence

from zkgroup.audit.answers.partitions import members_named
from zkgroup.audit.findings import ownership, rebalances, sessions
from zkgroup.audit.findings.membership import numbers_of, topics_wanted
from zkgroup.audit.findings.rules import Bounds, Severity, StateRule
from zkgroup.audit.findings.states import (
    Between,
    Shown,
    Stretch,
    ZnodeLife,
    as_runs,
    by_pair,
    lasting,
    lives,
    remade,
    rewrites,
    runs_of,
    session_in,
    state_in,
    stretches,
    times_text,
    turns,
)
from zkgroup.audit.inputs.events import BY_MEMBERSHIP, BY_SUBTREE, Key
from zkgroup.audit.inputs.facts import registration_of
from zkgroup.audit.inputs.series import Seen, SeriesFacts, States, ZnodeState
from zkgroup.model import TopicPartition
from zkgroup.model.text import counted, hex_session, named
from zkgroup.znodes.consumers import Registration, consumers_path, ids_path, owner_path, owners_topic_path
from zkgroup.znodes.paths import partition_of, path_kind
from zkgroup.znodes.sessions import lacks_session


def _owners(states: States) -> Iterator[tuple[TopicPartition, Sequence[Seen]]]:
    for path, of_path in states.items():
        if path_kind(path).kind == "owner":
            yield partition_of(path), of_path


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
    for partition, of_path in _owners(states):
        for between, old, new in remade(of_path):
            if old is not None and new is not None:
                again = "claimed again by the same thread: " if old.data == new.data else ""
                detail, place = f"{again}{_claim(old)} -> {_claim(new)}", (key[0], *partition)
                yield Shown(between, detail, place, session_in(new), new.stat.czxid)


def _with_members(life: ZnodeLife, states: States, group: str, facts: SeriesFacts) -> list[Stretch]:
    """The snapshots of an owner that a session holds, with the registrations of the members that it names."""
    found = list[Stretch]()
    for seen in life.states if session_in(life.end) else ():
        named = members_named((state_in(seen).data or b"").decode("utf-8", "replace"))
        of_members = (runs_of(states, Registration.path(group, member), facts) for member in named)
        found += stretches([seen], *of_members)
    return found


def _unregistered(stretch: Stretch) -> bool | None:
    return all(seen.state is None for seen in stretch.seen[1:]) or None


@StateRule.of(ownership.orphan_owner, BY_MEMBERSHIP, {"grace_ms": 10_000})
def orphan_owner(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """An owner whose member is not registered, from the first snapshot that shows it to the last.

    An error where that lasted longer than `grace_ms`, info before. Where the member was never seen with this
    owner, it counts from the claim.
    """
    for partition, of_path in _owners(states):
        for life in lives(of_path):
            known = _with_members(life, states, key[0], facts)
            for between, _ in lasting(known, _unregistered, facts):
                since_ms, until_ms = (facts.snapshots[number].time_ms for number in between)
                if all(map(_unregistered, known)):
                    since_ms = life.end.stat.ctime
                severity: Severity = "error" if until_ms - since_ms > bounds["grace_ms"] else "info"
                what = f"owner {_claim(life.end)} stands without a registration of its member"
                detail, session = f"{what}{times_text(between, facts)}", session_in(life.end)
                yield Shown(between, detail, (key[0], *partition), session, None, severity, lasts=True)


def _in_another_session(stretch: Stretch) -> ZnodeState | None:
    """The registration of an owner's member; None where there is one in the session of the owner."""
    owner, *members = (seen.state for seen in stretch.seen)
    there = [state for state in members if state is not None]
    is_own = session_in(owner) in map(session_in, there)
    return None if is_own or not there else there[0]


@StateRule.of(ownership.owner_session_mismatch, BY_MEMBERSHIP)
def owner_session_mismatch(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """An owner that another session holds than the one in which its member is registered.

    From the first snapshot that shows it to the last; `at_zxid` is the claim.
    """
    for partition, of_path in _owners(states):
        for life in lives(of_path):
            known = _with_members(life, states, key[0], facts)
            for between, registered in lasting(known, _in_another_session, facts):
                member, session = path_kind(registered[-1].path).member, session_in(registered[-1])
                where = hex_session(session) if session else "none"
                detail = f"{_claim(life.end)} owns it, but {member} is registered in {where}"
                detail, place = f"{detail}{times_text(between, facts)}", (key[0], *partition)
                yield Shown(between, detail, place, session_in(life.end), life.czxid, lasts=True)


@StateRule.of(ownership.unowned_interval, BY_MEMBERSHIP, {"snapshots": 2})
def unowned_interval(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """A partition without an owner in `snapshots` of them or more, while a member subscribed to its topic.

    A warning where it was so throughout: the parent of its owners counts no more creates (`cversion`) than
    snapshots show owners. Else it was so at every snapshot, which is info.
    """
    for topic, of_topic in sorted(facts.topics.items()):
        wanted = _wanted(facts, key[0], topic)
        numbers = [(seen, frozenset(_numbers(seen))) for seen in of_topic] if wanted else []
        claims: list[int] | None = None
        for number in sorted(frozenset[int]().union(*(known for _, known in numbers))):
            of_owner = runs_of(states, owner_path(key[0], TopicPartition(topic, number)), facts)
            gaps = [seen for seen in of_owner if seen.state is None]
            there = [seen for seen, known in numbers if number in known] if gaps else []
            some = stretches(gaps, there, wanted)
            for between, _ in lasting(some, lambda _: True, facts, bounds["snapshots"]):
                claims = _claims(states, topic) if claims is None else claims
                parent = states.get(owners_topic_path(key[0], topic), ())
                severity: Severity = "info"
                how = "at every snapshot; between them it may have had one"
                if _are_all(claims, parent, between, facts):
                    severity, how = "warning", "throughout: no other owner was made meanwhile"
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


def _claims(states: States, topic: str) -> list[int]:
    """The zxids of the claims of a topic's partitions that snapshots show, in order."""
    of_topic = [of_path for partition, of_path in _owners(states) if partition.topic == topic]
    return sorted(life.czxid for of_path in of_topic for life in lives(of_path))


def _are_all(claims: Sequence[int], parent: Sequence[Seen], between: Between, facts: SeriesFacts) -> bool:
    """True if the parent counts no more creates between two exact snapshots than these claims."""
    since, until = (facts.snapshots[number] for number in between)
    states = [seen.state for n in between for seen in parent if seen.first <= n <= seen.last and seen.state]
    if len(states) < 2 or states[0].stat.czxid != states[1].stat.czxid:
        return False
    made = states[1].stat.cversion - states[0].stat.cversion
    seen = bisect_right(claims, until.zxid) - bisect_right(claims, since.zxid)
    return since.is_exact and until.is_exact and made <= seen


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
        (turn.between, (path_kind(path).member, turn))
        for path, of_path in states.items()
        if path_kind(path).kind == "member"
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
