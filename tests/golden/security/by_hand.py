"""Asks Kafka 2.8.2 about users, logins and ACLs: HOST PORT-PLAINTEXT PORT-SASL OUT.jsonl.

With one port, about ACLs alone: the broker has `AclAuthorizer`, no ACL, and `User:ANONYMOUS` as super user.

A line is one connection: its `case`, and in turn the bytes that were sent and those that came, as frames in
hex; null where Kafka closed the connection. The broker's JAAS entry has `alice` with the password
`alice-secret`.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE_S
from zkgroup.wire.acls import (
    AclCreation,
    AclFilterFields,
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from zkgroup.wire.messages import Request, encode_request, framed
from zkgroup.wire.metadata import ApiVersionsRequest, MetadataRequest
from zkgroup.wire.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from zkgroup.wire.users import (
    AlterUserScramCredentialsRequest,
    CredentialDeletion,
    CredentialUpsertion,
    DescribeUserScramCredentialsRequest,
    UserName,
)

OPEN_S = 1.0
"""A connection that Kafka has not closed by then stays open."""
ALICE, WRONG = b"\0alice\0alice-secret", b"\0alice\0wrong"
Cases = Iterator[tuple[str, list[bytes]]]


def request(request: Request, version: int = 0) -> bytes:
    return encode_request(request, 7, "by-hand", version=version)


def upsertion(user: str, mechanism: int = 1, iterations: int = 4096) -> CredentialUpsertion:
    return CredentialUpsertion(
        user=user, mechanism=mechanism, iterations=iterations, salt=b"salt" * 4, salted_password=b"p" * 32
    )


def altered(*upsertions: CredentialUpsertion, deleted: tuple[tuple[str, int], ...] = ()) -> bytes:
    deletions = tuple(CredentialDeletion(user=user, mechanism=mechanism) for user, mechanism in deleted)
    return request(AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions))


def described(*users: str) -> bytes:
    return request(DescribeUserScramCredentialsRequest(users=tuple(UserName(user=user) for user in users)))


def of_users() -> Cases:
    yield "nobody", [described(), described("absent", "", "twice", "twice")]
    yield "made", [altered(upsertion("bob"), upsertion("bob", 2, 8192), upsertion("al ice/x"))]
    yield "made is described", [described("bob"), described("bob", "absent"), described()]
    yield (
        "refused",
        [
            altered(upsertion("")),
            altered(upsertion("a", 3), upsertion("b", 0)),
            altered(upsertion("a", 1, 4095), upsertion("b", 1, 16385)),
            altered(upsertion("a"), upsertion("a")),
            altered(upsertion("bob", 1, 5000), deleted=(("bob", 1),)),
            altered(deleted=(("absent", 1), ("", 1), ("bob", 7))),
            altered(upsertion("a"), upsertion("a", 9)),
            altered(),
        ],
    )
    yield "removed", [altered(upsertion("bob", 2, 5000), deleted=(("bob", 1),)), described("bob")]
    yield "gone", [altered(deleted=(("bob", 2), ("al ice/x", 1))), described()]


Words = tuple[int, str | None, int, str | None, str | None, int, int]
"""Numbers of the type of a resource, its name, the type of its pattern; principal, host, operation,
permission."""
TOPIC, GROUP, CLUSTER = 2, 3, 4
LITERAL, PREFIXED = 3, 4
ANY, MATCH = 1, 2
DENY, ALLOW = 2, 3
READ, WRITE, DESCRIBE = 3, 4, 8
EVERY: Words = (ANY, None, ANY, None, None, ANY, ANY)


def _fields(words: Words) -> dict[str, Any]:
    names = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission")
    return dict(zip(names, words, strict=True))


def created_acls(*acls: Words, version: int = 2) -> bytes:
    rows = tuple(AclCreation(**_fields(one)) for one in acls)
    return request(CreateAclsRequest(creations=rows), version)


def deleted_acls(*filters: Words, version: int = 2) -> bytes:
    rows = tuple(AclFilterFields(**_fields(one)) for one in filters)
    return request(DeleteAclsRequest(filters=rows), version)


def described_acls(words: Words = EVERY, version: int = 2) -> bytes:
    return request(DescribeAclsRequest(**_fields(words)), version)


def of_acls() -> Cases:
    def acl(
        name: str, kind: int = TOPIC, pattern: int = LITERAL, who: str = "User:alice", **more: Any
    ) -> Words:
        host, operation = more.get("host", "*"), more.get("operation", READ)
        return kind, name, pattern, who, host, operation, more.get("permission", ALLOW)

    first = acl("t"), acl("t", who="User:bob", host="10.0.0.1", operation=WRITE, permission=DENY)
    yield "nothing", [described_acls(), deleted_acls(EVERY)]
    yield "created", [created_acls(*first, acl("t", pattern=PREFIXED)), created_acls(first[0])]
    yield (
        "versions",
        [
            *(created_acls(acl("g", GROUP), version=version) for version in range(3)),
            *(described_acls((ANY, None, LITERAL, None, None, ANY, ANY), version) for version in range(3)),
            *(
                deleted_acls((GROUP, "g", LITERAL, None, None, ANY, ANY), version=version)
                for version in range(3)
            ),
        ],
    )
    yield (
        "several of one resource",
        [
            created_acls(
                acl("*"),
                acl("*"),
                acl("kafka-cluster", CLUSTER, operation=DESCRIBE),
                acl("te", pattern=PREFIXED),
            ),
            created_acls(
                acl("", pattern=LITERAL), acl("other", CLUSTER), acl("t x/y"), acl("who", who="alice")
            ),
            created_acls(acl("host", host=""), acl("op", operation=READ), acl("o", GROUP, operation=WRITE)),
            created_acls(),
            described_acls(),
        ],
    )
    for name, words in (
        ("literal", (TOPIC, "t", LITERAL, None, None, ANY, ANY)),
        ("prefixed", (TOPIC, "t", PREFIXED, None, None, ANY, ANY)),
        ("any", (TOPIC, "t", ANY, None, None, ANY, ANY)),
        ("match", (TOPIC, "test", MATCH, None, None, ANY, ANY)),
        ("match of any name", (TOPIC, None, MATCH, None, None, ANY, ANY)),
        ("wildcard", (TOPIC, "*", LITERAL, None, None, ANY, ANY)),
        ("wildcard, matched", (TOPIC, "*", MATCH, None, None, ANY, ANY)),
        ("of bob", (ANY, None, ANY, "User:bob", None, ANY, ANY)),
        ("of a host", (ANY, None, ANY, None, "10.0.0.1", ANY, ANY)),
        ("of every host", (ANY, None, ANY, None, "*", ANY, ANY)),
        ("writes", (ANY, None, ANY, None, None, WRITE, ANY)),
        ("denials", (ANY, None, ANY, None, None, ANY, DENY)),
        ("all operations, the operation", (ANY, None, ANY, None, None, 2, ANY)),
    ):
        yield f"described: {name}", [described_acls(words)]
    for name, words in (
        ("any type", (ANY, "x", LITERAL, "User:a", "*", READ, ALLOW)),
        ("any pattern", (TOPIC, "x", ANY, "User:a", "*", READ, ALLOW)),
        ("match", (TOPIC, "x", MATCH, "User:a", "*", READ, ALLOW)),
        ("any operation", (TOPIC, "x", LITERAL, "User:a", "*", ANY, ALLOW)),
        ("any permission", (TOPIC, "x", LITERAL, "User:a", "*", READ, ANY)),
        ("unknown type", (0, "x", LITERAL, "User:a", "*", READ, ALLOW)),
        ("a type too high", (99, "x", LITERAL, "User:a", "*", READ, ALLOW)),
        ("a pattern too high", (TOPIC, "x", 99, "User:a", "*", READ, ALLOW)),
        ("an operation too high", (TOPIC, "x", LITERAL, "User:a", "*", 99, ALLOW)),
        ("a permission too high", (TOPIC, "x", LITERAL, "User:a", "*", READ, 99)),
    ):
        yield f"bad: {name}", [created_acls(words)]
        yield f"bad, not alone: {name}", [created_acls(acl("fine"), words)]
        yield f"bad filter: {name}", [described_acls(words)]
        yield f"bad deletion: {name}", [deleted_acls(words)]
    yield (
        "removed",
        [
            deleted_acls(
                (TOPIC, "t", LITERAL, "User:bob", None, ANY, ANY), (TOPIC, "t", ANY, None, None, ANY, ANY)
            ),
            deleted_acls((TOPIC, "t", ANY, None, None, ANY, ANY)),
            deleted_acls((TOPIC, "tex", MATCH, None, None, READ, ALLOW)),
            described_acls(),
            deleted_acls(EVERY, EVERY),
            described_acls(),
        ],
    )


def token(token: bytes, version: int = 1) -> bytes:
    return request(SaslAuthenticateRequest(token), version)


def of_logins() -> Cases:
    def shake(mechanism: str = "PLAIN", version: int = 1) -> bytes:
        return request(SaslHandshakeRequest(mechanism), version)

    asked, versions = request(MetadataRequest.of("t")), request(ApiVersionsRequest("by-hand", "1"), 3)
    yield "plain", [versions, shake(), token(ALICE, 0), asked]
    yield "plain, session lifetime", [shake(), token(ALICE, 1)]
    yield "plain, flexible", [shake(), token(ALICE, 2), versions]
    yield "raw token", [shake(version=0), framed(ALICE), asked]
    yield "raw token, wrong", [shake(version=0), framed(WRONG)]
    yield "raw token alone", [framed(ALICE)]
    yield "wrong password", [shake(), token(WRONG)]
    yield "unknown user", [shake(), token(b"\0nobody\0x")]
    yield "another identity", [shake(), token(b"bob\0alice\0alice-secret")]
    yield "own identity", [shake(), token(b"alice\0alice\0alice-secret")]
    for bad in (b"", b"x", b"\0\0", b"\0alice\0", b"\0\0x", b"\0alice\0alice-secret\0", b"\0\xff\0x"):
        yield f"bad token {bad.hex()}", [shake(), token(bad)]
    yield "unknown mechanism", [shake("GSSAPI")]
    yield "unknown mechanism, then a known one", [shake("OAUTHBEARER"), shake()]
    yield "lower case", [shake("plain")]
    yield "two handshakes", [shake(), shake()]
    yield "no handshake", [token(ALICE)]
    yield "a request before", [asked]
    yield "a request after the handshake", [shake(), asked]
    yield "versions after the handshake", [shake(), versions]
    yield "versions twice", [versions, versions, shake(), token(ALICE, 2)]
    yield "an unknown version of versions", [versions[:6] + b"\0\x09" + versions[8:], shake()]
    yield "again", [shake(), token(ALICE), shake(), token(ALICE), asked]
    yield "again, wrong", [shake(), token(ALICE), shake(), token(WRONG)]
    yield "again, another mechanism", [shake(), token(ALICE), shake("SCRAM-SHA-256")]
    yield "again, a request between", [shake(), token(ALICE), shake(), asked]
    yield "again, without a handshake", [shake(), token(ALICE), token(ALICE)]
    yield "again, raw", [shake(), token(ALICE), shake(version=0), framed(ALICE)]
    yield "scram, unknown user", [shake("SCRAM-SHA-256"), token(b"n,,n=nobody,r=abcdef")]
    yield "scram, no message", [shake("SCRAM-SHA-256"), token(b"hello")]
    yield "scram, delegation token", [shake("SCRAM-SHA-256"), token(b"n,,n=alice,r=abc,tokenauth=true")]


def frames(host: str, port: int, sent: list[bytes]) -> list[str | None]:
    found: list[str | None] = []
    with socket.create_connection((host, port)) as connection:
        connection.settimeout(PATIENCE_S)
        stream = connection.makefile("rb")
        for frame in sent:
            found.append(frame.hex())
            try:
                connection.sendall(frame)
                size = stream.read(4)
                answer = size + stream.read(int.from_bytes(size, "big"))
            except OSError:
                answer = b""
            found.append(answer.hex() or None)
            if not answer:
                break
        else:
            connection.settimeout(OPEN_S)
            with suppress(TimeoutError):
                found.append("" if stream.read(1) else None)
    return found


def main() -> None:
    host, *ports, file = sys.argv[1:]
    asked = [of_acls()] if len(ports) == 1 else [of_users(), of_logins()]
    rows = [
        json.dumps({"case": name, "frames": frames(host, port, sent)}) + "\n"
        for port, cases in zip(map(int, ports), asked, strict=True)
        for name, sent in cases
    ]
    Path(file).write_text("".join(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
