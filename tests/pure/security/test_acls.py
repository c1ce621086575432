"""Who may do what by access control lists, as AclAuthorizer of Kafka 2.8.2 decides it."""

from __future__ import annotations

import pytest

from zkgroup.errors import ConfigError
from zkgroup.security.acls import (
    DECISIONS_MAX,
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclCache,
    AclOperation,
    AclPermission,
    AclSettings,
    PatternType,
    ResourcePattern,
    ResourceType,
    java_address,
    parse_principal,
)

Op, P, T = AclOperation, PatternType, ResourceType
HOST = "10.0.0.1"


def entry(text: str) -> AccessControlEntry:
    """`allow alice READ`, `deny * ALL 10.0.0.2`: permission, user, operation, host."""
    permission, user, operation, host = [*text.split(), "*"][:4]
    return AccessControlEntry(f"User:{user}", host, Op[operation], AclPermission[permission.upper()])


def cache_of(acls: dict[str, list[str]], **settings: object) -> AclCache:
    """Patterns of topics (`pre-...` is prefixed) with their entries."""
    cache = AclCache(AclSettings(**settings))  # type: ignore[arg-type]
    for name, entries in acls.items():
        pattern_type = P.PREFIXED if name.endswith("...") else P.LITERAL
        pattern = ResourcePattern(T.TOPIC, name.removesuffix("..."), pattern_type)
        cache.change(pattern, [entry(each) for each in entries])
    cache.loaded()
    return cache


def may(cache: AclCache, user: str, operation: AclOperation, topic: str, host: str = HOST) -> bool:
    return cache.authorize(f"User:{user}", host, operation, T.TOPIC, topic).is_allowed


@pytest.mark.parametrize(
    ("acls", "asked", "allowed"),
    [
        ({"orders": ["allow alice READ"]}, ("alice", Op.READ, "orders"), True),
        ({"orders": ["allow alice READ"]}, ("bob", Op.READ, "orders"), False),
        ({"orders": ["allow alice READ"]}, ("alice", Op.WRITE, "orders"), False),
        ({"orders": ["allow alice READ"]}, ("alice", Op.READ, "orders2"), False),
        ({"orders": ["allow * READ"]}, ("bob", Op.READ, "orders"), True),
        ({"*": ["allow alice READ"]}, ("alice", Op.READ, "anything"), True),
        ({"or...": ["allow alice READ"]}, ("alice", Op.READ, "orders"), True),
        ({"or...": ["allow alice READ"]}, ("alice", Op.READ, "or"), True),
        ({"or...": ["allow alice READ"]}, ("alice", Op.READ, "o"), False),
        ({"*...": ["allow alice READ"]}, ("alice", Op.READ, "orders"), False),
        ({"orders": [f"allow alice READ {HOST}"]}, ("alice", Op.READ, "orders"), True),
        ({"orders": ["allow alice READ 10.0.0.2"]}, ("alice", Op.READ, "orders"), False),
        # A denial wins, wherever it stands.
        ({"orders": ["allow alice READ", "deny alice READ"]}, ("alice", Op.READ, "orders"), False),
        ({"orders": ["allow alice READ"], "*": ["deny * READ"]}, ("alice", Op.READ, "orders"), False),
        ({"orders": ["allow alice READ"], "or...": ["deny alice ALL"]}, ("alice", Op.READ, "orders"), False),
        ({"orders": ["allow alice ALL", "deny alice WRITE"]}, ("alice", Op.READ, "orders"), True),
        # What is implied is implied for permissions only.
        ({"orders": ["allow alice READ"]}, ("alice", Op.DESCRIBE, "orders"), True),
        ({"orders": ["allow alice WRITE"]}, ("alice", Op.DESCRIBE, "orders"), True),
        ({"orders": ["allow alice DELETE"]}, ("alice", Op.DESCRIBE, "orders"), True),
        ({"orders": ["allow alice ALTER"]}, ("alice", Op.DESCRIBE, "orders"), True),
        ({"orders": ["allow alice CREATE"]}, ("alice", Op.DESCRIBE, "orders"), False),
        ({"orders": ["allow alice ALTER_CONFIGS"]}, ("alice", Op.DESCRIBE, "orders"), False),
        ({"orders": ["allow alice ALTER_CONFIGS"]}, ("alice", Op.DESCRIBE_CONFIGS, "orders"), True),
        ({"orders": ["allow alice DESCRIBE", "deny alice READ"]}, ("alice", Op.DESCRIBE, "orders"), True),
    ],
)
def test_decisions(acls: dict[str, list[str]], asked: tuple[str, AclOperation, str], allowed: bool) -> None:
    """Matching of names, principals and hosts; denials; implied operations."""
    assert may(cache_of(acls), *asked) is allowed


