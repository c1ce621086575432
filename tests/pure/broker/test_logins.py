"""The states of a login: each recorded conversation with Kafka 2.8.2, SCRAM, and logins that are repeated."""

from __future__ import annotations

import pytest

from tests.worlds.recorded_logins import Conversation, conversations
from tests.worlds.sasl_ports import PASSWORD, client_login, sasl_listener
from zkgroup.broker.server.handlers import ANONYMOUS
from zkgroup.broker.server.logins import Login, SaslListener
from zkgroup.errors import WireError
from zkgroup.security.sasl import ScramUsers
from zkgroup.security.sasl_settings import SaslSettings
from zkgroup.security.scram import ScramCredential
from zkgroup.wire.messages import Api, Request, Response, decode_response, encode_request, framed
from zkgroup.wire.metadata import MetadataRequest
from zkgroup.wire.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
REAUTH_MS = 600_000
TOKEN = "scram, delegation token"
OF_LOGINS = [
    each
    for each in conversations()
    if each.exchanges[0].api[0] < Api.DESCRIBE_USER_SCRAM_CREDENTIALS and each.case != TOKEN
]
METADATA = encode_request(MetadataRequest.of("t"), 1, "c")[4:]


def _answers(login: Login, conversation: Conversation) -> list[bytes | str | None]:
    """What comes for each frame: "served", the answer, None where the connection ends without one."""
    found: list[bytes | str | None] = []
    for number, exchange in enumerate(conversation.exchanges):
        frame = exchange.sent[4:]
        if login.admits(frame, number * 10.0):
            found.append("served")
            continue
        try:
            taken = login.take(frame, number * 10.0)
        except WireError:
            return [*found, None]
        if taken.answer:
            found.append(b"".join(taken.answer))
        if taken.refusal is not None:
            return [*found, "end"]
    return found


@pytest.mark.parametrize("case", OF_LOGINS, ids=lambda each: each.case)
def test_a_login_goes_as_with_kafka(case: Conversation) -> None:
    """Byte for byte; what is no frame of a login is served by both, or closes the connection at both."""
    expected: list[bytes | str | None] = []
    for exchange in case.exchanges:
        key, _ = exchange.api
        is_bare = exchange.came is not None and exchange.came[:4] == b"\0\0\0\0"
        is_served = exchange is case.exchanges[-1] and case.case == "again, without a handshake"
        is_other = is_served or (key not in (Api.SASL_HANDSHAKE, Api.SASL_AUTHENTICATE) and not is_bare)
        refused_by_kafka = case.is_closed and exchange is case.exchanges[-1]
        if exchange.came is not None and is_other:
            # In a login Kafka answers another request with error 34, and then closes; here it only closes.
            expected.append(None if refused_by_kafka else "served")
        else:
            expected.append(exchange.came)
    if case.is_closed and expected[-1] is not None:
        expected.append("end")

    found = _answers(Login(sasl_listener()), case)

    if expected[-1] is None and found[-1] == "end":  # refused, and no frame behind it is answered
        expected[-1] = "end"
    assert found == expected


def _asked(login: Login, request: Request, version: int, now_s: float = 0.0) -> tuple[Response, str | None]:
    frame = encode_request(request, 7, "c", version=version)[4:]
    assert not login.admits(frame, now_s)
    taken = login.take(frame, now_s)
    answer = decode_response(request.RESPONSE, b"".join(taken.answer)[4:], version=version)[1]
    return answer, taken.refusal


