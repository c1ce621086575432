"""What a member counts and measures, through prometheus-client."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from prometheus_client import CollectorRegistry

from tests.waiting import PATIENCE_S
from tests.worlds.public_apis import Api, Application, MemberWorld, orders, settings
from zkgroup.errors import NotOwnerError
from zkgroup.metrics.prometheus import PrometheusMetrics
from zkgroup.model import TopicPartition


def test_the_metrics_of_a_member(api: Api, world: MemberWorld) -> None:
    """Names and labels of operations.md, fed by a member's life."""
    registry = CollectorRegistry()

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    with api.member(
        client=world.client("a"), metrics=PrometheusMetrics(registry), settings=settings(consumer_id="a")
    ) as member:
        member.wait_until_assigned(PATIENCE_S)
        me = {"group": "g", "member": "g_a"}
        member.commit({orders(0)[0]: 1})
        with pytest.raises(NotOwnerError):
            member.commit({TopicPartition("orders", 9): 1})

        assert value("zkgroup_partitions_owned", **me) == 4
        assert value("zkgroup_commit_total", outcome="ok") == 1
        assert value("zkgroup_commit_total", outcome="refused") == 1
        assert value("zkgroup_session_state", state="stable", **me) == 1
        assert value("zkgroup_session_state", state="joining", **me) == 0
        assert (value("zkgroup_lease_remaining_seconds", **me) or 0) > 0
        assert value("zkgroup_rebalance_seconds_count", group="g") == 1
        rebalances = [
            sample
            for metric in registry.collect()
            for sample in metric.samples
            if sample.name == "zkgroup_rebalance_total"
        ]
        assert [set(sample.labels) for sample in rebalances] == [{"group", "reason"}]
        assert sum(sample.value for sample in rebalances) == 1
    assert value("zkgroup_partitions_owned", **me) == 0
    assert value("zkgroup_session_state", state="closed", **me) == 1


def test_the_lease_that_ran_out_has_nothing_remaining(world: MemberWorld) -> None:
    """An operator can alarm on it while ZooKeeper is away."""
    registry = CollectorRegistry()
    labels = {"group": "g", "member": "g_a"}

    def remaining_s() -> float | None:
        return registry.get_sample_value("zkgroup_lease_remaining_seconds", labels)

    with Api("blocking").member(
        client=world.client("a", session_timeout_ms=4000),
        metrics=PrometheusMetrics(registry),
        settings=settings(consumer_id="a", session_timeout_ms=4000, server_tick_ms=500),
    ) as member:
        member.wait_until_assigned(PATIENCE_S)
        assert (remaining_s() or 0) > 0

        world.server.suspend("a")
        world.until(lambda: remaining_s() == 0)
        world.server.resume("a")

        world.until(lambda: (remaining_s() or 0) > 0)


def test_a_callback_left_behind_is_counted(world: MemberWorld) -> None:
    """An operator can alarm on it."""
    registry, app = CollectorRegistry(), Application()
    release = app.hold("revoked")
    api = Api("blocking")
    try:
        with api.member(
            client=world.client("a"),
            app=app,
            metrics=PrometheusMetrics(registry),
            settings=settings(consumer_id="a", revoke_timeout_ms=100),
        ) as member:
            member.wait_until_assigned(PATIENCE_S)
            member.hand_back(orders(0))
            labels = {"group": "g", "member": "g_a", "callback": "on_revoked"}
            world.until(lambda: registry.get_sample_value("zkgroup_callback_overdue_total", labels) == 1)
    finally:
        release.set()


def test_members_share_a_sink(world: MemberWorld) -> None:
    """Two members of one process report to one registry under their own labels."""
    registry = CollectorRegistry()
    sink, api = PrometheusMetrics(registry), Api("blocking")
    shared = world.client("shared")
    with (
        api.member(client=shared, metrics=sink, settings=settings(consumer_id="a")) as first,
        api.member(client=shared, metrics=sink, settings=settings(consumer_id="b")) as second,
    ):
        second.wait_until_stable(PATIENCE_S)
        first.wait_until_stable(PATIENCE_S)
        owned = {
            name: registry.get_sample_value("zkgroup_partitions_owned", {"group": "g", "member": name})
            for name in ("g_a", "g_b")
        }

    assert owned == {"g_a": 2, "g_b": 2}


def test_sinks_share_a_registry() -> None:
    """Each member may have a sink of its own on the process-wide registry."""
    registry = CollectorRegistry()
    first, second = PrometheusMetrics(registry), PrometheusMetrics(registry)

    for sink in (first, second):
        sink.count("zkgroup_commit_total", {"outcome": "ok"})
        sink.observe("zkgroup_rebalance_seconds", {"group": "g"}, 0.5)
    second.gauge("zkgroup_partitions_owned", {"group": "g", "member": "b"}, 3)

    assert registry.get_sample_value("zkgroup_commit_total", {"outcome": "ok"}) == 2
    assert registry.get_sample_value("zkgroup_rebalance_seconds_count", {"group": "g"}) == 2
    assert registry.get_sample_value("zkgroup_partitions_owned", {"group": "g", "member": "b"}) == 3


class Broken:
    """A sink whose backend is away."""

    def count(self, name: str, labels: Mapping[str, str], amount: float = 1.0) -> None:
        raise OSError("away")

    def gauge(self, name: str, labels: Mapping[str, str], value: float) -> None:
        raise OSError("away")

    def observe(self, name: str, labels: Mapping[str, str], value: float) -> None:
        raise OSError("away")


def test_a_sink_that_raises_is_logged_once(
    api: Api, world: MemberWorld, caplog: pytest.LogCaptureFixture
) -> None:
    """The member works on without metrics."""
    with api.member(client=world.client("a"), metrics=Broken()) as member:
        member.wait_until_assigned(PATIENCE_S)
        assert member.commit({orders(0)[0]: 1}).committed == {orders(0)[0]: 1}

    assert [record.name for record in caplog.records if record.levelname == "WARNING"] == ["zkgroup.metrics"]


def test_what_is_gone_has_no_sample() -> None:
    """A client id that is used once would else stay on every page that follows."""
    registry = CollectorRegistry()
    metrics = PrometheusMetrics(registry)
    for number in range(20):
        labels = {"user": "alice", "client_id": f"c{number}"}
        metrics.gauge("zkgroup_broker_quota_usage", labels, 1.0)
        metrics.gauge("zkgroup_broker_quota_usage", labels, float("nan"))
        metrics.gauge("zkgroup_broker_quota_usage", labels, float("nan"))
    metrics.gauge("zkgroup_broker_quota_usage", {"user": "alice", "client_id": "stays"}, 2.0)

    (metric,) = registry.collect()
    assert [(one.labels["client_id"], one.value) for one in metric.samples] == [("stays", 2.0)]
