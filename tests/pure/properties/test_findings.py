"""For any content of the tree, an audit ends with findings and never with an error."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.worlds.plain_findings import find
from tests.worlds.record_by_record import events_of
from zkgroup.audit.findings.engine import RULES
from zkgroup.audit.inputs.facts import facts_of
from zkgroup.zkfiles.records import Operation, StoredStat, StoredZnode, Transaction, TransactionType

NUMBERS = ("0", "1", "00", "-1", "9999999999999999999999", "٣", "x")
PATHS = st.one_of(
    st.sampled_from(
        (
            "/controller",
            "/controller_epoch",
            "/brokers/ids/1",
            "/brokers/ids/x",
            "/brokers/topics/t",
            "/admin/reassign_partitions",
            "/admin/delete_topics/t",
            "/consumers/g/ids/g_a",
            "/consumers/g/ids/g_b",
            "/consumers/g/plan",
            "/consumers/g/resets/t-0",
            "/zkgroup/audit/g",
            "/",
            "",
            "//",
            "/consumers//ids/",
        )
    ),
    st.builds(
        "/consumers/g/{}/t/{}".format, st.sampled_from(("owners", "offsets")), st.sampled_from(NUMBERS)
    ),
    st.builds("/brokers/topics/t/partitions/{}/state".format, st.sampled_from(NUMBERS)),
)
TEXTS = (
    '{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1"}',
    '{"version":1,"subscription":{"t":2147483647},"pattern":"static"}',
    '{"version":1,"subscription":{"t.*":2},"pattern":"white_list","zkgroup":"1","strategy":"sticky"}',
    '{"version":1,"subscription":{"[a&&b]":1},"pattern":"black_list","strategy":"roundrobin"}',
    '{"version":1,"partitions":{"0":[1,2],"1":[2]}}',
    '{"version":1,"partitions":{"0":[],"-1":[1],"x":[1]}}',
    '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[3]}]}',
    '{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}',
    '{"controller_epoch":99999999999,"leader":-1,"version":1,"leader_epoch":-5,"isr":[]}',
    '{"version":1,"brokerid":1,"timestamp":"1"}',
    '{"version":1,"generation":"1","inputs":"x","owners":{"t":{"0":"g_a-0"}}}',
    "g_a-0",
    "g_b-1",
    "no thread",
    "5",
    "-1",
    "999999999999999999999999",
    "[" * 3000,
    "{}",
    "null",
)
DATA = st.one_of(st.none(), st.sampled_from(TEXTS).map(str.encode), st.binary(max_size=4))
TIMES = st.integers(-(2**40), 2**41)
SESSIONS = st.sampled_from((0, 1, 2, -5, 2**63 - 1))
OPERATIONS = st.builds(
    Operation,
    st.sampled_from(
        (
            TransactionType.CREATE,
            TransactionType.CREATE,
            TransactionType.CREATE_CONTAINER,
            TransactionType.SET_DATA,
            TransactionType.DELETE,
            TransactionType.SET_ACL,
            TransactionType.CHECK,
            TransactionType.ERROR,
        )
    ),
    PATHS,
    DATA,
    st.none(),
    st.one_of(st.none(), st.integers(0, 3)),
    st.booleans(),
    error=st.sampled_from((None, -110)),
)
RECORDS = st.one_of(
    st.builds(
        lambda session, ms, operations: Transaction(
            0, session, 1, ms, TransactionType.MULTI, tuple(operations)
        ),
        SESSIONS,
        TIMES,
        st.lists(OPERATIONS, min_size=1, max_size=4),
    ),
    st.builds(
        lambda session, ms, cxid, gone: Transaction(
            0, session, cxid, ms, TransactionType.CLOSE_SESSION, closed_paths=gone
        ),
        SESSIONS,
        TIMES,
        st.sampled_from((0, 7)),
        st.one_of(st.none(), st.tuples(PATHS)),
    ),
    st.builds(
        lambda session, ms: Transaction(0, session, 0, ms, TransactionType.CREATE_SESSION, timeout_ms=6000),
        SESSIONS,
        TIMES,
    ),
)
SEEDS = st.builds(
    lambda path, data, owner, ms: StoredZnode(path, data, None, StoredStat(1, 1, ms, ms, 0, 0, 0, owner, 1)),
    PATHS,
    DATA,
    SESSIONS,
    TIMES,
)


@given(st.lists(RECORDS, max_size=30), st.lists(SEEDS, max_size=8), st.integers(1, 2**40))
def test_no_history_brings_a_finding_down(
    records: list[Transaction], seeds: list[StoredZnode], first_zxid: int
) -> None:
    """Deletions of missing znodes, meaningless data and jumping clocks all occur in some log."""
    numbered = [
        Transaction(
            first_zxid + place,
            record.session,
            record.cxid,
            record.time_ms,
            record.type,
            record.operations,
            record.timeout_ms,
            record.closed_paths,
        )
        for place, record in enumerate(records)
    ]
    events = list(events_of(numbered, seeds))

    found = find(RULES, lambda: events)

    assert facts_of(events).has_log is bool(events and not all(event.seed for event in events))
    for finding in found:
        assert finding.detail
        assert finding.to_zxid is None or finding.from_zxid is None or finding.from_zxid <= finding.to_zxid
