"""Asks Kafka 2.8.2, on an empty cluster, about quotas: HOST PORT OUT.jsonl; rows as in `security/by_hand`."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

from tests.golden.security.by_hand import Cases, frames, request
from zkgroup.wire.quotas import (
    CLIENT_ID,
    DEFAULT,
    EXACT,
    IP,
    SPECIFIED,
    USER,
    AlterClientQuotasRequest,
    DescribeClientQuotasRequest,
    QuotaAlteration,
    QuotaEntityPart,
    QuotaFilterComponent,
    QuotaOperation,
)

PRODUCER, CONSUMER = "producer_byte_rate", "consumer_byte_rate"
REQUEST, MUTATION, CONNECTION = "request_percentage", "controller_mutation_rate", "connection_creation_rate"
Owner = tuple[tuple[str, str | None], ...]


def alteration(owner: Owner, **quotas: float | None) -> QuotaAlteration:
    parts = tuple(QuotaEntityPart(entity_type=kind, entity_name=name) for kind, name in owner)
    changes = tuple(
        QuotaOperation(key=key.replace("_NO_", "-"), value=value or 0.0, remove=value is None)
        for key, value in quotas.items()
    )
    return QuotaAlteration(entity=parts, operations=changes)


def altered(*entries: QuotaAlteration, validate_only: bool = False, version: int = 1) -> bytes:
    return request(AlterClientQuotasRequest(entries=entries, validate_only=validate_only), version)


def described(*filters: tuple[str, int, str | None], strict: bool = False, version: int = 1) -> bytes:
    components = tuple(
        QuotaFilterComponent(entity_type=kind, match_type=match_type, match=match)
        for kind, match_type, match in filters
    )
    return request(DescribeClientQuotasRequest(components=components, strict=strict), version)


def user(name: str | None, client: str | None = "") -> Owner:
    return ((USER, name),) if client == "" else ((USER, name), (CLIENT_ID, client))


def of_quotas() -> Cases:
    yield "nothing", [described(), described((USER, EXACT, "alice")), described(version=0)]
    yield (
        "set",
        [
            altered(
                alteration(user("alice"), producer_byte_rate=1048576, consumer_byte_rate=2097152.0000001),
                alteration(user(None), producer_byte_rate=1000),
                alteration(((CLIENT_ID, "app"),), request_percentage=50.5),
                alteration(((CLIENT_ID, None),), controller_mutation_rate=2e7, request_percentage=200),
                alteration(user("alice", "app"), producer_byte_rate=4096),
                alteration(((CLIENT_ID, "app"), (USER, "bob")), consumer_byte_rate=1e-7),
                alteration(user("al ice/x", None), consumer_byte_rate=9),
                alteration(user(None, "app"), consumer_byte_rate=2**53),
                alteration(user(None, None), request_percentage=1e-5),
                alteration(((IP, "127.0.0.1"),), connection_creation_rate=5),
                alteration(((IP, None),), connection_creation_rate=2**31 - 1),
            ),
            altered(alteration(user("valid"), producer_byte_rate=1), validate_only=True, version=0),
            altered(alteration(user("none"), producer_byte_rate=None), version=0),
            altered(alteration(user("empty"))),
        ],
    )
    for strict in (False, True):
        yield (
            f"described, strict {strict}",
            [
                described(strict=strict),
                *(
                    described((kind, *match), strict=strict)
                    for kind, name in ((USER, "alice"), (CLIENT_ID, "app"), (IP, "127.0.0.1"))
                    for match in ((EXACT, name), (EXACT, "absent"), (DEFAULT, None), (SPECIFIED, None))
                ),
                *(
                    described((USER, *of_user), (CLIENT_ID, *of_client), strict=strict)
                    for of_user in ((EXACT, "alice"), (DEFAULT, None), (SPECIFIED, None))
                    for of_client in ((EXACT, "app"), (DEFAULT, None), (SPECIFIED, None))
                ),
                described((USER, EXACT, "al ice/x"), (CLIENT_ID, DEFAULT, None), strict=strict),
            ],
        )
    yield (
        "describing refused",
        [
            described((USER, EXACT, "alice"), (USER, EXACT, "bob")),
            described((CLIENT_ID, EXACT, "a"), (CLIENT_ID, DEFAULT, None)),
            described((IP, SPECIFIED, None), (IP, SPECIFIED, None)),
            described(("", EXACT, "alice")),
            described(("group", EXACT, "alice")),
            described((USER, EXACT, "alice"), (IP, SPECIFIED, None)),
            described((USER, 3, "alice")),
            described((USER, EXACT, None)),
            described((USER, DEFAULT, "alice"), version=0),
            described((USER, EXACT, "")),
        ],
    )
    yield (
        "altering refused",
        [
            altered(
                alteration((), producer_byte_rate=1),
                alteration(user(""), producer_byte_rate=1),
                alteration(((CLIENT_ID, ""),), producer_byte_rate=1),
                alteration((("group", "g"),), producer_byte_rate=1),
                alteration(((USER, "a"), (IP, "127.0.0.1")), producer_byte_rate=1),
                alteration(((IP, "no such host.invalid"),), connection_creation_rate=1),
                alteration(((IP, "::1"),), connection_creation_rate=1),
                alteration(((IP, "b"),), producer_byte_rate=1),
                alteration(((IP, "127.0.0.2"),), producer_byte_rate=1),
                alteration(((IP, "127.0.0.3"),), connection_creation_rate=-1),
                alteration(((IP, "127.0.0.4"),), connection_creation_rate=2**31),
                alteration(((IP, "127.0.0.5"),), connection_creation_rate=1.5),
                version=0,
            ),
            altered(
                alteration(user("a"), producer_byte_rate=1, unknown=1),
                alteration(user("b"), connection_creation_rate=1),
                alteration(user("c"), SCRAM_NO_SHA_NO_256=1),
                alteration(user("d"), producer_byte_rate=0.5),
                alteration(user("e"), producer_byte_rate=-5),
                alteration(user("f"), producer_byte_rate=0),
                alteration(user("g"), request_percentage=-0.5),
                alteration(user("h"), request_percentage=math.nan),
                alteration(user("i"), request_percentage=math.inf),
                alteration(user("j"), producer_byte_rate=math.nan),
                alteration(user("k"), producer_byte_rate=math.inf),
                alteration(user("l"), producer_byte_rate=2.0**63),
                alteration(user("m"), controller_mutation_rate=0),
                alteration(user("n"), unknown=None),
                alteration(user("."), producer_byte_rate=1),
            ),
            altered(
                alteration(user("twice"), producer_byte_rate=1),
                alteration(user("twice"), consumer_byte_rate=2),
                alteration(((USER, "p"), (USER, "q")), producer_byte_rate=3),
            ),
            altered(),
            described(),
        ],
    )
    everything = {PRODUCER: None, CONSUMER: None, REQUEST: None}
    yield (
        "removed",
        [
            altered(
                alteration(user("alice"), producer_byte_rate=7, consumer_byte_rate=None),
                alteration(((CLIENT_ID, "app"),), **everything),
                alteration(((IP, "127.0.0.1"),), connection_creation_rate=None),
            ),
            described((USER, EXACT, "alice")),
            described((CLIENT_ID, SPECIFIED, None), version=0),
            described((IP, SPECIFIED, None)),
        ],
    )


def main() -> None:
    port = int(sys.argv[2])
    rows = [json.dumps({"case": name, "frames": frames(port, sent)}) + "\n" for name, sent in of_quotas()]
    Path(sys.argv[3]).write_text("".join(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
