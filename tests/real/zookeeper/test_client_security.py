"""Who we are, who the server is, and who may read what we write: on real servers."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S, eventually
from tests.worlds.scripted_server import Peer, ScriptedServer
from tests.worlds.shell import Shell
from zkgroup.errors import AccessDeniedError, AuthenticationError, ConfigError
from zkgroup.model.requests import AclEntry, Code, Create, ZnodeAcl
from zkgroup.testing.chaos import ChaosZooKeeper
from zkgroup.testing.plugin import ServerTree
from zkgroup.zookeeper import Acl, ClientSettings, Digest, Sasl, Secret, Tls, ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper
from zkgroup.zookeeper.embedded.java import find_jars
from zkgroup.zookeeper.settings import CREATOR_ALL_ACL

ME = Digest("me", Secret("canary"))


def test_what_we_create_has_the_access_list_of_the_settings(zk_server: ServerTree) -> None:
    """Also inside a multi and for missing parents; nobody else may read or write it."""
    private = ClientSettings(auth=ME, acl=CREATOR_ALL_ACL)
    with ZooKeeperClient(zk_server.address, private) as client, Blocking(client) as owner:
        owner.multi(Create("/private", b"data"))
        owner.create_missing("/parent")
        with ZooKeeperClient(zk_server.address) as other, Blocking(other) as stranger:
            for path in ("/private", "/parent"):
                with pytest.raises(AccessDeniedError, match=path):
                    stranger.read(path)
                with pytest.raises(AccessDeniedError, match=path):
                    stranger.multi(Create(f"{path}/child", b""))
                with pytest.raises(AccessDeniedError):
                    stranger.read_many([path, "/"])
            stranger.multi(Create("/open", b""))
        assert owner.read("/private").data == b"data"
        assert owner.read("/open").data == b""


def test_acls_are_given_path_by_path(zk_server: ServerTree) -> None:
    """With the Stat; who may not read a znode is told so for that one."""
    private = ClientSettings(auth=ME, acl=CREATOR_ALL_ACL)
    with ZooKeeperClient(zk_server.address, private) as client, Blocking(client) as owner:
        owner.multi(Create("/private", b"data"))
        with ZooKeeperClient(zk_server.address) as other, Blocking(other) as stranger:
            stranger.multi(Create("/open", b""))
            strange = stranger.acl_each(["/private", "/open", "/none"])
            assert stranger.read_each(["/private", "/none"]) == {"/private": Code.NO_AUTH, "/none": None}
        mine = owner.acl_each(["/private"])["/private"]
        assert isinstance(mine, ZnodeAcl)
        assert [(entry.perms, entry.scheme, entry.id.partition(":")[0]) for entry in mine.acl] == [
            (31, "digest", "me")
        ]
        assert mine.stat == owner.exists("/private")
        assert strange["/private"] is Code.NO_AUTH
        assert strange["/open"] == ZnodeAcl((AclEntry(31, "world", "anyone"),), owner.read("/open").stat)
        assert strange["/none"] is None


def test_credentials_are_given_again_on_every_connection(zk_chaos_server: ChaosZooKeeper) -> None:
    """A second client, and the same one after a reconnect, may read what the first wrote."""
    private = ClientSettings(auth=ME, acl=CREATOR_ALL_ACL)
    with ZooKeeperClient(zk_chaos_server.address, private) as client, Blocking(client) as owner:
        owner.multi(Create("/private", b"data"))
        zk_chaos_server.cut()
        assert owner.read("/private").data == b"data"
        with ZooKeeperClient(zk_chaos_server.address, private) as again, Blocking(again) as second:
            assert second.read("/private").data == b"data"


def test_missing_parents_that_exist_need_no_permission(zk_server: ServerTree) -> None:
    """Creating them would be refused with NoAuth before anybody looked whether they are there."""
    private = ClientSettings(auth=ME, acl=(Acl("cdrwa", "auth", ""), Acl("r", "world", "anyone")))
    with ZooKeeperClient(zk_server.address, private) as client, Blocking(client) as owner:
        owner.create_missing("/a", "/a/b")
        with ZooKeeperClient(zk_server.address) as other, Blocking(other) as stranger:
            stranger.create_missing("/a", "/a/b")
            with pytest.raises(AccessDeniedError):
                stranger.create_missing("/a", "/a/c")


def _with_netty() -> str:
    """A Java option: the embedded server leaves these jars out, as only TLS and SASL need them."""
    netty = sorted(find_jars()[0].parent.glob("netty-*.jar"))
    return "-Xbootclasspath/a:" + ":".join(str(jar) for jar in netty)


@pytest.fixture(scope="module")
def sasl_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """A server that asks for SASL DIGEST-MD5 and takes nobody without it."""
    jaas = tmp_path_factory.mktemp("sasl") / "jaas.conf"
    jaas.write_text(
        "Server { org.apache.zookeeper.server.auth.DigestLoginModule required "
        'user_alice="canary-of-alice"; };\n'
    )
    with EmbeddedZooKeeper(
        fsync=False,
        java_options=(f"-Djava.security.auth.login.config={jaas}", _with_netty()),
        config={"authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"},
    ) as zookeeper:
        yield zookeeper


def test_sasl_lets_the_right_user_in(sasl_server: EmbeddedZooKeeper) -> None:
    """What alice alone may read, she reads."""
    alice = Sasl(username="alice", password=Secret("canary-of-alice"))
    acl = (Acl("cdrwa", "sasl", "alice"),)
    with (
        ZooKeeperClient(sasl_server.address, ClientSettings(auth=alice, acl=acl)) as client,
        Blocking(client) as blocking,
    ):
        blocking.multi(Create("/of-alice", b"data"))
        assert blocking.read("/of-alice").data == b"data"
        with (
            ZooKeeperClient(sasl_server.address) as other,
            Blocking(other) as stranger,
            pytest.raises(AccessDeniedError),
        ):
            stranger.read("/of-alice")


def test_sasl_with_a_wrong_password_ends_the_client(
    sasl_server: EmbeddedZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    """With a reason, without trying for ever, and without the password anywhere."""
    caplog.set_level(1)
    wrong = Sasl(username="alice", password=Secret("canary-that-is-wrong"))
    with (
        ZooKeeperClient(sasl_server.address, ClientSettings(auth=wrong)) as client,
        pytest.raises(AuthenticationError, match="refused the client's credentials") as caught,
    ):
        client.wait_connected(PATIENCE_S)
    assert "canary" not in caplog.text + str(caught.value)


def test_the_command_line_reads_sasl_from_a_file(sasl_server: EmbeddedZooKeeper, tmp_path: Path) -> None:
    """The right password works; a wrong one is exit 7, and neither is printed."""
    shell = Shell(tmp_path, sasl_server.address)
    for name, password in (("right", "canary-of-alice"), ("wrong", "canary-that-is-wrong")):
        (tmp_path / name).write_text(f'username = "alice"\npassword = "{password}"\n')

    right = shell.run(
        "topic", "create", "orders", "--partitions", "1", "--zk-sasl-file", str(tmp_path / "right")
    )
    wrong = shell.run("topic", "list", "-vv", "--zk-sasl-file", str(tmp_path / "wrong"))

    assert (right.code, wrong.code) == (0, 7)
    assert "refused the client's credentials" in wrong.err
    assert "canary" not in right.err + wrong.err


@dataclass(frozen=True)
class Certificates:
    """PEM files: an authority, a server named 127.0.0.1, others named elsewhere
    and expired, a stranger's authority."""

    folder: Path

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def make(self) -> None:
        for name in ("ca", "stranger"):
            subject = ("-subj", f"/CN=zkgroup {name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")
            self._openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject)
        for name, holder, days in (
            ("server", "IP:127.0.0.1", "2"),
            ("elsewhere", "DNS:elsewhere.example", "2"),
            ("expired", "IP:127.0.0.1", "-1"),
        ):
            request = ("-subj", f"/CN=zkgroup {name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
            self._openssl("req", "-newkey", "rsa:2048", "-nodes", *request)
            (self.folder / "extensions").write_text(f"subjectAltName={holder}\n")
            signer = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "extensions")
            self._openssl("x509", "-req", "-in", f"{name}.csr", *signer, "-days", days, "-out", f"{name}.crt")
            both = (self.folder / f"{name}.crt").read_text() + (self.folder / f"{name}.key").read_text()
            (self.folder / f"{name}.pem").write_text(both)

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Made anew for the run."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes the certificates, is not installed")
    made = Certificates(tmp_path_factory.mktemp("certificates"))
    made.make()
    return made


