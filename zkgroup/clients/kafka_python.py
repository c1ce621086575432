"""kafka-python (extra `kafka`): its brokers by their registrations, and its errors as zkgroup's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from socket import socket
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from zkgroup.clients import addresses
from zkgroup.clients.addresses import BrokerAddress
from zkgroup.clients.broker_queries import TIMEOUT_MS
from zkgroup.clients.leaders import read_leaders
from zkgroup.errors import (
    AuthorizationError,
    BrokerAuthenticationError,
    ConfigError,
    SourceError,
    SourceUnavailableError,
    ZkGroupError,
)
from zkgroup.model import TopicPartition
from zkgroup.model.values import PLAINTEXT
from zkgroup.security.client import PLAIN_ACCESS, BrokerAccess
from zkgroup.znodes.brokers import BrokerRegistration

T = TypeVar("T")

DEFAULT_PORT = 9092
"""Of an address of a broker without one."""
OLD_VERSIONS = {1: (0, 8, 2), 2: (0, 9)}
"""Version of a registration to the protocol version of its broker; later brokers negotiate."""


def load(needed_by: str) -> Any:
    """The module `kafka`. Raises ConfigError where it is not installed; `needed_by` names the user."""
    try:
        import kafka
    except ImportError as error:
        raise ConfigError(f"{needed_by} needs kafka-python: pip install 'zkgroup[kafka]'") from error
    return kafka


@cache
def connecting() -> Mapping[str, object]:
    """Options with which kafka-python closes every socket that it opens, at the latest with its client.

    3.0.12 leaves those of failed connections to the garbage collector, one each second for a broker that is
    gone, and those of connections that a closing client does not have yet or that had bytes to write.
    Classes of sockets are registered by the scheme of `proxy_url`; without that registry: no options.
    """
    try:
        from kafka.net.compat import KafkaNetClient
        from kafka.net.inet import KafkaNetSocket
    except ImportError:
        return {}
    opened: WeakKeyDictionary[Any, WeakSet[socket]] = WeakKeyDictionary()
    """By the event loop of a client."""

    class DirectSocket(KafkaNetSocket):  # type: ignore[misc]
        SCHEMES = ("direct",)

        async def sock_connect(self, net: Any, sock: socket, *address: Any, **options: Any) -> Any:
            opened.setdefault(net, WeakSet()).add(sock)
            try:
                return await super().sock_connect(net, sock, *address, **options)
            except BaseException:
                sock.close()
                raise

    class ClosingClient(KafkaNetClient):  # type: ignore[misc]
        def close(self, node_id: object = None) -> None:
            super().close(node_id)
            if node_id is None:
                for sock in opened.pop(self._net, ()):
                    sock.close()

    return {"proxy_url": f"{DirectSocket.SCHEMES[0]}://", "kafka_client": ClosingClient}


def request_metadata(consumer: Any) -> None:
    """Lets a `KafkaConsumer` read its metadata again soon; it has no public call that does not wait."""
    consumer._client.cluster.request_update()


def leader_of(consumer: Any, tp: TopicPartition) -> int | None:
    """The leader of a partition by the metadata of a `KafkaConsumer`: -1 for none, None if it is unknown."""
    leader: int | None = consumer._client.cluster.leader_for_partition(tp)
    return leader


def addresses_of(
    brokers: Iterable[BrokerRegistration], access: BrokerAccess = PLAIN_ACCESS, *, any_listener: bool = False
) -> list[BrokerAddress]:
    """Addresses of the brokers that host partitions: those that only take part in elections are left out.

    Args:
        brokers: those registered.
        access: its own addresses come first; else it says by which listener.
        any_listener: takes the first listener of a broker without a plain one, for a client whose options
            name a protocol that `access` does not know.

    Raises SourceUnavailableError where there is none, ConfigError where several listeners of a broker fit.
    """
    if access.bootstrap:
        return [BrokerAddress(host, port, security=access.security) for host, port in access.bootstrap]
    data = [broker for broker in brokers if broker.role == "data"]
    found = [addresses.address_of(broker, access) for broker in data]
    if any_listener:
        found = [
            first_address(broker) if isinstance(one, str) else one
            for broker, one in zip(data, found, strict=True)
        ]
    reached = [one for one in found if isinstance(one, BrokerAddress)]
    if not reached:
        without = next((one for one in found if isinstance(one, str)), None)
        raise SourceUnavailableError(
            "no broker that hosts partitions is registered in /brokers/ids"
            if without is None
            else f"no broker can be reached: each {without}; in a program `security` does"
        )
    return reached


def first_address(broker: BrokerRegistration) -> BrokerAddress | str:
    """The address of a broker's first listener, whatever its protocol."""
    first = next(iter(broker.listeners), None)
    if first is None or first.host is None:
        return "has no listener"
    return BrokerAddress(first.host, first.port, addresses.negotiates_versions(broker))


