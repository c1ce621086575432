"""Recorded conversations with Kafka's group coordinator, replayed against the pure one.

The recorded requests are handled at their recorded times. Each recorded answer is then compared with the
coordinator's own. A new member gets the id that it has in the recording.
"""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.worlds.golden_data import FOLDER
from tests.worlds.wire_requests import decode_request
from zkgroup.coordinator.coordinator import GroupCoordinator
from zkgroup.coordinator.effects import (
    CommitOffsetsResult,
    DeleteGroup,
    FetchOffsetsResult,
    ReadOffsets,
    RemoveGroupResult,
    Reply,
    ReserveGenerations,
    WriteGroup,
    WriteOffsets,
)
from zkgroup.coordinator.events import (
    CommitOffsets,
    CoordinatorEvent,
    DescribeGroup,
    FetchOffsets,
    GroupWritten,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    OffsetsWritten,
    RemoveGroup,
    SlotLoaded,
    SlotLoading,
    Started,
    SyncGroup,
    WriteOutcome,
)
from zkgroup.coordinator.records import GroupRecord
from zkgroup.coordinator.settings import CoordinatorSettings
from zkgroup.errors import CorruptFrameError, UnsupportedRequestError
from zkgroup.model import TopicPartition
from zkgroup.wire import groups as wire
from zkgroup.wire.groups import (
    DescribedGroup,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    LeavingMember,
    ListGroupsResponse,
    SyncGroupResponse,
)
from zkgroup.wire.messages import decode_response
from zkgroup.znodes.coordinated_groups import OffsetAndMetadata

Comparable = dict[str, Any]

LATE_MS = 60
"""How much later than their deadline timers fire before a request is handled; Kafka's fire late as well."""


class Line(NamedTuple):
    """One frame, or one remark of the recording."""

    number: int
    at_ms: int
    direction: str
    connection: int
    version: int
    correlation_id: int
    client: str
    data: bytes
    text: str


def conversations() -> dict[str, list[Line]]:
    """The recordings by name, in the order of their frames."""
    found: dict[str, list[Line]] = {}
    packed = (FOLDER / "group-protocol/conversations.jsonl.gz").read_bytes()
    for text in gzip.decompress(packed).splitlines():
        record = json.loads(text)
        found.setdefault(record["file"], []).append(
            Line(
                record["seq"],
                round(record["t"] * 1000),
                record["dir"],
                record.get("conn", -1),
                record.get("version", -1),
                record.get("corr", -1),
                record.get("client") or "",
                bytes.fromhex(record.get("hex", "")),
                record.get("text", ""),
            )
        )
    return found


class Before(NamedTuple):
    """An empty group that was there when a recording began."""

    generation: int
    offsets: Mapping[TopicPartition, int] = {}


ONE = {TopicPartition("orders", partition): 1 for partition in range(4)}
BEFORE: Mapping[str, Mapping[str, Before]] = {
    "life-java-1.1.1": {"life-java-1.1.1": Before(6, ONE)},
    "admin-librdkafka-2.16.1": {"live2": Before(2), "life-librdkafka-2.3.0": Before(5)},
    "admin-consumer-group-command-2.8.2": {
        "life-kafka-python-2.3.3": Before(
            5, {**ONE, TopicPartition("orders", 2): 0, TopicPartition("orders", 3): 0}
        )
    },
}
"""Groups that were there when a recording began."""


@dataclass(frozen=True)
class Difference:
    """An answer that is not the recorded one."""

    file: str
    number: int
    """Of the answer's line, or the request's where one of the two was not answered."""
    client: str
    request: object
    expected: Comparable | None
    found: Comparable | None