def test_a_resource_without_an_acl_is_open_only_where_the_setting_says_so() -> None:
    """An ACL for others closes it, and the last entry that goes opens it again."""
    cache = cache_of({"orders": ["allow bob READ"]}, allow_if_no_acl=True)

    assert may(cache, "alice", Op.READ, "others")
    assert not may(cache, "alice", Op.READ, "orders")
    cache.change(ResourcePattern(T.TOPIC, "orders"), [])
    assert may(cache, "alice", Op.READ, "orders")
    assert not may(cache_of({}), "alice", Op.READ, "orders")


def test_super_users_are_let_in_before_the_acls_were_read_and_nobody_else() -> None:
    """A denial does not concern them."""
    cache = AclCache(AclSettings(super_users=frozenset({"User:admin"}), allow_if_no_acl=True))

    assert may(cache, "admin", Op.WRITE, "orders")
    assert not may(cache, "alice", Op.READ, "orders")
    cache.change(ResourcePattern(T.TOPIC, "orders"), [entry("deny * ALL"), entry("allow alice ALL")])
    assert not may(cache, "alice", Op.READ, "others")
    cache.loaded()
    assert may(cache, "alice", Op.READ, "others")
    assert may(cache, "admin", Op.WRITE, "orders")


def test_a_change_counts_at_once_although_decisions_are_kept() -> None:
    """Prefixes come and go too; decisions do not grow without bound, and long names keep none."""
    cache = cache_of({name: ["allow alice READ"] for name in ("or...", "ord...", "ot...")})
    prefix = ResourcePattern(T.TOPIC, "or", P.PREFIXED)

    assert may(cache, "alice", Op.READ, "orange")
    cache.change(prefix, [entry("allow alice WRITE")])
    assert not may(cache, "alice", Op.READ, "orange")
    cache.change(prefix, [])
    assert not may(cache, "alice", Op.WRITE, "orange")
    assert may(cache, "alice", Op.READ, "orders")
    assert may(cache, "alice", Op.READ, "others")
    for number in range(DECISIONS_MAX + 1):
        may(cache, "alice", Op.READ, f"t{number}")
    kept = cache._kept
    may(cache, "alice", Op.READ, "n" * 30_000)
    assert cache._kept == kept < 10
    assert len(cache) == 2


@pytest.mark.parametrize(
    ("acls", "allowed"),
    [
        ({}, False),
        ({"orders": ["allow alice WRITE"]}, True),
        ({"or...": ["allow alice ALL"]}, True),
        ({"orders": ["allow alice READ"]}, False),
        ({"*": ["deny alice WRITE"], "orders": ["allow alice WRITE"]}, False),
        ({"orders": ["allow alice WRITE", "deny alice WRITE"]}, False),
        ({"orders": ["allow alice WRITE"], "others": ["deny alice WRITE"]}, True),
        ({"orders": ["allow alice WRITE"], "or...": ["deny alice WRITE"]}, False),
        ({"*": ["allow alice WRITE"], "or...": ["deny alice WRITE"]}, True),
        ({"ord...": ["allow alice WRITE"], "or...": ["deny alice WRITE"]}, False),
        ({"o...": ["allow alice WRITE"], "or...": ["deny alice WRITE"]}, True),
    ],
)
def test_any_resource_of_a_type(acls: dict[str, list[str]], allowed: bool) -> None:
    """`authorizeByResourceType` (KIP-679): an idempotent producer has to be allowed some topic."""
    decision = cache_of(acls).authorize_by_type("User:alice", HOST, Op.WRITE, T.TOPIC)

    assert decision.is_allowed is allowed


def test_any_resource_is_open_where_those_without_an_acl_are() -> None:
    """But not to one who is denied all of them."""
    for acls, allowed in (({}, True), ({"*": ["deny alice ALL"]}, False)):
        cache = cache_of(acls, allow_if_no_acl=True)
        assert cache.authorize_by_type("User:alice", HOST, Op.WRITE, T.TOPIC).is_allowed is allowed


