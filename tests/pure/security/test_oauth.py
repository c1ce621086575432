"""Logins by tokens: which tokens a broker takes, the messages of RFC 7628, and the settings of both sides."""

from __future__ import annotations

import base64
import hmac
import json
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.worlds.tokens import JAAS, MODULE, Issuer, of_client
from zkgroup.broker.server.logins import Login, SaslListener
from zkgroup.errors import ConfigError
from zkgroup.security import oauth
from zkgroup.security.client import ClientSecurity
from zkgroup.security.oauth import BearerExchange, TokenChecker, TokenRefusedError, TokenSettings
from zkgroup.security.sasl import LoginFailedError, ScramUsers
from zkgroup.security.sasl_settings import SaslSettings, inter_broker_login, is_of_sasl
from zkgroup.wire.messages import decode_response, encode_request
from zkgroup.wire.metadata import MetadataRequest
from zkgroup.wire.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest

jwk, jws = map(pytest.importorskip, ("joserfc.jwk", "joserfc.jws"))
ENABLED = {"sasl.enabled.mechanisms": "OAUTHBEARER"}
METADATA = encode_request(MetadataRequest.of("t"), 1, "c")[4:]


@pytest.fixture
def issuer(tmp_path: Path) -> Issuer:
    return Issuer(tmp_path)


def checker(issuer: Issuer, /, **settings: Any) -> TokenChecker:
    return TokenChecker(TokenSettings(keys=issuer.keys, **settings), lambda _: None)


def refusal(checker: TokenChecker, token: str, now_s: float | None = None) -> str | None:
    """Why a token is refused; None if it is not."""
    try:
        checker.checked(token, time.time() if now_s is None else now_s)
    except TokenRefusedError as error:
        return str(error)
    return None


def test_a_token_names_its_user_and_how_long_it_counts(issuer: Issuer) -> None:
    """By EC and RSA keys; the kind of claim is the setting's, and a far end of its time stays a number."""
    rsa = jwk.RSAKey.generate_key(2048, {"kid": "rsa"})
    issuer.publish(issuer.key.as_dict(private=False), rsa.as_dict(private=False))
    one, now_s = checker(issuer), time.time()

    assert one.checked(issuer.token("alice", exp=now_s + 60), now_s) == ("alice", 60_000)
    for algorithm in ("RS256", "PS512"):
        assert one.checked(issuer.token("bob", key=rsa, algorithm=algorithm), now_s)[0] == "bob"
    by_mail = checker(issuer, user_claim="mail")
    assert (
        by_mail.checked(issuer.token(mail="alice@example.org", exp=10**400), now_s)[0] == "alice@example.org"
    )


NOT_SIGNED = "it is not signed by one of the keys"


def _unsecured(issuer: Issuer) -> str:
    return issuer.token(algorithm="none")


def _confused(issuer: Issuer) -> str:
    """Signed with the public key as the password of an HMAC."""
    header = {"alg": "HS256", "kid": issuer.key.kid}
    signed = ".".join((_base64(json.dumps(header).encode()), issuer.token().split(".")[1]))
    return f"{signed}.{_base64(hmac.digest(issuer.key.as_pem(private=False), signed.encode(), 'sha256'))}"


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _by_its_own_key(issuer: Issuer) -> str:
    """The header brings the key that fits."""
    other = jwk.ECKey.generate_key("P-256", {"kid": issuer.key.kid})
    header = {"alg": "ES256", "kid": issuer.key.kid, "jwk": other.as_dict(private=False)}
    return jws.serialize_compact(header, json.dumps({"sub": "alice"}), other)


def _half(issuer: Issuer) -> str:
    return issuer.token().rpartition(".")[0] + "."


