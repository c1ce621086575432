"""DescribeClientQuotas and AlterClientQuotas: the answers are those of Kafka 2.8.2."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from tests.pure.broker.admin.conftest import BY
from tests.worlds.memory_cluster import MemoryCluster
from tests.worlds.recorded_logins import QUOTAS, Exchange, conversations
from tests.worlds.wire_requests import REQUESTS, decode_request
from zkgroup.broker.admin.failures import RequestPartError
from zkgroup.broker.admin.quotas import alter, describe
from zkgroup.groups.ensemble import Ensemble
from zkgroup.wire.messages import Api, decode_response
from zkgroup.wire.quotas import DescribedQuotas
from zkgroup.znodes.config import EntityConfig

OTHERS = {f"user={user}": 42 for user in "cghij."} | {"ip=::1": 0}
"""Owners of which another error is expected here. Of `c`, a credential, and the path `.` Kafka answers -1. It
takes a request_percentage of -0.5, NaN and infinity (`g`, `h`, `i`), and a producer_byte_rate of NaN as 0."""
NO_HOST = " is not a valid IP"


def _owner(entity: Any) -> str:
    return ",".join(sorted(f"{part.entity_type}={part.entity_name}" for part in entity))


def _recorded(exchange: Exchange) -> Any:
    assert exchange.came is not None
    key, version = exchange.api
    return decode_response(REQUESTS[key].RESPONSE, exchange.came[4:], version=version)[1]


def _altered(rows: Any) -> dict[str, tuple[int, str]]:
    """Owner to error and text."""
    found = {}
    for row in rows:
        text = unquote(row.error_message or "")
        head, is_host, _ = text.partition(NO_HOST)
        found[_owner(row.entity)] = row.error, head + is_host or text
    return found


def _values(rows: tuple[DescribedQuotas, ...]) -> dict[str, dict[str, float]]:
    found = {_owner(row.entity): {one.key: one.value for one in row.values} for row in rows}
    return {owner: values for owner, values in found.items() if owner not in OTHERS}


def _described(ensemble: Ensemble, request: Any) -> tuple[int, str | None, dict[str, dict[str, float]]]:
    try:
        return 0, None, _values(describe(ensemble, request))
    except RequestPartError as refused:
        return refused.error, str(refused), {}


def test_quotas_are_described_and_altered_as_by_kafka(cluster: MemoryCluster) -> None:
    """Each recorded conversation: errors, texts and values, but for what is refused here."""
    ensemble = cluster.world.ensemble
    for case in conversations(QUOTAS):
        for exchange in case.exchanges:
            expected = _recorded(exchange)
            request: Any = decode_request(exchange.sent[4:])[1]
            if exchange.api[0] == Api.ALTER_CLIENT_QUOTAS:
                altered, theirs = _altered(alter(ensemble, request, BY)), _altered(expected.entries)
                for owner in OTHERS.keys() & altered.keys():
                    assert altered.pop(owner)[0] == OTHERS[owner] != theirs.pop(owner)[0]
                assert altered == theirs, case.case
                continue
            error, text, values = _described(ensemble, request)
            if expected.error == -1:
                assert (error, values) == (42, {}), case.case
            else:
                told = expected.error, expected.error_message, _values(expected.entries or ())
                assert (error, text or expected.error_message, values) == told, case.case

    znode = cluster.world.server.find("/config/clients/<default>")
    assert znode is not None
    overrides = EntityConfig.decode(znode.path, znode.data).overrides
    assert overrides == {"controller_mutation_rate": "20000000.0", "request_percentage": "200.0"}
