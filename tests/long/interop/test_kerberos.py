"""GSSAPI at a real ZooKeeper, with the tickets of a real KDC of this test's own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S, becomes, eventually
from tests.worlds.shell import Shell
from zkgroup.model.requests import AclEntry, Create
from zkgroup.testing.chaos import ChaosZooKeeper
from zkgroup.zookeeper import ClientSettings, Sasl, ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper
from zkgroup.zookeeper.embedded.java import find_jars
from zkgroup.zookeeper.settings import CREATOR_ALL_ACL

pytest.importorskip("kerberos")
PATH = f"{os.environ['PATH']}:/usr/sbin"
HAS_TOOLS = all(shutil.which(tool, path=PATH) for tool in ("krb5kdc", "kadmin.local", "kinit"))
pytestmark = pytest.mark.skipif(not HAS_TOOLS, reason="no Kerberos: krb5-kdc, krb5-admin-server, krb5-user")

KRB5 = """[libdefaults]
default_realm = EXAMPLE.TEST
dns_canonicalize_hostname = false
[kdcdefaults]
kdc_listen = 127.0.0.1:{port}
kdc_tcp_listen = 127.0.0.1:{port}
[realms]
EXAMPLE.TEST = {{
  kdc = 127.0.0.1:{port}
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
}}
"""
SASL = {"authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}
KINIT = "kinit -k -t keytab alice"
JAAS = """Server {{ com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true
keyTab="{folder}/keytab" principal="zookeeper/127.0.0.1@EXAMPLE.TEST"; }};
"""


def code(command: str) -> int:
    return subprocess.run(command.split(), capture_output=True, check=False).returncode


def run(*commands: str) -> None:
    assert [each for each in commands if code(each) != 0] == []


@pytest.fixture
def realm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder, here, of a realm with a server and alice; the environment names it, and her tickets."""
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    for name, text in (("krb5.conf", KRB5), ("jaas.conf", JAAS)):
        (tmp_path / name).write_text(text.format(port=port, folder=tmp_path))
    monkeypatch.setenv("PATH", PATH)
    for name in ("KRB5_CONFIG", "KRB5_KDC_PROFILE"):
        monkeypatch.setenv(name, str(tmp_path / "krb5.conf"))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/tickets")
    run("kdb5_util create -s -P canary")
    for name in ("zookeeper/127.0.0.1", "alice"):
        run(f"kadmin.local addprinc -randkey {name}", f"kadmin.local ktadd -k keytab {name}")
    with subprocess.Popen(["krb5kdc", "-n"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as kdc:
        assert kdc.stdout is not None
        assert b"starting" in kdc.stdout.readline()
        yield tmp_path
        kdc.terminate()


@pytest.fixture
def zookeeper(realm: Path) -> Iterator[ChaosZooKeeper]:
    netty = ":".join(map(str, sorted(find_jars()[0].parent.glob("netty-*.jar"))))
    options = (
        f"-Djava.security.auth.login.config={realm}/jaas.conf",
        f"-Djava.security.krb5.conf={realm}/krb5.conf",
        f"-Xbootclasspath/a:{netty}",
    )
    with (
        EmbeddedZooKeeper(fsync=False, java_options=options, config=SASL) as server,
        ChaosZooKeeper(server) as chaos,
    ):
        yield chaos


def test_tickets_come_and_go(zookeeper: ChaosZooKeeper, tmp_path: Path) -> None:
    """None, or an expired one, is told at once. A session lasts while its client waits for another."""
    (tmp_path / "gssapi").write_text('mechanism = "GSSAPI"\n')
    shell = Shell(tmp_path, zookeeper.address)
    command = ("topic", "list", "--zk-sasl-file", str(tmp_path / "gssapi"))
    none = shell.run(*command)
    run(f"{KINIT} -l 1s")
    becomes(lambda: code("kvno -q zookeeper/127.0.0.1"), 1)
    expired = shell.run(*command)
    assert (none.code, expired.code) == (7, 7)
    assert "No Kerberos credentials available" in none.err
    assert "Ticket expired" in expired.err

    run(KINIT)
    settings = ClientSettings(auth=Sasl(mechanism="GSSAPI"), acl=CREATOR_ALL_ACL, session_timeout_ms=40_000)
    with ZooKeeperClient(zookeeper.address, settings) as client, Blocking(client, PATIENCE_S) as alice:
        alice.multi(Create("/hers", b"data"))
        session = zookeeper.sessions()
        run("kdestroy")
        zookeeper.cut()
        eventually(lambda: str(client._unconnected(1.0)), lambda text: "expected a Kerberos ticket" in text)
        run(KINIT)
        assert alice.read("/hers").data == b"data"
        assert zookeeper.sessions() == session
        found = getattr(alice.acl_each(["/hers"])["/hers"], "acl", None)
        assert found == (AclEntry(31, "sasl", "alice@EXAMPLE.TEST"),)
