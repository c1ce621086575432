"""ZooKeeper in a container, through testcontainers.

Environment:
    ZKGROUP_TEST_ZOOKEEPER_IMAGE    the image; the official `zookeeper:3.9` by default
    ZKGROUP_TEST_CONTAINER_NETWORK  `bridge` (default) or `host` where the daemon has no network of its own
    ZKGROUP_TEST_CONTAINERS         `required`: a missing daemon or image is a failure, not a skip
    TESTCONTAINERS_RYUK_DISABLED    testcontainers' own switch, for where its cleaner cannot be pulled
"""

from __future__ import annotations

import os
import socket
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import docker
from docker.errors import DockerException, ImageNotFound
from testcontainers.core.container import DockerContainer

from tests.waiting import PATIENCE_S
from zkgroup.zookeeper import ZooKeeperClient
from zkgroup.zookeeper.embedded.server import ReservedPort

IMAGE = os.environ.get("ZKGROUP_TEST_ZOOKEEPER_IMAGE", "zookeeper:3.9")
HOST_NETWORK = os.environ.get("ZKGROUP_TEST_CONTAINER_NETWORK", "bridge") == "host"
REQUIRED = os.environ.get("ZKGROUP_TEST_CONTAINERS") == "required"


def _listens(url: str) -> None:
    """Raises OSError where nobody listens; docker-py would leave an open socket behind."""
    parts = urlsplit(url)
    if parts.scheme in ("unix", ""):
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(PATIENCE_S)
            probe.connect(parts.path)
    elif parts.scheme in ("tcp", "http", "https"):
        socket.create_connection((parts.hostname or "localhost", parts.port or 2375), PATIENCE_S).close()


def why_not() -> str | None:
    """What keeps containers from running here; None when a daemon answers and has the image."""
    url = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    try:
        _listens(url)
        client = docker.from_env(version="1.40", timeout=int(PATIENCE_S))
        try:
            client.ping()
            client.images.get(IMAGE)  # to pull one takes minutes, and is not a test's to do
        finally:
            client.close()
    except ImageNotFound:
        return f"the Docker daemon at {url} has no image {IMAGE}: docker pull {IMAGE}"
    except (OSError, DockerException) as error:
        return f"no Docker daemon answers at {url}: {error}"
    return None


class ZooKeeperContainer:
    """One standalone server; `tickTime=500`, sessions of 1 to 60 s."""

    def __init__(self) -> None:
        self._held = [ReservedPort() for _ in range(3)] if HOST_NETWORK else []
        self._port = self._held[0].number if self._held else 2181
        container = (
            DockerContainer(IMAGE)
            .with_env("ZOO_TICK_TIME", "500")
            .with_env("ZOO_MAX_CLIENT_CNXNS", "0")
            .with_env("ZOO_CFG_EXTRA", "maxSessionTimeout=60000")
            .with_env("ZOO_ADMINSERVER_ENABLED", "false")
        )
        if HOST_NETWORK:
            quorum, election = (port.number for port in self._held[1:])
            servers = f"server.1=localhost:{quorum}:{election};{self._port}"
            container = container.with_env("ZOO_SERVERS", servers).with_kwargs(network_mode="host")
        else:
            container = container.with_exposed_ports(self._port)
        self._container = container

    def __enter__(self) -> Self:
        self._container.start()
        try:
            with ZooKeeperClient(self.address) as client:
                client.wait_connected(PATIENCE_S)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._container.stop()
        for port in self._held:
            port.release()
        self._container.get_docker_client().client.close()

    @property
    def address(self) -> str:
        if HOST_NETWORK:
            return f"127.0.0.1:{self._port}"
        host = self._container.get_container_host_ip()
        return f"{host}:{self._container.get_exposed_port(self._port)}"
