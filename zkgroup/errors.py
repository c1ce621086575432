"""All exceptions of the library in one class tree, grouped by what the caller can do.

`exit_code` is the exit code of a command; nothing else reads it.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from zkgroup.model.values import TopicPartition

NOTHING_LEFT: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""The `errno` of calls for which the system has no descriptor or memory now: nothing is broken, wait."""


class ZkGroupError(Exception):
    """Base class of all errors of zkgroup; never raised itself."""

    exit_code: ClassVar[int] = 1

    def __reduce__(self) -> tuple[Any, ...]:
        """Their constructors do not take what they are made of, where they come from another process."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[ZkGroupError], args: tuple[Any, ...], fields: Mapping[str, Any]) -> ZkGroupError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


class ConfigError(ZkGroupError):
    """A setting, name, option or file is wrong; the message names it and what was expected."""

    exit_code = 2


class RefusedError(ZkGroupError):
    """The request is valid but not allowed in the present state (a group with members, not confirmed)."""

    exit_code = 2


class UnsupportedRegexError(ConfigError):
    """A Java expression that Python cannot evaluate faithfully; names the construct."""

    def __init__(self, expression: str, construct: str) -> None:
        super().__init__(
            f"regular expression {expression!r} uses {construct}, which cannot be evaluated as Java would"
        )
        self.expression = expression
        self.construct = construct


class AssignmentError(ConfigError):
    """The strategy cannot be applied to this group (round-robin with unequal subscriptions)."""


class PlacementError(ConfigError):
    """Replicas cannot be placed as asked: too few brokers, an unknown one, a list that repeats one."""


class PlanRefusedError(RefusedError):
    """A plan would harm the cluster, or could never finish; `reasons` has a sentence for each problem."""

    def __init__(self, intent: str, reasons: Sequence[str], losses: Sequence[str] = ()) -> None:
        shown = "; ".join(reasons[:5])
        more = f"; and {len(reasons) - 5} more" if len(reasons) > 5 else ""
        super().__init__(f"{intent}: {shown}{more}")
        self.intent = intent
        self.reasons = tuple(reasons)
        self.losses = tuple(losses)  # names that `allow` would have to include; empty if `allow` cannot help


class ZnodeError(ZkGroupError):
    """The data of a znode cannot be used."""


class CorruptZnodeError(ZnodeError):
    """A znode's data does not have the format of its path."""

    def __init__(self, path: str, expected: str, found: str) -> None:
        super().__init__(f"{path}: expected {expected}, found {found}")
        self.path = path
        self.expected = expected
        self.found = found


class NotFoundError(ZkGroupError):
    """The requested group, topic, znode or other object does not exist."""

    exit_code = 5


class PersistentZnodeError(CorruptZnodeError):
    """A znode that belongs to a session is persistent: the broker or member that it names may not exist."""

    exit_code = NotFoundError.exit_code

    def __init__(self, path: str) -> None:
        super().__init__(path, "an ephemeral znode of a living session", f"a persistent one: {_TO_REMOVE}")


_TO_REMOVE = "no session ends it (a restored backup?); `zkgroup doctor --fix` shows it, --execute removes it"


class ConflictError(ZkGroupError):
    """Another client was faster, or has the requested id, address or znode."""

    exit_code = 6


class MemberIdInUseError(ConflictError):
    """Another live session is registered under this consumer id, or a persistent znode (session 0)."""

    def __init__(self, path: str, session_id: int, host: str | None) -> None:
        super().__init__(_registered(path, session_id, host, "choose another consumer_id or stop it"))
        self.path = path
        self.session_id = session_id
        self.host = host


class CoordinatedGroupError(ConflictError):
    """The members of the group are clients of Kafka's group protocol, not ZooKeeper consumers."""

    def __init__(self, path: str, group: str, broker: int | None) -> None:
        where = "" if broker is None else f", set by broker {broker}"
        super().__init__(
            f"{path}: expected none, found the marker of Kafka's group protocol{where}: the members of "
            f"{group} are clients of its coordinator; stop them first. If no live broker leads its slot: "
            f"zkgroup coordinator release {group} --execute"
        )
        self.path = path
        self.group = group
        self.broker = broker