@pytest.fixture(scope="module")
def secure(certificates: Certificates) -> Iterator[EmbeddedZooKeeper]:
    """A server whose certificate carries its address.

    TLS and plain text on one port: its readiness is asked in plain text.
    """
    config = {
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "client.portUnification": "true",
        "ssl.keyStore.location": certificates.path("server.pem"),
        "ssl.keyStore.type": "PEM",
        "ssl.trustStore.location": certificates.path("ca.pem"),
        "ssl.trustStore.type": "PEM",
        "ssl.clientAuth": "want",
        "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
    }
    with EmbeddedZooKeeper(fsync=False, java_options=(_with_netty(),), config=config) as zookeeper:
        yield zookeeper


def test_tls_carries_everything(secure: EmbeddedZooKeeper, certificates: Certificates) -> None:
    """Writes, large bulk reads (by multiRead: the probe speaks TLS as well) and a close."""
    settings = ClientSettings(
        tls=Tls(ca_file=certificates.path("ca.pem")), auth=ME, session_timeout_ms=20_000
    )
    with ZooKeeperClient(secure.address, settings) as client, Blocking(client, PATIENCE_S) as blocking:
        blocking.create_missing("/bulk")
        blocking.multi(*(Create(f"/bulk/{n}", bytes(3000)) for n in range(250)))
        found = blocking.read_many([f"/bulk/{n}" for n in range(250)])
        assert all(znode is not None and len(znode.data or b"") == 3000 for znode in found.values())
        blocking.multi(Create("/large", bytes(900_000)))
        assert len(blocking.read("/large").data or b"") == 900_000