class Replay:
    """One recording and one coordinator."""

    def __init__(self, file: str, settings: CoordinatorSettings, before: Mapping[str, Before]) -> None:
        """`before`: the groups that were there when the recording began."""
        self.file = file
        self.machine = GroupCoordinator(settings, 1, self._unique_id)
        self._next_id = ""
        self.differences: list[Difference] = []
        self.compared = 0
        self._now_ms = 0
        self._numbers = itertools.count(1)
        self._answers: dict[int, Comparable] = {}
        self._parts: dict[int, list[int]] = {}
        self._asked: dict[tuple[int, int], tuple[int, Line, Any]] = {}
        self._offsets = {
            name: {each: OffsetAndMetadata(offset=offset) for each, offset in group.offsets.items()}
            for name, group in before.items()
        }
        self._groups = set(before)
        """Those that a request has named; the recorded brokers had more."""
        loaded = tuple(empty_group(name, group.generation) for name, group in before.items())
        for event in (Started(), SlotLoading(0, 0), SlotLoaded(0, 0, loaded)):
            self._do(event)

    def _unique_id(self) -> str:
        return self._next_id

    def run(self, lines: list[Line]) -> list[Difference]:
        """Replays all lines."""
        answers = {
            (line.connection, line.correlation_id): line for line in lines if line.direction == "response"
        }
        for line in lines:
            if line.direction == "request":
                self._advance(line.at_ms - LATE_MS)
                self._request(line, answers.get((line.connection, line.correlation_id)))
            elif line.direction == "response":
                self._response(line)
        return self.differences

    def unanswered(self) -> Iterator[tuple[Line, Comparable | None]]:
        """The requests without a recorded answer, with the coordinator's."""
        for number, line, _ in self._asked.values():
            yield line, self._answers.get(number)

    def _advance(self, at_ms: int) -> None:
        while (due := self.machine.next_deadline_ms) is not None and due <= at_ms:
            self._now_ms = max(due, self._now_ms)
            self._take(self.machine.advance(self._now_ms))
        self._now_ms = max(at_ms, self._now_ms)

    def _do(self, event: CoordinatorEvent) -> None:
        self._take(self.machine.handle(event, self._now_ms))

    def _take(self, effects: list[Any]) -> None:
        for effect in effects:
            match effect:
                case Reply(number, result):
                    self._answers[number] = comparable(result)
                case ReadOffsets():
                    self._answers[effect.request_id] = self._read(effect)
                case WriteGroup(write_id, _) | ReserveGenerations(write_id=write_id):
                    self._do(GroupWritten(write_id, WriteOutcome.STORED))
                case DeleteGroup(write_id, group):
                    self._offsets.pop(group, None)
                    self._do(GroupWritten(write_id, WriteOutcome.STORED))
                case WriteOffsets():
                    self._offsets.setdefault(effect.group_id, {}).update(effect.offsets)
                    stored = dict.fromkeys(effect.offsets, WriteOutcome.STORED)
                    self._do(OffsetsWritten({effect.write_id: stored}))

    def _read(self, effect: ReadOffsets) -> Comparable:
        stored = self._offsets.get(effect.group_id, {})
        partitions = stored if effect.partitions is None else effect.partitions
        none = OffsetAndMetadata(offset=-1)
        return {
            "error": 0,
            "offsets": {each: (found.offset, found.metadata, 0) for each in partitions
                        for found in [stored.get(each, none)]},
        }  # fmt: skip

    def _request(self, line: Line, answer: Line | None) -> None:
        try:
            _, request = decode_request(line.data[4:])
        except (UnsupportedRequestError, CorruptFrameError):
            return  # made to be refused
        if isinstance(request, wire.OffsetDeleteRequest) or (
            line.version == 0 and isinstance(request, wire.OffsetCommitRequest | wire.OffsetFetchRequest)
        ):
            return  # not of this layer
        number = next(self._numbers)
        self._next_id = f"unrecorded-{number}"
        if isinstance(request, wire.JoinGroupRequest) and answer is not None:
            _, response = decode_response(type(request).RESPONSE, answer.data[4:], version=line.version)
            self._next_id = response.member_id[-36:]  # a UUID behind the client's name
        self._asked[line.connection, line.correlation_id] = (number, line, request)
        self._groups.update(getattr(request, "groups", None) or [getattr(request, "group", "")])
        events = list(_events(request, number, line))
        if len(events) == 1:
            self._do(events[0])
            return
        parts = []
        for event in events:
            parts.append(next(self._numbers))
            self._do(_numbered(event, parts[-1]))
        self._answers[number] = _merged([self._answers[part] for part in parts])

    def _response(self, line: Line) -> None:
        asked = self._asked.pop((line.connection, line.correlation_id), None)
        if asked is None:
            return
        number, _, request = asked
        if number not in self._answers:
            self._advance(line.at_ms)
        _, response = decode_response(type(request).RESPONSE, line.data[4:], version=line.version)
        expected, found = recorded(response), self._answers.get(number)
        if found is not None:
            found = _in_version(found, line.version)
        if "groups" in expected:
            expected["groups"] = frozenset(each for each in expected["groups"] if each[0] in self._groups)
        self.compared += 1
        if found != expected:
            self.differences.append(Difference(self.file, line.number, line.client, request, expected, found))


