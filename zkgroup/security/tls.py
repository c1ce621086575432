"""TLS by PEM files: what Kafka's `ssl.*` names, as contexts of Python's `ssl`."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from zkgroup.errors import ConfigError
from zkgroup.security.secret import Secret
from zkgroup.security.secret_files import check_secret_file

PEM: Final = "PEM"
KEY_STORE: Final = "ssl.keystore.location"
KEY_STORE_TYPE: Final = "ssl.keystore.type"
KEY_PASSWORD: Final = "ssl.key.password"  # noqa: S105 - the name of a setting
TRUST_STORE: Final = "ssl.truststore.location"
TRUST_STORE_TYPE: Final = "ssl.truststore.type"
HOST_NAMES: Final = "ssl.endpoint.identification.algorithm"


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
        password = properties.get(KEY_PASSWORD)
        return cls(
            trust_store=properties.get(TRUST_STORE) or None,
            key_store=properties.get(KEY_STORE) or None,
            key_password=Secret(password) if password else None,
            check_host_names=bool(algorithm),
        )


class TlsContext:
    """The contexts of some settings, of the files as they are at each call. TLS 1.2 or newer."""

    def __init__(self, settings: TlsSettings) -> None:
        """Reads nothing yet."""
        self._settings = settings

    def client(self) -> ssl.SSLContext:
        """Checks the broker's certificate. Raises ConfigError for a file that is missing or wrong."""
        settings = self._settings
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
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise ConfigError(f"{TRUST_STORE} {path}: expected certificates in PEM ({error.reason})") from None
    except OSError as error:
        raise ConfigError(f"{TRUST_STORE} {path}: cannot be read: {error.strerror}") from error


def _load_key(context: ssl.SSLContext, path: str, password: Secret | None) -> None:
    check_secret_file(path)

    # Without a function OpenSSL would ask for the password on the terminal.
    def reveal() -> str:
        return password.reveal() if password is not None else ""

    try:
        context.load_cert_chain(path, password=reveal)
    except ssl.SSLError as error:
        raise ConfigError(
            f"{KEY_STORE} {path}: expected a private key and its certificate in PEM, and the password of an "
            f"encrypted key in {KEY_PASSWORD} ({error.reason})"
        ) from None
    except OSError as error:
        raise ConfigError(f"{KEY_STORE} {path}: cannot be read: {error.strerror}") from error