def test_our_own_certificate_is_shown(secure: EmbeddedZooKeeper, certificates: Certificates) -> None:
    """Mutual TLS: the server knows us by it (scheme x509), so an access list of creators alone works."""
    tls = Tls(
        ca_file=certificates.path("ca.pem"),
        cert_file=certificates.path("server.crt"),
        key_file=certificates.path("server.key"),
    )
    settings = ClientSettings(tls=tls, acl=CREATOR_ALL_ACL, session_timeout_ms=20_000)
    with ZooKeeperClient(secure.address, settings) as client, Blocking(client, PATIENCE_S) as blocking:
        blocking.multi(Create("/mutual", b"data"))
        assert blocking.read("/mutual").data == b"data"


def test_an_authority_that_we_do_not_trust_is_refused(
    secure: EmbeddedZooKeeper, certificates: Certificates
) -> None:
    """Nothing is sent; who waits is told why."""
    settings = ClientSettings(tls=Tls(ca_file=certificates.path("stranger.pem")), auth=ME)
    with ZooKeeperClient(secure.address, settings) as client:
        refused(client, "give the certificate of its authority as --zk-tls-ca")


@pytest.mark.parametrize("ours", [None, "stranger"])
def test_a_certificate_that_the_server_does_not_take_ends_the_client(
    certificates: Certificates, ours: str | None
) -> None:
    """None, or one of another authority. The alert may come after the handshake."""
    demanding = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    demanding.load_cert_chain(certificates.path("server.pem"))
    demanding.load_verify_locations(certificates.path("ca.pem"))
    demanding.verify_mode = ssl.CERT_REQUIRED
    mine = [certificates.path(f"{ours}.{end}") if ours else None for end in ("pem", "key")]
    tls = Tls(ca_file=certificates.path("ca.pem"), cert_file=mine[0], key_file=mine[1])
    words = "refused the client's certificate" if ours else "demands a certificate"
    with (
        ScriptedServer(lambda peer, _: peer.serve(), demanding) as server,
        ZooKeeperClient(server.address, ClientSettings(tls=tls)) as client,
        pytest.raises(AuthenticationError, match=words),
    ):
        client.wait_connected(PATIENCE_S)


