"""Which logins a listener offers, by the settings of Kafka's brokers; and the file of PLAIN users."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zkgroup.errors import ConfigError
from zkgroup.security.passwords import PasswordFile, hash_password
from zkgroup.security.sasl_settings import SaslSettings, is_of_sasl

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="b" user_alice="geheim";'
SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="b" password="geheim";'
BOTH = {"sasl.enabled.mechanisms": "SCRAM-SHA-256, PLAIN", "sasl.jaas.config": PLAIN}


def test_the_prefix_of_a_listener_comes_first() -> None:
    """Then that of the mechanism alone, then the bare name; the listener's is in lower case, as in Kafka."""
    properties = {
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.out.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.out.plain.sasl.jaas.config": PLAIN,
        "listener.name.out.scram-sha-512.sasl.jaas.config": SCRAM,
        "sasl.jaas.config": PLAIN.replace("alice", "bob"),
        "connections.max.reauth.ms": "5000",
        "plain.connections.max.reauth.ms": "6000",
        "listener.name.out.plain.connections.max.reauth.ms": "7000",
        "connection.failed.authentication.delay.ms": "0",
    }

    out, other = SaslSettings.of(properties, "OUT"), SaslSettings.of(properties, "IN")

    assert (out.mechanisms, list(out.plain_users)) == (("PLAIN", "SCRAM-SHA-512"), ["alice"])
    assert (other.mechanisms, list(other.plain_users)) == (("PLAIN",), ["bob"])
    assert out.max_reauth_ms == {"PLAIN": 7000, "SCRAM-SHA-512": 5000}
    assert other.max_reauth_ms == {"PLAIN": 6000}
    assert (out.failure_delay_ms, out.uses_scram, other.uses_scram) == (0, True, False)
    assert all(map(is_of_sasl, properties))


def test_an_entry_without_a_prefix_is_that_of_its_module() -> None:
    """One serves PLAIN beside SCRAM, whose users are in ZooKeeper. Options of clients are no users."""
    found = SaslSettings.of(BOTH, "L")

    assert list(found.plain_users) == ["alice"]
    assert found.plain_users["alice"].reveal() == "geheim"
    assert (found.failure_delay_ms, found.max_reauth_ms) == (100, {"SCRAM-SHA-256": 0, "PLAIN": 0})
    assert "geheim" not in repr(found)


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({}, "expected some of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, found GSSAPI"),
        ({**BOTH, "sasl.enabled.mechanisms": "plain"}, "found plain"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, "listener L: expected users of PLAIN"),
        (
            {"sasl.enabled.mechanisms": "PLAIN", "sasl.jaas.config": SCRAM},
            "listener L: expected users of PLAIN",
        ),
        ({**BOTH, "plain.sasl.jaas.config": SCRAM}, "plain.sasl.jaas.config: expected org.apache"),
        ({**BOTH, "plain.sasl.jaas.config": "com.example.Module required;"}, "found com.example.Module"),
        ({**BOTH, "connections.max.reauth.ms": "soon"}, "connections.max.reauth.ms: expected milliseconds"),
        ({**BOTH, "connection.failed.authentication.delay.ms": "-1"}, "delay.ms: expected milliseconds"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(properties: dict[str, str], said: str) -> None:
    """With the setting, as it is written, and no secret."""
    with pytest.raises(ConfigError) as caught:
        SaslSettings.of(properties, "L")

    assert said in str(caught.value)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "sasl.kerberos.service.name",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "delegation.token.master.key",
        "sasl.x",
    ],
)
def test_other_settings_of_sasl_are_not_these(name: str) -> None:
    """So a broker refuses them as unknown."""
    assert not is_of_sasl(name)


def _written(file: Path, **passwords: str) -> None:
    lines = [f"{user}:{hash_password(password, user.encode() * 8)}" for user, password in passwords.items()]
    new = file.with_suffix(".new")
    new.write_text("\n# users\n" + "\n".join(lines) + "\n", encoding="utf-8")
    new.replace(file)


def test_the_file_of_users_is_read_again_when_it_changes(tmp_path: Path) -> None:
    """While it cannot be read, or a line of it, users are as they were; the fault names file and line."""
    path, faults = tmp_path / "users", list[str]()
    _written(path, alice="a")
    file = PasswordFile(path, faults.append)

    assert [file.accepts(*one) for one in (("alice", "a"), ("alice", "b"), ("bob", "a"))] == [
        True,
        False,
        False,
    ]
    _written(path, alice="b", bob="c")
    assert [file.accepts(*one) for one in (("alice", "a"), ("alice", "b"), ("bob", "c"))] == [
        False,
        True,
        True,
    ]
    path.write_text("alice:geheim\n", encoding="utf-8")
    assert file.accepts("bob", "c")
    path.unlink()
    assert file.accepts("bob", "c")
    _written(path, bob="d")
    assert file.accepts("bob", "d")
    assert [fault.partition(": ")[0] for fault in faults] == [f"{path}, line 1", str(path)]
    assert "geheim" not in "".join(faults)


@pytest.mark.parametrize("text", ["alice\n", ":x\n", "alice:x\n", "a:$scrypt$ln=30,r=8,p=1$MDEy$AAAA\n"])
def test_a_file_with_another_line_is_refused_at_the_start(tmp_path: Path, text: str) -> None:
    """Also with a hash that would cost too much to check."""
    (tmp_path / "users").write_text(text, encoding="utf-8")

    with pytest.raises(
        ConfigError, match=r"users, line 1: expected a name, a colon and what `zkgroup user hash`"
    ):
        PasswordFile(tmp_path / "users", lambda _: None)


def test_a_file_that_others_may_write_is_refused(tmp_path: Path) -> None:
    """They could let themselves in; at a change users stay as they were."""
    path, faults = tmp_path / "users", list[str]()
    _written(path, alice="a")
    file = PasswordFile(path, faults.append)
    _written(path, alice="b")
    path.chmod(0o666)

    assert file.accepts("alice", "a")
    assert "only its owner may write" in faults[0]
    path.chmod(0o600)  # as the fault says
    assert file.accepts("alice", "b")


def test_a_file_that_is_not_there_is_refused_at_the_start(tmp_path: Path) -> None:
    """And one that names a user twice."""
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        PasswordFile(tmp_path / "users", lambda _: None)
    line = f"alice:{hash_password('a', b'salt')}{os.linesep}"
    (tmp_path / "users").write_text(line * 2, encoding="utf-8")
    with pytest.raises(ConfigError, match="line 2: expected alice once"):
        PasswordFile(tmp_path / "users", lambda _: None)


def test_half_a_surrogate_pair_is_refused() -> None:
    """No bytes are sent for it, so a login could not be checked; the error has nothing of the password."""
    with pytest.raises(ConfigError, match="found half of a surrogate pair") as caught:
        SaslSettings.of({**BOTH, "sasl.jaas.config": PLAIN.replace("geheim", "geheim\ud800")}, "L")
    assert "geheim" not in str(caught.value)
