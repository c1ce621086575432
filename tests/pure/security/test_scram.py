"""SCRAM credentials: the bytes of Kafka's tools, and what is refused without a word of the secret."""

from __future__ import annotations

import pytest

from tests.worlds.golden_data import writes
from zkgroup.errors import ConfigError
from zkgroup.security.scram import ScramCredential
from zkgroup.znodes.config import EntityConfig

PATH = "/config/users/alice"
RECORDED = next(
    EntityConfig.decode(one.path, one.data).overrides["SCRAM-SHA-256"]
    for one in writes("kafka-2.8.2")
    if one.path == PATH and b"SCRAM" in (one.data or b"")
)
KAFKAS = {
    "SCRAM-SHA-256": "salt=MnVra3Q1aXMxajkxZ2YwMGs4c3dicTVzZg==,"
    "stored_key=uMXXePZNSVTHfYfZLdgmJHA/09UBAM+TrNdJD9EjX3Q=,"
    "server_key=FRZ9aAgwfv5tKhmGyFtuoDSXcqvqfXCxLrcgQhP6rso=,iterations=4096",
    "SCRAM-SHA-512": "salt=M243Y2MyZzJyZGFhd3UwNmV2czJyZDhheg==,stored_key=BGAym7w6Fw9IgpdtKreKLBIRrPDFQfK7"
    "aktdvM+8jnM5u+NSYVSJk/N95JfsnDByOsUql7BMGUFTe6VNVkM3wA==,server_key=B6nRi0c5iqq0yyH8I5K0GBi1ITVS8MtWE5Fg"
    "Nhbiy7kvQGpLX4JkZJdOuCXFrioSR7LQEULObrcTIV7lZh9e2A==,iterations=8192",
}
"""The credentials that `kafka-configs` 2.8.2 wrote for the password `a=b;c €ü`."""


def test_a_recorded_credential_is_that_of_its_password() -> None:
    """Kafka 2.8.2 wrote it for the password `alice-secret`; it is read and written byte for byte."""
    credential = ScramCredential.decode(PATH, "SCRAM-SHA-256", RECORDED)

    assert credential.encode() == RECORDED
    assert ScramCredential.of_password("SCRAM-SHA-256", "alice-secret", 4096, credential.salt) == credential


@pytest.mark.parametrize("mechanism", KAFKAS)
def test_a_password_is_its_utf8_bytes_as_in_kafka(mechanism: str) -> None:
    """Kafka prepares no text as SASLprep would: neither do its clients, so a prepared one would not fit."""
    text = KAFKAS[mechanism]
    kafkas = ScramCredential.decode(PATH, mechanism, text)

    ours = ScramCredential.of_password(mechanism, "a=b;c €ü", kafkas.iterations, kafkas.salt)

    assert ours.encode() == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "salt",
        RECORDED.replace("iterations=4096", "iterations=x"),
        RECORDED.replace("iterations=4096", "iterations=-1"),
        RECORDED.replace(",iterations=4096", ""),
        f"{RECORDED},more=1",
        RECORDED.replace("server_key=C", "server_key=!"),
        RECORDED.replace("stored_key=", "stored_key=AAAA"),
        RECORDED.replace("salt=Zml4ZWRzYWx0MTIzNDU2Nw==", "salt="),
    ],
)
def test_what_is_no_credential_is_refused_without_its_text(text: str) -> None:
    """The error names the znode and the mechanism; the keys are secrets, so none of the text is shown."""
    with pytest.raises(ConfigError) as caught:
        ScramCredential.decode(PATH, "SCRAM-SHA-256", text)

    assert str(caught.value).startswith("/config/users/alice: expected salt=...,stored_key=...,")
    assert "mWE" not in str(caught.value)


@pytest.mark.parametrize(("password", "iterations"), [("", 4096), ("x", 4095), ("x", 16385)])
def test_a_password_or_iterations_that_kafka_refuses(password: str, iterations: int) -> None:
    """Both bounds are those of Kafka's brokers."""
    with pytest.raises(ConfigError, match="expected"):
        ScramCredential.of_password("SCRAM-SHA-512", password, iterations, b"salt")


def test_a_credential_prints_no_secret() -> None:
    """Its text form is in logs and assertions of tests: only the iterations show."""
    credential = ScramCredential.decode(PATH, "SCRAM-SHA-256", RECORDED)

    assert repr(credential) == "ScramCredential(iterations=4096)"
