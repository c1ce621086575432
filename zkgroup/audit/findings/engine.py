"""All rules, in the order of the interface, and the audit in one process.

The job on Spark decides by these functions, too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from difflib import get_close_matches
from itertools import accumulate
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from zkgroup.audit.findings import (
    controller,
    files,
    load,
    offsets,
    ownership,
    rebalances,
    replicas,
    series_cluster,
    series_groups,
    sessions,
)
from zkgroup.audit.findings.rules import AnyRule, Bounds, Finding, Rule, StateRule, WholeRule
from zkgroup.audit.findings.states import find_states
from zkgroup.audit.inputs.events import is_of_groups, require_group
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.source import PointInTime, Source, require_columns, without_collector
from zkgroup.errors import ConfigError
from zkgroup.znodes.paths import path_kind

if TYPE_CHECKING:
    from zkgroup.audit.findings.buckets import AuditedRows
    from zkgroup.audit.inputs.found_files import SkippedFile
    from zkgroup.audit.inputs.snapshots import Series


CALLED: Mapping[str, str] = {
    "orphan_owner": "owner(s) without a registered member",
    "orphan_owner_interval": "claim outlived its member|claims outlived their members",
    "owner_session_mismatch": "owner(s) claimed by a foreign session",
    "double_ownership": "partition(s) had two owners",
    "claim_stolen": "claim(s) deleted by another session",
    "unowned_interval": "time(s) a partition had no owner",
    "never_owned": "partition without an owner|partitions without an owner, to which members subscribe",
    "persistent_znode": "persistent znode|persistent znodes where sessions belong",
    "foreign_owner_format": "group of another client's consumers|groups of other clients' consumers",
    "rebalance": "rebalance(s)",
    "rebalance_storm": "rebalance storm(s)",
    "needless_move": "rebalance(s) that moved partitions needlessly",
    "skew": "uneven assignment(s)",
    "failed_claims": "member(s) that could not claim partitions",
    "handover_time": "handover(s) after the end of a session",
    "session_end": "session(s) ended",
    "member_flapping": "member(s) registered again and again",
    "offset_regression": "offset(s) set back",
    "reset_overwritten": "reset of an offset that was overwritten|resets of offsets that were overwritten",
    "zombie_commit": "commit(s) without ownership",
    "no_commit_at_handover": "ownership(s) that ended without a commit",
    "stalled_offset": "offset(s) that did not change up to the end",
    "commit_rate": "commit rate(s)",
    "dead_group": "group without members and writes|groups without members and writes for days",
    "offset_of_missing_partition": "offset of a missing partition|offsets of missing partitions",
    "controller_election": "controller election(s)",
    "controller_epoch_gap": "gap(s) in the controller epochs",
    "deposed_controller_write": "write(s) by a former controller",
    "leader_not_in_isr": "leader(s) outside the ISR",
    "isr_outside_assignment": "ISR outside the replica list|ISRs outside their replica lists",
    "under_replicated": "partition(s) lacked replicas",
    "offline_partition": "partition(s) had no leader",
    "unclean_election": "unclean election(s)",
    "leader_epoch_not_rising": "leader epoch(s) that did not rise",
    "isr_flapping": "replica(s) left the ISR for a moment",
    "broker_flapping": "broker was up for a short time|brokers were up for a short time",
    "stuck_reassignment": "reassignment(s) that did not finish",
    "preferred_leader_imbalance": "broker leads fewer partitions than it should|"
    "brokers lead fewer partitions than they should",
    "stuck_topic_deletion": "topic that is not deleted|topics that are not deleted",
    "znode_bloat": "large znode(s) or subtree(s)",
    "growth": "subtree(s) that changed between snapshots",
    "ephemeral_churn": "session(s) that made many ephemerals",
    "herd_size": "change that wakes many clients|changes that wake many clients",
    "write_hot_spot": "subtree(s) with many writes",
    "ensemble_election": "election(s) among ZooKeeper's servers",
    "history_hole": "hole(s) in the history",
    "oversized_transaction": "transaction that is too large|transactions that are too large",
    "split_history": "transaction that differs|transactions that differ between servers",
    "clock_step": "step back of a leader's clock|steps back of leaders' clocks",
    "digest_mismatch": "comparison of digests|comparisons of digests that differ",
    "session_leak": "idle session(s) kept alive",
    "open_acl": "finding(s) about ACLs",
    "owner_changed": "partition(s) with another owner",
    "membership_changed": "change(s) of the membership",
    "offset_deleted": "offset(s) deleted",
    "broker_changed": "change(s) of the registrations of brokers",
    "leadership_changed": "partition(s) with another leader or ISR",
    "topic_changed": "change(s) of topics",
    "config_changed": "change(s) of configurations",
    "missing_session": "ephemeral(s) whose session no server knows",
}
"""All findings, and the word for those of a name: `(s)` is for several, as is another word behind `|`."""
_MODULES = (
    *(series_groups, series_cluster, controller, files, load, offsets),
    *(ownership, rebalances, replicas, sessions),
)
_DEFINED = [each for module in _MODULES for each in vars(module).values()]
STATE_RULES: tuple[StateRule, ...] = tuple(each for each in _DEFINED if isinstance(each, StateRule))
"""The rules about series: those about groups, then those about the cluster and the tree."""
_NAMED = {each.name: each for each in _DEFINED if isinstance(each, AnyRule)}
KNOWN_RULES: tuple[AnyRule, ...] = tuple(_NAMED[name] for name in CALLED)
"""One rule of each name: that about logs, where there is one."""
ALL_RULES: tuple[AnyRule, ...] = tuple(rule for rule in KNOWN_RULES if not isinstance(rule, StateRule))
"""Those about logs."""
RULES: tuple[Rule, ...] = tuple(rule for rule in ALL_RULES if isinstance(rule, Rule))
"""The rules about the rows of a key."""


class Skipped(NamedTuple):
    """A rule that did not run, with the reason."""

    rule: AnyRule
    reason: str


class Found(NamedTuple):
    """The findings of an audit, and the rules that could not run."""

    findings: list[Finding]
    skipped: list[Skipped]
    facts: Facts
    files: Sequence[SkippedFile] = ()
    """Files that could not be read."""


def audit(
    source: Source,
    rules: Sequence[AnyRule],
    bounds: Mapping[str, float] | None = None,
    *,
    start: PointInTime | None = None,
    end: PointInTime | None = None,
    group: str | None = None,
    is_here: Callable[[StateRule], bool] = lambda rule: True,
    audited: AuditedRows | None = None,
) -> Found:
    """Runs every rule that the input is enough for.

    The rules of series run on snapshots of stretches that no log covers. Without a log, they take the place
    of those of the same name, which see the last snapshot alone.

    Args:
        start: the first moment of the range, which begins with the tree before it.
        end: the last moment, which counts as the end of the history.
        group: the findings are only those about this group.
        is_here: False for a rule of series that another task runs.
        audited: the rows of that range and group, if they are read already, and are to be used for more.

    Raises ConfigError for a bound that no rule has and where numpy or pyarrow is not installed, NotFoundError
    for a group that never was, and what `Source.rows` raises.
    """
    chosen = bounds_of(rules, bounds or {})
    require_columns()
    if audited is None:
        from zkgroup.audit.findings.buckets import AuditedRows

        with closing(AuditedRows(source.rows(start, end), group)) as audited:
            return audit(source, rules, bounds, start=start, end=end, is_here=is_here, audited=audited)
    of_states, rows, group, facts = state_rules_of(rules), audited.rows, audited.group, audited.facts
    series = [each for each in series_of(source, start, end) if len(each.snapshots) > 1]
    places = (path_kind(path) for each in series for path in each.paths) if group is not None else ()
    require_group(group, audited.groups | {place.name for place in places if is_of_groups(place)})
    known = [*reasons(rules, facts, has_files=source.history is not None, has_series=bool(series))]
    skipped = [Skipped(rule, reason) for rule, reason in known if reason is not None]
    asked = [rule for rule, reason in known if reason is None]
    found: list[Finding] = []
    if source.history is not None:  # these first, while the tables of the rows are not in memory
        rows.progress("checking the files")
        for rule in asked:
            if isinstance(rule, WholeRule):
                reported = rule.find(source.history, facts, chosen[rule.name])
                found += within(reported, rows.seen.zxid, rows.to_zxid)
    rows.progress("searching for findings")
    found += audited.find([rule for rule in asked if isinstance(rule, Rule)], chosen)
    with without_collector():
        of_series = [one for each in series for one in find_states(filter(is_here, of_states), each, chosen)]
        whole = joined(based(found, facts), of_series, facts)
    of_group = (one for one in whole if group in (None, one.group))
    return Found(sorted(of_group, key=order), skipped, facts, source.skipped)


def series_of(source: Source, start: PointInTime | None, end: PointInTime | None) -> Iterator[Series]:
    """The snapshots of a range, from the last one before it on. One may end behind those that follow it."""
    from_zxid, to_zxid = source.zxid_range(start, end) if source.series else (0, None)
    for series in source.series:
        ends = [*accumulate((each.end_zxid for each in reversed(series.snapshots)), min)][::-1]
        first = max(bisect_right(ends, from_zxid) - 1, 0)
        last = len(ends) if to_zxid is None else bisect_right(ends, to_zxid)
        if last > first:
            is_all = last - first == len(ends)
            yield series if is_all else series.within(first, last - 1, ends=series.ends)


def joined(found: Sequence[Finding], shown: Iterable[Finding], facts: Facts) -> list[Finding]:
    """The findings of rows, and what only snapshots show.

    Left out is what logs tell of: of all of its time, of its very transaction, or by a finding of the same
    name and partition. Where that stood at the end of the log, it gets the end that snapshots show.
    """
    if not facts.has_log:
        return [*found, *shown]
    known, start, end = dict(enumerate(found)), facts.start_zxid - 1, facts.end_zxid
    same: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for number, one in known.items():
        same[one.finding, one.group, one.topic, one.partition].append(number)
    for one in shown:
        since, until, at = one.from_zxid or 0, one.to_zxid or inf, one.at_zxid or 0
        if (start <= since and until <= end) or max(since, start) < at <= end:
            continue
        places = same[one.finding, one.group, one.topic, one.partition] if one.partition is not None else ()
        begun = [each for each in places if (known[each].from_zxid or 0) <= until]
        standing = [each for each in begun if known[each].to_zxid is None and since <= end]
        if standing and until > end:
            known[standing[-1]] = replace(known[standing[-1]], to_zxid=one.to_zxid, to_ms=one.to_ms)
        elif not standing and not any(since < (known[each].from_zxid or 0) for each in begun):
            known[len(known)] = one
    return [*known.values()]


def based(findings: list[Finding], facts: Facts) -> list[Finding]:
    """Findings of rows, with what they stand on: without a log these are of a snapshot."""
    return findings if facts.has_log else [replace(one, basis="snapshots") for one in findings]


def state_rules_of(rules: Sequence[AnyRule]) -> list[StateRule]:
    """The rules of series with the names of these; where these are all rules about logs, all."""
    names = {rule.name for rule in rules}
    is_all = names.issuperset(rule.name for rule in ALL_RULES)
    return [rule for rule in STATE_RULES if is_all or rule.name in names]


def reasons(
    rules: Sequence[AnyRule], facts: Facts, *, has_files: bool, has_series: bool
) -> Iterator[tuple[AnyRule, str | None]]:
    """The rules about rows and files, each with the reason why it cannot run; None where it can.

    Those of series are not among them where they run, nor those whose place they take without a log.
    """
    shown = {rule.name for rule in state_rules_of(rules) if not rule.is_beside and not facts.has_log}
    for rule in rules:
        if not (has_series and (rule.name in shown or isinstance(rule, StateRule))):
            yield rule, reason_to_skip(rule, facts, has_files=has_files)


def reason_to_skip(rule: AnyRule, facts: Facts, *, has_files: bool) -> str | None:
    """The reason why a rule cannot run on an input; None where it can."""
    if isinstance(rule, StateRule):
        return "needs a series of snapshots"
    if isinstance(rule, WholeRule) and not has_files:
        return "needs the files of a server" if facts.has_log else "needs a log"
    return "needs a log" if "log" in rule.needs and not facts.has_log else None


def within(findings: Iterable[Finding], after_zxid: int, to_zxid: int | None) -> Iterator[Finding]:
    """The findings of a range; rules about whole histories read all files, whatever the range is."""
    for finding in findings:
        is_later = to_zxid is not None and (finding.from_zxid or 0) > to_zxid
        is_earlier = finding.to_zxid is not None and finding.to_zxid <= after_zxid
        if not is_later and not (is_earlier and after_zxid):
            yield finding


def bounds_of(rules: Sequence[AnyRule], given: Mapping[str, float]) -> dict[str, Bounds]:
    """The bounds of each rule by its name: its own, replaced by those that are given as `finding.bound`.

    Raises ConfigError for one that no rule has.
    """
    chosen: dict[str, dict[str, float]] = {}
    for rule in (*rules, *state_rules_of(rules)):
        chosen.setdefault(rule.name, {}).update(rule.bounds)
    for name, value in given.items():
        finding, _, bound = name.partition(".")
        if bound not in chosen.get(finding, ()):
            raise ConfigError(f"bound {name!r}: {_expected_bound(name, finding, chosen)}")
        chosen[finding][bound] = value
    return {**chosen}


def _expected_bound(name: str, finding: str, bounds: Mapping[str, Bounds]) -> str:
    known = {rule: [f"{rule}.{each}" for each in of_rule] for rule, of_rule in bounds.items()}
    expected = known.get(finding, [bound for bounds in known.values() for bound in bounds])
    near = get_close_matches(name, expected, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"expected one of {', '.join(expected)}" if expected else f"{finding} has no bounds"


def order(finding: Finding) -> tuple[object, ...]:
    """The sort key of a finding: its zxid, then its name, then group, topic and so on."""
    partition = -1 if finding.partition is None else finding.partition
    place = finding.group or "", finding.topic or "", partition
    session, to_zxid = finding.session or 0, finding.to_zxid or 0
    return finding.from_zxid or 0, finding.finding, *place, session, to_zxid, finding.severity, finding.detail
