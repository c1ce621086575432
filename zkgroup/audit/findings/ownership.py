"""Findings about the owners of the partitions of groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

from zkgroup.audit.answers.partitions import OwnerLife, members_named, owner_lives, partition_steps
from zkgroup.audit.findings import rules
from zkgroup.audit.findings.group_rebalances import replayed_group
from zkgroup.audit.findings.membership import demand, lives_by_session, partitions_at, topics_wanted
from zkgroup.audit.findings.rules import Bounds, Finding, KeyRows, Rule, Severity, TimeRange
from zkgroup.audit.inputs import events
from zkgroup.audit.inputs.events import BY_GROUP_PARTITION, BY_MEMBERSHIP, BY_OWNED_PARTITION, Event, Key
from zkgroup.audit.inputs.facts import Facts, Life, client, derived, member_of
from zkgroup.model import TopicPartition
from zkgroup.model.text import counted, duration_text, hex_session
from zkgroup.znodes.consumers import ids_path, owner_path


def _is_known(facts: Facts, group: str, session: int) -> bool:
    """True if all registrations of a session in a group are in the history or in its seeds."""
    life = facts.sessions.get(session)
    is_seen = facts.is_whole or (life is not None and life.from_zxid is not None)
    return is_seen and facts.knows(ids_path(group))


def _held(rows: KeyRows, key: Key, facts: Facts) -> Iterator[OwnerLife]:
    """The ownerships that are ephemeral; `persistent_znode` reports the others."""
    return (owner for owner in rows.once(owner_lives, key, facts) if owner.is_ephemeral)


def _unregistered(rows: KeyRows, key: Key, facts: Facts) -> Iterator[OwnerLife]:
    """The ownerships that do not lie within a registration of their member in their session: few."""
    for owner in _held(rows, key, facts):
        lives = _registrations(facts, key[0], owner.session, owner.thread)
        if not any(_is_within(owner, life) for life in lives):
            yield owner


def _is_within(owner: OwnerLife, life: Life) -> bool:
    if life.to_zxid is not None and (owner.to_zxid is None or owner.to_zxid > life.to_zxid):
        return False
    return life.from_zxid <= owner.from_zxid


@derived
def _registrations(facts: Facts, group: str, session: int, thread: str) -> Sequence[Life]:
    names = members_named(thread)
    return [life for life in lives_by_session(facts, group).get(session, ()) if member_of(life) in names]


@Rule(
    severity="error",
    question="Is there an owner whose member is not registered?",
    needs=("tree",),
    act="Nobody consumes the partition, and no other member can claim it. Find out who holds that session"
    " (`zkgroup session`) and end that process; the znode is deleted with its session.",
    keys=BY_OWNED_PARTITION,
    bounds={"grace_ms": 10_000},
)
def orphan_owner(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """An owner znode at the end of the history whose member is not registered.

    An error once it has stood so for `grace_ms`, info before: a member may be on its way out.
    """
    for owner in rows.once(owner_lives, key, facts)[-1:]:
        if owner.to_zxid is not None or not owner.is_ephemeral or not _is_known(facts, key[0], owner.session):
            return
        lives = [life for life in facts.members.get(key[0], ()) if owner.is_of(member_of(life))]
        if any(life.to_zxid is None for life in lives):
            return
        since = TimeRange.of(owner)
        if lives and (lives[-1].to_zxid or 0) > owner.from_zxid:
            since = TimeRange(lives[-1].to_zxid or 0, lives[-1].to_ms or 0)
        severity: Severity = "error" if since.ms(facts) > bounds["grace_ms"] else "info"
        detail = (
            f"owner {owner.thread!r} of session {hex_session(owner.session)} stands without a"
            f" registration of its member, for {duration_text(since.ms(facts))} at the end"
        )
        yield Finding.during("orphan_owner", severity, since, detail, events.partition_of(key), owner.session)


@Rule(
    severity="error",
    question="Did a claim outlive the registration of its member?",
    act="Until the claim went, the others could not take the partition over. Members of zkgroup and of the"
    " JVM never leave that way: find the tool that deletes below `ids`, or another client library.",
    keys=BY_OWNED_PARTITION,
    bounds={"grace_ms": 10_000},
)
def orphan_owner_interval(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """A claim that outlived the registration of its member: `orphan_owner` through time.

    A claim outlives nothing that goes in its transaction, as at the end of a session. Info while it stands
    at the end of the history for less than `grace_ms`.
    """
    for owner in rows.once(_unregistered, key, facts):
        # A claim that never had a registration of its session is owner_session_mismatch.
        lives = rules.merged(map(TimeRange.of, _registrations(facts, key[0], owner.session, owner.thread)))
        for gap in rules.gaps(TimeRange.of(owner), lives):
            ms = gap.ms(facts)
            severity: Severity = "error" if gap.to_zxid is not None or ms > bounds["grace_ms"] else "info"
            detail = (
                f"owner {owner.thread!r} stood for {duration_text(ms)} after the registration of its member"
            )
            yield Finding.during(
                "orphan_owner_interval", severity, gap, detail, events.partition_of(key), owner.session
            )


@Rule(
    severity="error",
    question="Was a partition claimed by a session that its member is not registered in?",
    needs=("tree",),
    act="A JVM member takes an owner with its own name for its own, whatever session holds it, and consumes"
    " unowned once that session ends. Find the client behind the session (`zkgroup session`), and restart the"
    " member.",
    keys=BY_OWNED_PARTITION,
)
def owner_session_mismatch(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """A claim by a session that is not the one in which its member is registered.

    Session and name are compared at the claim: members that share a client share its session. An
    owner in a snapshot is compared with that snapshot only.
    """
    members = lives_by_session(facts, key[0])
    for owner in rows.once(_unregistered, key, facts):
        mine = members.get(owner.session, ())
        if any(owner.is_of(member_of(life)) and _stood_at(life, owner, facts) for life in mine):
            continue
        if not _is_known(facts, key[0], owner.session):
            continue
        there = [life for life in facts.members.get(key[0], ()) if _stood_at(life, owner, facts)]
        detail = _mismatch_text(owner, there, mine)
        yield Finding.during(
            "owner_session_mismatch", "error", owner, detail, events.partition_of(key), owner.session
        )


def _stood_at(member: Life, owner: OwnerLife, facts: Facts) -> bool:
    """True if a member was registered at a claim; a claim of a snapshot is compared with that snapshot."""
    start = facts.start_zxid if facts.has_log else facts.end_zxid + 1
    if owner.from_zxid < start:
        return member.from_zxid < start
    return rules.is_alive(member, owner.from_zxid)


def _mismatch_text(owner: OwnerLife, there: Sequence[Life], lives: Sequence[Life]) -> str:
    """The text about the session of a claim; `lives` are all its registrations in the group."""
    claim = f"{owner.thread!r} was claimed by session {hex_session(owner.session)}"
    named = [life for life in there if owner.is_of(member_of(life))]
    if named:
        return f"{claim}, but {member_of(named[-1])} is registered in {hex_session(named[-1].session)}"
    mine = sorted({member_of(life) for life in there if life.session == owner.session})
    if mine:
        return f"{claim}, which is registered as {', '.join(mine)}"
    later = sorted({member_of(life) for life in lives if life.from_zxid > owner.from_zxid})
    if later:
        return f"{claim}, which registered as {', '.join(later)} only after that"
    earlier = sorted({member_of(life) for life in lives})
    if earlier:
        return f"{claim}, whose registration as {', '.join(earlier)} was gone by then"
    return f"{claim}, which is no member of the group"


@Rule(
    severity="error",
    question="Did two members act on one partition at the same time?",
    act="Records in that time may have been processed twice, and the offset may have gone back. A JVM"
    " member that was paused or lost its claim does not notice: restart it, and find the pause or the"
    " session that deleted the claim (claim_stolen). Members of zkgroup are fenced and never do this.",
    keys=BY_GROUP_PARTITION,
    screen=rules.partitions_with(lambda p: p.is_commit & (p.holder >= 0) & ~p.by_holder),
)
def double_ownership(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """Two owners of one partition: the former owner still commits after the new one has claimed.

    The former owner lost its claim to a deletion by another session or to an expiry. It is identified by its
    session, or by its member id in the next session. One row for each pair of owners, from the claim to the
    last such commit.
    """
    names = _names_of_sessions(facts, key[0])
    put_out: dict[str, OwnerLife] = {}
    """The owners that lost the partition without releasing it, and have not owned it since."""
    late: dict[str, list[Event]] = {}
    """Their commits while the present owner owns it."""
    new: OwnerLife | None = None
    for step in rows.once(partition_steps, key, facts):
        event, ended = step.event, step.ended
        if ended is not None:
            yield from _overlap_findings(late, put_out, ended, key)
            late = {}
            if _lost_it(ended, facts):
                put_out[_name_of(ended.session, names)] = ended
        new = step.holder
        if new is None:
            continue
        if new.from_zxid == event.zxid:
            put_out.pop(_name_of(new.session, names), None)
        if step.write is not None and step.write.is_commit:
            writer = _name_of(event.session, names)
            if writer in put_out:
                late.setdefault(writer, []).append(event)
    if new is not None:
        yield from _overlap_findings(late, put_out, new, key)


def _lost_it(life: OwnerLife, facts: Facts) -> bool:
    if life.ended_by == "deleted_by_other":
        return True
    session = facts.sessions.get(life.session)
    return life.ended_by == "session_end" and session is not None and session.expired is True


@derived
def _names_of_sessions(facts: Facts, group: str) -> Mapping[int, str]:
    """Returns the only member of each session, to know an owner in its next session."""
    names: dict[int, str] = {}
    for life in facts.members.get(group, ()):
        name = member_of(life)
        # Where members share a client, the files do not show which one wrote.
        is_shared = names.get(life.session, name) != name
        names[life.session] = hex_session(life.session) if is_shared else name
    return names


def _name_of(session: int, names: Mapping[int, str]) -> str:
    return names.get(session) or hex_session(session)


def _overlap_findings(
    late: Mapping[str, Sequence[Event]], put_out: Mapping[str, OwnerLife], new: OwnerLife, key: Key
) -> Iterator[Finding]:
    """Yields a finding for each former owner with late commits, once the later ownership is over."""
    for name, commits in late.items():
        last = commits[-1]
        times = "once" if len(commits) == 1 else f"{len(commits)} times"
        time = TimeRange(new.from_zxid, new.from_ms, last.zxid, last.time_ms)
        detail = (
            f"{put_out[name].thread!r} committed {times}, up to {duration_text(last.time_ms - new.from_ms)}"
            f" after {new.thread!r} of session {hex_session(new.session)} had claimed"
        )
        yield Finding.during(
            "double_ownership", "error", time, detail, events.partition_of(key), commits[0].session
        )


@Rule(
    severity="error",
    question="Did a session delete a claim of another session?",
    act="The owner may go on without knowing, beside the next one: check double_ownership and"
    " zombie_commit of the partition. A JVM member deletes by path what it believes to own; any other"
    " session is a tool's or a person's.",
    keys=BY_OWNED_PARTITION,
)
def claim_stolen(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """An owner znode that another session deleted before the owner's session ended.

    The end of the owner's own session is no theft, nor is a release by any member of that session.
    """
    for owner in _held(rows, key, facts):
        if owner.ended_by == "deleted_by_other" and owner.ender is not None:
            detail = (
                f"the claim of {owner.thread!r}, {client(facts, owner.session, key[0])}, was deleted by"
                f" {client(facts, owner.ender, key[0])}"
            )
            end = owner._replace(from_zxid=owner.to_zxid or 0, from_ms=owner.to_ms or 0)
            yield Finding.during("claim_stolen", "error", end, detail, events.partition_of(key), owner.ender)


@Rule(
    question="For how long had a partition no owner, while a member subscribed to it?",
    act="Records waited that long. After an expiry the session timeout comes on top, before the rebalance."
    " JVM members retry every `rebalance.backoff.ms` and give up after `rebalance.max.retries`: then only"
    " the next change of the group helps. A registration that they cannot read stops all of them.",
    keys=BY_OWNED_PARTITION,
    bounds={"longest_ms": 1_000},
)
def unowned_interval(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """A partition without an owner for long, while a member subscribed to it.

    From the end of one owner to the claim of the next, or to the end of the history; only the time counts in
    which a member that can be read wanted the topic and the partition existed, and only what is longer than
    `longest_ms`.
    """
    longest_ms = bounds["longest_ms"]
    wanted: list[TimeRange] | None = None
    owners = rows.once(owner_lives, key, facts)
    for last, following in zip_longest(owners, owners[1:]):
        if last.to_zxid is None or last.to_ms is None:
            return
        to_zxid, to_ms = (None, None) if following is None else (following.from_zxid, following.from_ms)
        time = TimeRange(last.to_zxid, last.to_ms, to_zxid, to_ms)
        if time.ms(facts) <= longest_ms:
            continue
        if wanted is None:
            wanted = demand(facts, *events.partition_of(key))
        for piece in rules.overlaps([time], wanted):
            ms = piece.ms(facts)
            if ms > longest_ms:
                then = "no owner until the end" if following is None else f"then {following.thread!r}"
                if piece.to_zxid is not None and piece.to_zxid != to_zxid:
                    then = "until no member subscribed to it any more"
                detail = f"no member owned it for {duration_text(ms)}: {last.thread!r} before, {then}"
                yield Finding.during("unowned_interval", "warning", piece, detail, events.partition_of(key))


@Rule(
    severity="error",
    question="Is there a partition that members subscribe to and no member owns?",
    needs=("tree",),
    act="`group verify` names the member that should have it. A JVM member that gave up its rebalance stays"
    " idle until the next change of the group: restart it. Look for an owner or a registration in the way"
    " (orphan_owner, owner_session_mismatch).",
    keys=BY_MEMBERSHIP,
    bounds={"grace_ms": 10_000},
)
def never_owned(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """A partition that members subscribe to and no member owns, at the end of the history.

    Wildcards are expanded as members do it. An error once it has stood so for `grace_ms`, info before: the
    group may be in the middle of a rebalance, and what was before the log, or one tree, is not known.
    """
    (replay,) = rows.once(replayed_group, key, facts)
    partitions = partitions_at(facts, facts.end_zxid)
    topics: set[str] = set()
    for registration in replay.registrations().values():
        topics.update(topics_wanted(registration, tuple(partitions)) or ())
    missing = [
        TopicPartition(topic, number)
        for topic in sorted(topics)
        for number in partitions.get(topic, ())
        if TopicPartition(topic, number) not in replay.owners
    ]
    if not missing:
        return
    plan = replay.expected_owners(facts.end_zxid)
    known = (facts.start_zxid, facts.start_ms) if facts.has_log else (facts.end_zxid, facts.end_ms)
    for tp in missing:
        freed = replay.freed.get(tp)
        if freed is None and (not facts.is_whole or not facts.knows(owner_path(key[0], tp))):
            continue
        moments = [known, *((span.from_zxid, span.from_ms) for span in demand(facts, key[0], *tp)[-1:])]
        moments += [(freed.zxid, freed.time_ms)] if freed else []
        since = TimeRange(*max(moments))
        ms = since.ms(facts)
        severity: Severity = "error" if ms > bounds["grace_ms"] else "info"
        lasted = f"has owned it for {duration_text(ms)} at the end" if facts.has_log else "owns it"
        detail = f"no member {lasted}, and members subscribe to it"
        if plan is not None and tp in plan.owners:
            detail += f"; it is assigned to {plan.owners[tp]!r}"
        yield Finding.during("never_owned", severity, since, detail, (key[0], *tp))


@Rule(
    severity="info",
    question="Which groups are owned by another client's consumers?",
    needs=("tree",),
    act="Nothing: consumers of kazoo-go (wvanbergen/kafka) and kafka-node write owners so. How they share"
    " partitions is not known here, so `skew` and `never_owned` do not say what each should own. Members"
    " of Kafka and zkgroup cannot share a group with them.",
    keys=BY_MEMBERSHIP,
)
def foreign_owner_format(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """Owners in another client's format at the end of the history: a consumer id without a thread.

    The session of the claim has the registration of that id, so nothing is wrong with them. A row a group.
    """
    (replay,) = rows.once(replayed_group, key, facts)
    foreign = replay.foreign_claims()
    if foreign:
        since = TimeRange(min(each.from_zxid for each in foreign), min(each.from_ms for each in foreign))
        detail = (
            f"{counted(len(foreign), 'owner is', 'owners are')} the id of a consumer alone, without"
            " a thread: the format of another client (kazoo-go, kafka-node)"
        )
        yield Finding.during("foreign_owner_format", "info", since, detail, (key[0], None, None))