PATTERNS = {
    "literal": ResourcePattern(T.TOPIC, "orders"),
    "wildcard": ResourcePattern(T.TOPIC, "*"),
    "prefixed": ResourcePattern(T.TOPIC, "ord", P.PREFIXED),
    "prefixed orders": ResourcePattern(T.TOPIC, "orders", P.PREFIXED),
    "group": ResourcePattern(T.GROUP, "orders"),
}


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (AclBindingFilter(), set(PATTERNS)),
        (AclBindingFilter(type=T.GROUP), {"group"}),
        (AclBindingFilter(type=T.TOPIC, name="orders"), {"literal", "prefixed orders"}),
        (AclBindingFilter(name="orders", pattern_type=P.LITERAL), {"literal", "group"}),
        (AclBindingFilter(type=T.TOPIC, name="ord", pattern_type=P.PREFIXED), {"prefixed"}),
        (AclBindingFilter(type=T.TOPIC, pattern_type=P.PREFIXED), {"prefixed", "prefixed orders"}),
        (AclBindingFilter(type=T.TOPIC, name="ord", pattern_type=P.MATCH), {"wildcard", "prefixed"}),
        (AclBindingFilter(name="orders", pattern_type=P.MATCH), set(PATTERNS)),
    ],
)
def test_filters_of_patterns(asked: AclBindingFilter, found: set[str]) -> None:
    """`MATCH` finds what applies to a resource, `ANY` what has its name."""
    assert {name for name, pattern in PATTERNS.items() if asked.matches_pattern(pattern)} == found


def test_filters_of_entries() -> None:
    """Each part that is given has to be equal."""
    one = AclBinding(PATTERNS["literal"], entry("allow alice READ"))

    assert AclBindingFilter(principal="User:alice", host="*", operation=Op.READ).matches(one)
    for other in (
        AclBindingFilter(principal="User:*"),
        AclBindingFilter(host=HOST),
        AclBindingFilter(operation=Op.ALL),
        AclBindingFilter(permission=AclPermission.DENY),
        AclBindingFilter(type=T.GROUP),
    ):
        assert not other.matches(one)
    assert AclBindingFilter(operation=Op.UNKNOWN).is_unknown


def test_bindings_are_all_entries() -> None:
    """As DescribeAcls reports them."""
    cache = cache_of({"orders": ["allow alice READ", "deny bob ALL"], "or...": ["allow * READ"]})

    assert sorted(cache.bindings()) == sorted(
        [
            AclBinding(PATTERNS["literal"], entry("allow alice READ")),
            AclBinding(PATTERNS["literal"], entry("deny bob ALL")),
            AclBinding(ResourcePattern(T.TOPIC, "or", P.PREFIXED), entry("allow * READ")),
        ]
    )


@pytest.mark.parametrize(
    ("host", "java"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::00ff:1", "2001:db8:0:0:0:0:ff:1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("a:b", "a:b"),
    ],
)
def test_addresses_are_compared_as_java_writes_them(host: str, java: str) -> None:
    """`InetAddress.getHostAddress` shortens no zeros."""
    assert java_address(host) == java


def test_words_in_any_case_with_and_without_underscores() -> None:
    """Znodes have `DescribeConfigs`, tools `DESCRIBE_CONFIGS`, their options `describe_configs`."""
    assert {Op.find(text) for text in ("DescribeConfigs", "DESCRIBE_CONFIGS", "describeconfigs")} == {
        Op.DESCRIBE_CONFIGS
    }
    assert Op.DESCRIBE_CONFIGS.pascal == "DescribeConfigs"
    assert Op.find("Sing") is None
    with pytest.raises(ConfigError, match="such as User:alice"):
        parse_principal("alice")


@pytest.mark.parametrize("name", ["kafka.security.authorizer.AclAuthorizer", "zkgroup"])
def test_settings_of_an_authorizer(name: str) -> None:
    """With Kafka's names; super users are separated by semicolons, since certificates have commas."""
    given = {"authorizer.class.name": name, "super.users": "User:CN=a,O=b; User:admin;"}

    found = AclSettings.of(given)
    assert found == AclSettings(super_users=frozenset({"User:CN=a,O=b", "User:admin"}), name=name)
    assert AclSettings.of({"super.users": "User:admin", "authorizer.class.name": ""}) is None
    opened = AclSettings.of({**given, "allow.everyone.if.no.acl.found": "TRUE"})
    assert opened is not None
    assert opened.allow_if_no_acl


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("authorizer.class.name", "com.example.Authorizer"),
        ("super.users", "admin"),
        ("super.users", "User:a;;User:b"),
        ("allow.everyone.if.no.acl.found", "yes"),
    ],
)
def test_settings_that_are_refused(name: str, value: str) -> None:
    """An authorizer that is not known must not leave the broker open."""
    with pytest.raises(ConfigError, match=f"setting {name}: .*expected"):
        AclSettings.of({"authorizer.class.name": "zkgroup", name: value})
