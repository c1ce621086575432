"""When a client gives up: once no server of its address will ever serve it."""

from __future__ import annotations

import importlib.util
import socket
import ssl
from types import SimpleNamespace

import pytest
from puresasl import mechanisms

from zkgroup.zookeeper import Sasl, Tls
from zkgroup.zookeeper.refusals import NoTicketError, Refusals, check_ticket
from zkgroup.zookeeper.settings import Address

IPS = {"a": ["10.0.0.1", "10.0.0.2"], "b": ["10.0.0.3"]}
REFUSED = ConnectionRefusedError(111, "Connection refused")


def wrong(code: int, message: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = code, message
    return error


@pytest.fixture
def refusals(monkeypatch: pytest.MonkeyPatch) -> Refusals:
    """Of an address of two names, one of which has two addresses."""

    def resolve(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        return [(None, None, None, "", (ip, port)) for ip in IPS[host]]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return Refusals(Address.parse("a:1,b:2"), Tls(ca_file="ca"))


def test_every_address_of_every_name_has_to_be_hopeless(refusals: Refusals) -> None:
    """One that does not listen is no reason, and a later session makes all of them hopeful again."""
    expired = wrong(10, "certificate has expired")
    assert refusals.after("a", ("10.0.0.1", 1), expired) is None
    assert refusals.after("b", ("10.0.0.3", 2), expired) is None
    found = refusals.after("a", ("10.0.0.2", 1), REFUSED)
    assert found is not None
    assert found.split("; ")[::2] == [
        f"{name}: expected a certificate that proves this server, found: certificate has expired"
        for name in ("a:1", "b:2")
    ]
    refusals.forget()
    assert refusals.after("a", ("10.0.0.1", 1), expired) is None


def test_a_server_for_which_kerberos_gives_no_ticket_has_a_reason(
    refusals: Refusals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one whose error comes at once, as with a principal in the settings."""

    class GSSError(Exception):
        """As of the package kerberos."""

    def refuse(**_: object) -> None:
        raise GSSError(("Unspecified GSS failure", 851968), ("Ticket expired", -1765328352))

    kerberos = SimpleNamespace(GSSError=GSSError, authGSSClientInit=refuse)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(mechanisms, "have_kerberos", True)
    monkeypatch.setattr(mechanisms, "kerberos", kerberos, raising=False)
    monkeypatch.setitem(mechanisms.mechanisms, "GSSAPI", mechanisms.GSSAPIMechanism)
    with pytest.raises(NoTicketError) as caught:
        check_ticket(Sasl(mechanism="GSSAPI", principal="alice"), "b")

    assert refusals.after("b", ("10.0.0.3", 2), caught.value) is None
    for ip in IPS["a"]:
        found = refusals.after("a", (ip, 1), caught.value)
    assert found is not None
    assert "b:2: expected a Kerberos ticket for zookeeper/b, found: Ticket expired; look with" in found


def test_servers_that_are_down_are_waited_for(refusals: Refusals) -> None:
    """They may come back, with better certificates."""
    for _ in range(5):
        assert refusals.after("b", ("10.0.0.3", 2), REFUSED) is None
        assert refusals.after("b", ("10.0.0.3", 2), TimeoutError()) is None
        for number in (1, 2):
            ip = f"10.0.0.{number}"
            assert refusals.after("a", (ip, 1), wrong(62, "Hostname mismatch")) is None


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (10, "renew the certificate of the server"),
        (9, "check the clocks of the server and of this machine"),
        (19, "give the certificate of its authority as --zk-tls-ca"),
        (62, "connect by a name that is in the certificate"),
        (26, "check the certificate of the server"),
    ],
)
def test_the_reason_says_what_to_do(refusals: Refusals, code: int, advice: str) -> None:
    """For each of OpenSSL's numbers that a certificate usually fails with."""
    ports = {"a": 1, "b": 2}
    found = [
        refusals.after(name, (ip, port), wrong(code, "x."))
        for name, port in ports.items()
        for ip in IPS[name]
    ]
    assert found[-1] is not None
    assert f"found: x; {advice}" in found[-1]
