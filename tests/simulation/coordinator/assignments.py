"""What simulated clients send each other through their coordinator: subscriptions, and a leader's assignment.

An eager leader deals all partitions out. A cooperative one (KIP-429) leaves partitions with the members that
own them as far as the shares are even, and assigns one that is to move to nobody: its owner revokes it and
joins again, and the next generation assigns it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from zkgroup.assignment.consumer_protocol import decode_assignment, decode_subscription
from zkgroup.model import TopicPartition
from zkgroup.wire.groups import JoinedMember


def subscription_bytes(topic: str, owned: Iterable[TopicPartition] = (), generation: int = -1) -> bytes:
    """The metadata of a member, in version 2: its topic, what it owns, and since which generation."""
    header = struct.pack(">hi", 2, 1) + _text(topic) + struct.pack(">i", -1)
    return header + _partitions(owned) + struct.pack(">i", generation)


def assignment_bytes(partitions: Iterable[TopicPartition]) -> bytes:
    """The assignment of a member, in version 0."""
    return struct.pack(">h", 0) + _partitions(partitions) + struct.pack(">i", -1)


def assigned_partitions(data: bytes) -> frozenset[TopicPartition]:
    """The partitions of an assignment."""
    return frozenset(decode_assignment(data).partitions)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _partitions(partitions: Iterable[TopicPartition]) -> bytes:
    topics = [(topic, list(each)) for topic, each in groupby(sorted(partitions), lambda tp: tp.topic)]
    data = struct.pack(">i", len(topics))
    for topic, each in topics:
        data += _text(topic) + struct.pack(f">i{len(each)}i", len(each), *(tp.partition for tp in each))
    return data


def deal_out(
    members: Iterable[str], partitions: Sequence[TopicPartition], turn: int
) -> dict[str, list[TopicPartition]]:
    """The shares of an eager assignment, by member; `turn` says who gets the first partition."""
    names = sorted(members)
    shares: dict[str, list[TopicPartition]] = {each: [] for each in names}
    for number, tp in enumerate(partitions):
        shares[names[(number + turn) % len(names)]].append(tp)
    return shares


def assign_cooperatively(
    members: Sequence[JoinedMember], partitions: Sequence[TopicPartition]
) -> dict[str, list[TopicPartition]]:
    """The shares of a cooperative assignment, by member, without partitions that others still own."""
    owners = _owners(members)
    shares: dict[str, list[TopicPartition]] = {each.member_id: [] for each in members}
    least, larger = divmod(len(partitions), len(members))
    for tp in partitions:
        owner = owners.get(tp)
        if owner is None:
            continue
        held = len(shares[owner])
        if held < least or (held == least and larger > 0):
            larger -= held == least
            shares[owner].append(tp)
    kept = {tp for share in shares.values() for tp in share}
    for tp in partitions:
        if tp not in kept:
            receiver = min(shares, key=lambda member: (len(shares[member]), member))
            shares[receiver].append(tp)
    return {
        member: [tp for tp in share if owners.get(tp, member) == member] for member, share in shares.items()
    }


def _owners(members: Sequence[JoinedMember]) -> Mapping[TopicPartition, str]:
    """Who owns each partition: of two that say so, the one that was in the later generation."""
    found: dict[TopicPartition, tuple[int, str]] = {}
    for member in members:
        subscription = decode_subscription(member.metadata)
        for tp in subscription.owned:
            claim = subscription.generation, member.member_id
            found[tp] = max(found.get(tp, claim), claim)
    return {tp: member for tp, (_, member) in found.items()}
