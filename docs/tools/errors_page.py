"""The page of every error: cause, what to do, exit code."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from docs.tools import markdown
from zkgroup import errors

WHAT_TO_DO = {
    "ConfigError": "Correct the setting, name, option or file that the message names.",
    "RefusedError": "Read which state prevents it; change that first, or use the option that the message names.",
    "UnsupportedRegexError": "Write the expression without the construct named, or list the topics.",
    "AssignmentError": "Give every member the same topics and thread counts, or use `range`.",
    "PlacementError": "Name other brokers, add some, or ask for fewer replicas, as the message says.",
    "PlanRefusedError": "Read `reasons`: plan something else, or allow by name what may get worse.",
    "ZnodeError": "See the errors below.",
    "CorruptZnodeError": "Read it with `zkgroup znode get PATH`; find the program that writes it; correct or delete the znode.",
    "NotFoundError": "Check the name and the chroot: `zkgroup group list`, `zkgroup topic list`.",
    "ConflictError": "Read the present state, then decide again.",
    "CoordinatedGroupError": "Stop the clients, or choose another group ([switching](../group-protocols.md#switch-a-group)); the "
    "message names the command for a group that no broker coordinates any more.",
    "MemberIdInUseError": "Choose another `consumer_id`, or stop the process that the message names; a "
    "persistent znode is removed by `zkgroup doctor --fix --execute`.",
    "BrokerIdInUseError": "Choose another id, or stop the broker on the host named; a persistent znode is "
    "removed by `zkgroup doctor --fix --execute`.",
    "PersistentZnodeError": "`zkgroup doctor --fix` lists what a restored backup has left, and removes it with "
    "`--execute` ([after a restore](../operations.md#after-a-restore)).",
    "ForeignBrokersError": "Lead them with `zkgroup broker run --controller-only`, or use another chroot.",
    "FencedError": "Stop using the partition; another member owns it or will own it.",
    "CommitRefusedError": "Read `result.refused`: the other partitions were committed.",
    "NotOwnerError": "Drop the work of that partition; the new owner repeats it from the last commit.",
    "OffsetConflictError": "Another client wrote the offset; see `on_foreign_commit`. To go back, `seek` first.",
    "LeaseLostError": "Drop unfinished work; the member joins again by itself.",
    "CommitUnknownError": "Treat it as not committed: the records may be delivered again.",
    "StoreUnavailableError": "Check address, network and ensemble: `zkgroup status`. Reads may be repeated.",
    "AuthenticationError": "Check what the message names: user, password file or keytab, certificates, and the server's configuration.",
    "BrokerAuthenticationError": "Check user, password, mechanism and certificates: the file of `--command-config`, or the `ClientSecurity`.",
    "AuthorizationError": "Allow the user of `--command-config` or `ClientSecurity` what it needs (Kafka: `kafka-acls`), or take another user.",
    "AccessDeniedError": "Get the right on the znode that the message names, or connect as a user who has it.",
    "OperationRefusedError": "Read again: the znode that the message names has changed since it was read.",
    "OutcomeUnknownError": "Read back before repeating: the write may have been applied.",
    "ForkedClientError": "Create clients, members and consumers after the fork, in the process that uses them.",
    "RequestTooBigError": "Use fewer or shorter names, or raise `jute.maxbuffer` on servers and clients.",
    "EmbeddedServerError": "Install what the message names: Java 17 or later, or `pip install 'zkgroup[embedded]'`.",
    "WireError": "See the errors below.",
    "CorruptRecordError": "Check the producer or the disk that the batch came from; the message says which bytes are wrong.",
    "CorruptFrameError": "Find the program that connects there: it uses another protocol, or another version of it.",
    "UnsupportedRequestError": "Find the client, and let it send versions that Kafka 0.8.2.2 supports.",
    "RecordsNotAppendedError": "Repair what the message names (a partition without a leader, a record that is refused), then append again, beginning with the line that it names.",
    "RecordsUnknownError": "Check whether the records are there (`zkgroup consume --source brokers`); if they are appended again they may be there twice.",
    "ReplicaStorageError": "Repair what the message names: a full disk, rights, a file that is not a broker's.",
    "NotZooKeeperFileError": "Give a readable `version-2` folder or files of one, not links.",
    "MissingFileError": "Correct the path; on a cluster all workers need it.",
    "MixedEnsembleError": "Name the folders of one ensemble's servers together, and use a separate command for each ensemble.",
    "DamagedFileError": "See how far it is good: `zkgroup audit inspect FILE`. Copy it again, or take another server's.",
    "UnencodableError": "Correct the value that the message names: a name too long, a number beyond its field.",
    "MemberFailedError": "Correct the error of the callback or source in `__cause__`; start a new member.",
    "RebalanceFailedError": "Read `blockers`; raise `rebalance_max_retries`, or do not set it.",
    "MemberClosedError": "Create a new member; a closed one is never used again.",
    "StableTimeoutError": "Read `blockers`; `zkgroup group verify GROUP` says more. Then wait longer, or act.",
    "SourceError": "Check the folder or the brokers that the message names.",
    "SourceUnavailableError": "Check that the folder or the brokers that the message names can be reached. The source may come back by itself.",
    "OffsetOutOfRangeError": "The records at this offset are gone: set a position with `zkgroup offsets reset`, or choose `auto_offset_reset`.",
    "NoOffsetError": "Commit a position by hand (`zkgroup offsets set`), or set `auto_offset_reset` to `earliest` or `latest`.",
    "PartlyDoneError": "Read what was done and what was not, then run the same command again: it continues from there (`produce` does not: give it only the lines that are left).",
    "IllegalTransitionError": "This is a bug of zkgroup: report it with the member's log.",
}


def page() -> str:
    """`reference/errors.md`."""
    intro = [
        "All errors are in `zkgroup.errors`, one tree below `ZkGroupError`; an indented error is a subclass of the one",
        "above it. kazoo's errors never leave the library: what the server refuses is one of these.",
        "The error of your callback or source is the `__cause__` of `MemberFailedError`.",
        "The last column is the exit code with which the command line ends.",
    ]
    rows = [
        (
            f"{'&emsp;' * depth}`{kind.__name__}`",
            markdown.one_line(kind.__doc__ or ""),
            WHAT_TO_DO.get(kind.__name__, ""),
            str(kind.exit_code),
        )
        for kind, depth in below(errors.ZkGroupError)
    ]
    return markdown.page("Errors", intro, markdown.table(["error", "cause", "what to do", "exit code"], rows))


def below(kind: type[errors.ZkGroupError], depth: int = 0) -> Iterator[tuple[type[errors.ZkGroupError], int]]:
    """Every error of `zkgroup.errors` below one, in the order of the file, with its depth."""
    direct = [
        one
        for one in vars(errors).values()
        if inspect.isclass(one) and one.__bases__[0] is kind and one.__module__ == errors.__name__
    ]
    for one in direct:
        yield one, depth
        yield from below(one, depth + 1)
