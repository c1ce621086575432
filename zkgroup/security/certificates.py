"""Checks a broker's certificate before clients do, by a TLS handshake in memory."""

from __future__ import annotations

import re
import ssl
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from zkgroup.errors import ConfigError
from zkgroup.security.tls import KEY_STORE, TlsSettings, client_context, server_context

_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_ROUNDS: Final = 10
"""Most turns of a handshake."""


def valid_until(settings: TlsSettings, host: str, *, must_trust: bool) -> datetime:
    """Checks key, chain, names and validity of a server's certificate; returns the end of its validity.

    Args:
        settings: those of the server.
        host: as clients are told; the certificate has to name it, unless host names are not checked.
        must_trust: whether it has to be one that its own trust store accepts, as brokers do that share the
            settings. Otherwise the chain of its own file will do.

    Raises ConfigError.
    """
    context = server_context(replace(settings, client_auth="none"))
    assert settings.key_store is not None
    chain = _CERTIFICATE.findall(Path(settings.key_store).read_text("ascii", "replace"))
    client = client_context(TlsSettings(trust_store=settings.trust_store))
    client.check_hostname = settings.check_host_names
    if not must_trust:
        # The file of a certificate without a chain has no authority: the certificate is one for itself.
        client.load_verify_locations(cadata="\n".join(chain[1:] or chain))
        client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        shown = _handshake(context, client, host)
    except ssl.SSLCertVerificationError as error:
        named = f" for {host}" if settings.check_host_names else ""
        raise ConfigError(
            f"{KEY_STORE} {settings.key_store}: expected a certificate{named} that is valid, "
            f"found: {error.verify_message}"
        ) from None
    found = [shown, *_authorities(chain[1:])]
    return min(datetime.fromtimestamp(ssl.cert_time_to_seconds(str(each["notAfter"])), UTC) for each in found)


def _handshake(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> dict[str, object]:
    """The certificate that a client sees. Raises SSLCertVerificationError."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = client.wrap_bio(back, there, server_hostname=host), server.wrap_bio(there, back, server_side=True)
    for _ in range(_ROUNDS):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return dict(sides[0].getpeercert() or {})


def _authorities(chain: list[str]) -> list[dict[str, object]]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if chain:
        context.load_verify_locations(cadata="\n".join(chain))
    return [dict(each) for each in context.get_ca_certs()]
