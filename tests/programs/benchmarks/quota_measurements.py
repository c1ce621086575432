"""What quotas cost that nobody reaches: two brokers, one with quotas for every client, measured in turns."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import Final

from tests.programs.benchmarks.broker_client import ask
from tests.programs.benchmarks.broker_measurements import (
    SHARED,
    TOPIC,
    cpu_each,
    in_turns,
    lines_of,
    records_a_second,
    round_robin,
)
from tests.programs.benchmarks.broker_sides import OurBrokers
from tests.programs.benchmarks.report import Plan, Report
from tests.worlds.led_brokers import ask as ask_broker
from zkgroup.wire.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    QuotaAlteration,
    QuotaEntityPart,
    QuotaOperation,
)

NONE, RATES, ALL = "no quota", "quotas of bytes", "also of request time"
_RATES: Final = {"producer_byte_rate": 1e12, "consumer_byte_rate": 1e12, "controller_mutation_rate": 1e6}
_QUOTAS: Final = {NONE: {}, RATES: _RATES, ALL: {**_RATES, "request_percentage": 1e6}}
GOAL: Final = 1.1
CLOCKS: Final = "the CPU clock of the thread is read some ten times a request, half a microsecond each"


def quotas(plan: Plan, report: Report) -> None:
    """Requests for metadata one after the other, and small batches, by the brokers' CPU."""
    requests, records = (200, 500) if plan.short else (5_000, 100_000)
    with ExitStack() as stack:
        started = {name: stack.enter_context(OurBrokers(1)) for name in _QUOTAS}
        for name, side in started.items():
            _limit(side, _QUOTAS[name])
            ask(side.bootstrap, "create", TOPIC)
        opened = {
            id(side): [stack.enter_context(socket.create_connection(("127.0.0.1", side.ports[1]), 30))]
            for side in started.values()
        }
        asked = in_turns(started, lambda side: round_robin(opened[id(side)], requests), plan.repeats)
        sent = in_turns(
            started,
            lambda side: ask(side.bootstrap, "produce", TOPIC, records=records, batch=2_000),
            plan.repeats,
        )
    for what, lines in (
        (f"{requests} requests for metadata", lines_of(f"{requests} requests for metadata", asked, cpu_each)),
        ("produce, batches of 2 kB", lines_of("produce, batches of 2 kB", sent, records_a_second)),
    ):
        report.lines += lines.values()
        for name in (RATES, ALL):
            times = (lines[name].server_cpu_s or 0.0) / (lines[NONE].server_cpu_s or 1.0)
            report.at_most(
                f"CPU of {what}, {name} over none", GOAL, times, "times", SHARED if name == RATES else CLOCKS
            )


def _limit(side: OurBrokers, values: dict[str, float]) -> None:
    """Gives the default client these quotas, by a request."""
    if not values:
        return
    operations = tuple(QuotaOperation(key=key, value=value, remove=False) for key, value in values.items())
    entity = (QuotaEntityPart(entity_type="client-id", entity_name=None),)
    request = AlterClientQuotasRequest(
        entries=(QuotaAlteration(entity=entity, operations=operations),), validate_only=False
    )
    answer = ask_broker(("127.0.0.1", side.ports[1]), request, AlterClientQuotasResponse)
    assert answer is not None
    assert [one.error for one in answer.entries] == [0], answer