def _of_other_claims(issuer: Issuer) -> str:
    one, other = issuer.token("alice").split("."), issuer.token("root").split(".")
    return ".".join((one[0], other[1], one[2]))


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
@pytest.mark.parametrize("forged", [_unsecured, _confused, _by_its_own_key, _half, _of_other_claims])
def test_a_token_that_the_issuer_has_not_signed_is_refused(
    issuer: Issuer, forged: Callable[[Issuer], str]
) -> None:
    """Also where the file has a key that is a password."""
    issuer.publish(issuer.key.as_dict(private=False), {"kty": "oct", "k": "c2VjcmV0" * 6, "kid": "oct"})

    assert refusal(checker(issuer), forged(issuer)) == NOT_SIGNED


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": None}, "its claim exp is not as expected"),
        ({"exp": "soon"}, "its claim exp is not as expected"),
        ({"exp": 1}, "it has expired"),
        ({"iat": None}, "its claim iat is not as expected"),
        ({"iat": 10**12}, "its claim iat is not as expected"),
        ({"nbf": 10**12}, "its claim nbf is not as expected"),
        ({"sub": None}, "its claim sub is not as expected"),
        ({"sub": " "}, "its claim sub is not as expected"),
        ({"sub": ["alice"]}, "its claim sub is not as expected"),
        ({"iss": None}, "its claim iss is not as expected"),
        ({"iss": "https://other"}, "its claim iss is not as expected"),
        ({"aud": None}, "its claim aud is not as expected"),
        ({"aud": ["others"]}, "its claim aud is not as expected"),
        ({"aud": ["others", "kafka"]}, None),
    ],
)
def test_each_claim_is_checked(issuer: Issuer, claims: dict[str, Any], reason: str | None) -> None:
    """As in Kafka 3.9.1, where issuer and audience are set."""
    one = checker(issuer, issuer="https://issuer", audiences=("kafka", "second"))

    assert refusal(one, issuer.token(**{"iss": "https://issuer", "aud": "kafka", **claims})) == reason


def test_a_token_for_an_audience_is_refused_where_none_is_set(issuer: Issuer) -> None:
    """It is for somebody else (RFC 7519, 4.1.3); Kafka refuses it, too."""
    assert refusal(checker(issuer), issuer.token(aud="others")) == "its claim aud is not as expected"
    assert refusal(checker(issuer), issuer.token()) is None


def test_clocks_may_differ_by_the_setting(issuer: Issuer) -> None:
    """At the end of a token and at its begin."""
    token = issuer.token(iat=1000, nbf=1000, exp=2000)
    one = checker(issuer, clock_skew_s=30)

    found = [refusal(one, token, now_s) is None for now_s in (969, 970, 2029, 2030)]
    assert found == [False, True, True, False]
    assert one.checked(token, 2029.0) == ("alice", 1), "its session ends at once"


def test_a_name_that_is_no_text_is_refused(issuer: Issuer) -> None:
    """Half of a surrogate pair could be in no answer."""
    claims = json.dumps({"sub": "\ud800", "iat": 1, "exp": 10**10})
    token = jws.serialize_compact({"alg": "ES256", "kid": issuer.key.kid}, claims, issuer.key)
    assert refusal(checker(issuer), token) == NOT_SIGNED


def test_the_file_of_keys_is_read_again_when_it_changes(issuer: Issuer, tmp_path: Path) -> None:
    """While it cannot be used, keys are as they were; the fault names the file."""
    faults: list[str] = []
    one = TokenChecker(TokenSettings(keys=issuer.keys), faults.append)
    former = issuer.token()
    issuer.rotate()
    assert (refusal(one, former), refusal(one, issuer.token())) == (NOT_SIGNED, None)

    issuer.publish({"kty": "oct", "k": "AAAA"})
    assert refusal(one, issuer.token()) is None
    issuer.keys.unlink()
    assert refusal(one, issuer.token()) is None
    assert [fault.partition(":")[0] for fault in faults] == [str(issuer.keys)] * 2


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"keys":[]}', '{"keys":[{}]}', '{"keys":[{"kty":"RSA"}]}'])
def test_a_file_that_is_no_set_of_keys_is_refused_at_the_start(tmp_path: Path, text: str) -> None:
    """One that others may write is warned of."""
    path = tmp_path / "keys.json"
    path.write_text(text, "utf-8")
    with pytest.raises(ConfigError, match=f"{path}: expected public keys in JSON"):
        TokenChecker(TokenSettings(keys=path), lambda _: None)