def _log_in(
    login: Login, mechanism: str, user: str, password: str, *, bare: bool = False, now_s: float = 0.0
) -> str | None:
    """Logs in as zkgroup's client does; why that was refused, or None."""
    _, refusal = _asked(login, SaslHandshakeRequest(mechanism), 0 if bare else 1, now_s)
    client = client_login(mechanism, user, password)
    token = next(client)
    while refusal is None:
        if bare:
            assert not login.admits(token, now_s)
            taken = login.take(token, now_s)
            refusal, answer = taken.refusal, b"".join(taken.answer)[4:]
        else:
            came, refusal = _asked(login, SaslAuthenticateRequest(token), 2, now_s)
            answer = came.auth_bytes
        if refusal is None:
            try:
                token = client.send(answer)
            except StopIteration:
                return None
    return refusal


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
@pytest.mark.parametrize("bare", [False, True])
def test_a_client_logs_in_by_scram(mechanism: str, bare: bool) -> None:
    """With names and passwords of any characters, as Kafka hashes them; each side proves that it knows."""
    for user in ("alice", "a=b,c", "Jürgen", "User:x"):
        login = Login(sasl_listener({user: PASSWORD}))

        assert _log_in(login, mechanism, user, PASSWORD, bare=bare) is None
        assert login.principal == f"User:{user}"
        assert login.admits(METADATA, 0.0)


@pytest.mark.parametrize(
    ("user", "password"),
    [("alice", "wrong"), ("bob", PASSWORD), ("Alice", PASSWORD), ("alice", f"{PASSWORD} ")],
)
def test_a_wrong_password_and_an_unknown_user_look_the_same(user: str, password: str) -> None:
    """The text is Kafka's, and has nothing of what was sent; nothing is served afterwards."""
    login = Login(sasl_listener({"alice": PASSWORD}))

    refusal = _log_in(login, SHA_256, user, password)

    assert refusal == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism "
        "SCRAM-SHA-256"
    )
    assert (login.principal, login.is_done) == (ANONYMOUS, False)
    assert not login.admits(METADATA, 0.0)


def test_a_name_is_not_normalized() -> None:
    """Kafka takes it as it comes: with a ligature it is another user than without."""
    for user, is_known in (("ﬁ", True), ("fi", False)):
        login = Login(sasl_listener({"ﬁ": PASSWORD}))
        _asked(login, SaslHandshakeRequest(SHA_256), 1)
        _, refusal = _asked(login, SaslAuthenticateRequest(f"n,,n={user},r=abc".encode()), 2)
        assert (refusal is None) == is_known


def test_delegation_tokens_are_refused_by_name() -> None:
    """A client that has one is told so, and not that its password is wrong."""
    (recorded,) = (each for each in conversations() if each.case == TOKEN)

    *_, answer, end = _answers(Login(sasl_listener({"alice": PASSWORD})), recorded)

    assert isinstance(answer, bytes)
    assert b"delegation tokens are not supported" in answer
    assert end == "end"


def test_a_replayed_proof_is_refused() -> None:
    """The broker's nonce is another one in each login."""
    login = Login(sasl_listener({"alice": PASSWORD}))
    client = client_login(SHA_256, "alice", PASSWORD)
    _asked(login, SaslHandshakeRequest(SHA_256), 1)
    first = next(client)
    came, _ = _asked(login, SaslAuthenticateRequest(first), 2)
    final = client.send(came.auth_bytes)
    assert final is not None
    assert _asked(login, SaslAuthenticateRequest(final), 2)[1] is None

    other = Login(login.listener)
    _asked(other, SaslHandshakeRequest(SHA_256), 1)
    _asked(other, SaslAuthenticateRequest(first), 2)
    assert _asked(other, SaslAuthenticateRequest(final), 2)[1] is not None


def test_a_credential_that_changes_counts_for_the_next_login() -> None:
    """A user who is deleted stays connected, and cannot log in again."""
    users = ScramUsers()
    settings = SaslSettings(mechanisms=(SHA_256,), max_reauth_ms={SHA_256: REAUTH_MS})
    listener = SaslListener(
        exchanges=settings.exchanges(users, lambda _: None),
        max_reauth_ms=settings.max_reauth_ms,
        failure_delay_ms=0,
    )
    assert _log_in(Login(listener), SHA_256, "alice", "a") is not None, "nothing was read yet"
    for password in ("a", "b"):
        salt = password.encode() * 16
        users.changed("alice", {SHA_256: ScramCredential.of_password(SHA_256, password, 4096, salt)})
        login = Login(listener)
        assert _log_in(login, SHA_256, "alice", password) is None
    users.changed("alice", {})

    assert _log_in(Login(listener), SHA_256, "alice", "b") is not None
    assert login.admits(METADATA, 1.0)
    assert _log_in(login, SHA_256, "alice", "b", now_s=10.0) is not None


