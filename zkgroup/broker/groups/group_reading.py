"""The contents of the znodes of a group, also where they are corrupt. Pure.

A corrupt group starts anew, empty, at a generation that is not below any that its members may have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from zkgroup.broker.groups.led_slots import StoredGroup
from zkgroup.coordinator.records import GroupRecord
from zkgroup.coordinator.settings import GENERATIONS_RESERVED
from zkgroup.errors import CorruptZnodeError
from zkgroup.model import Znode
from zkgroup.model.requests import Code
from zkgroup.znodes.coordinated_groups import GroupChunk, GroupHeader, StoredMember, members_of
from zkgroup.znodes.json_fields import INT32, is_integer, read_object, show


@dataclass(slots=True)
class ReadGroup:
    """The znodes of one group, as they were read."""

    group_id: str
    header: Znode
    children: tuple[str, ...]
    has_marker: bool
    corrupt: CorruptZnodeError | None = None
    """The reason why the group starts anew."""


def chunk_paths(slot: int, group: ReadGroup, header: GroupHeader | None) -> list[str]:
    """The chunks that a header names, in order."""
    if header is None:
        return []
    numbers = range(header.first_chunk, header.first_chunk + header.chunks)
    return [GroupChunk.path(slot, group.group_id, header.generation, number) for number in numbers]


def header_of(group: ReadGroup) -> GroupHeader | None:
    """The header; None if it has no data. One that cannot be read is noted in the group."""
    if not group.header.data:
        return None
    try:
        return GroupHeader.decode(group.header.path, group.header.data)
    except CorruptZnodeError as error:
        group.corrupt = error
        return None


def stored_group(
    group: ReadGroup, header: GroupHeader | None, named: list[str]
) -> tuple[StoredGroup, list[str]]:
    """The group as the store keeps it, and the paths of the chunks that no header names."""
    stored = StoredGroup(
        group.group_id,
        group.header.path,
        version=group.header.stat.version,
        header=header,
        is_marked=group.has_marker,
    )
    chunks = {f"{stored.path}/{name}": parts for name in group.children if (parts := GroupChunk.parse(name))}
    for generation, number in chunks.values():
        stored.chunk_numbers[generation] = max(stored.chunk_numbers.get(generation, 0), number + 1)
    stored.chunk_paths = [each for each in named if each in chunks]
    if group.corrupt is not None:
        stored.chunk_paths = sorted(chunks)  # the evidence stays until the group is written again
        return stored, []
    return stored, sorted(chunks.keys() - set(named))


def record_of(
    group: ReadGroup,
    header: GroupHeader | None,
    named: Iterable[str],
    chunks: Mapping[str, Znode | Code | None],
    to_machine_ms: Callable[[int], int],
) -> GroupRecord:
    """The group for the coordinator. Notes in `group` why it starts anew."""
    if header is None:
        generation, reserved = _generations_of(group) if group.corrupt is not None else (0, 0)
        return _empty(group.group_id, generation, reserved)
    try:
        members = members_of(group.header.path, header, list(_decoded(named, chunks)))
    except CorruptZnodeError as error:
        group.corrupt = error
        return _empty(group.group_id, header.generation, header.reserved_generation)
    group.corrupt = _contradiction(group.header.path, header, members)
    if group.corrupt is not None:
        return _empty(group.group_id, header.generation, header.reserved_generation)
    return GroupRecord(
        group_id=group.group_id,
        generation=header.generation,
        reserved_generation=header.reserved_generation,
        protocol_type=header.protocol_type,
        protocol=header.protocol,
        leader=header.leader,
        state_timestamp_ms=to_machine_ms(header.state_timestamp_ms),
        members=members,
    )


def _contradiction(
    path: str, header: GroupHeader, members: Sequence[StoredMember]
) -> CorruptZnodeError | None:
    """Returns a contradiction of members to each other or the header, as no coordinator writes it."""
    if not members:
        return None
    if header.protocol_type is None:
        return CorruptZnodeError(path, "the protocol type of its members", "none")
    ids = [each.member_id for each in members]
    instances = [each.group_instance_id for each in members if each.group_instance_id is not None]
    if len(set(ids)) < len(ids) or len(set(instances)) < len(instances):
        return CorruptZnodeError(path, "members with different ids", show([*ids, *instances]))
    if not all(header.protocol in dict(each.protocols) for each in members):
        return CorruptZnodeError(path, "a protocol that all its members have", show(header.protocol))
    return None


def _decoded(named: Iterable[str], chunks: Mapping[str, Znode | Code | None]) -> Iterable[GroupChunk]:
    for path in named:
        found = chunks.get(path)
        if not isinstance(found, Znode):
            raise CorruptZnodeError(path, "a part of a group", "no znode" if found is None else found.value)
        yield GroupChunk.decode(path, found.data)


def _empty(group_id: str, generation: int, reserved: int) -> GroupRecord:
    return GroupRecord(
        group_id=group_id,
        generation=generation,
        reserved_generation=max(generation, reserved),
        protocol_type=None,
        protocol=None,
        leader=None,
        state_timestamp_ms=0,
        members=(),
    )


def _generations_of(group: ReadGroup) -> tuple[int, int]:
    """Generation and reserved generation of an unreadable header: as far as it, or its chunks, say.

    Where the reserved generation is missing, it is taken to be as high as it can be for the generation.
    """
    chunks = [parts[0] for name in group.children if (parts := GroupChunk.parse(name))]
    try:
        fields = read_object(group.header.path, group.header.data, "a group")
    except CorruptZnodeError:
        fields = {}
    generation = max([0, *chunks, *_numbers(fields.get("generation"))])
    reserved = [*_numbers(fields.get("reserved")), generation]
    return generation, max(reserved) if len(reserved) > 1 else generation + 2 * GENERATIONS_RESERVED


def _numbers(value: object) -> list[int]:
    """The value as a list, if it is a generation."""
    return [value] if isinstance(value, int) and is_integer(value, range(INT32[-1] + 1)) else []
