"""`ClusterSecurity`: the users and certificates of a `KafkaCluster` that demands them."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

from zkgroup.broker.security_settings import SecuritySettings
from zkgroup.errors import ConfigError
from zkgroup.model.values import PROTOCOLS
from zkgroup.security.acls import ALLOW_IF_NO_ACL, AUTHORIZER, SUPER_USERS
from zkgroup.security.client import ClientSecurity
from zkgroup.security.jaas import MECHANISMS, PLAIN
from zkgroup.security.scram import HASHES, MIN_ITERATIONS, SALT_BYTES, ScramCredential
from zkgroup.security.secret import Secret
from zkgroup.security.tls import TlsSettings
from zkgroup.testing.memory_zookeeper import MemoryZooKeeper
from zkgroup.znodes.config import UserConfig

BROKER_USER: Final = "broker"
"""The user as whom brokers log in to each other."""
_HOSTS: Final = ("127.0.0.1", "localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSecurity:
    """What the brokers of a `KafkaCluster` demand of clients, and of each other.

    Certificates are made for the cluster, by the package trustme. `KafkaCluster.client_security` is that of a
    client that gets in, or of one that does not.
    """

    protocol: str = "SASL_SSL"
    """Of the one listener of each broker: `PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`."""
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Name to password, of the users who can log in by SASL. More can be added by `Admin.add_user`."""
    mechanism: str = "SCRAM-SHA-256"
    """Of SASL: `PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`."""
    client_auth: Literal["none", "requested", "required"] = "none"
    """Whether a client has to show a certificate, by `SSL` and `SASL_SSL`."""
    authorizer: bool = False
    """Whether ACLs say what clients may do. The principal of alice is `User:alice`, also by certificate."""
    super_users: Collection[str] = ()
    """Names of the users that may do everything, beside the brokers'."""
    allow_everyone_if_no_acl_found: bool = False
    """Whether everybody may do everything to a topic or a group without an ACL."""

    def __post_init__(self) -> None:
        """Raises ConfigError for values that do not belong together."""
        if self.protocol not in PROTOCOLS:
            raise ConfigError(f"protocol: expected one of {', '.join(PROTOCOLS)}, found {self.protocol!r}")
        if self.mechanism not in (PLAIN, *HASHES):
            known = ", ".join((PLAIN, *HASHES))
            raise ConfigError(f"mechanism: expected one of {known}, found {self.mechanism!r}")
        if self.users and not self.uses_sasl:
            raise ConfigError(f"users: expected none with {self.protocol}, which has no SASL")
        if BROKER_USER in self.users:
            raise ConfigError(f"users: {BROKER_USER!r} is the user of the brokers")
        if self.client_auth != "none" and not self.uses_tls:
            raise ConfigError(f"client_auth: expected none with {self.protocol}, which has no certificates")
        if self.authorizer and not self.uses_sasl and self.client_auth != "required":
            raise ConfigError(
                "authorizer: expected SASL, or SSL with client_auth='required', by which brokers are known"
            )

    @property
    def uses_tls(self) -> bool:
        """True for `SSL` and `SASL_SSL`."""
        return self.protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        """True for `SASL_PLAINTEXT` and `SASL_SSL`."""
        return self.protocol.startswith("SASL_")