def refused(client: ZooKeeperClient, why: str) -> None:
    """At once: waiting would not help."""
    with pytest.raises(AuthenticationError, match=why):
        client.wait_connected(PATIENCE_S)


def test_a_certificate_of_another_host_is_refused(certificates: Certificates) -> None:
    """faults.md, finding 12: kazoo does not look at the name. It may be switched off on purpose."""
    tls = Tls(ca_file=certificates.path("ca.pem"))
    named_elsewhere = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    named_elsewhere.load_cert_chain(certificates.path("elsewhere.pem"))
    with ScriptedServer(lambda peer, _: [peer.greet(), peer.serve()], named_elsewhere) as server:
        with ZooKeeperClient(server.address, ClientSettings(tls=tls)) as client:
            refused(client, "IP address mismatch.*connect by a name that is in the certificate")
        careless = Tls(ca_file=certificates.path("ca.pem"), check_host_name=False)
        with ZooKeeperClient(server.address, ClientSettings(tls=careless)) as client:
            client.wait_connected(PATIENCE_S)


def test_an_expired_certificate_is_refused(certificates: Certificates) -> None:
    """With the advice to renew it; a server of the address that has a good one serves the client."""
    expired = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    expired.load_cert_chain(certificates.path("expired.pem"))
    good = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    good.load_cert_chain(certificates.path("server.pem"))
    settings = ClientSettings(tls=Tls(ca_file=certificates.path("ca.pem")))
    with (
        ScriptedServer(lambda peer, _: [peer.greet(), peer.serve()], expired) as one,
        ScriptedServer(lambda peer, _: [peer.greet(), peer.serve()], good) as other,
    ):
        with ZooKeeperClient(one.address, settings) as client:
            refused(client, "certificate has expired; renew the certificate of the server")
        with ZooKeeperClient(f"{one.address},{other.address}", settings) as client:
            client.wait_connected(PATIENCE_S)


def test_a_port_of_tls_is_named_to_a_client_of_plain_text(certificates: Certificates) -> None:
    """The server closes the connection without a word, as one that has no quorum does."""
    speaking = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    speaking.load_cert_chain(certificates.path("server.pem"))
    with (
        ScriptedServer(lambda peer, _: peer.serve(), speaking) as server,
        ZooKeeperClient(server.address) as client,
    ):
        refused(client, "expected plain text, found a port of TLS; give --zk-tls-ca")


def test_a_login_at_a_server_without_sasl_is_refused(zk_server: ServerTree) -> None:
    """kazoo would send its token again and again."""
    alice = Sasl(username="alice", password=Secret("canary-of-alice"))
    with ZooKeeperClient(zk_server.address, ClientSettings(auth=alice)) as client:
        refused(client, "expected a login by SASL, found a server without it")


def test_an_unknown_user_is_refused(sasl_server: EmbeddedZooKeeper) -> None:
    """As a wrong password is."""
    eve = Sasl(username="eve", password=Secret("canary-of-alice"))
    with ZooKeeperClient(sasl_server.address, ClientSettings(auth=eve)) as client:
        refused(client, "refused the client's credentials")


