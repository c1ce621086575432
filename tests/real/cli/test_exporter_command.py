"""`zkgroup exporter` as a process: what it serves, to whom, and what does not end it."""

from __future__ import annotations

import base64
import json
import signal
import ssl
import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.pure.exporter.test_metrics import Samples, samples
from tests.waiting import PATIENCE_S, eventually
from tests.worlds.certificates import Authority
from tests.worlds.server_groups import ServerGroups
from tests.worlds.shell import Shell

ANYWHERE = ("--listen", "127.0.0.1:0", "--interval", "1s")


def get(url: str, *, tls: ssl.SSLContext | None = None, user: str | None = None) -> bytes:
    request = urllib.request.Request(url)
    if user is not None:
        request.add_header("Authorization", f"Basic {base64.b64encode(user.encode()).decode()}")
    with urllib.request.urlopen(request, timeout=PATIENCE_S, context=tls) as answer:
        return bytes(answer.read())


def test_it_serves_until_a_signal(shell: Shell, groups: ServerGroups, tmp_path: Path) -> None:
    """By TLS and to its users, the groups that the patterns leave, with lag by a source, and the server's own
    figures."""
    groups.topic("orders", 1)
    for group in ("billing", "console-consumer-7"):
        assert shell.run("offsets", "set", group, "orders:0=2", "--execute").code == 0
    records = tmp_path / "records" / "orders"
    records.mkdir(parents=True)
    (records / "0.log").write_bytes(b"1\n2\n3\n")
    authority = Authority(tmp_path)
    not_after = datetime(2030, 1, 2, tzinfo=UTC)
    key_store = authority.key_store("exporter", not_after=not_after)
    key_store.chmod(0o600)
    users, config = tmp_path / "users", tmp_path / "web.properties"
    users.write_text(f"ada:{shell.run('user', 'hash', stdin='secret').out.strip()}\n")
    users.chmod(0o600)
    config.write_text(
        f"ssl.keystore.location={key_store}\nssl.keystore.type=PEM\nbasic.auth.users.file={users}\n"
    )
    config.chmod(0o600)
    trusting = ssl.create_default_context(cafile=str(authority.trust_store))
    source = ("--source", f"files:{records.parent}", "--web-config", str(config))

    with shell.start("exporter", *ANYWHERE, *source, "--exclude-group", "console-.*", fresh=True) as process:
        url = f"https://{process.until_event('ready')['listen']}"
        for path in ("/metrics", "/"):
            with pytest.raises(urllib.error.HTTPError, match="401"):
                get(f"{url}{path}", tls=trusting)
        page = get(f"{url}/", tls=trusting, user="ada:secret")
        assert b"<h1>Groups and brokers of " in page
        assert json.loads(get(f"{url}/healthz", tls=trusting))["ok"] is True

        def read() -> Samples:
            return samples(get(f"{url}/metrics", tls=trusting, user="ada:secret"))

        found = eventually(read, lambda found: ("zkgroup_brokers", ()) in found)
        code = process.stop(signal.SIGTERM)

    assert code == 0
    assert found["zkgroup_group_lag", ("billing", "orders", "0")] == 1
    assert {labels[0] for name, labels in found if name == "zkgroup_group_members"} == {"billing"}
    ends_s = found["zkgroup_certificate_expiry_timestamp_seconds", ("exporter",)]
    assert ends_s == not_after.timestamp()
    assert found["zkgroup_znodes", ()] > 0
    assert found["zkgroup_zookeeper_serving", ()] == 1
    assert found["zkgroup_exporter_read_packets", ()] > 0


def test_a_server_that_is_away_ends_nothing(zk_server: Any, tmp_path: Path) -> None:
    """Not at the start either: the exporter serves at once, and knows all when the server is there."""
    shell = Shell(tmp_path, zk_server.address)
    server = zk_server.server(0)
    server.stop()
    with shell.start("exporter", *ANYWHERE, "--connect-timeout", "1s", fresh=True) as process:
        url = f"http://{process.until_event('ready')['listen']}"
        found = eventually(
            lambda: samples(get(f"{url}/metrics")),
            lambda found: found["zkgroup_exporter_errors_total", ()] > 0,
        )
        assert ("zkgroup_brokers", ()) not in found
        server.restart()
        eventually(lambda: ("zkgroup_brokers", ()) in samples(get(f"{url}/metrics")))
        server.stop()
        eventually(lambda: ("zkgroup_brokers", ()) not in samples(get(f"{url}/metrics")))
        assert process.stop(signal.SIGTERM) == 0
    assert "nothing is known: " in process.errors


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--listen", "9308"), "expected HOST:PORT, for example 127.0.0.1:9308"),
        (("--listen", "192.0.2.1:1"), "192.0.2.1:1: cannot listen there"),
        (("--include-group", "("), "--include-group"),
        (("--source", "brokerz"), "--source 'brokerz': expected files:DIR, brokers"),
        (("--interval", "1ms"), "expected at least 1000ms"),
        (("--format", "csv"), "--format table or ndjson, not csv"),
        (("--web-config", "wrong"), "wrong: unknown setting ssl.keystore; there are basic.auth.users.file"),
    ],
)
def test_an_option_that_cannot_be_is_an_error(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], message: str
) -> None:
    """Before anything is read or served."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong").write_text("ssl.keystore=x\n")
    ran = shell.run("exporter", *ANYWHERE, *words)
    assert (ran.code, message in ran.err) == (2, True), ran
