"""Questions to group coordinators: they describe groups, with timers if they report them, and delete one."""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from zkgroup.clients.broker_queries import TIMEOUT_MS, QueryClient, at_once, query, unreachable
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
from zkgroup.wire.messages import ErrorCode, describe
from zkgroup.znodes.brokers import BrokerRegistration

ReportedSlotUse: TypeAlias = SlotUse
"""The usage of a slot by its groups, as its leader reports it."""
ReportedGroup: TypeAlias = DescribedGroup
"""A group, as its coordinator describes it."""
GROUPS_AT_ONCE: Final = 200
"""Groups of one DescribeGroups request: a response has all their members."""


def describe_groups(
    registered: Mapping[int, BrokerRegistration],
    coordinators: Mapping[str, int],
    timeout_ms: int = TIMEOUT_MS,
) -> dict[str, DescribedGroup | str]:
    """Groups as their coordinators describe them, or why one does not; raises nothing.

    `coordinators`: group to the broker that leads its slot, as ZooKeeper has it. `timeout_ms`: for each
    answer of a broker; after the first that is late it is not asked again.
    """
    found: dict[str, DescribedGroup | str] = {}
    groups: dict[int, list[str]] = {}
    for group, broker in coordinators.items():
        if why := unreachable(registered.get(broker)):
            found[group] = why
        else:
            groups.setdefault(broker, []).append(group)

    async def ask(broker: int, names: Sequence[str]) -> dict[str, DescribedGroup | str]:
        def described(client: QueryClient) -> Awaitable[dict[str, DescribedGroup | str]]:
            return _described(client, names)

        answer = await query(registered[broker], timeout_ms, described)
        return dict.fromkeys(names, answer) if isinstance(answer, str) else answer

    for answer in at_once([ask(broker, names) for broker, names in groups.items()]):
        found |= answer
    return found


async def _described(client: QueryClient, names: Sequence[str]) -> dict[str, DescribedGroup | str]:
    found: dict[str, DescribedGroup | str] = dict.fromkeys(names, "its broker does not answer for it")
    for start in range(0, len(names), GROUPS_AT_ONCE):
        request = DescribeGroupsRequest(
            groups=tuple(names[start : start + GROUPS_AT_ONCE]), include_timers=True
        )
        for group in (await client.ask(request, DescribeGroupsResponse)).groups:
            refused = group.error != ErrorCode.NONE
            found[group.group] = f"its broker answers {describe(group.error)}" if refused else group
    return found


class ListedGroups(NamedTuple):
    """The groups that a broker coordinates."""

    groups: tuple[str, ...]
    slots: tuple[SlotUse, ...]
    """Their usage; empty where the broker does not report it."""


def list_groups(
    registered: Mapping[int, BrokerRegistration], brokers: Collection[int], timeout_ms: int = TIMEOUT_MS
) -> dict[int, ListedGroups | str]:
    """The groups that each of the brokers coordinates, or why it does not say; raises nothing.

    While a broker loads, it lists the groups that it has loaded.
    """
    reasons = {broker: unreachable(registered.get(broker)) for broker in sorted(brokers)}
    found: dict[int, ListedGroups | str] = {broker: why for broker, why in reasons.items() if why}
    asked = [broker for broker in reasons if broker not in found]

    async def listed(client: QueryClient) -> ListedGroups | str:
        answer = await client.ask(ListGroupsRequest(include_slots=True), ListGroupsResponse)
        if answer.error not in (ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            return f"its broker answers {describe(answer.error)}"
        return ListedGroups(tuple(group.group for group in answer.groups), answer.slots)

    answers = at_once([query(registered[broker], timeout_ms, listed) for broker in asked])
    return found | dict(zip(asked, answers, strict=True))


def delete_group(broker: BrokerRegistration, group: str, timeout_ms: int = TIMEOUT_MS) -> int | str:
    """Kafka's error code of a coordinator that was asked to delete a group, or why it has not answered.

    Without an answer it may have deleted the group.
    """
    if why := unreachable(broker):
        return why

    async def deleted(client: QueryClient) -> int | str:
        answer = await client.ask(DeleteGroupsRequest(groups=(group,)), DeleteGroupsResponse)
        codes = [one.error for one in answer.groups if one.group == group]
        return codes[0] if codes else "its broker does not answer for it"

    (answer,) = at_once([query(broker, timeout_ms, deleted)])
    return answer