def test_certificates_are_read_again_at_each_connection(certificates: Certificates, tmp_path: Path) -> None:
    """Those of the client and the authorities; a file that cannot be used at that moment changes nothing."""
    names: list[str] = []
    demanding = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    demanding.load_cert_chain(certificates.path("server.pem"))
    demanding.load_verify_locations(certificates.path("ca.pem"))
    demanding.verify_mode = ssl.CERT_REQUIRED
    files = {end: tmp_path / f"mine.{end}" for end in ("crt", "key")}

    def become(name: str) -> None:
        for end, file in files.items():
            new = tmp_path / "new"
            new.write_bytes(Path(certificates.path(f"{name}.{end}")).read_bytes())
            new.rename(file)

    def script(peer: Peer, number: int) -> None:
        peer.greet()
        assert isinstance(peer.sock, ssl.SSLSocket)
        subject = (peer.sock.getpeercert() or {})["subject"]
        names.append(str(subject))
        if len(names) == 1:
            become("elsewhere")
        elif len(names) == 2:
            files["key"].write_text("half of a key")
        else:
            peer.serve()

    become("server")
    tls = Tls(ca_file=certificates.path("ca.pem"), cert_file=str(files["crt"]), key_file=str(files["key"]))
    with (
        ScriptedServer(script, demanding) as server,
        ZooKeeperClient(server.address, ClientSettings(tls=tls)) as client,
    ):
        client.start()
        found = eventually(lambda: tuple(names), lambda names: len(names) == 3)
    assert ["elsewhere" in name for name in found] == [False, True, True]


def test_passwords_are_read_again_at_each_connection(zk_chaos_server: ChaosZooKeeper, tmp_path: Path) -> None:
    """A file that cannot be used at that moment changes nothing."""
    file = tmp_path / "digest"
    file.write_text("ada:canary-1\n")
    settings = ClientSettings(auth=Digest.from_file(file), acl=CREATOR_ALL_ACL)
    with ZooKeeperClient(zk_chaos_server.address, settings) as client, Blocking(client) as blocking:
        owners = []
        for number, text in enumerate(("ada:canary-1", "ada:canary-2", "")):
            file.write_text(f"{text}\n")
            zk_chaos_server.cut()
            blocking.read("/")  # is tried again until there is a connection
            blocking.multi(Create(f"/{number}", b""))
            acl = blocking.acl_each([f"/{number}"])[f"/{number}"]
            assert isinstance(acl, ZnodeAcl)
            owners.append(acl.acl[0].id)
    assert len(set(owners[:2])) == 2
    assert owners[1] == owners[2]


def test_a_server_without_tls_is_refused(zk_server: ServerTree, certificates: Certificates) -> None:
    """No falling back on plain text."""
    settings = ClientSettings(tls=Tls(ca_file=certificates.path("ca.pem")), auth=ME)
    with ZooKeeperClient(zk_server.address, settings) as client:
        refused(client, "expected TLS, found a port of plain text")


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """Before anything is connected to."""
    with pytest.raises(ConfigError, match=r"nothing\.pem"):
        ZooKeeperClient("localhost", ClientSettings(tls=Tls(ca_file=str(tmp_path / "nothing.pem"))))


def test_the_command_line_connects_with_tls(
    secure: EmbeddedZooKeeper, certificates: Certificates, tmp_path: Path
) -> None:
    """With our authority and our certificate; an authority that we do not trust is exit 7 with the reason."""
    shell = Shell(tmp_path, secure.address)
    ours = ("--zk-tls-cert", certificates.path("server.crt"), "--zk-tls-key", certificates.path("server.key"))

    made = shell.run(
        "topic", "create", "t", "--partitions", "1", "--zk-tls-ca", certificates.path("ca.pem"), *ours
    )
    refused = shell.run("topic", "list", "--zk-tls-ca", certificates.path("stranger.pem"))
    half = shell.run("topic", "list", "--zk-tls-ca", certificates.path("ca.pem"), *ours[:2])

    assert (made.code, refused.code, half.code) == (0, 7, 2)
    assert "--zk-tls-ca" in refused.err
