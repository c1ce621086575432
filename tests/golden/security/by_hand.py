"""Asks Kafka 2.8.2 about users and logins: HOST PORT-PLAINTEXT PORT-SASL OUT.jsonl.

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

from tests.waiting import PATIENCE_S
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


def frames(port: int, sent: list[bytes]) -> list[str | None]:
    found: list[str | None] = []
    with socket.create_connection((sys.argv[1], port)) as connection:
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
    plaintext, sasl = map(int, sys.argv[2:4])
    rows = [
        json.dumps({"case": name, "frames": frames(port, sent)}) + "\n"
        for port, cases in ((plaintext, of_users()), (sasl, of_logins()))
        for name, sent in cases
    ]
    Path(sys.argv[4]).write_text("".join(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