def test_a_file_of_keys_that_others_may_write_is_warned_of(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever writes it can log in as anybody."""
    caplog.set_level(logging.WARNING, "zkgroup.security")
    issuer.keys.chmod(0o666)
    checker(issuer)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [str(issuer.keys)]


def login(issuer: Issuer, max_reauth_ms: int = 0) -> Login:
    settings = SaslSettings(mechanisms=("OAUTHBEARER",), tokens=TokenSettings(keys=issuer.keys))
    return Login(
        SaslListener(
            exchanges=settings.exchanges(ScramUsers(), lambda _: None),
            max_reauth_ms={"OAUTHBEARER": max_reauth_ms},
            failure_delay_ms=0,
        )
    )


def answered(login: Login, token: bytes, now_s: float = 0.0) -> SaslAuthenticateResponse:
    frame = encode_request(SaslAuthenticateRequest(token), 7, "c", version=2)[4:]
    taken = b"".join(login.take(frame, now_s).answer)
    found = decode_response(SaslAuthenticateResponse, taken[4:], version=2)[1]
    assert isinstance(found, SaslAuthenticateResponse)
    return found


def shaken(login: Login, now_s: float = 0.0) -> Login:
    frame = encode_request(SaslHandshakeRequest("OAUTHBEARER"), 7, "c", version=1)[4:]
    assert not login.admits(frame, now_s)
    login.take(frame, now_s)
    return login


def test_a_session_lasts_as_long_as_its_token(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or shorter, by `connections.max.reauth.ms`; then the client shows the next token (KIP-368)."""
    monkeypatch.setattr(oauth.time, "time", lambda: 1000.0)
    first = oauth.first_message(issuer.token(iat=1000, exp=1005))
    one = shaken(login(issuer))

    assert answered(one, first).session_lifetime_ms == 5_000
    assert one.principal == "User:alice"
    assert one.admits(METADATA, 5.0)
    with pytest.raises(EOFError):
        one.admits(METADATA, 5.1)
    again = oauth.first_message(issuer.token(iat=1000, exp=1060))
    assert answered(shaken(one, 5.2), again, 5.2).session_lifetime_ms == 60_000
    assert one.admits(METADATA, 65.0)
    assert answered(shaken(login(issuer, 2_000)), first).session_lifetime_ms == 2_000


def test_a_refused_token_is_answered_as_the_rfc_says(issuer: Issuer) -> None:
    """A JSON text, as Kafka's; the client's next token gets the error, and no other one lets it in."""
    good = oauth.first_message(issuer.token())
    for then in (b"\1", good):
        one = shaken(login(issuer))
        told = answered(one, oauth.first_message(issuer.token(exp=1)))
        assert (told.error, told.auth_bytes) == (0, b'{"status":"invalid_token"}')
        assert not one.is_done
        failed = answered(one, then)
        assert (failed.error, failed.error_message) == (58, '{"status":"invalid_token"}: it has expired')


@pytest.mark.parametrize(
    ("message", "is_taken"),
    [
        ("n,,\1auth=Bearer {}\1\1", True),
        ("n,a=alice,\1auth=bearer  {}\1logicalCluster=l\1\1", True),
        ("n,,\1host=h\1port=9092\1auth=Bearer {}\1\1", True),
        ("n,a=root,\1auth=Bearer {}\1\1", False),
        ("y,,\1auth=Bearer {}\1\1", False),
        ("p=tls-unique,,\1auth=Bearer {}\1\1", False),
        ("n,,\1auth=Bearer {}\1", False),
        ("n,,\1auth=Basic {}\1\1", False),
        ("n,,\1auth={}\1\1", False),
        ("n,,\1\1", False),
        ("", False),
        ("\1", False),
    ],
)
def test_the_first_message(issuer: Issuer, message: str, is_taken: bool) -> None:
    """Its form is that of RFC 7628; another user than the token's is refused, and no text has the token."""
    token = issuer.token()
    exchange = BearerExchange(checker(issuer))
    if is_taken:
        assert exchange.take(message.format(token).encode()).user == "alice"
        return
    with pytest.raises(LoginFailedError) as refused:
        exchange.take(message.format(token).encode())
    assert token not in str(refused.value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_whatever_is_sent_lets_in_the_user_of_the_token_or_nobody(
    issuer: Issuer, data: st.DataObject
) -> None:
    """Bytes of any kind, and messages in which some are others."""
    message = bytearray(oauth.first_message(issuer.token()))
    for at, byte in data.draw(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 255)))):
        message[at % len(message)] = byte
    one = checker(issuer)
    for sent in (bytes(message), data.draw(st.binary())):
        with suppress(LoginFailedError):
            assert BearerExchange(one).take(sent).user in (None, "alice")


