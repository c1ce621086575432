"""Kafka's client settings as a `ClientSecurity`, and JAAS entries."""

from __future__ import annotations

import re

import pytest
import scramp

from zkgroup.errors import ConfigError
from zkgroup.security.client import ClientSecurity, LoginRefusedError
from zkgroup.security.jaas import PLAIN_MODULE, SCRAM_MODULE, parse_jaas
from zkgroup.security.scram import ScramCredential
from zkgroup.security.secret import Secret
from zkgroup.security.tls import TlsSettings

SCRAM = f'{SCRAM_MODULE} required username="alice" password="canary";'
LOGIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": SCRAM}


def test_settings_of_other_subjects_are_not_looked_at() -> None:
    """Nor are those of a protocol that is not used, as in Kafka."""
    assert ClientSecurity.of({"client.id": "me"}) == ClientSecurity()
    assert ClientSecurity.of({"ssl.keystore.location": "k.jks"}) == ClientSecurity()  # as in Kafka: unused


def test_a_user_and_certificates() -> None:
    """All that a client of SASL_SSL can name; its secrets are not printed."""
    pem = {"ssl.keystore.type": "PEM", "ssl.keystore.location": "k", "ssl.key.password": "canary"}
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": "t"}
    found = ClientSecurity.of({**LOGIN, **pem, **trust, "ssl.endpoint.identification.algorithm": ""})
    assert found == ClientSecurity(
        protocol="SASL_SSL",
        tls=TlsSettings(
            trust_store="t", key_store="k", key_password=Secret("canary"), check_host_names=False
        ),
        mechanism="SCRAM-SHA-512",
        username="alice",
        password=Secret("canary"),
    )
    assert "canary" not in repr(found)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"security.protocol": "TLS"}, "security.protocol: expected one of PLAINTEXT, .* found 'TLS'"),
        ({"sasl.mechanism": "GSSAPI"}, "sasl.mechanism: expected one of PLAIN, .* found 'GSSAPI'"),
        ({"sasl.mechanism": "PLAIN"}, f"expected {PLAIN_MODULE} for sasl.mechanism PLAIN"),
        ({"sasl.jaas.config": SCRAM.replace('password="canary"', "")}, "a username and a password"),
        ({"sasl.jaas.config": SCRAM.replace(";", " tokenauth=true;")}, "tokenauth is not supported"),
        ({"ssl.truststore.location": "t.jks"}, "ssl.truststore.type: expected PEM .* found JKS"),
        ({"ssl.endpoint.identification.algorithm": "ldap"}, "expected https, or nothing"),
        ({"ssl.cipher.suites": "canary"}, "ssl.cipher.suites is not supported"),
        ({"sasl.login.class": "canary"}, "sasl.login.class is not supported"),
    ],
)
def test_what_cannot_be_done_is_refused(changes: dict[str, str], expected: str) -> None:
    """A client must not be less secure than its settings say; nothing repeats a value that may be secret."""
    with pytest.raises(ConfigError, match=expected) as wrong:
        ClientSecurity.of({**LOGIN, **changes})
    assert "canary" not in str(wrong.value)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f"{PLAIN_MODULE} required;", {}),
        (f"{PLAIN_MODULE} REQUIRED\n  username=alice user_bob='b\"ob' // end\n;", None),
        (f'/* a */ {PLAIN_MODULE} optional password="a;=\\"\\\\\\101\\t";', {"password": 'a;="\\A\t'}),
    ],
)
def test_a_jaas_entry(text: str, options: dict[str, str] | None) -> None:
    """Values in quotes of both kinds, escapes and comments; options are not printed."""
    entry = parse_jaas(text)
    assert entry.module == PLAIN_MODULE
    assert entry.options == ({"username": "alice", "user_bob": 'b"ob'} if options is None else options)
    assert repr(entry) == f"JaasEntry(module='{PLAIN_MODULE}')"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "the class of a login module first"),
        ("com.sun.security.auth.module.Krb5LoginModule required;", "expected one of .*, found com.sun"),
        (PLAIN_MODULE, "expected one of required"),
        (f"{PLAIN_MODULE} username=canary;", "expected one of required"),
        (f"{PLAIN_MODULE} required", "';' at the end"),
        (f'{PLAIN_MODULE} required "canary";', "a value after a text in quotes"),
        (f"{PLAIN_MODULE} required password;", "a value after password"),
        (f"{PLAIN_MODULE} required password=;", "a value in quotes for password"),
        (f"{PLAIN_MODULE} required password=1234;", "a value in quotes for password"),
        (f'{PLAIN_MODULE} required password="canary', "expected words"),
        (f"{PLAIN_MODULE} required; {PLAIN_MODULE} required;", "expected one login module"),
    ],
)
def test_a_jaas_text_that_kafka_refuses(text: str, expected: str) -> None:
    """The error names the place, and no value."""
    with pytest.raises(ConfigError, match=f"sasl.jaas.config: .*{expected}") as wrong:
        parse_jaas(text)
    assert not re.search("canary|1234", str(wrong.value))


def test_passwords_are_hashed_as_kafka_hashes_them() -> None:
    """Kafka applies no SASLprep: a ligature stays one (ScramFormatter.normalize)."""
    salt, mechanism = b"salt" * 4, "SCRAM-SHA-256"
    kept = ScramCredential.of_password(mechanism, "\ufb01", 4096, salt)
    login = ClientSecurity(
        protocol="SASL_PLAINTEXT", mechanism=mechanism, username="a=b,c", password=Secret("\ufb01")
    ).login()
    server = scramp.ScramMechanism(mechanism).make_server(
        lambda user: {"a=b,c": (salt, kept.stored_key, kept.server_key, 4096)}[user]
    )
    server.set_client_first(next(login).decode())
    server.set_client_final(login.send(server.get_server_first().encode()).decode())
    with pytest.raises(StopIteration):
        login.send(server.get_server_final().encode())


@pytest.mark.parametrize(
    "answer", [b"\xff", b"", b"r=x,s=c2FsdHNhbHRzYWx0,i=4096", b"e=other-error", b"r=\n" * 500]
)
def test_an_answer_that_is_not_one_of_scram(answer: bytes) -> None:
    """Bytes that are no text, a nonce of another client, an error of the broker."""
    login = ClientSecurity.of(LOGIN).login()
    next(login)
    with pytest.raises(LoginRefusedError, match="does not prove") as refused:
        login.send(answer)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 300


def test_a_broker_cannot_keep_a_client_busy() -> None:
    """Iterations that would take seconds are not computed."""
    login = ClientSecurity.of(LOGIN).login()
    nonce = next(login).decode().rpartition("r=")[2]
    with pytest.raises(LoginRefusedError, match="more than 100000 iterations"):
        login.send(f"r={nonce}0,s=c2FsdHNhbHRzYWx0,i=10000000".encode())