def _in_version(found: Comparable, version: int) -> Comparable:
    """The coordinator's answer in the form of a version."""
    result = dict(found)
    if "join" in found and version < 7:
        result["protocol_type"] = None
        result["protocol"] = result["protocol"] or ""
    if "join" in found and version < 5:
        result["members"] = frozenset((each, None, data) for each, _, data in result["members"])
    if "sync" in found and version < 5:
        result["protocol_type"] = result["protocol"] = None
    if "leave" in found and version < 3:
        errors = [found["error"], *(error for _, _, error in found["members"])]
        result = {"leave": 1, "error": next((each for each in errors if each), 0), "members": []}
    if "groups" in found and version < 4:
        result["groups"] = frozenset((name, kind, "") for name, kind, _ in result["groups"])
    if "described" in found and version < 4:
        result["described"] = [
            (*head, frozenset((each, None, *rest) for each, _, *rest in members))
            for *head, members in result["described"]
        ]
    return result


def empty_group(name: str, generation: int) -> GroupRecord:
    return GroupRecord(
        group_id=name,
        generation=generation,
        reserved_generation=generation,
        protocol_type="consumer",
        protocol=None,
        leader=None,
        state_timestamp_ms=0,
        members=(),
    )


def _events(request: Any, number: int, line: Line) -> Iterator[CoordinatorEvent]:
    version = line.version
    match request:
        case wire.JoinGroupRequest():
            yield _join(request, number, line)
        case wire.SyncGroupRequest():
            yield SyncGroup(
                request_id=number,
                group_id=request.group,
                generation=request.generation,
                member_id=request.member_id,
                group_instance_id=request.group_instance_id,
                requires_protocol=version >= 5,
                protocol_type=request.protocol_type,
                protocol=request.protocol,
                assignments={each.member_id: each.assignment for each in request.assignments},
            )
        case wire.HeartbeatRequest():
            yield Heartbeat(
                request_id=number,
                group_id=request.group,
                generation=request.generation,
                member_id=request.member_id,
                group_instance_id=request.group_instance_id,
            )
        case wire.LeaveGroupRequest():
            leaving = [(each.member_id, each.group_instance_id) for each in request.members]
            yield LeaveGroup(
                request_id=number,
                group_id=request.group,
                members=tuple(
                    LeavingMember(member_id=member, group_instance_id=instance)
                    for member, instance in (leaving if version >= 3 else [(request.member_id, None)])
                ),
            )
        case wire.OffsetCommitRequest():
            yield _commit(request, number)
        case wire.OffsetFetchRequest():
            yield FetchOffsets(
                request_id=number,
                group_id=request.group,
                partitions=None
                if request.topics is None
                else tuple(
                    TopicPartition(topic.topic, each) for topic in request.topics for each in topic.partitions
                ),
                require_stable=request.require_stable,
            )
        case wire.ListGroupsRequest():
            yield ListGroups(request_id=number, states=frozenset(request.states))
        case wire.DescribeGroupsRequest():
            for group in request.groups:
                yield DescribeGroup(request_id=number, group_id=group)
        case wire.DeleteGroupsRequest():
            for group in request.groups:
                yield RemoveGroup(request_id=number, group_id=group)
        case _:
            raise AssertionError(request)


