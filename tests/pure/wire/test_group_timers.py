"""DescribeGroups 5 with the fields that are zkgroup's own, and without them."""

from __future__ import annotations

from dataclasses import replace

from tests.worlds.wire_requests import decode_request, encode_response
from zkgroup.wire.groups import (
    DescribedGroup,
    DescribedMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from zkgroup.wire.messages import decode_response, encode_request

MEMBER = DescribedMember(
    member_id="m-1", client_id="c", client_host="/127.0.0.1", metadata=b"", assignment=b""
)
GROUP = DescribedGroup(
    error=0, group="g", state="PreparingRebalance", protocol_type="consumer", protocol="", members=(MEMBER,)
)


def test_timers_travel_in_tagged_fields() -> None:
    """The request asks for them; an older version has no place for them."""
    member = replace(
        MEMBER,
        session_expires_in_ms=9_500,
        has_joined=True,
        is_awaiting_sync=True,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
    )
    timed = replace(
        GROUP,
        members=(member,),
        phase="InitialRebalanceDelay",
        generation=4,
        leader="m-1",
        pending_members=2,
        phase_ends_in_ms=2_900,
    )
    whole = DescribeGroupsResponse(groups=(timed,))
    asked = DescribeGroupsRequest(groups=("g",), include_timers=True)

    for version, expected in ((5, whole), (4, DescribeGroupsResponse(groups=(GROUP,)))):
        frame = encode_response(whole, 7, version=version)[4:]
        assert decode_response(DescribeGroupsResponse, frame, version=version) == (7, expected)
    assert decode_request(encode_request(asked, 7, "c", version=5)[4:])[1] == asked


def test_kafka_clients_get_kafkas_bytes() -> None:
    """Without timers no tag is written: the last byte, an empty list of tags, closes each structure."""
    plain = encode_response(DescribeGroupsResponse(groups=(GROUP,)), 7, version=5)

    assert b"\x90\x4e" not in plain  # the number 10,000 of the first of zkgroup's tags
