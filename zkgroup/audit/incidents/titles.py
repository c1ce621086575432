"""The titles of incidents, and the words for several findings of one name."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime

from zkgroup.audit.findings.membership import member_of
from zkgroup.audit.findings.rules import Finding
from zkgroup.audit.incidents.incident import (
    CONTROLLER,
    Cause,
    CauseKind,
    PartitionDamage,
    length_ms,
    rewind_of,
)
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.texts import count_text, duration_text, first_of, session_digits, session_text
from zkgroup.znodes.consumers import Owner

NOTES: Mapping[str, tuple[str, str]] = {
    "orphan_owner": ("owner without a registered member", "owners without a registered member"),
    "orphan_owner_interval": ("claim outlived its member", "claims outlived their members"),
    "owner_session_mismatch": ("owner claimed by a foreign session", "owners claimed by a foreign session"),
    "double_ownership": ("partition had two owners", "partitions had two owners"),
    "claim_stolen": ("claim deleted by another session", "claims deleted by another session"),
    "unowned_interval": ("time a partition had no owner", "times a partition had no owner"),
    "never_owned": ("partition without an owner", "partitions without an owner, to which members subscribe"),
    "persistent_znode": ("persistent znode", "persistent znodes where sessions belong"),
    "foreign_owner_format": (
        "group of another client's consumers",
        "groups of other clients' consumers",
    ),
    "rebalance": ("rebalance", "rebalances"),
    "rebalance_storm": ("rebalance storm", "rebalance storms"),
    "needless_move": (
        "rebalance that moved partitions needlessly",
        "rebalances that moved partitions needlessly",
    ),
    "skew": ("uneven assignment", "uneven assignments"),
    "failed_claims": ("member that could not claim partitions", "members that could not claim partitions"),
    "handover_time": ("handover after the end of a session", "handovers after the end of a session"),
    "session_end": ("session ended", "sessions ended"),
    "member_flapping": ("member registered again and again", "members registered again and again"),
    "offset_regression": ("offset set back", "offsets set back"),
    "zombie_commit": ("commit without ownership", "commits without ownership"),
    "no_commit_at_handover": (
        "ownership that ended without a commit",
        "ownerships that ended without a commit",
    ),
    "stalled_offset": (
        "offset that did not change up to the end",
        "offsets that did not change up to the end",
    ),
    "commit_rate": ("commit rate", "commit rates"),
    "dead_group": ("group without members and writes", "groups without members and writes for days"),
    "offset_of_missing_partition": ("offset of a missing partition", "offsets of missing partitions"),
    "controller_election": ("controller election", "controller elections"),
    "controller_epoch_gap": ("gap in the controller epochs", "gaps in the controller epochs"),
    "deposed_controller_write": ("write by a former controller", "writes by a former controller"),
    "leader_not_in_isr": ("leader outside the ISR", "leaders outside the ISR"),
    "isr_outside_assignment": ("ISR outside the replica list", "ISRs outside their replica lists"),
    "under_replicated": ("partition lacked replicas", "partitions lacked replicas"),
    "offline_partition": ("partition had no leader", "partitions had no leader"),
    "unclean_election": ("unclean election", "unclean elections"),
    "leader_epoch_not_rising": ("leader epoch that did not rise", "leader epochs that did not rise"),
    "isr_flapping": ("replica left the ISR for a moment", "replicas left the ISR for a moment"),
    "broker_flapping": ("broker was up for a short time", "brokers were up for a short time"),
    "stuck_reassignment": ("reassignment that did not finish", "reassignments that did not finish"),
    "preferred_leader_imbalance": (
        "broker leads fewer partitions than it should",
        "brokers lead fewer partitions than they should",
    ),
    "stuck_topic_deletion": ("topic that is not deleted", "topics that are not deleted"),
    "znode_bloat": ("large znode or subtree", "large znodes or subtrees"),
    "growth": ("subtree that changed between snapshots", "subtrees that changed between snapshots"),
    "ephemeral_churn": ("session that made many ephemerals", "sessions that made many ephemerals"),
    "herd_size": ("change that wakes many clients", "changes that wake many clients"),
    "write_hot_spot": ("subtree with many writes", "subtrees with many writes"),
    "ensemble_election": ("election among ZooKeeper's servers", "elections among ZooKeeper's servers"),
    "history_hole": ("hole in the history", "holes in the history"),
    "oversized_transaction": ("transaction that is too large", "transactions that are too large"),
    "split_history": ("transaction that differs", "transactions that differ between servers"),
    "clock_step": ("step back of a leader's clock", "steps back of leaders' clocks"),
    "digest_mismatch": ("comparison of digests", "comparisons of digests that differ"),
    "session_leak": ("idle session kept alive", "idle sessions kept alive"),
    "open_acl": ("finding about ACLs", "findings about ACLs"),
}


def called(name: str, count: int) -> str:
    """Returns what so many findings of a name are called, without the number."""
    return NOTES[name][0 if count == 1 else 1]


_DAY_MS = 86_400_000
_NAMED_MAX = 3
_THREAD = re.compile(r"the claim of (?P<quote>['\"])(?P<thread>.*?)(?P=quote), ")
_COMMITS = frozenset(("zombie_commit", "double_ownership", "offset_regression"))
_Damage = Sequence[PartitionDamage]


class Titles:
    """Writes titles for one history: it knows how short a session's number may be."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._digits = session_digits(facts.sessions)
        self._is_one_day = facts.end_ms - facts.start_ms < _DAY_MS

    def title(self, cause: Cause, findings: Sequence[Finding], damage: _Damage, from_ms: int | None) -> str:
        """One sentence without a full stop, with the time before it at which the incident begins."""
        sentence = _SENTENCES[cause.kind](self, cause, findings, damage)
        if cause.kind == "note":
            return sentence
        return sentence if from_ms is None else f"{self._clock(from_ms)} {sentence}"

    def _foreign_write(self, cause: Cause, findings: Sequence[Finding], damage: _Damage) -> str:
        if cause.what == CONTROLLER:
            return self._foreign_controller(cause, findings)
        if cause.what == "offsets":
            return self._foreign_offsets(cause, findings)
        who = self._session(cause.session)
        taken = [one for one in findings if one.finding == "claim_stolen" and one.session == cause.session]
        claimed = [one for one in findings if one.finding == "owner_session_mismatch"]
        if taken:
            victims = sorted({name for one in taken if (name := _victim(one))})
            sentence = f"{who} took {_of(cause.group, _partitions(taken))} from {_few(victims)}"
        else:
            sentence = f"{who}, which is no member, claimed {_of(cause.group, _partitions(claimed))}"
        return f"{sentence}{self._went_on(findings, bool(taken))}{_rewinds(findings)}{_waited(damage)}"

    def _foreign_offsets(self, cause: Cause, findings: Sequence[Finding]) -> str:
        """Returns which partitions were set back, and which were written without that."""
        names = self._members(cause.group, cause.session)
        who = f"member {_few(names)}" if names else self._session(cause.session)
        everywhere = _partitions(findings)
        back = _partitions(one for one in findings if rewind_of(one) is not None)
        did = "set back" if back == everywhere else "committed"
        also = f" and set back {back}" if back and back != everywhere else ""
        where = _of(cause.group, everywhere)
        return f"{who} {did} {where} without owning {_it(everywhere)}{also}{_rewinds(findings)}"

    def _went_on(self, findings: Sequence[Finding], taken: bool) -> str:
        """Returns who committed all the same."""
        commits = [one for one in findings if one.finding in _COMMITS and one.severity != "info"]
        if not commits:
            back = [one for one in findings if one.finding == "claim_stolen"]
            returned = {one.session for one in back} if len({one.session for one in back}) > 1 else set()
            return ", until the owner deleted that claim" if returned and taken else ""
        names = sorted({self._committer(one) for one in commits})
        return f", {'which' if taken else f'while {_few(names)}'} kept committing"

    def _committer(self, one: Finding) -> str:
        """The member behind a commit, by its session; else the session."""
        names = self._members(one.group, one.session)
        return _few(names) if names else self._session(one.session)

    def _members(self, group: str | None, session: int | None) -> list[str]:
        """Returns what a session ever was in a group."""
        lives = self._facts.members.get(group or "", ())
        return sorted({member_of(life) for life in lives if life.session == session})

    def _session_end(self, cause: Cause, findings: Sequence[Finding], damage: _Damage) -> str:
        where = _of(cause.group, _partitions(findings))
        commits = [one for one in findings if one.finding == "zombie_commit"]
        names = sorted({self._committer(one) for one in commits})
        more = f", while {_few(names)} kept committing" if names else ""
        return (
            f"{self._session(cause.session)} ended and with it the owners of {where}{_waited(damage)}{more}"
        )

    def _expiry(self, cause: Cause, findings: Sequence[Finding], damage: _Damage) -> str:
        many = ", " in cause.what
        noun = "members" if many else "member"
        member = f"{noun} {cause.what} of {cause.group}" if cause.what else f"a client of {cause.group}"
        ends = [one for one in findings if one.finding == "session_end"]
        paused = any(one.severity != "info" for one in ends)
        timeout = re.search(r"\(timeout ([^)]*)\)", ends[0].detail) if ends else None
        its = "their" if many else "its"
        if paused:
            did = f"{'were' if many else 'was'} paused for longer than {its} session timeout"
            length = f" of {timeout[1]}" if timeout else ""
        else:
            did = f"lost {its} session"
            length = f" (timeout {timeout[1]})" if timeout else ""
        more = self._went_on(findings, True).replace("which", "and")
        return f"{member} {did}{length}{_waited(damage)}{more}{_rewinds(findings)}"

    def _unreadable(self, cause: Cause, findings: Sequence[Finding], damage: _Damage) -> str:
        return (
            f"{cause.what} registered in {cause.group} with data that no JVM member can read{_waited(damage)}"
        )

    def _membership(self, cause: Cause, findings: Sequence[Finding], damage: _Damage) -> str:
        rebalances = [one for one in findings if one.finding == "rebalance"]
        why = f": {rebalances[0].detail.split('; ')[0]}" if rebalances else ""
        more = f" ({len(rebalances)} rebalances)" if len(rebalances) > 1 else ""
        if cause.kind == "restart":
            return f"{cause.what} restarted and {cause.group} rebalanced{more}{_waited(damage)}"
        return f"{cause.group} rebalanced{more}{why}{_waited(damage)}"

    def _rebalance_storm(self, cause: Cause, findings: Sequence[Finding], damage: _Damage) -> str:
        storm = next((one for one in findings if one.finding == "rebalance_storm"), findings[0])
        return f"{cause.group} rebalanced again and again: {storm.detail}{_waited(damage)}"

    def _orphaned(self, cause: Cause, findings: Sequence[Finding], damage: _Damage) -> str:
        where = _of(cause.group, _partitions(findings))
        who = self._session(cause.session)
        return f"{where} kept the owner of {who} after the registration of its member was gone"

    def _reset(self, cause: Cause, findings: Sequence[Finding], damage: _Damage) -> str:
        return f"an operator set the offsets of {_of(cause.group, _partitions(findings))}"

    def _foreign_controller(self, cause: Cause, findings: Sequence[Finding]) -> str:
        who = self._session(cause.session)
        elections = [one for one in findings if one.finding == "controller_election"]
        own = [one for one in elections if one.session == cause.session]
        writes = [one for one in findings if one.finding == "deposed_controller_write"]
        more = f", while the former controller went on ({count_text(len(writes), 'write')})" if writes else ""
        if own:
            ms = sum(length_ms(one, self._facts) for one in own)
            return f"{who}, which is no broker's, held /controller for {duration_text(ms)}{more}"
        number = len(elections)
        times = "" if number <= 1 else f" {number} times"
        elected = "" if not number else f": {count_text(number, 'election')}"
        return f"{who}, which is not the controller's, deleted /controller{times}{elected}{more}"

    def _departed(self, cause: Cause, findings: Sequence[Finding], damage: _Damage) -> str:
        brokers = cause.what.split(", ")
        noun = f"broker{'' if len(brokers) == 1 else 's'} {' and '.join(brokers)}"
        did = "lost" if cause.kind == "lost broker" else "shut down"
        sentence = f"{noun} {'was' if len(brokers) == 1 else 'were'} {did}"
        offline = [one for one in damage if one.leaderless_ms]
        effects = []
        if offline:
            longest = duration_text(max(one.leaderless_ms for one in offline))
            effects.append(
                f"{_places((one.topic, one.partition) for one in offline)} had no leader for {longest}"
            )
        for name, text in (
            ("stuck_reassignment", "the reassignment of {} stopped"),
            ("under_replicated", "{} lacked replicas"),
        ):
            where = _partitions([one for one in findings if one.finding == name])
            if where:
                effects.append(text.format(where))
        if any(one.finding == "controller_election" for one in findings):
            effects.append("another controller was elected")
        return f"{sentence}: {'; '.join(effects)}" if effects else sentence

    def _controller_change(self, cause: Cause, findings: Sequence[Finding], damage: _Damage) -> str:
        return f"the controller changed: {findings[0].detail}"

    def _storm(self, cause: Cause, findings: Sequence[Finding], damage: _Damage) -> str:
        storm = next((one for one in findings if one.severity != "info"), findings[0])
        return storm.detail.removeprefix("a storm of ").replace("elections", "controller elections", 1)

    def _slow(self, cause: Cause, findings: Sequence[Finding], damage: _Damage) -> str:
        places = {(one.topic, one.partition) for one in findings if one.topic is not None}
        topics = {topic for topic, _ in places}
        flaps = sum(one.finding == "isr_flapping" for one in findings)
        times = f", {flaps} times for less than a minute" if flaps else ""
        return (
            f"followers fell behind in {count_text(len(places), 'partition')} of"
            f" {count_text(len(topics), 'topic')}{times}"
        )

    def _reassignment(self, cause: Cause, findings: Sequence[Finding], damage: _Damage) -> str:
        where = _partitions(findings)
        by_hand = [one for one in findings if one.finding == "deposed_controller_write"]
        more = f", until {self._session(by_hand[0].session)} deleted it by hand" if by_hand else ""
        first = next((one for one in findings if one.finding.startswith("stuck_")), findings[0])
        if first.finding == "stuck_topic_deletion":
            return f"topic {cause.what}: {first.detail}{more}"
        what = f"the reassignment of {where}" if where else "a reassignment"
        return f"{what} did not finish: {first.detail}{more}"

    def _state(self, cause: Cause, findings: Sequence[Finding], damage: _Damage) -> str:
        worst = [one for one in findings if one.severity != "info"] or list(findings)
        if len(worst) == 1:
            one = worst[0]
            place = _of(one.group, _partitions(worst))
            return f"{place}: {one.detail}" if place and place not in one.detail else one.detail
        if cause.what == "persistent_znode":
            paths = [one.detail.partition(" is ")[0] for one in worst]
            return f"{_counted(cause.what, worst)}: {_few(paths)}"
        return _counted(cause.what, worst)

    def _note(self, cause: Cause, findings: Sequence[Finding], damage: _Damage) -> str:
        if len(findings) > 1:
            return _counted(cause.what, findings)
        return findings[0].detail.removeprefix("not_applicable").removeprefix(" to all").removeprefix(": ")

    def _session(self, session: int | None) -> str:
        return "a session" if not session else f"session …{session_text(session)[2:][-self._digits :]}"

    def _clock(self, ms: int) -> str:
        try:
            moment = datetime.fromtimestamp(ms // 1000, UTC)
        except (OverflowError, OSError, ValueError):
            return "at an unknown time"
        return f"{moment:%H:%M:%S}" if self._is_one_day else f"{moment:%Y-%m-%d %H:%M:%S}"


_Sentence = Callable[[Titles, Cause, Sequence[Finding], _Damage], str]
_SENTENCES: Mapping[CauseKind, _Sentence] = {
    "foreign write": Titles._foreign_write,
    "session end": Titles._session_end,
    "expiry": Titles._expiry,
    "unreadable registration": Titles._unreadable,
    "restart": Titles._membership,
    "membership change": Titles._membership,
    "rebalance storm": Titles._rebalance_storm,
    "orphaned claim": Titles._orphaned,
    "operator reset": Titles._reset,
    "lost broker": Titles._departed,
    "broker shutdown": Titles._departed,
    "controller change": Titles._controller_change,
    "controller storm": Titles._storm,
    "slow follower": Titles._slow,
    "reassignment": Titles._reassignment,
    "state": Titles._state,
    "note": Titles._note,
}


def _counted(name: str, findings: Sequence[Finding]) -> str:
    groups = {one.group for one in findings if one.group is not None}
    of = (
        f" in {count_text(len(groups), 'group') if len(groups) != 1 else next(iter(groups))}"
        if groups
        else ""
    )
    return f"{count_text(len(findings), *NOTES[name])}{of}"


def _partitions(findings: Iterable[Finding]) -> str:
    """The partitions of findings: `t-0..3, u-1`; empty where they are of none."""
    return _places(
        (one.topic, one.partition) for one in findings if one.topic is not None and one.partition is not None
    )


def _places(places: Iterable[tuple[str, int]]) -> str:
    numbers: dict[str, set[int]] = defaultdict(set)
    for topic, partition in places:
        numbers[topic].add(partition)
    texts = [f"{topic}-{run}" for topic in sorted(numbers) for run in _number_runs(sorted(numbers[topic]))]
    if len(texts) > _NAMED_MAX:
        count = sum(map(len, numbers.values()))
        return f"{count_text(count, 'partition')} of {count_text(len(numbers), 'topic')}"
    return ", ".join(texts)


def _number_runs(numbers: Sequence[int]) -> list[str]:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return [str(run[0]) if len(run) == 1 else f"{run[0]}..{run[-1]}" for run in runs]


def _of(group: str | None, where: str) -> str:
    if not where:
        return group or ""
    return where if group is None else f"{group}'s {where}"


def _it(where: str) -> str:
    return "them" if ".." in where or "," in where or "partitions" in where else "it"


def _victim(one: Finding) -> str | None:
    """Returns whose claim was deleted: the member of the thread in the detail of `claim_stolen`."""
    thread = _THREAD.match(one.detail)
    return None if thread is None else Owner(thread["thread"]).member or thread["thread"]


def _rewinds(findings: Iterable[Finding]) -> str:
    """`: offsets 1000 → 21`, of the largest rewind; and how many there were."""
    moved = [rewind for one in findings if (rewind := rewind_of(one)) is not None]
    if not moved:
        return ""
    most = max(moved, key=lambda each: each.before - each.after)
    noun = "offset" if len(moved) == 1 else "offsets"
    more = "" if len(set(moved)) == 1 else f" at most, {len(moved)} times"
    return f": {noun} {most.before} → {most.after}{more}"


def _waited(damage: _Damage) -> str:
    """`; t-0..3 had no owner for up to 4.1 s`."""
    unowned = [one for one in damage if one.unowned_ms]
    if not unowned:
        return ""
    longest = max(one.unowned_ms for one in unowned)
    how = "for" if all(one.unowned_ms == longest for one in unowned) else "for up to"
    where = _places((one.topic, one.partition) for one in unowned)
    return f"; {where} had no owner {how} {duration_text(longest)}"


def _few(names: Sequence[str]) -> str:
    return first_of(names, _NAMED_MAX) or "a client"