def _join(request: wire.JoinGroupRequest, number: int, line: Line) -> JoinGroup:
    timeout_ms = request.session_timeout_ms if line.version == 0 else request.rebalance_timeout_ms
    return JoinGroup(
        request_id=number,
        group_id=request.group,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        requires_member_id=line.version >= 4,
        client_id=line.client,
        client_host="",
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple((each.name, each.metadata) for each in request.protocols),
    )


def _commit(request: wire.OffsetCommitRequest, number: int) -> CommitOffsets:
    offsets = {
        TopicPartition(topic.topic, each.partition): OffsetAndMetadata(
            offset=each.offset, metadata=each.metadata or ""
        )
        for topic in request.topics
        for each in topic.partitions
    }
    return CommitOffsets(
        request_id=number,
        group_id=request.group,
        generation=request.generation,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        offsets=offsets,
        unknown_partitions=frozenset(
            each for each in offsets if each.partition >= PARTITIONS.get(each.topic, 0)
        ),
    )


PARTITIONS = {"orders": 4, "empty": 2, "t": 4}
"""The topics of the recorded brokers."""


def _numbered(event: Any, number: int) -> Any:
    fields = {name: getattr(event, name) for name in event.__dataclass_fields__}
    return type(event)(**{**fields, "request_id": number})


def _merged(answers: list[Comparable]) -> Comparable:
    if "described" in answers[0]:
        return {"described": [each for answer in answers for each in answer["described"]]}
    return {"deleted": sorted(each for answer in answers for each in answer["deleted"])}


def comparable(result: Any) -> Comparable:
    """A result of the coordinator."""
    match result:
        case JoinGroupResponse():
            members = frozenset(
                (each.member_id, each.group_instance_id, each.metadata) for each in result.members
            )
            return {
                "join": 1,
                "error": int(result.error),
                "generation": result.generation,
                "protocol_type": result.protocol_type,
                "protocol": result.protocol,
                "leader": result.leader,
                "member_id": result.member_id,
                "members": members,
            }
        case SyncGroupResponse():
            return {
                "sync": 1,
                "error": int(result.error),
                "protocol_type": result.protocol_type,
                "protocol": result.protocol,
                "assignment": result.assignment,
            }
        case HeartbeatResponse(error=error):
            return {"heartbeat": 1, "error": int(error)}
        case LeaveGroupResponse(error=error, members=left):
            rows = [(each.member_id, each.group_instance_id, int(each.error)) for each in left]
            return {"leave": 1, "error": int(error), "members": rows}
        case CommitOffsetsResult(errors):
            return {"committed": {each: int(error) for each, error in errors.items()}}
        case FetchOffsetsResult(error):
            return {"error": int(error), "offsets": {}}
        case ListGroupsResponse(error=error, groups=found):
            return {
                "error": int(error),
                "groups": frozenset((each.group, each.protocol_type, each.state) for each in found),
            }
        case RemoveGroupResult(error):
            return {"deleted": [int(error)]}
        case DescribedGroup():
            return {"described": [_described(result)]}
    raise AssertionError(result)


def recorded(response: Any) -> Comparable:
    """A recorded response."""
    match response:
        case wire.OffsetCommitResponse():
            return {"committed": _errors(response)}
        case wire.OffsetFetchResponse():
            return {
                "error": response.error,
                "offsets": {
                    TopicPartition(topic.topic, each.partition): (each.offset, each.metadata, each.error)
                    for topic in response.topics
                    for each in topic.partitions
                },
            }
        case wire.OffsetDeleteResponse():
            return {"error": response.error, "offsets": _errors(response)}
        case wire.DeleteGroupsResponse():
            return {"deleted": sorted(each.error for each in response.groups)}
        case wire.DescribeGroupsResponse():
            return {"described": list(map(_described, response.groups))}
    return comparable(response)


def _errors(response: wire.OffsetCommitResponse | wire.OffsetDeleteResponse) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.topic, each.partition): each.error
        for topic in response.topics
        for each in topic.partitions
    }


def _described(group: Any) -> tuple[Any, ...]:
    members = frozenset(
        (each.member_id, each.group_instance_id, each.client_id, each.metadata, each.assignment)
        for each in group.members
    )
    return (group.error, group.group, group.state, group.protocol_type, group.protocol, members)
