"""The short version of `python -m tests.programs.real_day`, and the cases in which its accounts differ."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from tests.programs.real_day.accounts import Account, Claimed, Committed, account_of_records, disagreements
from tests.programs.real_day.day import run_day
from tests.programs.real_day.faults import ACTS, MEMBER_FAULTS, SERVER_FAULTS, Fault, draw
from tests.programs.real_day.judge import judge, unexcused
from zkgroup.history import HistoryRecord, Violation
from zkgroup.model import TopicPartition

ORDERS = TopicPartition("orders", 0)
SHORT = (
    (Fault("set back", 0, 0.0), Fault("kill, same name", 1, 0.2)),
    (Fault("lose answer", 2, 1.0), Fault("expire", 0, 0.2)),
)


def test_a_seed_is_a_schedule_and_all_kinds_come() -> None:
    """The same seed draws the same faults, another seed others, and every kind of fault is drawn."""
    schedule = list(islice(draw(7), 30))

    assert schedule == list(islice(draw(7), 30))
    assert schedule != list(islice(draw(8), 30))
    assert {each.kind for together in schedule for each in together} == {
        *MEMBER_FAULTS,
        *SERVER_FAULTS,
        *ACTS,
    }


def _record(seq: int, kind: str, **fields: object) -> HistoryRecord:
    return HistoryRecord(seq, seq, 1, "day_m0-0", 7, kind, fields)


_ROW = {"topic": "orders", "partition": 0, "offset": 5}


def test_reported_differences_and_unknown_ones() -> None:
    """An acknowledged commit, one refused by the server, one never sent, one without an answer."""
    account = account_of_records(
        [
            _record(1, "commit.invoke", id=1, offsets=[_ROW]),
            _record(2, "commit.ok", id=1, zxid=9, offsets=[_ROW]),
            _record(3, "commit.invoke", id=2, offsets=[_ROW]),
            _record(4, "commit.fail", id=2, partitions=[_ROW], reason="BadVersion"),
            _record(5, "commit.invoke", id=3, offsets=[_ROW]),
            _record(6, "commit.fail", id=3, partitions=[_ROW], reason="not connected"),
            _record(7, "commit.invoke", id=4, offsets=[_ROW]),
        ]
    )

    assert account.commits == {Committed(ORDERS, 9, 5): 7}
    assert account.refused == {7: 1}
    assert (account.open, account.open_commits) == ({7: 1}, {(7, ORDERS): 1})


@pytest.mark.parametrize(
    ("told", "found", "expected"),
    [
        (Account(claims={Claimed(ORDERS, 9): 7}), Account(), "was acknowledged and is not in the log"),
        (Account(), Account(claims={Claimed(ORDERS, 9): 7}), "1 claims of"),
        (Account(), Account(commits={Committed(ORDERS, 9, 5): 7}), "1 commits of"),
    ],
)
def test_a_claim_or_commit_that_one_side_lacks_is_reported(
    told: Account, found: Account, expected: str
) -> None:
    """An operation that only one of the accounts has is a disagreement; an unknown outcome explains it."""
    (why,) = disagreements(told, found)

    assert expected in why
    told.open_claims[7, ORDERS] = told.open_commits[7, ORDERS] = 1
    assert len(list(disagreements(told, found))) == len(told.claims)


def test_refusals_are_within_what_is_not_known() -> None:
    """Refusals by session: at least those that a member got, at most those plus its unknown outcomes."""
    told, found = Account(), Account()
    told.refused[7], told.open[7] = 2, 1

    counts = {}
    for count in range(5):
        found.refused[7] = count
        counts[count] = len(list(disagreements(told, found)))
    assert counts == {0: 1, 1: 1, 2: 0, 3: 0, 4: 1}


def test_an_early_end_of_a_session_excuses_its_overlap_alone() -> None:
    """S8 needs a lease that ends before its session: a fault that ends the session first overrules it."""
    records = [
        HistoryRecord(token, token, 1, "day_m0-0", session, "deliver.start", {**_ROW, "token": token})
        for token, session in ((3, 7), (5, 8), (9, 7))
    ]
    violations = [
        Violation("S8", "", ORDERS, 5),
        Violation("S8", "", ORDERS, 9),
        Violation("S7", "", ORDERS, 5),
    ]

    assert list(unexcused(violations, records, {7})) == violations[1:]
    assert list(unexcused(violations, records, {8})) == [violations[0], violations[2]]
    assert list(unexcused(violations, records, ())) == violations


def test_a_short_day_on_real_servers(tmp_path: Path) -> None:
    """Audit, checker and members agree about it, and only the foreign writes are errors.

    The new process's registration is refused while the old one stands: that is none of its commits.
    """
    day = run_day(tmp_path / "day", 1, iter(SHORT), 5.0)
    verdict = judge(tmp_path / "day", day)

    assert verdict.wrong == []
    assert day.bitten["kill, same name"] == 1
    assert verdict.figures["claims"] >= 12
    assert verdict.figures["commits"] > 0
    assert verdict.figures["foreign writes"] == day.bitten["set back"]
