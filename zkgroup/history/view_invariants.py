"""S10: members that planned from the same view found the same answer, and it is the right one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zkgroup.assignment.digest import result_digest
from zkgroup.history.evidence import Evidence
from zkgroup.history.plain_range import plain_range
from zkgroup.history.records import Record, partition_of
from zkgroup.history.report import Figures, Violation
from zkgroup.model import TopicPartition

_NO_PLAN = frozenset({"unsupported_subscription", "assignment_refused"})
"""A member that recorded one of these plans nothing new in this pass, and says so."""


def check_views(evidence: Evidence, figures: Figures) -> Iterator[Violation]:
    """S10 over every plan that a member recorded with its outcome."""
    views: dict[tuple[str, str], Record] = {}
    results: dict[tuple[str, str], Record] = {}
    for records in evidence.by_member.values():
        begun: Record | None = None
        refused = False
        for record in records:
            if record.kind in _NO_PLAN:
                refused = True
            elif record.kind == "rebalance.begin":
                figures.rebalances += 1
                begun, refused = (None if refused else record), False
                if begun is not None:
                    yield from _same_view(views.setdefault(_key(record), record), record)
            elif record.kind == "rebalance.end" and begun is not None:
                if record.fields["generation"] == begun.fields["generation"]:
                    yield from _same_result(results.setdefault(_key(begun), record), record)
                    yield from _right(begun, record)
                begun = None


def _key(begin: Record) -> tuple[str, str]:
    return begin.fields["strategy"], begin.fields["inputs"]


def _same_view(first: Record, second: Record) -> Iterator[Violation]:
    for name in ("members", "partitions"):
        if _plain(first.fields[name]) != _plain(second.fields[name]):
            detail = f"{first.member} and {second.member} hash different {name} to {first.fields['inputs']}"
            yield Violation("S10", detail)


def _same_result(first: Record, second: Record) -> Iterator[Violation]:
    if first.fields["result"] != second.fields["result"]:
        detail = (
            f"from the same view {first.member} computed {first.fields['result']},"
            f" {second.member} {second.fields['result']}"
        )
        yield Violation("S10", detail)


def _right(begin: Record, end: Record) -> Iterator[Violation]:
    """The result, and the member's own share of it, against an independent computation."""
    if begin.fields["strategy"] != "range":
        return
    computed = plain_range(begin.fields["members"], begin.fields["partitions"])
    expected = {TopicPartition(*key): thread for key, thread in computed.items()}
    if result_digest(expected) != end.fields["result"]:
        yield Violation(
            "S10", f"{end.member} computed {end.fields['result']}, which is not the range assignment"
        )
    for row in end.fields["mine"]:
        owner = expected.get(partition_of(row), "")
        if owner.rpartition("-")[0] != end.member:
            yield Violation("S10", f"{end.member} holds what range gives to {owner!r}", partition_of(row))


def _plain(value: Any) -> Any:
    """Comparable whatever order the keys and partitions were in."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return sorted(value) if isinstance(value, list | tuple) else value
