"""Requests of a client with few rights, about groups and the cluster, as Kafka 2.8.2 answered them."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from tests.worlds.guarded_handlers import GuardedHandlers
from tests.worlds.recorded_logins import REFUSALS, Conversation, conversations
from tests.worlds.wire_requests import REQUESTS, decode_request, encode_response
from zkgroup.broker.authorizer.table import GUARDS
from zkgroup.model.error_codes import ErrorCode
from zkgroup.wire import admin_apis, groups
from zkgroup.wire.messages import Response, decode_response

REFUSED = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
)
RECORDED = conversations(REFUSALS)
TEXT = re.compile(r"Request Request\(.* is not authorized\.")


def _empty(kind: type[Response]) -> Response:
    """The answer of a handler to which nothing was passed."""
    found: dict[str, Any] = {}
    for one in fields(kind):  # type: ignore[arg-type]
        if "tuple" in str(one.type):
            found[one.name] = ()
        elif one.name in ("error", "throttle_ms"):
            found[one.name] = 0
    return kind(**found)


def _refused_rows(answer: Any) -> Any:
    """An answer with its refused rows alone, in one order, and without what Kafka says of the connection."""
    if not is_dataclass(answer):
        return answer
    found = {}
    for one in fields(answer):
        value = getattr(answer, one.name)
        if isinstance(value, tuple):
            value = tuple(sorted((_refused_rows(row) for row in value if _is_refused(row)), key=repr))
        elif isinstance(value, str) and one.name == "error_message":
            value = TEXT.sub("Cluster authorization failed.", value)
        found[one.name] = value
    return replace(answer, **found)


def _is_refused(row: Any) -> bool:
    own = getattr(row, "error", None)
    below = getattr(row, "partitions", ())
    if own is None and isinstance(below, tuple):
        return any(_is_refused(one) for one in below) or not all(hasattr(one, "error") for one in below)
    return own in REFUSED or own is None


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case.case)
def test_what_is_refused_is_refused_as_by_kafka(case: Conversation) -> None:
    """Each version of each request: the errors of the whole and of parts, and their texts."""
    guarded = GuardedHandlers(
        *(f"allow alice ALL {kind} mine" for kind in ("topic", "group")),
        answers=lambda request: _empty(request.RESPONSE),
    )
    for sent, came in case.exchanges:
        header, request = decode_request(sent[4:])
        assert came is not None
        kind, version = REQUESTS[header.api_key].RESPONSE, header.version

        written = encode_response(guarded.ask(request, version=version), 7, version=version)

        _, answer = decode_response(kind, written[4:], version=version)
        _, recorded = decode_response(kind, came[4:], version=version)
        assert _refused_rows(answer) == _refused_rows(recorded), version


def test_what_is_permitted_reaches_the_handlers() -> None:
    """And nothing else: the topics and groups that a client has rights on, of each recorded request."""
    guarded = GuardedHandlers(
        *(f"allow alice ALL {kind} mine" for kind in ("topic", "group")),
        answers=lambda request: _empty(request.RESPONSE),
    )
    for case in RECORDED:
        for sent, _ in case.exchanges:
            header, request = decode_request(sent[4:])
            guarded.ask(request, version=header.version)

    passed = {type(one).__name__: repr(one) for one in guarded.passed}
    assert sorted(passed) == [
        *("AlterConfigsRequest", "CreatePartitionsRequest", "CreateTopicsRequest", "DeleteGroupsRequest"),
        *("DeleteTopicsRequest", "DescribeConfigsRequest", "DescribeGroupsRequest"),
        *("IncrementalAlterConfigsRequest", "ListGroupsRequest", "OffsetCommitRequest"),
        *("OffsetDeleteRequest", "OffsetFetchRequest"),
    ]
    assert [text for text in passed.values() if "theirs" in text or "others" in text] == []


def test_lists_have_what_the_client_may_describe() -> None:
    """All groups where it may describe the cluster; all offsets are those of topics that it may describe."""
    listed = groups.ListGroupsResponse(
        error=0, groups=tuple(groups.ListedGroup(group=one, protocol_type="") for one in ("a", "b"))
    )
    stored = groups.OffsetFetchResponse(
        topics=tuple(groups.StoredTopic(topic=one, partitions=()) for one in ("a", "b"))
    )
    answers = {groups.ListGroupsRequest: listed, groups.OffsetFetchRequest: stored}
    guarded = GuardedHandlers(
        *("allow alice READ group a", "allow alice READ topic a", "allow bob DESCRIBE cluster"),
        answers=lambda request: answers[type(request)],
    )

    assert guarded.ask(groups.ListGroupsRequest()).groups == listed.groups[:1]
    assert guarded.ask(groups.ListGroupsRequest(), "bob") == listed
    assert guarded.ask(groups.OffsetFetchRequest(group="a", topics=None)).topics == stored.topics[:1]


def test_operations_and_settings_are_those_that_the_client_may_know() -> None:
    """Those on a group in DescribeGroups; the settings of a topic that it has created."""
    described = groups.DescribeGroupsResponse(groups=(groups.DescribedGroup(group="a", state="Empty"),))
    created = admin_apis.CreateTopicsResponse(
        topics=tuple(
            admin_apis.CreatedTopic(topic=one, error=0, partitions=3, replication_factor=1) for one in "ab"
        )
    )
    answers = {groups.DescribeGroupsRequest: described, admin_apis.CreateTopicsRequest: created}
    guarded = GuardedHandlers(
        *("allow alice READ group a", "allow alice CREATE cluster", "allow alice ALTER_CONFIGS topic a"),
        answers=lambda request: answers[type(request)],
    )

    asked = groups.DescribeGroupsRequest(groups=("a",), include_authorized_operations=True)
    assert guarded.ask(asked).groups[0].authorized_operations == 1 << 3 | 1 << 8
    made = guarded.ask(
        admin_apis.CreateTopicsRequest(
            topics=tuple(
                admin_apis.CreatableTopic(topic=one, partitions=3, replication_factor=1) for one in "ab"
            )
        )
    )
    assert [(one.config_error, one.partitions) for one in made.topics] == [(0, 3), (29, -1)]


def test_every_request_has_a_guard() -> None:
    """Of all that zkgroup reads."""
    assert {REQUESTS[key] for key in REQUESTS} == GUARDS.keys()
