"""Principals by certificates: what Kafka 2.8.2 and Java 17 make of the same rules and certificates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import Name, NameAttribute, ObjectIdentifier, RelativeDistinguishedName
from cryptography.x509.oid import NameOID

from zkgroup.errors import ConfigError
from zkgroup.security.principals import distinguished_name, parse_rules, principal_of

KEY = ec.generate_private_key(ec.SECP256R1())
Attributes = list[tuple[ObjectIdentifier, str]]
CN, O, OU = NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME  # noqa: E741


def certificate(*relatives: Attributes) -> bytes:
    """A certificate in DER with this subject."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    subject = Name([RelativeDistinguishedName([NameAttribute(*each) for each in one]) for one in relatives])
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(Name([NameAttribute(CN, "ca, x")]))
    builder = builder.public_key(KEY.public_key()).serial_number(2**80)
    builder = builder.not_valid_before(now).not_valid_after(now + timedelta(days=1))
    return builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.DER)


@pytest.mark.parametrize(
    ("relatives", "expected"),
    [
        (
            (
                [(NameOID.COUNTRY_NAME, "DE")],
                [(NameOID.LOCALITY_NAME, "München")],
                [(O, "A & B")],
                [(CN, "k")],
            ),
            "CN=k,O=A & B,L=München,C=DE",
        ),
        (([(O, "o")], [(CN, "multi"), (NameOID.USER_ID, "7")]), "CN=multi+UID=7,O=o"),
        (([(CN, " lead and trail  ")],), r"CN=\ lead and trail\ \ "),
        (([(CN, "   ")],), r"CN=\ \ \ "),
        (([(CN, "#h")], [(OU, 'a,+"\\<>;=#')]), r"OU=a\,\+\"\\\<\>\;\=\#,CN=\#h"),
        (([(NameOID.EMAIL_ADDRESS, "a@b.c")], [(CN, "x")]), "CN=x,1.2.840.113549.1.9.1=#16056140622e63"),
        (([(NameOID.SERIAL_NUMBER, "12")], [(NameOID.TITLE, "t")]), "2.5.4.12=#0c0174,2.5.4.5=#13023132"),
        (([(ObjectIdentifier("2.999.1234567.3"), "own")],), "2.999.1234567.3=#0c036f776e"),
        (([(NameOID.DOMAIN_COMPONENT, "org")], [(NameOID.STREET_ADDRESS, "s 1")]), "STREET=s 1,DC=org"),
        (([(CN, "é中😀\t\nx")],), "CN=é中😀\t\nx"),
        (([(CN, "n\0ul")],), r"CN=n\00ul"),
        ((), ""),
    ],
)
def test_a_subject_is_written_as_by_java(relatives: tuple[Attributes, ...], expected: str) -> None:
    """`X500Principal.getName()` of Java 17 gave these."""
    assert distinguished_name(certificate(*relatives)) == expected


USERS = "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^CN=(.*?),OU=(.*?),O=(.*?)$/$1@$2/L,"


@pytest.mark.parametrize(
    ("rules", "name", "expected"),
    [
        (USERS + "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U", "CN=kafka1,OU=ServiceUsers,O=x", "kafka1"),
        (USERS + "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U", "CN=Duke,OU=JavaSoft,O=Sun", "duke@javasoft"),
        (USERS + "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U", "OU=x,cn=me.you", "ME.YOU"),
        (USERS + "DEFAULT", "OU=x", "OU=x"),
        (USERS, "OU=x", None),
        ("DEFAULT", "CN=x", "CN=x"),
        (r"RULE:(x)\/y/$1\/z/", "x/y", "x/z"),
        (" RULE:x/y/ , DEFAULT", "x", "y"),
        ("RULE:CN=kafka/admin/,DEFAULT", "CN=kafka-imposter", "CN=kafka-imposter"),
        ("RULE:(.*)/$2/", "x", "$2$2"),
        ("RULE:(.*)/$12/", "x", "x22"),
        (r"RULE:C=(.)/a\$b$1/", "C=U", "a$bU"),
        (r"RULE:CN=([^,\\]+)\\,(.*)/$2|$1/", r"CN=a\,b,O=c", "b,O=c|a"),
        ("RULE:CN=a.b/x/", "CN=a\nb", None),
    ],
)
def test_rules_map_as_kafka_maps(rules: str, name: str, expected: str | None) -> None:
    """`SslPrincipalMapper` of Kafka 2.8.2 gave these; a name with a line end matches no rule here."""
    found = (rule.apply(name) for rule in parse_rules(rules))
    assert next((one for one in found if one is not None), None) == expected


@pytest.mark.parametrize(
    "rules",
    ["", "default", "RULE:a/b", "RULE:a/b/X", "RULE:(x/y)/b/", "RULE:x/y/L/U", "RULE:(/b/", "RULE:a/$x/"],
)
def test_what_is_no_rule_is_refused(rules: str) -> None:
    """Kafka refuses these too, but for the first and the last, which could let nobody in."""
    with pytest.raises(ConfigError):
        parse_rules(rules)


def test_a_principal_is_a_user() -> None:
    """The first rule that matches decides; without one there is no principal."""
    shown = certificate([(OU, "ops")], [(CN, "alice")])

    assert principal_of(shown, parse_rules("DEFAULT")) == "User:CN=alice,OU=ops"
    assert principal_of(shown, parse_rules("RULE:^CN=(.*?),.*$/$1/")) == "User:alice"
    assert principal_of(shown, parse_rules("RULE:^CN=bob,.*$/bob/")) is None
