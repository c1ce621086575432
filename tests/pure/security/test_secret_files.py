"""Files with secrets that others may read or write."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from tests.worlds.certificates import Authority
from zkgroup.errors import ConfigError
from zkgroup.security.passwords import PasswordFile
from zkgroup.security.properties import read_properties
from zkgroup.security.secret_files import check_secret_file
from zkgroup.security.tls import TlsSettings, client_context, server_context
from zkgroup.zookeeper import Digest, Sasl, Tls
from zkgroup.zookeeper.sockets import followed_tls


def secret_file(folder: Path, text: str, mode: int) -> Path:
    file = folder / "with a secret"
    file.write_text(text)
    file.chmod(mode)
    return file


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    """By each reader of secrets, with the command that mends it and without the secret."""
    texts = {
        Digest.from_file: "ada:canary\n",
        Sasl.from_file: 'username = "ada"\npassword = "canary"\n',
        read_properties: "ssl.key.password=canary\n",
    }
    for read, text in texts.items():
        file = secret_file(tmp_path, text, mode)
        with pytest.raises(ConfigError, match=rf"mode 0{mode:o}; `chmod 600 '{file}'` mends it") as caught:
            read(file)
        assert "canary" not in str(caught.value)


def test_a_file_that_others_may_read_is_warned_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It stays usable, as secrets that a container mounts are: nobody can change their mode."""
    file = secret_file(tmp_path, "ada:canary\n", 0o444)
    assert Digest.from_file(file).username == "ada"
    for _ in range(2):
        check_secret_file(file)
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert record.getMessage() == (
        f"secret file {file}: others on this machine may read it (mode 0444); `chmod 600 '{file}'` mends it"
    )
    assert "canary" not in caplog.text


def test_a_trust_store_that_others_may_write_is_warned_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """For brokers and for ZooKeeper: whoever writes it lets anybody in."""
    store = Authority(tmp_path).trust_store
    store.chmod(0o644)
    client_context(TlsSettings(trust_store=str(store)))
    assert caplog.records == []
    store.chmod(0o664)
    for _ in range(2):
        client_context(TlsSettings(trust_store=str(store)))
        followed_tls(Tls(ca_file=str(store)))
    (record,) = caplog.records
    assert record.getMessage() == (
        f"{store}: others on this machine may write it (mode 0664), and so decide who is trusted; "
        f"`chmod go-w {store}` mends it"
    )


def test_other_files_pass(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One of the owner alone, one without secrets, a device, and none at all."""
    check_secret_file(secret_file(tmp_path, "", 0o600))
    public = secret_file(tmp_path, "listeners=PLAINTEXT://:9092\n", 0o666)
    assert read_properties(public) == {"listeners": "PLAINTEXT://:9092"}
    check_secret_file("/dev/null")
    check_secret_file(tmp_path / "none")
    assert caplog.records == []


def test_a_pipe_is_refused_where_files_are_read_again(tmp_path: Path) -> None:
    """To read one waits for its writer, and a broker would answer nobody meanwhile."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for read in (
        lambda: server_context(TlsSettings(key_store=str(pipe))),
        lambda: client_context(TlsSettings(trust_store=str(pipe))),
        lambda: PasswordFile(pipe, lambda _: None),
    ):
        with pytest.raises(ConfigError, match=f"{pipe}: expected a regular file"):
            read()