class BrokerIdInUseError(ConflictError):
    """Another live session is registered under this broker id, or a persistent znode (session 0)."""

    def __init__(self, path: str, session_id: int, host: str | None) -> None:
        super().__init__(_registered(path, session_id, host, "choose another id or stop that one"))
        self.path = path
        self.session_id = session_id
        self.host = host


def _registered(path: str, session_id: int, host: str | None, advice: str) -> str:
    if session_id == 0:
        return str(PersistentZnodeError(path))
    return f"{path} is registered by session 0x{session_id:x}{f' on host {host}' if host else ''}: {advice}"


class ForeignBrokersError(ConflictError):
    """Brokers of Kafka are registered; a zkgroup broker cannot replicate from them, nor they from it."""

    def __init__(self, brokers: Sequence[str], persistent: Sequence[str] = ()) -> None:
        """`persistent`: paths of those that no session holds."""
        leftover = f"; {PersistentZnodeError(persistent[0])}" if persistent else ""
        super().__init__(
            f"brokers of Kafka are registered: {', '.join(brokers)}; a broker that hosts partitions joins "
            f"brokers of zkgroup only; `zkgroup broker run --controller-only` can lead them{leftover}"
        )
        self.brokers = tuple(brokers)


class FencedError(ZkGroupError):
    """The caller no longer owns the partition or role that it acts on."""

    exit_code = 6


@dataclass(frozen=True, slots=True)
class CommitResult:
    """The result of a commit: `committed` is in ZooKeeper, `refused` is not, each with the reason."""

    committed: Mapping[TopicPartition, int]
    """Partition to its committed offset: the offset of the next record to read."""
    refused: Mapping[TopicPartition, CommitRefusedError] = field(default_factory=dict)
    """Partition to the error that says why its offset was not committed."""

    def raise_if_refused(self) -> None:
        """Raises the common class of all refusals, or `CommitRefusedError` if they differ."""
        if not self.refused:
            return
        kinds = {type(error) for error in self.refused.values()}
        kind = kinds.pop() if len(kinds) == 1 else CommitRefusedError
        details = "; ".join(f"{tp}: {error}" for tp, error in sorted(self.refused.items()))
        raise kind(
            f"{len(self.refused)} of {len(self.refused) + len(self.committed)} refused: {details}", self
        )


class CommitRefusedError(FencedError):
    """Some partitions could not be committed; the others were. `result` has both."""

    def __init__(self, message: str, result: CommitResult | None = None) -> None:
        super().__init__(message)
        self.result = CommitResult({}) if result is None else result
        """Empty if the error is the reason of one partition, or there was nothing to commit."""


class NotOwnerError(CommitRefusedError):
    """The partition is not owned by this member (any more)."""


class OffsetConflictError(CommitRefusedError):
    """Another client wrote the offset, or the position would go back without a seek."""


class LeaseLostError(CommitRefusedError):
    """The lease ended: the session may have expired by the server's clock."""


class CommitUnknownError(CommitRefusedError):
    """No reply came and read-back was not possible: the commit may or may not have been applied."""


class StoreUnavailableError(ZkGroupError):
    """ZooKeeper cannot be reached, or did not answer in time; a read may be retried."""

    exit_code = 7


class AuthenticationError(StoreUnavailableError):
    """ZooKeeper refused the credentials, or client and servers do not fit in certificates, TLS or SASL."""


class BrokerAuthenticationError(ZkGroupError):
    """A broker refused the credentials, or its certificate or answer does not prove who it is.

    Another try does not help until the credentials, the certificates or the broker's users change.
    """

    def __init__(self, broker: str, mechanism: str, reason: str) -> None:
        """`mechanism`: the SASL mechanism, or `TLS`. `reason` must not have the password in it."""
        super().__init__(f"broker {broker}: authentication failed ({mechanism}): {reason}")
        self.broker = broker
        self.mechanism = mechanism


