"""Frames of users, logins, ACLs and quotas that Kafka 2.8.2 took and sent: read, and written as they were."""

from __future__ import annotations

from collections import Counter

from tests.worlds.recorded_logins import ACLS, LOGINS, QUOTAS, conversations
from tests.worlds.wire_requests import REQUESTS, decode_request, encode_response
from zkgroup.wire.messages import Api, decode_response, encode_request
from zkgroup.wire.sasl import SaslAuthenticateRequest
from zkgroup.wire.users import CredentialUpsertion

RECORDED = (
    Api.SASL_HANDSHAKE,
    Api.SASL_AUTHENTICATE,
    Api.DESCRIBE_CLIENT_QUOTAS,
    Api.ALTER_CLIENT_QUOTAS,
    Api.DESCRIBE_USER_SCRAM_CREDENTIALS,
    Api.ALTER_USER_SCRAM_CREDENTIALS,
    Api.DESCRIBE_ACLS,
    Api.CREATE_ACLS,
    Api.DELETE_ACLS,
)


def test_each_frame_is_read_and_written_as_it_was() -> None:
    """Requests and answers of every version, to the last byte."""
    seen: Counter[tuple[int, int]] = Counter()
    for case in (*conversations(LOGINS), *conversations(ACLS), *conversations(QUOTAS)):
        for exchange in case.exchanges:
            key, version = exchange.api
            if key not in RECORDED:
                continue
            header, request = decode_request(exchange.sent[4:])
            written = encode_request(request, header.correlation_id, header.client_id, version=version)
            assert written == exchange.sent, case.case
            if exchange.came is not None:
                _, answer = decode_response(REQUESTS[key].RESPONSE, exchange.came[4:], version=version)
                assert encode_response(answer, header.correlation_id, version=version) == exchange.came
                seen[key, version] += 1
    versions = {(api.value, version) for api in RECORDED for version in REQUESTS[api].VERSIONS}
    assert set(seen) == versions


def test_the_text_of_a_message_has_no_secret() -> None:
    """A message may be in a log or in an assertion."""
    upsertion = CredentialUpsertion(
        user="alice", mechanism=1, iterations=4096, salt=b"secret", salted_password=b"secret"
    )

    assert "secret" not in f"{upsertion} {SaslAuthenticateRequest(b'secret')}"