def test_the_settings_of_a_listener(issuer: Issuer) -> None:
    """By their names in Kafka, with each prefix; a broker logs in to others by a token, too."""
    rest = {
        "oauthbearer.sasl.oauthbearer.expected.issuer": "https://issuer",
        "sasl.oauthbearer.expected.audience": "a, b",
        "listener.name.out.sasl.oauthbearer.sub.claim.name": "mail",
        "sasl.oauthbearer.clock.skew.seconds": "5",
    }
    client = {name: value for name, value in of_client(Path("/t")).items() if name.startswith("sasl.oauth")}
    properties = {
        **ENABLED, **issuer.of_broker("OUT"), **rest, **client,
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
    }  # fmt: skip

    found = SaslSettings.of(properties, "OUT")

    assert found.tokens == TokenSettings(
        keys=issuer.keys, issuer="https://issuer", audiences=("a", "b"), user_claim="mail", clock_skew_s=5
    )
    assert all(is_of_sasl(name) for name in properties if name != "sasl.mechanism.inter.broker.protocol")
    among = ClientSecurity.of({"security.protocol": "SASL_SSL", **inter_broker_login(properties, "OUT")})
    assert among.token_file == Path("/t")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sasl.oauthbearer.jwks.endpoint.url": ""}, "endpoint.url: expected file:///PATH, found none"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "https://h/k"}, "file:///PATH, found https://h/k"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "file://host/k"}, "file:///PATH, found file://host/k"),
        (
            {"sasl.oauthbearer.jwks.endpoint.url": "file:///no%20such"},
            "/no such: the file of keys cannot be read",
        ),
        ({"sasl.oauthbearer.clock.skew.seconds": "x"}, "expected seconds, found 'x'"),
        (
            {"sasl.jaas.config": f'{MODULE} required unsecuredLoginStringClaim_sub="a";'},
            "expected no options",
        ),
        (
            {"oauthbearer.sasl.server.callback.handler.class": "com.example.Mine"},
            "class: expected one of org.apache.kafka.* found com.example.Mine",
        ),
    ],
)
def test_what_is_not_supported_is_refused_by_name(issuer: Issuer, changes: dict[str, str], said: str) -> None:
    """Nothing is fetched, no class is loaded, and no token is unsecured."""
    keys = {"sasl.oauthbearer.jwks.endpoint.url": issuer.keys.as_uri()}
    with pytest.raises(ConfigError, match=said):
        SaslSettings.of({**ENABLED, **keys, **changes}, "L")


def test_a_client_reads_its_token_at_each_login(issuer: Issuer) -> None:
    """So the file may be replaced by one with the next token."""
    security = ClientSecurity.of(of_client(issuer.token_file()))
    exchange = BearerExchange(checker(issuer))
    assert exchange.take(next(security.login())).user == "alice"
    issuer.rotate()
    issuer.token_file()
    assert BearerExchange(checker(issuer)).take(next(security.login())).user == "alice"
    provider = security.kafka_python_options()["sasl_oauth_token_provider"]
    assert refusal(checker(issuer), provider.token()) is None


def test_a_client_ends_a_login_that_is_refused(issuer: Issuer) -> None:
    """With the byte after which the broker sends the error."""
    tokens = ClientSecurity.of(of_client(issuer.token_file())).login()
    next(tokens)
    assert tokens.send(b'{"status":"invalid_token"}') == b"\1"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sasl.oauthbearer.token.endpoint.url": "https://h/t"}, "expected file:///PATH, found https://h/t"),
        (
            {"sasl.jaas.config": JAAS.replace(";", ' clientId="canary";')},
            "no options .*found clientId",
        ),
        ({"sasl.login.callback.handler.class": "com.example.Mine"}, "found com.example.Mine"),
        ({"sasl.mechanism": "PLAIN"}, "expected .*PlainLoginModule"),
    ],
)
def test_what_a_client_cannot_do_is_refused(tmp_path: Path, changes: dict[str, str], said: str) -> None:
    """With the setting, and no secret."""
    with pytest.raises(ConfigError, match=said) as caught:
        ClientSecurity.of({**of_client(tmp_path / "t"), **changes})
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"), [("a b", "a token alone"), ("ä", "expected ASCII"), (None, "No such")]
)
def test_a_file_that_is_no_token_is_named(tmp_path: Path, text: str | None, said: str) -> None:
    """Not what is in it."""
    path = tmp_path / "t"
    if text is not None:
        path.write_text(text, "utf-8")
        path.chmod(0o600)
    with pytest.raises(ConfigError, match=f"{path}: .*{said}"):
        next(ClientSecurity.of(of_client(path)).login())
