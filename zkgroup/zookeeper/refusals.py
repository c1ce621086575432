"""Why no server of an address will serve this client: certificates that do not fit, TLS on one side only, no
Kerberos ticket.

Waiting does not help there, so the client ends at once. A server that is starting or has no quorum closes
connections too; so it is asked whether it speaks the other language before that is said of it.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from typing import Final

from zkgroup.zookeeper.settings import Address, Sasl, Tls
from zkgroup.zookeeper.sockets import open_connection

ASKED_AFTER: Final = 3
"""Connections that a server closes before it is asked."""
_ASK_TIMEOUT_S: Final = 1.0

Server = tuple[str, int]
"""Numeric host, and port."""

_EXPIRED, _NOT_YET_VALID = 10, 9
_NO_AUTHORITY: Final = (2, 18, 19, 20, 21)
_OTHER_NAME: Final = (62, 64)
"""X509_V_ERR_... of OpenSSL (x509_vfy.h): the certificate names another host, or another address."""


class NoTicketError(OSError):
    """Kerberos gives this process no ticket for a server."""


def check_ticket(auth: Sasl, host: str) -> None:
    """Asks Kerberos for what a login by GSSAPI takes. Raises `NoTicketError`.

    This is asked before a connection is made: an error within kazoo's login ends its loop, and with it a
    session that the next ticket could continue.
    """
    if auth.mechanism != "GSSAPI":
        return
    from puresasl import client, mechanisms  # the extra `sasl`

    try:
        login = client.SASLClient(host, **auth.options())
        login.process()
        login.dispose()
    except mechanisms.kerberos.GSSError as error:
        found = error.args[-1][0]  # (text, number) of GSSAPI, then of Kerberos
        raise NoTicketError(
            f"expected a Kerberos ticket for {auth.service}/{host}, found: {found}; look with `klist`, and "
            "get one with `kinit`"
        ) from error


class Refusals:
    """The servers of one address that cannot be connected to as the settings say, and why."""

    def __init__(self, address: Address, tls: Tls | None) -> None:
        self._hosts = set(address.hosts)
        self._tls = tls
        self._reasons: dict[Server, str] = {}
        self._absent: set[Server] = set()
        """Servers that do not listen: an address of a name that has others."""
        self._closed: dict[Server, int] = {}

    def after(self, host: str, server: Server, error: OSError | None) -> str | None:
        """Takes a connection that ended before there was a session; the reason once it holds for all servers.

        host: the name in the address; server: numeric; error: what ended it, None if the server closed it.
        """
        name = f"{host}:{server[1]}"
        self._absent.discard(server)
        if isinstance(error, ssl.SSLCertVerificationError):
            self._reasons[server] = _of_certificate(name, error)
        elif isinstance(error, NoTicketError):
            self._reasons[server] = f"{name}: {error}"
        elif isinstance(error, ConnectionRefusedError):
            self._absent.add(server)
        elif not isinstance(error, TimeoutError):
            self._closed[server] = self._closed.get(server, 0) + 1
            if self._closed[server] == ASKED_AFTER:
                self._ask(name, server)
        if not self._reasons or not all(self._is_hopeless(*each) for each in self._hosts):
            return None
        return "; ".join(sorted(set(self._reasons.values())))

    def _is_hopeless(self, host: str, port: int) -> bool:
        """Whether each address of a name has a reason, but for those at which nothing listens."""
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError:
            return False
        servers = {(str(each[4][0]), port) for each in found}
        return bool(servers & self._reasons.keys()) and servers <= self._reasons.keys() | self._absent

    def _ask(self, name: str, server: Server) -> None:
        if self._tls is not None and speaks_plain_text(server):
            self._reasons[server] = (
                f"{name}: expected TLS, found a port of plain text; use the secure port of the server, or "
                "leave out --zk-tls-ca and --zk-tls-cert"
            )
        elif self._tls is None and speaks_tls(server):
            self._reasons[server] = (
                f"{name}: expected plain text, found a port of TLS; give --zk-tls-ca, or use the other port "
                "of the server"
            )

    def forget(self) -> None:
        """Forgets everything: a server has granted a session."""
        self._reasons.clear()
        self._closed.clear()


def _of_certificate(name: str, error: ssl.SSLCertVerificationError) -> str:
    code = error.verify_code
    advice = "check the certificate of the server"
    if code == _EXPIRED:
        advice = "renew the certificate of the server"
    elif code == _NOT_YET_VALID:
        advice = "check the clocks of the server and of this machine"
    elif code in _NO_AUTHORITY:
        advice = "give the certificate of its authority as --zk-tls-ca"
    elif code in _OTHER_NAME:
        advice = "connect by a name that is in the certificate"
    found = error.verify_message.rstrip(".")
    return f"{name}: expected a certificate that proves this server, found: {found}; {advice}"


def speaks_plain_text(server: Server) -> bool:
    """Returns whether the server answers a four-letter word, be it by a refusal, in plain text."""
    with contextlib.suppress(OSError), socket.create_connection(server, timeout=_ASK_TIMEOUT_S) as sock:
        sock.sendall(b"ruok")
        return sock.recv(4) in (b"imok", b"ruok", b"This")
    return False


def speaks_tls(server: Server) -> bool:
    """Returns whether the server answers a TLS handshake; its certificate is not read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        open_connection(server, server[0], timeout_s=_ASK_TIMEOUT_S, tls=context).close()
    except OSError as error:
        return "_ALERT_" in (getattr(error, "reason", None) or "")
    return True
