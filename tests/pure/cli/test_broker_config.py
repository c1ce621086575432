"""`broker run --config FILE`: settings under Kafka's names, and listeners."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.worlds.certificates import Authority
from tests.worlds.shell import Ran, Shell

LISTENERS = (
    "listeners=A://127.0.0.1:0,B://127.0.0.1:0\nlistener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT\n"
)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def dry(shell: Shell, text: str, *words: str) -> Ran:
    (shell.home / "server.properties").write_text(text)
    quick = ("--id", "7", "-z", "127.0.0.1:1", "--dry-run", "--config", str(shell.home / "server.properties"))
    return shell.run("broker", "run", *quick, *words)


def test_a_file_has_every_setting_and_the_options_precede_it(shell: Shell) -> None:
    """Also of listeners; a value of the file that is not used may be wrong only in what it is for."""
    text = "replica.lag.time.max.ms=5s\nmin_insync_replicas=2\n" + LISTENERS

    assert dry(shell, text, "--set", "inter.broker.listener.name=A").code == 0
    both = dry(shell, "host=127.0.0.1\n" + text)
    assert (both.code, "server.properties: unknown setting 'host'" in both.err) == (2, True)
    assert dry(shell, "min.insync.replicas=0", "--set", "min_insync_replicas=1").code == 0


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        (LISTENERS, (), "setting inter.broker.listener.name: expected an advertised listener (A, B)"),
        (LISTENERS, ("--port", "9092"), "--host and --port are one plain listener"),
        ("broker.id=7", (), "server.properties: setting broker.id: is the option --id here"),
        ("min.insync.replicas=two", (), "server.properties: setting min_insync_replicas: expected"),
        ("listeners=PLAINTEXT://h:1\nadvertised.port=2", (), "set advertised.listeners instead"),
        ("listeners=SASL_SSL://h:1\nsecurity.inter.broker.protocol=SASL_SSL", (), "found GSSAPI"),
        ("x=\\u1", (), "server.properties, line 1: expected four"),
        ("", ("--set", "ssl.key.password=canary"), "has its place in --config FILE"),
    ],
)
def test_what_does_not_fit_is_refused_before_it_starts(
    shell: Shell, text: str, words: tuple[str, ...], message: str
) -> None:
    """Exit code 2, with the file where it is of the file."""
    ran = dry(shell, text, *words)

    assert (ran.code, message in ran.err) == (2, True), ran


def test_brokers_that_would_refuse_each_other_are_told(shell: Shell) -> None:
    """With an authorizer: else the cluster starts, and no broker leads or follows anything."""
    acls = "authorizer.class.name=zkgroup\n"
    plain = f"{LISTENERS}inter.broker.listener.name=A\n"
    login = (
        "listeners=SASL_PLAINTEXT://127.0.0.1:0\nsecurity.inter.broker.protocol=SASL_PLAINTEXT\n"
        "sasl.enabled.mechanisms=PLAIN\nsasl.mechanism.inter.broker.protocol=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required"
        ' username="b" password="canary" user_b="canary";\n'
    )
    needs = "--operation cluster_action --cluster`"
    for text, user in ((plain, "User:ANONYMOUS"), (login, "User:b")):
        ran = dry(shell, text + acls + "super.users=User:other")
        assert (ran.code, f"{user}, as whom brokers" in ran.err, needs in ran.err) == (0, True, True), ran
        for fits in (text, f"{text}{acls}super.users={user}"):
            assert needs not in dry(shell, fits).err


def test_a_dry_run_checks_certificates(shell: Shell) -> None:
    """Key, chain, names, validity and rules; it says until when."""
    authority, stranger = Authority(shell.home), Authority(shell.home, "stranger")
    past, later = datetime(2020, 1, 1, tzinfo=UTC), datetime(2099, 1, 2, tzinfo=UTC)
    good = authority.key_store("good", password="canary", not_after=later)
    other = authority.key_store("other", "other.example.org")
    torn = shell.home / "torn.pem"
    mark = "-----BEGIN CERT"
    key, certificates = (path.read_text() for path in (other, authority.key_store("fits")))
    torn.write_text(key[: key.index(mark)] + certificates[certificates.index(mark) :])

    def checked(
        key_store: Path, trust_store: Path = authority.trust_store, inter: str = "SSL", rules: str = "DEFAULT"
    ) -> Ran:
        lines = (
            "listeners=SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
            f"inter.broker.listener.name={inter}",
            f"ssl.keystore.type=PEM\nssl.keystore.location={key_store}",
            f"ssl.truststore.type=PEM\nssl.truststore.location={trust_store}",
            f"ssl.key.password=canary\nssl.principal.mapping.rules={rules}",
        )
        return dry(shell, "\n".join(lines))

    for fits in (checked(good), checked(good, stranger.trust_store, "PLAINTEXT")):
        assert fits.code == 0
        assert "listener SSL: its certificate fits, and is valid until 2099-01-02 00:00 UTC" in fits.err
    for reason, ran in {
        "IP address mismatch": checked(other),
        "certificate has expired": checked(authority.key_store("old", not_after=past)),
        "unable to get local issuer certificate": checked(good, stranger.trust_store),
        "KEY_VALUES_MISMATCH": checked(torn),
        "password of an encrypted key": checked(authority.key_store("locked", password="another")),
        "cannot be read": checked(shell.home / "none.pem"),
        "expected DEFAULT or RULE:": checked(good, rules="LOWER"),
    }.items():
        assert (ran.code, "listener SSL: " in ran.err, reason in ran.err) == (2, True, True), ran
        assert "canary" not in ran.err