class ClusterCredentials:
    """The certificates and passwords of one cluster, until `close`."""

    def __init__(self, security: ClusterSecurity) -> None:
        """Makes the certificates. Raises ConfigError without the package trustme."""
        self.security = security
        self._passwords = {**security.users, BROKER_USER: secrets.token_urlsafe()}
        self._folder = TemporaryDirectory(prefix="zkgroup-certificates-")
        self._authority: Any = None
        if security.uses_tls:
            self._authority = _trustme().CA()
            self._authority.cert_pem.write_to_path(self._path("authority"))

    def close(self) -> None:
        """Removes the certificates. Idempotent."""
        self._folder.cleanup()

    def add_users(self, zookeeper: MemoryZooKeeper) -> None:
        """Stores what brokers need to know of users, before they start."""
        mechanism = self.security.mechanism
        if not self.security.uses_sasl or mechanism == PLAIN:
            return
        for user, password in self._passwords.items():
            salt = secrets.token_bytes(SALT_BYTES)
            credential = ScramCredential.of_password(mechanism, password, MIN_ITERATIONS, salt)
            config = UserConfig({mechanism: credential.encode()})
            zookeeper.put(UserConfig.path(user), config.encode())

    def settings(self, port: int) -> SecuritySettings:
        """Those of a broker with its one listener at this port."""
        security, name = self.security, self.security.protocol
        own = f"listener.name.{name.lower()}."
        properties = {"listeners": f"{name}://{_HOSTS[0]}:{port}", "inter.broker.listener.name": name}
        if security.uses_tls:
            properties |= _pem("keystore", self._issue(BROKER_USER))
            properties |= _pem("truststore", str(self._path("authority")))
            properties |= {f"{own}ssl.client.auth": security.client_auth}
            properties |= {f"{own}ssl.principal.mapping.rules": "RULE:^CN=([^,]*).*$/$1/,DEFAULT"}
        if security.uses_sasl:
            properties |= {
                "sasl.enabled.mechanisms": security.mechanism,
                "sasl.mechanism.inter.broker.protocol": security.mechanism,
                f"{own}{security.mechanism.lower()}.sasl.jaas.config": self._jaas(),
            }
        if security.authorizer:
            users = [BROKER_USER, *security.super_users]
            properties |= {
                AUTHORIZER: "zkgroup",
                SUPER_USERS: ";".join(f"User:{user}" for user in users),
                ALLOW_IF_NO_ACL: str(security.allow_everyone_if_no_acl_found),
            }
        return SecuritySettings.of(properties)

    def client(self, user: str | None, password: str | None) -> ClientSecurity:
        """See `KafkaCluster.client_security`."""
        security = self.security
        tls = None
        if security.uses_tls:
            shows = None if user is None or security.client_auth == "none" else self._issue(user)
            tls = TlsSettings(trust_store=str(self._path("authority")), key_store=shows)
        if not security.uses_sasl:
            return ClientSecurity(protocol=security.protocol, tls=tls)
        if user is None:
            raise ConfigError(f"expected a user: the cluster demands one by {security.protocol}")
        secret = self._passwords.get(user) if password is None else password
        if secret is None:
            raise ConfigError(
                f"user {user!r}: expected a password, as the cluster was not made with this user"
            )
        return ClientSecurity(
            protocol=security.protocol,
            tls=tls,
            mechanism=security.mechanism,
            username=user,
            password=Secret(secret),
        )

    def _jaas(self) -> str:
        own = {"username": BROKER_USER, "password": self._passwords[BROKER_USER]}
        if self.security.mechanism == PLAIN:
            own |= {f"user_{user}": password for user, password in self._passwords.items()}
        options = " ".join(f'{name}="{_quoted(value)}"' for name, value in own.items())
        return f"{MECHANISMS[self.security.mechanism]} required {options};"

    def _issue(self, user: str) -> str:
        """The path of one file with key, certificate and chain."""
        path = self._path(f"of-{user.encode().hex()}")
        if not path.exists():
            issued = self._authority.issue_cert(*_HOSTS, common_name=user)
            path.touch(mode=0o600)
            issued.private_key_and_cert_chain_pem.write_to_path(path)
        return str(path)

    def _path(self, name: str) -> Path:
        return Path(self._folder.name) / f"{name}.pem"


def _pem(store: str, path: str) -> dict[str, str]:
    return {f"ssl.{store}.type": "PEM", f"ssl.{store}.location": path}


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _trustme() -> Any:
    try:
        import trustme
    except ImportError as error:
        raise ConfigError("ClusterSecurity with certificates needs trustme: pip install trustme") from error
    return trustme