class AuthorizationError(ZkGroupError):
    """A broker does not allow the user to do this: its ACLs do not give the right to the topic or group."""

    WORDS: ClassVar[str] = "not authorized"
    """They are in the text of each such refusal."""


class AccessDeniedError(ZkGroupError):
    """The ACL of a znode forbids the request."""

    @classmethod
    def of_start(cls, path: str, who: str) -> AccessDeniedError:
        """The error of a broker, or a controller, that was never registered."""
        return cls(
            f"{path}: expected the permission for what {who} does at its start, found an ACL that does not "
            "give it; start it as the ZooKeeper user of the cluster's brokers, with --zk-digest-file, "
            "--zk-sasl-file or --zk-tls-cert, and --zk-acl as they have it "
            "(in a program: `ClientSettings(auth=..., tls=..., acl=...)`)"
        )


class OperationRefusedError(ConflictError):
    """ZooKeeper refused a write; `code` is its reason and `path` the znode."""

    def __init__(self, code: str, path: str, detail: str = "") -> None:
        super().__init__(f"{path}: ZooKeeper refused with {code}" + (f" ({detail})" if detail else ""))
        self.code = code
        self.path = path


class OutcomeUnknownError(StoreUnavailableError):
    """A write got no reply: it may or may not have been applied."""

    exit_code = 124


class ForkedClientError(ZkGroupError):
    """A client was used in a process forked from the one that made it; make a new one there."""


class RequestTooBigError(ConfigError):
    """A request would not fit `jute.maxbuffer`; it was not sent."""


class EmbeddedServerError(ZkGroupError):
    """The embedded ZooKeeper server cannot be started; the message says what is missing."""


class WireError(ZkGroupError):
    """Bytes received over a connection of Kafka's protocol are invalid; the connection is closed."""


class CorruptFrameError(WireError):
    """The bytes of a frame are invalid; `offset` counts them from the end of the size field."""

    def __init__(self, field: str, offset: int, expected: str, found: str) -> None:
        super().__init__(f"{field}, byte {offset} of the frame: expected {expected}, found {found}")
        self.field = field
        self.offset = offset
        self.expected = expected
        self.found = found


class UnsupportedRequestError(WireError):
    """A request has an API key or version that zkgroup does not support."""

    def __init__(self, api_key: int, version: int, correlation_id: int) -> None:
        super().__init__(f"request {correlation_id}: API {api_key} version {version} is not supported")
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id


class CorruptRecordError(ZkGroupError):
    """Record batches are damaged or cannot be parsed; Kafka's error code 2. `offset` counts bytes."""

    def __init__(self, field: str, offset: int, expected: str, found: str) -> None:
        super().__init__(f"{field}, byte {offset} of the records: expected {expected}, found {found}")
        self.field = field
        self.offset = offset
        self.expected = expected
        self.found = found


class UnencodableError(ConfigError):
    """A value does not fit the field of a request or response; nothing was sent."""

    def __init__(self, field: str, expected: str, found: str) -> None:
        super().__init__(f"{field}: expected {expected}, found {found}")
        self.field = field
        self.expected = expected
        self.found = found


class ReplicaStorageError(ZkGroupError):
    """The log of a replica cannot be read or written, or its files are damaged."""


class RecordsNotAppendedError(ZkGroupError):
    """A record was not acknowledged and is not in the log; the producer accepts no more records."""

    OUTCOME: ClassVar[str] = "it is not in the log"

    def __init__(self, topic_partition: TopicPartition, reason: str) -> None:
        super().__init__(f"{topic_partition}: a record was not acknowledged: {reason}; {self.OUTCOME}")
        self.topic_partition = topic_partition
        self.reason = reason


