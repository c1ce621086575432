"""Secured listeners beside Kafka 2.8.2: produce and fetch by TLS, logins, and the memory of a connection.

Both sides run at the same time and are measured in turns, with the same settings, certificate and clients.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.programs.benchmarks.broker_client import Figures, ask
from tests.programs.benchmarks.broker_measurements import (
    TOPIC,
    add_beside,
    in_turns,
    lines_of,
    megabytes,
    records_a_second,
    round_robin,
)
from tests.programs.benchmarks.broker_sides import BrokerSide, all_sides, sides
from tests.programs.benchmarks.report import Line, Plan, Report
from tests.waiting import PATIENCE_S, eventually
from tests.worlds.certificates import Authority
from zkgroup.errors import BrokerAuthenticationError
from zkgroup.security.client import ClientSecurity
from zkgroup.security.secret import Secret
from zkgroup.wire.client import BrokerConnection

LOGIN: Final = "SASL_PLAINTEXT"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256")
USER: Final = "alice"
PASSWORD: Final = "alice-secret"
KEY_PASSWORD: Final = "key-secret"
CLIENTS: Final = 8
"""That log in at the same time."""
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"


def secured(plan: Plan, report: Report) -> None:
    """One broker of each side: idle connections first, while the JVM's heap is small, then the loads."""
    with tempfile.TemporaryDirectory(prefix="zkgroup-bench-tls-") as scratch:
        authority = Authority(Path(scratch))
        settings = _settings(_key_store(authority))
        with all_sides(sides(short=plan.short), 1, settings) as started:
            _memory(plan, report, started, authority.trust_store)
            _loads(plan, report, started, authority.trust_store)
            _logins(plan, report, started)


def _settings(key_store: Path) -> dict[str, str]:
    names = ("PLAINTEXT", "SSL", LOGIN)
    of_login = f"listener.name.{LOGIN.lower()}"
    return {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in names),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(key_store),
        "ssl.key.password": KEY_PASSWORD,
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        f"{of_login}.plain.sasl.jaas.config": f'{_PLAIN} required user_{USER}="{PASSWORD}";',
        f"{of_login}.scram-sha-256.sasl.jaas.config": f"{_SCRAM} required;",
    }


def _key_store(authority: Authority) -> Path:
    """Its key is encrypted by PBES1, the only form that Kafka 2.8.2 reads with the ciphers of Java."""
    path = authority.key_store("broker")
    command = ["openssl", "pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES", "-in", str(path)]
    secret = {**os.environ, "KEY_PASSWORD": KEY_PASSWORD}
    done = subprocess.run(
        [*command, "-passout", "env:KEY_PASSWORD"], env=secret, capture_output=True, check=True
    )
    _, end, chain = path.read_bytes().partition(b"-----END PRIVATE KEY-----\n")
    assert end
    path.write_bytes(done.stdout + chain)
    return path


def _address(side: BrokerSide, listener: str) -> str:
    return "{}:{}".format(*side.listener(listener))


def _memory(plan: Plan, report: Report, started: Mapping[str, BrokerSide], trusted: Path) -> None:
    """Resident memory of the broker before and after many connections that have asked once."""
    few, many = (5, 20) if plan.short else (50, 2_000)
    context = ssl.create_default_context(cafile=trusted)
    what = f"{many} TLS connections, one after the other, with one request each"
    for name, side in started.items():
        ask(_address(side, "PLAINTEXT"), "create", TOPIC, partitions=8)
        with ExitStack() as stack:
            _connect(side, few, context, stack)
            before, cpu, began = side.memory_mb(), side.cpu_s(), time.perf_counter()
            _connect(side, many, context, stack)
            seconds, cpu = time.perf_counter() - began, side.cpu_s() - cpu
            each = (side.memory_mb() - before) * 1024 / many
        note = f"{each:.0f} KiB resident each, {1000 * cpu / many:.2f} ms of the broker's CPU each"
        report.lines.append(Line(what, name, seconds=seconds, server_cpu_s=cpu, note=note))


def _connect(side: BrokerSide, count: int, context: ssl.SSLContext, stack: ExitStack) -> None:
    host, port = side.listener("SSL")
    for _ in range(count):
        plain = socket.create_connection((host, port), PATIENCE_S)
        round_robin([stack.enter_context(context.wrap_socket(plain, server_hostname=host))], 1)


def _loads(plan: Plan, report: Report, started: Mapping[str, BrokerSide], trusted: Path) -> None:
    """Records of 1 KiB to 8 partitions with acks=1, and a fetch of a warm log; both by TLS."""
    count = 500 if plan.short else 100_000

    def order(side: BrokerSide, name: str, topic: str, **numbers: int) -> Figures:
        brokers = f"{_address(side, 'SSL')};{trusted}"
        return ask(brokers, name, topic, partitions=8, records=count, **numbers)

    for side in started.values():
        ask(_address(side, "PLAINTEXT"), "create", "warm", partitions=8)
        order(side, "produce", "warm", size=4096)
    produced = in_turns(started, lambda side: order(side, "produce", TOPIC, size=1024), plan.repeats)
    fetched = in_turns(started, lambda side: order(side, "fetch", "warm"), plan.repeats)
    what = "produce by TLS, acks=1, records of 1 KiB"
    add_beside(report, lines_of(what, produced, records_a_second), 0.5)
    add_beside(report, lines_of("fetch by TLS of a warm log", fetched, megabytes), 0.5)


def _logins(plan: Plan, report: Report, started: Mapping[str, BrokerSide]) -> None:
    """Connections without TLS that log in, so that the login is all that they cost."""
    count = 16 if plan.short else 2_000
    for side in started.values():
        admin = AdminClient({"bootstrap.servers": _address(side, "PLAINTEXT")})
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        changed = admin.alter_user_scram_credentials(
            [UserScramCredentialUpsertion(USER, scram, PASSWORD.encode())]
        )
        changed[USER].result(PATIENCE_S)
        eventually(partial(_log_in, side, MECHANISMS[1], 1), ignoring=(BrokerAuthenticationError,))
    for mechanism in MECHANISMS:
        found = in_turns(
            started,
            lambda side, mechanism=mechanism: _log_in(side, mechanism, count),  # type: ignore[misc]
            plan.repeats,
        )
        what = f"{count} logins by {mechanism}, {CLIENTS} at a time"
        add_beside(report, lines_of(what, found, _logins_a_second), None)


def _log_in(side: BrokerSide, mechanism: str, count: int) -> Figures:
    """Logs in so many times, each by a connection of its own."""
    host, port = side.listener(LOGIN)
    security = ClientSecurity(protocol=LOGIN, mechanism=mechanism, username=USER, password=Secret(PASSWORD))

    async def one_after_another(share: range) -> None:
        for _ in share:
            opened = await BrokerConnection.open(host, port, timeout_ms=PATIENCE_S * 1000, security=security)
            await opened.close()

    async def all_clients() -> None:
        await asyncio.gather(*(one_after_another(range(n, count, CLIENTS)) for n in range(CLIENTS)))

    cpu, began = time.process_time(), time.perf_counter()
    asyncio.run(all_clients())
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "client_cpu_s": time.process_time() - cpu, "logins": count}


def _logins_a_second(run: Figures) -> str:
    each = 1e6 * run["brokers_cpu_s"] / run["logins"]
    return f"{run['logins'] / run['seconds']:,.0f} logins/s, {each:.0f} us of the broker's CPU each"
