"""TLS by PEM files: what Kafka's `ssl.*` names, as contexts of Python's `ssl`."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from zkgroup.errors import ConfigError
from zkgroup.security.principals import RULES
from zkgroup.security.secret import Secret
from zkgroup.security.secret_files import check_secret_file, check_trusted_file, file_stamp, refuse_irregular

PEM: Final = "PEM"
KEY_STORE: Final = "ssl.keystore.location"
KEY_STORE_TYPE: Final = "ssl.keystore.type"
KEY_PASSWORD: Final = "ssl.key.password"  # noqa: S105 - the name of a setting
TRUST_STORE: Final = "ssl.truststore.location"
TRUST_STORE_TYPE: Final = "ssl.truststore.type"
HOST_NAMES: Final = "ssl.endpoint.identification.algorithm"
CLIENT_AUTH: Final = "ssl.client.auth"
NAMES: Final = frozenset(
    (KEY_STORE, KEY_STORE_TYPE, KEY_PASSWORD, TRUST_STORE, TRUST_STORE_TYPE, HOST_NAMES, CLIENT_AUTH, RULES)
)
"""The settings of TLS that a broker has."""
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """The files of one end of TLS connections, all in PEM."""

    trust_store: str | None = None
    """Path of the certificates of the authorities that are trusted; None for those of the system."""
    key_store: str | None = None
    """Path of one file with private key, certificate and chain; None for none."""
    key_password: Secret | None = None
    """Of an encrypted private key."""
    check_host_names: bool = True
    """A client checks that the broker's certificate names the host that it connects to."""
    client_auth: str = "none"
    """Of a server: `none`, `requested` or `required` is the certificate of a client."""
    principal_rules: str = "DEFAULT"
    """Of a server: how the certificate of a client becomes its principal (`zkgroup.security.principals`)."""

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Self:
        """The settings by their names in Kafka, without a prefix. Raises ConfigError."""
        for store, kind in ((KEY_STORE, KEY_STORE_TYPE), (TRUST_STORE, TRUST_STORE_TYPE)):
            found = properties.get(kind, "JKS")
            if properties.get(store) and found != PEM:
                raise ConfigError(f"{kind}: expected {PEM} for {store}, found {found}")
        algorithm = properties.get(HOST_NAMES, "https").lower()
        if algorithm not in ("https", ""):
            raise ConfigError(f"{HOST_NAMES}: expected https, or nothing for no check, found {algorithm!r}")
        client_auth = properties.get(CLIENT_AUTH, "none").lower()
        if client_auth not in _CLIENT_AUTH:
            raise ConfigError(f"{CLIENT_AUTH}: expected {', '.join(_CLIENT_AUTH)}, found {client_auth!r}")
        password = properties.get(KEY_PASSWORD)
        return cls(
            trust_store=properties.get(TRUST_STORE) or None,
            key_store=properties.get(KEY_STORE) or None,
            key_password=Secret(password) if password else None,
            check_host_names=bool(algorithm),
            client_auth=client_auth,
            principal_rules=properties.get(RULES, "DEFAULT"),
        )


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """Shows the broker's certificate, and checks those of clients by `client_auth`. TLS 1.2 or newer.

    Raises ConfigError for a file that is missing or wrong.
    """
    if settings.key_store is None:
        raise ConfigError(f"{KEY_STORE}: expected a file with private key and certificate, found none")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = _CLIENT_AUTH[settings.client_auth]
    if settings.trust_store is not None:
        _load_trust(context, settings.trust_store)
    elif settings.client_auth != "none":
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    _load_key(context, settings.key_store, settings.key_password)
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Checks the broker's certificate. TLS 1.2 or newer.

    Raises ConfigError for a file that is missing or wrong.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = settings.check_host_names
    if settings.trust_store is None:
        context.load_default_certs()
    else:
        _load_trust(context, settings.trust_store)
    if settings.key_store is not None:
        _load_key(context, settings.key_store, settings.key_password)
    return context


def _load_trust(context: ssl.SSLContext, path: str) -> None:
    refuse_irregular(path)
    check_trusted_file(path)
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise ConfigError(f"{TRUST_STORE} {path}: expected certificates in PEM ({error.reason})") from None
    except OSError as error:
        raise ConfigError(f"{TRUST_STORE} {path}: cannot be read: {error.strerror}") from error


def _load_key(context: ssl.SSLContext, path: str, password: Secret | None) -> None:
    refuse_irregular(path)
    check_secret_file(path)
    stamp = file_stamp(path)

    # Without a function OpenSSL would ask for the password on the terminal.
    def reveal() -> str:
        return password.reveal() if password is not None else ""

    try:
        context.load_cert_chain(path, password=reveal)
    except ssl.SSLError as error:
        if file_stamp(path) != stamp:  # it is read twice, and was replaced between certificate and key
            return _load_key(context, path, password)
        raise ConfigError(
            f"{KEY_STORE} {path}: expected a private key and its certificate in PEM, and the password of an "
            f"encrypted key in {KEY_PASSWORD}" + (f" ({error.reason})" if error.reason else "")
        ) from None
    except OSError as error:
        raise ConfigError(f"{KEY_STORE} {path}: cannot be read: {error.strerror}") from error