class RecordsUnknownError(RecordsNotAppendedError):
    """A record was not acknowledged, and its outcome is unknown: it may be in the log."""

    exit_code = 124
    OUTCOME = "it may be in the log all the same"


class NotZooKeeperFileError(ConfigError):
    """A file or directory is not ZooKeeper data, or cannot be read."""

    def __init__(self, path: str, expected: str, found: str) -> None:
        super().__init__(f"{path}: expected {expected}, found {found}")
        self.path = path
        self.expected = expected
        self.found = found


class MissingFileError(NotZooKeeperFileError):
    """A file or directory that was named does not exist."""

    exit_code = NotFoundError.exit_code


class MixedEnsembleError(ConfigError):
    """Data directories, or logs in one, that were given as one ensemble belong to different ensembles."""

    def __init__(
        self, one: str, other: str, zxid: int, advice: str = "read them one by one", why: str | None = None
    ) -> None:
        """`why` is by default that a transaction differs."""
        why = why or f"the first transaction that both have, {zxid:#x}, differs"
        super().__init__(f"{one} and {other} are not of one ensemble: {why}; {advice}")
        self.zxid = zxid


class DamagedFileError(ZkGroupError):
    """A snapshot or transaction log has a wrong checksum, length or end; the bytes before `offset` are good.

    `offset` counts bytes of the uncompressed file.
    """

    exit_code = 3

    def __init__(self, path: str, offset: int, expected: str, found: str) -> None:
        super().__init__(f"{path}, byte {offset}: expected {expected}, found {found}")
        self.path = path
        self.offset = offset
        self.expected = expected
        self.found = found


class MemberFailedError(ZkGroupError):
    """The member stopped because of an error in the application's callback or source; see `__cause__`."""


class MemberClosedError(ZkGroupError):
    """The member is closed."""


class StableTimeoutError(ZkGroupError):
    """The group, or this member's assignment, was not stable in time; `blockers` says what it waits for."""

    exit_code = 124

    def __init__(self, message: str, blockers: Mapping[TopicPartition, str] | None = None) -> None:
        super().__init__(message)
        self.blockers = dict(blockers or {})


class RebalanceFailedError(ZkGroupError):
    """`rebalance_max_retries` claims in a row failed, and the member left; `blockers` has the owners."""

    def __init__(self, message: str, blockers: Mapping[TopicPartition, str] | None = None) -> None:
        super().__init__(message)
        self.blockers = dict(blockers or {})


class SourceError(ZkGroupError):
    """A record source could not be read."""


class SourceUnavailableError(SourceError):
    """A record source cannot be reached now; it is tried again."""


class OffsetOutOfRangeError(SourceError):
    """A record source no longer has, or never had, this offset, and `auto_offset_reset` is `error`."""

    def __init__(self, topic_partition: TopicPartition, offset: int, found: str = "") -> None:
        message = f"{topic_partition}: offset {offset} is out of range"
        super().__init__(f"{message}: {found}" if found else message)
        self.topic_partition = topic_partition
        self.offset = offset
        self.found = found
        """The state found instead; empty if the source does not say it."""


class NoOffsetError(ZkGroupError):
    """A partition has no usable committed offset, and `auto_offset_reset` is `error`."""

    def __init__(self, topic_partition: TopicPartition) -> None:
        super().__init__(
            f"{topic_partition}: no offset to start from, and auto_offset_reset is 'error'; "
            "set one with `zkgroup offsets set`, or choose 'earliest' or 'latest'"
        )
        self.topic_partition = topic_partition


class IllegalTransitionError(ZkGroupError):
    """A bug of zkgroup: a machine was given an event that its state does not allow."""


class PartlyDoneError(ZkGroupError):
    """Some of the requested changes are done and others are not; the message says which, and how to go on."""

    exit_code = 4


__all__ = [
    name
    for name, each in list(globals().items())
    if isinstance(each, type) and issubclass(each, ZkGroupError)
]
