"""Which quota holds for a client, by the eight levels of Kafka, and which rate for an address."""

from __future__ import annotations

from itertools import combinations

import pytest

from zkgroup.broker.quotas.levels import AddressQuotas, ClientQuotas, QuotaType
from zkgroup.errors import ConfigError
from zkgroup.znodes.config import ConfigEntity

LEVELS = (
    ConfigEntity.user_client("alice", "app"),
    ConfigEntity.user_client("alice", None),
    ConfigEntity.user("alice"),
    ConfigEntity.user_client(None, "app"),
    ConfigEntity.user_client(None, None),
    ConfigEntity.user(None),
    ConfigEntity.of_client("app"),
    ConfigEntity.of_client(None),
)
"""In Kafka's order of precedence (the comment of kafka/server/ClientQuotaManager.scala@2.8.2)."""


def quotas_of(entities: object, quota_type: QuotaType = QuotaType.PRODUCE) -> ClientQuotas:
    """The entities with quotas, each with its place in `LEVELS` as its value."""
    quotas = ClientQuotas()
    for place, entity in enumerate(LEVELS):
        if entity in entities:  # type: ignore[operator]
            quotas.configured(entity, {quota_type.value: str(place)})
    return quotas


@pytest.mark.parametrize("quota_type", QuotaType)
def test_of_all_combinations_the_most_specific_level_wins(quota_type: QuotaType) -> None:
    """Each of the 256 sets of levels resolves to its first one, and to nothing where there is none."""
    for size in range(len(LEVELS) + 1):
        for present in combinations(LEVELS, size):
            found = quotas_of(present, quota_type).resolve(quota_type, "alice", "app")
            expected = present[0] if present else None
            assert (found and (found.value, found.entity)) == (
                expected and (LEVELS.index(expected), expected)
            )


def test_who_shares_a_quota() -> None:
    """Clients of a user share that of the user, also of the default; each client has that of the default."""
    shared = [quotas_of([level]).resolve(QuotaType.PRODUCE, "alice", "app") for level in LEVELS]

    both, user, client = ("alice", "app"), ("alice", ""), ("", "app")
    assert [found and found[2:] for found in shared] == [both, both, user, both, both, user, client, client]


def test_an_empty_client_id_has_quotas_of_users_only() -> None:
    """Those of default clients do not hold for it, as in Kafka."""
    found = [quotas_of([level]).resolve(QuotaType.PRODUCE, "alice", "") for level in LEVELS]

    assert [each and each.value for each in found] == [None, None, 2, None, None, 5, None, None]


def test_names_are_decoded_and_no_name_is_the_default() -> None:
    """A client that calls itself <default> has the quota of that name only."""
    quotas = ClientQuotas()
    quotas.configured(ConfigEntity.user("a/b c%"), {"consumer_byte_rate": "1"})
    quotas.configured(ConfigEntity.of_client("<default>"), {"consumer_byte_rate": "2"})

    values = [
        found and found.value
        for names in (("a/b c%", "x"), ("a%2Fb", "x"), ("bob", "<default>"), ("bob", "."))
        for found in [quotas.resolve(QuotaType.FETCH, *names)]
    ]
    assert values == [1, None, 2, None]


def test_types_are_apart_and_a_removed_quota_is_gone() -> None:
    """What a configuration no longer has holds no longer."""
    quotas, entity = ClientQuotas(), ConfigEntity.user("alice")
    quotas.configured(entity, {"request_percentage": "12.5", "SCRAM-SHA-256": "salt=..."})
    assert quotas.is_limited(QuotaType.REQUEST)
    assert quotas.resolve(QuotaType.REQUEST, "alice", "app") == (12.5, entity, "alice", "")
    assert quotas.resolve(QuotaType.PRODUCE, "alice", "app") is None

    quotas.configured(entity, {})
    assert not quotas.is_limited(QuotaType.REQUEST)
    assert quotas.resolve(QuotaType.REQUEST, "alice", "app") is None


@pytest.mark.parametrize("text", ["", "much", "1.5", "0x1", "1_000", " 1"])
def test_a_value_that_is_no_number_is_named_and_the_others_are_set(text: str) -> None:
    """The value that stood there before does not stay."""
    quotas, entity = ClientQuotas(), ConfigEntity.user("alice")
    quotas.configured(entity, {"producer_byte_rate": "5"})
    with pytest.raises(
        ConfigError, match=r"/config/users/alice: producer_byte_rate: expected a whole number"
    ):
        quotas.configured(entity, {"producer_byte_rate": text, "controller_mutation_rate": "1.5"})

    assert quotas.resolve(QuotaType.PRODUCE, "alice", "app") is None
    assert quotas.resolve(QuotaType.CONTROLLER_MUTATION, "alice", "app") == (1.5, entity, "alice", "")


def test_an_address_has_its_own_rate_or_that_of_all() -> None:
    """However it is spelled."""
    rates, own, default = AddressQuotas(), ConfigEntity.ip("::1"), ConfigEntity.ip(None)
    assert not rates.is_limited
    assert rates.resolve("::1") is None
    rates.configured(own, {"connection_creation_rate": "5"})
    rates.configured(ConfigEntity.ip("127.0.0.1"), {"connection_creation_rate": "7"})
    assert rates.resolve("0:0:0:0:0:0:0:1") == (5, own)
    assert rates.resolve("::ffff:127.0.0.1") == (7, ConfigEntity.ip("127.0.0.1"))
    assert rates.resolve("127.0.0.2") is None

    rates.configured(default, {"connection_creation_rate": "9"})
    rates.configured(own, {})
    assert rates.resolve("::1") == rates.resolve("127.0.0.2") == (9, default)
    with pytest.raises(ConfigError, match=r"/config/ips/::1: connection_creation_rate: expected a whole"):
        rates.configured(own, {"connection_creation_rate": "many"})
    with pytest.raises(ConfigError, match=r"/config/ips/localhost: expected an IP address"):
        rates.configured(ConfigEntity.ip("localhost"), {"connection_creation_rate": "5"})
