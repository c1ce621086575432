"""Hashed passwords of the file of PLAIN users."""

from __future__ import annotations

import pytest

from zkgroup.errors import ConfigError
from zkgroup.security.passwords import hash_password, is_password


def test_a_hash_says_how_it_was_made_and_is_that_of_one_password() -> None:
    """The costs are in the text, so that later hashes may cost more; another salt gives another hash."""
    text = hash_password("geheim €", b"0123456789abcdef")

    assert text.startswith("$scrypt$ln=14,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZg$")
    assert is_password(text, "geheim €")
    assert not is_password(text, "geheim")
    assert hash_password("geheim €", b"another salt") != text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "secret",
        "$scrypt$ln=14,r=8,p=1$MDEy$",
        "$scrypt$ln=14,r=8,p=1$M$AAAA",
        "$scrypt$ln=30,r=8,p=1$MDEy$AAAA",
        "$scrypt$ln=14,r=99,p=1$MDEy$AAAA",
        "$scrypt$ln=14,r=8,p=99$MDEy$AAAA",
        "$2b$12$abcdefghijklmnopqrstuv",
    ],
)
def test_other_texts_and_costs_are_no_hashes(text: str) -> None:
    """A line of the file may not make a broker compute for minutes, or take its memory."""
    with pytest.raises(ValueError):
        is_password(text, "x")


def test_an_empty_password_has_no_hash() -> None:
    """Clients that send none would be let in by it."""
    with pytest.raises(ConfigError, match="found none"):
        hash_password("", b"salt")
