"""Questions to group coordinators: they describe groups, with timers if they report them, and delete one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, MutableMapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from zkgroup.clients.addresses import Addresses, BrokerAddress
from zkgroup.clients.broker_queries import TIMEOUT_MS, QueryClient, ask_each, refusal
from zkgroup.wire.groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    SlotUse,
)
from zkgroup.wire.messages import ErrorCode

ReportedSlotUse: TypeAlias = SlotUse
"""The usage of a slot by its groups, as its leader reports it."""
ReportedGroup: TypeAlias = DescribedGroup
"""A group, as its coordinator describes it."""
GROUPS_AT_ONCE: Final = 200
"""Groups of one DescribeGroups request: a response has all their members."""


def describe_groups(
    addresses: Addresses,
    coordinators: Mapping[str, int],
    timeout_ms: int = TIMEOUT_MS,
    *,
    certificates: MutableMapping[int, float] | None = None,
) -> dict[str, DescribedGroup | str]:
    """Groups as their coordinators describe them, or why one does not. Raises what `ask_each` raises.

    `coordinators`: group to the broker that leads its slot, as ZooKeeper has it. `timeout_ms`: for each
    answer of a broker; after the first that is late it is not asked again. `certificates`: see `ask_each`.
    """
    return ask_each(addresses, coordinators.items(), timeout_ms, _described, certificates=certificates)


async def _described(client: QueryClient, names: Sequence[str]) -> dict[str, DescribedGroup | str]:
    found: dict[str, DescribedGroup | str] = dict.fromkeys(names, "its broker does not answer for it")
    for start in range(0, len(names), GROUPS_AT_ONCE):
        request = DescribeGroupsRequest(
            groups=tuple(names[start : start + GROUPS_AT_ONCE]), include_timers=True
        )
        for group in (await client.ask(request, DescribeGroupsResponse)).groups:
            refused = group.error != ErrorCode.NONE
            found[group.group] = refusal(group.error) if refused else group
    return found


class ListedGroups(NamedTuple):
    """The groups that a broker coordinates."""

    groups: tuple[str, ...]
    slots: tuple[SlotUse, ...]
    """Their usage; empty where the broker does not report it."""


def list_groups(
    addresses: Addresses, brokers: Collection[int], timeout_ms: int = TIMEOUT_MS
) -> dict[int, ListedGroups | str]:
    """The groups that each of the brokers coordinates, or why it does not say. Raises what `ask_each` raises.

    While a broker loads, it lists the groups that it has loaded.
    """
    return ask_each(addresses, ((broker, broker) for broker in sorted(brokers)), timeout_ms, _listed)


async def _listed(client: QueryClient, brokers: Sequence[int]) -> dict[int, ListedGroups | str]:
    answer = await client.ask(ListGroupsRequest(include_slots=True), ListGroupsResponse)
    if answer.error not in (ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        return dict.fromkeys(brokers, refusal(answer.error))
    groups = tuple(group.group for group in answer.groups)
    return dict.fromkeys(brokers, ListedGroups(groups, answer.slots))


def delete_group(broker: BrokerAddress | str, group: str, timeout_ms: int = TIMEOUT_MS) -> int | str:
    """Kafka's error code of a coordinator that was asked to delete a group, or why it has not answered.

    Without an answer it may have deleted the group.
    """

    async def deleted(client: QueryClient, groups: Sequence[str]) -> dict[str, int | str]:
        answer = await client.ask(DeleteGroupsRequest(groups=tuple(groups)), DeleteGroupsResponse)
        silent = dict.fromkeys(groups, "its broker does not answer for it")
        return silent | {one.group: one.error for one in answer.groups if one.group in silent}

    return ask_each({0: broker}, [(group, 0)], timeout_ms, deleted)[group]