def test_a_session_ends_unless_the_client_logs_in_again() -> None:
    """Requests are served up to the end of the lifetime, and beyond it once the login was repeated."""
    login = Login(sasl_listener({"alice": PASSWORD}, max_reauth_ms=5_000))
    assert _log_in(login, SHA_512, "alice", PASSWORD) is None

    assert login.admits(METADATA, 5.0)
    with pytest.raises(EOFError, match="not logged in again"):
        login.admits(METADATA, 5.1)
    assert _log_in(login, SHA_512, "alice", PASSWORD, now_s=5.2) is None, "Kafka lets it, until it asks else"
    assert login.admits(METADATA, 10.2)


def test_a_connection_stays_that_of_its_user() -> None:
    """Another user or mechanism is refused, and ends the connection; so does a wrong password."""
    for mechanism, user, expected in (
        (SHA_256, "bob", "Cannot change principals"),
        (SHA_512, "alice", "is not supported for re-authentication of mechanism 'SCRAM-SHA-256'"),
        ("GSSAPI", "alice", "wants mechanism 'GSSAPI'"),
    ):
        login = Login(sasl_listener({"alice": PASSWORD, "bob": PASSWORD}))
        assert _log_in(login, SHA_256, "alice", PASSWORD) is None

        if mechanism == "GSSAPI":
            _, refusal = _asked(login, SaslHandshakeRequest(mechanism), 1, 10.0)
        else:
            refusal = _log_in(login, mechanism, user, PASSWORD, now_s=10.0)
        assert expected in (refusal or "")
        assert login.principal == "User:alice"


def test_a_login_is_not_repeated_at_will() -> None:
    """It is served, which refuses it, where sessions have no end, and within a second."""
    endless = Login(sasl_listener({"alice": PASSWORD}, max_reauth_ms=0))
    assert _log_in(endless, SHA_256, "alice", PASSWORD) is None
    login = Login(sasl_listener({"alice": PASSWORD}))
    assert _log_in(login, SHA_256, "alice", PASSWORD) is None
    assert _log_in(login, SHA_256, "alice", PASSWORD, now_s=10.0) is None

    for one, now_s in ((endless, 10.0), (login, 10.5)):
        assert one.admits(encode_request(SaslHandshakeRequest(SHA_256), 1, "c", version=1)[4:], now_s)
        assert one.admits(METADATA, now_s)
    assert _log_in(login, SHA_256, "alice", PASSWORD, now_s=11.0) is None


@pytest.mark.parametrize("frame", [b"", b"\0", b"\0\x11", b"\0\x11\0\x01", framed(b"x" * 100)])
def test_what_is_no_frame_of_a_login_ends_the_connection(frame: bytes) -> None:
    """Whatever the state."""
    for shaken in (False, True):
        login = Login(sasl_listener())
        if shaken:
            _asked(login, SaslHandshakeRequest("PLAIN"), 1)
        assert not login.admits(frame, 0.0)
        with pytest.raises(WireError):
            login.take(frame, 0.0)


def test_a_token_without_a_handshake_is_in_no_error() -> None:
    """Its first bytes are where a request has key, version and number: they may be of the password."""
    with pytest.raises(WireError) as caught:
        Login(sasl_listener()).take(b"\0a\0geheim", 0.0)
    assert str(caught.value).endswith("found other bytes")
    with pytest.raises(WireError, match="found API 3"):
        Login(sasl_listener()).take(METADATA, 0.0)
