"""The versions that a broker lists, beside those that Kafka 2.8.2 listed in a recording."""

from __future__ import annotations

from tests.worlds import golden_data
from tests.worlds.wire_requests import REQUESTS
from zkgroup.wire.messages import Api, decode_response
from zkgroup.wire.metadata import ApiVersionsResponse

OTHERS = {
    Api.LEADER_AND_ISR: range(1),
    Api.STOP_REPLICA: range(1),
    Api.UPDATE_METADATA: range(4),
    Api.CONTROLLED_SHUTDOWN: range(3),
}
"""Of what only controllers and brokers send."""
ABSENT = {
    24: "AddPartitionsToTxn",
    25: "AddOffsetsToTxn",
    26: "EndTxn",
    27: "WriteTxnMarkers",
    28: "TxnOffsetCommit",
    38: "CreateDelegationToken",
    39: "RenewDelegationToken",
    40: "ExpireDelegationToken",
    41: "DescribeDelegationToken",
    56: "AlterIsr",
    57: "UpdateFeatures",
    61: "DescribeProducers",
}
"""What brokers of zkgroup do not have at all."""


def test_each_api_has_the_versions_of_kafka_2_8_2() -> None:
    """Clients that are pinned to 2.8 send what it serves, and others guess the release from the list."""
    recorded = next(
        frame
        for frame in golden_data.packed_frames("group-protocol/frames.jsonl.gz")
        if (frame.file, frame.number) == ("admin-consumer-group-command-2.8.2", 6)
    )
    _, answer = decode_response(ApiVersionsResponse, recorded.data[4:], version=recorded.version)
    kafkas = {one.api_key: range(one.first, one.last + 1) for one in answer.apis}

    expected = {key: versions for key, versions in kafkas.items() if key not in ABSENT} | OTHERS
    assert {key: kind.VERSIONS for key, kind in REQUESTS.items()} == expected
    assert kafkas.keys() - REQUESTS.keys() == ABSENT.keys()