def check_login(brokers: Sequence[BrokerAddress]) -> None:
    """Logs in at the first broker that answers: kafka-python only logs a refusal, and tries again.

    Metadata are asked for, which a listener answers only to clients that belong there. Raises
    BrokerAuthenticationError, ConfigError for files that cannot be used, and SourceUnavailableError where
    none answers.
    """
    try:
        read_leaders(brokers, (), TIMEOUT_MS)
    except SourceUnavailableError as error:
        protocol = brokers[0].security.protocol if brokers[0].security else PLAINTEXT
        raise SourceUnavailableError(f"{error}; expected a listener of {protocol} there") from error


def protocol_of(brokers: Iterable[BrokerRegistration]) -> tuple[int, ...] | None:
    """The protocol version that all Kafka brokers of these have; None if they negotiate it.

    Kafka's negotiate from 0.10 on; zkgroup's do, whatever the version of their registration.
    """
    oldest = min((broker.version for broker in brokers if not broker.is_zkgroup), default=None)
    return OLD_VERSIONS.get(oldest) if oldest is not None else None


def asked(question: Callable[[], T], brokers: str, user: str) -> T:
    """The result of a call of kafka-python, whose errors become zkgroup's.

    `OffsetOutOfRangeError` and `LogTruncationError` do not: they are about single partitions. Errors that a
    retry may resolve are `SourceUnavailableError`. `user` is the class whose options the user can set, for
    messages.
    """
    errors = load(user).errors
    try:
        return question()
    except (errors.OffsetOutOfRangeError, errors.LogTruncationError):
        raise
    except errors.KafkaError as error:
        raise translated(error, brokers, user) from error


def translated(error: Exception, brokers: str, user: str) -> ZkGroupError:
    """zkgroup's error for one of kafka-python; see `asked`."""
    errors = load(user).errors
    if isinstance(error, errors.RetriableError):
        return SourceUnavailableError(f"brokers {brokers}: {text_of(error)}")
    if isinstance(error, errors.KafkaConfigurationError):
        return ConfigError(f"{user}, for brokers {brokers}: {error}; see its options")
    if isinstance(error, errors.AuthorizationError):
        return AuthorizationError(
            f"brokers {brokers}: {text_of(error)}; allow the user to describe and read the topics "
            "(kafka-acls.sh), or connect as another one"
        )
    refusals = (
        errors.SaslAuthenticationFailedError,
        errors.UnsupportedSaslMechanismError,
        errors.IllegalSaslStateError,
    )
    if isinstance(error, refusals):
        return BrokerAuthenticationError(brokers, "SASL", f"{text_of(error)}; check user and mechanism")
    return SourceError(f"brokers {brokers}: {text_of(error)}; {_remedy(error, user)}")


def text_of(error: BaseException) -> str:
    """The class of an error of kafka-python, and its message where it has one."""
    message = ", ".join(str(part) for part in error.args if part is not None)
    name = type(error).__name__
    text = f"{name}: {message}" if message and name not in message else message or name
    return f"{AuthorizationError.WORDS}: {text}" if "AuthorizationFailed" in name else text


def _remedy(error: Exception, user: str) -> str:
    """Returns a user's remedy for an error that a retry does not resolve."""
    errors = load(user).errors
    if isinstance(error, (errors.UnsupportedVersionError, errors.UnrecognizedBrokerVersion)):
        return f"set their protocol version, for example {user}(api_version=(0, 10, 2))"
    return "a retry would not help: see the brokers' logs"
