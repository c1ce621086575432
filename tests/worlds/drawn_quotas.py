"""Drawn configurations of quotas; who gets which, by `QuotaLevels.java` and by `zkgroup.broker.quotas`."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, unquote

from zkgroup.broker.quotas.levels import CONNECTION_RATE, AddressQuotas, ClientQuotas, QuotaType
from zkgroup.znodes.config import DEFAULT_NAME, ConfigEntity

USERS = ("alice", "al ice/x", "ANONYMOUS", "eve")
CLIENTS = ("app", "a%20p", "other", "")
ADDRESSES = ("127.0.0.1", "10.1.2.3", "::1")
ASKED = {
    **{kind.value: [[user, client] for user in USERS for client in CLIENTS] for kind in QuotaType},
    CONNECTION_RATE: [[address] for address in ADDRESSES],
}


def drawn(count: int, seed: int) -> Iterator[str]:
    """Lines for `QuotaLevels.java`: changes of configurations one after the other, and who is asked for."""
    draw = random.Random(seed)
    entities = _entities()
    for _ in range(count):
        some = draw.sample(entities, draw.randint(1, 8))
        changes = [[entity, _config(draw, entity)] for entity in draw.choices(some, k=draw.randint(1, 16))]
        yield json.dumps({"changes": changes, "asked": ASKED})


def _entities() -> list[str]:
    users = [quote(name, safe="") for name in USERS[:-1]] + [DEFAULT_NAME]
    clients = [quote(name, safe="") for name in CLIENTS[:-2]] + [DEFAULT_NAME]
    return [
        *(f"users/{user}" for user in users),
        *(f"clients/{client}" for client in clients),
        *(f"users/{user}/clients/{client}" for user in users for client in clients),
        *(f"ips/{address}" for address in (*ADDRESSES[:2], DEFAULT_NAME)),
    ]


def _config(draw: random.Random, entity: str) -> dict[str, str]:
    kinds = [CONNECTION_RATE] if entity.startswith("ips/") else [kind.value for kind in QuotaType]
    if draw.random() < 0.2:
        return {}
    return {kind: _text(draw, kind) for kind in draw.sample(kinds, draw.randint(1, len(kinds)))}


def _text(draw: random.Random, kind: str) -> str:
    """A number as people, Kafka and zkgroup write it."""
    whole = draw.randint(0, 2**31 - 1)
    if kind not in (QuotaType.REQUEST, QuotaType.CONTROLLER_MUTATION):
        return draw.choice((f"{whole}", f"+{whole}", f"{whole:012}"))
    forms = (f"{whole}", f"{whole}.5", f".{whole}", f"{whole}.", f"{whole / 7}", f"{whole / 2**50}")
    return draw.choice((*forms, f"{whole / 8:E}", f"{whole}e-3"))


def differences(line: str) -> list[str]:
    """Where zkgroup finds another quota than an answer of `QuotaLevels.java`."""
    row = json.loads(line)
    clients, addresses = ClientQuotas(), AddressQuotas()
    for path, overrides in row["changes"]:
        entity = ConfigEntity.parse("", path)
        clients.configured(entity, overrides)
        addresses.configured(entity, overrides)
    return [
        f"{kind} of {asked}: expected {expected}, found {found}, after {row['changes']}"
        for kind, owners in row["asked"].items()
        for asked, expected in zip(owners, row["found"][kind], strict=True)
        if (found := _found(clients, addresses, kind, asked)) != _decoded(expected)
    ]


def _decoded(answer: list[Any] | None) -> list[Any] | None:
    """Value, user and client id; Kafka's classes encode the user alone."""
    return answer and [answer[0], unquote(answer[1]), answer[2]]


def _found(clients: ClientQuotas, addresses: AddressQuotas, kind: str, asked: list[str]) -> list[Any] | None:
    if kind == CONNECTION_RATE:
        rate = addresses.resolve(asked[0])
        return rate and [float(rate[0]), "", ""]
    quota = clients.resolve(QuotaType(kind), asked[0], asked[1])
    return quota and [quota.value, quota.user, quota.client_id]
